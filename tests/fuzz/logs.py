"""A policy learned from a log, of which files are damaged and threads make use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz import policies

import heavytail as ht

ROWS = 40


def learned() -> ht.LogPolicy:
    """One that a few rows taught."""
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(ROWS, 3, policies.DIM))
    log = {"arms": arms, "action": rng.integers(3, size=ROWS), "propensity": np.full(ROWS, 1 / 3)}
    return ht.LogPolicy(seed=3).fit({**log, "reward": rng.pareto(1.5, ROWS)})


def builders() -> list[Callable[[], Any]]:
    """All of this that saves."""
    return [learned]
