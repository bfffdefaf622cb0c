"""Choosing by a linear index: argmax x'theta + beta ‖x‖_{V^-1} over the arms offered.

Two ways to the same arm. :func:`select` takes any arms and forms x'P x for each, O(n d²).
:func:`rate`, :func:`follow` and :func:`choose` keep the scores of a pool of arms: an update moves
P by -k u u' and theta by c u, so with g = X u every squared width moves by -k g² and every mean by
c g, O(n d) a round. Rounding gathers at 1e-16 a round: rate the pool anew every 10^4 rounds.

A pool is stored by features, (d, n), so that the inner loops run along the arms.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import IntArray, Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    DIRECTION,
    GAIN,
    INVERSE,
    NO_ARM,
    OK,
    PROJECTED,
    RADIUS,
    STEP,
    THETA,
)

__all__ = ["SCORES", "choose", "choose_offered", "follow", "rate", "select"]

# Rows of a pool's scores, (SCORES, n).
SQUARED: Final = 0  # x'P x
MEAN: Final = 1  # x'theta, without the constant feature: it adds the same to every arm
PRODUCT: Final = 2  # room: x'u
SCORES: Final = 3

MARGIN: Final = 1e-9  # relative: how far below the best an index must be to be passed over unseen


@jit
def index_unless_below(mean: float, squared: float, radius: float, best: float) -> float:
    """mean + radius sqrt(squared), or -inf where that is below ``best`` by more than rounding.

    The root is the dearest step of a choice and most arms are plainly worse than the best so far.
    """
    gap = (best - mean) * (1.0 - MARGIN)
    if gap > 0.0 and radius * radius * squared < gap * gap:
        return -math.inf
    return mean + radius * math.sqrt(max(squared, 0.0))


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index; BAD_X or NO_ARM, and nothing changed, where the arms are not
    usable.

    The constant feature adds the same mean to every arm, so it enters the width alone. Arms are
    taken four at a time, the last one again where there are fewer, so that a row of P is read once
    for four. O(n d²).
    """
    size = arms.shape[1]
    last = arms.shape[0] - 1
    radius = s[RADIUS]
    best = NO_ARM
    best_index = -math.inf
    for a in range(0, arms.shape[0], 4):
        b = min(a + 1, last)
        c = min(a + 2, last)
        d = min(a + 3, last)
        mean_a = mean_b = mean_c = mean_d = 0.0
        length_a = length_b = length_c = length_d = 0.0
        half_a = half_b = half_c = half_d = 0.0  # x'P x / 2, from the lower triangle
        for j in range(size):
            p = M[THETA, j]
            mean_a += p * arms[a, j]
            mean_b += p * arms[b, j]
            mean_c += p * arms[c, j]
            mean_d += p * arms[d, j]
            length_a += arms[a, j] * arms[a, j]
            length_b += arms[b, j] * arms[b, j]
            length_c += arms[c, j] * arms[c, j]
            length_d += arms[d, j] * arms[d, j]
            p = 0.5 * M[INVERSE + j, j]
            row_a = p * arms[a, j]
            row_b = p * arms[b, j]
            row_c = p * arms[c, j]
            row_d = p * arms[d, j]
            for k in range(j):
                p = M[INVERSE + j, k]
                row_a += p * arms[a, k]
                row_b += p * arms[b, k]
                row_c += p * arms[c, k]
                row_d += p * arms[d, k]
            half_a += row_a * arms[a, j]
            half_b += row_b * arms[b, j]
            half_c += row_c * arms[c, j]
            half_d += row_d * arms[d, j]
        if M.shape[1] > size:
            row_a = row_b = row_c = row_d = 0.5 * s[CONSTANT] * M[INVERSE + size, size]
            for k in range(size):
                p = M[INVERSE + size, k]
                row_a += p * arms[a, k]
                row_b += p * arms[b, k]
                row_c += p * arms[c, k]
                row_d += p * arms[d, k]
            half_a += s[CONSTANT] * row_a
            half_b += s[CONSTANT] * row_b
            half_c += s[CONSTANT] * row_c
            half_d += s[CONSTANT] * row_d
        longest = max(max(length_a, length_b), max(length_c, length_d))
        if not (length_a + length_b + length_c + length_d < math.inf) or longest > s[ARM_LIMIT]:
            return BAD_X
        index = index_unless_below(mean_a, 2.0 * half_a, radius, best_index)
        if index > best_index or best < 0:
            best = a
            best_index = index
        index = index_unless_below(mean_b, 2.0 * half_b, radius, best_index)
        if index > best_index:
            best = b
            best_index = index
        index = index_unless_below(mean_c, 2.0 * half_c, radius, best_index)
        if index > best_index:
            best = c
            best_index = index
        index = index_unless_below(mean_d, 2.0 * half_d, radius, best_index)
        if index > best_index:
            best = d
            best_index = index
    return best


