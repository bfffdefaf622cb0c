"""Logs of any kind as checked rows, in chunks: one pass, constant memory.

A log is a dict of arrays, a frame of pandas or polars (lazy too), an Arrow table, a Parquet file,
several of them by a list or a pattern, a folder of them, of a DecisionLog or of a service, JSON
lines of Vowpal Wabbit's dsjson kind (gzipped or plain), or an iterator of any of these. The columns
are those of :mod:`heavytail.logs.reading.rows`; what is not one of them is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from heavytail._validate import shown
from heavytail.logs.reading import files
from heavytail.logs.reading.rows import COLUMNS, Rows
from heavytail.logs.reading.tables import CHUNK, Columns, Order, Reading, Table, read_rows

__all__ = ["chunks", "counted", "length"]

NAME = "log"  # of what is no file, in errors
DEEPEST = 50  # lists in lists of logs
WHOLE = {"i": np.int64, "u": np.uint64}


def chunks(
    log: Any,
    *,
    columns: Columns | None = None,
    size: int = CHUNK,
    default_reward: float | None = None,
) -> Iterator[Rows]:
    """The rows of ``log`` in order, at most ``size`` at a time, each chunk checked.

    >>> from heavytail.logs.reading.log import chunks
    >>> log = {"arm": [0, 1, 1], "paid": [2.0, 0.0, 5.0], "propensity": [0.5, 0.5, 0.5]}
    >>> [rows] = chunks(log, columns={"action": "arm", "reward": "paid"})
    >>> rows.reward
    array([2., 0., 5.])

    Args:
        log: see the module.
        columns: where the log has other names: ours -> its own. A list of names stands several
            columns of numbers side by side (``{"context": ["age", "income"]}``), None leaves a
            column out, which saves reading it. A catalogue encodes the arms of a raw log
            (:meth:`heavytail.encoding.Encoder.catalogue`).
        size: rows at a time.
        default_reward: what a reward that never came counts as. Without it a null is refused, but
            a DecisionLog's decisions without a reward are left out.
    """
    reading = Reading.of(columns, size, default_reward)
    order, start = Order(), 0
    for mode, step in steps(log, reading):
        tables = step.tables(mode) if isinstance(step, files.Unit) else [step]
        for rows in read_rows(tables, mode, start, order):
            start = rows.start + len(rows.action)
            yield rows


def length(log: Any, *, default_reward: float | None = None) -> int | None:
    """The number of rows that :func:`chunks` will give, if known without reading them."""
    return counted(log, default_reward=default_reward).rows


def counted(log: Any, *, default_reward: float | None = None, depth: int = 0) -> files.Count:
    """The same, and how many decisions of DecisionLogs are left out as they wait for a reward."""
    _check_depth(depth)
    if isinstance(log, Rows):
        return files.Count(len(log.action))
    if isinstance(log, list | tuple):
        parts = [counted(part, default_reward=default_reward, depth=depth + 1) for part in log]
        rows = [part.rows for part in parts if part.rows is not None]
        known = len(rows) == len(parts)
        return files.Count(sum(rows) if known else None, sum(part.waiting for part in parts))
    if files.is_path(log):
        return files.counted(log, default_reward)
    if isinstance(log, Mapping):
        sizes = [len(log[key]) for key in ("reward", *log) if key in log]
        count = sizes[0] if sizes else 0
    elif _package(log) in FRAMES and hasattr(log, "__len__"):
        count = len(log)
    else:
        return files.Count(None)
    mode = Reading(default_reward=default_reward).fitting(_names(log))
    waiting = _missing(log["reward"]) if mode.drop else 0
    return files.Count(count - waiting, waiting)


def steps(
    log: Any, reading: Reading, first: int = 0, depth: int = 0
) -> Iterator[tuple[Reading, files.Unit | Table]]:
    """The units and tables of a log, in order; rows in memory are numbered from ``first``, and the
    log itself is nested in ``depth`` lists.
    """
    _check_depth(depth)
    if isinstance(log, Rows):
        yield from ((reading, table) for table in _of_rows(log, reading, first))
    elif files.is_path(log):
        yield from files.steps(log, reading)
    elif isinstance(log, Mapping) or _package(log) in FRAMES:
        mode = reading.fitting(_names(log))
        tables = _of_arrays if isinstance(log, Mapping) else FRAMES[_package(log)]
        yield from ((mode, table) for table in tables(log, mode, first))
    elif isinstance(log, Iterable) and not isinstance(log, np.ndarray | str | bytes):
        for part in log:
            for mode, step in steps(part, reading, first, depth + 1):
                first += step.count
                yield mode, step
    else:
        raise TypeError(
            f"{NAME}: cannot read {shown(log)}. Pass a dict of arrays, a frame of pandas or "
            "polars, a path of Parquet or dsjson files, or an iterator of these."
        )


def _check_depth(depth: int) -> None:
    """Refuse lists in lists without end: one that holds itself has none."""
    if depth > DEEPEST:
        raise ValueError(
            f"{NAME}: lists or iterators are nested more than {DEEPEST} deep. Pass one "
            "list of the parts."
        )


def _names(log: Any) -> list[str]:
    """The columns of a frame, a table or a dict; none of what is none."""
    if isinstance(log, Mapping):
        return [name for name in log if isinstance(name, str)]
    if type(log).__name__ == "LazyFrame":
        return list(log.collect_schema().names())
    return list(getattr(log, "column_names", getattr(log, "columns", [])))


def _missing(column: Any) -> int:
    """The number of nulls in a column."""
    if hasattr(column, "isna"):  # pandas
        return int(column.isna().sum())
    nulls = getattr(column, "null_count", lambda: sum(cell is None for cell in column))
    return int(nulls() if callable(nulls) else nulls)


def _package(log: Any) -> str:
    return type(log).__module__.partition(".")[0]


def _of_rows(rows: Rows, reading: Reading, first: int) -> Iterator[Table]:
    reading.refuse_catalogue(rows.source, "checked rows have no columns to encode")
    if rows.start != first:
        raise ValueError(
            f"{rows.source}: a chunk begins at row {rows.start} where row {first} comes next. "
            "Chunks must come in order, each once."
        )
    columns = {key: getattr(rows, key, None) for key in COLUMNS if key != "time"}
    present = {key: value for key, value in columns.items() if value is not None}
    for start in range(0, len(rows.action), reading.size):
        part = {key: value[start : start + reading.size] for key, value in present.items()}
        numbers = None if rows.numbers is None else rows.numbers[start : start + reading.size]
        yield Table(rows.source, first + start, part, rows.names or {}, numbers)  # type: ignore[arg-type]


def _of_arrays(log: Mapping[str, Any], reading: Reading, first: int) -> Iterator[Table]:
    """Of a dict of arrays or lists; no array is copied but for the chunk at hand."""
    own = {str(key): key for key in log}  # a name may be a number
    wanted = reading.wanted([str(key) for key in log], NAME)
    flat = [
        column for name in wanted.values() for column in ([name] if isinstance(name, str) else name)
    ]
    arrays: dict[str, Any] = {}
    for name in flat:
        value = log[own[name]]
        if _package(value) in ("pandas", "polars", "pyarrow") and hasattr(value, "to_numpy"):
            value = value.to_numpy()
        arrays[name] = array = value if isinstance(value, list) else np.asanyarray(value)
        if isinstance(array, np.ndarray) and array.ndim == 0:
            raise TypeError(f"{NAME}, column {name!r}: must be an array; got {shown(value)}.")
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{NAME}: columns must be of one length; got {counts}.")
    n = counts[flat[0]]
    for start in range(0, n, reading.size):
        stop = start + reading.size
        yield reading.table(
            NAME, first + start, wanted, lambda name, a=start, b=stop: arrays[name][a:b]
        )


def _of_pandas(frame: Any, reading: Reading, first: int) -> Iterator[Table]:
    own = {str(name): name for name in frame.columns}  # a name may be a number
    wanted = reading.wanted([str(name) for name in frame.columns], NAME)
    for start in range(0, len(frame), reading.size):
        part = frame.iloc[start : start + reading.size]

        def take(name: str, part: Any = part) -> Any:
            series = part[own[name]]
            letter = series.dtype.kind
            if letter in "fiuO" and (gone := series.isna().to_numpy()).any():
                return [None if g else v for g, v in zip(gone, series.tolist(), strict=True)]
            if letter in "fiu":  # whole numbers as such: an id may have many digits
                return series.to_numpy(WHOLE.get(letter, np.float64))
            return series.to_numpy()

        yield reading.table(NAME, first + start, wanted, take)


def _of_polars(frame: Any, reading: Reading, first: int) -> Iterator[Table]:
    if type(frame).__name__ == "LazyFrame":
        names = frame.collect_schema().names()
    elif type(frame).__name__ == "DataFrame":
        names = frame.columns
    else:
        raise TypeError(f"{NAME}: pass a frame, not polars' {type(frame).__name__}.")
    wanted = reading.wanted(names, NAME)
    flat = [
        column for name in wanted.values() for column in ([name] if isinstance(name, str) else name)
    ]
    lean = frame.select(list(dict.fromkeys(flat)))
    for part in _parts(lean, reading.size):
        yield reading.table(NAME, first, wanted, lambda name, part=part: _series(part[name]))
        first += len(part)


def _parts(frame: Any, size: int) -> Iterator[Any]:
    """Slices of a frame; a lazy one is run in batches where this polars can, else at once."""
    if type(frame).__name__ == "DataFrame":
        yield from frame.iter_slices(size)
    elif hasattr(frame, "collect_batches"):
        for batch in frame.collect_batches(chunk_size=size, maintain_order=True):
            yield from batch.iter_slices(size)
    else:
        yield from frame.collect().iter_slices(size)


def _series(series: Any) -> Any:
    dtype = type(series.dtype).__name__
    if series.null_count() or dtype in ("List", "Array", "Datetime"):
        return files.need_arrow() and series.to_arrow()
    return series.to_numpy()


def _of_arrow(table: Any, reading: Reading, first: int) -> Iterator[Table]:
    if not hasattr(table, "to_batches"):
        raise TypeError(f"{NAME}: pass a pyarrow Table, not a {type(table).__name__}.")
    wanted = reading.wanted(table.column_names, NAME)
    for start in range(0, len(table), reading.size):
        part = table.slice(start, reading.size)
        yield reading.table(NAME, first + start, wanted, part.column)


FRAMES = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}
