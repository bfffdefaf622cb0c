"""Bilinear rewards, r = u'Theta v + noise: a new user every round, and items to choose from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_choice, check_count, check_flag, check_number
from heavytail.environments.base import Block, Environment
from heavytail.environments.geometry import streams
from heavytail.environments.noise import Noise, describe

__all__ = ["LowRankBandit"]

FORMS: Final = ("pairs", "matrices")
SHORTER: Final = 256  # rounds of a block: as matrices they take d1 d2 numbers an arm


class LowRankBandit(Environment):
    r"""Rewards u'Theta v + noise, Theta (d1, d2) of rank r; regret is noiseless.

    Every round brings a user, features u of length one, and offers ``arms`` items, features v of
    length one; an arm is the pair, or the matrix u v'. Items are the same in all rounds unless
    ``fresh``. The r singular values of Theta are alike and its singular vectors are drawn
    uniformly.

    >>> import heavytail as ht
    >>> world = ht.LowRankBandit(10, 8, rank=2, arms=20, noise=ht.noise.StudentT(1.7))
    >>> world, world.dim
    (LowRankBandit(d1=10, d2=8, rank=2, arms=20, noise=StudentT(df=1.7)), 18)
    >>> policy = ht.HvtLowRank(10, 8, rank=2, form="pairs")
    >>> found = ht.simulate([policy], world, rounds=100, trials=2, seed=0)

    Args:
        d1: features of a user.
        d2: features of an item.
        rank: of Theta.
        arms: items offered.
        noise: one of :mod:`heavytail.noise`.
        theta_bound: ‖Theta‖_F; sqrt(d1 d2) unless given, which makes rewards of size one.
        form: "pairs", arms (n, d1 + d2); or "matrices", arms (n, d1 d2), row by row: the same
            rounds for policies of plain features.
        fresh: draw new items every round.
    """

    fixed_arms = False

    def __init__(
        self,
        d1: int,
        d2: int,
        rank: int,
        arms: int,
        noise: Noise,
        *,
        theta_bound: float | None = None,
        form: str = "pairs",
        fresh: bool = False,
    ) -> None:
        self.d1 = check_count("LowRankBandit.d1", d1)
        self.d2 = check_count("LowRankBandit.d2", d2)
        most = min(self.d1, self.d2)
        hint = f"No ({self.d1}, {self.d2}) matrix has more than {most}."
        self.rank = check_count("LowRankBandit.rank", rank, most=most, hint=hint)
        self.arms = check_count("LowRankBandit.arms", arms)
        if not isinstance(noise, Noise):
            raise TypeError(
                "LowRankBandit.noise must be one of heavytail.noise, such as StudentT(1.7); "
                f"got {noise!r}."
            )
        self.noise = noise
        self._natural = math.sqrt(self.d1 * self.d2)
        self.theta_bound = self._natural
        if theta_bound is not None:
            self.theta_bound = check_number("LowRankBandit.theta_bound", theta_bound, above=0.0)
        self.form = check_choice("LowRankBandit.form", form, FORMS)
        self.fresh = check_flag("LowRankBandit.fresh", fresh)
        self.dim = self.d1 + self.d2 if self.form == "pairs" else self.d1 * self.d2
        self.symmetric = noise.symmetric
        self.tail_index = noise.index

    def __repr__(self) -> str:
        parts = [f"{key}={getattr(self, key)!r}" for key in ("d1", "d2", "rank", "arms", "noise")]
        defaults = {"theta_bound": self._natural, "form": "pairs", "fresh": False}
        parts += [f"{k}={getattr(self, k)!r}" for k, v in defaults.items() if getattr(self, k) != v]
        return f"LowRankBandit({', '.join(parts)})"

    def describe(self) -> dict[str, Any]:
        """The environment as plain data, for results and settings files."""
        keys = ("d1", "d2", "rank", "arms", "theta_bound", "form", "fresh")
        return {**{key: getattr(self, key) for key in keys}, "noise": describe(self.noise)}

    def theta(self, seed: np.random.SeedSequence) -> FloatArray:
        """Theta of the trial that ``seed`` deals, (d1, d2)."""
        return self._theta(streams(seed, 1)[0])

    def _theta(self, rng: np.random.Generator) -> FloatArray:
        left = np.linalg.qr(rng.normal(size=(self.d1, self.rank)))[0]
        right = np.linalg.qr(rng.normal(size=(self.d2, self.rank)))[0]
        return np.asarray(left @ right.T * (self.theta_bound / math.sqrt(self.rank)))

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        truth, geometry, noise, factors, catalogue = streams(seed, 5)
        theta = self._theta(truth)
        items = _unit(catalogue, (self.arms, self.d2))
        while True:
            users = _unit(geometry, (SHORTER, 1, self.d1)).repeat(self.arms, axis=1)
            if self.fresh:
                items = _unit(catalogue, (SHORTER, self.arms, self.d2))
            shown = np.broadcast_to(items, (SHORTER, self.arms, self.d2))
            eta = self.noise.sample(noise, SHORTER)
            factor = self.noise.factors(factors, SHORTER)
            arms = np.concatenate([users, shown], axis=2)
            if self.form == "matrices":
                arms = (users[..., None] * shown[..., None, :]).reshape(SHORTER, self.arms, -1)
            yield Block(
                arms=np.ascontiguousarray(arms),
                means=np.sum(users @ theta * shown, axis=2),
                noise=eta if factor is None else eta * factor,
                factor=factor,
            )


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Directions, uniform on the sphere."""
    vectors = rng.normal(size=shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
