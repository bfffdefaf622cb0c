"""Hvt-UCB: Wang, Zhang, Zhao and Zhou (ICML 2025), Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple, final

from heavytail._typing import Matrix, Vector
from heavytail._validate import Check
from heavytail.confidence import empirical_radius, lemma_1, theory_radius
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import leverage, score, threshold, time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, CONSTANT, GAIN, OK, RADIUS, ROUNDS, THETA, numbered
from heavytail.kernels.one_pass import learn, measure
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
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["HvtUCB"]


class Slots(NamedTuple):
    """HvtUCB's own numbers."""

    ORDER: int
    ALPHA: int
    RADIUS_SCALE: int
    SIGMA: int  # sigma_t of the last round
    TAU: int  # tau_t of the last round
    SIGMA_MIN: int
    TAU_0: int
    SLOPE: int  # beta_t = SLOPE t^a + BETA_0
    BETA_0: int
    EXPLORATION: int
    PRIOR: int  # lambda S²
    LOG_INVERSE_DELTA: int
    STABILITY: int  # G_t
    ENERGY: int  # sum of psi²
    TYPICAL: int  # running median of |residual| / nu_t
    CLIP: int  # the practical mode's tau_t
    RUN: int  # sizes in a row above (+) or below (-) the typical one
    NEAR: int  # rounds whose residual was beyond TAIL_FROM typical sizes ...
    FAR: int  # ... and beyond TAIL_TO: their ratio is the tail's slope
    WEIGHT: int  # sum of 1 / sigma_t²
    WEIGHT_SQUARES: int
    VOTES: int  # rewards of exactly 0 ahead of all others
    TELLING: int  # rounds that the typical size is of: all, or those with another reward


S: Final = numbered(Slots, after=COMMON)

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
    growth = s[S.TAU_0] * math.sqrt(s[S.ALPHA]) * t ** time_exponent(s[S.ORDER])
    floor = max(2.0 * math.sqrt(2.0), math.sqrt(2.0 * beta_prev / growth))
    return max(nu, s[S.SIGMA_MIN], floor * width)


@jit
def note(s: Vector, size: float, typical: float, sigma: float) -> None:
    """What :meth:`HvtUCB.diagnostics` tells: nothing here steers the policy."""
    if size > TAIL_FROM * NORMAL_CONSISTENCY * typical:
        s[S.NEAR] += 1.0
        if size > TAIL_TO * NORMAL_CONSISTENCY * typical:
            s[S.FAR] += 1.0
    weight = 1.0 / (sigma * sigma)
    s[S.WEIGHT] += weight
    s[S.WEIGHT_SQUARES] += weight * weight


@jit
def finish(s: Vector, squared: float, z: float, sigma: float, tau: float) -> None:
    """What both modes note of a step: sigma_t, tau_t and the sums that the radius reads."""
    psi = score(z, tau)
    s[S.SIGMA] = sigma
    s[S.TAU] = tau
    s[S.STABILITY] += psi * psi * s[S.ALPHA] * squared * s[GAIN]  # alpha w²/(1 + w²) psi²
    s[S.ENERGY] += psi * psi