@jit
def multiply(pool: Matrix, M: Matrix, row: int, scores: Matrix, into: int) -> None:
    """scores[into] = pool' M[row], four features at a time. O(n d)."""
    n = pool.shape[1]
    size = pool.shape[0]
    whole = size - size % 4
    for i in range(n):
        scores[into, i] = 0.0
    for j in range(0, whole, 4):
        a = M[row, j]
        b = M[row, j + 1]
        c = M[row, j + 2]
        d = M[row, j + 3]
        for i in range(n):
            scores[into, i] += (a * pool[j, i] + b * pool[j + 1, i]) + (
                c * pool[j + 2, i] + d * pool[j + 3, i]
            )
    for j in range(whole, size):
        a = M[row, j]
        for i in range(n):
            scores[into, i] += a * pool[j, i]


@jit
def rate(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> int:
    """Score every arm of a pool from the state alone; BAD_X where an arm is not usable. O(n d²)."""
    size = pool.shape[0]
    for i in range(pool.shape[1]):
        length = 0.0
        for j in range(size):
            length += pool[j, i] * pool[j, i]
        if not (length <= s[ARM_LIMIT]):
            return BAD_X
        scores[SQUARED, i] = 0.0
    for j in range(M.shape[1]):
        multiply(pool[: min(j, size)], M, INVERSE + j, scores, PRODUCT)
        half = 0.5 * M[INVERSE + j, j]
        for i in range(pool.shape[1]):
            x = pool[j, i] if j < size else s[CONSTANT]
            scores[SQUARED, i] += 2.0 * (scores[PRODUCT, i] + half * x) * x
    multiply(pool, M, THETA, scores, MEAN)
    return OK


@jit
def follow(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> None:
    """Bring the scores over the last update, which left k, c and u in the state. O(n d)."""
    size = pool.shape[0]
    gain = s[GAIN]
    step = s[STEP]
    if gain != 0.0 or step != 0.0:
        multiply(pool, M, DIRECTION, scores, PRODUCT)
        constant = s[CONSTANT] * M[DIRECTION, size] if M.shape[1] > size else 0.0
        for i in range(pool.shape[1]):
            g = scores[PRODUCT, i] + constant
            scores[SQUARED, i] -= gain * g * g
            scores[MEAN, i] += step * scores[PRODUCT, i]
    if s[PROJECTED] != 0.0:  # theta moved otherwise
        multiply(pool, M, THETA, scores, MEAN)


@jit
def choose(s: Vector, scores: Matrix) -> int:
    """The first arm of the pool of largest index. O(n)."""
    radius = s[RADIUS]
    best = NO_ARM
    best_index = -math.inf
    for i in range(scores.shape[1]):
        index = index_unless_below(scores[MEAN, i], scores[SQUARED, i], radius, best_index)
        if index > best_index or best < 0:
            best = i
            best_index = index
    return best


@jit
def choose_offered(s: Vector, scores: Matrix, offered: IntArray, t: int) -> int:
    """The place in row t of ``offered`` of the first arm of largest index. O(k)."""
    radius = s[RADIUS]
    best = NO_ARM
    best_index = -math.inf
    for k in range(offered.shape[1]):
        i = offered[t, k]
        index = index_unless_below(scores[MEAN, i], scores[SQUARED, i], radius, best_index)
        if index > best_index or best < 0:
            best = k
            best_index = index
    return best
