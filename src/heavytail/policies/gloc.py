"""GLOC: Jun, Bhargava, Nowak and Willett (NIPS 2017), from online learning to a confidence set."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import MOST
from heavytail.kernels.ball import project
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    DIRECTION,
    FEATURE,
    INVERSE,
    OK,
    OUT_OF_RANGE,
    OVERFLOW,
    RADIUS,
    SCRATCH,
    Fixed,
    Size,
    numbered,
)
from heavytail.kernels.links import link_mean, within
from heavytail.kernels.one_pass import LARGEST, learn, measure
from heavytail.links import Link
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.info import Info
from heavytail.policies.core.linked import (
    DELTA,
    LINKED,
    LinkedPolicy,
    floored_slope,
    noise_of,
    report_spread,
)
from heavytail.tails import MomentBound

__all__ = ["GLOC"]


class Slots(NamedTuple):
    """GLOC's own numbers."""

    KAPPA: Fixed
    BALL: Fixed  # S, of the learner alone
    NOISE_SCALE: Fixed  # R
    UNIT: Fixed  # of a score: R with the identity link, 1 otherwise
    REGRET: Size  # B_t, the bound on the learner's regret
    RESIDUAL: Size  # sum z² - theta_hat' sum z x


L: Final = LINKED
S: Final = numbered(Slots, after=LINKED)


@jit
def learner_row(M: Matrix) -> int:
    """The row of M with the learner's theta: the first behind the common ones."""
    return INVERSE + 2 * M.shape[1] + 1


@jit
def converted(regret: float, noise: float, kappa: float, log_inverse_delta: float) -> float:
    """q_t: how far, in sum of squares, a learner's scores are from the true ones at most.

    q = 1 + (4/kappa) B + (8 R²/kappa²) log((2/delta) sqrt(1 + (2/kappa) B + 4 R⁴/(kappa⁴ delta²))),
    B a bound on the learner's regret in the losses m(z) - y z.
    """
    ratio = noise / kappa
    a = math.log1p(2.0 * regret / kappa)
    b = math.log(4.0) + 4.0 * math.log(ratio) + 2.0 * log_inverse_delta
    both = max(a, b) + math.log1p(math.exp(-abs(a - b)))
    inside = math.log(2.0) + log_inverse_delta + 0.5 * both
    return 1.0 + 4.0 * regret / kappa + 8.0 * ratio * ratio * inside


@jit
def current_radius(s: Vector) -> float:
    """The radius of the set about theta_hat, with radius_scale: lambda S² is in L.RIDGE."""
    unit = s[S.UNIT]
    regret = s[S.REGRET] / unit / unit
    q = converted(regret, s[S.NOISE_SCALE] / unit, s[S.KAPPA], s[L.LOG_INVERSE_DELTA])
    squared = unit * unit * q + s[L.RIDGE] - s[S.RESIDUAL]
    return s[L.RADIUS_SCALE] * math.sqrt(max(squared, 0.0))


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: theta_hat regresses the learner's scores, the learner the reward."""
    if not within(s[L.LINK], reward, s[L.FRACTIONS]):
        return OUT_OF_RANGE
    squared = measure(s, M, x)
    at = learner_row(M)
    z = 0.0
    for i in range(M.shape[1]):
        z += M[at, i] * M[FEATURE, i]
    g = link_mean(s[L.LINK], z) - reward
    growth = 1.0 + squared
    step = -g / (s[S.KAPPA] * growth)
    regret = s[S.REGRET] + 0.5 * g * g * squared / growth / s[S.KAPPA]
    off = z - predict(M)
    residual = s[S.RESIDUAL] + off * off / growth
    if not (abs(g) <= LARGEST and regret <= LARGEST and residual <= LARGEST):
        return OVERFLOW
    for i in range(M.shape[1]):
        if not (abs(M[at, i] + step * M[DIRECTION, i]) <= LARGEST):
            return OVERFLOW
    code = learn(s, M, x.shape[0], squared, off, 1.0, 1.0, math.inf)
    if code != OK:
        return code
    size = M.shape[1]
    for i in range(size):
        M[at, i] += step * M[DIRECTION, i]
    P = M[INVERSE : INVERSE + size]
    project(P, M[at], s[S.BALL], M[SCRATCH], M[INVERSE + size : at])
    s[S.REGRET] = regret
    s[S.RESIDUAL] = residual
    s[RADIUS] = current_radius(s)
    return OK


