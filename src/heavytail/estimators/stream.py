"""A streaming regression: its start, its state, and what can be read off it.

The first rows, a fixed number of them, are kept and fitted together, which gives the scale, the
centre of the features and a sane start whatever the units; from then on each row is one step of
:mod:`heavytail.estimators.rows` and is forgotten.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail.estimators.base import NO_SHIFT, Shift, is_plain
from heavytail.estimators.rows import (
    BAD_X,
    BAD_Y,
    GROUPS,
    INVERSE,
    LARGEST_X,
    LARGEST_Y,
    LEAST_INSIDE,
    MISFIT,
    NO_SCALES,
    OK,
    OVERFLOW,
    PROBLEMS,
    ROW,
    SLOT,
    SLOTS,
    admit_rows,
    learn_plain,
    learn_rows,
    length,
    stride_of,
)
from heavytail.estimators.start import BatchFit, bounded, robust_fit, telling
from heavytail.kernels.jit import compiled, only_for
from heavytail.kernels.scale import NORMAL_CONSISTENCY, vote

__all__ = ["Stream"]

QUARTER: Final = GROUPS // 4
AGREE: Final = 14  # so many of them on one side: by chance in 0.4 % of symmetric cases
ONE_PASS: Final = 1.05  # error of one pass against that of the exact minimiser, as measured
WARM: Final = 50  # rows fitted together at the start: WARM, or ROWS_PER_COORDINATE each if more
ROWS_PER_COORDINATE: Final = 5
RELATIVE_FLOOR: Final = 1e-12  # of the scale at the start, below which a scale is rounding
DOUBLES: Final = "(float64[::1], float64[:, ::1], float64[::1])"

_PARTS: Final = ("s", "M", "F", "G")  # views of the state
_COMPILED: Final = compiled()
_learn_plain: Final[Any] = learn_plain


class Stream:
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
    ) -> None:
        size = dim + intercept
        self.dim, self.size, self.kept = dim, size, 0
        self._options = (clip, ridge, scale, intercept, standardize)
        self.state = np.zeros(length(size))
        self._name_parts()
        self.s[SLOT.DIM] = dim
        self.s[SLOT.SIZE] = size
        self.s[SLOT.CLIP] = clip
        self.s[SLOT.FOLLOW] = scale is None
        self.s[SLOT.FORGET] = forget
        self.s[SLOT.FADE] = forget**GROUPS
        self.s[SLOT.WINDOW] = math.inf if forget == 1.0 else 1.0 / (1.0 - forget)
        self.M[ROW.PER_UNIT] = 1.0
        self.M[ROW.FEATURE, dim:size] = 1.0
        self.warm = max(WARM, ROWS_PER_COORDINATE * size)
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
        return {key: value for key, value in self.__dict__.items() if key not in _PARTS}

    def _name_parts(self) -> None:
        """s, the scalars, M, the rows, F, the features' centres and widths, and G, the groups'
        sums, are parts of the state.
        """
        self.s = self.state[:SLOTS]
        self.M = self.state[SLOTS:].reshape(-1, stride_of(self.size))
        self.F = self.M[ROW.CENTRE : ROW.PER_UNIT + 1, : self.dim]
        self.G = self.M[ROW.SUMS : ROW.SUMS + GROUPS, : self.size]

    @property
    def seen(self) -> int:
        """Rows learned."""
        return self.kept if self.kept < self.warm else int(self.s[SLOT.ROUNDS])

    @property
    def theta(self) -> FloatArray:
        """The estimate, in the features' standardised units."""
        return self.M[ROW.THETA, : self.size]

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

    def learn_plain(self, X: Any, y: Any) -> bool:
        """Learn a C-contiguous float64 batch; False, nothing done, where it is not one."""
        if self.kept < self.warm or not _COMPILED:
            if not is_plain(X, y, self.dim):
                return False
            self.learn(X, y, NO_SCALES)
            return True
        if type(X) is not np.ndarray:  # the kernel takes subclasses for arrays, scikit-learn not
            return False
        try:
            code = _learn_plain(self.state, X, y)
        except TypeError:
            return False
        if code > OK:
            raise _refusal(code, X, y, NO_SCALES)
        return code != MISFIT

    def learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> None:
        """Learn a batch; a row that is not usable is named and nothing of the batch is learned."""
        taken = 0
        if self.kept < self.warm:
            code = admit_rows(X, y, nu)
            if code == OK and math.isinf(self.s[SLOT.CLIP]):
                code = _first_unsquarable(y, nu)
            if code != OK:
                raise _refusal(code, X, y, nu, learned=False)
            taken = self._keep(X, y, nu)
            if taken == y.shape[0]:
                return
        S, rest = self.state, (X[taken:], y[taken:], nu[taken:])
        code = learn_rows(S, *rest) if nu.shape[0] else learn_plain(S, *rest[:2])
        if code != OK:
            raise _refusal(code + PROBLEMS * taken, X, y, nu)

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

    def refresh(self) -> None:
        """Fit the rows of the start together, where that has not been done yet."""
        if self._fresh:
            return
        clip, ridge, scale, intercept, standardize = self._options
        kept = self._rows[: self.kept]
        X, y, nu = kept[:, : self.dim], kept[:, self.dim], kept[:, self.dim + 1 :]
        if intercept:
            self.F[0] = X.mean(axis=0)
        if standardize:
            width = X.std(axis=0)
            self.F[1] = 1.0 / np.where(width > 0.0, width, 1.0)
        Z = self._standardised(X)
        penalty = np.full(self.size, ridge)
        penalty[self.dim :] = 0.0  # the intercept is not shrunk
        Z, target = Z / nu, y / nu[:, 0]
        self._take(robust_fit(Z, target, penalty, clip, scale), Z, target, nu[:, 0])
        self._fresh = True

    def _standardised(self, X: FloatArray) -> FloatArray:
        Z = (X - self.F[0]) * self.F[1]
        return np.column_stack([Z, np.ones(X.shape[0])]) if self.size > self.dim else Z

    def _take(self, fit: BatchFit, Z: FloatArray, target: FloatArray, nu: FloatArray) -> None:
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
        self.G[:] = 0.0
        cut = bounded(target) if math.isfinite(s[SLOT.CLIP]) else target
        group = np.arange(self.seen) % GROUPS
        np.add.at(self.G, group, Z / nu[:, None])
        s[SLOT.RESPONSES : SLOT.RESPONSES + GROUPS] = np.bincount(
            group, weights=cut / nu, minlength=GROUPS
        )

    @property
    def coefficients(self) -> tuple[FloatArray, float]:
        """Slopes in the features' own units, and the intercept without its correction."""
        self.refresh()
        slopes = self.theta[: self.dim] * self.F[1]
        constant = self.theta[self.dim] if self.size > self.dim else 0.0
        return slopes, float(constant - slopes @ self.F[0])

    @property
    def spread(self) -> float:
        """The scale of the noise, in the unit of y."""
        self.refresh()
        return float(NORMAL_CONSISTENCY * self.s[SLOT.TYPICAL])

    def shift(self) -> Shift:
        """What the clip took from the intercept under skewed noise: the mean of the middle half of
        the groups' mean residuals; none unless nearly all groups agree on its sign.
        """
        self.refresh()
        weight = self.G[:, self.dim] if self.size > self.dim else np.zeros(GROUPS)
        if not np.isfinite(self.s[SLOT.CLIP]) or self.seen < self.warm or np.any(weight <= 0.0):
            return NO_SHIFT
        means = np.sort((self.s[SLOT.RESPONSES :] - self.G @ self.theta) / weight)
        if max(np.sum(means > 0.0), np.sum(means < 0.0)) < AGREE:
            return NO_SHIFT
        middle = float(np.mean(means[QUARTER:-QUARTER]))
        # A group far out is what says that the middle may not be the mean: so the deviation is the
        # plain one, with a median's factor, and the interval reaches on to the mean of all groups.
        error = math.sqrt(math.pi / 2.0 / GROUPS) * float(np.std(means, ddof=1))
        return Shift(middle, error, float(np.mean(means)) - middle, GROUPS - 1)

    def standard_error(self, X: FloatArray) -> FloatArray:
        """Of the fitted value at each row of X, without the correction's: the sandwich formula."""
        self.refresh()
        Z = self._standardised(X)
        width = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", Z, self.inverse, Z), 0.0))
        if self.seen <= self.size:
            return np.full(X.shape[0], math.inf)
        factor = (
            ONE_PASS
            * math.sqrt(self.s[SLOT.ENERGY])
            / max(float(self.s[SLOT.INSIDE]), LEAST_INSIDE)
        )
        return np.asarray(factor * width)


