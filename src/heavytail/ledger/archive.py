"""The archive: old rows of a store as Parquet files, which are read together with its tables.

A file has rows of one model to the bit: outcomes in the order of their numbers, each with its
decision, and after them decisions that were given up. The store records its name and digest. Only
the first ``done`` rows of a file count, as the others are still in the tables: the transaction that
deletes rows raises ``done``, so that each row is in one of the two places at every moment.

A file is named after its content, so no other copy of the store ever overwrites it.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from heavytail._archive import replacing
from heavytail._extras import MissingExtra, need
from heavytail._typing import IntArray
from heavytail._validate import printable
from heavytail.ledger.layout import CHANGE, DecisionRow, FileRow, ModelRow, OutcomeRow
from heavytail.ledger.refusal import ArchiveError, StoreError
from heavytail.ledger.tokens import time_of

if TYPE_CHECKING:
    from heavytail.ledger.store import Store

__all__ = ["MOST", "Archive", "Entry", "Part", "check_place", "collected"]

MOST: Final = 100_000  # rows of a file
LARGE: Final = 64 * 2**20  # bytes of its rows, about
READ: Final = 2048  # rows that are read from the tables at a time
OPEN: Final = 2  # files that are kept in memory

OLD = (  # rows of a file, from the tables
    "SELECT o.seq, o.key, o.by_default, o.reward, o.scale, o.version, o.x, o.time, "
    "d.version, d.arm, d.x, d.request, d.detail FROM outcome o "
    "LEFT JOIN decision d ON d.model = o.model AND d.key = o.key "
    "WHERE o.model = ? AND o.seq > ? AND o.seq <= ? ORDER BY o.seq LIMIT ?"
)
GIVEN_UP = (
    "SELECT NULL, d.key, NULL, NULL, NULL, NULL, NULL, NULL, "
    "d.version, d.arm, d.x, d.request, d.detail FROM decision d "
    "LEFT JOIN outcome o ON o.model = d.model AND o.key = d.key "
    "WHERE d.model = ? AND d.key > ? AND d.key <= ? AND o.key IS NULL ORDER BY d.key LIMIT ?"
)


class Entry(NamedTuple):
    """A row of a file; the first eight fields but ``key`` are None of a decision without an
    outcome, and the last five of a change of the offers.

    Attributes:
        outcome_x: of the outcome; ``x`` is the decision's.
    """

    seq: int | None
    key: bytes
    by_default: int | None
    reward: float | None
    scale: float | None
    outcome_version: int | None
    outcome_x: bytes | None
    time: float | None
    version: int | None
    arm: int | None
    x: bytes | None
    request: bytes | None
    detail: bytes | None

    @property
    def size(self) -> int:
        """Its bytes, about."""
        return 100 + sum(len(part or b"") for part in (self.outcome_x, self.x, self.detail))

    def rows(self, model: int) -> tuple[DecisionRow, OutcomeRow | None]:
        """A decision and its outcome, as the tables had them."""
        decision: Any = (
            model, self.key, self.version, self.arm, self.x, self.request, self.detail,
        )  # fmt: skip
        return DecisionRow(*decision), None if self.seq is None else self.outcome

    @property
    def outcome(self) -> OutcomeRow:
        """The outcome, as the tables had it."""
        row: Any = (
            self.seq, self.key, self.by_default, self.reward, self.scale, self.outcome_x,
        )  # fmt: skip
        return OutcomeRow(*row)

    @property
    def then(self) -> float:
        """The time of the outcome, or of a decision without one."""
        return time_of(self.key) if self.time is None else self.time


KINDS: Final = {
    "seq": "int64", "key": "binary", "by_default": "int64", "reward": "float64",
    "scale": "float64", "outcome_version": "int64", "outcome_x": "binary", "time": "float64",
    "version": "int64", "arm": "int64", "x": "binary", "request": "binary", "detail": "binary",
}  # fmt: skip


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([(name, getattr(pa, kind)()) for name, kind in KINDS.items()])


class _Open:
    """A file in memory."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._order: tuple[Any, IntArray] | None = None

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def entries(self, places: Sequence[int] | IntArray) -> list[Entry]:
        """The rows at some places."""
        if isinstance(places, range):
            part = self._table.slice(places.start, len(places))
        else:
            part = self._table.take(np.asarray(places, dtype=np.int64))
        columns = (column.to_pylist() for column in part.columns)
        return [_whole(Entry(*row)) for row in zip(*columns, strict=True)]

    def between(self, after: bytes, upto: bytes | None, done: int) -> tuple[Any, IntArray]:
        """The keys behind one and up to another, in order, and the places of their decisions among
        the first ``done`` rows.
        """
        keys, places = self._by_key()
        start = bisect.bisect_right(keys, after, key=_plain)
        end = len(keys) if upto is None else bisect.bisect_right(keys, upto, key=_plain)
        within = start + np.flatnonzero(places[start:end] < done)
        return keys.take(within), places[within]

    def place(self, key: bytes) -> int | None:
        """The place of the decision with a key."""
        keys, places = self._by_key()
        at = bisect.bisect_left(keys, key, key=_plain)
        return int(places[at]) if at < len(keys) and keys[at].as_py() == key else None

    def _by_key(self) -> tuple[Any, IntArray]:
        """The keys of the decisions in order, and their places. Arrow sorts without holding up
        other threads.
        """
        with self._lock:
            if self._order is None:
                import pyarrow.compute as pc

                decided = pc.indices_nonzero(pc.is_valid(self._table["version"].chunk(0)))
                keys = self._table["key"].chunk(0).take(decided)
                order = pc.sort_indices(keys)
                places = decided.take(order).to_numpy().astype(np.int64)
                self._order = keys.take(order), places
            return self._order


