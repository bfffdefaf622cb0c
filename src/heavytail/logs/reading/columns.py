"""The columns of a log as float64 arrays: (n,), of lists (n, K), of lists of lists (n, K, d).

Shorter rows are filled up. Missing values and values that are not numbers are refused by file, row
and column.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray, IntArray
from heavytail.logs.reading.rows import NAMES
from heavytail.tables.columns import has_lists, lists, numbers, plain, refuse_nulls
from heavytail.tables.place import Place

__all__ = ["dense"]

DEPTHS = {  # how many axes a column may have
    "action": (1,),
    "reward": (1,),
    "propensity": (1,),
    "probabilities": (2,),
    "arms": (3,),
    "context": (2,),
    "target": (1, 2),
    "time": (1,),
}
KINDS = {1: "numbers", 2: "lists of numbers", 3: "lists of lists of numbers"}
MAY_MISS = ("reward", "propensity")  # whose nulls are judged elsewhere: they are NaN here
FILL = {"arms": np.nan, "probabilities": 0.0, "target": 0.0}
ROOM = 2.0**24  # numbers that may be filled up whatever their share


class Ragged(NamedTuple):
    """Lists of any length: ``values``, and the number of entries per list."""

    lengths: IntArray
    values: Ragged | NDArray[Any]  # Ragged, or numbers


def dense(key: str, column: Any, place: Place) -> FloatArray:
    """The column ``key`` as float64, (n,), (n, K) or (n, K, d).

    A null of ``reward`` and ``propensity`` is a NaN.
    """
    if key == "action":
        place = place._replace(hint=f" {NAMES}")
    parts = _parts(column, place, key, max(DEPTHS[key]))
    axes = _axes(parts)
    if axes not in DEPTHS[key]:
        wanted = " or ".join(KINDS[depth] for depth in DEPTHS[key])
        actual = KINDS.get(axes, f"an array of shape {np.shape(column)}")
        place.refuse_type(None, f"must hold {wanted}; got {actual}.")
    array = parts if isinstance(parts, np.ndarray) else _padded(parts, key, place)
    with np.errstate(over="ignore"):  # a long double may become infinite, which is refused later
        return np.ascontiguousarray(array, dtype=np.float64)


def _parts(column: object, place: Place, key: str, depth: int) -> Ragged | NDArray[Any]:
    """Numbers, or lists of them with at most this number of axes."""
    if isinstance(column, np.ndarray) and column.ndim > 1 and column.dtype.kind in "fiu":
        refuse_nulls(column, place)
        return column
    if depth == 1 or not has_lists(column):
        return numbers(column, place, may_miss=key in MAY_MISS, times=key == "time")
    stacked = _regular(column)
    if stacked is not None:
        return stacked
    lengths, entries = lists(column, place)
    return Ragged(lengths, _parts(plain(entries), place.inside(lengths), key, depth - 1))


def _regular(cells: Any) -> NDArray[Any] | None:
    """Rows of numbers, all of one length; None for anything else."""
    if not all(isinstance(cell, np.ndarray) and cell.dtype.kind in "fiu" for cell in cells):
        return None
    return np.stack(cells) if len({cell.shape for cell in cells}) == 1 else None


def _axes(parts: Ragged | NDArray[Any]) -> int:
    return 1 + _axes(parts.values) if isinstance(parts, Ragged) else int(np.ndim(parts))


def _padded(parts: Ragged, key: str, place: Place) -> FloatArray:
    """Lists as an array; the shorter ones are filled up where that means something."""
    lengths, values = parts
    n = len(lengths)
    if isinstance(values, Ragged):
        inner = values.lengths
        size = int(inner[0]) if len(inner) else 0
        odd = np.flatnonzero(inner != size)
        if len(odd):
            row = int(np.searchsorted(np.cumsum(lengths), odd[0], side="right"))
            place.refuse(
                row,
                f"has {inner[odd[0]]} features for an arm where the first one here has {size}. "
                "Give every arm as many.",
            )
        if size == 0:
            place.refuse(0 if n else None, "no arm is offered, or arms have no features.")
        values = np.asarray(values.values).reshape(-1, size)
    most = int(lengths.max()) if n else 0
    if (lengths == most).all():
        return np.asarray(values.reshape(n, most, *values.shape[1:]))
    if key not in FILL:
        odd = np.flatnonzero(lengths != lengths[0])[0]
        place.refuse(
            int(odd),
            f"has {lengths[odd]} numbers where the first row here has {lengths[0]}. Give every "
            "row as many.",
        )
    numbers = float(n) * most * math.prod(values.shape[1:])
    if numbers > max(ROOM, 100.0 * values.size):
        longest = int(np.argmax(lengths))
        place.refuse(
            longest, f"has {most:,} entries where others have few: all would be filled up."
        )
    array = np.full((n, most, *values.shape[1:]), FILL[key])
    array[np.arange(most) < lengths[:, None]] = values
    return array
