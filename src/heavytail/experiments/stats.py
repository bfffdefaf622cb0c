"""Paired comparisons: the same worlds for both, so the spread between worlds cancels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["Interval", "loglog_slope", "ratio"]

DRAWS = 4_000
LEVEL = 0.95
_SEED = 7  # of the bootstrap itself


@dataclass(frozen=True)
class Interval:
    """A number with its interval."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


def ratio(above: FloatArray, below: FloatArray) -> Interval:
    """mean(above) / mean(below), trial by trial paired, with a bootstrap interval of 95 %.

    >>> import numpy as np
    >>> f"{ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0])):.2f}"
    '2.00 [2.00, 2.00]'
    """
    above, below = np.asarray(above, float), np.asarray(below, float)
    draws = np.random.default_rng(_SEED).integers(0, len(above), (DRAWS, len(above)))
    spread = above[draws].mean(axis=1) / below[draws].mean(axis=1)
    low, high = np.quantile(spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(above.mean() / below.mean()), float(low), float(high))


def loglog_slope(x: FloatArray, y: FloatArray) -> float:
    """The least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
