"""AdaOFUL: Li and Sun (TMLR 2024), adaptive Huber regression for finite variance."""

from __future__ import annotations

from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.confidence import ada_oful_constants, ada_oful_radius
from heavytail.kernels import adaptive
from heavytail.kernels.adaptive import (
    PRIOR_ROOT,
    RADIUS_SCALE,
    RIDGE,
    SIGMA,
    TAU_T,
    observe,
)
from heavytail.kernels.batch import TAU, advance
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import OK, RADIUS, ROUNDS, THETA, THETA_BOUND
from heavytail.kernels.quadratic import extra_rows
from heavytail.policies.adaptive import set_constants, start
from heavytail.policies.base import check_tail, inverse_log
from heavytail.policies.history import HistoryPolicy
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["AdaOFUL"]

KAPPA: Final = adaptive.SLOTS
THEORY_TAU_0: Final = adaptive.SLOTS + 1  # before threshold_scale, for the radius
LOG_INVERSE_DELTA: Final = adaptive.SLOTS + 2
SLOTS: Final = adaptive.SLOTS + 3


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale."""
    radius = ada_oful_radius(
        s[ROUNDS], s[KAPPA], s[THEORY_TAU_0], s[LOG_INVERSE_DELTA], s[PRIOR_ROOT]
    )
    return s[RADIUS_SCALE] * radius


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: keep it, then Newton over everything kept from the last estimate."""
    code = observe(s, M, H, x, reward, nu)
    if code != OK:
        return code
    advance(M, H, int(s[ROUNDS]), THETA, s[RIDGE], s[THETA_BOUND], True)
    s[RADIUS] = current_radius(s)
    return OK


class AdaOFUL(HistoryPolicy):
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
        orders="2",
        horizon=True,
        uses_scale=True,
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
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        radius_scale: float = 0.0003,
        threshold_scale: float = 1.0,
    ) -> None:
        self._start(dim, check_tail("AdaOFUL", tail), horizon)
        if tail.order != 2.0:
            raise ValueError(
                f"AdaOFUL.tail must be of order 2; got order {tail.order}. Its loss and radius are "
                "for finite variance; for a lower order use HeavyOFUL or HvtUCB."
            )
        problem = start(
            self,
            SLOTS,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            ridge=ridge,
            delta=delta,
            sigma_min=sigma_min,
            radius_scale=radius_scale,
        )
        constants = ada_oful_constants(self.dim, horizon, **problem)
        set_constants(self, constants, tail.order, threshold_scale)
        s = self._s
        s[KAPPA] = constants.kappa
        s[THEORY_TAU_0] = constants.tau_0
        s[LOG_INVERSE_DELTA] = inverse_log("AdaOFUL", problem["delta"])
        s[RADIUS] = current_radius(s)
        self._allocate_history(self.dim + TAU + 1, sums=extra_rows(self.dim))

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the last round, in units of sigma_t."""
        return float(self._s[TAU_T])
