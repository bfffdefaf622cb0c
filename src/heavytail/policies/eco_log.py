"""ECOLog: Faury, Abeille, Jun and Calauzènes (AISTATS 2022), logistic bandits without 1 / kappa."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    OK,
    OUT_OF_RANGE,
    RADIUS,
    ROUNDS,
    Count,
    Fixed,
    numbered,
)
from heavytail.kernels.linked import implicit_step, move
from heavytail.kernels.links import LOGISTIC, implicit_score, link_slope, within
from heavytail.kernels.one_pass import measure
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.info import Info
from heavytail.policies.core.linked import (
    DELTA,
    LINKED,
    LinkedPolicy,
    curvature_half_widths,
    own_ridge,
    practical_radius,
    report_spread,
)

__all__ = ["ECOLog"]

APART: Final = 2.0  # slopes at theta and theta_bar may differ by this factor


class Slots(NamedTuple):
    """ECOLog's own numbers."""

    ETA: Fixed  # 1 + D/2
    PRIOR: Fixed  # lambda S² of the theory
    PER_ROUND: Fixed  # L² / (4 lambda)
    LOSSES: int  # C_t, what theta_bar lost more than theta
    APART: Count  # rounds whose slopes were too far apart
    THEORY: Fixed


L: Final = LINKED
S: Final = numbered(Slots, after=LINKED)


@jit
def logistic_loss(y: float, z: float) -> float:
    """log(1 + e^z) - y z."""
    return max(z, 0.0) - y * z + math.log1p(math.exp(-abs(z)))


@jit
def average_score(z: float, c: float) -> float:
    """x'theta_bar, the v of v = z + c (1 - 2 mu(v)): where the loss of both rewards at once leads.

    It lies between 0 and z, and does not depend on the reward.
    """
    return implicit_score(LOGISTIC, 0.5, z, 2.0 * c)


@jit
def eco_radius(
    t: float, losses: float, log_inverse_delta: float, eta: float, prior: float, per_round: float
) -> float:
    """The radius without warm-up: with D the diameter, 2 + D = 2 eta,

    beta² = 4 lambda S² + 2 (2 + D) ((2 + D) nu/4 + D²/(2 + D) + C_t) + 4 log(1 + t),
    nu = 1/2 + 2 log((2/delta) sqrt(1 + L² t/(4 lambda))); ``per_round`` is L²/(4 lambda).
    """
    weight = 2.0 * eta
    diameter = weight - 2.0
    inside = math.log(2.0) + log_inverse_delta + 0.5 * math.log1p(per_round * t)
    nu = 0.5 + 2.0 * inside
    bound = 0.25 * weight * nu + diameter * diameter / weight
    squared = 4.0 * prior + 2.0 * weight * (bound + losses) + 4.0 * math.log1p(t)
    return math.sqrt(max(squared, 0.0))


