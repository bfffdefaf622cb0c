"""The twin of Twin-UCB: lists of all rounds, V itself, and every regression from its rows."""

from __future__ import annotations

import math

import numpy as np
from tests.naive.common import TIE, Array, first_of_largest, width
from tests.naive.practice import HvtPractice, Threshold
from tests.naive.regression import Regression

CLIP, NORMAL = 1.345, 1.4826


class Sizes:
    """log |residual| by x and by a constant, and how far the slopes are believed."""

    def __init__(self, dim: int, ridge: float) -> None:
        self.dim, self.by_x = dim, Regression(dim + 1, ridge)
        self.forget()

    def forget(self) -> None:
        self.by_x.zero()
        self.values: list[float] = []
        self.weights: list[float] = []
        self.kappa = self.mean = 0.0

    def factor(self, x: Array) -> float:
        """exp of kappa gamma'x, at most e³ and at least e^-3."""
        return math.exp(float(np.clip(self.kappa * x @ self.by_x.theta[: self.dim], -3.0, 3.0)))

    def learn(self, row: Array, y: float) -> None:
        n = sum(self.weights)
        most = 2.5 if n > 20.0 else math.inf
        self.by_x.learn(row, y, most)
        mean = float(np.average(self.values, weights=self.weights)) if n > 0.0 else self.mean
        self.values.append(mean + float(np.clip(y - mean, -most, most)))
        self.weights.append(1.0)
        if n <= self.dim:
            return
        self.mean = float(np.average(self.values, weights=self.weights))
        total = float(np.array(self.weights) @ (np.array(self.values) - self.mean) ** 2)
        rest = max(self.by_x.energy - self.by_x.stability, 0.0)
        explained, chance = total - rest, 4.0 * self.dim * rest / (n - self.dim)
        self.kappa = 1.0 - chance / explained if explained > chance else 0.0

    def fade(self, coordinate: int, weight: float, factor: float) -> None:
        self.by_x.fade(coordinate, weight, factor)
        if factor == 0.0:
            self.values, self.weights = [], []
        self.weights = [factor * w for w in self.weights]


