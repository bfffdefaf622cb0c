"""DecisionLogs of the earlier format, which are read to be converted and never written.

The folder has Parquet files ``part-000000000000.parquet``, of decisions from that number on, and a
``journal`` of those that are in no part: records with their length and a checksum. A part may have
been written just before the journal that forgets its decisions, which are then in both.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heavytail._locking import BUSY, hold, opened
from heavytail._typing import FloatArray
from heavytail._validate import check_number, printable, shown
from heavytail.ledger.decision import Decision
from heavytail.logs.decision_log import DecisionLog
from heavytail.logs.reading.files import EARLIER, units
from heavytail.logs.reading.tables import Reading

__all__ = ["convert"]

MAGIC = b"\xd5L"
HEAD = struct.Struct("<2sBII")  # magic, whether all before is safe, length, checksum
SIZE = struct.Struct("<I")  # of the JSON in front of the arms
FORMAT = "heavytail decisions 1"
KEYS = ("number", "token", "action", "shape", "probability", "score", "time", "ids")
MOST = 2**53  # of what is counted
BATCH = 1000  # decisions that are read, or forced to the disk, at once


class Old(NamedTuple):
    """A decision with its arms and, where it came, its reward and the reward's time."""

    decision: Decision
    arms: FloatArray
    ids: Sequence[str | int] | None
    context: Mapping[str, Any] | None
    reward: tuple[float, float] | None


def convert(old: str, new: str) -> int:
    """Copy the decisions of ``old`` to ``new``, which must not exist; return their number."""
    if not os.path.isfile(os.path.join(old, EARLIER)):
        raise ValueError(f"{old} is no DecisionLog of the earlier format: it has no {EARLIER}.")
    if os.path.lexists(new):
        raise ValueError(f"{new} is there already. Name a folder that is not.")
    lock = opened(os.path.join(old, "lock"), 0o666)
    try:
        _hold(lock, old)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(new))) as folder:
            count = _written(old, os.path.join(folder, "log"))
            os.replace(os.path.join(folder, "log"), new)
        return count
    finally:
        os.close(lock)


def _hold(lock: int, path: str) -> None:
    try:
        hold(lock)
    except OSError as error:
        if error.errno not in BUSY:
            raise
        raise BlockingIOError(error.errno, f"{path}: a DecisionLog writes here. Close it") from None


def _written(old: str, new: str) -> int:
    """Write all decisions, those in parts first; those without a reward no longer wait."""
    journal, first = _journal(os.path.join(old, EARLIER))
    with DecisionLog(new, group=BATCH) as log:
        count = 0
        for path in sorted(map(str, Path(old).glob("part-*.parquet"))):
            if Path(path).stem != f"part-{count:012d}":
                raise ValueError(
                    f"{path}: decisions are missing or there twice before it. Take the folder from "
                    "a backup."
                )
            count += _log_all(log, path, _part(path))
        log.expire(0)
        if first > count:
            raise ValueError(
                f"{old}: decisions {count} to {first - 1} are missing: a part is gone. Take the "
                "folder from a backup."
            )
        rest = journal[count - first :] if count > first else journal
        return count + _log_all(log, os.path.join(old, EARLIER), iter(rest))


def _log_all(log: DecisionLog, path: str, decisions: Iterator[Old]) -> int:
    """Log them and return their number; refuse what no log can have accepted."""
    count = 0
    try:
        for decision, arms, ids, context, reward in decisions:
            log.decided(decision, arms, ids, context)
            if reward is not None:
                log.rewarded(decision.token, *reward)
            count += 1
    except (ValueError, TypeError) as error:
        raise _damaged(path, f"decision {count}", error) from None
    return count


def _part(path: str) -> Iterator[Old]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for unit in units(path, Reading(size=BATCH)):
        file = pq.ParquetFile(path, page_checksum_verification=True)
        try:
            rows = file.read_row_groups(list(unit.groups)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, f"row {unit.first}", error) from None
        for row in rows:
            try:
                came = None if row["reward"] is None else (row["reward"], row["reward_time"])
                context = row.get("context_json")
                arms = np.array(row["arms"], dtype=np.float64)
                yield _old({**row, "probability": row["propensity"]}, arms, context, came)
            except (KeyError, IndexError) as error:
                raise ValueError(f"it is no part that a DecisionLog wrote: {error!r}") from None


