"""Twins of the policies that learn every reward once: Hvt-UCB, OFUL, CRTM, CRT."""

from __future__ import annotations

import math

import numpy as np
from tests.naive.common import Array, Linear, log_det_ratio, power_of_time, project, width


class Ridge(Linear):
    """theta = V^-1 sum y x and V = lambda I + sum x x', from the lists of both."""

    def __init__(self, dim: int, ridge: float) -> None:
        self.dim, self.ridge = dim, ridge
        self.xs: list[Array] = []
        self.ys: list[float] = []
        self.solve()

    def solve(self) -> None:
        X = np.array(self.xs).reshape(-1, self.dim)
        self.V = self.ridge * np.eye(self.dim) + X.T @ X
        self.theta_all = np.linalg.solve(self.V, X.T @ np.array(self.ys))

    def regress(self, x: Array, y: float) -> None:
        self.xs.append(x)
        self.ys.append(y)
        self.solve()

    @property
    def log_det(self) -> float:
        return log_det_ratio(self.V, self.ridge)


class Mirror(Linear):
    """One step of online mirror descent per reward, in the norm of the updated V."""

    def __init__(self, dim: int, ridge: float, theta_bound: float, extra: int = 0) -> None:
        self.dim, self.ridge, self.theta_bound = dim, ridge, theta_bound
        self.V = ridge * np.eye(dim + extra)
        self.theta_all = np.zeros(dim + extra)

    def descend(self, feature: Array, gradient: Array, weight: float) -> float:
        """Returns ‖gradient‖² in the inverse of the new V."""
        self.V = self.V + weight * np.outer(feature, feature)
        step = np.linalg.solve(self.V, gradient)
        self.theta_all = project(self.V, self.theta_all - step, self.theta_bound, self.dim)
        return float(gradient @ step)


class OFUL(Ridge):
    """beta = R sqrt(2 log(det(V)^(1/2) det(lambda I)^(-1/2) / delta)) + sqrt(lambda) S."""

    def __init__(
        self,
        dim: int,
        *,
        order: float = 2.0,
        scale: float = 1.0,
        noise_scale: float | None = None,
        horizon: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        delta: float | None = None,
        radius_scale: float = 0.3,
    ) -> None:
        super().__init__(dim, ridge)
        self.R = scale if noise_scale is None else noise_scale
        self.S, self.factor = theta_bound, radius_scale
        self.delta = (min(1.0 / horizon, 0.5) if horizon else 0.01) if delta is None else delta

    @property
    def radius(self) -> float:  # type: ignore[override]
        noise = self.R * math.sqrt(2.0 * (self.log_det / 2.0 - math.log(self.delta)))
        return self.factor * (noise + math.sqrt(self.ridge) * self.S)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.regress(x, reward)
        self.rounds += 1


class CRT(Ridge):
    """Ridge regression on rewards that are 0 beyond t^(1/(2p)); the radius of Theorem 1."""

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.003,
        threshold_scale: float = 1.0,
    ) -> None:
        super().__init__(dim, ridge)
        self.p, self.T, self.S, self.delta = order, horizon, theta_bound, delta
        self.v = (scale + theta_bound * arm_bound) ** order
        self.factor, self.cut, self.truncated = radius_scale, threshold_scale, 0

    @property
    def radius(self) -> float:  # type: ignore[override]
        inside = self.log_det / 2.0 - math.log(self.delta) + self.v**2 * math.log(self.T)
        spread = 2.0 * math.sqrt(2.0 * self.rounds ** (1.0 / self.p) * inside)
        return self.factor * (spread + math.sqrt(self.ridge) * self.S)

    def largest(self, x: Array) -> float:
        """The largest reward that the next round would not truncate."""
        return self.cut * (self.rounds + 1) ** (1.0 / (2.0 * self.p))

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        truncated = abs(reward) > self.largest(x)
        self.truncated += truncated
        self.regress(x, 0.0 if truncated else reward)
        self.rounds += 1


