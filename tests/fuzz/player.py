"""One object and the calls made on it, good and bad ones mixed; what is counted."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tests.fuzz.values import dresses, rounded

import heavytail as ht

FINE = {
    "calls",
    "refused",
    "known",
    "files",
    "taken",
    "interleavings",
    "runs",
    "stuck",
}  # what may be counted
MEMORY = Path("/dev/shm")  # a folder in memory, where there is one
Call = tuple[str, Callable[[], Any]]


class Folder:
    """A folder for files that live for a moment."""

    def __enter__(self) -> Path:
        self.path = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def through_file(subject: Any) -> Any:
    """What comes back from a file that it was saved in."""
    with Folder() as folder:
        subject.save(folder / "it.npz")
        return ht.load(folder / "it.npz")


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Whether two states are equal, bit for bit."""
    return set(one) == set(two) and all(
        one[key].shape == two[key].shape and one[key].tobytes() == two[key].tobytes() for key in one
    )


class Player:
    """One object and the calls made on it. A subclass gives ``good``, ``bad`` and ``acts``."""

    refusals: ClassVar[tuple[type[Exception], ...]] = (ValueError, TypeError)

    def __init__(self, make: Callable[[], Any], rng: np.random.Generator, found: Counter) -> None:
        self.make, self.rng, self.found = make, rng, found
        self.subject = make()

    def good(self) -> None:
        """Make a call that must be taken."""
        raise NotImplementedError

    def bad(self) -> Call:
        """A call that must be refused, and its name."""
        raise NotImplementedError

    def acts(self, subject: Any) -> Any:
        """What ``subject`` answers now: to compare with a copy's."""
        raise NotImplementedError

    def copied(self) -> Any:
        return self.subject.clone()

    def snapshot(self) -> dict[str, Any]:
        return {key: np.array(array) for key, array in self.subject.saved_arrays().items()}

    def pick(self, options: list[Any]) -> Any:
        return options[self.rng.integers(len(options))]

    def dressed(self, x: np.ndarray) -> Any:
        """The same numbers as another type, or near ones."""
        return self.pick(dresses(x) + (rounded(x) if self.rng.random() < 0.2 else []))

    def alike(self, learn: Callable[[Any, Any], None], x: np.ndarray) -> None:
        """Learn x in another dress; beside a copy that learns it plain, now and then."""
        form = self.pick(dresses(x))
        if self.rng.random() < 0.9:
            return learn(self.subject, form)
        twin = self.copied()
        learn(twin, x)
        learn(self.subject, form)
        if not same(self.snapshot(), {k: np.array(a) for k, a in twin.saved_arrays().items()}):
            self.fail("learned otherwise in another dress", type(form).__name__)
        return None

    def step(self) -> None:
        """One call, and what must hold after it."""
        self.found["calls"] += 1
        if self.rng.random() < 0.5:
            try:
                self.good()
            except Exception as error:
                self.fail("good calls refused", repr(error))
            return
        name, call = self.bad()
        before = self.snapshot()
        try:
            call()
        except self.refusals:
            self.found["refused"] += 1
        except Exception as error:
            return self.fail("other exceptions", f"{name}: {error!r}")
        else:
            return self.fail("accepted but bad", name)
        if not same(before, self.snapshot()):
            self.fail("states changed by a refusal", name)
        elif self.rng.random() < 0.15:
            self.compare(name)
        return None

    def compare(self, name: str) -> None:
        """It must answer as a copy does, which remembers nothing of the refusal."""
        try:
            twin = self.copied()
            if self.acts(self.subject) != self.acts(twin):
                self.fail("choices changed by a refusal", name)
        except Exception as error:
            self.fail("good calls refused", repr(error))

    def fail(self, what: str, how: str) -> None:
        """Count it, say it, and begin anew."""
        self.found[what] += 1
        if self.found[what] <= 12:
            print(f"{type(self.subject).__name__}: {what}: {how}", flush=True)
        self.subject = self.make()


def deep(subject: Any) -> Any:
    """A copy of what has no ``clone``."""
    return copy.deepcopy(subject)
