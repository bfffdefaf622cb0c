"""The policies that keep their history, once more in plain NumPy, from their formulas alone.

Slow and readable: matrices are formed and solved, sums are made anew every round, multipliers are
bracketed. Nothing of heavytail is imported, so that no constant can be wrong in both places.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Array = NDArray[np.float64]
Score = Callable[[Array, Array], tuple[Array, Array]]  # (z, tau) -> psi, psi'


def time_power(order: float) -> float:
    """a = (1 - eps)/(2(1 + eps)), eps = order - 1."""
    eps = order - 1.0
    return (1.0 - eps) / (2.0 * (1.0 + eps))


def huber(z: Array, tau: Array) -> tuple[Array, Array]:
    return np.clip(z, -tau, tau), (np.abs(z) <= tau).astype(float)


def pseudo_huber(z: Array, tau: Array) -> tuple[Array, Array]:
    """Of tau (sqrt(tau² + z²) - tau), written with z/tau so that tau may be infinite."""
    stretch = np.sqrt(1.0 + (z / tau) ** 2)
    return z / stretch, stretch**-3.0


def free_minimiser(
    a: Array, b: Array, tau: Array, ridge: float, score: Score, start: Array
) -> Array:
    """argmin (ridge/2)‖theta‖² + sum of losses of b - a theta: Newton, each step cut by halves
    until it no longer passes far beyond the lowest point along it.
    """

    def slope(theta: Array) -> tuple[Array, Array]:
        psi, weight = score(b - a @ theta, tau)
        return ridge * theta - a.T @ psi, weight

    theta, (g, weight) = start, slope(start)
    rounding = 1e-15 * (np.abs(a.T) @ np.minimum(np.abs(b), tau)).sum()
    for _ in range(200):
        if g @ g <= rounding**2:
            break
        step = -np.linalg.solve(ridge * np.eye(len(theta)) + (a.T * weight) @ a, g)
        share, (ahead, weight) = 1.0, slope(theta + step)
        while share > 1e-6 and ahead @ step > 0.5 * abs(g @ step):
            share *= 0.5
            ahead, weight = slope(theta + share * step)
        if share == 1.0 and ahead @ ahead >= g @ g <= 1e-20 * (1.0 + a.size) ** 2:
            break  # as near as rounding lets it come
        theta, g = theta + share * step, ahead
    return theta


def minimiser(
    a: Array, b: Array, tau: Array, ridge: float, bound: float, score: Score, start: Array
) -> Array:
    """The same over ‖theta‖ <= bound: its Lagrangian adds mu to the ridge, mu by bracketing."""
    free = free_minimiser(a, b, tau, ridge, score, start)
    if np.linalg.norm(free) <= bound:
        return free

    near = start

    def at(mu: float) -> Array:
        nonlocal near
        near = free_minimiser(a, b, tau, ridge + mu, score, near)
        return near

    def excess(mu: float) -> float:
        return float(np.linalg.norm(at(mu))) - bound

    high = ridge
    while excess(high) > 0.0:
        high *= 4.0
    return at(brentq(excess, 0.0, high, xtol=1e-14 * high, rtol=1e-14))


class Optimist:
    """argmax x'theta + radius ‖x‖_{V^-1}, the first of the largest."""

    theta: Array
    V: Array
    radius: float

    def width(self, x: Array) -> float:
        return math.sqrt(x @ np.linalg.solve(self.V, x))

    def select(self, arms: Array) -> int:
        return int(np.argmax([x @ self.theta + self.radius * self.width(x) for x in arms]))

    @property
    def inverse_gram(self) -> Array:
        return np.linalg.inv(self.V)


