"""Twins of the policies that play one arm many times: CRMM, MENU, MoM, BMM."""

from __future__ import annotations

import math

import numpy as np
from tests.naive.common import (
    Array,
    Linear,
    first_of_largest,
    log_det_ratio,
    power_of_time,
    width,
)
from tests.naive.one_pass import Mirror, Ridge


class Epochs(Linear):
    """The rewards of ``repeats`` pulls are gathered for the arm that the first of them was of."""

    repeats: int
    epochs = 0
    meant: Array | None = None
    gathered: list[float]

    def choose(self, arms: Array) -> int:
        if self.meant is None:
            return self.choose_anew(arms)
        return int(np.argmin([np.linalg.norm(x - self.meant) for x in arms]))

    def choose_anew(self, arms: Array) -> int:
        return Linear.choose(self, arms)

    @property
    def pulls_left(self) -> int:
        return 0 if self.meant is None else self.repeats - len(self.gathered)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        if self.meant is None:
            self.meant, self.gathered = x, []
        self.gathered.append(reward)
        if len(self.gathered) == self.repeats:
            self.epochs += 1
            self.finish(self.meant, self.gathered)
            self.meant = None

    def finish(self, x: Array, rewards: list[float]) -> None:
        raise NotImplementedError


class CRMM(Epochs, Mirror):
    """A Newton step on the median of the pulls.

    R = 4^(1/p) nu (T/delta)^(2/(r p)) bounds the medians' noise, and the squared radius is
    lambda S² + (4/3) R² log(1/delta) + 2 (R + 2 S L)² log(det V_n / det V_0).
    """

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        repeats: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.03,
    ) -> None:
        Mirror.__init__(self, dim, ridge, theta_bound)
        self.repeats = repeats or math.ceil(2.0 * math.log(horizon / delta))
        # delta/T = (4 nu^p / R^p)^(r/2), solved for R
        self.R = scale * (4.0 * (delta / horizon) ** (-2.0 / self.repeats)) ** (1.0 / order)
        self.S, self.L, self.delta, self.factor = theta_bound, arm_bound, delta, radius_scale

    @property
    def radius(self) -> float:  # type: ignore[override]
        noise = 4.0 / 3.0 * self.R**2 * math.log(1.0 / self.delta)
        drift = 2.0 * (self.R + 2.0 * self.S * self.L) ** 2 * log_det_ratio(self.V, self.ridge)
        return self.factor * math.sqrt(self.ridge * self.S**2 + noise + drift)

    def finish(self, x: Array, rewards: list[float]) -> None:
        self.descend(x, (x @ self.theta - np.median(rewards)) * x, 0.5)


class MENU(Epochs):
    """k ridge estimates; the one whose median V-distance to the others is least is believed."""

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        copies: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.1,
    ) -> None:
        self.dim, self.p, self.S, self.ridge = dim, order, theta_bound, ridge
        self.repeats = copies or math.ceil(24.0 * math.log(math.e * horizon / delta))
        self.c, self.factor = scale**order, radius_scale
        self.V = ridge * np.eye(dim)
        self.sums = np.zeros((self.repeats, dim))
        self.theta_all = np.zeros(dim)

    @property
    def radius(self) -> float:  # type: ignore[override]
        root = math.sqrt(self.ridge) * self.S
        if self.epochs == 0:
            return self.factor * 3.0 * root
        noise = (9.0 * self.dim * self.c) ** (1.0 / self.p)
        return self.factor * 3.0 * (noise * power_of_time(self.epochs, self.p) + root)

    def finish(self, x: Array, rewards: list[float]) -> None:
        self.V = self.V + np.outer(x, x)
        self.sums = self.sums + np.outer(rewards, x)
        copies = np.linalg.solve(self.V, self.sums.T).T
        if self.repeats == 1:
            self.theta_all = copies[0]
            return
        medians = []
        for j, mine in enumerate(copies):
            gaps = np.delete(copies, j, axis=0) - mine
            medians.append(np.median([math.sqrt(gap @ self.V @ gap) for gap in gaps]))
        self.theta_all = copies[int(np.argmin(medians))]


