"""Choosing by a linear index: argmax x'theta + beta ‖x‖_{V^-1} over the arms offered."""

from __future__ import annotations

import math

from heavytail._typing import Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    INVERSE,
    NO_ARM,
    RADIUS,
    THETA,
)

__all__ = ["select"]


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index; BAD_X or NO_ARM, and nothing changed, where the arms are not
    usable.

    The constant feature adds the same mean to every arm, so it enters the width alone. O(n d²).
    """
    size = arms.shape[1]
    best = NO_ARM
    best_index = -math.inf
    for i in range(arms.shape[0]):
        mean = 0.0
        length = 0.0
        half = 0.0  # x'P x / 2, from the lower triangle
        for j in range(size):
            mean += arms[i, j] * M[THETA, j]
            length += arms[i, j] * arms[i, j]
            row = 0.5 * M[INVERSE + j, j] * arms[i, j]
            for k in range(j):
                row += M[INVERSE + j, k] * arms[i, k]
            half += row * arms[i, j]
        if M.shape[1] > size:
            row = 0.5 * s[CONSTANT] * M[INVERSE + size, size]
            for k in range(size):
                row += M[INVERSE + size, k] * arms[i, k]
            half += s[CONSTANT] * row
        if not (length <= s[ARM_LIMIT]):
            return BAD_X
        index = mean + s[RADIUS] * math.sqrt(max(2.0 * half, 0.0))
        if index > best_index or best < 0:
            best = i
            best_index = index
    return best
