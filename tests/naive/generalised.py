"""Twins of the policies with a link: GLM-UCB, OL2M, GLOC, ECOLog, and CRTM with one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from tests.naive.common import (
    TIE,
    Array,
    Linear,
    first_of_largest,
    log_det_ratio,
    power_of_time,
    project,
    width,
)
from tests.naive.links import INTEGRAL, MEAN, SLOPE
from tests.naive.one_pass import CRTM, Mirror


def slopes(link: str, reach: float) -> tuple[float, float]:
    """The least and the largest for scores within ``reach``, on a fine grid that has 0."""
    found = SLOPE[link](np.linspace(-reach, reach, 2001))
    return float(found.min()), float(found.max())


@dataclass
class Told:
    """What a twin is told, and takes where it is not."""

    link: str = "identity"
    noise_scale: float | None = None
    theta_bound: float = 1.0
    arm_bound: float = 1.0
    radius: str = "empirical"
    least_slope: float | None = None
    ridge: float = 1.0
    delta: float = 0.01
    radius_scale: float | None = None
    fractions: bool = False

    @property
    def theory(self) -> bool:
        return self.radius == "theory"

    @property
    def reach(self) -> float:
        return self.theta_bound * self.arm_bound

    @property
    def R(self) -> float:
        own = {"identity": 1.0, "log": math.exp(self.reach / 2.0)}.get(self.link, 0.5)
        return own if self.noise_scale is None else self.noise_scale

    def factor(self, practical: float) -> float:
        own = 1.0 if self.theory else practical
        return own if self.radius_scale is None else self.radius_scale

    def kappa(self, own: float | None = None) -> float:
        own = own or slopes(self.link, self.reach)[0]
        return self.least_slope or (own if self.theory else max(own, 0.05))


def free_fit(X: Array, y: Array, link: str, ridge: float) -> Array:
    """argmin (ridge/2)‖theta‖² + sum m(x'theta) - y x'theta: Newton, halved while it rises."""

    def loss(theta: Array) -> float:
        z = X @ theta
        with np.errstate(over="ignore"):
            value = 0.5 * ridge * theta @ theta + np.sum(INTEGRAL[link](z) - y * z)
        return float(value)

    def newton(theta: Array) -> Array:
        z = X @ theta
        gradient = ridge * theta + X.T @ (MEAN[link](z) - y)
        return np.linalg.solve(ridge * np.eye(len(theta)) + (X.T * SLOPE[link](z)) @ X, gradient)

    theta = np.zeros(X.shape[1])
    for _ in range(200):
        step = newton(theta)
        if np.linalg.norm(step) <= 1e-5 * (1.0 + np.linalg.norm(theta)):
            break  # from here on the digits double, and the loss is too coarse to compare
        share = 1.0
        while not loss(theta - share * step) <= loss(theta):
            share *= 0.5
        theta = theta - share * step
    for _ in range(3):
        theta = theta - newton(theta)
    return theta


def ball_fit(X: Array, y: Array, link: str, ridge: float, bound: float) -> Array:
    """The same over the ball: its Lagrangian adds mu to the ridge."""

    def excess(mu: float) -> float:
        return float(np.linalg.norm(free_fit(X, y, link, ridge + mu))) - bound

    if excess(0.0) <= 0.0:
        return free_fit(X, y, link, ridge)
    high = 1.0
    while excess(high) > 0.0:
        high *= 4.0
    return free_fit(X, y, link, ridge + brentq(excess, 0.0, high, xtol=1e-14, rtol=1e-14))


class GLMUCB(Linear):
    """mu(x'theta) + rho ‖x‖ in V^-1, theta the penalised maximum likelihood of all rounds.

    rho = (largest slope / least) (R sqrt(log det + 2 log(1/delta)) + sqrt(lambda) S); in practice
    R sqrt(...) + largest slope sqrt(lambda) S, times 0.3.
    """

    def __init__(self, dim: int, **knobs: Any) -> None:
        told = Told(**knobs)
        self.dim, self.link, self.ridge, self.delta = dim, told.link, told.ridge, told.delta
        self.theory, self.S, self.R = told.theory, told.theta_bound, told.R
        self.least, self.largest = slopes(told.link, told.reach)
        self.factor = told.factor(0.3)
        self.xs: list[Array] = []
        self.ys: list[float] = []
        self.V, self.theta_all = told.ridge * np.eye(dim), np.zeros(dim)

    @property
    def radius(self) -> float:  # type: ignore[override]
        inside = log_det_ratio(self.V, self.ridge) + 2.0 * math.log(1.0 / self.delta)
        noise, prior = self.R * math.sqrt(inside), math.sqrt(self.ridge) * self.S
        if self.theory:
            return self.factor * self.largest / self.least * (noise + prior)
        return self.factor * (noise + self.largest * prior)

    def choose(self, arms: Array) -> int:
        widths = np.array([width(self.V, x) for x in arms])
        return first_of_largest(MEAN[self.link](arms @ self.theta) + self.radius * widths, TIE)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        self.xs.append(x)
        self.ys.append(reward)
        X, y = np.array(self.xs), np.array(self.ys)
        self.V = self.V + np.outer(x, x)
        bound = self.S if self.theory and self.link != "identity" else math.inf
        self.theta_all = ball_fit(X, y, self.link, self.ridge, bound)


class OL2M(Mirror):
    """The Newton-like step, V <- V + (kappa/2) x x', and sqrt(gamma)."""

    def __init__(self, dim: int, **knobs: Any) -> None:
        told = Told(**{"link": "logistic", **knobs})
        super().__init__(dim, told.ridge, told.theta_bound)
        self.link, self.delta = told.link, told.delta
        self.theory, self.reach = told.theory, told.reach
        paper = 1.0 / (2.0 * (1.0 + math.exp(told.reach)))
        self.kappa = told.kappa(paper if told.link == "logistic" else None)
        self.factor = told.factor(0.3)

    @property
    def radius(self) -> float:  # type: ignore[override]
        log_det, t, S = log_det_ratio(self.V, self.ridge), self.rounds, self.theta_bound
        if not self.theory:
            noise = math.sqrt(log_det + 2.0 * math.log(1.0 / self.delta))
            return self.factor * (noise + math.sqrt(self.ridge) * S)
        if t == 0:
            return self.factor * math.sqrt(self.ridge) * S
        tau = math.log(2 * max(math.ceil(2.0 * math.log2(t)), 1) * t**2 / self.delta)
        gamma = 8.0 * self.reach + (8.0 / self.kappa + 16.0 * self.reach / 3.0) * tau
        gamma += 2.0 / self.kappa * log_det + self.ridge * S**2
        return self.factor * math.sqrt(gamma)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        g = float(MEAN[self.link](x @ self.theta)) - reward
        self.descend(x, g * x, self.kappa / 2.0)


class LinkedCRTM(CRTM):
    """CRTM with a link that bends: Gamma and the radius with the powers of kappa."""

    def __init__(
        self, dim: int, *, link: str, least_slope: float | None = None, **told: Any
    ) -> None:
        super().__init__(dim, **told)
        knobs = {"arm_bound": 1.0, "delta": 0.01, "radius_scale": 0.001, "threshold_scale": 1.0}
        knobs |= told
        p, T, S, L = knobs["order"], knobs["horizon"], self.theta_bound, knobs["arm_bound"]
        self.link, k = link, least_slope or slopes(link, S * L)[0]
        self.weight = k / 2.0
        U = math.exp(S * L) if link == "log" else 1.0
        u = (knobs["scale"] + U) ** p if link == "log" else 1.0
        A = dim * math.log(1.0 + k * L**2 * T / (2.0 * self.ridge * dim))
        ell = math.log(4.0 * T / knobs["delta"])
        Gamma = 2.0 * math.sqrt(A / k) * (u / ell) ** (1.0 / p) * power_of_time(T, p)
        gamma = 224.0 * Gamma**2 * ell**2 + 2.0 * self.ridge * S**2 + 48.0 * max(S, U**2) * A / k
        self.radius = knobs["radius_scale"] * math.sqrt(gamma)
        self.Gamma = knobs["threshold_scale"] * Gamma

    def mean(self, x: Array) -> float:
        return float(MEAN[self.link](x @ self.theta))


class GLOC(Linear):
    """theta_hat regresses what the learner predicted; the set's size from the learner's regret."""

    def __init__(self, dim: int, **knobs: Any) -> None:
        told = Told(**knobs)
        self.dim, self.link, self.ridge, self.delta = dim, told.link, told.ridge, told.delta
        self.S, self.R, self.kappa, self.factor = (
            told.theta_bound,
            told.R,
            told.kappa(),
            told.factor(0.1),
        )
        self.unit = self.R if told.link == "identity" else 1.0
        self.V, self.theta_all = told.ridge * np.eye(dim), np.zeros(dim)
        self.learner = np.zeros(dim)
        self.b, self.squares = np.zeros(dim), 0.0
        self.B = 2.0 * self.kappa * self.S**2 * self.ridge

    @property
    def radius(self) -> float:  # type: ignore[override]
        B, R, k, delta = self.B / self.unit**2, self.R / self.unit, self.kappa, self.delta
        root = math.sqrt(1.0 + 2.0 / k * B + 4.0 * R**4 / (k**4 * delta**2))
        q = 1.0 + 4.0 / k * B + 8.0 * R**2 / k**2 * math.log(2.0 / delta * root)
        bracket = self.squares - self.theta @ self.b
        squared = self.unit**2 * q + self.ridge * self.S**2 - bracket
        return self.factor * math.sqrt(max(squared, 0.0))

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        z = float(x @ self.learner)
        g = float(MEAN[self.link](z)) - reward
        self.V = self.V + np.outer(x, x)
        step = np.linalg.solve(self.V, x)
        self.B += g**2 * float(x @ step) / (2.0 * self.kappa)
        self.learner = project(self.V, self.learner - g / self.kappa * step, self.S, self.dim)
        self.b, self.squares = self.b + z * x, self.squares + z**2
        self.theta_all = np.linalg.solve(self.V, self.b)


class ECOLog(Linear):
    """The loss itself within 2 + D of the last estimate; W grows by the slope at the new one."""

    def __init__(
        self,
        dim: int,
        *,
        ridge: float | None = None,
        theta_bound: float | None = None,
        **knobs: Any,
    ) -> None:
        told = Told(**knobs)
        self.theory, self.delta, self.L = told.theory, told.delta, told.arm_bound
        self.S = theta_bound or (1.0 if told.theory else math.inf)
        self.dim, self.ridge = dim, ridge or self.L**2 * (1.0 if told.theory else dim / 100.0)
        self.D = 2.0 * self.S * self.L if told.theory else 0.0
        self.factor = told.factor(0.5)
        self.V, self.theta_all, self.C, self.apart = self.ridge * np.eye(dim), np.zeros(dim), 0.0, 0

    @property
    def radius(self) -> float:  # type: ignore[override]
        lam, D, t = self.ridge, self.D, self.rounds
        if not self.theory:
            inside = log_det_ratio(self.V, lam) + 2.0 * math.log(1.0 / self.delta)
            return self.factor * (math.sqrt(inside) + math.sqrt(lam) / self.L)
        root = math.sqrt(1.0 + self.L**2 * t / (4.0 * lam))
        nu = 0.5 + 2.0 * math.log(2.0 / self.delta * root)
        ub = (2.0 + D) * nu / 4.0 + D**2 / (2.0 + D)
        squared = 4.0 * lam * self.S**2 + 2.0 * (2.0 + D) * (ub + self.C) + 4.0 * math.log(1.0 + t)
        return self.factor * math.sqrt(squared)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        eta, u = 1.0 + self.D / 2.0, np.linalg.solve(self.V, x)
        q, z = float(x @ u), float(x @ self.theta)

        def root(pull: Any) -> float:
            if q == 0.0:
                return z
            reach = 2.0 * eta * q + 1e-9
            f = lambda v: v - z - eta * q * pull(v)  # noqa: E731
            return float(brentq(f, z - reach, z + reach, xtol=1e-16, rtol=1e-15))

        average = root(lambda v: 1.0 - 2.0 * expit(v))
        pull = reward - float(expit(root(lambda v: reward - expit(v))))
        weight = eta * float(SLOPE["logistic"](z))
        norm = self.V + weight * np.outer(x, x)
        self.theta_all = project(norm, self.theta_all + eta * pull * u, self.S, self.dim)
        after = float(x @ self.theta)
        slope = float(SLOPE["logistic"](after))
        self.V = self.V + slope * np.outer(x, x)
        loss = lambda v: np.logaddexp(0.0, v) - reward * v  # noqa: E731
        self.C += float(loss(average) - loss(after))
        self.apart += float(SLOPE["logistic"](average)) > 2.0 * slope
