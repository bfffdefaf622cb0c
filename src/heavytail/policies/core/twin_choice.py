"""The choice of Twin-UCB: what an arm is worth and may be worth beyond that, and looks at arms that
were given up. From the state alone, and from the scores of a pool that are kept.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import IntArray, Matrix, Vector
from heavytail.kernels.index import MEAN, SCORES, SQUARED, beyond, scoring, usable
from heavytail.kernels.index import rate as rate_linear
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    DIRECTION,
    GAIN,
    NO_ARM,
    PROJECTED,
    RADIUS,
    ROUNDS,
    SET_ANEW,
    STEP,
)
from heavytail.kernels.scores import PRODUCT, multiply
from heavytail.policies.core.every_round import CONVERSION, EVERY_ROUND, JUDGE, TRIED
from heavytail.policies.core.every_round import INVERSE as TRIED_INVERSE
from heavytail.policies.core.practice import PRACTICE
from heavytail.policies.core.twin import JUDGES, OWN
from heavytail.policies.core.two_estimates import TWO, bulk_row, look

__all__ = ["TWIN", "index_of", "rule_of", "select"]

HOPED: Final = 0.5  # units, for an arm tried once: the most that is hoped of an amount among zeros
LOOKS: Final = 0.2  # times patience log² t: as often every direction is tried, and this times ...
UNPAID: Final = 10.0  # ... as often where a reward other than 0 came less than ...
MISSES: Final = 0.5  # times sqrt(t): so many rewards that did not come are chance
PAID: Final = 3.0  # ... so often: fewer do not show how large they are

S: Final = OWN
E: Final = EVERY_ROUND
P: Final = PRACTICE

# Rows of a pool's scores behind the linear index's.
BULK: Final = SCORES
SHARES: Final = SCORES + 1
JUDGED: Final = SCORES + 2
UNKNOWN: Final = SCORES + 3  # x'U x


class Rule(NamedTuple):
    """The parts of an index that do not depend on the arm. Where there is no conversion, 1 is paid
    for sure.
    """

    guess: float  # times the bulk ...
    shift: float  # ... plus this is believed of an amount,
    trusted: float  # as far as so many widths from the mean
    level: float  # of the constant feature
    radius: float
    converts: float  # 1 if a reward was 0
    paid: float  # conversion of the constant feature
    spread: float  # widths of conversion
    most: float  # that is hoped of an amount, in widths of conversion
    judged: float  # the judge's reward of the constant feature
    below: float  # how far below the judge an arm is believed ...
    above: float  # ... and how far above
    hope: float  # the most it may be worth beyond that


@jit
def rule_of(s: Vector) -> Rule:
    """The rule of the next round. Before the unit is known, the index is the width."""
    converts = 1.0 if s[E.ZEROS] > 0.0 else 0.0
    paid, spread, most = 1.0, 0.0, math.inf
    if converts != 0.0:
        paid, spread = s[S.CONVERSION_LEVEL], s[E.CONVERSION_RADIUS]
        most = HOPED * s[P.UNIT] * s[P.NU]
    level, judged = s[S.LEVEL], s[S.JUDGE_LEVEL]
    if s[P.UNIT] == 0.0:
        inf = math.inf
        return Rule(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, inf, 0.0, inf, inf, inf)
    if s[S.AUDIT] != 0.0:
        inf = math.inf
        below = 0.0 if s[S.AUDIT] == JUDGES else inf
        return Rule(
            0.0, 0.0, 0.0, level, s[RADIUS], converts, paid, spread, most, judged, below, inf, inf
        )
    return Rule(
        s[S.RATIO],
        s[S.SHIFT],
        s[S.TRUSTED],
        level,
        s[TWO.BULK_RADIUS],
        converts,
        paid,
        spread,
        most,
        judged,
        s[S.HELD],
        s[S.HELD],
        s[S.HOPE],
    )


@jit
def index_of(
    rule: Rule,
    mean: float,
    bulk: float,
    judge: float,
    share: float,
    squared: float,
    tried: float,
) -> float:
    """The worth of an arm plus the most it may be worth beyond that. The mean and the bulk of its
    amount, the judge and conversion exclude the constant feature's part; ``squared`` is x'P x,
    ``tried`` x'U x.
    """
    width = math.sqrt(max(squared, 0.0))
    reach = rule.trusted * width
    worth = min(max(rule.guess * bulk + rule.shift, mean - reach), mean + reach) + rule.level
    hope = rule.radius * width
    if rule.converts != 0.0:  # a reward of 0 says of the amount that the product is not large
        root = math.sqrt(max(tried, 0.0))
        paid = min(max(share + rule.paid, 0.0), 1.0)
        spread = rule.spread * root
        hope = min(min(paid + spread, 1.0) * hope, rule.most * root)
        hope = longer(spread * worth, hope)
        worth *= paid
    judged = judge + rule.judged
    worth = min(max(worth, judged - rule.below), judged + rule.above)
    return worth + min(hope, rule.hope)


@jit
def longer(a: float, b: float) -> float:
    """sqrt(a² + b²), which a loop over arms can do for several at once."""
    most = max(abs(a), abs(b), 1e-300)
    a /= most
    b /= most
    return most * math.sqrt(a * a + b * b)


@jit
def are_clicks(s: Vector) -> bool:
    """Tell whether rewards look like clicks: all but 0 are equal, and often one was expected and 0
    came. Sure payments beside an arm that never paid are none.
    """
    return s[S.DIFFER] == 0.0 and s[S.MISSED] > MISSES * math.sqrt(s[ROUNDS])


@jit
def overdue(s: Vector, share: float, tried: float) -> float:
    """By how much an arm is less known than patience asks: above 1 it must be looked at.

    1 / x'U x is about how often it was tried, so that times conversion how often it paid. Among
    clicks no rare large reward is looked for.
    """
    looks = s[S.PATIENCE] * LOOKS
    paid = min(max(share + s[S.CONVERSION_LEVEL], 0.0), 1.0)
    rare = s[E.ZEROS] > 0.0 and beyond(paid) < PAID * tried  # not by rounding
    if rare and not are_clicks(s):
        looks *= UNPAID
    return looks * tried / s[S.KNOWN]


@jit
def uncertainty(s: Vector, M: Matrix, arms: Matrix, a: int, block: int) -> float:
    """x'A x of arm a for the symmetric A that begins at the row ``block``. O(d²)."""
    size = arms.shape[1]
    half = 0.0
    for j in range(M.shape[1]):
        x = arms[a, j] if j < size else s[CONSTANT]
        if x == 0.0:
            continue
        row = 0.5 * M[block + j, j] * x
        for k in range(j):
            row += M[block + j, k] * arms[a, k]
        half += row * x
    return max(2.0 * half, 0.0)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index; where it is the mean's turn, first the arm that is most
    overdue. O(n d²).
    """
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    at = bulk_row(M)
    rule = rule_of(s)
    best = late = NO_ARM
    best_index = -math.inf
    latest = 1.0
    for a in range(arms.shape[0]):
        mean, typical, squared = look(s, M, arms, a)
        judge = share = tried = 0.0
        for j in range(arms.shape[1]):
            judge += M[at + JUDGE, j] * arms[a, j]
        if s[S.AUDIT] != 0.0 or s[E.ZEROS] > 0.0:
            tried = uncertainty(s, M, arms, a, at + TRIED_INVERSE)
            for j in range(arms.shape[1]):
                share += M[at + CONVERSION, j] * arms[a, j]
        index = index_of(rule, mean, typical, judge, share, squared, tried)
        if index > best_index:
            best = a
            best_index = beyond(index)
        if s[S.AUDIT] != 0.0 and overdue(s, share, tried) > latest:
            late = a
            latest = beyond(overdue(s, share, tried))
    return best if late == NO_ARM else late


@jit
def rate(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> int:
    """Score every arm of a pool from the state alone. O(n d²)."""
    at = bulk_row(M)
    size = pool.shape[0]
    multiply(pool, size, M, at, scores, BULK)
    multiply(pool, size, M, at + CONVERSION, scores, SHARES)
    multiply(pool, size, M, at + JUDGE, scores, JUDGED)
    U = at + TRIED_INVERSE
    multiply(pool, size, M, U + size, scores, UNKNOWN)
    for i in range(pool.shape[1]):  # from the constant feature: 2 c U_cx x + c² U_cc
        scores[UNKNOWN, i] = s[CONSTANT] * (
            2.0 * scores[UNKNOWN, i] + s[CONSTANT] * M[U + size, size]
        )
    for j in range(size):
        multiply(pool, j, M, U + j, scores, PRODUCT)
        for i in range(pool.shape[1]):
            x = pool[j, i]
            scores[UNKNOWN, i] += x * (2.0 * scores[PRODUCT, i] + M[U + j, j] * x)
    return rate_linear(s, M, pool, scores)


@jit
def follow(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> None:
    """Bring the scores over the last update. O(n d)."""
    if s[PROJECTED] == SET_ANEW:
        rate(s, M, pool, scores)
        return
    size = pool.shape[0]
    if s[GAIN] != 0.0:
        gain, step, bulk_step = s[GAIN], s[STEP], s[TWO.BULK_STEP]  # read once: scores are written
        constant = s[CONSTANT] * M[DIRECTION, size]
        multiply(pool, size, M, DIRECTION, scores, PRODUCT)
        for i in range(pool.shape[1]):
            g = scores[PRODUCT, i]
            scores[MEAN, i] += step * g
            scores[BULK, i] += bulk_step * g
            scores[SQUARED, i] -= gain * (g + constant) * (g + constant)
    tried = bulk_row(M) + TRIED
    gain, step, judge_step = s[E.TRIED_GAIN], s[E.CONVERSION_STEP], s[E.JUDGE_STEP]
    constant = s[CONSTANT] * M[tried, size]
    multiply(pool, size, M, tried, scores, PRODUCT)
    for i in range(pool.shape[1]):
        g = scores[PRODUCT, i]
        scores[SHARES, i] += step * g
        scores[JUDGED, i] += judge_step * g
        scores[UNKNOWN, i] -= gain * (g + constant) * (g + constant)


@jit
def index_in(rule: Rule, scores: Matrix, i: int) -> float:
    """The index of arm i of a pool."""
    return index_of(
        rule,
        scores[MEAN, i],
        scores[BULK, i],
        scores[JUDGED, i],
        scores[SHARES, i],
        scores[SQUARED, i],
        scores[UNKNOWN, i],
    )


@jit
def choose(s: Vector, scores: Matrix) -> int:
    """The arm of the pool that ``select`` chooses. O(n)."""
    rule = rule_of(s)
    for i in range(scores.shape[1]):
        scores[PRODUCT, i] = index_in(rule, scores, i)
    best = late = NO_ARM
    best_index = -math.inf
    for i in range(scores.shape[1]):
        if scores[PRODUCT, i] > best_index:
            best = i
            best_index = beyond(scores[PRODUCT, i])
    if s[S.AUDIT] == 0.0:
        return best
    latest = 1.0
    for i in range(scores.shape[1]):
        late_by = overdue(s, scores[SHARES, i], scores[UNKNOWN, i])
        if late_by > latest:
            late = i
            latest = beyond(late_by)
    return best if late == NO_ARM else late


@jit
def choose_offered(s: Vector, scores: Matrix, offered: IntArray, t: int) -> int:
    """The place in row t of ``offered`` of the arm that ``select`` chooses among them. O(k)."""
    rule = rule_of(s)
    best = late = NO_ARM
    best_index = -math.inf
    latest = 1.0
    for k in range(offered.shape[1]):
        i = offered[t, k]
        index = index_in(rule, scores, i)
        if index > best_index:
            best = k
            best_index = beyond(index)
        if s[S.AUDIT] != 0.0:
            late_by = overdue(s, scores[SHARES, i], scores[UNKNOWN, i])
            if late_by > latest:
                late = k
                latest = beyond(late_by)
    return best if late == NO_ARM else late


TWIN: Final = scoring(
    "twin",
    select=select,
    rate=rate,
    follow=follow,
    choose=choose,
    choose_offered=choose_offered,
    rows=SCORES + 4,
)
