"""Logs of any kind as checked rows, in chunks: one pass, constant memory.

A log is a dict of arrays, a frame of pandas or polars (lazy too), an Arrow table, a Parquet file,
several of them by a list or a pattern, a folder of them, of a DecisionLog or of a service, JSON
lines of Vowpal Wabbit's dsjson kind (gzipped or plain), or an iterator of any of these. The columns
are those of :mod:`heavytail.logs.reading.rows`; what is not one of them is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from heavytail._validate import shown
from heavytail.logs.reading import files
from heavytail.logs.reading.actions import DEEPEST, apart, named, renumbered
from heavytail.logs.reading.rows import COLUMNS, Rows
from heavytail.logs.reading.tables import CHUNK, Columns, Order, Reading, flat, read_rows
from heavytail.tables.columns import nulls, plain
from heavytail.tables.frames import Table, is_frame, names_of, parts

__all__ = ["chunks", "counted", "length"]

NAME = "log"  # of what is no file, in errors


def chunks(
    log: object,
    *,
    columns: Columns | None = None,
    size: int = CHUNK,
    default_reward: float | None = None,
    reserved: bool = False,
) -> Iterator[Rows]:
    """The rows of ``log`` in order, at most ``size`` at a time, each chunk checked.

    >>> from heavytail.logs.reading.log import chunks
    >>> log = {"arm": [0, 1, 1], "paid": [2.0, 0.0, 5.0], "propensity": [0.5, 0.5, 0.5]}
    >>> [rows] = chunks(log, columns={"action": "arm", "reward": "paid"})
    >>> rows.reward
    array([2., 0., 5.])

    Args:
        log: see the module.
        columns: our names of columns -> the log's own names. A list of names puts several columns
            of numbers side by side (``{"context": ["age", "income"]}``). None leaves a column out,
            which saves reading it. A catalogue encodes the arms of a raw log
            (:meth:`heavytail.encoding.Encoder.catalogue`).
        size: rows at a time.
        default_reward: the value of a reward that never came. Without it a null is refused, except
            that a DecisionLog's decisions without a reward are left out.
        reserved: refuse a column "logged", which is the name of the policy that wrote the log.
    """
    log, reading = named(log, replace(Reading.of(columns, size, default_reward), reserved=reserved))
    order, start = Order(), 0
    for mode, step in steps(log, reading):
        tables = step.tables(mode) if isinstance(step, files.Unit) else [step]
        for rows in read_rows(tables, mode, start, order):
            start = rows.start + len(rows.action)
            yield rows


def length(log: object, *, default_reward: float | None = None) -> int | None:
    """The number of rows that :func:`chunks` will give, if known without reading them."""
    return counted(log, default_reward=default_reward).rows


def counted(log: Any, *, default_reward: float | None = None, depth: int = 0) -> files.Count:
    """The same, and the number of decisions of DecisionLogs that are left out because they wait for
    a reward.
    """
    _check_depth(depth)
    if isinstance(log, Rows):
        return files.Count(len(log.action))
    if isinstance(log, list | tuple):
        counts = [counted(part, default_reward=default_reward, depth=depth + 1) for part in log]
        rows = [count.rows for count in counts if count.rows is not None]
        known = len(rows) == len(counts)
        return files.Count(sum(rows) if known else None, sum(count.waiting for count in counts))
    if files.is_path(log):
        return files.counted(log, default_reward)
    if isinstance(log, Mapping):
        arrays = {key: array for key, array in log.items() if not isinstance(array, Mapping)}
        sizes = [len(arrays[key]) for key in ("reward", *arrays) if key in arrays]
        count = sizes[0] if sizes else 0
    elif is_frame(log) and hasattr(log, "__len__"):
        count = len(log)
    else:
        return files.Count(None)
    mode = Reading(default_reward=default_reward).fitting(names_of(log))
    gone = nulls(plain(log["reward"])) if mode.drop else None
    waiting = 0 if gone is None else int(gone.sum())
    return files.Count(count - waiting, waiting)


def steps(
    log: object, reading: Reading, first: int = 0, depth: int = 0
) -> Iterator[tuple[Reading, files.Unit | Table]]:
    """The units and tables of a log, in order; rows in memory are numbered from ``first``, and the
    log itself is nested in ``depth`` lists.
    """
    _check_depth(depth)
    if isinstance(log, Rows):
        yield from _of_rows(log, reading, first)
    elif files.is_path(log):
        yield from files.steps(log, reading)
    elif isinstance(log, Mapping) or is_frame(log):
        if isinstance(log, Mapping):
            log, reading = apart(log, reading)
        names = names_of(log)
        mode = reading.fitting(names)
        wanted = mode.wanted(names, NAME)
        for part in parts(log, NAME, mode.size, flat(wanted), first):
            yield mode, mode.table(part, wanted)
    elif isinstance(log, Iterable) and not (isinstance(log, str | bytes) or hasattr(log, "dtype")):
        for part in log:
            for mode, step in steps(part, reading, first, depth + 1):
                first += step.length
                yield mode, step
    else:
        raise TypeError(
            f"{NAME}: cannot read {shown(log)}. Pass a dict of arrays, a frame of pandas or "
            "polars, a path of Parquet or dsjson files, or an iterator of these."
        )


def _check_depth(depth: int) -> None:
    """Refuse lists nested without end, such as a list that contains itself."""
    if depth > DEEPEST:
        raise ValueError(
            f"{NAME}: lists or iterators are nested more than {DEEPEST} deep. Pass one "
            "list of the parts."
        )


def _of_rows(rows: Rows, reading: Reading, first: int) -> Iterator[tuple[Reading, Table]]:
    reading.refuse_catalogue(rows.source, "checked rows have no columns to encode")
    if rows.start != first:
        raise ValueError(
            f"{rows.source}: a chunk begins at row {rows.start} where row {first} comes next. "
            "Chunks must come in order, each once."
        )
    columns = {key: getattr(rows, key, None) for key in COLUMNS if key != "time"}
    present = {key: value for key, value in columns.items() if value is not None}
    if reading.names is not None and rows.actions is not None:
        own, reading = renumbered(rows, reading)
        present |= own
    count = len(rows.action)
    numbers = np.arange(first, first + count) if rows.numbers is None else rows.numbers
    for start in range(0, count, reading.size):
        part = slice(start, start + reading.size)
        chunk = {key: value[part] for key, value in present.items()}
        yield reading, Table(chunk, rows.source, numbers[part], rows.names or {})
