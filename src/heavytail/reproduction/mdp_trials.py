"""The trials of ``heavytail reproduce mdp``: its noises, its agents, and what its units call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments.noise import Gaussian, Noise, Pareto, StudentT
from heavytail.mdp import (
    LSVIUCB,
    VARA,
    Agent,
    GreedyLSVI,
    HeavyLSVIUCB,
    HvtLSVIUCB,
    LinearMDP,
    UniformAgent,
    random_mdp,
)
from heavytail.mdp.simulation import run_agent
from heavytail.simulation.results import checkpoints
from heavytail.simulation.trials import trial_seed
from heavytail.tails import MomentBound

__all__ = ["AGENTS", "NOISES", "agent_trial", "applies", "build", "environment_of"]

DIM, STATES, ACTIONS, HORIZON = 7, 8, 4, 5  # one of the features is a constant
RECORD = 100  # episodes at which regret is kept


@dataclass(frozen=True)
class Rewards:
    """A noise and the order of the moment that agents are told."""

    title: str
    noise: Noise
    order: float

    @property
    def finite_variance(self) -> bool:
        """Tell whether VARA's assumption holds."""
        return self.noise.index > 2.0


NOISES = {
    "gaussian": Rewards("N(0, 1)", Gaussian(), 2.0),
    "t2.1": Rewards("Student t, df 2.1", StudentT(2.1), 1.5),
    "t1.7": Rewards("Student t, df 1.7", StudentT(1.7), 1.5),
    "pareto": Rewards("Pareto 1.5, centred", Pareto(1.5), 1.3),
}
PLAIN_HEAVY = "Heavy-LSVI-UCB, plain values"
NO_CLIP = "Hvt-LSVI-UCB, no clip"
AGENTS: dict[str, tuple[type[Agent], dict[str, Any]]] = {
    HvtLSVIUCB.name: (HvtLSVIUCB, {}),
    NO_CLIP: (HvtLSVIUCB, {"clip": math.inf}),
    HeavyLSVIUCB.name: (HeavyLSVIUCB, {}),
    PLAIN_HEAVY: (HeavyLSVIUCB, {"weighting": "none", "switching": "every", "monotone": False}),
    VARA.name: (VARA, {}),
    LSVIUCB.name: (LSVIUCB, {}),
    GreedyLSVI.name: (GreedyLSVI, {}),
    UniformAgent.name: (UniformAgent, {}),
}


def environment_of(noise: str, seed: int, trial: int) -> LinearMDP:
    """The trial's own MDP, the same for all agents."""
    return random_mdp(
        DIM,
        states=STATES,
        actions=ACTIONS,
        horizon=HORIZON,
        noise=NOISES[noise].noise,
        bias=True,
        seed=int(trial_seed(seed, trial).generate_state(1)[0]),
    )


def agent_trial(
    name: str, noise: str, episodes: int, seed: int, trial: int, options: Mapping[str, Any]
) -> dict[str, FloatArray]:
    """One trial of agent ``name``, as one row: ``regret`` (1, kept), ``seconds`` (1, blocks).

    ``bytes`` (1, 2) is what the agent remembers at the end, and the reward part's share of it.
    """
    environment = environment_of(noise, seed, trial)
    agent = build(name, environment, NOISES[noise], episodes, **options)
    curve, seconds = run_agent(agent, environment, trial_seed(seed, trial), episodes)
    kept = checkpoints(episodes, RECORD)
    sizes = np.array([agent.state_bytes, agent.reward_bytes], dtype=float)
    return {"regret": curve[None, kept - 1], "seconds": seconds[None], "bytes": sizes[None]}


def build(name: str, world: LinearMDP, rewards: Rewards, episodes: int, **options: Any) -> Agent:
    """The agent for an environment, told the exact moment; VARA the variance."""
    kind, own = AGENTS[name]
    order = 2.0 if kind is VARA else rewards.order
    tail = MomentBound(order=order, scale=rewards.noise.scale(order))
    if kind in (HeavyLSVIUCB, VARA):
        options = {"episodes": episodes, **options}
    if "tail" in inspect.signature(kind).parameters:
        options = {"tail": tail, **options}
    return kind(world.features, world.horizon, **own, **options)


def applies(name: str, noise: str) -> bool:
    """Tell whether the agent's assumptions allow it there: VARA needs a finite variance."""
    return name != VARA.name or NOISES[noise].finite_variance
