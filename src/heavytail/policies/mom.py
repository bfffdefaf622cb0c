"""MoM: Medina and Yang (ICML 2016), median of means over batches of pulls."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, LOG_DET, OK, OVERFLOW, RADIUS, Fixed, behind, numbered
from heavytail.kernels.one_pass import LARGEST, learn
from heavytail.kernels.repeats import (
    EPOCH,
    end_epoch,
    lay_meant,
    measure_meant,
    median,
)
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.epochs import EpochPolicy, check_epoch, in_epochs
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["MoM"]


class Slots(NamedTuple):
    """MoM's own numbers."""

    GROUPS: Fixed  # k
    MEAN_WIDTH: Fixed  # the error of a median of means
    LOG_BATCHES: Fixed  # log(m/delta)
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed


S: Final = numbered(Slots, after=EPOCH)
SUMS: Final = behind(S)  # k sums of a group's rewards, then room for as many

ROUNDING: Final = 1e-9  # a power that should be whole is not rounded up for its last bit


@jit
def mom_radius(
    log_det: float, n: float, mean_width: float, log_batches: float, prior_root: float
) -> float:
    """mean_width (sqrt(2 log(m det(V_n)^(1/2)/delta)) + sqrt(n)) + sqrt(lambda) S after n batches.

    Medina and Yang (ICML 2016), section 4: ``mean_width`` bounds a median of means,
    (12 v)^(1/p) (8 log(2m/delta)/r)^((p-1)/p); ``log_batches`` is log(m/delta).
    """
    return mean_width * (math.sqrt(log_det + 2.0 * log_batches) + math.sqrt(n)) + prior_root


@jit
def current_radius(s: Vector) -> float:
    """beta_n, with radius_scale."""
    radius = mom_radius(
        s[LOG_DET], s[EPOCH.EPOCHS], s[S.MEAN_WIDTH], s[S.LOG_BATCHES], s[S.PRIOR_ROOT]
    )
    return s[S.RADIUS_SCALE] * radius


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Add the reward to its group; at the batch's last pull learn the median of the means."""
    groups = int(s[S.GROUPS])
    pull = int(s[EPOCH.PULLS])
    size = int(s[EPOCH.REPEATS]) // groups  # N pulls a group
    at = SUMS + pull // size
    total = reward if pull % size == 0 else s[at] + reward
    if not (abs(total) <= LARGEST):
        return OVERFLOW
    if pull + 1 < int(s[EPOCH.REPEATS]):
        s[at] = total
        lay_meant(s, M, x)
        return OK
    room = SUMS + groups
    for g in range(groups - 1):
        s[room + g] = s[SUMS + g] / size
    s[room + groups - 1] = total / size
    squared = measure_meant(s, M, x)
    z = median(s, room, groups) - predict(M)
    code = learn(s, M, x.shape[0], squared, z, 1.0, 1.0, math.inf)
    if code != OK:
        return code
    end_epoch(s)
    s[RADIUS] = current_radius(s)
    return OK


class MoM(EpochPolicy):
    r"""Optimism with ridge regression on medians of means of long batches; O(n d²) per batch.

    $$r = \left\lceil T^{\frac{p}{3p-2}}\right\rceil,\qquad
      \beta_n = (12v)^{\frac1p}\left(\frac{8\log(2m/\delta)}r\right)^{\frac{p-1}p}
      \left(\sqrt{2\log\frac{m\det(V_n)^{1/2}}\delta} + \sqrt n\right) + \sqrt\lambda S$$

    A batch is r pulls of one arm in k groups; the median of the group means is one sample of a
    ridge regression, m = T/r batches in all. With probability 1 - delta the regret is
    Õ(d T^((2p-1)/(3p-2))) at ``radius_scale=1``, short of the optimal T^(1/p). Arms must be
    playable again, r times; a batch is about sqrt(T) pulls at p = 2, more below.

    >>> import heavytail as ht
    >>> policy = ht.MoM(1, horizon=18_000, tail=ht.MomentBound(order=2.0, scale=1.0))
    >>> policy.repeats, policy.groups
    (126, 42)

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise; v = nu^p.
        groups: k; floor(8 log(2/delta)) unless given. 1 takes the plain mean.
        repeats: pulls of a batch, cut to a multiple of ``groups``; r as above unless given.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.

    Note: r is cut to a whole number of groups (126 for 135 above): the paper plays the pulls left
    over and uses none of them. There is no threshold to scale.
    """

    name = "MoM"
    info = Info(
        method="median of means",
        reference="Medina and Yang 2016",
        regret="d T^((2p-1)/(3p-2))",
        cost="O(1)",
        storage="O(1)",
        moment="central",
        repeats=True,
        horizon=True,
        sources=(
            "*Certain*: number and length of batches, groups, and radius, read in the paper. "
            "*Decided*: a batch is cut to a whole number of groups, since the paper plays the "
            r"rest and uses none of it; $\sqrt\lambda S$ for 1."
        ),
    )
    algorithm = in_epochs(Algorithm(update=update, slots=(COMMON, EPOCH, S)))

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        groups: int | None = None,
        repeats: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.01,
    ) -> None:
        check = self._start(dim, tail, horizon)
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        log_inverse_delta = check.log_inverse(delta)
        k = math.floor(8.0 * (math.log(2.0) + log_inverse_delta)) if groups is None else groups
        k = check.count("groups", k)
        given = None if repeats is None else check.count("repeats", repeats, least=k)
        r = check_epoch(check, horizon, lambda T: _batch(given or _pulls(T, tail.order), k, T))
        self._allocate_epochs(
            r,
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,  # ridge regression, without a ball
            runs={"sums": k},
            spare=k,
        )
        batches = horizon / r
        error = (8.0 * (math.log(2.0 * batches) + log_inverse_delta) / r) ** (
            1.0 - 1.0 / tail.order
        )
        s = self._s
        s[S.GROUPS] = k
        s[S.MEAN_WIDTH] = 12.0 ** (1.0 / tail.order) * tail.scale * error
        s[S.LOG_BATCHES] = math.log(batches) + log_inverse_delta
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)

    @property
    def groups(self) -> int:
        """k, the groups of a batch."""
        return int(self._s[S.GROUPS])


def _pulls(horizon: int, order: float) -> int:
    """r = ceil(T/m) with m = T^(2 eps/(1 + 3 eps)) batches."""
    return math.ceil(horizon ** (order / (3.0 * order - 2.0)) - ROUNDING)


def _batch(pulls: int, groups: int, horizon: int) -> int:
    """``pulls`` cut to whole groups; more than the horizon where some group would have none."""
    return pulls // groups * groups if pulls >= groups else horizon + groups
