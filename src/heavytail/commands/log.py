"""``heavytail log``: summary, export and conversion of a log of decisions."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import Any

__all__ = ["add_arguments", "run"]

KINDS = {
    "show": "say how many decisions LOG has, how many wait, and the mean reward",
    "export": "write LOG, which a DecisionLog or a service keeps, as the Parquet file NEW",
    "convert": "write LOG, a DecisionLog of an earlier format, as the folder NEW of today",
}
NEW = {
    "export": "the file to write, NAME.parquet; it must not exist",
    "convert": "the folder to write; it must not exist",
}
PIECE = 4096  # rewards read at a time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    kinds = parser.add_subparsers(dest="what", title="what to do")
    for name, summary in KINDS.items():
        kind = kinds.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        kind.set_defaults(parser=kind)
        kind.add_argument(
            "log",
            metavar="LOG",
            help="the folder; of a service's with several models FOLDER/MODEL",
        )
        if name in NEW:
            kind.add_argument("new", metavar="NEW", help=NEW[name])


def run(args: argparse.Namespace) -> int:
    """Run the action, and print a summary or the number of decisions written."""
    from heavytail._extras import need

    if args.what is None:
        args.parser.error(f"name what to do, one of {', '.join(KINDS)}: heavytail log show LOG")
    need(f"heavytail log {args.what}", "msgspec", "pyarrow", extra="logs")
    if args.what == "show":
        print(_shown(args.log))
        return 0
    count = _exported(args) if args.what == "export" else _converted(args)
    print(f"{args.new}: {count:,} decisions")
    return 0


@contextlib.contextmanager
def _opened(log: str) -> Iterator[tuple[Any, Any]]:
    """The store of a log, and the row of its model."""
    from heavytail.logs.reading.files import kept, opened

    store = kept(log)
    if store is None:
        raise ValueError(f"{log} is not the folder of a DecisionLog or of a service.")
    with opened(store) as (tables, model):
        yield tables, model


def _exported(args: argparse.Namespace) -> int:
    from heavytail.ledger.export import export_log

    if not args.new.lower().endswith(".parquet"):
        raise ValueError(
            f"{args.new} does not end in .parquet, which is what export writes. Name a file that "
            "does."
        )
    with _opened(args.log) as (tables, model):
        if os.path.lexists(args.new):
            raise ValueError(f"{args.new} exists already. Name a new file.")
        return export_log(tables, model, args.new)


def _converted(args: argparse.Namespace) -> int:
    from heavytail.logs.earlier import convert

    return convert(args.log, args.new)


def _shown(log: str) -> str:
    """A summary of a log, in lines."""
    import math

    with _opened(log) as (tables, model):
        count, waiting = tables.decisions(model.id), tables.waiting(model.id)
        if not count:
            return f"{log}: no decisions"
        part = next(tables.logged(model.id), None)
        if part is None:
            raise ValueError(f"{log}: its {count:,} decisions are gone. Restore it from a backup.")
        first = part[0][0]
        outcomes = [(row.reward, row.by_default) for row in _outcomes(tables, model.id)]
    lines = [f"{log}: {count:,} decisions since {_date(bytes(first))}"]
    if waiting:
        lines.append(f"waiting for a reward: {len(waiting):,}, since {_date(waiting[0])}")
    given_up = count - len(waiting) - len(outcomes)
    if given_up > 0:
        lines.append(f"given up without one: {given_up:,}")
    if outcomes:
        mean = math.fsum(reward / len(outcomes) for reward, _ in outcomes)
        by_default = sum(bool(default) for _, default in outcomes)
        of_these = f" ({by_default:,} by default)" if by_default else ""
        lines.append(f"rewards: {len(outcomes):,}{of_these}, mean {mean:.6g}")
    return "\n".join(lines)


def _outcomes(tables: Any, model: int) -> Iterator[Any]:
    """All outcomes of a model, in the order in which they came."""
    from heavytail.ledger.layout import is_sound

    last = 0
    while rows := tables.outcomes(model, last, PIECE):
        for row in rows:
            if not is_sound(row):
                raise ValueError(
                    f"the outcome after number {last} is damaged. Restore the log from a backup."
                )
            last = row.seq
            yield row


def _date(key: bytes) -> str:
    """The date of a key's decision."""
    import numpy as np

    from heavytail.ledger.tokens import time_of

    moment = np.datetime64(int(time_of(key)), "s")  # which knows years beyond 9999
    return f"{str(moment).replace('T', ' ')} UTC"
