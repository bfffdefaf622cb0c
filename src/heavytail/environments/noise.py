"""Noise that knows its own moments. All of it is centred exactly; nobody types a scale.

``scale(order)`` is nu = (E|eta|^order)^(1/order), in closed form or by a quadrature that carries
the tail's power in its weight, so that it is right even just below the tail index.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_number
from heavytail.tails import MomentBound

__all__ = [
    "Contaminated",
    "Fisk",
    "Gaussian",
    "LogNormal",
    "Lomax",
    "Noise",
    "Pareto",
    "Scaled",
    "Stable",
    "StudentT",
    "Uniform",
]


LARGEST: Final = 1e150  # size of a law: what it draws can be squared
LARGEST_LOG: Final = 26.2  # of the sigma of LogNormal: its mean can be squared too


class Noise(ABC):
    """Centred noise: draws, the moments it has, and whether it is symmetric."""

    symmetric: bool = True

    @property
    @abstractmethod
    def index(self) -> float:
        """Moments of every order below this are finite; infinity for light tails."""

    @abstractmethod
    def moment(self, order: float) -> float:
        """E|eta|^order for an order below the index (the index itself is never reached)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """``size`` independent draws."""

    def factors(self, rng: np.random.Generator, size: int) -> FloatArray | None:
        """The scale's factor of each round, or None where the scale is constant."""
        return None

    def scale(self, order: float) -> float:
        """nu = (E|eta|^order)^(1/order), exact."""
        order = check_number(f"{self}.scale: order", order, above=0.0)
        if not order < self.index:
            raise ValueError(
                f"{self} has no finite moment of order {order:g}: "
                f"pass an order below {self.index:g}."
            )
        try:
            nu = float(self.moment(order) ** (1.0 / order))
        except OverflowError:
            nu = math.inf
        if not nu < math.inf:
            raise ValueError(
                f"{self}.scale: the moment of order {order:g} leaves the floating-point range. "
                "Pass a smaller order, or a law of smaller size."
            )
        return nu

    def raw(self, order: float, mean: float = 1.0) -> float:
        """A bound on (E|m + eta|^order)^(1/order) over |m| <= mean, by Minkowski: nu + mean.

        Truncation works on the reward itself, so its moment includes the mean's.
        """
        return self.scale(order) + abs(mean)

    def tail(self, order: float) -> MomentBound:
        """The exact moment bound at ``order``, ready to hand to a policy."""
        return MomentBound(order=order, scale=self.scale(order))


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, sd²)."""

    sd: float = 1.0

    def __post_init__(self) -> None:
        check_number("Gaussian.sd", self.sd, above=0.0, most=LARGEST)

    @property
    def index(self) -> float:
        return math.inf

    def moment(self, order: float) -> float:
        return self.sd**order * 2 ** (order / 2) * math.gamma((order + 1) / 2) / math.sqrt(math.pi)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.sd * rng.standard_normal(size)


@dataclass(frozen=True)
class Uniform(Noise):
    """Uniform on (-bound, bound)."""

    bound: float = 1.0

    def __post_init__(self) -> None:
        check_number("Uniform.bound", self.bound, above=0.0, most=LARGEST)

    @property
    def index(self) -> float:
        return math.inf

    def moment(self, order: float) -> float:
        return self.bound**order / (order + 1.0)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.uniform(-self.bound, self.bound, size)


@dataclass(frozen=True)
class Contaminated(Noise):
    """N(0, 1), and a ``share`` of it multiplied by ``factor``, unannounced. Every moment is finite,
    but those of order 2 are made by few rounds.
    """

    share: float = 0.05
    factor: float = 50.0

    def __post_init__(self) -> None:
        check_number("Contaminated.share", self.share, above=0.0, below=1.0)
        check_number("Contaminated.factor", self.factor, above=0.0, most=LARGEST)

    @property
    def index(self) -> float:
        return math.inf

    def moment(self, order: float) -> float:
        return (1.0 - self.share + self.share * self.factor**order) * Gaussian().moment(order)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        # A second normal number says which are multiplied; interleaved, so that a prefix is one.
        draws = rng.standard_normal((size, 2))
        struck = draws[:, 1] < NormalDist().inv_cdf(self.share)
        return np.asarray(np.where(struck, self.factor, 1.0) * draws[:, 0])


@dataclass(frozen=True)
class StudentT(Noise):
    """Student's t with ``df`` > 1 degrees of freedom; tail index df."""

    df: float

    def __post_init__(self) -> None:
        check_number("StudentT.df", self.df, above=1.0, hint="At 1 and below it has no mean.")

    @property
    def index(self) -> float:
        return self.df

    def moment(self, order: float) -> float:
        k, df = order, self.df
        log = math.lgamma((k + 1) / 2) + math.lgamma((df - k) / 2) - math.lgamma(df / 2)
        return df ** (k / 2) * math.exp(log) / math.sqrt(math.pi)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.standard_t(self.df, size)


