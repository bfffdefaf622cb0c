"""Files as bytes: by name or standard input, gzipped or plain; a damaged one is refused by name."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import sys
import zlib
from typing import Any, BinaryIO

from heavytail._validate import printable

__all__ = ["STDIN", "UNREADABLE", "damaged", "stream_of", "unzipped"]

STDIN = "-"
ZIPPED = b"\x1f\x8b"  # what a gzipped file begins with
UNREADABLE = (OSError, EOFError, zlib.error)  # errors of reading what may be gzipped


def damaged(source: str, error: Exception, row: int | None = None, *, of: str = "") -> ValueError:
    """The error for a file that cannot be read, from a row on where one is given; ``of`` is what
    else may be the matter.
    """
    place = source if row is None else f"{source}, row {row}: cannot be read from here on, the file"
    why = printable(str(error))
    return ValueError(f"{place} is {of}cut short or damaged ({why}). Write or fetch it again.")


def unzipped(stream: io.BufferedReader) -> io.BufferedReader:
    """The bytes of a stream, unpacked where they are gzipped."""
    if stream.peek(2)[:2] != ZIPPED:
        return stream
    return io.BufferedReader(gzip.GzipFile(fileobj=stream))


def stream_of(path: str, name: str, stack: contextlib.ExitStack) -> io.BufferedReader:
    """The bytes of a file, or of standard input, open as long as the stack is."""
    if path == STDIN:
        if sys.stdin is None:
            raise ValueError("standard input is closed. Name a file.")
        return io.BufferedReader(_Kept(sys.stdin.buffer))
    if not path:
        raise ValueError("the file's name is empty. Name a file, or - for standard input.")
    if stat.S_ISDIR(os.stat(path).st_mode):
        raise ValueError(f"{name} is a folder. Name a file in it.")
    return stack.enter_context(open(path, "rb"))


class _Kept(io.RawIOBase):
    """A stream that stays open when its reader is thrown away."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._stream.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)
