"""What every command that reads a user's table is told of it."""

from __future__ import annotations

import argparse

__all__ = ["add_table_arguments"]


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and what cannot always be told from it."""
    parser.add_argument(
        "file",
        help="CSV (separated by commas, semicolons, tabs or bars; may be gzipped) or Parquet; - is "
        "standard input",
    )
    parser.add_argument(
        "--skip-missing",
        action="store_true",
        help="leave rows with empty cells, NA or NaN out instead of refusing them",
    )
    parser.add_argument(
        "--decimal-comma",
        action="store_true",
        help="1,5 is one and a half, also where that cannot be told from the file",
    )
    parser.add_argument(
        "--header",
        choices=("yes", "no"),
        help="whether the first row names the columns (unless it is all numbers); without names "
        "columns are called 1, 2, ...",
    )
