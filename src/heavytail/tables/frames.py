"""Frames, dicts of columns and lists of dicts as tables."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from heavytail._lazy import nearest
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.tables.columns import length, numbers, plain
from heavytail.tables.place import Place

__all__ = [
    "Table",
    "absent",
    "check_columns",
    "is_frame",
    "names_of",
    "of_columns",
    "one_row",
    "parts",
    "table",
]

DRESSES = "a pandas or polars frame, a dict of columns or a list of dicts"
TWICE: Final = object()


class Table(NamedTuple):
    """Rows by column.

    Attributes:
        columns: by name, as they come, or as they are asked for.
        source: the name of the table, for errors.
        rows: their numbers in the source; None for one row alone.
        names: what errors call columns, where it is not their name here.
    """

    columns: Mapping[str, Any]
    source: str
    rows: Sequence[int] | IntArray | None
    names: Mapping[str, str] = MappingProxyType({})

    @property
    def length(self) -> int:
        """The number of rows."""
        return 1 if self.rows is None else len(self.rows)

    @property
    def row_numbers(self) -> IntArray:
        """(n,), those of the rows in the source."""
        if isinstance(self.rows, range):
            return np.arange(self.rows.start, self.rows.stop, dtype=np.int64)
        return np.asarray(self.rows, dtype=np.int64)

    def column(self, name: str) -> Any:
        """A column as it comes, or an error that lists the columns."""
        try:
            return self.columns[name]
        except KeyError:
            raise absent(name, self.columns, self.source) from None

    def place(self, name: str, hint: str = "") -> Place:
        """The place of a column."""
        return Place(self.source, self.names.get(name, name), self.rows, hint)

    def numbers(self, name: str, hint: str = "", *, may_miss: bool = True) -> FloatArray:
        """A column as float64, (n,), NaN where one is missing and ``may_miss``."""
        return numbers(plain(self.column(name)), self.place(name, hint), may_miss=may_miss)

    def part(self, start: int, stop: int) -> Table:
        """The rows from ``start`` to ``stop``; no column is copied."""

        def column(name: str) -> Any:
            whole = self.columns[name]
            return (whole.iloc if hasattr(whole, "iloc") else whole)[start:stop]

        rows = range(1) if self.rows is None else self.rows
        return self._replace(columns=Lazy(lambda: self.columns, column), rows=rows[start:stop])


class Lazy(Mapping[str, Any]):
    """Columns that are made when they are asked for.

    Args:
        names: gives all names.
        make: makes the column of a name, or raises an error for one that is none.
    """

    def __init__(self, names: Callable[[], Collection[str]], make: Callable[[str], Any]) -> None:
        self._names, self._make = names, make

    def __getitem__(self, name: str) -> Any:
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


def absent(name: str, names: Iterable[Any], source: str, do: str = "") -> ValueError:
    """The error for a missing column; ``do`` is the advice."""
    known = [str(column) for column in names]
    near = nearest(name, known)
    has = f"it has {shown(known)}" if known else "there is none at all"
    meant = f" Did you mean {shown(near)}?" if near else ""
    return ValueError(f"{source}: there is no column {shown(name)}; {has}.{meant}{do}")


def check_columns(wanted: Iterable[str], names: Iterable[Any], source: str, do: str = "") -> None:
    """Refuse columns that are missing or occur twice."""
    counts = Counter(map(str, names))
    for name in wanted:
        if name not in counts:
            raise absent(name, counts, source, do)
        if counts[name] > 1:
            raise ValueError(
                f"{source}: {counts[name]} columns are called {shown(name)}, and it is not clear "
                "which is meant. Rename or drop all but one."
            )


def is_frame(data: Any) -> bool:
    """Tell whether ``data`` is a frame of pandas, polars (lazy, too) or pyarrow."""
    return _package(data) in ("pandas", "polars", "pyarrow") and (
        _is_lazy(data) or hasattr(data, "column_names") or hasattr(data, "columns")
    )


def _package(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _is_lazy(data: Any) -> bool:
    return hasattr(data, "collect") and hasattr(data, "collect_schema")


def table(data: Any, source: str, first: int = 0) -> Table:
    """``data`` of any kind as a table, whose rows are numbered from ``first``."""
    if isinstance(data, Table):
        return data
    if isinstance(data, list | tuple):
        return _of_dicts(data, source)
    if isinstance(data, Mapping):
        return of_columns(data, source, first)
    if _is_lazy(data):
        data = data.collect()
    names = list(getattr(data, "column_names", getattr(data, "columns", [])))
    if not hasattr(data, "shape") or len(data.shape) != 2 or not hasattr(data, "columns"):
        problem = f"{source}: rows must be {DRESSES}; got {type(data).__name__}."
        if isinstance(data, Iterator):
            problem += " Pass list(rows), or chunks of them to partial_fit."
        if isinstance(data, np.ndarray):
            problem += " An array has no names: pass pandas.DataFrame(array, columns=[...])."
        raise TypeError(problem)
    own: dict[str, Any] = {}
    for name in names:  # which may be a number
        own[str(name)] = TWICE if str(name) in own else name
    get = data.column if hasattr(data, "column_names") else data.__getitem__

    def column(name: str) -> Any:
        if own.get(name, TWICE) is TWICE:
            check_columns([name], names, source)
        return get(own[name])

    return Table(Lazy(lambda: own, column), source, range(first, first + data.shape[0]))


def names_of(data: Any) -> list[str]:
    """The columns of a frame or a dict, as text; empty for data without columns."""
    if isinstance(data, Mapping):
        names: Iterable[Any] = data
    elif _is_lazy(data):
        names = data.collect_schema().names()
    else:
        names = getattr(data, "column_names", getattr(data, "columns", []))
    return [str(name) for name in names]


def parts(data: Any, source: str, size: int, wanted: Sequence[str], first: int) -> Iterator[Table]:
    """The ``wanted`` columns of a frame, or of a dict of arrays, some rows at a time; they are
    numbered from ``first``. A lazy frame of polars is run in batches, where that polars can.
    """
    frames = [data]
    if isinstance(data, Mapping):
        own = {str(name): name for name in data}
        columns = {name: data[own[name]] for name in wanted}
        for name, column in columns.items():
            if length(column) is None:
                Place(source, name).refuse_type(None, f"must be an array; got {shown(column)}.")
            if not (isinstance(column, list | tuple | range) or hasattr(column, "__array__")):
                columns[name] = list(column)  # which can be cut
        frames = [columns]
    elif _is_lazy(data):
        lean = data.select(list(dict.fromkeys(wanted)))
        frames = [lean]
        if hasattr(lean, "collect_batches"):
            frames = lean.collect_batches(chunk_size=size, maintain_order=True)
    for frame in frames:
        whole = table(frame, source, first)
        for start in range(0, whole.length, size):
            yield whole.part(start, start + size)
        first += whole.length


def one_row(values: Mapping[str, Any], source: str) -> Table:
    """One dict as a table of one row."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{source} must be a dict of values by column; got {shown(values)}.")
    return Table({name: [value] for name, value in values.items()}, source, None)


