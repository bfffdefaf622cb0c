"""A policy of a user's own, in plain Python, for ``--policy tests.reproduction.own:Mine``."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytail.policies import Policy
from heavytail.policies.core.info import Info


class Mine(Policy):
    """Plays the first arm and learns nothing."""

    name = "Mine"
    info = Info(
        method="none", reference="-", regret="-", cost="O(1)", storage="O(1)", moment="none",
        sources="A test's.",
    )  # fmt: skip

    def __init__(self, dim: int, *, radius_scale: float = 1.0) -> None:
        self.dim, self.radius_scale, self._rounds = dim, radius_scale, 0

    def select(self, arms: Any) -> int:
        return 0

    def update(self, x: Any, reward: float, scale: float | None = None) -> None:
        self._rounds += 1

    @property
    def theta(self) -> Any:
        return np.zeros(self.dim)

    @property
    def radius(self) -> float:
        return 0.0

    @property
    def rounds(self) -> int:
        return self._rounds

    def state_arrays(self) -> dict[str, Any]:
        return {"rounds": np.array([self._rounds])}

    def restore(self, arrays: dict[str, Any]) -> None:
        self._rounds = int(arrays["rounds"][0])


class Double(Mine):
    """Calls itself what another is called."""

    name = "OFUL"
