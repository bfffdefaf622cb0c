"""Arms of the user's own: a linear bandit whose arms are drawn by a class given to it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments.linear_bandit import LinearBandit
from heavytail.environments.noise import Noise

__all__ = ["ArmSet", "ArmSetBandit"]


class ArmSet(ABC):
    """Arms of your own: how many there are (``count``), and how they are drawn."""

    count: int

    @abstractmethod
    def draw(self, rng: np.random.Generator, dim: int) -> FloatArray:
        """The arms, (count, dim), fixed by ``rng``: of a trial, or of a round if arms are fresh."""

    def drawn(self, rng: np.random.Generator, dim: int, longest: float) -> FloatArray:
        """The arms as numbers, or a ValueError if ``draw`` returns anything else."""
        arms = np.asarray(self.draw(rng, dim))
        where, shape = f"{type(self).__name__}.draw", (self.count, dim)
        if arms.shape != shape or arms.dtype.kind not in "fiu" or not np.isfinite(arms).all():
            raise ValueError(
                f"{where} must return finite numbers of shape {shape}, (count, dim); "
                f"got {arms.dtype} of shape {arms.shape}."
            )
        length = float(np.linalg.norm(arms, axis=1).max())
        if length > longest * (1.0 + 1e-9):
            raise ValueError(
                f"{where} must return arms no longer than arm_bound = {longest:g}; got one of "
                f"length {length:g}. Divide the arms by their largest length."
            )
        return arms.astype(float)


class ArmSetBandit(LinearBandit):
    """A :class:`LinearBandit` whose arms are those of an :class:`ArmSet`, not rescaled.

    >>> import heavytail as ht
    >>> class Corners(ht.environments.ArmSet):
    ...     count = 4
    ...
    ...     def draw(self, rng, dim):
    ...         return rng.choice([-1.0, 1.0], (self.count, dim)) / dim**0.5
    >>> world = ht.environments.ArmSetBandit(3, arms=Corners(), noise=ht.noise.Gaussian())
    >>> ht.simulate([ht.Uniform(3)], world, rounds=50, trials=2, seed=0)["Uniform"].regret.shape
    (2, 50)

    Args:
        dim: length of a feature vector.
        arms: the arms.
        noise: one of :mod:`heavytail.noise`, or a subclass of ``heavytail.noise.Noise``.
        theta_bound: the length of theta*.
        arm_bound: the largest length of an arm.
        offered: show a random subset of this size each round.
        fresh: draw new arms every round.
    """

    def __init__(
        self,
        dim: int,
        arms: ArmSet,
        noise: Noise,
        *,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        offered: int | None = None,
        fresh: bool = False,
    ) -> None:
        if not isinstance(arms, ArmSet):
            raise TypeError(f"ArmSetBandit.arms must be an ArmSet; got {arms!r}.")
        super().__init__(
            dim,
            arms.count,
            noise,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            offered=offered,
            fresh=fresh,
        )
        self.arm_set = arms

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, arm_set={self.arm_set!r})".replace(
            "LinearBandit(", "ArmSetBandit(", 1
        )

    def _arms(self, rng: np.random.Generator, rounds: int) -> FloatArray:
        sets = (self.arm_set.drawn(rng, self.dim, self.arm_bound) for _ in range(rounds))
        return np.stack(list(sets))
