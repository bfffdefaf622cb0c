"""AdaOFUL: Li and Sun (TMLR 2024), adaptive Huber regression for finite variance."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, OK, RADIUS, ROUNDS, THETA, THETA_BOUND, Fixed, numbered
from heavytail.kernels.m_estimate import TAU, advance
from heavytail.policies.core.adaptive import ADAPTIVE, AdaptiveHuber, observe, set_constants, start
from heavytail.policies.core.algorithm import Algorithm, History, select_past_history
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["AdaOFUL"]


class Slots(NamedTuple):
    """AdaOFUL's own numbers."""

    KAPPA: Fixed
    THEORY_TAU_0: Fixed  # before threshold_scale, for the radius
    LOG_INVERSE_DELTA: Fixed


S: Final = numbered(Slots, after=ADAPTIVE)


@jit
def ada_oful_radius(
    t: float, kappa: float, tau_0: float, log_inverse_delta: float, prior_root: float
) -> float:
    """32 (kappa/tau_0 + sqrt(kappa l_t) + tau_0 l_t) + 5 sqrt(lambda) B, l_t = log(2t²/delta).

    sqrt(lambda) B at t = 0, where the formula has the logarithm of 0.
    """
    if t == 0.0:
        return prior_root
    ell = math.log(2.0 * t * t) + log_inverse_delta
    return 32.0 * (kappa / tau_0 + math.sqrt(kappa * ell) + tau_0 * ell) + 5.0 * prior_root


def ada_oful_constants(
    dim: int,
    horizon: int,
    *,
    ridge: float,
    theta_bound: float,
    arm_bound: float,
    sigma_min: float,
    delta: float,
) -> AdaptiveHuber:
    """The constants of AdaOFUL, Li and Sun (TMLR 2024), for finite variance."""
    T = float(horizon)
    kappa = dim * math.log1p(T * arm_bound**2 / (dim * ridge * sigma_min**2))
    ell = math.log(2.0 * T**2 / delta)
    return AdaptiveHuber(
        kappa=kappa,
        ell=ell,
        tau_0=max(math.sqrt(2.0 * kappa), 2.0 * math.sqrt(dim)) / math.sqrt(ell),
        steep=6.0 * math.sqrt(3.0 * ell),
        root=math.sqrt(arm_bound * theta_bound) * (42.0 * ell / dim) ** 0.25,
    )


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale."""
    radius = ada_oful_radius(
        s[ROUNDS], s[S.KAPPA], s[S.THEORY_TAU_0], s[S.LOG_INVERSE_DELTA], s[ADAPTIVE.PRIOR_ROOT]
    )
    return s[ADAPTIVE.RADIUS_SCALE] * radius


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: keep it, then Newton over everything kept from the last estimate."""
    code = observe(s, M, H, x, reward, nu)
    if code != OK:
        return code
    advance(M, H, int(s[ROUNDS]), THETA, s[ADAPTIVE.RIDGE], s[THETA_BOUND], True)
    s[RADIUS] = current_radius(s)
    return OK


class AdaOFUL(PackedPolicy):
    r"""Optimism with pseudo-Huber regression over the whole history; finite variance only.

    $$\hat\theta_t = \arg\min_{\|\theta\|\le B} \frac\lambda2\|\theta\|^2 + \sum_{s\le t}
      \tau_s\Big(\sqrt{\tau_s^2 + z_s^2} - \tau_s\Big),\qquad z_s = \frac{r_s -
      x_s^\top\theta}{\sigma_s}$$

    With probability 1 - 3 delta the regret is Õ(d sqrt(sum nu_t²) + d), at ``radius_scale=1``. A
    round costs O(t d²), one or two passes of Newton from the last estimate, and O(t d) memory. It
    does not apply where the variance is infinite: use HEAVY-OFUL, or Hvt-UCB in one pass.

    >>> import heavytail as ht
    >>> policy = ht.AdaOFUL(2, horizon=1000, tail=ht.MomentBound(order=2.0, scale=1.0))
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> bool(abs(policy.theta).max() <= 1.0)
    True

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the bound on the noise's variance, of order 2; its scale is nu_t of a round that does
            not say.
        theta_bound: B >= ‖theta*‖; ``math.inf`` leaves the ball out (and the theory), and the
            constants are then those of B = 1.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda; d / B² unless given.
        delta: failure probability; 1/(8T) unless given.
        sigma_min: floor of sigma_t; 1/sqrt(T) unless given.
        radius_scale: multiplies the radius; 1 is the theory.
        threshold_scale: multiplies tau_0 (not the radius, which has it too); 1 is the theory,
            ``math.inf`` weighted ridge regression.

    Note: constants as the same authors restate them for generalised linear bandits, at the
    identity link. An audit of the preprint asks for log 6 in place of log 2 in l_t. An x of zero
    length has tau = infinity and adds nothing.
    """

    name = "AdaOFUL"
    info = Info(
        method="pseudo-Huber",
        reference="Li and Sun 2024",
        regret="d sqrt(sum nu_t^2)",
        cost="O(t log T)",
        storage="O(t)",
        moment="central",
        only_order=2.0,
        horizon=True,
        uses_scale=True,
        sources=(
            "*Certain*: loss, thresholds and radius as the same authors restate them in a later "
            r"paper, at the identity link. *Decided*: $\beta_0 = \sqrt\lambda B$ and an infinite "
            "threshold for x = 0. An audit of the preprint asks for log 6 where the radius has "
            "log 2; the printed one is kept."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select_past_history,
        slots=(COMMON, ADAPTIVE, S),
        history=History(TAU + 1),
        any_ridge=True,
    )

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        radius_scale: float = 0.0003,
        threshold_scale: float = 1.0,
    ) -> None:
        check = self._start(dim, tail, horizon)
        if tail.order != 2.0:
            raise ValueError(
                f"AdaOFUL.tail must be of order 2; got order {tail.order}. Its loss and radius are "
                "for finite variance; for a lower order use HeavyOFUL or HvtUCB."
            )
        problem = start(
            self,
            check,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            ridge=ridge,
            delta=delta,
            sigma_min=sigma_min,
            radius_scale=radius_scale,
        )
        constants = ada_oful_constants(self.dim, horizon, **problem)
        set_constants(self, check, constants, tail.order, threshold_scale)
        s = self._s
        s[S.KAPPA] = constants.kappa
        s[S.THEORY_TAU_0] = constants.tau_0
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(problem["delta"])
        s[RADIUS] = current_radius(s)

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[ADAPTIVE.SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the last round, in units of sigma_t."""
        return float(self._s[ADAPTIVE.TAU_T])
