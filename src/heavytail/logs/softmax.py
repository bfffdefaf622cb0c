"""Softmax policies of drawn parameters, over the rows of a log.

With z_k = x_k - x_a, what another arm has over the one that was played, the softmax gives the
latter 1 / (1 + sum_k exp(z_k'theta)): so the rows are held as z, K - 1 arms each. All draws of
theta are taken at once, a block of rows at a time: one product of matrices and one exponential.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray
from heavytail.logs.reading.rows import DRAWN, Rows, first, needed

__all__ = ["FARTHEST", "LARGEST", "Part", "masses", "mean_shares", "objective"]

BLOCK: Final = 2**16  # numbers in a block: half a megabyte, which stays in a core's cache
HIGHEST: Final = 300.0  # of z'theta: from here on the share is 0 to all digits, e^-300
LARGEST: Final = 1e200  # units that (r - floor) / p may have: lambda times it is a number then
FARTHEST: Final = 1e100  # that a feature may be from 0: x'theta is a number then


class Part:
    """A chunk of a log: ``gain`` (n,) is (r - baseline)/p, ``ahead`` (n, K - 1, d) is z, and
    ``absent`` (n, K - 1) says which of these were not offered, None where all were.
    """

    def __init__(
        self, rows: Rows, *, floor: float, baseline: float, least: float, unit: float
    ) -> None:
        arms, propensity = needed(rows, "LogPolicy", DRAWN)
        with np.errstate(over="ignore"):
            self.gain: FloatArray = (rows.reward - baseline) / propensity
        row = first(rows.reward < floor)
        if row >= 0:
            raise ValueError(
                f"{rows.at(row)}, column 'reward': must be at least "
                f"reward_floor={floor}; got {rows.reward[row]}. State a floor that none is below."
            )
        row = first(abs(self.gain) > LARGEST * unit)
        if row >= 0:
            raise ValueError(
                f"{rows.at(row)}, column 'reward': {rows.reward[row]} over its propensity is more "
                f"than {LARGEST:g} times reward_unit={unit}. State another unit."
            )
        row = first(abs(arms) > FARTHEST)
        if row >= 0:
            raise ValueError(
                f"{rows.at(row)}, column 'arms': features must be at most {FARTHEST:g} in size. "
                "Change their unit."
            )
        row = first(_smallest(rows, arms, propensity) < least)
        if row >= 0:
            raise ValueError(
                f"{rows.at(row)}, column 'propensity': that of every arm offered must be at least "
                f"least_propensity={least}. State one that none is below, or no reward_baseline."
            )
        n, count, dim = arms.shape
        others = np.arange(count) != rows.action[:, None]
        self.ahead: FloatArray = arms[others].reshape(n, count - 1, dim)
        self.ahead -= arms[np.arange(n), rows.action][:, None, :]
        missing = np.isnan(self.ahead[:, :, 0])
        self.absent: NDArray[np.bool_] | None = None
        if missing.any():
            self.ahead[missing] = 0.0
            self.absent = missing
        self.reach = math.sqrt(dim) * float(np.max(abs(self.ahead), initial=0.0))  # of any z

    def blocks(self, draws: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Rows, exp(z'theta) of them, (b, K - 1, D), for all ``draws`` (D, d) of theta, and the
        shares of the arms that were played, (b, D).
        """
        n, others, dim = self.ahead.shape
        far = self.reach * float(np.max(np.linalg.norm(draws, axis=1))) > HIGHEST
        size = max(1, BLOCK // max(1, others * len(draws)))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            odds = self.ahead[rows].reshape(-1, dim) @ draws.T
            if far:  # else not: this takes as long as the exponential
                np.minimum(odds, HIGHEST, out=odds)
            np.exp(odds, out=odds)
            odds = odds.reshape(rows.stop - start, others, len(draws))
            if self.absent is not None:
                odds[self.absent[rows]] = 0.0
            total = np.ones((len(odds), len(draws)))
            for k in range(others):  # up to four times as fast as odds.sum(axis=1)
                total += odds[:, k]
            yield rows, odds, 1.0 / total


def _smallest(rows: Rows, arms: FloatArray, propensity: FloatArray) -> FloatArray:
    """(n,): the least propensity that each row tells of, of all arms offered or the one played."""
    if rows.probabilities is None:
        return propensity
    known = np.where(np.isnan(arms[:, :, 0]), 1.0, rows.probabilities[:, : arms.shape[1]])
    return np.asarray(np.minimum(known.min(axis=1), propensity))


def masses(part: Part, gain: FloatArray, draws: FloatArray) -> FloatArray:
    """(D,): sum_i pi_theta(a_i|x_i) gain_i, of each of the ``draws`` (D, d) of theta."""
    sums = np.zeros(len(draws))
    for rows, _, mass in part.blocks(draws):
        sums += gain[rows] @ mass
    return sums


def objective(
    theta: FloatArray,
    parts: list[Part],
    gains: list[FloatArray],
    spread: float,
    noise: FloatArray,
) -> tuple[float, FloatArray]:
    """sum_i pi_Q(a_i|x_i) gain_i - ‖theta‖²/(2 s²), and its gradient, over fixed draws."""
    value = -float(theta @ theta) / (2.0 * spread * spread)
    slope = -theta / (spread * spread)
    draws = theta + spread * noise
    for part, gain in zip(parts, gains, strict=True):
        for rows, odds, mass in part.blocks(draws):
            weight = mass * (gain[rows, None] / len(noise))
            value += float(weight.sum())
            pull = np.einsum("bkm,bm->bk", odds, weight * mass)
            slope = slope - pull.ravel() @ part.ahead[rows].reshape(pull.size, len(theta))
    return value, slope


def mean_shares(arms: FloatArray, draws: FloatArray) -> FloatArray:
    """(n, K): softmax of x'theta, on average over ``draws`` (D, d); NaN arms were not offered."""
    n, count, dim = arms.shape
    size = max(1, BLOCK // max(1, count * len(draws)))
    shares: FloatArray = np.empty((n, count))
    for start in range(0, n, size):
        block = arms[start : start + size]
        scores = (block.reshape(-1, dim) @ draws.T).reshape(len(block), count, len(draws))
        scores[np.isnan(scores)] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        shares[start : start + size] = scores.mean(axis=2)
    return shares
