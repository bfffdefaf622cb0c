"""Uniform: every arm alike. What learning must beat."""

from __future__ import annotations

from typing import Final

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_count
from heavytail.kernels.gram import squared_norm
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import ARM_LIMIT, BAD_X, NO_ARM, OK, OWN, ROUNDS
from heavytail.kernels.one_pass import admit
from heavytail.kernels.random import uniform
from heavytail.policies.base import PackedPolicy
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["Uniform"]

KEY: Final = OWN
DRAWS: Final = OWN + 1  # choices made so far
SLOTS: Final = OWN + 2


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """A uniform arm, fixed by the key and the number of choices before it."""
    for i in range(arms.shape[0]):
        if not (squared_norm(arms[i]) <= s[ARM_LIMIT]):
            return BAD_X
    if arms.shape[0] == 0:
        return NO_ARM
    number = int(s[DRAWS])
    s[DRAWS] += 1.0
    return int(uniform(int(s[KEY]), number, 0) * arms.shape[0])


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Count the round."""
    code = admit(s, M, x, reward, nu)
    if code == OK:
        s[ROUNDS] += 1.0
    return code


class Uniform(PackedPolicy):
    """Plays every arm with equal probability and learns nothing. O(n) a round.

    Args:
        dim: length of a feature vector.
        seed: of its choices; the same seed makes the same choices.
        tail: ignored, so that all policies can be built alike.
        horizon: ignored likewise.
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
    )
    select_kernel = staticmethod(select)
    update_kernel = staticmethod(update)
    key_slot = KEY

    def __init__(
        self,
        dim: int,
        *,
        seed: int = 0,
        tail: MomentBound | None = None,
        horizon: int | None = None,
    ) -> None:
        self._start(dim, tail, None)
        self._allocate(SLOTS, ridge=1.0, arm_bound=None, theta_bound=np.inf)
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        self._s[KEY] = check_count("Uniform.seed", seed, least=0) % 2**53
        self._s[DRAWS] = 0.0
