"""Linear MDPs with heavy-tailed rewards: environments, agents, simulation."""

from __future__ import annotations

from heavytail.mdp.agent import Agent
from heavytail.mdp.baselines import GreedyLSVI, UniformAgent
from heavytail.mdp.heavy_lsvi_ucb import HeavyLSVIUCB
from heavytail.mdp.hvt_lsvi_ucb import HvtLSVIUCB
from heavytail.mdp.lsvi_ucb import LSVIUCB
from heavytail.mdp.simulation import simulate_agents
from heavytail.mdp.vara import VARA
from heavytail.mdp.world import LinearMDP
from heavytail.mdp.worlds import combination_lock, random_mdp, river_swim

ALL: tuple[type[Agent], ...] = (
    HvtLSVIUCB,
    HeavyLSVIUCB,
    VARA,
    LSVIUCB,
    GreedyLSVI,
    UniformAgent,
)

__all__ = [
    "ALL",
    "LSVIUCB",
    "VARA",
    "Agent",
    "GreedyLSVI",
    "HeavyLSVIUCB",
    "HvtLSVIUCB",
    "LinearMDP",
    "UniformAgent",
    "combination_lock",
    "random_mdp",
    "river_swim",
    "simulate_agents",
]
