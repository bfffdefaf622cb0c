"""Cholesky's factor of a symmetric matrix in rows of M, and what is solved by it."""

from __future__ import annotations

import math

from heavytail._typing import Matrix
from heavytail.kernels.jit import jit

__all__ = ["factorise", "invert", "substitute"]


@jit
def factorise(M: Matrix, A: int, L: int, size: int, mu: float, least: float) -> bool:
    """Rows L.. <- the lower factor of A + mu I, of which the lower triangle is read; A may be L.

    Pivots are at least ``least``. False, and NaN from there on, where one is not positive even so.
    O(size³).
    """
    definite = True
    for j in range(size):
        for i in range(j, size):
            total = M[A + i, j]
            if i == j:
                total += mu
            for k in range(j):
                total -= M[L + i, k] * M[L + j, k]
            if i > j:
                M[L + i, j] = total / M[L + j, j]
            elif max(total, least) > 0.0:
                M[L + j, j] = math.sqrt(max(total, least))
            else:
                M[L + j, j] = math.nan
                definite = False
    return definite


@jit
def substitute(M: Matrix, L: int, size: int, source: int, target: int, back: bool) -> None:
    """Row ``target`` <- L^-1 row ``source``, then L'^-1 of it where ``back``. O(size²)."""
    for i in range(size):
        total = M[source, i]
        for k in range(i):
            total -= M[L + i, k] * M[target, k]
        M[target, i] = total / M[L + i, i]
    if back:
        for i in range(size - 1, -1, -1):
            total = M[target, i]
            for k in range(i + 1, size):
                total -= M[L + k, i] * M[target, k]
            M[target, i] = total / M[L + i, i]


@jit
def invert(M: Matrix, A: int, L: int, target: int, column: int) -> float:
    """Rows ``target``.. <- A^-1, symmetric to the bit; log det A, NaN where A is not positive
    definite and nothing was written. Rows L.. take the factor, row ``column`` is room. O(size³).
    """
    size = M.shape[1]
    if not factorise(M, A, L, size, 0.0, 0.0):
        return math.nan
    log_det = 0.0
    for c in range(size):
        log_det += 2.0 * math.log(M[L + c, c])
        for i in range(size):
            M[column, i] = 1.0 if i == c else 0.0
        substitute(M, L, size, column, column, True)
        for i in range(c, size):
            M[target + i, c] = M[column, i]
            M[target + c, i] = M[column, i]
    return log_det
