"""A linear MDP as a Gymnasium environment. Needs the extra ``heavytail[mdp]``."""

from __future__ import annotations

from typing import Any, ClassVar, SupportsInt

import numpy as np

from heavytail._extras import need
from heavytail._typing import IntArray
from heavytail._validate import shown
from heavytail.mdp.world import LinearMDP

need("heavytail.mdp.gym", "gymnasium", extra="mdp")
import gymnasium  # noqa: E402

__all__ = ["LinearMDPEnv"]


class LinearMDPEnv(gymnasium.Env[IntArray, np.int64]):  # type: ignore[misc]
    """Episodes of ``world``: observations (stage, state), actions 0..A-1, H steps, then terminated.

    The stage belongs to what is observed because rewards and transitions may depend on it. ``info``
    holds ``features``, phi(s, a) of the actions open now, shape (A, d), and after a step ``mean``,
    the reward without its noise.

    >>> import heavytail as ht
    >>> from heavytail.mdp import river_swim
    >>> from heavytail.mdp.gym import LinearMDPEnv
    >>> env = LinearMDPEnv(river_swim(noise=ht.noise.StudentT(2.1)))
    >>> observation, info = env.reset(seed=0)
    >>> observation
    array([0, 0])

    Args:
        world: the linear MDP.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, world: LinearMDP) -> None:
        if not isinstance(world, LinearMDP):
            raise TypeError(f"LinearMDPEnv.world must be a LinearMDP; got {shown(world)}.")
        self.world = world
        self.observation_space = gymnasium.spaces.MultiDiscrete([world.horizon + 1, world.states])
        self.action_space = gymnasium.spaces.Discrete(world.actions)
        self._stage = world.horizon  # no episode has begun
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[IntArray, dict[str, Any]]:
        super().reset(seed=seed)
        self._stage = 0
        self._state = int(self.np_random.choice(self.world.states, p=self.world.start))
        return self._observation(), self._info()

    def step(self, action: SupportsInt) -> tuple[IntArray, float, bool, bool, dict[str, Any]]:
        world, h, s = self.world, self._stage, self._state
        if h >= world.horizon:
            raise ValueError("LinearMDPEnv.step: no episode is under way; call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(
                f"LinearMDPEnv.step: action must lie in 0..{world.actions - 1}; "
                f"got {shown(action)}."
            )
        a = int(action)
        mean = float(world.means[h, s, a])
        noise = world.noise.sample(self.np_random, 1)
        factor = world.noise.factors(self.np_random, 1)
        eta = float(noise[0]) if factor is None else float(noise[0] * factor[0])
        self._state = world.next_state(h, s, a, float(self.np_random.random()))
        self._stage = h + 1
        info = {**self._info(), "mean": mean}
        return self._observation(), mean + eta, self._stage == world.horizon, False, info

    def _observation(self) -> IntArray:
        return np.array([self._stage, self._state], dtype=np.int64)

    def _info(self) -> dict[str, Any]:
        return {"features": self.world.features[self._state].copy()}
