"""The linear bandit, r = x'theta* + noise: a pool of arms, a part of it, or fresh arms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_choice, check_count, check_flag, check_number
from heavytail.environments.base import BLOCK, Block, Environment
from heavytail.environments.geometry import draw_arms, draw_direction, draw_offers, streams
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
        self.fresh = check_flag("LinearBandit.fresh", fresh)
        self.offered = None if offered is None else check_count("LinearBandit.offered", offered)
        if self.offered is not None and (self.offered > self.arms or self.fresh):
            raise ValueError(
                f"LinearBandit.offered must be at most arms={self.arms}, and not with fresh=True; "
                f"got {offered!r}."
            )
        self.symmetric = noise.symmetric
        self.tail_index = noise.index
        self.fixed_arms = not self.fresh and (self.offered is None or self.offered == self.arms)

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
        return draw_direction(streams(seed, 1)[0], self.dim, self.theta_bound)

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        truth, geometry, noise, factors, offers = streams(seed, 5)
        theta = draw_direction(truth, self.dim, self.theta_bound)
        pool = None if self.fresh else self._arms(geometry, 1)[0]
        while True:
            arms = self._arms(geometry, BLOCK) if pool is None else pool
            eta = self.noise.sample(noise, BLOCK)
            factor = self.noise.factors(factors, BLOCK)
            offered = None
            if self.offered is not None:
                offered = draw_offers(offers, BLOCK, self.arms, self.offered)
            yield Block(
                arms=arms,
                means=arms @ theta,
                noise=eta if factor is None else eta * factor,
                factor=factor,
                offered=offered,
            )

    def _arms(self, rng: np.random.Generator, rounds: int) -> FloatArray:
        shape = rounds, self.arms, self.dim
        return draw_arms(rng, shape, self.arm_bound, together=self.normalize == "max")
