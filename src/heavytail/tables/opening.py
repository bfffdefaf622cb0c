"""Files opened as tables: of numbers for the command line, whole for those who want all of it."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

from heavytail._validate import on_one_line
from heavytail.tables.cells import GROUPED, is_missing, looks_like_number
from heavytail.tables.file import File
from heavytail.tables.frames import Table, table
from heavytail.tables.parquet import MAGIC, Parquet, parquet
from heavytail.tables.streams import STDIN, UNREADABLE, damaged, stream_of, unzipped
from heavytail.tables.text import Text, decoded

__all__ = ["opened", "rows_of"]

ENOUGH, MOSTLY = 20, 0.95  # cells, and the share of numbers from which on texts are mistakes
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


def rows_of(data: object, source: str) -> Table:
    """A frame, a dict of columns, a list of dicts, or all of a CSV or Parquet file as a table."""
    if not isinstance(data, str | os.PathLike):
        return table(data, source)
    with opened(os.fspath(data)) as file:
        if len(set(file.names)) < len(file.names):
            twice = next(n for i, n in enumerate(file.names) if n in file.names[:i])
            raise ValueError(f"{file.path}: two columns are called {twice!r}. Rename one of them.")
        parts = list(file.parts(file.names, 2**62, skip_missing=False))
        whole = parts[0] if parts else Table({name: [] for name in file.names}, file.path, range(0))
        if isinstance(file, Parquet):
            return whole
        columns = {name: _typed(name, list(whole.column(name)), file, whole) for name in file.names}
        return whole._replace(columns=columns)


def _typed(name: str, cells: list[str], file: File, whole: Table) -> Any:
    """A column of a text file: numbers where all of it that is not missing are, else texts. Of
    texts only an empty one is missing: "none" may be an offer, and "NA" a country. A column of
    numbers but for a few cells is refused, and the first of them named.
    """
    try:
        if any(not is_missing(cell) for cell in cells) or not any(map(str.strip, cells)):
            return file.reader()(cells, whole.place(name))
    except (ValueError, TypeError):
        known = [cell for cell in cells if not is_missing(cell)]
        plain = sum(map(looks_like_number, known))
        grouped = sum(GROUPED.fullmatch(cell) is not None for cell in known) if plain else 0
        if len(known) >= ENOUGH and plain + grouped >= MOSTLY * len(known):
            raise
    return [cell if cell.strip() else None for cell in cells]
