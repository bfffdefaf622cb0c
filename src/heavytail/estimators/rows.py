"""Learning rows of a streaming regression, a batch in one call: the one-pass Huber step, unbounded.

Two estimates stand on one inverse Gram matrix: f, with a fixed clip, and, where the mean is asked
for, a, with a threshold that tunes itself. They share u = P x, so a costs one axpy more; and what
tells whether they differ, one pass over the sum of x x' (psi_a - psi_f)².

The state is one vector S, because every array handed to a kernel costs a tenth of a microsecond:
scalars in its first slots, the histogram of the second threshold, then rows of ``stride`` numbers,
the number of coordinates rounded up to a multiple of four and the rest zeros. P is kept one update
behind, P_true = P - r r' with r in the row ROOT, so that one pass over P both brings it up to date
and multiplies it by the new x.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail.estimators.admission import (
    DOUBTFUL,
    MISFIT,
    OK,
    ONE,
    ORDINARY,
    OVERFLOW,
    PROBLEMS,
    TWO,
    WILD,
    ZERO,
    admit_rows,
)
from heavytail.kernels import self_tuning
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import Count, Fixed, Size, numbered
from heavytail.kernels.scale import NORMAL_CONSISTENCY, follow_typical, stands_out, vote
from heavytail.kernels.self_tuning import fade, note, solve

__all__ = ["learn_plain", "learn_rows", "learn_wild", "length", "stride_of"]


class Slots(NamedTuple):
    """Slots of S."""

    ROUNDS: Count  # rows learned
    DIM: Fixed  # features per row
    SIZE: Fixed  # coordinates: the features, and the constant where there is one
    CLIP: Fixed
    TYPICAL: Size  # running median of |residual| / nu
    FOLLOW: Fixed  # 1 if the scale is learned, 0 if it is a constant
    INSIDE: Size  # running share of rows that are not clipped
    ENERGY: Size  # running mean of psi², in the unit of y²
    FORGET: Fixed
    WINDOW: Fixed  # rows remembered, 1 / (1 - forget); infinity without forgetting
    ROOM: Size  # largest diagonal entry of P to which forgetting may let it grow
    FLOOR: Size  # of TYPICAL
    COMMON: int  # the value that more than half of y are, if any is ...
    VOTES: int  # ... and by how many votes it leads
    TELLING: Count  # rows learned of another value: those that the scale is of
    MEAN: Fixed  # 1 if the mean is estimated too, 0 if the typical value alone
    MEAN_ENERGY: Size  # as ENERGY, of the mean's residuals clipped at TAU ...
    WHOLE_ENERGY: Size  # ... and at n scales
    TAU: Size  # the mean's threshold as last solved for, in the unit of y
    FADE: Fixed  # forget^EVERY: of the histogram, each time it is due
    UNIT: Size  # the first edge of its histogram, in the unit of y; 0 before there is a scale
    BETWEEN: Size  # as INSIDE, of the threshold between the clip and the mean's


class Rows(NamedTuple):
    """Rows behind the slots and the histogram."""

    THETA: int  # f
    MEAN_THETA: int  # a
    FEATURE: int  # x of the last row, centred and scaled, with the constant
    DIRECTION: int  # u = P_true x of the last row, before its update
    CUT: int  # sum of x times what TAU cut off z, at most n scales a row
    ROOT: int  # r: P_true = P - r r'
    CENTRE: int  # of each feature
    PER_UNIT: int  # 1 / width of a feature
    LAG: int  # running mean of f over the memory, where rows are forgotten ...
    MEAN_LAG: int  # ... and of a
    STEPS: int  # running mean of f's steps over a FASTER part of the memory ...
    MEAN_STEPS: int  # ... and of a's
    MOVED: int  # running mean over SLOWER memories of f's step times STEPS, in memories ...
    MEAN_MOVED: int  # ... and of a's
    GAP: int  # sum of x (psi_m - psi_f)
    INVERSE: int  # P begins here, ``stride`` rows; the sum of x x' (psi_m - psi_f)² follows


SLOT: Final = numbered(Slots)
ROW: Final = numbered(Rows)
(
    ROUNDS,
    DIM,
    SIZE,
    CLIP,
    TYPICAL,
    FOLLOW,
    INSIDE,
    ENERGY,
    FORGET,
    WINDOW,
    ROOM,
    FLOOR,
    COMMON,
    VOTES,
    TELLING,
    MEAN,
    MEAN_ENERGY,
    WHOLE_ENERGY,
    TAU,
    FADE,
    UNIT,
    BETWEEN,
) = SLOT
THETA, MEAN_THETA, FEATURE, DIRECTION, CUT, ROOT = ROW[:6]
CENTRE, PER_UNIT, LAG, MEAN_LAG, STEPS, MEAN_STEPS, MOVED, MEAN_MOVED, GAP, INVERSE = ROW[6:]
HISTOGRAM: Final = 24  # behind the slots
SLOTS: Final = HISTOGRAM + self_tuning.ROOM  # so that the rows behind begin on a cache line
LEAST_CLIP: Final = 1.345  # of the mean, in scales: Huber's constant, 95 % efficient when normal
SMALLEST: Final = 2.0**-6  # a scale out of these bounds, in units of the histogram, begins it anew
GREATEST: Final = 2.0**16
FEW: Final = 4
SLOWER: Final = 10.0  # memories over which a moving theta's steps are measured
FASTER: Final = 40.0  # a step is measured by those before it in such a part of the memory

FAR: Final = 1e6
HEAVIEST: Final = 1e12  # what a row weighs beside all before it, unless it is doubted
UNKNOWN: Final = 1e-14  # of the largest P_ii: what is smaller is rounding
LEAST_INSIDE: Final = 0.3  # the step is at most 1 / this times the ridge's
LARGEST: Final = 1e150  # past this a square leaves the floating-point range
HARMLESS: Final = 1e200  # a squared step: no number of them reaches LARGEST
NO_SCALES: Final = np.empty(0)
BLOCK: Final = 4
THREE: Final = np.uint64(3)
FOUR: Final = np.uint64(BLOCK)


def stride_of(size: int) -> int:
    """Numbers in a row of the state."""
    return -(-size // BLOCK) * BLOCK


def length(size: int, *, mean: bool) -> int:
    """Numbers in the state."""
    stride = stride_of(size)
    return SLOTS + (INVERSE + (2 if mean else 1) * stride) * stride


@jit
def is_ordinary(S: Vector, stride: int) -> bool:
    """Tell whether the estimates are of ordinary size, so that ordinary rows keep them finite."""
    for i in range(SLOTS + THETA * stride, SLOTS + (MEAN_THETA + 1) * stride):
        if not (abs(S[i]) <= ORDINARY):
            return False
    return S[ROOM] <= ORDINARY


@jit
def reach(S: Vector, stride: int) -> float:
    """The sum of |x_i| up to which rounding of P has no say in x'P x, x centred and scaled."""
    widest, away = 1.0, 0.0
    for i in range(int(S[DIM])):
        widest = max(widest, S[SLOTS + PER_UNIT * stride + i])
        away += abs(S[SLOTS + CENTRE * stride + i])
    return FAR / (widest * math.sqrt(S[ROOM])) - away


