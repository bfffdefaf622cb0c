"""The regression of proved width written from its theorem, in plain NumPy: V and A are formed.

V_0 = lambda I and A_0 = 10 lambda I with lambda = 0.3 d/S². A row of features x and scale nu is
taken in units of sigma = max(nu, 0.01 |x| / sqrt(lambda), reach), reach = min(w(x), S|x| +
|x'theta|). Q = V^-1 A V^-1 counts 1e-12 of its first value more, as a guard against rounding.
"""

from __future__ import annotations

import math

import numpy as np


def clip_cost(p):
    """(3/4) max (z - 1)²/(z^p (z^p - 1)) over z > 1, on a fine grid."""
    z = 1.0 + np.geomspace(1e-4, 1e8, 200_001)
    return 0.75 * np.max((z - 1.0) ** 2 / (z**p * (z**p - 1.0)))


class SharpRegression:
    """theta, and the radius and width of every x, after a table of rows."""

    def __init__(self, *, order, scale, theta_bound, delta, intercept=True):
        self.p, self.nu, self.S, self.delta = order, scale, theta_bound, delta
        self.intercept = intercept

    def fit(self, X, y, nu=None):
        Z = self.features(X)
        n, d = Z.shape
        p, S, cost = self.p, self.S, clip_cost(self.p)
        far = 4.0 if p == 2.0 else min(4.0, (4.0 * cost * (p - 1.0) / (2.0 - p)) ** (1.0 / p))
        self.ridge = 0.3 * d / S**2
        self.V, self.A = self.ridge * np.eye(d), 10.0 * self.ridge * np.eye(d)
        self.theta, self.spent = np.zeros(d), 0.0
        for t in range(n):
            x, scale = Z[t], self.nu * (1.0 if nu is None else nu[t])
            length = np.linalg.norm(x)
            reach = min(self.radius(self.delta) * self.width(x), S * length + abs(x @ self.theta))
            noise = max(scale, 0.01 * length / math.sqrt(self.ridge))
            sigma = max(noise, reach)
            D, share = reach / sigma, (scale / sigma) ** p
            known = x @ np.linalg.solve(self.V, x) / sigma**2
            counted = t + 1.0 if known == 0.0 else min(t + 1.0, 1.0 + 1.0 / known)
            tau = max(2.0 * D, far * scale / noise * counted ** (1.0 / p))
            psi = np.clip((y[t] - x @ self.theta) / sigma, -tau, tau)
            g = ((abs(psi) + D) ** 2 + 2.0 * (tau + D) ** (2.0 - p) * share) / 3.0
            self.V = self.V + np.outer(x, x) / sigma**2
            self.A = self.A + g * np.outer(x, x) / sigma**2
            self.spent += cost * (tau - D) ** -p * share if length else 0.0
            self.theta = self.theta + np.linalg.solve(self.V, x) * psi / sigma
        return self

    def features(self, X):
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def radius(self, delta):
        mu = 10.0 * self.ridge
        log_det = np.linalg.slogdet(self.A / mu)[1]
        root = math.sqrt(2.0 * math.log(1.0 / delta) + log_det + 2.0 * self.spent)
        return root + self.ridge * self.S / math.sqrt(mu)

    def width(self, x):
        u = np.linalg.solve(self.V, x)
        return math.sqrt(u @ self.A @ u + 1e-11 / self.ridge * (x @ x))

    def predict(self, X, level):
        Z = self.features(X)
        mean = Z @ self.theta
        half = self.radius(1.0 - level) * np.array([self.width(z) for z in Z])
        return mean, mean - half, mean + half
