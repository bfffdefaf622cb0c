"""``heavytail earned``: what a model of the decision service earned."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from heavytail._extras import need
from heavytail._validate import on_one_line

__all__ = ["add_arguments", "run"]

HEADS = ("decisions", "share", "rewards", "waiting", "money", "mean", "at least", "at most")
MOST_LINES = 20  # offers, or segments, that are printed
URLS = ("http://", "https://")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "store",
        metavar="STORE",
        help="the folder of a service, which may run; postgresql://USER@HOST/DATABASE; or the "
        "address of a service, http://HOST:PORT",
    )
    add("name", metavar="NAME", help="the model's name")
    add(
        "--against",
        metavar="RULE",
        help="compare with a rule: always:ID (or the offer's place, without ids), or uniform",
    )
    add("--by", metavar="COLUMN", help="also by the values of a column of the context")
    add("--key", metavar="KEY", help="an API key with the scope read, for an http address")
    add("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Print what the model earned."""
    if args.store.startswith(URLS):
        earned = _asked(args)
    elif args.key is not None:
        raise ValueError("--key is for the address of a service, http://HOST:PORT.")
    else:
        need("heavytail earned", "msgspec", extra="serve")
        earned = _read(args)
    print(json.dumps(earned, indent=1) if args.json else text(earned))
    return 0


def _asked(args: argparse.Namespace) -> Mapping[str, Any]:
    """The answer of a service."""
    import heavytail as ht

    with ht.Client(args.store, key=args.key) as client:
        return client.model(args.name).earned(by=args.by, against=args.against)


def _read(args: argparse.Namespace) -> Mapping[str, Any]:
    """The same from the service's store, which is only read."""
    import msgspec

    from heavytail.ledger.refusal import Refusal
    from heavytail.ledger.store import StoreError
    from heavytail.serve.books import earned, reading
    from heavytail.serve.earned import Asked

    try:
        with reading(args.store) as store:
            row = next((row for row in store.models() if row.name == args.name), None)
            if row is None:
                raise ValueError(f"the store has no model {on_one_line(args.name)!r}.")
            answer = earned(store, row, Asked(args.by, args.against))
    except Refusal as refusal:
        raise ValueError(refusal.message) from None
    except StoreError as error:
        raise ValueError(str(error)) from None
    plain: Mapping[str, Any] = msgspec.to_builtins(answer)
    return plain


def text(earned: Mapping[str, Any]) -> str:
    """The answer as sentences and tables."""
    from heavytail._terminal import as_table, width

    lines = [*earned["sentences"]]
    if earned["against"] is not None:
        lines += [f"- {words}" for words in earned["against"]["notes"]]
    ways = [earned[name] for name in ("total", "chosen", "explored", "unknown")]
    groups = [("", [way for way in ways if way["decisions"] or way["name"] == "all"])]
    others = [earned["others"]] if earned["others"] else []
    groups.append(("offer", [*earned["offers"][:MOST_LINES], *others]))
    if earned["segments"] is not None:
        groups.append((earned["by"], earned["segments"][:MOST_LINES]))
    for head, rows in groups:
        if rows:
            table = [_row(row) for row in rows]
            lines += ["", as_table((head, *HEADS), table, most=width(), right=True)]
    return "\n".join(lines)


def _row(line: Mapping[str, Any]) -> Sequence[str]:
    from heavytail.decider.choice import amount
    from heavytail.decider.markup import percent

    ends = ["" if line[end] is None else amount(line[end]) for end in ("mean", "low", "high")]
    return [
        on_one_line(line["name"]), f"{line['decisions']:,}", percent(line["share"]),
        f"{line['rewards']:,}", f"{line['pending']:,}", amount(line["money"]), *ends,
    ]  # fmt: skip
