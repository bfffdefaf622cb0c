"""Records of a file that is only appended to, each with its length and a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

__all__ = ["MAGIC", "SIZE", "record", "records"]

MAGIC = b"\xd5L"
HEAD = struct.Struct("<2sBII")  # magic, whether all before is safe, length, checksum
SIZE = struct.Struct("<I")  # of the JSON in front of the arms


def record(told: dict[str, Any], safe: bool, rest: bytes = b"") -> bytes:
    """JSON and bytes as a record; ``safe`` where all before it is known to be on disk."""
    text = json.dumps(told, allow_nan=False, separators=(",", ":")).encode()
    body = SIZE.pack(len(text)) + text + rest
    flag = int(safe)
    return HEAD.pack(MAGIC, flag, len(body), zlib.crc32(body, flag)) + body


def records(content: bytes, at: int = 0) -> Iterator[tuple[int, int, bytes]]:
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