@jit
def update_theory(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Algorithm 1, lines 5 to 8; OVERFLOW with the state untouched."""
    squared = measure(s, M, x)
    width = math.sqrt(squared)
    t = s[ROUNDS] + 1.0
    residual = reward - predict(M)
    sigma = lemma_sigma(s, t, width, nu)
    tau = threshold(s[S.TAU_0], leverage(width, sigma, s[S.ALPHA]), t, s[S.ORDER])
    z = residual / sigma if squared > 0.0 else 0.0  # x = 0 says nothing about theta
    code = learn(s, M, x.shape[0], squared, z, sigma, s[S.ALPHA], tau)
    if code != OK:
        return code
    finish(s, squared, z, sigma, tau)
    size = abs(residual) / nu
    note(s, size, s[S.TYPICAL], sigma)
    if stands_out(reward, 0.0, s[S.VOTES]):
        s[S.TELLING] += 1.0
        s[S.TYPICAL] = follow_typical(s[S.TYPICAL], size, s[S.TELLING], SMALLEST)
    s[S.VOTES] = lead(reward == 0.0, s[S.VOTES])
    s[RADIUS] = s[S.RADIUS_SCALE] * theory_radius(t, s[S.ORDER], s[S.SLOPE], s[S.BETA_0])
    return OK


@jit
def practical_step(
    s: Vector, M: Matrix, dim: int, squared: float, residual: float, nu: float, typical: float
) -> int:
    """The step of the practical mode, after :func:`measure`; ``typical`` is the typical size of a
    residual in units of nu. OVERFLOW with the state untouched.
    """
    t = s[ROUNDS] + 1.0
    sigma = max(
        nu * NORMAL_CONSISTENCY * typical, math.sqrt(squared), s[S.SIGMA_MIN] * math.sqrt(t)
    )
    z = residual / sigma if squared > 0.0 else 0.0  # x = 0 says nothing about theta
    code = learn(s, M, dim, squared, z, sigma, s[S.ALPHA], s[S.CLIP])
    if code == OK:
        finish(s, squared, z, sigma, s[S.CLIP])
        note(s, abs(residual) / nu, typical, sigma)
        s[RADIUS] = practical_radius(s, t)
    return code


@jit
def practical_radius(s: Vector, t: float) -> float:
    """beta_t of the practical mode, with radius_scale."""
    return s[S.RADIUS_SCALE] * empirical_radius(
        s[S.EXPLORATION], s[S.PRIOR], s[S.STABILITY], s[S.ENERGY], t, s[S.LOG_INVERSE_DELTA]
    )


@jit
def update_stated(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """The practical mode where a scale was stated: it is believed, and followed slowly."""
    squared = measure(s, M, x)
    residual = reward - predict(M)
    code = practical_step(s, M, x.shape[0], squared, residual, nu, s[S.TYPICAL])
    if code != OK:
        return code
    if stands_out(reward, 0.0, s[S.VOTES]):
        s[S.TELLING] += 1.0
        s[S.TYPICAL] = follow_typical(s[S.TYPICAL], abs(residual) / nu, s[S.TELLING], SMALLEST)
    s[S.VOTES] = lead(reward == 0.0, s[S.VOTES])
    return OK


@jit
def update_unstated(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """The practical mode where no scale was stated: it is sought from the first rewards on."""
    squared = measure(s, M, x)
    residual = reward - predict(M)
    size = abs(residual) / nu
    telling = stands_out(reward, 0.0, s[S.VOTES])
    count = s[S.TELLING] + 1.0
    typical = s[S.TYPICAL]
    if telling:
        typical = first_typical(typical, size, count, SMALLEST)
    code = practical_step(s, M, x.shape[0], squared, residual, nu, typical)
    if code != OK:
        return code
    if telling:
        s[S.TELLING] = count
        s[S.RUN] = next_run(s[S.RUN], size, typical)
        s[S.TYPICAL] = seek_typical(typical, size, count, s[S.RUN], SMALLEST)
    s[S.VOTES] = lead(reward == 0.0, s[S.VOTES])
    return OK


@final
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
        sources=(
            '*Certain*: Algorithm 1 and Lemma 1, read in the paper; `radius="theory"` is both. '
            r"*Decided*: the floor $2\sqrt2\,\|x\|_{V^{-1}}$ of $\sigma_t$, which the appendix "
            r"uses and Algorithm 1 omits; $\beta_0$ as a case of its own, since the formula at t = "
            "0 reads $0^0$ at p = 2; the step with $V_t$ after its update; the projection in the "
            "$V_t$-norm. *Ours*: the practical mode, which has no theorem."
        ),
    )
    slots = (COMMON, S)
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
        check = Check(type(self))
        auto = isinstance(tail, str) and check.choice("tail", tail, ("auto",)) == "auto"
        known = None if isinstance(tail, str) else tail
        self._start(dim, known, horizon, scale_known=not auto)
        theory = check.choice("radius", radius, ("empirical", "theory")) == "theory"
        if theory and horizon is None:
            raise ValueError(
                'HvtUCB.horizon must be given for radius="theory": Lemma 1 is for one T.'
            )
        if theory and auto:
            raise ValueError('HvtUCB.tail must be a MomentBound for radius="theory"; got "auto".')
        if theory and intercept:
            raise ValueError('HvtUCB.intercept must be off for radius="theory": Lemma 1 has none.')
        has_intercept = not theory if intercept is None else bool(intercept)
        ridge = float(self.dim) if ridge is None else ridge
        practice = update_unstated if auto else update_stated
        self.update_kernel = update_theory if theory else practice
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=theta_bound,
            size=self.dim + has_intercept,
        )
        s = self._s
        s[CONSTANT] = arm_bound  # the constant feature is as long as an arm may be
        s[S.ORDER] = 2.0 if known is None else known.order
        alpha = (4.0 if theory else 1.0) if alpha is None else alpha
        s[S.ALPHA] = check.number("alpha", alpha, above=0.0)
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        threshold_scale = check.number("threshold_scale", threshold_scale, above=0.0)
        s[S.VOTES] = MAJORITY  # a reward of exactly 0 says nothing of the scale until others do
        s[S.TYPICAL] = 1.0 / NORMAL_CONSISTENCY  # to begin with, the stated scale is believed
        if theory:
            self._set_theory(ridge, theta_bound, arm_bound, sigma_min, delta, threshold_scale)
            return
        s[S.CLIP] = threshold_scale * check.number("clip", clip, above=0.0, infinite=True)
        s[S.EXPLORATION] = check.number("exploration", exploration, least=0.0)
        s[S.PRIOR] = ridge * theta_bound**2 if math.isfinite(theta_bound) else ridge
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(0.01 if delta is None else delta)
        s[S.SIGMA_MIN] = RESOLUTION * arm_bound / math.sqrt(ridge)
        s[RADIUS] = practical_radius(s, 0.0)

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
            s[S.ORDER],
            self.horizon,
            alpha=s[S.ALPHA],
            ridge=ridge,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            sigma_min=sigma_min,
            delta=delta,
        )
        s[S.SIGMA_MIN] = self.horizon**-0.5 if sigma_min is None else sigma_min
        s[S.TAU_0] = threshold_scale * lemma.tau_0
        s[S.SLOPE] = lemma.slope
        s[S.BETA_0] = lemma.beta_0
        s[RADIUS] = s[S.RADIUS_SCALE] * lemma.beta_0

    @property
    def intercept(self) -> float:
        """What the constant feature adds to every prediction; 0 without one."""
        return float(self._M[THETA, -1] * self._s[CONSTANT]) if self._M.shape[1] > self.dim else 0.0

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[S.SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the last round, in units of sigma_t."""
        return float(self._s[S.TAU])

    def diagnostics(self) -> Diagnostics:
        s = self._s
        weight = s[S.WEIGHT] ** 2 / s[S.WEIGHT_SQUARES] if s[S.WEIGHT_SQUARES] > 0.0 else 0.0
        index = math.inf
        if s[S.FAR] > 0.0:
            index = math.log(s[S.NEAR] / s[S.FAR]) / math.log(TAIL_TO / TAIL_FROM)
        return replace(
            super().diagnostics(),
            threshold=float(s[S.TAU] * s[S.SIGMA]),
            scale=float(self._nu * NORMAL_CONSISTENCY * s[S.TYPICAL]),
            effective_samples=float(weight),
            tail_index=float(index),
        )
