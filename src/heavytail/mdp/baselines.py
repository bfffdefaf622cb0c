"""Two agents that do not explore on purpose: one never learns, one only exploits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import State
from heavytail._validate import check_count
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import BAD_REWARD, OK
from heavytail.kernels.random import uniform
from heavytail.mdp.agent import Agent, LSVIAgent
from heavytail.mdp.planning import EPISODES, PLANNED, SWITCHES, count_stage
from heavytail.policies import OFUL
from heavytail.tails import MomentBound

__all__ = ["GreedyLSVI", "UniformAgent"]

KEY: Final = 4  # slot of c: the seed of the agent's own randomness


@jit
def plan(c: Any, table: Any, actions: Any) -> bool:
    """A policy drawn uniformly: over an episode the same as an action drawn at every stage."""
    if c[PLANNED] == 1.0:
        return False
    for h in range(table.shape[0]):
        for s in range(table.shape[1]):
            place = h * table.shape[1] + s
            draw = uniform(int(c[KEY]), int(c[EPISODES]), place)
            table[h, s] = min(int(draw * actions[0]), actions[0] - 1)
    c[PLANNED] = 1.0
    c[SWITCHES] += 1.0
    return True


@jit
def learn(
    h: int, row: int, reward: float, landed: int, nu: float, c: Any, table: Any, actions: Any
) -> int:
    """Count the stage; nothing is learned."""
    if not (abs(reward) < math.inf):
        return BAD_REWARD
    count_stage(c, h, table.shape[0])
    return OK


class UniformAgent(Agent):
    """Every action with the same probability; the regret of knowing nothing, linear in k.

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        tail: ignored, so that all agents can be built alike.
        seed: of its own randomness.
        feature_bound: the largest length of a feature vector.
    """

    name = "Uniform"
    plan_kernel = staticmethod(plan)

    def __init__(
        self,
        features: ArrayLike,
        horizon: int,
        *,
        tail: MomentBound | None = None,
        seed: int = 0,
        feature_bound: float = 1.0,
    ) -> None:
        self._start(features, horizon, tail, feature_bound)
        self._actions = np.array([self.actions], dtype=np.int64)
        self.reseed(seed)

    @property
    def packed(self) -> State:
        return (self._c, self._table, self._actions)

    @classmethod
    def learn_kernel(cls) -> Callable[..., int]:
        return learn

    def reseed(self, seed: int) -> None:
        self._c[KEY] = float(check_count("UniformAgent.seed", seed, least=0))


class GreedyLSVI(LSVIAgent):
    """Least-squares value iteration without a bonus: LSVI-UCB with both radii zero.

    It learns well where the world explores for it and can stay for ever where it does not
    (RiverSwim).

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        tail: ignored, so that all agents can be built alike.
        feature_bound: the largest length of a feature vector.
    """

    name = "Greedy LSVI"
    reward_kind = OFUL

    def __init__(
        self,
        features: ArrayLike,
        horizon: int,
        *,
        tail: MomentBound | None = None,
        feature_bound: float = 1.0,
    ) -> None:
        self._start(features, horizon, tail, feature_bound)
        self._allocate(
            OFUL(self.dim, noise_scale=0.0, arm_bound=feature_bound, radius_scale=0.0),
            value_bonus=0.0,
            delta=0.5,
            weighting="none",
            switching="every",
            monotone=False,
        )
