"""Twin of the one-pass step at the proved width: matrices are sums, inverses are taken of them."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from tests.naive.common import TIE, Array, first_of_largest
from tests.naive.practice import TypicalSize


def clip_cost(p: float) -> float:
    """e_p = (3/4) max over z > 1 of (z - 1)² / (z^p (z^p - 1)), by a grid and then a parabola."""

    def fraction(log_z: float) -> float:
        z = math.exp(log_z)
        return (z - 1.0) ** 2 / (z**p * (z**p - 1.0))

    grid = np.linspace(1e-3, 40.0, 4001)
    values = [fraction(at) for at in grid]
    k = int(np.argmax(values))
    within = (float(grid[max(k - 1, 0)]), float(grid[k + 1]))
    found = minimize_scalar(lambda at: -fraction(at), bounds=within, options={"xatol": 1e-12})
    return 0.75 * max(-float(found.fun), max(values)) * (1.0 + 1e-9)  # up, for rounding


def threshold_factor(p: float) -> float:
    """k of k^p = 4 e_p (p - 1) / (2 - p), at most 4."""
    power = 4.0 * clip_cost(p) * (p - 1.0)
    return 4.0 if 4.0**p * (2.0 - p) <= power else float((power / (2.0 - p)) ** (1.0 / p))


class HvtSharp:
    """|x'(theta - theta*)| <= beta ‖x‖_Q with Q = V^-1 A V^-1, V_0 = lambda I, A_0 = 10 lambda I,
    beta = sqrt(2 log(1/delta) + log det(A / (10 lambda)) + 2 E) + S sqrt(lambda / 10).

    ``order`` None is noise that is symmetric, whose typical size a running median follows.
    """

    intercept = 0.0
    rounds = 0

    def __init__(
        self,
        dim: int,
        *,
        order: float | None,
        scale: float = 1.0,
        theta_bound: float,
        arm_bound: float = 1.0,
        ridge: float | None = None,
        delta: float = 0.05,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
    ) -> None:
        self.dim, self.p, self.nu, self.S, self.delta = dim, order, scale, theta_bound, delta
        unit = dim / theta_bound**2
        if ridge is None:
            ridge = 0.3 * unit
        self.ridge, self.mu, self.factor = ridge, 10.0 * ridge, radius_scale
        if order is None:
            size = theta_bound * arm_bound
            self.typical = TypicalSize(size, 1e-9 * size, 16)
            self.typical.told = 0
        else:
            self.e, self.k = clip_cost(order), threshold_scale * threshold_factor(order)
        self.V, self.A = self.ridge * np.eye(dim), self.mu * np.eye(dim)
        self.paid = np.zeros(dim)  # V theta
        self.theta = np.zeros(dim)
        self.E = self.sigma = self.tau = 0.0
        self.clipped = 0
        self.weights: list[float] = []

    def beta(self, delta: float) -> float:
        log_det = float(np.linalg.slogdet(self.A / self.mu)[1])
        root = math.sqrt(2.0 * math.log(1.0 / delta) + log_det + 2.0 * self.E)
        return root + self.ridge * self.S / math.sqrt(self.mu)

    @property
    def radius(self) -> float:
        return self.factor * self.beta(self.delta)

    @property
    def inverse_gram(self) -> Array:
        """Q, and what is added for its digits."""
        Vi = np.linalg.inv(self.V)
        return np.asarray(Vi @ self.A @ Vi + 1e-12 * self.mu / self.ridge**2 * np.eye(self.dim))

    def widths(self, arms: Array) -> Array:
        return np.asarray(np.sqrt(np.sum(arms @ self.inverse_gram * arms, axis=1)))

    def choose(self, arms: Array) -> int:
        return first_of_largest(arms @ self.theta + self.radius * self.widths(arms), TIE)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        nu = scale or self.nu
        if self.p is None:
            told, nu = nu, nu * 1.4826 * self.typical.value
        length, expected = float(np.linalg.norm(x)), float(x @ self.theta)
        w = self.beta(self.delta) * float(self.widths(x[None])[0])
        reach = min(w, self.S * length + abs(expected))
        nu_bar = max(nu, 0.01 * length / math.sqrt(self.ridge))
        sigma = max(nu_bar, reach)
        D, tilde = reach / sigma, x / sigma
        residual = reward - expected
        z = residual / sigma if length > 0.0 else 0.0
        if self.p is None:
            self.typical.learn(reward, abs(residual) / told)
            tau, psi = math.inf, z
            g, eps = (abs(psi) + D) ** 2, 0.0
        else:
            p, share = self.p, (nu / sigma) ** self.p
            n2 = float(tilde @ np.linalg.inv(self.V) @ tilde)
            few = min(self.rounds, 1.0 + 1.0 / n2) if n2 > 0.0 else self.rounds
            tau = max(2.0 * D, self.k * (nu / nu_bar) * few ** (1.0 / p))
            psi = float(np.clip(z, -tau, tau))
            s2, eps = (tau + D) ** (2.0 - p) * share, self.e * (tau - D) ** -p * share
            g = ((abs(psi) + D) ** 2 + 2.0 * s2) / 3.0
        self.sigma, self.tau, self.psi = sigma, tau, psi
        self.weights.append(sigma**-2.0)
        self.clipped += abs(z) > tau
        if length == 0.0:
            return
        self.V = self.V + np.outer(tilde, tilde)
        self.A = self.A + g * np.outer(tilde, tilde)
        self.E += eps
        self.paid = self.paid + tilde * (float(tilde @ self.theta) + psi)
        self.theta = np.linalg.solve(self.V, self.paid)
