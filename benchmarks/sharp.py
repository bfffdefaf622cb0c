"""The sharp width measured: does it break, what does it cost, how does its regret grow.

``python -m benchmarks.sharp coverage`` attacks it (``--engine cuda`` on a GPU), ``regret`` plays
the whole of it beside Lemma 1's radius and the untuned default, ``growth`` fits the exponents in T,
d and p, ``round`` times it beside OFUL. Constants were chosen on other seeds and other worlds.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import beta as beta_law
from scipy.stats import binom

import heavytail as ht
from benchmarks.rounds import block_of, compiled, least
from benchmarks.sharp_attack import (
    ADVERSARY,
    EITHER,
    LINE,
    NORMAL,
    OWN,
    PARETO,
    RARE,
    REACTING,
    STUDENT,
    worst_distances,
)
from heavytail.experiments.machine import machine
from heavytail.simulation.counter import start_state

DELTA = 0.05
SEED = 20_261_118
FEWER = {20: 4, 50: 100}  # times: a round costs d²
WHO = {OWN: "its own", ADVERSARY: "adversary", LINE: "one line"}


def laws(order: float) -> Iterator[tuple[str, int, float, float, float]]:
    """A name, the law, its scale (moment^(1/order)), its parameter, how far nu_t goes."""
    index = order + 0.1
    pareto = ht.noise.Pareto(index).scale(order)
    yield "normal", NORMAL, ht.noise.Gaussian(1.0).scale(order), 0.0, 0.0
    yield f"t({index:.1f})", STUDENT, ht.noise.StudentT(index).scale(order), index, 0.0
    yield f"Pareto({index:.1f})", PARETO, pareto, index, 0.0
    yield f"Pareto({index:.1f}), nu_t over 1,000", PARETO, pareto, -index, 3.0
    yield "50 rarely", RARE, 1.0, 50.0, 0.0
    yield "-50 rarely", RARE, 1.0, -50.0, 0.0
    yield "two-point, reacting, at the clip", REACTING, 1.0, 0.0, 0.0
    yield "two-point, reacting, up to 4 clips", REACTING, 1.0, 3.0, 0.0
    yield "two-point, reacting, nu_t over 1,000", REACTING, 1.0, 1.0, 3.0


def coverage(args: argparse.Namespace) -> None:
    """The share of trials in which the set missed the truth at some time, and by how much."""
    print(f"Sharp width, delta = {DELTA}: trials in which the set missed the truth at some time.")
    print(f"T = {args.rounds:,}, {machine(args.engine)}, seed {args.seed}.\n")
    print("| d | p | noise | arms by | trials | missed | share at most (99 %) | largest distance |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    failed = 0
    for dim in args.dims:
        trials = max(args.trials // FEWER.get(dim, 1), 10)
        for order in args.orders:
            rows = [(*law, who) for law in laws(order) for who in WHO]
            if dim > 2:  # those that came nearest there
                rows = [row for row in rows if row[1] in (REACTING, NORMAL) and row[5] != LINE]
            for name, law, scale, parameter, spread, who in rows:
                tail = ht.MomentBound(order, 1.0)
                failed += _attacked(
                    args,
                    dim,
                    order,
                    trials,
                    tail,
                    name,
                    (who, law, scale, parameter, order, spread),
                )
        for name, law, scale, parameter, who in (
            ("Cauchy", STUDENT, 1.0, 1.0, OWN),
            ("Cauchy", STUDENT, 1.0, 1.0, ADVERSARY),
            ("symmetric over six orders", EITHER, 1.0, 0.0, ADVERSARY),
        ):
            numbers = (who, law, scale, parameter, 1.0, 0.0)
            failed += _attacked(args, dim, 0.0, trials, "symmetric", name, numbers)
    print(f"\nLaws in which more trials missed than a binomial of {DELTA} has with 99 %: {failed}.")


def _attacked(
    args: argparse.Namespace,
    dim: int,
    order: float,
    trials: int,
    tail: Any,
    name: str,
    numbers: tuple[Any, ...],
) -> bool:
    policy = ht.HvtUCB(dim, tail=tail, theta_bound=1.0, radius="sharp", delta=DELTA)
    state = start_state(policy, True)
    worst = worst_distances(state, numbers, args.seed, trials, args.rounds, args.engine == "cuda")
    missed = int(np.sum(~(worst <= 1.0)))
    most = 1.0 if missed == trials else float(beta_law.ppf(0.99, missed + 1, trials - missed))
    print(
        f"| {dim} | {order or '-'} | {name} | {WHO[numbers[0]]} | {trials:,} | {missed:,} "
        f"| {most:.2e} | {np.nanmax(worst):.2f} |",
        flush=True,
    )
    return bool(missed > binom.ppf(0.99, trials, DELTA) or np.isnan(worst).any())


WORLDS = (
    ("the paper's: 50 arms, t(2.1), p = 2", 2, 50, ht.noise.StudentT(2.1), 2.0),
    ("the paper's, p = 1.9", 2, 50, ht.noise.StudentT(2.1), 1.9),
    ("the paper's, p = 1.5", 2, 50, ht.noise.StudentT(2.1), 1.5),
    ("10 arms, normal, p = 2", 2, 10, ht.noise.Gaussian(1.0), 2.0),
    ("10 arms, t(2.1) of variance 1", 2, 10, ht.noise.StudentT(2.1), 2.0),
    ("10 arms, Pareto(2.1) of variance 1", 2, 10, ht.noise.Pareto(2.1), 2.0),
    ("10 arms, t(1.6), p = 1.5", 2, 10, ht.noise.StudentT(1.6), 1.5),
    ("10 arms, Pareto(1.6), p = 1.5", 2, 10, ht.noise.Pareto(1.6), 1.5),
    ("d = 5, 20 arms, normal, p = 2", 5, 20, ht.noise.Gaussian(1.0), 2.0),
    ("d = 5, 20 arms, t(1.6), p = 1.5", 5, 20, ht.noise.StudentT(1.6), 1.5),
    ("d = 20, 100 arms, normal, p = 2", 20, 100, ht.noise.Gaussian(1.0), 2.0),
)


def _world(name: str, dim: int, arms: int, noise: Any, order: float) -> tuple[Any, Any, float]:
    """The environment, the tail, and the unit: ten arms have noise of moment 1."""
    nu = noise.scale(order)
    bound = 1.0 if name.startswith("the paper's") else nu  # the same as noise over nu
    world = ht.LinearBandit(dim, arms=arms, noise=noise, theta_bound=bound)
    return world, ht.MomentBound(order, nu), bound


def regret(args: argparse.Namespace) -> None:
    """Mean regret at T, at the whole width and beside it."""
    T = args.rounds
    print(
        f"Mean regret at T = {T:,} (standard error), in units of the noise, {args.trials:,} trials;"
    )
    print("beta is the radius at T, over the width in V^-1 of the best arm for the sharp one.\n")
    print("| world | sharp | Lemma 1 | OFUL, its radius | Hvt-UCB | Twin-UCB | uniform |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in WORLDS:
        world, tail, unit = _world(*row)
        dim = row[1]
        common = {"tail": tail, "theta_bound": unit}
        policies = (
            ht.HvtUCB(dim, **common, radius="sharp", delta=DELTA),
            ht.HvtUCB(dim, **common, radius="theory", horizon=T),
            ht.OFUL(dim, **common, delta=DELTA, radius_scale=1.0, ridge=unit**-2.0),
            ht.HvtUCB(dim),
            ht.TwinUCB(dim),
            ht.Uniform(dim),
        )
        cells = []
        for policy in policies:
            result = ht.distribution(
                policy, world, rounds=T, trials=args.trials, seed=args.seed, engine=args.engine,
                record=1, progress=False,
            )  # fmt: skip
            cells.append(f"{result.mean[-1] / unit:,.0f} ({result.error[-1] / unit:.2g})")
        print(f"| {row[0]} | " + " | ".join(cells) + " |", flush=True)


def growth(args: argparse.Namespace) -> None:
    """The exponents of mean regret in T and in d, beside d^(3/2 - 1/p) T^(1/p)."""
    print("| p | d | regret at T = " + " | ".join(f"{T:,}" for T in HORIZONS) + " | slope | 1/p |")
    print("| --- " * (4 + len(HORIZONS)) + "|")
    last = {}
    for order in (2.0, 1.5, 1.2):
        noise = ht.noise.StudentT(order + 0.1)
        for dim in (2, 5, 10):
            row = ("", dim, 5 * dim, noise, order)
            world, tail, unit = _world(*row)
            policy = ht.HvtUCB(dim, tail=tail, theta_bound=unit, radius="sharp", delta=DELTA)
            means = [
                ht.distribution(
                    policy, world, rounds=T, trials=max(args.trials // (T // HORIZONS[0]), 32),
                    seed=args.seed, engine=args.engine, record=1, progress=False,
                ).mean[-1] / unit
                for T in HORIZONS
            ]  # fmt: skip
            slope = np.polyfit(np.log(HORIZONS[1:]), np.log(means[1:]), 1)[0]
            last[order, dim] = means[-1]
            cells = " | ".join(f"{mean:,.0f}" for mean in means)
            print(f"| {order} | {dim} | {cells} | {slope:.2f} | {1 / order:.2f} |", flush=True)
        ratio = math.log(last[order, 10] / last[order, 2]) / math.log(5.0)
        print(f"\nIn d, from 2 to 10 at the last T: {ratio:.2f}; stated {1.5 - 1 / order:.2f}.\n")


HORIZONS = (1_000, 10_000, 100_000, 1_000_000)


def rounds(args: argparse.Namespace) -> None:
    """A round beside OFUL's, compiled and from Python, in turns."""
    print("| d | OFUL compiled | sharp | ratio | OFUL from Python | sharp | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for dim in (2, 16, 64):
        world = ht.LinearBandit(dim, arms=50, noise=ht.noise.StudentT(2.1))
        block = block_of(world, 2_000)
        tail = ht.MomentBound(1.5, 1.0)
        pair = (
            ht.OFUL(dim, noise_scale=1.0),
            ht.HvtUCB(dim, tail=tail, theta_bound=1.0, radius="sharp"),
        )
        inside = [min(compiled(policy, block) for _ in range(3)) for policy in pair]
        outside = [least(functools.partial(_turn, policy, block.arms)) for policy in pair]
        print(
            f"| {dim} | {1e3 * inside[0]:.0f} ns | {1e3 * inside[1]:.0f} ns "
            f"| {inside[1] / inside[0]:.2f} | {outside[0]:.2f} us | {outside[1]:.2f} us "
            f"| {outside[1] / outside[0]:.2f} |",
            flush=True,
        )
    if args.engine == "cuda":
        world, tail, _ = _world(*WORLDS[0])
        policy = ht.HvtUCB(2, tail=tail, theta_bound=1.0, radius="sharp", delta=DELTA)
        run = {"rounds": 18_000, "seed": args.seed, "engine": "cuda", "record": 1}
        ht.distribution(policy, world, trials=32, **run, progress=False)
        start = time.perf_counter()
        result = ht.distribution(policy, world, trials=1_000_000, **run, progress=False)
        print(
            f"\n10^6 trials of 18,000 rounds: {time.perf_counter() - start:.2f} s, mean regret "
            f"{result.mean[-1]:.1f} ({result.error[-1]:.2g}). {machine('cuda')}."
        )


def _turn(policy: ht.Policy, arms: Any) -> None:
    policy.update(arms[policy.select(arms)], 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("coverage", "regret", "growth", "round"))
    parser.add_argument("--engine", choices=("compiled", "cuda"), default="compiled")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--orders", type=float, nargs="+", default=[2.0, 1.5, 1.2])
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    if args.rounds is None:
        args.rounds = 2_000 if args.part == "coverage" else 18_000
    parts = {"coverage": coverage, "regret": regret, "growth": growth, "round": rounds}
    parts[args.part](args)


if __name__ == "__main__":
    main()
