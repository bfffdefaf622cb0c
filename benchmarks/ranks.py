"""What Hvt-LowRank loses by a rank that is not known, beside Twin-UCB on all entries.

    python -m benchmarks.ranks [--trials N] [--rounds T] [--seed SEED]

Regret of pairs with the right rank, with one more, and with none stated: median and worst of the
trials, and the mean over that of the right rank. Fixed items but where they are fresh.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray

WORLDS: dict[str, tuple[tuple[int, int, int, int], ht.noise.Noise, dict[str, Any]]] = {
    "8 x 8, rank 1, t(1.7)": ((8, 8, 1, 20), ht.noise.StudentT(1.7), {}),
    "8 x 8, rank 1, normal": ((8, 8, 1, 20), ht.noise.Gaussian(), {}),
    "10 x 10, rank 2, t(1.7)": ((10, 10, 2, 20), ht.noise.StudentT(1.7), {}),
    "10 x 10, rank 2, normal": ((10, 10, 2, 20), ht.noise.Gaussian(), {}),
    "12 x 6, rank 1, stable(1.5)": ((12, 6, 1, 15), ht.noise.Stable(1.5), {}),
    "5 x 12, rank 2, t(2.2), fresh": ((5, 12, 2, 8), ht.noise.StudentT(2.2), {"fresh": True}),
}


def regrets(policy: ht.Policy, world: ht.LowRankBandit, told: dict[str, Any]) -> FloatArray:
    """Regret of each trial."""
    runs = ht.simulate([policy], world, progress=False, **told)
    return np.asarray(runs[policy.name].final)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=4711)
    args = parser.parse_args()
    told = {"rounds": args.rounds, "trials": args.trials, "seed": args.seed}
    print(f"{'':<32}{'':<12}{'median':>8}{'worst':>8}{'mean / right':>14}")
    for name, (shape, law, options) in WORLDS.items():
        d1, d2, rank, _ = shape
        pairs = ht.LowRankBandit(*shape, law, **options)
        entries = ht.LowRankBandit(*shape, law, form="matrices", **options)
        runs = {
            title: regrets(ht.HvtLowRank(d1, d2, rank=stated, form="pairs"), pairs, told)
            for title, stated in (("right", rank), ("one more", rank + 1), ("none", None))
        }
        runs["Twin-UCB"] = regrets(ht.TwinUCB(d1 * d2), entries, told)
        for title, found in runs.items():
            over = found.mean() / runs["right"].mean()
            figures = f"{np.median(found):>8,.0f}{found.max():>8,.0f}{over:>14.2f}"
            print(f"{name:<32}{title:<12}{figures}", flush=True)


if __name__ == "__main__":
    main()
