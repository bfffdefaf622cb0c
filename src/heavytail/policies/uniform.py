"""Uniform: every arm alike. What learning must beat."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.gram import squared_norm
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    NO_ARM,
    OK,
    ROUNDS,
    Count,
    numbered,
)
from heavytail.kernels.random import uniform
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info

__all__ = ["Uniform"]


class Slots(NamedTuple):
    """Uniform's own numbers."""

    KEY: Count
    DRAWS: Count  # choices made so far


S: Final = numbered(Slots, after=COMMON)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """A uniform arm, fixed by the key and the number of choices before it."""
    for i in range(arms.shape[0]):
        if not (squared_norm(arms[i]) <= s[ARM_LIMIT]):
            return BAD_X
    if arms.shape[0] == 0:
        return NO_ARM
    number = int(s[S.DRAWS])
    s[S.DRAWS] += 1.0
    return int(uniform(int(s[S.KEY]), number, 0) * arms.shape[0])


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Count the round."""
    s[ROUNDS] += 1.0
    return OK


class Uniform(PackedPolicy):
    """Plays every arm with equal probability and learns nothing. O(n) per round.

    Args:
        dim: length of a feature vector.
        seed: of its choices; the same seed makes the same choices.
    """

    name = "Uniform"
    info = Info(
        method="none",
        reference="-",
        regret="T",
        cost="O(1)",
        storage="O(1)",
        moment="none",
        randomised=True,
        sources=("Plays any arm. What learning must beat."),
    )
    algorithm = Algorithm(
        update=update, select=select, slots=(COMMON, S), key_slot=S.KEY, draws_slot=S.DRAWS
    )

    def __init__(self, dim: int, *, seed: int = 0) -> None:
        self._start(dim, None, None)
        self._allocate(ridge=1.0, arm_bound=None, theta_bound=np.inf)
        self.reseed(seed)

    def _chances(self, sets: FloatArray) -> FloatArray:
        return np.full(sets.shape[:2], 1.0 / sets.shape[1])

    def _score(self, x: FloatArray) -> None:
        return None
