"""The linear bandit, r = x'theta* + noise: a pool of arms, a part of it, or fresh arms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_choice, check_count, check_number
from heavytail.environments.base import BLOCK, Block, Environment
from heavytail.environments.noise import Noise, describe

__all__ = ["LinearBandit"]


class LinearBandit(Environment):
    """Rewards x'theta* + noise; regret is noiseless and against the best arm offered.

    Coordinates of arms and theta* are U[-1, 1], then rescaled: theta* to ‖theta*‖ = theta_bound,
    arms each to length ``arm_bound`` (``normalize="unit"``) or all by the longest (``"max"``).

    >>> import heavytail as ht
    >>> world = ht.LinearBandit(2, arms=50, noise=ht.noise.StudentT(2.1), offered=40)
    >>> world
    LinearBandit(dim=2, arms=50, noise=StudentT(df=2.1), offered=40)

    Args:
        dim: length of a feature vector.
        arms: how many arms there are (in the pool, or new each round).
        noise: one of :mod:`heavytail.noise`.
        theta_bound: the length of theta*.
        arm_bound: the largest length of an arm.
        normalize: "unit" or "max".
        offered: show a random subset of this size each round.
        fresh: draw new arms every round.
    """

    def __init__(
        self,
        dim: int,
        arms: int,
        noise: Noise,
        *,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        normalize: str = "unit",
        offered: int | None = None,
        fresh: bool = False,
    ) -> None:
        self.dim = check_count("LinearBandit.dim", dim)
        self.arms = check_count("LinearBandit.arms", arms)
        if not isinstance(noise, Noise):
            raise TypeError(
                "LinearBandit.noise must be one of heavytail.noise, such as StudentT(2.1); "
                f"got {noise!r}."
            )
        self.noise = noise
        self.theta_bound = check_number("LinearBandit.theta_bound", theta_bound, above=0.0)
        self.arm_bound = check_number("LinearBandit.arm_bound", arm_bound, above=0.0)
        self.normalize = check_choice("LinearBandit.normalize", normalize, ("unit", "max"))
        self.offered = None if offered is None else check_count("LinearBandit.offered", offered)
        if self.offered is not None and (self.offered > self.arms or fresh):
            raise ValueError(
                f"LinearBandit.offered must be at most arms={self.arms}, and not with fresh=True; "
                f"got {offered!r}."
            )
        self.fresh = bool(fresh)
        self.symmetric = noise.symmetric
        self.tail_index = noise.index
        self.fixed_arms = not fresh and (self.offered is None or self.offered == self.arms)

    def __repr__(self) -> str:
        parts = [f"dim={self.dim}", f"arms={self.arms}", f"noise={self.noise!r}"]
        defaults = {
            "theta_bound": 1.0,
            "arm_bound": 1.0,
            "normalize": "unit",
            "offered": None,
            "fresh": False,
        }
        parts += [f"{k}={getattr(self, k)!r}" for k, v in defaults.items() if getattr(self, k) != v]
        return f"LinearBandit({', '.join(parts)})"

    def describe(self) -> dict[str, Any]:
        """The environment as plain data, for results and settings files."""
        keys = ("dim", "arms", "theta_bound", "arm_bound", "normalize", "offered", "fresh")
        return {**{key: getattr(self, key) for key in keys}, "noise": describe(self.noise)}

    def theta(self, seed: np.random.SeedSequence) -> FloatArray:
        """theta* of the trial that ``seed`` deals."""
        return self._theta(np.random.default_rng(_children(seed)[0]))

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        truth, geometry, noise, factors, offers = (
            np.random.default_rng(s) for s in _children(seed)
        )
        theta = self._theta(truth)
        pool = None if self.fresh else self._arms(geometry, 1)[0]
        while True:
            arms = self._arms(geometry, BLOCK) if pool is None else pool
            eta = self.noise.sample(noise, BLOCK)
            factor = self.noise.factors(factors, BLOCK)
            offered = None
            if self.offered is not None:
                offered = _subsets(offers, BLOCK, self.arms, self.offered)
            yield Block(
                arms=arms,
                means=arms @ theta,
                noise=eta if factor is None else eta * factor,
                factor=factor,
                offered=offered,
            )

    def _theta(self, rng: np.random.Generator) -> FloatArray:
        theta = rng.uniform(-1.0, 1.0, self.dim)
        return np.asarray(theta * (self.theta_bound / np.linalg.norm(theta)))

    def _arms(self, rng: np.random.Generator, rounds: int) -> FloatArray:
        arms = rng.uniform(-1.0, 1.0, (rounds, self.arms, self.dim))
        lengths = np.linalg.norm(arms, axis=2, keepdims=True)
        if self.normalize == "max":
            lengths = lengths.max(axis=1, keepdims=True)
        arms *= self.arm_bound / lengths
        return np.asarray(arms)


def _children(seed: np.random.SeedSequence) -> list[np.random.SeedSequence]:
    """One stream each for theta*, arms, noise, factors, offers; none moves another."""
    return [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)) for i in range(5)]


def _subsets(rng: np.random.Generator, rounds: int, arms: int, size: int) -> Any:
    """``rounds`` uniform subsets of ``size`` arms, each in increasing order."""
    ranks = rng.random((rounds, arms)).argpartition(size - 1, axis=1)[:, :size]
    return np.sort(ranks, axis=1).astype(np.int64)
