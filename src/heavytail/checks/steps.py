"""Parts that checks of identifiers and controllers share: an easy system, refusals, files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from heavytail._load import load
from heavytail._storage import Stored
from heavytail._typing import FloatArray
from heavytail.checks.battery import refused, require

__all__ = ["STEPS", "Step", "easy_system", "refuses_bad_steps", "same_file"]

STEPS = 60
Step = tuple[FloatArray, FloatArray, FloatArray]  # x, u, x_next


Kept = TypeVar("Kept", bound=Stored)


def easy_system(n: int, d: int, gain: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """A and B of a system that every input u = K x with ‖K‖ <= ``gain`` leaves stable."""
    A = 0.5 * np.eye(n) + 0.1 * np.eye(n, k=1)
    B = np.ones((n, d)) + np.eye(n, d)
    return A, 0.3 / (1.0 + gain) * B / np.linalg.norm(B)


def refuses_bad_steps(subject: Any, n: int, d: int) -> None:
    """NaN, infinity, wrong lengths, text and objects, in x, u and x_next, change nothing."""
    good = np.zeros(n), np.zeros(d), np.zeros(n)
    for place, name in enumerate(("x", "u", "x_next")):
        size = len(good[place])
        bad: dict[str, Any] = {
            "with a NaN": np.full(size, np.nan),
            "with an infinity": np.full(size, -np.inf),
            "of the wrong length": np.zeros(size + 1),
            "of the wrong shape": np.zeros((1, size)),
            "of text": ["a"] * size,
            "of objects": [None] * size,
            "of complex numbers": np.ones(size, dtype=complex),
        }
        for what, value in bad.items():
            step = (*good[:place], value, *good[place + 1 :])
            refused(subject, lambda step=step: subject.update(*step), f"{name} {what}")  # type: ignore[misc]
    steps = subject.steps
    subject.update(*good)
    require(subject.steps == steps + 1, "does not learn after a refused call")


def same_file(subject: Kept) -> Kept:
    """Save ``subject`` to a file, and return what is loaded from it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.npz"
        subject.save(path)
        return load(path, kinds=(type(subject),))
