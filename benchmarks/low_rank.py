"""A round of the low-rank policies, compiled, and the size of their state.

    python -m benchmarks.low_rank

Time of a round from Python on arms that are ready: the mean, which holds the fits that come when
rounds have doubled, and the median, which does not.
"""

from __future__ import annotations

import time

import numpy as np

import heavytail as ht


def rounds(policy: ht.Policy, world: ht.LowRankBandit, count: int) -> tuple[float, float]:
    """Microseconds of a round played from Python on ready arms: the mean, and the median."""
    times = np.empty(count)
    done = 0
    for block in world.blocks(np.random.SeedSequence(1), count):
        for t in range(block.length):
            arms, means = block.round(t)
            start = time.perf_counter()
            arm = policy.select(arms)
            policy.update(arms[arm], float(means[arm] + block.noise[t]))
            times[done] = time.perf_counter() - start
            done += 1
    return 1e6 * float(times.mean()), 1e6 * float(np.median(times))


def main() -> None:
    """Print a table."""
    print(f"{'':<28}{'mean us':>10}{'median us':>11}{'state, kB':>11}")
    for d, rank, arms, count in ((10, 2, 20, 20_000), (30, 1, 20, 20_000)):
        for law in (ht.noise.Gaussian(), ht.noise.StudentT(1.7)):
            world = ht.LowRankBandit(d, d, rank, arms, law)
            rounds(ht.HvtLowRank(d, d, rank=rank, form="pairs"), world, 500)  # compiles
            policy = ht.HvtLowRank(d, d, rank=rank, form="pairs")
            mean, median = rounds(policy, world, count)
            name = f"d = {d}, rank {rank}, {type(law).__name__}"
            print(f"{name:<28}{mean:>10.1f}{median:>11.1f}{policy.state_bytes / 1000:>11.0f}")


if __name__ == "__main__":
    main()
