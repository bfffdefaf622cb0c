"""The data on disk: models, decisions, outcomes in the order they are learned, and snapshots.

An outcome is a reward, or the default reward of an expired decision. Outcomes of a model are
numbered without gaps; its state is the newest snapshot and the outcomes after it. Records never
change. Operations write: functions of a :class:`Transaction`, many of which share one commit.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from heavytail.ledger.archive import Archive, Entry
from heavytail.ledger.layout import (
    ADDED,
    FILLED,
    LAYOUT,
    TABLES,
    Activity,
    FileRow,
    ModelRow,
    OutcomeRow,
    columns,
    tables_of,
)
from heavytail.ledger.refusal import Conflict, InArchive, Refusal, StoreError
from heavytail.ledger.transaction import OUTCOME, STORED, Lookup, Operation, Transaction

__all__ = [
    "ARCHIVED",
    "Conflict",
    "Store",
    "StoreError",
    "as_bytes",
]

PIECE = 8 * 2**20  # bytes of a log that are read at a time
TRIES = 5  # of a commit that another process was in the way of
SCANNED = 1000  # decisions that are looked at for one that waits
ARCHIVED = "The decision was given up so long ago that it is archived; its reward came too late."
OTHERS = (  # of a model, that its table does not have
    "(SELECT source FROM origin WHERE origin.model = model.id), "
    "(SELECT MAX(number) FROM catalogue WHERE catalogue.model = model.id)"
)
TYPES = {  # of what is read of a model
    (int, str, str, float, int, int, int, int, bytes, follows, int, origin, catalogue)
    for follows in (int, type(None))
    for origin in (int, type(None))
    for catalogue in (int, type(None))
}
FILE = f"SELECT {', '.join(FileRow._fields)} FROM archive"


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
