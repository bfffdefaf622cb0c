"""Limits on the work of one command, checked before anything starts."""

from __future__ import annotations

import re
from typing import Final

from heavytail._extras import need
from heavytail._memory import check_memory
from heavytail._validate import check_count

__all__ = [
    "MOST_JOBS",
    "MOST_TRIALS",
    "check_engine",
    "check_extras",
    "check_jobs",
    "check_memory",
    "check_work",
]

MOST_TRIALS: Final = 10**6  # in all: each has its place in a plan, and five have a file
MOST_ROUNDS: Final = 10**13  # in all: months of one core
MOST_JOBS: Final = 1000


def check_work(where: str, trials: int, rounds: int | None, most: int = MOST_TRIALS) -> None:
    """Refuse more trials, or rounds of all of them, than one command will ever be done with.

    Where ``rounds`` is None they are few, and not the user's.
    """
    if trials > most or trials * (rounds or 1) > MOST_ROUNDS:
        each = "" if rounds is None else f" of {rounds:,} rounds each"
        raise ValueError(
            f"{where} must be at most {most:,} trials, of {MOST_ROUNDS:,} rounds in all; got "
            f"{trials:,} trials{each}. Lower the one or the other."
        )


def check_jobs(jobs: int | None) -> int | None:
    """Return the value of ``--jobs``, or refuse it."""
    return None if jobs is None else check_count("--jobs", jobs, most=MOST_JOBS)


def check_engine(engine: str) -> str:
    """Return the value of ``--engine``, or refuse an engine that this machine does not have."""
    if engine == "cuda":
        from heavytail.simulation.cuda import explain

        problem = explain()
        if problem:  # in the words of the command
            raise ValueError(re.sub(r'engine="(\w+)"', r"--engine \1", problem))
    return engine


def check_extras(who: str, dask: str | None) -> None:
    """Refuse an experiment that could not be written, or not be run where it is asked for."""
    need(who, "matplotlib", "pyarrow", extra="experiments")
    if dask is not None:
        need("--dask", "distributed", extra="dask")
