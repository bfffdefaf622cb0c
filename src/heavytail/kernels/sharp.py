"""The one-pass step at a width that is proved: docs/mathematics/sharp.md has theorem and proof.

Two Gram matrices: V, of the rounds' weights, and A, of how far their clipped residuals may lie from
the truth. The confidence set is |x'(theta - theta*)| <= beta ‖x‖_Q, Q = V^-1 A V^-1. Q stands
where other policies have V^-1, so that indices, intervals and pools of arms are as theirs; V^-1
and A^-1 are blocks of their own, one behind the other. Theta is not projected: the proof needs V
(theta - theta*) to be an exact sum over the rounds.

The scalars are a block of s that begins at the slot ``at``, the matrices one of M that begins at
the row ``V``: the caller says where.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels import index
from heavytail.kernels.gram import multiply, predict, shrink_block
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    DIRECTION,
    FEATURE,
    GAIN,
    INVERSE,
    LOG_DET,
    OK,
    OVERFLOW,
    PROJECTED,
    RADIUS,
    ROUNDS,
    SET_ANEW,
    STEP,
    THETA,
    THETA_BOUND,
    Fixed,
    Size,
    numbered,
)
from heavytail.kernels.one_pass import LARGEST
from heavytail.kernels.scores import MEAN, PRODUCT, SQUARED, rate
from heavytail.kernels.scores import multiply as multiply_pool

__all__ = [
    "DELTA",
    "RIDGE",
    "SHARP",
    "SLOTS",
    "Measured",
    "Sharp",
    "clip_cost",
    "learn_bounded",
    "learn_symmetric",
    "measure",
    "radius_at",
    "start",
    "stated_bound",
    "threshold_factor",
]


class Sharp(NamedTuple):
    """Slots of the block."""

    MOMENT: Fixed  # p; 0 where the noise is symmetric
    COST: Fixed  # e_p, of the clip
    REACH: Fixed  # k_p, of the threshold
    SURE: Fixed  # 2 log(1/delta)
    BIAS: Fixed  # lambda S / sqrt(mu)
    FLOOR: Size  # rho: Q is stored as Q + rho I
    SPREAD_FLOOR: Fixed  # as much is added to x'A^-1 x, for x of length 1
    LEAST_SIGMA: Fixed  # sigma is at least this times the length of x
    FACTOR: Fixed  # multiplies the radius of selection
    BETA: Size  # the radius of the set
    SPENT: Size  # sum of eps
    SPREAD: Size  # log det(A / mu)
    LAST_SIGMA: Size  # of the last round ...
    LAST_TAU: Size  # ... and its threshold, in sigmas


SLOTS: Final = numbered(Sharp)
K: Final = SLOTS

MIXING: Final = 10.0  # mu / lambda
FARTHEST_CLIP: Final = 4.0  # the largest k_p: at p = 2 the clip costs nothing but its eps
FINEST: Final = 0.01  # a round weighs at most lambda over its square: V^-1 keeps its digits
RESOLUTION: Final = 1e-12  # rho over the largest that Q was: rounding stays below it
DELTA: Final = 0.05
RIDGE: Final = 0.3  # lambda, in units of d / S²
LEAST_BOUND, MOST_BOUND = 1e-70, 1e70  # of S and nu: squares and their inverses are numbers


def clip_cost(order: float) -> float:
    """e_p = (3/4) max over 0 < u < 1 of (1 - u)² u^(2p - 2) / (1 - u^p), rounded up.

    The logarithm is concave in log u, so that a search by thirds finds the maximum.

    >>> round(clip_cost(2.0), 6), round(clip_cost(1.5), 6)
    (0.067627, 0.146246)
    """

    def value(log_u: float) -> float:
        u = math.exp(log_u)
        return 2.0 * math.log1p(-u) + (2.0 * order - 2.0) * log_u - math.log1p(-(u**order))

    low, high = -30.0 / (order - 1.0), -1e-9
    for _ in range(200):
        third = (high - low) / 3.0
        if value(low + third) < value(high - third):
            low += third
        else:
            high -= third
    return 0.75 * math.exp(value(0.5 * (low + high))) * (1.0 + 1e-9)


def threshold_factor(order: float) -> float:
    """k_p of the threshold k_p min(t, 1 + 1/n²)^(1/p).

    It makes the width of a well-known arm, of the order of k^(2 - p) (1 + 2 e_p k^-p), the least:
    k^p = 4 e_p (p - 1) / (2 - p). No number in it was tuned.
    """
    power = 4.0 * clip_cost(order) * (order - 1.0)
    if power >= (2.0 - order) * FARTHEST_CLIP**order:
        return FARTHEST_CLIP
    return float((power / (2.0 - order)) ** (1.0 / order))


def stated_bound(check: Check, mode: str, theta_bound: float | None, scale: float | None) -> float:
    """S, which must be given; ``scale`` is nu, where there is one."""
    if theta_bound is None:
        raise ValueError(
            f"{check.owner}.theta_bound must be given for {mode}: the theorem needs "
            "theta_bound >= ‖theta*‖."
        )
    if scale is not None and not LEAST_BOUND <= scale <= MOST_BOUND:
        raise ValueError(
            f"{check.owner}.tail must have a scale between {LEAST_BOUND:g} and {MOST_BOUND:g} for "
            f"{mode}; got {scale!r}. Change the unit of the reward."
        )
    return check.number("theta_bound", theta_bound, least=LEAST_BOUND, most=MOST_BOUND)


def start(
    s: Vector,
    M: Matrix,
    at: int,
    V: int,
    *,
    order: float,
    ridge: float,
    theta_bound: float,
    log_inverse_delta: float,
    factor: float = 1.0,
) -> None:
    """Write the constants and the first matrices: V = lambda I, A = mu I. Order 0 is symmetric."""
    each = np.arange(M.shape[1])
    mu = MIXING * ridge
    s[THETA_BOUND] = theta_bound
    s[at + K.MOMENT] = order
    if order > 0.0:
        s[at + K.COST] = clip_cost(order)
        s[at + K.REACH] = threshold_factor(order)
    s[at + K.SURE] = 2.0 * log_inverse_delta
    s[at + K.BIAS] = ridge * theta_bound / math.sqrt(mu)
    s[at + K.FLOOR] = RESOLUTION * mu / ridge**2
    s[at + K.SPREAD_FLOOR] = 0.01 * RESOLUTION / mu
    s[at + K.LEAST_SIGMA] = FINEST / math.sqrt(ridge)
    s[at + K.FACTOR] = factor
    M[INVERSE + each, each] = mu / ridge**2 + s[at + K.FLOOR]
    M[V + each, each] = 1.0 / ridge
    M[V + len(each) + each, each] = 1.0 / mu
    renew(s, at)


@jit
def renew(s: Vector, at: int) -> None:
    """beta = sqrt(2 log(1/delta) + log det(A/mu) + 2 E) + lambda S / sqrt(mu)."""
    spent = s[at + K.SURE] + s[at + K.SPREAD] + 2.0 * s[at + K.SPENT]
    s[at + K.BETA] = math.sqrt(spent) + s[at + K.BIAS]
    s[RADIUS] = s[at + K.FACTOR] * s[at + K.BETA]


def radius_at(name: str, s: Vector, at: int, level: float) -> float:
    """The radius at which all intervals hold at once, at every x and at all times, with probability
    ``level``; at most 1 - delta, which the steps were taken at. ``name`` is what errors call it.
    """
    sure = -2.0 * math.log1p(-level)
    if sure > s[at + K.SURE] * (1.0 + 1e-9):
        raise ValueError(
            f"{name} must be at most 1 - delta = {-math.expm1(-0.5 * s[at + K.SURE]):.6g}; got "
            f"{level!r}. Ask for a lower level, or build it with a smaller delta."
        )
    spent = sure + s[at + K.SPREAD] + 2.0 * s[at + K.SPENT]
    return float(math.sqrt(max(spent, 0.0)) + s[at + K.BIAS])


class Measured(NamedTuple):
    """The numbers of x that are known before its reward."""

    known: float  # x'V^-1 x
    wide: float  # x'Q x
    spread: float  # x'A^-1 x
    reach: float  # |x'(theta - theta*)| is at most this
    least: float  # sigma is at least this, for the digits of V^-1
    expected: float  # x'theta


@jit
def measure(s: Vector, M: Matrix, at: int, V: int, x: Vector) -> Measured:
    """Lay x, V^-1 x, Q x and A^-1 x into M. O(d²)."""
    size = M.shape[1]
    length = 0.0
    for i in range(size):
        M[FEATURE, i] = x[i]
        length += x[i] * x[i]
    known = multiply(M, V, DIRECTION)
    stored = multiply(M, INVERSE, INVERSE + size)
    spread = multiply(M, V + size, INVERSE + size + 1) + s[at + K.SPREAD_FLOOR] * length
    floor = s[at + K.FLOOR]
    for i in range(size):
        M[INVERSE + size, i] -= floor * x[i]
    expected = predict(M)
    farthest = s[THETA_BOUND] * math.sqrt(length) + abs(expected)
    reach = min(s[at + K.BETA] * math.sqrt(stored), farthest)
    least = s[at + K.LEAST_SIGMA] * math.sqrt(length)
    return Measured(known, max(stored - floor * length, 0.0), spread, reach, least, expected)


@jit
def learn_bounded(
    s: Vector, M: Matrix, at: int, V: int, x: Measured, residual: float, nu: float
) -> int:
    """A round under E|eta|^p <= nu^p, after :func:`measure`; OVERFLOW with the state untouched.
    O(d²).
    """
    noise = max(nu, x.least)
    sigma = max(noise, x.reach)
    shift = x.reach / sigma  # D
    squared = x.known / (sigma * sigma)  # n²
    p = s[at + K.MOMENT]
    rounds = s[ROUNDS] + 1.0
    if squared * rounds > 1.0:
        rounds = min(rounds, 1.0 + 1.0 / squared)
    tau = max(2.0 * shift, s[at + K.REACH] * (nu / noise) * rounds ** (1.0 / p))
    share = 1.0 if sigma == nu else (nu / sigma) ** p
    size = abs(score(residual / sigma, tau)) + shift
    weight = (size * size + 2.0 * (tau + shift) ** (2.0 - p) * share) / 3.0
    cost = s[at + K.COST] * (tau - shift) ** -p * share
    return step(s, M, at, V, x, residual, sigma, tau, weight, cost)


@jit
def learn_symmetric(
    s: Vector, M: Matrix, at: int, V: int, x: Measured, residual: float, nu: float
) -> int:
    """A round under noise that is symmetric given the past, of any size; nu only weighs the round.
    OVERFLOW with the state untouched. O(d²).
    """
    sigma = max(nu, x.least, x.reach)
    size = (abs(residual) + x.reach) / sigma
    if not (size <= LARGEST):
        return OVERFLOW
    return step(s, M, at, V, x, residual, sigma, math.inf, size * size, 0.0)


@jit
def step(
    s: Vector,
    M: Matrix,
    at: int,
    V: int,
    x: Measured,
    residual: float,
    sigma: float,
    tau: float,
    weight: float,
    cost: float,
) -> int:
    """V += x x'/sigma², A += weight x x'/sigma², E += cost and theta += V^-1 x psi / sigma.

    With u = V^-1 x, q = Q x and k = 1 / (sigma² + x'u), Q moves by -(u b' + b u'), b = k q -
    k² (x'q + weight sigma²) u / 2. Both halves are written alike.
    """
    size = M.shape[1]
    b = INVERSE + size  # the row of q, then of b
    square = sigma * sigma
    gain = 1.0 / (square + x.known)
    half = 0.5 * gain * gain * (x.wide + weight * square)
    growth = 1.0 + weight * (x.spread / square)
    z = residual / sigma if x.known > 0.0 else 0.0  # x = 0 says nothing about theta
    move = gain * sigma * score(z, tau)
    sound = 1.0 / LARGEST <= square <= LARGEST and growth <= LARGEST
    for i in range(size):
        u = M[DIRECTION, i]
        sound &= abs(M[THETA, i] + move * u) <= LARGEST
        sound &= abs(u) * (gain * abs(M[b, i]) + half * abs(u)) <= LARGEST
    if not sound:
        return OVERFLOW
    for i in range(size):
        M[b, i] = gain * M[b, i] - half * M[DIRECTION, i]
        M[THETA, i] += move * M[DIRECTION, i]
    for i in range(size):
        ui = M[DIRECTION, i]
        bi = M[b, i]
        for j in range(size):
            M[INVERSE + i, j] -= ui * M[b, j] + bi * M[DIRECTION, j]
    shrink_block(M, V, DIRECTION, gain)
    shrink_block(M, V + size, b + 1, weight / (square * growth))
    s[ROUNDS] += 1.0
    s[GAIN] = gain
    s[STEP] = move
    s[PROJECTED] = 0.0
    raise_floor(s, M, at)
    s[LOG_DET] += math.log(1.0 + x.known / square)
    s[at + K.SPREAD] += math.log(growth)
    if x.known > 0.0:
        s[at + K.SPENT] += cost
    s[at + K.LAST_SIGMA] = sigma
    s[at + K.LAST_TAU] = tau
    if abs(z) > tau:
        s[CLIPPED] += 1.0
    renew(s, at)
    return OK


@jit
def raise_floor(s: Vector, M: Matrix, at: int) -> None:
    """Let rho follow the largest entry that Q ever had, by doublings: its rounding is of that size.
    O(d).
    """
    largest = 0.0
    for i in range(M.shape[1]):
        largest = max(largest, M[INVERSE + i, i])
    if RESOLUTION * largest > 2.0 * s[at + K.FLOOR]:
        for i in range(M.shape[1]):
            M[INVERSE + i, i] += RESOLUTION * largest - s[at + K.FLOOR]
        s[at + K.FLOOR] = RESOLUTION * largest
        s[PROJECTED] = SET_ANEW  # scores that were kept are formed anew


@jit
def follow(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> None:
    """Bring the scores of a pool over the last update: x'Q x moves by -2 x'u x'b. O(n d)."""
    if s[PROJECTED] == SET_ANEW:
        rate(s, M, pool, scores)
        return
    size = pool.shape[0]
    multiply_pool(pool, size, M, DIRECTION, scores, PRODUCT)
    multiply_pool(pool, size, M, INVERSE + size, scores, PRODUCT + 1)
    step = s[STEP]
    for i in range(pool.shape[1]):
        scores[MEAN, i] += step * scores[PRODUCT, i]
        scores[SQUARED, i] -= 2.0 * scores[PRODUCT, i] * scores[PRODUCT + 1, i]


SHARP: Final = index.scoring(
    "sharp",
    select=index.select,
    rate=rate,
    follow=follow,
    choose=index.choose,
    choose_offered=index.choose_offered,
    rows=index.SCORES,
)
