"""The best mean reward: Twin-UCB and Hvt-UCB, untuned, beside Thompson sampling, OFUL and LinTS.

    python -m benchmarks.mean --engine cuda --rounds 100000 --trials 10000 --out mean.jsonl
    python -m benchmarks.mean --table mean.jsonl

Worlds are drawn by counters, the same for every policy; those of ``STRANGE`` and Thompson sampling
run on the CPU alone. For each: mean regret, its median, the
worst trial over the median, the share of regret in the second half, and the share of trials with
more than ten times the median.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray
from heavytail.environments.base import BLOCK, Block
from heavytail.policies import Policy
from heavytail.simulation import distribution
from heavytail.simulation.engines import _reward

SKEWED = {
    "jackpot": ("jackpot", None),
    "catastrophe": ("catastrophe", None),
    "size, log-normal(1)": ("size", ht.noise.LogNormal(1.0)),
    "size, Pareto(1.7)": ("size", ht.noise.Pareto(1.7)),
    "size along the mean": ("aligned", ht.noise.LogNormal(1.0)),
    "shop, amounts differ": ("amounts", None),
    "shop, conversion differs": ("conversion", None),
    "shop, dear converts rarely": ("dear", None),
}
NOISES: dict[str, Any] = {
    "normal": ht.noise.Gaussian(1.0),
    "t(2.1)": ht.noise.StudentT(2.1),
    "t(1.7)": ht.noise.StudentT(1.7),
    "Pareto(1.5)": ht.noise.Pareto(1.5),
    "Lomax(1.5)": ht.noise.Lomax(1.5),
    "Fisk(1.5)": ht.noise.Fisk(1.5),
    "log-normal(1)": ht.noise.LogNormal(1.0),
    "contaminated": ht.noise.Contaminated(),
    "normal x 10^U(0,1)": ht.noise.Scaled(ht.noise.Gaussian(1.0), 1.0),
    "t(2.1) x 10^U(0,1)": ht.noise.Scaled(ht.noise.StudentT(2.1), 1.0),
}
STRANGE = {  # what an arm's reward is beside x'theta + a normal variable of size 0.5
    "the best arm is the loudest": "loud",
    "one arm is ten times as loud": "one loud",
    "hidden prize of 1 in 50": "prize",
    "lottery of 1 in 10": "lottery",
    "offset of 200 noises": "offset",
}
SIZES = {"3,10": (3, 10), "5,20": (5, 20), "2,50": (2, 50)}
PLAIN = {size: {f"{name} ({size})" for name in NOISES} for size in SIZES}
SEED = 7_310_116


class Strange(ht.environments.Environment):
    """Unit arms, and one of them unlike the others. In the two lotteries it has a direction to
    itself, and pays 0 unless it pays its prize; the others pay 1 or less, and are sure but for a
    noise of 0.2 (none beside the hidden prize).
    """

    fixed_arms, symmetric = True, False

    def __init__(self, dim: int, arms: int, kind: str) -> None:
        self.dim, self.arms, self.kind = dim, arms, kind

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(self.arms, self.dim))
        theta = rng.normal(size=self.dim)
        one = int(rng.integers(self.arms))
        lottery = self.kind in ("prize", "lottery")
        if lottery:
            X[:, -1], X[one], theta[-1] = 0.0, np.eye(self.dim)[-1], 0.0
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        means = X @ theta / np.linalg.norm(theta)
        shapes = np.zeros((self.arms, 4))  # base, size of the noise, chance, amount
        shapes[:, 0], shapes[:, 1], shapes[:, 3] = means, 0.5, 1.0
        payment = 0.0
        if self.kind == "loud":
            shapes[np.argmax(means), 1] = 5.0
        elif self.kind == "one loud":
            shapes[one, 1] = 5.0
        elif self.kind == "offset":
            means = shapes[:, 0] = means + 100.0
        elif lottery:
            chance, payment = (0.02, 60.0) if self.kind == "prize" else (0.1, 20.0)
            shapes[:, 0], shapes[:, 1] = 0.6 + 0.4 * means, 0.0 if self.kind == "prize" else 0.2
            shapes[one] = 0.0, 0.0, chance, 1.0
            means = shapes[:, 0] + shapes[:, 2] * payment
        while True:
            events = np.stack([rng.random(BLOCK), np.full(BLOCK, payment)], axis=-1)
            noise = rng.normal(size=BLOCK)
            yield Block(arms=X, means=means, noise=noise, shapes=shapes, events=events)


def thompson(world: Any, rounds: int, trials: int, seed: int) -> FloatArray:
    """Regret at half and at the end of what a user would write in ten lines instead, told nothing:
    Thompson sampling with a normal, inverse gamma prior. (2, trials).
    """
    regret = np.zeros((2, trials))
    for i, child in enumerate(np.random.SeedSequence(seed).spawn(trials)):
        rng, d, t = np.random.default_rng(child.spawn(1)[0]), world.dim, 0
        P, theta, a, b = np.diag([1.0] * d + [1e4]), np.zeros(d + 1), 1.0, 1e-6
        for block in world.blocks(child, rounds):
            for r in range(block.length):
                arms, means = block.round(r)
                scale = np.sqrt(b / rng.gamma(a))
                draw = theta + scale * np.linalg.cholesky(P) @ rng.normal(size=d + 1)
                k = int(np.argmax(arms @ draw[:d]))
                x = np.append(arms[k], 1.0)
                u = P @ x
                off, grown = _reward(block, r, k) - x @ theta, 1.0 + x @ u
                theta, P = theta + off / grown * u, P - np.outer(u, u) / grown
                a, b, t = a + 0.5, b + 0.5 * off**2 / grown, t + 1
                regret[int(2 * t > rounds), i] += means.max() - means[k]
    return np.cumsum(regret, axis=0)


def worlds() -> dict[str, Any]:
    """Every world by name: the skewed ones, then one shape for all arms in three sizes."""
    found: dict[str, Any] = {}
    for size, (dim, arms) in SIZES.items():
        for name, (kind, noise) in SKEWED.items():
            found[f"{name} ({size})"] = ht.SkewedBandit(dim, arms, kind, noise=noise)
        for name, noise in NOISES.items():
            found[f"{name} ({size})"] = ht.LinearBandit(dim, arms, noise)
        for name, kind in STRANGE.items():
            found[f"{name} ({size})"] = Strange(dim, arms, kind)
    return found


def scale_of(world: Any) -> Any:
    """A moment bound that holds in the world: of order 2 where there is one."""
    if isinstance(world, Strange):
        loud = {"prize": 60.0 * 0.14, "lottery": 6.0}.get(world.kind, 5.0)
        return ht.MomentBound(2.0, 0.5 if world.kind == "offset" else loud)
    order = min(2.0, 0.95 * (world.tail_index - 1.0) + 1.0)
    return world.tail(order) if isinstance(world, ht.SkewedBandit) else world.noise.tail(order)


POLICIES: dict[str, Callable[[Any], Policy | None]] = {
    "Twin-UCB": lambda w: ht.TwinUCB(w.dim),
    "Twin-UCB, scale stated": lambda w: ht.TwinUCB(w.dim, tail=scale_of(w)),
    "Twin-UCB, typical": lambda w: ht.TwinUCB(w.dim, target="typical"),
    "Hvt-UCB": lambda w: ht.HvtUCB(w.dim),
    **{
        f"least squares {e}": lambda w, e=e: ht.HvtUCB(w.dim, clip=np.inf, exploration=e)  # type: ignore[misc]
        for e in (0.3, 0.5, 0.7)
    },
    **{
        f"OFUL {r}": lambda w, r=r: ht.OFUL(w.dim, noise_scale=scale_of(w).scale, radius_scale=r)  # type: ignore[misc]
        for r in (1.0, 0.3, 0.1)
    },
    "LinTS": lambda w: ht.LinTS(w.dim, noise_scale=scale_of(w).scale),
    "plain Thompson": lambda w: None,  # see thompson
    "uniform": lambda w: ht.Uniform(w.dim),
}


def measure(
    policy: Policy | None, world: Any, rounds: int, trials: int, engine: str, seed: int = SEED
) -> dict[str, Any]:
    with warnings.catch_warnings():  # some run outside their assumptions on purpose
        warnings.simplefilter("ignore")
        if policy is None:
            half, final = thompson(world, rounds, trials, seed)
        elif isinstance(world, Strange):
            told = {"rounds": rounds, "trials": trials, "seed": seed, "record": 2}
            half, final = ht.simulate({"it": policy}, world, **told)["it"].regret.T
        else:
            told = {"rounds": rounds, "trials": trials, "seed": seed, "record": 2}
            half, final = distribution(policy, world, engine=engine, **told).regret
    return {
        "mean": float(final.mean()),
        "median": float(np.median(final)),
        "worst": float(final.max()),
        "worst over median": float(final.max() / np.median(final)),
        "second half": float(1.0 - half.mean() / final.mean()),
        "above 10 medians": float(np.mean(final > 10.0 * np.median(final))),
        "refused": int(np.isnan(final).sum()),
    }


COLUMNS = {  # of the table: the best of those named
    "Twin-UCB": ("Twin-UCB",),
    "Hvt-UCB": ("Hvt-UCB",),
    'target="typical"': ("Twin-UCB, typical",),
    "least squares": ("least squares 0.3", "least squares 0.5", "least squares 0.7"),
    "OFUL": ("OFUL 1.0", "OFUL 0.3", "OFUL 0.1"),
    "LinTS": ("LinTS",),
    "uniform": ("uniform",),
}


def table(lines: list[str], chosen: list[str]) -> str:
    """Results, one JSON a line, as Markdown: mean regret, Twin-UCB's spread, and its regret over
    OFUL's and over the typical target's, in geometric mean over the worlds of one shape.
    """
    found = {(run["world"], run["policy"]): run for run in map(json.loads, lines)}
    shown = [world for world in chosen if (world, "Twin-UCB") in found]
    means: dict[str, list[float]] = {}
    for column, names in COLUMNS.items():
        runs = [[found[w, p]["mean"] for p in names if (w, p) in found] for w in shown]
        if any(runs):  # a column that nobody ran is left out, a world that is missing is a dash
            means[column] = [min(run, default=np.nan) for run in runs]
    if "OFUL" in means:
        means["Twin-UCB / OFUL"] = list(np.divide(means["Twin-UCB"], means["OFUL"]))
    rows = [f"| world | {' | '.join(means)} | worst / median | second half |"]
    rows.append("| --- " * (len(means) + 3) + "|")
    for i, world in enumerate(shown):
        twin = found[world, "Twin-UCB"]
        digits = {name: 2 if "/" in name else 0 for name in means}
        cells = [f"{row[i]:,.{digits[name]}f}" for name, row in means.items()]
        cells += [f"{twin['worst over median']:.0f}", f"{twin['second half']:.0%}"]
        rows.append(f"| {world} | {' | '.join(cells)} |".replace(" nan ", " - "))
    for size in SIZES if 'target="typical"' in means else ():
        one = [i for i, world in enumerate(shown) if world in PLAIN[size]]
        if one:
            ratio = np.divide(means["Twin-UCB"], means['target="typical"'])[one]
            mean = np.exp(np.mean(np.log(ratio)))
            rows.append(
                f"\n({size}), one shape: geometric mean {mean:.1f} times the typical target"
            )
    return "\n".join(rows)


def put(path: Path, entry: dict[str, Any]) -> None:
    """Keep a result, one JSON a line, in place of an older one of its world and policy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    same = {key: entry[key] for key in ("world", "policy")}
    lines = [line for line in lines if same.items() - json.loads(line).items()]
    path.write_text("\n".join([*lines, json.dumps(entry)]) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=("compiled", "cuda"), default="compiled")
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--worlds", nargs="+", default=["(3,10)"], help="those whose name has one of these in it"
    )
    parser.add_argument("--policies", nargs="*", default=list(POLICIES))
    parser.add_argument("--part", default="0/1", help="every k-th world only: 0/4, 1/4, ...")
    parser.add_argument("--table", help="only print the results in this file as a table")
    parser.add_argument("--out", help="also keep every result in this file, one JSON a line")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    chosen = [name for name in worlds() if any(w in name for w in args.worlds)][part::parts]
    if args.table:
        with open(args.table, encoding="utf-8") as stream:
            print(table(stream.readlines(), chosen))
        return
    for name in chosen:
        world = worlds()[name]
        for label in args.policies:
            start = time.perf_counter()
            policy = POLICIES[label](world)
            found = measure(policy, world, args.rounds, args.trials, args.engine, args.seed)
            text = "  ".join(
                f"{key} {value:,.0f}" if value >= 100.0 else f"{key} {value:.3g}"
                for key, value in found.items()
            )
            print(f"{name:32} {label:24} {text}", flush=True)
            if args.out:
                entry = {"world": name, "policy": label, **found}
                entry |= {"rounds": args.rounds, "trials": args.trials}
                entry |= {"seconds": time.perf_counter() - start}
                put(Path(args.out), entry)


if __name__ == "__main__":
    sys.exit(main())
