"""Tables of a log, a chunk at a time, and the checked rows that they become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_count, check_number, shown
from heavytail.encoding import Catalogue, Encoder
from heavytail.logs.reading.columns import dense
from heavytail.logs.reading.encoded import CONTEXT, IDS, Raw, cut, needed
from heavytail.logs.reading.rows import COLUMNS, NEEDED, Place, Rows, checked

__all__ = ["CHUNK", "Order", "Reading", "Table"]

CHUNK = 65536  # rows read at a time
MOST_ROWS = 2**24  # that may be asked for at a time
AS_TEXT = (
    " A policy that is text names a column of the target's probabilities: pass such a name, an "
    "array of probabilities, a callable of Rows, or a policy of the library."
)
Columns = Mapping[str, str | Sequence[str] | Catalogue | None]


@dataclass(frozen=True)
class Table:
    """Columns of some rows that follow each other, as they were found, by our names."""

    source: str
    first: int  # number, in the source, of the first row
    columns: Mapping[str, Any]
    names: Mapping[str, str]  # the columns' own
    numbers: Sequence[int] | None = None  # of the rows, where they do not follow each other

    def place(self, column: str) -> Place:
        """The place of a column, for errors."""
        return Place(self.source, self.first, self.names.get(column, column), self.numbers)

    def row_numbers(self) -> IntArray:
        """(n,), of the rows in the source."""
        if self.numbers is None:
            return np.arange(self.first, self.first + self.count, dtype=np.int64)
        return np.asarray(self.numbers, dtype=np.int64)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.columns["reward"])

    def pieces(self) -> Iterator[Table]:
        """The same rows, in pieces where their arms are yet to be encoded."""
        raw = self.columns.get("arms")
        if not isinstance(raw, Raw):
            yield self
            return
        for part in cut(raw, self.count):
            columns = {key: value[part] for key, value in self.columns.items()}
            numbers = None if self.numbers is None else self.numbers[part]
            yield Table(self.source, self.first + part.start, columns, self.names, numbers)

    def encoded(self) -> Table:
        """The same with the arms' vectors, and actions that are their places."""
        raw = self.columns.get("arms")
        if not isinstance(raw, Raw):
            return self

        def place(name: str) -> Place:
            return Place(self.source, self.first, name, self.numbers)

        action, arms = raw.filled(self.columns["action"], self.place("action"), place)
        return replace(self, columns={**self.columns, "action": action, "arms": arms})


