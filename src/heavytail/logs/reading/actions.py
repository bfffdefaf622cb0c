"""Actions that have names: texts in the column of actions.

All names are read before the first row, from that column alone, so that they have the same numbers
in every chunk, on every machine and at every reading: their places in alphabetical order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from heavytail._lazy import nearest
from heavytail._typing import IntArray
from heavytail._validate import shown
from heavytail.logs.reading.files import is_path, kept, kind, paths
from heavytail.logs.reading.rows import BY_NAME, Rows
from heavytail.logs.reading.tables import Reading
from heavytail.tables.categories import keys_of
from heavytail.tables.columns import MISSING, is_arrow
from heavytail.tables.frames import Table, is_frame, names_of, parts, table
from heavytail.tables.parquet import parquet, parquet_parts

__all__ = ["DEEPEST", "apart", "meant", "named", "renumbered"]

DEEPEST: Final = 50  # lists in lists of logs
LOG: Final = "log"  # what is no file, in errors
POLARS: Final = ("String", "Utf8", "Categorical", "Enum")


def named(log: Any, reading: Reading) -> tuple[Any, Reading]:
    """The log and how to read it, with the names of all actions if these are texts.

    An iterator's parts are then held in memory, because it can be read only once.
    """
    if reading.catalogue is not None:
        return log, reading
    if isinstance(log, Iterator):
        first = next(log, None)
        if first is None:
            return log, reading
        text = _is_text(first, reading)
        log = [first, *log] if text else itertools.chain([first], log)
    else:
        text = _is_text(log, reading)
    stated = _stated(log, reading)
    if text:
        names = {name for part in _columns(log, reading) for name in _present(part, reading)}
        return log, replace(reading, names=tuple(sorted(names.union(*stated.values()))))
    if stated:
        raise ValueError(
            f"columns: {shown(next(iter(stated)))} names actions, and column {_column(reading)!r} "
            "of the log holds numbers. Pass a list of columns, in the order of the numbers."
        )
    return log, reading


def apart(log: Mapping[Any, Any], reading: Reading) -> tuple[Mapping[Any, Any], Reading]:
    """A dict of arrays whose probabilities are a dict by the name of the action, as columns."""
    for key in BY_NAME:
        column = reading.columns.get(key, key)
        inner = log.get(column) if isinstance(column, str) else None
        if isinstance(inner, Mapping):
            of = {str(name): f"{column}[{name}]" for name in inner}
            own = {of[str(name)]: values for name, values in inner.items()}
            log = {name: values for name, values in log.items() if name != column} | own
            reading = replace(reading, columns={**reading.columns, key: of})
    return log, reading


def renumbered(rows: Rows, reading: Reading) -> tuple[dict[str, Any], Reading]:
    """Columns of checked rows whose actions have names, by the names of a whole log."""
    assert rows.actions is not None
    assert reading.names is not None
    columns: dict[str, Any] = {"action": np.array(rows.actions, dtype=object)[rows.action]}
    place = {name: number for number, name in enumerate(reading.names)}
    places = [place[name] for name in rows.actions]
    for key in BY_NAME:
        shares = getattr(rows, key)
        if shares is not None and shares.ndim == 2:
            columns[key] = np.zeros((len(shares), len(reading.names)))
            columns[key][:, places] = shares
            reading = replace(reading, columns={**reading.columns, key: {}})
    return columns, reading


def meant(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name of an action."""
    known = list(known)
    near = nearest(name, known)
    return f"Did you mean {shown(near)}?" if near else f"The names are {shown(known)}."


def _column(reading: Reading) -> str:
    name = reading.columns.get("action", "action")
    return name if isinstance(name, str) else "action"


def _stated(log: Any, reading: Reading, depth: int = 0) -> dict[str, set[str]]:
    """The actions whose probabilities have columns of their own, by our name of those."""
    stated: dict[str, set[str]] = {}
    if isinstance(log, list | tuple) and depth < DEEPEST:
        for part in log:
            for key, names in _stated(part, reading, depth + 1).items():
                stated[key] = stated.get(key, set()) | names
        return stated
    if isinstance(log, Mapping):
        _, reading = apart(log, reading)
    for key in BY_NAME:
        own = reading.columns.get(key)
        if isinstance(own, Mapping):
            stated[key] = set(own)
    return stated


def _is_text(log: Any, reading: Reading, depth: int = 0) -> bool:
    """Tell whether actions are texts, to judge by types or first values."""
    if isinstance(log, Rows):
        return log.actions is not None and log.arms is None
    name = _column(reading)
    if is_path(log):
        first = None if kept(log) else paths(log)[0]
        if first is None or kind(first) != "parquet":
            return False
        schema = parquet(first, first).schema_arrow
        return schema.names.count(name) == 1 and _is_arrow_text(schema.field(name).type)
    if isinstance(log, Mapping) or is_frame(log):
        if names_of(log).count(name) != 1:
            return False
        if isinstance(log, Mapping):
            return _holds_text(next(log[key] for key in log if str(key) == name))
        head = log.head(0) if hasattr(log, "collect") else log
        return _holds_text(table(head, LOG).column(name))
    if isinstance(log, list | tuple) and depth < DEEPEST:
        return any(_is_text(part, reading, depth + 1) for part in log)
    return False


def _holds_text(column: Any) -> bool:
    if is_arrow(column):
        return _is_arrow_text(column.type)
    dtype = getattr(column, "dtype", None)
    if hasattr(column, "null_count") and hasattr(column, "to_arrow"):  # polars
        return str(dtype).startswith(POLARS)
    if getattr(dtype, "kind", "O") in "biufcmM" or not isinstance(column, Iterable):
        return False
    for cell in column:
        if type(cell).__name__ not in MISSING and cell == cell:
            return isinstance(cell, str)
    return False


def _is_arrow_text(kind_of: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind_of):
        kind_of = kind_of.value_type
    return bool(pa.types.is_string(kind_of) or pa.types.is_large_string(kind_of))


def _columns(log: Any, reading: Reading, first: int = 0, depth: int = 0) -> Iterator[Table | Rows]:
    """The column of actions, some rows at a time."""
    name = _column(reading)
    if isinstance(log, Rows):
        yield log
    elif is_path(log):
        for path in [] if kept(log) else paths(log):
            if kind(path) == "parquet":
                file = parquet(path, path)
                if file.schema_arrow.names.count(name) == 1:
                    yield from parquet_parts(file, path, reading.size, [name])
    elif isinstance(log, Mapping) or is_frame(log):
        if names_of(log).count(name) == 1:
            yield from parts(log, LOG, reading.size, [name], first)
    elif isinstance(log, list | tuple) and depth < DEEPEST:
        for inner in log:
            for part in _columns(inner, reading, first, depth + 1):
                yield part
                first += part.length if isinstance(part, Table) else len(part.action)


def _present(part: Table | Rows, reading: Reading) -> Iterable[str]:
    """The names that occur in some rows."""
    if isinstance(part, Rows):
        return part.actions or ()
    name = _column(reading)
    keys = keys_of(part.column(name), part.place(name))
    codes: IntArray = np.unique(keys.codes)
    return [keys.values[code] for code in codes if code >= 0]
