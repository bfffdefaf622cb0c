"""``heavytail calibrate``: how the practical default was chosen."""

from __future__ import annotations

import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "--rounds", type=int, default=5000, metavar="T", help="rounds a trial (5000)"
    )
    parser.add_argument("--trials", type=int, default=10, metavar="N", help="trials a world (10)")
    parser.add_argument("--jobs", type=int, metavar="J", help="trials at once (all cores)")


def run(args: argparse.Namespace) -> int:
    """Print the tables of docs/guide/calibration.md."""
    from heavytail.experiments.calibration import calibrate

    outcome = calibrate(rounds=args.rounds, trials=args.trials, jobs=args.jobs)
    print(outcome.markdown())
    return 0
