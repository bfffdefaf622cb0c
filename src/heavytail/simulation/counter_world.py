"""A bandit drawn by counters: the same trial on a CPU and a GPU, whatever the batch.

Every number is a function of (seed, trial, what it is for, round); see
:mod:`heavytail.kernels.random`. A noise takes two uniform numbers and up to two parameters.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.random import uniform

__all__ = [
    "ACROSS",
    "CHOICE",
    "EVENT",
    "FACTOR",
    "NOISE",
    "PAYMENT",
    "contaminated",
    "draw_arms",
    "draw_direction",
    "draw_theta",
    "even",
    "fisk",
    "gaussian",
    "log_normal",
    "nothing",
    "pareto",
    "stable",
    "stream",
    "student_t",
]

# What a number is for: one stream each.
TRUTH: Final = 0
GEOMETRY: Final = 1
NOISE: Final = 2
FACTOR: Final = 3
CHOICE: Final = 4  # the policy's own randomness
ACROSS: Final = 5  # the direction along which the noise's size changes
EVENT: Final = 6  # whether something rare happens
PAYMENT: Final = 7  # and what is paid then
STREAMS: Final = 8

SMALLEST: Final = 2.0**-53  # stands for a uniform 0 where its logarithm is taken


@jit
def stream(seed: int, purpose: int) -> int:
    """The key of one stream."""
    return seed * STREAMS + purpose


@jit
def draw_direction(seed: int, purpose: int, trial: int, theta: Vector, bound: float) -> None:
    """Coordinates U[-1, 1], then rescaled to length ``bound``."""
    total = 0.0
    for j in range(theta.shape[0]):
        theta[j] = 2.0 * uniform(stream(seed, purpose), trial, j) - 1.0
        total += theta[j] * theta[j]
    ratio = bound / math.sqrt(total)
    for j in range(theta.shape[0]):
        theta[j] *= ratio


@jit
def draw_theta(seed: int, trial: int, theta: Vector, bound: float) -> None:
    """theta*."""
    draw_direction(seed, TRUTH, trial, theta, bound)


@jit
def draw_arms(seed: int, trial: int, arms: Matrix, bound: float, together: bool) -> None:
    """Coordinates U[-1, 1]; each arm rescaled to length ``bound``, or all by the longest."""
    size = arms.shape[1]
    longest = 0.0
    for i in range(arms.shape[0]):
        total = 0.0
        for j in range(size):
            arms[i, j] = 2.0 * uniform(stream(seed, GEOMETRY), trial, i * size + j) - 1.0
            total += arms[i, j] * arms[i, j]
        longest = max(longest, total)
        ratio = 1.0 if together else bound / math.sqrt(total)
        for j in range(size):
            arms[i, j] *= ratio
    if together:
        ratio = bound / math.sqrt(longest)
        for i in range(arms.shape[0]):
            for j in range(size):
                arms[i, j] *= ratio


@jit
def nothing(u: float, v: float, a: float, b: float) -> float:
    """No noise."""
    return 0.0


@jit
def even(u: float, v: float, bound: float, b: float) -> float:
    """Uniform on (-bound, bound)."""
    return bound * (2.0 * u - 1.0)


@jit
def gaussian(u: float, v: float, sd: float, b: float) -> float:
    """N(0, sd²), by Box and Muller."""
    return sd * math.sqrt(-2.0 * math.log(max(u, SMALLEST))) * math.cos(2.0 * math.pi * v)


@jit
def contaminated(u: float, v: float, share: float, factor: float) -> float:
    """N(0, 1), and the share of it with v below ``share`` multiplied; v is used once more."""
    if v < share:
        return factor * gaussian(u, v / share, 1.0, 0.0)
    return gaussian(u, (v - share) / (1.0 - share), 1.0, 0.0)


@jit
def student_t(u: float, v: float, df: float, b: float) -> float:
    """Student's t, by Bailey (1994): sqrt(df (u^(-2/df) - 1)) cos(2 pi v)."""
    power = math.expm1(-2.0 / df * math.log(max(u, SMALLEST)))
    return math.sqrt(df * power) * math.cos(2.0 * math.pi * v)


@jit
def pareto(u: float, v: float, index: float, mean: float) -> float:
    """Pareto on [1, inf) less its mean, by inversion."""
    return math.exp(-math.log(max(u, SMALLEST)) / index) - mean


@jit
def fisk(u: float, v: float, index: float, mean: float) -> float:
    """Log-logistic less its mean, by inversion."""
    return math.exp(math.log((1.0 - u) / max(u, SMALLEST)) / index) - mean


@jit
def log_normal(u: float, v: float, sigma: float, mean: float) -> float:
    """exp(sigma Z) less its mean."""
    return math.exp(gaussian(u, v, sigma, 0.0)) - mean


@jit
def stable(u: float, v: float, alpha: float, beta: float) -> float:
    """Stable, scale 1 and mean 0 (S1), by Chambers, Mallows and Stuck (1976)."""
    angle = math.pi * (max(u, SMALLEST) - 0.5)
    weight = max(-math.log1p(-v), SMALLEST)
    tilt = beta * math.tan(math.pi * alpha / 2.0)
    shift = math.atan(tilt) / alpha
    inner = math.cos(angle - alpha * (angle + shift)) / weight
    value = math.sin(alpha * (angle + shift)) / math.cos(angle) ** (1.0 / alpha)
    size = (1.0 + tilt * tilt) ** (1.0 / (2.0 * alpha))
    return size * value * inner ** ((1.0 - alpha) / alpha)
