"""What a policy answers besides an arm: the mean reward it expects, and why it chose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import (
    as_arms,
    as_rows,
    as_vector,
    check_number,
    explain_arms,
    explain_vector,
)
from heavytail.kernels.index import usable
from heavytail.kernels.layout import ARM_LIMIT, CONSTANT, THETA

__all__ = ["Answering", "Explanation", "Prediction", "sides"]


CHOSEN: Final = 1.05  # an interval is wider by this: the arm asked for was chosen
SUREST: Final = 1.0 - 1e-12  # the largest level: beyond it a normal's quantile is lost to rounding


def sides(variance: float, level: float) -> float:
    """Half of an interval of ``level``, in widths, where residuals have this variance: a little
    more than a normal's, for the arm's having been chosen.
    """
    from scipy.special import ndtri

    return CHOSEN * float(ndtri(0.5 + min(level, SUREST) / 2.0)) * math.sqrt(variance)


class Prediction(NamedTuple):
    """The mean reward expected, and an interval for it; arrays where many were asked for."""

    mean: Any
    low: Any
    high: Any


@dataclass(frozen=True, eq=False)
class Explanation:
    """The parts of every arm's index; ``print`` it for a table.

    Attributes:
        arm: the arm chosen.
        rule: what was maximised, in words.
        parts: by name, one number per arm; the last is the index.
    """

    arm: int
    rule: str
    parts: Mapping[str, FloatArray]

    def __str__(self) -> str:
        heads = ["arm", *self.parts]
        rows = [
            [str(i), *(f"{part[i]:.4g}" for part in self.parts.values())]
            for i in range(len(next(iter(self.parts.values()))))
        ]
        widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [heads, *rows]
        ]
        chosen = 1 + self.arm
        lines = [line + ("  <" if k == chosen else "") for k, line in enumerate(lines)]
        return "\n".join([self.rule, *lines])


class Answering:
    """width, predict and explain, for a policy with one estimate and one inverse Gram matrix."""

    level: float = 0.95  # of an interval that is asked for without one

    if TYPE_CHECKING:  # what a policy brings
        dim: int
        rank_one: ClassVar[bool]
        _s: FloatArray
        _M: FloatArray

        @property
        def one_estimate(self) -> bool: ...
        @property
        def radius(self) -> float: ...
        @property
        def inverse_gram(self) -> FloatArray: ...
        def select(self, arms: ArrayLike) -> int: ...

    @property
    def intercept(self) -> float:
        """What the constant feature adds to every prediction; 0 without one."""
        return float(self._M[THETA, self.dim :].sum() * self._s[CONSTANT])

    @property
    def _no_index(self) -> str:
        """Why the next choice is not by one index of the estimate; nothing where it is."""
        return "" if self.rank_one else "this policy does not choose by one index of its estimate."

    @alone
    def width(self, x: ArrayLike) -> float:
        """‖x‖_{V_t^-1}, or ‖x‖_Q with ``radius="sharp"``; the half-width of the policy's confidence
        set at x is radius * width(x).
        """
        return float(self._widths(self._asked_at(x, ".width")[None])[0])

    @alone
    def predict(self, x: ArrayLike, *, level: float | None = None) -> Prediction:
        """The mean reward at ``x`` (dim,), or at each row of it (n, dim), and an interval for it.

        With ``radius="sharp"`` all intervals of a ``level`` hold at once, for every x and at all
        times, with that probability; it is 1 - delta unless given, and at most that. With
        ``radius="theory"``, and of the papers' policies, the interval is that of the confidence
        set, whatever ``level``. Where the radius is read off the data it is of ``level``, 0.95
        unless given, and no theorem's: the spread of the clipped residuals, and a bound on what the
        clip took; with a fixed clip all this is of a typical reward. It is infinite until the first
        rewards have set the unit. It is meant for the arm that is chosen: arms
        that were given up are those that looked worse than they are, and their intervals are too
        low.
        """
        level = self.level if level is None else level
        rows, many = self._asked(x, level)
        with np.errstate(invalid="ignore"):  # a chance of 0 times an amount that nobody knows
            mean, half = self._means(rows), self._half_widths(rows, level)
        half = np.where(np.isnan(half), math.inf, half)
        parts = (mean, mean - half, mean + half)
        return Prediction(*(part if many else float(part[0]) for part in parts))

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Why ``select`` would choose as it does among ``arms``: the parts of each index."""
        if self._no_index:
            raise ValueError(f"{type(self).__name__}.explain: {self._no_index}")
        X = self._offered(arms, ".explain")
        mean, bonus = self._means(X), self.radius * self._widths(X)
        parts = {"mean": mean, "bonus": bonus, "index": mean + bonus}
        return Explanation(self.select(X), "the largest mean + radius * width", parts)

    def _score(self, x: FloatArray) -> float | None:
        """The mean reward expected at one row, for a log."""
        if not self.one_estimate:
            return None
        mean = float(self._means(x[None])[0])
        return mean if math.isfinite(mean) else None

    def _half_widths(self, X: FloatArray, level: float) -> FloatArray:
        return self.radius * self._widths(X)

    def _widths(self, X: FloatArray) -> FloatArray:
        constant = np.full((len(X), self._M.shape[1] - self.dim), self._s[CONSTANT])
        features = np.hstack([X, constant])
        squares = np.sum(features @ self.inverse_gram * features, axis=1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def _means(self, X: FloatArray) -> FloatArray:
        return np.asarray(X @ self._M[THETA, : self.dim] + self.intercept)

    def _offered(self, arms: ArrayLike, method: str) -> FloatArray:
        """Arms that could be chosen from, a copy."""
        X = as_arms(arms, self.dim, type(self), method).copy()
        if len(X) == 0 or not usable(X, self._s[ARM_LIMIT]):
            raise explain_arms(X, self._s[ARM_LIMIT], type(self).__name__ + method)
        return X

    def _asked_at(self, x: ArrayLike, method: str) -> FloatArray:
        """The features that a method is asked about, such as could be played; a copy."""
        vector = as_vector(x, self.dim, type(self), method).copy()
        if not usable(vector[None], self._s[ARM_LIMIT]):
            raise explain_vector(vector, self._s[ARM_LIMIT], type(self).__name__ + method)
        return vector

    def _asked(self, x: ArrayLike, level: float) -> tuple[FloatArray, bool]:
        """The rows that a prediction is asked for, and whether they may be many."""
        where = f"{type(self).__name__}.predict"
        if not self.one_estimate:
            raise ValueError(f"{where}: this policy has more than one estimate.")
        check_number(f"{where}: level", level, above=0.0, below=1.0)
        if np.ndim(x) == 1:
            return self._asked_at(x, ".predict")[None], False
        rows = as_rows(x, (None, self.dim), f"{where}: x").copy()
        if len(rows) and not usable(rows, self._s[ARM_LIMIT]):
            raise explain_arms(rows, self._s[ARM_LIMIT], where, name="x")
        return rows, True
