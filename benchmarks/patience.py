"""What `patience` buys and what it costs: how soon a hidden prize is found, and the regret where
nothing is hidden. `python -m benchmarks.patience [FIGURE.png]`
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray

PATIENCE = (0.0, 0.25, 1.0, 4.0, 10.0)
CHANCES = (20, 50, 200)  # one in so many
ROUNDS = 20_000
WINDOW = 200
PLAIN = {"normal": ht.noise.Gaussian(1.0), "t(2.1)": ht.noise.StudentT(2.1)}


def found_at(patience: float, one_in: int, seed: int) -> int:
    """The first round before which WINDOW rounds played the prize, but for a tenth of them; ROUNDS
    if none is.

    Two arms: 1 for sure, or twice that on average, as one payment in ``one_in`` rounds.
    """
    rng, arms = np.random.default_rng([seed, one_in]), np.eye(2)
    policy, played = ht.TwinUCB(2, patience=patience), np.zeros(ROUNDS, dtype=np.int64)
    for t in range(ROUNDS):
        arm = played[t] = policy.select(arms)
        paid = 2.0 * one_in * (rng.random() < 1.0 / one_in)
        policy.update(arms[arm], paid if arm else 1.0)
        if t >= WINDOW and played[t - WINDOW : t].sum() >= 0.9 * WINDOW:
            return t
    return ROUNDS


def regret(patience: float, noise: ht.noise.Noise, trials: int, seed: int) -> float:
    """Mean regret where nothing is hidden: ten arms in three dimensions."""
    world = ht.LinearBandit(3, 10, noise)
    runs = ht.simulate(
        [ht.TwinUCB(3, patience=patience)],
        world,
        rounds=ROUNDS,
        trials=trials,
        seed=seed,
        progress=False,
    )
    return float(runs["Twin-UCB"].regret[:, -1].mean())


def draw(path: str, costs: FloatArray, waits: FloatArray) -> None:
    """Regret where nothing is hidden against the round at which a prize is found."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    markers = ("X", "v", "o", "s", "D")
    for column, one_in in enumerate(CHANCES):
        (line,) = axes.plot(waits[:, column], costs, "-", label=f"prize of 1 in {one_in}")
        for marker, x, y in zip(markers, waits[:, column], costs, strict=True):
            axes.plot(x, y, marker, color=line.get_color(), markersize=7)
    for marker, patience in zip(markers, PATIENCE, strict=True):
        axes.plot([], [], marker, color="0.4", label=f"patience {patience:g}")
    axes.set(
        xscale="log",
        xlabel="median round at which the prize is found (20,000: not found)",
        ylabel="mean regret, nothing hidden",
    )
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("figure", nargs="?", help="also draw it into this file")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3100)
    args = parser.parse_args()
    prizes = " | ".join(f"prize of 1 in {one_in} found at" for one_in in CHANCES)
    print(f"| patience | {' | '.join(f'regret, {name}' for name in PLAIN)} | {prizes} |")
    print("| --- " * (1 + len(PLAIN) + len(CHANCES)) + "|")
    costs, waits = np.zeros(len(PATIENCE)), np.zeros((len(PATIENCE), len(CHANCES)))
    for row, patience in enumerate(PATIENCE):
        plain = [regret(patience, noise, args.trials, args.seed) for noise in PLAIN.values()]
        costs[row] = np.mean(plain)
        cells = [f"{value:,.0f}" for value in plain]
        for column, one_in in enumerate(CHANCES):
            rounds = [found_at(patience, one_in, args.seed + i) for i in range(args.trials // 3)]
            waits[row, column] = np.median(rounds)
            lost = np.mean(np.array(rounds) == ROUNDS)
            cells.append(f"{waits[row, column]:,.0f} ({lost:.0%} never)")
        print(f"| {patience:g} | {' | '.join(cells)} |", flush=True)
    if args.figure:
        draw(args.figure, costs, waits)


if __name__ == "__main__":
    sys.exit(main())
