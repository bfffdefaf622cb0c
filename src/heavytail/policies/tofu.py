"""TOFU: Shao, Yu, King and Lyu (NeurIPS 2018), truncation under optimism."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.confidence import theory_radius
from heavytail.kernels.gram import shrink
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    COMMON,
    FEATURE,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    Fixed,
    numbered,
)
from heavytail.kernels.one_pass import LARGEST, measure
from heavytail.kernels.quadratic import first_extra
from heavytail.kernels.truncation import add_truncated, begin, end
from heavytail.policies.core.algorithm import Algorithm, History, select_past_history
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["TOFU"]


class Slots(NamedTuple):
    """TOFU's own numbers."""

    ORDER: Fixed
    SLOPE: Fixed  # beta_t = SLOPE t^a + sqrt(lambda) S
    LEVEL: Fixed  # b_t = LEVEL t^a
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed


S: Final = numbered(Slots, after=COMMON)

# A row of H is x and, behind it, the reward.


def tofu_constants(
    dim: int, order: float, horizon: int, raw_scale: float, delta: float
) -> tuple[float, float]:
    """(slope, level) of TOFU, Shao et al. (NeurIPS 2018): beta_t = slope t^a + sqrt(lambda) S and
    the truncation level b_t = level t^a, with b = raw_scale^p >= E|r|^p, a = (2-p)/(2p).

    Note: the exponent 1/p of level is what balances the bias b t^(1-p/2) / b_t^(p-1) of truncation
    against b_t log(2T/delta). Published code has 1/2 there, right at p = 2 only.
    """
    T = float(horizon)
    level = raw_scale / math.log(2.0 * T / delta) ** (1.0 / order)
    spread = math.log(2.0 * dim * T / delta) ** ((order - 1.0) / order)
    return 4.0 * math.sqrt(dim) * raw_scale * spread, level


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale."""
    return s[S.RADIUS_SCALE] * theory_radius(s[ROUNDS], s[S.ORDER], s[S.SLOPE], s[S.PRIOR_ROOT])


@jit
def refit(s: Vector, M: Matrix, H: Matrix, count: int, level: float) -> bool:
    """theta of the first rows of H, see :mod:`heavytail.kernels.truncation`; True where the last
    of them is truncated in some coordinate. O(t d²).
    """
    size = M.shape[1]
    root = first_extra(size)
    begin(M, root)
    truncated = False
    for row in range(count):
        for i in range(size):
            M[FEATURE, i] = H[row, i]
        truncated = add_truncated(M, root, FEATURE, H[row, size], level)
    end(M, root)
    return truncated


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: keep it, then truncate every reward anew in the new coordinates."""
    size = M.shape[1]
    row = int(s[ROUNDS])
    t = s[ROUNDS] + 1.0
    level = s[S.LEVEL] * t ** time_exponent(s[S.ORDER])
    squared = measure(s, M, x)
    growth = 1.0 + squared
    if not (growth <= LARGEST and (level < math.inf or abs(reward) <= LARGEST)):
        return OVERFLOW
    for i in range(size):
        H[row, i] = M[FEATURE, i]
    H[row, size] = reward
    shrink(M, 1.0 / growth)
    s[ROUNDS] = t
    s[LOG_DET] += math.log(growth)
    if refit(s, M, H, row + 1, level):
        s[CLIPPED] += 1.0
    s[RADIUS] = current_radius(s)
    return OK


class TOFU(PackedPolicy):
    r"""Optimism with ridge regression on truncated rewards, truncated anew every round.

    $$\hat\theta_t = V_t^{-1/2}\Big[\sum_{s\le t} u_{is}\,y_s\,\mathbb 1\{|u_{is}\,y_s| \le
      b_t\}\Big]_{i\le d},\quad u_s = V_t^{-1/2}x_s,\quad b_t = \Big(\frac b{\log(2T/\delta)}
      \Big)^{\frac1p} t^{\frac{2-p}{2p}}$$

    with b >= E|y|^p, a moment of the reward itself: truncation pulls towards 0, so a large mean
    costs as much as noise does. With probability 1 - delta the regret is Õ(d T^(1/p)) at
    ``radius_scale=1``, which is optimal. A round costs O(t d²) and the history O(t d): coordinates
    turn with V_t, so which rewards are truncated changes from round to round.

    >>> import heavytail as ht
    >>> policy = ht.TOFU(2, horizon=1000, tail=ht.MomentBound(order=1.5, scale=1.0))
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
        delta: failure probability; 1/T unless given.
        radius_scale: multiplies the radius; 1 is the theory.
        threshold_scale: multiplies b_t; 1 is the theory, ``math.inf`` never truncates.

    Note: b_t has the exponent 1/p, see ``tofu_constants``. V^(-1/2) is the
    symmetric root. Kang and Kim (UAI 2023) point out that the proof's Bernstein step asks for a
    fixed design.
    """

    name = "TOFU"
    info = Info(
        method="truncation",
        reference="Shao et al. 2018",
        regret="d T^(1/p)",
        cost="O(t)",
        storage="O(t)",
        moment="raw",
        horizon=True,
        sources=(
            "*Certain*: the algorithm, from memory of the paper and three published scripts. *Re- "
            "derived*: the exponent 1/p of the threshold (scripts have 1/2, right only at p = 2, "
            "and 1/eps), by balancing bias against deviation. The published proof's Bernstein "
            "step asks for a fixed design."
        ),
    )
    algorithm = Algorithm(
        update=update, select=select_past_history, slots=(COMMON, S), history=History(1)
    )

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float | None = None,
        radius_scale: float = 0.03,
        threshold_scale: float = 1.0,
    ) -> None:
        check = self._start(dim, tail, horizon)
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        delta = min(1.0 / horizon, 0.5) if delta is None else delta
        delta = check.delta(delta)
        scale = check.number("threshold_scale", threshold_scale, above=0.0, infinite=True)
        self._allocate(ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf, room=2 * self.dim)
        raw_scale = tail.scale + theta_bound * arm_bound  # Minkowski: (E|y|^p)^(1/p) <= nu + S L
        slope, level = tofu_constants(self.dim, tail.order, horizon, raw_scale, delta)
        s = self._s
        s[S.ORDER] = tail.order
        s[S.SLOPE] = slope
        s[S.LEVEL] = scale * level
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)

    @property
    def truncated(self) -> int:
        """Rounds whose reward was truncated, in some coordinate, when it came."""
        return int(self._s[CLIPPED])
