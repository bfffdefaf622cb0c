"""GLB-OMD: Zhang, Xu, Zhao and Sugiyama (NeurIPS 2025), generalised linear bandits in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    CONSTANT,
    LOG_DET,
    OK,
    OUT_OF_RANGE,
    RADIUS,
    ROUNDS,
    Fixed,
    Size,
    numbered,
)
from heavytail.kernels.linked import implicit_step, linear_step, move
from heavytail.kernels.links import LOGISTIC, PROBIT, information, pull, within
from heavytail.kernels.one_pass import LARGEST, measure
from heavytail.links import Link
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.info import Info
from heavytail.policies.core.linked import (
    DELTA,
    LINKED,
    LinkedPolicy,
    Told,
    curvature_half_widths,
    own_ridge,
    practical_radius,
    report_spread,
)
from heavytail.policies.core.loops import around

__all__ = ["GLBOMD"]

HEAVY: Final = 100.0  # rounds: a first one of less than this never outweighs the rounding of P

FEW: Final = 32.0  # rounds whose spread is taken as the model's, to begin with


class Slots(NamedTuple):
    """GLBOMD's own numbers."""

    ETA: Fixed
    DISPERSION: Fixed  # g
    ENERGY: Size  # sum of squares of residuals, in units of the model's variance: see note
    PRIOR: Fixed  # 4 lambda S² of the theory
    THEORY: Fixed


L: Final = LINKED
S: Final = numbered(Slots, after=LINKED)


def glb_constants(dim: int, link: Link, reach: float, dispersion: float) -> tuple[float, float]:
    """(eta, lambda) of GLB-OMD for scores within ``reach`` = S and arms within 1.

    eta = 1 + R S and lambda = max(14 d eta R², 6 eta R S mu'_max / g), R the self-concordance;
    1 / g where R = 0, and any lambda would do.
    """
    R = link.concordance(reach)
    eta = 1.0 + R * reach
    steep = 6.0 * eta * R * reach * link.steepest(reach) / dispersion
    return eta, max(14.0 * dim * eta * R * R, steep) or 1.0 / dispersion


@jit
def glb_radius(log_det: float, log_inverse_delta: float, eta: float, prior: float) -> float:
    """beta_t of GLB-OMD, beta² = 4 lambda S² + 2 eta log(1/delta) + eta (6 eta + 1) log det."""
    return math.sqrt(prior + 2.0 * eta * log_inverse_delta + eta * (6.0 * eta + 1.0) * log_det)


@jit
def spread(s: Vector) -> float:
    """The ratio of the rewards' variance to the model's, at least 1; 1 where it must be."""
    if s[L.LINK] == LOGISTIC or s[L.LINK] == PROBIT:
        return 1.0
    return max(1.0, (FEW + s[S.ENERGY]) / (FEW + s[ROUNDS]))


@jit
def set_radius(s: Vector) -> None:
    """The radius of the next selection."""
    if s[S.THEORY] != 0.0:
        beta = glb_radius(s[LOG_DET], s[L.LOG_INVERSE_DELTA], s[S.ETA], s[S.PRIOR])
        s[RADIUS] = s[L.RADIUS_SCALE] * beta
    else:
        s[RADIUS] = practical_radius(s, spread(s))


@jit
def note(s: Vector, M: Matrix, y: float, z: float) -> None:
    """Add the product of the residuals before and after the round, in units of the variance that
    the model gives them: with the identity link that has the noise's variance for its mean where
    theta began as far off as the ridge says, and a little more where it began farther off.
    """
    v = predict(M)
    w = information(s[L.LINK], v) * s[S.DISPERSION]
    both = pull(s[L.LINK], y, z) * pull(s[L.LINK], y, v)
    if w > 0.0 and both > 0.0:
        s[S.ENERGY] = min(s[S.ENERGY] + both / w, LARGEST)


