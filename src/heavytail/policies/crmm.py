"""CRMM: Xue, Wang, Wan, Yi and Zhang (NeurIPS 2023), the algorithm by means of medians."""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_count, check_number
from heavytail.confidence import crmm_noise, crmm_radius
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import LOG_DET, OK, RADIUS
from heavytail.kernels.one_pass import admit, learn
from heavytail.kernels.repeats import (
    OWN_EPOCH,
    PULLS,
    REPEATS,
    end_epoch,
    lay_meant,
    measure_meant,
    median,
)
from heavytail.policies.base import check_tail, inverse_log
from heavytail.policies.epochs import EpochPolicy, check_epoch
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["CRMM"]

NOISE: Final = OWN_EPOCH  # R, the bound on the medians' noise
LOG_INVERSE_DELTA: Final = OWN_EPOCH + 1
PRIOR_ROOT: Final = OWN_EPOCH + 2  # sqrt(lambda) S
SPAN: Final = OWN_EPOCH + 3  # 2 S L
RADIUS_SCALE: Final = OWN_EPOCH + 4
REWARDS: Final = OWN_EPOCH + 5  # r rewards of the running epoch, then room for as many


@jit
def current_radius(s: Vector) -> float:
    """The radius after the last epoch, with radius_scale."""
    radius = crmm_radius(s[LOG_DET], s[NOISE], s[LOG_INVERSE_DELTA], s[PRIOR_ROOT], s[SPAN])
    return s[RADIUS_SCALE] * radius


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep the reward; at the epoch's last pull take one Newton step on the median."""
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    count = int(s[REPEATS])
    pull = int(s[PULLS])
    if pull + 1 < count:
        s[REWARDS + pull] = reward
        lay_meant(s, M, x)
        return OK
    room = REWARDS + count
    for i in range(count - 1):
        s[room + i] = s[REWARDS + i]
    s[room + count - 1] = reward
    squared = measure_meant(s, M, x)
    z = median(s, room, count) - predict(M)
    code = learn(s, M, x.shape[0], squared, z, 1.0, 2.0, math.inf)
    if code != OK:
        return code
    end_epoch(s)
    s[RADIUS] = current_radius(s)
    return OK


class CRMM(EpochPolicy):
    r"""Optimism on medians of r pulls of one arm; one pass, O(n d²) an epoch and O(r) kept.

    $$\tilde y_n = \operatorname{median}(y_{n,1},\dots,y_{n,r}),\qquad
      \hat\theta_{n+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \tfrac12\|\theta-\hat\theta_n\|^2_{V_n} + (x_n^\top\hat\theta_n-\tilde y_n)\,x_n^\top\theta$$

    **Needs noise symmetric about zero**, and arms that can be played again. Then the regret is
    Õ(d sqrt(T)) with probability 1 - 2 delta at ``radius_scale=1``. Under skewed noise the median
    is not the mean and no number of pulls removes the difference: for centred Pareto noise of
    index 1.5 it is -1.41. ``select`` gives the same arm until its r pulls are spent, and where
    that arm is not offered the nearest one that is; the reward counts for the arm meant.

    >>> import heavytail as ht
    >>> policy = ht.CRMM(1, horizon=100, tail=ht.MomentBound(order=2.0, scale=1.0), repeats=3)
    >>> for reward in (1.0, 1e9, 0.8):
    ...     policy.update([1.0], reward)
    >>> policy.theta.round(3), policy.epochs
    (array([0.667]), 1)

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise.
        repeats: r; ceil(2 log(T/delta)) unless given.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.

    Note: the structure is the paper's, the constants are ours: r and the bound R on the medians
    by :func:`heavytail.confidence.crmm_noise`, the radius by
    :func:`heavytail.confidence.crmm_radius`, both derived there. The paper's r is O(log T) with a
    larger constant. There is no threshold to scale.
    """

    name = "CRMM"
    info = Info(
        method="median of pulls",
        reference="Xue et al. 2023",
        regret="d sqrt(T)",
        cost="O(1)",
        storage="O(log T)",
        moment="central",
        symmetric=True,
        repeats=True,
        horizon=True,
    )
    update_kernel = staticmethod(update)

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        repeats: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.03,
    ) -> None:
        horizon = check_count("CRMM.horizon", horizon)
        self._start(dim, check_tail("CRMM", tail), horizon)
        theta_bound = check_number("CRMM.theta_bound", theta_bound, above=0.0)
        arm_bound = check_number("CRMM.arm_bound", arm_bound, above=0.0)
        log_inverse_delta = inverse_log("CRMM", delta)
        given = None if repeats is None else check_count("CRMM.repeats", repeats)
        r = check_epoch("CRMM", horizon, lambda T: given or math.ceil(2.0 * math.log(T / delta)))
        self._allocate(REWARDS, ridge=ridge, arm_bound=arm_bound, theta_bound=theta_bound)
        self._extend(r, buffer=r, spare=r)
        s = self._s
        s[NOISE] = crmm_noise(tail.scale, tail.order, horizon, r, delta)
        s[LOG_INVERSE_DELTA] = log_inverse_delta
        s[PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[SPAN] = 2.0 * theta_bound * arm_bound
        s[RADIUS_SCALE] = check_number("CRMM.radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)