@jit
def lay(S: Vector, stride: int, X: Matrix, t: int) -> None:
    """Row t of X, centred and scaled, into FEATURE, where the constant already is."""
    x = SLOTS + FEATURE * stride
    centre = SLOTS + CENTRE * stride
    per_unit = SLOTS + PER_UNIT * stride
    for i in range(X.shape[1]):
        S[x + i] = (X[t, i] - S[centre + i]) * S[per_unit + i]


@jit
def forget(S: Vector, stride: int) -> None:
    """P_true <- P_true / forget, unless a direction has not been seen for so long that it would
    pass its start; the squares of the difference fade by forget², as their rows do twice.
    """
    first = SLOTS + INVERSE * stride
    squares = first + stride * stride
    root = SLOTS + ROOT * stride
    for i in range(int(S[SIZE])):
        if S[first + i * stride + i] - S[root + i] * S[root + i] > S[FORGET] * S[ROOM]:
            return
    for i in range(first, squares):
        S[i] /= S[FORGET]
    for i in range(root, root + stride):
        S[i] /= math.sqrt(S[FORGET])
    if S[MEAN] == 1.0:
        for i in range(stride):
            S[SLOTS + CUT * stride + i] *= S[FORGET]
            S[SLOTS + GAP * stride + i] *= S[FORGET]
        for i in range(squares, squares + stride * stride):
            S[i] *= S[FORGET] * S[FORGET]


