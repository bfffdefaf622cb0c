"""``heavytail coverage``: the distribution of regret and how often the truth was covered."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be asked for."""
    parser.add_argument(
        "worlds",
        nargs="*",
        metavar="WORLD",
        help="settings of the paper whose arms are all shown (student gaussian pareto scale-2)",
    )
    parser.add_argument(
        "--trials", type=int, default=1000, metavar="N", help="worlds a policy (1000)"
    )
    parser.add_argument("--rounds", type=int, metavar="T", help="rounds a trial (18000)")
    parser.add_argument(
        "--engine", choices=("compiled", "cuda"), default="compiled", help="cuda needs a GPU"
    )
    parser.add_argument("--jobs", type=int, metavar="J", help="trials at once (all cores)")
    parser.add_argument("--seed", type=int, help="fixes everything")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="also draw the distributions, into this folder"
    )
    parser.add_argument(
        "--record", action="store_true", help="keep the outcome for every later report to show"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, print, and draw or keep where asked to."""
    from heavytail.experiments import spread
    from heavytail.experiments.catalogue import SEED

    found = spread.measure(
        args.worlds or spread.WORLDS,
        trials=args.trials,
        rounds=args.rounds,
        seed=SEED if args.seed is None else args.seed,
        engine=args.engine,
        jobs=args.jobs,
    )
    if args.record:
        spread.write_record(found)  # before anything that could fail
    from heavytail.experiments.reproduce import save_figures, text_table

    print("\n\n".join(text_table(table) for table in spread.tables(found)))
    if args.out is not None:
        save_figures(args.out, [spread.section(found)])
        print(f"\nThe figures: {args.out / 'figures'}")
    return 0
