"""Links as the twins have them, of numbers and of arrays: mu, its slope, and m with m' = mu."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

Function = Callable[[Any], Any]


def density(z: Any) -> Any:
    """The normal's."""
    return np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)


INTEGRAL: dict[str, Function] = {
    "identity": lambda z: 0.5 * z**2,
    "logistic": lambda z: np.logaddexp(0.0, z),
    "log": np.exp,
    "probit": lambda z: z * ndtr(z) + density(z),
}
MEAN: dict[str, Function] = {
    "identity": lambda z: z,
    "logistic": expit,
    "log": np.exp,
    "probit": ndtr,
}
SLOPE: dict[str, Function] = {
    "identity": np.ones_like,
    "logistic": lambda z: expit(z) * expit(-z),
    "log": np.exp,
    "probit": density,
}
