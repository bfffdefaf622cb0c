"""Means of heavy-tailed samples, one arm at a time: truncated, median of means, Catoni's.

The estimators of Bubeck, Cesa-Bianchi and Lugosi (IEEE Trans. Inf. Theory 2013), each with its own
way of storing what it has seen. ``log_inverse`` is log(1/delta) throughout.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.repeats import median

__all__ = [
    "catoni_level",
    "catoni_mean",
    "group_of",
    "median_of_means",
    "truncation_level",
]

STEPS: Final = 60  # of Newton's method kept in its bracket; bisection alone would do in these
PRECISION: Final = 1e-13  # relative


@jit
def truncation_level(n: float, raw_scale: float, order: float, log_inverse: float) -> float:
    """(u n / log(1/delta))^(1/p): beyond it the n-th reward counts as 0; u = raw_scale^p."""
    return raw_scale * (n / log_inverse) ** (1.0 / order)


@jit
def group_of(i: int, groups: int) -> int:
    """The group of the i-th sample (from 0): pairs are dealt round, so that at any time there are
    min(groups, ceil(n/2)) groups in use, of sizes that differ by at most two.
    """
    return (i // 2) % groups


@jit
def median_of_means(s: Vector, first: int, groups: int, n: int, room: int) -> float:
    """The median of the means of the groups whose sums are s[first:], of n samples in all. Works in
    s[room : room + groups]. O(groups).
    """
    used = min(groups, (n + 1) // 2)
    whole = n // (2 * groups)
    rest = n - whole * 2 * groups
    for g in range(used):
        count = 2 * whole + min(max(rest - 2 * g, 0), 2)
        s[room + g] = s[first + g] / count
    return median(s, room, used)


@jit
def catoni_level(n: float, scale: float, log_inverse: float) -> float:
    """1/alpha of Catoni's influence function; needs n > 2 log(1/delta) samples of variance <=
    scale².
    """
    spread = 1.0 + 2.0 * log_inverse / (n - 2.0 * log_inverse)
    return scale * math.sqrt(n * spread / (2.0 * log_inverse))


@jit
def catoni_mean(
    s: Vector, rewards: int, previous: int, last: int, level: float, start: float
) -> float:
    """The root of sum psi((X - m) / level), psi(z) = ±log(1 + |z| + z²/2), over a linked list.

    Sample i is s[rewards + i] and the one before it s[previous + i] (-1 ends). O(n) a step of
    Newton's method, a few steps from the last estimate.
    """
    low = math.inf
    high = -math.inf
    i = last
    while i >= 0:
        low = min(low, s[rewards + i])
        high = max(high, s[rewards + i])
        i = int(s[previous + i])
    m = min(max(start, low), high)
    for _ in range(STEPS):
        total = 0.0
        slope = 0.0
        i = last
        while i >= 0:
            z = (s[rewards + i] - m) / level
            size = abs(z)
            inner = 1.0 + size + 0.5 * z * z
            total += math.copysign(math.log(inner), z)
            slope += (1.0 + size) / inner
            i = int(s[previous + i])
        if total > 0.0:
            low = m
        else:
            high = m
        step = level * total / slope
        moved = m + step
        if not (low <= moved <= high):
            moved = 0.5 * low + 0.5 * high
        if abs(moved - m) <= PRECISION * (abs(m) + level):
            return moved
        m = moved
    return m