def step_of(*_: float) -> float:
    """Stands for one of the steps of :mod:`heavytail.kernels.linked` in the template below."""
    raise NotImplementedError


def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Template: one round's learning by a step."""
    if not within(s[L.LINK], reward, s[L.FRACTIONS]):
        return OUT_OF_RANGE
    squared = measure(s, M, x)
    z = predict(M)
    step = step_of(s[L.LINK], reward, z, squared, s[S.DISPERSION], s[S.ETA])
    code = move(s, M, x.shape[0], squared, s[L.LINK], s[S.DISPERSION], s[S.ETA], step)
    if code != OK:
        return code
    note(s, M, reward, z)
    set_radius(s)
    return OK


class GLBOMD(LinkedPolicy):
    r"""Clicks and counts in one pass: mirror descent on the likelihood. O(n d²) per round.

    $$\hat\theta_{t+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \langle\nabla\ell_t(\hat\theta_t), \theta\rangle
      + \tfrac12\|\theta-\hat\theta_t\|^2_{\nabla^2\ell_t(\hat\theta_t)}
      + \tfrac1{2\eta}\|\theta-\hat\theta_t\|^2_{H_t},\qquad
      H_{t+1} = H_t + \nabla^2\ell_t(\hat\theta_{t+1})$$

    with $\ell_t$ the negative log-likelihood of the reward, whose mean is $\mu(x^\top\theta^*)$.
    The least slope of the link enters nowhere but in a lower-order term: rewards may be as flat in
    the score as clicks of 1 in 1,000 are.

    **Theory** (``radius="theory"``): eta, lambda and the radius of the paper. With probability
    1 - delta, for all t at once, theta* lies in the set; the regret is
    Õ(d sqrt(T mu'(z*))) times a factor in S, with z* the best arm's score. Rewards must come from
    the family of the link: 0/1 (logistic), Poisson counts (log), normal ones of standard
    deviation ``noise_scale`` (identity).

    **Practice** (the default, nothing tuned): the same step with the loss itself in place of its
    second-order model and eta = 1, which needs no ball, an intercept, and OFUL's radius in the norm
    of H, wider where rewards spread more than the model says. Where a ``theta_bound`` is given, a
    step that leaves the ball is projected. No theorem's. With the identity link rewards that lie
    many noises from 0 want a typical one subtracted, or ``TwinUCB``.

    >>> import heavytail as ht
    >>> policy = ht.GLBOMD(2, link="logistic")
    >>> for click in (1, 0, 1, 1, 0, 1):
    ...     policy.update([1.0, 0.0], click)
    >>> 0.0 < policy.predict([1.0, 0.0]).low < policy.predict([1.0, 0.0]).mean < 1.0
    True

    Args:
        dim: length of a feature vector.
        link: "logistic" for clicks, "log" for counts, "probit" (practice only: it is not canonical)
            or "identity"; or one of ``heavytail.links``.
        horizon: T; a promise that is warned about once it is broken.
        theta_bound: S >= ‖theta*‖. The theory's is 1 unless given, and its price is in
            docs/howto/clicks.md. In practice it is not needed; where it is given it is a ball.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        radius: "empirical" (no guarantee) or "theory".
        step: "linear", the published one, or "implicit", the loss itself; unless given, the first
            in theory and the second in practice. The linear step needs a ball.
        noise_scale: sqrt(g), the spread of rewards over the model's: their standard deviation with
            the identity link, 1 for clicks and Poisson counts.
        ridge: lambda; the paper's in theory, d L² / (100 g) in practice.
        delta: failure probability.
        intercept: a constant feature, free of the ball; practice only, on unless switched off.
        fractions: take rewards between 0 and 1 with a link for 0 and 1.
        radius_scale: multiplies the radius; 1 in theory, 0.4 in practice. Below 1 the theory's
            guarantee is gone.

    Note: the paper's radius is re-derived; each of its pieces meets the conditions that the paper
    states. A round's ``scale`` is not used.
    """

    name = "GLB-OMD"
    info = Info(
        method="likelihood",
        reference="Zhang et al. 2025",
        regret="d sqrt(T mu')",
        cost="O(1)",
        storage="O(1)",
        moment="none",
        sources=(
            r"*Certain*: the two steps, $\eta = 1 + RS$ and $\lambda$. *Re-derived*: the radius, "
            r"$\beta^2 = 4\lambda S^2 + 2\eta\log\frac1\delta + \eta(6\eta+1)\log\det$: "
            r"self-concordance and mirror descent give $4\lambda S^2$ and $2\eta$ times the "
            "inverse regret, Ville's inequality bounds that against a mixture of Gaussians by "
            r"$\log\frac1\delta$, and the mixture's own loss by $(3\eta + \frac12)\log\det$; the "
            "paper's condition on $\\lambda$ is just what the last piece needs. *Ours*: practice."
        ),
    )
    algorithm = Algorithm(
        update=around(update, step_of=implicit_step),
        slots=(COMMON, LINKED, S),
        rank_one=True,
        half_widths=curvature_half_widths,
        reports=(report_spread,),
    )
    exploration = 0.4

    def __init__(
        self,
        dim: int,
        *,
        link: str | Link = "identity",
        horizon: int | None = None,
        theta_bound: float | None = None,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        step: str | None = None,
        noise_scale: float = 1.0,
        ridge: float | None = None,
        delta: float = DELTA,
        intercept: bool | None = None,
        fractions: bool = False,
        radius_scale: float | None = None,
    ) -> None:
        check = self._start(dim, None, horizon)
        stated = self._start_linked(
            check, link, radius, theta_bound=theta_bound, arm_bound=arm_bound, free=True
        )
        g = check.number("noise_scale", noise_scale, above=0.0) ** 2
        eta, lam = 1.0, own_ridge(self.dim, 1.0) / g  # of arms of length one
        if stated.is_theory:
            self._check_theory(intercept)
            eta, lam = glb_constants(self.dim, self.link, stated.reach, g)
        ridge = lam * stated.arm_bound**2 if ridge is None else ridge
        has_intercept = self._practical if intercept is None else check.flag("intercept", intercept)
        step_of = self._step_of(stated, step)
        self.algorithm = replace(self.algorithm, update=around(update, step_of=step_of))
        size = self.dim + has_intercept
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=stated.theta_bound,
            size=size,
            room=size,
            weight=HEAVY / g,
        )
        s = self._write_linked(
            stated,
            ridge=ridge * g / stated.arm_bound**2,
            delta=delta,
            fractions=fractions,
            radius_scale=radius_scale,
        )
        s[CONSTANT] = stated.arm_bound
        s[S.ETA] = eta
        s[S.DISPERSION] = g
        s[S.PRIOR] = 4.0 * ridge * stated.theta_bound**2 if stated.is_theory else 0.0
        s[S.THEORY] = stated.is_theory
        set_radius(s)

    def _check_theory(self, intercept: bool | None) -> None:
        if not self.link.canonical:
            raise ValueError(
                f'GLBOMD.link must be canonical for radius="theory"; got {self.link.name!r}, '
                "behind which there is no likelihood. Use the practical mode."
            )
        if intercept:
            raise ValueError(
                'GLBOMD.intercept must be off for radius="theory": its ball holds all of theta.'
            )

    @staticmethod
    def _step_of(told: Told, step: str | None) -> Callable[..., float]:
        if step is None:
            step = "linear" if told.is_theory else "implicit"
        if told.check.choice("step", step, ("linear", "implicit")) == "implicit":
            return implicit_step
        if told.theta_bound == math.inf:
            raise ValueError(
                'GLBOMD.theta_bound must be given for step="linear", which may leap without a ball.'
            )
        return linear_step

    def _spread(self) -> float:
        return spread(self._s)
