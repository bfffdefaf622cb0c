"""OL2M: Zhang, Yang, Jin, Xiao and Zhou (ICML 2016), online learning to logit."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    LOG_DET,
    OK,
    OUT_OF_RANGE,
    RADIUS,
    ROUNDS,
    Fixed,
    numbered,
)
from heavytail.kernels.links import link_mean, within
from heavytail.kernels.one_pass import learn, measure
from heavytail.links import Link
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.info import Info
from heavytail.policies.core.linked import (
    DELTA,
    LINKED,
    LinkedPolicy,
    Told,
    curvature_half_widths,
    floored_slope,
    practical_radius,
    report_spread,
)

__all__ = ["OL2M"]


class Slots(NamedTuple):
    """OL2M's own numbers."""

    ALPHA: Fixed  # 2 / kappa
    REACH: Fixed  # S L
    THEORY: Fixed


L: Final = LINKED
S: Final = numbered(Slots, after=LINKED)


@jit
def ol2m_radius(
    log_det: float, t: float, log_inverse_delta: float, alpha: float, reach: float, prior: float
) -> float:
    """sqrt(gamma_{t+1}), gamma = 8 S + (8/kappa + 16 S/3) tau_t + (2/kappa) log det + lambda S²,
    tau_t = log(2 ceil(2 log2 t) t²/delta); alpha = 2/kappa, ``prior`` is lambda S² and S is
    ``reach``. sqrt(lambda) S before the first round.

    Note: at t = 1 the printed tau is log 0; the number of pieces is then taken as 1.
    """
    if t < 1.0:
        return math.sqrt(prior)
    pieces = max(math.ceil(2.0 * math.log2(t)), 1.0)
    tau = math.log(2.0 * pieces) + 2.0 * math.log(t) + log_inverse_delta
    noise = (4.0 * alpha + 16.0 * reach / 3.0) * tau
    return math.sqrt(8.0 * reach + noise + alpha * log_det + prior)


@jit
def set_radius(s: Vector) -> None:
    """The radius of the next selection."""
    if s[S.THEORY] != 0.0:
        lid = s[L.LOG_INVERSE_DELTA]
        root = ol2m_radius(s[LOG_DET], s[ROUNDS], lid, s[S.ALPHA], s[S.REACH], s[L.RIDGE])
        s[RADIUS] = s[L.RADIUS_SCALE] * root
    else:
        s[RADIUS] = practical_radius(s, 1.0)


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the Newton-like step on the residual of the mean."""
    if not within(s[L.LINK], reward, s[L.FRACTIONS]):
        return OUT_OF_RANGE
    squared = measure(s, M, x)
    z = reward - link_mean(s[L.LINK], predict(M))
    code = learn(s, M, x.shape[0], squared, z, 1.0, s[S.ALPHA], math.inf)
    if code == OK:
        set_radius(s)
    return code


def ol2m_slope(told: Told) -> float | None:
    """kappa = 1 / (2 (1 + e^S)) of the paper, for the logistic link; None for others, or where it
    is 0 in floating point.
    """
    return (0.5 * told.link.mean(-told.reach) or None) if told.link.name == "logistic" else None


class OL2M(LinkedPolicy):
    r"""Clicks by an online Newton step: the first one-pass generalised linear bandit.

    $$V_{t+1} = V_t + \tfrac\kappa2 x_t x_t^\top,\qquad
      \hat\theta_{t+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \tfrac12\|\theta-\hat\theta_t\|^2_{V_{t+1}}
      + \bigl(\mu(x_t^\top\hat\theta_t)-y_t\bigr)x_t^\top\theta$$

    with $\kappa = 1 / (2(1+e^S))$, below every slope of the logistic link within the ball.
    O(n d²) per round.

    **Theory** (``radius="theory"``): the regret is Õ(e^S d sqrt(T)) with probability 1 - delta, of
    rewards of 0 and 1. The least slope is in the step and in the radius; GLBOMD does without it.

    **Practice** (the default, nothing tuned): kappa is at least 0.05, the radius OFUL's in the norm
    of V times 0.3. No theorem's.

    >>> import heavytail as ht
    >>> policy = ht.OL2M(2, theta_bound=2.0)
    >>> for click in (1, 0, 1, 1, 0, 1):
    ...     policy.update([1.0, 0.0], click)
    >>> policy.theta.round(3)
    array([0.546, 0.   ])

    Args:
        dim: length of a feature vector.
        link: "logistic" or "probit"; in practice also "identity" and "log", for rewards that
            spread by about 1. Or one of ``heavytail.links``.
        theta_bound: S >= ‖theta*‖.
        least_slope: kappa; unless given, the paper's, and in practice at least 0.05.
        ridge: lambda.
        radius_scale: multiplies the radius; 1 in theory, 0.3 in practice. Below 1 the theory's
            guarantee is gone.

    ``horizon``, ``arm_bound``, ``radius``, ``delta`` and ``fractions`` are as in ``GLBOMD``; a
    round's ``scale`` is not used.
    """

    name = "OL2M"
    info = Info(
        method="online Newton",
        reference="Zhang et al. 2016",
        regret="d sqrt(T)",
        cost="O(1)",
        storage="O(1)",
        moment="none",
        rewards="0 or 1",
        sources=(
            r"*Certain*: the step, $\kappa$ and $\gamma$, read in the paper. *Decided*: the "
            "radius before the first round, sqrt(lambda) S; one piece where the printed count of "
            r"pieces, $\lceil2\log_2t\rceil$, is 0; S L in place of S where arms are longer than "
            "1; the theory for the probit link too, whose rewards are 0 or 1 as well, by its "
            "least slope. *Ours*: practice, with the paper's searched multiple of log det as a "
            "guide."
        ),
    )
    algorithm = Algorithm(
        update=update,
        slots=(COMMON, LINKED, S),
        rank_one=True,
        half_widths=curvature_half_widths,
        reports=(report_spread,),
    )
    exploration = 0.3  # its square is about 0.1

    def __init__(
        self,
        dim: int,
        *,
        link: str | Link = "logistic",
        horizon: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        least_slope: float | None = None,
        ridge: float = 1.0,
        delta: float = DELTA,
        fractions: bool = False,
        radius_scale: float | None = None,
    ) -> None:
        check = self._start(dim, None, horizon)
        stated = self._start_linked(
            check, link, radius, theta_bound=theta_bound, arm_bound=arm_bound
        )
        if stated.is_theory and self.link.rewards != "0 or 1":
            raise ValueError(
                f'OL2M.link must be for rewards of 0 and 1 where radius="theory"; got '
                f"{self.link.name!r}, whose rewards no bound holds. Use the practical mode."
            )
        kappa = floored_slope(stated, least_slope, ol2m_slope(stated))
        self._allocate(
            ridge=ridge, arm_bound=arm_bound, theta_bound=theta_bound, weight=max(0.5 * kappa, 1.0)
        )
        prior = ridge * stated.theta_bound**2
        s = self._write_linked(
            stated, ridge=prior, delta=delta, fractions=fractions, radius_scale=radius_scale
        )
        s[S.ALPHA] = 2.0 / kappa
        s[S.REACH] = stated.reach
        s[S.THEORY] = stated.is_theory
        set_radius(s)
