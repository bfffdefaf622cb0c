"""The round of Twin-UCB: two estimates of an amount, how often one is paid, and whose turn it is.

:mod:`heavytail.policies.core.twin_choice` chooses by it;
:mod:`heavytail.policies.core.two_estimates` has the bulk and its step, ``every_round`` conversion,
the judge and how well directions are known, ``noise_size`` the scale that follows x.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.cholesky import factorise, substitute
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    CONSTANT,
    FEATURE,
    GAIN,
    INVERSE,
    OK,
    PROJECTED,
    RADIUS,
    ROUNDS,
    SCRATCH,
    SET_ANEW,
    STEP,
    THETA,
    Count,
    Fixed,
    Flag,
    Size,
    numbered,
)
from heavytail.kernels.one_pass import learn, measure
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.kernels.self_tuning import EVERY
from heavytail.policies.core.every_round import (
    CONVERSION,
    EVERY_ROUND,
    JUDGE,
    TRIED,
    foretell,
    learn_always,
    weigh,
)
from heavytail.policies.core.every_round import INVERSE as TRIED_INVERSE
from heavytail.policies.core.forgetting import (
    FORGET,
    RENEWAL,
    clear,
    drop_log_det,
    fade_block,
    foresee,
    place,
    remember,
    set_block,
)
from heavytail.policies.core.noise_size import NOISE_SIZE, factor_at, forget_sizes, learn_size, part
from heavytail.policies.core.practice import (
    CAUTION,
    FAR,
    FIRST,
    LARGEST_SIZE,
    LARGEST_UNIT,
    PRACTICE,
    doubt_unit,
    growing_radius,
    keep_first,
    learned,
    order_first,
    radius,
    scale_of,
    settle,
    step,
    tune,
    watch,
)
from heavytail.policies.core.two_estimates import (
    TWO,
    bulk_row,
    learn_bulk,
    predict_bulk,
)

__all__ = [
    "EXPLORATION",
    "JUDGES",
    "OWN",
    "audit_share",
    "hausman",
    "prepare",
    "update",
    "update_forgetting",
]

EXPLORATION: Final = 0.65  # of the mean's optimism, in its radius
BULK_EXPLORATION: Final = 0.45
CONVERSION_EXPLORATION: Final = 0.45
TRUST: Final = 0.12  # of the mean's radius without exploration: how far the bulk is believed
AUDITS: Final = 3.0  # a share AUDITS t^(-1/3) of the rounds is the mean's, times what Hausman's ...
FEWEST, MOST = 0.2, 4.0  # ... statistic says, within these; but at most ...
MOST_AUDITS: Final = 0.7
JUDGES: Final = 4  # every so many-th audit hears the judge
CHANCE: Final = 3.0  # times d: Hausman's statistic at which the share is left as it is
MOST_RATIO: Final = 20.0
ROUNDING: Final = 1e-20  # in squared residuals over sigma: less than that parts no estimates
GRACE: Final = 150.0  # rounds a coordinate before it is asked
HELD: Final = 30.0  # typical residuals, over log t: how far from the judge an arm is believed
HOPE: Final = 40.0  # units, over log t: the most that it may be worth beyond that
LEVEL: Final = 1e4  # distances between first rewards of which three are alike: they lie at a level
ALIKE: Final = 2.0  # sizes within this factor that contradict the unit show a new level
HEARD: Final = 100.0  # units that a reward may lie from the centre for the judge to hear it whole
LOGS: Final = 0.3  # log t: so many amounts, and one a coordinate, may lie beyond the threshold


class Slots(NamedTuple):
    """Slots of the rule."""

    PATIENCE: Fixed
    CENTRE: int  # the reward over nu_t that the intercept begins at
    TRUSTED: int  # how far from the mean the bulk is believed, in widths
    RATIO: int  # what the bulk is multiplied by, 1 unless noise grows with the amount ...
    SHIFT: int  # ... and what it then lies below the mean where most is known
    LEVEL: int  # what the constant feature adds to the mean of an amount ...
    CONVERSION_LEVEL: int  # ... to conversion ...
    JUDGE_LEVEL: int  # ... and to the judge's
    HELD: Size  # how far from the judge an arm's worth is believed ...
    HOPE: Size  # ... and the most that it may be worth beyond that
    KNOWN: Size  # x'U x of a direction that was tried often enough, over what patience asks
    SHARE: Size  # of the rounds that are the mean's
    DUE: Size  # such rounds that are owed
    AUDIT: Count  # 0 if the next round is none, otherwise its number, from 1 to JUDGES ...
    LAST_AUDIT: Count  # ... and that of the last one
    AMOUNT: int  # the first reward other than 0 ...
    DIFFER: Flag  # ... and whether another one differed from it
    MISSED: Size  # rewards that were expected and did not come: conversion where 0 was paid


OWN: Final = numbered(Slots, after=NOISE_SIZE)
S: Final = OWN
E: Final = EVERY_ROUND
P: Final = PRACTICE


@jit
def begin(s: Vector, M: Matrix, dim: int, squared: float, reward: float, nu: float) -> int:
    """A round before the unit is known, after ``measure``: the arms are spread, and nothing is
    learned but that rewards are 0.

    The first rewards other than 0 are kept in order; from the fifth on the intercept begins at
    their median, and the unit is CAUTION times the median distance from it, or the next larger one
    where that is 0. Where there were rewards of 0, or no unit reaches so far, both are counted from
    0.
    """
    code = learn(s, M, dim, squared, 0.0, max(1.0, math.sqrt(squared)), 1.0, math.inf)
    if code != OK:
        return code
    if reward == 0.0:
        s[E.ZEROS] += 1.0
        return OK
    value = min(max(reward / nu, -LARGEST_SIZE), LARGEST_SIZE)
    keep_first(s, value)
    s[P.NU] += nu
    if s[P.TELLING] < FIRST:
        return OK
    s[P.NU] /= FIRST
    if s[E.ZEROS] == 0.0 and abs(s[P.FIRST_3] * s[P.NU]) <= LARGEST_UNIT:
        s[S.CENTRE] = centre_of_first(s)
    for k in range(P.FIRST_1, P.FIRST_5 + 1):
        s[k] = abs(s[k] - s[S.CENTRE])
    order_first(s)
    if s[P.FIRST_3] == 0.0:
        s[P.FIRST_3] = s[P.FIRST_4] if s[P.FIRST_4] > 0.0 else s[P.FIRST_5]
    settle(s, M, CAUTION * s[P.FIRST_3])
    recentre(s, M, dim)
    s[S.KNOWN] = 0.0
    return OK


@jit
def centre_of_first(s: Vector) -> float:
    """The median of the first rewards, which are in order. Where three of them are alike it is 0,
    so that distances from it tell, unless they lie at a LEVEL that hides how the others differ.
    """
    low, middle, high = s[P.FIRST_1], s[P.FIRST_3], s[P.FIRST_5]
    if low != middle and middle != high and s[P.FIRST_2] != s[P.FIRST_4]:
        return middle
    return middle if 0.0 < LEVEL * (high - low) < abs(middle) else 0.0


@jit
def recentre(s: Vector, M: Matrix, dim: int) -> None:
    """All intercepts begin at the centre; to the judge, all rewards so far were there."""
    at = bulk_row(M)
    for i in range(dim):
        M[at + JUDGE, i] = 0.0
    intercept = s[S.CENTRE] * s[P.NU] / s[CONSTANT]
    M[THETA, dim] = M[at, dim] = M[at + JUDGE, dim] = intercept


@jit
def pay(s: Vector, M: Matrix, dim: int, squared: float, tried: float, r: float, nu: float) -> int:
    """Learn an amount: its mean, its bulk, the size of its noise."""
    bulk = bulk_row(M)
    expected = predict_bulk(M)
    factor = factor_at(s, M, dim)
    sigma = scale_of(s, squared, nu * factor)
    z = (r - predict(M)) / sigma if squared > 0.0 else 0.0
    y = (r - expected) / sigma if squared > 0.0 else 0.0
    tau = s[P.TAU]
    code = step(s, M, dim, squared, z, sigma)
    if code != OK:
        return code
    learn_bulk(s, M, squared, y, score(z, tau), sigma)
    for i in range(M.shape[1]):
        M[bulk + 1, i] += M[FEATURE, i] / (sigma * sigma)
    tune(s, M, z, LOGS)
    size = min(abs(r - expected) / nu, LARGEST_SIZE)
    learn_size(s, M, dim, tried, size, factor)
    watch(s, r, size / factor)
    gone = FAR * abs(r / nu) < abs(s[S.CENTRE])  # the reward is near 0, so the centre is not
    if doubt_unit(s, M, min(abs(r / nu - (0.0 if gone else s[S.CENTRE])), LARGEST_SIZE)):
        s[S.KNOWN] = 0.0
        level = s[P.FIRST_5] < ALIKE * s[P.FIRST_1]  # they lie at a level of their own
        if level and abs(r / nu * s[P.NU]) <= LARGEST_UNIT:
            s[S.CENTRE] = r / nu
        elif gone:
            s[S.CENTRE] = 0.0
        s[TWO.BULK_STABILITY] = s[TWO.BULK_ENERGY] = s[TWO.APART] = 0.0
        for i in range(M.shape[1]):
            M[bulk, i] = M[bulk + 1, i] = 0.0
        recentre(s, M, dim)
        forget_sizes(s, M)
    return OK


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round: the amount where there is one, then whether there was; OVERFLOW with the state
    untouched.
    """
    code = learn_round(s, M, x, reward, nu)
    if code == OK:
        take_turn(s, M, x.shape[0])
        prepare(s, M, x.shape[0])
    return code


