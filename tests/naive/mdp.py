"""Agents in linear MDPs once more, plainly: matrices formed and solved, histories kept in lists.

Written from the formulas, with nothing of the library in it. Slow, and meant to be.
"""

from __future__ import annotations

import math

import numpy as np
from tests.naive.practice import HvtPractice


def log_ratio(V, ridge):
    """log det V - log det(ridge I)."""
    return np.linalg.slogdet(V)[1] - len(V) * math.log(ridge)


def self_normalised(V, ridge, noise, bound, delta):
    """R sqrt(log(det V / det lambda I) + 2 log(1/delta)) + sqrt(lambda) S."""
    inner = log_ratio(V, ridge) + 2.0 * math.log(1.0 / delta)
    return noise * math.sqrt(inner) + math.sqrt(ridge) * bound


def reweighted(Z, Y, ridge, weight):
    """The minimiser of an M-estimate by reweighted least squares from zero, to rounding."""
    theta = np.zeros(Z.shape[1])
    for _ in range(5000):
        w = weight(Y - Z @ theta)
        new = np.linalg.solve(ridge * np.eye(len(theta)) + (Z.T * w) @ Z, Z.T @ (w * Y))
        if np.abs(new - theta).max() < 1e-15:
            break
        theta = new
    return theta


class Ridge:
    """Rewards of LSVI-UCB (and of the greedy agent, at scale 0): lambda = 1, S = sqrt(d)."""

    def __init__(self, dim, *, noise, scale, delta, constant=None):
        self.V, self.b, self.ridge = np.eye(dim), np.zeros(dim), 1.0
        self.noise, self.scale, self.delta, self.constant = noise, scale, delta, constant
        self.theta = np.zeros(dim)

    def learn(self, x, reward, nu):
        self.V += np.outer(x, x)
        self.b += reward * x
        self.theta = np.linalg.solve(self.V, self.b)

    @property
    def radius(self):
        if self.constant is not None:
            return self.scale * self.constant
        bound = math.sqrt(len(self.b))
        return self.scale * self_normalised(self.V, 1.0, self.noise, bound, self.delta)

    def lift(self, phi):
        return phi


class OnePassHuber:
    """Rewards of Hvt-LSVI-UCB: Hvt-UCB's practical mode, lambda = d, S = sqrt(d)."""

    def __init__(self, dim, *, clip, threshold, nu, scale, delta, intercept, feature_bound):
        self.twin = HvtPractice(
            dim,
            scale=nu,
            theta_bound=math.sqrt(dim),
            arm_bound=feature_bound,
            clip=clip,
            threshold_scale=threshold,
            ridge=float(dim),
            delta=delta,
            intercept=intercept,
            radius_scale=scale,
        )
        self.dim, self.bound = dim, feature_bound

    V = property(lambda self: self.twin.V)
    theta = property(lambda self: self.twin.theta_all)
    radius = property(lambda self: self.twin.radius)

    def lift(self, phi):
        """phi with the constant feature, as long as a feature vector may be."""
        more = len(self.theta) - self.dim
        return np.concatenate([phi, np.full((*phi.shape[:-1], more), self.bound)], axis=-1)

    def learn(self, x, reward, nu):
        self.twin.learn(x, reward, nu)


