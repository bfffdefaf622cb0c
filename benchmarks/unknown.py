"""What not knowing the tail costs, and how well it is measured.

python -m benchmarks.unknown               # about ten minutes
"""

from __future__ import annotations

import argparse

import numpy as np

import heavytail as ht

T17, T21 = ht.noise.StudentT(1.7), ht.noise.StudentT(2.1)
WORLDS = {
    "t(2.1)": (T21, 1.99, None),
    "normal": (ht.noise.Gaussian(1.0), 2.0, None),
    "Pareto(1.5)": (ht.noise.Pareto(1.5), 1.49, None),
    "Fisk(1.5)": (ht.noise.Fisk(1.5), 1.49, None),
    "t(1.7) x 10^U(0, 1.5)": (ht.noise.Scaled(T17, 1.5), 1.69, None),
    "t(1.7) x 10^U(0, 2.5)": (ht.noise.Scaled(T17, 2.5), 1.69, None),
    "t(2.1), 30 of 50 arms": (T21, 1.99, 30),
}


def auto(trials: int) -> None:
    """Regret with tail="auto" against the scale known, same worlds and noise."""
    print(f"\nMean regret after 18,000 rounds, d = 2, 50 arms, {trials} trials\n")
    print("| noise | scale known | auto | ratio |")
    print("| --- | --- | --- | --- |")
    for name, (noise, order, offered) in WORLDS.items():
        world = ht.LinearBandit(2, arms=50, noise=noise, offered=offered)
        policies = {
            "known": ht.HvtUCB(2, tail=noise.tail(order)),
            "auto": ht.HvtUCB(2, tail="auto"),
        }
        results = ht.simulate(policies, world, rounds=18_000, trials=trials, seed=909)
        known, learned = results["known"].final, results["auto"].final
        half = 1.96 * np.std(learned - known, ddof=1) / np.sqrt(trials) / known.mean()
        print(
            f"| {name} | {known.mean():.0f} | {learned.mean():.0f} | "
            f"{learned.mean() / known.mean():.2f} ± {half:.2f} |",
            flush=True,
        )


def diagnose(seeds: int, n: int = 100_000) -> None:
    """The measured tail index on known tails."""
    print(f"\nTail index on {n:,} draws, {seeds} seeds: mean, and the largest error\n")
    print("| tail | " + " | ".join(f"{a:g}" for a in INDICES) + " |")
    print("| --- |" + " --- |" * len(INDICES))
    for name, draw in TAILS.items():
        cells = []
        for index in INDICES:
            if name == "stable" and index >= 2.0:
                cells.append("")
                continue
            found = np.array(
                [
                    ht.tails.diagnose(draw(np.random.default_rng(7000 + s), index, n)).index
                    for s in range(seeds)
                ]
            )
            cells.append(f"{found.mean():.2f} ({np.max(np.abs(found - index)):.2f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    rng = np.random.default_rng(0)
    for name, values in {"normal": rng.standard_normal(n), "uniform": rng.random(n)}.items():
        print(f"\n{name}: {ht.tails.diagnose(values).advice}")


INDICES = (1.1, 1.3, 1.6, 1.8, 2.0, 2.5, 3.0)
TAILS = {
    "Pareto": lambda rng, a, n: rng.pareto(a, n) + 1.0,
    "Student": lambda rng, a, n: rng.standard_t(a, n),
    "stable": lambda rng, a, n: ht.noise.Stable(a).sample(rng, n),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=("diagnose", "auto"))
    args = parser.parse_args()
    if args.only != "auto":
        diagnose(args.seeds)
    if args.only != "diagnose":
        auto(args.trials)


if __name__ == "__main__":
    main()
