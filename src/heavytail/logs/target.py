"""What a target policy would do in the rows of a log."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.logs.rows import Rows

__all__ = ["probabilities"]


def probabilities(policy: Any, rows: Rows, *, explore: float = 0.0) -> FloatArray:
    """(n, K) probabilities of the target, or (n,) of the logged actions."""
    if policy is None:
        assert rows.target is not None
        return rows.target
    if callable(policy):
        shares = np.asarray(policy(rows), dtype=float)
    else:
        shares = np.asarray(policy, dtype=float)[rows.start : rows.start + len(rows.action)]
    if shares.ndim == 2 and np.any(rows.action >= shares.shape[1]):
        row = rows.start + int(np.argmax(rows.action >= shares.shape[1]))
        raise ValueError(f"log, row {row}, column 'action': must be below {shares.shape[1]}.")
    return shares
