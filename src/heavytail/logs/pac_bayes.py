"""The PAC-Bayes bound of a softmax policy with Gaussian parameters, and its maximiser.

theta is drawn from Q = N(mean, s² I) and an arm from the softmax of x'theta; averaged over theta,
that is pi_Q. A softmax draws like the largest of x'theta + Gumbel noise, so pi_Q is a mixture Q of
deterministic policies, and with the prior N(0, s² I), the same noise, KL = ‖mean‖² / (2 s²).

For one deterministic policy let X = c + 1{its arm} (r - floor - c)/p, whose mean is V - floor for
every c, since that of 1{its arm}/p is 1. Where no factor can be negative, the product of all
(1 + lambda X_i)/(1 + lambda (V - floor)) has mean 1. Averaging over the prior, changing the measure
to Q and Jensen's inequality give, for all Q at once with probability 1 - delta,

    V(pi_Q) >= floor + (exp([n log(1 + lambda c) + S - KL - log(1/delta)]/n) - 1)/lambda,

    S = sum_i pi_Q(a_i|x_i) l_i,

    l_i = log(1 + lambda (c + (r_i - floor - c)/p_i)) - log(1 + lambda c).

(With c = 0 this is LS-LIN of Sakhi, Aouali, Alquier and Chopin 2024, there for bounded costs; the
argument needs no bound on r or 1/p and no moment beyond the mean. The baseline c is ours.) S is
linear in pi_Q, as X takes one of two values, and what is learned is the mean that makes the
right-hand side largest. c > 0 asks for lambda c (1/p - 1) < 1 of every arm that can be offered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail.logs.intervals import bernstein_lower
from heavytail.logs.softmax import Part, masses, objective
from heavytail.simulation.progress import Progress

__all__ = ["POWERS", "SPREADS", "STAGES", "Bound"]

SPREADS: Final = (2.0, 1.0, 0.5)  # s that are tried, for features of length 1 or so
POWERS: Final = 40  # lambda is 2^j, |j| <= 40, in units of 1 / reward_unit
NEAR: Final = (-2, 0, 2)  # the powers that are tried, from the central one
CENTRE: Final = 8.0  # lambda times a typical gain times sqrt(n); 2 to 32 do (benchmarks.log_policy)
STEEPEST: Final = 0.5  # of lambda c (1/p - 1): a row halves the product at worst
DRAWS: Final = 32  # of theta: pi_Q is their average
JUDGES: Final = 1024  # fresh draws from which the bound is computed
AT_ONCE: Final = 128  # of these
STAGES: Final = len(SPREADS) * len(NEAR) + JUDGES // AT_ONCE  # of the work, for its progress
STEPS: Final = 30  # of an ascent


@dataclass(frozen=True)
class Bound:
    """The quantities that the bound depends on, all of them stated before the log was seen.

    Attributes:
        level: 1 - delta.
        unit: where lambda's grid is centred: 2^j / unit, |j| <= 40.
        above: c, how far the baseline is above the floor.
        least: a number that no propensity is below; 0 where none is stated, and c is 0.
        seed: of the draws of theta.
    """

    level: float
    unit: float
    above: float
    least: float
    seed: int

    @property
    def highest(self) -> int:
        """The largest j of the grid that the baseline leaves."""
        slope = self.above * (1.0 / self.least - 1.0) if self.above else 0.0
        if slope == 0.0:
            return POWERS
        return min(POWERS, math.floor(math.log2(STEEPEST / slope * self.unit)))

    def strength(self, j: int) -> float:
        """lambda."""
        return float(2.0**j / self.unit)

    def noise(self, dim: int) -> FloatArray:
        """(32, dim), standard normal: what is learned from and played."""
        return np.random.default_rng([self.seed, 0]).normal(size=(DRAWS, dim))

    def best(self, parts: list[Part], bar: Progress) -> tuple[FloatArray, float, float]:
        """The mean, s and lambda with the largest bound among those tried."""
        from scipy.optimize import minimize

        dim, n = parts[0].ahead.shape[2], _count(parts)
        noise, power = self.noise(dim), self._central(parts)
        best, most = (np.zeros(dim), SPREADS[0], self.strength(power)), -math.inf
        for spread in SPREADS:
            mean = np.zeros(dim)
            for step in NEAR:
                strength = self.strength(power + step)
                gains = self._logs(parts, strength)
                ascent = minimize(
                    _descent, mean, (parts, gains, spread, noise), jac=True, method="L-BFGS-B",
                    options={"maxiter": STEPS},
                )  # fmt: skip
                mean = np.asarray(ascent.x)
                bound = self._at_least(-ascent.fun, strength, n)
                if bound > most:
                    best, most = (mean, spread, strength), bound
                bar.advance()
        return best

    def lower(
        self, parts: list[Part], mean: FloatArray, spread: float, strength: float, bar: Progress
    ) -> float:
        """The bound on V(pi_Q) - floor, S from below with 0.1 delta; at least 0.

        S is the mean under Q of what lies between the sum of the negative l_i and that of the
        positive ones; an empirical Bernstein bound (Maurer and Pontil 2009) of draws that nothing
        was chosen by takes its place.
        """
        fresh = np.random.default_rng([self.seed, 1]).normal(size=(JUDGES, len(mean)))
        gains = self._logs(parts, strength)
        least = sum(float(np.minimum(gain, 0.0).sum()) for gain in gains)
        most = sum(float(np.maximum(gain, 0.0).sum()) for gain in gains)
        each = np.full(JUDGES, -least)
        for first in range(0, JUDGES, AT_ONCE):
            some = slice(first, first + AT_ONCE)
            for part, gain in zip(parts, gains, strict=True):
                each[some] += masses(part, gain, mean + spread * fresh[some])
            bar.advance()
        kl = float(mean @ mean) / (2.0 * spread**2)
        total, square, delta = float(each.sum()), float(each @ each), 0.1 * (1.0 - self.level)
        gained = least + bernstein_lower(JUDGES, total, square, most - least, delta) - kl
        return max(self._at_least(gained, strength, _count(parts)), 0.0)

    def _at_least(self, gained: float, strength: float, n: int) -> float:
        """The right-hand side less the floor, of S - KL = ``gained``, for all lambda and s of the
        grids at once, with 0.9 delta.
        """
        count = (2 * POWERS + 1) * len(SPREADS)
        exponent = (gained - math.log(count / (0.9 * (1.0 - self.level)))) / n
        return math.expm1(exponent + math.log1p(strength * self.above)) / strength

    def _logs(self, parts: list[Part], strength: float) -> list[FloatArray]:
        """l_i."""
        own = math.log1p(strength * self.above)
        return [np.log1p(strength * (self.above + part.gain)) - own for part in parts]

    def _central(self, parts: list[Part]) -> int:
        """j with 2^j / unit near 8 / sqrt(n) over a typical gain, which no outlier moves."""
        gains, n = abs(np.concatenate([part.gain for part in parts])), _count(parts)
        positive = gains[gains > 0.0]
        if not len(positive):
            return min(0, self.highest - 2)
        typical = float(np.quantile(positive, 0.9)) * math.sqrt(len(positive) / n)
        power = math.log2(CENTRE / math.sqrt(n) / typical * self.unit)
        return min(max(round(power), 2 - POWERS), self.highest - 2)


def _count(parts: list[Part]) -> int:
    return sum(len(part.gain) for part in parts)


def _descent(*arguments: Any) -> tuple[float, FloatArray]:
    value, slope = objective(*arguments)
    return -value, -slope
