"""What the tests of kernels share: a packed state with everything in it out of the ordinary."""

from __future__ import annotations

import math

import numpy as np

from heavytail.kernels.layout import (
    ARM_LIMIT,
    COMMON,
    CONSTANT,
    INVERSE,
    RADIUS,
    THETA_BOUND,
    rows,
)


def positive(rng, size):
    """A symmetric positive definite matrix, symmetric to the bit."""
    root = rng.standard_normal((size, size))
    P = root @ root.T / size + 0.1 * np.eye(size)
    return (P + P.T) / 2.0


def state(rng, size):
    """s and M for an estimate of ``size`` coordinates: P and theta random, all room filled."""
    s = np.zeros(len(COMMON))
    M = rng.standard_normal((rows(size), size))
    M[INVERSE : INVERSE + size] = positive(rng, size)
    s[ARM_LIMIT], s[THETA_BOUND] = 100.0, math.inf
    s[CONSTANT], s[RADIUS] = 0.7, 0.9
    return s, M


def inverse(M):
    """A copy of P."""
    return M[INVERSE : INVERSE + M.shape[1]].copy()
