"""The singular values and vectors of a small matrix, by Jacobi's rotations of its rows.

One-sided: rows are turned in pairs until all are orthogonal. Row i is then sigma_i v_i', and the
rotations, applied to the identity, are the u_i': an orthonormal basis even where sigma_i = 0.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.jit import jit

__all__ = ["complete", "orthogonalise"]

SWEEPS: Final = 60  # never met: ten or so suffice
ORTHOGONAL: Final = 1e-15  # of two rows' lengths: a smaller product is rounding
NOTHING: Final = 1e-15  # of the longest row: a shorter one is rounding


@jit
def product(M: Matrix, one: int, other: int, columns: int) -> float:
    """The inner product of two rows, of their first ``columns``."""
    total = 0.0
    for j in range(columns):
        total += M[one, j] * M[other, j]
    return total


@jit
def turn_rows(M: Matrix, one: int, other: int, columns: int, c: float, s: float) -> None:
    """Turn two rows by the angle of cosine c and sine s."""
    for j in range(columns):
        first = M[one, j]
        second = M[other, j]
        M[one, j] = c * first - s * second
        M[other, j] = s * first + c * second


@jit
def swap_rows(M: Matrix, one: int, other: int, columns: int) -> None:
    """Exchange two rows."""
    for j in range(columns):
        M[one, j], M[other, j] = M[other, j], M[one, j]


@jit
def sweep(M: Matrix, A: int, U: int, rows: int, columns: int, least: float) -> int:
    """Turn every pair of rows longer than ``least`` once; how many were not orthogonal."""
    turned = 0
    for p in range(rows - 1):
        for q in range(p + 1, rows):
            alpha = math.sqrt(product(M, A + p, A + p, columns))
            beta = math.sqrt(product(M, A + q, A + q, columns))
            gamma = product(M, A + p, A + q, columns)
            if min(alpha, beta) <= least or abs(gamma) <= ORTHOGONAL * alpha * beta:
                continue
            ratio = (beta - alpha) * (beta + alpha) / (2.0 * gamma)
            t = math.copysign(1.0 / (abs(ratio) + math.hypot(ratio, 1.0)), ratio)
            c = 1.0 / math.hypot(t, 1.0)
            turn_rows(M, A + p, A + q, columns, c, t * c)
            turn_rows(M, U + p, U + q, rows, c, t * c)
            turned += 1
    return turned


@jit
def orthogonalise(M: Matrix, A: int, U: int, rows: int, columns: int) -> None:
    """Rows A.. (rows x columns) <- sigma_i v_i', the longest first; rows U.. <- u_i'.

    The matrix that was there is the sum of u_i times row i. O(rows² columns) a sweep.
    """
    longest = 0.0
    for i in range(rows):
        longest = max(longest, math.sqrt(product(M, A + i, A + i, columns)))
        for j in range(rows):
            M[U + i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        if sweep(M, A, U, rows, columns, NOTHING * longest) == 0:
            break
    for i in range(rows):
        best = i
        for k in range(i + 1, rows):
            if product(M, A + k, A + k, columns) > product(M, A + best, A + best, columns):
                best = k
        if best != i:
            swap_rows(M, A + i, A + best, columns)
            swap_rows(M, U + i, U + best, rows)


@jit
def complete(M: Matrix, A: int, V: int, rows: int, columns: int, wanted: int) -> None:
    """Rows V.. <- ``wanted`` orthonormal v_i': rows A.. at length one, and where those are
    nothing, or run out, the unit vectors that lie most outside.
    """
    first = math.sqrt(product(M, A, A, columns))
    for i in range(wanted):
        length = math.sqrt(product(M, A + i, A + i, columns)) if i < rows else 0.0
        if length > 1e-10 * first:
            for j in range(columns):
                M[V + i, j] = M[A + i, j] / length
            clear(M, V, i, columns)  # rounding: a small row is orthogonal to fewer digits
            continue
        best = 0
        least = math.inf
        for j in range(columns):
            covered = 0.0
            for k in range(i):
                covered += M[V + k, j] * M[V + k, j]
            if covered < least:
                best = j
                least = covered
        for j in range(columns):
            M[V + i, j] = 1.0 if j == best else 0.0
        clear(M, V, i, columns)


@jit
def clear(M: Matrix, V: int, i: int, columns: int) -> None:
    """Make row V + i orthogonal to those before it, and of length one; twice, which is enough."""
    for _ in range(2):
        for k in range(i):
            overlap = product(M, V + k, V + i, columns)
            for j in range(columns):
                M[V + i, j] -= overlap * M[V + k, j]
        length = math.sqrt(product(M, V + i, V + i, columns))
        for j in range(columns):
            M[V + i, j] /= length
