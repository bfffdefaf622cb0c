"""The proved width of docs/mathematics/sharp.md, as policies with ``radius="sharp"`` have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE, OK
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.kernels.sharp import (
    DELTA,
    MOST_BOUND,
    RIDGE,
    SHARP,
    SLOTS,
    learn_bounded,
    learn_symmetric,
    measure,
    radius_at,
    start,
    stated_bound,
)
from heavytail.policies.core import practice
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.practice import PRACTICE, watch
from heavytail.tails import MomentBound

__all__ = ["SYMMETRIC", "begin", "check_unused", "gram_row", "learn", "stated", "with_width"]

SYMMETRIC: Final = "symmetric"
P: Final = PRACTICE
K: Final = SLOTS

LEAST_RIDGE, MOST_RIDGE = 1e-12, 1e12  # in units of d / S²


@jit
def gram_row(M: Matrix) -> int:
    """The row of M in which V^-1 begins, A^-1 behind it: behind the bulk, or room for one."""
    return INVERSE + 2 * M.shape[1] + 2


@jit
def learn(s: Vector, M: Matrix, at: int, x: Vector, reward: float, nu: float) -> int:
    """A round: the step, and what diagnostics tell of; OVERFLOW with the state untouched."""
    measured = measure(s, M, at, gram_row(M), x)
    residual = reward - measured.expected
    if s[at + K.MOMENT] > 0.0:
        code = learn_bounded(s, M, at, gram_row(M), measured, residual, nu)
    else:
        typical = nu * NORMAL_CONSISTENCY * s[P.TYPICAL]
        code = learn_symmetric(s, M, at, gram_row(M), measured, residual, typical)
    if code != OK:
        return code
    sigma = s[P.SIGMA] = s[at + K.LAST_SIGMA]
    s[P.TAU] = s[at + K.LAST_TAU]
    weight = 1.0 / (sigma * sigma)
    s[P.WEIGHT] += weight
    s[P.WEIGHT_SQUARES] += weight * weight
    watch(s, reward, abs(residual) / nu)
    return OK


def stated(check: Check, tail: MomentBound | str | None, radius: str) -> MomentBound | None:
    """The moment bound; None where the noise is symmetric, or its scale is to be learned."""
    if radius != "sharp":
        return practice.stated(check, tail)
    if not isinstance(tail, MomentBound) and tail != SYMMETRIC:
        raise ValueError(
            f"{check.owner}.tail must be a MomentBound(order, scale), or {SYMMETRIC!r}, for "
            'radius="sharp": the theorem needs E|noise|^order <= scale^order, or noise that is '
            f"symmetric; got {tail!r}."
        )
    return tail if isinstance(tail, MomentBound) else None


def check_unused(check: Check, **arguments: object) -> None:
    """Refuse arguments that mean nothing to the sharp width."""
    hints = {
        "intercept": " Append a constant feature to every arm; theta_bound then bounds its "
        "coefficient, too.",
        "forget": " The theorem is of a theta that stays.",
    }
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f'{check.owner}.{name} must not be given for radius="sharp"; got {value!r}.'
                + hints.get(name, "")
            )


def begin(
    policy: PackedPolicy,
    check: Check,
    at: int,
    *,
    bulk: str,
    theta_bound: float | None,
    arm_bound: float,
    ridge: float | None = None,
    delta: float | None = None,
    radius_scale: float = 1.0,
    threshold_scale: float = 1.0,
) -> None:
    """Allocate and start the state of a policy whose kernels and slots are set; its own slots of
    the width begin at ``at``, and the row before V^-1 is called ``bulk``.
    """
    order = 0.0 if policy.tail is None else policy.tail.order
    nu = None if policy.tail is None else policy.tail.scale
    S = stated_bound(check, 'radius="sharp"', theta_bound, nu)
    arm_bound = check.number("arm_bound", arm_bound, above=0.0)
    if not S * arm_bound <= MOST_BOUND:
        raise ValueError(
            f"{check.owner}.theta_bound * arm_bound must be at most {MOST_BOUND:g} for "
            f'radius="sharp"; got {S * arm_bound:g}. Change the unit of the reward.'
        )
    unit = policy.dim / S**2
    if ridge is None:
        ridge = RIDGE * unit
    ridge = check.number("ridge", ridge, least=LEAST_RIDGE * unit, most=MOST_RIDGE * unit)
    radius_scale = check.number("radius_scale", radius_scale, least=0.0)
    d = policy.dim
    policy._allocate(
        ridge=ridge,
        arm_bound=arm_bound,
        theta_bound=S,
        rows={bulk: None, "gram_inverse": d, "spread_inverse": d},
    )
    practice.start(
        policy,
        check,
        exploration=1.0,
        delta=None,
        ridge=ridge,
        radius_scale=radius_scale,
        arm_bound=arm_bound,
    )
    s, M = policy.packed[:2]
    s[P.UNIT], s[P.NU] = 1.0, s[P.BASE]  # the theorem is in the unit of nu_t
    s[P.TAU] = 0.0  # of the last round, and there was none
    if policy.tail is None:
        s[P.UNIT] = S * arm_bound
        s[P.TYPICAL] = S * arm_bound / NORMAL_CONSISTENCY
    start(
        s,
        M,
        at,
        gram_row(M),
        order=order,
        ridge=ridge,
        theta_bound=S,
        log_inverse_delta=check.log_inverse(DELTA if delta is None else delta),
        factor=radius_scale,
    )
    s[at + K.REACH] *= check.number("threshold_scale", threshold_scale, above=0.0)
    policy.level = float(-np.expm1(-0.5 * s[at + K.SURE]))  # 1 - delta


def half_widths_at(at: int) -> Callable[[PackedPolicy, FloatArray, float], FloatArray]:
    """Half of intervals that all hold at once, with probability ``level``; the slots of the width
    begin at ``at``.
    """

    def half_widths(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
        where = f"{type(policy).__name__}.predict: level"
        return np.asarray(radius_at(where, policy._s, at, level) * policy._widths(X))

    return half_widths


def with_width(
    algorithm: Algorithm, update: Callable[..., int], width: tuple[Any, ...]
) -> Algorithm:
    """The step of ``algorithm`` without its ball, at the sharp width whose slots are ``width``:
    ``update`` learns both.
    """
    return replace(
        algorithm,
        update=update,
        scoring=SHARP,
        slots=(*algorithm.slots, width),
        takes_prior=False,
        projects=False,
        half_widths=half_widths_at(width[0]),
    )
