"""Hvt-UCB: Wang, Zhang, Zhao and Zhou (ICML 2025), Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_choice, check_number
from heavytail.confidence import empirical_radius, lemma_1, theory_radius
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import leverage, score, threshold, time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import CONSTANT, GAIN, OK, OWN, RADIUS, ROUNDS, THETA
from heavytail.kernels.one_pass import admit, learn, measure
from heavytail.kernels.scale import (
    MAJORITY,
    NORMAL_CONSISTENCY,
    first_typical,
    follow_typical,
    lead,
    next_run,
    seek_typical,
    stands_out,
)
from heavytail.policies.base import PackedPolicy, check_tail, inverse_log
from heavytail.policies.diagnostics import Diagnostics
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["HvtUCB"]

# Slots of s that are Hvt-UCB's own.
ORDER: Final = OWN
ALPHA: Final = OWN + 1
RADIUS_SCALE: Final = OWN + 2
SIGMA: Final = OWN + 3  # sigma_t of the last round
TAU: Final = OWN + 4  # tau_t of the last round
THEORY: Final = OWN + 5  # 1: Lemma 1; 0: the practical mode
SIGMA_MIN: Final = OWN + 6
TAU_0: Final = OWN + 7
SLOPE: Final = OWN + 8  # beta_t = SLOPE t^a + BETA_0
BETA_0: Final = OWN + 9
EXPLORATION: Final = OWN + 10
PRIOR: Final = OWN + 11  # lambda S²
LOG_INVERSE_DELTA: Final = OWN + 12
STABILITY: Final = OWN + 13  # G_t
ENERGY: Final = OWN + 14  # sum of psi²
TYPICAL: Final = OWN + 15  # running median of |residual| / nu_t
CLIP: Final = OWN + 16  # the practical mode's tau_t
AUTO: Final = OWN + 17  # 1: no scale was stated, and it is sought from the first rewards on
RUN: Final = OWN + 18  # sizes in a row above (+) or below (-) the typical one
NEAR: Final = OWN + 19  # rounds whose residual was beyond TAIL_FROM typical sizes ...
FAR: Final = OWN + 20  # ... and beyond TAIL_TO: their ratio is the tail's slope
WEIGHT: Final = OWN + 21  # sum of 1 / sigma_t²
WEIGHT_SQUARES: Final = OWN + 22
VOTES: Final = OWN + 23  # rewards of exactly 0 ahead of all others
TELLING: Final = OWN + 24  # rounds that the typical size is of: all, or those with another reward
SLOTS: Final = OWN + 25

TAIL_FROM: Final = 4.0
TAIL_TO: Final = 16.0

# Of the stated scale: where rewards have no noise the weights must stay bounded.
SMALLEST: Final = 1e-3
# sigma_t stays above this times sqrt(t / lambda) L: V then grows no faster than 1e13 lambda log t,
# and the rounding of P, 1e-16 / lambda, stays below the widths.
RESOLUTION: Final = 3e-7


@jit
def lemma_sigma(s: Vector, t: float, width: float, nu: float) -> float:
    """sigma_t of Algorithm 1 (line 5), with the floor 2 sqrt(2) width that Lemmas 5 and 6 need."""
    beta_prev = s[RADIUS]
    growth = s[TAU_0] * math.sqrt(s[ALPHA]) * t ** time_exponent(s[ORDER])
    floor = max(2.0 * math.sqrt(2.0), math.sqrt(2.0 * beta_prev / growth))
    return max(nu, s[SIGMA_MIN], floor * width)


@jit
def note(s: Vector, size: float, typical: float, sigma: float) -> None:
    """What :meth:`HvtUCB.diagnostics` tells: nothing here steers the policy."""
    if size > TAIL_FROM * NORMAL_CONSISTENCY * typical:
        s[NEAR] += 1.0
        if size > TAIL_TO * NORMAL_CONSISTENCY * typical:
            s[FAR] += 1.0
    weight = 1.0 / (sigma * sigma)
    s[WEIGHT] += weight
    s[WEIGHT_SQUARES] += weight * weight


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning. Returns OK, or what was wrong with the observation, the state
    untouched.
    """
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    squared = measure(s, M, x)
    width = math.sqrt(squared)
    t = s[ROUNDS] + 1.0
    alpha = s[ALPHA]
    residual = reward - predict(M)
    size = abs(residual) / nu
    telling = stands_out(reward, 0.0, s[VOTES])
    told = s[TELLING] + 1.0
    typical = s[TYPICAL]
    if s[AUTO] == 1.0 and telling:
        typical = first_typical(typical, size, told, SMALLEST)
    if s[THEORY] == 1.0:
        sigma = lemma_sigma(s, t, width, nu)
        tau = threshold(s[TAU_0], leverage(width, sigma, alpha), t, s[ORDER])
    else:
        sigma = max(nu * NORMAL_CONSISTENCY * typical, width, s[SIGMA_MIN] * math.sqrt(t))
        tau = s[CLIP]
    z = residual / sigma if squared > 0.0 else 0.0  # x = 0 says nothing about theta
    code = learn(s, M, x.shape[0], squared, z, sigma, alpha, tau)
    if code != OK:
        return code
    psi = score(z, tau)
    s[SIGMA] = sigma
    s[TAU] = tau
    s[STABILITY] += psi * psi * alpha * squared * s[GAIN]  # alpha w²/(1 + w²) psi²
    s[ENERGY] += psi * psi
    note(s, size, typical, sigma)
    if telling:
        s[TELLING] = told
        if s[AUTO] == 1.0:
            s[RUN] = next_run(s[RUN], size, typical)
            s[TYPICAL] = seek_typical(typical, size, told, s[RUN], SMALLEST)
        else:
            s[TYPICAL] = follow_typical(typical, size, told, SMALLEST)
    s[VOTES] = lead(reward == 0.0, s[VOTES])
    s[RADIUS] = s[RADIUS_SCALE] * current_radius(s, t)
    return OK


