"""``heavytail reproduce``: the paper's experiments, figures and claims."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of experiments (all)")
    parser.add_argument(
        "--trials", type=int, help="trials (20); one-pass policies run ten times as many"
    )
    parser.add_argument("--rounds", type=int, help="T (each experiment's own; 18000 in the paper)")
    parser.add_argument("--jobs", type=int, help="how many at once (all cores)")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="output folder (results/)"
    )
    parser.add_argument("--seed", type=int, help="fixes everything")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="4 trials and, in some experiments, fewer rounds: a quick look without verdicts; a "
        "first run also compiles, which takes minutes",
    )
    parser.add_argument(
        "--all-policies", action="store_true", help="all policies, not only the paper's and ours"
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="add a policy of your own to every figure; may be repeated",
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster")
    parser.add_argument(
        "--retune",
        action="store_true",
        help="choose multipliers that are missing or stale and record them (in --tuned FILE)",
    )
    parser.add_argument(
        "--tuned", type=Path, metavar="FILE", help="read the multipliers from FILE instead of ours"
    )
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the documentation's page")
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")


def run(args: argparse.Namespace) -> int:
    """Run, write and print the table."""
    from heavytail._validate import check_count, on_one_line
    from heavytail.experiments.experiment import Request
    from heavytail.experiments.limits import check_extras, check_jobs
    from heavytail.reproduction.catalogue import SEED
    from heavytail.reproduction.protocol import policy_names
    from heavytail.reproduction.reproduce import EXPERIMENTS, reproduce

    sys.path.insert(0, "")  # a policy of the user's own, in the current folder
    if args.list:
        print(
            "\n".join(
                f"{experiment.name:16}  {experiment.title}" for experiment in EXPERIMENTS.values()
            )
        )
        return 0
    check_extras("heavytail reproduce", args.dask)
    request = Request(
        out=args.out,
        trials=(4 if args.quick else 20) if args.trials is None else args.trials,
        rounds=args.rounds,
        seed=SEED if args.seed is None else check_count("--seed", args.seed, least=0),
        jobs=check_jobs(args.jobs),
        dask=args.dask,
        quick=args.quick,
        progress=True,
        policies=policy_names(args.all_policies, args.policy),
    )
    print(reproduce(args.names, request, retune=args.retune, tuned=args.tuned, docs=args.docs))
    print(f"\nThe report: {on_one_line(str(args.out / 'report.html'))}")
    return 0
