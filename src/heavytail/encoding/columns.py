"""Rows of any kind (frames, dicts of columns, lists of dicts) as columns, and those as arrays.

A frame is recognised by its methods, so that neither pandas nor polars nor pyarrow is imported.
"""

from __future__ import annotations

import decimal
import functools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from heavytail._lazy import nearest
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.encoding.text import MISSING, key

__all__ = ["Keys", "Table", "keys_of", "numbers_of", "one_row", "table"]

DRESSES = "a pandas or polars frame, a dict of columns or a list of dicts"
ARROW_NUMBERS = ("int", "uint", "float", "double", "halffloat")
_OF_NUMBERS = {float, int, np.float64, np.int64, np.float32, np.int32}
_HASHABLE = {int, float, bool, np.int64, np.float64}
_OF_TEXT = {str, type(None)}


class Table(NamedTuple):
    """Rows by column: their number, a column by name, all names, and whether a name exists.

    ``rows`` is the name of a row in an error, "" if there is only one.
    """

    length: int
    column: Callable[[str], Any]
    names: Callable[[], Iterable[Any]]
    has: Callable[[str], bool]
    where: str
    rows: str = "row {}"
    place: Callable[[str, int], str] | None = None  # says where a value stands, if not ``at``

    def at(self, name: str, row: int) -> str:
        """The place of a value, in words."""
        if self.place is not None:
            return self.place(name, row)
        place = f"{self.where}: column {name!r}"
        return f"{place}, {self.rows.format(row)}" if self.rows else place


class Keys(NamedTuple):
    """A column of categories: each row's place among the different ``values``, -1 for none."""

    codes: IntArray
    values: list[str]


def table(data: Any, where: str, rows: str = "row {}") -> Table:
    """``data`` of any kind as columns."""
    if isinstance(data, Table):
        return data
    if isinstance(data, list | tuple):
        return _of_dicts(data, where, rows)
    if isinstance(data, Mapping):
        return _of_columns(data, where, rows)
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):  # polars, lazy
        data = data.collect()
    if hasattr(data, "column_names") and hasattr(data, "num_rows"):  # pyarrow
        return _framed(data.column_names, data.num_rows, data.column, where, rows)
    names = getattr(data, "columns", None)
    if names is None or not hasattr(data, "shape") or len(data.shape) != 2:
        problem = f"{where}: rows must be {DRESSES}; got {type(data).__name__}."
        if isinstance(data, Iterator):
            problem += " Pass list(rows), or chunks of them to partial_fit."
        if isinstance(data, np.ndarray):
            problem += " An array has no names: pass pandas.DataFrame(array, columns=[...])."
        raise TypeError(problem)
    return _framed(names, data.shape[0], data.__getitem__, where, rows)


def _framed(
    columns: Iterable[Any], length: int, get: Callable[[str], Any], where: str, rows: str
) -> Table:
    """A frame with such names and ``get`` for its columns."""
    names = list(columns)
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{where}: two columns are called {shown(twice)}. Rename one.")
    known = set(names)
    return Table(length, _finder(known, get, where), lambda: names, known.__contains__, where, rows)


