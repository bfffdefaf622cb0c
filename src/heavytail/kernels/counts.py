"""Rewards with a link: a count from one uniform number, and what an arm earns where it is paid.

A reward is ``heavytail.kernels.reward``'s, base + size * noise + 1{U < chance} * payment * amount,
or, in a world of counts, base + size * noise + payment * N with N Poisson of mean ``amount``, found
from the same U.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from heavytail._typing import Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.links import IDENTITY, LOG
from heavytail.kernels.reward import Shape, earned

__all__ = ["LinkLaw", "count", "linked_shape", "paid"]

RARE: Final = 2.0**-60  # the probability of a count that no uniform number tells from its neighbour


class LinkLaw(NamedTuple):
    """The law of rewards with mean mu(base + x'theta), as kernels take it."""

    link: float
    base: float
    outliers: float  # the share of rounds that pay ``factor`` times as much
    factor: float


@jit
def count(uniform: float, mean: float) -> float:
    """A Poisson number of ``mean`` from one uniform number, in about sqrt(mean) steps.

    Kemp (1981): the probabilities of the mode and of its neighbours, in turn below and above, are
    taken off the uniform number until nothing is left of it. Nothing underflows, whatever the mean;
    beyond e^10 the mode's own probability loses digits.
    """
    if mean <= 0.0:
        return 0.0
    mode = float(math.floor(mean))
    likely = math.exp(mode * math.log(mean) - mean - math.lgamma(mode + 1.0))
    left = uniform - likely
    if left < 0.0:
        return mode
    low, high = mode, mode
    below, above = likely, likely
    while below > RARE or above > RARE:
        if low > 0.0:
            below *= low / mean
            low -= 1.0
            left -= below
            if left < 0.0:
                return low
        else:
            below = 0.0
        high += 1.0
        above *= mean / high
        left -= above
        if left < 0.0:
            return high
    return high


@jit
def paid(
    counts: bool, shape: Vector | Shape, noise: float, uniform: float, payment: float
) -> float:
    """The reward of an arm of ``shape`` in a round of these draws."""
    if counts:
        return shape[0] + shape[1] * noise + payment * count(uniform, shape[3])
    return earned(shape, noise, uniform, payment)


@jit
def linked_shape(link: float, mean: Any) -> Shape:
    """(base, size, chance, amount) of an arm of this mean: noise around it, a count of it, or 1
    with this chance.
    """
    if link == IDENTITY:
        return mean, 1.0, 0.0, 0.0
    if link == LOG:
        return 0.0, 0.0, 1.0, mean
    return 0.0, 0.0, mean, 1.0
