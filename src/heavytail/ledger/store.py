"""The data on disk: models, decisions, outcomes in the order they are learned, and snapshots.

An outcome is a reward, or the default reward of an expired decision. Outcomes of a model are
numbered without gaps; its state is the newest snapshot and the outcomes after it. Records never
change. Operations write: functions of a :class:`Transaction`, many of which share one commit.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from heavytail.ledger.layout import (
    ADDED,
    CHANGE,
    LAYOUT,
    NAME,
    TABLES,
    DecisionRow,
    ModelRow,
    OutcomeRow,
    columns,
    tables_of,
)
from heavytail.ledger.refusal import Conflict, Refusal, StoreError

__all__ = ["Conflict", "Operation", "Store", "StoreError", "Transaction", "as_bytes"]

KEPT = 3  # automatic snapshots per model
PIECE = 8 * 2**20  # bytes of a log that are read at a time
TRIES = 5  # of a commit that another process was in the way of


Operation = Callable[["Transaction"], Any]
STORED = ModelRow._fields[:-2]  # in the table of models
OTHERS = (  # the rest
    "(SELECT source FROM origin WHERE origin.model = model.id), "
    "(SELECT MAX(number) FROM catalogue WHERE catalogue.model = model.id)"
)
DECISION = f"SELECT {', '.join(DecisionRow._fields)} FROM decision"
TYPES = {  # of what is read of a model
    (int, str, str, float, int, int, int, int, bytes, follows, int, origin, catalogue)
    for follows in (int, type(None))
    for origin in (int, type(None))
    for catalogue in (int, type(None))
}
MODELS = ("decision", "outcome", "snapshot", "tally", "origin", "catalogue")  # rows of a model
OUTCOME = f"SELECT {', '.join(OutcomeRow._fields)} FROM outcome"


class Store(ABC):
    """Tables under one connection, used by one thread at a time. A database implements the abstract
    methods.
    """

    slot = 0  # of the tallies that this process counts in
    quick = True  # whether a commit is so fast that nobody needs to wait elsewhere for it
    shared = False  # whether other processes write to it, from elsewhere
    share = ""  # ends a SELECT of rows that nobody may delete before the commit
    group = 1  # commits that are forced to the disk at once, where a store can
    version = LAYOUT  # of its tables

    @abstractmethod
    def rows(self, sql: str, *values: object) -> list[Any]:
        """Execute a statement, with ``?`` for its values, and return its rows."""

    @abstractmethod
    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement for each of many rows."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit; the data is on disk when this returns."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo it."""

    @abstractmethod
    def lead(self, model: int) -> bool:
        """Tell whether this process takes the snapshots of a model and expires its decisions.
        Another process takes over when it dies.
        """

    @abstractmethod
    def probe(self) -> None:
        """Test within a transaction whether the store is writable, and write nothing."""

    def clock(self) -> float:
        """Wall-clock seconds since 1970, the same for all processes; needs no query."""
        return time.time()

    def measure(self) -> float | None:
        """The same, read from the source; None if that took too long to be accurate."""
        return self.clock()

    def flush(self) -> None:
        """Force records held back by ``group`` to the disk."""

    def close(self) -> None:
        """Close the store."""

    def prepare(self) -> None:
        """Create missing tables and upgrade those of an older version; refuse tables of a newer
        version, or an incomplete set.
        """
        self.begin()
        try:
            if self.empty():
                for statement in TABLES:
                    self.rows(statement)
                for name, value in {"layout": LAYOUT, "models": 0, "snapshots": 0}.items():
                    self.rows("INSERT INTO meta VALUES (?, ?)", name, value)
            self._upgrade(self.check_tables())
            self.version = LAYOUT
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def _upgrade(self, version: int) -> None:
        for later in range(version + 1, LAYOUT + 1):
            for statement in ADDED[later]:
                self.rows(statement)
            self.rows("UPDATE meta SET value = ? WHERE name = 'layout'", later)

    def check_tables(self) -> int:
        """Return the version of the tables; refuse a newer version, or an incomplete set."""
        versions = self.rows("SELECT value FROM meta WHERE name = 'layout'")
        version = versions[0][0] if versions else None
        for statement in tables_of(version) if version in ADDED else TABLES:
            if statement.startswith("CREATE TABLE"):
                table, names = columns(statement)
                self.rows(f"SELECT {', '.join(names)} FROM {table} LIMIT 0")
        if version not in ADDED:
            words = "none" if version is None else version
            raise StoreError(
                f"the store is of version {words}, and this heavytail reads versions up to "
                f"{LAYOUT}. Use the version of heavytail that wrote it."
            )
        self.version = int(version)
        return self.version

    @abstractmethod
    def empty(self) -> bool:
        """Tell whether there are no tables yet."""

    def apply(self, operations: Sequence[Operation]) -> tuple[list[Any], set[int]]:
        """Run all operations in one commit. Returns the result of each, or its Refusal (which has
        written nothing), and the models with new outcomes. Raises StoreError if the store fails;
        then nothing is written.
        """
        results = self.stage(operations)
        self.end()
        return results

    def stage(self, operations: Sequence[Operation]) -> tuple[list[Any], set[int]]:
        """The same without the commit, which ``end`` makes."""
        for _ in range(TRIES - 1):
            try:
                return self._stage(operations)
            except Conflict:
                continue
        return self._stage(operations)

    def _stage(self, operations: Sequence[Operation]) -> tuple[list[Any], set[int]]:
        self.begin()
        try:
            transaction, results = Transaction(self), []
            for operation in operations:
                try:
                    results.append(operation(transaction))
                except Refusal as refusal:
                    results.append(refusal)
            transaction.finish()
        except BaseException:
            self.rollback()
            raise
        return results, set(transaction.touched)

    def end(self) -> None:
        """Commit the staged operations; if that fails, nothing is written."""
        try:
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def models(self) -> list[ModelRow]:
        """All of them, by number."""
        models = self.model_rows("ORDER BY id")
        for row in models:
            if tuple(map(type, row)) not in TYPES:
                raise StoreError(f"model {row.id!r} of the store is damaged. Restore a backup.")
        return models

    def model(self, model: int) -> ModelRow | None:
        """A model by number."""
        rows = self.model_rows("WHERE id = ?", model)
        return rows[0] if rows else None

    def model_rows(self, condition: str, *values: object) -> list[ModelRow]:
        """The models for which a condition holds."""
        others = OTHERS if self.version > 1 else "NULL, NULL"
        sql = f"SELECT {', '.join(STORED)}, {others} FROM model {condition}"
        return [ModelRow(*row) for row in self.rows(sql, *values)]

    def latest(self, model: int, skip: int = 0) -> bytes:
        """The greatest key of a model's decisions except the last ``skip``; empty if none."""
        sql = "SELECT key FROM decision WHERE model = ? ORDER BY key DESC LIMIT 1 OFFSET ?"
        rows = self.rows(sql, model, skip)
        return as_bytes(rows[0][0]) if rows else b""

    def outcomes(self, model: int, after: int, limit: int) -> list[OutcomeRow]:
        """Those after number ``after``, in order."""
        sql = f"{OUTCOME} WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?"
        return [OutcomeRow(*row) for row in self.rows(sql, model, after, limit)]

    def lineage(self, row: ModelRow, until: float = math.inf) -> list[tuple[int, float]]:
        """The models whose outcomes a model learns, in order, and each one's last number."""
        before = row.origin if row.follows is None else row.follows
        other = None if before is None else self.model(before)
        if row.follows is not None:
            return [] if other is None else self.lineage(other, until)
        earlier = [] if other is None else self.lineage(other, float(row.since))
        return [*earlier, (row.id, until)]

    def details(self, model: int, after: int, last: int) -> dict[int, tuple[bytes, bytes]]:
        """The key and the detail of each decision that has one of the outcomes after number
        ``after`` up to ``last``, by that number.
        """
        sql = (
            "SELECT o.seq, d.key, d.detail FROM outcome o JOIN decision d ON d.model = o.model "
            "AND d.key = o.key WHERE o.model = ? AND o.seq > ? AND o.seq <= ?"
        )
        rows = self.rows(sql, model, after, last)
        return {seq: (bytes(key), as_bytes(detail)) for seq, key, detail in rows}

    def catalogue(self, model: int, number: int) -> bytes | None:
        """The content of a model's catalogue, as ``heavytail.ledger.offers`` packs it."""
        sql = "SELECT content FROM catalogue WHERE model = ? AND number = ?"
        rows = self.rows(sql, model, number)
        return as_bytes(rows[0][0]) if rows else None

    def splits(self) -> dict[str, str]:
        """The splits, by name."""
        return dict(self.rows("SELECT name, content FROM split"))

    def snapshots(self, model: int) -> list[tuple[int, int, float, str]]:
        """(number, outcome, time, note) of all of a model, newest first."""
        return self.rows(
            "SELECT number, seq, time, note FROM snapshot WHERE model = ? ORDER BY number DESC",
            model,
        )

    def snapshot_data(self, model: int, number: int) -> bytes | None:
        """The bytes of one."""
        rows = self.rows("SELECT data FROM snapshot WHERE model = ? AND number = ?", model, number)
        return as_bytes(rows[0][0]) if rows else None

    def decisions(self, model: int) -> int:
        """The number of decisions of a model."""
        sql = "SELECT COALESCE(SUM(decisions), 0) FROM tally WHERE model = ?"
        count = self.rows(sql, model)[0][0]
        if isinstance(count, float) and not math.isfinite(count):
            raise StoreError("the number of decisions is damaged. Restore a backup.")
        return int(count)

    def rewards(self, model: int) -> int:
        """The number of decisions of a model that have an outcome."""
        return int(self.rows("SELECT COUNT(*) FROM outcome WHERE model = ?", model)[0][0])

    def waiting(self, model: int) -> list[bytes]:
        """Keys of the waiting decisions, oldest first."""
        sql = (
            "SELECT d.key FROM decision d LEFT JOIN outcome o ON o.model = d.model "
            "AND o.key = d.key WHERE d.model = ? AND o.key IS NULL "
            "AND d.key > (SELECT swept FROM model WHERE id = ?) ORDER BY d.key"
        )
        return [bytes(key) for (key,) in self.rows(sql, model, model)]

    def width(self, model: int) -> int | None:
        """Number of features of its decisions; None without decisions."""
        rows = self.rows("SELECT x FROM decision WHERE model = ? LIMIT 1", model)
        return len(as_bytes(rows[0][0])) // 8 if rows else None

    def logged(self, model: int) -> Iterator[list[tuple[Any, ...]]]:
        """(key, arm, detail, version, reward, time of it, by default) of all decisions, in order;
        about ``PIECE`` bytes at a time.
        """
        last, size = b"", 16
        while True:
            rows = self.rows(
                "SELECT d.key, d.arm, d.detail, d.version, o.reward, o.time, o.by_default "
                "FROM decision d LEFT JOIN outcome o ON o.model = d.model AND o.key = d.key "
                "WHERE d.model = ? AND d.key > ? ORDER BY d.key LIMIT ?",
                model,
                last,
                size,
            )
            if not rows:
                return
            yield rows
            last = bytes(rows[-1][0])
            size = min(max(PIECE // max(1, *(len(as_bytes(row[2])) for row in rows)), 1), 4096)

    @abstractmethod
    def reader(self) -> contextlib.AbstractContextManager[Store]:
        """Another connection, for reading in another thread."""

    def keys(self) -> dict[bytes, tuple[str, frozenset[str]]]:
        """The valid keys by digest: name and scopes of each."""
        sql = "SELECT digest, name, scopes FROM api_key WHERE revoked = 0"
        return {bytes(d): (name, frozenset(scopes.split())) for d, name, scopes in self.rows(sql)}


def as_bytes(value: object) -> bytes:
    """The bytes from a database; empty if a damaged page gives another type."""
    return bytes(value) if isinstance(value, bytes | memoryview) else b""


class Transaction:
    """Reads and writes within one commit. Check first, then write: nothing is undone."""

    def __init__(self, store: Store) -> None:
        self.store, self.now = store, store.clock()
        self._last: dict[int, int] = {}  # of models that may have new outcomes
        self._decides: dict[int, tuple[int, bytes]] = {}  # of models that may decide
        self.touched: set[int] = set()  # those that have, or were changed otherwise
        self._made: dict[int, int] = {}
        self._decisions: list[DecisionRow] = []
        self._outcomes: list[tuple[Any, ...]] = []

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
        if self.rows("SELECT 1 FROM model WHERE follows = ?", model):
            raise Refusal(409, "has_shadow", "Delete the shadows of this model first.")
        self._check_learners(model)
        self.rows("DELETE FROM model WHERE id = ?", model)  # first: waits for who decides with it
        for table in MODELS:
            self.rows(f"DELETE FROM {table} WHERE model = ?", model)
        self.rows("DELETE FROM origin WHERE source = ?", model)
        self._decides.pop(model, None)
        for counts in (self._last, self._made):
            counts.pop(model, None)

    def _check_learners(self, model: int) -> None:
        """Refuse if another model has yet to learn a part of this one's log."""
        unfinished = self.store.model_rows(
            "WHERE id IN (SELECT model FROM origin) AND NOT EXISTS (SELECT 1 FROM snapshot "
            "WHERE snapshot.model = model.id AND snapshot.seq >= model.since)"
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
        if row.since > 0 and row.origin is None:
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
        self._made[row.model] = self._made.get(row.model, 0) + 1

    def decision(self, model: int, key: bytes) -> DecisionRow | None:
        """The decision of a key."""
        rows = self.rows(f"{DECISION} WHERE model = ? AND key = ?", model, key)
        return DecisionRow(*rows[0]) if rows else None

    def requested(self, model: int, request: bytes) -> DecisionRow | None:
        """The earlier decision of a request."""
        rows = self.rows(f"{DECISION} WHERE model = ? AND request = ?", model, request)
        return DecisionRow(*rows[0]) if rows else None

    def requested_of(self, models: Sequence[int], request: bytes) -> int | None:
        """The model among some that made the earlier decision of a request, if one did."""
        return next((model for model in models if self.requested(model, request)), None)

    def outcome(self, model: int, key: bytes) -> OutcomeRow | None:
        """The outcome of a decision."""
        rows = self.rows(f"{OUTCOME} WHERE model = ? AND key = ?", model, key)
        return OutcomeRow(*rows[0]) if rows else None

    def last(self, model: int) -> int:
        """The number of a model's last outcome; no other process can add one before the commit."""
        if model not in self._last:
            sql = "UPDATE model SET last = last WHERE id = ? RETURNING last"  # locks the row
            rows = self.rows(sql, model)
            if not rows:
                raise Refusal(404, "no_model", "The model was deleted.")
            self._last[model] = int(rows[0][0])
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
        rows = self.rows("SELECT swept FROM model WHERE id = ?", model)
        return bytes(rows[0][0]) if rows else b""

    def swept(self, model: int, key: bytes, given_up: int) -> None:
        """Record that waiting decisions up to ``key`` have expired, ``given_up`` of them without an
        outcome.
        """
        sql = "UPDATE model SET swept = ?, given_up = given_up + ? WHERE id = ?"
        self.rows(sql, key, given_up, model)

    # Snapshots

    def snapshot(self, model: int, seq: int, data: bytes, note: str) -> int:
        """Add a snapshot of the state after outcome ``seq``; drop old automatic ones."""
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
