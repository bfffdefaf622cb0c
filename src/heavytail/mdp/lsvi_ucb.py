"""LSVI-UCB: Jin, Yang, Wang and Jordan (COLT 2020), Algorithm 1."""

from __future__ import annotations

import math
from typing import final

from numpy.typing import ArrayLike

from heavytail._validate import Check
from heavytail.confidence import lsvi_radius
from heavytail.mdp.lsvi import LSVIAgent
from heavytail.policies import OFUL
from heavytail.tails import MomentBound

__all__ = ["LSVIUCB"]


@final
class LSVIUCB(LSVIAgent):
    r"""Optimistic least-squares value iteration: ridge regression for rewards and values alike.

    $$Q_h(s,a) = \min\Big\{\phi^\top\Lambda_h^{-1}\sum_{i<k}\phi_{i,h}\big[r_{i,h} +
      V_{h+1}(s_{i,h+1})\big] + \beta\,\|\phi\|_{\Lambda_h^{-1}},\ H-h+1\Big\}$$

    With bounded noise and beta = c d H sqrt(log(2dKH/delta)) the regret is Õ(sqrt(d³ H⁴ K)). Heavy
    tails have no such promise: one reward moves theta_h by as much as it likes. An episode costs
    O(H d (k + S A d)): the value targets of all k past episodes are relabelled, so it is not
    one-pass and ``state_bytes`` grows with k.

    **Theory** (``radius="theory"``, needs ``episodes``): that beta, c = 1, times ``reward_bonus``.
    **Practice** (the default): beta_R + beta_V, both OFUL's self-normalised radius, the reward's at
    the noise's scale and the value's at half its range; no covering argument, so no theorem.

    >>> import heavytail as ht
    >>> from heavytail.mdp import LSVIUCB, random_mdp
    >>> environment = random_mdp(4, states=6, actions=3, horizon=3, noise=ht.noise.Gaussian())
    >>> agent = LSVIUCB(environment.features, environment.horizon, noise_scale=1.0)
    >>> agent.act(0, 0) in range(3)
    True

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        noise_scale: R of the rewards; ``tail.scale`` where only ``tail`` is given.
        tail: taken for its scale alone, so that all agents can be built alike.
        reward_bonus: multiplies the rewards' radius; 0.3 in practice, 1 in the theory unless given.
        value_bonus: multiplies the values' radius.
        radius: "self-normalised" or "theory".
        episodes: K, for the theory.
        delta: failure probability.
        feature_bound: the largest length of a feature vector.

    Note: the paper's rewards are known and its regression is of r + V. By linearity the estimate
    here, in two parts, is the same; the parts are kept apart because only the reward's is one-pass.
    """

    name = "LSVI-UCB"

    def __init__(
        self,
        features: ArrayLike,
        horizon: int,
        *,
        noise_scale: float | None = None,
        tail: MomentBound | None = None,
        reward_bonus: float | None = None,
        value_bonus: float = 0.1,
        radius: str = "self-normalised",
        episodes: int | None = None,
        delta: float = 0.01,
        feature_bound: float = 1.0,
    ) -> None:
        check = Check(LSVIUCB)
        self._start(features, horizon, tail, feature_bound)
        theory = check.choice("radius", radius, ("self-normalised", "theory")) == "theory"
        if noise_scale is None and tail is None:
            raise ValueError(
                "LSVIUCB.noise_scale must be given (or tail, for its scale); got neither."
            )
        if episodes is not None:
            episodes = check.count("episodes", episodes)
        delta = check.delta(delta)
        if reward_bonus is None:
            reward_bonus = 1.0 if theory else 0.3
        scale = self.nu if noise_scale is None else noise_scale
        prior = math.sqrt(self.dim)
        if theory:
            if episodes is None:
                raise ValueError('LSVIUCB.episodes must be given for radius="theory".')
            prior = lsvi_radius(self.dim, self.horizon, episodes, delta)
        reward = OFUL(
            self.dim,
            noise_scale=0.0 if theory else check.number("noise_scale", scale, least=0.0),
            theta_bound=prior,
            arm_bound=feature_bound,
            delta=delta,
            radius_scale=check.number("reward_bonus", reward_bonus, least=0.0),
        )
        self._allocate(
            reward,
            value_bonus=0.0 if theory else value_bonus,
            delta=delta,
        )
