"""A theta that moves: forgetting and beginning anew, beside a policy restarted by hand.

    python -m benchmarks.moving [--trials 20]
    python -m benchmarks.moving --alarms [--trials 20]
    python -m benchmarks.moving --sizes [--trials 20]

Arms are 20 on the sphere, for the whole of a trial; theta is of length 1. It turns once in 20,000
rounds, at one pace, or jumps to another direction half way. By hand: the plain policy, restarted at
the best of INTERVALS in hindsight, one for all trials of a world. ``--alarms``: how often
``forget="auto"`` begins anew in 100,000 rounds in which nothing changes, what forgetting costs in
them, and after how many rounds a jump is noticed. ``--sizes``: theta stays, and the size of the
noise moves. Regrets are medians, the worst in brackets.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.layout import OK
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.forgetting import MEMORY, place
from heavytail.policies.core.loops import around

ROUNDS = 20_000
INTERVALS = (250, 500, 1000, 2000, 4000, 8000, ROUNDS)
SEED = 20_261_117
Draw = Callable[[np.random.Generator, int], FloatArray]
NOISES: dict[str, Draw] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "t(1.7)": lambda rng, n: rng.standard_t(1.7, n),
    "Pareto(1.5)": lambda rng, n: rng.pareto(1.5, n) - 2.0,
    "t(1.2)": lambda rng, n: rng.standard_t(1.2, n),
}
COMMON = ("normal", "t(1.7)", "Pareto(1.5)")  # t(1.2): where nothing changes
# The size of the noise, by the share of the rounds that is over.
SIZES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "10 times half way": lambda share: np.where(share < 0.5, 0.3, 3.0),
    "a tenth half way": lambda share: np.where(share < 0.5, 3.0, 0.3),
    "100 times half way": lambda share: np.where(share < 0.5, 0.3, 30.0),
    "30 times either way, every 5,000": lambda share: 0.3 * 30.0 ** np.sin(8.0 * np.pi * share),
    "twice either way, every 700": lambda share: 2.0 ** np.sin(2.0 * np.pi * ROUNDS / 700 * share),
}
ARMS = 20
DIMS = (2, 5)
LONG = 100_000  # rounds in which nothing changes
POLICIES = {"Twin-UCB": ht.TwinUCB, "Hvt-UCB": ht.HvtUCB}
FORGET = (0.999, "auto")
MOTIONS = ("turn", "jump", "still")


def select(*_: Any) -> int:
    """Stands for a policy's selection kernel in :func:`play`."""
    raise NotImplementedError


def update(*_: Any) -> int:
    """Stands for a policy's learning kernel in :func:`play`."""
    raise NotImplementedError


def play(
    s0: Vector,
    M0: Matrix,
    arms: Matrix,
    thetas: Matrix,
    noise: Vector,
    every: int,
    last: int,
    regret: Vector,
    marks: Vector,
) -> int:
    """Template: rounds of a theta that moves, begun anew ``every`` so many; the regret of each, and
    what the slot ``last`` of s holds after it.
    """
    s, M = s0.copy(), M0.copy()
    for t in range(noise.shape[0]):
        if t > 0 and t % every == 0:
            s, M = s0.copy(), M0.copy()
        a = select(s, M, arms)
        best = -np.inf
        paid = 0.0
        for i in range(arms.shape[0]):
            mean = 0.0
            for j in range(arms.shape[1]):
                mean += arms[i, j] * thetas[t, j]
            best = max(best, mean)
            if i == a:
                paid = mean
        if update(s, M, arms[a], paid + noise[t], 1.0) != OK:
            return t
        regret[t] = best - paid
        marks[t] = s[last]
    return -1


