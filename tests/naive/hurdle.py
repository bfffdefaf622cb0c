"""The twin of Hurdle-UCB: lists of everything, and every estimate solved anew."""

from __future__ import annotations

import math

import numpy as np
from tests.naive.common import TIE, Array, first_of_largest, width
from tests.naive.practice import Doubts

CLIP = 1.345
NORMAL = 1.4826
LOG_INVERSE_DELTA = math.log(100.0)


def read_off(factor: float, prior: float, stability: float, energy: float, n: float) -> float:
    """factor sqrt(prior + G + rho log(sqrt(1 + n) / delta)), rho = (1 + energy) / (1 + n)."""
    rho = (1.0 + energy) / (1.0 + n)
    return factor * math.sqrt(
        prior + stability + rho * (LOG_INVERSE_DELTA + math.log(math.sqrt(1.0 + n)))
    )


class Regression:
    """Ridge regression from its rows; what its forecasts missed, and by how much they count."""

    def __init__(self, size: int, ridge: float) -> None:
        self.size, self.ridge = size, ridge
        self.rows: list[Array] = []
        self.values: list[float] = []
        self.missed: list[tuple[float, float]] = []  # residual of the forecast, leverage before

    @property
    def V(self) -> Array:
        X = np.array(self.rows).reshape(-1, self.size)
        return self.ridge * np.eye(self.size) + X.T @ X

    @property
    def theta(self) -> Array:
        X = np.array(self.rows).reshape(-1, self.size)
        return np.linalg.solve(self.V, X.T @ np.array(self.values))

    def learn(self, row: Array, value: float) -> None:
        self.missed.append((value - float(row @ self.theta), width(self.V, row) ** 2))
        self.rows.append(row)
        self.values.append(value)

    @property
    def stability(self) -> float:
        return sum(e * e * h / (1.0 + h) for e, h in self.missed)

    @property
    def energy(self) -> float:
        return sum(e * e for e, _ in self.missed)

    @property
    def objective(self) -> float:
        """The least of sum of squared residuals + ridge ‖theta‖²."""
        theta = self.theta
        fitted = np.array(self.rows) @ theta
        return float(np.sum((np.array(self.values) - fitted) ** 2) + self.ridge * theta @ theta)


class Typical:
    """The running median of sizes, by steps of its logarithm that grow in a run of one side."""

    def __init__(self, unit: float, scale: float) -> None:
        self.unit, self.value, self.told = unit, scale / NORMAL, 5
        self.run: list[float] = []  # sizes in a row on one side
        self.above = True

    def learn(self, size: float) -> None:
        above = size > self.value
        self.run = [*self.run, size] if above == self.above else [size]
        self.above = above
        self.told += 1
        length = float(np.clip(2.0 / (self.told + 5), 0.002, 0.5))
        sign = 1.0 if above else -1.0
        moved = self.value * math.exp(sign * length)
        doublings = min(len(self.run) - 5, 10)
        if self.told <= 64 and doublings > 0:
            leap = self.value * math.exp(sign * length * 2.0**doublings)
            if above:
                moved = max(moved, min(leap, min(self.run)))
            else:
                moved = min(moved, max(leap, max(self.run)))
        self.value = float(np.clip(moved, 1e-9 * self.unit, 1e100))


def self_tuned(sizes: list[float], coordinates: int) -> float:
    """The tau, in units of its floor, of sum min(z², tau²) = tau² (m + log n), where all z within
    half an octave above a power of sqrt 2 are treated alike.
    """
    need = coordinates + math.log(len(sizes))
    squares = np.array(sizes) ** 2
    for k in range(63):
        edge = 2.0**k
        left = need - np.sum(squares > edge)
        below = float(np.sum(squares[squares <= edge]))
        if left > 0.0 and below <= edge * left:
            return math.sqrt(max(below / left, 1.0))
    return math.sqrt(2.0**62)