@jit
def renew(S: Vector, width: int) -> tuple[float, float, float]:
    """P <- P - r r', both halves alike to the bit, and u <- P x in one pass; x'P x, x'f and x'a.

    O(d²). Four columns by two rows at a time, held in registers.
    """
    stride = np.uint64(width)
    theta = np.uint64(SLOTS)
    mean = np.uint64(SLOTS) + np.uint64(MEAN_THETA) * stride
    x = np.uint64(SLOTS) + np.uint64(FEATURE) * stride
    u = np.uint64(SLOTS) + np.uint64(DIRECTION) * stride
    r = np.uint64(SLOTS) + np.uint64(ROOT) * stride
    first = np.uint64(SLOTS) + np.uint64(INVERSE) * stride
    squared, fitted, fitted_mean = 0.0, 0.0, 0.0
    j = ZERO
    while j < stride:
        r0, r1, r2, r3 = S[r + j], S[r + j + ONE], S[r + j + TWO], S[r + j + THREE]
        u0, u1, u2, u3 = 0.0, 0.0, 0.0, 0.0
        at = first + j
        i = ZERO
        while i < stride:
            below = at + stride
            ri, rk, xi, xk = S[r + i], S[r + i + ONE], S[x + i], S[x + i + ONE]
            p0 = S[at] - ri * r0
            p1 = S[at + ONE] - ri * r1
            p2 = S[at + TWO] - ri * r2
            p3 = S[at + THREE] - ri * r3
            q0 = S[below] - rk * r0
            q1 = S[below + ONE] - rk * r1
            q2 = S[below + TWO] - rk * r2
            q3 = S[below + THREE] - rk * r3
            S[at] = p0
            S[at + ONE] = p1
            S[at + TWO] = p2
            S[at + THREE] = p3
            S[below] = q0
            S[below + ONE] = q1
            S[below + TWO] = q2
            S[below + THREE] = q3
            u0 = (u0 + xi * p0) + xk * q0
            u1 = (u1 + xi * p1) + xk * q1
            u2 = (u2 + xi * p2) + xk * q2
            u3 = (u3 + xi * p3) + xk * q3
            at = below + stride
            i += TWO
        S[u + j] = u0
        S[u + j + ONE] = u1
        S[u + j + TWO] = u2
        S[u + j + THREE] = u3
        x0, x1, x2, x3 = S[x + j], S[x + j + ONE], S[x + j + TWO], S[x + j + THREE]
        even, odd = u0 * x0 + u2 * x2, u1 * x1 + u3 * x3
        squared += even + odd
        even = S[theta + j] * x0 + S[theta + j + TWO] * x2
        odd = S[theta + j + ONE] * x1 + S[theta + j + THREE] * x3
        fitted += even + odd
        even = S[mean + j] * x0 + S[mean + j + TWO] * x2
        odd = S[mean + j + ONE] * x1 + S[mean + j + THREE] * x3
        fitted_mean += even + odd
        j += FOUR
    return max(squared, 0.0), fitted, fitted_mean


@jit
def least_squared(S: Vector, stride: int) -> float:
    """A number that x'P x is never below: (P x)_i² <= P_ii x'P x. O(d).

    A row far longer than all before it leaves a P_ii of rounding alone, and x'P x of the next one
    may then be anything, below 0 too: a step by it would destroy P. It is less by a billionth, so
    that it has no say where x'P x is known.
    """
    largest = 0.0
    for i in range(int(S[SIZE])):
        u = S[SLOTS + DIRECTION * stride + i]
        known = max(S[SLOTS + (INVERSE + i) * stride + i], UNKNOWN * S[ROOM])
        largest = max(largest, u * u / known)
    return largest * (1.0 - 1e-9)


@jit
def advance(S: Vector, width: int, step: float, mean_step: float, root: float) -> None:
    """f <- f + step u, a <- a + mean_step u and r <- root u."""
    stride = np.uint64(width)
    theta = np.uint64(SLOTS)
    mean = np.uint64(SLOTS) + np.uint64(MEAN_THETA) * stride
    u = np.uint64(SLOTS) + np.uint64(DIRECTION) * stride
    r = np.uint64(SLOTS) + np.uint64(ROOT) * stride
    i = ZERO
    while i < stride:
        u0, u1 = S[u + i], S[u + i + ONE]
        f0, f1 = S[theta + i] + step * u0, S[theta + i + ONE] + step * u1
        S[theta + i] = f0
        S[theta + i + ONE] = f1
        a0, a1 = S[mean + i] + mean_step * u0, S[mean + i + ONE] + mean_step * u1
        S[mean + i] = a0
        S[mean + i + ONE] = a1
        r0, r1 = root * u0, root * u1
        S[r + i] = r0
        S[r + i + ONE] = r1
        i += TWO


