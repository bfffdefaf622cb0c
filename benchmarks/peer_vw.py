"""Vowpal Wabbit's SquareCB where arms pay recorded values: regret of every trial, as JSON.

Run by benchmarks/real.py in an environment of its own (.bench), where Vowpal Wabbit is installed.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from vowpalwabbit import Workspace


def main(path: str, rounds: int, trials: int, seed: int) -> None:
    data = np.load(path)
    pools = np.split(data["values"], np.cumsum(data["sizes"])[:-1])
    means = np.array([pool.mean() for pool in pools])
    features = ["| " + " ".join(f"f{j}:{v:.6f}" for j, v in enumerate(x)) for x in data["arms"]]
    regret = []
    for trial in range(trials):
        vw = Workspace("--cb_explore_adf --squarecb --quiet")
        rng, lost = np.random.default_rng([seed, trial]), 0.0
        for _ in range(rounds):
            chances = np.asarray(vw.predict(features))
            chances = chances / chances.sum()
            k = int(rng.choice(len(chances), p=chances))
            label = f"0:{-rng.choice(pools[k]):.6f}:{chances[k]:.6f} "
            vw.learn([*features[:k], label + features[k], *features[k + 1 :]])
            lost += means.max() - means[k]
        vw.finish()
        regret.append(float(lost))
    print(json.dumps(regret))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
