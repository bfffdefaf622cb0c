"""Whether the confidence set holds the truth: ‖theta_t - theta*‖_{V_t} against beta_t.

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
    SET_ANEW,
    THETA,
)

__all__ = ["distance", "ratio"]


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