class MoM(Epochs, Ridge):
    """Ridge regression on medians of the means of k groups of a batch of r pulls.

    r = T^(p/(3p-2)) in whole groups, m = T/r batches, and the radius after n batches is
    (12 v)^(1/p) (8 log(2m/delta)/r)^((p-1)/p) (sqrt(2 log(m det(V)^(1/2)/delta)) + sqrt n)
    + sqrt(lambda) S, with V over V_0.
    """

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        groups: int | None = None,
        repeats: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.01,
    ) -> None:
        Ridge.__init__(self, dim, ridge)
        self.groups = groups or math.floor(8.0 * math.log(2.0 / delta))
        eps = order - 1.0
        batches = horizon ** (2.0 * eps / (1.0 + 3.0 * eps))
        pulls = repeats or math.ceil(horizon / batches - 1e-9)
        self.repeats = pulls - pulls % self.groups
        self.m, self.p, self.v, self.delta = horizon / self.repeats, order, scale**order, delta
        self.S, self.factor = theta_bound, radius_scale

    @property
    def radius(self) -> float:  # type: ignore[override]
        spread = 8.0 * math.log(2.0 * self.m / self.delta) / self.repeats
        error = (12.0 * self.v) ** (1.0 / self.p) * spread ** ((self.p - 1.0) / self.p)
        union = math.log(self.m * math.exp(self.log_det / 2.0) / self.delta)
        grown = math.sqrt(2.0 * union) + math.sqrt(self.epochs)
        return self.factor * (error * grown + math.sqrt(self.ridge) * self.S)

    def finish(self, x: Array, rewards: list[float]) -> None:
        means = np.array(rewards).reshape(self.groups, -1).mean(axis=1)
        self.regress(x, float(np.median(means)))


class Stage:
    """What one stage of BMM has seen: A, and for each of r copies the sum of y x."""

    def __init__(self, dim: int, ridge: float, copies: int) -> None:
        self.A = ridge * np.eye(dim)
        self.sums = self.copies = np.zeros((copies, dim))
        self.count = 0

    def learn(self, x: Array, rewards: list[float]) -> None:
        self.A = self.A + np.outer(x, x)
        self.sums = self.sums + np.outer(rewards, x)
        self.copies = np.linalg.solve(self.A, self.sums.T).T
        self.count += 1

    def mean(self, x: Array) -> float:
        return float(np.median(self.copies @ x))


class BMM(Epochs):
    """The median of r ridge predictions of each arm; with ``sup``, stage by stage."""

    def __init__(
        self,
        dim: int,
        *,
        order: float,
        scale: float,
        horizon: int,
        arms: int,
        copies: int | None = None,
        sup: bool = False,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.1,
    ) -> None:
        self.dim, self.p, self.v, self.sup = dim, order, scale**order, sup
        log_T = max(math.log(horizon), 1.0)
        self.repeats = copies or math.ceil(8.0 * math.log(2.0 * arms * horizon * log_T / delta))
        count = math.floor(log_T) if sup else 1
        self.stages = [Stage(dim, ridge, self.repeats) for _ in range(count)]
        self.root, self.factor = math.sqrt(ridge) * theta_bound, radius_scale
        self.finest = 1.0 / math.sqrt(horizon)
        self.deepest = 0  # the last stage that has learned, from 1

    @property
    def theta(self) -> Array:
        return np.array([self.predict(x) for x in np.eye(self.dim)])

    @property
    def radius(self) -> float:  # type: ignore[override]
        return self.radius_of(self.stages[0])

    def radius_of(self, stage: Stage) -> float:
        noise = (12.0 * self.v) ** (1.0 / self.p) * power_of_time(stage.count + 1, self.p)
        return self.factor * (noise + self.root)

    def predict(self, x: Array) -> float:
        return self.stages[0].mean(x)

    def width_of(self, stage: Stage, x: Array) -> float:
        return self.radius_of(stage) * width(stage.A, x)

    def choose_anew(self, arms: Array) -> int:
        active = list(range(len(arms)))
        for s, stage in enumerate(self.stages, start=1):
            widths = {a: self.width_of(stage, arms[a]) for a in active}
            index = {a: stage.mean(arms[a]) + widths[a] for a in active}
            best = active[first_of_largest(index[a] for a in active)]
            widest = active[first_of_largest(widths[a] for a in active)]
            if not self.sup or widths[widest] <= self.finest:
                return best
            if widths[widest] > 2.0**-s:
                return widest
            active = [a for a in active if index[a] >= index[best] - 2.0 ** (1 - s)]
        return best

    def finish(self, x: Array, rewards: list[float]) -> None:
        for s, stage in enumerate(self.stages, start=1):
            if not self.sup or self.width_of(stage, x) > max(2.0**-s, self.finest):
                stage.learn(x, rewards)
                self.deepest = max(self.deepest, s)
                return