@jit
def differ(S: Vector, width: int, weight: float) -> None:
    """The sum of x x' (psi_m - psi_f)², its lower half by blocks of four, grows by weight x x'."""
    stride = np.uint64(width)
    x = np.uint64(SLOTS) + np.uint64(FEATURE) * stride
    squares = np.uint64(SLOTS) + (np.uint64(INVERSE) + stride) * stride
    j = ZERO
    while j < stride:
        x0, x1 = weight * S[x + j], weight * S[x + j + ONE]
        x2, x3 = weight * S[x + j + TWO], weight * S[x + j + THREE]
        i = j
        at = squares + j * stride + j
        while i < stride:
            xi = S[x + i]
            m0, m1 = S[at] + xi * x0, S[at + ONE] + xi * x1
            m2, m3 = S[at + TWO] + xi * x2, S[at + THREE] + xi * x3
            S[at] = m0
            S[at + ONE] = m1
            S[at + TWO] = m2
            S[at + THREE] = m3
            at += stride
            i += ONE
        j += FOUR


@jit
def add(S: Vector, stride: int, row: int, amount: float) -> None:
    """The sum in ``row`` grows by amount x."""
    for i in range(stride):
        S[SLOTS + row * stride + i] += amount * S[SLOTS + FEATURE * stride + i]


@jit
def follow_moves(S: Vector, stride: int, n: float, step: float, mean_step: float) -> None:
    """The running means of f and a, and what their steps, f's of step u and a's of mean_step u,
    have in common with those just before them. O(d).

    A memory of W rows times a step is what theta has beyond the estimate, plus noise that no other
    row has. So the mean of its product with that of a few rows before is the mean square of the
    error, less what the noise alone explains: however theta moves, unless within those few rows.
    """
    W, share = S[WINDOW], 1.0 / min(n, S[WINDOW])
    fast, slow = 1.0 / min(n, max(W / FASTER, 1.0)), 1.0 / min(max(n - W, 1.0), SLOWER * W)
    for k in range(2 * stride):
        i = SLOTS + k
        moved = step if k < stride else mean_step
        moved *= S[SLOTS + DIRECTION * stride + k % stride]
        S[i + LAG * stride] += share * (S[i] - S[i + LAG * stride])
        if n > W:  # in the first memory a step is not of its size yet
            product = W * moved * W * S[i + STEPS * stride]
            S[i + MOVED * stride] += slow * (product - S[i + MOVED * stride])
        S[i + STEPS * stride] += fast * (moved - S[i + STEPS * stride])


@jit
def stays_finite(S: Vector, stride: int, row: int, step: float) -> bool:
    """Tell whether the estimate in ``row`` plus step u is in the floating-point range."""
    for i in range(stride):
        theta, u = S[SLOTS + row * stride + i], S[SLOTS + DIRECTION * stride + i]
        if not (abs(theta + step * u) <= LARGEST):
            return False
    return True


@jit
def follow_tau(S: Vector, n: float, size: float, tau: float, least: float) -> None:
    """Count a residual of the mean; solve for the next threshold where that is due. O(1)."""
    if not (SMALLEST * S[UNIT] <= least <= GREATEST * S[UNIT]):
        S[UNIT] = S[TAU] = least
        fade(S, HISTOGRAM, 0.0)
    if S[UNIT] > 0.0:
        note(S, HISTOGRAM, size, S[UNIT])
        due = int(n) % self_tuning.EVERY == 0
        if due and S[FADE] < 1.0:
            fade(S, HISTOGRAM, S[FADE])
        if due or size > tau:
            need = S[SIZE] + math.log(min(n, S[WINDOW]))
            S[TAU] = solve(S, HISTOGRAM, need, S[UNIT])


