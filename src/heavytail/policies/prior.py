"""Beginning from what is already known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._validate import as_rows, as_vector
from heavytail.kernels.layout import INVERSE, THETA, THETA_BOUND

if TYPE_CHECKING:
    from heavytail.policies.base import PackedPolicy

__all__ = ["start_from"]

SYMMETRY = 1e-8  # of the largest entry: more than this apart is not rounding


def start_from(policy: PackedPolicy, theta: Any, covariance: Any) -> None:
    """See :meth:`PackedPolicy.start_from`."""
    where = f"{type(policy).__name__}.start_from"
    if not policy.takes_prior:
        raise ValueError(f"{where}: this policy has no single Gram matrix to begin from.")
    if policy.rounds:
        raise ValueError(f"{where} must come before the first reward; {policy.rounds} are learned.")
    d = policy.dim
    start = as_vector(theta, d, type(policy), ".start_from")
    C = as_rows(covariance, (d, d), f"{where}: covariance")
    if not (np.all(np.isfinite(start)) and np.all(np.isfinite(C))):
        raise ValueError(f"{where}: theta and covariance must be finite.")
    if np.max(np.abs(C - C.T)) > SYMMETRY * np.max(np.abs(C)) or np.linalg.eigvalsh(C)[0] <= 0.0:
        raise ValueError(f"{where}: covariance must be symmetric with positive eigenvalues.")
    norm, bound = float(np.linalg.norm(start)), policy._s[THETA_BOUND]
    if norm > bound:
        raise ValueError(
            f"{where}: theta has norm {norm:.6g}, above theta_bound {bound:.6g}. Raise theta_bound."
        )
    policy._M[THETA, :d] = start
    policy._M[INVERSE : INVERSE + d, :d] = (C + C.T) / (2.0 * policy.prior_unit)
    policy._last = None  # scores that were kept are of the old start
