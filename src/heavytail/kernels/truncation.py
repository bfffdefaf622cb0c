"""Rewards truncated in the coordinates V^(-1/2) x: what TOFU and LOTUS estimate theta by.

    theta = V^(-1/2) [sum_s u_is y_s 1{|u_is y_s| <= b_t}]_i,    u_s = V^(-1/2) x_s

The sum is in the row SCRATCH; V^(-1/2) is the symmetric root of P, by Jacobi's rotations.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE, SCRATCH, THETA

__all__ = ["add_truncated", "begin", "end"]

SWEEPS: Final = 60  # never met: eight or so suffice
NEGLIGIBLE: Final = 1e-30  # squared, of an off-diagonal entry against the product of its diagonals


@jit
def rotate(M: Matrix, A: int, vectors: int, p: int, q: int) -> int:
    """Turn the plane (p, q) so that A[p, q] vanishes; 0 where it is nothing already."""
    off = M[A + p, q]
    if not (off * off > NEGLIGIBLE * abs(M[A + p, p] * M[A + q, q])):
        return 0
    ratio = (M[A + q, q] - M[A + p, p]) / (2.0 * off)
    t = math.copysign(1.0 / (abs(ratio) + math.sqrt(ratio * ratio + 1.0)), ratio)
    c = 1.0 / math.sqrt(t * t + 1.0)
    s = t * c
    size = M.shape[1]
    for k in range(size):
        first = M[A + k, p]
        second = M[A + k, q]
        M[A + k, p] = c * first - s * second
        M[A + k, q] = s * first + c * second
    for k in range(size):
        first = M[A + p, k]
        second = M[A + q, k]
        M[A + p, k] = c * first - s * second
        M[A + q, k] = s * first + c * second
        first = M[vectors + p, k]
        second = M[vectors + q, k]
        M[vectors + p, k] = c * first - s * second
        M[vectors + q, k] = s * first + c * second
    return 1


@jit
def symmetric_root(M: Matrix, root: int, vectors: int) -> None:
    """Rows ``root``.. <- P^(1/2), the positive one. Rows ``vectors``.. take the eigenvectors.

    Works in the room for a factor of P. O(d³) per sweep; one sweep at d = 2.
    """
    size = M.shape[1]
    A = INVERSE + size
    for i in range(size):
        for j in range(size):
            M[A + i, j] = M[INVERSE + i, j]
            M[vectors + i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        turned = 0
        for p in range(size - 1):
            for q in range(p + 1, size):
                turned += rotate(M, A, vectors, p, q)
        if turned == 0:
            break
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(size):  # row k of the vectors is the k-th
                value = math.sqrt(max(M[A + k, k], 0.0))
                total += value * M[vectors + k, i] * M[vectors + k, j]
            M[root + i, j] = total
            M[root + j, i] = total


@jit
def begin(M: Matrix, root: int) -> None:
    """Rows ``root``.. <- V^(-1/2), with as many rows of room behind them; nothing is summed yet."""
    symmetric_root(M, root, root + M.shape[1])
    for i in range(M.shape[1]):
        M[SCRATCH, i] = 0.0


@jit
def add_truncated(M: Matrix, root: int, at: int, reward: float, level: float) -> bool:
    """Add a round, its x in row ``at``; True where it is truncated in some coordinate. O(d²)."""
    truncated = False
    for i in range(M.shape[1]):
        u = 0.0
        for j in range(M.shape[1]):
            u += M[root + i, j] * M[at, j]
        term = u * reward
        if abs(term) <= level:
            M[SCRATCH, i] += term
        else:
            truncated = True
    return truncated


@jit
def end(M: Matrix, root: int) -> None:
    """theta <- V^(-1/2) times the sum."""
    for i in range(M.shape[1]):
        total = 0.0
        for j in range(M.shape[1]):
            total += M[root + i, j] * M[SCRATCH, j]
        M[THETA, i] = total