class Adaptive(Optimist):
    """What HEAVY-OFUL and AdaOFUL share: the round's sigma_t and tau_t, a fit over everything."""

    score: Score

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        order: float,
        scale: float,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        radius_scale: float,
        threshold_scale: float = 1.0,
    ) -> None:
        self.dim, self.T, self.order, self.nu = dim, horizon, order, scale
        self.ball, self.L = theta_bound, arm_bound
        self.B = theta_bound if theta_bound < math.inf else 1.0
        self.ridge = dim / self.B**2 if ridge is None else ridge
        self.delta = 1.0 / (8.0 * horizon) if delta is None else delta
        self.sigma_min = 1.0 / math.sqrt(horizon) if sigma_min is None else sigma_min
        self.radius_scale, self.threshold_scale = radius_scale, threshold_scale
        self.kappa = dim * math.log(
            1.0 + horizon * self.L**2 / (dim * self.ridge * self.sigma_min**2)
        )
        self.ell = math.log(2.0 * horizon**2 / self.delta)
        self.theta, self.V = np.zeros(dim), self.ridge * np.eye(dim)
        self.rows: list[tuple[Array, float, float]] = []  # x/sigma, y/sigma, tau
        self.clipped = self.held = 0  # rounds clipped, rounds that end on the sphere
        self.turned = 0  # times a row came inside its threshold or left it
        self.ruled: list[int] = []  # which of the four terms sigma_t was
        self.sigma = self.tau = 0.0
        self.radius = radius_scale * math.sqrt(self.ridge) * self.B

    def floors(self, n: float) -> tuple[float, float]:
        raise NotImplementedError

    def tau_0(self) -> float:
        raise NotImplementedError

    def beta(self, t: int) -> float:
        raise NotImplementedError

    def update(self, x: Array, reward: float, scale: float | None = None) -> None:
        t = len(self.rows) + 1
        n = self.width(x)
        terms = [self.nu if scale is None else scale, self.sigma_min, *self.floors(n)]
        self.sigma = max(terms)
        self.ruled.append(terms.index(self.sigma))
        w = n / self.sigma
        self.tau = math.inf
        if w > 0.0:
            self.tau = self.threshold_scale * self.tau_0() * math.sqrt(1.0 + w**2) / w
            self.tau *= t ** time_power(self.order)
        self.clipped += abs(reward - x @ self.theta) / self.sigma > self.tau
        self.V = self.V + np.outer(x, x) / self.sigma**2
        self.rows.append((x / self.sigma, reward / self.sigma, self.tau))
        a, b, tau = (np.array(column) for column in zip(*self.rows, strict=True))
        before = np.abs(b - a @ self.theta) > tau
        self.theta = minimiser(a, b, tau, self.ridge, self.ball, type(self).score, self.theta)
        self.turned += int(np.sum(before != (np.abs(b - a @ self.theta) > tau)))
        self.held += bool(np.linalg.norm(self.theta) > (1.0 - 1e-9) * self.ball)
        self.radius = self.radius_scale * self.beta(t)


class HeavyOFUL(Adaptive):
    """Huang et al. 2023: c_0 = 1/sqrt(23 l), c_1 = (log 3T)^((2-p)/p) / (48 l^(2/p))."""

    score = staticmethod(huber)

    def floors(self, n: float) -> tuple[float, float]:
        p = self.order
        c_0 = 1.0 / math.sqrt(23.0 * self.ell)
        c_1 = math.log(3 * self.T) ** ((2.0 - p) / p) / (48.0 * self.ell ** (2.0 / p))
        second = math.sqrt(self.L * self.B) * math.sqrt(n) / (2.0 * c_1 * self.kappa) ** 0.25
        return n / c_0, second

    def tau_0(self) -> float:
        spread = math.sqrt(2.0 * self.kappa) * math.log(3 * self.T) ** time_power(self.order)
        return spread / self.ell ** (1.0 / self.order)

    def beta(self, t: int) -> float:
        a, eps = time_power(self.order), self.order - 1.0
        noise = 24.0 * t**a * math.sqrt(2.0 * self.kappa) * math.log(3 * self.T) ** a
        return 3.0 * math.sqrt(self.ridge) * self.B + noise * self.ell ** (eps / (1.0 + eps))


class AdaOFUL(Adaptive):
    """Li and Sun 2024: m_0 = 1/(6 sqrt(3 l)), m_1 = 1/(42 l), and l_t = log(2t²/delta)."""

    score = staticmethod(pseudo_huber)

    def floors(self, n: float) -> tuple[float, float]:
        m_0, m_1 = 1.0 / (6.0 * math.sqrt(3.0 * self.ell)), 1.0 / (42.0 * self.ell)
        return n / m_0, math.sqrt(self.L * self.B * n) / (m_1 * self.dim) ** 0.25

    def tau_0(self) -> float:
        return math.sqrt(max(2.0 * self.kappa, 4.0 * self.dim) / self.ell)

    def beta(self, t: int) -> float:
        tau_0, ell_t = self.tau_0(), math.log(2.0 * t**2 / self.delta)
        noise = self.kappa / tau_0 + math.sqrt(self.kappa * ell_t) + tau_0 * ell_t
        return 32.0 * noise + 5.0 * math.sqrt(self.ridge) * self.B


