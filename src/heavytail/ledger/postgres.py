"""A store in PostgreSQL, for several workers on several machines.

The database coordinates the workers. The lock of a model's row orders the numbers of its outcomes.
The lease of a model is an advisory lock that ends with its session. A worker in conflict with
another repeats its commit.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import conninfo, errors

from heavytail.ledger.archive import Archive
from heavytail.ledger.store import Conflict, Store, StoreError

__all__ = ["PostgresStore"]

SCHEMA = "heavytail"
TYPES = {"BLOB": "BYTEA", "REAL": "DOUBLE PRECISION", "INTEGER": "BIGINT"}
LEASE, SLOT, TABLES = 0x6876_7401, 0x6876_7402, 0x6876_7403  # classes of advisory locks
LONGEST = "30s"  # of a statement, once the tables are there; to upgrade them may take longer
SLOTS = 4096  # workers that are counted apart
SMALL = 2**20  # bytes of a value that is sent in no time
SURE = 0.25  # seconds that an answer may take which says what the database's clock is
DEFAULTS = {  # where the address does not say otherwise
    "connect_timeout": "5",
    "tcp_user_timeout": "15000",  # a database that is cut off is given up after 15 s
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "2",
}
SETTINGS = {  # of every session
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "5s",  # a worker that is cut off holds up the others
    "tcp_user_timeout": "15s",  # the database lets go of a machine that died, or is cut off
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "2",
}


UNREADABLE = (
    "the address of the store cannot be parsed. Write postgresql://USER@HOST/DATABASE, with any "
    "character of a password that is not a letter or digit as %XX; or set PGPASSWORD."
)


class PostgresStore(Store):
    """A schema of a database, created if missing.

    Args:
        address: ``postgresql://...``, as libpq reads it.
    """

    quick = False
    shared = True
    share = " FOR KEY SHARE"
    alone = " FOR UPDATE"

    def __init__(self, address: str) -> None:
        if address.count("@") > 1 or "@" in address.partition("?")[0].rpartition("/")[2]:
            raise StoreError(UNREADABLE)
        try:
            parts: dict[str, Any] = conninfo.conninfo_to_dict(address)
            name = f"heavytail {socket.gethostname()} {os.getpid()}"
            self._address = conninfo.make_conninfo(
                **{**DEFAULTS, "application_name": name[:63], **parts}
            )
        except psycopg.Error:  # whose words may hold a part of the password
            raise StoreError(UNREADABLE) from None
        self._original = address
        self.archive = Archive(None)
        self.name = f"{parts.get('host', 'localhost')}/{parts.get('dbname', '')}"
        self._db: psycopg.Connection[Any] | None = None
        self._leads: set[int] = set()
        self._offset = 0.0  # of the database's clock, to seconds that pass here
        self._within = False  # a transaction
        self._connected()

    def _connected(self) -> psycopg.Connection[Any]:
        """Return the session; reconnect and set it up again if it was lost."""
        if self._db is not None and not self._db.closed:
            return self._db
        if self._within:
            raise StoreError(f"{self.name}: the connection was lost during a transaction.")
        self._leads.clear()
        try:
            self._db = psycopg.connect(self._address, autocommit=True)
            self._begin_session()
        except (psycopg.Error, StoreError) as error:
            self._drop()
            known = self._failure(error) if isinstance(error, psycopg.Error) else error
            if isinstance(known, StoreError):
                raise known from None
            words = " ".join(str(error).split())
            problem = f"{self.name}: the tables of the schema {SCHEMA} are not heavytail's: {words}"
            raise StoreError(problem) from None
        except BaseException:
            self._drop()
            raise
        return self._db

    def _begin_session(self) -> None:
        for name, value in SETTINGS.items():
            self.rows("SELECT set_config(?, ?, false)", name, value)
        self.rows("SELECT set_config('search_path', ?, false)", SCHEMA)
        self.rows("SELECT pg_advisory_lock(?, 0)", TABLES)  # one makes the tables
        self.prepare()
        self.rows("SELECT pg_advisory_unlock(?, 0)", TABLES)
        self.rows("SELECT set_config('statement_timeout', ?, false)", LONGEST)
        for slot in range(SLOTS):
            if self.rows("SELECT pg_try_advisory_lock(?, ?)", SLOT, slot)[0][0]:
                self.slot = slot
                break
        self.measure()

    def clock(self) -> float:
        return time.monotonic() + self._offset

    def measure(self) -> float | None:
        before = time.monotonic()
        (now,) = self.rows("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8")[0]
        after = time.monotonic()
        if self._offset and after - before > SURE:
            return None
        self._offset = now - (before + after) / 2.0
        return self.clock()

    def rows(self, sql: str, *values: object) -> list[Any]:
        try:
            cursor = self._connected().execute(_translated(sql), values)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise self._failure(error) from None

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            with self._connected().cursor() as cursor:
                cursor.executemany(_translated(sql), rows)
        except psycopg.Error as error:
            raise self._failure(error) from None

    def allow(self, size: int) -> None:
        if size > SMALL:
            self.rows("SET LOCAL idle_in_transaction_session_timeout = '30s'")

    def empty(self) -> bool:
        if self.rows("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'meta'", SCHEMA):
            return False
        self.rows(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        return True

    def begin(self) -> None:
        self.rows("BEGIN")
        self._within = True

    def commit(self) -> None:
        try:
            done = self._connected().execute("COMMIT").statusmessage
        except psycopg.Error as error:
            raise self._failure(error) from None
        self._within = False
        if done != "COMMIT":
            raise StoreError(f"{self.name}: COMMIT was answered by {done}.")

    def rollback(self) -> None:
        self._within = False
        if self._db is None or self._db.closed:
            return
        try:
            self._db.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    @contextlib.contextmanager
    def reader(self) -> Iterator[Store]:
        other = PostgresStore(self._original)
        other.archive = self.archive
        try:
            yield other
        finally:
            other.close()

    def probe(self) -> None:
        self.rows("SAVEPOINT probe")
        try:
            self.rows("UPDATE meta SET value = value WHERE name = 'layout'")
        finally:
            self.rows("ROLLBACK TO SAVEPOINT probe")

    def lead(self, model: int) -> bool:
        if model in self._leads:
            return True
        if not self.rows("SELECT pg_try_advisory_lock(?, ?)", LEASE, model)[0][0]:
            return False
        self._leads.add(model)
        return True

    def close(self) -> None:
        self._drop()

    def _drop(self) -> None:
        if self._db is not None:
            with contextlib.suppress(psycopg.Error):
                self._db.close()
        self._db = None

    def _failure(self, error: psycopg.Error) -> Exception:
        """Translate an error of the database into one of the store's."""
        if isinstance(
            error, errors.UniqueViolation | errors.DeadlockDetected | errors.SerializationFailure
        ):
            return Conflict(f"{self.name}: another worker changed the same rows first. Try again.")
        if isinstance(error, errors.DiskFull):
            return StoreError(f"{self.name}: its disk is full. Make room; nothing was written.")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return StoreError(
                f"{self.name}: it is read-only. Pass the address of the primary server."
            )
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            if self._db is not None and self._db.broken:
                self._drop()
            words = " ".join(str(error).split()) or type(error).__name__
            return StoreError(f"{self.name}: the database does not answer: {words}")
        if isinstance(error, errors.InsufficientPrivilege):
            return StoreError(f"{self.name}: {error.diag.message_primary}. Grant it.")
        return error


@functools.cache
def _translated(sql: str) -> bytes:
    """A statement with PostgreSQL's placeholders and types."""
    if sql.startswith("CREATE TABLE"):
        for ours, theirs in TYPES.items():
            sql = sql.replace(ours, theirs)
    return sql.replace("?", "%s").encode()
