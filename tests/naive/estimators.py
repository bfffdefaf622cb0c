"""The regressions written from their formulas, in plain NumPy: slow and obvious.

V is formed and solved with; a whole table is learned at once, row by row.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from tests.naive.control import huber_fit, running_median

GROUPS = 16


def bounded(y):
    """y cut at 1e8 median deviations; of those that deviate, where half do not."""
    gap = np.abs(y - np.median(y))
    width = 1e8 * np.median(gap)
    if width == 0:
        width = 1e8 * np.median(gap[gap > 0]) if np.any(gap > 0) else 1.0
    return np.clip(y, np.median(y) - width, np.median(y) + width)


def telling(y):
    """All rows but those of a value that more than half, and not all, have."""
    for value in np.unique(y):
        if len(y) / 2 < np.sum(y == value) < len(y):
            return y != value
    return np.full(len(y), True)


class Start:
    """Huber's estimate at ``clip`` scales; the scale 1.4826 medians of |r|, or ``scale``.

    Scale and estimate take turns, one reweighting each, until the scale moves by a thousandth at
    most; then the estimate of that scale is solved for exactly.
    """

    def __init__(self, Z, y, penalty, clip, scale):
        n, size = Z.shape
        freedom = max(n - size, 1) / n
        kept, V = telling(y), Z.T @ Z + np.diag(penalty)
        y = bounded(y) if math.isfinite(clip) else y

        def measure(theta):
            if scale is not None:
                return scale
            sizes = np.abs(y - Z @ theta)[kept]
            typical = np.median(sizes) / math.sqrt(freedom) or np.mean(sizes)
            return max(1.4826 * typical, 1e-300)

        theta = np.linalg.pinv(V) @ Z.T @ y
        spread, before = measure(theta), math.inf
        while math.isfinite(clip) and abs(spread - before) > 1e-3 * spread:
            before = spread
            r = np.abs(y - Z @ theta)
            weight = np.minimum(1.0, clip * spread / np.maximum(r, 1e-300))
            A = (Z * weight[:, None]).T @ Z + np.diag(penalty)
            theta = np.linalg.lstsq(A, (Z * weight[:, None]).T @ y, rcond=None)[0]
            spread = measure(theta)
        if math.isfinite(clip):
            theta = huber_fit(Z, y, clip * spread, penalty)
        r = y - Z @ theta
        self.V, self.theta, self.spread = V, theta, spread
        self.inside = np.mean(np.abs(r) <= clip * spread)
        self.energy = np.mean(np.clip(r, -clip * spread, clip * spread) ** 2) / freedom


class Vote:
    """Boyer and Moore's majority vote; a value is common once it leads by 16 votes."""

    value, lead = 0.0, 0.0

    def common(self, y):
        return y == self.value and self.lead >= 16

    def take(self, y):
        if y != self.value and self.lead == 0:
            self.value, self.lead = y, 1
        else:
            self.lead = min(self.lead + 1, 1000) if y == self.value else max(self.lead - 1, 0)


