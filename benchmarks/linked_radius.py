"""How the practical radius of GLB-OMD and Hvt-GLB was chosen: regret with clicks and counts.

    python -m benchmarks.linked_radius [--trials N] [--rounds T]

The worlds are none of those that ``heavytail reproduce glb`` and ``benchmarks.link_regret`` report.
For every multiplier: mean regret over that of the best multiplier, as a geometric mean over the
worlds and in the worst of them, and the largest ratio of a worst trial to the median. Beside them
least squares with an intercept, which is GLB-OMD with the identity link, over GLB-OMD's default.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray
from heavytail.experiments.tune import scores

World = ht.LinkBandit
CLICKS = (
    World(4, 10, "logistic", theta_bound=1.5, fresh=True),
    World(4, 10, "logistic", theta_bound=1.5, base=-2.0, fresh=True),
    World(4, 15, "logistic", theta_bound=2.5),
    World(6, 15, "logistic", theta_bound=1.5, base=-3.0),
)
COUNTS = (
    World(4, 10, "log", theta_bound=0.8, fresh=True),
    World(4, 10, "log", theta_bound=2.0, fresh=True),
    World(4, 15, "log", theta_bound=1.5),
    World(4, 15, "log", theta_bound=4.0),
    World(6, 15, "log", base=2.0),
)
RADII = (0.25, 0.3, 0.35, 0.4, 0.5)
EXPLORATIONS = (0.4, 0.5, 0.6, 0.7)


def glb_omd(world: World, k: float) -> ht.Policy:
    return ht.GLBOMD(world.dim, link=world.link, radius_scale=k)


def hvt_glb(world: World, k: float) -> ht.Policy:
    return ht.HvtGLB(world.dim, link=world.link, exploration=k)


def least_squares(world: World) -> ht.Policy:
    return ht.GLBOMD(world.dim, noise_scale=0.5 if world.link.name == "logistic" else 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=4_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    def regret_of(policy: ht.Policy, world: World) -> FloatArray:
        told = {"rounds": args.rounds, "trials": args.trials, "seed": 11, "progress": False}
        return np.asarray(ht.simulate([policy], world, **told)[policy.name].final)

    for title, make, worlds, tried in (
        ("GLB-OMD, radius_scale", glb_omd, CLICKS + COUNTS, RADII),
        ("Hvt-GLB, exploration", hvt_glb, COUNTS, EXPLORATIONS),
    ):
        regret, unlucky = np.empty((len(worlds), len(tried))), np.empty((len(worlds), len(tried)))
        for row, world in enumerate(worlds):
            for column, k in enumerate(tried):
                found = regret_of(make(world, k), world)
                regret[row, column] = found.mean()
                unlucky[row, column] = found.max() / np.median(found)
        mean, worst = scores(regret)
        print(f"{title:<24}{'over best':>10}{'worst':>8}{'worst / median':>16}")
        for column, k in enumerate(tried):
            line = f"{mean[column]:>10.2f}{worst[column]:>8.2f}{unlucky[:, column].max():>16.1f}"
            print(f"{k:<24}{line}", flush=True)
    print("least squares over GLB-OMD, by world")
    for world in CLICKS + COUNTS:
        ours = ht.GLBOMD(world.dim, link=world.link)
        ratio = regret_of(least_squares(world), world).mean() / regret_of(ours, world).mean()
        print(f"  {world!r:<76}{ratio:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
