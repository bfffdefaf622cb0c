"""How every policy's default ``radius_scale`` and ``threshold_scale`` were found, all alike.

    python experiments/untuned_defaults.py [--write] [--rounds T] [--trials N] [POLICY ...]

Every pair on a grid (radius 1e-4 to 1 in half decades, threshold 0.01, 0.1, 1) runs in worlds that
are reported nowhere else, on the same seeds, with the exact moment bound of the noise. In a world,
a pair's score is its regret over that of the policy's best pair there. The default has the least
product of geometric mean score and worst score, so that it is good on the whole and nowhere bad;
within 2 % of it the largest radius wins, then the largest threshold: the nearest to the theory.
Worlds that break a need of the policy are left out (heavy tails excepted for the policies that
assume light ones, which would have no heavy world left).

``--write`` puts the rows into docs/guide/untuned_defaults.md; a test compares them with the code.
"""

from __future__ import annotations

import argparse
import inspect
import re
import time
import warnings
from pathlib import Path

import numpy as np

import heavytail as ht
from heavytail.policies import ALL

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "untuned_defaults.md"
RADIUS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
THRESHOLD = (0.01, 0.1, 1.0)
SEED = 31_415
TIE = 1.02
ARMS = 20
WORLDS: dict[str, tuple[ht.LinearBandit, float]] = {
    "d=2, normal(0.2)": (ht.LinearBandit(2, ARMS, ht.noise.Gaussian(0.2)), 2.0),
    "d=4, normal(1)": (ht.LinearBandit(4, ARMS, ht.noise.Gaussian(1.0)), 2.0),
    "d=3, t(2.3)": (ht.LinearBandit(3, ARMS, ht.noise.StudentT(2.3)), 2.0),
    "d=2, t(1.8)": (ht.LinearBandit(2, ARMS, ht.noise.StudentT(1.8)), 1.7),
    "d=4, Pareto(1.9)": (ht.LinearBandit(4, ARMS, ht.noise.Pareto(1.9)), 1.7),
}
SLOW = ("AdaOFUL", "TOFU", "BTC", "Huber-Bandit")  # O(t) a round: a quarter of the rounds
SKIP = ("Hvt-UCB", "Uniform")  # has a calibration of its own; has nothing to scale


def grid(kind: type[ht.Policy]) -> list[dict[str, float]]:
    """The pairs that ``kind`` can be given; the theory is the last."""
    takes = inspect.signature(kind).parameters
    if "threshold_scale" not in takes:
        return [{"radius_scale": r} for r in RADIUS]
    return [{"radius_scale": r, "threshold_scale": t} for r in RADIUS for t in THRESHOLD]


def measure(kind: type[ht.Policy], rounds: int, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean regret, (worlds, pairs), and Uniform's, (worlds,), where the needs are met."""
    rows, floor = [], []
    for world, order in WORLDS.values():
        problem = {"dim": world.dim, "horizon": rounds, "tail": world.noise.tail(order)}
        try:
            named = {
                str(i): ht.make_policy(kind.name, arms=ARMS, **problem, **pair)
                for i, pair in enumerate(grid(kind))
            }
        except ValueError:  # an order that the policy refuses
            continue
        if set(world.broken_needs(named["0"], rounds)) - {"sub-Gaussian noise"}:
            continue
        named["floor"] = ht.Uniform(world.dim)
        results = ht.simulate(named, world, rounds=rounds, trials=trials, seed=SEED, record=1)
        final = [results[name].final.mean() for name in named]
        rows.append(final[:-1])
        floor.append(final[-1])
    return np.array(rows), np.array(floor)


def row(kind: type[ht.Policy], rounds: int, trials: int) -> str:
    """One line of the table."""
    pairs = grid(kind)
    regret, floor = measure(kind, rounds, trials)
    scores = regret / regret.min(axis=1, keepdims=True)
    mean, worst = np.exp(np.log(scores).mean(axis=0)), scores.max(axis=0)
    near = [i for i in range(len(pairs)) if (mean * worst)[i] <= TIE * (mean * worst).min()]
    best = max(near, key=lambda i: tuple(pairs[i].values()))
    share = np.exp(np.log(regret / floor[:, None]).mean(axis=0))
    radius, threshold = pairs[best]["radius_scale"], pairs[best].get("threshold_scale", "-")
    return (
        f"| {kind.name} | {radius:g} | {threshold} | {len(floor)} | {mean[best]:.2f} "
        f"| {worst[best]:.2f} | {share[best]:.3f} | {share[-1]:.3f} |"
    )


def write(lines: dict[str, str]) -> None:
    """Replace the policies' rows on the page, or add them in the order of the table of policies."""
    text = PAGE.read_text()
    old = dict(re.findall(r"^(?=\| ([A-Z][\w-]*) \|)(.*)$", text, flags=re.MULTILINE))
    rows = {**old, **lines}
    order = [kind.name for kind in ALL if kind.name in rows]
    head, _, rest = text.partition("| --- |")
    divider, _, after = rest.partition("\n")
    tail = after[after.index("\n\n") :] if "\n\n" in after else "\n"
    body = "\n".join(rows[name] for name in order)
    PAGE.write_text(f"{head}| --- |{divider}\n{body}{tail}")


def main() -> None:
    """Print the rows asked for, all unless named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policies", nargs="*", metavar="POLICY")
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = {}
    for kind in ALL:
        wanted = not args.policies or kind.name in args.policies
        if wanted and kind.name not in SKIP:
            start = time.perf_counter()
            rounds = args.rounds // 4 if kind.name in SLOW else args.rounds
            lines[kind.name] = row(kind, rounds, args.trials)
            print(lines[kind.name], f"{time.perf_counter() - start:.0f} s", flush=True)
    if args.write:
        write(lines)


if __name__ == "__main__":
    main()
