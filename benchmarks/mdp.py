"""Linear MDPs: time of whole runs, what learning one reward costs as the episodes go by, and where
Hvt-LSVI-UCB gains over LSVI-UCB.

    python -m benchmarks.mdp [episodes]
    python -m benchmarks.mdp --gain

1. 1,000 episodes of d = 10, H = 10, S = 20, A = 5, compiled, every agent, world and exact regret
   included. The mark is 20 s.
2. The reward part alone: microseconds a reward in the first and the last tenth of the episodes,
   ``lazy`` and ``newton`` naming the full-batch solver. One-pass means that the ratio stays near 1.

``--gain``: regret in random five-state MDPs of six families, under normal and t(1.7) noise times
0.3 and 1, over 300 and 1,500 episodes; default arguments, and ``clip=1.345`` beside them.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments.noise import Gaussian, Noise, StudentT
from heavytail.kernels.layout import CLIPPED
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
from heavytail.mdp.worlds import _tabular
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
    kernel, state, nu = policy.algorithm.update, policy.packed, policy._nu
    kernel(*state, features[0], rewards[0], nu)
    tenth = REWARDS // 10
    spent = []
    for t in range(1, REWARDS):
        start = time.perf_counter()
        kernel(*state, features[t], rewards[t], nu)
        spent.append(time.perf_counter() - start)
    return 1e6 * float(np.median(spent[:tenth])), 1e6 * float(np.median(spent[-tenth:]))


@dataclass(frozen=True)
class Times(Noise):
    """Another noise times a factor."""

    noise: Noise
    factor: float

    @property
    def index(self) -> float:
        return self.noise.index

    def moment(self, order: float) -> float:
        return self.factor**order * self.noise.moment(order)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.factor * self.noise.sample(rng, size)


STATES, ACTIONS, HORIZON = 5, 3, 5
SIZES = ((0.3, 300), (0.3, 1500), (1.0, 300), (1.0, 1500))  # of the noise, and episodes
WORLDS, TRIALS = 8, 2  # of a family, and of each of its worlds
GAIN_SEED = 611_953


def simplex(dim: int, *, bias: bool = False) -> Callable[[Noise, int], LinearMDP]:
    return lambda noise, seed: random_mdp(
        dim, noise=noise, states=STATES, actions=ACTIONS, horizon=HORIZON, concentration=1.0,
        bias=bias, seed=seed,
    )  # fmt: skip


def one_hot(stages: int) -> Callable[[Noise, int], LinearMDP]:
    """Features one-hot in (state, action); rewards and moves of so many stages drawn apart."""

    def build(noise: Noise, seed: int) -> LinearMDP:
        rng = np.random.default_rng([seed, 3])
        move = rng.dirichlet(np.ones(STATES), (stages, STATES, ACTIONS))
        pay = rng.random((stages, STATES, ACTIONS))
        if stages == 1:
            move, pay = move[0], pay[0]
        return _tabular(move, pay, HORIZON, noise, "Tabular")

    return build


FAMILIES = {
    "simplex, d = 3": simplex(3),
    "simplex, d = 5": simplex(5),
    "simplex, d = 8": simplex(8),
    "simplex and a constant, d = 5": simplex(5, bias=True),
    "one-hot, d = 15": one_hot(HORIZON),
    "one-hot, all stages alike": one_hot(1),
}
RIVALS: dict[str, Callable[[LinearMDP], Agent]] = {
    "LSVI": lambda w: LSVIUCB(w.features, w.horizon, tail=w.noise.tail(1.5)),
    "Hvt": lambda w: HvtLSVIUCB(w.features, w.horizon, tail=w.noise.tail(1.5)),
    "fixed": lambda w: HvtLSVIUCB(w.features, w.horizon, tail=w.noise.tail(1.5), clip=1.345),
    "uniform": lambda w: UniformAgent(w.features, w.horizon),
}


def final_regret(name: str, family: str, noise: Noise, episodes: int) -> tuple[FloatArray, float]:
    """Regret of an agent in each world of a family, and the share of rewards that it clipped."""
    regret, clipped = np.zeros((WORLDS, TRIALS)), []
    for i, k in itertools.product(range(WORLDS), range(TRIALS)):
        world = FAMILIES[family](noise, GAIN_SEED + i)
        agent = RIVALS[name](world)
        course, _ = run_agent(agent, world, np.random.SeedSequence([GAIN_SEED, i, k]), episodes)
        regret[i, k] = course[-1]
        if isinstance(agent, HvtLSVIUCB):
            clipped.append(agent.packed[0].reward_s[:, CLIPPED].mean() / episodes)
    return regret.mean(axis=1), float(np.mean(clipped or [0.0]))


def gains() -> None:
    """Two tables: by the size of the noise and the episodes, and by family where noise is large."""
    normal, heavy = Gaussian(1.0), StudentT(1.7)
    by_family: list[str] = []
    print("Regret over LSVI-UCB's: geometric mean of six families;")
    print(f"worlds of {len(FAMILIES) * WORLDS} without gain: those with at least LSVI-UCB's regret")
    print(
        "| noise | episodes | normal | without gain | t(1.7) | without gain | clipped "
        "| t(1.7), clip=1.345 | without gain | clipped |"
    )
    print("| --- " * 10 + "|")
    for factor, episodes in SIZES:
        columns: dict[str, list[float]] = {}
        lost: dict[str, int] = {}
        shares: dict[str, list[float]] = {}
        for family in FAMILIES:
            means: list[str] = []
            for law, base in (("normal", normal), ("t(1.7)", heavy)):
                noise = Times(base, factor)
                plain, _ = final_regret("LSVI", family, noise, episodes)
                means.append(f"{plain.mean():.0f}")
                for name in ("Hvt", "fixed"):
                    own, share = final_regret(name, family, noise, episodes)
                    key = f"{law} {name}"
                    columns.setdefault(key, []).append(own.mean() / plain.mean())
                    shares.setdefault(key, []).append(share)
                    lost[key] = lost.get(key, 0) + int((own >= plain).sum())
                    means.append(f"{own.mean():.0f}")
            if (factor, episodes) == SIZES[2]:
                idle, _ = final_regret("uniform", family, Times(heavy, factor), episodes)
                by_family.append(f"| {family} | {idle.mean():.0f} | {' | '.join(means)} |")
        cells = [f"{np.exp(np.mean(np.log(column))):.2f}" for column in columns.values()]
        n, _, t, c = cells
        keys = list(columns)
        print(
            f"| {factor:g} | {episodes:,} | {n} | {lost[keys[0]]} | {t} | {lost[keys[2]]} "
            f"| {np.mean(shares[keys[2]]):.0%} | {c} | {lost[keys[3]]} "
            f"| {np.mean(shares[keys[3]]):.0%} |",
            flush=True,
        )
    factor, episodes = SIZES[2]
    print(f"\nRegret, noise times {factor:g}, {episodes} episodes")
    laws = ("normal", "t(1.7)")
    heads = [f"{law}, {name}" for law in laws for name in ("LSVI-UCB", "Hvt", "clip=1.345")]
    print(f"| features | uniform | {' | '.join(heads)} |")
    print("| --- " * 8 + "|")
    print("\n".join(by_family))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("episodes", type=int, nargs="?", default=1000)
    parser.add_argument("--gain", action="store_true", help="regret beside LSVI-UCB's, not times")
    args = parser.parse_args(arguments)
    if args.gain:
        gains()
        return
    whole_runs(args.episodes)
    reward_updates()


if __name__ == "__main__":
    main()