def one_row(values: Mapping[str, Any], where: str) -> Table:
    """One dict as a table of one row."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{where} must be a dict of values by column; got {shown(values)}.")

    def column(name: str) -> Any:
        if name not in values:
            raise _absent(name, values, where)
        return [values[name]]

    return Table(1, column, values.keys, values.__contains__, where, "")


def _finder(names: Any, get: Callable[[str], Any], where: str) -> Callable[[str], Any]:
    def column(name: str) -> Any:
        if name not in names:
            raise _absent(name, names, where)
        return get(name)

    return column


def _absent(name: str, names: Iterable[Any], where: str) -> ValueError:
    known = [str(column) for column in names]
    near = nearest(name, known)
    do = f"Did you mean {shown(near)}?" if near else f"There are {shown(known)}."
    if not known:
        do = "There is none at all."
    return ValueError(f"{where}: the column {name!r} is missing. {do}")


def _of_dicts(rows: Sequence[Any], where: str, called: str) -> Table:
    for i, row in enumerate(rows):
        if type(row) is not dict and not isinstance(row, Mapping):
            raise TypeError(
                f"{where}: {called.format(i)} must be a dict of values by column; got {shown(row)}."
            )

    def column(name: str) -> list[Any]:
        try:
            return [row[name] for row in rows]
        except KeyError:
            bad = next(i for i, row in enumerate(rows) if name not in row)
            problem = str(_absent(name, rows[bad], f"{where}, {called.format(bad)}"))
            raise ValueError(f"{problem} Pass None where a value is not known.") from None

    @functools.cache
    def names() -> set[Any]:
        return set().union(*rows)

    return Table(len(rows), column, names, lambda name: name in names(), where, called)


def _of_columns(columns: Mapping[Any, Any], where: str, called: str) -> Table:
    """A dict of columns of one length; of values that are no columns, one row."""
    lengths = {name: _length(column) for name, column in columns.items()}
    if not columns or None in lengths.values():
        for name, length in lengths.items():
            if length is not None:
                single = next(other for other, n in lengths.items() if n is None)
                raise ValueError(
                    f"{where}: column {shown(name)} has {length} values and {shown(single)} has "
                    "one that is not a list. Pass all columns as lists, or all as single values."
                )
        return one_row(columns, where)
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise ValueError(
                f"{where}: column {shown(name)} has {length} values, {shown(first)} has "
                f"{lengths[first]}. All must have the same number."
            )
    get = _finder(columns, columns.__getitem__, where)
    return Table(lengths[first] or 0, get, columns.keys, columns.__contains__, where, called)


def _length(column: Any) -> int | None:
    """The number of values of a column; None for a single value."""
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
        return None
    return len(column) if getattr(column, "ndim", 1) else None


def numbers_of(rows: Table, name: str) -> FloatArray:
    """A column of finite numbers as float64, NaN where one is missing; all else is refused."""
    raw = _plain(rows.column(name), wanted="numbers")
    if isinstance(raw, np.ndarray):
        if raw.ndim != 1:
            raise ValueError(f"{rows.where}: column {name!r} must be flat; got shape {raw.shape}.")
        if raw.dtype.kind in "fiu":
            return _finite(raw.astype(np.float64), rows, name)
        raw = raw.tolist() if raw.dtype.kind != "M" else list(raw)
    kinds = set(map(type, raw))
    if type(None) in kinds:
        raw = [math.nan if value is None else value for value in raw]
        kinds.remove(type(None))
    try:
        if kinds <= _OF_NUMBERS:
            return _finite(np.array(raw, dtype=np.float64), rows, name)
    except OverflowError:  # an integer beyond all floats: found below
        pass
    return _finite(np.array([_number(v, rows, name, i) for i, v in enumerate(raw)]), rows, name)


def _finite(numbers: FloatArray, rows: Table, name: str) -> FloatArray:
    """The numbers, or a refusal of an infinite one."""
    bad = np.isinf(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{rows.at(name, row)}: the number must be finite; got {float(numbers[row])}. Pass "
            "None where it is not known."
        )
    return numbers


def _number(value: Any, rows: Table, name: str, row: int) -> float:
    """One number of a type that NumPy does not convert by itself; NaN for pandas's NA."""
    if type(value).__name__ in MISSING:
        return math.nan
    if isinstance(value, bool | np.bool_):
        do = f"Pass 1 or 0, or list {name!r} under categories."
        raise TypeError(f"{rows.at(name, row)}: a number is needed; got {value!r}. {do}")
    real = isinstance(value, numbers.Real | np.floating | np.integer | decimal.Decimal)
    if not real or isinstance(value, np.timedelta64):
        do = f"Convert the column, or list {name!r} under categories or hashed."
        raise TypeError(f"{rows.at(name, row)}: a number is needed; got {shown(value)}. {do}")
    try:
        with np.errstate(over="ignore"):
            return float(value)
    except (OverflowError, ValueError):
        problem = f"{rows.at(name, row)}: {shown(value)} is beyond all floats. Change the unit."
        raise ValueError(problem) from None


