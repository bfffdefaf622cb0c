"""A decision that waits for its reward, and the outcome that ends the wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import as_rows, check_count, check_number, shown

__all__ = ["Decision", "Outcome", "checked_numbers", "frozen", "token_of"]

BOUNDS: dict[str, dict[str, Any]] = {  # of what may be None, too
    "probability": {"above": 0.0, "most": 1.0},
    "score": {},
    "time": {},
}


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A choice that waits for its reward.

    Attributes:
        token: identifies the decision when its reward comes.
        arm: the arm's place among those offered.
        x: its features.
        probability: the probability of the choice; None if the policy draws and does not know it.
        score: the mean reward that the policy predicted; None if it predicts none.
        time: time of the decision, in seconds since 1970 (UTC).
    """

    token: int
    arm: int
    x: FloatArray
    probability: float | None = None
    score: float | None = None
    time: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The decision as a dict that JSON can hold, exact to the bit."""
        parts = {name: getattr(self, name) for name in self.__slots__}
        return {**parts, "x": self.x.tolist()}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Decision:
        """Read the result of ``to_dict``; refuse anything that is not a decision."""
        where = "Decision.from_dict"
        if not isinstance(told, Mapping) or set(told) != set(cls.__slots__):
            keys = list(told) if isinstance(told, Mapping) else told
            raise ValueError(f"{where}: must have {', '.join(cls.__slots__)}; got {shown(keys)}.")
        x = frozen(as_rows(told["x"], (None,), f"{where}: x"))
        if not np.isfinite(x).all():
            raise ValueError(f"{where}: x must be finite; got {shown(told['x'])}.")
        token = check_count(f"{where}: token", told["token"], least=0)
        arm = check_count(f"{where}: arm", told["arm"], least=0)
        return cls(token, arm, x, **checked_numbers(where, told))


class Outcome(NamedTuple):
    """An arrived reward: its number in the ledger, from 1, and the token of its decision."""

    seq: int
    token: int
    reward: float


def checked_numbers(where: str, fields: Mapping[str, Any]) -> dict[str, float | None]:
    """Probability, score and time of a decision, each a number or None; refuses anything else."""
    return {
        name: None
        if fields[name] is None
        else check_number(f"{where}: {name}", fields[name], **bounds)
        for name, bounds in BOUNDS.items()
    }


def token_of(decision: object, where: str) -> int:
    """The token of a Decision, or a given token; refuses anything else."""
    if isinstance(decision, bool) or not isinstance(decision, Decision | int | np.integer):
        raise TypeError(f"{where}: pass a Decision or its token; got {shown(decision)}.")
    return decision.token if isinstance(decision, Decision) else int(decision)


def frozen(x: FloatArray) -> FloatArray:
    """A read-only copy."""
    twin = np.array(x, dtype=np.float64)
    twin.flags.writeable = False
    return twin
