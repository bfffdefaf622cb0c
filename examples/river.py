"""Swim up the river: rewards with heavy tails, and an agent that is not carried away by them.

python examples/river.py
"""

from __future__ import annotations

import heavytail as ht
from heavytail.mdp import GreedyLSVI, HvtLSVIUCB, UniformAgent, river_swim, simulate_agents


def main() -> None:
    world = river_swim(noise=ht.noise.StudentT(1.7), states=3, horizon=6)
    tail = world.noise.tail(1.5)
    agents = [
        HvtLSVIUCB(world.features, world.horizon, tail=tail),
        GreedyLSVI(world.features, world.horizon),
        UniformAgent(world.features, world.horizon),
    ]
    results = simulate_agents(agents, world, episodes=1000, trials=4, seed=0)
    print(f"{world}: the best policy earns {world.optimal_value:.2f} an episode")
    print(results.table())


if __name__ == "__main__":
    main()