class AdaptiveHuber:
    """Rewards of Heavy-LSVI-UCB (Huber) and VARA (pseudo-Huber): a fit over the whole history.

    B = sqrt(d), lambda = d / B² = 1, sigma_min = 1 / sqrt(K); the ball is left out.
    """

    def __init__(self, dim, *, episodes, order, smooth, threshold, scale, delta, feature_bound):
        T, L, B = float(episodes), feature_bound, math.sqrt(dim)
        self.order, self.smooth, self.scale, self.T, self.delta = order, smooth, scale, T, delta
        self.a = (2.0 - order) / (2.0 * order)
        self.ridge = 1.0
        self.V, self.theta, self.rows = np.eye(dim), np.zeros(dim), []
        self.sigma_min = 1.0 / math.sqrt(T)
        self.kappa = kappa = dim * math.log(1.0 + T * L**2 / (dim * self.sigma_min**2))
        self.ell = ell = math.log(2.0 * T**2 / delta)
        if smooth:
            self.tau_0 = max(math.sqrt(2.0 * kappa), 2.0 * math.sqrt(dim)) / math.sqrt(ell)
            self.c_0 = 1.0 / (6.0 * math.sqrt(3.0 * ell))
            self.root = math.sqrt(L * B) / (dim / (42.0 * ell)) ** 0.25
        else:
            self.log_3T = math.log(3.0 * T) ** self.a
            self.tau_0 = math.sqrt(2.0 * kappa) * self.log_3T / ell ** (1.0 / order)
            self.c_0 = 1.0 / math.sqrt(23.0 * ell)
            c_1 = math.log(3.0 * T) ** ((2.0 - order) / order) / (48.0 * ell ** (2.0 / order))
            self.root = math.sqrt(L * B) / (2.0 * c_1 * kappa) ** 0.25
        self.threshold, self.prior = threshold, B

    def lift(self, phi):
        return phi

    def learn(self, x, reward, nu):
        n = math.sqrt(x @ np.linalg.solve(self.V, x))
        sigma = max(nu, self.sigma_min, n / self.c_0, self.root * math.sqrt(n))
        w = n / sigma
        t = len(self.rows) + 1
        tau = self.threshold * self.tau_0 * math.sqrt(1.0 + w**2) / w * t**self.a
        self.V += np.outer(x, x) / sigma**2
        self.rows.append((*x / sigma, reward / sigma, tau))
        rows = np.array(self.rows)
        Z, Y, tau = rows[:, :-2], rows[:, -2], rows[:, -1]
        if self.smooth:
            self.theta = reweighted(Z, Y, 1.0, lambda z: tau / np.sqrt(tau**2 + z**2))
        else:
            self.theta = reweighted(Z, Y, 1.0, lambda z: np.minimum(1.0, tau / np.abs(z)))

    @property
    def radius(self):
        t = len(self.rows)
        if t == 0:
            return self.scale * self.prior
        if self.smooth:
            ell = math.log(2.0 * t**2 / self.delta)
            inner = self.kappa / self.tau_0 + math.sqrt(self.kappa * ell) + self.tau_0 * ell
            return self.scale * (32.0 * inner + 5.0 * self.prior)
        power = self.ell ** ((self.order - 1.0) / self.order)
        slope = 24.0 * math.sqrt(2.0 * self.kappa) * self.log_3T * power
        return self.scale * (slope * t**self.a + 3.0 * self.prior)


