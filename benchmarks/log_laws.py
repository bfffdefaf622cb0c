"""Laws of rewards, all of mean 1: those of :mod:`benchmarks.log_bounds`, and rare large rewards."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Law = Callable[[Rng, int], Any]


def frechet(a: float) -> Law:
    """Frechet values of index a."""
    return lambda rng, n: rng.exponential(size=n) ** (-1.0 / a) / math.gamma(1.0 - 1.0 / a)


def weibull(k: float) -> Law:
    """Weibull values of shape k."""
    return lambda rng, n: rng.weibull(k, n) / math.gamma(1.0 + 1.0 / k)


def log_normal(spread: float) -> Law:
    """Log-normal values."""
    return lambda rng, n: np.exp(spread * rng.standard_normal(n) - 0.5 * spread**2)


def seldom(share: float, law: Law) -> Law:
    """A law in this share of the rows, and 0 in the others."""
    return lambda rng, n: (rng.random(n) < share) * law(rng, n) / share


def log_logistic(b: float) -> Law:
    """Log-logistic values of index b."""
    mean = math.pi / b / math.sin(math.pi / b)
    return lambda rng, n: np.exp(rng.logistic(size=n) / b) / mean


def spikes(share: float, part: float, law: Law, usual: Law) -> Law:
    """A usual law, to which this share of the rows adds another one, with ``part`` of the mean."""
    rare = seldom(share, law)
    return lambda rng, n: (1.0 - part) * usual(rng, n) + part * rare(rng, n)


def exponential(rng: Rng, n: int) -> Any:
    """Exponential values."""
    return rng.exponential(size=n)


def _baskets(rng: Rng, n: int) -> Any:
    """Compound Poisson: 0.15 purchases per row, each of gamma(0.5)."""
    return rng.gamma(0.5 * rng.poisson(0.15, n) + 1e-12, 1.0 / (0.5 * 0.15))


def _doubled(rng: Rng, n: int) -> Any:
    """Geometric jackpots: 2^k with probability 0.6 0.4^k."""
    return 2.0 ** (rng.geometric(0.6, n) - 1.0) / 3.0


def _scaled(share: float, size: float) -> Law:
    """Exponential values of which a share is ``size`` times as large."""
    mean = 1.0 + share * (size - 1.0)
    return lambda rng, n: (
        rng.exponential(size=n) * np.where(rng.random(n) < share, size, 1.0) / mean
    )


LAWS: dict[str, Law] = {
    "gamma(0.7)": lambda rng, n: rng.gamma(0.7, 1.0 / 0.7, n),
    "Weibull(0.45)": weibull(0.45),
    "log-logistic(1.9)": log_logistic(1.9),
    "inverse gamma(1.6)": lambda rng, n: 0.6 / rng.gamma(1.6, 1.0, n),
    "Frechet(1.3)": frechet(1.3),
    "6 % Weibull(0.8)": seldom(0.06, weibull(0.8)),
    "20 % Frechet(1.9)": seldom(0.2, frechet(1.9)),
}
RARE: dict[str, Law] = {
    "compound Poisson": _baskets,
    "2^k jackpots": _doubled,
    "Weibull(0.3)": weibull(0.3),
    "1.5 % log-normal spikes": spikes(0.015, 0.6, log_normal(0.7), weibull(2.0)),
    "exponentials, 0.5 % 100 times": _scaled(0.005, 100.0),
    "exponentials, 3 % 25 times": _scaled(0.03, 25.0),
}
