"""The work, split: a unit is a few trials of one policy in one world. It is a value with a key.

The key is a hash of everything the numbers depend on, the library's own source included, so a unit
that is found under its key need not be run again, by whichever process and on whichever day it was
made.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.environments import Environment
from heavytail.policies import PackedPolicy, Policy
from heavytail.simulation.engines import episode
from heavytail.simulation.trials import checkpoints, trial_seed

__all__ = ["CHUNK", "Outcome", "Unit", "chunks", "run_unit", "source_digest"]

CHUNK = (
    5  # trials a unit: small enough to keep a hundred workers busy and to lose little when killed
)
RECORD = 200  # rounds at which regret is kept
_SOURCES = ("confidence.py", "tails.py", "kernels", "policies", "environments", "simulation")


@dataclass(frozen=True)
class Unit:
    """Trials ``first`` to ``first + trials - 1`` of ``policy`` in ``environment``."""

    policy: Policy = field(repr=False)
    environment: Environment = field(repr=False)
    rounds: int
    seed: int
    first: int
    trials: int
    record: int = RECORD
    weight: int = 1  # how long it takes next to the others, for the time left

    @functools.cached_property
    def key(self) -> str:
        """A hash of everything the outcome depends on."""
        kind = type(self.policy)
        told = {
            "policy": [kind.__module__, repr(self.policy)],
            "environment": repr(self.environment),
            "numbers": [self.rounds, self.seed, self.first, self.trials, self.record],
            "source": source_digest(),
            "own": "" if kind.__module__.startswith("heavytail.") else _digest_of(kind),
        }
        text = json.dumps(told, sort_keys=True).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    @property
    def threads(self) -> bool:
        """Whether its time is spent in kernels, which run beside each other in one process."""
        return isinstance(self.policy, PackedPolicy)


@dataclass(frozen=True)
class Outcome:
    """``regret`` (trials, checkpoints), cumulative, and ``seconds`` (trials,)."""

    regret: FloatArray
    seconds: FloatArray


def run_unit(unit: Unit) -> Outcome:
    """Run it; the numbers are those of :func:`heavytail.simulate`."""
    kept: IntArray = checkpoints(unit.rounds, unit.record)
    regret, seconds = [], []
    for trial in range(unit.first, unit.first + unit.trials):
        curve, time = episode(
            unit.policy.clone(),
            unit.environment,
            trial_seed(unit.seed, trial),
            unit.rounds,
            "compiled",
        )
        regret.append(curve[kept - 1])
        seconds.append(time)
    return Outcome(np.array(regret), np.array(seconds))


def chunks(trials: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """(first, how many), in order."""
    for first in range(0, trials, size):
        yield first, min(size, trials - first)


@functools.cache
def source_digest() -> str:
    """A hash of the source the numbers depend on: a change there runs everything anew."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.blake2b(digest_size=16)
    for name in _SOURCES:
        here = root / name
        for path in sorted(here.rglob("*.py")) if here.is_dir() else [here]:
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _digest_of(kind: type[Any]) -> str:
    """A hash of the file a user's own policy is written in."""
    import inspect

    try:
        text = Path(inspect.getfile(kind)).read_bytes()
    except (TypeError, OSError):
        return ""
    return hashlib.blake2b(text, digest_size=16).hexdigest()
