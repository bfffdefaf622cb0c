"""The price in regret of learning with several models, each from its own part of the traffic.

``python -m benchmarks.fleet_shards``: visitors of 16 segments, 10 arms, rewards with Student's t
noise of 1.5 degrees of freedom (infinite variance). k models share the segments among them, so that
each learns from one k-th of the visits. In the first world theta is the same in all segments, in
the second each segment has its own, half as far from the common one as that is long. Regret is
counted in means, over all models, and given as the mean of paired trials.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import heavytail as ht

SEGMENTS, ARMS, DIM, DF = 16, 10, 8, 1.5
SHARDS = (1, 2, 4, 8, 16)


def regret(seed: int, shards: int, apart: float, rounds: int) -> float:
    """What one trial gives up. The world and the luck of a seed are the same for all ``shards``."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=DIM)
    own = rng.normal(size=(SEGMENTS, DIM))
    common /= np.linalg.norm(common)
    thetas = common + apart * own / np.linalg.norm(own, axis=1, keepdims=True)
    policies = [ht.TwinUCB(DIM) for _ in range(shards)]
    total = 0.0
    for _ in range(rounds):
        segment, noise = int(rng.integers(SEGMENTS)), float(rng.standard_t(DF))
        arms = rng.normal(size=(ARMS, DIM))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        means = arms @ thetas[segment]
        policy = policies[segment % shards]
        arm = policy.select(arms)
        policy.update(arms[arm], float(means[arm]) + 0.5 * noise)
        total += float(means.max() - means[arm])
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000, help="of all models together")
    parser.add_argument("--trials", type=int, default=10)
    args = parser.parse_args()
    print("| models | same theta, regret | of one model's | own thetas, regret | of one model's |")
    print("| --- | --- | --- | --- | --- |")
    base: list[float] = []
    for shards in SHARDS:
        cells = []
        for world, apart in enumerate((0.0, 0.5)):
            seeds = range(args.trials)
            all_of_them = [regret(seed, shards, apart, args.rounds) for seed in seeds]
            mean, error = np.mean(all_of_them), np.std(all_of_them, ddof=1) / args.trials**0.5
            base += [float(mean)] if shards == SHARDS[0] else []
            cells += [f"{mean:,.0f} ± {error:.0f}", f"{mean / base[world]:.2f}"]
        print(f"| {shards} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