def world(dim: int, motion: str, noise: str, trial: int, rounds: int) -> tuple[Any, ...]:
    """Arms, theta of each round and noise of a trial."""
    rng = np.random.default_rng([SEED, dim, MOTIONS.index(motion), trial])
    arms = rng.standard_normal((ARMS, dim))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    frame = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    angle = np.zeros(rounds)
    if motion == "turn":
        angle = np.linspace(0.0, 2.0 * np.pi * rounds / ROUNDS, rounds)
    elif motion == "jump":
        angle[rounds // 2 :] = rng.uniform(0.25, 1.0) * np.pi
    thetas = np.outer(np.cos(angle), frame[0]) + np.outer(np.sin(angle), frame[1])
    return arms, thetas, NOISES[noise](rng, rounds)


def resized(dim: int, size: str, noise: str, trial: int) -> tuple[Any, ...]:
    """As :func:`world` where theta stays, with noise whose size moves."""
    arms, thetas, drawn = world(dim, "still", noise, trial, ROUNDS)
    return arms, thetas, SIZES[size](np.arange(ROUNDS) / ROUNDS) * drawn


def regrets(
    policy: PackedPolicy, worlds: list[tuple[Any, ...]], every: int, last: int = 0
) -> tuple[FloatArray, FloatArray]:
    """The regret of every round, and a slot after it, (trials, rounds)."""
    kernel = around(play, select=policy.algorithm.select, update=policy.algorithm.update)
    found = np.empty((2, len(worlds), len(worlds[0][2])))
    for k, (arms, thetas, noise) in enumerate(worlds):
        bad = kernel(*policy.packed, arms, thetas, noise, every, last, found[0, k], found[1, k])
        assert bad < 0, f"round {bad} was refused"
    return found[0], found[1]


def totals(policy: PackedPolicy, worlds: list[tuple[Any, ...]], every: int = ROUNDS) -> FloatArray:
    """The regret of every trial."""
    return np.asarray(regrets(policy, worlds, every)[0].sum(axis=1))


def row(name: str, dim: int, motion: str, noise: str, trials: int) -> str:
    """One line of the table: median regret (and worst), and the ratio of the medians."""
    kind = POLICIES[name]
    worlds = [world(dim, motion, noise, trial, ROUNDS) for trial in range(trials)]
    hand = {every: totals(kind(dim), worlds, every) for every in INTERVALS}
    best = min(hand, key=lambda every: float(hand[every].mean()))
    by_hand, plain = hand[best], hand[ROUNDS]
    cells = [name, motion, str(dim), noise, f"{best:,}", _cell(by_hand), _cell(plain)]
    for forget in FORGET:
        found = totals(kind(dim, forget=forget), worlds)
        ratios = np.median(found) / np.median(by_hand), (found / by_hand).max()
        cells.append(f"{_cell(found)}: {ratios[0]:.2f} ({ratios[1]:.2f})")
    return " | ".join(["", *cells, ""]).strip()


def _cell(regret: FloatArray) -> str:
    return f"{np.median(regret):,.0f} ({regret.max():,.0f})"


def alarms(name: str, dim: int, noise: str, trials: int) -> str:
    """One line: regret and restarts where nothing changes, and rounds until a jump is noticed."""
    policy = POLICIES[name](dim, forget="auto")
    at = place(policy.packed[0]) + MEMORY.CHANGES
    still = [world(dim, "still", noise, trial, LONG) for trial in range(trials)]
    cost, changed = regrets(policy, still, LONG, at)
    others = [POLICIES[name](dim, forget=forget) for forget in (None, FORGET[0])]
    costs = [totals(one, still, LONG) for one in others] + [cost.sum(axis=1)]
    jumps = [world(dim, "jump", noise, trial, ROUNDS) for trial in range(trials)]
    changes = regrets(policy, jumps, ROUNDS, at)[1]
    half = ROUNDS // 2
    seen = changes[:, half:] > changes[:, half - 1 : half]
    missed = int(np.sum(~seen.any(axis=1)))
    delay = np.sort(np.where(seen.any(axis=1), seen.argmax(axis=1) + 1, half))
    cells = [name, str(dim), noise, *map(_cell, costs), f"{changed[:, -1].sum():.0f}"]
    cells += [f"{np.median(delay):.0f}", f"{missed}"]
    return " | ".join(["", *cells, ""]).strip()


def sizes(name: str, size: str, noise: str, trials: int, dim: int = 3) -> str:
    """One line: regret and restarts where the size of the noise moves and theta does not."""
    kind = POLICIES[name]
    worlds = [resized(dim, size, noise, trial) for trial in range(trials)]
    policy = kind(dim, forget="auto")
    cost, changed = regrets(policy, worlds, ROUNDS, place(policy.packed[0]) + MEMORY.CHANGES)
    costs = [totals(kind(dim, forget=forget), worlds) for forget in (None, FORGET[0])]
    cells = [name, size, noise, *map(_cell, [*costs, cost.sum(axis=1)])]
    return " | ".join(["", *cells, f"{changed[:, -1].sum() / trials:.1f}", ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--alarms", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    args = parser.parse_args()
    noises = tuple(NOISES) if args.alarms else COMMON
    cases = [(name, dim, noise) for name in POLICIES for dim in DIMS for noise in noises]
    if args.sizes:
        print(
            f"| policy | size of the noise | noise | nothing forgotten | forget={FORGET[0]} | "
            "forget=auto | its restarts a trial |"
        )
        for name, size, noise in itertools.product(POLICIES, SIZES, COMMON):
            print(sizes(name, size, noise, args.trials), flush=True)
        return
    if args.alarms:
        print(
            f"| policy | d | noise | nothing forgotten | forget={FORGET[0]} | forget=auto | "
            f"its restarts in {args.trials} times {LONG:,} rounds | "
            f"median delay of a jump | not noticed, of {args.trials} |"
        )
        for case in cases:
            print(alarms(*case, args.trials), flush=True)
        return
    print(
        "| policy | theta | d | noise | best interval | by hand | nothing forgotten | "
        + " | ".join(f"forget={forget}: ratio (worst)" for forget in FORGET)
        + " |"
    )
    for motion in MOTIONS[:2]:
        for name, dim, noise in cases:
            print(row(name, dim, motion, noise, args.trials), flush=True)


if __name__ == "__main__":
    main()
