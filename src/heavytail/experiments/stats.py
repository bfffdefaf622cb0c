"""Paired comparisons: the same draws for both, so the spread between draws cancels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from heavytail._typing import FloatArray, IntArray

__all__ = ["Interval", "loglog_slope", "median_ratio", "ratio", "slope"]

DRAWS = 2_000
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

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """The mean of ``values`` (trials,)."""
        return cls(*_bootstrap(len(values), float(values.mean()), lambda i: values[i].mean(axis=1)))


def ratio(above: FloatArray, below: FloatArray) -> Interval:
    """mean(above) / mean(below), trial by trial paired, with a bootstrap interval of 95 %.

    >>> import numpy as np
    >>> f"{ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0])):.2f}"
    '2.00 [2.00, 2.00]'
    """
    above, below = np.asarray(above, float), np.asarray(below, float)
    value = float(above.mean() / below.mean())
    return Interval(
        *_bootstrap(len(above), value, lambda i: above[i].mean(axis=1) / below[i].mean(axis=1))
    )


def median_ratio(above: FloatArray, below: FloatArray) -> Interval:
    """median(above) / median(below), trials paired, with a bootstrap interval of 95 %."""
    above, below = np.asarray(above, float), np.asarray(below, float)
    return Interval(
        *_bootstrap(
            len(above),
            float(np.median(above) / np.median(below)),
            lambda i: np.median(above[i], axis=1) / np.median(below[i], axis=1),
        )
    )


def slope(x: FloatArray, y: FloatArray) -> Interval:
    """The slope of log mean(y) against log x, y of shape (trials, points), over whole trials."""

    def of(means: FloatArray) -> FloatArray:
        a = np.log(x) - np.log(x).mean()
        return np.asarray((np.log(np.maximum(means, 1e-300)) @ a) / (a @ a))

    value = float(of(y.mean(axis=0)))
    return Interval(*_bootstrap(len(y), value, lambda i: of(y[i].mean(axis=1))))


def loglog_slope(x: FloatArray, y: FloatArray) -> float:
    """The least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _bootstrap(
    trials: int, value: float, statistic: Callable[[IntArray], FloatArray]
) -> tuple[float, float, float]:
    draws = np.random.default_rng(_SEED).integers(0, trials, (DRAWS, trials))
    low, high = np.quantile(statistic(draws), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, float(low), float(high)