class Agent:
    """Least-squares value iteration over ``reward`` learners, one per stage."""

    def __init__(self, features, rewards, *, value_bonus, delta, weighted, rare, monotone):
        self.phi, self.rewards = features, rewards
        self.S, self.A, self.d = features.shape
        self.H = H = len(rewards)
        self.bonus, self.delta = value_bonus, delta
        self.weighted, self.rare, self.monotone = weighted, rare, monotone
        self.past = [[] for _ in range(H)]  # (phi, next state, 1 / sigma²) of each episode
        self.range = [max(H - 1 - h, 1) for h in range(H)]
        self.ridge = [1.0 / R**2 if weighted else 1.0 for R in self.range]
        self.Sigma = [ridge * np.eye(self.d) for ridge in self.ridge]
        self.Q = np.array([np.full((self.S, self.A), float(H - h)) for h in range(H)])
        self.Q_low = np.zeros((H, self.S, self.A))
        self.w = np.zeros((3, H, self.d))  # of V, of its lower bound, of its square
        self.table = np.zeros((H, self.S), dtype=int)
        self.level = np.zeros(H + 1)  # B_h: the sum of the rewards' intercepts from stage h on
        self.marks = None
        self.switches = 0

    def value_radius(self, h):
        R = self.range[h]
        noise = 1.0 if self.weighted else R / 2.0
        bound = R * math.sqrt(self.d)
        return self.bonus * self_normalised(self.Sigma[h], self.ridge[h], noise, bound, self.delta)

    def determinants(self):
        rewards = [np.linalg.slogdet(r.V)[1] for r in self.rewards]
        return np.array([rewards, [np.linalg.slogdet(V)[1] for V in self.Sigma]])

    def regression(self, h, values):
        total = np.zeros(self.d)
        for x, landed, weight in self.past[h]:
            total += weight * x * values[landed]
        return np.linalg.solve(self.Sigma[h], total)

    def plan(self):
        now = self.determinants()
        # Doubled up to rounding: a reward whose sigma is its width doubles a determinant exactly.
        if self.rare and self.marks is not None and (now - self.marks).max() < 0.6931471:
            return
        self.marks = now
        self.switches += 1
        V, V_low = np.zeros(self.S), np.zeros(self.S)
        for h in reversed(range(self.H)):
            reward = self.rewards[h]
            x = reward.lift(self.phi)
            B = self.level[h + 1]
            intercept = reward.theta[self.d :].sum() * getattr(reward, "bound", 0.0)
            width = np.sqrt(np.einsum("sad,de,sae->sa", x, np.linalg.inv(reward.V), x))
            index = x @ reward.theta + reward.radius * width
            low = x @ reward.theta - reward.radius * width
            if h < self.H - 1:
                self.w[:, h] = [self.regression(h, v) for v in (V - B, V_low - B, V**2)]
                P = np.linalg.inv(self.Sigma[h])
                width = np.sqrt(np.einsum("sad,de,sae->sa", self.phi, P, self.phi))
                index = index + B + self.phi @ self.w[0, h] + self.value_radius(h) * width
                low = low + B + self.phi @ self.w[1, h] - self.value_radius(h) * width
            self.level[h] = B + intercept
            upper, lower = (np.clip(q, 0.0, self.H - h) for q in (index, low))
            if self.monotone:
                upper, lower = np.minimum(upper, self.Q[h]), np.maximum(lower, self.Q_low[h])
            self.Q[h], self.Q_low[h] = upper, lower
            for s in range(self.S):
                order = sorted(range(self.A), key=lambda a: (-upper[s, a], -index[s, a]))
                self.table[h, s] = order[0]
            V, V_low = upper.max(axis=1), lower.max(axis=1)

    def sigma(self, h, x):
        """sigma² = max(variance + E + D, R, n²)."""
        R = float(self.H - 1 - h)
        n = math.sqrt(x @ np.linalg.solve(self.Sigma[h], x))
        beta = self.value_radius(h)
        raw, low, square = self.w[:, h] @ x + self.level[h + 1] * np.array([1.0, 1.0, 0.0])
        variance = max(np.clip(square, 0.0, R**2) - np.clip(raw, 0.0, R) ** 2, 0.0)
        E = 2.0 * min(2.0 * R * beta * n, R**2)
        D = min(2.0 * R * max(raw - low + 2.0 * beta * n, 0.0), R**2)
        return math.sqrt(max(variance + E + D, R, n**2))

    def learn(self, h, s, a, reward, landed, nu):
        x = self.phi[s, a]
        self.rewards[h].learn(x, reward, nu)
        if h < self.H - 1:
            sigma = self.sigma(h, x) if self.weighted else 1.0
            self.past[h].append((x, landed, 1.0 / sigma**2))
            self.Sigma[h] = self.Sigma[h] + np.outer(x, x) / sigma**2


def philox(key, high, low):
    """The block of Philox 4x32-10 at counter (high, low), as four words."""
    mask = 0xFFFFFFFF
    c = [low & mask, low >> 32, high & mask, high >> 32]
    k = [key & mask, key >> 32]
    for _ in range(10):
        one, two = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(two >> 32) ^ c[1] ^ k[0], two & mask, (one >> 32) ^ c[3] ^ k[1], one & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def uniform_table(seed, episode, horizon, states, actions):
    """The uniform agent's actions in an episode: one draw per (stage, state)."""
    table = np.zeros((horizon, states), dtype=int)
    for h in range(horizon):
        for s in range(states):
            a, b, _, _ = philox(seed, episode, h * states + s)
            draw = ((a >> 5) * 2**26 + (b >> 6)) / 2**53
            table[h, s] = int(draw * actions)
    return table
