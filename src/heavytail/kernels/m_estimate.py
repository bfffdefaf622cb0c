"""The M-estimate over kept rows: argmin over the ball of (lambda/2)‖theta‖² + losses.

A row of H is one round: a = x / sigma, b = r / sigma and the threshold tau, behind one another.
The loss is Huber's or the smooth pseudo-Huber. Newton's model of it at theta is a quadratic, and
the model's own minimiser over the ball, multiplier and all, is the next iterate: a fixed point is
the constrained minimiser, which the V-norm projection of the free minimiser is not. Regions of
Huber's loss are finitely many, so the iteration ends exactly; where full steps have not settled
after ``FULL_STEPS``, each is cut where the loss stops falling along it, which cannot cycle.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.quadratic import (
    GRADIENT,
    LINEAR,
    NEXT,
    extra_rows,
    first_extra,
    minimise_quadratic,
    squared_row,
)

__all__ = ["TARGET", "TAU", "advance", "descend", "extra_rows", "newton", "residual"]

# Columns of H, counted from behind the features.
TARGET: Final = 0  # b
TAU: Final = 1

TOLERANCE: Final = 1e-13  # KKT residual, relative to the sum of the sizes of its terms: rounding
STALLED: Final = 1e-9  # below this a residual that no longer halves is rounding too
FULL_STEPS: Final = 20
MOST_STEPS: Final = 200  # never met
CUTS: Final = 60  # halvings of a step
SPHERE: Final = 1e-12  # relative distance from the sphere that counts as on it
FAR: Final = 1e8  # |z| / tau beyond which the pseudo-Huber score is tau to the last bit
MOST_DESCENTS: Final = 1_000_000


@jit
def pseudo_huber_score(z: float, tau: float) -> float:
    """The derivative z / sqrt(1 + (z/tau)²) of tau² (sqrt(1 + (z/tau)²) - 1)."""
    ratio = z / tau
    if abs(ratio) > FAR:
        return math.copysign(tau, z)
    return z / math.sqrt(1.0 + ratio * ratio)


@jit
def residual(M: Matrix, H: Matrix, row: int, at: int) -> float:
    """z = b - a'theta of one row, theta in row ``at`` of M."""
    size = M.shape[1]
    z = H[row, size + TARGET]
    for i in range(size):
        z -= H[row, i] * M[at, i]
    return z


@jit
def psi_and_weight(z: float, tau: float, smooth: bool) -> tuple[float, float]:
    """The first and second derivative of the loss at z."""
    if smooth:
        ratio = z / tau
        if abs(ratio) > FAR:
            return math.copysign(tau, z), 0.0
        inverse = 1.0 / (1.0 + ratio * ratio)
        root = math.sqrt(inverse)
        return z * root, inverse * root
    psi = score(z, tau)
    return psi, 1.0 if psi == z else 0.0


@jit
def scan_plane(
    M: Matrix, H: Matrix, count: int, at: int, tau: float, smooth: bool, label: int, group: int
) -> float:
    """:func:`scan` at d = 2, its sums in registers: three times as fast."""
    Q = first_extra(2)
    gradient = Q + 2 + GRADIENT
    theta_0 = M[at, 0]
    theta_1 = M[at, 1]
    g_0, g_1, q_00, q_10, q_11, terms = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for row in range(count):
        if group >= 0 and H[row, label] != group:
            continue
        x_0 = H[row, 0]
        x_1 = H[row, 1]
        z = H[row, 2 + TARGET] - x_0 * theta_0 - x_1 * theta_1
        psi, weight = psi_and_weight(z, tau if tau > 0.0 else H[row, 2 + TAU], smooth)
        g_0 += psi * x_0
        g_1 += psi * x_1
        terms += abs(psi) * (abs(x_0) + abs(x_1))
        q_00 += weight * x_0 * x_0
        q_10 += weight * x_1 * x_0
        q_11 += weight * x_1 * x_1
    M[gradient, 0] -= g_0
    M[gradient, 1] -= g_1
    M[Q, 0] += q_00
    M[Q + 1, 0] += q_10
    M[Q + 1, 1] += q_11
    return terms


