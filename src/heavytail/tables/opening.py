"""Files of the command line, opened as tables of numbers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

from heavytail._validate import on_one_line
from heavytail.tables.file import File
from heavytail.tables.parquet import MAGIC, Parquet, parquet
from heavytail.tables.streams import STDIN, UNREADABLE, damaged, stream_of, unzipped
from heavytail.tables.text import Text, decoded

__all__ = ["opened"]

ARCHIVE = b"PK\x03\x04"


@contextlib.contextmanager
def opened(path: str, *, decimal_comma: bool = False, header: str | None = None) -> Iterator[File]:
    """The table in a file, or in standard input where ``path`` is "-"."""
    name = "standard input" if path == STDIN else on_one_line(path)
    with contextlib.ExitStack() as stack:
        stream = stream_of(path, name, stack)
        first = stream.peek(4)[:4]
        if first == MAGIC:
            yield Parquet(parquet(io.BytesIO(stream.read()) if path == STDIN else path, name), name)
            return
        try:
            stream = unzipped(stream)
            first = stream.peek(4)[:4]
        except UNREADABLE as error:
            raise damaged(name, error) from None
        if first.startswith(ARCHIVE):
            raise ValueError(f"{name} is an archive, a workbook perhaps. Save the sheet as CSV.")
        yield Text(stack.enter_context(decoded(stream)), name, decimal_comma, header)