class Amounts:
    """The mean of rewards other than 0: a Huber step in the norm of V, its threshold growing."""

    def __init__(self, size: int, ridge: float, scale: float | None, bound: float) -> None:
        self.size, self.ridge, self.bound = size, ridge, bound
        self.base = 1.0 if scale is None else scale
        self.first: list[float] = []
        self.first_nu: list[float] = []
        self.unit: float | None = None
        self.theta = np.zeros(size)
        self.V = np.eye(size) * ridge
        self.tau, self.sizes = CLIP, []
        self.stability = self.energy = 0.0
        self.rows: list[Array] = []  # and their weights, since the unit is known
        self.weights: list[float] = []
        self.stated = scale is not None
        self.doubts = Doubts()

    def settle(self, unit: float) -> None:
        self.unit, self.typical = unit, Typical(unit, 1.0 if self.stated else unit)
        self.mean_nu = float(np.mean(self.first_nu))
        self.V = np.eye(self.size) * self.ridge / (unit * self.mean_nu) ** 2

    def beta(self, exploration: float) -> float:
        prior = self.ridge / self.bound**2
        return read_off(exploration, prior, self.stability, self.energy, len(self.sizes))

    def learn(self, row: Array, reward: float, nu: float) -> None:
        if self.unit is None:
            self.first.append(abs(reward) / nu)
            self.first_nu.append(nu)
            if len(self.first) == 5:
                nu = np.mean(self.first_nu)
                self.settle(float(np.clip(10.0 * np.median(self.first) * nu, 1e-70, 1e70) / nu))
            return
        n = width(self.V, row)
        finest = 3e-7 * self.bound / math.sqrt(self.ridge) * self.unit * self.mean_nu
        finest *= math.sqrt(len(self.sizes) + 1.0)
        sigma = max(nu * NORMAL * self.typical.value, n, finest)
        residual = reward - float(row @ self.theta)
        z = residual / sigma
        psi = float(np.clip(z, -self.tau, self.tau))
        self.V = self.V + np.outer(row, row) / sigma**2
        self.theta = self.theta + np.linalg.solve(self.V, row) * psi / sigma
        self.rows.append(row)
        self.weights.append(sigma**-2.0)
        leverage = (n / sigma) ** 2
        self.stability += psi**2 * leverage / (1.0 + leverage)
        self.energy += psi**2
        self.sizes.append(abs(z) / CLIP)
        if abs(z) > self.tau or len(self.sizes) % 32 == 0:
            self.tau = CLIP * self_tuned(self.sizes, self.size)
        self.typical.learn(abs(residual) / nu)
        unit = self.doubts.learn(abs(reward) / nu, self.unit, self.mean_nu)
        if unit is not None:
            self.begin_again(unit)

    def begin_again(self, unit: float) -> None:
        self.stated = False
        self.settle(unit)
        self.theta, self.tau = np.zeros(self.size), CLIP
        self.sizes, self.rows, self.weights = [], [], []
        self.stability = self.energy = 0.0


