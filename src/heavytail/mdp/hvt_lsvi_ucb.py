"""Hvt-LSVI-UCB: the one-pass Huber estimator of Hvt-UCB for the rewards of a linear MDP."""

from __future__ import annotations

import math
from typing import Any, final

from numpy.typing import ArrayLike

from heavytail._validate import Check
from heavytail.mdp.lsvi import LSVIAgent
from heavytail.policies import HvtUCB
from heavytail.tails import MomentBound

__all__ = ["HvtLSVIUCB"]


@final
class HvtLSVIUCB(LSVIAgent):
    r"""Optimistic value iteration whose reward part is Hvt-UCB's: a mirror-descent step per stage.

    $$Q_h = \min\big\{\phi^\top(\hat\theta_h + \hat w_h) + \beta_{R,h}\|\phi\|_{R_h^{-1}} +
      \beta_{V,h}\|\phi\|_{\Sigma_h^{-1}},\ H-h+1\big\}$$

    theta_h, R_h and beta_{R,h} are :class:`heavytail.HvtUCB`'s own kernel and practical radius;
    w_h, Sigma_h are the variance-weighted ridge regression of V_{h+1} that
    :class:`heavytail.mdp.HeavyLSVIUCB` uses. It has no theorem: the discussion of Wang et al. (ICML
    2025) expects HeavyLSVIUCB's rate, and its practical radius leaves that behind too.

    **What is one-pass and what is not.** A reward is learned in O(d²) time and never stored:
    ``reward_bytes`` does not depend on the episode. The values are not: w_h is regressed anew on
    all past transitions at every plan, so ``state_bytes`` grows by 24 H bytes per episode
    and a plan costs O(H d k). ``switching="doubling"`` limits plans to O(d H log k).

    >>> import heavytail as ht
    >>> from heavytail.mdp import HvtLSVIUCB, random_mdp
    >>> environment = random_mdp(4, states=6, actions=3, horizon=3, noise=ht.noise.StudentT(1.7))
    >>> tail = environment.noise.tail(1.5)
    >>> agent = HvtLSVIUCB(environment.features, environment.horizon, tail=tail)
    >>> agent.act(0, 0) in range(3)
    True

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        tail: the moment bound on the rewards' noise.
        reward_bonus: multiplies the rewards' radius.
        value_bonus: multiplies the values' radius.
        clip: a fixed threshold in typical residual sizes, instead of one that grows and finds the
            mean. 1.345 learns faster from symmetric noise and is led astray by any other.
        threshold_scale: multiplies a fixed threshold, or the least one of one that grows.
        intercept: a constant feature of the rewards, which absorbs the clip's bias. Its share is
            part of Q: without it V could stand at its floor of 0 in every state.
        weighting: "variance" or "none", of the value regression.
        switching: "doubling" plans once a determinant has doubled, "every" before each episode.
        monotone: whether Q may never rise from plan to plan.
        delta: failure probability.
        feature_bound: the largest length of a feature vector.

    Note: at H = 1 with ``switching="every"`` it is Hvt-UCB, choice for choice.
    """

    name = "Hvt-LSVI-UCB"

    def __init__(
        self,
        features: ArrayLike,
        horizon: int,
        *,
        tail: MomentBound,
        reward_bonus: float = 0.3,
        value_bonus: float = 0.1,
        clip: float | None = None,
        threshold_scale: float = 1.0,
        intercept: bool = True,
        weighting: str = "none",
        switching: str = "every",
        monotone: bool = False,
        delta: float = 0.01,
        feature_bound: float = 1.0,
    ) -> None:
        check = Check(HvtLSVIUCB)
        self._start(features, horizon, tail, feature_bound)
        if tail is None:
            raise TypeError("HvtLSVIUCB.tail must be a MomentBound(order, scale); got None.")
        own: dict[str, Any] = {} if clip is None else {"clip": clip}
        reward = HvtUCB(
            self.dim,
            tail=tail,
            theta_bound=math.sqrt(self.dim),
            ridge=float(
                self.dim
            ),  # in units of the rewards: plans are few where determinants double
            arm_bound=feature_bound,
            threshold_scale=threshold_scale,
            **own,
            intercept=check.flag("intercept", intercept),
            delta=check.delta(delta),
            radius_scale=check.number("reward_bonus", reward_bonus, least=0.0),
        )
        self._allocate(
            reward,
            value_bonus=value_bonus,
            delta=delta,
            weighting=weighting,
            switching=switching,
            monotone=monotone,
        )
