"""The tail index alpha, P(|v| > x) ~ x^-alpha, from the largest values alone."""

from __future__ import annotations

import math

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["hill", "likely_low", "shifted_power_law", "symmetric_tail"]

Z95 = 1.96
BIAS_POWER = 0.9  # the tail's second term is taken as (share of the sample)^this
FIRST_SHARE = 0.05  # shares of the sample that the power law is fitted to: this, then larger ...
SHARES = (0.1, 0.2, 0.3)  # ... while the answer does not change by more than chance explains
CHANGE = 3.0  # standard errors


def hill(top: FloatArray, k: int) -> tuple[float, float, float]:
    """Hill's estimate from the ``k`` largest of ``top`` (sorted down), and its 95 % interval."""
    gamma = float(np.mean(np.log(top[:k] / top[k])))
    alpha = 1.0 / gamma if gamma > 0.0 else math.inf
    return alpha, alpha * (1.0 - Z95 / math.sqrt(k)), alpha * (1.0 + Z95 / math.sqrt(k))


def symmetric_tail(top: FloatArray) -> tuple[float, float, float]:
    """The index with its first-order bias removed, and a 95 % interval.

    The scaled log-spacings i log(v_i / v_{i+1}) have mean gamma + b (i/n)^rho; a regression on
    (i/n)^rho leaves gamma = 1/alpha. Feuerverger and Hall (1999), with rho fixed. Needs the tail
    to be centred, as the tail of |v - median| is where the data are symmetric.
    """
    k = top.shape[0] - 1
    i = np.arange(1.0, k + 1.0)
    spacing = i * np.log(top[:-1] / top[1:])
    power = (i / k) ** BIAS_POWER
    slope = float(np.cov(power, spacing)[0, 1] / np.var(power, ddof=1))
    gamma = float(np.mean(spacing) - slope * np.mean(power))
    error = float(np.mean(spacing)) * (1.0 + BIAS_POWER) / BIAS_POWER / math.sqrt(k)
    index, low, high = _invert(gamma, error)
    if k >= 100:  # what the correction may have left: the interval holds Hill's, further out, too
        _, hill_low, hill_high = hill(top, k // 10)
        low, high = min(low, hill_low), max(high, hill_high)
    return index, low, high


def shifted_power_law(top: FloatArray, n: int) -> tuple[float, float, float]:
    """The index by a generalised Pareto fit to excesses, which no shift of the data changes.

    Fitted to the largest 5 % and then to more of the sample while the answer stays the same: a
    pure power law uses 30 %, another tail as little as it must. The interval is that of the 5 %.
    """
    shares = [s for s in (FIRST_SHARE, *SHARES) if int(s * n) < top.shape[0]]
    first: tuple[float, float] | None = None
    chosen = 0.0
    for share in shares or [(top.shape[0] - 1) / n]:
        k = max(int(share * n), 2)
        gamma = _excess_shape(top[:k] - top[k])
        error = (1.0 + gamma) / math.sqrt(k)
        if first is None:
            first = (gamma, error)
        elif abs(gamma - first[0]) > CHANGE * math.sqrt(max(first[1] ** 2 - error**2, 0.0)):
            break
        chosen = gamma
    assert first is not None
    return _invert(chosen, 0.0)[0], *_invert(*first)[1:]


def _excess_shape(excess: FloatArray) -> float:
    """gamma of the generalised Pareto by maximum likelihood, profiled over gamma / sigma
    (Grimshaw 1993); 0 where the tail is exponential or lighter.
    """
    from scipy.optimize import minimize_scalar

    size = float(np.median(excess))
    if not size > 0.0:
        return 0.0

    def loss(log_ratio: float) -> float:
        gamma = float(np.mean(np.log1p(math.exp(log_ratio) * excess)))
        return math.log(gamma) - log_ratio + gamma

    reach = math.log(1e4)
    middle = -math.log(size)
    best = minimize_scalar(loss, bounds=(middle - reach, middle + reach), method="bounded").x
    return float(np.mean(np.log1p(math.exp(best) * excess)))


def likely_low(index: float, low: float) -> float:
    """One standard error below the index, where ``low`` is 1.96 of them below: tells a mean that is
    in doubt from one that is just not proved to be finite.
    """
    return index - (index - low) / Z95


def _invert(gamma: float, error: float) -> tuple[float, float, float]:
    """gamma ± error as an interval for alpha = 1/gamma; infinity where gamma may be 0."""
    low = 1.0 / (gamma + Z95 * error) if gamma + Z95 * error > 0.0 else math.inf
    high = 1.0 / (gamma - Z95 * error) if gamma - Z95 * error > 0.0 else math.inf
    return (1.0 / gamma if gamma > 0.0 else math.inf), low, high