def _of_dicts(rows: Sequence[Any], source: str) -> Table:
    for i, row in enumerate(rows):
        if type(row) is not dict and not isinstance(row, Mapping):
            raise TypeError(
                f"{source}, row {i}: must be a dict of values by column; got {shown(row)}."
            )

    def column(name: str) -> list[Any]:
        try:
            return [row[name] for row in rows]
        except KeyError:
            bad = next(i for i, row in enumerate(rows) if name not in row)
            do = " Pass None where a value is not known."
            raise absent(name, rows[bad], f"{source}, row {bad}", do) from None

    @functools.cache
    def names() -> set[Any]:
        return set().union(*rows)

    return Table(Lazy(names, column), source, range(len(rows)))


def of_columns(columns: Mapping[Any, Any], source: str, first: int = 0) -> Table:
    """A dict of columns of one length; of values that are no columns, one row."""
    lengths = {name: length(column) for name, column in columns.items()}
    if not columns or None in lengths.values():
        for name, count in lengths.items():
            if count is not None:
                single = next(other for other, n in lengths.items() if n is None)
                raise ValueError(
                    f"{source}: column {shown(name)} has {count} values and {shown(single)} has "
                    "one that is not a list. Pass all columns as lists, or all as single values."
                )
        return one_row(columns, source)
    first_name, rows = next(iter(lengths.items()))
    for name, count in lengths.items():
        if count != rows:
            raise ValueError(
                f"{source}: column {shown(name)} has {count} values, {shown(first_name)} has "
                f"{rows}. All must have the same number."
            )
    return Table(dict(columns), source, range(first, first + (rows or 0)))
