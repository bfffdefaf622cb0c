"""Dicts of arrays as checked rows, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from heavytail.logs.rows import Rows

__all__ = ["chunks", "length"]


def chunks(
    log: Any, *, columns: Mapping[str, Any] | None = None, size: int = 65536
) -> Iterator[Rows]:
    """The rows of ``log`` in order, at most ``size`` at a time, each chunk checked."""
    names = dict(columns or {})
    got = {
        key: np.asarray(log[names.get(key, key)])
        for key in ("action", "reward", "propensity", "arms", "context", "target")
        if names.get(key, key) in log
    }
    reward = got["reward"].astype(float)
    _check(~np.isfinite(reward), "reward", reward, "must be a finite number")
    action = got["action"]
    _check(action < 0, "action", action, "must be a whole number, from 0 up")
    if "propensity" in got:
        p = got["propensity"]
        _check(~((p > 0) & (p <= 1)), "propensity", p, "must be above 0 and at most 1")
    for start in range(0, len(reward), size):
        part = {key: value[start : start + size] for key, value in got.items()}
        yield Rows(source="log", start=start, **part)


def length(log: Any) -> int | None:
    """How many rows :func:`chunks` will give, where that is known without reading them."""
    return len(log["reward"])


def _check(bad: Any, column: str, values: Any, problem: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"log, row {row}, column {column!r}: {problem}; got {values[row]}.")
