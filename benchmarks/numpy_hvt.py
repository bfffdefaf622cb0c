"""The round of Hvt-UCB as one would write it with NumPy, against ours: the same round, one run.

    python -m benchmarks.numpy_hvt

d = 2, 50 arms, the default mode. Both make the same decisions; the ratio is what counts.
"""

from __future__ import annotations

import math
import time

import numpy as np

import heavytail as ht

ROUNDS = 20_000


class PlainHvtUCB:
    """The default mode with arrays and no checks: ``heavytail.policies.hvt_ucb`` line by line."""

    def __init__(self, dim: int, nu: float) -> None:
        self.P = np.eye(dim + 1) / dim
        self.theta = np.zeros(dim + 1)
        self.nu, self.typical = nu, 1.0 / 1.4826
        self.t, self.stability, self.energy, self.ridge = 0, 0.0, 0.0, float(dim)
        self.radius = self._radius()

    def _radius(self) -> float:
        rho = (1.0 + self.energy) / (1.0 + self.t)
        return 0.4 * math.sqrt(self.ridge + self.stability + rho * math.log(100.0))

    def select(self, arms: np.ndarray) -> int:
        full = np.column_stack([arms, np.ones(len(arms))])
        widths = np.sqrt(np.einsum("ij,ij->i", full @ self.P, full))
        return int(np.argmax(full @ self.theta + self.radius * widths))

    def update(self, x: np.ndarray, reward: float) -> None:
        self.t += 1
        x = np.append(x, 1.0)
        u = self.P @ x
        squared = float(x @ u)
        residual = float(reward - self.theta @ x)
        sigma = max(self.nu * 1.4826 * self.typical, math.sqrt(squared))
        psi = float(np.clip(residual / sigma, -1.345, 1.345))
        growth = 1.0 + squared / sigma**2
        self.P -= np.outer(u, u) / (sigma**2 * growth)
        self.theta = self.theta + psi / (sigma * growth) * u
        if np.linalg.norm(self.theta[:2]) > 1.0:
            self._project()
        step = max(min(0.5, 2.0 / (self.t + 5.0)), 0.002)
        self.typical *= math.exp(step if abs(residual) / self.nu > self.typical else -step)
        self.stability += psi**2 * squared / sigma**2 / growth
        self.energy += psi**2
        self.radius = self._radius()

    def _project(self) -> None:
        y, block = self.theta[:2].copy(), self.P[:2, :2]
        values, basis = np.linalg.eigh(block)
        c = basis.T @ y
        mu = 0.0
        for _ in range(50):
            z = c / (1.0 + mu * values)
            norm = np.linalg.norm(z)
            if norm <= 1.0 + 1e-14:
                break
            mu += (norm - 1.0) * norm**2 / np.sum(z * z * values / (1.0 + mu * values))
        self.theta[:2] = basis @ z
        self.theta[2] -= mu * self.P[2, :2] @ self.theta[:2]


def play(
    policy: object, arms: np.ndarray, means: np.ndarray, noise: np.ndarray
) -> tuple[float, list]:
    """Microseconds of processor time a round, and the arms chosen."""
    chosen = []
    start = time.process_time()
    for eta in noise:
        arm = policy.select(arms)  # type: ignore[attr-defined]
        policy.update(arms[arm], float(means[arm] + eta))  # type: ignore[attr-defined]
        chosen.append(arm)
    return 1e6 * (time.process_time() - start) / len(noise), chosen


def main() -> float:
    """Print the times and their ratio; return the ratio."""
    rng = np.random.default_rng(0)
    arms = rng.uniform(-1.0, 1.0, (50, 2))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    means, noise = arms @ np.array([0.6, 0.8]), rng.standard_t(2.1, ROUNDS)
    ours = ht.HvtUCB(2, tail=ht.MomentBound(order=1.9, scale=2.0))
    play(ours.clone(), arms, means, noise[:100])  # compile
    best = [
        min(play(make(), arms, means, noise) for _ in range(3))
        for make in (lambda: PlainHvtUCB(2, 2.0), ours.clone)
    ]
    (plain, theirs), (fast, mine) = best
    same = sum(a == b for a, b in zip(theirs, mine, strict=True))
    print(f"plain NumPy {plain:.1f} us a round")
    print(f"heavytail from Python {fast:.2f} us: {plain / fast:.1f} times")
    world = ht.LinearBandit(2, 50, ht.noise.StudentT(2.1))
    run = ht.simulate([ours], world, rounds=200_000, trials=3, seed=0, record=1, jobs=1)["Hvt-UCB"]
    episode = 1e6 * run.seconds.min() / 200_000
    print(f"compiled episode {episode:.2f} us a round: {plain / episode:.0f} times")
    print(f"the same arm in {same:,} of {ROUNDS:,} rounds")
    return plain / fast


if __name__ == "__main__":
    main()
