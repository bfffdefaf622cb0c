"""A decision as a log holds it, and what is checked of one before anything is written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import as_numbers, check_count, check_number, plain, printable, shown
from heavytail.encoding import Arms
from heavytail.logs.records import record
from heavytail.policies.core.decisions import Decision

__all__ = ["BOUNDS", "Entry", "checked", "checked_context", "checked_ids", "entry_of"]

BOUNDS: dict[str, dict[str, Any]] = {  # of what may be None, too
    "probability": {"above": 0.0, "most": 1.0},
    "score": {},
    "time": {},
}
LARGEST: Final = 2**16  # bytes of a context, as JSON
WHOLE: Final = 2**63  # integers of a context are below


@dataclass(frozen=True, eq=False)
class Entry:
    """A decision in the log, with its reward once that is known."""

    number: int  # among all decisions of the log
    token: int
    action: int
    arms: FloatArray
    probability: float | None
    score: float | None
    time: float | None
    ids: tuple[str, ...] | None
    context: str | None = None  # JSON
    reward: float | None = None
    reward_time: float | None = None

    def same(self, decision: Decision) -> bool:
        """Whether it is this decision, and not another of the same token."""
        same = (self.action, self.time) == (decision.arm, decision.time)
        return same and np.array_equal(self.arms[self.action], decision.x)

    def record(self, safe: bool) -> bytes:
        """It as it was decided."""
        told: dict[str, Any] = {
            "number": self.number,
            "token": self.token,
            "action": self.action,
            "shape": list(self.arms.shape),
            "probability": self.probability,
            "score": self.score,
            "time": self.time,
            "ids": None if self.ids is None else list(self.ids),
        }
        if self.context is not None:
            told["context"] = self.context
        return record({"decided": told}, safe, self.arms.astype("<f8").tobytes())

    def rewarded(self, reward: float, when: float) -> Entry:
        """It with its reward."""
        return replace(self, reward=reward, reward_time=when)

    def reward_record(self, safe: bool) -> bytes:
        """Its reward."""
        told = {"number": self.number, "reward": self.reward, "time": self.reward_time}
        return record({"rewarded": told}, safe)


def checked(where: str, name: str, got: Any) -> float | None:
    """A number of a decision, or None, or an error."""
    return None if got is None else check_number(f"{where}: {name}", got, **BOUNDS[name])


def checked_ids(where: str, ids: Any, count: int) -> tuple[str, ...]:
    """Names of the arms as text that a file can hold, or an error."""
    wanted = f"{where} must be a list of text or whole numbers, one per arm"
    if isinstance(ids, str | bytes | bytearray | Set | Mapping) or not hasattr(ids, "__len__"):
        raise TypeError(f"{wanted}; got {shown(ids)}.")
    found = list(itertools.islice(ids, count + 1)) if len(ids) == count else []
    if len(found) != count:
        raise ValueError(f"{where}: {count} arms need as many ids; got {len(ids)}.")
    return tuple(_name(wanted, k, one) for k, one in enumerate(found))


def _name(wanted: str, k: int, one: Any) -> str:
    if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
        raise TypeError(f"{wanted}; got {shown(one)} at {k}.")
    try:
        name = str.__str__(one) if isinstance(one, str) else str(int(one))
        name.encode()
    except ValueError as error:  # half a character, or more digits than Python prints
        problem = f"{wanted}; got {shown(one)} at {k}, which is no text ({printable(str(error))})."
        raise ValueError(problem) from None
    return name


def checked_context(where: str, told: Any) -> str:
    """A context as JSON that a file can hold, or an error."""
    if not isinstance(told, Mapping):
        raise TypeError(f"{where} must be a dict of values by name; got {shown(told)}.")
    found = {}
    for name, value in told.items():
        if not isinstance(name, str):
            raise TypeError(f"{where}: a name must be text; got {shown(name)}.")
        found[str.__str__(name)] = _scalar(f"{where}[{shown(name)}]", value)
    try:
        text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} has half a character ({printable(str(error))}).") from None
    if size > LARGEST:
        raise ValueError(
            f"{where} is of {size:,} bytes as JSON, and {LARGEST:,} are logged at most. Leave out "
            "what no encoder will ask for."
        )
    return text


def _scalar(where: str, value: Any) -> Any:
    """Text, a finite number, a bool or None, of Python's own types."""
    value = value if isinstance(value, list | tuple) else plain(value)
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < WHOLE:
        return int(value)
    if isinstance(value, float) and value - value == 0.0:  # finite
        return float(value)
    raise TypeError(
        f"{where} must be text, a finite number, a bool or None; got {shown(value)}. A context is "
        "flat: give what is in a list or a dict names of its own."
    )


def entry_of(
    decision: Any, arms: Any, ids: Any, context: Any, *, number: int, dim: int | None
) -> Entry:
    """A decision with its arms as entry ``number`` of a log whose arms have ``dim`` features, or an
    error.
    """
    where = "DecisionLog.decided"
    if not isinstance(decision, Decision):
        raise TypeError(f"{where}: pass a Decision, as decide gives it; got {shown(decision)}.")
    token = check_count(f"{where}: decision.token", decision.token, least=0)
    arm = check_count(f"{where}: decision.arm", decision.arm, least=0)
    rest = {name: checked(where, name, getattr(decision, name)) for name in BOUNDS}
    rows = as_numbers(arms, f"{where}: arms", "numbers of shape (n, dim)")
    rows = np.array(rows.reshape(len(rows), -1) if rows.ndim > 2 and rows.size else rows)
    if rows.ndim != 2 or arm >= len(rows) or not rows.size:
        raise ValueError(
            f"{where}: arms must have shape (n, dim) and be those of the decision, which chose "
            f"number {arm}; got shape {rows.shape}."
        )
    if not np.isfinite(rows).all() or not np.array_equal(rows[arm], decision.x):
        raise ValueError(
            f"{where}: arms[{arm}] is not what was chosen. Pass the very arms that decide was "
            "given."
        )
    if dim not in (None, rows.shape[1]):
        raise ValueError(
            f"{where}: arms have {rows.shape[1]} features, and those of this log {dim}. Keep a log "
            "for each."
        )
    if ids is None and isinstance(arms, Arms):
        ids = arms.ids
    names = None if ids is None else checked_ids(f"{where}: ids", ids, len(rows))
    told = None if context is None else checked_context(f"{where}: context", context)
    return Entry(number, token, arm, rows, ids=names, context=told, **rest)
