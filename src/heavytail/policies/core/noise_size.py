"""A scale of the noise that follows x: sigma(x) = typical size * exp(kappa gamma'x).

gamma is ridge regression of log |residual| on x, one pass, without moments of the noise. kappa is
James and Stein's factor: 0, one size for all arms, unless the slopes explain more than four times
what chance would.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import multiply, shrink_block
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import FEATURE, Size, numbered
from heavytail.policies.core.every_round import (
    EVERY_ROUND,
    INVERSE,
    SIZED,
    SLOPES,
    TRIED,
    foretell,
)
from heavytail.policies.core.practice import LARGEST_SIZE, PRACTICE
from heavytail.policies.core.two_estimates import bulk_row

__all__ = ["NOISE_SIZE", "believed", "factor_at", "forget_sizes", "learn_size", "part"]

CHANCE: Final = 4.0  # times what chance explains: from there on the slopes are believed
SMALLEST: Final = 0.1  # of the typical size: a residual below it counts as this, not as log 0
LARGEST_STEP: Final = 2.5  # of the log of a residual, after EARLY of them
EARLY: Final = 20.0
LARGEST_POWER: Final = 3.0  # sigma(x) is within exp(±this) of the typical size


class NoiseSize(NamedTuple):
    """Slots of the scale that follows x."""

    SIZE_COUNT: Size  # residuals whose logs it is made of
    SIZE_STABILITY: Size  # energy - stability is the residual sum of squares
    SIZE_ENERGY: Size
    SIZE_SQUARES: Size  # the residual sum of squares of a constant
    SIZE_MEAN: int
    SIZE_FACTOR: Size  # kappa


NOISE_SIZE: Final = numbered(NoiseSize, after=EVERY_ROUND)
N: Final = NOISE_SIZE
P: Final = PRACTICE


@jit
def part(M: Matrix) -> None:
    """Begin a Gram matrix of its own, with what U knows: from the first reward of 0 on, which has
    no size, the rounds of the two are not the same. O(d²).
    """
    U = bulk_row(M) + INVERSE
    own = U + M.shape[1]
    for i in range(M.shape[1]):
        for j in range(M.shape[1]):
            M[own + i, j] = M[U + i, j]


@jit
def believed(explained: float, by_chance: float) -> float:
    """James and Stein's factor, within [0, 1]: 0 unless more is explained than chance would."""
    return 1.0 - by_chance / explained if explained > by_chance else 0.0


@jit
def factor_at(s: Vector, M: Matrix, dim: int) -> float:
    """sigma(x) over the typical size, at the x that was measured last. O(d)."""
    if s[N.SIZE_FACTOR] == 0.0:
        return 1.0
    row = bulk_row(M) + SLOPES
    power = 0.0
    for i in range(dim):
        power += M[row, i] * M[FEATURE, i]
    power *= s[N.SIZE_FACTOR]
    return math.exp(min(max(power, -LARGEST_POWER), LARGEST_POWER))


@jit
def learn_size(s: Vector, M: Matrix, dim: int, tried: float, size: float, factor: float) -> None:
    """Learn |residual| / nu_t = ``size`` of a round whose scale had ``factor``, after ``weigh``,
    which returned ``tried``. O(d²).
    """
    row = bulk_row(M) + SLOPES
    own = bulk_row(M) + INVERSE + M.shape[1]
    along, squared = bulk_row(M) + TRIED, tried
    if s[EVERY_ROUND.ZEROS] > 0.0:
        along = bulk_row(M) + SIZED
        squared = multiply(M, own, along)
    size = max(size, SMALLEST * s[P.TYPICAL] * factor) / s[P.UNIT]
    y = math.log(min(size, LARGEST_SIZE))
    off = y - foretell(M, row)
    apart = y - s[N.SIZE_MEAN]
    n = s[N.SIZE_COUNT]
    if n > EARLY:
        off = min(max(off, -LARGEST_STEP), LARGEST_STEP)
        apart = min(max(apart, -LARGEST_STEP), LARGEST_STEP)
    gain = 1.0 / (1.0 + squared)
    for i in range(M.shape[1]):
        M[row, i] += off * gain * M[along, i]
    if s[EVERY_ROUND.ZEROS] > 0.0:
        shrink_block(M, own, along, gain)
    s[N.SIZE_STABILITY] += off * off * squared * gain
    s[N.SIZE_ENERGY] += off * off
    s[N.SIZE_SQUARES] += apart * apart * n / (n + 1.0)
    s[N.SIZE_MEAN] += apart / (n + 1.0)
    s[N.SIZE_COUNT] += 1.0
    if n > dim:
        rest = max(s[N.SIZE_ENERGY] - s[N.SIZE_STABILITY], 0.0)
        s[N.SIZE_FACTOR] = believed(s[N.SIZE_SQUARES] - rest, CHANCE * dim * rest / (n - dim))


@jit
def forget_sizes(s: Vector, M: Matrix) -> None:
    """One size for all arms: the unit is another. What directions were tried stays known."""
    row = bulk_row(M) + SLOPES
    for i in range(M.shape[1]):
        M[row, i] = 0.0
    s[N.SIZE_COUNT] = s[N.SIZE_STABILITY] = s[N.SIZE_ENERGY] = 0.0
    s[N.SIZE_SQUARES] = s[N.SIZE_MEAN] = s[N.SIZE_FACTOR] = 0.0
