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
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from heavytail._invariants import are_counts, damaged
from heavytail._storage import Stored, check_fit, of_length
from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import Check, as_arms, as_numbers, check_number
from heavytail.kernels.random import uniform
from heavytail.logs.intervals import bernstein_lower
from heavytail.logs.rows import Rows
from heavytail.logs.softmax import FARTHEST, LARGEST, Part, masses, mean_shares, objective
from heavytail.logs.source import Source
from heavytail.policies.core.decisions import Decision
from heavytail.simulation.progress import Progress, progress_bar

__all__ = ["LogPolicy"]

SPREADS: Final = (2.0, 1.0, 0.5)  # s that are tried, for features of length 1 or so
POWERS: Final = 40  # lambda is 2^j, |j| <= 40, in units of 1 / reward_unit
NEAR: Final = (-2, 0, 2)  # the powers that are tried, from the central one
CENTRE: Final = 8.0  # lambda r/p of a typical row in the middle, times sqrt(n)
DRAWS: Final = 32  # of theta: pi_Q is their average
JUDGES: Final = 1024  # fresh draws that the bound is reckoned from
AT_ONCE: Final = 128  # of these: each block of them is a step of the progress
STEPS: Final = 30  # of the ascent
KL_PER_ROW: Final = 1500.0  # at most: log(1 + lambda r/p) < 490, and three ascents follow on


class _Scalars(NamedTuple):
    """What is saved beside theta."""

    spread: float
    smoothing: float
    lower: float
    rows: float
    drawn: float


