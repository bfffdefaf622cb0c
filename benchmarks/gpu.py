"""The GPU engine: ``make bench-gpu``, on a machine with an NVIDIA GPU.

One run prints the time of 10^6 trials of the paper's main experiment (d = 2, 50 arms, Student's t
with 2.1 degrees of freedom, T = 18,000), the CPU's rate by two threads, and both engines' mean and
median regret over the same trials; then, for every one-pass policy, a short run on both.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import heavytail as ht
from heavytail.experiments.machine import machine
from heavytail.policies import ALL, PackedPolicy
from heavytail.simulation import cuda
from heavytail.simulation.distribution import distribution

WORLD = ht.LinearBandit(2, arms=50, noise=ht.noise.StudentT(2.1))


def policies(horizon: int) -> list[ht.Policy]:
    tail = WORLD.noise.tail(1.99)
    return [
        ht.TwinUCB(2),
        ht.HvtUCB(2, tail=tail, horizon=horizon),
        ht.OFUL(2, tail=tail, horizon=horizon, radius_scale=1.0),
        ht.Uniform(2),
    ]


def every_one_pass_policy(trials: int = 1_024, rounds: int = 1_000) -> None:
    """Both engines over the same trials, one line a policy."""
    print(f"\n{trials} trials of {rounds} rounds on both engines")
    tail = ht.MomentBound(order=2.0, scale=4.0)  # what every policy takes
    for kind in ALL:
        if kind.info.rewards != "any":  # clicks and counts: not this world's rewards
            continue
        policy = ht.make_policy(kind.name, dim=2, horizon=18_000, tail=tail, arms=50)
        if not isinstance(policy, PackedPolicy) or len(policy.packed) != 2:
            continue
        run = {"rounds": rounds, "seed": 0, "record": 1}
        distribution(policy, WORLD, trials=32, engine="cuda", **run)
        start = time.perf_counter()
        gpu = distribution(policy, WORLD, trials=trials, engine="cuda", **run)
        seconds = time.perf_counter() - start
        cpu = distribution(policy, WORLD, trials=trials, engine="compiled", **run)
        equal = np.isclose(cpu.regret[-1], gpu.regret[-1], 1e-6).mean()
        print(
            f"  {policy.name:14} {seconds:7.3f} s; mean regret, CPU {cpu.mean[-1]:.3f}, "
            f"GPU {gpu.mean[-1]:.3f} (standard error {cpu.error[-1]:.3f}); equal in {equal:.1%}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=18_000)
    parser.add_argument("--compare", type=int, default=2_000, help="trials run on the CPU as well")
    parser.add_argument("--repeat", type=int, default=2)
    args = parser.parse_args()
    problem = cuda.explain()
    if problem:
        raise SystemExit(problem)
    print(f"{cuda.device_name()}; {machine()}")
    for policy in policies(args.rounds):
        run = {"rounds": args.rounds, "seed": 0, "record": 8}
        start = time.perf_counter()
        distribution(policy, WORLD, trials=32, engine="cuda", **run)
        print(f"\n{policy.name}: compiled in {time.perf_counter() - start:.1f} s", flush=True)
        seconds = []
        for _ in range(args.repeat):
            start = time.perf_counter()
            gpu = distribution(policy, WORLD, trials=args.trials, engine="cuda", **run)
            seconds.append(time.perf_counter() - start)
        rate = args.trials * args.rounds / min(seconds)
        print(
            f"  GPU  {args.trials} trials of {args.rounds} rounds: {min(seconds):.2f} s, "
            f"{rate / 1e6:.0f} million rounds a second",
            flush=True,
        )
        distribution(policy, WORLD, trials=2, engine="compiled", **run)
        start = time.perf_counter()
        cpu = distribution(policy, WORLD, trials=128, engine="compiled", jobs=2, **run)
        cpu_rate = 128 * args.rounds / (time.perf_counter() - start)
        print(
            f"  CPU  two threads: {cpu_rate / 1e6:.2f} million rounds a second; "
            f"the GPU is {rate / cpu_rate:.0f} times as fast",
            flush=True,
        )
        cpu = distribution(policy, WORLD, trials=args.compare, engine="compiled", **run)
        same = gpu.regret[-1, : args.compare]
        spread = cpu.regret[-1].std(ddof=1) / np.sqrt(args.compare)
        equal = np.isclose(cpu.regret[-1], same, 1e-6).mean()
        print(
            f"  first {args.compare} trials, CPU / GPU: "
            f"mean {cpu.mean[-1]:.3f} / {same.mean():.3f} (standard error {spread:.3f}), "
            f"median {np.median(cpu.regret[-1]):.3f} / {np.median(same):.3f}, "
            f"equal to 1e-6 in {equal:.1%}"
        )
        print(gpu.table(), flush=True)
    every_one_pass_policy()


if __name__ == "__main__":
    main()
