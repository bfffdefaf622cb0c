"""The runs that the playground of the documentation shows: noises x arms x policies, recorded.

python -m benchmarks.playground [FILE]

In a cell every trial of every policy meets the same arms and the same draws. Kept are the regret of
the best, the median and the worst trial and their mean, and how often each arm was played between
two marks. The file carries a stamp of this source and of the runs; ``docs/hooks/playground.py``
refuses to build the page where it does not fit.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from docs.hooks.playground import PLACE, stamp

import heavytail as ht

ROUNDS, TRIALS, MARKS, SEED = 3_000, 40, 60, 17
NORMAL = math.sqrt(math.pi / 2.0)  # the deviation of normal noise with E|eta| = 1

NOISES = {
    "normal": "Normal: no outliers",
    "student": "Student's t(1.7): outliers both ways",
    "pareto": "Pareto(1.5): rare prizes",
    "zeros": "A shop: 9 of 10 rewards are 0",
}
ARMS = {
    "apart": "Three, far apart",
    "close": "Five, close together",
    "shared": "Eight that share two features",
}
POLICIES: dict[str, Callable[[int, float], ht.Policy]] = {  # of the features, and what is told
    "Twin-UCB": lambda dim, _: ht.TwinUCB(dim),
    "Hvt-UCB": lambda dim, _: ht.HvtUCB(dim),
    "OFUL": lambda dim, told: ht.OFUL(dim, noise_scale=told),
    "LinTS": lambda dim, told: ht.LinTS(dim, noise_scale=told),
    "Uniform": lambda dim, _: ht.Uniform(dim),
}


def world(arms: str) -> tuple[np.ndarray, np.ndarray]:
    """The features of the arms, and their mean rewards, the best first."""
    if arms == "shared":
        angle = np.linspace(0.0, 1.4, 8)
        return np.column_stack([np.cos(angle), np.sin(angle)]), np.cos(angle)
    means = np.array([1.0, 0.6, 0.2] if arms == "apart" else [1.0, 0.9, 0.8, 0.7, 0.6])
    return np.eye(len(means)), means


def rewards(noise: str, means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What each round would pay for each arm, (rounds, arms); what is added has E|eta| = 1."""
    if noise == "zeros":
        basket = np.exp(rng.standard_normal((ROUNDS, 1)) - 0.5)  # of mean 1
        return 10.0 * means * basket * (rng.random((ROUNDS, 1)) < 0.1)
    law = {
        "normal": ht.noise.Gaussian(),
        "student": ht.noise.StudentT(1.7),
        "pareto": ht.noise.Pareto(1.5),
    }[noise]
    return means + law.sample(rng, ROUNDS)[:, np.newaxis] / law.moment(1.0)


def told(noise: str) -> float:
    """The deviation that OFUL and LinTS are told: the best arm's, and the normal's if infinite."""
    return math.sqrt(10.0 * math.e - 1.0) if noise == "zeros" else NORMAL


def cell(noise: str, arms: str, policy: str) -> dict[str, list[Any]]:
    """All trials of one policy: regret at the marks, and the share of each arm between them."""
    features, means = world(arms)
    played = np.empty((TRIALS, ROUNDS), dtype=np.int64)
    for trial in range(TRIALS):
        key = [SEED, trial, list(NOISES).index(noise), list(ARMS).index(arms)]
        paid = rewards(noise, means, np.random.default_rng(key))
        one = POLICIES[policy](features.shape[1], told(noise))
        one.reseed(trial)
        for t in range(ROUNDS):
            arm = played[trial, t] = one.select(features)
            one.update(features[arm], paid[t, arm])
    every = ROUNDS // MARKS
    regret = np.cumsum(means.max() - means[played], axis=1)[:, every - 1 :: every]
    kept = [regret.min(axis=0), np.median(regret, axis=0), regret.mean(axis=0), regret.max(axis=0)]
    shares = [
        (played == k).reshape(TRIALS, MARKS, every).mean(axis=(0, 2)) for k in range(len(means))
    ]
    return {
        "regret": np.round(kept, 1).tolist(),
        "percent": (100.0 * np.array(shares)).round().astype(int).tolist(),
    }


def name(noise: str, arms: str, policy: str) -> str:
    """Of a cell among the runs."""
    return f"{noise}/{arms}/{policy}"


def main() -> None:
    start = time.perf_counter()
    runs = {
        name(noise, arms, policy): cell(noise, arms, policy)
        for noise in NOISES
        for arms in ARMS
        for policy in POLICIES
    }
    for key, one in runs.items():
        best, median, mean, worst = (row[-1] for row in one["regret"])
        print(f"{key:<26} median {median:7.1f}, mean {mean:7.1f}, {best:7.1f} to {worst:7.1f}")
    git = ["git", "rev-parse", "--short", "HEAD"]
    record = {
        "command": "python -m benchmarks.playground",
        "commit": subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip(),
        "stamp": stamp(runs),
        "rounds": ROUNDS,
        "trials": TRIALS,
        "noises": NOISES,
        "arms": {
            key: {"name": said, "means": world(key)[1].round(3).tolist()}
            for key, said in ARMS.items()
        },
        "policies": list(POLICIES),
        "runs": runs,
    }
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    place.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{place}: {place.stat().st_size:,} bytes, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
