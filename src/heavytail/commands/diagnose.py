"""``heavytail diagnose``: how heavy is the tail of a column of a table?"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heavytail._typing import FloatArray
    from heavytail.tables.file import File
    from heavytail.tails import TailReport

__all__ = ["add_arguments", "run"]

WHOLE = 5_000_000  # values that are looked at together
KEPT = 65_536  # of the largest values, and of the smallest, where there are more


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
    from heavytail.commands._table_arguments import check_apart
    from heavytail.simulation.progress import progress_lines
    from heavytail.tables.opening import opened

    if args.plot is not None:
        from heavytail.experiments.plots import check_image

        check_image(args.plot)
        check_apart(args.file, plot=args.plot)
    with opened(args.file, decimal_comma=args.decimal_comma, header=args.header) as table:
        column = _column(table, args.column)
        parts = table.numbers([column], skip_missing=args.skip_missing)
        with progress_lines("rows read", None) as bar:
            report_of = _gathered((rows.values[:, 0] for rows in parts), bar.advance)
    try:
        report = report_of()
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


def _gathered(parts: Iterable[FloatArray], read: Callable[[int], None]) -> Callable[[], TailReport]:
    """Return a function that makes the report: of all values together, in any order, if they fit
    in memory; of the stream otherwise.
    """
    import numpy as np

    from heavytail.tails import TailMonitor, diagnose

    held, monitor, count = [np.empty(0)], None, 0
    for part in parts:
        read(len(part))
        count += len(part)
        held.append(part)
        if count > WHOLE:
            if monitor is None:
                monitor = TailMonitor(keep=KEPT)
                first = "the centre is taken from the first 1,000, so they must not be sorted"
                print(f"More than {WHOLE:,} rows: {first}.")
            for values in held:
                monitor.update(values)
            held = []
    if monitor is not None:
        return monitor.report
    return functools.partial(diagnose, np.concatenate(held))


def _column(table: File, column: str | None) -> str:
    """The column that was named, or the only one."""
    from heavytail.commands._table_arguments import check_named, listed

    if column is not None:
        check_named(table, [column], "--column")
        return column
    if len(table.names) != 1:
        hint = "" if table.named else " If 1,5 is one number there, pass --decimal-comma."
        raise ValueError(f"{table.path} has {listed(table)}. Name one: --column NAME.{hint}")
    return table.names[0]
