"""The embedded store: one folder, one SQLite file in WAL mode, one process at a time.

SQLite silently drops the end of its log if checksums do not match, as it should after a crash.
Acknowledged commits are never lost that way unless the disk lies. To detect that, the number of
commits is kept in the database and, after each commit, in a file beside it: a database behind that
file has lost commits.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from heavytail._locking import BUSY, hold, opened
from heavytail.ledger.archive import Archive
from heavytail.ledger.layout import FILE, LAYOUT, tables_of
from heavytail.ledger.refusal import InUse, StoreError
from heavytail.ledger.store import Store

__all__ = ["SQLiteStore"]

LOCK = "lock"
WITNESS = "commits"
SMALL = 2**26  # bytes of a database that is read as a whole when it is opened
PROBE = "probe"  # a file that is there while it is found out whether one can be
ROOM = 2**16  # bytes that a store needs to be ready
SLOW = 0.0003  # seconds of a commit from which on requests are served meanwhile
PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -65536",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA wal_autocheckpoint = 0",  # a thread does it: see _Copier
)
LONG = 4 * 2**20  # bytes of the write-ahead log from which on it is copied into the database
MEASURED = 64  # commits between two looks at its length


FAILURES = (sqlite3.Error, UnicodeDecodeError)  # of an error's words, where a page is damaged


class SQLiteStore(Store):
    """A store in a folder, created if missing."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.file = self.folder / FILE
        self.archive = Archive(self.folder)
        self._open: list[Callable[[], object]] = []  # what has to be closed, last first
        self._typical = 0.0  # seconds of a commit
        self._commits = -1  # not counted yet
        self._changes = 0  # rows changed before this transaction
        self._inode = 0  # of the database, once it is open
        self.group = 1  # commits that are forced to the disk at once
        self._loose = 0  # commits since the last that was
        self._copier: _Copier | None = None
        self._forced = True  # whether the present one will be
        try:
            self._begin()
        except FAILURES as error:
            self.close()
            raise self._failure(error) from None
        except StoreError:
            self.close()
            raise
        except OSError as error:
            self.close()
            problem = f"{error.filename or self.folder}: {error.strerror}. Pass a writable folder."
            raise StoreError(problem) from None
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock()
        os.close(self._made(FILE))  # before SQLite, which would let everybody read it
        self._db = sqlite3.connect(
            self.file, isolation_level=None, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip
        self._open.append(self._db.close)
        # Text that is none is damage of one value, and must not stop the reading of all others.
        self._db.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
        for pragma in PRAGMAS:
            self._db.execute(pragma)
        self._witness = self._opened(WITNESS)
        self.prepare()
        self._check_pages()
        self._db.execute("INSERT INTO meta VALUES ('commits', 0) ON CONFLICT DO NOTHING")
        os.lseek(self._witness, 0, os.SEEK_SET)
        self._commits = self._witnessed(os.read(self._witness, 32))
        self._inode = _inode(self.file)

    def _check_pages(self) -> None:
        """Refuse tables changed by others, and damaged pages of a small database. Checking a large
        one would take long; it is refused when a damaged page is read.
        """
        words = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        there = {" ".join(sql.split()) for (sql,) in self._db.execute(words)}
        tables = tables_of(self.check_tables())
        missing = [statement for statement in tables if " ".join(statement.split()) not in there]
        small = (self.file).stat().st_size < SMALL
        sound = self._db.execute("PRAGMA quick_check(1)").fetchone() if small else ("ok",)
        if missing or sound != ("ok",):
            raise StoreError(f"{self.file}: it is damaged. Restore it from a backup.")

    def _made(self, name: str) -> int:
        """Open a file of the folder; a new file is readable only by its owner."""
        path = self.folder / name
        handle = opened(path, 0o600)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise StoreError(f"{path} is not a file. Move it elsewhere.")
        return handle

    def _opened(self, name: str) -> int:
        handle = self._made(name)
        self._open.append(lambda: os.close(handle))
        return handle

    def _lock(self) -> None:
        """Lock the folder for one service at a time; the lock of a dead process is gone with it."""
        handle = self._opened(LOCK)
        try:
            hold(handle)
        except OSError as error:
            if error.errno not in BUSY:
                raise
            raise InUse(
                f"{self.folder} is used by another service or DecisionLog. Stop that one, use "
                "another folder, or let several share a PostgreSQL store."
            ) from None

    def _witnessed(self, witness: bytes) -> int:
        """The number of commits; refuses a database that is behind ``said``, the count of its
        witness file.
        """
        row = self._db.execute("SELECT value FROM meta WHERE name = 'commits'").fetchone()
        commits = row[0] if row else 0
        if not isinstance(commits, int):
            raise StoreError(f"{self.file}: it is damaged. Restore it from a backup.")
        digits = witness.split(b"\n")[0]
        seen = int(digits) if digits.isdigit() else 0
        if seen > commits:
            raise StoreError(
                f"{self.file} has lost its last {seen - commits} commits, which "
                f"were on disk: it has {commits}, and {WITNESS} says {seen}. Its disk or "
                "its write-ahead log is damaged. Restore the folder from a backup, or go on "
                f"without them by removing the file {WITNESS}."
            )
        return commits

    def rows(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except FAILURES as error:
            raise self._failure(error) from None

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            self._db.executemany(sql, rows)
        except FAILURES as error:
            raise self._failure(error) from None

    def empty(self) -> bool:
        return not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'meta'")

    def begin(self) -> None:
        if self._inode and _inode(self.file) != self._inode:
            raise StoreError(
                f"{self.file} was removed or replaced. Stop the service and put it back."
            )
        forced = self._loose + 1 >= self.group
        if forced != self._forced:
            self.rows(f"PRAGMA synchronous = {'FULL' if forced else 'NORMAL'}")
            self._forced = forced
        self.rows("BEGIN IMMEDIATE")
        self._changes = self._db.total_changes

    def commit(self) -> None:
        start = time.perf_counter()
        if self._db.total_changes == self._changes:  # nothing to write to the disk
            self.rows("COMMIT")
            return
        if self._commits >= 0:
            self.rows("UPDATE meta SET value = ? WHERE name = 'commits'", self._commits + 1)
        self.rows("COMMIT")
        self._loose = 0 if self._forced else self._loose + 1
        if self._commits >= 0:
            self._commits += 1
        if self._commits >= 0 and self._forced:
            with contextlib.suppress(OSError):  # a witness that is behind accuses nobody
                os.lseek(self._witness, 0, os.SEEK_SET)
                os.write(self._witness, b"%d\n" % self._commits)
        self._copy_log()
        elapsed = time.perf_counter() - start
        self._typical += 0.05 * (elapsed - self._typical)
        self.quick = self._typical < SLOW

    def _copy_log(self) -> None:
        """Let a thread copy the write-ahead log into the database once it is long. What was written
        meanwhile is little, and is copied here, so that the log begins anew.
        """
        copier = self._copier
        if copier is not None and copier.done.is_set():
            copier.done.clear()
            with contextlib.suppress(sqlite3.Error):  # next time; the log has it
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        elif self._commits % MEASURED == 0 and _size(f"{self.file}-wal") > LONG:
            if copier is None:
                copier = self._copier = _Copier(self.file)
                self._open.append(copier.close)
            copier.wanted.set()

    def rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def flush(self) -> None:
        if self._loose:
            group, self.group = self.group, 1
            try:
                self.apply([lambda tx: tx.write_number("layout", LAYOUT)])
            finally:
                self.group = group

    @contextlib.contextmanager
    def reader(self) -> Iterator[Store]:
        with self.reading(self.folder, checked=False) as other:
            other.archive = self.archive
            yield other

    @classmethod
    @contextlib.contextmanager
    def reading(cls, folder: str | os.PathLike[str], *, checked: bool = True) -> Iterator[Store]:
        """The store of a folder, read-only, while another process may write to it."""
        other = object.__new__(cls)
        other.folder = Path(folder)
        other.archive = Archive(other.folder)
        path = other.file = other.folder / FILE
        try:
            witness = (other.folder / WITNESS).read_bytes() if checked else b""
        except OSError:
            witness = b""
        try:
            # What lies still in a folder that cannot be written to can be read as it is.
            still = not os.access(other.folder, os.W_OK) and not Path(f"{path}-wal").exists()
            mode = "?mode=ro&immutable=1" if still else "?mode=ro"
            other._db = sqlite3.connect(path.resolve().as_uri() + mode, uri=True)
        except FAILURES as error:
            raise other._failure(error) from None
        with contextlib.closing(other._db):
            if checked:
                other._check(witness)
            yield other

    def _check(self, witness: bytes) -> None:
        """Refuse a database that is damaged or behind ``said``, the count of its witness file."""
        try:
            self._check_pages()
            self._witnessed(witness)
        except FAILURES as error:
            raise self._failure(error) from None

    def probe(self) -> None:
        path = self.folder / PROBE
        try:
            handle = opened(path, 0o600)
            try:
                if os.write(handle, bytes(ROOM)) < ROOM:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)
                path.unlink()
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be written to: {error.strerror}.") from None

    def lead(self, model: int) -> bool:
        return True  # nobody else is here

    def close(self) -> None:
        while self._open:
            self._open.pop()()

    def _failure(self, error: Exception) -> StoreError:
        code = getattr(error, "sqlite_errorname", "") or ""
        what = {
            "SQLITE_FULL": "its disk is full. Make room; nothing was written.",
            "SQLITE_READONLY": "it cannot be written to. Check its permissions.",
            "SQLITE_IOERR": "its disk failed. Nothing of this request was written.",
            "SQLITE_CORRUPT": "it is damaged. Restore it from a backup.",
            "SQLITE_NOTADB": "it is not a database. Pass the folder of a store.",
            "SQLITE_CANTOPEN": "it cannot be opened. Check its permissions.",
            "SQLITE_BUSY": "another program uses it. Close that program.",
        }
        if code == "SQLITE_CANTOPEN" and not self.file.exists():
            return StoreError(f"{self.file} does not exist. Pass the folder of a store.")
        for name, words in what.items():
            if code.startswith(name):
                return StoreError(f"{self.file}: {words}")
        if isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode"):
            return StoreError(f"{self.file}: {what['SQLITE_CORRUPT']}")
        if str(error).startswith("no such"):
            return StoreError(f"{self.file}: {error}. Restore it from a backup.")
        return StoreError(f"{self.file}: {error}.")


class _Copier:
    """A thread that copies the write-ahead log into the database, so that no commit waits for it.

    Attributes:
        wanted: set when the log is long.
        done: set when it has been copied.
    """

    def __init__(self, file: Path) -> None:
        self.wanted, self.done = threading.Event(), threading.Event()
        self._file, self._ended = file, False
        self._thread = threading.Thread(target=self._run, name="heavytail-copier", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.wanted.wait() and not self._ended:
            self.wanted.clear()
            with contextlib.suppress(sqlite3.Error):  # a full disk: the log still has everything
                with contextlib.closing(sqlite3.connect(self._file)) as db:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self.done.set()

    def close(self) -> None:
        """End the thread."""
        self._ended = True
        self.wanted.set()
        self._thread.join()


def _size(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _inode(path: Path) -> int:
    """The number of a file; 0 where there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
