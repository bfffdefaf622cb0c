"""Processor time of episodes: what the units of the cost and speed-up experiments call."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments import LinearBandit
from heavytail.policies import Policy
from heavytail.simulation.engines import episode
from heavytail.simulation.trials import trial_seed

__all__ = ["REPEATS", "in_turns", "race", "round_cost"]

REPEATS = 5  # the least of so many runs is taken


def processor_seconds(
    policy: Policy, environment: LinearBandit, rounds: int, seed: int, repeats: int = 1
) -> float:
    """Processor time of one trial, the least of some runs: other work does not lengthen it."""
    seconds = []
    for _ in range(repeats):
        twin = policy.clone()
        start = time.thread_time()
        episode(twin, environment, trial_seed(seed, 0), rounds, "compiled")
        seconds.append(time.thread_time() - start)
    return min(seconds)


def dealing_seconds(environment: LinearBandit, rounds: int, seed: int) -> float:
    """Processor seconds of dealing the rounds alone, the least of some runs."""
    seconds = []
    for _ in range(REPEATS):
        start = time.thread_time()
        for _ in environment.blocks(trial_seed(seed, 0), rounds):
            pass
        seconds.append(time.thread_time() - start)
    return min(seconds)


def round_cost(
    policy: Policy, environment: LinearBandit, seed: int, points: Sequence[int]
) -> dict[str, FloatArray]:
    """``seconds`` and ``bytes`` (points,) of episodes of so many rounds that begin alike.

    The environment's own time is left out.
    """
    processor_seconds(policy, environment, points[0], seed)  # compile
    seconds, sizes = [], []
    for rounds in points:
        dealing = dealing_seconds(environment, rounds, seed)
        spent = processor_seconds(policy, environment, rounds, seed, REPEATS) - dealing
        seconds.append(max(spent, 1e-9))
        twin = policy.clone()
        episode(twin, environment, trial_seed(seed, 0), rounds, "compiled")
        sizes.append(float(twin.state_bytes))
    return {"seconds": np.array(seconds), "bytes": np.array(sizes)}


def in_turns(
    policies: Sequence[Policy], environment: LinearBandit, seed: int, rounds: int, turns: int
) -> dict[str, FloatArray]:
    """``seconds`` (turns, policies) of whole episodes, each policy once in every turn.

    In turns, so that a machine that slows down slows all of them. The environment's own time is
    left out.
    """
    for policy in policies:
        processor_seconds(policy, environment, 50, seed)  # compile
    dealing = dealing_seconds(environment, rounds, seed)
    seconds = [
        [processor_seconds(policy, environment, rounds, seed) for policy in policies]
        for _ in range(turns)
    ]
    return {"seconds": np.maximum(np.array(seconds) - dealing, 1e-9)}


def race(
    policy: Policy,
    one_pass: Policy,
    environment: LinearBandit,
    seed: int,
    rounds: int,
    machine: str,
) -> dict[str, FloatArray]:
    """One whole episode of ``policy``: ``seconds``, ``wall_seconds``, and ``one_pass_seconds``.

    ``machine`` is not used: it is a part of the unit's key, for seconds are true of one machine.
    """
    processor_seconds(policy, environment, 50, seed)  # compile
    processor_seconds(one_pass, environment, 50, seed)
    quick = processor_seconds(one_pass, environment, rounds, seed, REPEATS)
    start = time.perf_counter()
    spent = processor_seconds(policy, environment, rounds, seed)
    wall = time.perf_counter() - start
    return {
        "seconds": np.array([spent]),
        "wall_seconds": np.array([wall]),
        "one_pass_seconds": np.array([quick]),
    }
