"""The distribution of regret over very many trials, not only its mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_choice, check_count
from heavytail.environments import Environment
from heavytail.policies import PackedPolicy, Policy
from heavytail.simulation.counter import CounterWorld, cpu_runner, describe, start_state
from heavytail.simulation.progress import Progress, progress_bar
from heavytail.simulation.results import checkpoints

__all__ = ["Distribution", "distribution", "least_share"]

QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
CHUNK = 64  # trials per task on the CPU, at most


@dataclass(frozen=True)
class Distribution:
    """The result of :func:`distribution`: ``regret`` (checkpoints, trials) at ``rounds``.

    ``worst`` (trials,), where the confidence set was watched, is the largest distance to the truth
    met in a trial, in radii: a trial is covered when ‖theta_t - theta*‖_{V_t} <= beta_t after every
    round. An intercept is free: only theta counts.
    """

    name: str
    rounds: IntArray
    regret: FloatArray
    worst: FloatArray | None = None

    @property
    def mean(self) -> FloatArray:
        """Mean regret at each checkpoint."""
        return np.asarray(self.regret.mean(axis=1))

    @property
    def error(self) -> FloatArray:
        """The standard error of that mean."""
        return np.asarray(self.regret.std(axis=1, ddof=1) / np.sqrt(self.regret.shape[1]))

    def quantile(self, q: float) -> FloatArray:
        """The quantile of regret at each checkpoint."""
        return np.asarray(np.quantile(self.regret, q, axis=1))

    @property
    def share(self) -> float:
        """The share of trials whose confidence set held the truth after every round."""
        if self.worst is None:
            raise ValueError("Distribution.share: the confidence set was not watched; cover=True.")
        return float(np.mean(self.worst <= 1.0))

    def at_least(self, confidence: float = 0.99) -> float:
        """A lower bound at ``confidence`` on the probability that a trial is covered."""
        trials = self.regret.shape[1]
        return least_share(round(self.share * trials), trials, confidence)

    def table(self) -> str:
        """Mean, its standard error and quantiles, one line per checkpoint."""
        heads = [f"{100 * q:g}%" for q in QUANTILES]
        lines = [f"{'round':>8} {'mean':>9} {'error':>8} " + " ".join(f"{h:>9}" for h in heads)]
        quantiles = np.quantile(self.regret, QUANTILES, axis=1).T
        for t, mean, error, row in zip(self.rounds, self.mean, self.error, quantiles, strict=True):
            shown = " ".join(f"{value:>9.1f}" for value in row)
            lines.append(f"{t:>8} {mean:>9.2f} {error:>8.3f} {shown}")
        return "\n".join(lines)


def distribution(
    policy: Policy,
    environment: Environment,
    *,
    rounds: int,
    trials: int,
    seed: int,
    engine: str = "compiled",
    record: int = 8,
    cover: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Distribution:
    """Regret of ``trials`` trials at ``record`` evenly spaced rounds, in worlds drawn by counters.

    A trial is fixed by the seed and its number: the same on both engines and in any batch, up to
    rounding. Memory does not grow with ``rounds``.

    >>> import heavytail as ht
    >>> world = ht.LinearBandit(2, arms=5, noise=ht.noise.StudentT(2.1))
    >>> policy = ht.HvtUCB(2, tail=world.noise.tail(1.9))
    >>> distribution(policy, world, rounds=50, trials=20, seed=0).regret.shape
    (8, 20)

    Args:
        policy: whose present state every trial starts from.
        environment: a :class:`heavytail.LinearBandit`, :class:`heavytail.SkewedBandit` or
            :class:`heavytail.LinkBandit` that shows its whole pool every round.
        rounds: T.
        trials: how many; each draws its arms and its theta* anew.
        seed: fixes everything.
        engine: "compiled" (threads on the CPU) or "cuda" (one thread per trial on a GPU).
        record: how many checkpoints; the last round is always one.
        cover: also watch whether the confidence set holds the truth, round by round.
        jobs: threads on the CPU; all cores unless given.
        progress: show a bar with the time left; on a terminal unless given.
    """
    trials = check_count("distribution: trials", trials)
    seed = check_count("distribution: seed", seed, least=0)
    check_choice("distribution: engine", engine, ("compiled", "cuda"))
    kept = checkpoints(check_count("distribution: rounds", rounds), record)
    setting = describe(policy, environment)
    assert isinstance(policy, PackedPolicy)  # describe refuses others
    state = start_state(policy, cover)
    with progress_bar(progress, policy.name, trials) as bar:
        if engine == "cuda":
            from heavytail.simulation.cuda import run_trials

            curves = run_trials(policy, state, setting, seed, trials, kept, cover, bar.advance)
        else:
            curves = _on_cpu(policy, state, setting, seed, trials, kept, cover, bar, jobs)
    regret = curves[: len(kept)]
    return Distribution(policy.name, kept, regret, curves[-1] if cover else None)


def least_share(hits: int, trials: int, confidence: float = 0.99) -> float:
    """A lower bound on the probability that gave ``hits`` of ``trials`` (Clopper and Pearson)."""
    from scipy.stats import beta

    return 0.0 if hits == 0 else float(beta.ppf(1.0 - confidence, hits, trials - hits + 1))


def _on_cpu(
    policy: PackedPolicy,
    state: tuple[FloatArray, FloatArray],
    setting: CounterWorld,
    seed: int,
    trials: int,
    kept: IntArray,
    cover: bool,
    bar: Progress,
    jobs: int | None,
) -> FloatArray:
    import joblib

    run = cpu_runner(policy, setting, cover)
    s, M = state
    out = np.empty((len(kept) + cover, trials))

    jobs = jobs or joblib.cpu_count()
    chunk = min(CHUNK, -(-trials // jobs))

    def task(first: int) -> int:
        part = np.empty((len(out), min(chunk, trials - first)))
        room = np.empty((setting.arms, setting.dim)), *np.empty((3, setting.dim))
        run(s, M, s.copy(), M.copy(), *room, seed, first, kept, part, setting.numbers)
        out[:, first : first + part.shape[1]] = part
        return part.shape[1]

    parallel = joblib.Parallel(n_jobs=jobs, backend="threading", return_as="generator")
    for done in parallel(joblib.delayed(task)(first) for first in range(0, trials, chunk)):
        bar.advance(done)
    return out
