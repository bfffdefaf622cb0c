"""The work, split: a unit is a few trials of one policy in one world. It is a value with a key.

The key is a hash of everything the numbers depend on, the library's own source included, so a unit
that is found under its key need not be run again, by whichever process and on whichever day it was
made.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.environments import Environment, LinearBandit
from heavytail.policies import PackedPolicy, Policy
from heavytail.simulation import distribution
from heavytail.simulation.engines import episode
from heavytail.simulation.trials import checkpoints, trial_seed

__all__ = ["CHUNK", "CoverUnit", "Outcome", "Unit", "Work", "chunks", "source_digest"]

CHUNK = 5  # trials a unit: enough to keep a hundred workers busy, and little is lost when killed
RECORD = 200  # rounds at which regret is kept
# The parts of the package no number of a unit depends on.
_APART = {"experiments", "commands", "cli.py", "checks", "mdp", "control", "estimators"}

Outcome: TypeAlias = dict[str, FloatArray]


class Work(Protocol):
    """What the store keeps and joblib runs: anything with a key."""

    @property
    def key(self) -> str:
        """A hash of everything the outcome depends on."""

    @property
    def weight(self) -> int:
        """How long it takes next to other work, for the time left."""

    @property
    def threads(self) -> bool:
        """Whether its time is spent in kernels, which run beside each other in one process."""

    def run(self) -> Outcome:
        """Do it."""


@dataclass(frozen=True)
class Unit:
    """Trials ``first`` to ``first + trials - 1`` of ``policy`` in ``environment``.

    Regret is kept at ``marks`` where given, else at ``RECORD`` evenly spaced rounds.
    """

    policy: Policy = field(repr=False)
    environment: Environment = field(repr=False)
    rounds: int
    seed: int
    first: int
    trials: int
    marks: tuple[int, ...] = ()
    weight: int = 1

    @functools.cached_property
    def key(self) -> str:
        """A hash of everything the outcome depends on."""
        numbers = [self.rounds, self.seed, self.first, self.trials, list(self.marks), RECORD]
        return key_of(self.policy, self.environment, numbers)

    @property
    def threads(self) -> bool:
        """Whether its time is spent in kernels."""
        return isinstance(self.policy, PackedPolicy) and getattr(self.policy, "has_kernels", True)

    @property
    def kept(self) -> IntArray:
        """The rounds, counted from 1, whose regret is kept."""
        return np.array(self.marks) if self.marks else checkpoints(self.rounds, RECORD)

    def run(self) -> Outcome:
        """``regret`` (trials, kept), ``seconds`` (trials,), ``truncated`` (trials,), a share.

        The numbers are those of :func:`heavytail.simulate`.
        """
        regret, seconds, truncated = [], [], []
        for trial in range(self.first, self.first + self.trials):
            twin = self.policy.clone()
            seed = trial_seed(self.seed, trial)
            curve, time = episode(twin, self.environment, seed, self.rounds, "compiled")
            regret.append(curve[self.kept - 1])
            seconds.append(time)
            truncated.append(getattr(twin, "truncated", np.nan) / self.rounds)
        return {
            "regret": np.array(regret),
            "seconds": np.array(seconds),
            "truncated": np.array(truncated),
        }


@dataclass(frozen=True)
class CoverUnit:
    """In how many trials the confidence set held the truth after every round."""

    policy: PackedPolicy = field(repr=False)
    environment: LinearBandit = field(repr=False)
    rounds: int
    seed: int
    trials: int
    weight: int = 1
    threads = True

    @functools.cached_property
    def key(self) -> str:
        """A hash of everything the outcome depends on."""
        numbers = ["coverage", self.rounds, self.seed, self.trials]
        return key_of(self.policy, self.environment, numbers)

    def run(self) -> Outcome:
        """``worst`` (trials,): the largest distance to the truth met, in radii."""
        found = distribution(
            self.policy,
            self.environment,
            rounds=self.rounds,
            trials=self.trials,
            seed=self.seed,
            record=1,
            cover=True,
            jobs=1,
            progress=False,
        )
        assert found.worst is not None
        return {"worst": found.worst}


def chunks(trials: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """(first, how many), in order."""
    for first in range(0, trials, size):
        yield first, min(size, trials - first)


def key_of(policy: Policy, environment: Environment, numbers: list[Any]) -> str:
    """A hash of a policy, a world and what else decides the outcome."""
    told = {
        "policy": [type(policy).__module__, repr(policy), _file_digest(type(policy))],
        "environment": [repr(environment), _file_digest(type(environment))],
        "numbers": numbers,
        "source": source_digest(),
    }
    text = json.dumps(told, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


@functools.cache
def source_digest() -> str:
    """A hash of the source the numbers depend on: a change there runs everything anew."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root)
        if where.parts[0] not in _APART:
            digest.update(where.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _file_digest(kind: type[Any]) -> str:
    """A hash of the file a user's own class is written in."""
    if kind.__module__.startswith("heavytail."):
        return ""  # in source_digest
    try:
        text = Path(inspect.getfile(kind)).read_bytes()
    except (TypeError, OSError):
        return ""
    return hashlib.blake2b(text, digest_size=16).hexdigest()
