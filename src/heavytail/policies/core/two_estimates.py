"""A bulk beside the mean on one Gram matrix, and the rule that a theorem covers: play the bulk's
favourite among the arms that the mean has not ruled out. docs/mathematics/two_estimates.md.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import score
from heavytail.kernels.index import beyond, usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    CONSTANT,
    DIRECTION,
    FEATURE,
    GAIN,
    INVERSE,
    NO_ARM,
    OK,
    RADIUS,
    STEP,
    THETA,
    Size,
    numbered,
)
from heavytail.kernels.one_pass import measure
from heavytail.kernels.sharp import Sharp
from heavytail.policies.core import practice, sharp, theory
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.answers import Explanation
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.practice import PRACTICE, growing_radius, learned
from heavytail.policies.core.practice_report import report_noise
from heavytail.policies.core.sharp import learn as learn_sharp
from heavytail.policies.core.theory import THEORY
from heavytail.policies.core.theory import step as step_theory
from heavytail.tails import MomentBound

__all__ = [
    "AT",
    "BULK_EXPLORATION",
    "EXPLORATION",
    "TWO",
    "WIDER",
    "WIDTH",
    "begin_sharp",
    "begin_theory",
    "bulk_row",
    "learn_bulk",
    "look",
    "predict_bulk",
    "select_plausible",
    "update_sharp",
    "update_theory",
]

EXPLORATION: Final = 0.7  # of the mean's optimism
BULK_EXPLORATION: Final = 0.6
WIDER: Final = 3.0  # c of the theory: optimism's arm is played where it is c times less known


class Slots(NamedTuple):
    """Slots that two estimates need beside those of one."""

    BULK_RADIUS: Size
    BULK_STEP: int  # what the bulk moved by along u
    BULK_STABILITY: Size
    BULK_ENERGY: Size
    APART: int  # sum of (psi of the mean - psi of the bulk)²


TWO: Final = numbered(Slots, after=THEORY)
WIDTH: Final = numbered(Sharp, after=TWO)
AT: Final = WIDTH[0]
S: Final = TWO
P: Final = PRACTICE


@jit
def bulk_row(M: Matrix) -> int:
    """The row of M that holds the bulk's estimate; the weighted sum of all x follows it, or V^-1
    where the row INVERSE begins another matrix.
    """
    return INVERSE + 2 * M.shape[1] + 1


@jit
def predict_bulk(M: Matrix) -> float:
    """Predict by the bulk the reward of the x that was measured last."""
    bulk = bulk_row(M)
    expected = 0.0
    for i in range(M.shape[1]):
        expected += M[bulk, i] * M[FEATURE, i]
    return expected


@jit
def learn_bulk(s: Vector, M: Matrix, squared: float, y: float, mean: float, sigma: float) -> None:
    """The bulk's step along the u of the mean's, after it; ``y`` is the bulk's residual in units of
    sigma, ``mean`` the clipped one of the mean. 1 / (sigma² growth) is alpha times the gain.
    """
    bulk = bulk_row(M)
    psi = score(y, s[P.CLIP])
    gain = s[P.ALPHA] * s[GAIN]
    s[S.BULK_STEP] = psi * sigma * gain
    s[S.BULK_STABILITY] += psi * psi * squared * gain
    s[S.BULK_ENERGY] += psi * psi
    s[S.APART] += (mean - psi) * (mean - psi)
    for i in range(M.shape[1]):
        M[bulk, i] += s[S.BULK_STEP] * M[DIRECTION, i]


@jit
def look(s: Vector, M: Matrix, arms: Matrix, a: int) -> tuple[float, float, float]:
    """Of arm a: its mean and its typical reward, without the constant feature's share, which is
    the same for all, and its squared width. O(d²).
    """
    bulk = bulk_row(M)
    size = arms.shape[1]
    mean = typical = half = 0.0
    for j in range(M.shape[1]):
        x = arms[a, j] if j < size else s[CONSTANT]
        if x == 0.0:
            continue
        row = 0.5 * M[INVERSE + j, j] * x
        for k in range(j):
            row += M[INVERSE + j, k] * arms[a, k]
        half += row * x
        if j < size:
            mean += M[THETA, j] * x
            typical += M[bulk, j] * x
    return mean, typical, max(2.0 * half, 0.0)


@jit
def bulk_radius(s: Vector) -> float:
    """The bulk's optimism, which no theorem asks about: not scaled with the mean's radius."""
    return growing_radius(s, BULK_EXPLORATION, s[S.BULK_STABILITY], s[S.BULK_ENERGY], learned(s))


@jit
def update_theory(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Algorithm 1 for the mean, then the bulk along the same u; OVERFLOW with the state
    untouched.
    """
    squared = measure(s, M, x)
    expected = predict_bulk(M)
    residual = reward - predict(M)
    code = step_theory(s, M, x.shape[0], squared, residual, reward, nu)
    if code != OK:
        return code
    sigma = s[P.SIGMA]
    z = residual / sigma if squared > 0.0 else 0.0
    y = (reward - expected) / sigma if squared > 0.0 else 0.0
    learn_bulk(s, M, squared, y, score(z, s[P.TAU]), sigma)
    s[S.BULK_RADIUS] = bulk_radius(s)
    return OK


