"""What HEAVY-OFUL and AdaOFUL are told alike: the ball, sigma_t's floor, the failure
probability.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np

from heavytail._validate import check_number
from heavytail.confidence import AdaptiveHuber
from heavytail.kernels.adaptive import (
    ORDER,
    PRIOR_ROOT,
    RADIUS_SCALE,
    RIDGE,
    ROOT,
    SIGMA_MIN,
    STEEP,
    TAU_0,
)
from heavytail.kernels.quadratic import extra_rows, first_extra
from heavytail.policies.history import HistoryPolicy

__all__ = ["Problem", "set_constants", "start"]


class Problem(TypedDict):
    """What the constants of both are computed from, beside dim, order and horizon."""

    ridge: float
    theta_bound: float
    arm_bound: float
    sigma_min: float
    delta: float


def start(
    policy: HistoryPolicy,
    slots: int,
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
    where = type(policy).__name__
    if policy.horizon is None:
        raise TypeError(f"{where}.horizon must be a whole number of at least 1; got None.")
    T = policy.horizon
    theta_bound = check_number(f"{where}.theta_bound", theta_bound, above=0.0, infinite=True)
    B = theta_bound if math.isfinite(theta_bound) else 1.0
    problem = Problem(
        ridge=check_number(
            f"{where}.ridge", policy.dim / B**2 if ridge is None else ridge, above=0.0
        ),
        theta_bound=B,
        arm_bound=check_number(f"{where}.arm_bound", arm_bound, above=0.0),
        sigma_min=check_number(
            f"{where}.sigma_min", T**-0.5 if sigma_min is None else sigma_min, above=0.0
        ),
        delta=check_number(
            f"{where}.delta", 1.0 / (8.0 * T) if delta is None else delta, above=0.0, below=1.0
        ),
    )
    policy._allocate(
        slots,
        ridge=problem["ridge"],
        arm_bound=arm_bound,
        theta_bound=theta_bound,
        extra=extra_rows(policy.dim),
    )
    Q = first_extra(policy.dim)
    policy._M[Q : Q + policy.dim] = problem["ridge"] * np.eye(policy.dim)
    s = policy._s
    s[RIDGE] = problem["ridge"]
    s[PRIOR_ROOT] = math.sqrt(problem["ridge"]) * B
    s[SIGMA_MIN] = problem["sigma_min"]
    s[RADIUS_SCALE] = check_number(f"{where}.radius_scale", radius_scale, least=0.0)
    return problem


def set_constants(
    policy: HistoryPolicy, constants: AdaptiveHuber, order: float, threshold_scale: float
) -> None:
    """Lay the constants into the state; ``threshold_scale`` multiplies tau_0."""
    where = type(policy).__name__
    scale = check_number(f"{where}.threshold_scale", threshold_scale, above=0.0, infinite=True)
    s = policy._s
    s[ORDER] = order
    s[STEEP] = constants.steep
    s[ROOT] = constants.root
    s[TAU_0] = scale * constants.tau_0
