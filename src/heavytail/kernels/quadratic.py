"""The minimiser of a quadratic over the ball, with its multiplier.

The quadratic theta'Q theta / 2 - c'theta lies in the rows of M behind the common ones: Q first, of
which the lower triangle is read, then c.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.cholesky import factorise, substitute
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE

__all__ = ["GRADIENT", "LINEAR", "NEXT", "extra_rows", "first_extra", "minimise_quadratic"]

# Rows of M, counted from first_extra + d, behind the quadratic part Q (d rows).
LINEAR: Final = 0  # c
NEXT: Final = 1  # the minimiser
GRADIENT: Final = 2
BEHIND: Final = 3

NEWTON_STEPS: Final = 100  # of the multiplier; never met
NORM_TOLERANCE: Final = 1e-14


def extra_rows(size: int) -> int:
    """Rows of M that a fit of ``size`` coordinates needs behind the common ones."""
    return size + BEHIND


@jit
def first_extra(size: int) -> int:
    """The first row of M behind the common ones: there Q begins."""
    return INVERSE + 2 * size + 1


@jit
def squared_row(M: Matrix, row: int) -> float:
    """‖row‖²."""
    total = 0.0
    for i in range(M.shape[1]):
        total += M[row, i] * M[row, i]
    return total


@jit
def minimise_quadratic(M: Matrix, ridge: float, bound: float) -> float:
    """Set NEXT to argmin_{‖theta‖ <= bound} theta'Q theta / 2 - c'theta; return its multiplier mu.

    (Q + mu I) theta = c with mu = 0 inside, else the root of ‖theta(mu)‖ = bound by Newton on
    1/‖theta(mu)‖, which rises to it from mu = 0 without overshooting. O(d³) per step.
    """
    size = M.shape[1]
    Q = first_extra(size)
    L = INVERSE + size
    behind = Q + size
    following = behind + NEXT
    half = INVERSE + 2 * size
    factorise(M, Q, L, size, 0.0, ridge)
    substitute(M, L, size, behind + LINEAR, following, True)
    norm = math.sqrt(squared_row(M, following))
    mu = 0.0
    if norm <= bound:
        return mu
    for _ in range(NEWTON_STEPS):
        if not (norm > bound * (1.0 + NORM_TOLERANCE)):
            break
        substitute(M, L, size, following, half, False)  # ‖half‖² = theta'(Q + mu I)^-1 theta
        step = (norm / bound - 1.0) * norm * norm / squared_row(M, half)
        if mu + step <= mu:
            break
        mu += step
        factorise(M, Q, L, size, mu, ridge)
        substitute(M, L, size, behind + LINEAR, following, True)
        norm = math.sqrt(squared_row(M, following))
    for i in range(size):  # back onto the sphere, which rounding left
        M[following, i] *= bound / norm
    return mu
