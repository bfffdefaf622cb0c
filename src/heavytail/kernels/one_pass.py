"""The one-pass step: a Huber gradient by online mirror descent, at the cost of one rank-one update.

V_t = V_{t-1} + x x' / (alpha sigma²),  theta~ = theta + V_t^-1 x psi / sigma,  theta =
Proj_{V_t}(theta~), with psi = clip((r - x'theta) / sigma, ±tau). With alpha = 1, tau = infinity
and no ball it is recursive ridge regression, exactly.
"""

from __future__ import annotations

import math

from heavytail._typing import Matrix, Vector
from heavytail._validate import GREATEST, LEAST
from heavytail.kernels.ball import project, project_plane
from heavytail.kernels.gram import shrink, squared_norm, transform
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_SCALE,
    BAD_X,
    CLIPPED,
    CONSTANT,
    DIRECTION,
    FEATURE,
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

__all__ = ["FARTHEST", "LARGEST", "admit", "farthest", "learn", "measure"]

LARGEST = 1e150  # past this a square leaves the floating-point range
FARTHEST = 1e100  # past this, in units of the ball or of 1, a cube does, which a projection takes


@jit
def admit(s: Vector, M: Matrix, x: Vector, reward: float, scale: float) -> int:
    """Check one observation without touching the state: OK, or which of its parts is bad."""
    if not (squared_norm(x) <= s[ARM_LIMIT]):
        return BAD_X
    if not (abs(reward) < math.inf):
        return BAD_REWARD
    if not (LEAST <= scale <= GREATEST):
        return BAD_SCALE
    return OK


@jit
def measure(s: Vector, M: Matrix, x: Vector) -> float:
    """Lay x (and the constant feature) and u = P x into M; return ‖x‖²_{V^-1}."""
    for i in range(x.shape[0]):
        M[FEATURE, i] = x[i]
    for i in range(x.shape[0], M.shape[1]):
        M[FEATURE, i] = s[CONSTANT]
    return transform(M)


@jit
def farthest(bound: float) -> float:
    """The largest entry of a theta that its ball can be come back to from."""
    return LARGEST if bound == math.inf else FARTHEST * min(1.0, bound)


@jit
def learn(
    s: Vector,
    M: Matrix,
    size: int,
    squared: float,
    z: float,
    sigma: float,
    alpha: float,
    tau: float,
) -> int:
    """The step, after :func:`measure`; ``z`` is the residual in units of sigma, ``size`` the
    length of x.

    The ball holds theta[:size]; a constant feature's coefficient is free and moves with the
    projection as the V-norm asks. OVERFLOW, and nothing changed, where the result would not be
    finite. O(d²).
    """
    weight = 1.0 / (alpha * sigma * sigma)
    growth = 1.0 + weight * squared
    gain = weight / growth
    step = score(z, tau) / (sigma * growth)  # V_t^-1 x = u / growth
    if not (weight <= LARGEST and growth <= LARGEST and abs(score(z, tau)) <= LARGEST):
        return OVERFLOW
    bound = s[THETA_BOUND]
    most = farthest(bound)
    for i in range(M.shape[1]):
        if not (abs(M[THETA, i] + step * M[DIRECTION, i]) <= most):
            return OVERFLOW
    shrink(M, gain)
    length = 0.0
    for i in range(M.shape[1]):
        M[THETA, i] += step * M[DIRECTION, i]
        if i < size:
            length += M[THETA, i] * M[THETA, i]
    s[PROJECTED] = 0.0
    if length > bound * bound:
        _return_to_ball(s, M, size)
        s[PROJECTED] = MOVED
    s[ROUNDS] += 1.0
    s[GAIN] = gain
    s[STEP] = step
    s[LOG_DET] += math.log(growth)
    if abs(z) > tau:
        s[CLIPPED] += 1.0
    return OK


@jit
def _return_to_ball(s: Vector, M: Matrix, size: int) -> None:
    """Project theta[:size] by its own block of P; the free one follows by -mu P_bx theta."""
    full = M.shape[1]
    if size == 2:
        mu, M[THETA, 0], M[THETA, 1] = project_plane(
            M[INVERSE, 0],
            M[INVERSE, 1],
            M[INVERSE + 1, 1],
            M[THETA, 0],
            M[THETA, 1],
            s[THETA_BOUND],
        )
    else:
        P = M[INVERSE : INVERSE + full]
        room = M[INVERSE + full :, :size]
        mu = project(P[:size, :size], M[THETA, :size], s[THETA_BOUND], M[SCRATCH, :size], room)
    for i in range(size, full):
        for k in range(size):
            M[THETA, i] -= mu * M[INVERSE + i, k] * M[THETA, k]
