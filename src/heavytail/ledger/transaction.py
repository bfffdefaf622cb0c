"""Reads and writes of models, decisions and outcomes within one commit, by operations."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from heavytail.ledger.layout import (
    CHANGE,
    NAME,
    Activity,
    DecisionRow,
    FileRow,
    ModelRow,
    OutcomeRow,
)
from heavytail.ledger.refusal import Conflict, Refusal

if TYPE_CHECKING:
    from heavytail.ledger.store import Store

__all__ = ["OUTCOME", "STORED", "Lookup", "Operation", "Transaction"]

KEPT = 3  # automatic snapshots per model
TOGETHER = 500  # rows that are looked up in one query

Result = TypeVar("Result")
Operation = Callable[["Transaction"], Any]
STORED = ModelRow._fields[:-2]  # in the table of models
DECISION = f"SELECT {', '.join(DecisionRow._fields)} FROM decision"
OUTCOME = f"SELECT {', '.join(OutcomeRow._fields)} FROM outcome"
MODELS = (  # tables with rows of a model
    "decision", "outcome", "snapshot", "tally", "origin", "catalogue", "activity", "recent",
    "settled", "earned", "archive",
)  # fmt: skip


@dataclass(frozen=True)
class Lookup(Generic[Result]):
    """An operation that says beforehand which rows it looks up. A commit reads them for all its
    operations together, since every query to a database on another machine takes a round trip.

    Attributes:
        work: the operation.
        column: of decisions and outcomes: "key" or "request".
        values: of that column, by the number of the model.
    """

    work: Callable[[Transaction], Result]
    column: str
    values: Mapping[int, Sequence[bytes]]

    def __call__(self, tx: Transaction) -> Result:
        """Run the operation."""
        return self.work(tx)


class Transaction:
    """Reads and writes within one commit. Check first, then write: nothing is undone."""

    def __init__(self, store: Store) -> None:
        self.store, self.now = store, store.clock()
        self._last: dict[int, int] = {}  # of models that may have new outcomes
        self._decides: dict[int, tuple[int, bytes]] = {}  # of models that may decide
        self.touched: set[int] = set()  # those that have, or were changed otherwise
        self._made: dict[int, int] = {}
        self._counted: dict[int, list[Any]] = {}  # all fields of Activity but the decisions
        self._decisions: list[DecisionRow] = []
        self._outcomes: list[tuple[Any, ...]] = []
        self._swept: dict[int, bytes] = {}  # of models whose rows are locked
        self._expected: dict[tuple[int, str], set[bytes]] = {}
        self._known: dict[tuple[str, int, str], dict[bytes, tuple[Any, ...] | None]] = {}

    def expect(self, lookup: Lookup[Any]) -> None:
        """Read the rows of an operation when the first of all expected rows is looked up."""
        for model, values in lookup.values.items():
            self._expected.setdefault((model, lookup.column), set()).update(values)

    def finish(self) -> None:
        """Write the collected rows."""
        self._flush()
        run = self.store.run_many
        if self._last:
            run("UPDATE model SET last = ? WHERE id = ?", [(n, m) for m, n in self._last.items()])
        if self._made:
            run(
                "INSERT INTO tally VALUES (?, ?, ?) ON CONFLICT (model, slot) "
                "DO UPDATE SET decisions = tally.decisions + excluded.decisions",
                [(m, self.store.slot, n) for m, n in self._made.items()],
            )
        if self._counted:
            names = Activity._fields[1:]
            added = ", ".join(f"{name} = activity.{name} + excluded.{name}" for name in names)
            run(
                f"INSERT INTO activity (model, slot, {', '.join(names)}) VALUES "
                f"(?, ?, ?, ?, ?, ?, ?) ON CONFLICT (model, slot) DO UPDATE SET {added}",
                [(m, self.store.slot, *counts) for m, counts in self._counted.items()],
            )

    def _flush(self) -> None:
        if self._decisions:
            marks = ", ".join("?" * len(DecisionRow._fields))
            self.store.run_many(f"INSERT INTO decision VALUES ({marks})", self._decisions)
            self._decisions = []
        if self._outcomes:
            self.store.run_many(
                "INSERT INTO outcome (model, seq, key, version, by_default, reward, scale, x, time)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                self._outcomes,
            )
            self._outcomes = []

    def rows(self, sql: str, *values: object) -> list[Any]:
        """Execute a statement on what is written so far and return its rows."""
        self._flush()
        return self.store.rows(sql, *values)

    def _row(self, select: str, model: int, column: str, value: bytes) -> tuple[Any, ...] | None:
        """The row with this value; the first call reads all expected rows."""
        known = self._known.setdefault((select, model, column), {})
        if value not in known:
            expected = self._expected.get((model, column), set())
            values = list({value, *expected} - known.keys())
            known.update(dict.fromkeys(values))
            for start in range(0, len(values), TOGETHER):
                some = values[start : start + TOGETHER]
                rows = self.rows(_selected(select, column, len(some)), model, *some)
                known.update((bytes(row[0]), row[1:]) for row in rows)
        return known[value]

    def number(self, name: str) -> int:
        """A number that the store keeps by name; 0 if missing."""
        rows = self.rows("SELECT value FROM meta WHERE name = ?", name)
        return int(rows[0][0]) if rows else 0

    def write_number(self, name: str, value: int) -> None:
        """Store a number by name."""
        sql = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = ?"
        self.rows(sql, name, value, value)

    # Models

    def model(self, name: str) -> ModelRow | None:
        """A model by name; a name that no database can search for has none."""
        if not re.fullmatch(NAME, name):
            return None
        rows = self.store.model_rows("WHERE name = ?", name)
        return rows[0] if rows else None

    def locked(self, name: str) -> ModelRow | None:
        """The same; nobody else can use the model before the commit."""
        row = self.model(name)
        if row is not None:
            self.lock(row.id)
            again = self.model(name)
            if again is None or again.id != row.id:
                raise Conflict(f"the model {name!r} was changed. Try again.")
        return row

    def lock(self, model: int) -> None:
        """Wait for all who use a model; nobody else can do so before the commit."""
        self.rows(f"SELECT id FROM model WHERE id = ?{self.store.alone}", model)

    def check_room(self, most: int) -> None:
        """Refuse if there are ``most`` models; nobody else can create one before the commit."""
        self.rows("UPDATE meta SET value = value WHERE name = 'models'")  # locks the row
        if self.rows("SELECT COUNT(*) FROM model")[0][0] >= most:
            raise Refusal(409, "too_many_models", f"At most {most} models. Delete one first.")

    def create(
        self,
        name: str,
        spec: str,
        *,
        follows: int | None = None,
        since: int = 0,
        origin: int | None = None,
    ) -> ModelRow:
        """A new model; its outcomes are numbered from ``since`` on."""
        sql = "UPDATE meta SET value = value + 1 WHERE name = 'models' RETURNING value"
        number = int(self.rows(sql)[0][0])
        row = ModelRow(
            number, name, spec, self.now, False, 0, since, 0, b"", follows, since, origin, None
        )
        marks = ", ".join("?" * len(STORED))
        values = [int(v) if isinstance(v, bool) else v for v in row[: len(STORED)]]
        self.rows(f"INSERT INTO model ({', '.join(STORED)}) VALUES ({marks})", *values)
        if origin is not None:
            self.rows("INSERT INTO origin VALUES (?, ?)", number, origin)
        return row

    def delete(self, model: int) -> None:
        """Delete a model and all its rows."""
        self.lock(model)
        if self.rows("SELECT 1 FROM model WHERE follows = ?", model):
            raise Refusal(409, "has_shadow", "Delete the shadows of this model first.")
        self._check_learners(model)
        self.rows("DELETE FROM model WHERE id = ?", model)
        for table in MODELS:
            self.rows(f"DELETE FROM {table} WHERE model = ?", model)
        self.rows("DELETE FROM origin WHERE source = ?", model)
        self._decides.pop(model, None)
        for counts in (self._last, self._made, self._counted, self._swept):
            counts.pop(model, None)
        self._forget(model)

    def _forget(self, model: int) -> None:
        """Forget the rows of a model that were looked up."""
        for known in [known for known in self._known if known[1] == model]:
            del self._known[known]

    def _check_learners(self, model: int) -> None:
        """Refuse if another model has yet to learn a part of this one's log."""
        unfinished = self.store.model_rows(
            "WHERE (follows IS NOT NULL OR id IN (SELECT model FROM origin)) AND NOT EXISTS "
            "(SELECT 1 FROM snapshot WHERE snapshot.model = model.id AND snapshot.seq >= COALESCE("
            "(SELECT since FROM model AS source WHERE source.id = model.follows), model.since))"
        )
        for row in unfinished:
            if row.id != model and any(source == model for source, _ in self.store.lineage(row)):
                message = (
                    f"Model {row.name!r} learns the log of this model, and no snapshot holds it "
                    f"yet. Try again later, or after POST /v1/models/{row.name}/snapshots."
                )
                raise Refusal(409, "has_learner", message)

    def learnable(self, name: str) -> tuple[int, int]:
        """The number of the model whose log another shall learn, and of its last outcome; for a
        shadow, those of the model it follows.
        """
        row = self.model(name)
        if row is not None and row.follows is not None:
            row = self.store.model(row.follows)
        if row is None:
            raise Refusal(404, "no_model", f"There is no model {name!r} to learn from.", "learn")
        lineage = self.store.lineage(row)
        for number, _ in sorted(lineage):
            self.check_there(number)
        first = self.store.model(lineage[0][0])
        if first is None or (first.since > 0 and first.origin is None):
            message = f"A part of what {name!r} learned was in the log of a deleted model."
            raise Refusal(409, "no_log", message, "learn")
        return row.id, self.last(row.id)

    def respec(self, model: int, spec: str) -> None:
        """Change the specification of a model."""
        self.rows("UPDATE model SET spec = ? WHERE id = ?", spec, model)

    def swap_names(self, model: ModelRow, other: ModelRow) -> None:
        """Let two models change their names."""
        for row, name in ((model, f"-{model.id}"), (other, model.name), (model, other.name)):
            self.rows("UPDATE model SET name = ? WHERE id = ?", name, row.id)

    def detach(self, shadow: ModelRow) -> None:
        """Let a shadow learn its own outcomes after all that the model it follows has now."""
        assert shadow.follows is not None
        last = self.last(shadow.follows)
        sql = "UPDATE model SET follows = NULL, last = ?, since = ? WHERE id = ?"
        self.rows(sql, last, last, shadow.id)
        self._last[shadow.id] = last
        self.rows("INSERT INTO origin VALUES (?, ?)", shadow.id, shadow.follows)

    def write_split(self, name: str, content: str | None) -> None:
        """Store the split of a name, or remove it."""
        self.rows("DELETE FROM split WHERE name = ?", name)
        if content is not None:
            self.rows("INSERT INTO split VALUES (?, ?)", name, content)

    def write_catalogue(self, model: int, content: bytes) -> int:
        """Add a catalogue to a model, whose row is locked, and return its number."""
        sql = "SELECT COALESCE(MAX(number), 0) + 1 FROM catalogue WHERE model = ?"
        number = int(self.rows(sql, model)[0][0])
        self.rows("INSERT INTO catalogue VALUES (?, ?, ?, ?)", model, number, self.now, content)
        return number

    def pause(self, model: int, paused: bool) -> None:
        """Pause a model, or resume it."""
        self.rows("UPDATE model SET paused = ? WHERE id = ?", int(paused), model)
        self._decides.pop(model, None)

    def check_there(self, model: int) -> tuple[bool, int, bytes]:
        """Refuse a deleted model; no other process can delete it before the commit. Returns whether
        it is paused, its last outcome, and the key up to which waiting decisions have expired.
        """
        sql = f"SELECT paused, last, swept FROM model WHERE id = ?{self.store.share}"
        rows = self.rows(sql, model)
        if not rows:
            raise Refusal(404, "no_model", "The model was deleted.")
        paused, last, swept = rows[0]
        return bool(paused), int(last), bytes(swept)

    def check_decides(self, model: int) -> tuple[int, bytes]:
        """The same for a model that must not be paused, checked once per commit."""
        if model not in self._decides:
            paused, last, swept = self.check_there(model)
            if paused:
                raise Refusal(409, "paused", "The model is paused. Resume it first.")
            self._decides[model] = last, swept
        return self._decides[model]

    # Decisions and outcomes

    def decide(self, row: DecisionRow) -> None:
        """Log a decision."""
        self._decisions.append(row)
        for column, value in (("key", row.key), ("request", row.request)):
            if value is not None:
                self._known.setdefault((DECISION, row.model, column), {})[value] = row
        self._made[row.model] = self._made.get(row.model, 0) + 1

    def decision(self, model: int, key: bytes) -> DecisionRow | None:
        """The decision of a key."""
        row = self._row(DECISION, model, "key", key)
        return DecisionRow(*row) if row else None

    def requested(self, model: int, request: bytes) -> DecisionRow | None:
        """The earlier decision of a request."""
        row = self._row(DECISION, model, "request", request)
        return DecisionRow(*row) if row else None

    def requested_of(self, models: Iterable[int], request: bytes) -> int | None:
        """The model among some that made the earlier decision of a request, if one did."""
        return next((model for model in models if self.requested(model, request)), None)

    def outcome(self, model: int, key: bytes) -> OutcomeRow | None:
        """The outcome of a decision; call ``last`` first if others may add one."""
        row = self._row(OUTCOME, model, "key", key)
        return OutcomeRow(*row) if row else None

    def last(self, model: int) -> int:
        """The number of a model's last outcome; no other process can add one before the commit."""
        if model not in self._last:
            sql = "UPDATE model SET last = last WHERE id = ? RETURNING last, swept"  # locks the row
            rows = self.rows(sql, model)
            if not rows:
                raise Refusal(404, "no_model", "The model was deleted.")
            self._last[model], self._swept[model] = int(rows[0][0]), bytes(rows[0][1])
        return self._last[model]

    def reward(
        self,
        decision: DecisionRow,
        reward: float,
        scale: float | None,
        *,
        by_default: bool = False,
        when: float | None = None,
    ) -> int:
        """Log the outcome of a decision that has none, with the present time unless ``when`` is
        given; returns its number.
        """
        seq = self.last(decision.model) + 1
        row = (
            decision.model, seq, decision.key, decision.version, int(by_default), reward, scale,
            decision.x, self.now if when is None else when,
        )  # fmt: skip
        self._outcomes.append(row)
        parts = max(reward, 0.0), max(-reward, 0.0)
        self._count(decision.model, (int(not by_default), int(by_default), *parts, 0))
        outcome = OutcomeRow(seq, decision.key, by_default, reward, scale, decision.x)
        self._known.setdefault((OUTCOME, decision.model, "key"), {})[decision.key] = outcome
        self._last[decision.model] = seq
        self.touched.add(decision.model)
        return seq

    def change(self, model: int, content: bytes) -> int:
        """Log a change of a model's offers in the order of its outcomes; returns its number."""
        seq = self.last(model) + 1
        key = f"change {seq}".encode()
        self._outcomes.append((model, seq, key, seq - 1, CHANGE, 0.0, None, content, self.now))
        self._last[model] = seq
        self.swept(model, self.sweeping(model), -1)  # it is the outcome of no decision
        self.touched.add(model)
        return seq

    def changed(self, model: int, after: int) -> bool:
        """Whether the offers of a model, whose row is locked, were changed after an outcome."""
        sql = "SELECT 1 FROM outcome WHERE model = ? AND seq > ? AND by_default = ? LIMIT 1"
        if self.rows(sql, model, after, CHANGE):
            return True
        return any(file.last > after for file in self.store.files(model))  # some may have been

    def _count(self, model: int, counts: tuple[int, int, float, float, int]) -> None:
        before = self._counted.get(model, (0, 0, 0.0, 0.0, 0))
        self._counted[model] = [a + b for a, b in zip(before, counts, strict=True)]

    def unknown(self, model: int, decisions: int) -> None:
        """Count decisions with a category that the model has no feature for."""
        self._count(model, (0, 0, 0.0, 0.0, decisions))

    def waiting(self, model: int, after: bytes, before: bytes, limit: int) -> list[DecisionRow]:
        """Decisions without an outcome, between two keys, oldest first."""
        columns = ", ".join(f"d.{name}" for name in DecisionRow._fields)
        rows = self.rows(
            f"SELECT {columns} FROM decision d LEFT JOIN outcome o ON o.model = d.model "
            "AND o.key = d.key WHERE d.model = ? AND d.key > ? AND d.key < ? AND o.key IS NULL "
            "ORDER BY d.key LIMIT ?",
            model, after, before, limit,
        )  # fmt: skip
        return [DecisionRow(*row) for row in rows]

    def latest(self, model: int, skip: int = 0) -> bytes:
        """The greatest key of a model's decisions except the last ``skip``; empty if none."""
        self._flush()
        return self.store.latest(model, skip)

    def sweeping(self, model: int) -> bytes:
        """The key up to which waiting decisions have expired."""
        if model in self._swept:
            return self._swept[model]
        rows = self.rows("SELECT swept FROM model WHERE id = ?", model)
        return bytes(rows[0][0]) if rows else b""

    def swept(self, model: int, key: bytes, given_up: int) -> None:
        """Record that waiting decisions up to ``key`` have expired, ``given_up`` of them without an
        outcome.
        """
        sql = "UPDATE model SET swept = ?, given_up = given_up + ? WHERE id = ?"
        self.rows(sql, key, given_up, model)
        self._swept.pop(model, None)

    def settle(self, model: int, before: bytes, limit: int) -> bool:
        """Move the key up to which no decision waits past the next settled ones, which must lie
        before a key; return whether there may be more.
        """
        self._flush()
        start = self.store.settled(model)
        rows = self.store.scanned(model, start, limit)
        passed = list(itertools.takewhile(lambda row: not row[1] and row[0] < before, rows))
        if passed:
            key = passed[-1][0]
            sql = "INSERT INTO settled VALUES (?, ?) ON CONFLICT (model) DO UPDATE SET key = ?"
            self.rows(sql, model, key, key)
        return len(passed) == limit

    # The archive

    def file(self, file: FileRow) -> None:
        """Record a file of the archive; its rows are still in the tables."""
        marks = ", ".join("?" * len(FileRow._fields))
        self.rows(f"INSERT INTO archive ({', '.join(FileRow._fields)}) VALUES ({marks})", *file)

    def filed(self, file: FileRow, given_up: Sequence[bytes], most: int) -> bool:
        """Delete the next rows of a file from the tables; tell whether there may be more. The
        model's row is locked.

        Args:
            file: the last of its model, as it is in the store now.
            given_up: the keys of its decisions without an outcome.
            most: rows that are deleted at a time.
        """
        model, end = file.model, min(file.done + most, file.entries)
        if file.done < file.outcomes:
            end = min(end, file.outcomes)
            bounds = model, file.first - 1 + file.done, file.first - 1 + end
            some = "WHERE model = ? AND seq > ? AND seq <= ?"
            ((count,),) = self.rows(f"SELECT COUNT(*) FROM outcome {some}", *bounds)
            if count != end - file.done:
                message = f"Rows of {file.file} are not in the store. Restore it from a backup."
                raise Refusal(500, "archive", message)
            of_these = f"key IN (SELECT key FROM outcome {some})"
            self.rows(f"DELETE FROM decision WHERE model = ? AND {of_these}", model, *bounds)
            self.rows(f"DELETE FROM outcome {some}", *bounds)
        else:
            keys = given_up[file.done - file.outcomes : end - file.outcomes]
            some = f"WHERE model = ? AND key IN ({', '.join('?' * len(keys))})"
            if self.rows(f"SELECT 1 FROM outcome {some} LIMIT 1", model, *keys):
                # The reward of one came late: it and the rest are for the next file.
                left = file.entries - file.done
                self.rows(
                    "UPDATE archive SET entries = done, decisions = decisions - ? "
                    "WHERE model = ? AND number = ?",
                    left, model, file.number,
                )  # fmt: skip
                return False
            self.rows(f"DELETE FROM decision {some}", model, *keys)
        sql = "UPDATE archive SET done = ? WHERE model = ? AND number = ?"
        self.rows(sql, end, model, file.number)
        self._forget(model)
        return end < file.entries

    def is_kept(self, decision: DecisionRow) -> bool:
        """Tell whether a decision that was read before is still in the tables, and not in the
        archive; the model's row is locked.
        """
        sql = "SELECT 1 FROM decision WHERE model = ? AND key = ?"
        return bool(self.rows(sql, decision.model, decision.key))

    # What the service counts

    def keep_recent(self, model: int, content: bytes) -> None:
        """Store what the service has counted lately of a model."""
        sql = "INSERT INTO recent VALUES (?, ?) ON CONFLICT (model) DO UPDATE SET content = ?"
        self.rows(sql, model, content, content)

    # Snapshots

    def snapshot(self, model: int, seq: int, data: bytes, note: str) -> int:
        """Add a snapshot of the state after outcome ``seq``; drop old automatic ones."""
        self.store.allow(len(data))
        sql = "UPDATE meta SET value = value + 1 WHERE name = 'snapshots' RETURNING value"
        number = int(self.rows(sql)[0][0])
        self.rows(
            "INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?)",
            number, model, seq, self.now, note, data,
        )  # fmt: skip
        if note == "":
            self.rows(
                "DELETE FROM snapshot WHERE model = ? AND note = '' AND number NOT IN (SELECT "
                "number FROM snapshot WHERE model = ? AND note = '' ORDER BY number DESC LIMIT ?)",
                model, model, KEPT,
            )  # fmt: skip
        return number

    def restore(self, model: int, data: bytes, note: str) -> int:
        """Set the state to ``data`` from the last outcome on (for a shadow, that of its source)."""
        rows = self.rows("SELECT follows FROM model WHERE id = ?", model)
        source = rows[0][0] if rows and rows[0][0] else model
        number = self.snapshot(model, self.last(source), data, note)
        self.rows("UPDATE model SET epoch = epoch + 1 WHERE id = ?", model)
        self.touched.add(model)
        return number

    def audit(self, who: str, what: str) -> None:
        """Write a line of the audit log."""
        self.rows("INSERT INTO audit VALUES (?, ?, ?)", self.now, who, what)


@functools.cache
def _selected(select: str, column: str, count: int) -> str:
    """A query for the rows with one of ``count`` values of a column; the value comes first."""
    columns = select.replace("SELECT ", f"SELECT {column}, ", 1)
    return f"{columns} WHERE model = ? AND {column} IN ({', '.join('?' * count)})"
