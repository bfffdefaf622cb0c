"""Identification and LQ control written from the formulas, in plain NumPy: slow and obvious.

V is formed and solved with, never its inverse updated; Riccati and Lyapunov equations are iterated
to the end; nothing is shared with the library but its counter-based random numbers, which the
caller passes in.
"""

from __future__ import annotations

import math

import numpy as np
from tests.naive.self_tuning import binned


def running_median(typical, size, t, floor):
    """A step of min(1/2, 2 / (t + 5)), at least 0.002, up or down on the log scale."""
    step = max(min(0.5, 2.0 / (t + 5.0)), 0.002)
    return min(max(typical * math.exp(step if size > typical else -step), floor), 1e100)


class Ridge:
    """theta = V^-1 sum z y', V = lambda I + sum z z'; the radius of Abbasi-Yadkori and Szepesvari.

    Spreads follow the residuals as those of the Huber identifier do; the fallback's limit uses
    them.
    """

    clip = math.inf
    scale = 1.0

    def __init__(self, n, d, *, noise_bound=1.0, ridge=1.0, delta=0.01, theta_bound=1.0):
        self.n, self.size = n, n + d
        self.V = ridge * np.eye(self.size)
        self.theta = np.zeros((self.size, n))
        self.moments = np.zeros((self.size, n))
        self.spread = np.full(n, self.scale)
        self.options = (n * noise_bound, ridge, delta, theta_bound)
        self.steps = 0

    @property
    def log_det(self):
        return np.linalg.slogdet(self.V)[1] - self.size * math.log(self.options[1])

    @property
    def radius(self):
        noise, ridge, delta, bound = self.options
        return noise * math.sqrt(self.log_det + 2 * math.log(1 / delta)) + math.sqrt(ridge) * bound

    def follow(self, residual, growth):
        """The running spread, in units of the stated scale, never below a thousandth of it."""
        for j in range(self.n):
            size = abs(residual[j]) / math.sqrt(growth) / self.scale
            typical = self.spread[j] / (1.4826 * self.scale)
            typical = running_median(typical, size, self.steps, 1e-3)
            self.spread[j] = 1.4826 * typical * self.scale

    def update(self, x, u, y):
        z = np.concatenate([x, u])
        residual = y - self.theta.T @ z
        growth = 1.0 + z @ np.linalg.solve(self.V, z)
        self.V += np.outer(z, z)
        self.moments += np.outer(z, y)
        self.theta = np.linalg.solve(self.V, self.moments)
        self.steps += 1
        self.follow(residual, growth)


class OnePass(Ridge):
    """theta_j += V_t^-1 z clip(y_j - theta_j'z, tau_j), V_t = V_{t-1} + h z z'.

    h is the share of residuals not clipped before this step, one free one to begin with;
    tau_j = c_j spread_j sqrt(1 + h z'V_{t-1}^-1 z), c_j the clip, or found from the sizes of all
    residuals of the row before, every 32 steps and after one beyond it.
    """

    def __init__(
        self,
        n,
        d,
        *,
        target="typical",
        scale=1.0,
        clip=1.2,
        ridge=1.0,
        exploration=1.0,
        delta=0.01,
        theta_bound=1.0,
    ):
        self.scale, self.clip = scale, clip
        self.tunes, self.sizes, self.clips = target == "mean", [[] for _ in range(n)], [clip] * n
        super().__init__(n, d, ridge=ridge, delta=delta, theta_bound=theta_bound)
        self.exploration = exploration
        self.residuals, self.inside = 1, 1
        self.stability, self.energy = np.zeros(n), np.zeros(n)

    @property
    def radius(self):
        """sqrt of the sum over rows of beta_j² = e² (lambda S² + G_j + rho_j log(1/delta))."""
        _, ridge, delta, bound = self.options
        rho = (self.scale**2 + self.energy) / (1 + self.steps)
        squared = ridge * bound**2 + self.stability + rho * math.log(1 / delta)
        return self.exploration * math.sqrt(squared.sum())

    def update(self, x, u, y):
        z = np.concatenate([x, u])
        residual = y - self.theta.T @ z
        h = self.inside / self.residuals
        growth = 1.0 + h * z @ np.linalg.solve(self.V, z)
        tau = np.array(self.clips) * self.spread * math.sqrt(growth)
        psi = np.clip(residual, -tau, tau)
        self.V = self.V + h * np.outer(z, z)
        self.theta = self.theta + np.outer(np.linalg.solve(self.V, z), psi)
        self.residuals += self.n
        self.inside += int(np.sum(np.abs(residual) <= tau))
        self.stability += psi**2 * (z @ np.linalg.solve(self.V, z))  # ‖psi z‖² in V_t^-1
        self.energy += psi**2
        self.steps += 1
        if self.tunes:
            for j in range(self.n):
                self.sizes[j].append(abs(residual[j]) / (self.spread[j] * math.sqrt(growth)))
                if self.sizes[j][-1] > self.clips[j] or self.steps % 32 == 0:
                    need = self.size + math.log(self.steps)
                    self.clips[j] = binned(self.sizes[j], need, self.clip)
        self.follow(residual, growth)


