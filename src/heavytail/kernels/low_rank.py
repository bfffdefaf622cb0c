"""Arms that are matrices X (d1 x d2) of mean reward <X, Theta>, Theta of few singular values.

Theta is found by Huber's loss with the nuclear norm (:func:`fit`), and arms are turned into the
coordinates that its singular vectors span (:func:`turn`): of U_r' X, r d2 numbers, and of
U_perp' X V_r, (d1 - r) r of them. Those are k = r (d1 + d2) - r² orthonormal coordinates of the
matrices whose columns or rows lie in the spans of U_r and V_r; U_perp' X V_perp is what is outside.

An arm lies in a vector: row by row, or, where it is a pair (u, v) and X = u v', u and then v.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE
from heavytail.kernels.svd import complete, orthogonalise

__all__ = [
    "NU",
    "PASSES",
    "REWARD",
    "SHAPE",
    "WIDTH",
    "estimate_row",
    "fit",
    "inside",
    "is_sane",
    "left_row",
    "polish",
    "right_row",
    "room_row",
    "rows",
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

PASSES: Final = 12  # of a fit: threshold and penalty are set anew in each
STEPS: Final = 60  # of a pass
POWER_STEPS: Final = 20
STILL: Final = 1e-6  # of Theta: a step that moves it less ends a pass ...
SETTLED: Final = 1e-3  # ... and a pass that moves it less is the last
POLISHES: Final = 60
TINY: Final = 1e-12  # of the largest square: added, so that what no row tells stays near 0
FARTHEST: Final = 1e6  # of the threshold of rewards: a start from further off is none
LARGEST_FIT: Final = 1e140  # of Theta: its square can be summed
TAU_STEPS: Final = 100
FINEST: Final = 1e-13  # of the size of rewards: a smaller threshold is rounding


def rows(d1: int, d2: int) -> int:
    """Rows of room that a fit needs behind those of the named ones."""
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
    """Where the room of the fit begins; it ends with the new u_i' and v_i'."""
    return estimate_row(s, M) + int(s[S.D1])


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
    """:func:`turn` by the basis in rows U.. and V.."""
    if s[S.PAIRS] != 0.0:
        turn_pair(s, M, U, V, arms, a, at, outside)
    else:
        turn_matrix(s, M, U, V, arms, a, at, outside)


@jit
def turn_pair(
    s: Vector, M: Matrix, U: int, V: int, arms: Matrix, a: int, at: int, outside: bool
) -> None:
    """:func:`turn` of X = u v', which is never formed: O((d1 + d2) d1), or d2 if that is more."""
    d1 = int(s[S.D1])
    d2 = int(s[S.D2])
    r = int(s[S.RANK])
    k = inside(s)
    for i in range(d1):
        along = 0.0
        for p in range(d1):
            along += M[U + i, p] * arms[a, p]
        if i < r:
            for j in range(d2):
                M[at, i * d2 + j] = along * arms[a, d1 + j]
            continue
        for j in range(d2 if outside else r):
            other = 0.0
            for q in range(d2):
                other += M[V + j, q] * arms[a, d1 + q]
            if j < r:
                M[at, r * d2 + (i - r) * r + j] = along * other
            else:
                M[at, k + (i - r) * (d2 - r) + j - r] = along * other


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
def threshold(H: Matrix, count: int, at: int, parts: float) -> float:
    """tau with sum min(r², tau²) = parts tau², from the largest downwards.

    Residuals of any tail with a finite moment of order above 1 then are clipped so rarely that
    the clipped mean is found, and so much that it is near.
    """
    tau = 0.0
    for row in range(count):
        tau = max(tau, abs(H[row, at]))
    for _ in range(TAU_STEPS):
        total = 0.0
        for row in range(count):
            z = H[row, at] / tau if tau > 0.0 else 0.0
            total += min(z * z, 1.0)
        factor = math.sqrt(total / parts)
        if not (factor < 1.0 - 1e-6):
            break
        tau *= factor
    return tau


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
    found = 0.0
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
        found = 0.0
        for i in range(d1):
            for j in range(d2):
                found += M[G + i, j] * M[v + i, j]
                M[v + i, j] = M[G + i, j]
    return found


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
    penalty_scale: float,
    passes: int,
) -> bool:
    """Theta, and its singular vectors, from the first rows of H; False where they say nothing.

    The threshold is the one that finds the mean (:func:`threshold`), of as many parts as Theta
    has, and the penalty what noise makes of a singular value of the gradient,

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
    V = A + 2 * d1
    parts = min(inside(s) + math.log(count + 1.0), 0.5 * count)
    weight = 0.0
    length = 0.0
    for row in range(count):
        nu = H[row, column + NU]
        weight += 1.0 / (nu * nu * count)
        length += squared_length(s, H, row, column) / (nu * nu * count)
        H[row, column + RESIDUAL] = H[row, column + REWARD] / nu
    L = 1.05 * spectral(s, M, H, count, Z, A)
    unit = threshold(H, count, column + RESIDUAL, parts)
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
    reach = penalty_scale * math.sqrt(length * (d1 + d2) / (count * float(d1) * d2))
    last = math.inf
    for _ in range(passes):
        residuals(s, M, E, H, count, unit, s[S.OFFSET])
        last = min(max(threshold(H, count, column + RESIDUAL, parts), FINEST), last)
        tau = tau_scale * last
        spread = 0.0
        for row in range(count):
            psi = score(H[row, column + RESIDUAL], tau)
            spread += psi * psi / count
        s[S.PENALTY] = reach * math.sqrt(spread)
        moved = descend(s, M, H, count, unit, tau, s[S.PENALTY], L, weight)
        if moved < SETTLED:
            break
    complete(M, A, V, d1, d2, d2)
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
    """Whether a fit stayed in range; where scales too far apart took it out, it is forgotten."""
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


@jit
def polish(s: Vector, M: Matrix, H: Matrix, count: int, Q: int, tau_scale: float) -> None:
    """Theta of rank r, by Huber's loss without a penalty, from where a fit left it.

    Gauss and Newton on the matrices of rank r: least squares, with Huber's weights, in the
    coordinates inside of the last Theta, whose first r singular parts are the next. Rows Q.. are
    room for k + 2 of k + 1 numbers; the new basis is left where :func:`fit` leaves it. O(n k²) a
    step.
    """
    d1 = int(s[S.D1])
    column = H.shape[1] - WIDTH
    k = inside(s)
    parts = min(k + math.log(count + 1.0), 0.5 * count)
    E = estimate_row(s, M)
    Z = room_row(s, M)
    A = Z + d1
    U = A + d1
    V = U + d1
    for _ in range(POLISHES):
        residuals(s, M, E, H, count, 1.0, s[S.OFFSET])
        tau = tau_scale * threshold(H, count, column + RESIDUAL, parts)
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
        solve(M, Q, k + 1)
        if not (abs(M[Q + k + 1, 0]) < math.inf):  # they do not tell: the fit stands
            return
        moved = embed(s, M, Q + k + 1, U, V, A)
        s[S.OFFSET] = M[Q + k + 1, k]
        cut_rank(s, M, A, U, V)
        if moved < STILL:
            break


@jit
def solve(M: Matrix, Q: int, size: int) -> None:
    """Row Q + size <- the solution of Q x = that row, by Cholesky in place; NaN where Q, with a
    little on its diagonal, is not positive definite. The last coordinate has a unit of its own.
    """
    little = 0.0
    for j in range(size - 1):
        little = max(little, TINY * M[Q + j, j])
    x = Q + size
    for j in range(size):
        M[Q + j, j] += little if j < size - 1 else TINY * M[Q + j, j]
        for i in range(j, size):
            total = M[Q + i, j]
            for m in range(j):
                total -= M[Q + i, m] * M[Q + j, m]
            M[Q + i, j] = math.sqrt(total) if i == j else total / M[Q + j, j]
    for i in range(size):
        for m in range(i):
            M[x, i] -= M[Q + i, m] * M[x, m]
        M[x, i] /= M[Q + i, i]
    for i in range(size - 1, -1, -1):
        for m in range(i + 1, size):
            M[x, i] -= M[Q + m, i] * M[x, m]
        M[x, i] /= M[Q + i, i]


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
