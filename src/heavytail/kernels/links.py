"""Links: what a score z = x'theta means for a reward, as kernels.

E[y] = mu(z), mu increasing. Of an observation y at a score z a fit needs two numbers: its *pull*,
the derivative of the log-likelihood in z (a quasi-likelihood's where the link is not canonical),
and the *information*, by which the curvature grows. For a canonical link they are y - mu(z) and
mu'(z). ``AMOUNTS`` is the log link for rewards whose spread is proportional to their mean: the pull
is y / mu - 1, the information 1, and nothing hangs on the unit of y but the intercept.

All are finite for |z| up to 700 and beyond.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Vector
from heavytail.kernels.jit import jit

__all__ = [
    "AMOUNTS",
    "IDENTITY",
    "LOG",
    "LOGISTIC",
    "PROBIT",
    "implicit_score",
    "information",
    "link_mean",
    "link_slope",
    "means",
    "pull",
    "pull_size",
    "slopes",
    "within",
]

# A link is a number in a slot of s.
IDENTITY: Final = 0.0
LOGISTIC: Final = 1.0
LOG: Final = 2.0
PROBIT: Final = 3.0
AMOUNTS: Final = 4.0

STEEPEST: Final = 700.0  # exp of more leaves the floating-point range
ROOT_TWO: Final = math.sqrt(2.0)
DENSITY: Final = 1.0 / math.sqrt(2.0 * math.pi)  # the normal's at 0
TOLERANCE: Final = 1e-15
MOST_STEPS: Final = 100  # never met: Newton is safeguarded by halving


@jit
def link_mean(link: float, z: float) -> float:
    """mu(z)."""
    if link == LOGISTIC:
        tail = math.exp(-abs(z))
        return 1.0 / (1.0 + tail) if z >= 0.0 else tail / (1.0 + tail)
    if link in (LOG, AMOUNTS):
        return math.exp(min(z, STEEPEST))
    if link == PROBIT:
        return 0.5 * math.erfc(-z / ROOT_TWO)
    return z


@jit
def link_slope(link: float, z: float) -> float:
    """mu'(z)."""
    if link == LOGISTIC:
        tail = math.exp(-abs(z))
        return tail / ((1.0 + tail) * (1.0 + tail))
    if link in (LOG, AMOUNTS):
        return math.exp(min(z, STEEPEST))
    if link == PROBIT:
        return DENSITY * math.exp(-0.5 * z * z)
    return 1.0


@jit
def means(link: float, z: Vector) -> None:
    """mu of every entry, in place: the kernel's own digits, at a compiled loop's speed."""
    for i in range(z.shape[0]):
        z[i] = link_mean(link, z[i])


@jit
def slopes(link: float, z: Vector) -> None:
    """mu' of every entry, in place."""
    for i in range(z.shape[0]):
        z[i] = link_slope(link, z[i])


@jit
def pull(link: float, y: float, z: float) -> float:
    """The size and direction of the change of z that y asks for; decreasing in z."""
    if link == AMOUNTS:
        return y * math.exp(min(-z, STEEPEST)) - 1.0
    return y - link_mean(link, z)


@jit
def pull_size(link: float, y: float, z: float) -> float:
    """The sum of the sizes of the pull's terms: what its rounding is in proportion to."""
    if link == AMOUNTS:
        return y * math.exp(min(-z, STEEPEST)) + 1.0
    return abs(y) + abs(link_mean(link, z))


@jit
def information(link: float, z: float) -> float:
    """The curvature that an observation at z adds."""
    return 1.0 if link == AMOUNTS else link_slope(link, z)


@jit
def curvature(link: float, y: float, z: float) -> float:
    """Minus the derivative of the pull."""
    if link == AMOUNTS:
        return y * math.exp(min(-z, STEEPEST))
    return link_slope(link, z)


@jit
def within(link: float, y: float, fractions: float) -> bool:
    """Tell whether a reward is one that the link can have: 0 or 1 for the logistic and the probit
    link (anything between them where ``fractions`` is not 0), at least 0 for the log link.
    """
    if link in (LOGISTIC, PROBIT):
        return y == 0.0 or y == 1.0 or (fractions != 0.0 and 0.0 < y < 1.0)
    return y >= 0.0 or link == IDENTITY


@jit
def implicit_score(link: float, y: float, z: float, c: float) -> float:
    """The v of v = z + c pull(y, v): where the step that the observation asks for *after* it leads.

    The pull falls with v, so there is one, between z and z + c pull(y, z); with the log link it
    never lies beyond log y. Newton from the right end, by halves where its steps do not shrink.
    """
    away = c * pull(link, y, z)
    low, high = min(z, z + away), max(z, z + away)
    if link in (LOG, AMOUNTS):
        if away > 0.0:
            high = min(high, max(math.log(y), z))
        elif link == LOG:  # v >= z - c mu(v), so z - v <= W(c mu(z)) <= log(1 + c mu(z))
            low = max(low, z - math.log1p(c * link_mean(link, z)))
    v = high
    last = high - low
    for _ in range(MOST_STEPS):
        f = v - z - c * pull(link, y, v)
        if f > 0.0:
            high = v
        else:
            low = v
        following = v - f / (1.0 + c * curvature(link, y, v))
        if not (low <= following <= high) or abs(following - v) > 0.5 * last:
            following = 0.5 * (low + high)
        last = abs(following - v)
        v = following
        if last <= TOLERANCE * (1.0 + abs(v)):
            break
    return v