def _journal(path: str) -> tuple[list[Old], int]:
    """The decisions of a journal, but for a torn end, and the number of the first."""
    content = Path(path).read_bytes()
    decisions: list[Old] = []
    end = count = first = 0
    dim = None
    try:
        for end, _, body in _records(content, 0):  # noqa: B007
            (size,) = SIZE.unpack_from(body)
            text, rest = body[SIZE.size : SIZE.size + size], body[SIZE.size + size :]
            said = json.loads(text.decode())
            if count == 0:
                first, dim = _begun(said)
            elif set(said) == {"decided"}:
                decisions.append(_decided(said["decided"], rest, first + len(decisions), dim))
            elif not rest:
                _rewarded(said["rewarded"], decisions, first)
            else:
                raise ValueError("bytes that belong to nothing")
            count += 1
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise _damaged(path, f"record {count}", error) from None
    behind = range(end + 1, len(content))
    goes_on = any(
        safe
        for at in behind
        if content.startswith(MAGIC, at)
        for _, safe, _ in _records(content, at)
    )
    if count == 0 or goes_on:  # a record that was safe is behind one that is not whole
        raise _damaged(path, f"record {count}", "its checksum does not fit")
    return decisions, first


def _records(content: bytes, at: int) -> Iterator[tuple[int, int, bytes]]:
    """(end, whether it is safe up to here, body) of every complete record."""
    while len(content) >= at + HEAD.size:
        magic, flag, length, check = HEAD.unpack_from(content, at)
        body = content[at + HEAD.size : at + HEAD.size + length]
        whole = magic == MAGIC and flag in (0, 1) and len(body) == length >= SIZE.size
        if not whole or zlib.crc32(body, flag) != check:
            return
        at += HEAD.size + length
        yield at, flag, body


def _begun(said: dict[str, Any]) -> tuple[int, int | None]:
    """First decision and number of features, of the record that begins a journal."""
    fits = set(said) == {"format", "first", "dim"} and said["format"] == FORMAT
    if not (fits and _whole(said["first"]) and (said["dim"] is None or _whole(said["dim"], 1))):
        raise ValueError(f"it says {shown(said)}")
    return said["first"], said["dim"]


def _whole(number: object, least: int = 0) -> bool:
    return type(number) is int and least <= number <= MOST


def _decided(said: dict[str, Any], rest: bytes, number: int, dim: int | None) -> Old:
    fits = set(said) - {"context"} == set(KEYS) and _whole(said["number"])
    count, width = said["shape"]
    if not (fits and _whole(count, 1) and _whole(width, 1)) or said["number"] != number:
        raise ValueError(f"it says {shown(said)} where decision {number} should stand")
    if dim not in (None, width):
        raise ValueError(f"arms have {width} features, and those of this log {dim}")
    arms = np.frombuffer(rest, dtype="<f8").reshape(said["shape"])
    return _old(said, arms, said.get("context"), None)


def _old(
    said: dict[str, Any], arms: FloatArray, context: str | None, reward: tuple[float, float] | None
) -> Old:
    arm = said["action"]
    if not (_whole(arm) and _whole(said["token"])):
        raise ValueError(f"action is {shown(arm)}, token {shown(said['token'])}")
    numbers = (said[name] for name in ("probability", "score", "time"))
    decision = Decision(said["token"], arm, arms[arm], *numbers)
    values = None if context is None else json.loads(context)
    return Old(decision, arms, said["ids"], values, reward)


def _rewarded(said: dict[str, Any], decisions: list[Old], first: int) -> None:
    """Apply a record of a reward."""
    place = said["number"] - first if _whole(said["number"]) else -1
    if set(said) != {"number", "reward", "time"} or place < 0 or decisions[place].reward:
        raise ValueError(f"a reward for {shown(said['number'])}, which does not wait for one")
    reward, when = (check_number(name, said[name]) for name in ("reward", "time"))
    decisions[place] = decisions[place]._replace(reward=(reward, when))


def _damaged(path: str, where: str, why: object) -> ValueError:
    return ValueError(
        f"{path}, {where}: is damaged ({printable(str(why))}). Nothing was changed; take the file "
        "from a backup."
    )
