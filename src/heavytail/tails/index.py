"""The tail index alpha, P(|v| > x) ~ x^-alpha, from the largest values alone.

Everything is estimated as gamma = 1/alpha, whose estimates are near normal. Where the power law
begins is not known: it is fitted to ten or so of the largest values, whatever the size of the
sample, and then to twice as many again and again, while the answer does not change by more than
chance explains (:func:`followed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["NOTHING", "Estimate", "apart", "hill", "one_sided", "spread_ties", "symmetric"]

Z95 = 1.96
BIAS_POWER = 0.9  # the tail's second term is taken as (share of the sample)^this
CHANGE = 3.5  # standard errors: of the 50 or so pairs of fits to one law, one in 50 laws differs
FEWEST = 10  # values that a fit has, at least
FEW = 48  # and that an interval is of where the fits agree and the sample is large enough
SETTLED, CHANGING = 6, 10  # the interval is of so many times fewer values than the index, or ...
SLOW = 48.0  # ... than this times n^(1/3), if that is less
BESIDE = 20  # values that show whether a gap is too wide, a fifth of the sample at most
GAP = 0.001  # the chance of so wide a gap: of nine gaps of one power law, one in 100 samples has it


@dataclass(frozen=True, slots=True)
class Estimate:
    """The index, its 95 % interval, what lies one standard error (of 1/index) below it, how many of
    the largest values it was fitted to, and whether more of them agree or were not asked.
    """

    index: float
    low: float
    high: float
    likely: float
    fitted: int = 0
    agree: bool = True


NOTHING = Estimate(math.inf, 0.0, math.inf, 0.0)  # too few values: it may be anything


class Fit(NamedTuple):
    """gamma from so many of the largest values, its standard error and its 95 % interval."""

    gamma: float
    error: float
    least: float
    most: float


def hill(top: FloatArray, k: int) -> tuple[float, float, float]:
    """Hill's estimate from the ``k`` largest of ``top`` (sorted down), and its 95 % interval."""
    gamma = float(np.mean(np.log(top[:k] / top[k])))
    alpha = 1.0 / gamma if gamma > 0.0 else math.inf
    return alpha, alpha * (1.0 - Z95 / math.sqrt(k)), alpha * (1.0 + Z95 / math.sqrt(k))