def _first_unsquarable(y: FloatArray, nu: FloatArray) -> int:
    """OVERFLOW at the first response that least squares cannot take, as in :func:`learn_row`."""
    size = np.abs(y / nu) if nu.shape[0] else np.abs(y)
    bad = np.flatnonzero(size > LARGEST_X)
    return PROBLEMS * int(bad[0]) + OVERFLOW if bad.size else OK


def _refusal(
    code: int, X: FloatArray, y: FloatArray, nu: FloatArray, *, learned: bool = True
) -> ValueError:
    """The error for a bad row; ``learned``: whether those before one that overflows were."""
    row, problem = divmod(code, PROBLEMS)
    if problem == BAD_X:
        column = int(np.flatnonzero(~(np.abs(X[row]) <= LARGEST_X))[0])
        return ValueError(
            f"X[{row}, {column}] must be finite and at most {LARGEST_X:g} in size; got "
            f"{X[row, column]}. Nothing was learned."
        )
    if problem == BAD_Y:
        return ValueError(
            f"y[{row}] must be finite and at most {LARGEST_Y:g} in size; got {y[row]}. "
            "Nothing was learned."
        )
    if problem == OVERFLOW:
        before = f"The {row} rows before it were" if learned and row else "Nothing was"
        return ValueError(
            f"y[{row}] = {y[row]!r} would take the estimate out of the floating-point range. "
            f"{before} learned; change the unit of y."
        )
    return ValueError(
        f"sample_scale[{row}] must be a number above 0; got {nu[row]}. Nothing was learned."
    )
