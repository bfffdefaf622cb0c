"""The work, split: a unit is a call with its arguments, and a key under which its outcome is kept.

The key is a hash of everything the numbers depend on, the source of what is called included, so a
unit that is found under its key need not be run again, by whichever process and on whichever day it
was made.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from heavytail._storage import Stored
from heavytail._typing import FloatArray
from heavytail.environments import ArmSet, Environment
from heavytail.environments.noise import Noise
from heavytail.experiments.source import source_digest
from heavytail.experiments.stats import Sample

__all__ = ["CHUNK", "Key", "Outcome", "Trials", "Unit", "chunks", "join"]

CHUNK = 5  # trials per unit: enough to keep a hundred workers busy, and little is lost when killed

Outcome: TypeAlias = dict[str, FloatArray]  # arrays by name, the first axis the trials
Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Unit:
    """A call "package.module:function" with its arguments; it returns an :data:`Outcome`.

    ``weight`` is how long it takes next to other units, for the time left. ``runs`` is "threads"
    (its time is spent in kernels), "processes" (in Python) or "alone": one at a time in this
    process, and each time anew, for what it measures is time.
    """

    call: str
    arguments: Mapping[str, Any] = field(hash=False)
    weight: int = 1
    runs: str = "threads"

    @functools.cached_property
    def key(self) -> str:
        """A hash of the call, its arguments, and the source of both."""
        modules: set[str] = {self.call.partition(":")[0]}
        seen: set[int] = set()
        for value in self.arguments.values():
            modules |= _modules(value, seen)
        parts = [self.call, _plain(self.arguments), source_digest(frozenset(modules))]
        text = json.dumps(parts, sort_keys=True).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def run(self) -> Outcome:
        """Make the call."""
        module, _, function = self.call.partition(":")
        return getattr(importlib.import_module(module), function)(**self.arguments)


def _plain(value: object) -> object:
    """The value as JSON can hold it; an object by its class and its ``repr``."""
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value)
    if isinstance(value, np.ndarray):  # its repr leaves digits and entries out
        content = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16)
        return ["array", value.dtype.str, list(value.shape), content.hexdigest()]
    if isinstance(value, Stored):  # by its arguments and what it has learned
        state = {key: _plain(array) for key, array in value.saved_arrays().items()}
        return [kind.__module__, kind.__qualname__, _plain(value._arguments), _plain(state)]
    if isinstance(value, Environment | Noise | ArmSet):  # the repr of the user's may say nothing
        return [kind.__module__, kind.__qualname__, _plain(vars(value))]
    if hasattr(value, "__qualname__"):  # a class or a function
        return [value.__module__, value.__qualname__]
    return [kind.__module__, kind.__qualname__, repr(value)]


def _modules(value: object, seen: set[int]) -> set[str]:
    """The modules of the classes and functions that a value is made of."""
    if id(value) in seen or value is None or isinstance(value, int | float | str | np.ndarray):
        return set()
    seen.add(id(value))
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [*value]
    elif hasattr(value, "__dict__") and not hasattr(value, "__qualname__"):  # an instance
        parts = [*vars(value).values()]
    named = value if hasattr(value, "__qualname__") else type(value)
    modules = {str(named.__module__)}
    if isinstance(named, type):
        modules |= {kind.__module__ for kind in named.__mro__}
    return modules.union(*(_modules(part, seen) for part in parts))


@dataclass(frozen=True)
class Trials:
    """The outcomes of one key's units, joined: arrays whose first axis is the trials.

    ``others`` is the final regret of the points that tuning might have chosen instead, as in
    :class:`Sample`.
    """

    units: Sequence[Unit]
    arrays: Outcome
    others: tuple[tuple[float, FloatArray], ...] = ()

    def __getitem__(self, name: str) -> FloatArray:
        return self.arrays[name]

    @property
    def final(self) -> FloatArray:
        """Regret at the end, one number per trial."""
        return self.arrays["regret"][:, -1]

    @property
    def sample(self) -> Sample:
        """Regret at the end, with what else might have been chosen: what a ratio is taken of."""
        return Sample(self.final, self.others)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Those of the first unit; the others differ in which trials they are."""
        return self.units[0].arguments


def join(units: Sequence[Unit], outcomes: Mapping[str, Outcome]) -> Trials:
    """The units' outcomes, one behind the other."""
    mine = [outcomes[unit.key] for unit in units]
    return Trials(
        units, {name: np.concatenate([outcome[name] for outcome in mine]) for name in mine[0]}
    )


def chunks(trials: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """(first, how many), in order."""
    for first in range(0, trials, size):
        yield first, min(size, trials - first)
