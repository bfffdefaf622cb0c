"""A decision as a log keeps it, and the checks made before anything is written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Set
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray
from heavytail._validate import as_numbers, check_count, plain, printable, shown
from heavytail.encoding import Arms
from heavytail.ledger.decision import Decision, checked_numbers
from heavytail.tables.columns import length

__all__ = ["Entry", "checked_entry"]

LARGEST: Final = 2**16  # bytes of a context, as JSON
WHOLE: Final = 2**63  # integers of a context are below


class Entry(NamedTuple):
    """A decision, with the arms and the context that it was made among."""

    token: int
    arm: int
    arms: FloatArray
    probability: float | None
    score: float | None
    time: float | None
    ids: list[str] | None
    context: dict[str, Any] | None


def checked_entry(
    decision: object,
    arms: ArrayLike,
    ids: Collection[object] | None,
    context: object,
    *,
    dim: int | None,
    where: str,
) -> Entry:
    """A decision and its arms, which have ``dim`` features, as an entry of a log, or an error."""
    if not isinstance(decision, Decision):
        raise TypeError(f"{where}: pass a Decision, as decide gives it; got {shown(decision)}.")
    token = check_count(f"{where}: decision.token", decision.token, least=0)
    arm = check_count(f"{where}: decision.arm", decision.arm, least=0)
    fields = {name: getattr(decision, name) for name in Decision.__slots__}
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
    names = None if ids is None else _checked_ids(f"{where}: ids", ids, len(rows))
    values = None if context is None else _checked_context(f"{where}: context", context)
    return Entry(token, arm, rows, **checked_numbers(where, fields), ids=names, context=values)


def _checked_ids(where: str, ids: Collection[object], count: int) -> list[str]:
    """Names of arms as text that a file can hold, or an error."""
    wanted = f"{where} must be a list of text or whole numbers, one per arm"
    if isinstance(ids, str | bytes | bytearray | Set | Mapping) or length(ids) is None:
        raise TypeError(f"{wanted}; got {shown(ids)}.")
    names = list(itertools.islice(ids, count + 1)) if len(ids) == count else []
    if len(names) != count:
        raise ValueError(f"{where}: {count} arms need as many ids; got {len(ids)}.")
    return [_name(wanted, k, name) for k, name in enumerate(names)]


def _name(wanted: str, k: int, name: object) -> str:
    if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
        raise TypeError(f"{wanted}; got {shown(name)} at {k}.")
    try:
        text = str.__str__(name) if isinstance(name, str) else str(int(name))
        text.encode()
    except ValueError as error:  # half a character, or more digits than Python prints
        problem = f"{wanted}; got {shown(name)} at {k}, which is no text ({printable(str(error))})."
        raise ValueError(problem) from None
    return text


def _checked_context(where: str, context: object) -> dict[str, Any]:
    """A context that a file can hold, of Python's own types, or an error."""
    if not isinstance(context, Mapping):
        raise TypeError(f"{where} must be a dict of values by name; got {shown(context)}.")
    values = {}
    for name, value in context.items():
        if not isinstance(name, str):
            raise TypeError(f"{where}: a name must be text; got {shown(name)}.")
        values[str.__str__(name)] = _scalar(f"{where}[{shown(name)}]", value)
    try:
        size = len(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} has half a character ({printable(str(error))}).") from None
    if size > LARGEST:
        raise ValueError(
            f"{where} is of {size:,} bytes as JSON, and {LARGEST:,} are logged at most. Leave out "
            "what no encoder will ask for."
        )
    return values


def _scalar(where: str, value: object) -> str | float | None:
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
