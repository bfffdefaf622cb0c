"""OFUL: Abbasi-Yadkori, Pal and Szepesvari (NIPS 2011)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.confidence import oful_radius
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, LOG_DET, OK, RADIUS, Fixed, numbered
from heavytail.kernels.one_pass import learn, measure
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["OFUL"]


class Slots(NamedTuple):
    """OFUL's own numbers."""

    NOISE_SCALE: Fixed
    LOG_INVERSE_DELTA: Fixed
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed


S: Final = numbered(Slots, after=COMMON)


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale."""
    radius = oful_radius(s[LOG_DET], s[S.NOISE_SCALE], s[S.LOG_INVERSE_DELTA], s[S.PRIOR_ROOT])
    return s[S.RADIUS_SCALE] * radius


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the one-pass step without a clip, which is ridge regression."""
    squared = measure(s, M, x)
    residual = reward - predict(M)
    code = learn(s, M, x.shape[0], squared, residual, 1.0, 1.0, math.inf)
    if code != OK:
        return code
    s[RADIUS] = current_radius(s)
    return OK


class OFUL(PackedPolicy):
    r"""Optimism with ridge regression: the baseline for light tails. O(n d²) per round.

    $$\beta_t = R\sqrt{\log\frac{\det V_t}{\det\lambda I} + 2\log\frac1\delta} + \sqrt\lambda S$$

    At ``radius_scale=1`` and for R-sub-Gaussian noise the regret is Õ(d sqrt(T)) with probability
    1 - delta; the default is a practical 0.3 of that radius, as every policy's is. Heavy-tailed
    noise has no such R: one large reward moves the estimate by as much as it likes.

    >>> import heavytail as ht
    >>> policy = ht.OFUL(2, noise_scale=0.1)
    >>> policy.update([1.0, 0.0], reward=0.5)
    >>> policy.theta
    array([0.25, 0.  ])

    Args:
        dim: length of a feature vector.
        noise_scale: R; ``tail.scale`` where only ``tail`` is given.
        tail: taken for its scale alone, so that all policies can be built alike.
        horizon: T, for delta = 1/T; 0.01 without it.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused. None accepts any.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, and below it the guarantee is gone.
            0.3 explores enough in practice (docs/evidence/untuned_defaults.md).
    """

    name = "OFUL"
    info = Info(
        method="least squares",
        reference="Abbasi-Yadkori et al. 2011",
        regret="d sqrt(T)",
        cost="O(1)",
        storage="O(1)",
        moment="sub-Gaussian",
        sources=(
            "*Certain*: Theorem 2 of the paper, with the determinant, not the looser closed form."
        ),
    )
    algorithm = Algorithm(update=update, slots=(COMMON, S), rank_one=True, takes_prior=True)

    def __init__(
        self,
        dim: int,
        *,
        noise_scale: float | None = None,
        tail: MomentBound | None = None,
        horizon: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float | None = None,
        ridge: float = 1.0,
        delta: float | None = None,
        radius_scale: float = 0.3,
    ) -> None:
        check = self._start(dim, tail, horizon)
        if noise_scale is None and tail is None:
            raise ValueError(
                "OFUL.noise_scale must be given (or tail, for its scale); got neither."
            )
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        self._allocate(ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf)
        scale = noise_scale if noise_scale is not None else self._nu
        if delta is None:
            delta = 0.01 if horizon is None else min(1.0 / horizon, 0.5)
        s = self._s
        s[S.NOISE_SCALE] = check.number("noise_scale", scale, least=0.0)
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(delta)
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)

    @property
    def _prior_unit(self) -> float:
        return float(self._s[S.NOISE_SCALE] ** 2) or 1.0
