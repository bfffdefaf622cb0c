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
    ROUNDS,
    STEP,
    THETA,
)

__all__ = ["SCORES", "choose", "choose_offered", "follow", "rate", "select", "select_kept"]

# Rows of a pool's scores, (SCORES, n).
SQUARED: Final = 0  # x'P x
MEAN: Final = 1  # x'theta, without the constant feature: it adds the same to every arm
PRODUCT: Final = 2  # room: x'u
AT: Final = 3  # first entry: the round the scores stand at; -1 before they were rated
AGE: Final = 4  # first entry: updates followed since they were rated
SCORES: Final = 5

LIFETIME: Final = 10_000  # updates after which a pool is rated anew

MARGIN: Final = 1e-9  # relative: arms this near the best are compared by the index itself


@jit
def may_win(mean: float, squared: float, widened: float, best: float) -> bool:
    """Whether mean + radius sqrt(squared) can exceed ``best``; widened = radius² (1 + MARGIN).

    The root is the dearest step of a choice, and most arms are plainly worse than the best so far.
    """
    gap = best - mean
    return gap <= 0.0 or widened * squared >= gap * gap


@jit
def index_of(mean: float, squared: float, radius: float) -> float:
    """mean + radius sqrt(squared)."""
    return mean + radius * math.sqrt(max(squared, 0.0))


@jit
def usable(arms: Matrix, limit: float) -> bool:
    """Whether every arm is finite and its squared length at most ``limit``. O(n d)."""
    for i in range(arms.shape[0]):
        length = 0.0
        for j in range(arms.shape[1]):
            length += arms[i, j] * arms[i, j]
        if not (length <= limit):
            return False
    return True


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index; BAD_X or NO_ARM, and nothing changed, where the arms are not
    usable.

    The constant feature adds the same mean to every arm, so it enters the width alone. Arms are
    taken four at a time, the last one again where there are fewer, so that a row of P is read once
    for four. O(n d²).
    """
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    size = arms.shape[1]
    last = arms.shape[0] - 1
    radius = s[RADIUS]
    widened = radius * radius * (1.0 + MARGIN)
    best = NO_ARM
    best_index = -math.inf
    for a in range(0, arms.shape[0], 4):
        b = min(a + 1, last)
        c = min(a + 2, last)
        d = min(a + 3, last)
        mean_a = mean_b = mean_c = mean_d = 0.0
        half_a = half_b = half_c = half_d = 0.0  # x'P x / 2, from the lower triangle
        for j in range(size):
            p = M[THETA, j]
            mean_a += p * arms[a, j]
            mean_b += p * arms[b, j]
            mean_c += p * arms[c, j]
            mean_d += p * arms[d, j]
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
        if may_win(mean_a, 2.0 * half_a, widened, best_index):
            index = index_of(mean_a, 2.0 * half_a, radius)
            if index > best_index:
                best = a
                best_index = index
        if may_win(mean_b, 2.0 * half_b, widened, best_index):
            index = index_of(mean_b, 2.0 * half_b, radius)
            if index > best_index:
                best = b
                best_index = index
        if may_win(mean_c, 2.0 * half_c, widened, best_index):
            index = index_of(mean_c, 2.0 * half_c, radius)
            if index > best_index:
                best = c
                best_index = index
        if may_win(mean_d, 2.0 * half_d, widened, best_index):
            index = index_of(mean_d, 2.0 * half_d, radius)
            if index > best_index:
                best = d
                best_index = index
    return best


@jit
def multiply(pool: Matrix, size: int, M: Matrix, row: int, scores: Matrix, into: int) -> None:
    """scores[into] = pool[:size]' M[row, :size], four features a pass. O(n size)."""
    whole = size - size % 4
    for i in range(pool.shape[1]):
        scores[into, i] = 0.0
    for j in range(0, whole, 4):
        a = M[row, j]
        b = M[row, j + 1]
        c = M[row, j + 2]
        d = M[row, j + 3]
        for i in range(pool.shape[1]):
            scores[into, i] += (a * pool[j, i] + b * pool[j + 1, i]) + (
                c * pool[j + 2, i] + d * pool[j + 3, i]
            )
    for j in range(whole, size):
        a = M[row, j]
        for i in range(pool.shape[1]):
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
        multiply(pool, min(j, size), M, INVERSE + j, scores, PRODUCT)
        half = 0.5 * M[INVERSE + j, j]
        for i in range(pool.shape[1]):
            x = pool[j, i] if j < size else s[CONSTANT]
            scores[SQUARED, i] += 2.0 * (scores[PRODUCT, i] + half * x) * x
    multiply(pool, size, M, THETA, scores, MEAN)
    return OK


