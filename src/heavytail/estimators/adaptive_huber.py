"""Adaptive Huber regression: Sun, Zhou and Fan (JASA 2020), on all rows at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from heavytail._storage import check_fit
from heavytail._turns import TakingTurns, alone
from heavytail._typing import FloatArray
from heavytail.estimators.admission import OK, ORDINARY, admit_rows
from heavytail.estimators.base import (
    Model,
    Regression,
    check_room,
    check_scale,
    is_plain,
)
from heavytail.estimators.rows import NO_SCALES
from heavytail.estimators.start import bounded, cut_off, off_the_line, robust_fit, sandwich, solve
from heavytail.estimators.stream import UNSEEN
from heavytail.kernels.scale import NORMAL_CONSISTENCY

__all__ = ["AdaptiveHuberRegressor"]

PILOT_CLIP = 1.345  # of the fit that measures the scale: 95 % efficient for normal noise


@dataclass(frozen=True)
class ExactFit:
    """The minimiser and what its interval needs.

    ``inverse`` is V^-1, ``spread`` the scale of the noise, ``energy`` the mean square of the
    residuals, clipped at n scales; ``uneven`` is the covariance where the size of the noise depends
    on x, and ``beyond`` how far beyond the minimiser the mean may be.
    """

    theta: FloatArray
    inverse: FloatArray
    spread: float
    energy: float
    uneven: FloatArray
    beyond: FloatArray

    def standard_error(self, Z: FloatArray) -> FloatArray:
        """The larger of both standard errors of z' theta, for each row z."""
        forms = (
            np.einsum("ij,jk,ik->i", Z, A, Z) for A in (self.energy * self.inverse, self.uneven)
        )
        return np.sqrt(np.maximum(np.maximum(*forms), 0.0))


