"""``LogPolicy``: a linear softmax policy learned from a log, with a bound on what it earns.

theta is drawn from N(mean, s² I) and an arm from the softmax of x'theta; averaged over theta, that
is pi_Q. A softmax draws like the largest of x'theta + Gumbel noise, so pi_Q is a mixture Q of
deterministic policies, and with the prior N(0, s² I), the same noise, KL = ‖mean‖² / (2 s²).

For one deterministic policy, prod (1 + lambda X_i)/(1 + lambda V) with X = 1{its arm} r / p has
mean 1 for every r >= 0. Averaging over the prior, changing the measure to Q and Jensen's
inequality give, for all Q at once with probability 1 - delta,

    V(pi_Q) >= (exp([sum_i pi_Q(a_i|x_i) log(1 + lambda r_i/p_i) - KL - log(1/delta)]/n) - 1)/lambda

(LS-LIN of Sakhi, Aouali, Alquier and Chopin 2024, there for bounded costs; the argument needs no
bound on r or 1/p and no moment beyond the mean.) The sum is linear in pi_Q, and what is learned is
the mean that makes the right-hand side largest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import Check, as_arms, as_numbers, check_number
from heavytail.logs.intervals import bernstein_lower
from heavytail.logs.reading import chunks
from heavytail.logs.rows import Rows

__all__ = ["LogPolicy"]

SPREADS: Final = (2.0, 1.0, 0.5)  # s that are tried, for features of length 1 or so
POWERS: Final = 40  # lambda is 2^j, |j| <= 40, in units of 1 / reward_unit
DRAWS: Final = 32  # of theta: pi_Q is their average
JUDGES: Final = 1024  # fresh draws that the bound is reckoned from
STEPS: Final = 30  # of the ascent


class LogPolicy:
    r"""A linear softmax policy from logged rewards of any tail, with its PAC-Bayes lower bound.

    $$\max_{\theta}\ \sum_i \pi_Q(a_i\mid x_i)\,\log\Big(1+\frac{\lambda r_i}{p_i}\Big) -
      \frac{\|\theta\|^2}{2 s^2},\qquad Q = \mathcal N(\theta, s^2 I)$$

    lambda and s are chosen from fixed grids, which the bound pays for. Rewards must not be below
    ``reward_floor``; neither they nor the weights need a bound. The rows are held in memory.

    >>> import numpy as np, heavytail as ht
    >>> rng = np.random.default_rng(0)
    >>> arms = rng.normal(size=(4000, 3, 2))
    >>> action = rng.integers(3, size=4000)
    >>> x = arms[np.arange(4000), action]
    >>> log = {"arms": arms, "action": action, "propensity": np.full(4000, 1 / 3),
    ...        "reward": np.exp(x[:, 0]) * rng.pareto(1.5, 4000)}
    >>> policy = ht.LogPolicy().fit(log)
    >>> bool(policy.theta[0] > abs(policy.theta[1])), bool(policy.lower > log["reward"].mean())
    (True, True)
    >>> policy.probabilities(arms[:2]).sum(axis=1).round(6)
    array([1., 1.])

    Args:
        level: 1 - delta, of the bound.
        reward_unit: a typical size of r / p, stated beforehand: where lambda's grid is centred. A
            power of ten too far costs the bound next to nothing.
        reward_floor: a number that no reward can be below.
        seed: of the draws of theta.

    Attributes:
        theta: (d,), the mean of Q.
        spread: s.
        smoothing: lambda.
        lower: with probability ``level`` the value of pi_Q is not below it. ``probabilities`` and
            ``select`` play the mean of 32 draws of theta, which is pi_Q but for chance.
        rows: rows it was learned from.
    """

    theta: FloatArray
    spread: float
    smoothing: float
    lower: float
    rows: int

    def __init__(
        self,
        *,
        level: float = 0.95,
        reward_unit: float = 1.0,
        reward_floor: float = 0.0,
        seed: int = 0,
    ) -> None:
        check = Check(type(self))
        self.level = check.number("level", level, above=0.0, below=1.0)
        self.reward_unit = check.number("reward_unit", reward_unit, above=0.0)
        self.reward_floor = check.number("reward_floor", reward_floor)
        self.seed = check.seed(seed)

    def fit(self, log: Any, *, columns: Mapping[str, Any] | None = None) -> Self:
        """Learn from ``log``, which has arms and propensities; returns itself."""
        from scipy.optimize import minimize

        parts = [_Part(rows, self.reward_floor) for rows in chunks(log, columns=columns)]
        n = sum(len(part.gain) for part in parts)
        if n == 0:
            raise ValueError("LogPolicy.fit: the log has no rows; there is nothing to learn from.")
        dim = parts[0].arms.shape[2]
        noise = self._noise(dim)
        power = _central(parts, self.reward_unit, n)
        best = (-math.inf, np.zeros(dim), 1.0, 1.0)
        for spread in SPREADS:
            theta = np.zeros(dim)
            for j in (power - 2, power, power + 2):
                strength = 2.0**j / self.reward_unit
                gains = [np.log1p(strength * part.gain) for part in parts]
                ascent = minimize(
                    _descent, theta, (parts, gains, spread, noise), jac=True, method="L-BFGS-B",
                    options={"maxiter": STEPS},
                )  # fmt: skip
                theta = np.asarray(ascent.x)
                found = self._bound(-ascent.fun, strength, n)
                if found > best[0]:
                    best = (found, theta, spread, strength)
        _, self.theta, self.spread, self.smoothing = best
        self.lower = self.reward_floor + self._bound(self._sum(parts), self.smoothing, n)
        self.rows = n
        return self

    def _noise(self, dim: int) -> FloatArray:
        return np.random.default_rng([self.seed, 0]).normal(size=(DRAWS, dim))

    def _bound(self, gained: float, strength: float, n: int) -> float:
        """The right-hand side, of sum_i pi_Q log(1 + lambda r/p) - KL = ``gained``, for all lambda
        and s of the grids at once, with 0.9 delta.
        """
        count = (2 * POWERS + 1) * len(SPREADS)
        exponent = (gained - math.log(count / (0.9 * (1.0 - self.level)))) / n
        return math.expm1(min(exponent, 700.0)) / strength

    def _sum(self, parts: list[_Part]) -> float:
        """sum_i pi_Q log(1 + lambda r/p) - KL, from below, with 0.1 delta.

        The sum is the mean under Q of what lies in [0, sum of logs]; an empirical Bernstein bound
        (Maurer and Pontil 2009) of draws that nothing was chosen by takes its place.
        """
        fresh = np.random.default_rng([self.seed, 1]).normal(size=(JUDGES, len(self.theta)))
        each, most = np.zeros(JUDGES), 0.0
        for part in parts:
            gain = np.log1p(self.smoothing * part.gain)
            most += float(gain.sum())
            at = np.arange(len(gain))
            for k, draw in enumerate(fresh):
                shares = _softmax(part.arms, self.theta + self.spread * draw)
                each[k] += shares[at, part.action] @ gain
        kl = float(self.theta @ self.theta) / (2.0 * self.spread**2)
        return (
            bernstein_lower(
                JUDGES, float(each.sum()), float(each @ each), most, 0.1 * (1.0 - self.level)
            )
            - kl
        )

    def probabilities(self, arms: Any) -> FloatArray:
        """(n, K): with which probability each arm of each row is played; rows (n, K, d), or a chunk
        of a log.
        """
        offered = arms.arms if isinstance(arms, Rows) else arms
        if offered is None:
            raise ValueError(f"{arms.source}: LogPolicy needs the column 'arms'.")
        rows = as_numbers(offered, "LogPolicy: arms", "numbers (n, K, d)")
        if rows.ndim != 3 or rows.shape[2] != len(self._fitted()):
            raise ValueError(
                f"LogPolicy: arms must have shape (n, K, {len(self.theta)}); got {rows.shape}."
            )
        noise = self._noise(len(self._fitted()))
        found: FloatArray = np.zeros(rows.shape[:2])
        for each in noise:
            found += _softmax(rows, self.theta + self.spread * each) / DRAWS
        return found

    __call__ = probabilities  # so that it is a target for ht.evaluate

    def select(self, arms: Any, *, draw: float) -> int:
        """The arm that ``draw``, uniform in [0, 1), falls to."""
        theta = self._fitted()
        check_number("LogPolicy.select: draw", draw, least=0.0, below=1.0)
        offered = as_arms(arms, len(theta), type(self), ".select")
        shares = np.cumsum(self.probabilities(offered[None])[0])
        return min(int(np.searchsorted(shares, draw, side="right")), len(offered) - 1)

    def _fitted(self) -> FloatArray:
        if not hasattr(self, "theta"):
            raise ValueError("LogPolicy: it has not learned yet. Call fit(log) first.")
        return self.theta


class _Part:
    """A chunk: arms, actions, and r / p."""

    def __init__(self, rows: Rows, floor: float) -> None:
        for name in ("arms", "propensity"):
            if getattr(rows, name) is None:
                raise ValueError(f"{rows.source}: LogPolicy needs the column {name!r}.")
        assert rows.arms is not None
        assert rows.propensity is not None
        low = rows.reward < floor
        if low.any():
            row = int(np.argmax(low))
            raise ValueError(
                f"{rows.at(row)}, column 'reward': must be at least "
                f"reward_floor={floor}; got {rows.reward[row]}. State a floor that none is below."
            )
        self.arms, self.action = rows.arms, rows.action
        self.gain = (rows.reward - floor) / rows.propensity


def _softmax(arms: FloatArray, theta: FloatArray) -> FloatArray:
    """(n, K); arms that are NaN were not offered."""
    scores = arms @ theta
    scores = np.where(np.isnan(scores), -np.inf, scores)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _objective(
    theta: FloatArray,
    parts: list[_Part],
    gains: list[FloatArray],
    spread: float,
    noise: FloatArray,
) -> tuple[float, FloatArray]:
    """sum_i pi_Q(a_i|x_i) gain_i - ‖theta‖²/(2 s²), and its gradient, over fixed draws."""
    value = -float(theta @ theta) / (2.0 * spread * spread)
    slope = -theta / (spread * spread)
    for part, gain in zip(parts, gains, strict=True):
        at = np.arange(len(gain))
        arms = np.nan_to_num(part.arms)
        for each in noise:
            shares = _softmax(part.arms, theta + spread * each)
            weight = shares[at, part.action] * gain / len(noise)
            value += float(weight.sum())
            slope = slope + weight @ arms[at, part.action]
            slope = slope - np.einsum("n,nk,nkd->d", weight, shares, arms, optimize=True)
    return value, slope


def _descent(*arguments: Any) -> tuple[float, FloatArray]:
    value, slope = _objective(*arguments)
    return -value, -slope


def _central(parts: list[_Part], unit: float, n: int) -> int:
    """j with 2^j / unit near 8 / sqrt(n) over a typical r / p, about where bounds were best with
    Lomax rewards of index 1.6 and 3; no outlier moves it.
    """
    gains = np.concatenate([part.gain for part in parts])
    positive = gains[gains > 0.0]
    if not len(positive):
        return 0
    typical = float(np.quantile(positive, 0.9)) * math.sqrt(len(positive) / n)
    power = math.log2(8.0 / math.sqrt(n) / typical * unit)
    return min(max(round(power), 2 - POWERS), POWERS - 2)
