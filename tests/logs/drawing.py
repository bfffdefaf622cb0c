"""A log, drawn: ten arms, one of them rare, heavy-tailed rewards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LOGGING = np.array([0.5, 0.2, 0.1, 0.05, 0.05, 0.03, 0.03, 0.02, 0.01, 0.01])
MEANS = np.linspace(0.55, 1.3, 10)


class Drawn(NamedTuple):
    log: dict[str, Any]
    target: Any
    weight: Any
    reward: Any
    value: float


def draw(seed: int, n: int = 600, arm: int = 1, tail: float = 1.5) -> Drawn:
    """Lomax rewards of mean MEANS[action]; the target plays ``arm`` in 82 % of rounds."""
    rng = np.random.default_rng(seed)
    action = rng.choice(10, size=n, p=LOGGING)
    reward = MEANS[action] * (tail - 1.0) * rng.pareto(tail, n)
    pi = np.full(10, 0.02)
    pi[arm] += 0.8
    log = {"action": action, "reward": reward, "propensity": LOGGING[action]}
    return Drawn(log, np.tile(pi, (n, 1)), pi[action] / LOGGING[action], reward, float(pi @ MEANS))
