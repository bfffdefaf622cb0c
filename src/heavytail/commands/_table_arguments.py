"""The arguments of every command that reads a user's table."""

from __future__ import annotations

import argparse
import os

__all__ = ["add_table_arguments", "check_apart"]


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and the options for what the file does not always show."""
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


def check_apart(read: str, **written: str | None) -> None:
    """Refuse options that would write over what is read, or over each other."""
    used = {os.path.realpath(read): "the file that is read"}
    for option, path in written.items():
        if path is None:
            continue
        there = os.path.realpath(path)
        for other, what in used.items():
            same = there == other
            if os.path.exists(there) and os.path.exists(other):
                same = os.path.samefile(there, other)
            if same:
                raise ValueError(f"--{option} {path}: is {what}. Name another file.")
        used[there] = f"the file that --{option} writes"
