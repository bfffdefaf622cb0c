"""One chunk of a log, checked."""

from __future__ import annotations

from typing import NamedTuple

from heavytail._typing import FloatArray, IntArray

__all__ = ["Rows"]


class Rows(NamedTuple):
    """A chunk of n rows; K arms at most were offered in one of them.

    Attributes:
        source: the file's name, or "log": for errors.
        start: number of the first row in the whole log, from 0.
        action: (n,), the arm played.
        reward: (n,), finite.
        propensity: (n,) in (0, 1], or None where the log has none.
        arms: (n, K, d); rows that offered fewer than K are filled up with NaN, or None.
        context: (n, d), or None.
        target: (n, K) or (n,), a target's probabilities that the log carries, or None.
        probabilities: (n, K), those of the policy that wrote the log, or None.
    """

    source: str
    start: int
    action: IntArray
    reward: FloatArray
    propensity: FloatArray | None = None
    arms: FloatArray | None = None
    context: FloatArray | None = None
    target: FloatArray | None = None
    probabilities: FloatArray | None = None
