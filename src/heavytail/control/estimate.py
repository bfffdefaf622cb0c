"""The kernels of identification: one Huber step for all rows of Theta'.

The state is the bandits' (s, M), :mod:`heavytail.kernels.layout`, with the n rows of Theta' as the
last rows of M. Where the identifier is not one-pass H keeps every step, a row each: z, the target
of the row of Theta' being fitted, and x_next.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.confidence import empirical_radius, oful_radius
from heavytail.kernels.gram import shrink, transform
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_X,
    CLIPPED,
    COMMON,
    DIRECTION,
    FEATURE,
    GAIN,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    SCRATCH,
    Count,
    Fixed,
    Flag,
    Size,
    behind,
    numbered,
    slot_kinds,
    slot_names,
)
from heavytail.kernels.one_pass import LARGEST
from heavytail.kernels.scale import NORMAL_CONSISTENCY, follow_typical
from heavytail.kernels.self_tuning import ROOM, follow

__all__ = ["current_radius", "kinds", "names", "observe", "spread", "threshold"]


class Slots(NamedTuple):
    """Slots of s, behind the common ones; the fields of each row of Theta' follow."""

    SCALE: Fixed  # nu, the unit in which spreads are kept
    CLIP: Fixed  # the threshold, in spreads, or the least of it
    SEEN: Count  # residuals seen, all rows together, and one
    INSIDE: Count  # of these, inside their threshold, and one
    RIDGE: Fixed
    EXPLORATION: Fixed
    PRIOR: Fixed  # lambda S² / nu²
    LOG_INVERSE_DELTA: Fixed
    NOISE_BOUND: Fixed  # n L of the sub-Gaussian radius; 0 for the empirical one
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    KEEPS: Fixed  # 1 where every step is kept for refitting
    FRESH: Flag  # 1 where the batch estimate is that of all steps kept
    TUNES: Fixed  # 1 where the thresholds find themselves


class Fields(NamedTuple):
    """The slots of s for each row of Theta', from FIELDS on."""

    TYPICAL: Size  # running median of |residual| / nu
    TAU: Size  # the threshold, in spreads
    STABILITY: Size  # G_t, in nu²
    ENERGY: Size  # sum of psi², in nu²


S: Final = numbered(Slots, after=COMMON)
ROW: Final = numbered(Fields)
FIELDS: Final = behind(S)
PER_ROW: Final = len(ROW)
# What a step weighs at most, in ridges. P is known to 1e-16 of what it was at first, so that a
# longer z would leave a direction of which nothing is known, and the next one destroy P.
WEIGHTIEST: Final = 1e14
LARGEST_SQUARE: Final = 1e300
SMALLEST: Final = 1e-3  # of the stated scale: no spread is ever smaller


def names(n: int, tunes: bool) -> tuple[str, ...]:
    """The names of the slots of s where Theta' has ``n`` rows; where thresholds find themselves,
    the sizes of each row's residuals come last.
    """
    fields = (f"{field.lower()}_{row}" for row in range(n) for field in ROW._fields)
    sizes = (f"sizes_{row}_{k}" for row in range(n if tunes else 0) for k in range(ROOM))
    return (*slot_names(COMMON, S), *fields, *sizes)


def kinds(n: int, tunes: bool) -> dict[str, str]:
    """The kinds of the slots, by name."""
    own = {f"{name}_{row}": kind for row in range(n) for name, kind in slot_kinds(ROW).items()}
    return {**dict.fromkeys(names(n, tunes), "size"), **slot_kinds(COMMON, S), **own}


@jit
def spread(s: Vector, row: int) -> float:
    """The typical residual size of a row, as a standard deviation would be under a normal law."""
    return s[S.SCALE] * NORMAL_CONSISTENCY * s[FIELDS + PER_ROW * row + ROW.TYPICAL]


@jit
def threshold(s: Vector, row: int) -> float:
    """tau of a row, at a z of no leverage."""
    return s[FIELDS + PER_ROW * row + ROW.TAU] * spread(s, row)


@jit
def lay_feature(M: Matrix, x: Vector, u: Vector) -> float:
    """z = (x, u) into the row FEATURE; return ‖z‖²."""
    n = x.shape[0]
    total = 0.0
    for i in range(n):
        M[FEATURE, i] = x[i]
        total += x[i] * x[i]
    for i in range(u.shape[0]):
        M[FEATURE, n + i] = u[i]
        total += u[i] * u[i]
    return total


