"""The one-pass step with a link: mirror descent on the likelihood of a generalised linear model.

With H the curvature so far, P its inverse, u = P x and q = x'P x, an observation y moves theta
along u. The *linear* step takes the loss by its second-order model at z = x'theta,

    theta~ = theta + eta pull(y, z) / (g + eta w q) u,    w = information(z),

the minimiser over the ball follows in the norm of H + eta w x x' / g; the *implicit* step takes the
loss itself, theta~ = theta + eta pull(y, v) / g u with v the score after the step, which is stable
whatever y. Then H grows by the information at the *new* score. With the identity link and eta = 1
both are recursive ridge regression.

The rows of M behind the common ones are room for a matrix.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.ball import project
from heavytail.kernels.gram import predict, shrink
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    DIRECTION,
    GAIN,
    INVERSE,
    LOG_DET,
    MOVED,
    OK,
    OVERFLOW,
    PROJECTED,
    ROUNDS,
    SCRATCH,
    STEP,
    THETA,
    THETA_BOUND,
)
from heavytail.kernels.links import implicit_score, information, pull, pull_size
from heavytail.kernels.one_pass import LARGEST, farthest

__all__ = ["implicit_step", "linear_step", "move"]

HEAVIEST: Final = 1e14  # of a round, in rounds: past this the rounding of P outweighs what is left


@jit
def linear_step(
    link: float, y: float, z: float, squared: float, dispersion: float, eta: float
) -> float:
    """By how many u theta moves, by the second-order model."""
    return eta * pull(link, y, z) / (dispersion + eta * information(link, z) * squared)


@jit
def implicit_step(
    link: float, y: float, z: float, squared: float, dispersion: float, eta: float
) -> float:
    """By how many u theta moves, by the loss itself: c pull(y, v), which is (v - z) / squared.

    Both are differences, and the one with the smaller terms has more digits: a count of a million
    is near its mean at v, and how near only v - z tells; late steps are short, v is near z, and how
    near only the pull tells.
    """
    c = eta / dispersion
    v = implicit_score(link, y, z, c * squared)
    if abs(v) + abs(z) < c * squared * pull_size(link, y, v):
        return (v - z) / squared
    return c * pull(link, y, v)


@jit
def move(
    s: Vector,
    M: Matrix,
    size: int,
    squared: float,
    link: float,
    dispersion: float,
    eta: float,
    step: float,
) -> int:
    """Move theta by ``step`` u, back into the ball where it leaves it, and let the curvature grow.

    After :func:`heavytail.kernels.one_pass.measure`; ``size`` is the length of x: the ball is of
    as many coefficients. OVERFLOW, and nothing changed, where the result would not be finite.
    O(d²).
    """
    w = information(link, predict(M)) / dispersion
    if not (abs(step) <= LARGEST and eta * w * squared <= LARGEST):
        return OVERFLOW
    bound = s[THETA_BOUND]
    most = farthest(bound)
    length = 0.0
    for i in range(M.shape[1]):
        moved = M[THETA, i] + step * M[DIRECTION, i]
        if not (abs(moved) <= most):
            return OVERFLOW
        if i < size:
            length += moved * moved
    ahead = predict(M) + step * squared  # the score after it
    inside = length <= bound * bound
    if inside:
        w_ahead = information(link, ahead) / dispersion
        if not (w_ahead <= LARGEST and w_ahead * squared <= HEAVIEST):
            return OVERFLOW
    for i in range(M.shape[1]):
        M[THETA, i] += step * M[DIRECTION, i]
    s[PROJECTED] = 0.0
    if not inside:
        _return_to_ball(s, M, size, eta * w / (1.0 + eta * w * squared))
        s[PROJECTED] = MOVED
    w = information(link, predict(M)) / dispersion
    if not (w * squared <= HEAVIEST):  # a constant feature's coefficient may be anywhere
        w = HEAVIEST / squared
    growth = 1.0 + w * squared
    s[GAIN] = w / growth
    s[STEP] = step
    s[LOG_DET] += math.log(growth)
    s[ROUNDS] += 1.0
    shrink(M, s[GAIN])
    return OK


@jit
def _return_to_ball(s: Vector, M: Matrix, size: int, gain: float) -> None:
    """Project theta[:size] in the norm whose inverse is P - gain u u'; a constant feature's
    coefficient is free and follows.
    """
    full = M.shape[1]
    Q = INVERSE + 2 * full + 1
    for i in range(full):
        for j in range(full):
            M[Q + i, j] = M[INVERSE + i, j] - gain * M[DIRECTION, i] * M[DIRECTION, j]
    room = M[INVERSE + full : Q, :size]
    mu = project(M[Q : Q + size, :size], M[THETA, :size], s[THETA_BOUND], M[SCRATCH, :size], room)
    for i in range(size, full):
        for k in range(size):
            M[THETA, i] -= mu * M[Q + i, k] * M[THETA, k]
