"""The size of the noise, followed from residuals in one pass and without moments.

The running median of |residual|, kept on the log scale: one residual moves it by one step however
large it is, and multiplying all rewards by a constant multiplies it by that constant.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail.kernels.jit import jit

__all__ = ["LARGEST", "NORMAL_CONSISTENCY", "follow_quantile", "follow_typical"]

NORMAL_CONSISTENCY: Final = 1.4826  # the standard deviation of a normal, in medians of its size
FASTEST: Final = 2.0  # steps of log(typical size): min(1/2, FASTEST / (t + 5)) at first ...
SLOWEST: Final = 0.002  # ... and never below this, so that it follows a drift
LARGEST: Final = 1e100


@jit
def follow_quantile(quantile: float, size: float, t: float, level: float, floor: float) -> float:
    """One step of a running quantile of order ``level`` on the log scale: up when ``size`` is
    above it, down when below; never under ``floor``. O(1).
    """
    step = 2.0 * max(min(0.5, FASTEST / (t + 5.0)), SLOWEST)
    moved = quantile * math.exp(step * level if size > quantile else step * (level - 1.0))
    return min(max(moved, floor), LARGEST)


@jit
def follow_typical(typical: float, size: float, t: float, floor: float) -> float:
    """One step of a running median: equal steps up and down. O(1)."""
    return follow_quantile(typical, size, t, 0.5, floor)
