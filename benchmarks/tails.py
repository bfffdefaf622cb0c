"""What ``diagnose`` says of samples whose tail is known, in per cent of the samples.

    python -m benchmarks.tails                 # about two minutes

"fine" is "averages and least squares are fine", "few" is "too few values to tell", "heavy" is a
tail of a stated index, "no mean" that "even the mean may not exist" (a part of "heavy"), "holds"
how often the 95 % interval holds the index. Whole numbers have no index but where one is named.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from heavytail.tails import diagnose

Draw = Callable[[np.random.Generator, int], np.ndarray]
SIZES, SEED = (200, 2_000), 61_027


def pareto(a: float) -> Draw:
    return lambda rng, n: rng.pareto(a, n) + 1.0


def student(a: float) -> Draw:
    return lambda rng, n: rng.standard_t(a, n)


def frechet(a: float) -> Draw:
    return lambda rng, n: rng.exponential(size=n) ** (-1.0 / a)


def symmetric(a: float) -> Draw:
    return lambda rng, n: (rng.pareto(a, n) + 1.0) * rng.choice([-1.0, 1.0], n)


def shop(a: float, zeros: float) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < zeros, 0.0, rng.pareto(a, n) + 1.0)


def mixed(a: float) -> Draw:
    return lambda rng, n: np.where(
        rng.random(n) < 0.05, 10.0 * rng.standard_t(a, n), rng.standard_normal(n)
    )


LAWS: dict[str, tuple[Draw, float]] = {
    **{f"Pareto({a})": (pareto(a), a) for a in (0.7, 1.2, 1.6, 3.0)},
    **{f"Student({a})": (student(a), a) for a in (0.7, 1.2, 1.6, 3.0)},
    **{f"Fréchet({a})": (frechet(a), a) for a in (0.7, 1.2, 1.6, 3.0)},
    "Pareto(1.6), both sides": (symmetric(1.6), 1.6),
    "90 % zeros, Pareto(0.7)": (shop(0.7, 0.9), 0.7),
    "99 % zeros, Pareto(0.7)": (shop(0.7, 0.99), 0.7),
    "90 % zeros, Pareto(1.6)": (shop(1.6, 0.9), 1.6),
    "normal, 5 % 10 t(1.6)": (mixed(1.6), 1.6),
    "log-normal(1)": (lambda rng, n: rng.lognormal(0.0, 1.0, n), math.nan),
    "normal": (lambda rng, n: rng.standard_normal(n), math.nan),
    "exponential": (lambda rng, n: rng.exponential(size=n), math.nan),
    "Poisson(3)": (lambda rng, n: rng.poisson(3.0, n), math.nan),
    "binomial(20, 0.15)": (lambda rng, n: rng.binomial(20, 0.15, n), math.nan),
    "geometric(0.3)": (lambda rng, n: rng.geometric(0.3, n), math.nan),
    "normal, rounded": (lambda rng, n: np.round(rng.standard_normal(n)), math.nan),
    "Pareto(1.6), rounded": (lambda rng, n: np.round(rng.pareto(1.6, n) + 1.0), 1.6),
}


def rates(draw: Draw, index: float, n: int, trials: int, at: int) -> np.ndarray:
    """Per cent of the samples: fine, few, heavy, no mean, interval holds."""
    said = []
    for trial in range(trials):
        found = diagnose(draw(np.random.default_rng([SEED, at, n, trial]), n))
        words = found.advice
        few, fine = not found.clear, "are fine" in words
        heavy, holds = not few and not fine, found.low <= index <= found.high
        said.append((fine, few, heavy, "may not exist" in words, holds))
    return 100.0 * np.mean(said, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    args = parser.parse_args()
    columns = ("fine", "few", "heavy", "no mean", "holds")
    print("| sample | values | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * (1 + len(columns)))
    for at, (name, (draw, index)) in enumerate(LAWS.items()):
        for n in SIZES:
            found = rates(draw, index, n, args.trials, at)
            cells = [f"{one:.0f}" for one in found[:-1]]
            cells.append("" if math.isnan(index) else f"{found[-1]:.0f}")
            print(f"| {name} | {n:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
