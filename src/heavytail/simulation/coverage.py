"""How often the confidence set held the truth, counted.

A trial is covered when ‖theta_t - theta*‖_{V_t} <= beta_t after every round; see
:mod:`heavytail.kernels.covering`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments import LinearBandit
from heavytail.policies import PackedPolicy
from heavytail.simulation.distribution import distribution

__all__ = ["Coverage", "coverage", "least_share"]


@dataclass(frozen=True)
class Coverage:
    """``worst`` (trials,): the largest ratio of distance to radius that was met; ``regret``
    (trials,) at the end.
    """

    worst: FloatArray
    regret: FloatArray

    @property
    def share(self) -> float:
        """The share of trials whose set held the truth after every round."""
        return float(np.mean(self.worst <= 1.0))

    def at_least(self, confidence: float = 0.99) -> float:
        """A lower bound on the coverage probability at ``confidence``."""
        return least_share(int(np.sum(self.worst <= 1.0)), len(self.worst), confidence)


def least_share(hits: int, trials: int, confidence: float = 0.99) -> float:
    """A lower bound on the probability that gave ``hits`` of ``trials`` (Clopper and Pearson)."""
    from scipy.stats import beta

    return 0.0 if hits == 0 else float(beta.ppf(1.0 - confidence, hits, trials - hits + 1))


def coverage(
    policy: PackedPolicy,
    environment: LinearBandit,
    *,
    rounds: int,
    trials: int,
    seed: int,
    engine: str = "compiled",
    jobs: int | None = None,
    progress: bool | None = None,
) -> Coverage:
    """Count in how many of ``trials`` worlds the policy's confidence set held theta* after every
    round.

    An intercept is free: only theta counts. The arguments are those of
    :func:`heavytail.simulation.distribution`.

    >>> import heavytail as ht
    >>> world = ht.LinearBandit(2, arms=10, noise=ht.noise.StudentT(2.1))
    >>> policy = ht.HvtUCB(2, tail=world.noise.tail(1.9), radius="theory", horizon=100)
    >>> coverage(policy, world, rounds=100, trials=5, seed=0).share
    1.0
    """
    found = distribution(
        policy,
        environment,
        rounds=rounds,
        trials=trials,
        seed=seed,
        engine=engine,
        record=1,
        cover=True,
        jobs=jobs,
        progress=progress,
    )
    assert found.worst is not None
    return Coverage(worst=found.worst, regret=found.regret[-1])