class GLOC(LinkedPolicy):
    r"""A confidence set from what an online learner predicted, whatever the link. O(n d²) a round.

    $$\hat\theta_t = V_t^{-1}\sum_{s\le t} z_s x_s,\qquad z_s = x_s^\top\theta_s,\qquad
      \|\theta^*-\hat\theta_t\|^2_{V_t} \le q(B_t) + \lambda S^2
      - \Bigl(\sum_{s\le t} z_s^2 - \hat\theta_t^\top\sum_{s\le t} z_s x_s\Bigr)$$

    The learner is an online Newton step within the ball, $\theta_{t+1} = \operatorname{Proj}_{V_t}
    (\theta_t - (\mu(z_t)-y_t)V_t^{-1}x_t/\kappa)$; B_t bounds its regret, and q turns that into the
    size of a set. The index is $x^\top\hat\theta_t$ plus the set's half-width.

    **Theory** (``radius="theory"``): for R-sub-Gaussian rewards the set holds theta* for all t with
    probability 1 - delta, and the regret is Õ(d sqrt(T) / kappa), kappa the least slope of the link
    within the ball. Heavy tails void both R and B_t.

    **Practice** (the default): kappa is at least 0.05, and 0.1 of that radius. No theorem's.

    >>> import heavytail as ht
    >>> policy = ht.GLOC(2, link="logistic")
    >>> for click in (1, 0, 1, 1, 0, 1):
    ...     policy.update([1.0, 0.0], click)
    >>> policy.theta.round(3)
    array([0.337, 0.   ])

    Args:
        dim: length of a feature vector.
        link: as GLBOMD's, in theory "probit" too.
        noise_scale: R, of a reward about its mean; as GLMUCB's.
        tail: taken for its scale alone, with the identity link.
        theta_bound: S >= ‖theta*‖; the learner's ball.
        least_slope: kappa; unless given, the link's within the ball, in practice at least 0.05.
        ridge: lambda.
        radius_scale: multiplies the radius; 1 in theory, 0.1 in practice. Below 1 the theory's
            guarantee is gone.

    ``horizon``, ``arm_bound``, ``radius``, ``delta`` and ``fractions`` are as in ``GLBOMD``; a
    round's ``scale`` is not used.
    """

    name = "GLOC"
    info = Info(
        method="online to confidence",
        reference="Jun et al. 2017",
        regret="d sqrt(T)",
        cost="O(1)",
        storage="O(1)",
        moment="sub-Gaussian",
        sources=(
            "*Certain*: the conversion and the learner; public code has the same constants, but "
            "S where R belongs, and drops the bracket. *Decided*: with the identity link scores "
            "are taken in units of R, so that nothing hangs on that of the rewards: q adds 1 to "
            "sums of squared scores; at R = 1 it is the paper's. *Ours*: practice."
        ),
    )
    # The set's intervals in practice too: its norm is not that of a curvature.
    algorithm = Algorithm(
        update=update, slots=(COMMON, LINKED, S), rank_one=True, reports=(report_spread,)
    )
    exploration = 0.1

    def __init__(
        self,
        dim: int,
        *,
        link: str | Link = "identity",
        noise_scale: float | None = None,
        tail: MomentBound | None = None,
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
        check = self._start(dim, tail, horizon)
        stated = self._start_linked(
            check, link, radius, theta_bound=theta_bound, arm_bound=arm_bound
        )
        kappa = floored_slope(stated, least_slope)
        R = check.number("noise_scale", noise_of(stated, noise_scale, tail), above=0.0)
        self._allocate(
            ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf, rows={"learner": None}
        )
        prior = ridge * stated.theta_bound**2
        s = self._write_linked(
            stated, ridge=prior, delta=delta, fractions=fractions, radius_scale=radius_scale
        )
        s[S.KAPPA] = kappa
        s[S.BALL] = stated.theta_bound
        s[S.NOISE_SCALE] = R
        s[S.UNIT] = R if self.link.name == "identity" else 1.0
        s[S.REGRET] = 2.0 * kappa * s[L.RIDGE]
        s[RADIUS] = current_radius(s)

    def reward_problem(self, reward: float, scale: float | None = None) -> str:
        """B_t adds up (mu(z) - y)² / kappa, which no number of rounds may take out of the range."""
        problem = super().reward_problem(reward, scale)
        most = math.sqrt(LARGEST * min(self._s[S.KAPPA], 1.0) / MOST)
        if problem or abs(reward) <= most:
            return problem
        return (
            f"GLOC: reward must be at most {most:.3g} in size; got {reward!r}. Change the unit of "
            "the reward."
        )

    @property
    def learner(self) -> FloatArray:
        """The online learner's own estimate, a copy; ``theta`` is the centre of the set."""
        return self._M[learner_row(self._M)].copy()
