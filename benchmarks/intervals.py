"""How often ``predict``'s 95 % interval holds an arm's true mean: of the arm chosen next, of those
played OFTEN times or more, and of those played less often, that were given up.

    python -m benchmarks.intervals --trials 40 --rounds 4000

Ten arms in three dimensions. Looked at every 250 rounds from the 1,000th on. The half width is in
mean gaps: what the arms of the trial lose, on average, to the best one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray, IntArray
from heavytail.environments import Block, Environment
from heavytail.kernels.reward import earned
from heavytail.policies import Policy

WORLDS: dict[str, Environment] = {
    "normal": ht.LinearBandit(3, 10, ht.noise.Gaussian(1.0)),
    "t(3)": ht.LinearBandit(3, 10, ht.noise.StudentT(3.0)),
    "t(1.7)": ht.LinearBandit(3, 10, ht.noise.StudentT(1.7)),
    "Pareto(1.2)": ht.LinearBandit(3, 10, ht.noise.Pareto(1.2)),
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
FIRST, EVERY, OFTEN, SEED = 1_000, 250, 200, 51_007


def pay(block: Block, t: int, arm: int) -> float:
    """What ``arm`` earns in round ``t`` of the block."""
    if block.shapes is None or block.events is None:
        return float(block.means[arm] + block.noise[t])
    return float(earned(block.shapes[arm], block.noise[t], *block.events[t]))


def episode(
    policy: Policy, world: Environment, rounds: int, seed: np.random.SeedSequence
) -> Iterator[tuple[FloatArray, IntArray, int, FloatArray]]:
    """At every checkpoint, of all arms: whether the interval holds, how often each was played,
    which is chosen next, and the half widths in mean gaps.
    """
    done, played = 0, np.zeros(10, dtype=np.int64)
    for block in world.blocks(seed, rounds):
        gap = float(np.mean(block.means.max() - block.means))
        for t in range(block.length):
            arm = policy.select(block.arms)
            policy.update(block.arms[arm], pay(block, t, arm))
            done, played[arm] = done + 1, played[arm] + 1
            if done >= FIRST and done % EVERY == 0:
                _, low, high = np.array([policy.predict(x) for x in block.arms]).T
                held = (low <= block.means) & (block.means <= high)
                yield held, played.copy(), policy.select(block.arms), (high - low) / 2.0 / gap


def summary(make: Callable[[], Policy], world: Environment, rounds: int, trials: int) -> list[str]:
    """The shares that hold, of arms chosen, played often and given up, and the half width."""
    shares: dict[str, list[bool]] = {"chosen": [], "often": [], "seldom": []}
    halves = []
    for trial in range(trials):
        seed = np.random.SeedSequence([SEED, trial])
        for held, played, arm, half in episode(make(), world, rounds, seed):
            shares["chosen"].append(bool(held[arm]))
            shares["often"].extend(held[played >= OFTEN])
            shares["seldom"].extend(held[played < OFTEN])
            halves.append(half[arm])
    return [*(f"{np.mean(share):.0%}" for share in shares.values()), f"{np.mean(halves):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4_000)
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()
    columns = f"chosen | {OFTEN} rounds or more | fewer | half width"
    print(f"| world | {' | '.join(f'{name}: {columns}' for name in POLICIES)} |")
    print("| --- " * (4 * len(POLICIES) + 1) + "|")
    for name, world in WORLDS.items():
        cells = [
            cell
            for make in POLICIES.values()
            for cell in summary(make, world, args.rounds, args.trials)
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