@jit
def add_row(M: Matrix, H: Matrix, row: int, at: int, tau: float, smooth: bool) -> float:
    """Add what one row gives to the gradient and Q; return the size of its term. O(d²)."""
    size = M.shape[1]
    Q = first_extra(size)
    gradient = Q + size + GRADIENT
    psi, weight = psi_and_weight(residual(M, H, row, at), tau, smooth)
    length = 0.0
    for i in range(size):
        M[gradient, i] -= psi * H[row, i]
        length += abs(H[row, i])
    if weight > 0.0:
        for i in range(size):
            scaled = weight * H[row, i]
            for j in range(i + 1):
                M[Q + i, j] += scaled * H[row, j]
    return abs(psi) * length


@jit
def scan(
    M: Matrix,
    H: Matrix,
    count: int,
    at: int,
    ridge: float,
    tau: float,
    smooth: bool,
    label: int,
    group: int,
) -> float:
    """Set the gradient and Q at the theta in row ``at``; return the sum of the sizes of its terms.

    ``tau`` > 0 stands for every row's own; ``group`` >= 0 takes the rows whose column ``label`` is
    it. One pass, O(count d²).
    """
    size = M.shape[1]
    Q = first_extra(size)
    gradient = Q + size + GRADIENT
    terms = 0.0
    for i in range(size):
        M[gradient, i] = ridge * M[at, i]
        terms += abs(M[gradient, i])
        for j in range(i):
            M[Q + i, j] = 0.0
        M[Q + i, i] = ridge
    if size == 2:
        return terms + scan_plane(M, H, count, at, tau, smooth, label, group)
    for row in range(count):
        if group >= 0 and H[row, label] != group:
            continue
        limit = tau if tau > 0.0 else H[row, size + TAU]
        terms += add_row(M, H, row, at, limit, smooth)
    return terms


@jit
def kkt_residual(M: Matrix, at: int, bound: float) -> float:
    """The distance from the gradient at theta, row ``at``, to -mu theta, mu >= 0 on the sphere."""
    size = M.shape[1]
    gradient = first_extra(size) + size + GRADIENT
    squared = squared_row(M, at)
    mu = 0.0
    if squared >= bound * bound * (1.0 - SPHERE):
        for i in range(size):
            mu -= M[gradient, i] * M[at, i]
        mu = max(mu / squared, 0.0)
    total = 0.0
    for i in range(size):
        rest = M[gradient, i] + mu * M[at, i]
        total += rest * rest
    return math.sqrt(total)


@jit
def cut(
    M: Matrix,
    H: Matrix,
    count: int,
    at: int,
    ridge: float,
    tau: float,
    smooth: bool,
    label: int,
    group: int,
) -> None:
    """Shorten NEXT - theta to where the loss stops falling, by halving. O(count d) each."""
    size = M.shape[1]
    following = first_extra(size) + size + NEXT
    low = 0.0
    high = 1.0
    share = 1.0
    for _ in range(CUTS):
        slope = 0.0
        for i in range(size):
            step = M[following, i] - M[at, i]
            slope += ridge * (M[at, i] + share * step) * step
        for row in range(count):
            if group >= 0 and H[row, label] != group:
                continue
            z = H[row, size + TARGET]
            rise = 0.0
            for i in range(size):
                step = M[following, i] - M[at, i]
                z -= H[row, i] * (M[at, i] + share * step)
                rise += H[row, i] * step
            limit = tau if tau > 0.0 else H[row, size + TAU]
            slope -= rise * (pseudo_huber_score(z, limit) if smooth else score(z, limit))
        if slope <= 0.0:
            low = share
        else:
            high = share
        if high - low <= 0.125 * high:  # near enough the lowest point, on the falling side
            break
        share = 0.5 * (low + high)
    for i in range(size):
        M[following, i] = M[at, i] + low * (M[following, i] - M[at, i])


@jit
def model_step(M: Matrix, at: int, ridge: float, bound: float) -> None:
    """NEXT <- the minimiser over the ball of the quadratic model at theta: c = Q theta - gradient.

    O(d³).
    """
    size = M.shape[1]
    Q = first_extra(size)
    behind = Q + size
    for i in range(size):
        total = -M[behind + GRADIENT, i]
        for j in range(size):
            total += (M[Q + i, j] if j <= i else M[Q + j, i]) * M[at, j]
        M[behind + LINEAR, i] = total
    minimise_quadratic(M, ridge, bound)


