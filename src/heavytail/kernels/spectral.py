"""The symmetric square root of P = V^-1, by Jacobi's rotations."""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE

__all__ = ["symmetric_root"]

SWEEPS: Final = 60  # never met: eight or so suffice
NEGLIGIBLE: Final = 1e-30  # squared, of an off-diagonal entry against the product of its diagonals


@jit
def symmetric_root(M: Matrix, root: int, vectors: int) -> None:
    """Rows ``root``.. <- P^(1/2), the positive one. Rows ``vectors``.. take the eigenvectors.

    Works in the room for a factor of P. O(d³) a sweep; one sweep at d = 2.
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
