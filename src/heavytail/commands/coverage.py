"""``heavytail coverage``: the distribution of regret, and the coverage of the intervals."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]

RECORD = "src/heavytail/reproduction/recorded/spread.json"  # in a source tree
MOST_TRIALS = 10**8  # drawn by counters: a trial is a few numbers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "worlds",
        nargs="*",
        metavar="WORLD",
        help="settings of the paper whose arms are all shown (student gaussian pareto scale-2)",
    )
    parser.add_argument(
        "--trials", type=int, default=1000, metavar="N", help="trials per policy (1000)"
    )
    parser.add_argument("--rounds", type=int, metavar="T", help="rounds per trial (18000)")
    parser.add_argument(
        "--engine", choices=("compiled", "cuda"), default="compiled", help="cuda needs a GPU"
    )
    parser.add_argument("--jobs", type=int, metavar="J", help="trials at once (all cores)")
    parser.add_argument("--seed", type=int, help="fixes everything")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="also draw the distributions, into this folder"
    )
    parser.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="FILE",
        help="keep the outcome: in FILE, or in a source tree for every later report to show",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; draw or save on request."""
    from heavytail._archive import check_target
    from heavytail._extras import need_to_draw
    from heavytail._validate import on_one_line
    from heavytail.experiments import plots
    from heavytail.experiments.limits import check_engine, check_jobs, check_work
    from heavytail.experiments.machine import record_at
    from heavytail.reproduction import spread
    from heavytail.reproduction.catalogue import SEED

    if args.out is not None:
        need_to_draw("--out")
    jobs = check_jobs(args.jobs)
    check_engine(args.engine)
    check_work("--trials and --rounds", args.trials, args.rounds, MOST_TRIALS)
    record = None
    if args.record is not None:
        named = Path(args.record) if args.record else None
        record = record_at(named, RECORD, "--record FILE")
        check_target(record, "--record")
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise ValueError(f"--out {args.out}: exists and is not a folder. Name another.")
    outcome = spread.measure(
        args.worlds or spread.SETTINGS,
        trials=args.trials,
        rounds=args.rounds,
        seed=SEED if args.seed is None else args.seed,
        engine=args.engine,
        jobs=jobs,
        progress=True,
    )
    if record is not None:
        spread.write_record(outcome, record)  # before anything that could fail
    print("\n\n".join(table.text() for table in spread.tables(outcome)))
    if args.out is not None:
        plots.save(spread.section(outcome).figures, args.out / "figures")
        print(f"\nThe figures: {on_one_line(str(args.out / 'figures'))}")
    return 0
