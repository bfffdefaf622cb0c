"""Invariants of every state, checked where a state comes from outside, before a kernel sees it.

A kernel trusts its state: a count is the place it writes to next. So the annotation of every slot
says what it holds (:mod:`heavytail.kernels.layout`), and a state that breaks this is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray

__all__ = [
    "LARGEST",
    "LARGEST_COUNT",
    "LARGEST_SUM",
    "are_counts",
    "check_size",
    "check_slots",
    "damaged",
    "hangs_together",
]

LARGEST_COUNT: Final = 2.0**53  # from here on a double does not count
SAME: Final = 1e-9  # relative: a constant as another version's mathematics rounds it
LARGEST: Final = 1.001e150  # of what is squared: kernels refuse what would pass 1e150
LARGEST_SUM: Final = 1e165  # of sums over rounds of x / sigma_t², which nothing squares


def damaged(where: str, key: str, why: str = "") -> ValueError:
    """The error for a saved array that cannot be a state."""
    return ValueError(f"{where}: the saved state's {key!r} is damaged{why and f': {why}'}.")


def are_counts(numbers: NDArray[Any], below: float = LARGEST_COUNT, least: float = 0.0) -> bool:
    """Tell whether all are whole numbers from ``least`` on and below a bound."""
    inside = (numbers >= least) & (numbers < below)
    return bool((inside & (numbers == np.floor(numbers))).all())


def check_slots(
    where: str, key: str, kinds: Mapping[str, str], saved: FloatArray, own: FloatArray
) -> None:
    """Refuse slots (..., n) that do not hold what they say; ``own`` are those of a fresh object.

    ``kinds`` are by name, in order: "fixed" follows from the arguments, "count" is a whole number,
    "flag" 0 or 1, "size" at least 0 or infinite, "open" any number or infinity, and "number" any
    number, or the infinity that it was at first.
    """
    for kind, places in _places(tuple(kinds.values())).items():
        values, first = saved[..., places], own[..., places]
        if kind == "fixed":
            with np.errstate(invalid="ignore"):  # infinity less infinity
                near = np.abs(values - first) <= SAME * np.abs(first)
            sound = (values == first) | (near & (first != np.floor(first)))
        elif kind == "count":
            sound = (values >= 0.0) & (values < LARGEST_COUNT) & (values == np.floor(values))
        elif kind == "flag":
            sound = (values == 0.0) | (values == 1.0)
        elif kind == "size":
            sound = values >= 0.0
        elif kind == "open":
            sound = ~np.isnan(values)
        else:
            sound = np.isfinite(values) | (values == first)
        if not sound.all():
            bad = np.argwhere(~sound)[0]
            name = list(kinds)[places[bad[-1]]]
            raise damaged(where, key, f"{name} cannot be {float(values[tuple(bad)])!r}")


@functools.cache
def _places(kinds: tuple[str, ...]) -> dict[str, list[int]]:
    """The positions of each kind among ``kinds``."""
    return {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in set(kinds)}


def check_size(where: str, key: str, numbers: FloatArray, most: float = LARGEST) -> None:
    """Refuse numbers larger than any that kernels make, since they square them and add them up."""
    if np.abs(numbers).max(initial=0.0) > most:
        raise damaged(where, key, f"its numbers must be at most {most:g} in size")


def hangs_together(heads: NDArray[Any], following: NDArray[Any], count: int) -> bool:
    """Tell whether lists that begin at ``heads`` and go on by ``following`` (-1 ends one) meet each
    of ``count`` rows exactly once: then none of them runs in a circle.
    """
    met = np.concatenate([heads, following[following >= 0]]).astype(np.int64)
    return bool(np.array_equal(np.sort(met), np.arange(count)))
