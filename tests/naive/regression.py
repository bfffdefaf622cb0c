"""Ridge regression from the table of its rows, of which old ones may come to count for less."""

from __future__ import annotations

import math

import numpy as np
from tests.naive.common import Array, width


class Regression:
    """Least squares of all rows; the ridge is ``size`` rows of its own. Keeps what each forecast
    missed, the leverage of its row before it was learned, and the weight that it has by now.
    """

    def __init__(self, size: int, ridge: float) -> None:
        self.size, self.ridge = size, ridge
        self.X, self.y = math.sqrt(ridge) * np.eye(size), np.zeros(size)
        self.missed: list[tuple[float, float, float]] = []

    @property
    def V(self) -> Array:
        return np.asarray(self.X.T @ self.X)

    @property
    def theta(self) -> Array:
        return np.linalg.solve(self.V, self.X.T @ self.y)

    def append(self, row: Array, value: float) -> None:
        self.X, self.y = np.vstack([self.X, row]), np.append(self.y, value)

    def learn(self, row: Array, value: float, most: float = math.inf) -> None:
        """A row whose value lies at most ``most`` from the forecast."""
        forecast = float(row @ self.theta)
        off = float(np.clip(value - forecast, -most, most))
        self.missed.append((off, width(self.V, row) ** 2, 1.0))
        self.append(row, forecast + off)

    def meet(self, row: Array) -> None:
        """A row without a value: what it says is what was known."""
        self.append(row, float(row @ self.theta))

    def zero(self) -> None:
        """All values 0: the rows stay."""
        self.y, self.missed = np.zeros(len(self.X)), []

    def fade(self, coordinate: int, weight: float, factor: float) -> None:
        """A row along a coordinate that says what is known, then all rows count ``factor`` times as
        much; 0 leaves the ridge around what is known.
        """
        known = self.theta
        if factor == 0.0:
            self.X = math.sqrt(self.ridge) * np.eye(self.size)
            self.y, self.missed = math.sqrt(self.ridge) * known, []
            return
        self.append(math.sqrt(weight) * np.eye(self.size)[coordinate], 0.0)
        self.y[-1] = math.sqrt(weight) * known[coordinate]
        self.X, self.y = math.sqrt(factor) * self.X, math.sqrt(factor) * self.y
        self.missed = [(e, h, factor * w) for e, h, w in self.missed]

    @property
    def stability(self) -> float:
        return sum(w * e * e * h / (1.0 + h) for e, h, w in self.missed)

    @property
    def energy(self) -> float:
        return sum(w * e * e for e, _, w in self.missed)