@jit
def follow(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> None:
    """Bring the scores over the last update, which left k, c and u in the state. O(n d)."""
    size = pool.shape[0]
    gain = s[GAIN]
    step = s[STEP]
    if gain != 0.0 or step != 0.0:
        # The last feature or two join the pass that moves the scores, so that a plane takes that
        # pass alone.
        whole = (size - 1) // 2 * 2
        last = size - 1
        a = M[DIRECTION, whole]
        b = M[DIRECTION, last] if last > whole else 0.0
        constant = s[CONSTANT] * M[DIRECTION, size] if M.shape[1] > size else 0.0
        if whole > 0:
            multiply(pool, whole, M, DIRECTION, scores, PRODUCT)
            for i in range(pool.shape[1]):
                g = scores[PRODUCT, i] + (a * pool[whole, i] + b * pool[last, i])
                scores[MEAN, i] += step * g
                scores[SQUARED, i] -= gain * (g + constant) * (g + constant)
        else:
            for i in range(pool.shape[1]):
                g = a * pool[whole, i] + b * pool[last, i]
                scores[MEAN, i] += step * g
                scores[SQUARED, i] -= gain * (g + constant) * (g + constant)
    if s[PROJECTED] != 0.0:  # theta moved otherwise
        multiply(pool, size, M, THETA, scores, MEAN)


@jit
def choose(s: Vector, scores: Matrix) -> int:
    """The first arm of the pool of largest index. O(n)."""
    radius = s[RADIUS]
    widened = radius * radius * (1.0 + MARGIN)
    best = NO_ARM
    best_index = -math.inf
    for i in range(scores.shape[1]):
        if may_win(scores[MEAN, i], scores[SQUARED, i], widened, best_index):
            index = index_of(scores[MEAN, i], scores[SQUARED, i], radius)
            if index > best_index:
                best = i
                best_index = index
    return best


@jit
def choose_offered(s: Vector, scores: Matrix, offered: IntArray, t: int) -> int:
    """The place in row t of ``offered`` of the first arm of largest index. O(k)."""
    radius = s[RADIUS]
    widened = radius * radius * (1.0 + MARGIN)
    best = NO_ARM
    best_index = -math.inf
    for k in range(offered.shape[1]):
        i = offered[t, k]
        if may_win(scores[MEAN, i], scores[SQUARED, i], widened, best_index):
            index = index_of(scores[MEAN, i], scores[SQUARED, i], radius)
            if index > best_index:
                best = k
                best_index = index
    return best


@jit
def select_kept(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> int:
    """What :func:`select` chooses from the pool, its scores brought up to date first.

    They are followed over one update and rated anew after more, or after LIFETIME updates.
    """
    behind = s[ROUNDS] - scores[AT, 0]
    if behind == 1.0 and scores[AT, 0] >= 0.0 and scores[AGE, 0] < LIFETIME:
        follow(s, M, pool, scores)
        scores[AGE, 0] += 1.0
    elif behind != 0.0:
        scores[AT, 0] = -1.0
        if rate(s, M, pool, scores) < 0:
            return BAD_X
        scores[AGE, 0] = 0.0
    scores[AT, 0] = s[ROUNDS]
    return choose(s, scores)