@jit
def learn_round(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """All that is learned from a round."""
    dim = x.shape[0]
    squared = measure(s, M, x)
    tried = weigh(M)
    if s[P.UNIT] == 0.0:
        return begin(s, M, dim, squared, reward, nu)
    code = OK
    if reward != 0.0:
        code = pay(s, M, dim, squared, tried, reward, nu)
    else:  # a round, but none that the amount is made of
        s[ROUNDS] += 1.0
        s[P.BEGAN] += 1.0
        s[GAIN] = s[STEP] = s[TWO.BULK_STEP] = s[PROJECTED] = 0.0
    if code != OK:
        return code
    compare(s, M, reward)
    if reward == 0.0 and s[E.ZEROS] == 0.0:
        part(M)
    learn_always(s, M, tried, reward, as_judged(s, reward))
    return OK


@jit
def compare(s: Vector, M: Matrix, reward: float) -> None:
    """Note whether rewards other than 0 differ, and how often one was expected and 0 came."""
    if reward == 0.0:
        s[S.MISSED] += min(max(foretell(M, bulk_row(M) + CONVERSION), 0.0), 1.0)
    elif s[S.AMOUNT] == 0.0:
        s[S.AMOUNT] = reward
    elif s[S.AMOUNT] != reward:
        s[S.DIFFER] = 1.0


@jit
def as_judged(s: Vector, reward: float) -> float:
    """The t-th reward within t units of the centre, or HEARD. Where the rewards have a mean only
    finitely many lie beyond, and no single one is believed for good.
    """
    centre, most = s[S.CENTRE] * s[P.NU], max(s[ROUNDS], HEARD) * s[P.UNIT] * s[P.NU]
    return min(max(reward, centre - most), centre + most)


@jit
def update_forgetting(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round and what it lets fade; OVERFLOW with the state untouched. What is known of amounts
    fades with every amount, what is known of conversion with every round.
    """
    begun = s[P.UNIT] > 0.0
    off = (reward - foresee(s, M, bulk_row(M), x)) / nu
    typical = NORMAL_CONSISTENCY * s[P.TYPICAL]
    clipped = s[CLIPPED]
    code = learn_round(s, M, x, reward, nu)
    if code != OK:
        return code
    drop_log_det(s)
    factor = s[place(s) + FORGET]
    if begun and learned(s) == 0.0:
        clear(s)
        if reward == 0.0 and factor < 1.0:
            forget_round(s, M, factor, False)
    elif begun:
        if reward != 0.0:
            factor = remember(s, M, off / typical, s[CLIPPED] - clipped)
        if factor < 1.0:
            forget_round(s, M, factor, reward != 0.0)
    take_turn(s, M, x.shape[0])
    prepare(s, M, x.shape[0])
    return OK


@jit
def forget_round(s: Vector, M: Matrix, factor: float, paid: bool) -> None:
    """Everything but the mean counts ``factor`` times as much, the amounts only where one was
    ``paid``; 0 begins anew.
    """
    bulk = bulk_row(M)
    U = bulk + TRIED_INVERSE
    size = M.shape[1]
    turn = int(s[ROUNDS]) % size
    renewed = s[P.RIDGE] * s[place(s) + RENEWAL]
    if factor == 0.0:
        set_block(M, U, s[P.RIDGE])
        set_block(M, U + size, s[P.RIDGE])
    else:
        fade_block(M, U, bulk + TRIED, turn, renewed, factor)
    s[E.ZEROS] *= factor
    s[E.CONVERSION_STABILITY] *= factor
    s[E.CONVERSION_ENERGY] *= factor
    s[PROJECTED] = SET_ANEW
    if not paid:
        return
    if s[E.ZEROS] > 0.0:
        fade_block(M, U + size, bulk + TRIED, turn, renewed, factor)
    for slot in (TWO.BULK_STABILITY, TWO.BULK_ENERGY, TWO.APART):
        s[slot] *= factor
    N = NOISE_SIZE
    for slot in (N.SIZE_COUNT, N.SIZE_STABILITY, N.SIZE_ENERGY, N.SIZE_SQUARES):
        s[slot] *= factor
    for i in range(size):
        M[bulk + 1, i] *= factor


@jit
def prepare(s: Vector, M: Matrix, dim: int) -> None:
    """Compute what the next choice needs: radii, levels, how far the bulk is trusted."""
    bulk = bulk_row(M)
    beta = radius(s, 1.0, s[P.STABILITY], s[P.ENERGY])
    of_bulk = radius(s, BULK_EXPLORATION, s[TWO.BULK_STABILITY], s[TWO.BULK_ENERGY])
    s[RADIUS] = s[P.EXPLORATION] * beta
    s[S.TRUSTED] = TRUST * beta
    s[TWO.BULK_RADIUS] = of_bulk
    if s[E.ZEROS] > 0.0:
        explored, energy = CONVERSION_EXPLORATION, s[E.CONVERSION_ENERGY]
        t = learned(s) + s[E.ZEROS]
        s[E.CONVERSION_RADIUS] = growing_radius(s, explored, s[E.CONVERSION_STABILITY], energy, t)
    shift = 0.0
    for i in range(dim):
        shift += (M[THETA, i] - s[S.RATIO] * M[bulk, i]) * M[bulk + 1, i]
    s[S.SHIFT] = shift / max(s[P.WEIGHT], 1e-300)
    s[S.LEVEL] = M[THETA, dim] * s[CONSTANT]
    s[S.CONVERSION_LEVEL] = M[bulk + CONVERSION, dim] * s[CONSTANT]
    s[S.JUDGE_LEVEL] = M[bulk + JUDGE, dim] * s[CONSTANT]


@jit
def take_turn(s: Vector, M: Matrix, dim: int) -> None:
    """Whose turn the next round is. The share of the mean's follows the evidence, now and then.
    Before the unit is known it is nobody's: the arms are spread.
    """
    if s[P.UNIT] == 0.0:
        return
    if int(s[ROUNDS]) % EVERY == 0 or s[S.KNOWN] == 0.0:
        t = learned(s) + s[E.ZEROS]
        log_t = math.log(t + math.e)
        s[S.KNOWN] = 1.0 / (log_t * log_t)
        s[S.HELD] = HELD * NORMAL_CONSISTENCY * s[P.TYPICAL] * s[P.NU] / log_t
        s[S.HOPE] = HOPE * s[P.UNIT] * s[P.NU] / log_t
        s[S.SHARE] = audit_share(s, M, dim, t)
    s[S.DUE] += s[S.SHARE]
    s[S.AUDIT] = 0.0
    if s[S.DUE] >= 1.0:
        s[S.DUE] -= 1.0
        s[S.LAST_AUDIT] = 1.0 + s[S.LAST_AUDIT] % JUDGES
        s[S.AUDIT] = s[S.LAST_AUDIT]


@jit
def audit_share(s: Vector, M: Matrix, dim: int, t: float) -> float:
    """The share of rounds that are the mean's: falls as t^(-1/3), faster where the mean does not
    contradict the bulk and slower where it does.
    """
    evidence = 1.0
    ratio = mean_over_bulk(s, M) if s[E.ZEROS] > 0.0 else 1.0
    contrast = hausman(s, M, dim, INVERSE, 1.0)
    scaled = hausman(s, M, dim, INVERSE, ratio) if ratio != 1.0 else contrast
    s[S.RATIO] = ratio if scaled < contrast else 1.0
    if t >= GRACE * M.shape[1]:
        contrast = min(contrast, scaled) / (CHANCE * dim)
        evidence = min(max(contrast * contrast, FEWEST), MOST)
    return min(AUDITS * (t + 1.0) ** (-1.0 / 3.0) * evidence, MOST_AUDITS)


@jit
def mean_over_bulk(s: Vector, M: Matrix) -> float:
    """The mean over the bulk at the average x: what parts them where noise is a factor. 1 where
    they do not have one sign, or one is MOST_RATIO times the other.
    """
    bulk = bulk_row(M)
    mean = typical = 0.0
    for i in range(M.shape[1]):
        mean += M[THETA, i] * M[bulk + 1, i]
        typical += M[bulk, i] * M[bulk + 1, i]
    if not (abs(typical) < MOST_RATIO * abs(mean) and abs(mean) < MOST_RATIO * abs(typical)):
        return 1.0
    return mean / typical if mean * typical > 0.0 else 1.0


@jit
def hausman(s: Vector, M: Matrix, dim: int, block: int, ratio: float) -> float:
    """Hausman's statistic D' C^-1 D of D, the difference between the slopes of the mean and
    ``ratio`` times those of the bulk, and C its covariance under noise of one shape, by the V^-1
    that begins at the row ``block``; 0 where
    nothing can be told. O(d³).
    """
    apart = s[TWO.APART] / max(learned(s), 1.0)
    factor = INVERSE + M.shape[1]  # room for it
    if apart <= ROUNDING or not factorise(M, block, factor, dim, 0.0, 0.0):
        return 0.0
    for i in range(dim):
        M[SCRATCH, i] = M[THETA, i] - ratio * M[bulk_row(M), i]
    substitute(M, factor, dim, SCRATCH, SCRATCH, False)
    total = 0.0
    for i in range(dim):
        total += M[SCRATCH, i] * M[SCRATCH, i]
    return total / apart
