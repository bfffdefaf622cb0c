"""The size of the noise, followed from residuals in one pass and without moments.

The running median of |residual|, kept on the log scale: one residual moves it by one step however
large it is, and multiplying all rewards by a constant multiplies it by that constant.

Where more than half of all values are one and the same (no purchase, no claim, no failure) that
median would tell of the common value alone and everything else would look like an outlier. So the
commonest value is followed too, by majority vote, and its residuals are left out of the scale.
Values that never repeat have no say in this: not a bit changes for them.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail.kernels.jit import jit

__all__ = [
    "LARGEST",
    "NORMAL_CONSISTENCY",
    "follow_quantile",
    "follow_typical",
    "lead",
    "next_extreme",
    "next_run",
    "seek_typical",
    "stands_out",
    "vote",
]

NORMAL_CONSISTENCY: Final = 1.4826  # the standard deviation of a normal, in medians of its size
FASTEST: Final = 2.0  # steps of log(typical size): min(1/2, FASTEST / (t + 5)) at first ...
SLOWEST: Final = 0.002  # ... and never below this, so that it follows a drift
LARGEST: Final = 1e100
SEEKING: Final = 64  # rounds in which a scale that is not known is sought by growing steps
PATIENCE: Final = 5  # moves in one direction before the steps grow
LONGEST: Final = 10  # doublings of a step
MAJORITY: Final = 16.0  # votes by which a value leads before it is believed to be the common one
MOST_VOTES: Final = 1000.0  # so that a majority that ends is forgotten
UP: Final = math.exp(SLOWEST)
DOWN: Final = math.exp(-SLOWEST)


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
    if (t + 5.0) * SLOWEST > FASTEST:  # the slowest step, whose exponentials are known
        return min(max(typical * (UP if size > typical else DOWN), floor), LARGEST)
    return follow_quantile(typical, size, t, 0.5, floor)


@jit
def next_run(run: float, size: float, typical: float) -> float:
    """The number of sizes in a row above (positive) or below (negative) the typical one."""
    if size > typical:
        return max(run, 0.0) + 1.0
    return min(run, 0.0) - 1.0


@jit
def next_extreme(run: float, extreme: float, size: float, typical: float) -> float:
    """The least size of a run above the typical one, or the largest of a run below it; ``run`` is
    that of before.
    """
    if size > typical:
        return min(extreme, size) if run > 0.0 else size
    return max(extreme, size) if run < 0.0 else size


@jit
def seek_typical(
    typical: float, size: float, t: float, run: float, extreme: float, floor: float
) -> float:
    """As :func:`follow_typical`, but in the first rounds a run in one direction doubles the steps,
    never past the run's own ``extreme``: orders of magnitude are covered in a few rounds, and one
    size near 0 does not take the scale with it. O(1).
    """
    moved = follow_typical(typical, size, t, floor)
    grown = min(abs(run) - PATIENCE, LONGEST)
    if t > SEEKING or grown <= 0.0:
        return moved
    leap = typical * math.exp(2.0**grown * math.log(moved / typical))
    if size > typical:
        return min(max(moved, min(leap, extreme)), LARGEST)
    return max(min(moved, max(leap, extreme)), floor)


@jit
def stands_out(value: float, common: float, votes: float) -> bool:
    """Tell whether a value is other than the one that more than half of all values are."""
    return value != common or votes < MAJORITY


@jit
def lead(agrees: bool, votes: float) -> float:
    """The votes by which a value leads, after one more for or against it."""
    return min(votes + 1.0, MOST_VOTES) if agrees else max(votes - 1.0, 0.0)


@jit
def vote(value: float, common: float, votes: float) -> tuple[float, float]:
    """Boyer and Moore's majority vote: the candidate and the votes by which it leads. O(1)."""
    if value != common and votes <= 0.0:
        return value, 1.0
    return common, lead(value == common, votes)
