"""Many trials of many policies in one world."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_choice, check_count
from heavytail.environments import Environment
from heavytail.policies import PackedPolicy, Policy
from heavytail.simulation.distribution import distribution
from heavytail.simulation.engines import episode
from heavytail.simulation.progress import Progress, progress_bar
from heavytail.simulation.results import Results, Run

__all__ = ["ENGINES", "simulate", "trial_seed"]

ENGINES = ("compiled", "reference", "cuda")
GPU_RECORD = 100  # checkpoints of the GPU engine unless told


def simulate(
    policies: Iterable[Policy] | Mapping[str, Policy],
    environment: Environment,
    *,
    rounds: int,
    trials: int,
    seed: int,
    engine: str = "compiled",
    jobs: int | None = None,
    progress: bool | None = None,
    record: int | None = None,
) -> Results:
    """Run every policy through the same ``trials`` worlds of ``rounds`` rounds each.

    All policies of a trial meet the same world and the same noise. A policy's numbers depend on
    its own arguments, the environment and the seed alone: not on the other policies, nor on its
    name, nor on ``jobs``. The policies given are not changed; each trial starts from a copy.

    Args:
        policies: policies, or a mapping from the names to show them under.
        environment: the world, such as :class:`heavytail.LinearBandit`.
        rounds: T.
        trials: how many worlds.
        seed: fixes everything.
        engine: "compiled" (whole episodes in one call), "reference" (round by round) or "cuda" (a
            GPU, one thread a trial; its worlds are drawn by counters, so they are others than the
            CPU engines' for the same seed, and regret is kept at 100 rounds unless told).
        jobs: how many trials at once; all cores unless given.
        progress: show a bar with the time left; on a terminal unless given.
        record: keep regret at this many evenly spaced rounds instead of all.
    """
    named = name_policies(policies)
    rounds, trials = (
        check_count("simulate: rounds", rounds),
        check_count("simulate: trials", trials),
    )
    seed = check_count("simulate: seed", seed, least=0)
    check_choice("simulate: engine", engine, ENGINES)
    jobs = None if jobs is None else check_count("simulate: jobs", jobs)
    kept = checkpoints(rounds, record)
    for name, policy in named.items():
        if policy.dim != environment.dim:
            raise ValueError(
                f"simulate: policy {name!r} has dim={policy.dim}, "
                f"the world has dim={environment.dim}."
            )
        for need in environment.broken_needs(policy, rounds):
            warnings.warn(
                f"{name} assumes {need}, which does not hold in {environment!r}.", stacklevel=2
            )
    if engine == "cuda":
        kept = checkpoints(rounds, min(record or GPU_RECORD, rounds))
        runs = {
            name: _on_gpu(policy, environment, rounds, trials, seed, len(kept), progress)
            for name, policy in named.items()
        }
    else:
        runs = _on_cpu(named, environment, rounds, trials, seed, engine, jobs, kept, progress)
    settings = {
        "environment": repr(environment),
        "policies": {name: repr(policy) for name, policy in named.items()},
        "rounds": rounds,
        "trials": trials,
        "seed": seed,
    }
    return Results(runs=runs, rounds=kept, settings=settings)


def _on_cpu(
    named: dict[str, Policy],
    environment: Environment,
    rounds: int,
    trials: int,
    seed: int,
    engine: str,
    jobs: int | None,
    kept: np.ndarray[Any, np.dtype[np.int64]],
    progress: bool | None,
) -> dict[str, Run]:
    work = [(name, trial) for trial in range(trials) for name in named]
    with progress_bar(progress, "simulating", len(work)) as bar:
        outcomes = _execute(named, environment, work, rounds, seed, engine, jobs, kept, bar)
    runs = {}
    for name in named:
        mine = [outcomes[(name, trial)] for trial in range(trials)]
        runs[name] = Run(
            regret=np.array([regret for regret, _ in mine]), seconds=np.array([s for _, s in mine])
        )
    return runs


def _on_gpu(
    policy: Policy,
    environment: Environment,
    rounds: int,
    trials: int,
    seed: int,
    record: int,
    progress: bool | None,
) -> Run:
    """All trials of one policy in one launch; each is given an equal share of its seconds."""
    start = time.perf_counter()
    found = distribution(
        policy,
        environment,
        rounds=rounds,
        trials=trials,
        seed=seed,
        engine="cuda",
        record=record,
        progress=progress,
    )
    seconds = np.full(trials, (time.perf_counter() - start) / trials)
    return Run(regret=np.ascontiguousarray(found.regret.T), seconds=seconds)


def name_policies(policies: Iterable[Policy] | Mapping[str, Policy]) -> dict[str, Policy]:
    """Policies by name; two of one name must be told apart by the caller."""
    named = dict(policies) if isinstance(policies, Mapping) else {}
    if not isinstance(policies, Mapping):
        for policy in policies:
            if policy.name in named:
                raise ValueError(
                    f"simulate: two policies are called {policy.name!r}; "
                    "pass a mapping from names to policies."
                )
            named[policy.name] = policy
    if not named:
        raise ValueError("simulate: no policies given.")
    return named


def checkpoints(rounds: int, record: int | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The rounds, counted from 1, whose regret is kept; the last always among them."""
    if record is None or record >= rounds:
        return np.arange(1, rounds + 1)
    count = check_count("simulate: record", record)
    return np.unique(np.linspace(rounds / count, rounds, count).round().astype(np.int64))


def trial_seed(seed: int, trial: int) -> np.random.SeedSequence:
    """The seed of one trial."""
    return np.random.SeedSequence([seed, trial])


def run_trial(
    policy: Policy,
    environment: Environment,
    seed: int,
    trial: int,
    rounds: int,
    engine: str,
    kept: np.ndarray[Any, np.dtype[np.int64]],
) -> tuple[FloatArray, float]:
    """One policy in one world: regret at the kept rounds, and seconds."""
    regret, seconds = episode(policy.clone(), environment, trial_seed(seed, trial), rounds, engine)
    return regret[kept - 1], seconds


def _execute(
    named: dict[str, Policy],
    environment: Environment,
    work: list[tuple[str, int]],
    rounds: int,
    seed: int,
    engine: str,
    jobs: int | None,
    kept: np.ndarray[Any, np.dtype[np.int64]],
    bar: Progress,
) -> dict[tuple[str, int], tuple[FloatArray, float]]:
    """Kernels release the GIL, so compiled trials share the process by threads; plain Python takes
    processes.
    """
    import joblib

    threads = engine == "compiled" and all(
        isinstance(p, PackedPolicy) and p.has_kernels for p in named.values()
    )
    parallel = joblib.Parallel(
        n_jobs=jobs or joblib.cpu_count(),
        backend="threading" if threads else "loky",
        return_as="generator",
    )
    tasks = (
        joblib.delayed(run_trial)(named[name], environment, seed, trial, rounds, engine, kept)
        for name, trial in work
    )
    outcomes = {}
    for key, outcome in zip(work, parallel(tasks), strict=True):
        outcomes[key] = outcome
        bar.advance()
    return outcomes