@jit
def set_radius(s: Vector) -> None:
    """The radius of the next selection."""
    if s[S.THEORY] != 0.0:
        lid = s[L.LOG_INVERSE_DELTA]
        beta = eco_radius(s[ROUNDS], s[S.LOSSES], lid, s[S.ETA], s[S.PRIOR], s[S.PER_ROUND])
        s[RADIUS] = s[L.RADIUS_SCALE] * beta
    else:
        s[RADIUS] = practical_radius(s, 1.0)


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the loss itself, exactly, then what theta_bar would have lost."""
    if not within(LOGISTIC, reward, s[L.FRACTIONS]):
        return OUT_OF_RANGE
    squared = measure(s, M, x)
    z = predict(M)
    average = average_score(z, s[S.ETA] * squared)
    step = implicit_step(LOGISTIC, reward, z, squared, 1.0, s[S.ETA])
    code = move(s, M, x.shape[0], squared, LOGISTIC, 1.0, s[S.ETA], step)
    if code != OK:
        return code
    after = predict(M)
    s[S.LOSSES] += logistic_loss(reward, average) - logistic_loss(reward, after)
    if link_slope(LOGISTIC, average) > APART * link_slope(LOGISTIC, after):
        s[S.APART] += 1.0
    set_radius(s)
    return OK


class ECOLog(LinkedPolicy):
    r"""Clicks by the loss itself, one round at a time and free of the least slope. O(n d²) a round.

    $$\hat\theta_{t+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \tfrac1{2+D}\|\theta-\hat\theta_t\|^2_{W_t} + \ell_t(\theta),\qquad
      W_{t+1} = W_t + \mu'(x_t^\top\hat\theta_{t+1})\,x_t x_t^\top$$

    with $\ell_t$ the logistic loss and D = 2 S L. Without the ball the minimiser lies on a line,
    where one equation in one number gives it to the last digit; where that leaves the ball it is
    projected, in the norm of W and the new round's curvature.

    **Theory** (``radius="theory"``): the regret is Õ(d sqrt(T mu'(z*))) with probability 1 - delta,
    z* the best arm's score, as long as slopes at theta and at theta_bar, the step without knowing
    the reward (and without the ball), are within a factor 2: ``apart`` counts the rounds in which
    they were not.

    **Practice** (the default, nothing tuned): D = 0, no ball, and OFUL's radius in the norm of W.
    No theorem's.

    >>> import heavytail as ht
    >>> policy = ht.ECOLog(2)
    >>> for click in (1, 0, 1, 1, 0, 1):
    ...     policy.update([1.0, 0.0], click)
    >>> policy.predict([1.0, 0.0]).mean > 0.6
    True

    Args:
        dim: length of a feature vector.
        theta_bound: S >= ‖theta*‖. The theory's is 1 unless given. In practice it is not needed;
            where it is given it is a ball.
        ridge: lambda; L² in theory, d L²/100 in practice.
        radius_scale: multiplies the radius; 1 in theory, 0.5 in practice. Below 1 the theory's
            guarantee is gone.

    ``horizon``, ``arm_bound``, ``radius``, ``delta`` and ``fractions`` are as in ``GLBOMD``; a
    round's ``scale`` is not used.
    """

    name = "ECOLog"
    info = Info(
        method="likelihood",
        reference="Faury et al. 2022",
        regret="d sqrt(T mu')",
        cost="O(1)",
        storage="O(1)",
        moment="none",
        rewards="0 or 1",
        sources=(
            "*Certain*: the step and the growth of W. *Re-derived*: that the step is one equation "
            "in one number, a test compares it with a numerical minimiser; the radius is that of "
            "public code which names the paper's appendix, its C_t with the loss of the new "
            "estimate. *Decided*: D is the diameter 2 S L in the radius too, where that code has "
            "S; where the step leaves the ball it is projected, in the norm of its own model, and "
            "not solved within it; rounds whose slopes are too far apart are counted, not set "
            "aside as by the published adaptive version. *Ours*: practice."
        ),
    )
    algorithm = Algorithm(
        update=update,
        slots=(COMMON, LINKED, S),
        rank_one=True,
        half_widths=curvature_half_widths,
        reports=(report_spread,),
    )

    def __init__(
        self,
        dim: int,
        *,
        horizon: int | None = None,
        theta_bound: float | None = None,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        ridge: float | None = None,
        delta: float = DELTA,
        fractions: bool = False,
        radius_scale: float | None = None,
    ) -> None:
        check = self._start(dim, None, horizon)
        stated = self._start_linked(
            check, "logistic", radius, theta_bound=theta_bound, arm_bound=arm_bound, free=True
        )
        if ridge is None:
            own = own_ridge(self.dim, stated.arm_bound)
            ridge = stated.arm_bound**2 if stated.is_theory else own
        self._allocate(
            ridge=ridge, arm_bound=arm_bound, theta_bound=stated.theta_bound, room=self.dim
        )
        s = self._write_linked(
            stated,
            ridge=ridge / stated.arm_bound**2,
            delta=delta,
            fractions=fractions,
            radius_scale=radius_scale,
        )
        s[S.ETA] = 1.0 + stated.reach if stated.is_theory else 1.0
        s[S.PRIOR] = ridge * stated.theta_bound**2 if stated.is_theory else 0.0
        s[S.PER_ROUND] = stated.arm_bound**2 / (4.0 * ridge)
        s[S.THEORY] = stated.is_theory
        set_radius(s)

    @property
    def apart(self) -> int:
        """Rounds in which the slope at theta_bar was more than twice that at theta."""
        return int(self._s[S.APART])