class CRTM(Mirror):
    """A step on the reward, or on 0 where ‖x‖_{V^-1} |y| > Gamma.

    With A = d log(1 + w L² T/(lambda d)), ell = log(4T/delta), u = (nu + S L)^p, w the weight of
    x x' in V: Gamma = 2 sqrt(A) (u/ell)^(1/p) T^a, and the squared radius is
    896 A u^(2/p) ell^(2(p-1)/p) T^(2a) + 2 lambda S² + 48 S A.
    """

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        form: str = "newton",
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.001,
        threshold_scale: float = 1.0,
    ) -> None:
        super().__init__(dim, ridge, theta_bound)
        self.least_squares = form == "least squares"
        self.ridge_twin = Ridge(dim, ridge)
        self.weight = 1.0 if self.least_squares else 0.5
        p, T, S, u = order, horizon, theta_bound, (scale + theta_bound * arm_bound) ** order
        A = dim * math.log(1.0 + self.weight * arm_bound**2 * T / (ridge * dim))
        ell, growth = math.log(4.0 * T / delta), power_of_time(T, p)
        self.Gamma = threshold_scale * 2.0 * math.sqrt(A) * (u / ell) ** (1.0 / p) * growth
        noise = 896.0 * A * u ** (2.0 / p) * ell ** (2.0 - 2.0 / p) * growth**2
        self.radius = radius_scale * math.sqrt(noise + 2.0 * ridge * S**2 + 48.0 * S * A)
        self.truncated = 0

    def largest(self, x: Array) -> float:
        """The largest reward that the next round would not truncate."""
        return self.Gamma / width(self.V, x)

    def mean(self, x: Array) -> float:
        return float(x @ self.theta)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        truncated = abs(reward) > self.largest(x)
        y = 0.0 if truncated else reward
        self.truncated += truncated
        self.rounds += 1
        if self.least_squares:
            self.ridge_twin.regress(x, y)
            self.V, self.theta_all = self.ridge_twin.V, self.ridge_twin.theta_all
        else:
            self.descend(x, (self.mean(x) - y) * x, self.weight)


class HvtTheory(Mirror):
    """Hvt-UCB, Algorithm 1 with the constants of Lemma 1 and the floor 2 sqrt 2 of Lemmas 5, 6."""

    intercept = 0.0

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        alpha: float = 4.0,
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
    ) -> None:
        ridge = float(dim) if ridge is None else ridge
        super().__init__(dim, ridge, theta_bound)
        T, p = horizon, order
        delta = 1.0 / (8.0 * T) if delta is None else delta
        self.p, self.nu, self.alpha, self.factor = order, scale, alpha, radius_scale
        self.sigma_min = 1.0 / math.sqrt(T) if sigma_min is None else sigma_min
        inside = arm_bound**2 * T / (self.sigma_min**2 * ridge * alpha * dim)
        kappa = dim * math.log(1.0 + inside)
        self.ell = math.log(2.0 * T**2 / delta)
        logs = power_of_time(math.log(3.0 * T), p) / self.ell ** (1.0 / p)
        self.tau_0_lemma = math.sqrt(2.0 * kappa) * logs
        self.tau_0 = threshold_scale * self.tau_0_lemma
        self.beta_0 = math.sqrt(ridge * (2.0 + 4.0 * theta_bound**2))
        self.radius = radius_scale * self.beta_0
        self.sigma = self.tau = 0.0
        self.floors: list[int] = []  # which of the four terms sigma_t was, round by round

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        growth = power_of_time(self.rounds, self.p)
        n = width(self.V, x)
        steep = math.sqrt(2.0 * self.radius / (self.tau_0 * math.sqrt(self.alpha) * growth))
        terms = [scale or self.nu, self.sigma_min, 2.0 * math.sqrt(2.0) * n, steep * n]
        sigma = max(terms)
        self.floors.append(terms.index(sigma))
        w = n / (math.sqrt(self.alpha) * sigma)
        tau = self.tau_0 * math.sqrt(1.0 + w**2) / w * growth if n > 0.0 else math.inf
        z = (reward - x @ self.theta) / sigma
        psi = math.copysign(min(abs(z), tau), z)
        self.descend(x, -psi / sigma * x, 1.0 / (self.alpha * sigma**2))
        self.sigma, self.tau = sigma, tau
        beta = 107.0 * self.ell * self.tau_0_lemma * growth + self.beta_0
        self.radius = self.factor * beta