class TOFU(Optimist):
    """Shao et al. 2018: every coordinate of V^(-1/2) X' y truncated at b_t, all of it every round.

    b = (nu + S L)^p bounds E|y|^p by Minkowski's inequality.
    """

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        order: float,
        scale: float,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float | None = None,
        radius_scale: float = 0.03,
        threshold_scale: float = 1.0,
    ) -> None:
        self.dim, self.T, self.order = dim, horizon, order
        self.b = (scale + theta_bound * arm_bound) ** order
        self.delta = 1.0 / horizon if delta is None else delta
        self.prior = math.sqrt(ridge) * theta_bound
        self.radius_scale, self.threshold_scale = radius_scale, threshold_scale
        self.theta, self.V = np.zeros(dim), ridge * np.eye(dim)
        self.X: list[Array] = []
        self.y: list[float] = []
        self.truncated = 0
        self.radius = radius_scale * self.prior

    def update(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.X.append(x)
        self.y.append(reward)
        t, eps = len(self.y), self.order - 1.0
        self.V = self.V + np.outer(x, x)
        values, vectors = np.linalg.eigh(self.V)
        root = vectors @ np.diag(1.0 / np.sqrt(values)) @ vectors.T
        growth = t ** time_power(self.order)
        level = (self.b / math.log(2.0 * self.T / self.delta)) ** (1.0 / (1.0 + eps)) * growth
        terms = (root @ np.array(self.X).T) * np.array(self.y)
        lost = np.abs(terms) > self.threshold_scale * level
        self.theta = root @ np.where(lost, 0.0, terms).sum(axis=1)
        self.truncated += bool(lost[:, -1].any())
        spread = math.log(2.0 * self.dim * self.T / self.delta) ** (eps / (1.0 + eps))
        noise = 4.0 * math.sqrt(self.dim) * self.b ** (1.0 / (1.0 + eps)) * spread * growth
        self.radius = self.radius_scale * (noise + self.prior)


class BTC:
    """Xue et al. 2020: a threshold for every arm that is judged; SupBTC with ``sup``.

    A stage's Psi is a list of its own. Of the arms wide enough to explore the widest is played. The
    stage that learns from an arm is the first that finds it wider than max(2^-s, 1/sqrt(T)).
    """

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        order: float,
        scale: float,
        arms: int,
        sup: bool = False,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.03,
        threshold_scale: float = 1.0,
    ) -> None:
        self.dim, self.order, self.ridge = dim, order, ridge
        v = (scale + theta_bound * arm_bound) ** order
        q = math.log(2.0 * horizon * arms * math.log(horizon) / delta)
        self.alpha = (2.0 / 3.0) * q + math.sqrt(2.0 * q * v) + v
        self.prior = math.sqrt(ridge) * theta_bound
        self.radius_scale, self.threshold_scale = radius_scale, threshold_scale
        self.sup, self.finest = sup, 1.0 / math.sqrt(horizon)
        stages = int(math.log(horizon)) if sup else 1
        self.psi: list[list[tuple[Array, float]]] = [[] for _ in range(stages)]
        self.rounds = 0
        self.ways: list[str] = []  # how each choice was made

    @property
    def radius(self) -> float:
        t = self.rounds + 1
        return self.radius_scale * (self.alpha * t ** time_power(self.order) + self.prior)

    def judge(self, x: Array, stage: int = 0) -> tuple[float, float]:
        """(r_hat, w) of one arm from one stage's samples."""
        X = np.array([row for row, _ in self.psi[stage]]).reshape(-1, self.dim)
        y = np.array([reward for _, reward in self.psi[stage]])
        solved = np.linalg.solve(self.ridge * np.eye(self.dim) + X.T @ X, x)
        h = X @ solved
        stays = np.abs(h * y) / self.threshold_scale <= np.linalg.norm(h, self.order)
        estimate = float(sum((h * y)[stays]))
        return estimate, self.radius * math.sqrt(x @ solved)

    def predict(self, x: Array) -> float:
        return self.judge(x)[0]

    @property
    def theta(self) -> Array:
        return np.array([self.predict(unit) for unit in np.eye(self.dim)])

    def select(self, arms: Array) -> int:
        active = list(range(len(arms)))
        for s in range(1, len(self.psi) + 1):
            judged = {i: self.judge(arms[i], s - 1) for i in active}
            index = {i: r + w for i, (r, w) in judged.items()}
            best, widest = max(active, key=index.get), max(active, key=lambda i: judged[i][1])
            most = judged[widest][1]
            if not self.sup or most <= self.finest:
                self.ways.append("exploit")
                return best
            if most > 2.0**-s:
                self.ways.append(f"explore {s}")
                return widest
            active = [i for i in active if index[i] >= index[best] - 2.0 ** (1 - s)]
        self.ways.append("out of stages")
        return best

    def update(self, x: Array, reward: float, scale: float | None = None) -> None:
        wide = [
            s
            for s in range(1, len(self.psi) + 1)
            if self.judge(x, s - 1)[1] > max(2.0**-s, self.finest)
        ]
        learning = wide[:1] if self.sup else [1]
        for s in learning:
            self.psi[s - 1].append((x, reward))
        self.rounds += 1


