"""``heavytail policies``: a table like the paper's Table 1."""

from __future__ import annotations

import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(args: argparse.Namespace) -> int:
    """Print one row a policy."""
    from rich.console import Console
    from rich.table import Table

    from heavytail.policies import ALL

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("policy", "method", "regret", "cost a round", "storage", "assumes", "reference"):
        table.add_column(column)
    for kind in ALL:
        i = kind.info
        table.add_row(kind.name, i.method, i.regret, i.cost, i.storage, i.needs, i.reference)
    console = Console()
    console = console if console.is_terminal else Console(width=200)
    console.print(table)
    return 0
