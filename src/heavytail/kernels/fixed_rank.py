"""Theta of a given rank from rows of H, by Huber's loss without a penalty (:func:`polish`), and the
rank that the rows ask for (:func:`choose_rank`).
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.cholesky import factorise, substitute
from heavytail.kernels.huber import huber, score
from heavytail.kernels.jit import jit
from heavytail.kernels.low_rank import (
    NU,
    RESIDUAL,
    REWARD,
    SHAPE,
    WIDTH,
    estimate_row,
    inside,
    new_left_row,
    new_right_row,
    room_row,
    spare_row,
    turn_by,
)
from heavytail.kernels.nuclear_norm import residuals
from heavytail.kernels.self_tuning import solve_rows
from heavytail.kernels.svd import complete, orthogonalise, product

__all__ = ["choose_rank", "polish"]

S: Final = SHAPE
STEPS: Final = 60
STILL: Final = 1e-6  # of Theta: a step that moves it less is the last
ABOVE: Final = 1.2  # times what noise alone gains by one rank more
TINY: Final = 1e-12  # of the largest square: added, so that what no row tells stays near 0


@jit
def polish(s: Vector, M: Matrix, H: Matrix, count: int, tau_scale: float) -> None:
    """Theta of rank r, by Huber's loss without a penalty, from where a fit left it.

    Gauss and Newton on the matrices of rank r: least squares, with Huber's weights, in the
    coordinates inside of the last Theta, whose first r singular parts are the next. The spare rows
    are room for k + 2 of k + 1 numbers; the new basis is left where the fit left its own. O(n k²)
    a step.
    """
    d1 = int(s[S.D1])
    column = H.shape[1] - WIDTH
    k = inside(s)
    parts = min(k + math.log(count + 1.0), 0.5 * count)
    E = estimate_row(s, M)
    Z = room_row(s, M)
    A = Z + d1
    U = new_left_row(s, M)
    V = new_right_row(s, M)
    Q = spare_row(s, M)
    for _ in range(STEPS):
        residuals(s, M, E, H, count, 1.0, s[S.OFFSET])
        tau = tau_scale * solve_rows(H, count, column + RESIDUAL, parts)
        for i in range(k + 2):
            for j in range(k + 1):
                M[Q + i, j] = 0.0
        for row in range(count):
            turn_by(s, M, U, V, H, row, Z, False)
            M[Z, k] = 1.0
            nu = H[row, column + NU]
            z = abs(H[row, column + RESIDUAL])
            weight = (tau / z if z > tau else 1.0) / (nu * nu)
            for i in range(k + 1):
                M[Q + k + 1, i] += weight * H[row, column + REWARD] * M[Z, i]
                for j in range(i + 1):
                    M[Q + i, j] += weight * M[Z, i] * M[Z, j]
        if not (solve(M, Q, k + 1) and abs(M[Q + k + 1, 0]) < math.inf):
            return  # they do not tell: the fit stands
        moved = embed(s, M, Q + k + 1, U, V, A)
        s[S.OFFSET] = M[Q + k + 1, k]
        cut_rank(s, M, A, U, V)
        if moved < STILL:
            break


@jit
def solve(M: Matrix, Q: int, size: int) -> bool:
    """Row Q + size <- the solution of Q x = that row, with a little on Q's diagonal; False where it
    is not positive definite even so. The last coordinate has a unit of its own.
    """
    little = 0.0
    for j in range(size - 1):
        little = max(little, TINY * M[Q + j, j])
    for j in range(size - 1):
        M[Q + j, j] += little
    M[Q + size - 1, size - 1] *= 1.0 + TINY
    if not factorise(M, Q, Q, size, 0.0, 0.0):
        return False
    substitute(M, Q, size, Q + size, Q + size, True)
    return True


@jit
def embed(s: Vector, M: Matrix, z: int, U: int, V: int, A: int) -> float:
    """Rows A.. <- the matrix whose coordinates inside are row z; how far from the last Theta it
    is, as a share of its size.
    """
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    r = int(s[S.RANK])
    E = estimate_row(s, M)
    moved = 0.0
    length = 0.0
    for p in range(d1):
        for q in range(d2):
            total = 0.0
            for i in range(r):
                total += M[U + i, p] * M[z, i * d2 + q]
            for i in range(r, d1):
                along = 0.0
                for j in range(r):
                    along += M[z, r * d2 + (i - r) * r + j] * M[V + j, q]
                total += M[U + i, p] * along
            M[A + p, q] = total
            moved += (total - M[E + p, q]) ** 2.0
            length += total * total
    return math.sqrt(moved / length) if length > 0.0 else 0.0


@jit
def cut_rank(s: Vector, M: Matrix, A: int, U: int, V: int) -> None:
    """Theta <- the first r singular parts of the matrix in rows A..; its basis in U.. and V.."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    E = estimate_row(s, M)
    orthogonalise(M, A, U, d1, d2)
    complete(M, A, V, d1, d2, d2)
    for p in range(d1):
        for q in range(d2):
            total = 0.0
            for i in range(int(s[S.RANK])):
                total += M[U + i, p] * M[A + i, q]
            M[E + p, q] = total


