"""Linear MDPs: time of whole runs, and what learning one reward costs as the episodes go by.

    python -m benchmarks.mdp [episodes]

1. 1,000 episodes of d = 10, H = 10, S = 20, A = 5, compiled, every agent, world and exact regret
   included. The mark is 20 s.
2. The reward part alone: microseconds a reward in the first and the last tenth of the episodes,
   ``lazy`` and ``newton`` naming the full-batch solver. One-pass means that the ratio stays near 1.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from heavytail.environments.noise import StudentT
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
from heavytail.policies import AdaOFUL, HeavyOFUL, HvtUCB, PackedPolicy
from heavytail.tails import MomentBound

MARK = 20.0  # seconds
REWARDS = 4_000


def agents(world: LinearMDP, episodes: int) -> list[Agent]:
    tail = world.noise.tail(1.5)
    known = {"tail": tail}
    told = {"episodes": episodes}
    variance = MomentBound(order=2.0, scale=world.noise.scale(2.0))
    phi, H = world.features, world.horizon
    return [
        HvtLSVIUCB(phi, H, **known),
        HvtLSVIUCB(phi, H, switching="doubling", **known),
        HeavyLSVIUCB(phi, H, **known, **told),
        VARA(phi, H, tail=variance, **told),
        LSVIUCB(phi, H, **known),
        GreedyLSVI(phi, H),
        UniformAgent(phi, H),
    ]


def whole_runs(episodes: int) -> None:
    world = random_mdp(10, noise=StudentT(2.1), seed=1)
    print(f"{world}, {episodes:,} episodes; mark {MARK:g} s")
    for agent in agents(world, episodes):
        run_agent(agent.clone(), world, np.random.SeedSequence(0), 2)  # compile
        start = time.perf_counter()
        run_agent(agent, world, np.random.SeedSequence(0), episodes)
        seconds = time.perf_counter() - start
        rare = ", rare plans" if agent.switches < episodes else ""
        met = "" if seconds <= MARK else "  MISSED"
        print(f"  {agent.name + rare:<28} {seconds:7.2f} s   {agent.switches:>5} plans{met}")


def reward_updates() -> None:
    print(f"reward part alone, d = 10, us a reward over {REWARDS:,} rewards of one stage")
    tail = StudentT(2.1).tail(1.5)
    variance = MomentBound(order=2.0, scale=StudentT(2.1).scale(2.0))
    policies: dict[str, PackedPolicy] = {
        "one-pass (Hvt)": HvtUCB(10, tail=tail),
        "full batch, lazy (Heavy)": HeavyOFUL(10, horizon=REWARDS, tail=tail),
        "full batch, newton (Heavy)": HeavyOFUL(10, horizon=REWARDS, tail=tail, solver="newton"),
        "full batch, newton (VARA)": AdaOFUL(10, horizon=REWARDS, tail=variance),
    }
    for name, policy in policies.items():
        first, last = time_updates(policy)
        print(f"  {name:<28} {first:8.2f} {last:8.2f}   ratio {last / first:6.2f}")


def time_updates(policy: PackedPolicy) -> tuple[float, float]:
    """Median microseconds an update, in the first and the last tenth."""
    rng = np.random.default_rng(0)
    features = rng.dirichlet(np.full(10, 0.1), REWARDS)
    rewards = features @ rng.random(10) + rng.standard_t(2.1, REWARDS)
    policy.clone().update(features[0], float(rewards[0]))  # compile
    policy.reserve(REWARDS)
    kernel, state, nu = policy.update_kernel, policy.packed, policy._nu
    kernel(*state, features[0], rewards[0], nu)
    tenth = REWARDS // 10
    spent = []
    for t in range(1, REWARDS):
        start = time.perf_counter()
        kernel(*state, features[t], rewards[t], nu)
        spent.append(time.perf_counter() - start)
    return 1e6 * float(np.median(spent[:tenth])), 1e6 * float(np.median(spent[-tenth:]))


def main(episodes: int = 1000) -> None:
    """Both."""
    whole_runs(episodes)
    reward_updates()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
