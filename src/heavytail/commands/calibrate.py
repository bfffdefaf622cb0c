"""``heavytail calibrate``: how the practical default was chosen."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]

MARK = "<!-- heavytail calibrate -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "--rounds", type=int, default=5000, metavar="T", help="rounds a trial (5000)"
    )
    parser.add_argument("--trials", type=int, default=10, metavar="N", help="trials a world (10)")
    parser.add_argument("--jobs", type=int, metavar="J", help="trials at once (all cores)")
    parser.add_argument("--write", metavar="PAGE", help="put the tables into this Markdown page")


def run(args: argparse.Namespace) -> int:
    """Print the tables of docs/guide/calibration.md."""
    from heavytail.experiments.calibration import calibrate

    outcome = calibrate(rounds=args.rounds, trials=args.trials, jobs=args.jobs)
    tables = outcome.markdown()
    print(tables)
    if args.write:
        page = Path(args.write)
        head, mark, _ = page.read_text().partition(MARK)
        if not mark:
            raise ValueError(f"{page} has no line {MARK!r} after which the tables could stand.")
        size = f"{args.trials} trials of {args.rounds:,} rounds a world."
        page.write_text(f"{head}{MARK}\n\n{size}\n\n{tables}\n")
    return 0
