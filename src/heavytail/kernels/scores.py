"""The scores of a pool of arms, x'P x and x'theta for each: formed anew, or brought over an update.

:func:`rate` forms them from the state, O(n d²). An update moves P by -k u u' and theta by c u, so
with g = X u every squared width moves by -k g² and every mean by c g: :func:`follow`, O(n d).
Rounding gathers at 1e-16 a round: rate the pool anew every 10^4 rounds.

A pool is stored by features, (d, n), so that the inner loops run along the arms.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail.kernels.fused import fused
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    DIRECTION,
    GAIN,
    INVERSE,
    OK,
    PROJECTED,
    SET_ANEW,
    STEP,
    THETA,
)

__all__ = ["AGE", "AT", "MEAN", "SCORES", "SQUARED", "follow", "rate"]

# Rows of a pool's scores, (SCORES, n).
SQUARED: Final = 0  # x'P x
MEAN: Final = 1  # x'theta, without the constant feature: it adds the same to every arm
PRODUCT: Final = 2  # room: x'u; with the three rows after it, x' times four rows of P
AT: Final = 6  # first entry: the round the scores stand at; -1 before they were rated
AGE: Final = 7  # first entry: updates followed since they were rated
SCORES: Final = 8

BLOCK: Final = 128  # arms rated at a time, so that a block of 256 features stays in the cache


@fused
@jit
def _add_fours(pool: Matrix, whole: int, M: Matrix, row: int, scores: Matrix, into: int) -> None:
    """scores[into] += pool[:whole]' M[row, :whole], four features per pass over the scores."""
    for j in range(0, whole, 4):
        a = M[row, j]
        b = M[row, j + 1]
        c = M[row, j + 2]
        d = M[row, j + 3]
        for i in range(pool.shape[1]):
            total = a * pool[j, i] + scores[into, i]
            total = b * pool[j + 1, i] + total
            total = c * pool[j + 2, i] + total
            scores[into, i] = d * pool[j + 3, i] + total


@jit
def multiply(pool: Matrix, size: int, M: Matrix, row: int, scores: Matrix, into: int) -> None:
    """scores[into] = pool[:size]' M[row, :size]. O(n size)."""
    whole = size - size % 4
    for i in range(pool.shape[1]):
        scores[into, i] = 0.0
    if whole > 0:
        _add_fours(pool, whole, M, row, scores, into)
    for j in range(whole, size):
        a = M[row, j]
        for i in range(pool.shape[1]):
            scores[into, i] += a * pool[j, i]


@fused
@jit
def _rate_fours(M: Matrix, pool: Matrix, scores: Matrix, whole: int, first: int, last: int) -> None:
    """x'P x over the first ``whole`` features, twice its lower triangle, four rows of P at a time.

    For the arms ``first`` to ``last``, few enough to stay in the cache. The bounds are unsigned so
    that the compiler knows that no index counts from the end.
    """
    lo = np.uint64(first)
    hi = np.uint64(last)
    for j in range(0, whole, 4):
        r = INVERSE + j
        d0, d1, d2, d3 = M[r, j], M[r + 1, j + 1], M[r + 2, j + 2], M[r + 3, j + 3]
        p10, p20, p21 = M[r + 1, j], M[r + 2, j], M[r + 2, j + 1]
        p30, p31, p32 = M[r + 3, j], M[r + 3, j + 1], M[r + 3, j + 2]
        for i in range(lo, hi):
            x, y, z, w = pool[j, i], pool[j + 1, i], pool[j + 2, i], pool[j + 3, i]
            scores[PRODUCT, i] = 0.5 * d0 * x
            scores[PRODUCT + 1, i] = p10 * x + 0.5 * d1 * y
            scores[PRODUCT + 2, i] = p21 * y + (p20 * x + 0.5 * d2 * z)
            scores[PRODUCT + 3, i] = p32 * z + (p31 * y + (p30 * x + 0.5 * d3 * w))
        for k in range(0, j, 4):
            for m in range(0, 4, 2):  # two of the four rows per pass, four features of the arms
                a, b, c, d = M[r + m, k], M[r + m, k + 1], M[r + m, k + 2], M[r + m, k + 3]
                r1 = r + m + 1
                e, f, g, h = M[r1, k], M[r1, k + 1], M[r1, k + 2], M[r1, k + 3]
                into = PRODUCT + m
                for i in range(lo, hi):
                    x, y, z, w = pool[k, i], pool[k + 1, i], pool[k + 2, i], pool[k + 3, i]
                    scores[into, i] = d * w + (c * z + (b * y + (a * x + scores[into, i])))
                    scores[into + 1, i] = h * w + (g * z + (f * y + (e * x + scores[into + 1, i])))
        for i in range(lo, hi):
            total = scores[PRODUCT + 1, i] * pool[j + 1, i] + scores[PRODUCT, i] * pool[j, i]
            total = scores[PRODUCT + 2, i] * pool[j + 2, i] + total
            total = scores[PRODUCT + 3, i] * pool[j + 3, i] + total
            scores[SQUARED, i] += 2.0 * total


