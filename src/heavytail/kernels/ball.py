"""Projection onto the ball ‖theta‖ <= S in the V-norm, from P = V^-1 alone.

argmin_{‖theta‖ <= S} ‖theta - y‖_V = (I + mu P)^-1 y, with mu >= 0 the root of ‖theta(mu)‖ = S. V
is not needed. 1/‖theta(mu)‖ is concave and increasing in mu, so Newton on it from mu = 0 rises to
the root without overshooting, in 2 to 10 steps. Cost: O(d) at d = 1, 2 (closed forms); O(d³) a
step by Cholesky to d = 24; above, O(k d²) once by k <= 16 Lanczos steps, which is exact when its
residual says so and is redone by Cholesky when it does not (at condition number 1e6 Lanczos alone
is off by half the radius).

Rescaling y to the sphere is another point and doubles the regret.
"""

from __future__ import annotations

import math

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import dot, squared_norm
from heavytail.kernels.jit import jit

__all__ = ["project", "project_plane"]

NEWTON_STEPS = 100  # never met: the iteration stops when mu no longer grows
CHOLESKY_LIMIT = 24  # above this dimension Lanczos is tried first
LANCZOS_STEPS = 16
LANCZOS_TOLERANCE = (
    1e-12  # relative residual of (I + mu P) theta = y at which Lanczos counts as exact
)
NORM_TOLERANCE = 1e-14  # relative


@jit
def _newton_step(norm: float, curvature: float, bound: float) -> float:
    """Step of mu for 1/‖theta(mu)‖ = 1/S; curvature = theta'(I + mu P)^-1 P theta. 0 at the root.

    The curvature only steers: when rounding has eaten it, theta is already at the root to rounding.
    """
    if not (norm > bound * (1.0 + NORM_TOLERANCE)) or curvature <= 0.0:
        return 0.0
    return (norm / bound - 1.0) * norm * norm / curvature


@jit
def _ends(mu: float, step: float, widest: float) -> bool:
    """Tell whether mu no longer grows, or mu P would leave the floating-point range: what is left
    of theta then lies where P is lost to rounding.
    """
    return not (mu < mu + step and (mu + step) * widest < math.inf)


@jit
def project_plane(
    p00: float, p01: float, p11: float, y0: float, y1: float, bound: float
) -> tuple[float, float, float]:
    """d = 2, for y outside the ball: (mu, theta). Newton in the eigenbasis of P, which is explicit.

    Plain numbers in and out, so that a GPU can hold them in registers.
    """
    half_gap = 0.5 * (p00 - p11)
    radius = math.hypot(half_gap, p01)
    middle = 0.5 * (p00 + p11)
    large = middle + radius
    # The small eigenvalue from the determinant: the difference middle - radius cancels.
    small = max((p00 * p11 - p01 * p01) / large, 0.0)
    angle = 0.5 * math.atan2(p01, half_gap)
    c = math.cos(angle)
    s = math.sin(angle)
    along = c * y0 + s * y1
    across = c * y1 - s * y0
    mu = 0.0
    a = along
    b = across
    for _ in range(NEWTON_STEPS):
        a = along / (1.0 + mu * large)
        b = across / (1.0 + mu * small)
        norm = math.hypot(a, b)
        curvature = a * a * large / (1.0 + mu * large) + b * b * small / (1.0 + mu * small)
        step = _newton_step(norm, curvature, bound)
        if _ends(mu, step, large):
            break
        mu += step
    ratio = bound / math.hypot(a, b)  # as for every d: Newton leaves the sphere by rounding
    return mu, ratio * (c * a - s * b), ratio * (s * a + c * b)


@jit
def project(P: Matrix, theta: Vector, bound: float, scratch: Vector, factor: Matrix) -> float:
    """Project ``theta`` in place; return mu, 0 when it lay inside.

    ``scratch`` (d) and ``factor`` (d + 1, d) are room to work in.
    O(d) when theta is inside, as it is in all but a few rounds.
    """
    size = theta.shape[0]
    if squared_norm(theta) <= bound * bound:
        return 0.0
    if size == 1:
        mu = (abs(theta[0]) / bound - 1.0) / P[0, 0]
        theta[0] = math.copysign(bound, theta[0])
        return mu
    if size == 2:
        mu, theta[0], theta[1] = project_plane(P[0, 0], P[0, 1], P[1, 1], theta[0], theta[1], bound)
        return mu
    mu = -1.0
    if size > CHOLESKY_LIMIT:
        mu = _project_lanczos(P, theta, bound, scratch, factor)
    if mu < 0.0:
        mu = _project_cholesky(P, theta, bound, scratch, factor)
    squared = squared_norm(theta)
    if not (0.0 < squared < math.inf):  # no digit of P is left: the point as it was, on the sphere
        for i in range(size):
            theta[i] = scratch[i]
        squared = squared_norm(theta)
    # Newton leaves the sphere by rounding, up to the condition number of V times 1e-16: put it
    # back.
    ratio = bound / math.sqrt(squared)
    for i in range(size):
        theta[i] *= ratio
    return mu


@jit
def _multiply(P: Matrix, x: Vector, u: Vector) -> float:
    """Set u = P x and return x'P x."""
    total = 0.0
    for i in range(x.shape[0]):
        u[i] = dot(P[i], x)
        total += u[i] * x[i]
    return total


