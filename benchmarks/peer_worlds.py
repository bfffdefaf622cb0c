"""The worlds of benchmarks/peers.py, all drawn beforehand, so that every library meets the same.

No constant of heavytail was chosen in them. Heavy tails are Student's t(1.8) and Pareto(1.6), which
have a mean and no variance; "in cents" multiplies all rewards by a hundred.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

Arrays = dict[str, np.ndarray]

SEED = 88_107
CONTEXTS, COLUMNS, OFFERS, ARMS = 800, 5, 5, 10
PULLS, ROWS, FEATURES, LOGGED = 1200, 5000, 10, 2000
TRIALS, LOGS = 6, 60


def noise(law: str, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Noise of mean 0 and of the size of 1."""
    if law == "t(1.8)":
        return rng.standard_t(1.8, shape)
    if law == "Pareto(1.6)":
        return rng.pareto(1.6, shape) - 1.0 / 0.6
    return rng.standard_normal(shape)


def _paid(world: str, means: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """What every arm would pay in every round, and its mean, from scores of the size of 1."""
    if world == "clicks":
        means = np.clip(0.2 + 0.1 * means, 0.01, 0.99)
        return (rng.random(means.shape) < means).astype(float), means
    if world == "lottery":  # every other arm pays a large prize in one round of fifty
        means = np.maximum(1.0 + 0.5 * means, 0.1)
        odds = np.where(np.arange(means.shape[-1]) % 2, 0.02, 1.0)
        won = rng.random(means.shape) < odds
        return won * means / odds * rng.exponential(size=means.shape), means
    unit = 100.0 if world.endswith("in cents") else 1.0
    law = world.removesuffix(", in cents").removeprefix("bent, ")
    return unit * (means + noise(law, rng, means.shape)), unit * means


def contexts(world: str, rng: Generator) -> Arrays:
    """Five offers whose means follow five columns: straight lines, or bent."""
    X = rng.uniform(-1.0, 1.0, (TRIALS, CONTEXTS, COLUMNS))
    slopes = rng.standard_normal((TRIALS, COLUMNS, OFFERS))
    levels = 0.5 * rng.standard_normal((TRIALS, 1, OFFERS))
    scores = levels + X @ slopes
    if world.startswith("bent"):
        pairs = X[:, :, :4] * X[:, :, 1:]
        scores = levels + np.sin(3.0 * X @ slopes) + 1.5 * pairs @ slopes[:, :4]
    rewards, means = _paid(world, scores, rng)
    return {"X": X, "rewards": rewards, "means": means}


def arms(world: str, rng: Generator) -> Arrays:
    """Ten arms without a context."""
    scores = np.repeat(rng.standard_normal((TRIALS, 1, ARMS)), PULLS, axis=1)
    rewards, means = _paid(world, scores, rng)
    return {"X": np.zeros((TRIALS, PULLS, 0)), "rewards": rewards, "means": means}


def stream(world: str, rng: Generator) -> Arrays:
    """Rows for a regression, and rows at which its mean is asked for."""
    X = rng.standard_normal((TRIALS, ROWS + 500, FEATURES))
    slopes = rng.standard_normal((TRIALS, FEATURES, 1))
    means = 2.0 + (X @ slopes)[..., 0]
    size = np.exp(0.5 * X[..., 0]) if world.endswith("louder along x") else 1.0
    y = means + size * noise(world.removesuffix(", louder along x"), rng, means.shape)
    return {"X": X[:, :ROWS], "y": y[:, :ROWS], "asked": X[:, ROWS:], "means": means[:, ROWS:]}


def _chances(X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    odds = np.exp(X @ slopes)
    return odds / odds.sum(axis=-1, keepdims=True)


def log(world: str, rng: Generator) -> Arrays:
    """Logs of one policy, and another policy's odds; "truth" is what that would have earned."""
    ours, theirs, slopes = rng.standard_normal((3, COLUMNS, OFFERS))

    def drawn(*shape: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.uniform(-1.0, 1.0, (*shape, COLUMNS))
        return X, np.clip(0.5 + 0.25 * X @ slopes, 0.05, 0.95)

    X, means = drawn(400_000)
    truth = float((means * _chances(X, theirs)).sum(axis=-1).mean())
    X, means = drawn(LOGS, LOGGED)
    odds = _chances(X, ours)
    action = (odds.cumsum(axis=-1) < rng.random((LOGS, LOGGED, 1))).sum(axis=-1)
    action = np.minimum(action, OFFERS - 1)
    mean = np.take_along_axis(means, action[..., None], axis=-1)[..., 0]
    shape: dict[str, Callable[[], np.ndarray]] = {
        "clicks": lambda: rng.random(mean.shape) < mean,
        "exponential": lambda: mean * rng.exponential(size=mean.shape),
        "Pareto(1.6)": lambda: mean * 0.6 * rng.pareto(1.6, mean.shape),
        "Pareto(1.4), 5 % pay": lambda: (
            mean / 0.05 * 0.4 * rng.pareto(1.4, mean.shape) * (rng.random(mean.shape) < 0.05)
        ),
    }
    rewards = shape[world]().astype(float)
    target = _chances(X, theirs)
    return {
        **{"X": X, "action": action, "rewards": rewards, "odds": odds, "target": target},
        "truth": np.array(truth),
    }


JOBS: dict[str, tuple[Callable[[str, Generator], Arrays], tuple[str, ...]]] = {
    "contexts": (
        contexts,
        (
            "normal",
            "clicks",
            "bent, normal",
            "t(1.8)",
            "Pareto(1.6)",
            "lottery",
        ),
    ),
    "arms": (arms, ("normal", "clicks", "t(1.8)", "t(1.8), in cents", "lottery")),
    "stream": (stream, ("normal", "t(1.8)", "Pareto(1.6)", "Pareto(1.6), louder along x")),
    "log": (log, ("clicks", "exponential", "Pareto(1.6)", "Pareto(1.4), 5 % pay")),
}


def drawn(job: str, world: str) -> Arrays:
    """A world of a job, the same in every run."""
    make, worlds = JOBS[job]
    return make(world, np.random.default_rng([SEED, list(JOBS).index(job), worlds.index(world)]))
