"""Lines of JSON as Vowpal Wabbit's dsjson has them, gzipped or plain.

| here | there |
| --- | --- |
| ``reward`` | minus ``_label_cost`` |
| ``propensity`` | ``_label_probability`` |
| ``action`` | ``_labelIndex``, from 0; or ``_label_Action`` - 1 |
| ``probabilities`` | ``p``, whose entries are of the actions that ``a`` names, from 1 |
| ``arms`` | the numbers among the features of each entry of ``c._multi``, where there are any |
| ``context`` | the numbers among the other features of ``c`` |
| ``time`` | ``Timestamp`` |

A feature is named by its path, ``"TAction.price"``; an entry i of a list adds its place,
``"TAction.sizes.0"``. Those of the first line are the columns, in its order; one that a later line
lacks is 0, as there, and one that only a later line has is refused: ``columns={"arms": [names]}``
says which to take. Text, true and false are no numbers and are left out. Lines that carry no
decision (``RewardValue`` that found none) or one that was not carried out (``_skipLearn``) are
passed over. Several decisions in a line (``_outcomes``, ``_slots``) are refused, and so are lines
that stand for others that were dropped (``pdrop`` above 0). So are lines of more than 64 MiB, and
features beyond 65,536 of an arm or a context, 64 deep or with names of 1,000 letters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO, NoReturn

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import printable, shown
from heavytail.logs.reading.tables import Reading
from heavytail.tables.frames import Table
from heavytail.tables.place import Place
from heavytail.tables.streams import UNREADABLE, damaged, unzipped

__all__ = ["tables"]

LONGEST = 2**26  # bytes of a line: a few of them, zipped, could fill any memory
DEEPEST = 64  # objects and lists in each other
MOST_FEATURES = 2**16  # of an arm, or of a context
LONGEST_NAME = 1000  # letters of a feature's path
ROOM = 2**24  # numbers of a line, and about as many of a chunk
NAMES = {
    "action": "_labelIndex",
    "reward": "_label_cost",
    "propensity": "_label_probability",
    "probabilities": "p",
    "arms": "c._multi",
    "context": "c",
    "time": "Timestamp",
}


def tables(path: str, reading: Reading) -> Iterator[Table]:
    """The decisions of a file in chunks; a row's number, in errors, is that of its line, from 0."""
    lines = _Lines(path, reading)
    events: dict[int, dict[str, Any]] = {}
    held = 0
    for number, line in _lines(path):
        event = lines.event(number, line)
        if event is None:
            continue
        events[number] = event
        held += sum(np.size(value) for value in event.values())
        if len(events) == reading.size or held > ROOM:
            yield lines.table(events)
            events, held = {}, 0
    if events:
        yield lines.table(events)


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers from 0."""
    number = 0
    with open(path, "rb") as plain:
        stream = unzipped(plain)
        while True:
            line = _line(stream, path, number)
            if not line:
                return
            if line.strip():
                yield number, line
            number += 1


def _line(stream: BinaryIO, path: str, number: int) -> bytes:
    try:
        line = stream.readline(LONGEST + 1)
    except UNREADABLE as error:
        raise damaged(path, error, number) from None
    if len(line) > LONGEST:
        raise ValueError(
            f"{path}, row {number}: the line has more than {LONGEST:,} bytes, the most that is "
            "read. A decision is one line: break it up, or leave it out."
        )
    return line


class _Lines:
    """A reader of the lines, with the names of features as the first line has them."""

    def __init__(self, path: str, reading: Reading) -> None:
        self.path = path
        columns = reading.columns
        reading.refuse_catalogue(path, "the arms of dsjson have features of their own")
        self.wanted = {key for key in NAMES if not (key in columns and columns[key] is None)}
        chosen: dict[str, Any] = {key: columns.get(key) for key in ("arms", "context")}
        self.chosen = {key: value is not None for key, value in chosen.items()}
        self.names: dict[str, dict[str, None]] = {  # in order; of the first line, if not chosen
            key: dict.fromkeys([value] if isinstance(value, str) else value)
            for key, value in chosen.items()
            if value is not None
        }
        others = [key for key in columns if key not in chosen and columns[key] is not None]
        if others:
            raise ValueError(
                f"{path}: columns={{{others[0]!r}: ...}}: dsjson has names of its own; only "
                "'arms' and 'context' can be chosen by the names of features."
            )

    def refuse(self, number: int, column: str, problem: str) -> NoReturn:
        Place(self.path, column).refuse(number, problem)

    def event(self, number: int, line: bytes) -> dict[str, Any] | None:
        """The columns of one line; None where it holds no decision."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            last = "" if line.endswith(b"\n") else " It is the last line: the file is cut short."
            raise ValueError(
                f"{self.path}, row {number}: is not JSON ({printable(str(error))}).{last}"
            ) from None
        if not isinstance(event, dict):
            raise ValueError(f"{self.path}, row {number}: must be an object; got {shown(event)}.")
        if "RewardValue" in event or event.get("_skipLearn") is True:
            return None
        for column in ("_outcomes", "_slots"):
            inside = event.get("c")
            if column in event or (isinstance(inside, dict) and column in inside):
                self.refuse(number, column, "several decisions in a line are not read.")
        if self._number(event.get("pdrop", 0.0), number, "pdrop") > 0.0:
            self.refuse(
                number, "pdrop", "lines that stand for others that were dropped are not read."
            )
        return self._columns(event, number)

    def _columns(self, source: dict[str, Any], number: int) -> dict[str, Any]:
        cost = self._number(source.get("_label_cost"), number, "_label_cost")
        event: dict[str, Any] = {"reward": 0.0 - cost, "action": self._action(source, number)}
        if "propensity" in self.wanted and "_label_probability" in source:
            value = source["_label_probability"]
            event["propensity"] = self._number(value, number, "_label_probability")
        if "probabilities" in self.wanted and "p" in source:
            event["probabilities"] = self._probabilities(source, number)
        if "time" in self.wanted and "Timestamp" in source:
            event["time"] = self._time(source["Timestamp"], number)
        inside = source.get("c", {})
        if not isinstance(inside, dict):
            self.refuse(number, "c", f"must be an object; got {shown(inside)}.")
        if "arms" in self.wanted and isinstance(inside.get("_multi"), list):
            features = [self._flat(arm, number, "arms", "c._multi") for arm in inside["_multi"]]
            event["arms"] = self._matrix("arms", features, number)
        if "context" in self.wanted:
            features = [self._flat(inside, number, "context", "c")]
            event["context"] = self._matrix("context", features, number)
        return event

    def _number(self, value: object, number: int, column: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            what = "is missing." if value is None else f"must be a number; got {shown(value)}."
            self.refuse(number, column, what)
        try:
            return float(value)
        except OverflowError:
            self.refuse(number, column, f"must be finite; got {shown(value)}.")

    def _action(self, event: dict[str, Any], number: int) -> float:
        index, action = event.get("_labelIndex"), event.get("_label_Action")
        column, first = ("_label_Action", 1) if index is None else ("_labelIndex", 0)
        value = self._number(action if index is None else index, number, column) - first
        if None not in (index, action) and action != value + 1:
            self.refuse(
                number, "_label_Action", f"is {shown(action)}, but _labelIndex is {shown(index)}."
            )
        if not value >= 0.0 or value % 1.0 != 0.0:
            actual = value + first
            self.refuse(number, column, f"must be a whole number from {first}; got {actual:g}.")
        return value

    def _probabilities(self, event: dict[str, Any], number: int) -> FloatArray:
        """Of every action, in the order of the actions."""
        shares, actions = event["p"], event.get("a")
        if not isinstance(shares, list):
            self.refuse(number, "p", f"must be a list; got {shown(shares)}.")
        if actions is None:
            actions = list(range(1, len(shares) + 1))
        every = {str(action) for action in range(1, len(shares) + 1)}
        named = isinstance(actions, list) and len(actions) == len(shares)
        if not named or set(map(str, actions)) != every:
            actual = shown(actions)
            self.refuse(
                number, "a", f"must name actions 1 to {len(shares)}, once each; got {actual}."
            )
        ordered = np.empty(len(shares))
        for action, share in zip(actions, shares, strict=True):
            ordered[int(action) - 1] = self._number(share, number, "p")
        return ordered

    def _time(self, value: Any, number: int) -> float:
        try:
            text = value if not value.endswith("Z") else value[:-1] + "+00:00"
            head, dot, tail = text.partition(".")
            digits = len(tail) - len(tail.lstrip("0123456789"))
            tail = tail[: min(digits, 6)].ljust(6, "0") + tail[digits:] if dot else tail
            when = datetime.fromisoformat(head + dot + tail)
        except (AttributeError, ValueError):
            self.refuse(number, "Timestamp", f"must be a time; got {shown(value)}.")
        return when.timestamp() if when.tzinfo else when.replace(tzinfo=UTC).timestamp()

    def _flat(self, value: object, number: int, key: str, column: str) -> dict[str, float]:
        """The numbers in nested objects and lists by their paths; names with a _ are not ours.

        Of chosen features those alone. Linear in the length of the line.
        """
        if not isinstance(value, dict):
            self.refuse(number, column, f"must hold objects; got {shown(value)}.")
        chosen = self.names[key] if self.chosen[key] else None
        features: dict[str, float] = {}
        open_ones = [("", _items(value))]
        while open_ones:
            path, items = open_ones[-1]
            name, entry = next(items, (None, None))
            if name is None:
                open_ones.pop()
                continue
            if isinstance(entry, bool) or not isinstance(entry, int | float | dict | list):
                continue
            feature = f"{path}.{name}" if path else name
            if isinstance(entry, dict | list):
                self._check_path(feature, len(open_ones), number, column)
                open_ones.append((feature, _items(entry)))
            elif chosen is None or feature in chosen:
                self._check_path(feature, len(open_ones), number, column)
                features[feature] = self._number(entry, number, feature)
                if len(features) > MOST_FEATURES:
                    self.refuse(number, column, self._too_many(key, f"{MOST_FEATURES:,} numbers"))
        return features

    def _check_path(self, path: str, depth: int, number: int, column: str) -> None:
        if depth > DEEPEST:
            self.refuse(
                number,
                column,
                f"objects and lists are nested more than {DEEPEST} deep. Leave them out, "
                "or give their names a _ in front.",
            )
        if len(path) > LONGEST_NAME:
            self.refuse(
                number,
                column,
                f"the name of a feature, with its path, has more than {LONGEST_NAME:,} letters; "
                f"got {printable(path)!r}. Shorten it.",
            )

    def _too_many(self, key: str, what: str) -> str:
        return f"has more than {what}. Say which to take: columns={{{key!r}: [names]}}, or None."

    def _matrix(self, key: str, rows: Sequence[dict[str, float]], number: int) -> FloatArray:
        """One row per arm, one column per feature."""
        if key not in self.names:
            self.names[key] = dict.fromkeys(name for row in rows for name in row)
        names = self.names[key]
        if len(rows) * len(names) > ROOM:
            self.refuse(number, NAMES[key], self._too_many(key, f"{ROOM:,} arms times features"))
        new = next((name for row in rows for name in row if name not in names), None)
        if new is not None:
            self.refuse(
                number,
                new,
                f"is a number that the first line has not. Say which to take: columns="
                f"{{{key!r}: [names]}}, or None.",
            )
        return np.array([[row.get(name, 0.0) for name in names] for row in rows]).reshape(
            len(rows), len(names)
        )

    def table(self, events: dict[int, dict[str, Any]]) -> Table:
        """A chunk of them, by their numbers; features without any number are no column."""
        columns: dict[str, Any] = {}
        numbers = list(events)
        for key in NAMES:
            values = [event.get(key) for event in events.values()]
            if all(value is None for value in values):
                continue
            if any(value is None for value in values):
                missing = next(i for i, value in enumerate(values) if value is None)
                self.refuse(numbers[missing], NAMES[key], "is missing.")
            columns[key] = values
        for key in ("arms", "context"):
            if key in columns and not self.names[key]:
                columns.pop(key)
        if "context" in columns:
            columns["context"] = [row[0] for row in columns["context"]]
        return Table(columns, self.path, numbers, NAMES)


def _items(container: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """The entries by name, or by place in a list, in order."""
    if isinstance(container, dict):
        return ((name, value) for name, value in container.items() if name[:1] != "_")
    return ((str(place), value) for place, value in enumerate(container))
