"""``heavytail diagnose``: how heavy is the tail of a column of a table?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heavytail.commands._table import Table

__all__ = ["add_arguments", "run"]

KEPT = 65_536  # of the largest values, and of the smallest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, the column and where the plot goes."""
    from heavytail.commands._table_arguments import add_table_arguments

    add_table_arguments(parser)
    parser.add_argument("--column", help="the column to look at (the only one)")
    parser.add_argument(
        "--plot", metavar="FILE", help="also draw the tail, both axes logarithmic (.png, .svg, ...)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; draw the plot where one was asked for."""
    from heavytail._validate import on_one_line, printable
    from heavytail.commands._table import opened
    from heavytail.tails import TailMonitor

    if args.plot is not None:
        from heavytail.experiments.plots import check_image

        check_image(args.plot)
    monitor = TailMonitor(keep=KEPT)
    with opened(args.file, decimal_comma=args.decimal_comma, header=args.header) as table:
        column = _column(table, args.column)
        for rows in table.numbers([column], skip_missing=args.skip_missing):
            monitor.update(rows.values[:, 0])
    try:
        report = monitor.report()
    except ValueError as error:
        raise ValueError(f"{table.path}, column {printable(column)}: {error}") from None
    if table.skipped:
        print(f"{table.skipped:,} rows without a value were left out.")
    print(report)
    if args.plot is not None:
        from heavytail.experiments.plots import save_one

        ax = report.plot()
        ax.set_title(printable(f"{Path(table.path).name}: {column}"), parse_math=False)
        save_one(ax.figure, args.plot, dpi=150)
        print(f"plot: {on_one_line(args.plot)}")
    return 0


def _column(table: Table, asked: str | None) -> str:
    """The column that is asked for, or the only one."""
    from heavytail.commands._table import check_columns, listed

    if asked is not None:
        check_columns(table, [asked], "--column")
        return asked
    if len(table.names) != 1:
        one = "" if table.named else " If 1,5 is one number there, pass --decimal-comma."
        raise ValueError(f"{table.path} has {listed(table)}. Say which one: --column NAME.{one}")
    return table.names[0]
