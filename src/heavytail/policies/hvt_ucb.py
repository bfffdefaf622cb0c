"""Hvt-UCB: Wang, Zhang, Zhao and Zhou (ICML 2025), Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, CONSTANT, THETA, numbered
from heavytail.kernels.one_pass import measure
from heavytail.kernels.sharp import Sharp
from heavytail.policies.core import forgetting, practice, sharp, theory
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.policies.core.practice import CLIP, PRACTICE, SIZES
from heavytail.policies.core.practice_report import half_widths_of, report_noise
from heavytail.policies.core.sharp import learn as learn_sharp
from heavytail.policies.core.theory import THEORY, step
from heavytail.tails import MomentBound

__all__ = ["HvtUCB"]


P: Final = PRACTICE
WIDTH: Final = numbered(Sharp, after=THEORY)
AT: Final = WIDTH[0]
EXPLORATION: Final = 0.7


@jit
def update_theory(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Algorithm 1, lines 5 to 8; OVERFLOW with the state untouched."""
    squared = measure(s, M, x)
    return step(s, M, x.shape[0], squared, reward - predict(M), reward, nu)


@jit
def update_sharp(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """The step at the proved width; OVERFLOW with the state untouched."""
    return learn_sharp(s, M, AT, x, reward, nu)


THEORETICAL: Final = Algorithm(
    update=update_theory,
    slots=(COMMON, PRACTICE, THEORY),
    rank_one=True,
    takes_prior=True,
    any_ridge=True,
    agree=(practice.agrees,),
    reports=(report_noise,),
)
PROVED: Final = sharp.with_width(THEORETICAL, update_sharp, WIDTH)
PRACTICAL: Final = replace(THEORETICAL, update=practice.update, half_widths=half_widths_of)
FORGETTING: Final = forgetting.with_memory(PRACTICAL, forgetting.update)


class HvtUCB(PackedPolicy):
    r"""Optimism with the one-pass Huber estimator; a round costs O(n d² + d²), whatever t is.

    $$\hat\theta_{t+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \langle \theta, \nabla\ell_t(\hat\theta_t)\rangle +
      \tfrac12\|\theta-\hat\theta_t\|_{V_t}^2,\qquad V_t = \lambda I + \frac1\alpha\sum_{s\le
      t}\frac{x_s x_s^\top}{\sigma_s^2}$$

    **Theory** (``radius="theory"``, needs ``tail`` and ``horizon``): Lemma 1 and Algorithm 1 to the
    letter. With probability 1 - 1/T the regret is Õ(d T^a sqrt(sum nu_t²) + d T^a),
    a = (2 - p)/(2p). Its radius is in the thousands where rewards are of order one, so it does not
    learn at any horizon a person will run.

    **Sharp** (``radius="sharp"``, needs ``tail`` and ``theta_bound``; anytime): the step without
    the ball at a width of our own, a thousand times smaller, proved on docs/mathematics/sharp.md.
    With probability 1 - delta, for all t and all x at once,
    |x'(theta_t - theta*)| <= radius * width(x), which ``predict`` gives as intervals. It learns
    with all of that width. There is no intercept: give arms a constant feature where they need one.

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> policy = ht.HvtUCB(2, tail=tail, theta_bound=1.0, radius="sharp", delta=0.05)
    >>> policy.update([1.0, 0.0], reward=0.5)

    **Practice** (the default, anytime, nothing tuned): the same step with a threshold that grows
    by itself, made to lead theta to the *mean* reward for every noise with a finite moment of
    order above 1, whatever its shape and however that depends on the arm; sigma_t is the typical
    size of a residual or the width of x, whichever is larger; the radius of
    :func:`heavytail.confidence.empirical_radius`; alpha = 1 and an intercept. Nothing hangs on the
    unit of the rewards. The radius has no theorem. :class:`heavytail.TwinUCB` learns faster from
    the same rewards.

    >>> import heavytail as ht
    >>> policy = ht.HvtUCB(2)
    >>> for reward in (0.2, -0.3, 0.1, 0.4, -0.2, 0.3):
    ...     policy.update([1.0, 0.0], reward)
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> bool(abs(policy.theta).max() <= 5.0)
    True

    Args:
        dim: length of a feature vector.
        tail: the moment bound on the noise; its scale is nu_t of a round that does not say.
            Unless given, the scale is learned from the residuals, and a round's ``scale`` then
            only says how it compares with other rounds. "auto" is the same as not given.
            "symmetric", with the sharp width, states that the noise is symmetric given the past
            and nothing else: no moment.
        horizon: T. Needed by the theory; in practice only a promise that is warned about once
            it is broken.
        theta_bound: S >= ‖theta*‖. The theory's is 1 unless given; the sharp width must be told.
            In practice it is not needed; where it is given and the rewards contradict it, it is
            made ten times as large.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        radius: "empirical" (no guarantee), "theory" or "sharp".
        exploration: factor of the empirical radius. Leaves nothing guaranteed.
        alpha: step size; 4 in the theory, other values leave it. 1 in practice.
        clip: a fixed threshold in units of sigma_t instead of one that grows, practice only: theta
            then finds a typical reward. ``math.inf`` never clips.
        ridge: lambda; d in the theory, 0.3 d/S² with the sharp width. In practice d L²/100, in
            units of the rewards' own size.
        delta: failure probability; 1/(8T) in the theory, 0.05 with the sharp width, 0.01 in
            practice.
        sigma_min: floor of sigma_t in the theory; 1/sqrt(T) unless given.
        intercept: a constant feature, free of the ball; practice only, on unless switched off.
        radius_scale: multiplies the radius; below 1 the guarantee on the regret is gone. The
            intervals of the sharp width stay.
        threshold_scale: multiplies tau_0 in the theory, k_p with the sharp width, and in practice
            ``clip`` or the floor from which the threshold grows. Other than 1 the theory's
            guarantee is gone, that of the sharp width is not.
        forget: weight of a round one step older, practice only: 0.999 remembers about 1,000 rounds,
            1 all of them, and the diagnostics say when theta seems to have changed; "auto" then
            begins anew by itself. Nothing is forgotten nor watched unless given.

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
    algorithm = PRACTICAL

    def __init__(
        self,
        dim: int,
        *,
        tail: MomentBound | str | None = None,
        horizon: int | None = None,
        theta_bound: float | None = None,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        exploration: float = EXPLORATION,
        alpha: float | None = None,
        clip: float | None = None,
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        intercept: bool | None = None,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
        forget: float | str | None = None,
    ) -> None:
        check = Check(type(self))
        check.choice("radius", radius, ("empirical", "theory", "sharp"))
        self._start(dim, sharp.stated(check, tail, radius), horizon, scale_known=False)
        if radius == "sharp":
            sharp.check_unused(
                check,
                exploration=None if exploration == EXPLORATION else exploration,
                alpha=alpha,
                clip=clip,
                sigma_min=sigma_min,
                intercept=intercept,
                forget=forget,
            )
            self.algorithm = PROVED
            sharp.begin(
                self,
                check,
                AT,
                bulk="",
                theta_bound=theta_bound,
                arm_bound=arm_bound,
                ridge=ridge,
                delta=delta,
                radius_scale=radius_scale,
                threshold_scale=threshold_scale,
            )
            return
        is_theory = radius == "theory"
        stated = theory.check_told(check, tail, horizon) if is_theory else None
        if intercept is not None:
            check.flag("intercept", intercept)
        if is_theory and intercept:
            raise ValueError('HvtUCB.intercept must be off for radius="theory": Lemma 1 has none.')
        if sigma_min is not None:
            check.number("sigma_min", sigma_min, above=0.0)
        has_intercept = not is_theory if intercept is None else bool(intercept)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        if theta_bound is None:
            theta_bound = 1.0 if is_theory else math.inf
        if ridge is None:
            ridge = float(self.dim) if is_theory else practice.own_ridge(self.dim, arm_bound)
        forget = forgetting.checked(check, forget, self.dim + has_intercept, is_theory)
        runs = {"sizes": SIZES}
        if is_theory:
            self.algorithm, runs = THEORETICAL, {}
        elif forget is not None:
            self.algorithm, runs = FORGETTING, forgetting.MEMORY_RUNS
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=theta_bound,
            size=self.dim + has_intercept,
            rows={} if forget is None or clip is not None else {"bulk": None},  # to watch
            runs=runs,
        )
        self._s[CONSTANT] = arm_bound  # the constant feature is as long as an arm may be
        threshold_scale = check.number("threshold_scale", threshold_scale, above=0.0)
        practice.start(
            self,
            check,
            clip=threshold_scale
            * check.number("clip", CLIP if clip is None else clip, above=0.0, infinite=True),
            tunes=clip is None,
            exploration=exploration,
            delta=None if is_theory else delta,
            ridge=ridge,
            alpha=(theory.ALPHA if is_theory else 1.0) if alpha is None else alpha,
            radius_scale=radius_scale,
            arm_bound=arm_bound,
        )
        if forget is not None:
            forgetting.start(self, forget)
        if stated is not None:
            theory.start(
                self,
                *stated,
                arm_bound=arm_bound,
                sigma_min=sigma_min,
                delta=delta,
                threshold_scale=threshold_scale,
            )

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[P.SIGMA])

    @property
    def tau(self) -> float:
        """tau_t, in units of sigma_t: the last round's in theory, the next one's in practice."""
        return float(self._s[P.TAU])

    def _begun(self) -> None:
        if self.algorithm is not THEORETICAL:
            practice.settle_prior(self._s, self._M, self.dim)
        if "bulk" in self._rows:
            self._M[self._rows["bulk"]] = self._M[THETA]
