"""EpsilonGreedy: mostly the best arm under ridge regression, now and then any arm."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    NO_ARM,
    RADIUS,
    ROUNDS,
    THETA,
    Count,
    Fixed,
    numbered,
)
from heavytail.kernels.one_pass import learn, measure
from heavytail.kernels.random import uniform
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.policies.core.loops import around, select_rows

__all__ = ["EpsilonGreedy"]


class Slots(NamedTuple):
    """EpsilonGreedy's own numbers."""

    KEY: Count
    SHARE: Fixed  # epsilon_t = SHARE t^-DECAY
    DECAY: Fixed
    RADIUS_SCALE: Fixed
    DRAWS: Count  # choices made so far


S: Final = numbered(Slots, after=COMMON)


@jit
def exploration(s: Vector) -> float:
    """The probability that the next round plays any arm."""
    share = s[S.SHARE] * (s[ROUNDS] + 1.0) ** (-s[S.DECAY])
    return min(s[S.RADIUS_SCALE] * share, 1.0)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest x'theta, or any arm, drawn anew each time. O(n d)."""
    best = NO_ARM
    best_mean = -math.inf
    for i in range(arms.shape[0]):
        mean = 0.0
        length = 0.0
        for j in range(arms.shape[1]):
            mean += arms[i, j] * M[THETA, j]
            length += arms[i, j] * arms[i, j]
        if not (length <= s[ARM_LIMIT]):
            return BAD_X
        if mean > best_mean or best < 0:
            best = i
            best_mean = mean
    if best < 0:
        return best
    key = int(s[S.KEY])
    number = int(s[S.DRAWS])
    s[S.DRAWS] += 1.0
    if uniform(key, number, 0) < exploration(s):
        return int(uniform(key, number, 1) * arms.shape[0])
    return best


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Ridge regression."""
    squared = measure(s, M, x)
    return learn(s, M, x.shape[0], squared, reward - predict(M), 1.0, 1.0, math.inf)


class EpsilonGreedy(PackedPolicy):
    r"""Ridge regression, greedy but for a share of rounds that play any arm; O(d² + n d) per round.

    $$\epsilon_t = t^{-1/3}$$

    It has no confidence set, so ``radius`` is 0 and exploration goes to arms known to be bad as
    often as to others. Regret Õ(T^(2/3)) with light tails; nothing bounds what one reward can do.

    >>> import heavytail as ht
    >>> policy = ht.EpsilonGreedy(2, epsilon=0.0)
    >>> policy.update([0.0, 1.0], reward=1.0)
    >>> policy.select([[1.0, 0.0], [0.0, 1.0]])
    1

    Args:
        dim: length of a feature vector.
        epsilon: a constant share instead of the schedule.
        arm_bound: L >= ‖x‖; longer vectors are refused. None accepts any.
        ridge: lambda.
        seed: of its choices.
        radius_scale: multiplies epsilon_t, as it multiplies a radius elsewhere.
    """

    name = "EpsilonGreedy"
    info = Info(
        method="least squares, forced sampling",
        reference="-",
        regret="T^(2/3)",
        cost="O(1)",
        storage="O(1)",
        moment="sub-Gaussian",
        randomised=True,
        sources=("Folklore; the schedule $t^{-1/3}$ is the one with regret $T^{2/3}$."),
    )
    algorithm = Algorithm(
        update=update, select=select, slots=(COMMON, S), key_slot=S.KEY, draws_slot=S.DRAWS
    )

    def __init__(
        self,
        dim: int,
        *,
        epsilon: float | None = None,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        seed: int = 0,
        radius_scale: float = 0.1,
    ) -> None:
        check = self._start(dim, None, None)
        self._allocate(ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf)
        s = self._s
        s[S.SHARE], s[S.DECAY] = 1.0, 1.0 / 3.0
        if epsilon is not None:
            s[S.SHARE], s[S.DECAY] = check.number("epsilon", epsilon, least=0.0, most=1.0), 0.0
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = 0.0
        self.reseed(seed)

    @property
    def epsilon(self) -> float:
        """The probability that the next round plays any arm."""
        return float(exploration(self._s))

    def _chances(self, sets: FloatArray) -> FloatArray:
        count, share, greedy = sets.shape[1], self.epsilon, self._s.copy()
        greedy[S.RADIUS_SCALE] = 0.0
        best = np.empty(len(sets), dtype=np.int64)
        around(select_rows, select=select)((greedy, self._M), np.ascontiguousarray(sets), best)
        return share / count + (1.0 - share) * np.eye(count)[best]
