"""LinTS: Agrawal and Goyal (ICML 2013), Thompson sampling with linear payoffs."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    INVERSE,
    NO_ARM,
    OK,
    RADIUS,
    ROUNDS,
    SCRATCH,
    THETA,
    Count,
    Fixed,
    numbered,
)
from heavytail.kernels.one_pass import learn, measure
from heavytail.kernels.random import normal
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["LinTS"]


class Slots(NamedTuple):
    """LinTS's own numbers."""

    KEY: Count
    NOISE_SCALE: Fixed
    LOG_INVERSE_DELTA: Fixed
    RADIUS_SCALE: Fixed
    DRAWS: Count  # choices made so far


S: Final = numbered(Slots, after=COMMON)


@jit
def linear_thompson_scale(
    t: float, dim: float, noise_scale: float, log_inverse_delta: float
) -> float:
    """R sqrt(9 d log(t/delta)): the width of the draw in round t, for R-sub-Gaussian noise.

    Agrawal and Goyal (ICML 2013).
    """
    return noise_scale * math.sqrt(9.0 * dim * (math.log(t) + log_inverse_delta))


@jit
def draw(s: Vector, M: Matrix) -> None:
    """SCRATCH <- theta + v L z, where P = L L' and z is standard normal, fixed by key and DRAWS.

    L goes into the room behind P, which no state remembers. O(d³/3).
    """
    size = M.shape[1]
    L = INVERSE + size
    for i in range(size):
        for j in range(i + 1):
            total = M[INVERSE + i, j]
            for k in range(j):
                total -= M[L + i, k] * M[L + j, k]
            if i == j:
                M[L + i, i] = math.sqrt(max(total, 0.0))
            elif M[L + j, j] > 0.0:
                M[L + i, j] = total / M[L + j, j]
            else:
                M[L + i, j] = 0.0
    key = int(s[S.KEY])
    number = int(s[S.DRAWS])
    for i in range(size):
        M[SCRATCH, i] = M[THETA, i]
    for k in range(size):
        z = s[RADIUS] * normal(key, number, k)
        for i in range(k, size):
            M[SCRATCH, i] += M[L + i, k] * z


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm best under a theta drawn from N(theta_t, v² V_t^-1). O(d³ + n d)."""
    draw(s, M)
    best = NO_ARM
    best_mean = -math.inf
    for i in range(arms.shape[0]):
        mean = 0.0
        length = 0.0
        for j in range(arms.shape[1]):
            mean += arms[i, j] * M[SCRATCH, j]
            length += arms[i, j] * arms[i, j]
        if not (length <= s[ARM_LIMIT]):
            return BAD_X
        if mean > best_mean or best < 0:
            best = i
            best_mean = mean
    if best >= 0:
        s[S.DRAWS] += 1.0
    return best


@jit
def current_radius(s: Vector, dim: int) -> float:
    """v_{t+1}, with radius_scale."""
    t = s[ROUNDS] + 1.0
    scale = linear_thompson_scale(t, float(dim), s[S.NOISE_SCALE], s[S.LOG_INVERSE_DELTA])
    return s[S.RADIUS_SCALE] * scale


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Ridge regression."""
    squared = measure(s, M, x)
    code = learn(s, M, x.shape[0], squared, reward - predict(M), 1.0, 1.0, math.inf)
    if code == OK:
        s[RADIUS] = current_radius(s, x.shape[0])
    return code


class LinTS(PackedPolicy):
    r"""Thompson sampling with ridge regression: the randomised baseline for light tails.

    $$\tilde\theta_t \sim \mathcal N\left(\hat\theta_t,\ v_t^2 V_t^{-1}\right),\qquad
      v_t = R\sqrt{9d\log\tfrac t\delta},\qquad
      x_t = \operatorname*{argmax}_x x^\top\tilde\theta_t$$

    For R-sub-Gaussian noise the regret is Õ(d^(3/2) sqrt(T)) with probability 1 - delta at
    ``radius_scale=1``. Nothing bounds what one reward can do, as in :class:`heavytail.OFUL`.
    O(d³ + n d) per round. Every choice draws anew, also while rewards are late: a draw is fixed by
    the seed and by how many came before it.

    >>> import heavytail as ht
    >>> policy = ht.LinTS(2, noise_scale=0.1, seed=1)
    >>> policy.update([1.0, 0.0], reward=0.5)
    >>> policy.theta
    array([0.25, 0.  ])

    Args:
        dim: length of a feature vector.
        noise_scale: R; ``tail.scale`` where only ``tail`` is given.
        tail: taken for its scale alone, so that all policies can be built alike.
        horizon: T, for delta = 1/T; 0.01 without it.
        arm_bound: L >= ‖x‖; longer vectors are refused. None accepts any.
        ridge: lambda.
        delta: failure probability.
        seed: of its draws.
        radius_scale: multiplies v_t; 1 is the theory, 0 plays the best arm under the estimate.
    """

    name = "LinTS"
    info = Info(
        method="least squares, sampling",
        reference="Agrawal and Goyal 2013",
        regret="d^(3/2) sqrt(T)",
        cost="O(1)",
        storage="O(1)",
        moment="sub-Gaussian",
        randomised=True,
        sources=(r"*Certain*: the draw and its width $v_t = R\sqrt{9d\log(t/\delta)}$."),
    )
    algorithm = Algorithm(
        update=update, select=select, slots=(COMMON, S), key_slot=S.KEY, draws_slot=S.DRAWS
    )

    def __init__(
        self,
        dim: int,
        *,
        noise_scale: float | None = None,
        tail: MomentBound | None = None,
        horizon: int | None = None,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        delta: float | None = None,
        seed: int = 0,
        radius_scale: float = 0.03,
    ) -> None:
        check = self._start(dim, tail, horizon)
        if noise_scale is None and tail is None:
            raise ValueError(
                "LinTS.noise_scale must be given (or tail, for its scale); got neither."
            )
        self._allocate(ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf)
        if delta is None:
            delta = 0.01 if horizon is None else min(1.0 / horizon, 0.5)
        s = self._s
        scale = noise_scale if noise_scale is not None else self._nu
        s[S.NOISE_SCALE] = check.number("noise_scale", scale, least=0.0)
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(delta)
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s, self.dim)
        self.reseed(seed)
