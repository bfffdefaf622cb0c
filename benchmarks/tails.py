"""What ``diagnose`` says of samples whose tail is known, in per cent of the samples.

    python -m benchmarks.tails                 # about four minutes
    python -m benchmarks.tails --slow          # tails of a small share and ones that settle slowly

"fine" is "averages and least squares are fine", "few" is "too few values to tell", "heavy" is a
tail of a stated index, "no mean" that "even the mean may not exist" (a part of "heavy"), "holds"
how often the 95 % interval holds the index. Whole numbers have no index but where one is named.
``--slow`` adds how often the variance "is finite" or "is infinite" (parts of "heavy"), where that
is false, and how often fits "disagree".
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


def within(share: float, tail: Draw, bulk: Draw) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < share, tail(rng, n), bulk(rng, n))


def log_gamma(shape: float, a: float) -> Draw:
    return lambda rng, n: np.exp(rng.gamma(shape, 1.0 / a, n))


def burr(c: float, k: float) -> Draw:
    return lambda rng, n: (rng.random(n) ** (-1.0 / k) - 1.0) ** (1.0 / c)


def scaled(size: float, draw: Draw) -> Draw:
    return lambda rng, n: size * draw(rng, n)


EXPONENTIAL, NORMAL = LAWS["exponential"][0], LAWS["normal"][0]
SLOW: dict[str, tuple[Draw, float]] = {
    "exponential, 0.1 % 10 Pareto(1.2)": (
        within(0.001, scaled(10.0, pareto(1.2)), EXPONENTIAL),
        1.2,
    ),
    "normal, 1 % 5 Pareto(1.2)": (within(0.01, scaled(5.0, pareto(1.2)), NORMAL), 1.2),
    "exponential, 0.3 % 20 Fréchet(1.5)": (
        within(0.003, scaled(20.0, frechet(1.5)), EXPONENTIAL),
        1.5,
    ),
    "Laplace, 0.5 % 15 t(1.8)": (
        within(0.005, scaled(15.0, student(1.8)), lambda rng, n: rng.laplace(size=n)),
        1.8,
    ),
    "uniform, 2 % 4 Pareto(2.5)": (
        within(0.02, scaled(4.0, pareto(2.5)), lambda rng, n: rng.random(n)),
        2.5,
    ),
    "log-gamma(2, 1.5)": (log_gamma(2.0, 1.5), 1.5),
    "log-gamma(3, 1.5)": (log_gamma(3.0, 1.5), 1.5),
    "log-gamma(2.2, 2.6)": (log_gamma(2.2, 2.6), 2.6),
    "Burr(0.5, 3)": (burr(0.5, 3.0), 1.5),
    "Burr(0.6, 4)": (burr(0.6, 4.0), 2.4),
    "inverse gamma(1.7)": (lambda rng, n: 1.0 / rng.gamma(1.7, 1.0, n), 1.7),
    "Student(1.9)": (student(1.9), 1.9),
    "Pareto(2.2)": (pareto(2.2), 2.2),
}


def slow(trials: int) -> None:
    """Samples whose index only the largest values show, and two of one law, of three sizes."""
    columns = ("few", "no mean", "finite", "infinite", "disagree", "holds", "median interval")
    print("| sample | values | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * (1 + len(columns)))
    for at, (name, (draw, index)) in enumerate(SLOW.items()):
        for n, count in ((2_000, trials), (20_000, trials), (1_000_000, max(trials // 10, 1))):
            seeds = ([SEED, 1, at, n, trial] for trial in range(count))
            found = [diagnose(draw(np.random.default_rng(seed), n)) for seed in seeds]
            words = [report.advice for report in found]
            said = [
                [not report.clear for report in found],
                ["may not exist" in text for text in words],
                ["is finite" in text or "are fine" in text for text in words],
                ["is infinite" in text for text in words],
                [not report.agree for report in found],
                [report.low <= index <= report.high for report in found],
            ]
            cells = [f"{100.0 * np.mean(row):.0f}" for row in said]
            ends = [np.median([getattr(r, end) for r in found]) for end in ("low", "high")]
            print(
                f"| {name} | {n:,} | {' | '.join(cells)} | {ends[0]:.2f} to {ends[1]:.2f} |",
                flush=True,
            )


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
    parser.add_argument("--slow", action="store_true")
    args = parser.parse_args()
    if args.slow:
        slow(args.trials // 4)
        return
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
