"""The full-batch M-estimate over kept rows: argmin over the ball of (lambda/2)‖theta‖² + sum of
losses.

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
from heavytail.kernels.layout import INVERSE

__all__ = [
    "TARGET",
    "TAU",
    "descend",
    "extra_rows",
    "first_extra",
    "minimise_quadratic",
    "newton",
    "pseudo_huber_score",
    "residual",
]

# Columns of H, counted from behind the features.
TARGET: Final = 0  # b
TAU: Final = 1

# Rows of M, counted from first_extra + d, behind the quadratic part Q (d rows).
LINEAR: Final = 0  # c: the model is theta'Q theta / 2 - c'theta
NEXT: Final = 1  # the model's minimiser
GRADIENT: Final = 2
BEHIND: Final = 3

TOLERANCE: Final = 1e-13  # KKT residual, relative to the sum of the sizes of its terms: rounding
STALLED: Final = 1e-9  # below this a residual that no longer halves is rounding too
FULL_STEPS: Final = 20
MOST_STEPS: Final = 200  # never met
CUTS: Final = 60  # halvings of a step
SPHERE: Final = 1e-12  # relative distance from the sphere that counts as on it
NEWTON_STEPS: Final = 100  # of the multiplier; never met
NORM_TOLERANCE: Final = 1e-14
FAR: Final = 1e8  # |z| / tau beyond which the pseudo-Huber score is tau to the last bit
MOST_DESCENTS: Final = 1_000_000


def extra_rows(size: int) -> int:
    """Rows of M that a fit of ``size`` coordinates needs behind the common ones."""
    return size + BEHIND


@jit
def first_extra(size: int) -> int:
    """The first row of M behind the common ones: there Q begins."""
    return INVERSE + 2 * size + 1


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
    it.
    One pass, O(count d²).
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
    for row in range(count):
        if group >= 0 and H[row, label] != group:
            continue
        z = H[row, size + TARGET]
        length = 0.0
        for i in range(size):
            z -= H[row, i] * M[at, i]
            length += abs(H[row, i])
        limit = tau if tau > 0.0 else H[row, size + TAU]
        weight = 1.0
        if smooth:
            ratio = z / limit
            if abs(ratio) > FAR:
                psi = math.copysign(limit, z)
                weight = 0.0
            else:
                inverse = 1.0 / (1.0 + ratio * ratio)
                root = math.sqrt(inverse)
                psi = z * root
                weight = inverse * root
        else:
            psi = score(z, limit)
            if psi != z:
                weight = 0.0
        terms += abs(psi) * length
        for i in range(size):
            M[gradient, i] -= psi * H[row, i]
        if weight > 0.0:
            for i in range(size):
                scaled = weight * H[row, i]
                for j in range(i + 1):
                    M[Q + i, j] += scaled * H[row, j]
    return terms


@jit
def factorise(M: Matrix, mu: float, ridge: float) -> None:
    """The lower Cholesky factor of Q + mu I, whose pivots are at least ridge, into M's room for
    one.
    """
    size = M.shape[1]
    Q = first_extra(size)
    L = INVERSE + size
    for j in range(size):
        for i in range(j, size):
            total = M[Q + i, j]
            if i == j:
                total += mu
            for k in range(j):
                total -= M[L + i, k] * M[L + j, k]
            if i == j:
                M[L + j, j] = math.sqrt(max(total, ridge))
            else:
                M[L + i, j] = total / M[L + j, j]


@jit
def substitute(M: Matrix, source: int, target: int, back: bool) -> None:
    """Row ``target`` <- L^-1 row ``source``, then L'^-1 of it where ``back``."""
    size = M.shape[1]
    L = INVERSE + size
    for i in range(size):
        total = M[source, i]
        for k in range(i):
            total -= M[L + i, k] * M[target, k]
        M[target, i] = total / M[L + i, i]
    if back:
        for i in range(size - 1, -1, -1):
            total = M[target, i]
            for k in range(i + 1, size):
                total -= M[L + k, i] * M[target, k]
            M[target, i] = total / M[L + i, i]


@jit
def squared_row(M: Matrix, row: int) -> float:
    """‖row‖²."""
    total = 0.0
    for i in range(M.shape[1]):
        total += M[row, i] * M[row, i]
    return total


@jit
def minimise_quadratic(M: Matrix, ridge: float, bound: float) -> float:
    """Set NEXT to argmin_{‖theta‖ <= bound} theta'Q theta / 2 - c'theta; return its multiplier mu.

    (Q + mu I) theta = c with mu = 0 inside, else the root of ‖theta(mu)‖ = bound by Newton on
    1/‖theta(mu)‖, which rises to it from mu = 0 without overshooting. O(d³) a step.
    """
    size = M.shape[1]
    behind = first_extra(size) + size
    following = behind + NEXT
    half = INVERSE + 2 * size
    factorise(M, 0.0, ridge)
    substitute(M, behind + LINEAR, following, True)
    norm = math.sqrt(squared_row(M, following))
    mu = 0.0
    if norm <= bound:
        return mu
    for _ in range(NEWTON_STEPS):
        if not (norm > bound * (1.0 + NORM_TOLERANCE)):
            break
        substitute(M, following, half, False)  # ‖half‖² = theta'(Q + mu I)^-1 theta
        step = (norm / bound - 1.0) * norm * norm / squared_row(M, half)
        if mu + step <= mu:
            break
        mu += step
        factorise(M, mu, ridge)
        substitute(M, behind + LINEAR, following, True)
        norm = math.sqrt(squared_row(M, following))
    for i in range(size):  # back onto the sphere, which rounding left
        M[following, i] *= bound / norm
    return mu


@jit
def kkt_residual(M: Matrix, at: int, bound: float) -> float:
    """How far the gradient at the theta in row ``at`` is from -mu theta, mu >= 0 on the sphere."""
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
    """Shorten NEXT - theta to where the loss stops falling along it, by halving. O(count d)
    each.
    """
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

    Two or three passes over the rows when the start is the last round's minimiser.
    """
    size = M.shape[1]
    Q = first_extra(size)
    behind = Q + size
    last = math.inf
    for k in range(MOST_STEPS):
        terms = scan(M, H, count, at, ridge, tau, smooth, label, group)
        left = kkt_residual(M, at, bound)
        if left <= TOLERANCE * terms or (left <= STALLED * terms and left > 0.5 * last):
            return k + 1
        last = left
        for i in range(size):  # c = Q theta - gradient
            total = -M[behind + GRADIENT, i]
            for j in range(size):
                total += (M[Q + i, j] if j <= i else M[Q + j, i]) * M[at, j]
            M[behind + LINEAR, i] = total
        minimise_quadratic(M, ridge, bound)
        if k >= FULL_STEPS:
            cut(M, H, count, at, ridge, tau, smooth, label, group)
        for i in range(size):
            M[at, i] = M[behind + NEXT, i]
    return MOST_STEPS


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
        for i in range(size):
            M[gradient, i] = ridge * M[at, i]
        for row in range(count):
            z = H[row, size + TARGET]
            for i in range(size):
                z -= H[row, i] * M[at, i]
            psi = score(z, H[row, size + TAU])
            for i in range(size):
                M[gradient, i] -= psi * H[row, i]
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
