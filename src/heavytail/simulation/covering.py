"""The distance of theta_t to the truth in radii: above 1 the confidence set does not hold it.

V_t is summed beside the policy from the weights its own updates had, in rows of M behind all that
the policy uses, so the check does not lean on the inverse it checks.
"""

from __future__ import annotations

import math

from heavytail._typing import Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    DIRECTION,
    FEATURE,
    GAIN,
    INVERSE,
    PROJECTED,
    RADIUS,
    SCRATCH,
    SET_ANEW,
    THETA,
)
from heavytail.policies.core.sharp import gram_row

__all__ = ["distance", "ratio", "sharp_ratio"]


@jit
def ratio(s: Vector, M: Matrix, truth: Vector) -> float:
    """Bring V, the last rows of M, over the last update; the distance to the truth in radii."""
    size = M.shape[1]
    V = M.shape[0] - size
    squared = 0.0  # ‖x‖² under the P of before, from u = P x
    for i in range(size):
        squared += M[FEATURE, i] * M[DIRECTION, i]
    weight = s[GAIN] / (1.0 - s[GAIN] * squared)  # gain = c / (1 + c ‖x‖²), undone
    for i in range(size):
        for j in range(size):
            if s[PROJECTED] == SET_ANEW:
                M[V + i, j] = 1.0 / M[INVERSE + i, i] if i == j else 0.0
            else:
                M[V + i, j] += weight * M[FEATURE, i] * M[FEATURE, j]
    return distance(M, truth) / s[RADIUS]


@jit
def sharp_ratio(s: Vector, M: Matrix, truth: Vector) -> float:
    """:func:`ratio` for the sharp width, whose set is that of V A^-1 V; A^-1 is the policy's."""
    size = M.shape[1]
    V, A = M.shape[0] - size, gram_row(M) + size
    known = 0.0  # x'V^-1 x under the V of before
    for i in range(size):
        known += M[FEATURE, i] * M[DIRECTION, i]
    weight = s[GAIN] / (1.0 - s[GAIN] * known)
    total = 0.0
    for i in range(size):
        M[SCRATCH, i] = 0.0
        for j in range(size):
            M[V + i, j] += weight * M[FEATURE, i] * M[FEATURE, j]
            M[SCRATCH, i] += M[V + i, j] * (M[THETA, j] - truth[j])
    for i in range(size):
        for j in range(size):
            total += M[SCRATCH, i] * M[A + i, j] * M[SCRATCH, j]
    return math.sqrt(max(total, 0.0)) / s[RADIUS]


@jit
def distance(M: Matrix, truth: Vector) -> float:
    """‖theta - truth‖_V; a coefficient past the truth's length (the intercept) is at its best."""
    full = M.shape[1]
    size = truth.shape[0]
    V = M.shape[0] - full
    total = 0.0
    for i in range(size):
        for j in range(size):
            total += (M[THETA, i] - truth[i]) * M[V + i, j] * (M[THETA, j] - truth[j])
    if full > size:
        cross = 0.0
        for j in range(size):
            cross += M[V + size, j] * (M[THETA, j] - truth[j])
        total -= cross * cross / M[V + size, size]
    return math.sqrt(max(total, 0.0))
