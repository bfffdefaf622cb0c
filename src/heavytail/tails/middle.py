"""Gains of robust estimates over averages.

That is the ratio of two variances: of the values, and mean psi² / (mean psi')², that of Huber's
estimate with a known scale. Where the noise is skewed the error of the scale adds to the second,
but not for slopes.
"""

from __future__ import annotations

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["Middle"]

HUBER = 1.345  # in normalised MADs: 95 % of the mean's efficiency if the noise is normal
NORMAL_MAD = 1.4826  # times the MAD is the standard deviation of a normal
STEPS = 5  # of Newton's method, from the median
FARTHEST = 1e150  # in units: squares of these have a sum
PART = 0.0625  # of the values and their unit: no difference of two numbers is past the range


class Middle:
    """Sums over values, about Huber's estimate of the middle of the first of them."""

    def __init__(self, first: FloatArray) -> None:
        self._place = float(np.median(PART * first))
        self._unit = NORMAL_MAD * float(np.median(np.abs(PART * first - self._place)))
        self._count, self._sum, self._squares = 0, 0.0, 0.0
        self._clipped, self._inside = 0.0, 0
        self._others = 0  # than the place, where that is half of the first values or more
        if self._unit > 0.0:
            for _ in range(STEPS):
                z = self._from_place(first)
                inside = max(float(np.mean(np.abs(z) <= HUBER)), 0.5)  # no step is too long
                self._place += self._unit * float(np.mean(np.clip(z, -HUBER, HUBER))) / inside

    def take(self, values: FloatArray) -> None:
        """Take in values."""
        self._count += values.shape[0]
        if not self._unit > 0.0:
            self._others += int(np.count_nonzero(PART * values != self._place))
            return
        z = self._from_place(values)
        self._sum += float(np.sum(z))
        self._squares += float(np.sum(z**2))
        self._clipped += float(np.sum(np.clip(z, -HUBER, HUBER) ** 2))
        self._inside += int(np.count_nonzero(np.abs(z) <= HUBER))

    @property
    def gain(self) -> float:
        """The variance of the average over that of Huber's estimate, mean psi² / (mean psi')²;
        infinity where half of the values or more are equal, 1 where all are.
        """
        if not self._unit > 0.0:
            return np.inf if self._others else 1.0
        n = self._count
        variance = max(self._squares / n - (self._sum / n) ** 2, 0.0)
        return variance / (self._clipped / n) * (self._inside / n) ** 2

    def _from_place(self, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            z = (PART * values - self._place) / self._unit
        return np.asarray(np.clip(z, -FARTHEST, FARTHEST))
