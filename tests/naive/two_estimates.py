"""Twins of Twin-UCB in theory and at the sharp width: a mean, a fixed clip beside it, the rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.naive.common import TIE, Array, first_of_largest
from tests.naive.one_pass import HvtTheory
from tests.naive.sharp import HvtSharp


class Rule:
    """Plays the bulk's favourite among plausible arms unless optimism's arm is c times wider; the
    mean is that of the class beside it.
    """

    c = 3.0
    clip = 1.345
    prior: float

    def __init__(self, dim: int, **knobs: Any) -> None:
        super().__init__(dim, **knobs)
        self.bulk = np.zeros(dim)
        self.squares: list[float] = []
        self.stability: list[float] = []
        self.played = {"favourite": 0, "optimist": 0, "ruled out": 0}

    @property
    def bulk_radius(self) -> float:
        t = len(self.squares)
        mean_square = (1.0 + sum(self.squares)) / (1.0 + t)
        confidence = math.log(math.sqrt(1.0 + t) / 0.01)
        return 0.6 * math.sqrt(self.prior + sum(self.stability) + mean_square * confidence)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        off = reward - float(x @ self.bulk)
        super().learn(x, reward, scale)
        psi = min(max(off / self.sigma, -self.clip), self.clip) if np.any(x) else 0.0
        gradient = psi / self.sigma * x
        step = np.linalg.solve(self.V, gradient)
        self.bulk = self.bulk + step
        self.squares.append(psi**2)
        self.stability.append(float(gradient @ step))

    def ends(self, arms: Array) -> tuple[Array, Array, Array]:
        """The lower ends and the upper ends of the mean's intervals, and the widths."""
        widths = self.widths(arms)
        means = arms @ self.theta
        return means - self.radius * widths, means + self.radius * widths, widths

    def plausible(self, arms: Array) -> Array:
        lower, upper, _ = self.ends(arms)
        return upper + TIE * np.abs(upper) >= lower.max()

    def choose(self, arms: Array) -> int:
        _, upper, widths = self.ends(arms)
        plausible = self.plausible(arms)
        index = arms @ self.bulk + self.bulk_radius * widths
        left = np.flatnonzero(plausible)
        favourite = int(left[first_of_largest(index[left], TIE)])
        optimist = first_of_largest(upper, TIE)
        self.played["ruled out"] += int(np.sum(~plausible))
        if widths[optimist] > self.c * widths[favourite] * (1.0 + TIE):
            self.played["optimist"] += 1
            return optimist
        self.played["favourite"] += favourite != optimist
        return favourite


class TwinTheory(Rule, HvtTheory):
    """The mean is Algorithm 1."""

    def __init__(self, dim: int, **knobs: Any) -> None:
        super().__init__(dim, **knobs)
        self.prior = self.ridge / knobs.get("arm_bound", 1.0) ** 2

    def widths(self, arms: Array) -> Array:
        return np.asarray(np.sqrt(np.sum(arms.T * np.linalg.solve(self.V, arms.T), axis=0)))


class TwinSharp(Rule, HvtSharp):
    """The mean is that of the sharp width, whose Q stands for V^-1; the bulk's start weighs lambda
    S².
    """

    def __init__(self, dim: int, **knobs: Any) -> None:
        super().__init__(dim, **knobs)
        self.prior = self.ridge * self.S**2
