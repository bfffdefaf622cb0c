"""``heavytail calibrate``: how the practical default was chosen."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

__all__ = ["add_arguments", "run"]

MARK = "<!-- heavytail calibrate -->"
MOST_TRIALS = 10**8  # drawn by counters: a trial is a few numbers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--rounds", type=int, default=5000, metavar="T", help="rounds per trial (5000)"
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=10,
        metavar="N",
        help="trials per candidate and environment (10)",
    )
    parser.add_argument(
        "--dims", type=int, nargs="+", metavar="D", help="dimensions of the environments (2 5 20)"
    )
    parser.add_argument(
        "--engine", choices=("compiled", "cuda"), default="compiled", help="cuda needs a GPU"
    )
    parser.add_argument("--jobs", type=int, metavar="J", help="trials at once (all cores)")
    parser.add_argument("--write", metavar="PAGE", help="put the tables into this Markdown page")


def run(args: argparse.Namespace) -> int:
    """Print the tables of docs/evidence/calibration.md."""
    from heavytail._archive import replace
    from heavytail.experiments.limits import check_engine, check_jobs, check_work
    from heavytail.experiments.machine import made_by
    from heavytail.reproduction.calibration import DIMS, calibrate

    jobs = check_jobs(args.jobs)
    check_engine(args.engine)
    check_work("--trials and --rounds", args.trials, args.rounds, MOST_TRIALS)
    head = "" if args.write is None else _head(args.write)
    start = time.perf_counter()
    outcome = calibrate(
        rounds=args.rounds,
        trials=args.trials,
        dims=args.dims or DIMS,
        engine=args.engine,
        jobs=jobs,
        progress=True,
    )
    count = args.trials * len(outcome.labels) * len(outcome.worlds)
    provenance = (
        f"{args.trials:,} trials of {args.rounds:,} rounds for each candidate in each environment, "
        f"{count:,} in all; {time.perf_counter() - start:.0f} s. {made_by(args.engine)}"
    )
    tables = f"{provenance}\n\n{outcome.markdown()}"
    print(tables)
    if args.write is not None:
        replace(args.write, f"{head}{MARK}\n\n{tables}\n".encode())
    return 0


def _head(page: str) -> str:
    """The text of a page before the tables; refuse a page without a place for them."""
    from heavytail._archive import check_target

    check_target(page, "--write")
    try:
        head, mark, _ = Path(page).read_bytes().decode("utf-8").partition(MARK)
    except UnicodeDecodeError:
        mark = ""
    if not mark:
        raise ValueError(f"{page} has no line {MARK} after which the tables could stand. Add it.")
    return head
