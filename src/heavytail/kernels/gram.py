"""The inverse Gram matrix P = V^-1, the rows INVERSE.. of a packed M: rank-one update, norms.

V is never formed. After 10^7 updates the symmetric form below is off by 1e-12, where the usual
Sherman-Morrison form is off by 1e-8 and a refactored running sum of V is worse than either.

Kernels index into whole arrays: in a compiled inner loop a view, or a call that passes arrays on,
costs more than a small d's arithmetic.
"""

from __future__ import annotations

import math

from heavytail._typing import Matrix, Vector
from heavytail.kernels.fused import fused
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import DIRECTION, FEATURE, INVERSE, SCRATCH, THETA

__all__ = [
    "dot",
    "least_form",
    "multiply",
    "predict",
    "shrink",
    "shrink_block",
    "squared_norm",
    "transform",
]

BILLIONTH = 1e-9  # relative: by less two sides of an inequality differ by rounding
LAST_DIGIT = 1e-16


@jit
def dot(x: Vector, y: Vector) -> float:
    """x'y."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@jit
def squared_norm(x: Vector) -> float:
    """‖x‖²; NaN or infinite exactly when x is not finite or too large to square."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    return total


@jit
def predict(M: Matrix) -> float:
    """theta'x for the x laid into the row FEATURE."""
    total = 0.0
    for i in range(M.shape[1]):
        total += M[THETA, i] * M[FEATURE, i]
    return total


@fused
@jit
def _add_rows(M: Matrix, block: int, into: int, whole: int) -> None:
    """M[into] += sum of x_j P_j over the first ``whole`` rows of P, four per pass over M[into]."""
    for j in range(0, whole, 4):
        a = M[FEATURE, j]
        b = M[FEATURE, j + 1]
        c = M[FEATURE, j + 2]
        d = M[FEATURE, j + 3]
        for i in range(M.shape[1]):
            total = a * M[block + j, i] + M[into, i]
            total = b * M[block + j + 1, i] + total
            total = c * M[block + j + 2, i] + total
            M[into, i] = d * M[block + j + 3, i] + total


@jit
def multiply(M: Matrix, block: int, into: int) -> float:
    """Set M[into] = P x for x in the row FEATURE and the symmetric P that begins at the row
    ``block``; return x'P x. O(d²).
    """
    size = M.shape[1]
    whole = size - size % 4
    for i in range(size):
        M[into, i] = 0.0
    # By rows of P, which is symmetric: the inner loop is then a vector's.
    if whole > 0:
        _add_rows(M, block, into, whole)
    for j in range(whole, size):
        x = M[FEATURE, j]
        for i in range(size):
            M[into, i] += x * M[block + j, i]
    total = 0.0
    for i in range(size):
        total += M[into, i] * M[FEATURE, i]
    most = (1.0 + BILLIONTH) * max(total, 0.0)
    lost = False
    for i in range(size):  # without a branch, which took longer
        lost |= M[into, i] * M[into, i] > most * M[block + i, i]
    return least_form(M, into, block, total) if lost else max(total, 0.0)


@jit
def transform(M: Matrix) -> float:
    """Set u = V^-1 x (row DIRECTION) for x in the row FEATURE; return ‖x‖²_{V^-1}. O(d²)."""
    return multiply(M, INVERSE, DIRECTION)


@jit
def least_form(M: Matrix, u: int, P: int, total: float) -> float:
    """x'P x, which came out as ``total``, or the least that it can be by (P x)_i² <= P_ii x'P x,
    where that is more: rounding has lost it then. O(d).

    Row ``u`` holds P x, and P begins at its row. A V that weighs one direction 1e16 times as much
    as another leaves a P of rounding alone there, and x'P x may come out as anything, below 0 too.
    A step by it would let P grow without end; a step by the least form takes at most P_ii off P_ii,
    or the last digit of the largest of them.
    """
    widest = 0.0
    for i in range(M.shape[1]):
        widest = max(widest, abs(M[P + i, i]))
    least = max(total, 0.0)
    for i in range(M.shape[1]):
        square = M[u, i] * M[u, i] / (1.0 + BILLIONTH)
        if square > least * M[P + i, i]:
            least = max(least, square / max(M[P + i, i], LAST_DIGIT * widest))
    return least


@jit
def shrink_block(M: Matrix, block: int, row: int, gain: float) -> None:
    """P <- P - gain u u' for the P that begins at the row ``block`` and u in ``row``, both halves
    written alike. O(d²).

    With u = P x and gain = c / (1 + c x'P x) this is the inverse after V <- V + c x x'. The root
    of the gain is taken first, so that entry (i, j) and entry (j, i) are the same product and P
    stays symmetric to the bit: nothing here is fused, or the halves might differ.
    """
    size = M.shape[1]
    root = math.sqrt(gain)
    for j in range(size):
        M[SCRATCH, j] = root * M[row, j]
    for i in range(size):
        ui = M[SCRATCH, i]
        for j in range(size):
            M[block + i, j] -= ui * M[SCRATCH, j]


@jit
def shrink(M: Matrix, gain: float) -> None:
    """V^-1 <- V^-1 - gain u u', u in the row DIRECTION. O(d²)."""
    shrink_block(M, INVERSE, DIRECTION, gain)
