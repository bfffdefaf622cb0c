"""What ``ht.LogPolicy`` takes, where its bounds are best, and what a floor and a baseline do to it.

python -m benchmarks.logs --part learner --trials 20
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np

import heavytail as ht
from heavytail.logs import pac_bayes

SIZES = ((1_500, 5), (15_000, 5), (15_000, 20), (150_000, 5))  # rows and arms
CENTRES = (0.125, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0)
INDICES = (1.3, 1.6, 3.0)  # of Lomax rewards
FLOORS = (0.0, -3.0, -10.0, -30.0, -100.0)
PLAYED, MEANS = np.array([0.8, 0.2]), np.array([1.0, 1.3])  # of two arms


def learner(trials: int, seed: int) -> None:
    """Print all three."""
    ht.LogPolicy().fit(contexts(seed, 100))  # imports
    print("\n## LogPolicy.fit, 5 features\n\n    rows  arms  seconds  of them at work", flush=True)
    for rows, arms in SIZES:
        log = contexts(seed, rows, arms)
        start, busy = time.perf_counter(), time.process_time()
        ht.LogPolicy().fit(log)
        spent = time.perf_counter() - start
        print(f"{rows:8,} {arms:5} {spent:8.2f} {time.process_time() - busy:8.2f}", flush=True)
    print(f"\n## Mean bound by the centre of lambda's grid: {trials} logs of 2,000 rows\n")
    print("Lomax index" + "".join(f"{centre:8g}" for centre in CENTRES), flush=True)
    for index in INDICES:
        print(f"{index:11g}" + "".join(f"{one:8.3f}" for one in by_centre(trials, seed, index)))
    print(f"\n## By the floor: two arms of means 1 and 1.3, logged 4 : 1; {trials} logs\n")
    print("                  as it is                with reward_baseline=1")
    print("    rows   floor  earned  at least  held  earned  at least  held", flush=True)
    for rows in (1_000, 4_000, 16_000):
        for floor in FLOORS:
            line = f"{rows:8,} {floor:7g}"
            for more in ({}, {"reward_baseline": 1.0, "least_propensity": 0.2}):
                found = np.array(
                    [two_arms(seed + s, rows, reward_floor=floor, **more) for s in range(trials)]
                )
                held = np.mean(found[:, 1] <= found[:, 0])
                line += f" {found[:, 0].mean():7.3f} {found[:, 1].mean():9.3f} {held:5.0%}"
            print(line, flush=True)


def contexts(seed: int, rows: int, arms: int = 5, dim: int = 5, index: float = 1.6) -> Any:
    """Lomax rewards with mean exp(x'theta), from a policy that prefers the worse arms."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=dim)
    theta /= np.linalg.norm(theta)
    X = rng.normal(size=(rows, arms, dim))
    X /= np.maximum(np.linalg.norm(X, axis=2, keepdims=True), 1.0)
    p = np.exp(-X @ theta)
    p /= p.sum(axis=1, keepdims=True)
    action = np.minimum((np.cumsum(p, axis=1) < rng.random((rows, 1))).sum(axis=1), arms - 1)
    at = np.arange(rows)
    reward = np.exp(X[at, action] @ theta) * (index - 1.0) * rng.pareto(index, rows)
    return {"arms": X, "action": action, "reward": reward, "propensity": p[at, action]}


def by_centre(trials: int, seed: int, index: float) -> list[float]:
    """Mean bounds where lambda is sought about each of the centres."""
    logs = [contexts(seed + s, 2_000, index=index) for s in range(trials)]
    found = []
    for centre in CENTRES:
        with mock.patch.object(pac_bayes, "CENTRE", centre):
            found.append(float(np.mean([ht.LogPolicy().fit(log).lower for log in logs])))
    return found


def two_arms(seed: int, rows: int, **stated: float) -> tuple[float, float]:
    """What is earned after learning from exponential rewards of two arms, and the bound."""
    rng = np.random.default_rng([seed, 3])
    action = rng.choice(2, size=rows, p=PLAYED)
    reward = MEANS[action] * rng.exponential(size=rows)
    log = {"arms": np.tile(np.eye(2), (rows, 1, 1)), "action": action, "reward": reward}
    policy = ht.LogPolicy(**stated).fit({**log, "propensity": PLAYED[action]})  # type: ignore[arg-type]
    return float(policy.probabilities(np.eye(2)[None])[0] @ MEANS), policy.lower
