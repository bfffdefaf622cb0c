"""``heavytail log``: a log of decisions as Parquet, or from an earlier format."""

from __future__ import annotations

import argparse
import os

__all__ = ["add_arguments", "run"]

KINDS = {
    "export": "write LOG, which a DecisionLog or a service keeps, as the Parquet file NEW",
    "convert": "write LOG, a DecisionLog of an earlier format, as the folder NEW of today",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    words = "; ".join(f"{name}: {what}" for name, what in KINDS.items())
    parser.add_argument("what", choices=KINDS, help=words)
    parser.add_argument(
        "log",
        metavar="LOG",
        help="the folder; of a service's with several models FOLDER/MODEL",
    )
    parser.add_argument("new", metavar="NEW", help="the file or folder to write; it must not exist")


def run(args: argparse.Namespace) -> int:
    """Do what is asked, and print how many decisions were written."""
    from heavytail._extras import need

    need(f"heavytail log {args.what}", "msgspec", "pyarrow", extra="logs")
    count = _exported(args) if args.what == "export" else _converted(args)
    print(f"{args.new}: {count:,} decisions")
    return 0


def _exported(args: argparse.Namespace) -> int:
    from heavytail.ledger.export import export_log
    from heavytail.logs.reading.files import kept, opened

    store = kept(args.log)
    if store is None:
        raise ValueError(f"{args.log} is not the folder of a DecisionLog or of a service.")
    if os.path.lexists(args.new):
        raise ValueError(f"{args.new} exists already. Name a new file.")
    with opened(store) as (tables, model):
        return export_log(tables, model, args.new)


def _converted(args: argparse.Namespace) -> int:
    from heavytail.logs.earlier import convert

    return convert(args.log, args.new)
