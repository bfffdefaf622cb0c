"""A streaming regression: its start, its state, and what can be read off it.

The first rows, a fixed number of them, are kept and fitted together, which gives the scale, the
centre of the features and a sane start whatever the units; from then on each row is one step of
:mod:`heavytail.estimators.rows` and is forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heavytail import _turns
from heavytail._invariants import check_size, check_slots, damaged
from heavytail._storage import afford, check_fit, of_length
from heavytail._turns import TakingTurns, alone
from heavytail._typing import FloatArray
from heavytail._validate import LEAST
from heavytail.estimators.admission import (
    DOUBTFUL,
    MISFIT,
    OK,
    ORDINARY,
    OVERFLOW,
    PROBLEMS,
    WILD,
    admit_rows,
    first_unsquarable,
    refusal,
)
from heavytail.estimators.base import WORK, is_plain
from heavytail.estimators.rows import (
    HISTOGRAM,
    INVERSE,
    LEAST_INSIDE,
    NO_SCALES,
    ROW,
    SLOT,
    SLOTS,
    is_ordinary,
    learn_plain,
    learn_wild,
    length,
    reach,
    stride_of,
)
from heavytail.estimators.start import BatchFit, MeanFit, mean_fit, robust_fit, telling
from heavytail.estimators.symmetry import asymmetry, solve_psd
from heavytail.kernels.jit import compiled, only_for
from heavytail.kernels.layout import slot_kinds, slot_names
from heavytail.kernels.scale import NORMAL_CONSISTENCY, vote
from heavytail.kernels.self_tuning import EVERY

__all__ = ["LEAST_FORGET", "NAMES", "Stream"]

LEAST_FORGET: Final = 0.5  # a row counts for no less than half of the next one
CLEARLY: Final = 0.95  # of the mean's error must the fixed clip's not exceed to be worth a bias
SAME = 1e-15  # of a column's largest value: a deviation that is less is rounding
ROUNDING = 1e-12  # of an estimate: two that differ by less are one
UNSEEN: Final = 2.0  # times what was cut off: as much again in what was not seen
ONE_PASS: Final = 1.05  # error of one pass against that of the exact minimiser, as measured
WARM: Final = 50  # rows fitted together at the start: WARM, or ROWS_PER_COORDINATE each if more
ROWS_PER_COORDINATE: Final = 5
RELATIVE_FLOOR: Final = 1e-12  # of the scale at the start, below which a scale is rounding
DOUBLES: Final = "(float64[::1], float64[:, ::1], float64[::1])"

GIVEN: Final = ("DIM", "SIZE", "CLIP", "FOLLOW", "FORGET", "WINDOW", "MEAN", "FADE")  # by arguments
NAMES: Final = {"slots": slot_names(SLOT)}  # of what is packed in a saved one

_PARTS: Final = ("s", "M", "F")  # views of the state
_COMPILED: Final = compiled()
_learn_plain: Final[Any] = learn_plain


@dataclass(frozen=True)
class Reading:
    """The answer to a query: an estimate, and what its intervals need.

    ``theta`` has the slopes of one estimate, with the relative error ``slopes_error``, and the
    constant with which it agrees at ``middle``, the mean of the features, with another, of the
    relative error ``level_error``. ``beyond`` is what may be missing, a row for each reason: what
    the mean's estimate has beyond it and even the mean's threshold cut off; and, where rows are
    forgotten, how far theta may have moved on. ``moved`` is the variance of each coordinate that a
    moving theta adds to the noise's.
    """

    theta: FloatArray
    beyond: FloatArray
    middle: FloatArray
    slopes_error: float
    level_error: float
    moved: FloatArray


class Stream(TakingTurns):
    """A streaming regression: a start of a few rows fitted together, then one step per row."""

    def __init__(
        self,
        dim: int,
        *,
        clip: float,
        ridge: float,
        scale: float | None,
        intercept: bool,
        standardize: bool,
        forget: float,
        mean: bool,
    ) -> None:
        size = dim + intercept
        self.dim, self.size, self.stride, self.kept = dim, size, stride_of(size), 0
        self.mean = mean and math.isfinite(clip)  # without a clip the one estimate is the mean's
        self._options = (clip, ridge, scale, intercept, standardize)
        self.warm = max(WARM, ROWS_PER_COORDINATE * size)
        needed = length(size, mean=self.mean) + self.warm * (dim + 2)
        afford("a regression", needed + WORK * size**2, {"features": dim})
        self.state = np.zeros(length(size, mean=self.mean))
        self._name_parts()
        self.s[SLOT.DIM] = dim
        self.s[SLOT.SIZE] = size
        self.s[SLOT.CLIP] = clip
        self.s[SLOT.FOLLOW] = scale is None
        self.s[SLOT.FORGET] = forget
        self.s[SLOT.FADE] = forget**EVERY
        self.s[SLOT.MEAN] = self.mean
        self.s[SLOT.WINDOW] = math.inf if forget == 1.0 else 1.0 / (1.0 - forget)
        self.M[ROW.PER_UNIT] = 1.0
        self.M[ROW.FEATURE, dim:size] = 1.0
        self._rows = np.empty((self.warm, dim + 2))  # x, y, nu of the first rows
        self._fresh = True  # whether the state reflects the rows kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays read back from a memory map are read-only; the kernels write into theirs."""
        for key, value in state.items():
            held = isinstance(value, np.ndarray) and not value.flags.writeable
            self.__dict__[key] = np.array(value) if held else value
        self._name_parts()
        if self.kept == self.warm:
            only_for(learn_plain, DOUBLES)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key not in _PARTS}

    def _name_parts(self) -> None:
        """s, the scalars, M, the rows, and F, the features' centres and widths, are parts of the
        state.
        """
        self.s = self.state[:SLOTS]
        self.M = self.state[SLOTS:].reshape(-1, self.stride)
        self.F = self.M[ROW.CENTRE : ROW.PER_UNIT + 1, : self.dim]

    @property
    def seen(self) -> int:
        """Rows learned."""
        return self.kept if self.kept < self.warm else int(self.s[SLOT.ROUNDS])

    @property
    def theta(self) -> FloatArray:
        """The estimate with a fixed clip, in the features' standardised units."""
        return self.M[ROW.THETA, : self.size]

    @property
    def mean_theta(self) -> FloatArray:
        """The estimate whose threshold tunes itself; the other where the mean is not asked for."""
        return self.M[ROW.MEAN_THETA if self.mean else ROW.THETA, : self.size]

    @property
    def inverse(self) -> FloatArray:
        """V^-1."""
        root = self.M[ROW.ROOT, : self.size]
        P = self.M[INVERSE : INVERSE + self.size, : self.size]
        return np.asarray(P - np.outer(root, root))

    @property
    def nbytes(self) -> int:
        """Bytes of everything remembered, whatever the number of rows."""
        return sum(a.nbytes for a in (self.state, self._rows))

    @alone
    def arrays(self) -> dict[str, Any]:
        """The slots, the histogram, the rows behind them, and those of the start."""
        self.refresh()
        return {
            "slots": self.s[: len(SLOT)].copy(),
            "histogram": self.state[HISTOGRAM:SLOTS].copy(),
            "rows": self.M.copy(),
            "kept": self._rows[: self.kept].copy(),
        }

    def check(self, arrays: dict[str, Any], where: str) -> None:
        """Refuse what ``arrays`` cannot have given for a model of the same arguments."""
        wanted = self.arrays()
        kept = len(arrays["kept"])
        wanted["kept"] = of_length(self._rows, max(1, min(kept, self.warm)), 0)
        check_fit(where, arrays, wanted)
        given, slots = [getattr(SLOT, name) for name in GIVEN], arrays["slots"]
        own = np.zeros(len(SLOT))  # as at first: the rest is 0 then
        own[given] = self.s[given]
        rounds = slots[SLOT.ROUNDS]
        if np.any(slots[given] != own[given]) or (
            rounds != kept and not rounds > kept == self.warm
        ):
            raise damaged(where, "slots")
        check_slots(where, "slots", slot_kinds(SLOT), slots, own)
        for key in ("histogram", "rows", "kept"):
            if not np.isfinite(arrays[key]).all():
                raise damaged(where, key, "it is not finite")
        vectors = np.delete(arrays["rows"], np.s_[INVERSE : INVERSE + self.size], axis=0)
        check_size(where, "rows", vectors)

    def take(self, arrays: dict[str, Any], where: str) -> None:
        """Take over what ``arrays`` gave, where it is of a model of the same arguments."""
        self.check(arrays, where)
        kept = len(arrays["kept"])
        self.s[: len(SLOT)] = arrays["slots"]
        self.state[HISTOGRAM:SLOTS] = arrays["histogram"]
        self.M[:] = arrays["rows"]
        self._rows[:kept] = arrays["kept"]
        self.kept = kept
        if kept == self.warm:
            only_for(learn_plain, DOUBLES)

    def learn_plain(self, X: Any, y: Any) -> bool:
        """Learn a C-contiguous float64 batch; False, nothing done, where it is not one."""
        if self.kept < self.warm or not _COMPILED:
            if not is_plain(X, y, self.dim):
                return False
            self.learn(X, y, NO_SCALES)
            return True
        # The kernel takes subclasses for arrays and drops a mask unseen; scikit-learn does neither.
        if type(X) is not np.ndarray or type(y) is not np.ndarray:
            return False
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, _turns.AT_WORK
        try:
            code = _learn_plain(self.state, X, y)
        except TypeError:
            return False
        finally:
            self._inside = outer or self._next_turn
        if code == WILD:
            self.learn(X, y, NO_SCALES)
        elif code > OK:
            raise refusal(code, X, y, NO_SCALES)
        return code != MISFIT

    @alone
    def learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> None:
        """Learn a batch; a row that is not usable is named and nothing of the batch is learned."""
        warm = self.kept == self.warm
        code = admit_rows(X, y, nu, reach(self.state, self.stride) if warm else ORDINARY)
        if code <= OK and not warm and math.isinf(self.s[SLOT.CLIP]):
            code = first_unsquarable(y, nu) or code
        if code > OK:
            raise refusal(code, X, y, nu)
        before = self.kept, self._fresh, self.state.copy()
        try:
            wild = code == WILD or self._was_wild()
            with np.errstate(all="ignore" if wild else None):
                code = self._learn(X, y, nu)
                if code <= OK and (wild or code == DOUBTFUL):
                    code = OK if self._is_sound() else OVERFLOW
            if code != OK:
                raise refusal(code, X, y, nu)
        except BaseException as error:  # an interrupt too: all of the batch is learned, or none
            self.kept, self._fresh, self.state[:] = before
            if isinstance(error, np.linalg.LinAlgError):
                raise refusal(OVERFLOW, X, y, nu) from None
            raise

    def _was_wild(self) -> bool:
        """Tell whether what was learned before is of sizes that may overflow."""
        if self.kept == self.warm:
            return not is_ordinary(self.state, self.stride)
        X, y, nu = np.split(self._rows[: self.kept], [self.dim, self.dim + 1], axis=1)
        return bool(admit_rows(X.copy(), y.ravel(), nu.ravel(), ORDINARY) != OK)

    def _is_sound(self) -> bool:
        """Tell whether a file could give the state back."""
        try:
            self.check(self.arrays(), "")
        except ValueError:
            return False
        return True

    def _learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> int:
        """Learn rows that are not bad. OK, DOUBTFUL, or OVERFLOW at a row, and some learned."""
        taken = self._keep(X, y, nu) if self.kept < self.warm else 0
        if taken == y.shape[0]:
            return OK
        code = learn_wild(self.state, X[taken:], y[taken:], nu[taken:], False)
        return int(code + PROBLEMS * taken) if code > OK else int(code)

    def _keep(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> int:
        taken = min(self.warm - self.kept, y.shape[0])
        part = self._rows[self.kept : self.kept + taken]
        part[:, : self.dim] = X[:taken]
        part[:, self.dim] = y[:taken]
        part[:, self.dim + 1] = nu[:taken] if nu.shape[0] else 1.0
        self.kept += taken
        self._fresh = False
        if self.kept == self.warm:
            self.refresh()
            only_for(learn_plain, DOUBLES)
        return taken

    @alone
    def refresh(self) -> None:
        """Fit the rows of the start together, where that has not been done yet."""
        if self._fresh:
            return
        clip, ridge, scale, intercept, standardize = self._options
        kept = self._rows[: self.kept]
        X, y, nu = kept[:, : self.dim], kept[:, self.dim], kept[:, self.dim + 1 :]
        least, most = X.min(axis=0), X.max(axis=0)
        if intercept:  # a mean may be rounded away from values that are all the same
            self.F[0] = np.clip(X.mean(axis=0), least, most)
        if standardize:
            width = X.std(axis=0)
            varies = width > np.maximum(SAME * np.maximum(abs(least), abs(most)), LEAST)
            self.F[1] = 1.0 / np.where(varies, width, 1.0)
        Z = self._standardised(X)
        penalty = np.full(self.size, ridge)
        penalty[self.dim :] = 0.0  # the intercept is not shrunk
        Z, target = Z / nu, y / nu[:, 0]
        fit = robust_fit(Z, target, penalty, clip, scale)
        self._take(fit, target)
        if self.mean:
            self._take_mean(mean_fit(Z, target, penalty, clip, fit))
        self.M[[ROW.LAG, ROW.MEAN_LAG]] = self.M[[ROW.THETA, ROW.MEAN_THETA]]
        self._fresh = True

    def _standardised(self, X: FloatArray) -> FloatArray:
        Z = (X - self.F[0]) * self.F[1]
        return np.column_stack([Z, np.ones(X.shape[0])]) if self.size > self.dim else Z

    def _take(self, fit: BatchFit, target: FloatArray) -> None:
        s, size = self.s, self.size
        self.M[ROW.THETA, :size] = fit.theta
        self.M[ROW.ROOT] = 0.0
        self.M[INVERSE : INVERSE + size, :size] = (fit.inverse + fit.inverse.T) / 2.0
        s[SLOT.ROUNDS] = self.kept
        s[SLOT.TYPICAL] = fit.spread / NORMAL_CONSISTENCY
        s[SLOT.TELLING] = np.count_nonzero(telling(target))
        if s[SLOT.FOLLOW] == 1.0 and np.all(target == target[0]):  # no scale in sight
            s[SLOT.TYPICAL] = s[SLOT.TELLING] = 0.0
        s[SLOT.COMMON] = s[SLOT.VOTES] = 0.0
        for value in self._rows[: self.kept, self.dim]:
            s[SLOT.COMMON], s[SLOT.VOTES] = vote(value, s[SLOT.COMMON], s[SLOT.VOTES])
        s[SLOT.INSIDE] = fit.inside
        s[SLOT.ENERGY] = fit.energy
        s[SLOT.FLOOR] = RELATIVE_FLOOR * s[SLOT.TYPICAL]
        s[SLOT.ROOM] = max(1.0, float(np.max(np.diag(fit.inverse))))

    def _take_mean(self, fit: MeanFit) -> None:
        self.M[ROW.MEAN_THETA, : self.size] = fit.theta
        self.M[ROW.CUT, : self.size] = fit.cut
        self.M[ROW.GAP, : self.size] = fit.gap
        self.squares[:] = fit.squares
        known = self.s[SLOT.TYPICAL] > 0.0
        self.s[SLOT.TAU] = fit.tau if known else 0.0
        self.s[SLOT.UNIT] = fit.unit if known else 0.0
        self.s[SLOT.MEAN_ENERGY] = fit.energy
        self.s[SLOT.WHOLE_ENERGY] = fit.whole
        self.s[SLOT.BETWEEN] = fit.between
        self.state[HISTOGRAM:SLOTS] = fit.histogram if known else 0.0

    @property
    def squares(self) -> FloatArray:
        """The sum of x x' (psi_m - psi_f)², of which the lower half counts."""
        return self.M[INVERSE + self.stride :, : self.size][: self.size]

    @property
    @alone
    def coefficients(self) -> tuple[FloatArray, float]:
        """Slopes in the features' own units, and the intercept."""
        theta = self.reading.theta
        slopes = theta[: self.dim] * self.F[1]
        constant = theta[self.dim] if self.size > self.dim else 0.0
        return slopes, float(constant - slopes @ self.F[0])

    @property
    def spread(self) -> float:
        """The scale of the noise, in the unit of y."""
        self.refresh()
        return float(NORMAL_CONSISTENCY * self.s[SLOT.TYPICAL])

    @property
    @alone
    def reading(self) -> Reading:
        """The slopes with a fixed clip, unless the mean is asked for and the noise's shape biases
        these, or they are not clearly more precise. The constant is the mean's. Where the noise is
        not symmetric, slopes with a fixed clip have the error of the mean's own.
        """
        self.refresh()
        d, f, a = self.dim, self.theta, self.mean_theta
        error = math.sqrt(self.s[SLOT.ENERGY]) / max(float(self.s[SLOT.INSIDE]), LEAST_INSIDE)
        own, skewed, level = True, False, error
        if self.mean:
            # What one row can decide counts to its threshold; what is not known counts whole.
            own = CLEARLY * math.sqrt(self.s[SLOT.MEAN_ENERGY]) <= error
            slopes, every = self.asymmetry()
            own, skewed = own or slopes > 1.0, every > 1.0
            level = math.sqrt(self.s[SLOT.WHOLE_ENERGY])
        P, cut, middle = self.inverse, self.M[ROW.CUT, : self.size].copy(), np.zeros(0)
        if self.size > d:
            middle = -solve_psd(P[:d, :d], P[:d, d])
        theta = _joined(f, a, own, middle)
        if not (own or skewed):  # f's slopes need what was cut off at the middle: the constant's
            cut[:d] = cut[d:].sum() * middle if self.size > d else 0.0
        beyond = [a - theta + UNSEEN * (P @ cut)]
        slopes_error = level if own or skewed else error
        moved = np.zeros(self.size)
        if self.s[SLOT.FORGET] < 1.0:
            f, a = self.M[[ROW.LAG, ROW.MEAN_LAG if self.mean else ROW.LAG], : self.size]
            beyond.append(theta - _joined(f, a, own, middle))
            moved = self.M[ROW.MEAN_MOVED if own and self.mean else ROW.MOVED, : self.size].copy()
            moved[d:] = self.M[ROW.MEAN_MOVED if self.mean else ROW.MOVED, d : self.size]
            moved = np.maximum(moved, 0.0)
        return Reading(theta, np.array(beyond), middle, slopes_error, level, moved)

    @alone
    def asymmetry(self) -> tuple[float, float]:
        """:func:`heavytail.estimators.symmetry.asymmetry` of the rows; 0 within the start."""
        self.refresh()
        if not self.mean or self.seen < self.warm:
            return 0.0, 0.0
        gap, size = self.M[ROW.GAP, : self.size], float(np.max(np.abs(self.theta)))
        return asymmetry(self.inverse, gap, np.tril(self.squares), self.dim, ROUNDING * size)

    @alone
    def standard_error(self, X: FloatArray) -> FloatArray:
        """Of the fitted value at each row of X: sqrt(mean psi²) ‖x‖_{V^-1}, of the slopes away from
        the middle of the features and of the level there.
        """
        reading, d, P = self.reading, self.dim, self.inverse
        if self.seen <= self.size:
            return np.full(X.shape[0], math.inf)
        Z = self._standardised(X)
        away, level = Z[:, :d], Z**2 @ reading.moved
        if self.size > d:
            away = away - reading.middle
            level += reading.level_error**2 * max(P[d, d] + P[d, :d] @ reading.middle, 0.0)
        width = np.maximum(np.einsum("ij,jk,ik->i", away, P[:d, :d], away), 0.0)
        return np.asarray(ONE_PASS * np.sqrt(reading.slopes_error**2 * width + level))

    def doubt(self, X: FloatArray) -> FloatArray:
        """Return how far the mean may lie beyond the fitted value. One reason is a bias too small
        for the test to see: what the mean's own estimate, where its slopes were not taken, has
        beyond the fitted value, and what its threshold cut off. The other is a theta that moves
        steadily: the estimate lags behind it by as much as it moved within its memory.
        """
        return np.asarray(self.reading.beyond @ self._standardised(X).T)

    @alone
    def slope_errors(self) -> tuple[FloatArray, FloatArray]:
        """The same of each slope, in the features' own units."""
        reading, d = self.reading, self.dim
        doubt = reading.beyond[:, :d] * self.F[1]
        if self.seen <= self.size:
            return np.full(d, math.inf), doubt
        width = np.maximum(np.diag(self.inverse)[:d], 0.0)
        error = np.sqrt(reading.slopes_error**2 * width + reading.moved[:d])
        return ONE_PASS * error * self.F[1], doubt


def _joined(f: FloatArray, a: FloatArray, own: bool, middle: FloatArray) -> FloatArray:
    """The slopes of a, if they are its ``own``, or of f, with a's level at the middle."""
    theta, d = (a if own else f).copy(), middle.shape[0]
    if d:
        theta[d] = a[d] + middle @ (a - theta)[:d]
    return theta