@dataclass(frozen=True)
class Pareto(Noise):
    """Pareto on [1, inf) with index b > 1, less its mean b/(b - 1). Skewed."""

    b: float
    symmetric = False

    def __post_init__(self) -> None:
        check_number("Pareto.b", self.b, above=1.0, hint="At 1 and below it has no mean.")

    @property
    def index(self) -> float:
        return self.b

    @property
    def mean(self) -> float:
        """The mean that is subtracted."""
        return self.b / (self.b - 1.0)

    def moment(self, order: float) -> float:
        from scipy import integrate, special

        p, b, m = order, self.b, self.mean
        # Above the mean, x = m/u turns the integral into a beta function; below, it is smooth.
        above = b * m ** (p - b) * special.beta(b - p, p + 1.0)
        below = integrate.quad(lambda x: (m - x) ** p * b * x ** (-b - 1.0), 1.0, m, epsabs=0.0)[0]
        return float(above + below)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.pareto(self.b, size) + (1.0 - self.mean)


@dataclass(frozen=True)
class Lomax(Noise):
    """Lomax with index c > 1, less its mean 1/(c - 1): centred, it is the Pareto."""

    c: float
    symmetric = False

    def __post_init__(self) -> None:
        check_number("Lomax.c", self.c, above=1.0, hint="At 1 and below it has no mean.")

    @property
    def index(self) -> float:
        return self.c

    def moment(self, order: float) -> float:
        return Pareto(self.c).moment(order)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.pareto(self.c, size) - 1.0 / (self.c - 1.0)


@dataclass(frozen=True)
class Fisk(Noise):
    """Log-logistic with index c > 1, less its mean (pi/c)/sin(pi/c). Skewed."""

    c: float
    symmetric = False

    def __post_init__(self) -> None:
        check_number("Fisk.c", self.c, above=1.0, hint="At 1 and below it has no mean.")

    @property
    def index(self) -> float:
        return self.c

    @property
    def mean(self) -> float:
        """The mean that is subtracted."""
        return (math.pi / self.c) / math.sin(math.pi / self.c)

    def moment(self, order: float) -> float:
        from scipy import integrate

        p, c, m = order, self.c, self.mean
        # Above the mean, x = m/w: the weight w^(c-1-p) (1-w)^p carries the tail, the rest is
        # smooth.
        above = integrate.quad(
            lambda w: c * m ** (p + c) / (w**c + m**c) ** 2,
            0.0,
            1.0,
            weight="alg",
            wvar=(c - 1.0 - p, p),
        )[0]
        below = integrate.quad(
            lambda x: (m - x) ** p * c * x ** (c - 1.0) / (1.0 + x**c) ** 2, 0.0, m, epsabs=0.0
        )[0]
        return float(above + below)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        u = rng.random(size)
        return ((1.0 - u) / np.maximum(u, np.finfo(float).tiny)) ** (1.0 / self.c) - self.mean


