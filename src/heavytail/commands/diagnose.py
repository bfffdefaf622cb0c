"""``heavytail diagnose``: how heavy is the tail of a column of a CSV file?"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["add_arguments", "run"]

CHUNK = 65_536  # values taken in at a time
LONGEST = 2**24  # characters of a line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, the column and where the plot goes."""
    parser.add_argument("file", help="a CSV file whose first row names the columns")
    parser.add_argument("--column", required=True, help="the column to look at")
    parser.add_argument("--plot", metavar="PNG", help="also draw the tail, both axes logarithmic")
    parser.add_argument(
        "--skip-missing", action="store_true", help="leave empty cells out instead of refusing them"
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; draw the plot where one was asked for."""
    from heavytail._validate import on_one_line, printable
    from heavytail.tails import TailMonitor

    monitor = TailMonitor(keep=CHUNK)
    chunk: list[float] = []
    for value in read_column(args.file, args.column, skip_missing=args.skip_missing):
        chunk.append(value)
        if len(chunk) == CHUNK:
            monitor.update(chunk)
            chunk = []
    if chunk:
        monitor.update(chunk)
    report = monitor.report()
    print(report)
    if args.plot:
        from heavytail.experiments.plots import any_letters

        ax = report.plot()
        name = printable(f"{Path(args.file).name}: {args.column}")
        ax.set_title(name, parse_math=False)
        with any_letters():
            ax.figure.savefig(args.plot, dpi=150)
        print(f"plot: {on_one_line(args.plot)}")
    return 0


def read_column(path: str, column: str, *, skip_missing: bool = False) -> Iterator[float]:
    """The numbers of one column; a cell that is not a number is named by row and column.

    Rows are counted as a spreadsheet does: the names are row 1.
    """
    from heavytail._validate import printable, shown

    with open(path, newline="", encoding="utf-8-sig") as stream:
        rows = _rows(path, stream)
        names = next(rows, None)
        if not names:
            raise ValueError(f"{path} is empty: its first row must name the columns.")
        if column not in names:
            known = printable(", ".join(names))
            raise ValueError(f"{path} has no column {shown(column)}; it has {known}.")
        at = names.index(column)
        for row, cells in enumerate(rows, start=2):
            if not cells:
                continue  # a blank line
            cell = cells[at].strip() if at < len(cells) else ""
            if not cell:
                if skip_missing:
                    continue
                raise ValueError(
                    f"{path}, row {row}, column {shown(column)}: the cell is empty. "
                    "Fill it, or pass --skip-missing."
                )
            try:
                value = float(cell)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise ValueError(
                    f"{path}, row {row}, column {shown(column)}: {shown(cell)} is not a finite "
                    "number."
                )
            yield value


def _rows(path: str, stream: TextIO) -> Iterator[list[str]]:
    """The rows of a CSV file, as lists of cells; one that cannot be read is named."""
    reader, row = csv.reader(_lines(path, stream)), 1
    while True:
        try:
            cells = next(reader, None)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, near row {row}: not UTF-8: {error}. Save it as that."
            ) from None
        except csv.Error as error:  # a cell of more characters than a cell may have, for one
            raise ValueError(f"{path}, row {row}: {error}. Is it a CSV file?") from None
        if cells is None:
            return
        yield cells
        row += 1


def _lines(path: str, stream: TextIO) -> Iterator[str]:
    """The lines of a file, none of them so long that it must be something else."""
    while line := stream.readline(LONGEST):
        if len(line) == LONGEST:
            raise ValueError(f"{path} has a line of {LONGEST} characters. Is it a CSV file?")
        yield line
