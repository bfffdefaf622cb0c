"""``heavytail diagnose``: how heavy is the tail of a column of a table?"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
    """Print the report; draw the plot on request."""
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
            report_of, most = _gathered((rows.values[:, 0] for rows in parts), bar.advance)
    try:
        report = report_of()
    except ValueError as error:
        raise ValueError(f"{table.path}, column {printable(column)}: {error}") from None
    if table.skipped:
        print(f"{table.skipped:,} rows without a value were left out.")
    print(report)
    if 2 * most.equal > report.count:
        print(most.text(report))
    if args.plot is not None:
        from heavytail.experiments.plots import save_one

        ax = report.plot()
        ax.set_title(printable(f"{Path(table.path).name}: {column}"), parse_math=False)
        save_one(ax.figure, args.plot, dpi=150)
        print(f"plot: {on_one_line(args.plot)}")
    return 0


class Most(NamedTuple):
    """The most frequent value, if one is, and its count."""

    value: float
    equal: int

    def text(self, report: TailReport) -> str:
        """Explain the effect on the report: the tail is that of |v - centre|, without zeros."""
        from heavytail._terminal import paragraph

        count, value = report.count, f"{self.value:.6g}"
        if self.equal == count:
            return f"All {count:,} values are {value}: there is no tail to look at."
        share = f"{1000 * self.equal // count / 10:g} %"  # 100 % where all are
        text = f"{self.equal:,} of {count:,} values ({share}) are {value}"
        if self.value != report.centre:
            return f"{text}."
        text += f": the tail index is that of the other {count - self.equal:,}"
        if self.value == 0.0:
            text += '. See "Decide where most rewards are 0" in the documentation'
        return paragraph(f"{text}.")


def _gathered(
    parts: Iterable[FloatArray], read: Callable[[int], None]
) -> tuple[Callable[[], TailReport], Most]:
    """Return a function that makes the report, and the middle value with its count. If all values
    fit in memory, the report is of all of them, in any order; otherwise it is of the stream, and
    the middle value is that of the first values.
    """
    import numpy as np

    from heavytail.tails import TailMonitor, diagnose

    held, monitor, count, most = [np.empty(0)], None, 0, Most(0.0, 0)
    for part in parts:
        read(len(part))
        count += len(part)
        held.append(part)
        if count > WHOLE:
            if monitor is None:
                monitor = TailMonitor(keep=KEPT)
                first = "the centre is taken from the first 1,000, so they must not be sorted"
                print(f"More than {WHOLE:,} rows: {first}.")
                most = Most(_middle(np.concatenate(held)), 0)
            for values in held:
                monitor.update(values)
                most = most._replace(equal=most.equal + int(np.sum(values == most.value)))
            held = []
    if monitor is not None:
        return monitor.report, most
    values = np.concatenate(held)
    if len(values):
        most = Most(_middle(values), 0)
        most = most._replace(equal=int(np.sum(values == most.value)))
    return functools.partial(diagnose, values), most


def _middle(values: FloatArray) -> float:
    """The middle value. If more than half of the values are equal, it is their value. It is never a
    mean of two, which may overflow.
    """
    import numpy as np

    place = len(values) // 2
    return float(np.partition(values, place)[place]) + 0.0  # which is 0 for -0


def _column(table: File, column: str | None) -> str:
    """The named column, or the only one."""
    from heavytail.commands._table_arguments import check_named, listed

    if column is not None:
        check_named(table, [column], "--column")
        return column
    if len(table.names) != 1:
        hint = "" if table.named else " If 1,5 is one number there, pass --decimal-comma."
        raise ValueError(f"{table.path} has {listed(table)}. Name one: --column NAME.{hint}")
    return table.names[0]
