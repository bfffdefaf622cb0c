"""Two agents that do not explore on purpose: one never learns, one only exploits."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import IntArray, Vector
from heavytail._validate import GREATEST, LEAST, Check
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import BAD_REWARD, BAD_SCALE, OK, Count, numbered
from heavytail.kernels.random import uniform
from heavytail.mdp.agent import Agent
from heavytail.mdp.lsvi import LSVIAgent
from heavytail.mdp.planning import COUNTS, EPISODES, PLANNED, SWITCHES, count_stage
from heavytail.policies import OFUL

__all__ = ["GreedyLSVI", "UniformAgent"]


class Slots(NamedTuple):
    """The uniform agent's own scalar, behind the common ones."""

    KEY: Count  # the seed of the agent's own randomness


SLOTS: Final = numbered(Slots, after=COUNTS)


class Lots(NamedTuple):
    """The arrays that the uniform agent's kernels work on."""

    counts: Vector
    table: IntArray  # (H, S): the actions of the current episode
    actions: IntArray  # (1,): A


@jit
def draw_plan(lots: Lots) -> bool:
    """A policy drawn uniformly: over an episode the same as an action drawn at every stage."""
    counts, table = lots.counts, lots.table
    if counts[PLANNED] == 1.0:
        return False
    for h in range(table.shape[0]):
        for s in range(table.shape[1]):
            place = h * table.shape[1] + s
            draw = uniform(int(counts[SLOTS.KEY]), int(counts[EPISODES]), place)
            table[h, s] = min(int(draw * lots.actions[0]), lots.actions[0] - 1)
    counts[PLANNED] = 1.0
    counts[SWITCHES] += 1.0
    return True


@jit
def count_only(h: int, row: int, reward: float, landed: int, nu: float, lots: Lots) -> int:
    """Count the stage; nothing is learned."""
    if not (abs(reward) < np.inf):
        return BAD_REWARD
    if not (LEAST <= nu <= GREATEST):
        return BAD_SCALE
    count_stage(lots.counts, h, lots.table.shape[0])
    return OK


@final
class UniformAgent(Agent):
    """Every action with the same probability; the regret of knowing nothing, linear in k.

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        seed: of its own randomness.
        feature_bound: the largest length of a feature vector.
    """

    name = "Uniform"
    counts = (COUNTS, SLOTS)

    def __init__(
        self, features: ArrayLike, horizon: int, *, seed: int = 0, feature_bound: float = 1.0
    ) -> None:
        self._start(features, horizon, None, feature_bound)
        self.plan_kernel, self.learn_kernel = draw_plan, count_only
        self._counts = np.zeros(len(COUNTS) + len(SLOTS))
        self._actions = np.array([self.actions], dtype=np.int64)
        self.reseed(seed)

    @property
    def packed(self) -> tuple[Any]:
        return (Lots(self._counts, self._table, self._actions),)

    def reseed(self, seed: int) -> None:
        self._counts[SLOTS.KEY] = float(Check(UniformAgent).seed(seed))


@final
class GreedyLSVI(LSVIAgent):
    """Least-squares value iteration without a bonus: LSVI-UCB with both radii zero.

    It learns well where the environment explores for it and can stay for ever where it does not
    (RiverSwim).

    Args:
        features: phi, shape (S, A, d).
        horizon: H.
        feature_bound: the largest length of a feature vector.
    """

    name = "Greedy LSVI"

    def __init__(self, features: ArrayLike, horizon: int, *, feature_bound: float = 1.0) -> None:
        self._start(features, horizon, None, feature_bound)
        reward = OFUL(self.dim, noise_scale=0.0, arm_bound=feature_bound, radius_scale=0.0)
        self._allocate(reward, value_bonus=0.0, delta=0.5)
