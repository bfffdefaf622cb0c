"""``heavytail policies``: a table like the paper's Table 1."""

from __future__ import annotations

import argparse

__all__ = ["add_arguments", "markdown", "run"]

COLUMNS = ("policy", "method", "regret", "cost per round", "storage", "assumes", "reference")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "--markdown", action="store_true", help="as the table of docs/guide/policies.md"
    )


def run(args: argparse.Namespace) -> int:
    """Print one row per policy."""
    if args.markdown:
        print(markdown())
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in COLUMNS:
        table.add_column(column)
    for row in rows():
        table.add_row(*row)
    console = Console()
    console = console if console.is_terminal else Console(width=200)
    console.print(table)
    return 0


def rows() -> list[tuple[str, ...]]:
    """What every policy declares of itself, in the order of the table."""
    from heavytail.policies import ALL

    return [
        (k.name, i.method, i.regret, i.cost, i.storage, i.needs, i.reference)
        for k in ALL
        for i in (k.info,)
    ]


def markdown() -> str:
    """The same table for the documentation."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
