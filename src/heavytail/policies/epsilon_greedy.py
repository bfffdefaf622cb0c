"""EpsilonGreedy: mostly the best arm under ridge regression, now and then any arm."""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_count, check_number
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import ARM_LIMIT, BAD_X, NO_ARM, OK, OWN, RADIUS, ROUNDS, THETA
from heavytail.kernels.one_pass import admit, learn, measure
from heavytail.kernels.random import uniform
from heavytail.policies.base import PackedPolicy
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["EpsilonGreedy"]

KEY: Final = OWN
EPSILON: Final = OWN + 1  # negative: the schedule t^(-1/3)
RADIUS_SCALE: Final = OWN + 2
DRAWS: Final = OWN + 3  # choices made so far
SLOTS: Final = OWN + 4


@jit
def exploration(s: Vector) -> float:
    """The probability that the next round plays any arm."""
    share = s[EPSILON]
    if share < 0.0:
        share = (s[ROUNDS] + 1.0) ** (-1.0 / 3.0)
    return min(s[RADIUS_SCALE] * share, 1.0)


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
    key = int(s[KEY])
    number = int(s[DRAWS])
    s[DRAWS] += 1.0
    if uniform(key, number, 0) < exploration(s):
        return int(uniform(key, number, 1) * arms.shape[0])
    return best


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Ridge regression."""
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    squared = measure(s, M, x)
    return learn(s, M, x.shape[0], squared, reward - predict(M), 1.0, 1.0, math.inf)


class EpsilonGreedy(PackedPolicy):
    r"""Ridge regression, greedy but for a share of rounds that play any arm; O(d² + n d) a round.

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
        tail: ignored, so that all policies can be built alike.
        horizon: ignored likewise.
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
    )
    select_kernel = staticmethod(select)
    update_kernel = staticmethod(update)
    key_slot = KEY

    def __init__(
        self,
        dim: int,
        *,
        epsilon: float | None = None,
        tail: MomentBound | None = None,
        horizon: int | None = None,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        seed: int = 0,
        radius_scale: float = 0.1,
    ) -> None:
        self._start(dim, tail, None)
        self._allocate(SLOTS, ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf)
        s = self._s
        s[EPSILON] = -1.0
        if epsilon is not None:
            s[EPSILON] = check_number("EpsilonGreedy.epsilon", epsilon, least=0.0, most=1.0)
        s[RADIUS_SCALE] = check_number("EpsilonGreedy.radius_scale", radius_scale, least=0.0)
        s[RADIUS] = 0.0
        self.reseed(seed)

    @property
    def epsilon(self) -> float:
        """The probability that the next round plays any arm."""
        return float(exploration(self._s))

    def reseed(self, seed: int) -> None:
        self._s[KEY] = check_count("EpsilonGreedy.seed", seed, least=0) % 2**53
        self._s[DRAWS] = 0.0
