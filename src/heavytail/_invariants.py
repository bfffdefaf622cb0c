"""What is true of every state, checked where one comes from outside, before a kernel sees it.

A kernel believes its state: a count is where it writes next. So a slot says what it holds, in its
annotation (:mod:`heavytail.kernels.layout`), and nothing is taken over unless it holds that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

__all__ = [
    "LARGEST_COUNT",
    "LARGEST_LOG",
    "are_counts",
    "check_gram",
    "check_log_det",
    "check_size",
    "check_slots",
    "damaged",
    "hangs_together",
    "rounding",
]

LARGEST_COUNT: Final = 2.0**53  # from here on a double does not count
SAME: Final = 1e-9  # relative: a constant as another version's mathematics rounds it
SYMMETRY: Final = 1e-8  # of the largest entry: more than this apart is not rounding
ROUNDING: Final = 1e-10  # of the largest entry at first: how far P is known at least ...
STEPWISE: Final = 1e-14  # ... and how much less so after each round; 1e-16 was seen
LOST: Final = 1e-3  # ... but no less than this, after however many
SLACK: Final = 1e-6  # of a logarithm
LARGEST_LOG: Final = 1500.0  # of a ratio of two eigenvalues in the floating-point range
LARGEST: Final = 1.001e150  # of what is squared: kernels refuse what would pass 1e150


def damaged(where: str, key: str, why: str = "") -> ValueError:
    """The error for a saved array that cannot be a state."""
    return ValueError(f"{where}: the saved state's {key!r} is damaged{why and f': {why}'}.")


def are_counts(numbers: Any, below: float = LARGEST_COUNT, least: float = 0.0) -> bool:
    """Whether all are whole numbers from ``least`` on and below a bound."""
    inside = (numbers >= least) & (numbers < below)
    return bool((inside & (numbers == np.floor(numbers))).all())


def check_slots(where: str, key: str, kinds: Mapping[str, str], saved: Any, own: Any) -> None:
    """Refuse slots (..., n) that do not hold what they say; ``own`` are those of a fresh object.

    ``kinds`` are by name, in order: "fixed" is what the arguments say, "count" a whole number,
    "flag" 0 or 1, "size" at least 0, "extent" that or infinite, "open" any number or infinity, and
    "number" any number, or the infinity that it was at first.
    """
    for kind, places in _places(tuple(kinds.values())).items():
        found, first = saved[..., places], own[..., places]
        if kind == "fixed":
            with np.errstate(invalid="ignore"):  # infinity less infinity
                near = np.abs(found - first) <= SAME * np.abs(first)
            sound = (found == first) | (near & (first != np.floor(first)))
        elif kind == "count":
            sound = (found >= 0.0) & (found < LARGEST_COUNT) & (found == np.floor(found))
        elif kind == "flag":
            sound = (found == 0.0) | (found == 1.0)
        elif kind == "extent":
            sound = found >= 0.0
        elif kind == "open":
            sound = ~np.isnan(found)
        else:
            sound = np.isfinite(found) | (found == first)
            if kind == "size":
                sound &= found >= 0.0
        if not sound.all():
            bad = np.argwhere(~sound)[0]
            name = list(kinds)[places[bad[-1]]]
            raise damaged(where, key, f"{name} cannot be {float(found[tuple(bad)])!r}")


@functools.cache
def _places(kinds: tuple[str, ...]) -> dict[str, list[int]]:
    """Where each kind stands among them."""
    return {kind: [i for i, one in enumerate(kinds) if one == kind] for kind in set(kinds)}


def rounding(first: float, rounds: float) -> float:
    """How far an eigenvalue of P may be off after so many rounds; ``first`` is the largest entry
    at the beginning.
    """
    return min(ROUNDING + STEPWISE * rounds, LOST) * first


def check_gram(
    where: str, key: str, P: Any, first: float, rounds: float, *, free: bool = False
) -> None:
    """Refuse what is no inverse Gram matrix (..., d, d): finite, symmetric, positive definite and
    nowhere wider than at the beginning, all to rounding.

    ``first`` is its largest entry at the beginning, since when it has only shrunk; where it is
    ``free``, a prior's, that may have been larger.
    """
    if not np.isfinite(P).all():
        raise damaged(where, key, "it is not finite")
    largest = np.abs(P).max(initial=0.0)
    if np.abs(P - np.swapaxes(P, -1, -2)).max(initial=0.0) > SYMMETRY * largest:
        raise damaged(where, key, "it is not symmetric")
    if not free and largest > first * (1.0 + LOST):  # before what may overflow
        raise damaged(where, key, "it is larger than at first")
    unsure = rounding(max(largest, first) if free else first, rounds)
    if shifted_log_det(P, unsure) == -math.inf:
        raise damaged(where, key, "it is not positive definite")
    if not free and shifted_log_det(-P, first + unsure) == -math.inf:
        raise damaged(where, key, "it is larger than at first")


def shifted_log_det(P: Any, shift: float) -> float:
    """log det(P + shift I), the least of many P (..., d, d); -infinity unless all of them are
    positive definite. By Cholesky, since eigenvalues take far longer.
    """
    shifted = P + shift * np.eye(P.shape[-1])
    try:
        factor = np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return -math.inf
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    return 2.0 * float(np.log(diagonal).sum(axis=-1).min(initial=math.inf))


def check_log_det(
    where: str, log_det: float, P: Any, start: float, unsure: float, *, free: bool = False
) -> None:
    """Refuse a log det V that cannot be of its P = V^-1.

    log_det + log det P is ``start`` for ever, which the arguments say. An eigenvalue of P is known
    to ``unsure``, so their sum is a range, which must hold it. Where a prior may have stood in the
    place of V_0, P is ``free`` and log_det may also be anything that grew from 0.
    """
    low = log_det + shifted_log_det(P, -unsure)
    high = log_det + shifted_log_det(P, unsure)
    slack = SLACK * (1.0 + abs(log_det))
    agree = low - slack <= start <= high + slack
    if not (abs(log_det) <= LARGEST_LOG * len(P) and (agree or (free and log_det >= 0.0))):
        raise damaged(where, "scalars", f"log_det cannot be {float(log_det)!r}")


def check_size(where: str, key: str, numbers: Any) -> None:
    """Refuse what kernels square and add up, and never make so large."""
    if np.abs(numbers).max(initial=0.0) > LARGEST:
        raise damaged(where, key, f"its numbers must be at most {LARGEST:g} in size")


def hangs_together(heads: Any, following: Any, count: int) -> bool:
    """Whether lists that begin at ``heads`` and go on by ``following`` (-1 ends one) meet each of
    ``count`` rows exactly once: then none of them runs in a circle.
    """
    met = np.concatenate([heads, following[following >= 0]]).astype(np.int64)
    return bool(np.array_equal(np.sort(met), np.arange(count)))
