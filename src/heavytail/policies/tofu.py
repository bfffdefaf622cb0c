"""TOFU: Shao, Yu, King and Lyu (NeurIPS 2018), truncation under optimism."""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_count, check_number
from heavytail.confidence import theory_radius, tofu_constants
from heavytail.kernels.gram import shrink
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    FEATURE,
    LOG_DET,
    OK,
    OVERFLOW,
    OWN,
    RADIUS,
    ROUNDS,
    SCRATCH,
    THETA,
)
from heavytail.kernels.one_pass import LARGEST, admit, measure
from heavytail.kernels.quadratic import first_extra
from heavytail.kernels.spectral import symmetric_root
from heavytail.policies.base import check_tail
from heavytail.policies.history import HistoryPolicy
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["TOFU"]

ORDER: Final = OWN
SLOPE: Final = OWN + 1  # beta_t = SLOPE t^a + sqrt(lambda) S
LEVEL: Final = OWN + 2  # b_t = LEVEL t^a
PRIOR_ROOT: Final = OWN + 3  # sqrt(lambda) S
RADIUS_SCALE: Final = OWN + 4
SLOTS: Final = OWN + 5

# A row of H is x and, behind it, the reward.


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale."""
    return s[RADIUS_SCALE] * theory_radius(s[ROUNDS], s[ORDER], s[SLOPE], s[PRIOR_ROOT])


@jit
def refit(s: Vector, M: Matrix, H: Matrix, count: int, level: float) -> bool:
    """theta = V^(-1/2) [sum_s u_is y_s 1{|u_is y_s| <= b_t}]_i, u_s = V^(-1/2) x_s. O(t d²).

    True where some coordinate of the last row is truncated.
    """
    size = M.shape[1]
    root = first_extra(size)
    symmetric_root(M, root, root + size)
    truncated = False
    for i in range(size):
        total = 0.0
        term = 0.0
        for row in range(count):
            u = 0.0
            for j in range(size):
                u += M[root + i, j] * H[row, j]
            term = u * H[row, size]
            total += term if abs(term) <= level else 0.0
        truncated = truncated or abs(term) > level
        M[SCRATCH, i] = total
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += M[root + i, j] * M[SCRATCH, j]
        M[THETA, i] = total
    return truncated


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: keep it, then truncate every reward anew in the new coordinates."""
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    size = M.shape[1]
    row = int(s[ROUNDS])
    t = s[ROUNDS] + 1.0
    level = s[LEVEL] * t ** time_exponent(s[ORDER])
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


class TOFU(HistoryPolicy):
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

    Note: b_t has the exponent 1/p, see :func:`heavytail.confidence.tofu_constants`. V^(-1/2) is the
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
    )
    update_kernel = staticmethod(update)

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
        horizon = check_count("TOFU.horizon", horizon)
        self._start(dim, check_tail("TOFU", tail), horizon)
        theta_bound = check_number("TOFU.theta_bound", theta_bound, above=0.0)
        arm_bound = check_number("TOFU.arm_bound", arm_bound, above=0.0)
        delta = min(1.0 / horizon, 0.5) if delta is None else delta
        delta = check_number("TOFU.delta", delta, above=0.0, below=1.0)
        scale = check_number("TOFU.threshold_scale", threshold_scale, above=0.0, infinite=True)
        self._allocate(
            SLOTS, ridge=ridge, arm_bound=arm_bound, theta_bound=math.inf, extra=2 * self.dim
        )
        raw_scale = tail.scale + theta_bound * arm_bound  # Minkowski: (E|y|^p)^(1/p) <= nu + S L
        slope, level = tofu_constants(self.dim, tail.order, horizon, raw_scale, delta)
        s = self._s
        s[ORDER] = tail.order
        s[SLOPE] = slope
        s[LEVEL] = scale * level
        s[PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[RADIUS_SCALE] = check_number("TOFU.radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)
        self._allocate_history(self.dim + 1)

    @property
    def truncated(self) -> int:
        """Rounds whose reward was truncated, in some coordinate, when it came."""
        return int(self._s[CLIPPED])
