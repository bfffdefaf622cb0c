"""Theta of low rank from rows of H, by Huber's loss with the nuclear norm (:func:`fit`).

Arms and rows lie as :mod:`heavytail.kernels.low_rank` says.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.low_rank import (
    NU,
    RESIDUAL,
    REWARD,
    SHAPE,
    WIDTH,
    estimate_row,
    inside,
    new_right_row,
    room_row,
)
from heavytail.kernels.self_tuning import solve_rows
from heavytail.kernels.svd import complete, orthogonalise

__all__ = ["PASSES", "fit", "is_sane", "residuals"]

S: Final = SHAPE
PENALTY: Final = 0.5  # of what noise makes of a singular value
PASSES: Final = 12  # of a fit: threshold and penalty are set anew in each
STEPS: Final = 60  # of a pass
POWER_STEPS: Final = 20
STILL: Final = 1e-6  # of Theta: a step that moves it less ends a pass ...
SETTLED: Final = 1e-3  # ... and a pass that moves it less is the last
FARTHEST: Final = 1e6  # of the threshold of rewards: a start from further off is none
LARGEST_FIT: Final = 1e140  # of Theta: its square can be summed
FINEST: Final = 1e-13  # of the size of rewards: a smaller threshold is rounding


@jit
def value(s: Vector, M: Matrix, at: int, H: Matrix, row: int) -> float:
    """<X, A> of a kept row and the matrix that begins in row ``at``."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    total = 0.0
    for i in range(d1):
        along = 0.0
        first = d1 if s[S.PAIRS] != 0.0 else i * d2
        for j in range(d2):
            along += M[at + i, j] * H[row, first + j]
        total += along * H[row, i] if s[S.PAIRS] != 0.0 else along
    return total


@jit
def add(s: Vector, M: Matrix, at: int, H: Matrix, row: int, weight: float) -> None:
    """A <- A + weight X."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    for i in range(d1):
        first = d1 if s[S.PAIRS] != 0.0 else i * d2
        times = weight * H[row, i] if s[S.PAIRS] != 0.0 else weight
        for j in range(d2):
            M[at + i, j] += times * H[row, first + j]


@jit
def squared_length(s: Vector, H: Matrix, row: int, features: int) -> float:
    """‖X‖² of a kept row."""
    d1 = int(s[S.D1])
    left = 0.0
    right = 0.0
    for j in range(features):
        if s[S.PAIRS] != 0.0 and j < d1:
            left += H[row, j] * H[row, j]
        else:
            right += H[row, j] * H[row, j]
    return left * right if s[S.PAIRS] != 0.0 else right


@jit
def residuals(s: Vector, M: Matrix, at: int, H: Matrix, count: int, unit: float, b: float) -> None:
    """Of every kept row, over its nu: of reward / unit - <X, A> - b."""
    column = H.shape[1] - WIDTH
    for row in range(count):
        z = H[row, column + REWARD] / unit - value(s, M, at, H, row) - b
        H[row, column + RESIDUAL] = z / H[row, column + NU]


@jit
def spectral(s: Vector, M: Matrix, H: Matrix, count: int, v: int, G: int) -> float:
    """The largest eigenvalue of the mean of vec(X) vec(X)' / nu², by the power method."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    column = H.shape[1] - WIDTH
    for i in range(d1):
        for j in range(d2):
            M[v + i, j] = 1.0 + 0.5 * math.sin(1.0 + i * d2 + j)  # nothing is orthogonal to it
    quotient = 0.0
    for _ in range(POWER_STEPS):
        length = 0.0
        for i in range(d1):
            for j in range(d2):
                length += M[v + i, j] * M[v + i, j]
        length = math.sqrt(length)
        if not length > 0.0:
            return 0.0
        for i in range(d1):
            for j in range(d2):
                M[v + i, j] /= length
                M[G + i, j] = 0.0
        for row in range(count):
            weight = value(s, M, v, H, row) / (H[row, column + NU] * H[row, column + NU])
            add(s, M, G, H, row, weight / count)
        quotient = 0.0
        for i in range(d1):
            for j in range(d2):
                quotient += M[G + i, j] * M[v + i, j]
                M[v + i, j] = M[G + i, j]
    return quotient


@jit
def soften(s: Vector, M: Matrix, A: int, U: int, target: int, penalty: float) -> None:
    """Rows ``target``.. <- the matrix in A with every singular value less ``penalty``, at least 0.
    A and U are left as :func:`orthogonalise` leaves them.
    """
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    orthogonalise(M, A, U, d1, d2)
    for i in range(d1):
        for j in range(d2):
            M[target + i, j] = 0.0
    for m in range(d1):
        sigma = 0.0
        for j in range(d2):
            sigma = math.hypot(sigma, M[A + m, j])
        if not sigma > penalty:
            break  # the longest come first
        kept = 1.0 - penalty / sigma
        for i in range(d1):
            for j in range(d2):
                M[target + i, j] += kept * M[U + m, i] * M[A + m, j]