class History(TakingTurns):
    """All rows, and the exact fit on them: made when asked for, not when a row arrives."""

    def __init__(
        self, dim: int, *, order: float, ridge: float, scale: float | None, intercept: bool
    ) -> None:
        self.dim, self.size, self.seen = dim, dim + intercept, 0
        check_room(dim)
        self._order, self._ridge, self._scale = order, ridge, scale
        self._parts: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        self._fit: ExactFit | None = None

    def learn_plain(self, X: Any, y: Any) -> bool:
        """Keep the rows where they need no conversion."""
        if not is_plain(X, y, self.dim):
            return False
        self.learn(X, y, NO_SCALES)
        return True

    @alone
    def learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> None:
        """Keep the rows."""
        if nu.shape[0] and not np.all((nu > 0.0) & np.isfinite(nu)):
            bad = int(np.flatnonzero(~((nu > 0.0) & np.isfinite(nu)))[0])
            raise ValueError(f"sample_scale[{bad}] must be a number above 0; got {nu[bad]}.")
        if not (np.all(np.isfinite(X)) and np.all(np.isfinite(y))):
            raise ValueError("X and y must be finite. Nothing was learned.")
        before = self._parts, self.seen, self._fit
        rows = X.copy(), y.copy(), nu.copy() if nu.shape[0] else np.ones(y.shape[0])
        try:
            self._parts, self.seen, self._fit = [*before[0], rows], self.seen + len(y), None
            if admit_rows(X, y, nu, ORDINARY) != OK and not self._can_be_fitted():
                raise ValueError(
                    "rows of this size would take the estimate out of the floating-point range. "
                    "Nothing was learned; change the units."
                )
        except BaseException:  # an interrupt too: all of the batch is learned, or none
            self._parts, self.seen, self._fit = before
            raise

    def _can_be_fitted(self) -> bool:
        """Tell whether the fit on all rows stays in the floating-point range."""
        try:
            with np.errstate(all="ignore"):
                fit = self.fitted
        except np.linalg.LinAlgError:
            return False
        return bool(np.isfinite(fit.theta).all() and np.isfinite([fit.energy, fit.spread]).all())

    def tau(self, spread: float) -> float:
        """spread (n / (d + log n))^(1 / order): grows with n, so that the clip's bias vanishes."""
        n = float(self.seen)
        ratio = n / (self.size + math.log(max(n, 2.0)))
        return spread * max(ratio, 1.0) ** (1.0 / self._order)

    def _table(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """All rows, put together."""
        X, y, nu = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts = [(X, y, nu)]
        return X, y, nu

    @alone
    def arrays(self) -> dict[str, Any]:
        """The rows."""
        return {"kept": np.column_stack(self._table())}

    def take(self, arrays: dict[str, Any], where: str) -> None:
        """Learn the rows."""
        kept = arrays["kept"]
        check_fit(where, arrays, {"kept": np.broadcast_to(0.0, (max(1, len(kept)), self.dim + 2))})
        X, y, nu = kept[:, : self.dim], kept[:, self.dim], kept[:, self.dim + 1]
        self.learn(np.ascontiguousarray(X), y, nu)

    @property
    @alone
    def fitted(self) -> ExactFit:
        """The exact fit on all rows so far."""
        if self._fit is None:
            X, y, nu = self._table()
            Z, target = self._with_constant(X) / nu[:, None], bounded(y / nu)
            penalty = np.full(self.size, self._ridge)
            penalty[self.dim :] = 0.0
            pilot = robust_fit(Z, target, penalty, PILOT_CLIP, self._scale)
            spread = reach = pilot.spread
            off = np.empty(0) if self._scale else off_the_line(Z, target, pilot.theta)
            if off.shape[0]:
                reach = NORMAL_CONSISTENCY * float(np.median(off))
                if off.shape[0] > self.size + math.log(self.seen):  # so few may be mistakes
                    spread = reach
            tau = self.tau(spread)
            theta = solve(Z, target, penalty, tau, pilot.theta)
            r, inverse = target - Z @ theta, pilot.inverse
            energy, cut = cut_off(Z, r, tau, reach)
            self._fit = ExactFit(
                theta=theta,
                inverse=inverse,
                spread=spread,
                energy=energy,
                uneven=sandwich(Z, r, tau, reach, inverse),
                beyond=UNSEEN * (inverse @ cut),
            )
        return self._fit

    @property
    def coefficients(self) -> tuple[FloatArray, float]:
        """Slopes and intercept."""
        theta = self.fitted.theta
        return theta[: self.dim], float(theta[self.dim]) if self.size > self.dim else 0.0

    @property
    def spread(self) -> float:
        """The scale of the noise."""
        return self.fitted.spread

    def _with_constant(self, X: FloatArray) -> FloatArray:
        return np.column_stack([X, np.ones(X.shape[0])]) if self.size > self.dim else X

    def standard_error(self, X: FloatArray) -> FloatArray:
        """The larger of sqrt(mean r²) ‖x‖_{V^-1} and the sandwich's, with r clipped at n scales."""
        if self.seen <= self.size:
            return np.full(X.shape[0], math.inf)
        return self.fitted.standard_error(self._with_constant(X))

    def doubt(self, X: FloatArray) -> FloatArray:
        """Twice what the threshold cut off: it grows with the rows, and until then it biases."""
        return np.asarray(self._with_constant(X) @ self.fitted.beyond)[None]

    def slope_errors(self) -> tuple[FloatArray, FloatArray]:
        """The same of each slope."""
        fit, d = self.fitted, self.dim
        if self.seen <= self.size:
            return np.full(d, math.inf), fit.beyond[None, :d]
        return fit.standard_error(np.eye(self.size)[:d]), fit.beyond[None, :d]


@final
class AdaptiveHuberRegressor(Regression):
    r"""Huber regression whose threshold grows with the number of rows; keeps them all.

    $$ \theta = \arg\min \sum_s \ell_\tau\big((y_s - x_s^\top\theta)/\nu_s\big)
       + \tfrac{\lambda}{2}\|\theta\|^2, \qquad
       \tau = \hat\sigma \Big(\frac{n}{d + \log n}\Big)^{1/p} $$

    Because the threshold grows, the intercept and slopes tend to those of the mean response also
    under skewed noise, at the rate n^-((p-1)/p) that a finite moment of order p allows (Sun, Zhou
    and Fan 2020, for the true nu_p in place of the robust scale used here). ``partial_fit`` keeps
    the rows; the exact minimiser is found when something is asked of it. O(n) memory, which is
    what :class:`OnePassHuberRegressor` is for.

    **Interval.** Student's quantile times sqrt(mean r²) ‖x‖_{V^-1}, with residuals r to n scales,
    or times the sandwich's standard error, V^-1 (sum of x x' r²) V^-1, where that is larger, since
    the size of the noise may depend on x; and on the side of what the threshold cut off as far
    again as twice that moves the fit, since values larger than any seen weigh as well. It is for
    the mean response: rows that are wrong count as all others do. Where more than half of the rows
    lie on one line but for rounding, and the others a thousand times as far off, the scale is that
    of the others; but where these are d + log n or fewer, so that they may be mistakes, in the
    interval alone. In practice it covers at about its level from some 200 rows off a line on
    (tables in the docs), less with fewer, and not where the others are nearer, yet more than n
    roundings off; there is no finite-sample theorem.

    >>> import heavytail as ht
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [1.0, 3.0, 5.0, 7.0, 1e9]
    >>> model = ht.AdaptiveHuberRegressor().fit(X, y)
    >>> model.n_samples_seen_
    5

    Args:
        order: p in (1, 2], a moment of the noise that is finite.
        scale: "auto", or the noise's scale where it is known.
        ridge: lambda, on the slopes.
        fit_intercept: whether there is a constant term.
        level: of the intervals.

    Note: the paper takes (n / log)^max(1/(1+delta), 1/2) with constants from an unknown moment;
    the robust scale of a pilot fit stands in for that moment here.
    """

    def __init__(
        self,
        *,
        order: float = 2.0,
        scale: str | float = "auto",
        ridge: float = 1e-4,
        fit_intercept: bool = True,
        level: float = 0.95,
    ) -> None:
        self.order = order
        self.scale = scale
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.level = level

    def _model(self, dim: int) -> Model:
        check = self._check()
        return History(
            dim,
            order=check.number("order", self.order, above=1.0, most=2.0),
            ridge=check.number("ridge", self.ridge, above=0.0),
            scale=check_scale(check, self.scale),
            intercept=check.flag("fit_intercept", self.fit_intercept),
        )
