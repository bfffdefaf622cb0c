"""A round of Hvt-LowRank, from Python and compiled, and the size of its state.

    python -m benchmarks.low_rank

Microseconds of a round on pairs that are ready, 20 items. The mean holds the fits that come when
there are half as many rounds again, the medians do not, and the longest round is one of them;
compiled rounds are timed by the hundred.
"""

from __future__ import annotations

import time

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.policies.hvt_low_rank import select, update

ITEMS = 20
COUNT = 20_000
TOGETHER = 100


@jit
def play(s: Vector, M: Matrix, H: Matrix, arms: Matrix, rewards: Matrix) -> int:
    """Rounds with a row of rewards and ITEMS rows of arms each; the last code."""
    code = 0
    for t in range(rewards.shape[0]):
        a = select(s, M, H, arms[t * ITEMS : (t + 1) * ITEMS])
        code = update(s, M, H, arms[t * ITEMS + a], rewards[t, a], 1.0)
    return code


def ready(world: ht.LowRankBandit) -> tuple[FloatArray, FloatArray]:
    """Arms (COUNT, ITEMS, d1 + d2) and what each would pay."""
    arms, rewards = [], []
    for block in world.blocks(np.random.SeedSequence(1), COUNT):
        for t in range(block.length):
            offered, means = block.round(t)
            arms.append(np.array(offered))
            rewards.append(means + block.noise[t])
    return np.array(arms), np.array(rewards)


def from_python(policy: ht.Policy, arms: FloatArray, rewards: FloatArray) -> FloatArray:
    """Seconds of each round."""
    times = np.empty(len(arms))
    for t, (offered, pays) in enumerate(zip(arms, rewards.tolist(), strict=True)):
        start = time.perf_counter()
        arm = policy.select(offered)
        policy.update(offered[arm], pays[arm])
        times[t] = time.perf_counter() - start
    return times


def compiled(policy: ht.HvtLowRank, arms: FloatArray, rewards: FloatArray) -> FloatArray:
    """Seconds of a round, by the hundred."""
    policy.reserve(policy._state.most_kept)
    flat, times = arms.reshape(-1, arms.shape[2]), []
    for t in range(0, len(arms), TOGETHER):
        start = time.perf_counter()
        play(*policy._packed, flat[t * ITEMS : (t + TOGETHER) * ITEMS], rewards[t : t + TOGETHER])
        times.append((time.perf_counter() - start) / TOGETHER)
    return np.array(times)


def main() -> None:
    """Print a table."""
    columns = ("mean", "median", "compiled", "longest, ms", "state, kB")
    print("".ljust(32) + "".join(f"{column:>12}" for column in columns))
    for d, rank, stated in ((10, 2, 2), (10, 2, None), (30, 1, 1), (30, 1, None)):
        arms, rewards = ready(ht.LowRankBandit(d, d, rank, ITEMS, ht.noise.StudentT(1.7)))
        made = [ht.HvtLowRank(d, d, rank=stated, form="pairs") for _ in range(4)]
        from_python(made[0], arms[:500], rewards[:500])  # compiles
        compiled(made[1], arms[:500], rewards[:500])
        times = 1e6 * from_python(made[2], arms, rewards)
        inner = 1e6 * np.median(compiled(made[3], arms, rewards))
        figures = (times.mean(), np.median(times), inner, times.max() / 1000)
        name = f"d = {d}, rank {rank}, " + ("none stated" if stated is None else "stated")
        line = "".join(f"{figure:>12.1f}" for figure in figures)
        print(f"{name:<32}{line}{made[2].state_bytes / 1000:>12.0f}", flush=True)


if __name__ == "__main__":
    main()
