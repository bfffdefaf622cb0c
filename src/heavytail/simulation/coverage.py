"""How often the confidence set held the truth, counted.

A trial is covered when ‖theta_t - theta*‖_{V_t} <= beta_t after every round. V_t is summed beside
the policy from the weights its own updates had, so the check does not lean on the inverse it
checks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import check_count
from heavytail.environments import LinearBandit
from heavytail.kernels.jit import jit, specialise
from heavytail.kernels.layout import DIRECTION, FEATURE, GAIN, INVERSE, RADIUS, THETA
from heavytail.policies import PackedPolicy
from heavytail.simulation.progress import progress_bar
from heavytail.simulation.trials import trial_seed

__all__ = ["Coverage", "coverage"]


@dataclass(frozen=True)
class Coverage:
    """``covered`` (trials,): whether the set held the truth after every round; ``share``: their
    share.

    ``worst`` (trials,) is the largest ratio of distance to radius that was met; ``regret``
    (trials,) at the end.
    """

    covered: FloatArray
    worst: FloatArray
    regret: FloatArray

    @property
    def share(self) -> float:
        """The share of trials covered in every round."""
        return float(np.mean(self.covered))

    def at_least(self, confidence: float = 0.99) -> float:
        """A lower bound on the coverage probability at ``confidence`` (Clopper and Pearson)."""
        from scipy.stats import beta

        hits, n = int(self.covered.sum()), len(self.covered)
        return 0.0 if hits == 0 else float(beta.ppf(1.0 - confidence, hits, n - hits + 1))


def coverage(
    policy: PackedPolicy,
    environment: LinearBandit,
    *,
    rounds: int,
    trials: int,
    seed: int,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Coverage:
    """Count in how many of ``trials`` worlds the policy's confidence set held theta* after every
    round.

    An intercept is free: only theta counts.

    >>> import heavytail as ht
    >>> world = ht.LinearBandit(2, arms=10, noise=ht.noise.StudentT(2.1))
    >>> policy = ht.HvtUCB(2, tail=world.noise.tail(1.9), radius="theory", horizon=100)
    >>> coverage(policy, world, rounds=100, trials=5, seed=0).share
    1.0
    """
    import joblib

    rounds, trials = (
        check_count("coverage: rounds", rounds),
        check_count("coverage: trials", trials),
    )
    run = joblib.delayed(_trial)
    with progress_bar(progress, "covering", trials) as bar:
        parallel = joblib.Parallel(
            n_jobs=jobs or joblib.cpu_count(), backend="threading", return_as="generator"
        )
        outcomes = []
        for outcome in parallel(run(policy, environment, seed, k, rounds) for k in range(trials)):
            outcomes.append(outcome)
            bar.advance()
    worst = np.array([w for w, _ in outcomes])
    return Coverage(
        covered=(worst <= 1.0).astype(float), worst=worst, regret=np.array([r for _, r in outcomes])
    )


def _trial(
    policy: PackedPolicy, environment: LinearBandit, seed: int, trial: int, rounds: int
) -> tuple[float, float]:
    twin = policy.clone()
    source = trial_seed(seed, trial)
    size = twin._M.shape[1]
    truth = environment.theta(source)
    V = np.linalg.inv(twin._M[INVERSE : INVERSE + size])
    run = _runner(type(twin))
    worst, regret = 0.0, 0.0
    for block in environment.blocks(source, rounds):
        factor = np.ones(block.length) if block.factor is None else block.factor
        shown = [block.round(t) for t in range(block.length)] if block.offered is not None else []
        arms = (
            np.array([a for a, _ in shown])
            if shown
            else block.arms.reshape(-1, *block.arms.shape[-2:])
        )
        means = (
            np.array([m for _, m in shown])
            if shown
            else block.means.reshape(-1, block.means.shape[-1])
        )
        ratio, lost = run(twin.packed, twin._nu, arms, means, block.noise, factor, truth, V)
        worst, regret = max(worst, ratio), regret + lost
    return float(worst), float(regret)


@jit
def distance(M: Matrix, V: Matrix, truth: Vector) -> float:
    """‖theta - truth‖_V; a coefficient past the truth's length (the intercept) is at its best."""
    size = truth.shape[0]
    total = 0.0
    for i in range(size):
        for j in range(size):
            total += float((M[THETA, i] - truth[i]) * V[i, j] * (M[THETA, j] - truth[j]))
    if V.shape[0] > size:
        cross = 0.0
        for j in range(size):
            cross += float(V[size, j] * (M[THETA, j] - truth[j]))
        total -= float(cross * cross / V[size, size])
    return math.sqrt(max(total, 0.0))


@functools.cache
def _runner(kind: type[PackedPolicy]) -> Callable[..., tuple[float, float]]:
    return specialise(
        _run_block,
        f"_cover_block_{kind.__name__}",
        select=kind.select_kernel,
        update=kind.update_kernel,
    )


def select(*_: Any) -> int:
    """Stands for a policy's selection kernel in the template below."""
    raise NotImplementedError


def update(*_: Any) -> int:
    """Stands for a policy's learning kernel in the template below."""
    raise NotImplementedError


def _run_block(
    state: Any,
    nu: float,
    arms: FloatArray,
    means: FloatArray,
    noise: FloatArray,
    factor: FloatArray,
    truth: FloatArray,
    V: FloatArray,
) -> tuple[float, float]:
    """Template: a block of rounds; the largest distance/radius met, and the regret."""
    s, M = state[0], state[1]
    worst = 0.0
    regret: Any = 0.0
    for t in range(noise.shape[0]):
        at = t if arms.shape[0] > 1 else 0
        arm = select(*state, arms[at])
        update(*state, arms[at, arm], means[at, arm] + noise[t], nu * factor[t])
        squared = 0.0  # ‖x‖² under the P of before, from u = P x
        for i in range(M.shape[1]):
            squared += M[FEATURE, i] * M[DIRECTION, i]
        weight = s[GAIN] / (1.0 - s[GAIN] * squared)  # gain = c / (1 + c ‖x‖²), undone
        for i in range(M.shape[1]):
            for j in range(M.shape[1]):
                V[i, j] += weight * M[FEATURE, i] * M[FEATURE, j]
        worst = max(worst, distance(M, V, truth) / s[RADIUS])
        best = -np.inf
        for i in range(means.shape[1]):
            best = max(best, means[at, i])
        regret += best - means[at, arm]
    return worst, regret
