"""The search for every policy's default ``radius_scale`` and ``threshold_scale``, all alike.

    python -m heavytail.reproduction.untuned_defaults [--write [PAGE]] [--rounds T] [--trials N]

Every pair on a grid (radius 1e-4 to 1 in half decades, threshold 0.01, 0.1, 1) runs in environments
that are reported nowhere else, on the same seeds, with the exact moment bound of the noise. In an
environment, a pair's score is its regret over that of the policy's best pair there. The default has
the least product of geometric mean score and worst score, so that it is good on the whole and
nowhere bad; within 2 % of it the largest radius wins, then the largest threshold: the nearest to
the theory. Environments that break a need of the policy are left out (heavy tails excepted for the
policies that assume light ones, which would have no heavy environment left).

``--write`` puts the rows into a page, in a source tree docs/evidence/untuned_defaults.md unless
named; a test compares them with the code.
"""

from __future__ import annotations

import argparse
import inspect
import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments import LinearBandit
from heavytail.environments.noise import Gaussian, Pareto, StudentT
from heavytail.experiments.machine import record_at
from heavytail.experiments.setting import block_units
from heavytail.experiments.store import Store, complete, write_text
from heavytail.experiments.tune import Point, scores, search
from heavytail.experiments.unit import Unit
from heavytail.policies import ALL, Policy, Uniform, make_policy

__all__ = ["grid", "main", "measure"]

PAGE = "docs/evidence/untuned_defaults.md"
RADIUS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
THRESHOLD = (0.01, 0.1, 1.0)
SEED = 31_415
TIE = 1.02
ARMS = 20
ENVIRONMENTS: dict[str, tuple[LinearBandit, float]] = {
    "d=2, normal(0.2)": (LinearBandit(2, ARMS, Gaussian(0.2)), 2.0),
    "d=4, normal(1)": (LinearBandit(4, ARMS, Gaussian(1.0)), 2.0),
    "d=3, t(2.3)": (LinearBandit(3, ARMS, StudentT(2.3)), 2.0),
    "d=2, t(1.8)": (LinearBandit(2, ARMS, StudentT(1.8)), 1.7),
    "d=4, Pareto(1.9)": (LinearBandit(4, ARMS, Pareto(1.9)), 1.7),
}
SLOW = ("AdaOFUL", "TOFU", "BTC", "Huber-Bandit")  # O(t) per round: a quarter of the rounds
SKIP = ("Hvt-UCB", "Uniform")  # has a calibration of its own; has nothing to scale


def grid(kind: type[Policy]) -> list[Point]:
    """The pairs that ``kind`` takes; the theory is the last."""
    takes = inspect.signature(kind).parameters
    if "threshold_scale" not in takes:
        return [{"radius_scale": r} for r in RADIUS]
    return [{"radius_scale": r, "threshold_scale": t} for r in RADIUS for t in THRESHOLD]


def measure(kind: type[Policy], rounds: int, trials: int) -> tuple[FloatArray, FloatArray]:
    """Mean regret, (environments, pairs), and Uniform's, (environments,), where needs are met."""

    def built(name: str, pair: Point) -> Policy:
        environment, order = ENVIRONMENTS[name]
        tail = environment.noise.tail(order)
        return make_policy(
            kind.name, dim=environment.dim, horizon=rounds, tail=tail, arms=ARMS, **pair
        )

    def suits(name: str) -> bool:
        environment = ENVIRONMENTS[name][0]
        try:
            policy = built(name, grid(kind)[0])
        except ValueError:  # an order that the policy refuses
            return False
        return not set(environment.broken_needs(policy, rounds)) - {"sub-Gaussian noise"}

    def units_of(name: str, pair: Point) -> list[Unit]:
        environment = ENVIRONMENTS[name][0]
        policy = built(name, pair) if pair else Uniform(environment.dim)
        return block_units(policy, environment, rounds, SEED, trials, (rounds,))

    pairs: list[Point] = [*grid(kind), {}]
    cases = dict.fromkeys(filter(suits, ENVIRONMENTS), pairs)
    regret = np.array(list(search(cases, units_of, lambda u: complete(u, Store())).values()))
    return regret[:, :-1], regret[:, -1]


def row(kind: type[Policy], rounds: int, trials: int) -> str:
    """One line of the table."""
    pairs = grid(kind)
    regret, floor = measure(kind, rounds, trials)
    mean, worst = scores(regret)
    near = [i for i in range(len(pairs)) if (mean * worst)[i] <= TIE * (mean * worst).min()]
    best = max(near, key=lambda i: tuple(pairs[i].values()))
    share = np.exp(np.log(regret / floor[:, None]).mean(axis=0))
    radius, threshold = pairs[best]["radius_scale"], pairs[best].get("threshold_scale", "-")
    return (
        f"| {kind.name} | {radius:g} | {threshold} | {len(floor)} | {mean[best]:.2f} "
        f"| {worst[best]:.2f} | {share[best]:.3f} | {share[-1]:.3f} |"
    )


def write(page: Path, lines: dict[str, str]) -> None:
    """Replace the policies' rows on the page, or add them in the order of the table of policies."""
    text = page.read_text(encoding="utf-8")
    old = dict(re.findall(r"^(?=\| ([A-Z][\w-]*) \|)(.*)$", text, flags=re.MULTILINE))
    rows = {**old, **lines}
    order = [kind.name for kind in ALL if kind.name in rows]
    head, _, rest = text.partition("| --- |")
    divider, _, after = rest.partition("\n")
    tail = after[after.index("\n\n") :] if "\n\n" in after else "\n"
    body = "\n".join(rows[name] for name in order)
    write_text(page, f"{head}| --- |{divider}\n{body}{tail}")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the rows asked for, all unless named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policies", nargs="*", metavar="POLICY")
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--write", nargs="?", const="", metavar="PAGE")
    args = parser.parse_args(argv)
    page = None
    if args.write is not None:
        page = record_at(Path(args.write) if args.write else None, PAGE, "--write PAGE")
    lines = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in ALL:
            wanted = not args.policies or kind.name in args.policies
            if wanted and kind.name not in SKIP and kind.info.rewards == "any":
                start = time.perf_counter()
                rounds = args.rounds // 4 if kind.name in SLOW else args.rounds
                lines[kind.name] = row(kind, rounds, args.trials)
                print(lines[kind.name], f"{time.perf_counter() - start:.0f} s", flush=True)
    if page is not None:
        write(page, lines)


if __name__ == "__main__":
    main()