def keys_of(rows: Table, name: str) -> Keys:
    """A column of categories: texts, numbers or bools, each as text (:func:`text.key`)."""
    column = rows.column(name)
    coded = getattr(column, "cat", None) if hasattr(column, "iloc") else None
    if coded is not None and hasattr(coded, "codes"):  # pandas: its codes are ours
        return _recoded(coded.categories.tolist(), coded.codes.to_numpy(), rows, name)
    if hasattr(column, "dictionary_encode"):  # pyarrow: and so are these
        encoded = column.dictionary_encode()
        encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return _recoded(encoded.dictionary.to_pylist(), codes, rows, name)
    raw = _plain(column, wanted="keys")
    if isinstance(raw, np.ndarray):
        if raw.dtype.kind in "iufb":
            values, places = np.unique(raw, return_inverse=True)
            try:
                return _recoded(values.tolist(), places, rows, name)
            except TypeError:
                return _keys(raw.tolist(), rows, name)  # which names the row
        raw = raw.tolist() if raw.dtype.kind != "M" else list(raw)
    return _keys(raw, rows, name)


def _recoded(listed: list[Any], codes: Any, rows: Table, name: str) -> Keys:
    """A column that lists its values itself and has the place of each row's, -1 for none."""
    keys = _keys(listed, rows, name, codes)
    return Keys(np.append(keys.codes, -1)[codes], keys.values)


def _keys(raw: Any, rows: Table, name: str, codes: Any = None) -> Keys:
    """Of values, one per row or one per code of ``codes``."""
    others = set(map(type, raw)) - _OF_TEXT
    if others:
        raw = _as_texts(raw, rows, name, codes, alike=len(others) == 1 and others <= _HASHABLE)
    places: dict[str | None, int] = {None: -1}
    for text in raw:
        if text not in places:
            places[text] = len(places) - 1
    codes = np.fromiter(map(places.__getitem__, raw), dtype=np.int64, count=len(raw))
    del places[None]
    return Keys(codes, list(places))  # type: ignore[arg-type]


def _as_texts(raw: Any, rows: Table, name: str, codes: Any, *, alike: bool) -> list[str | None]:
    """The text of each category; values that are ``alike``, of one type but for text, are equal
    only where their texts are, so that each different one is looked at once.
    """
    if alike:
        try:
            text_of = {value: key(value) for value in dict.fromkeys(raw)}
            return [text_of[value] for value in raw]
        except TypeError:
            pass  # it is named below
    texts: list[str | None] = []
    for i, value in enumerate(raw):
        try:
            texts.append(key(value))
        except TypeError as error:
            row = i if codes is None else int(np.argmax(codes == i))
            raise TypeError(
                f"{rows.at(name, row)}: a category must be text or a finite number; got {error}. "
                "Convert the column to text."
            ) from None
    return texts


def _plain(column: Any, wanted: str) -> Any:
    """A column as a NumPy array or a list, NaN or None where a value is missing."""
    if isinstance(column, list):
        return column
    if isinstance(column, np.ma.MaskedArray):
        return [None if value is np.ma.masked else value for value in column]
    if isinstance(column, np.ndarray):
        return column
    if hasattr(column, "iloc"):  # a pandas series
        letter = getattr(column.dtype, "kind", "O")
        if isinstance(column.dtype, np.dtype) and letter in "fiub":
            return column.to_numpy()
        if letter in "fiu" and wanted == "numbers":
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        return column.to_numpy(dtype=object).tolist()
    if hasattr(column, "null_count") and hasattr(column, "to_numpy"):
        dtype = getattr(column, "dtype", None)
        if dtype is not None:  # polars: a number that is missing makes its integers floats
            simple = dtype.is_float() or dtype.is_integer()
            exact = wanted == "numbers" or column.null_count() == 0
            return column.to_numpy() if simple and exact else column.to_list()
        simple = str(column.type).startswith(ARROW_NUMBERS)  # pyarrow
        return column.to_numpy(zero_copy_only=False) if simple else column.to_pylist()
    return list(column)
