"""A file of records that is only appended to, each with its length and a checksum.

A record is whole on disk, or it is not there: what a crash tore off at the end is dropped when the
file is read. A record that is damaged though later ones were written after it was safe is no torn
end, and is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytail._validate import check_number, printable, shown
from heavytail.logs.entries import BOUNDS, Entry, checked, checked_context, checked_ids
from heavytail.logs.records import MAGIC, SIZE, record, records

__all__ = [
    "HEADER",
    "Journal",
    "begun",
    "opened_folder",
    "parsed",
    "same_file",
    "sync_folder",
    "written",
]

HEADER = "heavytail decisions 1"
MOST = 2**53  # of what is counted


@dataclass(frozen=True)
class Journal:
    """What a journal says: how it begins, the decisions in it, and where its whole records end."""

    first: int  # number of the first decision that is in no part
    dim: int | None
    entries: dict[int, Entry]  # by number
    end: int


def begun(first: int, dim: int | None, kept: Sequence[Entry] = ()) -> bytes:
    """A journal from decision ``first`` on, with what is ``kept`` of the one before."""
    head = record({"format": HEADER, "first": first, "dim": dim}, True)
    rest = [entry.record(True) for entry in kept]
    rest += [entry.reward_record(True) for entry in kept if entry.reward is not None]
    return head + b"".join(rest)


def parsed(path: str, content: bytes) -> Journal:
    """The journal in ``content``, but for a torn end; ValueError where it is damaged otherwise."""
    end, number, first, dim = 0, 0, 0, None
    entries: dict[int, Entry] = {}
    try:
        for end, _, body in records(content):  # noqa: B007
            word, told, rest = _opened(body)
            if number == 0:
                first, dim = _begun(word, told)
            elif word == "decided":
                entry = _entry(told, rest, first + len(entries), dim)
                entries[entry.number] = entry
                dim = entry.arms.shape[1]
            else:
                _reward(word, told, entries)
            if rest and word != "decided":
                raise ValueError("bytes that belong to nothing")
            number += 1
        waiting = [entry.token for entry in entries.values() if entry.reward is None]
        if len(set(waiting)) < len(waiting):
            number -= 1
            raise ValueError("up to here two decisions of one token wait")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(path, number, printable(str(error))) from None
    if number == 0 or _goes_on(content, end):
        raise _damaged(path, number, "its checksum does not fit")
    return Journal(first, dim, entries, end)


def _goes_on(content: bytes, end: int) -> bool:
    """Whether behind the first record that is not whole there is one that was written after it was
    safe: then it is no torn end.
    """
    at = content.find(MAGIC, end + 1)
    while at >= 0:
        if any(flag for _, flag, _ in records(content, at)):
            return True
        at = content.find(MAGIC, at + 1)
    return False


def _opened(body: bytes) -> tuple[str, dict[str, Any], bytes]:
    """What a record is about, what it says, and the bytes behind that."""
    (size,) = SIZE.unpack_from(body)
    told = json.loads(body[SIZE.size : SIZE.size + size].decode())
    word = next(iter(told), "") if isinstance(told, dict) else ""
    if word in ("decided", "rewarded") and len(told) == 1:
        told = told[word]
    if not isinstance(told, dict) or size > len(body) - SIZE.size:
        raise ValueError(f"it says {shown(told)}")
    return word, told, body[SIZE.size + size :]


def _keys(told: dict[str, Any], wanted: tuple[str, ...]) -> None:
    if set(told) != set(wanted):
        raise ValueError(f"it has {shown(list(told))} in place of {', '.join(wanted)}")


def _whole(name: str, got: Any, least: int = 0) -> int:
    if type(got) is not int or not least <= got <= MOST:
        raise ValueError(f"{name} is {shown(got)}")
    return got


def _begun(word: str, told: dict[str, Any]) -> tuple[int, int | None]:
    """First decision and number of features, of the record that begins a journal."""
    if word != "format" or told["format"] != HEADER:
        raise ValueError(f"its format is {shown(told.get('format'))}")
    _keys(told, ("format", "first", "dim"))
    dim = None if told["dim"] is None else _whole("dim", told["dim"], 1)
    return _whole("first", told["first"]), dim


def _entry(told: dict[str, Any], rest: bytes, number: int, dim: int | None) -> Entry:
    wanted = ("number", "token", "action", "shape", *BOUNDS, "ids")
    _keys(told, (*wanted, "context") if "context" in told else wanted)  # at first there was none
    if _whole("number", told["number"]) != number:
        raise ValueError(f"number {told['number']} stands where {number} should")
    shape = told["shape"]
    if not isinstance(shape, list) or len(shape) != 2:
        raise ValueError(f"shape is {shown(shape)}")
    count, width = (_whole("shape", size, 1) for size in shape)
    if dim not in (None, width) or 8 * count * width != len(rest):
        raise ValueError(f"{len(rest)} bytes are no arms of shape {shape} and {dim} features")
    arms = np.frombuffer(rest, dtype="<f8").astype(np.float64).reshape(count, width)
    if not np.isfinite(arms).all():
        raise ValueError("arms are not finite")
    action, token = _whole("action", told["action"]), _whole("token", told["token"])
    if action >= count:
        raise ValueError(f"action is {action}, of {count} arms")
    ids = None if told["ids"] is None else checked_ids("ids", told["ids"], count)
    context = None
    if "context" in told:
        context = checked_context("context", _plain(told["context"]))
    numbers = {name: checked("decided", name, told[name]) for name in BOUNDS}
    return Entry(number, token, action, arms, ids=ids, context=context, **numbers)


def _plain(text: Any) -> Any:
    """What JSON says inside of JSON."""
    if not isinstance(text, str):
        raise ValueError(f"context is {shown(text)}")
    return json.loads(text)


def _reward(word: str, told: dict[str, Any], entries: dict[int, Entry]) -> None:
    """Take the reward that a record speaks of."""
    if word != "rewarded":
        raise ValueError(f"it is about {shown(word)}")
    _keys(told, ("number", "reward", "time"))
    number = _whole("number", told["number"])
    if number not in entries or entries[number].reward is not None:
        raise ValueError(f"a reward for {number}, which does not wait for one")
    reward, when = (check_number(name, told[name]) for name in ("reward", "time"))
    entries[number] = entries[number].rewarded(reward, when)


def _damaged(path: str, number: int, why: object) -> ValueError:
    return ValueError(
        f"{path}, record {number}: is damaged ({why}), and is not the end that a crash tears off. "
        "Nothing was changed; take the file from a backup."
    )


def sync_folder(path: str) -> None:
    """What was renamed in a folder stays renamed."""
    with opened_folder(path) as sync:
        sync()


@contextlib.contextmanager
def opened_folder(path: str) -> Iterator[Callable[[], None]]:
    """What makes renames in a folder stay, at any time and without another descriptor."""
    if os.name != "posix":
        yield lambda: None
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        yield lambda: os.fsync(handle)
    finally:
        os.close(handle)


def written(path: str, content: bytes, mode: int) -> int:
    """A new file with this content on the disk, as a descriptor that appends to it."""
    with contextlib.suppress(FileNotFoundError):  # of a process that was killed
        os.unlink(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)
    try:
        os.chmod(path, stat.S_IMODE(mode))
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    except BaseException:
        os.close(handle)
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    return handle


def same_file(handle: int, path: str) -> bool:
    """Whether a descriptor is that of the file which bears this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