class Hurdle:
    """Hurdle-UCB. The constants are arguments, so that a test can move one."""

    def __init__(
        self,
        dim: int,
        *,
        scale: float | None = None,
        arm_bound: float = 1.0,
        exploration: float = 0.7,
        conversion_exploration: float = 0.4,
        amount_exploration: float = 0.2,
        chance: float = 2.0,
        audits: float = 1.5,
        shrinking: float = 1.0,
        ridge: float = 0.01,
    ) -> None:
        self.dim, self.bound, self.rounds = dim, arm_bound, 0
        self.nu = 1.0 if scale is None else scale
        self.e, self.e_q, self.e_m = exploration, conversion_exploration, amount_exploration
        self.chance, self.turns, self.shrinking = chance, audits, shrinking
        self.ridge = ridge * dim
        self.conversions = Regression(dim + 1, self.ridge * arm_bound**2)
        self.logs = Regression(dim + 1, self.ridge * arm_bound**2)
        self.amounts = Amounts(dim + 1, self.ridge * arm_bound**2, scale, arm_bound)
        self.first: float | None = None
        self.paid = 0

    def feature(self, x: Array) -> Array:
        return np.append(x, self.bound)

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        row, nu = self.feature(x), self.nu if scale is None else scale
        if reward != 0.0:
            unit = self.amounts.unit
            self.amounts.learn(row, reward, nu)
            self.paid += 1
            if unit not in (None, self.amounts.unit):  # sizes are compared from nothing
                self.logs, self.first = Regression(self.dim + 1, self.logs.ridge), None
            size = abs(reward) / nu
            self.first = size if self.first is None else self.first
            self.logs.learn(row, math.log(size / self.first))
        self.conversions.learn(row, float(reward != 0.0))

    @property
    def radius(self) -> float:
        return self.amounts.beta(self.e)

    @property
    def conversion_radius(self) -> float:
        q = self.conversions
        return read_off(self.e_q, self.ridge, q.stability, q.energy, self.rounds)

    @property
    def inverse_gram(self) -> Array:
        return np.linalg.inv(self.amounts.V)

    @property
    def centre(self) -> Array:
        """The weighted average of what paid; 0 before there is any."""
        m = self.amounts
        return np.average(m.rows, axis=0, weights=m.weights) if m.rows else np.zeros(self.dim + 1)

    @property
    def theta(self) -> Array:
        share = self.paid / max(self.rounds, 1)
        return (share * self.amounts.theta + self.middle * self.conversions.theta)[: self.dim]

    @property
    def size_factor(self) -> float:
        """1 - d v / (what the slopes explain), v the residual variance; within [0, 1]."""
        spare = len(self.logs.rows) - self.dim - 1
        if spare <= 0:
            return 0.0
        values = np.array(self.logs.values)
        left = self.logs.objective
        explained = float(np.sum((values - values.mean()) ** 2)) - left
        if explained <= 0.0:
            return 0.0
        return max(0.0, 1.0 - self.shrinking * self.dim * left / spare / explained)

    @property
    def mean_factor(self) -> float:
        """1 - c d rho / H, within [0, 1]; H the weighted sum of squares, about its average, of
        what parts the mean from the guess as both are in the middle.
        """
        m = self.amounts
        if not m.rows:
            return 0.0
        slopes = self.middle * self.size_factor * self.logs.theta
        parted = np.array(m.rows)[:, : self.dim] @ (m.theta - slopes)[: self.dim]
        parted = parted - np.average(parted, weights=m.weights)
        H = float(np.array(m.weights) @ parted**2)
        rho = m.energy / len(m.rows)
        return max(0.0, 1.0 - self.chance * self.dim * rho / H) if H > 0.0 else 0.0

    @property
    def middle(self) -> float:
        return float(self.centre @ self.amounts.theta)

    @property
    def audit(self) -> float:
        t = self.rounds
        ends = [math.floor(self.turns * k ** (2.0 / 3.0) + 0.25) for k in (t, t + 1)]
        return float(ends[1] > ends[0])

    def conversion(self, x: Array) -> float:
        return float(np.clip(self.feature(x) @ self.conversions.theta, 0.0, 1.0))

    def amount(self, x: Array) -> float:
        row = self.feature(x)
        power = self.size_factor * float((row - self.centre) @ self.logs.theta)
        guess = self.middle * math.exp(power)
        return guess + self.mean_factor * (float(row @ self.amounts.theta) - guess)

    def index(self, x: Array) -> float:
        row, m = self.feature(x), self.amounts
        spread = self.conversion_radius * width(self.conversions.V, row)
        if m.unit is None:
            return spread
        optimism = self.radius * width(m.V, row)
        if self.audit:
            top = float(row @ m.theta) + optimism
        else:
            top = self.amount(x) + self.e_m * optimism
        share = float(row @ self.conversions.theta)
        if top < 0.0:
            return top * min(share - spread, 1.0)
        return top * float(np.clip(share + spread, 0.0, 1.0))

    def choose(self, arms: Array) -> int:
        return first_of_largest([self.index(x) for x in arms], TIE)
