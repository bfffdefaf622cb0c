"""The kernels of the controllers: act, learn, and from time to time choose a model and its gain.

A controller's own state is ``c``, a vector of scalars, ``W``, the stack of
:mod:`heavytail.control.riccati` with two slots more for the gain in use and the fallback, ``room``
for equations, and ``F`` (5 n + d, n + d) for models; its identifier's is (s, M, H). Choosing is
rare and its kernels are long, so the loop leaves compiled code for it and each is compiled once.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrices, Matrix, Vector
from heavytail.control.estimate import observe, spread
from heavytail.control.riccati import (
    GAIN,
    STACK,
    VALUE,
    A,
    B,
    cholesky,
    gradient,
    lyapunov,
    optimal_gain,
    trace,
)
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    INVERSE,
    LOG_DET,
    OK,
    RADIUS,
    Count,
    Fixed,
    Flag,
    Open,
    numbered,
)
from heavytail.kernels.random import normal, uniform

__all__ = ["act", "choose_estimate", "choose_optimist", "choose_sample", "learn"]

DUE: Final = 1  # what a kernel answers where a new gain is to be chosen


class Gains(NamedTuple):
    """Slots of W, behind the Riccati equation's."""

    IN_USE: int
    FALLBACK: int


class Slots(NamedTuple):
    """Slots of c."""

    STEPS: Count  # t, steps learned
    WARMUP: Fixed  # steps of fallback and full excitation to begin with
    EXCITATION: Fixed  # standard deviation of the excitation, in the warm-up
    AFTER: Fixed  # ... and its factor afterwards
    DECAY: Fixed  # ... which falls as a power of t
    NEXT: int  # no new gain before this step
    EPOCH: Fixed  # least steps between two
    GROWTH: Fixed  # ... and their share of t
    DOUBLING: Fixed  # log det V must have grown by this since the last
    LAST_LOG_DET: Open
    STATE_LIMIT: Fixed  # in sizes of the noise times log t
    GAIN_LIMIT: Fixed
    DIVERGING: Flag  # 1 while the state was caught and the fallback holds it
    REFUSED: Flag  # 1 while the last model gave no usable gain
    FALLBACKS: Count  # times the state was caught
    FALLBACK_STEPS: Count  # steps the fallback steered after the warm-up, for either reason
    REFUSALS: Count
    REFRESHES: Count
    KEY: Count  # of the controller's own randomness
    RADIUS_SCALE: Fixed
    THETA_LIMIT: Fixed  # largest squared Frobenius norm of a model that optimism may take


GAINS: Final = numbered(Gains, after=STACK)
IN_USE, FALLBACK = GAINS
C: Final = numbered(Slots)

CALM: Final = 0.5  # of the limit: below it the fallback hands back
OPTIMISM_STEPS: Final = 10  # of the search for the cheapest model
HALVINGS: Final = 4  # of a step that does not help
WORTHWHILE: Final = 1e-3  # relative decrease of trace P below which the search stops
TRIES: Final = 10  # samples drawn until one has a gain


@jit
def state_limit(c: Vector, s: Vector, n: int) -> float:
    """The length of a state past which it counts as diverging: limit · ‖spreads‖ · log(e + t)."""
    total = 0.0
    for j in range(n):
        total += spread(s, j) * spread(s, j)
    return c[C.STATE_LIMIT] * math.sqrt(total) * math.log(math.e + c[C.STEPS])


