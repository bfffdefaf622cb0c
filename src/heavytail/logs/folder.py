"""The folder of a DecisionLog: its parts, its journal as a table, its lock, and errors in words."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from heavytail._locking import BUSY, hold, opened
from heavytail._typing import IntArray
from heavytail._validate import printable, shown
from heavytail.logs.encoded import CONTEXT, IDS
from heavytail.logs.entries import Entry
from heavytail.logs.files import JOURNAL, PARTS, units
from heavytail.logs.journal import Journal, parsed
from heavytail.logs.tables import Reading
from heavytail.logs.tokens import Tokens

__all__ = [
    "LOCK",
    "check_folder",
    "check_gap",
    "contents",
    "locked",
    "parquet",
    "parts_of",
    "tokens_of",
    "whole",
    "worded",
]

LOCK = "lock"


def contents(path: str) -> tuple[list[str], Any]:
    """The parts of a log in order, and a table of what is only in its journal.

    The log may be written to meanwhile: the journal is read first, and what it holds that has
    since become a part is dropped.
    """
    name = os.path.join(path, JOURNAL)
    found = parsed(name, whole(name))
    parts, first = parts_of(path)
    check_gap(path, found, first)
    return parts, _table([entry for number, entry in found.entries.items() if number >= first])


def whole(path: str) -> bytes:
    """The bytes of a file; ValueError for a device or a pipe, at which one might wait for ever."""
    wait = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | wait)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError(f"{path} is no file: a device or a pipe. Remove it, or pass another.")
        return stream.read()


def parts_of(path: str) -> tuple[list[str], int]:
    """The parts in order, and the number of the decision that follows them."""
    parts, end = sorted(map(str, Path(path).glob(PARTS))), 0
    for part in parts:
        digits = Path(part).stem.removeprefix("part-")
        if not (digits.isascii() and digits.isdecimal() and 12 <= len(digits) <= 18):
            raise ValueError(f"{part} is no part that a DecisionLog wrote. Move it elsewhere.")
        first = int(digits)
        if first != end:
            raise ValueError(
                f"{path}: decisions {min(first, end)} to {max(first, end) - 1} are missing or "
                f"there twice, before {Path(part).name}. Take the folder from a backup."
            )
        end += sum(unit.rows for unit in units(part, Reading()))
    return parts, end


def tokens_of(parts: list[str]) -> Tokens:
    """The tokens of all decisions in parts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = Tokens()
    for part in parts:
        try:
            column = pq.read_table(part, columns=["token"])["token"].to_numpy()
        except (pa.ArrowException, KeyError, OSError) as error:
            reason = f"its tokens cannot be read ({printable(str(error))})"
            raise ValueError(f"{part} is damaged: {reason}. Take it from a backup.") from None
        if column.dtype.kind not in "iu":
            raise ValueError(f"{part} is no part that a DecisionLog wrote. Move it elsewhere.")
        found.add_many(column.astype(np.int64))
    return found


def check_folder(path: str) -> None:
    """Refuse a folder of somebody else's."""
    here = os.listdir(path)
    strange = sorted(n for n in here if n != LOCK and not n.startswith(f"{JOURNAL}."))
    if strange and JOURNAL not in here:
        raise ValueError(
            f"{path} is no folder of a DecisionLog: it has no {JOURNAL}, but {shown(strange[0])}. "
            "Pass a new folder."
        )


def check_gap(path: str, found: Journal, first: int) -> None:
    """Refuse a folder whose journal begins behind its parts."""
    if found.first > first:
        raise ValueError(
            f"{path}: decisions {first} to {found.first - 1} are missing: a part is gone. Take "
            "the folder from a backup."
        )


def _table(entries: list[Entry]) -> Any:
    """Decisions as an Arrow table."""
    import pyarrow as pa

    def column(name: str, kind: Any) -> Any:
        return pa.array([getattr(entry, name) for entry in entries], type=kind)

    counts = [len(entry.arms) for entry in entries]
    dim = entries[0].arms.shape[1] if entries else 0
    flat = np.concatenate([entry.arms.ravel() for entry in entries]) if entries else np.zeros(0)
    inner = pa.LargeListArray.from_arrays(_offsets([dim] * sum(counts)), pa.array(flat))
    columns = {
        "token": column("token", pa.int64()),
        "action": column("action", pa.int64()),
        "reward": column("reward", pa.float64()),
        "propensity": column("probability", pa.float64()),
        "score": column("score", pa.float64()),
        "time": column("time", pa.float64()),
        "reward_time": column("reward_time", pa.float64()),
        "arms": pa.LargeListArray.from_arrays(_offsets(counts), inner),
        IDS: column("ids", pa.list_(pa.string())),
        CONTEXT: column("context", pa.string()),
    }
    return pa.table(columns)


def _offsets(counts: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def parquet(entries: list[Entry]) -> bytes:
    """Decisions as a Parquet file, every page with a checksum."""
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(_table(entries), stream, compression="zstd", write_page_checksum=True)
    return stream.getvalue()


def locked(path: str) -> int:
    """The lock of a folder, held until it is closed or the process ends."""
    handle = opened(os.path.join(path, LOCK), 0o666)
    try:
        hold(handle)
    except OSError as error:
        os.close(handle)
        if error.errno in BUSY:
            raise BlockingIOError(
                error.errno,
                f"{path}: another DecisionLog writes here. Close that one, or pass another folder",
            ) from None
        raise
    return handle


@contextlib.contextmanager
def worded(path: str, what: str) -> Iterator[None]:
    """An error of the system's in our words."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        _refuse(path, what, error)


def _refuse(path: str, what: str, error: OSError) -> NoReturn:
    advice = {
        errno.ENOSPC: " Make room on the disk.",
        errno.EDQUOT: " Make room on the disk.",
        errno.EFBIG: " Make room on the disk.",
        errno.EROFS: " The file system is read-only.",
        errno.EACCES: " Allow this user to write there.",
        errno.ENOTDIR: " It is no folder.",
        errno.EEXIST: " It is no folder.",
    }.get(error.errno or 0, "")
    words = f"{path}: {what}: {error.strerror or error}.{advice}"
    raise type(error)(error.errno or errno.EIO, words) from None
