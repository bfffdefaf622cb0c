"""The twin of the practical mode: Hvt-UCB as it is by default."""

from __future__ import annotations

import math

import numpy as np
from tests.naive.common import Array, width
from tests.naive.one_pass import Mirror


class Threshold:
    """tau of sum min(z², tau²) = tau² (m + logs log n), from the list of all sizes.

    Sizes up to the floor are one bin, the others half an octave each; of a bin, its sizes' squares
    count in full up to the edge below which tau is found. Anew every 32nd size, and after one
    beyond tau.
    """

    def __init__(self, floor: float, coordinates: int, logs: float = 1.0) -> None:
        self.floor, self.m, self.tau, self.logs = floor, coordinates, floor, logs
        self.sizes: list[float] = []

    def fresh(self) -> Threshold:
        return type(self)(self.floor, self.m, self.logs)

    def learn(self, size: float) -> None:
        self.sizes.append(size)
        n = len(self.sizes)
        if size <= self.tau and n % 32 != 0:
            return
        squares = np.minimum(np.array(self.sizes) / self.floor, 1e150) ** 2
        need = self.m + self.logs * math.log(n)
        for k in range(63):
            above = np.sum(squares > 2.0**k)
            below = np.sum(squares[squares <= 2.0**k])
            if need > above and below <= 2.0**k * (need - above):
                self.tau = self.floor * math.sqrt(max(below / (need - above), 1.0))
                return
        self.tau = self.floor * 2.0**31


class TypicalSize:
    """The running median of |residual| / nu_t, followed by equal steps of its logarithm.

    Of the rounds that tell: rewards of exactly 0 do not while they lead by 16 votes, which they
    are given to begin with. A step is 2/(k + 5) in the k-th telling round, at most 1/2, at least
    0.002. Up to the 64th, the sixth and later steps in one direction are 2, 4, 8, ..., 1024 times
    as long, not past the extreme size of the run.
    """

    def __init__(self, scale: float, floor: float, zero_votes: int) -> None:
        self.value, self.floor, self.told, self.zero_votes = scale / 1.4826, floor, 5, zero_votes
        self.run: list[float] = []
        self.up = False

    def learn(self, reward: float, size: float) -> None:
        if not (reward == 0.0 and self.zero_votes >= 16):
            self._step(size)
        ahead = self.zero_votes + (1 if reward == 0.0 else -1)
        self.zero_votes = int(np.clip(ahead, 0, 1000))

    def _step(self, size: float) -> None:
        self.told += 1
        up = size > self.value
        self.run = [*self.run, size] if self.run and up == self.up else [size]
        self.up = up
        length = float(np.clip(2.0 / (self.told + 5), 0.002, 0.5))
        moved = float(np.clip(self.value * math.exp(length if up else -length), self.floor, 1e100))
        longer = len(self.run) - 5
        if self.told <= 64 and longer > 0:
            leap = self.value * (moved / self.value) ** (2.0 ** min(longer, 10))
            if up:
                moved = max(moved, min(leap, min(self.run)))
            else:
                moved = min(moved, max(leap, max(self.run)))
        self.value = float(np.clip(moved, self.floor, 1e100))


class Doubts:
    """Votes of rewards 1,000 times as small or as large as a tenth of the unit: a small one has one
    vote, which any other takes back fourfold, a large one four, of which any other takes one. After
    32 small ones, or large ones, net, the unit is ten times the median of the last five; the next
    time it takes twice as many, and after ten times the unit stays.
    """

    def __init__(self) -> None:
        self.votes, self.times, self.last = 0, 0, [0.0][:0]

    def learn(self, size: float, unit: float, nu: float) -> float | None:
        if size == 0.0 or self.times == 10:
            return None
        size = float(np.clip(size * nu, 1e-70, 1e70) / nu)
        large, small = size > 100.0 * unit, size < 1e-4 * unit
        if (large and self.votes >= 0) or (small and self.votes <= 0):
            self.last = [*self.last, size][-5:]
            self.votes += 4 if large else -1
        elif self.votes > 0:
            self.votes -= 1
        else:
            self.votes = min(self.votes + 4, 0)
        wanted = 32 * 2**self.times
        if -wanted < self.votes < 4 * wanted:
            return None
        self.votes, self.times = 0, self.times + 1
        return float(np.clip(10.0 * float(np.median(self.last)) * nu, 1e-70, 1e70) / nu)


