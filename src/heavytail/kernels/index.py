"""Choosing by a linear index: argmax x'theta + beta ‖x‖_{V^-1} over the arms offered.

Two ways to the same arm. :func:`select` takes any arms and forms x'P x for each, O(n d²).
:func:`select_kept` keeps the scores of a pool of arms (see :mod:`heavytail.kernels.scores`), O(n d)
a round. From WIDE features on, arms of any kind are better laid out as a pool first:
:func:`select_again`, which also notices when they are those of the round before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from heavytail._typing import IntArray, Matrices, Matrix, Vector
from heavytail.kernels.jit import jit, specialise
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    INVERSE,
    NO_ARM,
    RADIUS,
    ROUNDS,
    THETA,
)
from heavytail.kernels.scores import AGE, AT, MEAN, SCORES, SQUARED, follow, rate

__all__ = [
    "LINEAR",
    "MEAN",
    "SCORES",
    "SQUARED",
    "WIDE",
    "Scoring",
    "choose",
    "choose_offered",
    "follow",
    "rate",
    "scoring",
    "select",
    "select_again",
    "select_each",
    "select_kept",
]

LIFETIME: Final = 10_000  # updates after which a pool is rated anew
WIDE: Final = 12  # features from which laying arms out by feature costs less than it saves

TIE: Final = 1e-10  # relative: indices this near are equal, so that every engine chooses alike
MARGIN: Final = 1e-9  # relative: arms this near the best are compared by the index itself


@jit
def beyond(index: float) -> float:
    """Return the value that another index must exceed to be larger by more than rounding."""
    return index + TIE * abs(index)


@jit
def may_win(mean: float, squared: float, widened: float, best: float) -> bool:
    """Tell whether mean + radius sqrt(squared) can exceed ``best``; widened = radius² (1 + MARGIN).

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
    """Tell whether every arm is finite and its squared length at most ``limit``. O(n d)."""
    for i in range(arms.shape[0]):
        length = 0.0
        for j in range(arms.shape[1]):
            length += arms[i, j] * arms[i, j]
        if not (length <= limit):
            return False
    return True


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index; BAD_X or NO_ARM where the arms are not usable.

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
                best_index = beyond(index)
        if may_win(mean_b, 2.0 * half_b, widened, best_index):
            index = index_of(mean_b, 2.0 * half_b, radius)
            if index > best_index:
                best = b
                best_index = beyond(index)
        if may_win(mean_c, 2.0 * half_c, widened, best_index):
            index = index_of(mean_c, 2.0 * half_c, radius)
            if index > best_index:
                best = c
                best_index = beyond(index)
        if may_win(mean_d, 2.0 * half_d, widened, best_index):
            index = index_of(mean_d, 2.0 * half_d, radius)
            if index > best_index:
                best = d
                best_index = beyond(index)
    return best


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
                best_index = beyond(index)
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
                best_index = beyond(index)
    return best


@jit
def select_kept(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> int:
    """Choose from the pool as :func:`select` does, once its scores are up to date.

    The scores are followed over one update and rated anew after more, or after LIFETIME updates.
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


@jit
def lay(arms: Matrix, rows: Matrix, pool: Matrix) -> None:
    """Copy ``arms`` into ``rows`` and, by feature, into ``pool``. O(n d)."""
    for i in range(arms.shape[0]):
        for j in range(arms.shape[1]):
            rows[i, j] = arms[i, j]
            pool[j, i] = arms[i, j]


@jit
def same(arms: Matrix, rows: Matrix) -> bool:
    """Tell whether the two hold the same numbers; NaN is the same as nothing. O(n d), or less."""
    for i in range(arms.shape[0]):
        equal = True
        for j in range(arms.shape[1]):
            equal = equal & (arms[i, j] == rows[i, j])
        if not equal:
            return False
    return True


@jit
def select_again(
    s: Vector, M: Matrix, arms: Matrix, rows: Matrix, pool: Matrix, scores: Matrix
) -> int:
    """Choose from ``arms`` as :func:`select` does; O(n d) if they are the same as last time.

    ``rows``, ``pool`` and ``scores`` are the caller's, of the size of ``arms`` and for its state
    alone; they hold the arms chosen from last, compared entry by entry, and what is known of them.
    """
    if arms.shape[0] == 0:
        return NO_ARM
    if not same(arms, rows):
        lay(arms, rows, pool)
        scores[AT, 0] = -1.0
    return select_kept(s, M, pool, scores)


@jit
def select_each(
    s: Vector,
    M: Matrix,
    sets: Matrices,
    rows: Matrix,
    pool: Matrix,
    scores: Matrix,
    choices: IntArray,
) -> int:
    """:func:`select_again` for every set of ``sets`` (b, n, d); -1, or the first set refused."""
    for b in range(sets.shape[0]):
        choices[b] = select_again(s, M, sets[b], rows, pool, scores)
        if choices[b] < 0:
            return b
    return -1


class Scoring(NamedTuple):
    """The kernels of one kind of index: from the state alone, and from scores that are kept."""

    select: Callable[..., int]
    rate: Callable[..., int]
    follow: Callable[..., None]
    choose: Callable[..., int]
    choose_offered: Callable[..., int]
    select_kept: Callable[..., int]
    select_again: Callable[..., int]
    select_each: Callable[..., int]
    rows: int  # of a pool's scores


LINEAR: Final = Scoring(
    select,
    rate,
    follow,
    choose,
    choose_offered,
    select_kept,
    select_again,
    select_each,
    SCORES,
)


def scoring(
    name: str,
    *,
    select: Callable[..., int],
    rate: Callable[..., int],
    follow: Callable[..., None],
    choose: Callable[..., int],
    choose_offered: Callable[..., int],
    rows: int,
) -> Scoring:
    """Another kind of index, kept as the linear one is: ``rows`` for its scores, at least SCORES.

    The kernels take what their namesakes here take.
    """

    def again(kernel: Callable[..., int], **bindings: Callable[..., object]) -> Callable[..., int]:
        template = getattr(kernel, "py_func", kernel)
        return specialise(template, f"{template.__name__}_{name}", **bindings)

    kept = again(select_kept, rate=rate, follow=follow, choose=choose)
    shown = again(select_again, select_kept=kept)
    each = again(select_each, select_again=shown)
    return Scoring(select, rate, follow, choose, choose_offered, kept, shown, each, rows)
