"""Bounds on the error of a difference of forecasts, averaged over contexts.

A forecast is linear in its features, f(x) = x'theta, or the product of a share and an amount,
f(x) = q(x) m(x), where rewards are often 0. The difference of two averages of forecasts is then
D'theta, D the difference of the averaged features, and its error D' V^-1 D in the policy's own
widths. Of a product it is that of its linear part,

    E[q_1 m_1] - E[q_0 m_0]  ~  D_q' theta_q + D_m' theta_m,
    D_q = E[m_1 x_1] - E[m_0 x_0],   D_m = E[q_1 x_1] - E[q_0 x_0],

each at half of what the level leaves over, as the policy's own intervals are.

What the threshold of the mean takes off an amount is taken to be alike, or alike in proportion, on
both sides: it then hides a part of an effect and makes none. Where the shares differ by d, the
effect may be larger than it looks by d times that, so that the interval reaches farther there.
Rewards so rare and large that they differ between contexts without ever having come are beyond it.

An average over some of the contexts that came instead of all has an error of its own, by the normal
law, which is added.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail.kernels.layout import CONSTANT, ROUNDS
from heavytail.policies.core.answers import sides
from heavytail.policies.core.every_round import EVERY_ROUND
from heavytail.policies.core.practice import PRACTICE, learned
from heavytail.policies.core.practice_report import unseen
from heavytail.policies.twin_ucb import TwinUCB

__all__ = ["Averages", "averages", "contrast", "value"]

E = EVERY_ROUND
P = PRACTICE


class Averages(NamedTuple):
    """Averages over some feature vectors x, with the constant feature behind them.

    Attributes:
        mean: of the forecast.
        amounts: of q x, whose product with theta_m the forecast moves by.
        shares: of m x, whose product with theta_q it moves by; 0 where no reward was ever 0.
        share: of q.
        each: the forecasts.
    """

    mean: float
    amounts: FloatArray
    shares: FloatArray
    share: float
    each: FloatArray


def averages(policy: TwinUCB, X: FloatArray) -> Averages:
    """Averages over the rows of X."""
    q, m, _ = policy._parts(X)
    F = np.hstack([X, np.full((len(X), 1), policy._s[CONSTANT])])
    shares = m @ F / len(X) if policy._has_zeros else np.zeros(F.shape[1])
    each = q * m
    return Averages(float(np.mean(each)), q @ F / len(X), shares, float(np.mean(q)), each)


def contrast(
    policy: TwinUCB, after: Averages, before: Averages, level: float, count: int
) -> tuple[float, float, float]:
    """The difference of two averages, and the ends of its interval; ``count`` contexts came."""
    effect = after.mean - before.mean
    half = _half(policy, after.amounts - before.amounts, after.shares - before.shares, level)
    half += _sampled(after.each - before.each, level, count)
    hidden = (after.share - before.share) * _hidden(policy)
    return effect, effect - half + min(hidden, 0.0), effect + half + max(hidden, 0.0)


def value(policy: TwinUCB, at: Averages, level: float, count: int) -> tuple[float, float, float]:
    """An average itself, and the ends of its interval, what the threshold takes off on both."""
    half = _half(policy, at.amounts, at.shares, level) + at.share * _hidden(policy)
    half += _sampled(at.each, level, count)
    return at.mean, at.mean - half, at.mean + half


def _sampled(values: FloatArray, level: float, count: int) -> float:
    """How far the average of some of ``count`` values may lie from that of all."""
    if len(values) >= count:
        return 0.0
    error = float(np.std(values)) * math.sqrt(1.0 / len(values) - 1.0 / count)
    return NormalDist().inv_cdf(0.5 + 0.5 * level) * error


def _hidden(policy: TwinUCB) -> float:
    """The most that the threshold may take off the mean of an amount."""
    s = policy._s
    return 0.0 if s[P.UNIT] == 0.0 else max(2.0 * s[P.LOST] / max(learned(s), 1.0), unseen(s))


def _half(policy: TwinUCB, D_m: FloatArray, D_q: FloatArray, level: float) -> float:
    s = policy._s
    if s[P.UNIT] == 0.0:
        return math.inf
    zeros, t = policy._has_zeros, max(learned(s), 1.0)
    each = 0.5 + 0.5 * level if zeros else level
    half = sides((1.0 + s[P.ENERGY]) / (1.0 + t), each) * _length(D_m, policy.inverse_gram)
    if zeros:
        U = policy._M[policy._rows["tried_inverse"]]
        half += sides((1.0 + s[E.CONVERSION_ENERGY]) / (1.0 + s[ROUNDS]), each) * _length(D_q, U)
    return float(half)


def _length(D: FloatArray, inverse: FloatArray) -> float:
    return math.sqrt(max(float(D @ inverse @ D), 0.0))