@dataclass(frozen=True)
class Stable(Noise):
    """Stable with index alpha in (1, 2], skewness beta, scale 1 and mean 0 (S1)."""

    alpha: float
    beta: float = 0.0

    def __post_init__(self) -> None:
        check_number("Stable.alpha", self.alpha, above=1.0, most=2.0)
        check_number("Stable.beta", self.beta, least=-1.0, most=1.0)

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Tell whether beta is 0."""
        return self.beta == 0.0

    @property
    def index(self) -> float:
        return self.alpha if self.alpha < 2.0 else math.inf  # at 2 it is normal

    def moment(self, order: float) -> float:
        p, alpha = order, self.alpha
        if alpha == 2.0:
            return Gaussian(math.sqrt(2.0)).moment(p)
        tilt = self.beta * math.tan(math.pi * alpha / 2.0)
        factor = (1.0 + tilt**2) ** (p / (2.0 * alpha)) * math.cos(p / alpha * math.atan(tilt))
        if p == 1.0:  # the limit of 1 / (Gamma(1 - p) cos(pi p / 2))
            return 2.0 / math.pi * math.gamma(1.0 - 1.0 / alpha) * factor
        return (
            math.gamma(1.0 - p / alpha)
            / (math.gamma(1.0 - p) * math.cos(math.pi * p / 2.0))
            * factor
        )

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        # Chambers, Mallows and Stuck (1976); uniform and exponential interleaved, so that a prefix
        # is a prefix.
        draws = rng.random((size, 2))
        angle = math.pi * (draws[:, 0] - 0.5)
        weight = -np.log1p(-draws[:, 1]) + np.finfo(float).tiny
        a = self.alpha
        tilt = self.beta * math.tan(math.pi * a / 2.0)
        shift = math.atan(tilt) / a
        size_factor = (1.0 + tilt**2) ** (1.0 / (2.0 * a))
        inner = np.cos(angle - a * (angle + shift)) / weight
        value = np.sin(a * (angle + shift)) / np.cos(angle) ** (1.0 / a) * inner ** ((1.0 - a) / a)
        return np.asarray(size_factor * value)


@dataclass(frozen=True)
class LogNormal(Noise):
    """exp(sigma Z) less its mean exp(sigma²/2). Skewed; every moment is finite."""

    sigma: float
    symmetric = False

    def __post_init__(self) -> None:
        check_number("LogNormal.sigma", self.sigma, above=0.0, most=LARGEST_LOG)

    @property
    def index(self) -> float:
        return math.inf

    def moment(self, order: float) -> float:
        from scipy import integrate

        p, sigma = order, self.sigma
        mean = math.exp(sigma**2 / 2.0)

        def density(z: float) -> float:
            return float(
                abs(math.exp(sigma * z) - mean) ** p
                * math.exp(-z * z / 2.0)
                / math.sqrt(2.0 * math.pi)
            )

        # The kink is at z = sigma/2; the mass of the p-th power sits near z = p sigma.
        cuts = [-40.0, sigma / 2.0, p * sigma + 1.0, p * sigma + 40.0]
        pairs = zip(cuts[:-1], cuts[1:], strict=True)
        return float(sum(integrate.quad(density, a, b, epsabs=0.0, limit=200)[0] for a, b in pairs))

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return np.exp(self.sigma * rng.standard_normal(size)) - math.exp(self.sigma**2 / 2.0)


@dataclass(frozen=True)
class Scaled(Noise):
    """Another noise times 10^U(0, spread), a new factor every round, which the policy is told.

    ``scale``, ``moment`` and ``tail`` speak of the noise at factor 1; a round's nu_t is factor
    times that. ``worst(order)`` is the bound that holds in every round, for policies that cannot
    use the factor.
    """

    noise: Noise
    spread: float

    def __post_init__(self) -> None:
        check_number("Scaled.spread", self.spread, least=0.0, most=100.0)
        if not isinstance(self.noise, Noise) or isinstance(self.noise, Scaled):
            raise TypeError(f"Scaled.noise must be a noise of constant scale; got {self.noise!r}.")

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Tell whether the noise underneath is."""
        return self.noise.symmetric

    @property
    def index(self) -> float:
        return self.noise.index

    def moment(self, order: float) -> float:
        return self.noise.moment(order)

    def worst(self, order: float) -> MomentBound:
        """The moment bound at the largest factor."""
        return MomentBound(order=order, scale=10.0**self.spread * self.scale(order))

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.noise.sample(rng, size)

    def factors(self, rng: np.random.Generator, size: int) -> FloatArray:
        return np.asarray(10.0 ** rng.uniform(0.0, self.spread, size))


def describe(noise: Noise) -> dict[str, Any]:
    """A noise as plain data, for results and settings files."""
    from dataclasses import asdict

    return {"noise": type(noise).__name__, **asdict(noise)}  # type: ignore[call-overload]