class TwinUCB(HvtPractice):
    """The mean of an amount and its bulk on one V, conversion and the judge on all rounds."""

    def __init__(
        self,
        dim: int,
        *,
        order: float = 2.0,
        scale: float | None = None,
        arm_bound: float = 1.0,
        patience: float = 1.0,
    ) -> None:
        super().__init__(dim, scale=scale, arm_bound=arm_bound, exploration=0.65)
        self.threshold = Threshold(CLIP, dim + 1, logs=0.3)
        self.patience, self.centre, self.unit = patience, 0.0, 0.0
        self.bulk_all = np.zeros(dim + 1)
        self.bulk_squares: list[float] = []
        self.bulk_stability: list[float] = []
        self.apart: list[float] = []
        self.played: list[Array] = []
        self.conversions = Regression(dim + 1, self.ridge)
        self.judge = Regression(dim + 1, self.ridge)
        self.noise = Sizes(dim, self.ridge)
        self.zeros = 0.0
        self.kinds: set[float] = set()  # rewards other than 0
        self.missed = 0.0  # rewards that were expected where 0 came
        self.share = self.due = self.held = self.most_hope = 0.0
        self.ratio = 1.0
        self.log_t = 1.0
        self.turned = False
        self.audit = self.audits = 0

    # --- a round

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.observe(x, reward, scale or self.nu)
        self.take_turn()

    def observe(self, x: Array, reward: float, nu: float) -> None:
        self.rounds += 1
        row = self.feature(x)
        if self.typical is None:
            self.begin(row, reward, nu)
            return
        if reward != 0.0:
            self.kinds.add(reward)
        else:
            self.missed += float(np.clip(row @ self.conversions.theta, 0.0, 1.0))
        if reward != 0.0:
            self.pay(row, reward, nu)
        self.zeros += reward == 0.0
        self.conversions.learn(row, float(reward != 0.0))
        self.judge.learn(row, self.as_judged(reward))

    def as_judged(self, reward: float) -> float:
        """Within as many units of the centre as there were rounds, or 100."""
        centre, most = self.centre * self.mean_nu, max(self.rounds, 100) * self.unit * self.mean_nu
        return float(np.clip(reward, centre - most, centre + most))

    def begin(self, feature: Array, reward: float, nu: float) -> None:
        self.V = self.V + np.outer(feature, feature) / max(1.0, width(self.V, feature)) ** 2
        self.zeros += reward == 0.0
        if reward != 0.0:
            self.first.append(float(np.clip(reward / nu, -1e300, 1e300)))
            self.first_nu.append(nu)
        if len(self.first) < 5:
            return
        middle = float(np.median(self.first))
        nu = float(np.mean(self.first_nu))
        span, alike = np.ptp(self.first), max(map(self.first.count, self.first)) > 2
        if self.zeros > 0.0 or abs(middle * nu) > 1e70:
            middle = 0.0
        if alike and not 0.0 < 1e4 * span < abs(middle):
            middle = 0.0
        sizes = sorted(abs(value - middle) for value in self.first)
        apart = next(size for size in sizes[2:] if size > 0.0)
        self.centre = middle
        self.settle(float(np.clip(10.0 * apart * nu, 1e-70, 1e70) / nu))
        self.centre_all()
        self.turned = False

    def centre_all(self) -> None:
        """Mean and bulk begin at the centre, and the judge as if all its rows had said that."""
        start = np.append(np.zeros(self.dim), self.centre * self.mean_nu / self.constant)
        self.theta_all, self.bulk_all = start, start
        self.judge.y = self.judge.X @ start

    def pay(self, row: Array, reward: float, nu: float) -> None:
        assert self.typical is not None
        before = self.V
        mean, expected = float(row @ self.theta_all), float(row @ self.bulk_all)
        factor, tau = self.noise.factor(row[:-1]), self.tau
        self.step(row, reward - mean, nu * factor)
        z, y = np.array([reward - mean, reward - expected]) / self.sigma
        psi = float(np.clip(y, -CLIP, CLIP))
        gradient = psi / self.sigma * row
        self.bulk_all = self.bulk_all + np.linalg.solve(self.V, gradient)
        self.bulk_squares.append(psi**2)
        leverage = (width(before, row) / self.sigma) ** 2
        self.bulk_stability.append(psi**2 * leverage / (1.0 + leverage))
        self.apart.append((float(np.clip(z, -tau, tau)) - psi) ** 2)
        self.played.append(row)
        size = abs(reward - expected) / nu
        floor = 0.1 * self.typical.value * factor
        self.noise.learn(row, math.log(min(max(size, floor) / self.unit, 1e300)))
        self.watch(reward, size / factor)
        self.now, self.gone = reward / nu, abs(reward / nu) < abs(self.centre) / 1000.0
        self.doubt(abs(reward / nu - (0.0 if self.gone else self.centre)))

    def begin_again(self, unit: float) -> None:
        super().begin_again(unit)
        self.bulk_squares, self.bulk_stability, self.apart, self.played = [], [], [], []
        last = self.doubts.last
        if max(last) < 2.0 * min(last) and abs(self.now * self.mean_nu) <= 1e70:
            self.centre = self.now
        elif self.gone:
            self.centre = 0.0
        self.centre_all()
        self.noise.forget()
        self.turned = False

    # --- whose turn it is

    @property
    def amounts(self) -> float:
        """How many the mean is made of."""
        return len(self.squares) if self.typical is not None else self.rounds

    def beta(self, exploration: float, squares: list[float], stability: list[float]) -> float:
        return self.read_off(exploration, sum(squares), sum(stability), self.amounts)

    def read_off(self, exploration: float, energy: float, stability: float, t: float) -> float:
        """exploration sqrt(lambda / L² + G + rho log(sqrt(1 + t) / delta))."""
        rho, sure = (1.0 + energy) / (1.0 + t), self.log_inverse + 0.5 * math.log(1.0 + t)
        return exploration * math.sqrt(self.ridge / self.constant**2 + stability + rho * sure)

    def take_turn(self) -> None:
        if self.unit == 0.0:
            return
        if self.rounds % 32 == 0 or not self.turned:
            self.turned = True
            t = self.amounts + self.zeros
            self.log_t = math.log(t + math.e)
            nu = getattr(self, "mean_nu", 0.0)
            typical = 0.0 if self.typical is None else self.typical.value
            self.held = 30.0 * NORMAL * typical * nu / self.log_t
            self.most_hope = 40.0 * self.unit * nu / self.log_t
            ratio = self.mean_over_bulk if self.zeros > 0.0 else 1.0
            evidence = 1.0
            contrasts = self.hausman(1.0), self.hausman(ratio)
            self.ratio = ratio if contrasts[1] < contrasts[0] else 1.0
            if t >= 150 * (self.dim + 1):
                evidence = float(np.clip((min(contrasts) / (3.0 * self.dim)) ** 2, 0.2, 4.0))
            self.share = min(3.0 * (t + 1.0) ** (-1.0 / 3.0) * evidence, 0.7)
        self.due += self.share
        self.audit = 0
        if self.due >= 1.0:
            self.due -= 1.0
            self.audits += 1
            self.audit = 1 + (self.audits - 1) % 4

    @property
    def mean_over_bulk(self) -> float:
        """How the two compare at the average of what paid, if they have one sign."""
        mean, typical = float(self.middle @ self.theta_all), float(self.middle @ self.bulk_all)
        if mean * typical <= 0.0 or not 0.05 < mean / typical < 20.0:
            return 1.0
        return mean / typical

    def hausman(self, ratio: float) -> float:
        apart = sum(self.apart) / max(self.amounts, 1.0)
        if apart < 1e-20:
            return 0.0
        block = np.linalg.inv(self.V)[: self.dim, : self.dim]
        D = (self.theta_all - ratio * self.bulk_all)[: self.dim]
        return float(D @ np.linalg.solve(block, D)) / apart

    # --- the choice

    @property
    def bulk(self) -> Array:
        return self.bulk_all[: self.dim]

    @property
    def middle(self) -> Array:
        """The weighted average of what paid."""
        if sum(self.weights) == 0.0:
            return np.zeros(self.dim + 1)
        return np.asarray(np.average(self.played, axis=0, weights=self.weights))

    @property
    def shift(self) -> float:
        apart = self.theta_all - self.ratio * self.bulk_all
        return float(apart[: self.dim] @ self.middle[: self.dim])

    @property
    def theta(self) -> Array:
        slopes = self.theta_all
        if self.zeros > 0.0:
            q, middle = self.conversions.theta, self.middle
            slopes = np.clip(q @ middle, 0.0, 1.0) * slopes + (slopes @ middle) * q
        return np.asarray(slopes[: self.dim])

    @property
    def conversion_radius(self) -> float:
        q = self.conversions
        return self.read_off(0.45, q.energy, q.stability, self.amounts + self.zeros)

    def index(self, x: Array) -> float:
        row = self.feature(x)
        known = width(self.V, row)
        if self.typical is None:
            return known
        beta = self.beta(1.0, self.squares, self.stability)
        worth, radius = float(row @ self.theta_all), 0.65 * beta
        if not self.audit:
            reach = 0.12 * beta * known
            typical = self.ratio * float(x @ self.bulk) + self.shift
            typical += float(self.theta_all[-1] * row[-1])
            worth = float(np.clip(typical, worth - reach, worth + reach))
            radius = self.beta(0.45, self.bulk_squares, self.bulk_stability)
        hope = radius * known
        if self.zeros > 0.0:
            chance = self.conversion(x)
            tried = width(self.conversions.V, row)
            spread = self.conversion_radius * tried
            plain = 0.5 * self.unit * self.mean_nu * tried
            hope = math.hypot(spread * worth, min(min(chance + spread, 1.0) * hope, plain))
            worth *= chance
        if not self.audit:
            judged = float(row @ self.judge.theta)
            worth = float(np.clip(worth, judged - self.held, judged + self.held))
            hope = min(hope, self.most_hope)
        elif self.audit == 4:
            worth = max(worth, float(row @ self.judge.theta))
        return worth + hope

    def conversion(self, x: Array) -> float:
        if self.zeros == 0.0:
            return 1.0
        return float(np.clip(self.feature(x) @ self.conversions.theta, 0.0, 1.0))

    def amount(self, x: Array) -> float:
        return float(self.feature(x) @ self.theta_all)

    def overdue(self, x: Array) -> float:
        tried = width(self.conversions.V, self.feature(x)) ** 2
        looks = 0.2 * self.patience * self.log_t**2
        clicks = len(self.kinds) < 2 and self.missed > 0.5 * math.sqrt(self.rounds)
        if self.zeros > 0.0 and self.conversion(x) * (1.0 + TIE) < 3.0 * tried and not clicks:
            looks *= 10.0
        return looks * tried

    def choose(self, arms: Array) -> int:
        if self.audit:
            late = [self.overdue(x) for x in arms]
            if max(late) > 1.0:
                return first_of_largest([k if k > 1.0 else 0.0 for k in late], TIE)
        return first_of_largest([self.index(x) for x in arms], TIE)
