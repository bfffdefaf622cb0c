"""``LogPolicy``: a linear softmax policy learned from a log, with a bound on its value."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heavytail._invariants import are_counts, damaged
from heavytail._storage import Stored, check_fit, of_length
from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import Check, as_arms, as_numbers, check_number
from heavytail.kernels.random import uniform
from heavytail.ledger.decision import Decision
from heavytail.logs.pac_bayes import POWERS, SPREADS, STAGES, Bound
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.source import Source
from heavytail.logs.softmax import FARTHEST, LARGEST, Part, mean_shares
from heavytail.simulation.progress import progress_bar

__all__ = ["LogPolicy"]

KL_PER_ROW: Final = 1500.0  # at most: a row's logarithm is below 490, and three ascents follow on


class _Scalars(NamedTuple):
    """The numbers that are saved beside theta."""

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

    lambda and s are chosen from fixed grids; the bound accounts for the choice
    (:mod:`heavytail.logs.pac_bayes`). Rewards must not be below ``reward_floor``; neither they nor
    the weights need a bound. The rows are held in memory; 32 draws of theta stand for Q, so that an
    evaluation of the sum costs O(32 n K d).

    An action of propensity p gains lambda r - (lambda r)²/(2p) per row, to second order and on
    average. Where all rewards are far above the floor, the second term decides, and what was
    logged most often is learned, unless there are very many rows. State a ``reward_baseline``
    then: r is what a reward is above that one, and the bound still holds.

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
        reward_baseline: a usual reward, stated beforehand, not read off this log.
        least_propensity: needed with it: a number that the propensity of no arm that is offered
            can be below, also of those that were not played.
        seed: of the draws of theta, and of its choices.

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
        reward_baseline: float | None = None,
        least_propensity: float | None = None,
        seed: int = 0,
    ) -> None:
        check = Check(type(self))
        self.level = check.number("level", level, above=0.0, below=1.0)
        self.reward_unit = check.number("reward_unit", reward_unit, above=0.0)
        self.reward_floor = floor = check.number("reward_floor", reward_floor)
        self.seed = check.seed(seed)
        if (reward_baseline is None) != (least_propensity is None):
            raise ValueError(
                "LogPolicy: state reward_baseline and least_propensity, or neither of the two."
            )
        self.reward_baseline, self.least_propensity = floor, 0.0
        if reward_baseline is not None:
            self.reward_baseline = check.number("reward_baseline", reward_baseline, least=floor)
            self.least_propensity = check.number(
                "least_propensity", least_propensity, above=0.0, most=1.0
            )
        above = self.reward_baseline - floor
        self._bound = Bound(self.level, self.reward_unit, above, self.least_propensity, self.seed)
        if self._bound.highest < 4 - POWERS:
            raise ValueError(
                f"LogPolicy.reward_unit must be larger, of the size of reward_baseline - "
                f"reward_floor = {above:g} over a propensity; got {self.reward_unit:g}."
            )

    @alone
    def fit(
        self,
        log: object,
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
        stated = {
            "floor": self.reward_floor,
            "baseline": self.reward_baseline,
            "least": self.least_propensity,
            "unit": self.reward_unit,
        }
        parts = []
        with progress_bar(progress, "rows", source.length()) as bar:
            for rows in source.chunks():
                parts.append(Part(rows, **stated))
                bar.advance(len(rows.action))
        n = sum(len(part.gain) for part in parts)
        if n == 0:
            raise ValueError("LogPolicy.fit: the log has no rows; there is nothing to learn from.")
        with progress_bar(progress, "learning", STAGES) as bar:
            theta, spread, smoothing = self._bound.best(parts, bar)
            lower = self._bound.lower(parts, theta, spread, smoothing, bar)
        scalars = _Scalars(spread, smoothing, self.reward_floor + lower, n, self._drawn)
        self._take(theta, scalars)
        return self

    # Playing

    def probabilities(self, arms: Any) -> FloatArray:
        """The probability (n, K) of each arm of each row; rows (n, K, d), or a chunk of a log. An
        arm of NaN is not offered.
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
        return mean_shares(rows, theta + self.spread * self._bound.noise(len(theta)))

    __call__ = probabilities  # so that it is a target for ht.evaluate

    @alone
    def select(self, arms: ArrayLike, *, draw: float | None = None) -> int:
        """The arm for ``draw``, uniform in [0, 1); without one, for the next draw of its own.

        Its own draws depend only on ``seed`` and on the number of earlier draws, which is saved.
        """
        if draw is not None:
            check_number("LogPolicy.select: draw", draw, least=0.0, below=1.0)
        _, shares = self._shares(arms, ".select")
        return _fallen(shares, self._draw() if draw is None else draw)

    @alone
    def decide(self, arms: ArrayLike, *, explore: float = 0.0) -> Decision:
        """Choose as ``select`` does, and return the choice with its probability for a
        :class:`heavytail.DecisionLog`.

        With ``explore`` = e in [0, 1] the choice is, with probability e, any of the n arms instead,
        so that no arm's probability is below e/n. The policy does not learn: no decision waits for
        a reward, and the token, the number of the draw, is for the log.
        """
        e = check_number("LogPolicy.decide: explore", explore, least=0.0, most=1.0)
        offered, shares = self._shares(arms, ".decide")
        shares = (1.0 - e) * shares + e / len(shares)
        token = self._drawn
        arm = _fallen(shares, self._draw())
        x = offered[arm].copy()
        x.flags.writeable = False
        return Decision(token, arm, x, min(float(shares[arm]), 1.0), None, time.time())

    def _shares(self, arms: ArrayLike, method: str) -> tuple[FloatArray, FloatArray]:
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
        scalars = _Scalars(self.spread, self.smoothing, self.lower, self.rows, self._drawn)
        return {"theta": self.theta, "scalars": np.array(scalars, dtype=np.float64)}

    @alone
    def restore(self, arrays: dict[str, Any]) -> None:
        if not arrays:
            if hasattr(self, "theta"):
                raise ValueError("LogPolicy: a state that was not learned has no place here.")
            return
        like = {"theta": of_length(np.zeros(1), np.size(arrays.get("theta", 0.0)), 0)}
        check_fit("LogPolicy", arrays, {**like, "scalars": np.zeros(len(_Scalars._fields))})
        theta, scalars = arrays["theta"], _Scalars(*arrays["scalars"].tolist())
        self._check_scalars(scalars)
        far = KL_PER_ROW * scalars.rows * 2.0 * scalars.spread**2
        with np.errstate(over="ignore"):
            sound = len(theta) > 0 and bool(theta @ theta <= far)
        if not sound:
            raise damaged("LogPolicy", "theta", f"its square must be at most {far:g}")
        self._take(theta.copy(), scalars)

    def _check_scalars(self, told: _Scalars) -> None:
        """Refuse a state that ``fit`` cannot produce."""
        powers = map(self._bound.strength, range(-POWERS, self._bound.highest + 1))
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