@jit
def current_radius(s: Vector, t: float) -> float:
    """beta_t, before radius_scale."""
    if s[THEORY] == 1.0:
        return theory_radius(t, s[ORDER], s[SLOPE], s[BETA_0])
    return empirical_radius(
        s[EXPLORATION], s[PRIOR], s[STABILITY], s[ENERGY], t, s[LOG_INVERSE_DELTA]
    )


class HvtUCB(PackedPolicy):
    r"""Optimism with the one-pass Huber estimator; a round costs O(n d² + d²), whatever t is.

    $$\hat\theta_{t+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \langle \theta, \nabla\ell_t(\hat\theta_t)\rangle +
      \tfrac12\|\theta-\hat\theta_t\|_{V_t}^2,\qquad V_t = \lambda I + \frac1\alpha\sum_{s\le
      t}\frac{x_s x_s^\top}{\sigma_s^2}$$

    **Theory** (``radius="theory"``, needs ``horizon``): Lemma 1 and Algorithm 1 to the letter.
    With probability 1 - 1/T the regret is Õ(d T^a sqrt(sum nu_t²) + d T^a), a = (2 - p)/(2p). Its
    radius is in the thousands where rewards are of order one, so it does not learn at any horizon
    a person will run.

    **Practice** (the default, anytime): the same step with sigma_t the typical
    residual size (a running median, so a scale stated too large corrects itself) or the width
    of x, whichever is larger, a threshold of ``clip`` sigma_t, the radius of
    :func:`heavytail.confidence.empirical_radius`, alpha = 1 and an intercept that absorbs the bias
    a clip has under skewed noise. Chosen by ``heavytail calibrate`` and tabled in the docs. It has
    no theorem.

    >>> import heavytail as ht
    >>> policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
    >>> arm = policy.select([[1.0, 0.0], [0.0, 1.0]])
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> bool(abs(policy.theta).max() <= 1.0)
    True

    Args:
        dim: length of a feature vector.
        tail: the moment bound on the noise; its scale is nu_t of a round that does not say.
            "auto" where nothing is known: the scale is learned from the residuals, and a round's
            ``scale`` then only says how it compares with other rounds.
        horizon: T. Needed by the theory; in practice only a promise that is warned about once
            it is broken.
        theta_bound: S >= ‖theta*‖; ``math.inf`` switches the projection off (leaves the theory).
        arm_bound: L >= ‖x‖; longer vectors are refused.
        radius: "empirical" (no guarantee) or "theory".
        exploration: factor of the empirical radius. Leaves nothing guaranteed.
        alpha: step size; 4 in the theory, other values leave it. 1 in practice.
        clip: threshold in units of sigma_t, practice only; ``math.inf`` never clips.
        ridge: lambda; d unless given.
        delta: failure probability; 1/(8T) in the theory, 0.01 in practice.
        sigma_min: floor of sigma_t in the theory; 1/sqrt(T) unless given.
        intercept: a constant feature, free of the ball; practice only, on unless switched off.
        radius_scale: multiplies the radius; below 1 the theory's guarantee is gone.
        threshold_scale: multiplies tau_0 or ``clip``; other than 1 the theory's guarantee is gone.

    Note: sigma_t has the floor 2 sqrt(2) ‖x‖_{V^-1} that Lemmas 5 and 6 use and Algorithm 1 omits.
    """

    name = "Hvt-UCB"
    info = Info(
        method="Huber",
        reference="Wang et al. 2025",
        regret="d T^((2-p)/2p) sqrt(sum nu_t^2)",
        cost="O(1)",
        storage="O(1)",
        moment="central",
        uses_scale=True,
    )
    update_kernel = staticmethod(update)
    takes_prior = True
    rank_one = True

    def __init__(
        self,
        dim: int,
        *,
        tail: MomentBound | str,
        horizon: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        exploration: float = 0.4,
        alpha: float | None = None,
        clip: float = 1.345,
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        intercept: bool | None = None,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
    ) -> None:
        auto = isinstance(tail, str) and check_choice("HvtUCB.tail", tail, ("auto",)) == "auto"
        known = None if auto else check_tail("HvtUCB", tail)
        self._start(dim, known, horizon)
        theory = check_choice("HvtUCB.radius", radius, ("empirical", "theory")) == "theory"
        if theory and horizon is None:
            raise ValueError(
                'HvtUCB.horizon must be given for radius="theory": Lemma 1 is for one T.'
            )
        if theory and known is None:
            raise ValueError('HvtUCB.tail must be a MomentBound for radius="theory"; got "auto".')
        if theory and intercept:
            raise ValueError('HvtUCB.intercept must be off for radius="theory": Lemma 1 has none.')
        has_intercept = not theory if intercept is None else bool(intercept)
        ridge = float(self.dim) if ridge is None else ridge
        self._allocate(
            SLOTS,
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=theta_bound,
            size=self.dim + has_intercept,
        )
        s = self._s
        s[CONSTANT] = arm_bound  # the constant feature is as long as an arm may be
        s[ORDER] = 2.0 if known is None else known.order
        s[AUTO] = known is None
        s[ALPHA] = check_number(
            "HvtUCB.alpha", (4.0 if theory else 1.0) if alpha is None else alpha, above=0.0
        )
        s[RADIUS_SCALE] = check_number("HvtUCB.radius_scale", radius_scale, least=0.0)
        threshold_scale = check_number("HvtUCB.threshold_scale", threshold_scale, above=0.0)
        s[VOTES] = MAJORITY  # a reward of exactly 0 says nothing of the scale until others are seen
        s[THEORY] = theory
        s[TYPICAL] = 1.0 / NORMAL_CONSISTENCY  # to begin with, the stated scale is believed
        if theory:
            self._set_theory(ridge, theta_bound, arm_bound, sigma_min, delta, threshold_scale)
        else:
            clip = check_number("HvtUCB.clip", clip, above=0.0, infinite=True)
            s[CLIP] = clip * threshold_scale
            s[EXPLORATION] = check_number("HvtUCB.exploration", exploration, least=0.0)
            s[PRIOR] = ridge * theta_bound**2 if math.isfinite(theta_bound) else ridge
            s[LOG_INVERSE_DELTA] = inverse_log("HvtUCB", 0.01 if delta is None else delta)
            s[SIGMA_MIN] = RESOLUTION * arm_bound / math.sqrt(ridge)
        s[RADIUS] = s[RADIUS_SCALE] * current_radius(s, 0.0)

    def _set_theory(
        self,
        ridge: float,
        theta_bound: float,
        arm_bound: float,
        sigma_min: float | None,
        delta: float | None,
        threshold_scale: float,
    ) -> None:
        s = self._s
        assert self.horizon is not None
        lemma = lemma_1(
            self.dim,
            s[ORDER],
            self.horizon,
            alpha=s[ALPHA],
            ridge=ridge,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            sigma_min=sigma_min,
            delta=delta,
        )
        s[SIGMA_MIN] = self.horizon**-0.5 if sigma_min is None else sigma_min
        s[TAU_0] = threshold_scale * lemma.tau_0
        s[SLOPE] = lemma.slope
        s[BETA_0] = lemma.beta_0

    @property
    def intercept(self) -> float:
        """What the constant feature adds to every prediction; 0 without one."""
        return float(self._M[THETA, -1] * self._s[CONSTANT]) if self._M.shape[1] > self.dim else 0.0

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the last round, in units of sigma_t."""
        return float(self._s[TAU])

    def diagnostics(self) -> Diagnostics:
        s = self._s
        weight = s[WEIGHT] ** 2 / s[WEIGHT_SQUARES] if s[WEIGHT_SQUARES] > 0.0 else 0.0
        index = math.inf
        if s[FAR] > 0.0:
            index = math.log(s[NEAR] / s[FAR]) / math.log(TAIL_TO / TAIL_FROM)
        return replace(
            super().diagnostics(),
            threshold=float(s[TAU] * s[SIGMA]),
            scale=float(self._nu * NORMAL_CONSISTENCY * s[TYPICAL]),
            effective_samples=float(weight),
            tail_index=float(index),
        )
