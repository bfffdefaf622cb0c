"""``heavytail run my.toml``: policies, environments and grids of your own."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", type=Path, help="the TOML file; its keys are in the documentation")
    parser.add_argument("--jobs", type=int, help="how many at once (all cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster")


def run(args: argparse.Namespace) -> int:
    """Read, run, write and print the table."""
    from heavytail._validate import on_one_line
    from heavytail.experiments.experiment import Request
    from heavytail.experiments.limits import check_extras, check_jobs
    from heavytail.experiments.run import run as run_file
    from heavytail.experiments.userfile import read

    check_extras("heavytail run", args.dask)
    jobs = check_jobs(args.jobs)
    userfile = read(args.file, jobs=1 if args.dask else jobs)
    request = Request(
        out=userfile.out,
        trials=userfile.trials,
        seed=userfile.seed,
        jobs=jobs,
        dask=args.dask,
        progress=True,
    )
    print(run_file(userfile, request))
    print(f"\nThe report: {on_one_line(str(userfile.out / 'report.html'))}")
    return 0
