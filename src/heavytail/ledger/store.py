"""The data on disk: models, decisions, outcomes in the order they are learned, and snapshots.

An outcome is a reward, or the default reward of an expired decision. Outcomes of a model are
numbered without gaps; its state is the newest snapshot and the outcomes after it. Records never
change. Operations write: functions of a :class:`Transaction`, many of which share one commit.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heavytail.ledger.archive import Archive, Entry
from heavytail.ledger.layout import (
    ADDED,
    CHANGE,
    FILLED,
    LAYOUT,
    NAME,
    TABLES,
    Activity,
    DecisionRow,
    FileRow,
    ModelRow,
    OutcomeRow,
    columns,
    tables_of,
)
from heavytail.ledger.refusal import Conflict, InArchive, Refusal, StoreError

__all__ = [
    "ARCHIVED",
    "Conflict",
    "Lookup",
    "Operation",
    "Store",
    "StoreError",
    "Transaction",
    "as_bytes",
]

KEPT = 3  # automatic snapshots per model
PIECE = 8 * 2**20  # bytes of a log that are read at a time
TRIES = 5  # of a commit that another process was in the way of
SCANNED = 1000  # decisions that are looked at for one that waits
TOGETHER = 500  # rows that are looked up in one query
ARCHIVED = "The decision was given up so long ago that it is archived; its reward came too late."


Result = TypeVar("Result")
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
MODELS = (  # tables with rows of a model
    "decision", "outcome", "snapshot", "tally", "origin", "catalogue", "activity", "recent",
    "settled", "earned", "archive",
)  # fmt: skip
OUTCOME = f"SELECT {', '.join(OutcomeRow._fields)} FROM outcome"
FILE = f"SELECT {', '.join(FileRow._fields)} FROM archive"


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


class Store(ABC):
    """Tables under one connection, used by one thread at a time. A database implements the abstract
    methods.
    """

    slot = 0  # of the tallies that this process counts in
    quick = True  # whether a commit is so fast that nobody needs to wait elsewhere for it
    shared = False  # whether other processes write to it, from elsewhere
    share = ""  # ends a SELECT of rows that nobody may delete before the commit
    alone = ""  # ends a SELECT of rows that nobody else may use before the commit
    group = 1  # commits that are forced to the disk at once, where a store can
    version = LAYOUT  # of its tables
    patient = True  # whether reads may wait for files of the archive; if not, they raise InArchive
    archive: Archive  # which the readers share

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

    def allow(self, size: int) -> None:
        """Allow a transaction the time that it takes to send a value of so many bytes."""

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
            for statement in (*ADDED[later], *FILLED.get(later, ())):
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
                if isinstance(operation, Lookup):
                    transaction.expect(operation)
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
        """The greatest key of a model's decisions except the last ``skip``; empty if none. With
        ``skip`` the archive does not count.
        """
        sql = "SELECT key FROM decision WHERE model = ? ORDER BY key DESC LIMIT 1 OFFSET ?"
        if skip or self.version < 2:
            rows = self.rows(sql, model, skip)
        else:
            high = "SELECT high FROM archive WHERE model = ? ORDER BY high DESC LIMIT 1"
            (both,) = self.rows(f"SELECT ({sql}), ({high})", model, skip, model)
            rows = [(key,) for key in both]
        return max((as_bytes(key) for (key,) in rows), default=b"")

    # What was moved to the archive between two queries is there in the second: so tables are read
    # first, and a row that is in both counts once.

    def files(self, model: int) -> list[FileRow]:
        """The files of a model in the archive, in order."""
        if self.version < 2:
            return []
        rows = self.rows(f"{FILE} WHERE model = ? ORDER BY number", model)
        files = [FileRow(*row) for row in rows]
        return [
            file._replace(
                digest=as_bytes(file.digest), low=as_bytes(file.low), high=as_bytes(file.high)
            )
            for file in files
        ]

    def archived(self) -> dict[int, int]:
        """The number of rows in the archive, by model."""
        sql = "SELECT model, SUM(done) FROM archive GROUP BY model"
        return {model: int(done) for model, done in self.rows(sql)}

    def _readable(self, files: list[FileRow]) -> list[FileRow]:
        """The same files, which are about to be read."""
        if files and not self.patient:
            raise InArchive("rows of the archive are read by a reader of the store.")
        return files

    def _before(self, model: int, after: int, rows: Sequence[Any], limit: int) -> list[Entry]:
        """The outcomes behind number ``after`` that the archive has, and not ``rows``, whose first
        columns are the numbers that the tables have.
        """
        if rows and rows[0][0] <= after + 1:
            return []
        files = self._readable([file for file in self.files(model) if file.last > after])
        entries = self.archive.outcomes(files, after, limit)
        return [each for each in entries if not rows or int(each.seq or 0) < rows[0][0]]

    def _among(self, model: int, after: bytes, upto: bytes | None, limit: int) -> list[Entry]:
        """The decisions between two keys that the archive has, in order."""
        files = self._readable(
            [
                file
                for file in self.files(model)
                if file.decisions and file.high > after and (upto is None or file.low <= upto)
            ]
        )
        return self.archive.decisions(files, after, upto, limit)

    def outcomes(self, model: int, after: int, limit: int) -> list[OutcomeRow]:
        """Those after number ``after``, in order."""
        sql = f"{OUTCOME} WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?"
        rows = [OutcomeRow(*row) for row in self.rows(sql, model, after, limit)]
        old = self._before(model, after, rows, limit)
        if not old:
            return rows
        return [*(each.outcome for each in old), *rows][:limit]

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
        details = {seq: (bytes(key), as_bytes(detail)) for seq, key, detail in rows}
        if len(details) < last - after:
            files = [file for file in self.files(model) if file.last > after]
            for each in self.archive.outcomes(self._readable(files), after, last - after):
                if each.seq is not None and each.version is not None and each.seq <= last:
                    details[each.seq] = each.key, as_bytes(each.detail)
        return details

    def found(self, model: int, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """The decisions of a model with some keys that the archive has."""
        low, high = min(keys), max(keys)
        files = [each for each in self.files(model) if each.low <= high and each.high >= low]
        return self.archive.find(self._readable(files), keys)

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

    def activities(self) -> dict[int, Activity]:
        """What was counted of each model, by its number; a model without decisions may lack."""
        tallies = self.rows("SELECT model, decisions FROM tally ORDER BY model, slot")
        columns = ", ".join(Activity._fields[1:])
        rows = self.rows(f"SELECT model, 0, {columns} FROM activity ORDER BY model, slot")
        counted: dict[int, list[Activity]] = {}
        for model, *parts in [*tallies, *rows]:
            counted.setdefault(model, []).append(Activity(*parts))
        try:
            return {model: _summed(parts) for model, parts in counted.items()}
        except (ValueError, TypeError, OverflowError):
            raise StoreError("the counts of the models are damaged. Restore a backup.") from None

    def recent(self, model: int) -> bytes:
        """What the service has counted lately of a model; empty if nothing."""
        rows = self.rows("SELECT content FROM recent WHERE model = ?", model)
        return as_bytes(rows[0][0]) if rows else b""

    def scanned(self, model: int, after: bytes, limit: int) -> list[tuple[bytes, bool]]:
        """The keys of the next decisions after a key, each with whether it waits."""
        sql = (
            "SELECT d.key, o.key IS NULL FROM decision d LEFT JOIN outcome o ON o.model = d.model "
            "AND o.key = d.key AND o.key > ? WHERE d.model = ? AND d.key > ? ORDER BY d.key LIMIT ?"
        )
        return [
            (as_bytes(k), bool(waits)) for k, waits in self.rows(sql, after, model, after, limit)
        ]

    def settled(self, model: int) -> bytes:
        """A key up to which no decision of a model waits."""
        sql = (
            "SELECT key FROM settled WHERE model = ? UNION ALL SELECT swept FROM model WHERE id = ?"
        )
        return max((as_bytes(key) for (key,) in self.rows(sql, model, model)), default=b"")

    def oldest(self, model: int) -> bytes | None:
        """The key of the oldest waiting decision of a model, or of an earlier decision if it is far
        beyond the settled ones; None if none waits.
        """
        rows = self.scanned(model, self.settled(model), SCANNED)
        end = rows[-1][0] if len(rows) == SCANNED else None
        return next((key for key, waits in rows if waits), end)

    def rewards(self, model: int) -> int:
        """The number of decisions of a model that have an outcome."""
        count = "SELECT COUNT(*) FROM outcome WHERE model = ?"
        if self.version < 2:
            return int(self.rows(count, model)[0][0])
        old = (
            "SELECT COALESCE(SUM(CASE WHEN done < outcomes THEN done ELSE outcomes END), 0) "
            "FROM archive WHERE model = ?"
        )
        return sum(map(int, self.rows(f"SELECT ({count}), ({old})", model, model)[0]))

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
        sql = "SELECT key, x FROM decision WHERE model = ? ORDER BY key LIMIT 1"
        first = [(as_bytes(key), len(as_bytes(x)) // 8) for key, x in self.rows(sql, model)]
        first += [(file.low, file.width) for file in self.files(model) if file.decisions]
        return min(first)[1] if first else None

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
            old = self._among(model, last, None, size)
            rows = _merged(rows, [_logged(each) for each in old], size)
            if not rows:
                return
            yield rows
            last = bytes(rows[-1][0])
            size = min(max(PIECE // max(1, *(len(as_bytes(row[2])) for row in rows)), 1), 4096)

    def learned(self, model: int, after: int, limit: int) -> list[tuple[Any, ...]]:
        """(number, key, by default, reward, arm, detail) of the outcomes after number ``after``, in
        order.
        """
        rows = self.rows(
            "SELECT o.seq, o.key, o.by_default, o.reward, d.arm, d.detail FROM outcome o "
            "JOIN decision d ON d.model = o.model AND d.key = o.key "
            "WHERE o.model = ? AND o.seq > ? ORDER BY o.seq LIMIT ?",
            model, after, limit,
        )  # fmt: skip
        old: list[tuple[Any, ...]] = []
        while more := self._before(model, after, rows, limit):  # some may be changes of offers
            old += (
                (each.seq, each.key, each.by_default, each.reward, each.arm, each.detail)
                for each in more if each.version is not None
            )  # fmt: skip
            if len(old) >= limit:
                break
            after = int(more[-1].seq or 0)
        return [*old, *rows][:limit]

    def decided(self, model: int, after: bytes, upto: bytes, limit: int) -> list[tuple[Any, ...]]:
        """(key, arm, detail, number, reward) of the decisions between two keys, in order; without
        an outcome the last two are None.
        """
        rows = self.rows(
            "SELECT d.key, d.arm, d.detail, o.seq, o.reward FROM decision d "
            "LEFT JOIN outcome o ON o.model = d.model AND o.key = d.key "
            "WHERE d.model = ? AND d.key > ? AND d.key <= ? ORDER BY d.key LIMIT ?",
            model, after, upto, limit,
        )  # fmt: skip
        old = self._among(model, after, upto, limit)
        decided = [(each.key, each.arm, each.detail, each.seq, each.reward) for each in old]
        return _merged(rows, decided, limit)

    def decided_by(self, model: int, key: bytes) -> int:
        """The number of decisions up to a key, from the tally and the decisions behind the key."""
        files = self.files(model)
        while True:
            (made, behind), *_ = self.rows(
                "SELECT (SELECT COALESCE(SUM(decisions), 0) FROM tally WHERE model = ?), "
                "(SELECT COUNT(*) FROM decision WHERE model = ? AND key > ?)",
                model, model, key,
            )  # fmt: skip
            before, files = files, self.files(model)
            if files == before:  # otherwise rows were moved meanwhile
                break
        old = sum(
            self.archive.behind(file, key)
            for file in self._readable([file for file in files if file.high > key])
        )
        return int(made) - int(behind) - old

    @abstractmethod
    def reader(self) -> contextlib.AbstractContextManager[Store]:
        """Another connection, for reading in another thread."""

    def keys(self) -> dict[bytes, tuple[str, frozenset[str]]]:
        """The valid keys by digest: name and scopes of each."""
        sql = "SELECT digest, name, scopes FROM api_key WHERE revoked = 0"
        return {bytes(d): (name, frozenset(scopes.split())) for d, name, scopes in self.rows(sql)}


def _logged(entry: Entry) -> tuple[Any, ...]:
    """A decision of the archive as ``logged`` gives it."""
    return (
        entry.key, entry.arm, entry.detail, entry.version, entry.reward, entry.time,
        entry.by_default,
    )  # fmt: skip


def _merged(rows: list[Any], old: list[Any], limit: int) -> list[Any]:
    """The first of the rows of the tables and of the archive by their keys, each key once."""
    if not old:
        return rows
    return [row for _, row in sorted({as_bytes(row[0]): row for row in [*old, *rows]}.items())][
        :limit
    ]


def _summed(parts: Sequence[Activity]) -> Activity:
    """The sum of what several workers counted. ``fsum`` is exact, so that a sum never falls while
    its parts grow.
    """
    decisions, sent, defaults, gains, losses, unknown = zip(*parts, strict=True)
    return Activity(
        sum(map(int, decisions)), sum(map(int, sent)), sum(map(int, defaults)), math.fsum(gains),
        math.fsum(losses), sum(map(int, unknown)),
    )  # fmt: skip


def as_bytes(value: object) -> bytes:
    """The bytes from a database; empty if a damaged page gives another type."""
    return bytes(value) if isinstance(value, bytes | memoryview) else b""


@functools.cache
def _selected(select: str, column: str, count: int) -> str:
    """A query for the rows with one of ``count`` values of a column; the value comes first."""
    columns = select.replace("SELECT ", f"SELECT {column}, ", 1)
    return f"{columns} WHERE model = ? AND {column} IN ({', '.join('?' * count)})"


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
