"""The reasons why a packed policy refuses an observation, or a start from an earlier estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray
from heavytail._validate import GREATEST, LEAST, as_rows, vector_problem
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_SCALE,
    BAD_X,
    OVERFLOW,
    THETA_BOUND,
)

if TYPE_CHECKING:
    from heavytail.policies.core.base import PackedPolicy

__all__ = ["checked_prior", "refusal"]

SYMMETRY = 1e-8  # of the largest entry of a covariance: more than this apart is not rounding


def refusal(policy: PackedPolicy, code: int, x: FloatArray, reward: float, scale: float) -> str:
    """Say why a kernel refused an observation."""
    if code == BAD_X:
        problem = vector_problem(x, policy._s[ARM_LIMIT])
        return f"x {problem or 'changed while it was read.'}"
    if code == BAD_REWARD:
        return f"reward must be finite; got {reward!r}."
    if code == BAD_SCALE:
        return f"scale must lie between {LEAST:g} and {GREATEST:g}; got {scale!r}."
    assert code == OVERFLOW
    return (
        f"reward {reward!r} at scale {scale!r} would take the estimate out of the "
        "floating-point range; change the unit of the reward."
    )


def checked_prior(
    policy: PackedPolicy, theta: ArrayLike, covariance: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """theta and P to begin from; refuses what is no estimate, and a policy that has learned."""
    where = f"{type(policy).__name__}.start_from"
    if not policy.algorithm.takes_prior:
        raise ValueError(f"{where}: this policy has no single Gram matrix to begin from.")
    if policy.rounds:
        raise ValueError(f"{where} must come before the first reward; {policy.rounds} are learned.")
    d = policy.dim
    start = as_rows(theta, (d,), f"{where}: theta")
    C = as_rows(covariance, (d, d), f"{where}: covariance")
    if not (np.all(np.abs(start) <= GREATEST) and np.all(np.abs(C) <= GREATEST)):
        raise ValueError(
            f"{where}: theta and covariance must be at most {GREATEST:g} in size; change the "
            "unit of the reward."
        )
    skew = np.max(np.abs(C - C.T)) > SYMMETRY * np.max(np.abs(C))
    variances = np.linalg.eigvalsh(C)
    if skew or variances[0] <= 0.0:
        raise ValueError(f"{where}: covariance must be symmetric with positive eigenvalues.")
    widest = min(GREATEST, policy._prior_unit / max(policy._least_ridge, LEAST))
    if not (LEAST <= variances[0] and variances[-1] <= widest):
        raise ValueError(
            f"{where}: covariance must have eigenvalues between {LEAST:g} and {widest:g}; got "
            f"{variances[0]:g} to {variances[-1]:g}. Change the unit of the reward."
        )
    norm, bound = float(np.linalg.norm(start)), policy._s[THETA_BOUND]
    if norm > bound:
        raise ValueError(
            f"{where}: theta has norm {norm:.6g}, above theta_bound {bound:.6g}. Raise theta_bound."
        )
    return start, (C + C.T) / (2.0 * policy._prior_unit)