@jit
def take_step(M: Matrix, at: int) -> None:
    """theta <- NEXT."""
    following = first_extra(M.shape[1]) + M.shape[1] + NEXT
    for i in range(M.shape[1]):
        M[at, i] = M[following, i]


@jit
def newton(
    M: Matrix,
    H: Matrix,
    count: int,
    at: int,
    ridge: float,
    bound: float,
    tau: float,
    smooth: bool,
    label: int,
    group: int,
) -> int:
    """Move the theta in row ``at`` to the minimiser, from where it is; return the passes taken.

    Leaves the gradient and Q at the minimiser in M.
    """
    last = math.inf
    for k in range(MOST_STEPS):
        terms = scan(M, H, count, at, ridge, tau, smooth, label, group)
        left = kkt_residual(M, at, bound)
        if left <= TOLERANCE * terms or (left <= STALLED * terms and left > 0.5 * last):
            return k + 1
        last = left
        model_step(M, at, ridge, bound)
        if k >= FULL_STEPS:
            cut(M, H, count, at, ridge, tau, smooth, label, group)
        take_step(M, at)
    return MOST_STEPS


@jit
def advance(
    M: Matrix, H: Matrix, count: int, at: int, ridge: float, bound: float, smooth: bool
) -> int:
    """:func:`newton` when only the last row is new: the gradient and Q of the rows before it are
    still in M, so that the first step needs no pass over them. One or two passes.
    """
    new = count - 1
    add_row(M, H, new, at, H[new, M.shape[1] + TAU], smooth)
    model_step(M, at, ridge, bound)
    take_step(M, at)
    return newton(M, H, count, at, ridge, bound, 0.0, smooth, 0, -1)


@jit
def slope_plane(M: Matrix, H: Matrix, count: int, at: int, ridge: float) -> None:
    """:func:`slope` at d = 2, its sums in registers."""
    gradient = first_extra(2) + 2 + GRADIENT
    theta_0 = M[at, 0]
    theta_1 = M[at, 1]
    g_0 = ridge * theta_0
    g_1 = ridge * theta_1
    for row in range(count):
        x_0 = H[row, 0]
        x_1 = H[row, 1]
        psi = score(H[row, 2 + TARGET] - x_0 * theta_0 - x_1 * theta_1, H[row, 2 + TAU])
        g_0 -= psi * x_0
        g_1 -= psi * x_1
    M[gradient, 0] = g_0
    M[gradient, 1] = g_1


@jit
def slope(M: Matrix, H: Matrix, count: int, at: int, ridge: float) -> None:
    """Set the gradient of Huber's loss at the theta in row ``at``. O(count d)."""
    size = M.shape[1]
    if size == 2:
        slope_plane(M, H, count, at, ridge)
        return
    gradient = first_extra(size) + size + GRADIENT
    for i in range(size):
        M[gradient, i] = ridge * M[at, i]
    for row in range(count):
        z = H[row, size + TARGET]
        for i in range(size):
            z -= H[row, i] * M[at, i]
        psi = score(z, H[row, size + TAU])
        for i in range(size):
            M[gradient, i] -= psi * H[row, i]


@jit
def descend(
    M: Matrix,
    H: Matrix,
    count: int,
    at: int,
    ridge: float,
    bound: float,
    lipschitz: float,
    tolerance: float,
) -> int:
    """Projected gradient descent on Huber's loss from theta = 0, step 1/L; return its steps.

    Stops when L‖theta - next‖ <= lambda tolerance / 2, which puts theta within ``tolerance`` of the
    minimiser whatever the data: the loss is lambda-strongly convex.
    """
    size = M.shape[1]
    gradient = first_extra(size) + size + GRADIENT
    for i in range(size):
        M[at, i] = 0.0
    for k in range(MOST_DESCENTS):
        slope(M, H, count, at, ridge)
        squared = 0.0
        for i in range(size):
            M[gradient, i] = M[at, i] - M[gradient, i] / lipschitz
            squared += M[gradient, i] * M[gradient, i]
        shrink = min(1.0, bound / math.sqrt(squared)) if squared > 0.0 else 1.0
        moved = 0.0
        for i in range(size):
            step = shrink * M[gradient, i] - M[at, i]
            M[at, i] = shrink * M[gradient, i]
            moved += step * step
        if lipschitz * math.sqrt(moved) <= 0.5 * ridge * tolerance:
            return k + 1
    return MOST_DESCENTS