class OnePass:
    """The first max(50, 5 size) rows together, then per row a step of V_t^-1 x psi(z) / (q nu)."""

    def __init__(
        self,
        *,
        clip=1.0,
        scale=None,
        ridge=1e-4,
        fit_intercept=True,
        standardize=False,
        forget=1.0,
        level=0.95,
    ):
        self.clip, self.scale, self.ridge, self.level = clip, scale, ridge, level
        self.intercept, self.standardize, self.forget = fit_intercept, standardize, forget

    def standardised(self, X):
        Z = (X - self.centre) / self.width
        return np.column_stack([Z, np.ones(len(X))]) if self.intercept else Z

    def fit(self, X, y, nu=None):
        nu = np.ones(len(y)) if nu is None else nu
        size = X.shape[1] + self.intercept
        self.warm = max(50, 5 * size)
        first, rest = slice(0, self.warm), slice(self.warm, None)
        self.begin(X[first], y[first], nu[first], size)
        for x, target, unit in zip(X[rest], y[rest], nu[rest], strict=True):
            self.step(self.standardised(x[None])[0], target, unit)
        return self

    def begin(self, X, y, nu, size):
        d = X.shape[1]
        self.centre = X.mean(axis=0) if self.intercept else np.zeros(d)
        width = X.std(axis=0)
        self.width = np.where(width > 0, width, 1.0) if self.standardize else np.ones(d)
        Z, target = self.standardised(X) / nu[:, None], y / nu
        penalty = np.full(size, self.ridge)
        penalty[d:] = 0.0
        start = Start(Z, target, penalty, self.clip, self.scale)
        self.V, self.theta, self.n = start.V, start.theta, len(y)
        self.inside, self.energy, self.spread = start.inside, start.energy, start.spread
        self.telling = np.sum(telling(target))
        if self.scale is None and np.all(target == target[0]):
            self.spread = self.telling = 0
        self.floor = 1e-12 * self.spread / 1.4826
        self.room = max(1.0, np.linalg.inv(self.V).diagonal().max())
        self.vote = Vote()
        for value in y:
            self.vote.take(value)
        self.sums, self.responses = np.zeros((GROUPS, size)), np.zeros(GROUPS)
        cut = bounded(target) if math.isfinite(self.clip) else target
        for k in range(len(y)):
            self.sums[k % GROUPS] += Z[k] / nu[k]
            self.responses[k % GROUPS] += cut[k] / nu[k]

    def step(self, x, y, nu):
        self.n += 1
        group = self.n % GROUPS
        if self.forget < 1:
            self.sums[group] *= self.forget**GROUPS
            self.responses[group] *= self.forget**GROUPS
            if np.linalg.inv(self.V).diagonal().max() <= self.forget * self.room:
                self.V = self.forget * self.V
        fitted = x @ self.theta
        tau = self.clip * self.spread if math.isfinite(self.clip) else math.inf
        z = (y - fitted) / nu
        psi = min(max(z, -tau), tau)
        self.V = self.V + np.outer(x, x) / nu**2
        self.theta = self.theta + np.linalg.solve(self.V, x) * psi / (max(self.inside, 0.3) * nu)
        share = 1.0 / self.n if self.forget == 1 else max(1.0 / self.n, 1 - self.forget)
        self.inside += share * ((abs(z) <= tau) - self.inside)
        self.energy += share * (psi**2 - self.energy)
        far = self.n * self.spread
        self.responses[group] += (fitted + nu * min(max(z, -far), far)) / nu**2
        self.sums[group] += x / nu**2
        if self.scale is None:
            self.follow(y, abs(z))

    def follow(self, y, size):
        if not self.vote.common(y):
            self.telling += 1
            before = self.spread / 1.4826 or size
            self.spread = 1.4826 * running_median(before, size, self.telling, self.floor)
        self.vote.take(y)

    def shift(self):
        """Mean of the middle eight group means, its error, and how far the mean of all is beyond.

        Only once 14 of the 16 agree on the sign, and where there is a clip.
        """
        if not self.intercept or math.isinf(self.clip) or self.n < self.warm:
            return 0.0, 0.0, 0.0
        means = np.sort((self.responses - self.sums @ self.theta) / self.sums[:, -1])
        if max(np.sum(means > 0), np.sum(means < 0)) < 14:
            return 0.0, 0.0, 0.0
        middle = means[4:12].mean()
        return middle, math.sqrt(math.pi / 32) * np.std(means, ddof=1), means.mean() - middle

    @property
    def coef(self):
        return self.theta[: len(self.centre)] / self.width

    @property
    def constant(self):
        return (self.theta[-1] if self.intercept else 0.0) - self.coef @ self.centre

    def predict(self, X):
        """Mean and the ends of its interval."""
        shift, error, missed = self.shift()
        mean = X @ self.coef + self.constant + shift
        half = np.full(len(X), math.inf)
        if self.n > len(self.theta):
            Z = self.standardised(X)
            width = np.sqrt(np.sum(Z * np.linalg.solve(self.V, Z.T).T, axis=1))
            half = 1.05 * math.sqrt(self.energy) / max(self.inside, 0.3) * width
            half *= stats.t.ppf(0.5 + self.level / 2, self.n - len(self.theta))
        half = np.hypot(half, error * stats.t.ppf(0.5 + self.level / 2, GROUPS - 1))
        return mean, mean - half + min(missed, 0), mean + half + max(missed, 0)


class Ridge(OnePass):
    """argmin sum (y - x'theta)²/nu² + lambda ‖slopes‖²."""

    def __init__(self, **options):
        super().__init__(clip=math.inf, **options)


class Adaptive(OnePass):
    """All rows at tau = sigma (n / (size + log n))^(1/p), sigma of a pilot fit at 1.345."""

    def __init__(self, *, order=2.0, **options):
        super().__init__(**options)
        self.order = order

    def fit(self, X, y, nu=None):
        nu = np.ones(len(y)) if nu is None else nu
        self.centre, self.width = np.zeros(X.shape[1]), np.ones(X.shape[1])
        Z = self.standardised(X) / nu[:, None]
        self.n, size = Z.shape
        penalty = np.full(size, self.ridge)
        penalty[X.shape[1] :] = 0.0
        target = bounded(y / nu)
        pilot = Start(Z, target, penalty, 1.345, self.scale)
        ratio = max(self.n / (size + math.log(max(self.n, 2))), 1.0)
        tau = pilot.spread * ratio ** (1 / self.order)
        self.V, self.spread = pilot.V, pilot.spread
        self.theta = huber_fit(Z, target, tau, penalty)
        r = target - Z @ self.theta
        self.inside = np.mean(np.abs(r) <= tau)
        # The exact minimiser: no factor for what one pass loses.
        self.energy = np.sum(np.clip(r, -tau, tau) ** 2) / max(self.n - size, 1) / 1.05**2
        return self

    def shift(self):
        return 0.0, 0.0, 0.0
