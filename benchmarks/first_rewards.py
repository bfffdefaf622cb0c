"""The cost of absurd first rewards to Twin-UCB and Hvt-UCB, untuned, and how often their unit is
set anew without need.

    python -m benchmarks.first_rewards

The first five rewards set the unit of both. One, two or three of them, drawn, are multiplied by
1e300, 1e6 or 1e-12; regret at 5,000 rounds is that of the true means. Every start meets the same
worlds and noise. ``set anew`` counts runs in which the unit was; in the ordinary ones it ought to
be none, unless the level of all rewards has become a thousand times what it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray
from heavytail.policies import PackedPolicy
from heavytail.policies.core.practice import FIRST
from heavytail.policies.core.practice import PRACTICE as P

DIM, ARMS, ROUNDS = 4, 12, 5000
SHIFTED = 2000  # the round from which a level is another
SEED = 640_920_771

POLICIES: dict[str, Callable[[int], PackedPolicy]] = {"Twin-UCB": ht.TwinUCB, "Hvt-UCB": ht.HvtUCB}
STARTS = {f"{count} x {factor:g}": (count, factor)
          for factor in (1e300, 1e6, 1e-12) for count in (1, 2, 3)}  # fmt: skip
Draw = Callable[[np.random.Generator, float, int], float]


def _shop(rng: np.random.Generator, mean: float, t: int) -> float:
    return 10.0 * mean * rng.lognormal(-0.32, 0.8) if rng.random() < 0.1 else 0.0


def _shift(by: float) -> Draw:
    return lambda rng, mean, t: mean + rng.standard_t(3.0) + (by if t >= SHIFTED else 0.0)


def _two_sizes(rng: np.random.Generator, mean: float, t: int) -> float:
    return 1e4 * mean * rng.uniform(0.5, 1.5) if rng.random() < 0.5 else rng.uniform(-1.0, 1.0)


def _coin(level: float) -> Draw:
    return lambda rng, mean, t: level + float(rng.random() < 0.3 * mean)


LAWS: dict[str, Draw] = {
    "t(1.5)": lambda rng, mean, t: mean + rng.standard_t(1.5),
    "Pareto(1.5)": lambda rng, mean, t: mean + rng.pareto(1.5) - 2.0,
    "log-normal(2)": lambda rng, mean, t: mean * rng.lognormal(-2.0, 2.0),
    "gamma(0.3)": lambda rng, mean, t: mean * rng.gamma(0.3, 1.0 / 0.3),
    "zeros 90 %": _shop,
    "level + 100": _shift(100.0),
    "level + 10,000": _shift(1e4),
    "half 10,000 times as large": _two_sizes,
    "coin at 0": _coin(0.0),
    "coin at 1,000,000": _coin(1e6),
}
ALONE = tuple(LAWS)[5:]  # ordinary starts only


class Run(NamedTuple):
    """The outcome of a run."""

    regret: float
    anew: bool  # whether the unit was set anew


def play(
    make: Callable[[int], PackedPolicy], law: Draw, seed: int, count: int, factor: float
) -> Run:
    """A policy in a world of its own; ``count`` of the first rewards are multiplied."""
    rng = np.random.default_rng([SEED, seed])
    arms = rng.standard_normal((ARMS, DIM))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    theta = rng.standard_normal(DIM)
    means: FloatArray = 1.5 + arms @ (theta / np.linalg.norm(theta))
    spoiled = set(rng.permutation(FIRST)[:count])
    policy = make(DIM)
    s = policy.packed[0]
    regret = unit = 0.0
    for t in range(ROUNDS):
        a = policy.select(arms)
        regret += means.max() - means[a]
        reward = law(rng, float(means[a]), t)
        if t in spoiled:
            reward = float(np.clip(factor * (reward or 1.0), -1e300, 1e300))
        policy.update(arms[a], reward)
        unit = unit or s[P.UNIT]
    return Run(float(regret), bool(s[P.UNIT] != unit))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--trials", type=int, default=24)
    trials = parser.parse_args().trials
    print(f"Regret at {ROUNDS:,} rounds, {trials} worlds; of an absurd start over the ordinary one")
    print(f"| law | policy | ordinary | set anew | {' | '.join(STARTS)} | set anew, 3 x |")
    print("| --- " * (len(STARTS) + 5) + "|")
    for law, draw in LAWS.items():
        for name, make in POLICIES.items():
            plain = [play(make, draw, i, 0, 1.0) for i in range(trials)]
            ordinary = float(np.mean([run.regret for run in plain]))
            cells, anew = [], []
            for start, (count, factor) in STARTS.items():
                if law in ALONE:
                    cells.append("-")
                    continue
                runs = [play(make, draw, i, count, factor) for i in range(trials)]
                cells.append(f"{np.mean([run.regret for run in runs]) / ordinary:.2f}")
                if start.startswith("3"):
                    anew.append(f"{sum(run.anew for run in runs)}")
            said = f"{sum(run.anew for run in plain)} of {trials}"
            print(
                f"| {law} | {name} | {ordinary:,.0f} | {said} | {' | '.join(cells)} "
                f"| {', '.join(anew) or '-'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