@jit
def _fit(pool: Matrix, limit: float, scores: Matrix) -> bool:
    """Tell whether every arm of the pool is finite and its squared length at most ``limit``. O(n
    d).
    """
    for i in range(pool.shape[1]):
        scores[PRODUCT, i] = 0.0
    for j in range(pool.shape[0]):
        for i in range(pool.shape[1]):
            scores[PRODUCT, i] += pool[j, i] * pool[j, i]
    fit = True
    for i in range(pool.shape[1]):
        fit = fit & (scores[PRODUCT, i] <= limit)
    return fit


@jit
def rate(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> int:
    """Score every arm of a pool from the state alone; BAD_X where an arm is not usable. O(n d²)."""
    if not _fit(pool, s[ARM_LIMIT], scores):
        return BAD_X
    size = pool.shape[0]
    arms = pool.shape[1]
    whole = size - size % 4
    for i in range(arms):
        scores[SQUARED, i] = 0.0
    if whole > 0:
        for first in range(0, arms, BLOCK):
            _rate_fours(M, pool, scores, whole, first, min(first + BLOCK, arms))
    for j in range(whole, M.shape[1]):
        multiply(pool, min(j, size), M, INVERSE + j, scores, PRODUCT)
        half = 0.5 * M[INVERSE + j, j]
        for i in range(arms):
            x = pool[j, i] if j < size else s[CONSTANT]
            scores[SQUARED, i] += 2.0 * (scores[PRODUCT, i] + half * x) * x
    multiply(pool, size, M, THETA, scores, MEAN)
    return OK


@fused
@jit
def _follow_wide(
    M: Matrix, pool: Matrix, scores: Matrix, gain: float, step: float, constant: float
) -> None:
    """:func:`follow` for three features or more, the last few in the pass that moves the scores."""
    last = pool.shape[0] - 1
    whole = last - last % 4
    j1 = min(whole + 1, last)
    j2 = min(whole + 2, last)
    j3 = min(whole + 3, last)
    a = M[DIRECTION, whole]
    b = M[DIRECTION, j1] if whole + 1 <= last else 0.0
    c = M[DIRECTION, j2] if whole + 2 <= last else 0.0
    d = M[DIRECTION, j3] if whole + 3 <= last else 0.0
    multiply(pool, whole, M, DIRECTION, scores, PRODUCT)
    for i in range(pool.shape[1]):
        g = b * pool[j1, i] + (a * pool[whole, i] + scores[PRODUCT, i])
        g = d * pool[j3, i] + (c * pool[j2, i] + g)
        scores[MEAN, i] += step * g
        scores[SQUARED, i] -= gain * (g + constant) * (g + constant)


@jit
def follow(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> None:
    """Bring the scores over the last update, which left k, c and u in the state. O(n d)."""
    if s[PROJECTED] == SET_ANEW:
        rate(s, M, pool, scores)
        return
    size = pool.shape[0]
    gain = s[GAIN]
    step = s[STEP]
    if gain != 0.0 or step != 0.0:
        constant = s[CONSTANT] * M[DIRECTION, size] if M.shape[1] > size else 0.0
        if size > 2:
            _follow_wide(M, pool, scores, gain, step, constant)
        else:  # a plane takes one pass
            last = size - 1
            a = M[DIRECTION, 0]
            b = M[DIRECTION, last] if last > 0 else 0.0
            for i in range(pool.shape[1]):
                g = a * pool[0, i] + b * pool[last, i]
                scores[MEAN, i] += step * g
                scores[SQUARED, i] -= gain * (g + constant) * (g + constant)
    if s[PROJECTED] != 0.0:  # theta moved otherwise
        multiply(pool, size, M, THETA, scores, MEAN)
