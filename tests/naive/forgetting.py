"""Twins of the policies that forget: every sum a list whose entries fade, V itself, no inverse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.naive.common import Array
from tests.naive.practice import HvtPractice, Threshold
from tests.naive.twin import TwinUCB


class FadingThreshold(Threshold):
    """tau from the list of all sizes, each with a weight."""

    n = 0  # rounds remembered, this one among them

    def __init__(self, floor: float, coordinates: int, logs: float = 1.0) -> None:
        super().__init__(floor, coordinates, logs)
        self.weights: list[float] = []

    def learn(self, size: float) -> None:
        self.sizes.append(size)
        self.weights.append(1.0)
        if size <= self.tau and self.n % 32 != 0:
            return
        squares, weights = (np.array(self.sizes) / self.floor) ** 2, np.array(self.weights)
        need = self.m + self.logs * math.log(self.n)
        for k in range(63):
            above = weights[squares > 2.0**k].sum()
            below = (weights * squares)[squares <= 2.0**k].sum()
            if need > above and below <= 2.0**k * (need - above):
                self.tau = self.floor * math.sqrt(max(below / (need - above), 1.0))
                return


class Fading(HvtPractice):
    """What forgets: after each round every sum, and V, counts ``forget`` times as much."""

    def __init__(
        self, dim: int, *, forget: float = 1.0, restarts: bool = False, **knobs: Any
    ) -> None:
        super().__init__(dim, **knobs)
        self.threshold: Any = FadingThreshold(1.345, len(self.V), self.threshold.logs)
        self.forget, self.restarts = forget, restarts
        self.seen, self.known = 0.0, 0  # rounds remembered, and the whole number nearest
        self.coordinate = self.changes = 0
        self.level = self.above = self.below = 0.0

    @property
    def watched(self) -> Array:
        return self.theta_all

    @property
    def sums(self) -> list[list[float]]:
        return [self.squares, self.stability, self.weights]

    @property
    def drift(self) -> float:
        return max(self.above, self.below) / 60.0

    def beta(self, exploration: float, squares: list[float], stability: list[float]) -> float:
        mean_square = (1.0 + sum(squares)) / (1.0 + self.known)
        sure = self.log_inverse + 0.5 * math.log(1.0 + self.known)
        prior = self.ridge / self.constant**2
        return self.factor * exploration * math.sqrt(prior + sum(stability) + mean_square * sure)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        if self.typical is None:
            super().learn(x, reward, scale)
            return
        off = (reward - float(self.feature(x) @ self.watched)) / (scale or self.nu)
        z = off / (1.4826 * self.typical.value)
        self.known += 1
        self.threshold.n = self.known
        super().learn(x, reward, scale)
        if self.known > 0:
            self.after(min(max(z, -1.345), 1.345))

    def begin_again(self, unit: float) -> None:
        super().begin_again(unit)
        self.known, self.seen = 0, 0.0
        self.level = self.above = self.below = 0.0

    def after(self, psi: float) -> None:
        off = psi - self.level
        if self.seen >= 30 * len(self.V):
            self.above = max(self.above + off - 0.1, 0.0)
            self.below = max(self.below - off - 0.1, 0.0)
        self.level += off / (self.seen + 1.0)
        self.seen += 1.0
        start = self.ridge / (self.unit * self.mean_nu) ** 2
        if self.restarts and self.drift > 1.0:
            self.changes += 1
            self.level = self.above = self.below = self.seen = 0.0
            self.known = 0
            self.V = start * np.eye(len(self.V))
            self.threshold = self.threshold.fresh()
            for numbers in self.sums:
                numbers.clear()
        elif self.forget < 1.0:
            d = len(self.V)
            self.V[self.coordinate, self.coordinate] += start * (self.forget**-d - 1.0)
            self.V = self.forget * self.V
            self.coordinate = (self.coordinate + 1) % d
            self.seen *= self.forget
            for numbers in self.sums:
                numbers[:] = [self.forget * number for number in numbers]
            if self.rounds % 32 == 0:
                kept = self.threshold.weights
                kept[:] = [self.forget**32 * weight for weight in kept]
        if self.known > self.seen + 0.5:
            self.known -= 1


class HvtFading(Fading):
    """Hvt-UCB that forgets: it watches a bulk that decides nothing."""

    def __init__(self, dim: int, **knobs: Any) -> None:
        super().__init__(dim, **knobs)
        self.bulk_all = np.zeros(len(self.V))

    @property
    def watched(self) -> Array:
        return self.theta_all if self.fixed else self.bulk_all

    def step(self, feature: Array, residual: float, nu: float) -> None:
        y = residual + float(feature @ (self.theta_all - self.bulk_all))
        super().step(feature, residual, nu)
        psi = min(max(y / self.sigma, -1.345), 1.345)
        self.bulk_all = self.bulk_all + np.linalg.solve(self.V, psi / self.sigma * feature)

    def begin_again(self, unit: float) -> None:
        super().begin_again(unit)
        self.bulk_all = np.zeros(len(self.V))


class TwinFading(Fading, TwinUCB):
    """Twin-UCB that forgets: amounts with every one of them, what every round teaches with every
    round since the unit is known. It watches the bulk.
    """

    @property
    def watched(self) -> Array:
        return self.bulk_all

    @property
    def sums(self) -> list[list[float]]:
        return [*super().sums, self.bulk_squares, self.bulk_stability, self.apart]

    beta = TwinUCB.beta

    @property
    def amounts(self) -> float:
        return self.known if self.typical is not None else self.rounds

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        nu, before = scale or self.nu, self.changes
        if self.typical is None:
            self.observe(x, reward, nu)
        else:
            off = (reward - float(self.feature(x) @ self.watched)) / nu
            z = off / (1.4826 * self.typical.value)
            self.known += reward != 0.0
            self.threshold.n = self.known
            self.observe(x, reward, nu)
            if self.known > 0:
                if reward != 0.0:
                    self.after(min(max(z, -1.345), 1.345))
                self.fade_rows(0.0 if self.changes > before else self.forget, reward != 0.0)
            elif reward == 0.0:
                self.fade_rows(self.forget, False)
        self.take_turn()

    def fade_rows(self, factor: float, paid: bool) -> None:
        if factor == 1.0:
            return
        turn, size = self.rounds % (self.dim + 1), self.dim + 1
        renewed = self.ridge * (self.forget**-size - 1.0)
        for regression in (self.conversions, self.judge):
            regression.fade(turn, renewed, factor)
        self.zeros *= factor
        if paid:
            self.noise.fade(turn, renewed, factor)
        del self.played[: len(self.played) - len(self.weights)]