@jit
def watch(c: Vector, s: Vector, x: Vector) -> None:
    """Catch a diverging state, or release it: then the next step chooses anew."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    size = math.sqrt(total)
    limit = state_limit(c, s, x.shape[0])
    if c[C.DIVERGING] == 0.0 and not (size <= limit):
        c[C.DIVERGING] = 1.0
        c[C.FALLBACKS] += 1.0
    elif c[C.DIVERGING] == 1.0 and size <= CALM * limit:
        c[C.DIVERGING] = 0.0
        c[C.NEXT] = c[C.STEPS]
        c[C.LAST_LOG_DET] = -math.inf


@jit
def act(c: Vector, W: Matrices, s: Vector, x: Vector, u: Vector) -> None:
    """u = K x + excitation, K the gain in use or the fallback."""
    watch(c, s, x)
    t = c[C.STEPS]
    warm = t < c[C.WARMUP]
    safe = warm or c[C.DIVERGING] == 1.0 or c[C.REFUSED] == 1.0
    if safe and not warm:
        c[C.FALLBACK_STEPS] += 1.0
    slot = FALLBACK if safe else IN_USE
    size = c[C.EXCITATION]
    if not warm:
        size *= c[C.AFTER] * (t - c[C.WARMUP] + 1.0) ** -c[C.DECAY]
    for i in range(u.shape[0]):
        total = size * normal(int(c[C.KEY]), int(t), i) if size > 0.0 else 0.0
        for j in range(x.shape[0]):
            total += W[slot, i, j] * x[j]
        u[i] = total


@jit
def lay_model(W: Matrices, F: Matrix, M: Matrix, n: int, first: int) -> float:
    """A and B of W: the estimate plus the offset in rows first.. of F, if any; its ‖.‖²."""
    base = M.shape[0] - n
    total = 0.0
    for i in range(n):
        for j in range(M.shape[1]):
            value = M[base + i, j]
            if first >= 0:
                value += F[first + i, j]
            total += value * value
            if j < n:
                W[A, i, j] = value
            else:
                W[B, i, j - n] = value
    return total


@jit
def choose_estimate(
    c: Vector, W: Matrices, room: Matrix, F: Matrix, s: Vector, M: Matrix, n: int
) -> bool:
    """Certainty equivalence: the gain of the estimate."""
    lay_model(W, F, M, n, -1)
    return optimal_gain(W, room)


@jit
def lay_extreme(F: Matrix, M: Matrix, n: int, radius: float) -> bool:
    """Rows 2n.. of F: the point of the ellipsoid furthest against the gradient in rows n..2n."""
    size = M.shape[1]
    total = 0.0
    for i in range(n):
        for j in range(size):
            value = 0.0
            for k in range(size):
                value += M[INVERSE + j, k] * F[n + i, k]
            F[2 * n + i, j] = value
            total += value * F[n + i, j]
    if not (0.0 < total < math.inf):
        return False
    for i in range(n):
        for j in range(size):
            F[2 * n + i, j] *= -radius / math.sqrt(total)
    return True


@jit
def improve(
    c: Vector, W: Matrices, room: Matrix, F: Matrix, M: Matrix, n: int, best: float
) -> float:
    """Move the offset (rows 0..n of F) towards the extreme point as far as trace P falls; its new
    value, or ``best`` where no step helps.
    """
    share = 1.0
    for _ in range(HALVINGS):
        for i in range(n):
            for j in range(M.shape[1]):
                F[3 * n + i, j] = (1.0 - share) * F[i, j] + share * F[2 * n + i, j]
        length = lay_model(W, F, M, n, 3 * n)
        if length <= c[C.THETA_LIMIT] and optimal_gain(W, room):
            value = trace(W, VALUE)
            if value < best * (1.0 - WORTHWHILE):
                for i in range(n):
                    for j in range(M.shape[1]):
                        F[i, j] = F[3 * n + i, j]
                return value
        share *= 0.5
    return best


@jit
def choose_optimist(
    c: Vector, W: Matrices, room: Matrix, F: Matrix, s: Vector, M: Matrix, n: int
) -> bool:
    """OFU-LQ: the gain of the cheapest model found in the confidence set, by Frank-Wolfe steps."""
    for i in range(n):
        for j in range(M.shape[1]):
            F[i, j] = 0.0
    lay_model(W, F, M, n, 0)
    if not optimal_gain(W, room):
        return False
    best = trace(W, VALUE)
    radius = c[C.RADIUS_SCALE] * s[RADIUS]
    for _ in range(OPTIMISM_STEPS):
        if not lyapunov(W, n):
            break
        gradient(W, n, F, n)
        if not lay_extreme(F, M, n, radius):
            break
        value = improve(c, W, room, F, M, n, best)
        if value >= best:
            break
        best = value
    lay_model(W, F, M, n, 0)
    return optimal_gain(W, room)


@jit
def lay_sample(c: Vector, F: Matrix, M: Matrix, n: int, radius: float, attempt: int) -> None:
    """Rows 0..n of F: an offset uniform in the ellipsoid; rows 2n.. factorise V^-1."""
    size = M.shape[1]
    key = int(c[C.KEY]) + 1
    first = (n * size + 1) * attempt
    total = 0.0
    for i in range(n):
        for j in range(size):
            F[n + i, j] = normal(key, int(c[C.STEPS]), first + i * size + j)
            total += F[n + i, j] * F[n + i, j]
    depth = uniform(key, int(c[C.STEPS]), 2 * (first + n * size)) ** (1.0 / (n * size))
    for i in range(n):
        for j in range(size):
            value = 0.0
            for k in range(j + 1):
                value += F[2 * n + j, k] * F[n + i, k]
            F[i, j] = radius * depth / math.sqrt(total) * value


@jit
def choose_sample(
    c: Vector, W: Matrices, room: Matrix, F: Matrix, s: Vector, M: Matrix, n: int
) -> bool:
    """Thompson sampling: the gain of a model drawn from the confidence set."""
    size = M.shape[1]
    L = F[2 * n :]
    if not cholesky(M, INVERSE, size, L):
        return choose_estimate(c, W, room, F, s, M, n)
    for attempt in range(TRIES):
        lay_sample(c, F, M, n, c[C.RADIUS_SCALE] * s[RADIUS], attempt)
        if lay_model(W, F, M, n, 0) <= c[C.THETA_LIMIT] and optimal_gain(W, room):
            return True
    return choose_estimate(c, W, room, F, s, M, n)


@jit
def keep_gain(c: Vector, W: Matrices, d: int, n: int, found: bool) -> None:
    """Take the gain just computed into use, or refuse it: then the fallback steers."""
    total = 0.0
    if found:
        for i in range(d):
            for j in range(n):
                total += W[GAIN, i, j] * W[GAIN, i, j]
    c[C.REFRESHES] += 1.0
    if not found or not (total <= c[C.GAIN_LIMIT] * c[C.GAIN_LIMIT]):
        c[C.REFUSED] = 1.0
        c[C.REFUSALS] += 1.0
        return
    c[C.REFUSED] = 0.0
    for i in range(d):
        for j in range(n):
            W[IN_USE, i, j] = W[GAIN, i, j]


@jit
def learn(c: Vector, s: Vector, M: Matrix, H: Matrix, x: Vector, u: Vector, y: Vector) -> int:
    """Learn one step: OK, DUE where a new gain is to be chosen now, or what was wrong."""
    code = observe(s, M, H, x, u, y)
    if code != OK:
        return code
    c[C.STEPS] += 1.0
    t = c[C.STEPS]
    grown = s[LOG_DET] - c[C.LAST_LOG_DET] >= c[C.DOUBLING]
    return DUE if t >= c[C.WARMUP] and t >= c[C.NEXT] and grown else OK


@jit
def postpone(c: Vector, s: Vector) -> None:
    """Set when the next gain is due."""
    c[C.NEXT] = c[C.STEPS] + max(c[C.EPOCH], c[C.GROWTH] * c[C.STEPS])
    c[C.LAST_LOG_DET] = s[LOG_DET]
