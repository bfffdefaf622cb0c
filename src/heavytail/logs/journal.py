"""A file of records that is only appended to, each with its length and a checksum.

A record is whole on disk, or it is not there: what a crash tore off at the end is dropped when the
file is read. A record that is damaged though later ones were written after it was safe is no torn
end, and is refused.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_number, printable, shown
from heavytail.policies.core.decisions import Decision

__all__ = [
    "BOUNDS",
    "HEADER",
    "Entry",
    "Journal",
    "checked",
    "checked_ids",
    "opened_folder",
    "parsed",
    "record",
    "same_file",
    "sync_folder",
    "written",
]

MAGIC = b"\xd5L"
HEAD = struct.Struct("<2sBII")  # magic, whether all before is safe, length, checksum
SIZE = struct.Struct("<I")  # of the JSON in front of the arms
HEADER = "heavytail decisions 1"
MOST = 2**53  # of what is counted
BOUNDS: dict[str, dict[str, Any]] = {  # of what may be None, too
    "probability": {"above": 0.0, "most": 1.0},
    "score": {},
    "time": {},
}


@dataclass(frozen=True, eq=False)
class Entry:
    """A decision in the log, with its reward once that is known."""

    number: int  # among all decisions of the log
    token: int
    action: int
    arms: FloatArray
    probability: float | None
    score: float | None
    time: float | None
    ids: tuple[str, ...] | None
    reward: float | None = None
    reward_time: float | None = None

    def same(self, decision: Decision) -> bool:
        """Whether it is this decision, and not another of the same token."""
        same = (self.action, self.time) == (decision.arm, decision.time)
        return same and np.array_equal(self.arms[self.action], decision.x)

    def record(self, safe: bool) -> bytes:
        """It as it was decided."""
        told = {
            "number": self.number,
            "token": self.token,
            "action": self.action,
            "shape": list(self.arms.shape),
            "probability": self.probability,
            "score": self.score,
            "time": self.time,
            "ids": None if self.ids is None else list(self.ids),
        }
        return record({"decided": told}, safe, self.arms.astype("<f8").tobytes())

    def rewarded(self, reward: float, when: float) -> Entry:
        """It with its reward."""
        return replace(self, reward=reward, reward_time=when)

    def reward_record(self, safe: bool) -> bytes:
        """Its reward."""
        told = {"number": self.number, "reward": self.reward, "time": self.reward_time}
        return record({"rewarded": told}, safe)


def checked(where: str, name: str, got: Any) -> float | None:
    """A number of a decision, or None, or an error."""
    return None if got is None else check_number(f"{where}: {name}", got, **BOUNDS[name])


def checked_ids(where: str, ids: Any, count: int) -> tuple[str, ...]:
    """Names of the arms as text that a file can hold, or an error."""
    wanted = f"{where} must be a list of text or whole numbers, one per arm"
    if isinstance(ids, str | bytes | bytearray | Set | Mapping) or not hasattr(ids, "__len__"):
        raise TypeError(f"{wanted}; got {shown(ids)}.")
    found = list(itertools.islice(ids, count + 1)) if len(ids) == count else []
    if len(found) != count:
        raise ValueError(f"{where}: {count} arms need as many ids; got {len(ids)}.")
    return tuple(_name(wanted, k, one) for k, one in enumerate(found))


def _name(wanted: str, k: int, one: Any) -> str:
    if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
        raise TypeError(f"{wanted}; got {shown(one)} at {k}.")
    try:
        name = str.__str__(one) if isinstance(one, str) else str(int(one))
        name.encode()
    except ValueError as error:  # half a character, or more digits than Python prints
        problem = f"{wanted}; got {shown(one)} at {k}, which is no text ({printable(str(error))})."
        raise ValueError(problem) from None
    return name


def record(told: dict[str, Any], safe: bool, rest: bytes = b"") -> bytes:
    """JSON and bytes as a record; ``safe`` where all before it is known to be on disk."""
    text = json.dumps(told, allow_nan=False, separators=(",", ":")).encode()
    body = SIZE.pack(len(text)) + text + rest
    flag = int(safe)
    return HEAD.pack(MAGIC, flag, len(body), zlib.crc32(body, flag)) + body


def _records(content: bytes, at: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """(end, whether it is safe up to here, body) of whole records, as far as there are any."""
    while True:
        found = _record(content, at)
        if found is None:
            return
        flag, body = found
        at += HEAD.size + len(body)
        yield at, flag, body


def _record(content: bytes, at: int) -> tuple[int, bytes] | None:
    if len(content) < at + HEAD.size:
        return None
    magic, flag, length, check = HEAD.unpack_from(content, at)
    body = content[at + HEAD.size : at + HEAD.size + length]
    whole = magic == MAGIC and flag in (0, 1) and len(body) == length >= SIZE.size
    return (flag, body) if whole and zlib.crc32(body, flag) == check else None


@dataclass(frozen=True)
class Journal:
    """What a journal says: how it begins, the decisions in it, and where its whole records end."""

    first: int  # number of the first decision that is in no part
    dim: int | None
    entries: dict[int, Entry]  # by number
    end: int


def parsed(path: str, content: bytes) -> Journal:
    """The journal in ``content``, but for a torn end; ValueError where it is damaged otherwise."""
    end, number, first, dim = 0, 0, 0, None
    entries: dict[int, Entry] = {}
    try:
        for end, _, body in _records(content):  # noqa: B007
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
        if any(flag for _, flag, _ in _records(content, at)):
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
    _keys(told, ("number", "token", "action", "shape", *BOUNDS, "ids"))
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
    numbers = {name: checked("decided", name, told[name]) for name in BOUNDS}
    return Entry(number, token, action, arms, ids=ids, **numbers)


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
