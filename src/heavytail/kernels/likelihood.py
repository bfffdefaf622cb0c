"""The penalised maximum likelihood over kept rows, with a link: argmin over the ball of

    (lambda/2)‖theta‖² + sum of m(x'theta) - y x'theta,    m' = mu.

A row of H is all rounds of one x: x, the sum of their y, and how many they are. Newton's model of
the loss at theta is a quadratic, whose minimiser over the ball is where the next step leads; a step
that passes far beyond the lowest point along it is halved. The first step of a round takes the new
reward by its loss itself and those before it by their last model, which is stable whatever y, and
leaves little to do.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.cholesky import factorise, substitute
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import FEATURE, INVERSE, SCRATCH
from heavytail.kernels.linked import implicit_step
from heavytail.kernels.links import link_mean, link_slope
from heavytail.kernels.m_estimate import TARGET, kkt_residual, model_step, scan, take_step
from heavytail.kernels.quadratic import (
    GRADIENT,
    LINEAR,
    NEXT,
    first_extra,
    squared_row,
)

__all__ = ["COUNT", "ahead", "fit_likelihood", "row_of", "scan_likelihood"]

COUNT: Final = TARGET + 1  # a column of H, counted from behind the features

TOLERANCE: Final = 1e-14  # KKT residual, relative to the sum of the sizes of its terms: rounding
STALLED: Final = 1e-12  # below this a residual that no longer halves is rounding too
NEAR: Final = 1e-7  # below this steps are safe, and slopes along them soon rounding
BOLD_STEPS: Final = 30  # that may pass the lowest point by a little; later ones may not
MOST_STEPS: Final = 300  # never met
HALVINGS: Final = 80
WIDEST: Final = 1e150  # past this a square leaves the floating-point range


@jit
def row_of(M: Matrix, H: Matrix, count: int) -> int:
    """The row of the x that was measured last; ``count`` where it is new. O(count d)."""
    size = M.shape[1]
    for row in range(count):
        i = 0
        while i < size and H[row, i] == M[FEATURE, i]:
            i += 1
        if i == size:
            return row
    return count


@jit
def scan_likelihood(M: Matrix, H: Matrix, count: int, at: int, ridge: float, link: float) -> float:
    """Set the gradient and Q, the curvature, at the theta in row ``at``; return the sum of the
    sizes of the gradient's terms. One pass, O(count d²).
    """
    size = M.shape[1]
    Q = first_extra(size)
    gradient = Q + size + GRADIENT
    terms = scan(M, H, 0, at, ridge, 0.0, False, 0, -1)  # of no row: the ridge's
    for row in range(count):
        z = 0.0
        length = 0.0
        for i in range(size):
            z += H[row, i] * M[at, i]
            length += abs(H[row, i])
        often = H[row, size + COUNT]
        mean = often * link_mean(link, z)
        y = H[row, size + TARGET]
        slope = often * link_slope(link, z)
        terms += (abs(mean) + abs(y)) * length
        for i in range(size):
            M[gradient, i] += (mean - y) * H[row, i]
            scaled = slope * H[row, i]
            for j in range(i + 1):
                M[Q + i, j] += scaled * H[row, j]
    return terms


@jit
def ahead(M: Matrix, y: float, at: int, ridge: float, bound: float, link: float) -> None:
    """Move theta to where the x that was measured last and its y lead, by their loss itself, with
    the rounds before by the Q that their fit left; shortened where it leaves the ball. A start,
    O(d³).
    """
    size = M.shape[1]
    Q = first_extra(size)
    L = INVERSE + size
    behind = Q + size
    factorise(M, Q, L, size, 0.0, ridge)
    z = 0.0
    for i in range(size):
        M[behind + LINEAR, i] = M[FEATURE, i]
        z += M[FEATURE, i] * M[at, i]
    substitute(M, L, size, behind + LINEAR, behind + NEXT, True)
    squared = 0.0
    for i in range(size):
        squared += M[FEATURE, i] * M[behind + NEXT, i]
    step = implicit_step(link, y, z, squared, 1.0, 1.0)
    for i in range(size):
        M[behind + NEXT, i] = M[at, i] + step * M[behind + NEXT, i]
    norm = math.sqrt(squared_row(M, behind + NEXT))
    if not (norm <= WIDEST):
        return
    if norm > bound:
        for i in range(size):
            M[behind + NEXT, i] *= bound / norm
    take_step(M, at)


@jit
def rise(M: Matrix, at: int) -> float:
    """The slope of the loss at the theta in row ``at``, along NEXT - SCRATCH."""
    behind = first_extra(M.shape[1]) + M.shape[1]
    total = 0.0
    for i in range(M.shape[1]):
        total += M[behind + GRADIENT, i] * (M[behind + NEXT, i] - M[SCRATCH, i])
    return total


@jit
def fit_likelihood(
    M: Matrix, H: Matrix, count: int, at: int, ridge: float, bound: float, link: float
) -> int:
    """Move the theta in row ``at`` to the minimiser, from where it is; return the passes taken, as
    a number below 0 where it was not found: a reward may be so large that no step leads to it.

    Leaves the gradient and Q at it in M. Each pass costs O(count d²), and there are two to four of
    them where the start is near.
    """
    size = M.shape[1]
    following = first_extra(size) + size + NEXT
    terms = scan_likelihood(M, H, count, at, ridge, link)
    passes = 1
    last = math.inf
    for k in range(MOST_STEPS):
        left = kkt_residual(M, at, bound)
        if left <= TOLERANCE * terms or (left <= STALLED * terms and left > 0.5 * last):
            break
        last = left
        model_step(M, at, ridge, bound)
        for i in range(size):
            M[SCRATCH, i] = M[at, i]
        allowed = 0.5 * abs(rise(M, at)) if k < BOLD_STEPS else 0.0
        if left <= NEAR * terms:
            allowed = math.inf
        share = 1.0
        for _ in range(HALVINGS):
            for i in range(size):
                M[at, i] = M[SCRATCH, i] + share * (M[following, i] - M[SCRATCH, i])
            terms = scan_likelihood(M, H, count, at, ridge, link)
            passes += 1
            if rise(M, at) <= allowed:
                break
            share *= 0.5
    return passes if kkt_residual(M, at, bound) <= NEAR * terms else -passes