@dataclass(frozen=True)
class Reading:
    """The options of reading a log.

    Attributes:
        columns: our name -> the log's own name, several names to stand side by side, or None; of
            ``arms`` also a catalogue that encodes them.
        size: rows at a time.
        default_reward: what a null reward counts as; None refuses it.
        drop: whether rows without a reward are left out instead.
        in_order: whether times may not decrease.
        decided: whether a DecisionLog wrote it.
    """

    columns: Columns = field(default_factory=dict)
    size: int = CHUNK
    default_reward: float | None = None
    drop: bool = False
    in_order: bool = True
    decided: bool = False

    @staticmethod
    def of(columns: Columns | None, size: int, default_reward: float | None) -> Reading:
        """Of the arguments of :func:`heavytail.logs.reading.chunks`, checked."""
        if columns is not None and not isinstance(columns, Mapping):
            raise TypeError(
                "columns must be a dict of our names of columns to the log's own, such as "
                f"{{'action': 'arm'}}, or None; got {shown(columns)}."
            )
        named = dict(columns or {})
        for key, name in named.items():
            if key not in COLUMNS:
                raise ValueError(
                    f"columns: {shown(key)} is not a column of a log. Those are "
                    f"{', '.join(COLUMNS)}."
                )
            if isinstance(name, Catalogue) and key == "arms":
                continue
            if isinstance(name, Encoder | Catalogue):
                raise TypeError(
                    f"columns: {key!r} is {type(name).__name__}: an encoder fills in arms, from "
                    "their table: columns={'arms': encoder.catalogue(table, ids=...)}."
                )
            several = isinstance(name, list | tuple) and all(isinstance(part, str) for part in name)
            if not (name is None or isinstance(name, str) or several):
                raise TypeError(
                    f"columns: {key!r} must be a column's name, a list of them, or None to leave "
                    f"it out; got {shown(name)}."
                )
            if several and not name:
                raise ValueError(
                    f"columns: {key!r} must name at least one column; got an empty list. None "
                    "leaves it out."
                )
            named[key] = list(name) if several else name  # type: ignore[arg-type]
        if default_reward is not None:
            default_reward = check_number("default_reward", default_reward)
        return Reading(named, check_count("size", size, most=MOST_ROWS), default_reward)

    def fitting(self, names: Sequence[str]) -> Reading:
        """The same, or that of decisions where the columns are such as a DecisionLog writes."""
        return self.of_decisions() if {"reward", IDS, CONTEXT} <= {*names} else self

    def of_decisions(self) -> Reading:
        """The same for what a DecisionLog wrote: decisions in order, whatever their clocks said."""
        columns = {**self.columns, "time": None}
        drop = self.default_reward is None
        return replace(self, columns=columns, drop=drop, in_order=False, decided=True)

    @property
    def catalogue(self) -> Catalogue | None:
        """The catalogue that encodes the arms, if any."""
        arms = self.columns.get("arms")
        return arms if isinstance(arms, Catalogue) else None

    def refuse_catalogue(self, source: str, why: str) -> None:
        """Say that arms cannot be encoded here, where that is asked for."""
        if self.catalogue is not None:
            raise ValueError(
                f"{source}: columns={{'arms': catalogue}}: {why}. Pass a log with columns of the "
                "context: a frame, a dict or Parquet."
            )

    def wanted(self, present: Sequence[str], source: str) -> dict[str, str | Sequence[str]]:
        """The columns to read of those ``present``: our name -> theirs."""
        wanted: dict[str, str | Sequence[str]] = {}
        for key in COLUMNS:
            name = self.columns.get(key, key if key in present else None)
            if name is None:
                if key in NEEDED:
                    raise ValueError(
                        f"{source}: there is no column {key!r}; it has "
                        f"{shown(list(present))}. Say columns={{{key!r}: its name}}."
                    )
                continue
            if isinstance(name, Catalogue):
                name = needed(name, self.decided)
            for column in [name] if isinstance(name, str) else name:
                if column not in present:
                    hint = AS_TEXT if key == "target" else ""
                    raise ValueError(
                        f"{source}: there is no column {shown(column)}; it has "
                        f"{shown(list(present))}.{hint}"
                    )
                if (times := present.count(column)) > 1:
                    raise ValueError(
                        f"{source}: {times} columns are called {shown(column)}, and it is not "
                        "clear which is meant. Rename or drop all but one."
                    )
            wanted[key] = name
        if self.catalogue is not None and not self.decided:
            self._refuse_answers(wanted, source)
        return wanted

    def _refuse_answers(self, wanted: Mapping[str, str | Sequence[str]], source: str) -> None:
        """An arm's features must not tell what was played, or what it paid."""
        for key in ("action", "reward", "propensity", "probabilities", "target"):
            if wanted.get(key) in wanted["arms"]:
                raise ValueError(
                    f"{source}, column {wanted[key]!r}: the encoder takes it for a feature, and it "
                    f"is the log's {key}: every arm would be told the answer. Call the arms' own "
                    "column otherwise, in the encoder and in the table."
                )

    def table(self, source: str, first: int, wanted: Mapping[str, Any], take: Any) -> Table:
        """The table whose column ``name`` is ``take(name)``."""
        columns: dict[str, Any] = {}
        for key, name in wanted.items():
            if isinstance(name, str):
                columns[key] = take(name)
                continue
            if key == "arms" and self.catalogue is not None:
                raw = {column: take(column) for column in name}
                columns[key] = Raw(self.catalogue, raw, self.decided)
                continue
            sides = [dense("reward", take(column), Place(source, first, column)) for column in name]
            columns[key] = np.stack(sides, axis=1)
        names = {k: v if isinstance(v, str) else ", ".join(v) or k for k, v in wanted.items()}
        return Table(source, first, columns, names)

    def rows(self, table: Table, start: int) -> tuple[Rows, FloatArray | None]:
        """The rows of a table, checked and numbered from ``start``; and their times."""
        missing = nulls(table.columns["reward"])
        table = table.encoded()
        arrays = {}
        for key, value in table.columns.items():
            arrays[key] = dense(key, value, table.place(key))
        if missing is not None and missing.any():
            if self.default_reward is None and not self.drop:
                table.place("reward").refuse(
                    int(np.argmax(missing)),
                    "is null. Give it, leave the row out, or say what silence means by "
                    "default_reward=.",
                )
            fill = 0.0 if self.default_reward is None else self.default_reward
            arrays["reward"] = np.where(missing, fill, arrays["reward"])
        _propensities(arrays, table)
        times = arrays.pop("time", None)
        rows = checked(arrays, table.source, start, table.place)
        names = {key: name for key, name in table.names.items() if name != key}
        rows = rows._replace(numbers=table.row_numbers(), names=names or None)
        if times is not None and np.isnan(times).any():
            table.place("time").refuse(int(np.argmax(np.isnan(times))), "is NaN.")
        if self.drop and missing is not None and missing.any():
            parts = [_kept(part, ~missing) for part in rows[2:-1]]
            rows = Rows(rows.source, rows.start, *parts)._replace(names=rows.names)
            times = _kept(times, ~missing)
        return rows, times


