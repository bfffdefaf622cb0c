"""A streaming regression with intervals that are proved: docs/mathematics/sharp.md on its rows.

The features are taken as they are, with the constant 1 behind them where there is an intercept: the
theorem bounds one fixed theta, slopes and intercept together, and nothing that the rows decide,
such as a centre or a unit, may come between. The first row is a step like all others.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from heavytail._invariants import check_size, check_slots, damaged
from heavytail._storage import afford, check_fit
from heavytail._turns import TakingTurns, alone
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check, shown
from heavytail.estimators.admission import OK, ORDINARY, OVERFLOW, PROBLEMS, admit_rows, refusal
from heavytail.estimators.base import WORK, is_plain
from heavytail.estimators.rows import NO_SCALES
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    INVERSE,
    ROUNDS,
    THETA,
    numbered,
    slot_kinds,
    slot_names,
)
from heavytail.kernels.sharp import (
    RIDGE,
    Sharp,
    learn_bounded,
    measure,
    radius_at,
    start,
    stated_bound,
)
from heavytail.tails import MomentBound

__all__ = ["NAMES", "SharpStream"]

WIDTH: Final = numbered(Sharp, after=COMMON)
AT: Final = WIDTH[0]
NAMES: Final = {"slots": slot_names(COMMON, WIDTH)}  # of what is packed in a saved one
MODE: Final = 'interval="sharp"'


@jit
def learn_steps(
    s: Vector, M: Matrix, x: Vector, X: Matrix, y: Vector, nu: Vector, scale: float
) -> int:
    """Learn rows, with ``x`` to lay each into, before the constant. OK, or OVERFLOW at the first
    that would leave the floating-point range, and the rows before it learned: keep a copy. O(d²) a
    row.
    """
    V = INVERSE + x.shape[0] + 2
    for t in range(y.shape[0]):
        for i in range(X.shape[1]):
            x[i] = X[t, i]
        measured = measure(s, M, AT, V, x)
        own = scale * nu[t] if nu.shape[0] > 0 else scale
        if learn_bounded(s, M, AT, V, measured, y[t] - measured.expected, own) != OK:
            return PROBLEMS * t + OVERFLOW
    return OK


class SharpStream(TakingTurns):
    """Slots and matrices as :mod:`heavytail.kernels.sharp` has them; no row is kept."""

    def __init__(
        self,
        dim: int,
        check: Check,
        *,
        tail: MomentBound | None,
        theta_bound: float | None,
        delta: float,
        intercept: bool,
        level: float | None,
    ) -> None:
        if not isinstance(tail, MomentBound):
            raise ValueError(
                f"{check.owner}.tail must be a MomentBound(order, scale) for {MODE}: the theorem "
                f"needs E|noise|^order <= scale^order; got {shown(tail)}."
            )
        S = stated_bound(check, MODE, theta_bound, tail.scale)
        log_inverse_delta = check.log_inverse(delta)
        self.dim, self.size, self.spread = dim, dim + intercept, tail.scale
        self._level = f"{check.owner}.level"
        rows = INVERSE + 3 * self.size + 2
        afford("a regression", (rows + WORK) * self.size, {"features": dim})
        self.s, self.M = np.zeros(len(COMMON) + len(WIDTH)), np.zeros((rows, self.size))
        start(
            self.s,
            self.M,
            AT,
            INVERSE + self.size + 2,
            order=tail.order,
            ridge=RIDGE * self.size / S**2,
            theta_bound=S,
            log_inverse_delta=log_inverse_delta,
        )
        if level is not None:
            self.radius(level)

    @property
    def level(self) -> float:
        """1 - delta."""
        return float(-math.expm1(-0.5 * self.s[WIDTH.SURE]))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays read back from a memory map are read-only; the kernels write into theirs."""
        self.__dict__.update(state, s=np.array(state["s"]), M=np.array(state["M"]))

    def radius(self, level: float) -> float:
        """beta at a level, which must be at most 1 - delta."""
        return radius_at(self._level, self.s, AT, level)

    @property
    def seen(self) -> int:
        """Rows learned."""
        return int(self.s[ROUNDS])

    @property
    def coefficients(self) -> tuple[FloatArray, float]:
        """Slopes and intercept."""
        theta = self.M[THETA].copy()
        return theta[: self.dim], float(theta[self.dim :].sum())

    def standard_error(self, X: FloatArray) -> FloatArray:
        """‖x‖_Q, of which the radius is a multiple."""
        Z = np.column_stack([X, np.ones((len(X), self.size - self.dim))])
        return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", Z, self._spread_matrix, Z), 0.0))

    @property
    def _spread_matrix(self) -> FloatArray:
        """Q."""
        return self.M[INVERSE : INVERSE + self.size]

    def doubt(self, X: FloatArray) -> FloatArray:
        """None: what the clip costs is in the width."""
        return np.empty((0, len(X)))

    def slope_errors(self) -> tuple[FloatArray, FloatArray]:
        """The same of each slope."""
        squared = np.diag(self._spread_matrix)[: self.dim]
        return np.sqrt(np.maximum(squared, 0.0)), np.empty((0, self.dim))

    def learn_plain(self, X: Any, y: Any) -> bool:
        """Learn a batch that needs no conversion; False, and nothing done, where it does."""
        if not is_plain(X, y, self.dim):
            return False
        self.learn(X, y, NO_SCALES)
        return True

    @alone
    def learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> None:
        """Learn a batch; a row that is not usable is named and nothing of the batch is learned."""
        code = admit_rows(X, y, nu, ORDINARY)
        if code > OK:
            raise refusal(code, X, y, nu)
        before = self.s.copy(), self.M.copy()
        try:
            with np.errstate(all="ignore"):
                code = learn_steps(self.s, self.M, np.ones(self.size), X, y, nu, self.spread)
            if code != OK:
                raise refusal(code, X, y, nu)
        except BaseException:  # an interrupt too: all of the batch is learned, or none
            self.s[:], self.M[:] = before
            raise

    @alone
    def arrays(self) -> dict[str, Any]:
        """The slots and the rows; none of those learned is kept."""
        return {
            "slots": self.s.copy(),
            "rows": self.M.copy(),
            "kept": np.empty((0, self.dim + 2)),
        }

    def take(self, arrays: dict[str, Any], where: str) -> None:
        """Take over what ``arrays`` gave, where it is of a model of the same arguments."""
        check_fit(where, arrays, self.arrays())
        check_slots(where, "slots", slot_kinds(COMMON, WIDTH), arrays["slots"], self.s)
        if not np.isfinite(arrays["rows"]).all():
            raise damaged(where, "rows", "it is not finite")
        check_size(where, "rows", arrays["rows"][:INVERSE])
        self.s[:], self.M[:] = arrays["slots"], arrays["rows"]
