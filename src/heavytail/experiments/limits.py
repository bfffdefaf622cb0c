"""What is too much for one command, said before anything starts."""

from __future__ import annotations

import math
import os
from typing import Final

from heavytail._validate import check_count

__all__ = ["MOST_JOBS", "MOST_TRIALS", "check_jobs", "check_memory", "check_work", "memory"]

MOST_TRIALS: Final = 10**6  # in all: each has its place in a plan, and five have a file
MOST_ROUNDS: Final = 10**13  # in all: months of one core
MOST_JOBS: Final = 1000
BYTES: Final = 8  # of a number
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


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
    """What ``--jobs`` says."""
    return None if jobs is None else check_count("--jobs", jobs, most=MOST_JOBS)


def check_memory(where: str, numbers: float, todo: str) -> None:
    """Refuse what needs room for more ``numbers`` than the machine has memory for."""
    needed, there = BYTES * numbers, memory()
    if needed > there:
        raise ValueError(
            f"{where} would need at least {_size(needed)} of memory; this machine has "
            f"{_size(there)}. {todo}"
        )


def memory() -> float:
    """The bytes of the machine's memory; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf


def _size(count: float) -> str:
    """Bytes in words.

    >>> _size(3 * 2**30)
    '3.0 GiB'
    """
    power = min(int(math.log2(max(count, 1.0)) // 10), len(UNITS) - 1)
    return f"{count / 1024.0**power:,.1f} {UNITS[power]}"
