"""Twins of the baselines: LinTS, EpsilonGreedy, RobustUCB, Uniform."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from tests.naive.common import Array, first_of_largest, normal, uniform
from tests.naive.one_pass import Ridge


class LinTS(Ridge):
    """The best arm under theta drawn from N(theta, v² V^-1), v = R sqrt(9 d log(t/delta))."""

    def __init__(
        self,
        dim: int,
        *,
        order: float = 2.0,
        scale: float = 1.0,
        noise_scale: float | None = None,
        horizon: int | None = None,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        delta: float | None = None,
        seed: int = 0,
        radius_scale: float = 0.03,
    ) -> None:
        super().__init__(dim, ridge)
        self.R = scale if noise_scale is None else noise_scale
        self.delta = (min(1.0 / horizon, 0.5) if horizon else 0.01) if delta is None else delta
        self.factor, self.seed, self.draws = radius_scale, seed, 0

    @property
    def radius(self) -> float:  # type: ignore[override]
        inside = 9.0 * self.dim * math.log((self.rounds + 1) / self.delta)
        return self.factor * self.R * math.sqrt(inside)

    def choose(self, arms: Array) -> int:
        z = np.array([normal(self.seed, self.draws, k) for k in range(self.dim)])
        self.draws += 1
        drawn = self.theta + self.radius * np.linalg.cholesky(np.linalg.inv(self.V)) @ z
        return first_of_largest(arms @ drawn)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.regress(x, reward)
        self.rounds += 1


class EpsilonGreedy(Ridge):
    """The best arm under ridge regression, or with probability t^(-1/3) any."""

    radius = 0.0

    def __init__(
        self,
        dim: int,
        *,
        order: float = 2.0,
        scale: float = 1.0,
        epsilon: float | None = None,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        seed: int = 0,
        radius_scale: float = 0.1,
    ) -> None:
        super().__init__(dim, ridge)
        self.share, self.factor, self.seed, self.draws = epsilon, radius_scale, seed, 0

    @property
    def epsilon(self) -> float:
        share = (self.rounds + 1) ** (-1.0 / 3.0) if self.share is None else self.share
        return float(min(1.0, self.factor * share))

    def choose(self, arms: Array) -> int:
        number = self.draws
        self.draws += 1
        if uniform(self.seed, number, 0) < self.epsilon:
            return math.floor(uniform(self.seed, number, 1) * len(arms))
        return first_of_largest(arms @ self.theta)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.regress(x, reward)
        self.rounds += 1


class Uniform:
    """Any arm."""

    radius = 0.0

    def __init__(self, dim: int, *, order: float = 2.0, scale: float = 1.0, seed: int = 0) -> None:
        self.theta, self.seed, self.draws, self.rounds = np.zeros(dim), seed, 0, 0

    def choose(self, arms: Array) -> int:
        self.draws += 1
        return math.floor(uniform(self.seed, self.draws - 1, 0) * len(arms))

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1


class RobustUCB:
    """A robust mean per arm and a width in the number of its rewards; delta = 1/T²."""

    radius = 0.0

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        arms: int,
        estimator: str = "truncated",
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        radius_scale: float = 0.03,
        threshold_scale: float = 1.0,
    ) -> None:
        self.p, self.K, self.T, self.nu = order, arms, horizon, scale
        self.raw = scale + theta_bound * arm_bound
        self.estimator, self.factor, self.cut = estimator, radius_scale, threshold_scale
        self.theta, self.rounds = np.zeros(dim), 0
        self.log = 2.0 * math.log(max(horizon, 2))  # log(1/delta)
        self.groups = math.floor(8.0 * (self.log + 1.0 / 8.0))
        self.seen: list[Array] = []
        self.rewards: list[list[float]] = []
        self.means = np.zeros(0)

    @property
    def pulls(self) -> Array:
        return np.array([len(rewards) for rewards in self.rewards], dtype=float)

    def mean(self, rewards: list[float]) -> float:
        if self.estimator == "truncated":
            return self.truncated(rewards)
        return self.median(rewards) if self.estimator == "median of means" else self.catoni(rewards)

    def level(self, n: int) -> float:
        """Beyond it the n-th reward of an arm is taken as 0: (u n / log(1/delta))^(1/p)."""
        return self.cut * (self.raw**self.p * n / self.log) ** (1.0 / self.p)

    def truncated(self, rewards: list[float]) -> float:
        pairs = enumerate(rewards, start=1)
        return sum(y for n, y in pairs if abs(y) <= self.level(n)) / len(rewards)

    def median(self, rewards: list[float]) -> float:
        dealt: dict[int, list[float]] = {}
        for i, y in enumerate(rewards):
            dealt.setdefault(i // 2 % self.groups, []).append(y)
        return float(np.median([np.mean(group) for group in dealt.values()]))

    def catoni(self, rewards: list[float]) -> float:
        """The root of sum psi(alpha (y - m)), alpha² = 2 log(1/delta) / (v (n + n_0)), where
        n_0 = 2 n log(1/delta) / (n - 2 log(1/delta)).
        """
        n, y = len(rewards), np.array(rewards)
        if n < self.least:
            return 0.0
        more = 2.0 * n * self.log / (n - 2.0 * self.log)
        alpha = math.sqrt(2.0 * self.log / (self.nu**2 * (n + more))) / self.cut

        def total(m: float) -> float:
            z = alpha * (y - m)
            return float(np.sum(np.sign(z) * np.log(1.0 + np.abs(z) + z**2 / 2.0)))

        if y.min() == y.max():
            return float(y[0])
        return float(brentq(total, y.min(), y.max(), xtol=1e-15, rtol=1e-14))

    @property
    def least(self) -> int:
        return math.ceil(4.0 * self.log) if self.estimator == "catoni" else 1

    def width(self, n: float) -> float:
        if n < self.least:
            return math.inf
        power = (self.p - 1.0) / self.p
        if self.estimator == "truncated":
            width = 4.0 * self.raw * (self.log / n) ** power
        elif self.estimator == "catoni":
            width = 2.0 * math.sqrt(self.nu**2 * self.log / n)
        else:
            v = self.nu**self.p
            width = (12.0 * v) ** (1.0 / self.p) * (16.0 * (self.log + 0.125) / n) ** power
        return self.factor * width

    def number(self, x: Array) -> int:
        """Which of the arms met before x is, or -1."""
        return next((a for a, known in enumerate(self.seen) if np.array_equal(known, x)), -1)

    def choose(self, arms: Array) -> int:
        indices = np.append(self.means + [self.width(n) for n in self.pulls], math.inf)
        return first_of_largest(indices[self.number(x)] for x in arms)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        if self.number(x) < 0:
            if len(self.seen) == self.K:
                return
            self.seen.append(x)
            self.rewards.append([])
            self.means = np.append(self.means, 0.0)
        a = self.number(x)
        self.rewards[a].append(reward)
        self.means[a] = self.mean(self.rewards[a])
