"""``heavytail policies``: a table like the paper's Table 1."""

from __future__ import annotations

import argparse
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heavytail.policies import Policy

__all__ = ["add_arguments", "links_of", "markdown", "run"]

NARROW = 80  # columns of a pipe: all of a policy on one line would be three times as wide
COLUMNS = (
    "policy",
    "method",
    "regret",
    "cost per round",
    "storage",
    "assumes",
    "links",
    "reference",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--markdown", action="store_true", help="as the table of docs/algorithms/policies.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print one row per policy."""
    if args.markdown:
        print(markdown())
        return 0
    from heavytail._terminal import as_table, width

    print(as_table(COLUMNS, rows(), most=width() or NARROW))
    return 0


def rows() -> list[tuple[str, ...]]:
    """The properties that every policy declares, in the order of the table."""
    from heavytail.policies import ALL

    table: list[tuple[str, ...]] = []
    for policy in ALL:
        info, links = policy.info, links_of(policy)
        needs = info.needs
        if needs == "nothing" and links:
            needs = "rewards of the link's kind"
        head = (policy.name, info.method, info.regret, info.cost, info.storage)
        table.append((*head, needs, ", ".join(links) or "-", info.reference))
    return table


def links_of(policy: type[Policy]) -> list[str]:
    """The links that a policy supports; none if it fits no mean to the features."""
    from heavytail.links import LINKS
    from heavytail.policies import make_policy
    from heavytail.tails import MomentBound

    problem: dict[str, Any] = {"dim": 1, "horizon": 10**6, "arms": 2, "tail": MomentBound(2.0, 1.0)}
    if "link" not in inspect.signature(policy).parameters:
        own = getattr(make_policy(policy.__name__, **problem), "link", None)
        fits = not (policy.info.moment == "none" or policy.info.fixed_arms)
        return [own.name] if own is not None else ["identity"] * fits
    fitting = []
    for name in LINKS:
        try:
            make_policy(policy.__name__, **problem, link=name)
        except ValueError:
            continue
        fitting.append(name)
    return fitting


def markdown() -> str:
    """The same table for the documentation."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
