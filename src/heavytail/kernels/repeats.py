"""Playing one arm many times: the epochs of CRMM, MENU, MoM and BMM.

The repetitions live in the state. An epoch's first update lays the arm that was played into the
row MEANT; until the epoch's pulls are spent, selection returns that arm, or the offered arm nearest
to it, and every reward counts for the arm meant. Selection reads the state and never writes it.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels import index
from heavytail.kernels.gram import shrink, transform
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    FEATURE,
    GAIN,
    INVERSE,
    LOG_DET,
    NO_ARM,
    OK,
    OVERFLOW,
    ROUNDS,
    Count,
    Fixed,
    numbered,
)

__all__ = [
    "EPOCH",
    "absorb",
    "credit",
    "end_epoch",
    "lay_meant",
    "meant_row",
    "measure_meant",
    "median",
    "nearest",
    "select",
]


class Epoch(NamedTuple):
    """Slots of s that all of them have."""

    REPEATS: Fixed  # pulls of an epoch
    PULLS: Count  # pulls of the running epoch that were learned
    EPOCHS: Count  # epochs completed


EPOCH: Final = numbered(Epoch, after=COMMON)

LARGEST_SUM: Final = 1e140  # of rewards times features: its square must stay finite

_index_select = index.select


@jit
def meant_row(M: Matrix) -> int:
    """The row of the arm meant: the first after the rows common to all policies."""
    return int(INVERSE + 2 * M.shape[1] + 1)


@jit
def nearest(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first offered arm nearest to the one meant in Euclidean distance; it itself, if offered.

    O(n d).
    """
    row = meant_row(M)
    best = NO_ARM
    best_distance = math.inf
    for i in range(arms.shape[0]):
        distance = 0.0
        length = 0.0
        for j in range(arms.shape[1]):
            gap = arms[i, j] - M[row, j]
            distance += gap * gap
            length += arms[i, j] * arms[i, j]
        if not (length <= s[ARM_LIMIT]):
            return BAD_X
        if distance < best_distance or best < 0:
            best = i
            best_distance = distance
    return best


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """By the linear index when an epoch begins; inside it, the arm meant or the nearest to it."""
    if s[EPOCH.PULLS] > 0.0:
        return nearest(s, M, arms)
    return _index_select(s, M, arms)


@jit
def lay_meant(s: Vector, M: Matrix, x: Vector) -> None:
    """At an epoch's first pull, remember the arm played as the one meant; count the pull."""
    if s[EPOCH.PULLS] == 0.0:
        row = meant_row(M)
        for j in range(x.shape[0]):
            M[row, j] = x[j]
    s[EPOCH.PULLS] += 1.0
    s[ROUNDS] += 1.0


@jit
def measure_meant(s: Vector, M: Matrix, x: Vector) -> float:
    """Lay the arm meant (x where an epoch begins) and u = P x into M; its ‖x‖²_{V^-1}."""
    row = meant_row(M)
    for j in range(M.shape[1]):
        M[FEATURE, j] = x[j] if s[EPOCH.PULLS] == 0.0 else M[row, j]
    return transform(M)


@jit
def credit(s: Vector, M: Matrix, x: Vector, row: int, reward: float) -> int:
    """b <- b + reward x for the arm meant, b in ``row``; OVERFLOW, nothing changed, where b is too
    large. ``x`` is the arm meant where the epoch has just begun.
    """
    meant = meant_row(M)
    begins = s[EPOCH.PULLS] == 0.0
    for j in range(M.shape[1]):
        feature = x[j] if begins else M[meant, j]
        if not (abs(M[row, j] + reward * feature) <= LARGEST_SUM):
            return OVERFLOW
    for j in range(M.shape[1]):
        M[row, j] += reward * (x[j] if begins else M[meant, j])
    return OK


@jit
def absorb(s: Vector, M: Matrix, squared: float) -> None:
    """V <- V + x x' after :func:`measure_meant`."""
    growth = 1.0 + squared
    shrink(M, 1.0 / growth)
    s[GAIN] = 1.0 / growth
    s[LOG_DET] += math.log(growth)


@jit
def end_epoch(s: Vector) -> None:
    """The epoch's last pull is learned: the next selection chooses anew."""
    s[EPOCH.PULLS] = 0.0
    s[EPOCH.EPOCHS] += 1.0


@jit
def median(a: Vector, first: int, count: int) -> float:
    """The median of a[first : first + count], which it permutes; of an even count, the mean of the
    middle two. O(count) on average, by Hoare's selection.
    """
    low = first
    high = first + count - 1
    rank = first + count // 2
    while low < high:
        pivot = a[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while a[i] < pivot:
                i += 1
            while pivot < a[j]:
                j -= 1
            if i <= j:
                kept = a[i]
                a[i] = a[j]
                a[j] = kept
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    upper = a[rank]
    if count % 2 == 1:
        return upper
    lower = -math.inf
    for i in range(first, rank):
        lower = max(lower, a[i])
    return 0.5 * lower + 0.5 * upper
