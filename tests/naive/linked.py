"""Twins of the policies with a link: GLB-OMD and Hvt-GLB, from their likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from tests.naive.common import Array, Linear, log_det_ratio, project
from tests.naive.links import MEAN, SLOPE
from tests.naive.practice import Threshold, TypicalSize

Function = Callable[[float], float]


def root(f: Function, z: float) -> float:
    """Of an increasing f, near z."""
    low, high = z - 1.0, z + 1.0
    while f(low) > 0.0:
        low -= 2.0 * (high - low)
    while f(high) < 0.0:
        high += 2.0 * (high - low)
    return float(brentq(f, low, high, xtol=1e-14, rtol=1e-15, maxiter=500))


class LinkedStep(Linear):
    """theta and H, moved by one observation."""

    def __init__(self, dim: int, ridge: float, bound: float, extra: int) -> None:
        self.dim, self.ridge, self.bound = dim, ridge, bound
        self.V = ridge * np.eye(dim + extra)
        self.theta_all = np.zeros(dim + extra)

    def descend(
        self, feature: Array, pull: Function, information: Function, eta: float, implicit: bool
    ) -> None:
        """``pull`` and ``information`` are functions of the score, over the dispersion."""
        z = float(feature @ self.theta_all)
        model = self.V + eta * information(z) * np.outer(feature, feature)
        if implicit:
            u = np.linalg.solve(self.V, feature)
            v = root(lambda v: v - z - eta * float(feature @ u) * pull(v), z)
            moved = self.theta_all + eta * pull(v) * u
        else:
            moved = self.theta_all + eta * pull(z) * np.linalg.solve(model, feature)
        self.theta_all = project(model, moved, self.bound, self.dim)
        after = float(feature @ self.theta_all)
        self.V = self.V + information(after) * np.outer(feature, feature)

    @property
    def log_det(self) -> float:
        return log_det_ratio(self.V, self.ridge)

    @property
    def intercept(self) -> float:
        return float(self.theta_all[self.dim :].sum()) * self.constant


class GLBOMD(LinkedStep):
    """beta² = 4 lambda S² + 2 eta log(1/delta) + eta (6 eta + 1) log det in theory; in practice
    0.4 (sqrt(spread (log det + 2 log(1/delta))) + sqrt(lambda g) / L).
    """

    def __init__(
        self,
        dim: int,
        *,
        link: str,
        theory: bool = False,
        implicit: bool = True,
        theta_bound: float = math.inf,
        arm_bound: float = 1.0,
        noise_scale: float = 1.0,
        ridge: float | None = None,
        delta: float = 0.01,
        intercept: bool = True,
        radius_scale: float = 1.0,
    ) -> None:
        self.link, self.g, self.theory, self.implicit = link, noise_scale**2, theory, implicit
        self.eta, own = 1.0, arm_bound**2 * dim / 100.0 / self.g
        if theory:
            reach = theta_bound * arm_bound
            R = 0.0 if link == "identity" else 1.0
            self.eta = 1.0 + R * reach
            steep = {"identity": 1.0, "logistic": 0.25, "log": math.exp(reach)}[link]
            own = max(14.0 * dim * self.eta * R, 6.0 * self.eta * R * reach * steep / self.g)
            own = arm_bound**2 * (own if R else 1.0 / self.g)
        ridge = own if ridge is None else ridge
        super().__init__(dim, ridge, theta_bound, int(intercept and not theory))
        self.constant, self.factor = arm_bound, radius_scale
        self.log_inverse = -math.log(delta)
        self.squares: list[float] = []

    @property
    def radius(self) -> float:  # type: ignore[override]
        if self.theory:
            square = 4.0 * self.ridge * self.bound**2 + 2.0 * self.eta * self.log_inverse
            square += self.eta * (6.0 * self.eta + 1.0) * self.log_det
            return self.factor * math.sqrt(square)
        spread = 1.0
        if self.link in ("identity", "log"):
            spread = max(1.0, (32.0 + sum(self.squares)) / (32.0 + self.rounds))
        noise = math.sqrt(spread * (self.log_det + 2.0 * self.log_inverse))
        return self.factor * (noise + math.sqrt(self.ridge * self.g) / self.constant)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        mean, slope = MEAN[self.link], SLOPE[self.link]
        feature = self.feature(x)
        z = float(feature @ self.theta_all)
        self.descend(
            feature,
            lambda v: (reward - mean(v)) / self.g,
            lambda v: slope(v) / self.g,
            self.eta,
            self.implicit,
        )
        v = float(feature @ self.theta_all)
        both = (reward - mean(z)) * (reward - mean(v)) / (slope(v) * self.g)
        self.squares.append(max(both, 0.0))
        self.rounds += 1


class HvtGLB(LinkedStep):
    """The implicit step on the reward brought to within tau sigma deviations of its mean."""

    def __init__(
        self,
        dim: int,
        *,
        amounts: bool = False,
        typical: bool = False,
        clip: float = 1.345,
        arm_bound: float = 1.0,
        exploration: float = 0.5,
        delta: float = 0.01,
        ridge: float | None = None,
        intercept: bool = True,
    ) -> None:
        ridge = dim / 100.0 * arm_bound**2 if ridge is None else ridge
        super().__init__(dim, ridge, math.inf, int(intercept))
        self.amounts, self.fixed, self.constant = amounts, typical, arm_bound
        self.exploration, self.log_inverse = exploration, -math.log(delta)
        self.threshold = Threshold(clip, len(self.V))
        self.resolution = 3e-7 * arm_bound / math.sqrt(ridge)
        self.first: list[float] = []
        self.scale: TypicalSize | None = None
        self.squares: list[float] = []
        self.stability = 0.0
        self.sigma = 0.0

    @property
    def tau(self) -> float:
        return self.threshold.tau

    @property
    def radius(self) -> float:  # type: ignore[override]
        n = len(self.squares)
        rho = (1.0 + sum(self.squares)) / (1.0 + n)
        sure = self.log_inverse + 0.5 * math.log(1.0 + n)
        return self.exploration * math.sqrt(
            self.ridge / self.constant**2 + self.stability + rho * sure
        )

    def spread_arms(self, feature: Array, reward: float) -> None:
        squared = float(feature @ np.linalg.solve(self.V, feature))
        self.V = self.V + np.outer(feature, feature) / max(1.0, squared)
        if reward > 0.0 or not self.amounts:
            self.first.append(reward)
        if len(self.first) == 5:
            level = sorted(self.first)[2]
            level = level if self.amounts else max(level, 0.5)
            self.V = self.ridge * np.eye(len(self.V))
            if len(self.V) > self.dim:
                self.theta_all[self.dim] = math.log(level) / self.constant
            self.scale = TypicalSize(1.0, 1e-9, 16)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        feature = self.feature(x)
        if self.scale is None:
            self.spread_arms(feature, reward)
            return
        z = float(feature @ self.theta_all)
        mean = math.exp(z)
        deviation = mean if self.amounts else math.sqrt(mean)
        known = 1.0 if self.amounts else mean
        squared = float(feature @ np.linalg.solve(self.V, feature))
        finest = self.resolution * math.sqrt(len(self.squares) + 1.0)
        sigma = max(1.4826 * self.scale.value, math.sqrt(squared * known), finest)
        self.sigma = sigma if self.amounts else max(sigma, 1.0)
        g = self.sigma**2
        residual = (reward - mean) / deviation
        tau = self.tau if self.amounts else max(self.tau, 1.0 / (deviation * self.sigma))
        psi = float(np.clip(residual / self.sigma, -tau, tau))
        kept = mean + deviation * self.sigma * psi
        if self.amounts:
            self.descend(
                feature, lambda v: (kept / math.exp(v) - 1) / g, lambda v: 1 / g, 1.0, True
            )
        else:
            self.descend(
                feature, lambda v: (kept - math.exp(v)) / g, lambda v: math.exp(v) / g, 1.0, True
            )
        after = (1.0 if self.amounts else math.exp(float(feature @ self.theta_all))) / g
        self.stability += psi**2 * squared * after / (1.0 + after * squared)
        self.squares.append(psi**2)
        if not self.fixed:
            self.threshold.learn(abs(residual) / self.sigma)
        self.scale.learn(reward if self.amounts else 1.0, abs(residual))