@jit
def _factorise(P: Matrix, mu: float, L: Matrix) -> None:
    """Lower Cholesky factor of I + mu P into the lower triangle of L. Always positive definite."""
    for j in range(P.shape[0]):
        for i in range(j, P.shape[0]):
            total = mu * P[i, j]
            if i == j:
                total += 1.0
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                L[j, j] = math.sqrt(max(total, 1.0))  # every pivot of I + mu P is at least 1
            else:
                L[i, j] = total / L[j, j]


@jit
def _solve_lower(L: Matrix, x: Vector) -> None:
    """x <- L^-1 x."""
    for i in range(x.shape[0]):
        total = x[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]


@jit
def _solve_upper(L: Matrix, x: Vector) -> None:
    """x <- L'^-1 x."""
    for i in range(x.shape[0] - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, x.shape[0]):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]


@jit
def _project_cholesky(P: Matrix, theta: Vector, bound: float, y: Vector, L: Matrix) -> float:
    """Newton on mu, one factorisation I + mu P = L L' a step; row d of L is room for a vector."""
    size = theta.shape[0]
    half = L[size]
    for i in range(size):
        y[i] = theta[i]
    mu = 0.0
    norm = math.sqrt(squared_norm(theta))
    curvature = _multiply(P, theta, half)
    widest = 0.0
    for i in range(size):
        widest += abs(P[i, i])
    for _ in range(NEWTON_STEPS):
        step = _newton_step(norm, curvature, bound)
        if _ends(mu, step, widest):
            break
        mu += step
        _factorise(P, mu, L)
        for i in range(size):
            theta[i] = y[i]
        _solve_lower(L, theta)
        _solve_upper(L, theta)
        norm = math.sqrt(squared_norm(theta))
        for i in range(size):
            half[i] = theta[i]
        _solve_lower(L, half)
        # (I + mu P)^-1 P = (I - (I + mu P)^-1) / mu
        curvature = (norm * norm - squared_norm(half)) / mu
    return mu


@jit
def _project_lanczos(
    P: Matrix, theta: Vector, bound: float, residual: Vector, room: Matrix
) -> float:
    """Newton on mu in the Krylov space of (P, theta); -1, theta as it was, when not exact."""
    size = theta.shape[0]
    steps = LANCZOS_STEPS
    diagonal = room[steps]
    off = room[steps + 1]
    length = math.sqrt(squared_norm(theta))
    for i in range(size):
        room[0, i] = theta[i] / length
    for k in range(steps):
        diagonal[k] = _multiply(P, room[k], residual)
        for _ in range(2):  # orthogonalise twice: once loses digits as Ritz values converge
            for j in range(k + 1):
                overlap = dot(room[j], residual)
                for i in range(size):
                    residual[i] -= overlap * room[j, i]
        off[k] = math.sqrt(squared_norm(residual))
        if k + 1 < steps:
            if off[k] <= LANCZOS_TOLERANCE * diagonal[0]:
                steps = k + 1  # the Krylov space is invariant: exact already
                off[k] = 0.0
                break
            for i in range(size):
                room[k + 1, i] = residual[i] / off[k]
    z = room[LANCZOS_STEPS + 2]
    half = room[LANCZOS_STEPS + 3]
    pivot = room[LANCZOS_STEPS + 4]
    mu = 0.0
    norm = length
    curvature = diagonal[0] * length * length
    widest = 0.0
    for k in range(steps):
        widest += abs(diagonal[k])
        z[k] = 0.0
    z[0] = 1.0
    for _ in range(NEWTON_STEPS):
        step = _newton_step(norm, curvature, bound)
        if _ends(mu, step, widest):
            break
        mu += step
        for k in range(steps):
            z[k] = 0.0
        z[0] = 1.0
        _solve_tridiagonal(diagonal, off, mu, steps, z, pivot)
        for k in range(steps):
            half[k] = z[k]
        _solve_tridiagonal(diagonal, off, mu, steps, half, pivot)
        squared = 0.0
        inner = 0.0
        for k in range(steps):
            squared += z[k] * z[k]
            inner += z[k] * half[k]
        norm = length * math.sqrt(squared)
        curvature = length * length * (squared - inner) / mu
    if not (mu * off[steps - 1] * abs(z[steps - 1]) <= LANCZOS_TOLERANCE):
        return -1.0
    for i in range(size):
        total = 0.0
        for k in range(steps):
            total += z[k] * room[k, i]
        theta[i] = length * total
    return mu


@jit
def _solve_tridiagonal(
    diagonal: Vector, off: Vector, mu: float, steps: int, x: Vector, pivot: Vector
) -> None:
    """x <- (I + mu T)^-1 x, T tridiagonal; positive definite, so no pivoting."""
    pivot[0] = 1.0 + mu * diagonal[0]
    for k in range(1, steps):
        ratio = mu * off[k - 1] / pivot[k - 1]
        pivot[k] = 1.0 + mu * diagonal[k] - ratio * mu * off[k - 1]
        x[k] -= ratio * x[k - 1]
    x[steps - 1] /= pivot[steps - 1]
    for k in range(steps - 2, -1, -1):
        x[k] = (x[k] - mu * off[k] * x[k + 1]) / pivot[k]
