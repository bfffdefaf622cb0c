"""A practical policy whose theta may move: old rounds fade, and a change is noticed.

- *Forgetting.* After each round all that was learned counts ``forget`` times as much: V, the sums
  that the radius reads, the sizes that tau is tuned by. The number of rounds that theta is made of
  fades alike, to at most 1 / (1 - forget), and BEGAN moves on with it, so that all that asks how
  much is known is answered.
- *The start stays.* A direction that is not seen would be forgotten for ever and P leave the
  floating-point range. So each round the start of one coordinate, in turn, is added to V anew, as
  much as it lost since its last turn: V is never below its start, to a factor forget^size.
  It is added around the theta of now: what is not seen stays where it was, and becomes unsure.
- *Noticing.* Rewards that keep falling short of what is expected of them, or exceeding it, say that
  theta changed: a cumulative sum of the residuals, clipped, less their mean so far and a slack,
  in each direction. No reward counts for more than CLIP, however far it lies. They are residuals
  of the bulk, an estimate clipped at CLIP: one that leads to the mean is moved by single rewards
  where the tail is heavy, and what is expected of all arms with it. Where noise is skewed the bulk
  itself moves with the noise's size, and that is taken for a change.

What is remembered lies in s behind the sizes, in a run of its own: without it a policy is as it
was, to the bit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from heavytail._invariants import are_counts
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import shrink_block
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    CONSTANT,
    DIRECTION,
    GAIN,
    INVERSE,
    LOG_DET,
    OK,
    PROJECTED,
    RADIUS,
    ROUNDS,
    SET_ANEW,
    THETA,
    numbered,
)
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.kernels.self_tuning import EVERY
from heavytail.kernels.self_tuning import ROOM as SIZES
from heavytail.kernels.self_tuning import fade as fade_sizes
from heavytail.policies.core.algorithm import Algorithm, Arrays, Kernel
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.practice import PRACTICE, begin_again, learned, radius
from heavytail.policies.core.practice import update as update_practice

__all__ = [
    "FORGET",
    "MEMORY_RUNS",
    "RENEWAL",
    "ROOM",
    "checked",
    "clear",
    "drop_log_det",
    "fade_block",
    "foresee",
    "place",
    "remember",
    "set_block",
    "start",
    "update",
    "with_memory",
]


class Memory(NamedTuple):
    """Numbers of the run, by their place in it."""

    FORGET: int  # weight of a round one step older; 1 remembers all alike
    RENEWAL: int  # what a coordinate's start loses in as many rounds as there are: forget^-size - 1
    RESTARTS: int  # 1 if a change that is noticed lets it begin anew
    SEEN: int  # rounds remembered
    TURN: int  # the coordinate whose start is renewed next
    CLIPPED: int  # of the rounds remembered
    LEVEL: int  # mean of the clipped residuals
    ABOVE: int  # their cumulative sum beyond it ...
    BELOW: int  # ... and below it
    CHANGES: int  # how often it began anew


MEMORY: Final = numbered(Memory)
ROOM: Final = len(MEMORY)
P: Final = PRACTICE
K: Final = MEMORY
FORGET: Final = K.FORGET
RENEWAL: Final = K.RENEWAL
MEMORY_RUNS: Final = {"sizes": SIZES, "memory": ROOM}  # of s

CLIP: Final = 1.345  # of a residual, in typical ones
# Chosen beside 0.25 and 30, 0.15 and 45, 0.1 and 40: no false alarm in 16 million rounds of either
# policy (benchmarks/moving.py --alarms), and a theta that turns slowly is still noticed.
SLACK: Final = 0.1  # by which the mean of clipped residuals may differ, in typical residuals
ALARM: Final = 60.0  # of the cumulative sum
GRACE: Final = 30.0  # rounds a coordinate before anything is noticed
LEAST_WINDOW: Final = 2.0  # rounds a coordinate: fewer teach nothing


@jit
def place(s: Vector) -> int:
    """The place in s where the memory begins."""
    return int(s[P.SIZES]) + SIZES


@jit
def foresee(s: Vector, M: Matrix, row: int, x: Vector) -> float:
    """The reward that the estimate in a row of M expects of x. O(d)."""
    expected = 0.0
    for i in range(x.shape[0]):
        expected += M[row, i] * x[i]
    for i in range(x.shape[0], M.shape[1]):
        expected += M[row, i] * s[CONSTANT]
    return expected


@jit
def watch(s: Vector, at: int, coordinates: int, z: float) -> bool:
    """Tell whether the residuals say that theta changed; z is the newest, in typical ones."""
    n = s[at + K.SEEN]
    off = score(z, CLIP) - s[at + K.LEVEL]
    if n >= GRACE * coordinates:
        s[at + K.ABOVE] = max(s[at + K.ABOVE] + off - SLACK, 0.0)
        s[at + K.BELOW] = max(s[at + K.BELOW] - off - SLACK, 0.0)
    s[at + K.LEVEL] += off / (n + 1.0)
    return max(s[at + K.ABOVE], s[at + K.BELOW]) > ALARM


@jit
def first_weight(s: Vector) -> float:
    """Each entry of the diagonal of V when the unit became known."""
    root = s[P.UNIT] * s[P.NU]
    return s[P.RIDGE] / (root * root)


@jit
def fade_block(M: Matrix, block: int, row: int, i: int, weight: float, forget: float) -> None:
    """V <- forget (V + ``weight`` at coordinate i), for the V^-1 that begins at the row ``block``;
    ``row`` is room. O(d²).
    """
    for j in range(M.shape[1]):
        M[row, j] = M[block + i, j]
    shrink_block(M, block, row, weight / (1.0 + weight * M[block + i, i]))
    for k in range(M.shape[1]):
        for j in range(M.shape[1]):
            M[block + k, j] /= forget


@jit
def set_block(M: Matrix, block: int, weight: float) -> None:
    """V <- ``weight`` I, for the V^-1 that begins at the row ``block``. O(d²)."""
    for k in range(M.shape[1]):
        for j in range(M.shape[1]):
            M[block + k, j] = 1.0 / weight if k == j else 0.0


@jit
def fade(s: Vector, M: Matrix, at: int) -> None:
    """V <- forget (V + the start of one coordinate). O(d²)."""
    i = int(s[at + K.TURN])
    s[at + K.TURN] = (i + 1.0) % M.shape[1]
    weight = first_weight(s) * s[at + K.RENEWAL]
    fade_block(M, INVERSE, DIRECTION, i, weight, s[at + K.FORGET])


@jit
def begin_anew(s: Vector, M: Matrix, at: int) -> None:
    """P as it was at first, around the theta of now; the scale of the noise stays known."""
    set_block(M, INVERSE, first_weight(s))
    begin_again(s)
    s[at + K.LEVEL] = s[at + K.ABOVE] = s[at + K.BELOW] = 0.0
    s[at + K.CHANGES] += 1.0


@jit
def clear(s: Vector) -> None:
    """Remember no round: all began again in another unit."""
    at = place(s)
    s[at + K.SEEN] = s[at + K.CLIPPED] = 0.0
    s[at + K.LEVEL] = s[at + K.ABOVE] = s[at + K.BELOW] = 0.0


@jit
def remember(s: Vector, M: Matrix, z: float, clipped: float) -> float:
    """Forget a little after a round, or all where that is asked for and theta changed; return the
    factor of every sum. ``clipped`` is 1 if the reward was.
    """
    at = place(s)
    changed = watch(s, at, M.shape[1], z)
    s[at + K.SEEN] += 1.0
    s[at + K.CLIPPED] += clipped
    factor = s[at + K.FORGET]
    if changed and s[at + K.RESTARTS] != 0.0:
        factor = 0.0
        begin_anew(s, M, at)
    elif factor < 1.0:
        fade(s, M, at)
        if int(s[ROUNDS]) % EVERY == 0:
            fade_sizes(s, int(s[P.SIZES]), factor**EVERY)
    else:
        return 1.0
    s[PROJECTED] = SET_ANEW
    s[P.STABILITY] *= factor
    s[P.ENERGY] *= factor
    s[P.LOST] *= factor
    s[P.WEIGHT] *= factor
    s[P.WEIGHT_SQUARES] *= factor
    s[at + K.SEEN] *= factor
    s[at + K.CLIPPED] *= factor
    s[CLIPPED] = math.floor(s[at + K.CLIPPED] + 0.5)
    if learned(s) > s[at + K.SEEN] + 0.5:
        s[P.BEGAN] += 1.0
    return factor


@jit
def drop_log_det(s: Vector) -> None:
    """LOG_DET stays 0 where V does not only grow."""
    at = place(s)
    if s[at + K.FORGET] < 1.0 or s[at + K.RESTARTS] != 0.0:
        s[LOG_DET] = 0.0


@jit
def watched_row(s: Vector, M: Matrix) -> int:
    """The row of M whose residuals are watched: theta where its clip is fixed, else the last, which
    holds a bulk that decides nothing.
    """
    return THETA if s[P.TUNES] == 0.0 else M.shape[0] - 1


@jit
def learn_watched(s: Vector, M: Matrix, residual: float) -> None:
    """The bulk's step along the u of theta's, after it. O(d)."""
    row = watched_row(s, M)
    if row == THETA:
        return
    sigma = s[P.SIGMA]
    step = score(residual / sigma, CLIP) * sigma * s[P.ALPHA] * s[GAIN]
    for i in range(M.shape[1]):
        M[row, i] += step * M[DIRECTION, i]


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round of the practical mode and what it lets fade; OVERFLOW with the state untouched."""
    begun = s[P.UNIT] > 0.0
    residual = reward - foresee(s, M, watched_row(s, M), x)
    typical = NORMAL_CONSISTENCY * s[P.TYPICAL]
    clipped = s[CLIPPED]
    code = update_practice(s, M, x, reward, nu)
    if code != OK:
        return code
    drop_log_det(s)
    if not begun:
        return OK
    if learned(s) == 0.0:
        clear(s)
        for i in range(M.shape[1]):
            M[watched_row(s, M), i] = 0.0
        return OK
    learn_watched(s, M, residual)
    if remember(s, M, residual / nu / typical, s[CLIPPED] - clipped) < 1.0:
        s[RADIUS] = radius(s, s[P.EXPLORATION], s[P.STABILITY], s[P.ENERGY])
    return OK


