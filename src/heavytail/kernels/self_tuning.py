"""A threshold that finds itself, and with it the mean: Wang, Zheng, Zhou and Zhou (Statistica
Sinica 2021), on a stream.

A fixed clip estimates a typical value. To estimate the mean it has to grow, neither too fast (one
value rules) nor too slowly (a bias stays). The tau that solves

    sum_s min(z_s², tau²) = tau² (m + log n),    m the number of coordinates,

does both for every p in (1, 2] of which a moment is finite, with p and the moment unknown: at most
m + log n of n sizes lie beyond it, and the error of a mean of independent values is of the order
((m + log n) / n)^((p-1)/p). That is a theorem for one mean; for a stream of regressions it is what
is aimed at. Under normal noise tau is about sqrt(n / (m + log n)): nothing is clipped, and the fit
is least squares.

The sum is kept as a histogram of |z|: for each bin the number of sizes and the sum of their
squares. One bin holds all up to the ``floor``, below which tau never falls; the others are half an
octave each, so that what is found lies between the exact tau and sqrt(2) times it. Everything is in
units of the floor, and z in units of the noise: multiplying all by a constant changes nothing.

The histogram lies in a vector ``H`` at ``at``: how many sizes are beyond the floor, how many of
them are in each other bin, then BINS sums of squares, ROOM numbers in all. ``tau`` must be known
before z: a row has no say in its own threshold.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.jit import jit

__all__ = ["BINS", "EVERY", "ROOM", "fade", "follow", "note", "solve", "solve_rows"]

BINS: Final = 64  # bin k > 0: floor² 2^(k-1) < z² <= floor² 2^k; the last has all beyond as well
LAST: Final = BINS - 1
ROOM: Final = 2 * BINS
FARTHEST: Final = 2.0**BINS  # in floors: beyond all edges, and can be squared
STEPS: Final = 100  # of a root from above; ten or so suffice
EVERY: Final = 32  # values after which tau is found anew; at once where one lies beyond it


@jit
def note(H: Vector, at: int, size: float, floor: float) -> None:
    """Count |z| = ``size`` with weight 1. O(1): a doubling per half octave above the floor."""
    ratio = min(size / floor, FARTHEST)
    square = ratio * ratio
    k, edge = 0, 1.0
    if square > 1.0:
        H[at] += 1.0
        while square > edge and k < LAST:
            edge *= 2.0
            k += 1
        H[at + k] += 1.0
    H[at + BINS + k] += min(square, edge)


@jit
def fade(H: Vector, at: int, factor: float) -> None:
    """All that was counted counts ``factor`` times as much."""
    for i in range(at, at + ROOM):
        H[i] *= factor


@jit
def solve(H: Vector, at: int, need: float, floor: float) -> float:
    """tau of sum min(z², tau²) = tau² ``need``, ``need`` = m + log n; at least ``floor``. O(BINS).

    With B the sum of squares up to an edge e and A the number beyond, the root is at most e once
    B / e² + A <= need, and is then sqrt(B / (need - A)).
    """
    above, below, edge = H[at], 0.0, 1.0
    for k in range(LAST):
        if k > 0:
            above -= H[at + k]
        below += H[at + BINS + k]
        left = need - above
        if left > 0.0 and below <= edge * left:
            return floor * math.sqrt(max(below / left, 1.0))
        edge *= 2.0
    return floor * math.sqrt(0.5 * edge)  # the last edge: nothing beyond is told apart


@jit
def follow(
    H: Vector,
    at: int,
    size: float,
    tau: float,
    t: float,
    coordinates: float,
    logs: float,
    floor: float,
) -> float:
    """Count |z| = ``size``, the t-th, and return the threshold of the value after it, which about
    ``coordinates`` + ``logs`` log t of all values lie beyond. O(1), but
    for every 32nd value and those beyond ``tau``, of which there are at most about
    m log t + (log t)²/2 in t.
    """
    note(H, at, size, floor)
    if size > tau or int(t) % EVERY == 0:
        return solve(H, at, coordinates + logs * math.log(t), floor)
    return tau


@jit
def solve_rows(H: Matrix, count: int, at: int, need: float) -> float:
    """tau of sum min(z², tau²) = tau² ``need`` for the z in column ``at`` of ``count`` rows, from
    the largest downwards: the same equation where all values are kept. O(count) a step.
    """
    tau = 0.0
    for row in range(count):
        tau = max(tau, abs(H[row, at]))
    for _ in range(STEPS):
        total = 0.0
        for row in range(count):
            z = H[row, at] / tau if tau > 0.0 else 0.0
            total += min(z * z, 1.0)
        factor = math.sqrt(total / need)
        if not (factor < 1.0 - 1e-6):
            break
        tau *= factor
    return tau