@jit
def copy_rows(M: Matrix, source: int, target: int, rows: int) -> None:
    """Rows target.. <- rows source.."""
    for i in range(rows):
        for j in range(M.shape[1]):
            M[target + i, j] = M[source + i, j]


@jit
def rank_of_fit(s: Vector, M: Matrix, most: int) -> int:
    """Count the singular values that the penalty left in the fit, from 1 to ``most``."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    A = room_row(s, M)
    copy_rows(M, estimate_row(s, M), A, d1)
    orthogonalise(M, A, A + d1, d1, d2)
    largest = product(M, A, A, d2)
    rank = 1
    while rank < most and product(M, A + rank, A + rank, d2) > TINY * largest:
        rank += 1
    return rank


@jit
def choose_rank(
    s: Vector, M: Matrix, H: Matrix, count: int, tau_scale: float, most: int, room: int
) -> None:
    """Theta of the rank that the rows ask for, at most ``most``, from where a fit left it.

    One rank more is taken while it lowers Huber's loss by more than noise alone would:

        2 (D_r - D_{r+1}) mean(psi') / mean(psi²) (1 - k/n) > 1.2 (sqrt(d1 - r) + sqrt(d2 - r))²,

    psi and k of rank r + 1, and both losses at its threshold. On the left is the drop of twice the
    log-likelihood for normal noise; the bracket is what the best of all directions makes of noise.
    Rows ``room``.. are room for 2 d1 + d2.
    """
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    column = H.shape[1] - WIDTH
    E = estimate_row(s, M)
    U = new_left_row(s, M)
    V = new_right_row(s, M)
    last = room + d1 + d2
    s[S.RANK] = 1.0
    most = rank_of_fit(s, M, most)
    copy_rows(M, U, room, d1)
    copy_rows(M, V, room + d1, d2)
    polish(s, M, H, count, tau_scale)
    while s[S.RANK] < most:
        offset = s[S.OFFSET]
        rank = s[S.RANK]
        copy_rows(M, E, last, d1)
        copy_rows(M, room, U, d1)
        copy_rows(M, room + d1, V, d2)
        s[S.RANK] += 1.0
        if inside(s) < 0.5 * count:
            polish(s, M, H, count, tau_scale)
            residuals(s, M, E, H, count, 1.0, s[S.OFFSET])
            parts = inside(s) + math.log(count + 1.0)
            tau = tau_scale * solve_rows(H, count, column + RESIDUAL, parts)
            energy = 0.0
            unclipped = 0.0
            gain = 0.0
            for row in range(count):
                z = H[row, column + RESIDUAL]
                energy += score(z, tau) ** 2.0
                unclipped += 1.0 if abs(z) <= tau else 0.0
                gain -= huber(z, tau)
            residuals(s, M, last, H, count, 1.0, offset)
            for row in range(count):
                gain += huber(H[row, column + RESIDUAL], tau)
            gain *= 2.0 * unclipped * (1.0 - inside(s) / count)
            noise = (math.sqrt(d1 - rank) + math.sqrt(d2 - rank)) ** 2.0
            if gain > ABOVE * noise * energy:
                continue
        s[S.RANK] = rank
        s[S.OFFSET] = offset
        A = room_row(s, M) + d1
        copy_rows(M, last, A, d1)
        cut_rank(s, M, A, U, V)
        break
