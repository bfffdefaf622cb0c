"""Columns of any kind as float64 arrays: NumPy's, Arrow's, and lists in lists.

A column of lists becomes (n, K), one of lists of lists (n, K, d); rows with fewer than the most are
filled up. What is no number, and what is missing, is refused by file, row and column.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.logs.reading.rows import NAMES, Place

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
MAY_MISS = ("reward", "propensity")  # whose nulls somebody else judges: they are NaN here
FILL = {"arms": np.nan, "probabilities": 0.0, "target": 0.0}
ROOM = 2.0**24  # numbers that may be filled up whatever their share
NANOSECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


class Ragged(NamedTuple):
    """Lists of any length: so many entries of ``values`` per list."""

    lengths: IntArray
    values: Any  # Ragged, or numbers


def dense(key: str, value: Any, place: Place) -> FloatArray:
    """The column ``key`` as float64, (n,), (n, K) or (n, K, d).

    A null of ``reward`` and ``propensity`` is a NaN.
    """
    if key == "action":
        place = place._replace(hint=f" {NAMES}")
    if np.ma.is_masked(value):
        place.refuse(None, "has masked entries. Fill them first.")
    if type(value).__module__.split(".")[0] == "pyarrow":
        parts = _from_arrow(value, place, key in MAY_MISS, key == "time")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        parts = value
    elif isinstance(value, np.ndarray) and value.dtype.kind == "M" and key == "time":
        return np.asarray(value.astype("datetime64[ns]").astype(np.int64) / 1e9)
    else:
        parts = _from_objects(value, place, max(DEPTHS[key]), key in MAY_MISS)
    axes = _axes(parts)
    if axes not in DEPTHS[key]:
        wanted = " or ".join(KINDS[depth] for depth in DEPTHS[key])
        actual = KINDS.get(axes, f"an array of shape {np.shape(value)}")
        place.refuse_type(None, f"must hold {wanted}; got {actual}.")
    array = parts if isinstance(parts, np.ndarray) else _padded(parts, key, place)
    with np.errstate(over="ignore"):  # a long double may become infinite, which is refused later
        return np.ascontiguousarray(array, dtype=np.float64)


def _axes(parts: Any) -> int:
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


def _from_arrow(array: Any, place: Place, may_miss: bool, is_time: bool) -> Any:
    """An Arrow array's numbers, or lists of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    arrow_type = array.type
    if pa.types.is_dictionary(arrow_type):
        array = array.dictionary_decode()
        arrow_type = array.type
    if array.null_count and not may_miss:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        place.refuse(row, "is null. Give it, or leave the row out.")
    if pa.types.is_null(arrow_type) and may_miss:
        return np.full(len(array), np.nan)
    nested = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(test(arrow_type) for test in nested):
        lengths = np.asarray(pc.list_value_length(array), dtype=np.int64)
        ends = np.cumsum(lengths)
        inside = _Inside(place, ends)
        return Ragged(lengths, _from_arrow(array.flatten(), inside, False, False))  # type: ignore[arg-type]
    if is_time and pa.types.is_timestamp(arrow_type):
        units = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return units * (NANOSECONDS[arrow_type.unit] / 1e9)
    if pa.types.is_decimal(arrow_type):
        array = array.cast(pa.float64())
        arrow_type = array.type
    if not (pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type)):
        hint = " Cast it to a number." if pa.types.is_boolean(arrow_type) else ""
        place.refuse_type(None, f"must hold numbers; got Arrow's {arrow_type}.{hint}")
    return array.to_numpy(zero_copy_only=False)


class _Inside:
    """The place of what stands in lists: the row is that of the list."""

    def __init__(self, outer: Any, ends: IntArray) -> None:
        self.outer, self.ends = outer, ends

    def _row(self, entry: int | None) -> int | None:
        return None if entry is None else int(np.searchsorted(self.ends, entry, side="right"))

    def refuse(self, entry: int | None, problem: str) -> None:
        self.outer.refuse(self._row(entry), problem)

    def refuse_type(self, entry: int | None, problem: str) -> None:
        self.outer.refuse_type(self._row(entry), problem)


def _from_objects(value: Any, place: Any, depth: int, may_miss: bool) -> Any:
    """A list, or an array of objects, of numbers or of lists of them."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        hint = " Pass it .astype(float)." if value.dtype.kind == "b" else ""
        place.refuse_type(None, f"must hold numbers; got dtype {value.dtype}.{hint}")
    cells = list(value)
    holds_lists = any(isinstance(cell, list | tuple | np.ndarray) for cell in cells[:1])
    if depth == 1 or not holds_lists:
        return _numbers(cells, place, may_miss)
    for row, cell in enumerate(cells):
        if not isinstance(cell, list | tuple | np.ndarray):
            place.refuse_type(row, f"must be a list; got {shown(cell)}.")
    plain = _regular(cells)
    if plain is not None:
        return plain
    lengths = np.array([len(cell) for cell in cells], dtype=np.int64)
    inside = _Inside(place, np.cumsum(lengths))
    flat = [entry for cell in cells for entry in cell]
    return Ragged(lengths, _from_objects(flat, inside, depth - 1, False))


def _regular(cells: list[Any]) -> NDArray[Any] | None:
    """Rows of numbers, as many in each; None for all else."""
    if not all(isinstance(cell, np.ndarray) and cell.dtype.kind in "fiu" for cell in cells):
        return None
    if len({cell.shape for cell in cells}) > 1:
        return None
    return np.stack(cells)


def _numbers(cells: list[Any], place: Any, may_miss: bool) -> FloatArray:
    kinds = set(map(type, cells))
    if kinds <= {float, int}:
        try:
            return np.array(cells, dtype=np.float64)
        except OverflowError:
            pass
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if cell is None and may_miss:
            numbers[row] = np.nan
            continue
        if cell is None:
            place.refuse(row, "is null. Give it, or leave the row out.")
        real = isinstance(cell, int | float | np.integer | np.floating)
        if not real or isinstance(cell, bool | np.timedelta64):
            place.refuse_type(row, f"must be a number; got {shown(cell)}.")
        try:
            numbers[row] = cell
        except OverflowError:
            place.refuse(row, f"must be a finite number; got {shown(cell)}.")
    return numbers