class HvtPractice(Mirror):
    """Hvt-UCB as it is by default: unit, scale, threshold and radius read off the rewards."""

    def __init__(
        self,
        dim: int,
        *,
        order: float = 2.0,
        scale: float | None = None,
        horizon: int | None = None,
        theta_bound: float = math.inf,
        arm_bound: float = 1.0,
        exploration: float = 0.7,
        alpha: float = 1.0,
        clip: float | None = None,
        ridge: float | None = None,
        delta: float = 0.01,
        intercept: bool = True,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
    ) -> None:
        ridge = dim / 100.0 * arm_bound**2 if ridge is None else ridge
        super().__init__(dim, ridge, theta_bound, extra=int(intercept))
        self.constant, self.alpha = arm_bound, alpha
        self.nu = 1.0 if scale is None else scale
        self.exploration, self.factor = exploration, radius_scale
        self.log_inverse = math.log(1.0 / delta)
        self.resolution = 3e-7 * arm_bound / math.sqrt(ridge)
        floor = threshold_scale * (1.345 if clip is None else clip)
        self.threshold = Threshold(floor, len(self.V))
        self.fixed = clip is not None
        self.sigma = 0.0
        self.squares: list[float] = []  # of the clipped residuals, in units of sigma
        self.stability: list[float] = []
        self.sizes: list[float] = []  # residuals in units of the scale believed
        self.weights: list[float] = []
        self.clipped = self.pressed = 0
        self.first: list[float] = []
        self.first_nu: list[float] = []
        self.zero_votes = 16
        self.doubts = Doubts()
        self.typical: TypicalSize | None = None
        self.stated = scale is not None

    def settle(self, unit: float) -> None:
        self.unit = unit
        self.mean_nu = float(np.mean(self.first_nu))
        self.V = self.ridge / (unit * self.mean_nu) ** 2 * np.eye(len(self.V))
        self.typical = TypicalSize(1.0 if self.stated else unit, 1e-9 * unit, self.zero_votes)

    def doubt(self, size: float) -> None:
        unit = self.doubts.learn(size, self.unit, self.mean_nu)
        if unit is not None:
            self.begin_again(unit)

    def begin_again(self, unit: float) -> None:
        """All from nothing, but for how often rewards were 0."""
        assert self.typical is not None
        self.zero_votes, self.stated = self.typical.zero_votes, False
        self.settle(unit)
        self.theta_all = np.zeros(len(self.V))
        self.threshold = self.threshold.fresh()
        self.squares, self.stability, self.sizes, self.weights = [], [], [], []
        self.pressed, self.sigma = 0, 0.0

    @property
    def tau(self) -> float:
        return self.threshold.tau

    def beta(self, exploration: float, squares: list[float], stability: list[float]) -> float:
        t = len(squares)
        mean_square = (1.0 + sum(squares)) / (1.0 + t)
        sure = self.log_inverse + 0.5 * math.log(1.0 + t)
        prior = self.ridge / self.constant**2
        return self.factor * exploration * math.sqrt(prior + sum(stability) + mean_square * sure)

    @property
    def radius(self) -> float:  # type: ignore[override]
        return self.beta(self.exploration, self.squares, self.stability)

    @property
    def intercept(self) -> float:
        return float(self.theta_all[-1] * self.constant) if len(self.V) > self.dim else 0.0

    def begin(self, feature: Array, reward: float, nu: float) -> None:
        """Before the unit is known: arms are spread, and the fifth reward that tells sets it."""
        sigma = max(1.0, width(self.V, feature))
        self.V = self.V + np.outer(feature, feature) / sigma**2
        if not (reward == 0.0 and self.zero_votes >= 16):
            self.first.append(abs(reward) / nu)
            self.first_nu.append(nu)
        ahead = self.zero_votes + (1 if reward == 0.0 else -1)
        self.zero_votes = int(np.clip(ahead, 0, 1000))
        if len(self.first) == 5:
            nu = np.mean(self.first_nu)
            self.settle(float(np.clip(10.0 * np.median(self.first) * nu, 1e-70, 1e70) / nu))

    def learn(self, x: Array, reward: float, scale: float | None = None) -> None:
        self.rounds += 1
        nu = scale or self.nu
        feature = self.feature(x)
        if self.typical is None:
            self.begin(feature, reward, nu)
            return
        residual = reward - float(feature @ self.theta_all)
        self.step(feature, residual, nu)
        self.watch(reward, abs(residual) / nu)
        self.doubt(abs(reward) / nu)

    def step(self, feature: Array, residual: float, nu: float) -> None:
        assert self.typical is not None
        n = width(self.V, feature)
        finest = self.resolution * self.unit * self.mean_nu * math.sqrt(len(self.squares) + 1)
        sigma = max(nu * 1.4826 * self.typical.value, n, finest)
        z = residual / sigma if n > 0.0 else 0.0
        psi = math.copysign(min(abs(z), self.tau), z)
        gradient = -psi / sigma * feature
        weight = 1.0 / (self.alpha * sigma**2)
        free = self.theta_all - np.linalg.solve(
            self.V + weight * np.outer(feature, feature), gradient
        )
        self.stability.append(self.descend(feature, gradient, weight))
        if np.linalg.norm(free[: self.dim]) > self.theta_bound:
            self.pressed += 1
            if self.pressed == 32:
                self.theta_bound, self.pressed = 10.0 * self.theta_bound, 0
        else:
            self.pressed = max(self.pressed - 1, 0)
        self.squares.append(psi**2)
        self.weights.append(sigma**-2.0)
        self.clipped += abs(z) > self.tau
        self.sigma = sigma
        if not self.fixed:
            self.threshold.learn(abs(z))

    def watch(self, reward: float, size: float) -> None:
        assert self.typical is not None
        self.sizes.append(size / (1.4826 * self.typical.value))
        self.typical.learn(reward, size)

    def diagnostics(self) -> dict[str, float]:
        """What a dashboard is shown."""
        beyond = [sum(size > k for size in self.sizes) for k in (4.0, 16.0)]
        index = math.log(beyond[0] / beyond[1]) / math.log(4.0) if beyond[1] else math.inf
        weights = np.array(self.weights)
        return {
            "clipped_share": self.clipped / self.rounds,
            "threshold": self.tau * self.sigma,
            "scale": self.mean_nu * 1.4826 * self.typical.value
            if self.typical
            else self.nu * self.stated,
            "effective_samples": float(weights.sum() ** 2 / (weights**2).sum())
            if self.weights
            else 0.0,
            "tail_index": index,
        }
