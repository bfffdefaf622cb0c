"""The practical mode's report on itself: the possible error of a prediction, what it learned of the
noise, and what deserves a look.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from heavytail._typing import FloatArray, Vector
from heavytail.kernels.layout import CLIPPED, THETA_BOUND
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.kernels.self_tuning import BINS
from heavytail.policies.core.answers import sides
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics, on_ball
from heavytail.policies.core.practice import CAUTION, PRACTICE, TAIL_FROM, TAIL_TO, learned

__all__ = ["ENOUGH", "advise", "half_widths", "half_widths_of", "report_noise", "unseen"]

ENOUGH: Final = 100  # rounds before anything is advised
FAR_OFF: Final = 300.0  # noises that the first rewards may lie from 0
FITTED: Final = 100  # largest residuals that a power law is fitted to, ...
FEWEST: Final = 5  # ... if there are so many at all
LEAST_INDEX: Final = 1.1

P: Final = PRACTICE


def half_widths(s: Vector, widths: FloatArray, level: float) -> FloatArray:
    """Half of an interval: the spread of the clipped residuals at ``level``, and a little more for
    the arm's having been chosen. For the mean, also twice what the clip took, or :func:`unseen` if
    that is more; for a typical reward (a fixed clip) what it took is no concern, but only those not
    clipped say where that lies. Infinite until the first rewards have set the unit.
    """
    if s[P.UNIT] == 0.0:
        return np.full(len(widths), math.inf)
    t = max(learned(s), 1.0)
    half = sides((1.0 + s[P.ENERGY]) / (1.0 + t), level)
    if s[P.TUNES] == 0.0:
        return np.asarray(half * widths * (1.0 + t) / (1.0 + max(t - s[CLIPPED], 0.0)))
    return np.asarray(half * widths + max(2.0 * s[P.LOST] / t, unseen(s)))


def half_widths_of(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """:func:`half_widths` at the rows of X."""
    return half_widths(policy._s, policy._widths(X), level)


def unseen(s: Vector) -> float:
    """The amount that the threshold takes off a mean, including outliers that have not come yet:
    E(|r| - T)+ = T P(|r| > T) / (a - 1) of a power law with index a, fitted to the FITTED largest
    residuals, less one standard error of a.
    """
    at, t = int(s[P.SIZES]), max(learned(s), 1.0)
    counts = s[at + 1 : at + BINS]  # of residuals, by half octaves from CLIP scales on
    beyond = np.cumsum(counts[::-1])[::-1]
    if beyond[0] < FEWEST:
        return 0.0
    first = int(np.flatnonzero(beyond >= min(FITTED, beyond[0]))[-1])
    number = float(beyond[first])
    steps = float(np.arange(counts.shape[0] - first) @ counts[first:])  # half octaves beyond it
    index = 2.0 * math.log2(1.0 + number / max(steps, 1.0))  # of geometric steps: Hill's, in bins
    index = max(index * (1.0 - 1.0 / math.sqrt(number)), LEAST_INDEX)
    share = number / t * min((s[P.CLIP] * 2.0 ** (0.5 * first) / s[P.TAU]) ** index, 1.0)
    return float(s[P.TAU] * s[P.SIGMA] * share / (index - 1.0))


def advise(policy: PackedPolicy) -> tuple[str, ...]:
    """Sentences on what deserves a look."""
    s, words = policy.packed[0], []
    t = learned(s)
    if t < ENOUGH or s[P.UNIT] == 0.0:
        return ()
    words += on_ball(policy.theta, float(s[THETA_BOUND]) if policy.algorithm.projects else math.inf)
    samples = s[P.WEIGHT] ** 2 / s[P.WEIGHT_SQUARES]
    if samples < 0.05 * t:
        words.append(
            f"A few rounds dominate: {samples:.0f} of equal weight would count as much as these "
            f"{t:.0f}. Their scales differ by much, or the noise became smaller. Look at the scale "
            "of each round."
        )
    if policy.tail is not None and not 0.01 < NORMAL_CONSISTENCY * s[P.TYPICAL] < 100.0:
        words.append(
            f"the scale stated is {policy.tail.scale:.3g}, residuals say "
            f"{s[P.BASE] * NORMAL_CONSISTENCY * s[P.TYPICAL]:.3g}: look at the units."
        )
    if s[P.UNIT] > FAR_OFF * CAUTION * NORMAL_CONSISTENCY * s[P.TYPICAL]:
        words.append(
            f"rewards are {s[P.UNIT] / (CAUTION * NORMAL_CONSISTENCY * s[P.TYPICAL]):.0f} times as "
            "large as their noise: subtract a typical reward from all of them."
        )
    if s[CLIPPED] > 0.3 * t:
        words.append(f"{s[CLIPPED] / t:.0%} of the rewards were clipped.")
    return tuple(words)


def report_noise(policy: PackedPolicy, report: Diagnostics) -> Diagnostics:
    """Add what the sums say of the noise."""
    s = policy.packed[0]
    index = math.inf
    if s[P.FAR] > 0.0:
        index = math.log(s[P.NEAR] / s[P.FAR]) / math.log(TAIL_TO / TAIL_FROM)
    squares = s[P.WEIGHT_SQUARES]
    nu = s[P.NU] if s[P.UNIT] > 0.0 else s[P.BASE]
    return replace(
        report,
        threshold=float(s[P.TAU] * s[P.SIGMA]) if s[P.TAU] < math.inf else math.inf,
        scale=float(nu * NORMAL_CONSISTENCY * s[P.TYPICAL]),
        effective_samples=float(s[P.WEIGHT] ** 2 / squares if squares > 0.0 else 0.0),
        tail_index=float(index),
        advice=(*report.advice, *advise(policy)),
    )
