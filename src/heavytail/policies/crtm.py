"""CRTM: Xue, Wang, Wan, Yi and Zhang (NeurIPS 2023), the algorithm by truncated means."""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_choice, check_count, check_number
from heavytail.confidence import crtm_constants
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import CLIPPED, OK, OWN, RADIUS
from heavytail.kernels.one_pass import admit, learn, measure
from heavytail.policies.base import PackedPolicy, check_tail
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["CRTM"]

LEVEL: Final = OWN  # Gamma
ALPHA: Final = OWN + 1  # 2: V <- V + x x'/2, the Newton step; 1: least squares
SLOTS: Final = OWN + 2


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the one-pass step on the truncated reward, which is 0 or the reward."""
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    squared = measure(s, M, x)
    kept = reward
    if math.sqrt(squared) * abs(reward) > s[LEVEL]:
        kept = 0.0
    z = kept - predict(M)
    code = learn(s, M, x.shape[0], squared, z, 1.0, s[ALPHA], math.inf)
    if code == OK and kept != reward:
        s[CLIPPED] += 1.0
    return code


class CRTM(PackedPolicy):
    r"""Optimism with rewards truncated to zero where they are too large; one pass, O(n d²) a round.

    $$\tilde y_t = y_t\,\mathbb 1\{\|x_t\|_{V_{t-1}^{-1}}|y_t|\le\Gamma\},\qquad
      \hat\theta_{t+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \tfrac12\|\theta-\hat\theta_t\|^2_{V_t} + (x_t^\top\hat\theta_t-\tilde y_t)\,x_t^\top\theta$$

    with $V_t = V_{t-1} + \tfrac12 x_t x_t^\top$. With probability 1 - delta the regret is
    Õ(d T^(1/p)) at ``radius_scale=1``. It truncates the reward itself, so its constants grow with
    the mean of the rewards, not only with their noise; where rewards are far from 0 prefer a
    policy with a central moment.

    >>> import heavytail as ht
    >>> policy = ht.CRTM(2, horizon=1000, tail=ht.MomentBound(order=1.5, scale=1.0))
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> policy.theta
    array([0., 0.])

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise; made one on the reward by Minkowski's inequality.
        form: "newton", the published step, or "least squares": ridge regression on the truncated
            rewards without a ball, as the Hvt-UCB paper runs it.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.
        threshold_scale: multiplies Gamma; 1 is the theory, ``math.inf`` never truncates.

    Note: the constants are certain at p = 2; for p < 2 see
    :func:`heavytail.confidence.crtm_constants`. The theorem is for the Newton form; least squares
    takes over its radius and Gamma with x x' in place of x x'/2. Every reward is a scale of its
    own: a round's ``scale`` is not used.
    """

    name = "CRTM"
    info = Info(
        method="truncation",
        reference="Xue et al. 2023",
        regret="d T^(1/p)",
        cost="O(1)",
        storage="O(1)",
        moment="raw",
        horizon=True,
    )
    update_kernel = staticmethod(update)
    rank_one = True

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        form: str = "newton",
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.001,
        threshold_scale: float = 1.0,
    ) -> None:
        horizon = check_count("CRTM.horizon", horizon)
        self._start(dim, check_tail("CRTM", tail), horizon)
        newton = check_choice("CRTM.form", form, ("newton", "least squares")) == "newton"
        theta_bound = check_number("CRTM.theta_bound", theta_bound, above=0.0)
        arm_bound = check_number("CRTM.arm_bound", arm_bound, above=0.0)
        ball = theta_bound if newton else math.inf
        self._allocate(SLOTS, ridge=ridge, arm_bound=arm_bound, theta_bound=ball)
        radius, level = crtm_constants(
            self.dim,
            tail.order,
            horizon,
            tail.scale + theta_bound * arm_bound,  # raw moment: Minkowski, ‖y‖_p <= nu + S L
            ridge=ridge,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            delta=check_number("CRTM.delta", delta, above=0.0, below=1.0),
            weight=0.5 if newton else 1.0,
        )
        threshold_scale = check_number(
            "CRTM.threshold_scale", threshold_scale, above=0.0, infinite=True
        )
        s = self._s
        s[ALPHA] = 2.0 if newton else 1.0
        s[LEVEL] = threshold_scale * level
        s[RADIUS] = check_number("CRTM.radius_scale", radius_scale, least=0.0) * radius

    @property
    def truncated(self) -> int:
        """Rewards that were taken as 0."""
        return int(self._s[CLIPPED])
