"""Adaptive Huber regression, as HEAVY-OFUL (Huber) and AdaOFUL (pseudo-Huber) share it: what a
round does before the fit, and the constructor arguments of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import predict, shrink
from heavytail.kernels.huber import leverage, score, threshold
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    COMMON,
    FEATURE,
    GAIN,
    LOG_DET,
    MOVED,
    OK,
    OVERFLOW,
    PROJECTED,
    ROUNDS,
    STEP,
    THETA_BOUND,
    Fixed,
    Size,
    numbered,
)
from heavytail.kernels.m_estimate import TARGET, TAU
from heavytail.kernels.one_pass import LARGEST, measure
from heavytail.kernels.quadratic import extra_rows, first_extra
from heavytail.policies.core.base import PackedPolicy

__all__ = [
    "ADAPTIVE",
    "AdaptiveHuber",
    "Problem",
    "observe",
    "set_constants",
    "start",
]


class Adaptive(NamedTuple):
    """Slots of s that both have."""

    ORDER: Fixed
    RIDGE: Fixed
    SIGMA_MIN: Fixed
    STEEP: Fixed  # 1 / c_0
    ROOT: Fixed
    TAU_0: Fixed
    RADIUS_SCALE: Fixed
    PRIOR_ROOT: Fixed  # sqrt(lambda) B
    SIGMA: Size  # sigma_t of the last round
    TAU_T: Size  # tau_t of the last round


ADAPTIVE: Final = numbered(Adaptive, after=COMMON)

FARTHEST: Final = 1e95  # of |psi| / sqrt(lambda), in units of the ball or of 1: the minimiser of
# many such rows can still be cubed, as coming back to the ball asks
LARGEST_PULL: Final = 1e150  # of |psi| ‖a‖: past this a sum's square may leave the range


@jit
def normaliser(s: Vector, width: float, nu: float) -> float:
    """sigma_t = max(nu_t, sigma_min, n / c_0, sqrt(L B n) / (2 c_1 kappa)^(1/4)), n = ``width``."""
    return max(
        nu, s[ADAPTIVE.SIGMA_MIN], s[ADAPTIVE.STEEP] * width, s[ADAPTIVE.ROOT] * math.sqrt(width)
    )


@jit
def observe(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep a round: sigma_t and tau_t, its row of H, V's inverse. The estimate stays. O(d²).

    OK, or OVERFLOW with the state untouched.
    """
    size = M.shape[1]
    row = int(s[ROUNDS])
    squared = measure(s, M, x)
    width = math.sqrt(squared)
    sigma = normaliser(s, width, nu)
    tau = threshold(s[ADAPTIVE.TAU_0], leverage(width, sigma, 1.0), row + 1.0, s[ADAPTIVE.ORDER])
    weight = 1.0 / (sigma * sigma)
    growth = 1.0 + weight * squared
    z = (reward - predict(M)) / sigma
    psi = abs(score(z, tau))
    bound = s[THETA_BOUND]
    if bound < math.inf and not (psi <= FARTHEST * s[ADAPTIVE.PRIOR_ROOT] * min(1.0, 1.0 / bound)):
        return OVERFLOW
    pull = psi * math.sqrt(weight)
    for i in range(size):
        if not (pull * abs(M[FEATURE, i]) <= LARGEST_PULL):
            return OVERFLOW
    if not (weight <= LARGEST and growth <= LARGEST and abs(reward / sigma) < math.inf):
        return OVERFLOW
    for i in range(size):
        H[row, i] = M[FEATURE, i] / sigma
    H[row, size + TARGET] = reward / sigma
    H[row, size + TAU] = tau
    shrink(M, weight / growth)
    s[ROUNDS] += 1.0
    s[GAIN] = weight / growth
    s[STEP] = 0.0
    s[PROJECTED] = MOVED  # theta moves by a fit, not along u
    s[LOG_DET] += math.log(growth)
    s[ADAPTIVE.SIGMA] = sigma
    s[ADAPTIVE.TAU_T] = tau
    if abs(z) > tau:
        s[CLIPPED] += 1.0
    return OK


@dataclass(frozen=True, slots=True)
class AdaptiveHuber:
    """The constants of adaptive Huber regression that are fixed in advance, at one horizon.

    sigma_t = max(nu_t, sigma_min, steep n, root sqrt(n)) with n = ‖x_t‖_{V_{t-1}^-1}: the two lower
    bounds keep noiseless rewards inside tau_t for every theta of the ball.
    """

    kappa: float
    ell: float
    tau_0: float
    steep: float  # 1 / c_0
    root: float


class Problem(TypedDict):
    """The inputs to the constants of both, beside dim, order and horizon."""

    ridge: float
    theta_bound: float
    arm_bound: float
    sigma_min: float
    delta: float


def start(
    policy: PackedPolicy,
    check: Check,
    *,
    theta_bound: float,
    arm_bound: float,
    ridge: float | None,
    delta: float | None,
    sigma_min: float | None,
    radius_scale: float,
) -> Problem:
    """Check these, allocate the state, and return them with their defaults filled in.

    lambda = d / B², delta = 1/(8T), sigma_min = 1/sqrt(T) unless given; without a ball B counts as
    1.
    """
    assert policy.horizon is not None
    T = policy.horizon
    theta_bound = check.number("theta_bound", theta_bound, above=0.0, infinite=True)
    B = theta_bound if math.isfinite(theta_bound) else 1.0
    problem = Problem(
        ridge=check.number("ridge", policy.dim / B**2 if ridge is None else ridge, above=0.0),
        theta_bound=B,
        arm_bound=check.number("arm_bound", arm_bound, above=0.0),
        sigma_min=check.number("sigma_min", T**-0.5 if sigma_min is None else sigma_min, above=0.0),
        delta=check.number(
            "delta", 1.0 / (8.0 * T) if delta is None else delta, above=0.0, below=1.0
        ),
    )
    sums = extra_rows(policy.dim)
    summed = policy.algorithm.has_kernels
    policy._allocate(
        ridge=problem["ridge"],
        arm_bound=arm_bound,
        theta_bound=theta_bound,
        rows={"sums": sums if summed else 0},
        room=0 if summed else sums,
    )
    Q = first_extra(policy.dim)
    policy._M[Q : Q + policy.dim] = problem["ridge"] * np.eye(policy.dim)
    s = policy._s
    s[ADAPTIVE.RIDGE] = problem["ridge"]
    s[ADAPTIVE.PRIOR_ROOT] = math.sqrt(problem["ridge"]) * B
    s[ADAPTIVE.SIGMA_MIN] = problem["sigma_min"]
    s[ADAPTIVE.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
    return problem


def set_constants(
    policy: PackedPolicy,
    check: Check,
    constants: AdaptiveHuber,
    order: float,
    threshold_scale: float,
) -> None:
    """Lay the constants into the state; ``threshold_scale`` multiplies tau_0."""
    scale = check.number("threshold_scale", threshold_scale, above=0.0, infinite=True)
    s = policy._s
    s[ADAPTIVE.ORDER] = order
    s[ADAPTIVE.STEEP] = constants.steep
    s[ADAPTIVE.ROOT] = constants.root
    s[ADAPTIVE.TAU_0] = scale * constants.tau_0
