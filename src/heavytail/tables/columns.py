"""A column of any kind as a NumPy array, a list or an Arrow array, and those as numbers.

Packages are recognised by their classes, so that only those that the caller uses are imported.
"""

from __future__ import annotations

import decimal
import math
import numbers as kinds_of_number
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heavytail._extras import is_there
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.tables.place import Place

__all__ = [
    "MISSING",
    "has_lists",
    "is_arrow",
    "length",
    "lists",
    "nulls",
    "numbers",
    "plain",
    "refuse_nulls",
]

MISSING: Final = ("NoneType", "NAType", "NaTType")  # types of a missing value
GIVE: Final = "Give it, or leave the row out."
_LISTS: Final = (list, tuple, np.ndarray)
_WHOLE: Final = {"i": np.int64, "u": np.uint64}
_CONVERTED: Final = {float, int, np.float64, np.int64, np.float32, np.int32}  # by NumPy, by itself
_NANOSECONDS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


def is_arrow(column: Any) -> bool:
    """Tell whether a column is pyarrow's."""
    return type(column).__module__.partition(".")[0] == "pyarrow"


def length(column: Any) -> int | None:
    """The number of values of a column; None for a single value."""
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
        return None
    return len(column) if getattr(column, "ndim", 1) else None


def plain(column: Any) -> Any:
    """A column as an array, masked where values are null, a list, or an Arrow array."""
    if isinstance(column, list | np.ndarray):
        return column
    if is_arrow(column):
        return column.combine_chunks() if hasattr(column, "num_chunks") else column
    if hasattr(column, "iloc"):
        return _of_pandas(column)
    if hasattr(column, "null_count") and hasattr(column, "to_arrow"):  # polars
        dtype = column.dtype
        if (dtype.is_float() or dtype.is_integer()) and not column.null_count():
            return column.to_numpy()
        exact = is_there("pyarrow") and not dtype.is_object()
        return column.to_arrow() if exact else column.to_list()
    return np.asarray(column) if hasattr(column, "__array__") else list(column)


def _of_pandas(series: Any) -> Any:
    """Values that pandas calls missing are null; whole numbers stay so, for ids of many digits."""
    letter = getattr(series.dtype, "kind", "O")
    own = isinstance(series.dtype, np.dtype)
    if letter == "M" or (own and letter == "b"):
        return series.to_numpy()
    gone = series.isna().to_numpy()
    if letter not in "fiu":
        cells = series.tolist()
        return [None if g else v for g, v in zip(gone, cells, strict=True)] if gone.any() else cells
    dtype = _WHOLE.get(letter, np.float64)
    if not gone.any():
        return series.to_numpy(dtype)
    return np.ma.MaskedArray(series.to_numpy(dtype, na_value=0), gone)


def nulls(column: Any) -> NDArray[np.bool_] | None:
    """A mask of the nulls in a column as :func:`plain` gives it; None where there is none."""
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.getmaskarray(column)
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return None
    if is_arrow(column):
        return np.asarray(column.is_null()) if column.null_count else None
    gone = {kind for kind in set(map(type, column)) if kind.__name__ in MISSING}
    return np.array([type(cell) in gone for cell in column], dtype=bool) if gone else None


def refuse_nulls(column: Any, place: Place, do: str = GIVE) -> None:
    """Refuse a column in which a value is null, and say what to do."""
    gone = nulls(column)
    if gone is not None and gone.any():
        place.refuse(int(np.argmax(gone.reshape(len(gone), -1).any(axis=1))), f"is null. {do}")


def lists(column: Any, place: Place, *, of: str = "", do: str = GIVE) -> tuple[IntArray, Any]:
    """A column of lists: the number of entries in each, and all of them one after the other."""
    refuse_nulls(column, place, do)
    if is_arrow(column) and hasattr(column, "flatten") and _is_nested(column.type):
        import pyarrow.compute as pc

        return np.asarray(pc.list_value_length(column), dtype=np.int64), column.flatten()
    cells = column.to_pylist() if is_arrow(column) else list(column)
    for row, cell in enumerate(cells):
        if not isinstance(cell, _LISTS):
            place.refuse_type(row, f"must be a list{of}; got {shown(cell)}.")
    lengths = np.array([len(cell) for cell in cells], dtype=np.int64)
    return lengths, [entry for cell in cells for entry in cell]


def has_lists(column: Any) -> bool:
    """Tell whether a column, to judge by its type or its first value, holds lists."""
    if is_arrow(column):
        return _is_nested(column.type)
    return any(isinstance(cell, _LISTS) for cell in column[:1])


def _is_nested(arrow_type: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(arrow_type) for test in tests)


def numbers(
    column: Any, place: Place, *, may_miss: bool = False, times: bool = False
) -> FloatArray:
    """A column, as :func:`plain` gives it, as float64 (n,); what is no number is refused.

    A null becomes NaN if values ``may_miss``, and is refused otherwise. With ``times``, dates
    become seconds. Infinite numbers pass.
    """
    if not may_miss:
        refuse_nulls(column, place)
    if is_arrow(column):
        column = _of_arrow(column, times)
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            place.refuse(None, f"must be flat; got shape {column.shape}.")
        if times and column.dtype.kind == "M":
            return np.asarray(column.astype("datetime64[ns]").astype(np.int64) / 1e9)
        if column.dtype.kind in "fiu":
            with np.errstate(over="ignore"):  # a long double may become infinite
                column = column.astype(np.float64, copy=False)
            return column.filled(np.nan) if isinstance(column, np.ma.MaskedArray) else column
        column = list(column) if column.dtype.kind in "mM" else column.tolist()
    kinds = set(map(type, column))
    missing = {kind for kind in kinds if kind.__name__ in MISSING}
    if missing:
        column = [math.nan if type(cell) in missing else cell for cell in column]
    try:
        if kinds - missing <= _CONVERTED:
            return np.array(column, dtype=np.float64)
    except OverflowError:  # an integer beyond all floats, which is refused by its row
        pass
    return np.array([_number(cell, place, row) for row, cell in enumerate(column)], np.float64)


def _of_arrow(array: Any, times: bool) -> Any:
    """An Arrow array as an array of numbers, NaN where they are null, or as a list."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if times and pa.types.is_timestamp(array.type):
        units = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return units * (_NANOSECONDS[array.type.unit] / 1e9)
    if pa.types.is_decimal(array.type):  # by way of text, which alone is rounded correctly
        array = array.cast(pa.string()).cast(pa.float64())
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return array.to_numpy(zero_copy_only=False)
    return array.to_pylist()


def _number(cell: Any, place: Place, row: int) -> float:
    """One number, of a type that NumPy does not convert by itself."""
    if isinstance(cell, bool | np.bool_):
        place.refuse_type(row, f"must be a number; got {cell!r}. Pass 1 or 0.")
    real = isinstance(cell, kinds_of_number.Real | np.floating | np.integer | decimal.Decimal)
    if not real or isinstance(cell, np.timedelta64):
        place.refuse_type(row, f"must be a number; got {shown(cell)}.")
    try:
        with np.errstate(over="ignore"):
            return float(cell)
    except (OverflowError, ValueError):
        place.refuse(row, f"{shown(cell)} is beyond all floats. Change the unit.")