def with_memory(algorithm: Algorithm, update: Kernel) -> Algorithm:
    """A practical algorithm whose memory may fade; ``update`` lets it. Its constructor allocates
    the runs of MEMORY_RUNS and calls ``start``.
    """
    return replace(
        algorithm,
        update=update,
        agree=(*algorithm.agree, agrees),
        reports=(*algorithm.reports, report_drift),
    )


def checked(
    check: Check, forget: float | str | None, size: int, is_theory: bool
) -> float | str | None:
    """The argument ``forget`` of a policy of ``size`` coordinates."""
    if forget is None:
        return None
    if is_theory:
        raise ValueError(
            f'{check.owner}.forget must not be given for radius="theory", which is of a theta '
            f"that stays; got {forget!r}."
        )
    if isinstance(forget, str):
        return check.choice("forget", forget, ("auto",))
    return check.number("forget", forget, least=1.0 - 1.0 / (LEAST_WINDOW * size), most=1.0)


def start(policy: PackedPolicy, forget: float | str) -> None:
    """Write the constants of the memory into a fresh state."""
    memory, size = memory_of(policy), policy._M.shape[1]
    factor = 1.0 if isinstance(forget, str) else forget
    memory[K.FORGET] = factor
    memory[K.RENEWAL] = factor**-size - 1.0
    memory[K.RESTARTS] = isinstance(forget, str)
    policy.forgets = bool(factor < 1.0 or memory[K.RESTARTS] != 0.0)


