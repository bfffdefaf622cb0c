"""HEAVY-LSVI-UCB: Huang, Zhong, Wang and Yang (NeurIPS 2023), the linear-MDP half."""

from __future__ import annotations

import math
from typing import final

from numpy.typing import ArrayLike

from heavytail._validate import Check
from heavytail.mdp.lsvi import LSVIAgent
from heavytail.policies import HeavyOFUL
from heavytail.tails import MomentBound

__all__ = ["HeavyLSVIUCB"]


@final
class HeavyLSVIUCB(LSVIAgent):
    r"""Adaptive Huber regression for rewards, variance-weighted regression for values, rare plans.

    $$Q_h = \min\big\{\phi^\top(\hat\theta_h + \hat w_h) + \beta_{R,h}\|\phi\|_{R_h^{-1}} +
      \beta_{V,h}\|\phi\|_{\Sigma_h^{-1}},\ Q_h^{\text{before}},\ H-h+1\big\},\qquad
      \hat w_h = \Sigma_h^{-1}\sum_{i<k}\frac{\phi_{i,h} V_{h+1}(s_{i,h+1})}{\sigma_{i,h}^2}$$

    theta_h, R_h and beta_{R,h} are :class:`heavytail.HeavyOFUL`'s. sigma² is the estimated variance
    of V_{h+1}(s') plus bounds on its own error, E from the two regressions behind it and D from the
    distance between an optimistic and a pessimistic V. A new plan is made when some det R_h or det
    Sigma_h has doubled since the last. With the theory's radii the regret is
    Õ(d sqrt(H U*) K^(1/p) + d sqrt(H V* K)).

    Neither part is one-pass: a reward stays in memory and its Huber fit costs O(d³ + log k)
    amortised ("lazy") or O(k d²) ("newton"); values are relabelled at every plan, O(H d k).
    ``reward_bytes`` and ``state_bytes`` grow with k.

    >>> import heavytail as ht
    >>> from heavytail.mdp import HeavyLSVIUCB, random_mdp
    >>> environment = random_mdp(4, states=6, actions=3, horizon=3, noise=ht.noise.StudentT(1.7))
    >>> tail = environment.noise.tail(1.5)
    >>> agent = HeavyLSVIUCB(environment.features, environment.horizon, episodes=1000, tail=tail)
    >>> agent.act(0, 0) in range(3)
    True

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        episodes: K, for the constants of the Huber regression.
        tail: the moment bound on the rewards' noise.
        reward_bonus: multiplies the rewards' radius; 1 is the theory, which does not learn.
        value_bonus: multiplies the values' radius.
        threshold_scale: multiplies tau_0; 1 is the theory, which clips next to nothing.
        solver: "lazy" or "newton", as in :class:`heavytail.HeavyOFUL`.
        weighting: "variance" or "none", of the value regression.
        switching: "doubling", or "every" for a plan before each episode.
        monotone: whether Q may never rise from plan to plan, as published.
        delta: failure probability.
        feature_bound: the largest length of a feature vector.

    Note: certain are the two regressions and what they are weighted by, the pair of optimistic and
    pessimistic values, the doubling rule and the reward part, which is HEAVY-OFUL's. Reconstructed:
    beta_V is OFUL's self-normalised radius at noise 1 and ridge 1/R², R = H - h - 1 the range of
    V_{h+1}; E = 2 min(2 R beta_V n, R²) and D = min(2 R (phi'(w - w_low) + 2 beta_V n), R²) with
    n = ‖phi‖_{Sigma^-1}, where the paper has powers of d and H whose exact constants were not at
    hand and under which sigma would never leave its ceiling; the floors of sigma are sqrt(R) and n.
    Left out: the regression that learns the rewards' moment where it varies with phi; the scale is
    ``tail``'s, or the one given with a reward.
    """

    name = "Heavy-LSVI-UCB"
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
        solver: str = "lazy",
        weighting: str = "variance",
        switching: str = "doubling",
        monotone: bool = True,
        delta: float = 0.01,
        feature_bound: float = 1.0,
    ) -> None:
        check = Check(HeavyLSVIUCB)
        self._start(features, horizon, tail, feature_bound)
        reward = HeavyOFUL(
            self.dim,
            horizon=check.count("episodes", episodes),
            tail=tail,
            theta_bound=math.sqrt(self.dim),
            arm_bound=feature_bound,
            solver=check.choice("solver", solver, ("lazy", "newton")),
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