class HuberBandit:
    """Kang and Kim 2023 where every arm has features of its own, which it is known by.

    A model is a list of its samples (x, y, whether reserved). An unknown vector begins a new model
    while fewer than K are known, and belongs to the nearest afterwards.
    """

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        arms: int,
        forced: int = 2,
        gap: float = 0.2,
        shared: bool = False,
        ridge: float = 1e-3,
        delta: float = 0.01,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
        **_: Any,
    ) -> None:
        self.dim, self.order, self.ridge, self.delta = dim, order, ridge, delta
        self.nu = threshold_scale * scale
        self.K, self.shared = arms, shared
        self.radius = radius_scale * gap / 2.0
        self.reserved = {
            (2**n - 1) * arms * forced + j: (j - 1) // forced
            for n in range(12)
            for j in range(1, arms * forced + 1)
        }
        self.known: list[Array] = []
        self.samples: list[list[tuple[Array, float, bool]]] = []
        self.fits: list[Array] = []
        self.forced_fits: list[Array] = []
        self.theta = np.zeros(dim)
        self.rounds = 0

    def nearest(self, x: Array) -> int:
        if self.shared:
            return 0
        return int(np.argmin([np.sum((x - features) ** 2) for features in self.known]))

    def is_known(self, x: Array) -> bool:
        return any(np.array_equal(x, features) for features in self.known)

    def select(self, arms: Array) -> int:
        k = self.reserved.get(self.rounds + 1)
        if k is not None:
            return self.select_reserved(arms, k)
        return int(np.argmax(self.values(arms)))

    def values(self, arms: Array) -> Array:
        """What ``select`` takes the largest of, outside reserved rounds."""
        models = [self.nearest(x) for x in arms]
        forced = np.array([x @ self.forced_fits[m] for x, m in zip(arms, models, strict=True)])
        means = np.array([x @ self.fits[m] for x, m in zip(arms, models, strict=True)])
        return np.where(forced.max() - forced <= self.radius, means, -math.inf)

    def select_reserved(self, arms: Array, k: int) -> int:
        """Arm k's nearest; where it is not known yet, the first stranger; else the offered in
        turn, as always where one fit is shared and arms have no names.
        """
        if self.shared:
            return k % len(arms)
        if k < len(self.known):
            return int(np.argmin(np.sum((arms - self.known[k]) ** 2, axis=1)))
        strangers = [i for i, x in enumerate(arms) if not self.is_known(x)]
        return strangers[0] if strangers else k % len(arms)

    def update(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        most = 1 if self.shared else self.K
        if not self.is_known(x) and len(self.known) < most:
            self.known.append(x)
            self.samples.append([])
            self.fits.append(np.zeros(self.dim))
            self.forced_fits.append(np.zeros(self.dim))
            model = len(self.known) - 1
        else:
            model = self.nearest(x)
        forced = self.rounds in self.reserved
        self.samples[model].append((x, reward, forced))
        self.fits[model] = self.theta = self.fit(self.samples[model], self.fits[model])
        if forced:
            own = [sample for sample in self.samples[model] if sample[2]]
            self.forced_fits[model] = self.fit(own, self.forced_fits[model])

    def fit(self, Z: list[tuple[Array, float, bool]], start: Array) -> Array:
        log_term = math.log(self.rounds**2 * (2 * self.dim + 1) / self.delta)
        tau = self.nu * (len(Z) / log_term) ** (1.0 / self.order)
        X, y = np.array([x for x, _, _ in Z]), np.array([y for _, y, _ in Z])
        return free_minimiser(X, y, np.full(len(Z), tau), self.ridge, huber, start)
