"""Low-rank policies where d2 = 1: the rank is full, so that every basis leads to the same choices.

What is left of them is when they explore, what they learn from, and when they begin anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.naive.common import first_of_largest, uniform
from tests.naive.one_pass import OFUL
from tests.naive.practice import HvtPractice

Array = np.ndarray


class Exploring:
    """Any arm until something is known; then whatever ``inner`` chooses."""

    def __init__(self, dim: int) -> None:
        self.dim, self.rounds, self.draws = dim, 0, 0
        self.rows: list[tuple[Array, float]] = []
        self.inner: Any = None

    @property
    def theta(self) -> Array:
        return np.zeros(self.dim) if self.inner is None else self.inner.theta

    def choose(self, arms: Array) -> int:
        if self.explores:
            self.draws += 1
            return math.floor(uniform(0, self.draws - 1, 0) * len(arms))
        return self.inner.choose(arms)

    @property
    def explores(self) -> bool:
        return self.inner is None

    @property
    def tells(self) -> bool:
        return any(reward != 0.0 for _, reward in self.rows)


class HvtLowRank(Exploring):
    """Hvt-UCB, which is taught what was explored when it begins."""

    def __init__(self, dim: int, *, scale: float, order: float = 2.0) -> None:
        super().__init__(dim)
        self.scale, self.next = scale, 3 * (dim + 1)

    @property
    def radius(self) -> float:
        inner = HvtPractice(self.dim, scale=self.scale) if self.inner is None else self.inner
        return float(inner.radius)

    def learn(self, x: Array, reward: float) -> None:
        self.rounds += 1
        self.rows.append((x, reward))
        if self.inner is not None:
            self.inner.learn(x, reward)
        elif self.rounds >= self.next:
            self.next = 2 * self.rounds
            if self.tells:
                self.inner = HvtPractice(self.dim, scale=self.scale)
                for row in self.rows:
                    self.inner.learn(*row)


class LowESTR(Exploring):
    """OFUL, from nothing when exploring ends."""

    def __init__(self, dim: int, *, horizon: int, explore: int) -> None:
        super().__init__(dim)
        self.explore = explore

    @property
    def radius(self) -> float:
        return 0.0 if self.inner is None else self.inner.radius

    def learn(self, x: Array, reward: float) -> None:
        self.rounds += 1
        if self.inner is not None:
            self.inner.learn(x, reward)
            return
        self.rows.append((x, reward))
        if self.rounds >= self.explore and self.tells:
            self.inner = OFUL(self.dim, noise_scale=1.0, delta=0.01)


class LOTUS(Exploring):
    """Ridge regression in batches, its estimate made anew by quarters; nothing is truncated."""

    def __init__(self, dim: int, *, order: float, scale: float, threshold_scale: float) -> None:
        super().__init__(dim)
        assert threshold_scale == math.inf
        self.p, self.scale, self.batch, self.radius = order, scale, 4, 0.0
        self.fitted, self.estimate = False, np.zeros(dim)
        self.open()

    @property
    def theta(self) -> Array:
        return self.estimate

    @property
    def explores(self) -> bool:
        return self.rounds < self.until_explored or not self.fitted

    def open(self) -> None:
        self.batch += 1
        share = 0.02 * self.scale * (self.dim + 1) ** 1.5 * 2 ** (self.batch / self.p)
        length = 2**self.batch
        self.until = self.rounds + length
        self.until_explored = self.rounds + min(math.ceil(max(share, 3 * (self.dim + 1))), length)

    def reach(self, t: int) -> float:
        k, T = self.dim, 2**self.batch
        spread = math.log(2 * k * T / 0.01) ** ((self.p - 1) / self.p)
        slope = 4 * math.sqrt(k) * (self.scale + 1.0) * spread
        return 0.001 * (slope * t ** ((2 - self.p) / (2 * self.p)) + 1.0)

    def choose(self, arms: Array) -> int:
        if self.explores:
            return super().choose(arms)
        P = np.linalg.inv(self.V)
        widths = np.sqrt(np.einsum("ni,ij,nj->n", arms, P, arms))
        return first_of_largest(arms @ self.estimate + self.radius * widths)

    def learn(self, x: Array, reward: float) -> None:
        explores = self.explores
        self.rounds += 1
        if explores:
            self.rows.append((x, reward))
            if self.rounds >= self.until_explored and self.tells:
                self.fitted, self.estimate = True, np.zeros(self.dim)
                self.V, self.h, self.t, self.due = np.eye(self.dim), np.zeros(self.dim), 0, 1
                self.radius = self.reach(1)
        else:
            self.V = self.V + np.outer(x, x)
            self.h = self.h + reward * x
            self.t += 1
            if self.t >= self.due:
                self.due = math.floor(1.25 * self.t) + 1
                self.estimate = np.linalg.solve(self.V, self.h)
            self.radius = self.reach(self.t)
        if self.rounds >= self.until:
            self.open()


def parts(k: int, n: int) -> float:
    """How many thresholds' worth of squares n residuals of a fit of k numbers have."""
    return min(k + math.log(n + 1), n / 2)


def threshold(residuals: Array, parts: float) -> float:
    """tau with sum min(r², tau²) = parts tau²: where the m largest are clipped, tau² is the sum of
    the other squares over parts - m. Where nothing is clipped, the largest.
    """
    sizes = np.sort(np.abs(residuals))[::-1]
    for m in range(math.ceil(parts)):
        tau = math.sqrt(np.sum(sizes[m:] ** 2) / (parts - m))
        if tau >= sizes[m]:
            return min(tau, float(sizes[0]))
    raise AssertionError("no threshold")


def noise_of_singular_value(X: Array, nu: Array, psi: Array) -> float:
    """R ‖X‖ sqrt((d1 + d2) / (n d1 d2)), with R² the mean of psi² and ‖X‖² that of ‖X/nu‖²."""
    n, d1, d2 = X.shape
    squares = np.mean(np.sum(X**2, axis=(1, 2)) / nu**2)
    return math.sqrt(np.mean(psi**2) * squares * (d1 + d2) / (n * d1 * d2))


def rounds(d1, d2, count, *, seed=0, arms=6, rank=1):
    """Arms as matrices, and a reward for each."""
    rng = np.random.default_rng(seed)
    theta = 3.0 * rng.normal(size=(d1, rank)) @ rng.normal(size=(rank, d2))
    for _ in range(count):
        X = rng.normal(size=(arms, d1, d2))
        X /= np.linalg.norm(X, axis=(1, 2), keepdims=True) * 1.001
        yield X, np.sum(X * theta, axis=(1, 2)) + rng.standard_t(2.5)


def played(policy, d1, d2, count, *, twin=None, **options):
    """Play, and teach ``twin`` the same rounds as vectors."""
    for X, paid in rounds(d1, d2, count, **options):
        arm = policy.select(X)
        policy.update(X[arm], paid[arm])
        if twin is not None:
            twin.update(X[arm].ravel(), paid[arm])
    return policy
