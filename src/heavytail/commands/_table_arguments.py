"""The arguments of every command that reads a user's table."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heavytail.tables.file import File

__all__ = ["add_table_arguments", "check_apart", "check_named", "listed"]


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and options for properties that a file does not always show."""
    parser.add_argument(
        "file",
        help="CSV (separated by commas, semicolons, tabs or bars; may be gzipped) or Parquet; - is "
        "standard input. Rows are numbered as a spreadsheet does: the names are row 1 (of Parquet, "
        "the first row is)",
    )
    parser.add_argument(
        "--skip-missing",
        action="store_true",
        help="leave out rows with empty cells, NA or NaN instead of refusing them",
    )
    parser.add_argument(
        "--decimal-comma",
        action="store_true",
        help="read 1,5 as one and a half even if the file leaves that open",
    )
    parser.add_argument(
        "--header",
        choices=("yes", "no"),
        help="whether the first row names the columns (unless it is all numbers); without names "
        "columns are called 1, 2, ...",
    )


def check_apart(read: str, **written: str | None) -> None:
    """Refuse options that would overwrite an input file, or each other's output."""
    used = {os.path.realpath(read): "the input file"}
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


def check_named(table: File, columns: Sequence[str], option: str) -> None:
    """Refuse missing and ambiguous columns."""
    from heavytail.tables.frames import check_columns

    unnamed = "" if table.named else " Its columns have no names, so they are called by numbers."
    check_columns(columns, table.names, table.path, f"{unnamed} Name one of them by {option}.")


def listed(table: File) -> str:
    """The names of the columns, as many as fit on a line."""
    from heavytail._validate import printable

    names = printable(", ".join(name or "(no name)" for name in table.names))
    return names if table.named else f"no names: its columns are called {names}"
