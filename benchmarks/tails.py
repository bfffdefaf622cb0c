"""What ``diagnose`` says of samples whose tail is known, in per cent of the samples.

    python -m benchmarks.tails                 # about four minutes
    python -m benchmarks.tails --slow          # tails of a small share and ones that settle slowly
    python -m benchmarks.tails --words         # every sentence, on laws whose moments are known

"fine" is "averages and least squares are fine", "few" is "too few values to tell", "heavy" is a
tail of a stated index, "no mean" that "if the tail goes on like this there is no mean", "undecided"
that the values "do not tell whether there is a mean" (parts of "heavy"), "holds" how often the
95 % interval holds the index. Whole numbers have no index but where one is named. ``--slow`` and
``--words`` add how often the variance is "finite" or "infinite" "if the tail goes on like this",
and how often the values "do not tell whether the variance is finite", "either" (parts of "heavy",
and "undecided" may be said with it), how often the largest lie "apart", as "so few show no tail" (a
part of "few"), and how often fits to more values "disagree". ``--words`` tells apart, as parts of
"fine", that robust methods gain "little" and that robust estimates "gain" so much.
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


def inverse_gaussian(shape: float) -> Draw:
    return lambda rng, n: rng.wald(1.0, shape, n)


def beside(values: tuple[float, ...], bulk: Draw) -> Draw:
    return lambda rng, n: np.append(bulk(rng, n - len(values)), values)


def of_normals(shares: tuple[float, ...], sizes: tuple[float, ...]) -> Draw:
    return lambda rng, n: rng.standard_normal(n) * rng.choice(sizes, n, p=shares)


# Five samples with a few outliers, eight laws that have all moments, six power laws, and four
# mixtures and two others that have all moments.
WORDS: dict[str, tuple[Draw, float]] = {
    "normal and 100": (beside((100.0,), NORMAL), math.inf),
    "heights in cm, one in mm": (
        beside((1_740.0,), lambda rng, n: rng.normal(174.0, 8.0, n)),
        math.inf,
    ),
    "exponential, 60, 150": (beside((60.0, 150.0), EXPONENTIAL), math.inf),
    "uniform, 30, 40, -90": (beside((30.0, 40.0, -90.0), lambda rng, n: rng.random(n)), math.inf),
    "normal, five of 50 to 130": (beside((50.0, 55.0, 70.0, 100.0, 130.0), NORMAL), math.inf),
    "Wald(1, 0.01)": (inverse_gaussian(0.01), math.inf),
    "Wald(1, 0.1)": (inverse_gaussian(0.1), math.inf),
    "Wald(1, 3)": (inverse_gaussian(3.0), math.inf),
    "Rayleigh": (lambda rng, n: rng.rayleigh(size=n), math.inf),
    "Beta(2, 6)": (lambda rng, n: rng.beta(2.0, 6.0, n), math.inf),
    "Weibull(0.4)": (lambda rng, n: rng.weibull(0.4, n), math.inf),
    "log-normal(1.8)": (lambda rng, n: rng.lognormal(0.0, 1.8, n), math.inf),
    "logistic": (lambda rng, n: rng.logistic(size=n), math.inf),
    "Lomax(0.8)": (lambda rng, n: rng.pareto(0.8, n), 0.8),
    "Lomax(1.3)": (lambda rng, n: rng.pareto(1.3, n), 1.3),
    "Fréchet(1.8)": (frechet(1.8), 1.8),
    "Student(2.3)": (student(2.3), 2.3),
    "log-logistic(2.6)": (burr(2.6, 1.0), 2.6),
    "inverse gamma(3.4)": (lambda rng, n: 1.0 / rng.gamma(3.4, 1.0, n), 3.4),
    "85 % N, 13 % 8 N, 2 % 60 N": (of_normals((0.85, 0.13, 0.02), (1.0, 8.0, 60.0)), math.inf),
    "90 % N, 10 % 20 N": (of_normals((0.9, 0.1), (1.0, 20.0)), math.inf),
    "97 % N, 3 % 30 N": (of_normals((0.97, 0.03), (1.0, 30.0)), math.inf),
    "80 % N, 15 % 5 N, 5 % 25 N": (of_normals((0.8, 0.15, 0.05), (1.0, 5.0, 25.0)), math.inf),
    "normal": (NORMAL, math.inf),
    "log-normal(0.5)": (lambda rng, n: rng.lognormal(0.0, 0.5, n), math.inf),
}


def said(laws: dict[str, tuple[Draw, float]], trials: int, group: int, largest: int) -> None:
    """What is said of samples of three sizes, the largest of them in a tenth of the trials."""
    columns = ("few", "apart", "no mean", "undecided", "fine", "finite", "infinite", "either")
    columns += ("disagree", "holds") if group == 1 else ("disagree", "little", "gain", "holds")
    print("| sample | values | " + " | ".join(columns) + " | median interval |")
    print("| --- |" + " --- |" * (2 + len(columns)))
    for at, (name, (draw, index)) in enumerate(laws.items()):
        for n in (500, 5_000, largest) if group == 2 else (2_000, 20_000, largest):
            count = max(trials // 10, 1) if n == 1_000_000 else trials
            seeds = ([SEED, group, at, n, trial] for trial in range(count))
            found = [diagnose(draw(np.random.default_rng(seed), n)) for seed in seeds]
            words = [report.advice for report in found]
            rows = [
                [not report.clear for report in found],
                ["so few show no tail" in text for text in words],
                ["there is no mean" in text for text in words],
                ["whether there is a mean" in text for text in words],
                ["are fine" in text for text in words],
                ["is finite if the tail" in text for text in words],
                ["is infinite if the tail" in text for text in words],
                ["whether the variance is finite" in text for text in words],
                [not report.agree for report in found],
                ["gain little" in text for text in words],
                ["but robust" in text for text in words],
                [report.low <= index <= report.high for report in found],
            ]
            if group == 1:
                rows = rows[:-3] + rows[-1:]
            cells = [f"{100.0 * np.mean(row):.0f}" for row in rows]
            if math.isinf(index):
                cells[-1] = ""
            ends = [np.median([getattr(r, end) for r in found]) for end in ("low", "high")]
            print(
                f"| {name} | {n:,} | {' | '.join(cells)} | {ends[0]:.2f} to {ends[1]:.2f} |",
                flush=True,
            )


def rates(draw: Draw, index: float, n: int, trials: int, at: int) -> np.ndarray:
    """Per cent of the samples: fine, few, heavy, no mean, undecided, interval holds."""
    counted = []
    for trial in range(trials):
        found = diagnose(draw(np.random.default_rng([SEED, at, n, trial]), n))
        words = found.advice
        few, fine = not found.clear, "are fine" in words
        heavy, holds = not few and not fine, found.low <= index <= found.high
        undecided = "whether there is a mean" in words
        counted.append((fine, few, heavy, "there is no mean" in words, undecided, holds))
    return 100.0 * np.mean(counted, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--words", action="store_true")
    args = parser.parse_args()
    if args.slow or args.words:
        laws, group, largest = (SLOW, 1, 1_000_000) if args.slow else (WORDS, 2, 50_000)
        said(laws, args.trials // 4, group, largest)
        return
    columns = ("fine", "few", "heavy", "no mean", "undecided", "holds")
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
