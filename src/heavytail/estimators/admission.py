"""Which rows a regression takes, and what is said of one that it does not."""

from __future__ import annotations

from typing import Final

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.jit import jit

__all__ = ["admit_rows", "first_unsquarable", "refusal"]

# What a batch is answered: OK, MISFIT, or PROBLEMS * row + problem of the first bad row.
OK: Final = 0
MISFIT: Final = -1
WILD: Final = -2  # sizes beyond ORDINARY, of rows or of the state: it may overflow
DOUBTFUL: Final = -3  # learned, but a row was so long that P may be lost to rounding
BAD_X: Final = 1
BAD_Y: Final = 2
BAD_SCALE: Final = 3
OVERFLOW: Final = 4
PROBLEMS: Final = 8

ORDINARY: Final = 1e40  # no step of such rows from such a state leaves the range
LARGEST_X: Final = 1e140  # a feature beyond cannot be squared and summed
LARGEST_Y: Final = 1e300

# Unsigned, for indices into P: a signed one numba tests for being negative at every use, and then
# LLVM does not pair neighbouring operations.
ZERO: Final = np.uint64(0)
ONE: Final = np.uint64(1)
TWO: Final = np.uint64(2)


@jit
def first_bad_row(X: Matrix, y: Vector, nu: Vector) -> int:
    """OK, or what is wrong with the first bad row; nu is empty where all are 1."""
    for t in range(y.shape[0]):
        for i in range(X.shape[1]):
            if not (abs(X[t, i]) <= LARGEST_X):
                return PROBLEMS * t + BAD_X
        if not (abs(y[t]) <= LARGEST_Y):
            return PROBLEMS * t + BAD_Y
        if nu.shape[0] > 0 and not (1.0 / LARGEST_X <= nu[t] <= LARGEST_X):
            return PROBLEMS * t + BAD_SCALE
    return OK


@jit
def wild_or_bad(X: Matrix, y: Vector, nu: Vector) -> int:
    """WILD, or what is wrong with the first bad row."""
    code = first_bad_row(X, y, nu)
    return code if code != OK else WILD


@jit
def admit_rows(X: Matrix, y: Vector, nu: Vector, far: float) -> int:
    """OK where all sizes are ordinary and no row is longer than ``far``, WILD where some are not
    but may be learned, or what is wrong with the first bad row.
    """
    for t in range(y.shape[0]):
        even, odd = 0.0, 0.0
        i = ZERO
        last = np.uint64(X.shape[1] - 1)
        row = np.uint64(t)
        while i < last:
            even += abs(X[row, i])
            odd += abs(X[row, i + ONE])
            i += TWO
        if i == last:
            even += abs(X[row, i])
        if not (even + odd <= far and abs(y[row]) <= ORDINARY):
            return wild_or_bad(X, y, nu)
    for t in range(nu.shape[0]):
        if not (1.0 / ORDINARY <= nu[t] <= ORDINARY):
            return wild_or_bad(X, y, nu)
    return OK


def first_unsquarable(y: FloatArray, nu: FloatArray) -> int:
    """OVERFLOW at the first response that least squares cannot take, as in a step."""
    size = np.abs(y / nu) if nu.shape[0] else np.abs(y)
    bad = np.flatnonzero(size > LARGEST_X)
    return PROBLEMS * int(bad[0]) + OVERFLOW if bad.size else OK


def refusal(code: int, X: FloatArray, y: FloatArray, nu: FloatArray) -> ValueError:
    """The error for a bad row."""
    row, problem = divmod(code, PROBLEMS)
    if problem == BAD_X:
        column = int(np.flatnonzero(~(np.abs(X[row]) <= LARGEST_X))[0])
        return ValueError(
            f"X[{row}, {column}] must be finite and at most {LARGEST_X:g} in size; got "
            f"{X[row, column]}. Nothing was learned."
        )
    if problem == BAD_Y:
        return ValueError(
            f"y[{row}] must be finite and at most {LARGEST_Y:g} in size; got {y[row]}. "
            "Nothing was learned."
        )
    if problem == OVERFLOW:
        return ValueError(
            f"y[{row}] = {float(y[row])!r} would take the estimate out of the floating-point "
            "range. Nothing was learned; change the unit of y."
        )
    return ValueError(
        f"sample_scale[{row}] must be a number above 0; got {nu[row]}. Nothing was learned."
    )
