"""Arms that are matrices X (d1 x d2) of mean reward <X, Theta>, Theta of few singular values.

They are turned into the coordinates that Theta's singular vectors span (:func:`turn`): of U_r' X,
r d2 numbers, and of U_perp' X V_r, (d1 - r) r of them. Those are k = r (d1 + d2) - r² orthonormal
coordinates of the matrices whose columns or rows lie in the spans of U_r and V_r;
U_perp' X V_perp is what is outside. How Theta is found: :mod:`heavytail.kernels.nuclear_norm`.

An arm lies in a vector: row by row, or, where it is a pair (u, v) and X = u v', u and then v.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict, transform
from heavytail.kernels.index import beyond, index_of, usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    FEATURE,
    INVERSE,
    LOG_DET,
    NO_ARM,
    RADIUS,
    THETA,
)
from heavytail.kernels.random import uniform

__all__ = [
    "NU",
    "RESIDUAL",
    "REWARD",
    "SHAPE",
    "WIDTH",
    "any_arm",
    "estimate_row",
    "inside",
    "keep",
    "left_row",
    "new_left_row",
    "new_right_row",
    "right_row",
    "room_row",
    "rows",
    "select_inside",
    "select_whole",
    "settle",
    "spare_row",
    "take_basis",
    "turn",
    "turn_by",
]


class Shape(NamedTuple):
    """The last numbers of s, counted from its end: so they follow whatever slots a policy has."""

    D1: int
    D2: int
    RANK: int
    PAIRS: int  # 1 where arms are pairs of vectors
    KEPT: int  # rows of H
    FITS: int  # of Theta so far
    OFFSET: int  # of the fit: what every reward has in common
    PENALTY: int  # of the fit: the weight of the nuclear norm


SHAPE: Final = Shape(*range(-len(Shape._fields), 0))
S: Final = SHAPE

# Columns of H behind the features.
REWARD: Final = 0
NU: Final = 1
RESIDUAL: Final = 2  # room: over nu and the unit of the fit
WIDTH: Final = 3


def rows(d1: int, d2: int) -> int:
    """Rows of room that a fit needs behind the named ones: two matrices of d1, and a new basis."""
    return 4 * d1 + d2


@jit
def left_row(M: Matrix) -> int:
    """Where the u_i' begin: an orthonormal basis, d1 rows of d1."""
    return INVERSE + 2 * M.shape[1] + 1


@jit
def right_row(s: Vector, M: Matrix) -> int:
    """Where the v_i' begin: an orthonormal basis, d2 rows of d2."""
    return left_row(M) + int(s[S.D1])


@jit
def estimate_row(s: Vector, M: Matrix) -> int:
    """Where the last fit of Theta begins, d1 rows of d2."""
    return right_row(s, M) + int(s[S.D2])


@jit
def room_row(s: Vector, M: Matrix) -> int:
    """Where the room of the fit begins; see :func:`rows`."""
    return estimate_row(s, M) + int(s[S.D1])


@jit
def new_left_row(s: Vector, M: Matrix) -> int:
    """Where a fit leaves the u_i' that it found."""
    return room_row(s, M) + 2 * int(s[S.D1])


@jit
def new_right_row(s: Vector, M: Matrix) -> int:
    """Where a fit leaves the v_i' that it found."""
    return room_row(s, M) + 3 * int(s[S.D1])


@jit
def spare_row(s: Vector, M: Matrix) -> int:
    """Where the room of a policy of its own begins, behind that of the fit."""
    return new_right_row(s, M) + int(s[S.D2])


@jit
def inside(s: Vector) -> int:
    """k: how many coordinates are inside."""
    r = int(s[S.RANK])
    return r * (int(s[S.D1]) + int(s[S.D2])) - r * r


@jit
def turn(s: Vector, M: Matrix, arms: Matrix, a: int, at: int, outside: bool) -> None:
    """Row ``at`` of M <- the coordinates of arm ``a``: those inside, and behind them, where
    ``outside``, the others. Writes to no other row.
    """
    turn_by(s, M, left_row(M), right_row(s, M), arms, a, at, outside)


@jit
def turn_by(
    s: Vector, M: Matrix, U: int, V: int, arms: Matrix, a: int, at: int, outside: bool
) -> None:
    """:func:`turn` by the basis in rows U.. and V..; without what is outside, all further
    coordinates but the last are 0.
    """
    if not outside:
        for j in range(inside(s), M.shape[1] - 1):
            M[at, j] = 0.0
    if s[S.PAIRS] != 0.0:
        turn_pair(s, M, U, V, arms, a, at, outside)
    else:
        turn_matrix(s, M, U, V, arms, a, at, outside)