def apart(top: FloatArray, n: int) -> int:
    """Count those of the largest, fewer than ten, that lie too far beyond all others for one power
    law.

    The scaled log-spacings i log(v_i / v_{i+1}) of a power law are independent exponentials of one
    mean: the chance that one is x times the mean of the k that follow is (1 + x/k)^-k.
    """
    logs = np.log(top[: n // 5])
    spacing = -np.diff(logs) * np.arange(1, logs.shape[0])
    for i in range(min(FEWEST - 1, spacing.shape[0] - FEWEST // 2), 0, -1):
        beside = spacing[i : i + BESIDE]
        k, mean = beside.shape[0], float(np.mean(beside))
        if mean > 0.0 and (1.0 + spacing[i - 1] / mean / k) ** -k < GAP:
            return i
    return 0


def symmetric(top: FloatArray, n: int) -> Estimate:
    """The index with its first-order bias removed, from up to 10 % of ``n`` values.

    The scaled log-spacings i log(v_i / v_{i+1}) have mean gamma + b (i/n)^rho; a regression on
    (i/n)^rho leaves gamma = 1/alpha. Feuerverger and Hall (1999), with rho fixed. Needs the tail
    to be centred, as the tail of |v - median| is where the data are symmetric.
    """

    def fit(k: int) -> Fit:
        i = np.arange(1.0, k + 1.0)
        spacing = i * np.log(top[:k] / top[1 : k + 1])
        power = (i / k) ** BIAS_POWER
        slope = float(np.cov(power, spacing)[0, 1] / np.var(power, ddof=1))
        mean = float(np.mean(spacing))
        gamma = mean - slope * float(np.mean(power))
        error = mean * (1.0 + BIAS_POWER) / BIAS_POWER / math.sqrt(k)
        return Fit(gamma, error, gamma - Z95 * error, gamma + Z95 * error)

    return followed(fit, n, share=0.1, most=0.2, known=top.shape[0])


def one_sided(top: FloatArray, n: int) -> Estimate:
    """The index by a generalised Pareto fit to excesses, which no shift of the data changes.

    Fitted to up to 30 % of ``n`` values. The estimate g has the error (1 + gamma)/sqrt(k), which
    the unknown gamma has a say in; the interval is of all gamma from which g is within 1.96 errors,
    1 + gamma from (1 + g)/(1 + 1.96/sqrt(k)) to (1 + g)/(1 - 1.96/sqrt(k)). It reaches further up
    than down, and with fewer than 4 values to infinity.
    """

    def fit(k: int) -> Fit:
        gamma, step = _excess_shape(top[:k] - top[k]), Z95 / math.sqrt(k)
        most = (1.0 + gamma) / (1.0 - step) - 1.0 if step < 1.0 else math.inf
        return Fit(gamma, (1.0 + gamma) / math.sqrt(k), (1.0 + gamma) / (1.0 + step) - 1.0, most)

    return followed(fit, n, share=0.3, most=0.125, known=top.shape[0])


def followed(
    fit: Callable[[int], Fit], n: int, *, share: float, most: float, known: int
) -> Estimate:
    """The index by the last of the fits that agree with all before it, with the interval of fewer
    values (Lepski's rule).

    Fits have ``share`` of n values, half of that and so on, down to ten; none has more than are
    known. That of k values agrees with that of j among them where they differ by at most 3.5 times
    e_k sqrt(k/j - 1), the standard deviation of the difference if the law is one.

    A bias that is too small to be seen may be larger than the error of many values. So the interval
    is that of a sixth of the values fitted, or of 48 n^(1/3) where that is less, a share that falls
    as n grows; but of at least 48 or, in small samples, the share ``most``. Where larger fits did
    not agree, so that no one power law fits them, it is of a tenth, however few. It is drawn out to
    hold the interval of the index's own fit, and where fewer than 48 values were fitted and more
    do not agree, that of every fit: so few do not tell which scale is the tail. ``likely`` is what
    lies a standard error below by both fits.
    """
    least = min(FEW, int(most * n))
    counts = [min(max(int(share * n), least), known - 1)]
    if counts[0] < 2:
        return NOTHING
    while counts[0] >= 2 * FEWEST:
        counts.insert(0, counts[0] // 2)
    fits: dict[int, Fit] = {}
    for k in counts:
        new = fit(k)
        steps = ((old.gamma, new.error * math.sqrt(k / j - 1.0)) for j, old in fits.items())
        if any(abs(new.gamma - gamma) > CHANGE * chance for gamma, chance in steps):
            break
        fits[k] = new
    fitted = max(fits)
    last, agree = fits[fitted], fitted == counts[-1]
    part, fewest = (SETTLED, least) if agree else (CHANGING, FEWEST // 2)
    trusted = int(min(fitted, SLOW * n ** (1.0 / 3.0)) / part)
    ends = fit(min(max(trusted, fewest), fitted))
    held = [ends, last] if agree or fitted >= FEW else [ends, *map(fit, counts)]
    return Estimate(
        index=_inverse(last.gamma),
        low=_inverse(max(scale.most for scale in held)),
        high=_inverse(min(scale.least for scale in held)),
        likely=_inverse(min(last.gamma + last.error, ends.gamma + ends.error)),
        fitted=fitted,
        agree=agree,
    )


def spread_ties(values: FloatArray, centre: float) -> FloatArray:
    """Values sorted down, equal ones spread evenly over their cell; those at the centre stay.

    Whole numbers are values of which only the cell is known, and estimates from differences take
    the steps between cells for a tail. A cell reaches half the way to the nearest other value.
    Where no two values are equal nothing changes.
    """
    value, count = np.unique(values, return_counts=True)
    if value.shape[0] in (1, values.shape[0]):
        return np.asarray(np.sort(values)[::-1])
    gap = 0.5 * value[1:] - 0.5 * value[:-1]
    half = np.minimum(np.append(gap[0], gap), np.append(gap, gap[-1]))
    half[(count == 1) | (value == centre)] = 0.0
    place = np.arange(values.shape[0]) - np.repeat(np.cumsum(count) - count, count)
    offset = (2.0 * place + 1.0) / np.repeat(count, count) - 1.0
    return np.asarray(np.sort(np.repeat(value, count) + np.repeat(half, count) * offset)[::-1])


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


def _inverse(gamma: float) -> float:
    """alpha of gamma: infinity where it is not positive."""
    return 1.0 / gamma if gamma > 0.0 else math.inf
