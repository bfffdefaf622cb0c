"""Paired comparisons: the same draws for both, so the spread between draws cancels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray, IntArray

__all__ = ["Interval", "Sample", "choice_shares", "loglog_slope", "median_ratio", "ratio", "slope"]

DRAWS = 2_000
LEVEL = 0.95
_BEYOND = 20  # draws that an interval needs beyond each of its ends
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


@dataclass(frozen=True)
class Sample:
    """One number per trial, and those of what tuning might as well have chosen.

    ``others`` holds, for each point of the grid that a resample of the tuning trials may choose
    instead, the share of the resamples that do, and its numbers on the same trials.
    """

    values: FloatArray
    others: tuple[tuple[float, FloatArray], ...] = ()

    @classmethod
    def of(cls, given: Sample | ArrayLike) -> Sample:
        """Plain numbers are a sample of something that was not tuned."""
        return given if isinstance(given, Sample) else cls(np.asarray(given, float))

    def first(self, trials: int) -> Sample:
        """The first ``trials`` trials."""
        others = tuple((share, values[:trials]) for share, values in self.others)
        return Sample(self.values[:trials], others)

    def means(self, draws: IntArray, rng: np.random.Generator) -> FloatArray:
        """The mean over each row of trials in ``draws``, each row of a choice drawn anew."""
        means = self.values[draws].mean(axis=1)
        if not self.others:
            return means
        edges = np.cumsum([share for share, _ in self.others])
        place = np.searchsorted(edges, rng.random(len(draws)), side="right")
        for k, (_, values) in enumerate(self.others):
            mine = place == k
            means[mine] = values[draws[mine]].mean(axis=1)
        return means


def ratio(above: Sample | ArrayLike, below: Sample | ArrayLike, level: float = LEVEL) -> Interval:
    """mean(above) / mean(below) over the trials that both have, paired, with a bootstrap interval.

    Trials are drawn for both together. Where one was tuned, every draw takes what a resample of the
    tuning trials chooses, so that the interval knows of the choice too.

    >>> import numpy as np
    >>> f"{ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0])):.2f}"
    '2.00 [2.00, 2.00]'
    """
    above, below = Sample.of(above), Sample.of(below)
    trials = min(len(above.values), len(below.values))
    above, below = above.first(trials), below.first(trials)
    rng_above, rng_below = np.random.default_rng([_SEED, 1]), np.random.default_rng([_SEED, 2])
    with np.errstate(divide="ignore", invalid="ignore"):  # over 0 it is infinite, 0 / 0 unknown
        value = float(above.values.mean() / below.values.mean())
        interval = _bootstrap(
            trials, value, lambda i: above.means(i, rng_above) / below.means(i, rng_below), level
        )
    return Interval(*interval)


def choice_shares(regret: FloatArray) -> FloatArray:
    """The share of resamples of the trials in which each point has the least mean.

    ``regret`` is (points, trials).

    >>> choice_shares(np.array([[1.0, 1.0], [2.0, 3.0]])).tolist()
    [1.0, 0.0]
    """
    points, trials = regret.shape
    draws = np.random.default_rng(_SEED).integers(0, trials, (DRAWS, trials))
    best = regret[:, draws].mean(axis=2).argmin(axis=0)
    return np.bincount(best, minlength=points) / DRAWS


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
    trials: int,
    value: float,
    statistic: Callable[[IntArray], FloatArray],
    level: float = LEVEL,
) -> tuple[float, float, float]:
    sides = [(1 - level) / 2, (1 + level) / 2]
    count = max(DRAWS, round(_BEYOND / sides[0]))
    draws = np.random.default_rng(_SEED).integers(0, trials, (count, trials))
    drawn = statistic(draws)
    if np.isfinite(drawn).all():
        low, high = np.quantile(drawn, sides)
    else:  # nothing lies between a number and infinity
        low, high = np.quantile(drawn, sides, method="inverted_cdf")
    return value, float(low), float(high)
