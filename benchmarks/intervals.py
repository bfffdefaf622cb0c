"""How often ``predict``'s 95 % interval at the arm chosen next holds that arm's true mean.

    python -m benchmarks.intervals --trials 40 --rounds 4000

Ten arms in three dimensions. Looked at every 250 rounds from the 1,000th on. The half width is in
mean gaps: what the arms of the trial lose, on average, to the best one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import heavytail as ht
from heavytail.environments import Block, Environment
from heavytail.kernels.reward import earned
from heavytail.policies import Policy

WORLDS: dict[str, Environment] = {
    "normal": ht.LinearBandit(3, 10, ht.noise.Gaussian(1.0)),
    "t(3)": ht.LinearBandit(3, 10, ht.noise.StudentT(3.0)),
    "t(1.7)": ht.LinearBandit(3, 10, ht.noise.StudentT(1.7)),
    "Pareto(1.5)": ht.LinearBandit(3, 10, ht.noise.Pareto(1.5)),
    "log-normal(1)": ht.LinearBandit(3, 10, ht.noise.LogNormal(1.0)),
    "contaminated": ht.LinearBandit(3, 10, ht.noise.Contaminated()),
    "size, log-normal(1)": ht.SkewedBandit(3, 10, "size"),
    "jackpot": ht.SkewedBandit(3, 10, "jackpot"),
    "catastrophe": ht.SkewedBandit(3, 10, "catastrophe"),
    "shop, amounts differ": ht.SkewedBandit(3, 10, "amounts"),
    "shop, dear converts rarely": ht.SkewedBandit(3, 10, "dear"),
}
POLICIES: dict[str, Callable[[], Policy]] = {
    "Twin-UCB": lambda: ht.TwinUCB(3),
    "Hvt-UCB": lambda: ht.HvtUCB(3),
}
FIRST, EVERY, SEED = 1_000, 250, 51_007


def pay(block: Block, t: int, arm: int) -> float:
    """What ``arm`` earns in round ``t`` of the block."""
    if block.shapes is None or block.events is None:
        return float(block.means[arm] + block.noise[t])
    return float(earned(block.shapes[arm], block.noise[t], *block.events[t]))


def episode(
    policy: Policy, world: Environment, rounds: int, seed: np.random.SeedSequence
) -> Iterator[tuple[bool, float]]:
    """At every checkpoint: whether the interval holds, and its half width in mean gaps."""
    done = 0
    for block in world.blocks(seed, rounds):
        gap = float(np.mean(block.means.max() - block.means))
        for t in range(block.length):
            arm = policy.select(block.arms)
            policy.update(block.arms[arm], pay(block, t, arm))
            done += 1
            if done >= FIRST and done % EVERY == 0:
                arm = policy.select(block.arms)
                _, low, high = policy.predict(block.arms[arm])
                yield bool(low <= block.means[arm] <= high), (high - low) / 2.0 / gap


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4_000)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()
    print(f"| world | {' | '.join(f'{name} | half width' for name in POLICIES)} |")
    print("| --- " * (2 * len(POLICIES) + 1) + "|")
    for name, world in WORLDS.items():
        cells = []
        for make in POLICIES.values():
            found = np.array(
                [
                    list(episode(make(), world, args.rounds, np.random.SeedSequence([SEED, trial])))
                    for trial in range(args.trials)
                ]
            )
            share, half = found.mean(axis=(0, 1))
            cells += [f"{share:.0%}", f"{half:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
