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
from typing import Any, NamedTuple

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
from heavytail.policies.core.sharp import SYMMETRIC
from heavytail.simulation.counter import start_state
from heavytail.simulation.engines import _play_pool

DELTA = 0.05
SEED = 20_261_118
FEWER = {20: 4, 50: 100}  # times: a round costs d²
WHO = {OWN: "its own arms", ADVERSARY: "an adversary's arms", LINE: "one line"}


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


class Attack(NamedTuple):
    """The outcome of one law and one way to choose arms."""

    name: str
    trials: int
    missed: int
    largest: float

    @property
    def most(self) -> float:
        """Clopper and Pearson's upper bound at 99 % on the share that misses."""
        if self.missed == self.trials:
            return 1.0
        return float(beta_law.ppf(0.99, self.missed + 1, self.trials - self.missed))

    @property
    def broken(self) -> bool:
        """True where more missed than a binomial of DELTA has with 99 %."""
        return bool(self.missed > binom.ppf(0.99, self.trials, DELTA))


def coverage(args: argparse.Namespace) -> None:
    """Count how often the set missed the truth at some time, by dimension and order."""
    print(f"Trials in which the set missed the truth at some time; delta = {DELTA}, ", end="")
    print(f"T = {args.rounds:,}, seed {args.seed}, {machine(args.engine)}.")
    print(
        "| d | p | laws | trials of each | laws missed in | most missed | at most (99 %) | law",
        end="",
    )
    print(" | largest distance, in radii |")
    print("| --- " * 9 + "|")
    broken = 0
    for dim in args.dims:
        for order in (*args.orders, SYMMETRIC):
            every = list(_attacks(args, dim, order))
            worst = max(every, key=lambda one: one.missed)
            if worst.missed == 0:
                worst = max(every, key=lambda one: one.largest)
            hit = sum(one.missed > 0 for one in every)
            largest = max(one.largest for one in every)
            print(
                f"| {dim} | {order} | {len(every)} | {worst.trials:,} | {hit} | {worst.missed:,} "
                f"| {worst.most:.1e} | {worst.name} | {largest:.2f} |",
                flush=True,
            )
            broken += sum(one.broken for one in every)
    print(f"Laws in which more trials missed than a binomial of {DELTA} has with 99 %: {broken}.")


def _attacks(args: argparse.Namespace, dim: int, order: float | str) -> Iterator[Attack]:
    trials = max(args.trials // FEWER.get(dim, 1), 10)
    if isinstance(order, str):
        tail: Any = order
        rows = [
            ("Cauchy", STUDENT, 1.0, 1.0, 0.0, OWN),
            ("Cauchy", STUDENT, 1.0, 1.0, 0.0, ADVERSARY),
            ("symmetric over six orders", EITHER, 1.0, 0.0, 0.0, ADVERSARY),
        ]
        moment = 1.0
    else:
        tail, moment = ht.MomentBound(order, 1.0), order
        rows = [(*law, who) for law in laws(order) for who in WHO]
        if dim > 2:  # those that came nearest there
            rows = [row for row in rows if row[1] in (REACTING, NORMAL) and row[5] != LINE]
    policy = ht.HvtUCB(dim, tail=tail, theta_bound=1.0, radius="sharp", delta=DELTA)
    state = start_state(policy, True)
    for name, law, scale, parameter, spread, who in rows:
        numbers = (who, law, scale, parameter, moment, spread)
        on_gpu = args.engine == "cuda"
        worst = worst_distances(state, numbers, args.seed, trials, args.rounds, on_gpu)
        missed = int(np.sum(~(worst <= 1.0)))  # a round that was refused counts as missed
        yield Attack(f"{name}, {WHO[who]}", trials, missed, float(np.nanmax(worst)))


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
        f"Mean regret at T = {T:,} (standard error) in units of the noise, {args.trials:,} trials."
    )
    names = ("Hvt-UCB, sharp", "Twin-UCB, sharp", "Lemma 1", "OFUL, its radius")
    print(f"| world | {' | '.join((*names, 'Hvt-UCB', 'Twin-UCB', 'uniform'))} |")
    print("| --- " * 8 + "|")
    for row in WORLDS:
        world, tail, unit = _world(*row)
        dim = row[1]
        common = {"tail": tail, "theta_bound": unit}
        policies = (
            ht.HvtUCB(dim, **common, radius="sharp", delta=DELTA),
            ht.TwinUCB(dim, **common, radius="sharp", delta=DELTA),
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


def radius(args: argparse.Namespace) -> None:
    """The proved width of the best arm at T, over its norm in V^-1: the radius that Lemma 1 has."""
    T = args.rounds
    print(f"The proved radius at T = {T:,}: the width of the best arm over its norm in V^-1, at")
    print("Lemma 1's failure probability, 1/(2T).")
    print("| world | sharp, median of 8 trials | Lemma 1 | share |")
    print("| --- | --- | --- | --- |")
    for row in (*WORLDS[:1], *WORLDS[3:4], *WORLDS[6:7], *WORLDS[8:10]):
        world, tail, unit = _world(*row)
        lemma = ht.confidence.lemma_1(row[1], tail.order, T, theta_bound=unit).beta(T)
        radii = []
        for trial in range(8):
            policy = ht.HvtUCB(
                row[1], tail=tail, theta_bound=unit, radius="sharp", delta=0.5 / T
            )  # Lemma 1's failure probability
            block = next(world.deal(np.random.SeedSequence([args.seed, trial]))).first(T)
            best = block.arms[np.argmax(block.means)]
            _play_pool(policy, block, np.empty(T))
            inverse = policy.state_arrays()["gram_inverse"]
            radii.append(policy.radius * policy.width(best) / math.sqrt(best @ inverse @ best))
        sharp = float(np.median(radii))
        print(f"| {row[0]} | {sharp:.1f} | {lemma:,.0f} | 1/{lemma / sharp:,.0f} |", flush=True)


def growth(args: argparse.Namespace) -> None:
    """The exponents of mean regret in T and in d, beside d^(3/2 - 1/p) T^(1/p)."""
    print("| p | d | regret at T = " + " | ".join(f"{T:,}" for T in HORIZONS) + " | slope | 1/p |")
    print("| --- " * (4 + len(HORIZONS)) + "|")
    last, inside = {}, []
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
        inside.append(f"{order}: {ratio:.2f}, stated {1.5 - 1 / order:.2f}")
    print(f"Exponents in d, from 2 to 10 at the last T, by p. {'; '.join(inside)}.")


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
    world, tail, _ = _world(*WORLDS[0])
    policy = ht.HvtUCB(2, tail=tail, theta_bound=1.0, radius="sharp", delta=DELTA)
    block = block_of(world, 10_000)
    before = compiled(policy, block)
    while policy.rounds < 10_000_000:
        _play_pool(policy, block, np.empty(block.length))
    after = compiled(policy, block)
    print(f"\nA round after 10^7 of them: {1e3 * after:.0f} ns, at first {1e3 * before:.0f} ns.")
    if args.engine == "cuda":
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


PARTS = {
    "coverage": coverage,
    "regret": regret,
    "radius": radius,
    "growth": growth,
    "round": rounds,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--engine", choices=("compiled", "cuda"), default="compiled")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--orders", type=float, nargs="+", default=[2.0, 1.5, 1.2])
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    if args.rounds is None:
        args.rounds = 2_000 if args.part == "coverage" else 18_000
    PARTS[args.part](args)


if __name__ == "__main__":
    main()
