"""The state of a streaming regression and the kernel that learns a batch of rows in one call.

The first rows, a fixed number of them, are kept and fitted together, which gives the scale, the
centre of the features and a sane start whatever the units; from then on each row is one step of
:mod:`heavytail.kernels.one_pass` and is forgotten.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.estimators.batch import BatchFit, bounded, robust_fit
from heavytail.kernels.gram import predict, transform
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    BAD_REWARD,
    BAD_SCALE,
    BAD_X,
    FEATURE,
    INVERSE,
    OK,
    OWN,
    ROUNDS,
    THETA,
    THETA_BOUND,
    rows,
)
from heavytail.kernels.one_pass import learn
from heavytail.kernels.scale import NORMAL_CONSISTENCY, follow_typical

__all__ = ["GROUPS", "Stream"]

# Slots of s that are the regression's own.
CLIP: Final = OWN
TYPICAL: Final = OWN + 1  # running median of |residual| / nu
FOLLOW: Final = OWN + 2  # 1: the scale is learned, 0: it was given
INSIDE: Final = OWN + 3  # running share of rows that are not clipped
ENERGY: Final = OWN + 4  # running mean of psi², in the unit of y²
FORGET: Final = OWN + 5
WINDOW: Final = OWN + 6  # rows remembered, 1 / (1 - forget); infinity without forgetting
ROOM: Final = OWN + 7  # largest diagonal entry of P to which forgetting may let it grow
FLOOR: Final = OWN + 8  # of TYPICAL
INTERCEPT: Final = OWN + 9  # 1: the last coordinate is the constant
RESPONSES: Final = OWN + 10  # the groups' sums of y / nu² begin here

GROUPS: Final = 16  # means of residuals whose median corrects the intercept
SLOTS: Final = RESPONSES + GROUPS

# Rows of M that follow the common ones, counted from rows(size).
CENTRE: Final = 0  # of each feature
PER_UNIT: Final = 1  # 1 / width of a feature
SUMS: Final = 2  # the groups' sums of x / nu² begin here
EXTRA: Final = SUMS + GROUPS
AGREE: Final = 14  # so many of them on one side: by chance in 0.4 % of symmetric cases
ONE_PASS: Final = 1.05  # error of one pass against that of the exact minimiser, as measured
LEAST_INSIDE: Final = 0.3  # the step is at most 1 / this times the ridge's
WARM: Final = 50  # rows fitted together at the start: WARM, or ROWS_A_COORDINATE each if more
ROWS_A_COORDINATE: Final = 5
LARGEST_X: Final = 1e140  # a feature beyond cannot be squared and summed
LARGEST_Y: Final = 1e300
NONE: Final = np.empty(0)
RELATIVE_FLOOR: Final = 1e-12  # of the scale at the start, below which a scale is rounding


@jit
def admit_rows(X: Matrix, y: Vector, nu: Vector) -> int:
    """OK, or 4 * row + problem (1, 2 or 3) of the first bad row; nu is empty where all are 1."""
    for t in range(y.shape[0]):
        for i in range(X.shape[1]):
            if not (abs(X[t, i]) <= LARGEST_X):
                return 4 * t - BAD_X
        if not (abs(y[t]) <= LARGEST_Y):
            return 4 * t - BAD_REWARD
        if nu.shape[0] > 0 and not (1.0 / LARGEST_X <= nu[t] <= LARGEST_X):
            return 4 * t - BAD_SCALE
    return OK


@jit
def forget(s: Vector, M: Matrix) -> None:
    """P <- P / forget, unless a direction has not been seen for so long that P would pass its
    start.
    """
    size = M.shape[1]
    for i in range(size):
        if M[INVERSE + i, i] > s[FORGET] * s[ROOM]:
            return
    for i in range(size):
        for j in range(size):
            M[INVERSE + i, j] /= s[FORGET]


@jit
def count_in(s: Vector, M: Matrix, response: float, nu: float) -> None:
    """Add the row in FEATURE to its group's sums of x / nu² and y / nu²."""
    size = M.shape[1]
    group = int(s[ROUNDS]) % GROUPS
    g = M.shape[0] - GROUPS + group
    weight = 1.0 / (nu * nu)
    if s[FORGET] < 1.0:
        decay = s[FORGET] ** GROUPS
        s[RESPONSES + group] *= decay
        for i in range(size):
            M[g, i] *= decay
    for i in range(size):
        M[g, i] += weight * M[FEATURE, i]
    s[RESPONSES + group] += weight * response


