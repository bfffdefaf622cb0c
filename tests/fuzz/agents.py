"""Calls on every agent in a linear MDP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.player import Call, Player, through_file
from tests.fuzz.values import BAD_COUNTS, BAD_NUMBERS, BAD_SCALES, shown

import heavytail as ht
from heavytail import mdp

WORLD = mdp.random_mdp(
    3, noise=ht.noise.StudentT(1.7), states=4, actions=2, horizon=2, bias=True, seed=2
)
WHOLE: list[Callable[[int], Any]] = [int, float, np.int64, np.int8, np.float32]


def told(kind: type[mdp.Agent]) -> dict[str, Any]:
    """What ``kind`` must be told beside the features and the horizon."""
    if kind in (mdp.GreedyLSVI, mdp.UniformAgent):
        return {}
    tail = ht.MomentBound(2.0 if kind is mdp.VARA else 1.5, 1.0)
    more = {"episodes": 500} if kind in (mdp.HeavyLSVIUCB, mdp.VARA) else {}
    return {"tail": tail, **more}


class AgentPlayer(Player):
    """An agent, and the stage that comes next."""

    @property
    def stage(self) -> int:
        return int(self.subject.state["scalars"]["stage"])

    def acts(self, subject: Any) -> Any:
        return [subject.act(self.stage, state) for state in range(WORLD.states)]

    def transition(self) -> list[Any]:
        """Stage, state, action, reward, next state: whole numbers in any type that holds them."""
        rng, whole = self.rng, self.pick(WHOLE)
        reward = float(rng.standard_t(1.7))
        state, action, landed = (int(rng.integers(k)) for k in (4, 2, 4))
        return [whole(self.stage), whole(state), whole(action), reward, whole(landed)]

    def good(self) -> None:
        kind = self.rng.integers(8)
        if kind < 4:
            self.subject.update(*self.transition(), scale=self.pick([None, 1.0, 2, 0.3]))
        elif kind == 4:
            self.subject.act(*self.transition()[:2])
        elif kind == 5:
            self.subject = self.subject.clone()
        elif kind == 6:
            _ = self.subject.policy, self.subject.state_bytes
        elif self.rng.random() < 0.1:
            self.subject = through_file(self.subject)

    def bad(self) -> Call:
        place, given = int(self.rng.integers(5)), self.transition()
        known = [WORLD.horizon, WORLD.states, WORLD.actions, None, WORLD.states][place]
        given[place] = self.pick(BAD_NUMBERS if place == 3 else [*BAD_COUNTS, known])
        if place == 0 and self.rng.random() < 0.3:
            given[0] = (self.stage + 1) % WORLD.horizon
        call, scale = ", ".join(map(shown, given)), self.pick(BAD_SCALES)
        options: list[Call] = [
            (f"update({call})", lambda: self.subject.update(*given)),
            (
                f"update(scale={shown(scale)})",
                lambda: self.subject.update(*self.transition(), scale=scale),
            ),
        ]
        if place < 2:
            options.append((f"act({call})", lambda: self.subject.act(*given[:2])))
        return self.pick(options)


def builders() -> list[Callable[[], mdp.Agent]]:
    """Every agent."""
    return [
        lambda kind=kind: kind(WORLD.features, WORLD.horizon, **told(kind))  # type: ignore[misc]
        for kind in mdp.ALL
    ]
