"""Linear UCB as one would write it with NumPy: the round that heavytail is measured against."""

from __future__ import annotations

import numpy as np


class LinUCB:
    """Ridge regression and a bonus; widths by one product, the inverse by its update."""

    def __init__(self, dim: int, radius: float = 1.0) -> None:
        self.P = np.eye(dim)
        self.b = np.zeros(dim)
        self.theta = np.zeros(dim)
        self.radius = radius

    def select(self, arms: np.ndarray) -> int:
        widths = np.sqrt(np.einsum("ij,ij->i", arms @ self.P, arms))
        return int(np.argmax(arms @ self.theta + self.radius * widths))

    def update(self, x: np.ndarray, reward: float) -> None:
        u = self.P @ x
        self.P -= np.outer(u, u) / (1.0 + x @ u)
        self.b += reward * x
        self.theta = self.P @ self.b