@jit
def learn_rows(s: Vector, M: Matrix, X: Matrix, y: Vector, nu: Vector) -> int:
    """Learn rows of y on X, each with its noise scale; how many were learned, or -code of
    :func:`admit_rows` and nothing touched. O(d²) a row.
    """
    code = admit_rows(X, y, nu)
    if code != OK:
        return -code
    size = M.shape[1]
    dim = X.shape[1]
    centre = M.shape[0] - EXTRA + CENTRE
    per_unit = M.shape[0] - EXTRA + PER_UNIT
    for t in range(y.shape[0]):
        scale = nu[t] if nu.shape[0] > 0 else 1.0
        for i in range(dim):
            M[FEATURE, i] = (X[t, i] - M[centre, i]) * M[per_unit, i]
        for i in range(dim, size):
            M[FEATURE, i] = 1.0
        if s[FORGET] < 1.0:
            forget(s, M)
        squared = transform(M)
        fitted = predict(M)
        z = (y[t] - fitted) / scale
        tau = s[CLIP] * NORMAL_CONSISTENCY * s[TYPICAL]
        # A clipped row has curvature 0, so V overstates the loss's by 1 / INSIDE: step by as much.
        gain = 1.0 / max(s[INSIDE], LEAST_INSIDE)
        if learn(s, M, size, squared, gain * z, scale, 1.0, gain * tau) != OK:
            return t
        n = s[ROUNDS]
        share = 1.0 / min(n, s[WINDOW])
        psi = score(z, tau)
        s[INSIDE] += share * ((1.0 if abs(z) <= tau else 0.0) - s[INSIDE])
        s[ENERGY] += share * (psi * psi - s[ENERGY])
        if s[INTERCEPT] == 1.0:  # no row counts for more than n typical ones
            most = n * NORMAL_CONSISTENCY * s[TYPICAL]
            count_in(s, M, fitted + scale * score(z, most), scale)
        if s[FOLLOW] == 1.0:
            s[TYPICAL] = follow_typical(s[TYPICAL], abs(z), n, s[FLOOR])
    return y.shape[0]


@jit
def learn_plain(s: Vector, M: Matrix, X: Matrix, y: Vector) -> int:
    """:func:`learn_rows` where all scales are 1: one array fewer to hand over, a row at a time."""
    return learn_rows(s, M, X, y, NONE)