@final
class LogPolicy(Stored):
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

    noun: ClassVar[str] = "log policy"
    theta: FloatArray
    spread: float
    smoothing: float
    lower: float
    rows: int
    _drawn: int = 0  # draws of arms so far, and the next decision's token

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

    @alone
    def fit(
        self,
        log: Any,
        *,
        columns: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Learn from ``log``, which has arms and propensities; returns itself.

        Args:
            log: see :mod:`heavytail.logs.reading`.
            columns: where the log has other names: ours -> its own.
            progress: show a bar with the time left; on a terminal unless given.
        """
        source = Source(log, columns, None)
        parts = []
        with progress_bar(progress, "rows", source.length()) as bar:
            for rows in source.chunks():
                parts.append(Part(rows, self.reward_floor, self.reward_unit))
                bar.advance(len(rows.action))
        n = sum(len(part.gain) for part in parts)
        if n == 0:
            raise ValueError("LogPolicy.fit: the log has no rows; there is nothing to learn from.")
        steps = len(SPREADS) * len(NEAR) + JUDGES // AT_ONCE
        with progress_bar(progress, "learning", steps) as bar:
            theta, spread, smoothing = self._best(parts, n, bar)
            gained = self._sum(parts, theta, spread, smoothing, bar)
        lower = self.reward_floor + max(self._bound(gained, smoothing, n), 0.0)
        self._take(theta, _Scalars(spread, smoothing, lower, n, self._drawn))
        return self

    def _best(self, parts: list[Part], n: int, bar: Progress) -> tuple[FloatArray, float, float]:
        """theta, s and lambda that make the bound largest, of those that are tried."""
        from scipy.optimize import minimize

        dim = parts[0].ahead.shape[2]
        noise = self._noise(dim)
        power = _central(parts, self.reward_unit, n)
        best, most = (np.zeros(dim), 1.0, 1.0), -math.inf
        for spread in SPREADS:
            theta = np.zeros(dim)
            for step in NEAR:
                strength = 2.0 ** (power + step) / self.reward_unit
                gains = [np.log1p(strength * part.gain) for part in parts]
                ascent = minimize(
                    _descent, theta, (parts, gains, spread, noise), jac=True, method="L-BFGS-B",
                    options={"maxiter": STEPS},
                )  # fmt: skip
                theta = np.asarray(ascent.x)
                found = self._bound(-ascent.fun, strength, n)
                if found > most:
                    best, most = (theta, spread, strength), found
                bar.advance()
        return best

    def _noise(self, dim: int) -> FloatArray:
        return np.random.default_rng([self.seed, 0]).normal(size=(DRAWS, dim))

    def _bound(self, gained: float, strength: float, n: int) -> float:
        """The right-hand side, of sum_i pi_Q log(1 + lambda r/p) - KL = ``gained``, for all lambda
        and s of the grids at once, with 0.9 delta.
        """
        count = (2 * POWERS + 1) * len(SPREADS)
        exponent = (gained - math.log(count / (0.9 * (1.0 - self.level)))) / n
        return math.expm1(exponent) / strength

    def _sum(
        self, parts: list[Part], theta: FloatArray, spread: float, smoothing: float, bar: Progress
    ) -> float:
        """sum_i pi_Q log(1 + lambda r/p) - KL, from below, with 0.1 delta.

        The sum is the mean under Q of what lies in [0, sum of logs]; an empirical Bernstein bound
        (Maurer and Pontil 2009) of draws that nothing was chosen by takes its place.
        """
        fresh = np.random.default_rng([self.seed, 1]).normal(size=(JUDGES, len(theta)))
        gains = [np.log1p(smoothing * part.gain) for part in parts]
        most = sum(float(gain.sum()) for gain in gains)
        each = np.zeros(JUDGES)
        for first in range(0, JUDGES, AT_ONCE):
            some = slice(first, first + AT_ONCE)
            for part, gain in zip(parts, gains, strict=True):
                each[some] += masses(part, gain, theta + spread * fresh[some])
            bar.advance()
        kl = float(theta @ theta) / (2.0 * spread**2)
        total, square, delta = float(each.sum()), float(each @ each), 0.1 * (1.0 - self.level)
        return bernstein_lower(JUDGES, total, square, most, delta) - kl

    # Playing

    def probabilities(self, arms: Any) -> FloatArray:
        """(n, K): with which probability each arm of each row is played; rows (n, K, d), or a chunk
        of a log. An arm of NaN is not offered.
        """
        theta = self._fitted()
        offered = arms.arms if isinstance(arms, Rows) else arms
        if offered is None:
            raise ValueError(f"{arms.source}: LogPolicy needs the column 'arms'.")
        rows = as_numbers(offered, "LogPolicy: arms", "numbers (n, K, d)")
        if rows.ndim != 3 or rows.shape[2] != len(theta):
            raise ValueError(
                f"LogPolicy: arms must have shape (n, K, {len(theta)}); got {rows.shape}."
            )
        absent: NDArray[np.bool_] = np.all(np.isnan(rows), axis=2)
        bad = absent.all(axis=1) | (~(abs(rows) <= FARTHEST) & ~absent[:, :, None]).any(axis=(1, 2))
        if bad.any():
            row = int(np.argmax(bad))
            where = arms.at(row) if isinstance(arms, Rows) else f"LogPolicy: arms[{row}]"
            raise ValueError(
                f"{where}: must offer an arm, and numbers of at most {FARTHEST:g} in size."
            )
        return mean_shares(rows, theta + self.spread * self._noise(len(theta)))

    __call__ = probabilities  # so that it is a target for ht.evaluate

    @alone
    def select(self, arms: Any, *, draw: float | None = None) -> int:
        """The arm that ``draw``, uniform in [0, 1), falls to; without one, the next of its own.

        Its own draws are fixed by ``seed`` and by how many came before, which is saved.
        """
        if draw is not None:
            check_number("LogPolicy.select: draw", draw, least=0.0, below=1.0)
        _, shares = self._shares(arms, ".select")
        return _fallen(shares, self._draw() if draw is None else draw)

    @alone
    def decide(self, arms: Any, *, explore: float = 0.0) -> Decision:
        """Choose as ``select`` does, and say with which probability: for a
        :class:`heavytail.DecisionLog`.

        With ``explore`` = e in [0, 1] the choice is, with probability e, any of the n arms instead,
        so that no arm's probability is below e/n. It does not learn: nothing waits for the reward,
        and the token, the number of the draw, is for the log.
        """
        e = check_number("LogPolicy.decide: explore", explore, least=0.0, most=1.0)
        offered, shares = self._shares(arms, ".decide")
        shares = (1.0 - e) * shares + e / len(shares)
        token = self._drawn
        arm = _fallen(shares, self._draw())
        x = offered[arm].copy()
        x.flags.writeable = False
        return Decision(token, arm, x, min(float(shares[arm]), 1.0), None, time.time())

    def _shares(self, arms: Any, method: str) -> tuple[FloatArray, FloatArray]:
        """One set of arms, and their probabilities."""
        offered = as_arms(arms, len(self._fitted()), type(self), method)
        if not np.isfinite(offered).all() or not len(offered):
            raise ValueError(f"LogPolicy{method}: arms must be finite, and one at least.")
        return offered, self.probabilities(offered[None])[0]

    def _draw(self) -> float:
        draw = float(uniform(self.seed, self._drawn, 0))
        self._drawn += 1
        return draw

    def _fitted(self) -> FloatArray:
        if not hasattr(self, "theta"):
            raise ValueError("LogPolicy: it has not learned yet. Call fit(log) first.")
        return self.theta

    # Saving

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        return {"scalars": _Scalars._fields}

    def state_arrays(self) -> dict[str, Any]:
        if not hasattr(self, "theta"):
            return {}
        told = _Scalars(self.spread, self.smoothing, self.lower, self.rows, self._drawn)
        return {"theta": self.theta, "scalars": np.array(told, dtype=np.float64)}

    @alone
    def restore(self, arrays: dict[str, Any]) -> None:
        if not arrays:
            if hasattr(self, "theta"):
                raise ValueError("LogPolicy: a state that was not learned has no place here.")
            return
        like = {"theta": of_length(np.zeros(1), np.size(arrays.get("theta", 0.0)), 0)}
        check_fit("LogPolicy", arrays, {**like, "scalars": np.zeros(len(_Scalars._fields))})
        theta, told = arrays["theta"], _Scalars(*arrays["scalars"].tolist())
        self._check_scalars(told)
        far = KL_PER_ROW * told.rows * 2.0 * told.spread**2
        with np.errstate(over="ignore"):
            sound = len(theta) > 0 and bool(theta @ theta <= far)
        if not sound:
            raise damaged("LogPolicy", "theta", f"its square must be at most {far:g}")
        self._take(theta.copy(), told)

    def _check_scalars(self, told: _Scalars) -> None:
        """Refuse what ``fit`` could not have come to."""
        powers = (2.0**j / self.reward_unit for j in range(-POWERS, POWERS + 1))
        least, most = self.reward_floor, self.reward_floor + LARGEST * self.reward_unit
        for name, sound in {
            "spread": told.spread in SPREADS,
            "smoothing": told.smoothing in powers,
            "lower": least <= told.lower <= most,
            "rows": are_counts(np.array(told.rows), least=1.0),
            "drawn": are_counts(np.array(told.drawn)),
        }.items():
            if not sound:
                raise damaged("LogPolicy", name, f"got {getattr(told, name)!r}")

    def _take(self, theta: FloatArray, told: _Scalars) -> None:
        theta.flags.writeable = False
        self.theta, self.spread, self.smoothing = theta, told.spread, told.smoothing
        self.lower, self.rows, self._drawn = told.lower, int(told.rows), int(told.drawn)


def _fallen(shares: FloatArray, draw: float) -> int:
    """The arm that a draw falls to; never one of probability 0, however the sum is rounded."""
    last = int(np.flatnonzero(shares)[-1])
    return min(int(np.searchsorted(np.cumsum(shares), draw, side="right")), last)


def _descent(*arguments: Any) -> tuple[float, FloatArray]:
    value, slope = objective(*arguments)
    return -value, -slope


def _central(parts: list[Part], unit: float, n: int) -> int:
    """j with 2^j / unit near 8 / sqrt(n) over a typical r / p, which no outlier moves."""
    gains = np.concatenate([part.gain for part in parts])
    positive = gains[gains > 0.0]
    if not len(positive):
        return 0
    typical = float(np.quantile(positive, 0.9)) * math.sqrt(len(positive) / n)
    power = math.log2(CENTRE / math.sqrt(n) / typical * unit)
    return min(max(round(power), 2 - POWERS), POWERS - 2)
