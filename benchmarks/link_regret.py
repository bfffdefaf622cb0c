"""Policies with a link beside least squares with an intercept and Twin-UCB, both linear.

    python -m benchmarks.link_regret [--trials N] [--rounds T] [--seed SEED]

Regret, mean (median, worst) of the trials. Least squares is GLB-OMD with the identity link, which
is ridge regression with OFUL's radius; of clicks it is told that their standard deviation is at
most 1/2. "Hvt-GLB, mean" has a threshold that grows.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray

WORLDS = {
    "clicks, new arms": ht.LinkBandit(6, 12, "logistic", theta_bound=2.0, base=-1.0, fresh=True),
    "clicks, fixed arms": ht.LinkBandit(4, 25, "logistic", theta_bound=4.0, base=-1.0),
    "counts, new arms": ht.LinkBandit(6, 12, "log", theta_bound=1.2, base=0.5, fresh=True),
    "counts, fixed arms": ht.LinkBandit(4, 25, "log", theta_bound=4.5),
    "counts, 1 % times 300": ht.LinkBandit(
        4, 12, "log", theta_bound=1.5, outliers=0.01, factor=300.0
    ),
    "counts, 3 % times 50": ht.LinkBandit(
        6, 15, "log", base=1.0, outliers=0.03, factor=50.0, fresh=True
    ),
    "counts, 0.5 % times 1,000": ht.LinkBandit(
        3, 10, "log", theta_bound=2.0, base=-1.0, outliers=0.005
    ),
}


def policies(world: ht.LinkBandit) -> dict[str, ht.Policy]:
    """By name; nothing is tuned."""
    d, link = world.dim, world.link.name
    clicks = link == "logistic"
    found: dict[str, ht.Policy] = {
        "GLB-OMD": ht.GLBOMD(d, link=link),
        "least squares": ht.GLBOMD(d, noise_scale=0.5 if clicks else 1.0),
        "Twin-UCB": ht.TwinUCB(d),
        "Twin-UCB, patience 0": ht.TwinUCB(d, patience=0.0),
    }
    if not clicks:
        found["Hvt-GLB"] = ht.HvtGLB(d, link=link, target="typical")
        found["Hvt-GLB, mean"] = ht.HvtGLB(d, link=link, target="mean")
    return found


def cell(found: FloatArray) -> str:
    return f"{found.mean():,.0f} ({np.median(found):,.0f}, {found.max():,.0f})"


def main() -> None:
    """Print a line per world and policy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=2027)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    told = {"rounds": args.rounds, "trials": args.trials, "seed": args.seed, "progress": False}
    for name, world in WORLDS.items():
        for title, policy in policies(world).items():
            runs = ht.simulate([policy], world, **told)
            print(f"{name:<28}{title:<22}{cell(runs[policy.name].final)}", flush=True)


if __name__ == "__main__":
    main()