class Stream:
    """A streaming regression: a start of a few rows fitted together, then one step a row."""

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
        self.dim, self.size, self.seen = dim, size, 0
        self._options = (clip, ridge, scale, intercept, standardize)
        self.s = np.zeros(SLOTS)
        self.s[THETA_BOUND] = math.inf
        self.s[CLIP] = clip
        self.s[FOLLOW] = scale is None
        self.s[FORGET] = forget
        self.s[WINDOW] = math.inf if forget == 1.0 else 1.0 / (1.0 - forget)
        self.s[INTERCEPT] = intercept
        self.M = np.zeros((rows(size) + EXTRA, size))
        self._name_parts()
        self.F[PER_UNIT] = 1.0
        self.warm = max(WARM, ROWS_A_COORDINATE * size)
        self._rows = np.empty((self.warm, dim + 2))  # x, y, nu of the first rows
        self._fresh = True  # whether M and s reflect the rows kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays read back from a memory map are read-only; the kernels write into theirs."""
        for key, value in state.items():
            held = isinstance(value, np.ndarray) and not value.flags.writeable
            self.__dict__[key] = np.array(value) if held else value
        self._name_parts()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("F", "G")}

    def _name_parts(self) -> None:
        """F, the features' centres and widths, and G, the groups' sums, are parts of M."""
        first = rows(self.size)
        self.F = self.M[first : first + SUMS, : self.dim]
        self.G = self.M[first + SUMS :]

    @property
    def nbytes(self) -> int:
        """Bytes of everything remembered, whatever the number of rows."""
        return sum(a.nbytes for a in (self.s, self.M, self._rows))

    def learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> None:
        """Learn a batch; a row that is not usable is named and nothing of the batch is learned."""
        if self.seen < self.warm:
            code = admit_rows(X, y, nu)
            if code != OK:
                raise _refusal(code, X, y, nu)
            taken = self._keep(X, y, nu)
            if taken == y.shape[0]:
                return
            X, y, nu = X[taken:], y[taken:], nu[taken:]
        if nu.shape[0]:
            done = learn_rows(self.s, self.M, X, y, nu)
        else:
            done = learn_plain(self.s, self.M, X, y)
        if done < 0:
            raise _refusal(-done, X, y, nu)
        self.seen += done
        if done < y.shape[0]:
            raise ValueError(
                f"y[{done}] = {y[done]!r} would take the estimate out of the floating-point "
                "range; rows before it were learned. Change the unit of y."
            )

    def _keep(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> int:
        taken = min(self.warm - self.seen, y.shape[0])
        part = self._rows[self.seen : self.seen + taken]
        part[:, : self.dim] = X[:taken]
        part[:, self.dim] = y[:taken]
        part[:, self.dim + 1] = nu[:taken] if nu.shape[0] else 1.0
        self.seen += taken
        self._fresh = False
        if self.seen == self.warm:
            self.refresh()
        return taken

    def refresh(self) -> None:
        """Fit the rows of the start together, where that has not been done yet."""
        if self._fresh:
            return
        clip, ridge, scale, intercept, standardize = self._options
        kept = self._rows[: self.seen]
        X, y, nu = kept[:, : self.dim], kept[:, self.dim], kept[:, self.dim + 1 :]
        if intercept:
            self.F[CENTRE] = X.mean(axis=0)
        if standardize:
            width = X.std(axis=0)
            self.F[PER_UNIT] = 1.0 / np.where(width > 0.0, width, 1.0)
        Z = (X - self.F[CENTRE]) * self.F[PER_UNIT]
        if intercept:
            Z = np.column_stack([Z, np.ones(self.seen)])
        penalty = np.full(self.size, ridge)
        penalty[self.dim :] = 0.0  # the intercept is not shrunk
        Z, target = Z / nu, y / nu[:, 0]
        self._take(robust_fit(Z, target, penalty, clip, scale), Z, target, nu[:, 0])
        self._fresh = True

    def _take(self, fit: BatchFit, Z: FloatArray, target: FloatArray, nu: FloatArray) -> None:
        s, size = self.s, self.size
        self.M[THETA] = fit.theta
        self.M[INVERSE : INVERSE + size] = (fit.inverse + fit.inverse.T) / 2.0
        s[ROUNDS] = self.seen
        s[TYPICAL] = fit.spread / NORMAL_CONSISTENCY
        s[INSIDE] = fit.inside
        s[ENERGY] = fit.energy
        s[FLOOR] = RELATIVE_FLOOR * s[TYPICAL]
        s[ROOM] = max(1.0, float(np.max(np.diag(fit.inverse))))
        self.G[:] = 0.0
        cut = bounded(target) if math.isfinite(s[CLIP]) else target
        group = np.arange(self.seen) % GROUPS
        np.add.at(self.G, group, Z / nu[:, None])
        s[RESPONSES:SLOTS] = np.bincount(group, weights=cut / nu, minlength=GROUPS)

    @property
    def coefficients(self) -> tuple[FloatArray, float]:
        """Slopes in the features' own units, and the intercept without its correction."""
        self.refresh()
        slopes = self.M[THETA, : self.dim] * self.F[PER_UNIT]
        constant = self.M[THETA, self.dim] if self.size > self.dim else 0.0
        return slopes, float(constant - slopes @ self.F[CENTRE])

    @property
    def spread(self) -> float:
        """The scale of the noise, in the unit of y."""
        self.refresh()
        return float(NORMAL_CONSISTENCY * self.s[TYPICAL])

    def shift(self) -> tuple[float, float]:
        """What the clip took from the intercept under skewed noise, and its standard error.

        The median of the groups' mean residuals; (0, 0) unless nearly all groups agree on its
        sign.
        """
        self.refresh()
        weight = self.G[:, self.dim] if self.size > self.dim else np.zeros(GROUPS)
        if not np.isfinite(self.s[CLIP]) or self.seen < self.warm or np.any(weight <= 0.0):
            return 0.0, 0.0
        means = (self.s[RESPONSES:SLOTS] - self.G @ self.M[THETA]) / weight
        if max(np.sum(means > 0.0), np.sum(means < 0.0)) < AGREE:
            return 0.0, 0.0
        middle = float(np.median(means))
        # sqrt(pi/2) deviations / sqrt(n) is the standard error of a median. The deviation is the
        # plain one: a group far out is what says that the median may lie below the mean.
        return middle, math.sqrt(math.pi / 2.0 / GROUPS) * float(np.std(means, ddof=1))

    def standard_error(self, X: FloatArray) -> FloatArray:
        """Of the fitted value at each row of X, without the correction's: the sandwich formula."""
        self.refresh()
        Z = (X - self.F[CENTRE]) * self.F[PER_UNIT]
        if self.size > self.dim:
            Z = np.column_stack([Z, np.ones(X.shape[0])])
        P = self.M[INVERSE : INVERSE + self.size]
        width = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", Z, P, Z), 0.0))
        if self.seen <= self.size:
            return np.full(X.shape[0], math.inf)
        factor = ONE_PASS * math.sqrt(self.s[ENERGY]) / max(float(self.s[INSIDE]), LEAST_INSIDE)
        return np.asarray(factor * width)


def _refusal(code: int, X: FloatArray, y: FloatArray, nu: FloatArray) -> ValueError:
    row, problem = divmod(code - 1, 4)
    if problem == -BAD_X - 1:
        column = int(np.flatnonzero(~(np.abs(X[row]) <= LARGEST_X))[0])
        return ValueError(
            f"X[{row}, {column}] must be finite and at most {LARGEST_X:g} in size; got "
            f"{X[row, column]}. Nothing was learned."
        )
    if problem == -BAD_REWARD - 1:
        return ValueError(
            f"y[{row}] must be finite and at most {LARGEST_Y:g} in size; got {y[row]}. "
            "Nothing was learned."
        )
    return ValueError(
        f"sample_scale[{row}] must be a number above 0; got {nu[row]}. Nothing was learned."
    )