@jit
def lay_residuals(
    s: Vector, M: Matrix, y: Vector, squared: float, growth: float, share: float
) -> bool:
    """y - Theta'z into the row SCRATCH; False where a row's step would leave the float range.
    ``share`` is what a z too long is weighed down to.
    """
    first = M.shape[0] - y.shape[0]
    for j in range(y.shape[0]):
        residual = y[j]
        for i in range(M.shape[1]):
            residual -= M[first + j, i] * M[FEATURE, i]
        M[SCRATCH, j] = residual
        psi = score(residual, threshold(s, j) * math.sqrt(growth))
        size = psi / s[S.SCALE]
        if not (size * size * max(squared, 1.0) <= LARGEST_SQUARE):
            return False
        step = share * psi / growth
        for i in range(M.shape[1]):
            if not (abs(M[first + j, i] + step * M[DIRECTION, i]) <= LARGEST):
                return False
    return True


@jit
def learn_row(
    s: Vector, M: Matrix, row: int, n: int, squared: float, growth: float, share: float
) -> None:
    """One row's Huber step, its running spread and the terms of its radius."""
    first = M.shape[0] - n
    at = FIELDS + PER_ROW * row
    residual = M[SCRATCH, row]
    # The residual of a z of high leverage carries the estimate's own error: its spread is
    # sqrt(growth) of the noise's, and so is its threshold.
    reach = math.sqrt(growth)
    tau = threshold(s, row) * reach
    psi = score(residual, tau)
    for i in range(M.shape[1]):
        M[first + row, i] += share * psi / growth * M[DIRECTION, i]
    s[S.SEEN] += 1.0
    if abs(residual) <= tau:
        s[S.INSIDE] += 1.0
    else:
        s[CLIPPED] += 1.0
    nu = s[S.SCALE]
    s[at + ROW.STABILITY] += psi / nu * (psi / nu) * squared / growth * share * share
    s[at + ROW.ENERGY] += psi / nu * (psi / nu)
    if s[S.TUNES] == 1.0:
        sizes = FIELDS + PER_ROW * n + ROOM * row
        size = abs(residual) / (reach * spread(s, row))
        t, width = s[ROUNDS] + 1.0, float(M.shape[1])
        s[at + ROW.TAU] = follow(s, sizes, size, s[at + ROW.TAU], t, width, 1.0, s[S.CLIP])
    size = abs(residual) / (reach * nu)
    s[at + ROW.TYPICAL] = follow_typical(s[at + ROW.TYPICAL], size, s[ROUNDS] + 1.0, SMALLEST)


@jit
def current_radius(s: Vector, n: int) -> float:
    """beta_t of {Theta : trace((Theta - Theta_t)' V_t (Theta - Theta_t)) <= beta_t²}."""
    if s[S.NOISE_BOUND] > 0.0:
        return oful_radius(s[LOG_DET], s[S.NOISE_BOUND], s[S.LOG_INVERSE_DELTA], s[S.PRIOR_ROOT])
    total = 0.0
    for j in range(n):
        at = FIELDS + PER_ROW * j
        beta = empirical_radius(
            s[S.EXPLORATION],
            s[S.PRIOR],
            s[at + ROW.STABILITY],
            s[at + ROW.ENERGY],
            s[ROUNDS],
            s[S.LOG_INVERSE_DELTA],
        )
        total += beta * beta
    return s[S.SCALE] * math.sqrt(total)


@jit
def observe(s: Vector, M: Matrix, H: Matrix, x: Vector, u: Vector, y: Vector) -> int:
    """Learn that (x, u) led to y. OK, or what was wrong, the state untouched. O((n + d)²)."""
    n = y.shape[0]
    length = lay_feature(M, x, u)
    if not (length <= s[ARM_LIMIT]):
        return BAD_X
    for j in range(n):
        if not (abs(y[j]) < math.inf):
            return BAD_REWARD
    squared = transform(M)
    share = min(1.0, WEIGHTIEST * s[S.RIDGE] / length) if length > 0.0 else 1.0
    # 1/alpha_t, the share of residuals not clipped: V_t is then the Hessian of the Huber loss, and
    # the step a Newton step. Without a clip it is 1 to the bit.
    weight = share * (s[S.INSIDE] / s[S.SEEN])
    growth = 1.0 + weight * squared
    if not (growth <= LARGEST) or not lay_residuals(s, M, y, squared, growth, share):
        return OVERFLOW
    for j in range(n):
        learn_row(s, M, j, n, squared, growth, share)
    shrink(M, weight / growth)
    if s[S.KEEPS] == 1.0:
        at = int(s[ROUNDS])
        for i in range(M.shape[1]):
            H[at, i] = M[FEATURE, i]
        for j in range(n):
            H[at, M.shape[1] + 1 + j] = y[j]
        s[S.FRESH] = 0.0
    s[ROUNDS] += 1.0
    s[GAIN] = weight / growth
    s[LOG_DET] += math.log(growth)
    s[RADIUS] = current_radius(s, n)
    return OK