@jit
def descend(
    s: Vector,
    M: Matrix,
    H: Matrix,
    count: int,
    unit: float,
    tau: float,
    penalty: float,
    L: float,
    weight: float,
) -> float:
    """A pass of accelerated proximal gradient steps on

        (1/n) sum huber_tau((y - <X, Theta> - b) / nu) + penalty ‖Theta‖_*

    from where Theta and b are; how far Theta moved, as a share of its size. The offset b is the
    coefficient of a feature of curvature L (``weight`` is its own, the mean of 1/nu²), so that a
    step of 1/(2L) is short enough for both.
    """
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    column = H.shape[1] - WIDTH
    E = estimate_row(s, M)
    Z = room_row(s, M)
    A = Z + d1
    U = A + d1
    moved_in_all = 0.0
    size = 0.0
    b = s[S.OFFSET]
    ahead = b
    pace = 1.0
    for i in range(d1):
        for j in range(d2):
            M[Z + i, j] = M[E + i, j]
    for _ in range(STEPS):
        residuals(s, M, Z, H, count, unit, ahead)
        for i in range(d1):
            for j in range(d2):
                M[A + i, j] = 2.0 * L * M[Z + i, j]
        mean = 0.0
        for row in range(count):
            psi = score(H[row, column + RESIDUAL], tau) / H[row, column + NU]
            mean += psi / count
            add(s, M, A, H, row, psi / count)
        for i in range(d1):
            for j in range(d2):
                M[A + i, j] /= 2.0 * L
        # Z is done with: the new Theta goes there, and E and it change places below.
        soften(s, M, A, U, Z, penalty / (2.0 * L))
        following = 0.5 + math.sqrt(0.25 + pace * pace)
        momentum = (pace - 1.0) / following
        pace = following
        new = ahead + 0.5 * mean / weight
        ahead = new + momentum * (new - b)
        b = new
        moved = 0.0
        size = 0.0
        for i in range(d1):
            for j in range(d2):
                difference = M[Z + i, j] - M[E + i, j]
                moved += difference * difference
                size += M[Z + i, j] * M[Z + i, j]
                M[E + i, j] = M[Z + i, j]
                M[Z + i, j] += momentum * difference
        moved_in_all += math.sqrt(moved)
        if not (moved > STILL * STILL * size):
            break
    s[S.OFFSET] = b
    return moved_in_all / math.sqrt(size) if size > 0.0 else 0.0


@jit
def fit(
    s: Vector,
    M: Matrix,
    H: Matrix,
    count: int,
    tau_scale: float,
    passes: int,
) -> bool:
    """Theta, and its singular vectors, from the first rows of H; False where they say nothing.

    The threshold is the one that finds the mean (:mod:`heavytail.kernels.self_tuning`), of as many
    coordinates as Theta has, and the penalty what noise makes of a singular value of the gradient,

        R ‖X‖ sqrt((d1 + d2) / (n d1 d2)),   R² = mean of min(r², tau²);

    both are of the residuals, and set anew until Theta stands still. The new basis is left in the
    last d1 + d2 rows of the room. O(n d1 d2) a step.
    """
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    column = H.shape[1] - WIDTH
    E = estimate_row(s, M)
    Z = room_row(s, M)
    A = Z + d1
    parts = min(inside(s) + math.log(count + 1.0), 0.5 * count)
    weight = 0.0
    length = 0.0
    for row in range(count):
        nu = H[row, column + NU]
        weight += 1.0 / (nu * nu * count)
        length += squared_length(s, H, row, column) / (nu * nu * count)
        H[row, column + RESIDUAL] = H[row, column + REWARD] / nu
    L = 1.05 * spectral(s, M, H, count, Z, A)
    unit = solve_rows(H, count, column + RESIDUAL, parts)
    if not (L > 0.0 and unit > 0.0):
        return False
    near = abs(s[S.OFFSET]) <= FARTHEST * unit
    for i in range(d1):
        for j in range(d2):
            near = near and abs(M[E + i, j]) * math.sqrt(length) <= FARTHEST * unit
    for i in range(d1):
        for j in range(d2):
            M[E + i, j] = M[E + i, j] / unit if near else 0.0
    s[S.OFFSET] = s[S.OFFSET] / unit if near else 0.0
    reach = PENALTY * math.sqrt(length * (d1 + d2) / (count * float(d1) * d2))
    last = math.inf
    for _ in range(passes):
        residuals(s, M, E, H, count, unit, s[S.OFFSET])
        last = min(max(solve_rows(H, count, column + RESIDUAL, parts), FINEST), last)
        tau = tau_scale * last
        spread = 0.0
        for row in range(count):
            psi = score(H[row, column + RESIDUAL], tau)
            spread += psi * psi / count
        s[S.PENALTY] = reach * math.sqrt(spread)
        moved = descend(s, M, H, count, unit, tau, s[S.PENALTY], L, weight)
        if moved < SETTLED:
            break
    complete(M, A, new_right_row(s, M), d1, d2, d2)
    for i in range(d1):
        for j in range(d2):
            M[E + i, j] *= unit
    s[S.OFFSET] *= unit
    s[S.PENALTY] *= unit
    if not is_sane(s, M):
        return False
    s[S.FITS] += 1.0
    return True


@jit
def is_sane(s: Vector, M: Matrix) -> bool:
    """Tell whether a fit stayed in range; forget it where scales too far apart took it out."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    E = estimate_row(s, M)
    sane = abs(s[S.OFFSET]) <= LARGEST_FIT and abs(s[S.PENALTY]) <= LARGEST_FIT
    for i in range(d1):
        for j in range(d2):
            sane = sane and abs(M[E + i, j]) <= LARGEST_FIT
    if not sane:
        s[S.OFFSET] = 0.0
        s[S.PENALTY] = 0.0
        for i in range(d1):
            for j in range(d2):
                M[E + i, j] = 0.0
    return sane
