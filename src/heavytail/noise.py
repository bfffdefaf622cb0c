"""``ht.noise``: see :mod:`heavytail.environments.noise`."""

from heavytail.environments.noise import (
    Fisk,
    Gaussian,
    LogNormal,
    Lomax,
    Noise,
    Pareto,
    Scaled,
    Stable,
    StudentT,
)

__all__ = [
    "Fisk",
    "Gaussian",
    "LogNormal",
    "Lomax",
    "Noise",
    "Pareto",
    "Scaled",
    "Stable",
    "StudentT",
]
