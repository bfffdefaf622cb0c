"""The size of the memory, and the refusal, before any allocation, of what needs more."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)

__all__ = ["check_memory", "grown", "memory"]

BYTES: Final = 8  # of a number
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
SMALL: Final = 2**20  # numbers that are not worth asking for: 8 MiB
LIMITS: Final = (  # of a container, which the machine's memory does not tell
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def check_memory(where: str, numbers: float, todo: str) -> None:
    """Refuse a request for more ``numbers`` than fit in memory."""
    if numbers > SMALL and BYTES * numbers > (there := memory()):
        raise ValueError(
            f"{where} would need at least {_size(BYTES * numbers)} of memory; this machine has "
            f"{_size(there)}. {todo}"
        )


def memory() -> float:
    """The bytes of memory that the process may have; infinite if unknown."""
    return min(_machine(), _process())


def grown(where: str, array: NDArray[Number], needed: int, axis: int = 0) -> NDArray[Number]:
    """``array`` with room for ``needed`` entries along ``axis``; itself if it already has it.

    Otherwise for twice as many as before, as far as there is memory, so that an entry costs no
    allocation on average; what is needed and cannot be had is refused. New entries are 0.
    """
    capacity = array.shape[axis]
    if needed <= capacity:
        return array
    each = max(math.prod(array.shape[:axis] + array.shape[axis + 1 :]), 1)
    check_memory(f"{where}: room for {needed:,} rows", needed * each, "Ask for fewer.")
    length = max(needed, 2 * capacity)
    if length * each > SMALL:
        length = max(needed, int(min(length, memory() // BYTES // each)))
    larger = np.zeros((*array.shape[:axis], length, *array.shape[axis + 1 :]), array.dtype)
    larger[(slice(None),) * axis + (slice(capacity),)] = array
    return larger


@functools.cache
def _machine() -> float:
    """The memory of the machine, or of the container."""
    least = math.inf
    try:
        least = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return least
    for path in LIMITS:
        try:
            least = min(least, float(path.read_text(encoding="ascii")))
        except (ValueError, OSError):  # "max", or there is no such limit
            continue
    return least


def _process() -> float:
    """The memory limit of the process: ``ulimit -v``."""
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else float(limit)


def _size(count: float) -> str:
    """Bytes in words.

    >>> _size(3 * 2**30)
    '3.0 GiB'
    """
    power = min(int(math.log2(max(count, 1.0)) // 10), len(UNITS) - 1)
    return f"{count / 1024.0**power:,.1f} {UNITS[power]}"