def _plain(scalar: Any) -> bytes:
    return bytes(scalar.as_py())


def _whole(entry: Entry) -> Entry:
    """An entry with the features of its outcome, which a file has once if they are the same."""
    if entry.seq is None or entry.outcome_x is not None:
        return entry
    return entry._replace(outcome_x=entry.x)


class Archive:
    """The files of a store, of which the last few stay in memory.

    Args:
        home: the folder that relative names begin at; None if there is none.
    """

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, _Open] = OrderedDict()

    # Writing

    def write(self, place: str, name: str, table: Any) -> tuple[str, bytes]:
        """Write the rows of a :class:`Part` as a file and read it back; return its name, beginning
        with the place, and its digest.

        Args:
            place: a folder or an address, as :func:`check_place` allows it.
            name: how the file's name begins.
        """
        content = _packed(table)
        digest = hashlib.sha256(content).digest()
        full = f"{place.rstrip('/')}/{name}-{digest.hex()[:16]}.parquet"
        try:
            self._put(full, content)
        except Exception as error:  # whatever file systems raise
            raise ArchiveError(
                f"{full} cannot be written: {printable(str(error))}. Nothing was deleted."
            ) from None
        if not self._unpacked(full, digest).equals(table):
            raise ArchiveError(f"{full} is not what was written. Nothing was deleted.")
        return full, digest

    def _put(self, name: str, content: bytes) -> None:
        if "://" in name:
            system, path = _remote(name)
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            part = f"{path}.{os.urandom(4).hex()}.part"
            try:
                system.pipe_file(part, content)
                if system.exists(path):  # of the same content, or damaged
                    system.rm_file(path)
                system.mv(part, path)
            except BaseException:
                with contextlib.suppress(Exception):
                    system.rm_file(part)
                raise
            return
        target = self._path(name)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(target) as stream:
            os.chmod(stream.name, 0o600)
            stream.write(content)
        for folder in (target.parent, target.parent.parent):
            _forced(folder)

    def remove(self, names: Iterable[str]) -> list[str]:
        """Remove files; return those that could not be removed, with the reason."""
        left = []
        for name in names:
            try:
                if "://" in name:
                    system, path = _remote(name)
                    system.rm_file(path)
                else:
                    self._path(name).unlink()
            except FileNotFoundError:
                continue
            except Exception as error:  # whatever file systems raise
                left.append(f"{name}: {printable(str(error))}")
        return left

    # Reading

    def outcomes(self, files: Sequence[FileRow], after: int, limit: int) -> list[Entry]:
        """The outcomes after a number, in order."""
        entries: list[Entry] = []
        for file in files:
            start, end = max(after, file.first - 1), file.last
            end = min(end, start + limit - len(entries))
            if start < end:
                places = range(start + 1 - file.first, end + 1 - file.first)
                entries += self._opened(file).entries(places)
        return entries

    def decisions(
        self, files: Sequence[FileRow], after: bytes, upto: bytes | None, limit: int
    ) -> list[Entry]:
        """The decisions behind one key and up to another, in order."""
        found: list[tuple[bytes, int, int]] = []  # key, file, place
        for number, file in sorted(enumerate(files), key=lambda each: each[1].low):
            if not file.decisions or file.high <= after or (upto is not None and file.low > upto):
                continue
            if len(found) >= limit and found[limit - 1][0] < file.low:
                break
            keys, places = self._opened(file).between(after, upto, file.done)
            some = zip(keys[:limit].to_pylist(), places[:limit].tolist(), strict=True)
            found = sorted([*found, *((key, number, place) for key, place in some)])[:limit]
        taken: dict[bytes, Entry] = {}
        for number in {number for _, number, _ in found}:
            here = [place for _, each, place in found if each == number]
            entries = self._opened(files[number]).entries(here)
            taken.update((entry.key, entry) for entry in entries)
        return [taken[key] for key, _, _ in found]

    def find(self, files: Sequence[FileRow], keys: Iterable[bytes]) -> dict[bytes, Entry]:
        """The decisions with some keys."""
        found = {}
        for key in keys:
            for file in files:
                if file.decisions and file.low <= key <= file.high:
                    place = self._opened(file).place(key)
                    if place is not None and place < file.done:
                        found[key] = self._opened(file).entries([place])[0]
        return found

    def behind(self, file: FileRow, key: bytes) -> int:
        """The number of decisions of a file that are behind a key."""
        if not file.decisions or file.high <= key:
            return 0
        if file.low > key and file.complete:
            return file.decisions
        return len(self._opened(file).between(key, None, file.done)[1])

    def given_up(self, file: FileRow) -> list[bytes]:
        """The keys of the decisions without an outcome, which are the last rows of a file."""
        places = range(file.outcomes, file.entries)
        return [entry.key for entry in self._opened(file).entries(places)]

    def _opened(self, file: FileRow) -> _Open:
        with self._lock:
            known = self._kept.get(file.digest)
            if known is None:
                known = _Open(self._unpacked(file.file, file.digest))
                if len(known) < file.entries:
                    raise _damaged(file.file, f"it has {len(known)} of {file.entries} rows")
                self._kept[file.digest] = known
            self._kept.move_to_end(file.digest)
            while len(self._kept) > OPEN:
                self._kept.popitem(last=False)
            return known

    def _unpacked(self, name: str, digest: bytes) -> Any:
        """The table of a file; refuses anything but what was written."""
        need("a store with an archive", "pyarrow", extra="logs")
        import pyarrow as pa
        import pyarrow.parquet as pq

        content = self._content(name)
        if hashlib.sha256(content).digest() != digest:
            raise _damaged(name, "its bytes are not those that were written")
        try:
            source = pa.BufferReader(content)
            table = pq.ParquetFile(source, page_checksum_verification=True).read()
        except (pa.ArrowException, OSError) as error:
            raise _damaged(name, printable(str(error))) from None
        if not table.schema.equals(_schema()):
            raise _damaged(name, "its columns are others")
        return table.combine_chunks()

    def _content(self, name: str) -> bytes:
        try:
            if "://" in name:
                system, path = _remote(name)
                return bytes(system.cat_file(path))
            return self._path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise ArchiveError(
                f"{name}, a file of the store's archive, is missing. Put it back where it was."
            ) from None
        except ImportError:
            raise
        except Exception as error:  # whatever file systems raise
            raise ArchiveError(
                f"{name}, a file of the store's archive, cannot be read: {printable(str(error))}."
            ) from None

    def _path(self, name: str) -> Path:
        path = Path(name)
        if path.is_absolute():
            return path
        if self._home is None:
            raise ArchiveError(f"{name}, a file of the store's archive, has no folder.")
        return self._home / path