@jit
def learn_row(S: Vector, stride: int, y: float, nu: float, tame: bool) -> int:
    """Learn the row laid into FEATURE. OK, OVERFLOW, or DOUBTFUL unless it is ``tame``, within
    :func:`reach`. O(d²).
    """
    n = S[ROUNDS] + 1.0
    if S[FORGET] < 1.0:
        forget(S, stride)
    squared, fitted, fitted_mean = renew(S, stride)
    weight, code = 1.0 / (nu * nu), OK
    if not tame:
        least = least_squared(S, stride)
        if least > squared or not (weight * squared <= HEAVIEST):
            squared, code = max(squared, least), DOUBTFUL
    growth = 1.0 + weight * squared
    scale = NORMAL_CONSISTENCY * S[TYPICAL]
    z = (y - fitted) / nu
    clip = S[CLIP] * scale if S[CLIP] < math.inf else math.inf  # where the scale is 0 as well
    psi = score(z, clip)
    # A clipped row has curvature 0, so V overstates the loss's by 1 / INSIDE: step by as much.
    newton = psi / max(S[INSIDE], LEAST_INSIDE)
    unit_step = 1.0 / (nu * growth)
    step = newton * unit_step
    z_mean, tau, psi_mean, mean_step = 0.0, 0.0, 0.0, 0.0
    if S[MEAN] == 1.0:
        z_mean = (y - fitted_mean) / nu
        tau = max(S[TAU], LEAST_CLIP * scale, clip)
        psi_mean = score(z_mean, tau)
        mean_step = psi_mean * unit_step
    # |u_i|² <= P_ii x'P x, so that most steps are known to be small without looking at them.
    largest = max(abs(step), abs(mean_step))
    if not (largest * largest * squared * S[ROOM] <= HARMLESS):
        finite = stays_finite(S, stride, THETA, step)
        if not (finite and stays_finite(S, stride, MEAN_THETA, mean_step)):
            advance(S, stride, 0.0, 0.0, 0.0)
            return OVERFLOW
    S[ROUNDS] = n
    share = 1.0 / min(n, S[WINDOW])
    S[INSIDE] += share * ((1.0 if abs(z) <= clip else 0.0) - S[INSIDE])
    S[ENERGY] += share * (psi * psi - S[ENERGY])
    if S[FOLLOW] == 1.0:
        if stands_out(y, S[COMMON], S[VOTES]):
            S[TELLING] += 1.0
            before = S[TYPICAL] if S[TYPICAL] > 0.0 else abs(z)  # 0 where all were alike so far
            S[TYPICAL] = follow_typical(before, abs(z), S[TELLING], S[FLOOR])
        S[COMMON], S[VOTES] = vote(y, S[COMMON], S[VOTES])
    if S[MEAN] == 1.0:
        whole = score(z_mean, max(n * scale, tau))  # no row counts for more than n scales
        if whole != psi_mean:
            add(S, stride, CUT, (whole - psi_mean) / nu)
        S[MEAN_ENERGY] += share * (psi_mean * psi_mean - S[MEAN_ENERGY])
        S[WHOLE_ENERGY] += share * (whole * whole - S[WHOLE_ENERGY])
        follow_tau(S, n, abs(z_mean), tau, LEAST_CLIP * NORMAL_CONSISTENCY * S[TYPICAL])
        middle = math.sqrt(clip * tau)
        gap = score(z, middle) / max(S[BETWEEN], LEAST_INSIDE) - newton
        S[BETWEEN] += share * ((1.0 if abs(z) <= middle else 0.0) - S[BETWEEN])
        add(S, stride, GAP, gap / nu)
        # It is small and bounded where nothing is clipped: of such rows one in FEW stands for all.
        if abs(z) > clip:
            differ(S, stride, weight * gap * gap)
        elif int(n) % FEW == 0:
            differ(S, stride, FEW * weight * gap * gap)
    advance(S, stride, step, mean_step, math.sqrt(weight / growth))
    if S[FORGET] < 1.0:
        follow_moves(S, stride, n, step, mean_step)
    return code


@jit
def learn_wild(S: Vector, X: Matrix, y: Vector, nu: Vector, tame: bool) -> int:
    """Learn rows that are not bad. OK, DOUBTFUL where a row was, or OVERFLOW at the first that
    would take the estimate out of the floating-point range, and the rows before it learned: keep a
    copy.
    """
    stride = -(-int(S[SIZE]) // BLOCK) * BLOCK
    worst = OK
    for t in range(y.shape[0]):
        lay(S, stride, X, t)
        code = learn_row(S, stride, y[t], nu[t] if nu.shape[0] > 0 else 1.0, tame)
        if code == OVERFLOW:
            return PROBLEMS * t + OVERFLOW
        worst = min(worst, code)
    return worst


@jit
def learn_rows(S: Vector, X: Matrix, y: Vector, nu: Vector) -> int:
    """Learn rows of y on X, each with its noise scale, none where all are 1. OK, or why not, and
    nothing touched: a bad row, or WILD where :func:`learn_wild` must be asked.
    """
    if X.shape[1] != S[DIM] or X.shape[0] != y.shape[0] or y.shape[0] == 0:
        return MISFIT
    stride = -(-int(S[SIZE]) // BLOCK) * BLOCK
    code = admit_rows(X, y, nu, reach(S, stride))
    if code != OK:
        return code
    if nu.shape[0] > 0 or not is_ordinary(S, stride):
        return WILD
    return learn_wild(S, X, y, nu, True)


@jit
def learn_plain(S: Vector, X: Matrix, y: Vector) -> int:
    """:func:`learn_rows` where all scales are 1: one array fewer to hand over, a row at a time."""
    return learn_rows(S, X, y, NO_SCALES)
