"""VARA: Li and Sun (TMLR 2024), the linear-MDP half of AdaOFUL's paper."""

from __future__ import annotations

import math
from typing import final

from numpy.typing import ArrayLike

from heavytail._validate import Check
from heavytail.mdp.lsvi import LSVIAgent
from heavytail.policies import AdaOFUL
from heavytail.tails import MomentBound

__all__ = ["VARA"]


@final
class VARA(LSVIAgent):
    """Pseudo-Huber regression for rewards of finite variance, variance-weighted values, rare plans.

    The skeleton of :class:`heavytail.mdp.HeavyLSVIUCB` at p = 2, with AdaOFUL's loss, constants and
    radius for the rewards. Regret Õ(d sqrt(H G* K)) in the paper, G* the total variance along an
    optimal policy's way. A reward costs O(k d²), Newton over all of them; nothing is one-pass. It
    does not apply where the variance is infinite.

    >>> import heavytail as ht
    >>> from heavytail.mdp import VARA, random_mdp
    >>> environment = random_mdp(4, states=6, actions=3, horizon=3, noise=ht.noise.StudentT(2.1))
    >>> tail = ht.MomentBound(order=2.0, scale=environment.noise.scale(2.0))
    >>> agent = VARA(environment.features, environment.horizon, episodes=1000, tail=tail)
    >>> agent.act(0, 0) in range(3)
    True

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        episodes: K, for the constants of the regression.
        tail: the bound on the rewards' variance, of order 2.
        reward_bonus: multiplies the rewards' radius; 1 is the theory, which does not learn.
        value_bonus: multiplies the values' radius.
        threshold_scale: multiplies tau_0.
        weighting: "variance" or "none", of the value regression.
        switching: "doubling", or "every" for a plan before each episode.
        monotone: whether Q may never rise from plan to plan.
        delta: failure probability.
        feature_bound: the largest length of a feature vector.

    Note: a reconstruction. Certain is only that rewards go through AdaOFUL's regression and values
    through a variance-weighted one with optimistic and pessimistic values and rare switching; the
    value part here is HeavyLSVIUCB's, with what is reconstructed there, and its radii are not the
    paper's. The variance of a reward is taken as known.
    """

    name = "VARA"
    one_pass_rewards = False

    def __init__(
        self,
        features: ArrayLike,
        horizon: int,
        *,
        episodes: int,
        tail: MomentBound,
        reward_bonus: float = 1e-3,
        value_bonus: float = 0.1,
        threshold_scale: float = 0.1,
        weighting: str = "variance",
        switching: str = "doubling",
        monotone: bool = True,
        delta: float = 0.01,
        feature_bound: float = 1.0,
    ) -> None:
        check = Check(VARA)
        self._start(features, horizon, tail, feature_bound)
        reward = AdaOFUL(
            self.dim,
            horizon=check.count("episodes", episodes),
            tail=tail,
            theta_bound=math.sqrt(self.dim),
            arm_bound=feature_bound,
            delta=check.delta(delta),
            radius_scale=check.number("reward_bonus", reward_bonus, least=0.0),
            threshold_scale=threshold_scale,
        )
        self._allocate(
            reward,
            value_bonus=value_bonus,
            delta=delta,
            weighting=weighting,
            switching=switching,
            monotone=monotone,
        )