def _damaged(name: str, why: str) -> ArchiveError:
    return ArchiveError(
        f"{name}, a file of the store's archive, is damaged: {why}. Restore it from a backup."
    )


def _once(entry: Entry) -> Entry:
    """An entry without the features of its outcome if the decision has the same."""
    return entry._replace(outcome_x=None) if entry.outcome_x == entry.x else entry


def _packed(table: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def _remote(name: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    need("an archive at an address", "fsspec", extra="archive")
    import fsspec

    system, path = fsspec.core.url_to_fs(name)
    return system, path


def _forced(folder: Path) -> None:
    """Force a folder's list of files to the disk, where that can be done."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_place(place: str, *, relative: bool) -> str:
    """The folder or address of an archive; refuses what cannot be one.

    Args:
        relative: whether a relative folder has a place to begin at.
    """
    if not place or "\0" in place:
        raise ValueError("the archive must be a folder or an address.")
    if "://" in place:
        parts = urlsplit(place)
        if parts.password is not None or parts.username is not None:
            raise ValueError(
                "the address of the archive has a user, which the store would show to everybody "
                "who reads it. Put the credentials where fsspec finds them: into the environment "
                "or a file."
            )
        try:
            _remote(place)
        except MissingExtra:
            raise
        except ImportError as error:
            raise ValueError(printable(str(error))) from None
        return place
    if not os.path.isabs(place) and not relative:
        raise ValueError(
            f"the archive of a database must be an address or an absolute folder that all workers "
            f"share; got {printable(place)!r}."
        )
    return place


class Part:
    """Rows for a file.

    Attributes:
        first: the number of the first outcome, or of the next where it has none.
        outcomes: their number.
        decisions: likewise.
        low: the least key of a decision.
        high: the greatest.
        width: number of features of the decision with the least key.
        oldest: the time of the oldest row.
        size: bytes, about.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.outcomes = self.decisions = self.width = self.size = self._rows = 0
        self.low = self.high = b""
        self.oldest = math.inf
        self._batches: list[Any] = []

    def __len__(self) -> int:
        return self._rows

    def add(self, entries: Sequence[Entry]) -> None:
        """Add rows."""
        if not entries:
            return
        import pyarrow as pa

        schema, columns = _schema(), zip(*map(_once, entries), strict=True)
        try:
            arrays = [
                pa.array(each, kind) for each, kind in zip(columns, schema.types, strict=True)
            ]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise StoreError(
                f"an old row of the store is damaged ({printable(str(error))}), and the rows from "
                "there on are not archived. Restore it from a backup."
            ) from None
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        outcomes = sum(entry.seq is not None for entry in entries)
        decided = [(entry.key, entry.x or b"") for entry in entries if entry.version is not None]
        if decided:
            low, x = min(decided)
            if not self.decisions or low < self.low:
                self.low, self.width = low, len(x) // 8
            self.high = max(self.high, max(decided)[0])
        self.outcomes, self.decisions = self.outcomes + outcomes, self.decisions + len(decided)
        self._rows += len(entries)
        self.size += sum(entry.size for entry in entries)
        self.oldest = min(self.oldest, *(entry.then for entry in entries))

    def table(self) -> Any:
        """The rows as a table."""
        import pyarrow as pa

        return pa.Table.from_batches(self._batches, _schema()).combine_chunks()


def collected(
    store: Store,
    model: ModelRow,
    before: float,
    last: int,
    swept: bytes,
    rest: Callable[[float], bool],
) -> Part:
    """The next rows of a model for the archive: as many as a file may have.

    Args:
        store: read only.
        before: the time before which outcomes must have come.
        last: the number of the last outcome that may be archived.
        swept: the key up to which decisions were given up, and are old enough.
        rest: called with the seconds of each piece of work; true ends it.
    """
    files = store.files(model.id)
    part = Part((files[-1].last if files else model.since) + 1)

    def take(sql: str, *bounds: object, old: Callable[[int, Entry], bool]) -> bytes | None:
        """Take rows; return the key of the last, or None if there are no more."""
        start, most = time.monotonic(), min(READ, MOST - len(part))
        rows = [Entry(*values) for values in store.rows(sql, model.id, *bounds, most)]
        taken = [each for _, each in itertools.takewhile(lambda row: old(*row), enumerate(rows))]
        part.add(taken)
        ended = rest(time.monotonic() - start) or len(taken) < READ or part.size >= LARGE
        return None if ended else taken[-1].key

    def is_next(place: int, entry: Entry) -> bool:
        """Tell whether an outcome is old, and nothing is missing before it or of it."""
        whole = entry.version is not None or entry.by_default == CHANGE
        return whole and entry.seq == part.first + len(part) + place and entry.then < before

    while take(OLD, part.first - 1 + len(part), last, old=is_next):
        pass
    key: bytes | None = b""
    while key is not None and len(part) < MOST and part.size < LARGE:
        key = take(GIVEN_UP, key, swept, old=lambda place, entry: True)
    return part