def memory_of(policy: PackedPolicy) -> FloatArray:
    """The memory as a view of the policy's state."""
    return policy._s[policy._runs["memory"]]


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the memory of a state from outside fits its rounds and the arguments."""
    s, memory, fixed = arrays["scalars"], arrays["memory"], [K.FORGET, K.RENEWAL, K.RESTARTS]
    seen = learned(s) if s[P.UNIT] > 0.0 else 0.0
    sums = memory[[K.ABOVE, K.BELOW, K.CLIPPED]]
    return bool(
        np.allclose(memory[fixed], memory_of(policy)[fixed], rtol=1e-9, atol=0.0)
        and abs(memory[K.SEEN] - seen) <= 0.5 + 1e-9 * seen
        and are_counts(memory[[K.TURN]], policy._M.shape[1])
        and are_counts(memory[[K.CHANGES]])
        and (sums >= 0.0).all()
        and abs(memory[K.LEVEL]) <= CLIP
    )


def report_drift(policy: PackedPolicy, report: Diagnostics) -> Diagnostics:
    """Add whether theta seems to have changed."""
    memory, advice = memory_of(policy), report.advice
    drift = float(max(memory[K.ABOVE], memory[K.BELOW]) / ALARM)
    if drift > 1.0 and not policy.forgets:
        advice += (
            "theta seems to have changed: rewards keep differing from what is expected of "
            'them. reset(), or build it with forget="auto" or forget=0.999.',
        )
    if policy.forgets:  # of the rounds remembered
        share = float(policy._s[CLIPPED] / max(learned(policy._s), 1.0))
        report = replace(report, clipped_share=share)
    return replace(report, drift=drift, advice=advice)
