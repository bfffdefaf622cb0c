"""Tables of a log, a chunk at a time, and the checked rows that they become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_count, check_number, shown
from heavytail.encoding import Catalogue, Encoder
from heavytail.logs.reading.columns import dense
from heavytail.logs.reading.encoded import CONTEXT, IDS, Raw, cut, needed
from heavytail.logs.reading.rows import (
    BY_NAME,
    COLUMNS,
    LOGGED,
    NEEDED,
    Rows,
    checked,
    without,
)
from heavytail.tables.categories import keys_of
from heavytail.tables.columns import nulls, plain
from heavytail.tables.frames import Table, absent, check_columns
from heavytail.tables.place import Place

__all__ = ["CHUNK", "Order", "Reading", "flat", "pieces", "read_rows"]

CHUNK = 65536  # rows read at a time
MOST_ROWS = 2**24  # that may be asked for at a time
AS_TEXT = (
    " A policy that is text names a column of the target's probabilities: pass such a name, an "
    "array of probabilities, a callable of Rows, or a policy of the library."
)
AMBIGUOUS = (
    " is both a column of the log and the policy that wrote the log. Say which is meant: "
    "columns={'target': 'logged'} is the column, columns={'target': None} the policy."
)
NO_PLACE = (
    "holds names, and the log has arms: pass the place of the played arm among those offered, or "
    "let an encoder's catalogue make the arms, of which actions are ids."
)
WHOSE = (
    "has lists of numbers, and actions have names. Say whose each is, by columns of their own: "
    "columns={{{key!r}: {{NAME: COLUMN, ...}}}}."
)
Columns = Mapping[str, str | Sequence[str] | Mapping[str, str] | Catalogue | None]
Wanted = dict[str, str | Sequence[str] | Mapping[str, str]]


def flat(wanted: Mapping[str, Any]) -> list[str]:
    """The log's own names of the columns that are wanted."""
    names = [_several(name) for name in wanted.values()]
    return list(dict.fromkeys(column for several in names for column in several))


def _several(name: Any) -> list[str]:
    """The log's own names behind one of ours."""
    if isinstance(name, str):
        return [name]
    return list(name.values() if isinstance(name, Mapping) else name)