class Batch(OnePass):
    """argmin lambda/2 ‖theta‖² + sum of Huber losses at tau_j = c_j spread_j, by reweighting.

    The spreads, V and the radius are those of the one-pass estimate, which runs beside it.
    """

    def __init__(self, n, d, **options):
        super().__init__(n, d, **options)
        self.rows = []

    def update(self, x, u, y):
        super().update(x, u, y)
        self.rows.append((np.concatenate([x, u]), y))

    def refit(self):
        """What reading the estimate does: ``theta`` is the fit of all rows, and the next one-pass
        step starts from it.
        """
        Z, Y = (np.array(column) for column in zip(*self.rows, strict=True))
        for j in range(self.n):
            tau = self.clips[j] * self.spread[j]
            self.theta[:, j] = huber_fit(Z, Y[:, j], tau, self.options[1])


def huber_fit(Z, y, tau, ridge, iterations=2000):
    """argmin ridge/2 ‖theta‖² + sum huber(y - Z theta; tau), by reweighting until it rests."""
    penalty = np.broadcast_to(ridge, Z.shape[1])
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    for _ in range(iterations):
        weight = np.minimum(1.0, tau / np.maximum(np.abs(y - Z @ theta), 1e-300))
        A = (Z * weight[:, None]).T @ Z + np.diag(penalty)
        moved = np.linalg.solve(A, (Z * weight[:, None]).T @ y)
        if np.abs(moved - theta).max() <= 1e-11 * np.abs(moved).max():
            return moved
        theta = moved
    return theta


# --- linear-quadratic control


def value(A, B, Q, R):
    """P by value iteration; None where it has no end."""
    P = Q.copy()
    for _ in range(20_000):
        K = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        new = Q + A.T @ P @ (A + B @ K)
        new = 0.5 * (new + new.T)
        if not np.trace(new) < 1e12 * max(np.trace(Q), 1e-300):
            return None
        if np.abs(new - P).max() <= 1e-15 * np.abs(new).max():
            return new
        P = new
    return P


def gain(A, B, R, P):
    """K = -(R + B'PB)^-1 B'PA."""
    return -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)


def covariance(closed):
    """Sigma = A_K Sigma A_K' + I, by summing."""
    total, power = np.eye(len(closed)), closed
    while np.abs(power).max() > 1e-18:
        total, power = total + power @ total @ power.T, power @ power
    return total


