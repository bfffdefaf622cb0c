"""Many trials of many policies in one environment."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_choice, check_count, printable, shown
from heavytail.environments import Environment
from heavytail.policies import PackedPolicy, Policy
from heavytail.simulation.distribution import distribution
from heavytail.simulation.engines import episode
from heavytail.simulation.parallel import play_trials
from heavytail.simulation.results import Results, Run, checkpoints

__all__ = ["ENGINES", "distribution_block", "releases_gil", "simulate", "trial_block", "trial_seed"]

ENGINES = ("compiled", "reference", "cuda")
GPU_RECORD = 100  # checkpoints of the GPU engine unless given


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
    """Run every policy through the same ``trials`` trials of ``rounds`` rounds each.

    All policies of a trial meet the same arms and the same noise. A policy's numbers depend on
    its own arguments, the environment and the seed alone: not on the other policies, nor on its
    name, nor on ``jobs``. The policies given are not changed; each trial starts from a copy.

    Args:
        policies: policies, or a mapping from the names to show them under.
        environment: the world, such as :class:`heavytail.LinearBandit`.
        rounds: T.
        trials: how many; each draws its arms and its theta* anew.
        seed: fixes everything.
        engine: "compiled" (whole episodes in one call), "reference" (round by round) or "cuda" (a
            GPU, one thread per trial; its trials are drawn by counters, so they are others than the
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
            form = getattr(environment, "form", None)
            hint = f" Its arms are {form}: both must say the same form." if form else ""
            raise ValueError(
                f"simulate: policy {shown(name)} has dim={policy.dim}, "
                f"the world has dim={environment.dim}.{hint}"
            )
        try:
            environment.check_link(policy)
        except ValueError as error:
            raise ValueError(f"simulate: policy {shown(name)}: {error}") from None
        for need in environment.broken_needs(policy, rounds):
            warnings.warn(
                f"{printable(name)} assumes {need}, which does not hold in {environment!r}.",
                stacklevel=2,
            )
    if engine == "cuda":
        kept = checkpoints(rounds, min(record or GPU_RECORD, rounds))
        runs = {
            name: _on_gpu(policy, environment, rounds, trials, seed, len(kept), progress)
            for name, policy in named.items()
        }
    else:
        threads = engine == "compiled" and all(releases_gil(p) for p in named.values())
        play = functools.partial(
            run_trial, environment=environment, seed=seed, rounds=rounds, engine=engine, kept=kept
        )
        outcomes = play_trials(named, play, trials, threads=threads, jobs=jobs, progress=progress)
        runs = {
            name: Run(*(np.array(column) for column in zip(*rows, strict=True)))
            for name, rows in outcomes.items()
        }
    settings = {
        "environment": repr(environment),
        "policies": {name: repr(policy) for name, policy in named.items()},
        "rounds": rounds,
        "trials": trials,
        "seed": seed,
    }
    return Results(runs=runs, rounds=kept, settings=settings)


def releases_gil(policy: Policy) -> bool:
    """Tell whether the policy's time is spent in kernels, which run beside each other in one
    process.
    """
    return isinstance(policy, PackedPolicy) and policy.plays_by_kernels


def _on_gpu(
    policy: Policy,
    environment: Environment,
    rounds: int,
    trials: int,
    seed: int,
    record: int,
    progress: bool | None,
) -> Run:
    """All trials of one policy in one launch; each gets an equal share of its seconds."""
    start = time.perf_counter()
    paths = distribution(
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
    return Run(regret=np.ascontiguousarray(paths.regret.T), seconds=seconds)


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


def trial_seed(seed: int, trial: int) -> np.random.SeedSequence:
    """The seed of one trial."""
    return np.random.SeedSequence([seed, trial])


def run_trial(
    policy: Policy,
    trial: int,
    environment: Environment,
    seed: int,
    rounds: int,
    engine: str,
    kept: IntArray,
) -> tuple[FloatArray, float]:
    """One trial of a copy of ``policy``: regret at the kept rounds, and seconds."""
    regret, seconds = episode(policy.clone(), environment, trial_seed(seed, trial), rounds, engine)
    return regret[kept - 1], seconds


def trial_block(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    first: int,
    trials: int,
    marks: Sequence[int],
) -> dict[str, FloatArray]:
    """Trials ``first`` to ``first + trials - 1`` of :func:`simulate`, one after the other.

    ``regret`` (trials, marks) after the rounds ``marks``; ``seconds`` (trials,); ``truncated``
    (trials,): the share of rewards that a truncating policy took as 0, NaN for the others.
    """
    kept = np.asarray(marks)
    regret, seconds, truncated = [], [], []
    for trial in range(first, first + trials):
        twin = policy.clone()
        curve, spent = episode(twin, environment, trial_seed(seed, trial), rounds, "compiled")
        regret.append(curve[kept - 1])
        seconds.append(spent)
        truncated.append(getattr(twin, "truncated", np.nan) / rounds)
    return {
        "regret": np.array(regret),
        "seconds": np.array(seconds),
        "truncated": np.array(truncated),
    }


def distribution_block(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    trials: int,
    cover: bool,
    engine: str = "compiled",
    jobs: int | None = 1,
) -> dict[str, FloatArray]:
    """``regret`` (trials, 1) at the end, of :func:`distribution`; ``seconds`` (1,), of all.

    With ``cover`` also ``worst`` (trials,): the largest distance to the truth, in radii.
    """
    start = time.perf_counter()
    paths = distribution(
        policy,
        environment,
        rounds=rounds,
        trials=trials,
        seed=seed,
        engine=engine,
        record=1,
        cover=cover,
        jobs=jobs,
        progress=False,
    )
    seconds = np.array([time.perf_counter() - start])
    more = {} if paths.worst is None else {"worst": paths.worst}
    return {"regret": paths.regret.T, "seconds": seconds, **more}
