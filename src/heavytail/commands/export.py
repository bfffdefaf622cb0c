"""``heavytail export``: the table of final regrets of saved results, for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "results",
        type=Path,
        help="the folder of `heavytail run` or `reproduce`, or a file of Results.save",
    )
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument(
        "--csv", action="store_true", help="comma-separated, a row per setting, policy and variant"
    )
    form.add_argument(
        "--latex",
        action="store_true",
        help="a LaTeX table with booktabs, a row per policy, a column per setting",
    )


def run(args: argparse.Namespace) -> int:
    """Read and print."""
    from heavytail._extras import need
    from heavytail.experiments.saved import as_csv, as_latex, read

    need("heavytail export", "pyarrow", extra="experiments")
    saved = read(args.results)
    print(as_latex(saved) if args.latex else as_csv(saved), end="")
    return 0
