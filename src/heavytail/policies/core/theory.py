"""Algorithm 1 and Lemma 1 of Wang, Zhang, Zhao and Zhou (ICML 2025), to the letter.

What the policies with ``radius="theory"`` share: the step, the radius, and what both must be told.
Lemma 1 is about the estimate alone. Its proof never asks how the arms were chosen, as long as they
were chosen by the past, so every policy that takes this step may use its radius.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail._validate import Check
from heavytail.confidence import lemma_1, theory_radius
from heavytail.kernels.huber import leverage, threshold, time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import OK, RADIUS, ROUNDS, THETA_BOUND, Fixed, numbered
from heavytail.kernels.one_pass import learn
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.practice import PRACTICE, note, watch
from heavytail.tails import MomentBound

__all__ = ["ALPHA", "THEORY", "check_told", "lemma_sigma", "start", "step"]


class Theory(NamedTuple):
    """Slots behind those of the practical mode."""

    ORDER: Fixed
    SIGMA_MIN: Fixed
    TAU_0: Fixed
    SLOPE: Fixed  # beta_t = SLOPE t^a + BETA_0
    BETA_0: Fixed


THEORY: Final = numbered(Theory, after=PRACTICE)
P: Final = PRACTICE
L: Final = THEORY

ALPHA: Final = 4.0


@jit
def lemma_sigma(s: Vector, t: float, width: float, nu: float) -> float:
    """sigma_t of Algorithm 1 (line 5), with the floor 2 sqrt(2) width that Lemmas 5 and 6 need."""
    beta_prev = s[RADIUS]
    growth = s[L.TAU_0] * math.sqrt(s[P.ALPHA]) * t ** time_exponent(s[L.ORDER])
    floor = max(2.0 * math.sqrt(2.0), math.sqrt(2.0 * beta_prev / growth))
    return max(nu, s[L.SIGMA_MIN], floor * width)


@jit
def step(
    s: Vector, M: Matrix, size: int, squared: float, residual: float, reward: float, nu: float
) -> int:
    """Algorithm 1, lines 5 to 8, after ``measure``; OVERFLOW with the state untouched."""
    width = math.sqrt(squared)
    t = s[ROUNDS] + 1.0
    sigma = lemma_sigma(s, t, width, nu)
    tau = threshold(s[L.TAU_0], leverage(width, sigma, s[P.ALPHA]), t, s[L.ORDER])
    z = residual / sigma if squared > 0.0 else 0.0  # x = 0 says nothing about theta
    code = learn(s, M, size, squared, z, sigma, s[P.ALPHA], tau)
    if code != OK:
        return code
    note(s, squared, z, sigma, tau, s[P.ALPHA])
    s[P.TAU] = tau
    watch(s, reward, abs(residual) / nu)
    s[RADIUS] = s[P.RADIUS_SCALE] * theory_radius(t, s[L.ORDER], s[L.SLOPE], s[L.BETA_0])
    return OK


def check_told(
    check: Check, tail: MomentBound | str | None, horizon: int | None
) -> tuple[MomentBound, int]:
    """The moment bound and the horizon, both of which Lemma 1 needs."""
    if horizon is None:
        raise ValueError(
            f'{check.owner}.horizon must be given for radius="theory": Lemma 1 is for one T.'
        )
    if not isinstance(tail, MomentBound):
        raise ValueError(
            f'{check.owner}.tail must be a MomentBound for radius="theory"; got {tail!r}.'
        )
    return tail, horizon


def start(
    policy: PackedPolicy,
    tail: MomentBound,
    horizon: int,
    *,
    arm_bound: float,
    sigma_min: float | None = None,
    delta: float | None = None,
    threshold_scale: float = 1.0,
) -> None:
    """Write Lemma 1's constants into a state that the practical mode has started."""
    s = policy.packed[0]
    lemma = lemma_1(
        policy.dim,
        tail.order,
        horizon,
        alpha=s[P.ALPHA],
        ridge=s[P.RIDGE],
        theta_bound=s[THETA_BOUND],
        arm_bound=arm_bound,
        sigma_min=sigma_min,
        delta=delta,
    )
    s[P.TAU] = 0.0  # of the last round, and there was none
    s[P.UNIT], s[P.NU] = 1.0, s[P.BASE]  # Lemma 1 is in the unit of nu_t
    s[L.ORDER] = tail.order
    s[L.SIGMA_MIN] = horizon**-0.5 if sigma_min is None else sigma_min
    s[L.TAU_0] = threshold_scale * lemma.tau_0
    s[L.SLOPE] = lemma.slope
    s[L.BETA_0] = lemma.beta_0
    s[RADIUS] = s[P.RADIUS_SCALE] * lemma.beta_0
