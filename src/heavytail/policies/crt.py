"""CRT: Medina and Yang (ICML 2016), confidence regions with truncation."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import CLIPPED, COMMON, LOG_DET, OK, RADIUS, ROUNDS, Fixed, numbered
from heavytail.kernels.one_pass import learn, measure
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["CRT"]


class Slots(NamedTuple):
    """CRT's own numbers."""

    ORDER: Fixed
    RAW_POWER: Fixed  # v = E|y|^p
    LOG_INVERSE_DELTA: Fixed
    LOG_HORIZON: Fixed
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed
    THRESHOLD_SCALE: Fixed


S: Final = numbered(Slots, after=COMMON)


@jit
def crt_radius(
    log_det: float,
    t: float,
    order: float,
    log_inverse_delta: float,
    raw_power: float,
    log_horizon: float,
    prior_root: float,
) -> float:
    """2 sqrt(2 t^(1/p) (log(det(V_t)^(1/2)/delta) + v² log T)) + sqrt(lambda) S.

    Medina and Yang (ICML 2016), Theorem 1, with v = E|y|^p and sqrt(lambda) S for its 1. Corollary
    2 as printed loses the power of t in the second term; the proof has it.
    """
    inner = 0.5 * log_det + log_inverse_delta + raw_power * raw_power * log_horizon
    return 2.0 * math.sqrt(2.0 * t ** (1.0 / order) * inner) + prior_root


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale."""
    radius = crt_radius(
        s[LOG_DET],
        s[ROUNDS],
        s[S.ORDER],
        s[S.LOG_INVERSE_DELTA],
        s[S.RAW_POWER],
        s[S.LOG_HORIZON],
        s[S.PRIOR_ROOT],
    )
    return s[S.RADIUS_SCALE] * radius


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Ridge regression on rewards, each truncated once, at its own round's level."""
    level = s[S.THRESHOLD_SCALE] * (s[ROUNDS] + 1.0) ** (0.5 / s[S.ORDER])
    kept = reward if abs(reward) <= level else 0.0
    squared = measure(s, M, x)
    code = learn(s, M, x.shape[0], squared, kept - predict(M), 1.0, 1.0, math.inf)
    if code != OK:
        return code
    if kept != reward:
        s[CLIPPED] += 1.0
    s[RADIUS] = current_radius(s)
    return OK


class CRT(PackedPolicy):
    r"""Optimism with ridge regression on truncated rewards; one pass, O(n d²) per round.

    $$\tilde y_t = y_t\,\mathbb 1\{|y_t|\le t^{\frac1{2p}}\},\qquad
      \beta_t = 2\sqrt{2\,t^{1/p}\left(\log\frac{\det(V_t)^{1/2}}\delta + v^2\log T\right)}
      + \sqrt\lambda S$$

    With probability 1 - delta the regret is Õ(d T^((p+1)/(2p))) at ``radius_scale=1``, short of the
    optimal T^(1/p). The level t^(1/(2p)) does not know the unit of the reward: it is meant for
    rewards of order one, and others should be rescaled (or ``threshold_scale`` set).

    >>> import heavytail as ht
    >>> policy = ht.CRT(2, horizon=1000, tail=ht.MomentBound(order=1.5, scale=1.0))
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> policy.theta
    array([0., 0.])

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise; made one on the reward by Minkowski's inequality.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.
        threshold_scale: multiplies the truncation level; 1 is the theory, ``math.inf`` never
            truncates.

    Note: the radius is Theorem 1's, not Corollary 2's, see
    ``crt_radius``. The paper is written for losses and S = L = lambda = 1.
    """

    name = "CRT"
    info = Info(
        method="truncation",
        reference="Medina and Yang 2016",
        regret="d T^((p+1)/2p)",
        cost="O(1)",
        storage="O(1)",
        moment="raw",
        horizon=True,
        sources=(
            "*Certain*: truncation at $t^{1/(2p)}$ and Theorem 1's radius, read in the paper. "
            "*Corrected*: Corollary 2 as printed loses a power of t that its proof has; Theorem 1 "
            r"is used. *Decided*: $\sqrt\lambda S$ for the paper's 1, since its S and λ are 1."
        ),
    )
    algorithm = Algorithm(update=update, slots=(COMMON, S), rank_one=True)

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.003,
        threshold_scale: float = 1.0,
    ) -> None:
        check = self._start(dim, tail, horizon)
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        self._allocate(ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf)
        s = self._s
        s[S.ORDER] = tail.order
        # Raw moment in power form: Minkowski, E|y|^p <= (nu + S L)^p.
        s[S.RAW_POWER] = (tail.scale + theta_bound * arm_bound) ** tail.order
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(delta)
        s[S.LOG_HORIZON] = math.log(horizon)
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[S.THRESHOLD_SCALE] = check.number(
            "threshold_scale", threshold_scale, above=0.0, infinite=True
        )
        s[RADIUS] = current_radius(s)

    @property
    def truncated(self) -> int:
        """Rewards that were taken as 0."""
        return int(self._s[CLIPPED])
