"""The discrete Riccati equation by structured doubling, and the linear algebra it needs.

P = Q + A'PA - A'PB(R + B'PB)^-1 B'PA is the limit of the doubling recursion of Chu, Fan, Lin and
Wang (2004): with S = I + G H, A <- A S^-1 A, G <- G + A S^-1 G A', H <- H + A'H S^-1 A from
G = B R^-1 B' and H = Q, H tends to P quadratically, in 5 to 15 steps of O(m³).

All matrices of a problem lie in one stack ``W``, (slots, m, m), m = max(n, d), filled up with zeros
(R with ones on its diagonal), and a kernel names them by slot: nothing is allocated and nothing is
a view. ``room`` (m, 3 m) is where equations are solved.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrices, Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import numbered

__all__ = ["cholesky", "eliminate", "lyapunov", "optimal_gain", "riccati", "trace"]


class Stack(NamedTuple):
    """Slots of the stack."""

    A: int
    B: int
    Q: int
    R: int
    VALUE: int  # P of the Riccati equation
    GAIN: int  # K = -(R + B'PB)^-1 B'PA, d rows of it used
    CLOSED: int  # A + B K
    COVARIANCE: int  # of the state under K, by the Lyapunov equation
    RECURSION_A: int
    RECURSION_G: int
    RECURSION_H: int
    ROOM_X: int
    ROOM_Y: int


STACK: Final = numbered(Stack)
A, B, Q, R, VALUE, GAIN, CLOSED, COVARIANCE, _A, _G, _H, _X, _Y = STACK

DOUBLINGS: Final = 50  # 2^50 steps of value iteration; the recursion stops long before
CONVERGED: Final = 1e-14  # relative change of H at which it has
HOPELESS: Final = 1e14  # relative growth of H past which (A, B) counts as not stabilisable


@jit
def eliminate(G: Matrix, size: int, width: int) -> bool:
    """Solve G[:, :size] X = G[:, size:width] in place; False where it is singular."""
    for k in range(size):
        pivot = k
        for i in range(k + 1, size):
            if abs(G[i, k]) > abs(G[pivot, k]):
                pivot = i
        if not (0.0 < abs(G[pivot, k]) < math.inf):
            return False
        if pivot != k:
            for j in range(k, width):
                swap = G[k, j]
                G[k, j] = G[pivot, j]
                G[pivot, j] = swap
        for i in range(size):
            if i != k:
                ratio = G[i, k] / G[k, k]
                if ratio != 0.0:
                    for j in range(k, width):
                        G[i, j] -= ratio * G[k, j]
    for k in range(size):
        for j in range(size, width):
            G[k, j] /= G[k, k]
    return True


@jit
def cholesky(G: Matrix, first: int, size: int, L: Matrix) -> bool:
    """L L' = the square block of G that begins at row ``first``; False where it is not positive."""
    for j in range(size):
        for i in range(j, size):
            total = G[first + i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0:
                L[j, j] = math.sqrt(total)
            else:
                return False
    return True


@jit
def _multiply(W: Matrices, c: int, a: int, b: int) -> None:
    """W[c] = W[a] W[b], c another slot than either."""
    m = W.shape[1]
    for i in range(m):
        for j in range(m):
            W[c, i, j] = 0.0
        for k in range(m):
            x = W[a, i, k]
            for j in range(m):
                W[c, i, j] += x * W[b, k, j]


@jit
def _multiply_first_transposed(W: Matrices, c: int, a: int, b: int) -> None:
    """W[c] = W[a]' W[b]."""
    m = W.shape[1]
    for i in range(m):
        for j in range(m):
            W[c, i, j] = 0.0
    for k in range(m):
        for i in range(m):
            x = W[a, k, i]
            for j in range(m):
                W[c, i, j] += x * W[b, k, j]


@jit
def _multiply_second_transposed(W: Matrices, c: int, a: int, b: int) -> None:
    """W[c] = W[a] W[b]'."""
    m = W.shape[1]
    for i in range(m):
        for j in range(m):
            total = 0.0
            for k in range(m):
                total += W[a, i, k] * W[b, j, k]
            W[c, i, j] = total


@jit
def _copy(W: Matrices, c: int, a: int) -> None:
    for i in range(W.shape[1]):
        for j in range(W.shape[1]):
            W[c, i, j] = W[a, i, j]


@jit
def _add_symmetric(W: Matrices, c: int, a: int) -> float:
    """W[c] += (W[a] + W[a]') / 2; return the largest entry of the change over the largest of W[c].

    NaN where an entry is.
    """
    change = 0.0
    size = 0.0
    for i in range(W.shape[1]):
        for j in range(i + 1):
            step = 0.5 * (W[a, i, j] + W[a, j, i])
            total = W[c, i, j] + step
            W[c, i, j] = total
            W[c, j, i] = total
            change += abs(step)
            size += abs(total)
    if size == 0.0:
        return 0.0
    return change / size


@jit
def trace(W: Matrices, a: int) -> float:
    """The trace of W[a]."""
    total = 0.0
    for i in range(W.shape[1]):
        total += W[a, i, i]
    return total


@jit
def riccati(W: Matrices, room: Matrix) -> bool:
    """Set VALUE = P for A, B, Q, R; False where no stabilising solution is found."""
    m = W.shape[1]
    for i in range(m):  # G = B R^-1 B'
        for j in range(m):
            room[i, j] = W[R, i, j]
            room[i, m + j] = W[B, j, i]
    if not eliminate(room, m, 2 * m):
        return False
    for i in range(m):
        for j in range(m):
            W[_X, i, j] = room[i, m + j]
    _multiply(W, _G, B, _X)
    _copy(W, _A, A)
    _copy(W, _H, Q)
    start = max(trace(W, Q), 1e-300)
    for _ in range(DOUBLINGS):
        _multiply(W, _X, _G, _H)
        for i in range(m):
            for j in range(m):
                room[i, j] = W[_X, i, j] + (1.0 if i == j else 0.0)
                room[i, m + j] = W[_A, i, j]
                room[i, 2 * m + j] = W[_G, i, j]
        if not eliminate(room, m, 3 * m):
            return False
        for i in range(m):
            for j in range(m):
                W[VALUE, i, j] = room[i, m + j]  # S^-1 A
                W[_Y, i, j] = room[i, 2 * m + j]  # S^-1 G
        _multiply_second_transposed(W, _X, _Y, _A)
        _multiply(W, _Y, _A, _X)
        _add_symmetric(W, _G, _Y)
        _multiply(W, _X, _H, VALUE)
        _multiply_first_transposed(W, _Y, _A, _X)
        change = _add_symmetric(W, _H, _Y)
        _multiply(W, _X, _A, VALUE)
        _copy(W, _A, _X)
        if not (trace(W, _H) <= HOPELESS * start):
            return False
        if change <= CONVERGED:
            _copy(W, VALUE, _H)
            return True
    return False


@jit
def optimal_gain(W: Matrices, room: Matrix) -> bool:
    """Set VALUE, GAIN = -(R + B'PB)^-1 B'PA and CLOSED = A + B GAIN; False where P is not found."""
    m = W.shape[1]
    if not riccati(W, room):
        return False
    _multiply(W, _X, VALUE, B)
    _multiply_first_transposed(W, _Y, B, _X)
    _multiply_first_transposed(W, _G, _X, A)  # P is symmetric: (P B)'A
    for i in range(m):
        for j in range(m):
            room[i, j] = W[R, i, j] + W[_Y, i, j]
            room[i, m + j] = -W[_G, i, j]
    if not eliminate(room, m, 2 * m):
        return False
    for i in range(m):
        for j in range(m):
            W[GAIN, i, j] = room[i, m + j]
    _multiply(W, CLOSED, B, GAIN)
    for i in range(m):
        for j in range(m):
            W[CLOSED, i, j] += W[A, i, j]
    return True


@jit
def lyapunov(W: Matrices, size: int) -> bool:
    """Set COVARIANCE = sum_k CLOSED^k (CLOSED^k)'; False where CLOSED is not stable."""
    m = W.shape[1]
    _copy(W, _A, CLOSED)
    for i in range(m):
        for j in range(m):
            W[COVARIANCE, i, j] = 1.0 if i == j and i < size else 0.0
    for _ in range(DOUBLINGS):
        _multiply_second_transposed(W, _X, COVARIANCE, _A)
        _multiply(W, _Y, _A, _X)
        change = _add_symmetric(W, COVARIANCE, _Y)
        if not (trace(W, COVARIANCE) <= HOPELESS):
            return False
        if change <= CONVERGED:
            return True
        _multiply(W, _X, _A, _A)
        _copy(W, _A, _X)
    return False


@jit
def gradient(W: Matrices, size: int, F: Matrix, first: int) -> None:
    """Rows first.. of F: the gradient 2 P (A + BK) Sigma [I K'] of trace P in [A B], n x (n + d).

    After :func:`optimal_gain` and :func:`lyapunov`. By the envelope theorem K's own change does
    not enter, K being optimal.
    """
    _multiply(W, _X, CLOSED, COVARIANCE)
    _multiply(W, _Y, VALUE, _X)
    for i in range(size):
        for j in range(size):
            F[first + i, j] = 2.0 * W[_Y, i, j]
        for j in range(size, F.shape[1]):
            total = 0.0
            for k in range(size):
                total += W[_Y, i, k] * W[GAIN, j - size, k]
            F[first + i, j] = 2.0 * total


def lay(W: Matrices, slot: int, matrix: Matrix) -> None:
    """Put a matrix into a slot, filled up with zeros."""
    W[slot] = 0.0
    W[slot, : matrix.shape[0], : matrix.shape[1]] = matrix


@jit
def weigh(W: Matrices, slot: int, x: Vector) -> float:
    """x' W[slot] x."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            total += x[i] * W[slot, i, j] * x[j]
    return total