@jit
def update_sharp(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """The step at the proved width for the mean, then the bulk along the same u; OVERFLOW with the
    state untouched.
    """
    code = learn_sharp(s, M, AT, x, reward, nu)
    if code != OK:
        return code
    sigma = s[P.SIGMA]
    known = 0.0  # x'V^-1 x, V of before
    for i in range(x.shape[0]):
        known += M[FEATURE, i] * M[DIRECTION, i]
    y = (reward - predict_bulk(M)) / sigma if known > 0.0 else 0.0
    learn_bulk(s, M, known, y, s[STEP] / (s[GAIN] * sigma), sigma)
    s[S.BULK_RADIUS] = bulk_radius(s)
    return OK


@jit
def select_plausible(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The bulk's favourite among the arms that the mean has not ruled out, unless the mean's
    optimist is WIDER times less known: then that. O(n d²).

    An arm is ruled out where its upper end lies below another's lower end. One with the largest
    lower end never is, so there is a favourite wherever there are arms.
    """
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    radius = s[RADIUS]
    optimist = favourite = NO_ARM
    unknown = known = 0.0  # widths of the two
    best = floor = -math.inf
    for a in range(arms.shape[0]):
        mean, typical, squared = look(s, M, arms, a)
        width = math.sqrt(squared)
        if mean + radius * width > best:
            optimist = a
            unknown = width
            best = beyond(mean + radius * width)
        floor = max(floor, mean - radius * width)
    best = -math.inf
    for a in range(arms.shape[0]):
        mean, typical, squared = look(s, M, arms, a)
        width = math.sqrt(squared)
        index = typical + s[S.BULK_RADIUS] * width
        if beyond(mean + radius * width) >= floor and index > best:
            favourite = a
            known = width
            best = beyond(index)
    return optimist if unknown > beyond(WIDER * known) else favourite


def explained_plausible(policy: PackedPolicy, X: FloatArray) -> Explanation:
    """The ends of the mean's interval, and the bulk's index."""
    s, M = policy.packed[:2]
    rule = "the largest index, the bulk's, of arms whose high reaches the largest low; but "
    rule += f"the arm of the largest high where it is {WIDER:g} times wider"
    widths, bulk = policy._widths(X), M[bulk_row(M), : policy.dim]
    mean, bonus = policy._means(X), policy.radius * widths
    index = X @ bulk + s[S.BULK_RADIUS] * widths
    parts = {"low": mean - bonus, "mean": mean, "high": mean + bonus, "index": index}
    return Explanation(policy.select(X), rule, parts)


THEORETICAL: Final = Algorithm(
    update=update_theory,
    select=select_plausible,
    slots=(COMMON, PRACTICE, THEORY, TWO),
    rank_one=True,
    takes_prior=True,
    any_ridge=True,
    explain=explained_plausible,
    agree=(practice.agrees,),
    reports=(report_noise,),
)
PROVED: Final = sharp.with_width(THEORETICAL, update_sharp, WIDTH)


def begin_theory(
    policy: PackedPolicy,
    check: Check,
    told: tuple[MomentBound, int],
    *,
    arm_bound: float,
    theta_bound: float | None,
    radius_scale: float,
) -> None:
    """Allocate and start the state of a policy whose mean is Algorithm 1 with Lemma 1's radius."""
    ridge = float(policy.dim)
    policy.algorithm = THEORETICAL
    policy._allocate(
        ridge=ridge,
        arm_bound=arm_bound,
        theta_bound=1.0 if theta_bound is None else theta_bound,
        rows={"bulk": None},
    )
    practice.start(
        policy,
        check,
        exploration=EXPLORATION,
        delta=None,
        ridge=ridge,
        alpha=theory.ALPHA,
        radius_scale=radius_scale,
        arm_bound=arm_bound,
    )
    theory.start(policy, *told, arm_bound=arm_bound)
    s = policy.packed[0]
    s[S.BULK_RADIUS] = bulk_radius(s)


def begin_sharp(policy: PackedPolicy, check: Check, **options: Any) -> None:
    """Allocate and start the state of a policy whose mean has the proved width."""
    policy.algorithm = PROVED
    sharp.begin(policy, check, AT, bulk="bulk", **options)
    s = policy.packed[0]
    s[P.PRIOR] = s[P.RIDGE] * options["theta_bound"] ** 2  # in no unit, neither of rewards
    s[S.BULK_RADIUS] = bulk_radius(s)