class Certain:
    """u = K(theta) x + excitation: sigma_0 in the warm-up, sigma_0 (t - warmup + 1)^-decay after.

    A new gain is due after the warm-up, max(epoch, growth t) steps behind the last, and when
    log det V has grown by ``doubling``. The fallback steers in the warm-up, after a gain was
    refused, and from the time that ‖x‖ passes limit ‖spreads‖ log(e + t) until it is half of that.
    """

    doubling, epoch, after = 0.0, 1, 1.0

    def __init__(
        self,
        identifier,
        Q,
        R,
        fallback,
        normal,
        *,
        warmup=50,
        excitation=1.0,
        decay=0.25,
        growth=0.1,
        state_limit=20.0,
        gain_limit=None,
        seed=0,
    ):
        self.identifier, self.Q, self.R, self.fallback = identifier, Q, R, fallback
        self.normal, self.warmup, self.excitation = normal, warmup, excitation
        self.decay, self.growth, self.state_limit = decay, growth, state_limit
        self.gain_limit = 10 * (1 + np.linalg.norm(fallback)) if gain_limit is None else gain_limit
        self.seed, self.t, self.next, self.last = seed, 0, 0, 0.0
        self.K = fallback
        self.diverging = self.refused = False
        self.fallbacks = self.fallback_steps = self.refusals = self.refreshes = 0

    def split(self, model):
        """A and B of a model Theta', n x (n + d)."""
        return model[:, : self.identifier.n], model[:, self.identifier.n :]

    def watch(self, x):
        limit = self.state_limit * np.linalg.norm(self.identifier.spread)
        limit *= math.log(math.e + self.t)
        if not self.diverging and np.linalg.norm(x) > limit:
            self.diverging = True
            self.fallbacks += 1
        elif self.diverging and np.linalg.norm(x) <= limit / 2:
            self.diverging, self.next, self.last = False, self.t, -math.inf

    @property
    def gain(self):
        safe = self.t < self.warmup or self.diverging or self.refused
        return self.fallback if safe else self.K

    def act(self, x):
        self.watch(x)
        size = self.excitation
        if self.t >= self.warmup:
            size *= self.after * (self.t - self.warmup + 1.0) ** -self.decay
            self.fallback_steps += self.diverging or self.refused
        noise = [self.normal(self.seed, self.t, i) for i in range(len(self.fallback))]
        return self.gain @ x + size * np.array(noise)

    def update(self, x, u, y):
        self.identifier.update(x, u, y)
        self.t += 1
        grown = self.identifier.log_det - self.last >= self.doubling
        if self.t >= self.warmup and self.t >= self.next and grown:
            self.renew()

    def renew(self):
        if isinstance(self.identifier, Batch):
            self.identifier.refit()
        K = self.choose(self.identifier.theta.T)
        self.refreshes += 1
        self.refused = K is None or np.linalg.norm(K) > self.gain_limit
        if self.refused:
            self.refusals += 1
        else:
            self.K = K
        self.next = self.t + max(self.epoch, self.growth * self.t)
        self.last = self.identifier.log_det

    def solve(self, model):
        """P and K of a model, or None."""
        A, B = self.split(model)
        P = value(A, B, self.Q, self.R)
        return None if P is None else (P, gain(A, B, self.R, P))

    def choose(self, estimate):
        found = self.solve(estimate)
        return None if found is None else found[1]


class Searching(Certain):
    """Over {Theta : trace((Theta - Theta_t)'V(Theta - Theta_t)) <= (scale radius)²}."""

    doubling, after = math.log(2.0), 0.0

    def __init__(self, *given, radius_scale=0.1, theta_limit=math.inf, epoch=10, **options):
        super().__init__(*given, decay=0.0, growth=0.0, **options)
        self.radius_scale, self.theta_limit, self.epoch = radius_scale, theta_limit, epoch


class Optimist(Searching):
    """At most ten Frank-Wolfe steps from the estimate along the gradient 2 P A_K Sigma [I K'].

    A step goes the whole way to the extreme point, or a half, a quarter, an eighth of it: the first
    that lowers trace P by a thousandth at least.
    """

    def choose(self, estimate):
        found = self.solve(estimate)
        if found is None:
            return None
        offset, radius = np.zeros_like(estimate), self.radius_scale * self.identifier.radius
        for _ in range(10):
            P, K = found
            A, B = self.split(estimate + offset)
            G = 2 * P @ (A + B @ K) @ covariance(A + B @ K) @ np.hstack([np.eye(len(A)), K.T])
            against = np.linalg.solve(self.identifier.V, G.T).T
            extreme = -radius * against / math.sqrt(np.sum(against * G))
            for share in (1.0, 0.5, 0.25, 0.125):
                moved = (1 - share) * offset + share * extreme
                if np.linalg.norm(estimate + moved) > self.theta_limit:
                    continue
                tried = self.solve(estimate + moved)
                if tried is not None and np.trace(tried[0]) < 0.999 * np.trace(P):
                    offset, found = moved, tried
                    break
            else:
                break
        return found[1]


class Sampler(Searching):
    """radius U^(1/D) xi / ‖xi‖ L' with L L' = V^-1, D = n (n + d), xi normal: uniform in the set.

    At most ten draws until a model is short enough and has a gain; then the estimate.
    """

    uniform = None  # set by the test, as ``normal`` is passed

    def choose(self, estimate):
        n, size = estimate.shape
        L = np.linalg.cholesky(np.linalg.inv(self.identifier.V))
        radius = self.radius_scale * self.identifier.radius
        for attempt in range(10):
            first = (n * size + 1) * attempt
            draws = [self.normal(self.seed + 1, self.t, first + k) for k in range(n * size)]
            xi = np.array(draws).reshape(n, size)
            depth = self.uniform(self.seed + 1, self.t, 2 * (first + n * size)) ** (1 / (n * size))
            model = estimate + radius * depth * xi @ L.T / np.linalg.norm(xi)
            found = self.solve(model) if np.linalg.norm(model) <= self.theta_limit else None
            if found is not None:
                return found[1]
        return super().choose(estimate)