def _kept(part: Any, mask: NDArray[np.bool_]) -> Any:
    return None if part is None else part[mask]


def _propensities(arrays: dict[str, Any], table: Table) -> None:
    """A column of nulls alone is none; with some it is damaged."""
    value = table.columns.get("propensity")
    missing = None if value is None else nulls(value)
    if missing is None or not missing.any():
        return
    if not missing.all():
        table.place("propensity").refuse(
            int(np.argmax(missing)), "is null, where other rows have one. Give it."
        )
    arrays.pop("propensity")


def nulls(value: Any) -> NDArray[np.bool_] | None:
    """A mask of the nulls; None for a kind of array without nulls."""
    if type(value).__module__.split(".")[0] == "pyarrow":
        if not value.null_count:
            return None
        return np.asarray(value.is_null().to_numpy(zero_copy_only=False))
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return None
    return np.array([cell is None for cell in value], dtype=bool)


@dataclass
class Order:
    """Times must not decrease from row to row, nor from chunk to chunk."""

    last: float = -np.inf
    first: float = np.inf  # time of all, where there is one

    def follow(self, times: FloatArray | None, place: Place) -> None:
        """Go on by a chunk, or refuse it."""
        if times is None or not len(times):
            return
        falls = np.diff(times, prepend=self.last) < 0.0
        if falls.any():
            place.refuse(
                int(np.argmax(falls)),
                "is earlier than the row before it. Pass files and chunks in the order of time, "
                "or columns={'time': None} where the order does not matter.",
            )
        self.first, self.last = min(self.first, float(times[0])), float(times[-1])

    def go_on(self, other: Order, place: Place) -> None:
        """Go on by the chunks that another follows."""
        if other.first <= other.last:
            self.follow(np.array([other.first, other.last]), place)


def read_rows(
    tables: Iterable[Table], reading: Reading, start: int = 0, order: Order | None = None
) -> Iterator[Rows]:
    """The rows of tables that follow each other, numbered from ``start``."""
    for table in (piece for chunk in tables for piece in chunk.pieces()):
        rows, times = reading.rows(table, start)
        if order is not None and reading.in_order:
            order.follow(times, table.place("time"))
        start += len(rows.action)
        if len(rows.action):
            yield rows
