"""The practical mode: the one-pass step with scale, threshold and radius read off the data.

Nothing is stated and nothing has a unit: multiply all rewards by a constant, and everything here is
multiplied by it, to the bit for a power of two.

- *The unit.* The first rewards only set it: CAUTION times the median size of the first five that
  tell (a leading 0 tells nothing). P begins as unit² / lambda, so that the ridge never outweighs
  the data, and rewards before that are not learned from: the arms are only spread. Where later
  rewards contradict it, FAR times as small or large as those five, the last five of them set it
  anew and all begins again: no first rewards spoil a policy for good. Each time takes twice as
  many of them as the last, and after MOST_UNITS times the unit stays: rewards of two sizes would
  set it for ever.
- *The scale.* sigma_t is the typical size of a residual (a running median, from the stated scale
  or from the unit down) or the width of x, whichever is larger.
- *The threshold.* Fixed, in units of sigma_t, it leads to a typical reward; tuned by itself
  (:mod:`heavytail.kernels.self_tuning`) it grows and leads to the mean.
- *The radius.* :func:`heavytail.confidence.empirical_radius`.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail._validate import Check
from heavytail.confidence import empirical_radius
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    GAIN,
    INVERSE,
    LOG_DET,
    OK,
    PROJECTED,
    RADIUS,
    ROUNDS,
    SET_ANEW,
    THETA,
    THETA_BOUND,
    Count,
    Fixed,
    Size,
    behind,
    numbered,
)
from heavytail.kernels.one_pass import learn, measure
from heavytail.kernels.scale import (
    LARGEST,
    MAJORITY,
    NORMAL_CONSISTENCY,
    lead,
    next_extreme,
    next_run,
    seek_typical,
    stands_out,
)
from heavytail.kernels.self_tuning import ROOM as SIZES
from heavytail.kernels.self_tuning import fade as fade_sizes
from heavytail.kernels.self_tuning import follow as follow_threshold
from heavytail.policies.core.algorithm import Arrays
from heavytail.policies.core.base import PackedPolicy
from heavytail.tails import MomentBound

__all__ = [
    "CLIP",
    "FIRST",
    "PRACTICE",
    "SIZES",
    "agrees",
    "begin",
    "begin_again",
    "doubt_unit",
    "growing_radius",
    "keep_first",
    "learned",
    "note",
    "order_first",
    "radius",
    "restart",
    "scale_of",
    "settle_prior",
    "start",
    "stated",
    "step",
    "tune",
    "update",
    "watch",
]


class Practice(NamedTuple):
    """Slots behind the common ones that policies with a practical mode share."""

    SIGMA: Size  # sigma_t of the last round
    TAU: Size  # tau_t of the next round, in units of sigma_t
    CLIP: Fixed  # the threshold where it is fixed, and its floor where it tunes itself
    TUNES: Fixed  # whether it does
    STABILITY: Size  # G_t
    ENERGY: Size  # sum of psi²
    LOST: Size  # sum of what the clip took, in the unit of the reward
    ALPHA: Fixed
    EXPLORATION: Fixed
    RADIUS_SCALE: Fixed
    RIDGE: Fixed  # lambda, in units of 1 / unit²
    LOG_INVERSE_DELTA: Fixed
    BASE: Fixed  # nu_t of a round that does not say
    NU: Size  # nu_t, the mean of the rounds that set the unit; their sum until it is known
    UNIT: Size  # of rewards over nu_t; 0 until it is known
    BEGAN: Count  # the round after which it was known
    FINEST: Fixed  # sigma_t stays above this times sqrt(t), in that unit
    TYPICAL: Size  # running median of |residual| / nu_t
    TELLING: Count  # rounds that the typical size is of: all, or those with a reward other than 0
    VOTES: int  # rewards of exactly 0 ahead of all others
    RUN: int  # sizes in a row above (+) or below (-) the typical one ...
    EXTREME: Size  # ... and the least or largest of them
    FIRST_1: int  # the first sizes, in order, until later ones that contradict them overwrite them
    FIRST_2: int
    FIRST_3: int
    FIRST_4: int
    FIRST_5: int
    PRESSED: Count  # rounds that ended on the ball, ahead of those that did not
    NEAR: Count  # rounds whose residual was beyond TAIL_FROM typical sizes ...
    FAR: Count  # ... and beyond TAIL_TO: their ratio is the tail's slope
    WEIGHT: Size  # sum of 1 / sigma_t²
    WEIGHT_SQUARES: Size
    SIZES: Fixed  # where the sizes that tau is tuned by begin in s
    PRIOR: Fixed  # lambda / L²: what the start weighs in the radius, in no unit of the features
    ASTRAY: int  # votes of rewards FAR above (+) or below (-) what set the unit, ahead of others
    UNITS: Count  # times that these set the unit anew


PRACTICE: Final = numbered(Practice, after=COMMON)
P: Final = PRACTICE
SUMS: Final = (P.STABILITY, P.ENERGY, P.LOST, P.NEAR, P.FAR, P.WEIGHT, P.WEIGHT_SQUARES)

FIRST: Final = 5  # rewards that set the unit
LEAST_ALPHA: Final = 1e-12  # a round weighs at most 1 / alpha: more is lost to rounding
RIDGE: Final = 0.01  # lambda over d L²
DELTA: Final = 0.01
CLIP: Final = 1.345
CAUTION: Final = 10.0  # too large a unit only makes a few rounds count for little
FAR: Final = 1e3  # times as large or small as what set the unit: a reward that contradicts it
LARGE: Final = 4.0  # such small rewards count as one large one: the large ones make the mean
SMALLEST_UNIT: Final = 1e-70  # squares, and squares of ratios, stay in the floating-point range
LARGEST_UNIT: Final = 1e70
SMALLEST: Final = 1e-9  # of the unit: without noise the weights must stay bounded
# sigma_t stays above this times sqrt(t / lambda) L unit: V then grows no faster than
# 1e13 lambda log t, and the rounding of P, 1e-16 / lambda, stays below the widths.
RESOLUTION: Final = 3e-7
PATIENCE: Final = 32.0  # rounds on the ball, net, after which it is believed to be too small, or
# rewards, net, that contradict the first unit; a ball is then ...
WIDENED: Final = 10.0  # ... made so many times as large
MOST_UNITS: Final = 10.0  # that are set anew

LARGEST_SIZE: Final = 1e300  # of a reward over its scale, so that it stays a number

TAIL_FROM: Final = 4.0
TAIL_TO: Final = 16.0


@jit
def in_range(s: Vector, unit: float) -> float:
    """unit nu, nu the mean of the rounds that set it, within what can be squared."""
    most = LARGEST_UNIT * min(1.0, math.sqrt(s[P.RIDGE] / RIDGE))  # so that P can be squared
    return min(max(unit * s[P.NU], SMALLEST_UNIT), most)


@jit
def settle(s: Vector, M: Matrix, unit: float) -> None:
    """Begin from nothing in ``unit``: theta = 0 and P = (unit nu)² / lambda, nu the mean of the
    rounds that set it, so that no more hangs on the unit of the scales.
    """
    root = in_range(s, unit)
    unit = root / s[P.NU]
    for i in range(M.shape[1]):
        M[THETA, i] = 0.0
        for j in range(M.shape[1]):
            M[INVERSE + i, j] = root * root / s[P.RIDGE] if i == j else 0.0
    s[P.UNIT] = unit
    s[LOG_DET] = -2.0 * M.shape[1] * math.log(root)  # V was the identity times lambda
    if s[P.TYPICAL] == 0.0:  # no scale was stated
        s[P.TYPICAL] = unit / NORMAL_CONSISTENCY
    s[P.BEGAN] = s[ROUNDS]
    s[PROJECTED] = SET_ANEW


@jit
def begin_again(s: Vector) -> None:
    """Theta is made of no rounds, and tau tuned by none."""
    s[P.PRESSED] = 0.0
    if s[P.TUNES] != 0.0:
        s[P.TAU] = s[P.CLIP]
        fade_sizes(s, int(s[P.SIZES]), 0.0)
    s[P.BEGAN] = s[ROUNDS]


@jit
def restart(s: Vector, M: Matrix, unit: float) -> None:
    """Begin again in ``unit`` with no round learned; the typical size stays."""
    begin_again(s)
    s[P.TELLING] = FIRST
    for slot in SUMS:
        s[slot] = 0.0
    settle(s, M, unit)


@jit
def settle_prior(s: Vector, M: Matrix, dim: int) -> None:
    """The unit of a start from an earlier estimate: its widest variance is unit² / lambda."""
    widest = 0.0
    for i in range(dim):
        widest = max(widest, M[INVERSE + i, i])
    for i in range(dim, M.shape[1]):
        M[INVERSE + i, i] = widest
    s[P.NU] = s[P.BASE]
    unit = math.sqrt(widest * s[P.RIDGE]) / s[P.NU]
    s[P.UNIT] = min(max(unit, SMALLEST_UNIT), LARGEST_UNIT)
    s[P.TELLING] = FIRST
    if s[P.TYPICAL] == 0.0:
        s[P.TYPICAL] = s[P.UNIT] / NORMAL_CONSISTENCY


@jit
def begin(s: Vector, M: Matrix, dim: int, squared: float, reward: float, nu: float) -> int:
    """A round before the unit is known, after ``measure``: the arms are spread, theta stays 0.

    |reward| / nu_t is kept in order of size where it tells; the fifth settles the unit.
    """
    size = min(abs(reward) / nu, LARGEST_SIZE)
    code = learn(s, M, dim, squared, 0.0, max(1.0, math.sqrt(squared)), 1.0, math.inf)
    if code != OK:
        return code
    tells = stands_out(size, 0.0, s[P.VOTES])
    s[P.VOTES] = lead(size == 0.0, s[P.VOTES])
    if not tells:
        return OK
    keep_first(s, size)
    s[P.NU] += nu
    if s[P.TELLING] == FIRST:
        s[P.NU] /= FIRST
        settle(s, M, CAUTION * s[P.FIRST_3])
    return OK


@jit
def keep_first(s: Vector, value: float) -> None:
    """Keep ``value`` among the first, in order of size."""
    insert(s, P.FIRST_1 + int(s[P.TELLING]), value)
    s[P.TELLING] += 1.0


@jit
def order_first(s: Vector) -> None:
    """Put the first sizes in order; arrays are not sorted on a GPU."""
    for k in range(P.FIRST_2, P.FIRST_5 + 1):
        insert(s, k, s[k])


@jit
def insert(s: Vector, k: int, value: float) -> None:
    """Put ``value`` where it belongs among the first, which are in order up to the slot ``k``."""
    while k > P.FIRST_1 and s[k - 1] > value:
        s[k] = s[k - 1]
        k -= 1
    s[k] = value


@jit
def doubt_unit(s: Vector, M: Matrix, size: float) -> bool:
    """Count a reward of ``size`` = |reward| / nu_t for or against the unit, after its round; True
    where so many contradict it that all has begun again in another, of the last five as of the
    first. A reward of 0 says nothing, nor does any where the unit is that of an earlier estimate.
    """
    typical = s[P.UNIT] / CAUTION
    low = FAR * size < typical
    high = size > FAR * typical
    if not (low or high or s[P.ASTRAY] != 0.0) or size == 0.0 or s[P.FIRST_3] == 0.0:
        return False
    if s[P.UNITS] >= MOST_UNITS:
        return False
    if low or high:  # what no unit can be told apart from contradicts none
        size = in_range(s, min(size, LARGEST_SIZE)) / s[P.NU]
        low = FAR * size < typical
        high = size > FAR * typical
    ahead = s[P.ASTRAY]
    if (low and ahead <= 0.0) or (high and ahead >= 0.0):
        for k in range(P.FIRST_1, P.FIRST_5):
            s[k] = s[k + 1]
        s[P.FIRST_5] = size
        s[P.ASTRAY] += LARGE if high else -1.0
    elif ahead > 0.0:
        s[P.ASTRAY] -= 1.0
    else:
        s[P.ASTRAY] = min(ahead + LARGE, 0.0)
    enough = PATIENCE * 2.0 ** s[P.UNITS]
    if -enough < s[P.ASTRAY] < LARGE * enough:
        return False
    s[P.UNITS] += 1.0
    s[P.SIGMA] = s[P.TYPICAL] = s[P.RUN] = s[P.EXTREME] = s[P.ASTRAY] = 0.0
    order_first(s)
    restart(s, M, CAUTION * s[P.FIRST_3])
    s[RADIUS] = radius(s, s[P.EXPLORATION], 0.0, 0.0)
    return True


@jit
def learned(s: Vector) -> float:
    """Rewards that theta is made of: all since the unit is known."""
    return s[ROUNDS] - s[P.BEGAN]


@jit
def scale_of(s: Vector, squared: float, nu: float) -> float:
    """sigma_t: the typical residual of a round of scale nu, or the width of x if that is larger."""
    finest = s[P.FINEST] * s[P.UNIT] * s[P.NU] * math.sqrt(learned(s) + 1.0)
    return max(nu * NORMAL_CONSISTENCY * s[P.TYPICAL], math.sqrt(squared), finest)


@jit
def note(s: Vector, squared: float, z: float, sigma: float, tau: float, alpha: float) -> None:
    """The sums that the radius reads, and those that diagnostics tell of."""
    psi = score(z, tau)
    s[P.SIGMA] = sigma
    s[P.STABILITY] += psi * psi * alpha * squared * s[GAIN]  # alpha w²/(1 + w²) psi²
    s[P.ENERGY] += psi * psi
    s[P.LOST] = min(s[P.LOST] + sigma * abs(z - psi), LARGEST)
    weight = 1.0 / (sigma * sigma)
    s[P.WEIGHT] += weight
    s[P.WEIGHT_SQUARES] += weight * weight


@jit
def step(s: Vector, M: Matrix, dim: int, squared: float, z: float, sigma: float) -> int:
    """The step of the practical mode at the threshold of this round; OVERFLOW with the state
    untouched.
    """
    code = learn(s, M, dim, squared, z, sigma, s[P.ALPHA], s[P.TAU])
    if code != OK:
        return code
    note(s, squared, z, sigma, s[P.TAU], s[P.ALPHA])
    if s[PROJECTED] != 0.0:
        s[P.PRESSED] += 1.0
        if s[P.PRESSED] >= PATIENCE:  # the truth is not in this ball
            s[THETA_BOUND] *= WIDENED
            s[P.PRESSED] = 0.0
    else:
        s[P.PRESSED] = max(s[P.PRESSED] - 1.0, 0.0)
    return OK


@jit
def tune(s: Vector, M: Matrix, z: float, logs: float) -> None:
    """tau of the next round, mean-consistent: see :mod:`heavytail.kernels.self_tuning`."""
    size = float(M.shape[1])
    at = int(s[P.SIZES])
    s[P.TAU] = follow_threshold(s, at, abs(z), s[P.TAU], learned(s), size, logs, s[P.CLIP])


@jit
def growing_radius(
    s: Vector, exploration: float, stability: float, energy: float, t: float
) -> float:
    """The empirical radius at delta / sqrt(1 + t), of t residuals whose squares have these sums: it
    grows with log t, so that no arm is given up for good.
    """
    sure = s[P.LOG_INVERSE_DELTA] + 0.5 * math.log(1.0 + t)
    return empirical_radius(exploration, s[P.PRIOR], stability, energy, t, sure)


@jit
def radius(s: Vector, exploration: float, stability: float, energy: float) -> float:
    """beta_t of an estimate whose clipped residuals have these sums."""
    return s[P.RADIUS_SCALE] * growing_radius(s, exploration, stability, energy, learned(s))


@jit
def watch(s: Vector, reward: float, size: float) -> None:
    """Follow the typical size of residuals, ``size`` = |residual| / nu_t, and how far they lie."""
    size = min(size, LARGEST_SIZE)
    if size > TAIL_FROM * NORMAL_CONSISTENCY * s[P.TYPICAL]:
        s[P.NEAR] += 1.0
        if size > TAIL_TO * NORMAL_CONSISTENCY * s[P.TYPICAL]:
            s[P.FAR] += 1.0
    if stands_out(reward, 0.0, s[P.VOTES]):
        s[P.TELLING] += 1.0
        s[P.EXTREME] = next_extreme(s[P.RUN], s[P.EXTREME], size, s[P.TYPICAL])
        s[P.RUN] = next_run(s[P.RUN], size, s[P.TYPICAL])
        s[P.TYPICAL] = seek_typical(
            s[P.TYPICAL], size, s[P.TELLING], s[P.RUN], s[P.EXTREME], SMALLEST * s[P.UNIT]
        )
    s[P.VOTES] = lead(reward == 0.0, s[P.VOTES])


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round of the practical mode; OVERFLOW with the state untouched."""
    squared = measure(s, M, x)
    if s[P.UNIT] == 0.0:
        return begin(s, M, x.shape[0], squared, reward, nu)
    residual = reward - predict(M)
    sigma = scale_of(s, squared, nu)
    z = residual / sigma if squared > 0.0 else 0.0  # x = 0 says nothing about theta
    code = step(s, M, x.shape[0], squared, z, sigma)
    if code != OK:
        return code
    if s[P.TUNES] != 0.0:
        tune(s, M, z, 1.0)
    watch(s, reward, abs(residual) / nu)
    if not doubt_unit(s, M, abs(reward) / nu):
        s[RADIUS] = radius(s, s[P.EXPLORATION], s[P.STABILITY], s[P.ENERGY])
    return OK


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the counts of a state from outside fit each other."""
    s = arrays["scalars"]
    first = s[P.UNIT] > 0.0 or s[P.TELLING] < FIRST  # where the next of the first sizes goes
    return bool(first and s[P.BEGAN] <= s[ROUNDS] and s[P.FAR] <= s[P.NEAR])


def stated(check: Check, tail: MomentBound | str | None) -> MomentBound | None:
    """The moment bound, or None where the scale is to be learned."""
    if isinstance(tail, str):
        if tail == "symmetric":
            raise ValueError(f'{check.owner}.tail="symmetric" is for radius="sharp" alone.')
        check.choice("tail", tail, ("auto",))
        return None
    return tail


def own_ridge(dim: int, arm_bound: float) -> float:
    """lambda where none is given: arms c times as long then lead to the same choices."""
    return RIDGE * dim * arm_bound**2


def start(
    policy: PackedPolicy,
    check: Check,
    *,
    clip: float = CLIP,
    exploration: float,
    delta: float | None,
    ridge: float,
    alpha: float = 1.0,
    radius_scale: float = 1.0,
    arm_bound: float,
    tunes: bool = True,
) -> None:
    """Write the constants of the practical mode into a fresh state."""
    s = policy.packed[0]
    s[P.CLIP] = s[P.TAU] = check.number("clip", clip, above=0.0, infinite=True)
    s[P.EXPLORATION] = check.number("exploration", exploration, least=0.0)
    s[P.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
    s[P.ALPHA] = check.number("alpha", alpha, least=LEAST_ALPHA)
    s[P.LOG_INVERSE_DELTA] = check.log_inverse(DELTA if delta is None else delta)
    s[P.RIDGE] = ridge
    s[P.PRIOR] = ridge / arm_bound**2
    s[P.TUNES] = tunes
    s[P.FINEST] = RESOLUTION * arm_bound / math.sqrt(s[P.RIDGE])
    s[P.VOTES] = MAJORITY  # a reward of exactly 0 says nothing of the scale until others do
    s[P.SIZES] = behind(policy.algorithm.slots[-1])
    s[P.BASE] = 1.0 if policy.tail is None else policy.tail.scale
    if policy.tail is not None:  # to begin with, a stated scale is believed
        s[P.TYPICAL] = 1.0 / NORMAL_CONSISTENCY
    s[RADIUS] = radius(s, s[P.EXPLORATION], 0.0, 0.0)
