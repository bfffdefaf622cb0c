"""The regressions written from their formulas, in plain NumPy: slow and obvious.

V is formed and solved with; a whole table is learned at once, row by row.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from tests.naive.control import huber_fit, running_median
from tests.naive.self_tuning import binned

FEW, EVERY = 4, 32


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


class MeanStart:
    """Huber's estimate at tau of sum min(r², tau²) = tau² (m + log n), at least 1.345 scales and
    the clip; estimate and tau take turns, ten at most.
    """

    def __init__(self, Z, y, penalty, clip, robust):
        n, size = Z.shape
        y, least = bounded(y), 1.345 * robust.spread
        theta, self.tau = robust.theta, None
        for _ in range(10):
            self.sizes = np.abs(y - Z @ theta)
            before, self.tau = self.tau, binned(self.sizes, size + math.log(n), least)
            if before is not None and abs(before / self.tau - 1) < 1e-12:
                break
            theta = huber_fit(Z, y, max(self.tau, clip * robust.spread), penalty)
        r, edge = y - Z @ theta, max(self.tau, clip * robust.spread)
        psi, whole = np.clip(r, -edge, edge), np.clip(r, -max(n * robust.spread, edge), None)
        whole = np.minimum(whole, max(n * robust.spread, edge))
        bulk, middle = y - Z @ robust.theta, math.sqrt(clip * robust.spread * edge)
        self.between = np.mean(np.abs(bulk) <= middle)
        gap = np.clip(bulk, -middle, middle) / max(self.between, 0.3)
        gap -= np.clip(bulk, -clip * robust.spread, clip * robust.spread) / max(robust.inside, 0.3)
        self.gap = Z.T @ gap
        more = n / max(n - size, 1)
        self.theta, self.energy, self.whole = (
            theta,
            more * np.mean(psi**2),
            more * np.mean(whole**2),
        )
        self.squares = more * sum(g**2 * np.outer(x, x) for g, x in zip(gap, Z, strict=True))
        self.cut = Z.T @ (whole - psi)


class Mean:
    """The estimate whose threshold tunes itself, with all sizes kept; ``bulk`` is the one-pass
    estimate beside it, whose V, n and scale it shares.
    """

    def __init__(self, start, bulk):
        known = bulk.spread > 0
        self.theta, self.energy, self.squares = start.theta, start.energy, start.squares
        self.cut, self.whole, self.unit = start.cut, start.whole, 1.345 * bulk.spread
        self.gap, self.between = start.gap, start.between
        self.tau = start.tau if known else 0.0
        self.sizes = list(start.sizes) if known else []
        self.weights = [1.0] * len(self.sizes)
        self.bulk = bulk

    def judge(self, x, y, nu):
        """The residual, its threshold and its clipped value, before anything moves."""
        z, bulk = (y - x @ self.theta) / nu, self.bulk
        tau = max(self.tau, 1.345 * bulk.spread, bulk.clip * bulk.spread)
        far = max(tau, bulk.n * bulk.spread)
        return z, tau, min(max(z, -tau), tau), min(max(z, -far), far)

    def step(self, x, nu, judged, typical, newton, clip, share, faded):
        z, tau, psi, whole = judged
        bulk = self.bulk
        if faded:
            self.cut, self.squares = bulk.forget * self.cut, bulk.forget**2 * self.squares
            self.gap = bulk.forget * self.gap
        self.theta = self.theta + np.linalg.solve(bulk.V, x) * psi / nu
        self.cut = self.cut + x * (whole - psi) / nu
        self.energy += share * (psi**2 - self.energy)
        self.whole += share * (whole**2 - self.whole)
        middle = (clip * tau) ** 0.5
        gap = min(max(typical, -middle), middle) / max(self.between, 0.3) - newton
        self.between += share * ((abs(typical) <= middle) - self.between)
        self.gap = self.gap + x * gap / nu
        weight = 1 if abs(typical) > clip else FEW if bulk.n % FEW == 0 else 0
        self.squares = self.squares + weight * np.outer(x, x) * (gap / nu) ** 2
        self.follow(abs(z), tau)

    def follow(self, size, tau):
        """After the scale has moved."""
        bulk, least = self.bulk, 1.345 * self.bulk.spread
        if not self.unit / 64 <= least <= self.unit * 2**16:
            self.unit = self.tau = least
            self.sizes, self.weights = [], []
        if self.unit == 0:
            return
        self.sizes.append(size)
        self.weights.append(1.0)
        if bulk.n % EVERY == 0:
            self.weights = [bulk.forget**EVERY * w for w in self.weights]
        if bulk.n % EVERY == 0 or size > tau:
            memory = bulk.n if bulk.forget == 1 else min(bulk.n, 1 / (1 - bulk.forget))
            need = len(self.theta) + math.log(memory)
            self.tau = binned(self.sizes, need, self.unit, weights=self.weights)


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
        target="mean",
        clip=1.0,
        scale=None,
        ridge=1e-4,
        fit_intercept=True,
        standardize=False,
        forget=1.0,
        level=0.95,
    ):
        self.target = target if math.isfinite(clip) else "typical"
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
        self.mean = None
        if self.target == "mean":
            self.mean = Mean(MeanStart(Z, target, penalty, self.clip, start), self)
        self.lag = self.theta.copy()
        self.mean_lag = self.mean.theta.copy() if self.mean else None
        self.paths = [[], []] if self.mean else [[]]  # the steps of f, and of a

    def step(self, x, y, nu):
        self.n += 1
        faded = False
        if self.forget < 1:
            faded = np.linalg.inv(self.V).diagonal().max() <= self.forget * self.room
            self.V = self.forget * self.V if faded else self.V
        tau = self.clip * self.spread if math.isfinite(self.clip) else math.inf
        z = (y - x @ self.theta) / nu
        psi = min(max(z, -tau), tau)
        newton = psi / max(self.inside, 0.3)
        judged = self.mean.judge(x, y, nu) if self.mean else None
        self.V = self.V + np.outer(x, x) / nu**2
        before = self.theta, self.mean.theta if self.mean else None
        self.theta = self.theta + np.linalg.solve(self.V, x) * newton / nu
        share = 1.0 / self.n if self.forget == 1 else max(1.0 / self.n, 1 - self.forget)
        self.inside += share * ((abs(z) <= tau) - self.inside)
        self.energy += share * (psi**2 - self.energy)
        if self.scale is None:
            self.follow(y, abs(z))
        if self.mean:
            self.mean.step(x, nu, judged, z, newton, tau, share, faded)
        if self.forget < 1:
            self.lag = (1 - share) * self.lag + share * self.theta
            self.paths[0].append(self.theta - before[0])
        if self.forget < 1 and self.mean:
            self.mean_lag = (1 - share) * self.mean_lag + share * self.mean.theta
            self.paths[1].append(self.mean.theta - before[1])

    def moved(self, which):
        """The mean over ten memories, the first left out, of a memory's steps times the mean of
        those in a fortieth of it before.
        """
        memory = 1 / (1 - self.forget) if self.forget < 1 else math.inf
        recent = total = np.zeros(len(self.theta))
        for n, step in enumerate(self.paths[which], start=self.n - len(self.paths[which]) + 1):
            if n > memory:
                slow = 1 / min(max(n - memory, 1), 10 * memory)
                total = (1 - slow) * total + slow * memory**2 * step * recent
            recent = recent + (step - recent) / min(n, max(memory / 40, 1))
        return total

    def follow(self, y, size):
        if not self.vote.common(y):
            self.telling += 1
            before = self.spread / 1.4826 or size
            self.spread = 1.4826 * running_median(before, size, self.telling, self.floor)
        self.vote.take(y)

    @property
    def asymmetry(self):
        """g = V^-1 sum x (psi_m - psi_f) over its standard deviation: of the slopes together, and
        the larger of all together and of each alone, over the 0.99 quantile of chi².
        """
        if self.mean is None or self.n < self.warm:
            return 0.0, 0.0
        d, size, P = len(self.centre), len(self.theta), np.linalg.inv(self.V)
        C, gap = P @ self.mean.squares @ P, P @ self.mean.gap
        slopes, every = (
            gap[:k] @ np.linalg.pinv(C[:k, :k], hermitian=True) @ gap[:k] / stats.chi2.ppf(0.99, k)
            for k in (d, size)
        )
        alone = max(0.0, *(g**2 / c for g, c in zip(gap, np.diag(C), strict=True) if c > 0), 0.0)
        return slopes, max(every, alone / stats.norm.isf(0.005 / size) ** 2)

    @property
    def answer(self):
        """Coefficients, what may lie beyond, the errors of a row of slopes and of the level, and
        the variances that a moving theta adds.
        """
        d, error = len(self.centre), math.sqrt(self.energy) / max(self.inside, 0.3)
        if self.mean is None:
            return self.theta, [self.drift(self.theta, self.lag)], error, error, self.moved(0)
        a, level = self.mean.theta, math.sqrt(self.mean.whole)
        slopes, every = self.asymmetry
        cut = 2 * np.linalg.solve(self.V, self.mean.cut)
        if 0.95 * math.sqrt(self.mean.energy) <= error or slopes > 1:
            return a, [cut, self.drift(a, self.mean_lag)], level, level, self.moved(1)
        theta, behind, beyond = self.theta.copy(), self.lag.copy(), np.zeros(len(a))
        if self.intercept:  # as high as a at the middle of the features
            middle = self.V[d] / self.V[d, d]
            theta[d] = a @ middle - theta[:d] @ middle[:d]
            beyond[d] = 2 * self.mean.cut[d] / self.V[d, d]
            behind[d] = self.mean_lag @ middle - behind[:d] @ middle[:d]
        reasons = [a - theta + (cut if every > 1 else beyond), self.drift(theta, behind)]
        moved = np.append(self.moved(0)[:d], self.moved(1)[d:])
        return theta, reasons, level if every > 1 else error, level, moved

    def drift(self, theta, behind):
        """What lies between an estimate and its running mean, where rows are forgotten."""
        return theta - behind if self.forget < 1 else 0 * theta

    @property
    def coef(self):
        return self.answer[0][: len(self.centre)] / self.width

    @property
    def constant(self):
        return (self.answer[0][-1] if self.intercept else 0.0) - self.coef @ self.centre

    def predict(self, X):
        """Mean and the ends of its interval."""
        mean = X @ self.coef + self.constant
        Z, half = self.standardised(X), np.full(len(X), math.inf)
        _, beyond, error, level, moved = self.answer
        if self.n > len(self.theta):
            squared = error**2 * np.sum(Z * np.linalg.solve(self.V, Z.T).T, axis=1)
            squared += Z**2 @ np.maximum(moved, 0)
            if self.intercept:  # the part at the middle has the level's error
                squared += (level**2 - error**2) / self.V[-1, -1]
            half = np.maximum(1.05 * np.sqrt(squared), self.uneven(Z))
            half *= stats.t.ppf(0.5 + self.level / 2, self.n - len(self.theta))
        low, high = mean - half, mean + half
        for reason in beyond:
            far = Z @ reason
            low, high = low + np.minimum(far, 0), high + np.maximum(far, 0)
        return mean, low, high

    def uneven(self, Z):
        """The standard error where the noise's size depends on x; one pass has none."""
        return np.zeros(len(Z))


