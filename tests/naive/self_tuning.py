"""The self-tuning threshold written from its equation: all sizes kept, the root by bisection."""

from __future__ import annotations

import math

import numpy as np


def exact(sizes, need, floor):
    """tau of sum min(z², tau²) = tau² need, at least ``floor``."""
    sizes = np.abs(np.asarray(sizes, dtype=float))
    if np.count_nonzero(sizes) <= need:
        return floor
    low, high = 0.0, math.sqrt(np.sum(sizes**2) / need) + 1.0
    while high - low > 1e-13 * high:
        tau = (low + high) / 2
        low, high = (tau, high) if np.sum(np.minimum(sizes / tau, 1) ** 2) > need else (low, tau)
    return max(low, floor)


def binned(sizes, need, floor, bins=64, weights=None):
    """The same with sizes known by bins: half octaves above the floor, all beyond in the last.

    In the bin of the root all sizes count as below it, with their squares.
    """
    sizes = np.abs(np.asarray(sizes, dtype=float)) / floor
    weights = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=float)
    for k in range(bins - 1):
        edge = 2.0 ** (k / 2)
        inside = sizes <= edge
        left = need - np.sum(weights[~inside])
        squares = np.sum(weights[inside] * sizes[inside] ** 2)
        if left > 0 and squares <= edge**2 * left:
            return floor * max(math.sqrt(squares / left), 1.0)
    return floor * 2.0 ** ((bins - 2) / 2)