def pieces(table: Table) -> Iterator[Table]:
    """The same rows, in pieces if their arms must still be encoded."""
    raw = table.columns.get("arms")
    parts = cut(raw, table.length) if isinstance(raw, Raw) else [slice(0, table.length)]
    return (table.part(part.start, part.stop) for part in parts)


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
        names: of all actions, where these are texts.
        reserved: whether "logged" must be no column, because it names the log's own policy.
    """

    columns: Columns = field(default_factory=dict)
    size: int = CHUNK
    default_reward: float | None = None
    drop: bool = False
    in_order: bool = True
    decided: bool = False
    names: tuple[str, ...] | None = None
    reserved: bool = False

    @staticmethod
    def of(columns: Columns | None, size: int, default_reward: float | None) -> Reading:
        """The checked arguments of :func:`heavytail.logs.reading.chunks`."""
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
            if key in BY_NAME and isinstance(name, Mapping) and name:
                if all(isinstance(part, str) for pair in name.items() for part in pair):
                    continue
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
        """The same, or that for decisions if the columns are those that a DecisionLog writes."""
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
        """Refuse a catalogue where arms cannot be encoded."""
        if self.catalogue is not None:
            raise ValueError(
                f"{source}: columns={{'arms': catalogue}}: {why}. Pass a log with columns of the "
                "context: a frame, a dict or Parquet."
            )

    def wanted(self, present: Sequence[str], source: str) -> Wanted:
        """The columns to read of those ``present``: our name -> theirs."""
        wanted: Wanted = {}
        if self.reserved and LOGGED in present:
            raise ValueError(f"{source}: {LOGGED!r}{AMBIGUOUS}")
        for key in COLUMNS:
            name = self.columns.get(key, key if key in present else None)
            if name is None:
                if key in NEEDED:
                    raise absent(key, present, source, f" Say columns={{{key!r}: its name}}.")
                continue
            if isinstance(name, Catalogue):
                name = needed(name, self.decided)
            hint = AS_TEXT if key == "target" else ""
            check_columns(_several(name), present, source, hint)
            wanted[key] = name
        if self.catalogue is not None and not self.decided:
            self._refuse_answers(wanted, source)
        return wanted

    def _refuse_answers(self, wanted: Wanted, source: str) -> None:
        """An arm's features must not tell what was played, or what it paid."""
        for key in ("action", "reward", "propensity", "probabilities", "target"):
            if wanted.get(key) in wanted["arms"]:
                raise ValueError(
                    f"{source}, column {wanted[key]!r}: the encoder takes it for a feature, and it "
                    f"is the log's {key}: every arm would be told the answer. Call the arms' own "
                    "column otherwise, in the encoder and in the table."
                )

    def table(self, part: Table, wanted: Mapping[str, Any]) -> Table:
        """The ``wanted`` columns of some rows, by our names."""
        columns: dict[str, Any] = {}
        for key, name in wanted.items():
            if isinstance(name, str):
                columns[key] = plain(part.column(name))
            elif key == "arms" and self.catalogue is not None:
                raw = {column: plain(part.column(column)) for column in name}
                columns[key] = Raw(self.catalogue, raw, self.decided)
            else:
                several = _several(name)
                if isinstance(name, Mapping):
                    several = self._by_name(name, part.place(", ".join(several)))
                sides = [part.numbers(column, may_miss=False) for column in several]
                columns[key] = np.stack(sides, axis=1)
        names = {key: ", ".join(_several(name)) or key for key, name in wanted.items()}
        return Table(columns, part.source, part.rows, names)

    def rows(self, table: Table, start: int) -> tuple[Rows, FloatArray | None]:
        """The rows of a table, checked and numbered from ``start``; and their times."""
        columns = dict(table.columns)
        missing = nulls(columns["reward"])
        raw = columns.get("arms")
        actions, offers = self.names, None
        if isinstance(raw, Raw):
            columns["action"], columns["arms"], offers = raw.filled(
                columns["action"], table.place("action")
            )
            actions = raw.catalogue.ids
        elif actions is not None:
            columns["action"] = self._numbered(columns, table)
        arrays = {key: dense(key, column, table.place(key)) for key, column in columns.items()}
        if self.names is not None:
            for key in BY_NAME:
                by_name = isinstance(self.columns.get(key), Mapping)
                if key in arrays and arrays[key].ndim == 2 and not by_name:
                    table.place(key).refuse(None, WHOSE.format(key=key))
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
        rows = rows._replace(
            numbers=table.row_numbers, names=names or None, actions=actions, offers=offers
        )
        if times is not None and np.isnan(times).any():
            table.place("time").refuse(int(np.argmax(np.isnan(times))), "is NaN.")
        if self.drop and missing is not None and missing.any():
            rows, times = without(rows, missing), None if times is None else times[~missing]
        return rows, times

    def _by_name(self, columns: Mapping[str, str], place: Place) -> list[str]:
        """The columns of the actions, in the order of the actions' numbers."""
        names = self.names or ()
        lost = [name for name in names if name not in columns]
        if lost:
            place.refuse(
                None,
                f"there is no column for {shown(lost[0])}, which is an action of this log. Name "
                "the column of every action.",
            )
        return [columns[name] for name in names]

    def _numbered(self, columns: Mapping[str, Any], table: Table) -> IntArray:
        """The number of each row's action, where actions have names."""
        assert self.names is not None
        place = table.place("action")
        if "arms" in columns:
            place.refuse(None, NO_PLACE)
        keys = keys_of(columns["action"], place)
        if (keys.codes < 0).any():
            place.refuse(int(np.argmax(keys.codes < 0)), "is null. Give the action's name.")
        places = {name: number for number, name in enumerate(self.names)}
        numbers = np.array([places.get(name, -1) for name in keys.values], dtype=np.int64)
        played = numbers[keys.codes] if len(numbers) else keys.codes
        if (played < 0).any():
            bad = int(np.argmax(played < 0))
            name = shown(keys.values[keys.codes[bad]])
            place.refuse(bad, f"{name} was not there at first: the log changed while it was read.")
        return played


def _propensities(arrays: dict[str, Any], table: Table) -> None:
    """Drop a column that has only nulls; refuse one that has some, since it is damaged."""
    value = table.columns.get("propensity")
    missing = None if value is None else nulls(value)
    if missing is None or not missing.any():
        return
    if not missing.all():
        table.place("propensity").refuse(
            int(np.argmax(missing)), "is null, where other rows have one. Give it."
        )
    arrays.pop("propensity")


@dataclass
class Order:
    """Times must not decrease from row to row, nor from chunk to chunk."""

    last: float = -np.inf
    first: float = np.inf  # time of all, where there is one

    def follow(self, times: FloatArray | None, place: Place) -> None:
        """Advance by a chunk, or refuse it."""
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
        """Advance by the chunks of another order."""
        if other.first <= other.last:
            self.follow(np.array([other.first, other.last]), place)


def read_rows(
    tables: Iterable[Table], reading: Reading, start: int = 0, order: Order | None = None
) -> Iterator[Rows]:
    """The rows of tables that follow each other, numbered from ``start``."""
    for table in (piece for chunk in tables for piece in pieces(chunk)):
        rows, times = reading.rows(table, start)
        if order is not None and reading.in_order:
            order.follow(times, table.place("time"))
        start += len(rows.action)
        if len(rows.action):
            yield rows