class Ridge(OnePass):
    """argmin sum (y - x'theta)²/nu² + lambda ‖slopes‖²."""

    def __init__(self, **options):
        super().__init__(clip=math.inf, **options)


class Adaptive(OnePass):
    """All rows at tau = sigma (n / (size + log n))^(1/p), sigma of a pilot fit at 1.345."""

    def __init__(self, *, order=2.0, **options):
        super().__init__(**options)
        self.order, self.mean = order, None

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
        self.V, self.spread = pilot.V, pilot.spread
        reach = self.spread
        r = abs(target - Z @ pilot.theta)
        near = sorted(range(self.n), key=lambda i: r[i])[: self.n // 2 + 1]
        line = np.linalg.lstsq(Z[near], target[near], rcond=None)[0]
        off = [abs(v - z @ line) for v, z in zip(target, Z, strict=True)]
        rounding = 1e-10 * max(abs(target[i]) for i in near)
        if self.scale is None and len(near) > size and all(off[i] <= rounding for i in near):
            off = [v for v in off if v > rounding]
            reach = 1.4826022185056018 * np.median(off) if off else reach
            self.spread = reach if len(off) > size + math.log(self.n) else self.spread
        tau = self.spread * ratio ** (1 / self.order)
        self.theta = huber_fit(Z, target, tau, penalty)
        r = target - Z @ self.theta
        most = max(self.n * reach, tau)
        whole = np.array([math.copysign(min(abs(v), most), v) for v in r])
        self.cut = sum((w - np.clip(v, -tau, tau)) * z for w, v, z in zip(whole, r, Z, strict=True))
        self.rms = math.sqrt(np.sum(whole**2) / max(self.n - size, 1))
        influence = np.linalg.solve(self.V, Z.T).T
        free = [max(1.0 - z @ a, 0.001) for z, a in zip(Z, influence, strict=True)]
        self.influences = [a * w / f for a, w, f in zip(influence, whole, free, strict=True)]
        return self

    def uneven(self, Z):
        """sqrt(sum over rows of (z' V^-1 x r / (1 - leverage))²)."""
        return np.array([math.sqrt(sum((z @ a) ** 2 for a in self.influences)) for z in Z])

    @property
    def answer(self):
        """The exact minimiser: no factor for what one pass loses."""
        error = self.rms / 1.05
        beyond = 2 * np.linalg.solve(self.V, self.cut)
        return self.theta, [beyond], error, error, 0 * self.theta