@jit
def turn_pair(
    s: Vector, M: Matrix, U: int, V: int, arms: Matrix, a: int, at: int, outside: bool
) -> None:
    """:func:`turn` of X = u v', which is never formed: O(d1² + r d2), and O(d1² + d2²) with what is
    outside.
    """
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    r = int(s[S.RANK])
    k = inside(s)
    for i in range(r):
        along = 0.0
        for p in range(d1):
            along += M[U + i, p] * arms[a, p]
        for j in range(d2):
            M[at, i * d2 + j] = along * arms[a, d1 + j]
    first = r * d2  # of r numbers for every i >= r: the first of them is u_i'u for a while
    for i in range(r, d1, 4):  # four sums at a time, the last one again where there are fewer
        i_one = min(i + 1, d1 - 1)
        i_two = min(i + 2, d1 - 1)
        i_three = min(i + 3, d1 - 1)
        sum_zero = sum_one = sum_two = sum_three = 0.0
        for p in range(d1):
            sum_zero += M[U + i, p] * arms[a, p]
            sum_one += M[U + i_one, p] * arms[a, p]
            sum_two += M[U + i_two, p] * arms[a, p]
            sum_three += M[U + i_three, p] * arms[a, p]
        M[at, first + (i - r) * r] = sum_zero
        M[at, first + (i_one - r) * r] = sum_one
        M[at, first + (i_two - r) * r] = sum_two
        M[at, first + (i_three - r) * r] = sum_three
    for j in range((d2 if outside else r) - 1, -1, -1):
        along = 0.0
        for q in range(d2):
            along += M[V + j, q] * arms[a, d1 + q]
        for i in range(d1 - r):
            if j < r:
                M[at, first + i * r + j] = along * M[at, first + i * r]
            else:
                M[at, k + i * (d2 - r) + j - r] = along * M[at, first + i * r]


@jit
def turn_matrix(
    s: Vector, M: Matrix, U: int, V: int, arms: Matrix, a: int, at: int, outside: bool
) -> None:
    """:func:`turn` of a whole X: O(r d1 d2), and O(d1² d2) with what is outside."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    r = int(s[S.RANK])
    k = inside(s)
    for i in range(r):
        for j in range(d2):
            total = 0.0
            for p in range(d1):
                total += M[U + i, p] * arms[a, p * d2 + j]
            M[at, i * d2 + j] = total
    for i in range((d1 - r) * (d2 if outside else r)):
        M[at, r * d2 + i] = 0.0
    for j in range(d2 if outside else r):
        for p in range(d1):
            along = 0.0  # of row p of X V
            for q in range(d2):
                along += arms[a, p * d2 + q] * M[V + j, q]
            for i in range(r, d1):
                if j < r:
                    M[at, r * d2 + (i - r) * r + j] += M[U + i, p] * along
                else:
                    M[at, k + (i - r) * (d2 - r) + j - r] += M[U + i, p] * along


@jit
def any_arm(s: Vector, arms: Matrix, key: int, draws: int) -> int:
    """An arm drawn anew each time; ``key`` and ``draws`` are the slots of the randomness."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    if arms.shape[0] == 0:
        return NO_ARM
    number = int(s[draws])
    s[draws] += 1.0
    return int(uniform(int(s[key]), number, 0) * arms.shape[0])


@jit
def keep(H: Matrix, row: int, x: Vector, reward: float, nu: float) -> None:
    """Row ``row`` of H <- a round."""
    features = H.shape[1] - WIDTH
    for i in range(features):
        H[row, i] = x[i]
    H[row, features + REWARD] = reward
    H[row, features + NU] = nu


@jit
def take_basis(s: Vector, M: Matrix) -> None:
    """The basis that a fit left in the room is the one to turn arms by."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    new_U = new_left_row(s, M)
    new_V = new_right_row(s, M)
    U = left_row(M)
    V = right_row(s, M)
    for i in range(d1):
        for j in range(d1):
            M[U + i, j] = M[new_U + i, j]
    for i in range(d2):
        for j in range(d2):
            M[V + i, j] = M[new_V + i, j]


@jit
def settle(s: Vector, M: Matrix, ridge: float, ridge_outside: float) -> None:
    """Begin from nothing in the new basis: theta = 0, V_0 = lambda inside, lambda_perp outside.

    LOG_DET is that of V over lambda I.
    """
    take_basis(s, M)
    k = inside(s)
    size = M.shape[1]
    for i in range(size):
        M[THETA, i] = 0.0
        for j in range(size):
            M[INVERSE + i, j] = 0.0
        M[INVERSE + i, i] = 1.0 / (ridge if i < k else ridge_outside)
    s[LOG_DET] = (size - k) * math.log(ridge_outside / ridge)


@jit
def select_inside(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index in the coordinates inside and a constant. O(n k²)."""
    return largest_index(s, M, arms, M.shape[1] - 1, False)


@jit
def select_whole(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index in all coordinates. O(n (d1 d2)²)."""
    return largest_index(s, M, arms, M.shape[1], True)


@jit
def largest_index(s: Vector, M: Matrix, arms: Matrix, turned: int, outside: bool) -> int:
    """The first arm of largest theta'z + radius ‖z‖_{V^-1}, z the ``turned`` coordinates of an arm
    and, behind them, the constant feature.
    """
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    best = NO_ARM
    best_index = -math.inf
    for a in range(arms.shape[0]):
        turn(s, M, arms, a, FEATURE, outside)
        for j in range(turned, M.shape[1]):
            M[FEATURE, j] = s[CONSTANT]
        squared = transform(M)
        index = index_of(predict(M), squared, s[RADIUS])
        if index > best_index:
            best = a
            best_index = beyond(index)
    return best
