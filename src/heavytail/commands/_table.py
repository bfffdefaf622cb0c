"""A user's table, whatever it lies in: columns of numbers from CSV, Parquet or standard input.

Text may be gzipped, in UTF-8, UTF-16 or Latin-1, separated by commas, semicolons, tabs or bars,
with a decimal comma, with or without a row of names; what can be told from the text is not asked
for. What cannot be read is refused by row and column. Rows are counted as a spreadsheet does, from
1, the names being a row.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import os
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import on_one_line, printable, shown
from heavytail.commands._cells import COMMA, Cells, Words, is_missing, looks_like_number

__all__ = ["Rows", "Table", "check_columns", "listed", "opened"]

CHUNK = 65_536  # rows handed on at a time ...
CELLS = 2**22  # ... if they are of few columns
LONGEST = 2**24  # characters of a line
LOOKED_AT = 100  # lines that say how the text is written
SEPARATORS = "\t;|,"  # a comma may be a decimal one, so it comes last
PARQUET, ZIPPED, ARCHIVE = b"PAR1", b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
STDIN = "-"
NONE = "\x1f"  # the separator of one column


@dataclass(frozen=True)
class Rows:
    """Some rows: their numbers in the file, (n,), and their values, (n, columns)."""

    at: IntArray
    values: FloatArray


class Table(Protocol):
    """Columns by name, read once from the front."""

    path: str
    names: list[str]
    named: bool  # whether the names are the file's own
    skipped: int  # rows left out so far

    def numbers(
        self,
        columns: Sequence[str],
        *,
        skip_missing: bool,
        hint: str = "",
        words: Mapping[str, Words] | None = None,
    ) -> Iterator[Rows]:
        """The columns as numbers, some rows at a time; ``hint`` is what to do about text, except
        in the columns of ``words``, where words are numbered.
        """


@contextlib.contextmanager
def opened(path: str, *, decimal_comma: bool = False, header: str | None = None) -> Iterator[Table]:
    """The table in a file, or in standard input where ``path`` is "-"."""
    name = "standard input" if path == STDIN else on_one_line(path)
    with contextlib.ExitStack() as stack:
        stream = _stream(path, name, stack)
        first = stream.peek(4)[:4]
        if first == PARQUET:
            yield _parquet(stream, name, path)
            return
        if first.startswith(ZIPPED):
            stream = io.BufferedReader(gzip.GzipFile(fileobj=stream))
        try:
            first = stream.peek(4)[:4]
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(name, error) from None
        if first.startswith(ARCHIVE):
            raise ValueError(f"{name} is an archive, a workbook perhaps. Save the sheet as CSV.")
        text = stack.enter_context(_decoded(stream))
        yield _Text(_lines(text, name), name, decimal_comma, header)


def check_columns(table: Table, columns: Sequence[str], option: str) -> None:
    """Refuse columns that the table does not have, or has twice."""
    counts = Counter(table.names)
    for column in columns:
        if column not in counts:
            raise ValueError(
                f"{table.path} has no column {shown(column)}; it has {listed(table)}. Name one of "
                f"them by {option}."
            )
        if counts[column] > 1:
            raise ValueError(f"{table.path} has two columns {shown(column)}. Rename one of them.")


def _at_a_time(columns: Sequence[str]) -> int:
    """Rows of so many columns that are handed on together."""
    return max(1, min(CHUNK, CELLS // len(columns)))


def listed(table: Table) -> str:
    """The names of its columns, as far as they fit on a line."""
    names = printable(", ".join(name or "(no name)" for name in table.names))
    return names if table.named else f"no names: its columns are called {names}"


def _stream(path: str, name: str, stack: contextlib.ExitStack) -> io.BufferedReader:
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


def _damaged(name: str, error: Exception) -> ValueError:
    why = printable(str(error))
    return ValueError(f"{name} is damaged or cut off ({why}). Fetch or write it again.")


def _decoded(stream: io.BufferedReader) -> io.TextIOWrapper:
    if stream.peek(2)[:2] in UTF16:
        return io.TextIOWrapper(stream, encoding="utf-16", newline="")
    codecs.register_error(LATIN, _as_latin)
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors=LATIN, newline="")


def _lines(text: io.TextIOWrapper, name: str) -> Iterator[str]:
    """Lines of text, none of them so long that it must be something else."""
    try:
        while line := text.readline(LONGEST):
            if "\0" in line:
                raise ValueError(f"{name} is not text: it has zero bytes. Pass CSV or Parquet.")
            if len(line) == LONGEST:
                raise ValueError(f"{name} has a line of {LONGEST} characters. Is it a CSV file?")
            yield line
    except UnicodeDecodeError as error:
        raise _damaged(name, error) from None
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(name, error) from None


LATIN = "heavytail.latin"  # bytes that are no UTF-8 are Latin-1, as old spreadsheets write it


def _as_latin(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


class _Text:
    """A table of text."""

    def __init__(
        self, lines: Iterator[str], path: str, decimal_comma: bool, header: str | None
    ) -> None:
        self.path, self.skipped = path, 0
        head = list(itertools.islice(lines, LOOKED_AT))
        if not any(line.strip() for line in head):
            raise ValueError(f"{path} is empty. Pass a table with some rows.")
        separator = _separator(head, decimal_comma)
        self._rows = _parsed(path, itertools.chain(head, lines), separator)
        self._decimal_comma = decimal_comma or separator == ";"
        self._points = (
            "none" if decimal_comma else "doubted" if _has_commas(head, separator) else "all"
        )
        first = next(self._rows)
        cells = [cell.strip() for cell in first[1]]
        alone = any(map(looks_like_number, cells)) and all(
            looks_like_number(cell) or is_missing(cell) for cell in cells
        )
        self.named = header == "yes" or (header is None and not alone)
        self.names = cells if self.named else [str(k + 1) for k in range(len(cells))]
        self._first = None if self.named else first

    def numbers(
        self,
        columns: Sequence[str],
        *,
        skip_missing: bool,
        hint: str = "",
        words: Mapping[str, Words] | None = None,
    ) -> Iterator[Rows]:
        place_of = {name: place for place, name in enumerate(self.names)}
        places = [place_of[column] for column in columns]
        most = _at_a_time(columns)
        cells: list[Cells | Words] = [
            (words or {}).get(column)
            or Cells(self.path, column, self._decimal_comma, self._points, hint)
            for column in columns
        ]
        numbers: list[int] = []
        kept: list[list[float]] = []
        for row, texts in self._all():
            if any(map(str.strip, texts[len(self.names) :])):
                raise ValueError(
                    f"{self.path}, row {row}: {len(texts)} cells in {len(self.names)} columns. Put "
                    "quotes around a cell that has a separator in it."
                )
            values: list[float] = []
            for place, column_cells in zip(places, cells, strict=True):
                text = texts[place].strip() if place < len(texts) else ""
                value = column_cells.number(row, text, skip_missing=skip_missing)
                if value is None:
                    break
                values.append(value)
            if len(values) < len(places):
                self.skipped += 1
                continue
            numbers.append(row)
            kept.append(values)
            if len(numbers) == most:
                yield Rows(np.array(numbers), np.array(kept))
                numbers, kept = [], []
        if numbers:
            yield Rows(np.array(numbers), np.array(kept))

    def _all(self) -> Iterator[tuple[int, list[str]]]:
        if self._first is not None:
            yield self._first
        yield from self._rows


def _separator(head: list[str], decimal_comma: bool) -> str:
    """The first separator by which the first row has several cells, and no row has more; else the
    most frequent one in that row; one that does not occur, where there is one column.
    """
    known = SEPARATORS.replace(",", "") if decimal_comma else SEPARATORS
    for separator in known:
        try:
            counts = [len(row) for row in csv.reader(head, delimiter=separator) if row]
        except csv.Error:
            continue
        if counts and counts[0] > 1 and max(counts) == counts[0]:
            return separator
    first = next(line for line in head if line.strip())
    frequent = max(known, key=first.count)
    return frequent if frequent in first else NONE


def _has_commas(head: list[str], separator: str) -> bool:
    """Tell whether a cell of these lines is a number with a decimal comma."""
    try:
        rows = list(csv.reader(head, delimiter=separator))
    except csv.Error:
        return False
    return any(COMMA.fullmatch(cell.strip()) for row in rows for cell in row)


def _parsed(path: str, lines: Iterator[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, as lists of cells, with their numbers."""
    reader, row = csv.reader(lines, delimiter=separator), 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:  # a cell of more characters than a cell may have, for one
            raise ValueError(f"{path}, row {row}: {error}. Is it a CSV file?") from None
        if cells is None:
            return
        if cells:
            yield row, cells
        row += 1


class _Parquet:
    """A table of Parquet."""

    named = True

    def __init__(self, file: Any, path: str) -> None:
        self.path, self.skipped, self._file = path, 0, file
        self.names = list(file.schema_arrow.names)

    def numbers(
        self,
        columns: Sequence[str],
        *,
        skip_missing: bool,
        hint: str = "",
        words: Mapping[str, Words] | None = None,
    ) -> Iterator[Rows]:
        import pyarrow as pa

        words = words or {}
        for column in columns:
            column_type = self._file.schema_arrow.field(column).type
            if column in words:
                what, fits = (
                    "words",
                    not pa.types.is_nested(column_type) and not pa.types.is_binary(column_type),
                )
            else:
                what, fits = "numbers", _number(column_type)
            if not fits:
                raise ValueError(
                    f"{self.path}, column {shown(column)} holds no {what}: "
                    f"{printable(str(column_type))}.{hint}"
                )
        start = 1
        try:
            for batch in self._file.iter_batches(_at_a_time(columns), columns=list(columns)):
                values = np.column_stack(
                    [
                        _numbered(batch.column(column), words[column], start, skip_missing)
                        if column in words
                        else batch.column(column)
                        .cast(pa.float64(), safe=False)
                        .to_numpy(zero_copy_only=False)
                        for column in columns
                    ]
                )
                yield self._checked(values, columns, start, skip_missing)
                start += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.path, error) from None

    def _checked(
        self, values: FloatArray, columns: Sequence[str], start: int, skip_missing: bool
    ) -> Rows:
        numbers = np.arange(start, start + len(values))
        missing = np.isnan(values)
        if missing.any() and not skip_missing:
            row, place = np.argwhere(missing)[0]
            raise ValueError(
                f"{self.path}, row {numbers[row]}, column {shown(columns[place])}: the value is "
                "missing. Fill it, or pass --skip-missing."
            )
        endless = np.argwhere(np.isinf(values))
        if len(endless):
            row, place = endless[0]
            raise ValueError(
                f"{self.path}, row {numbers[row]}, column {shown(columns[place])}: "
                f"{values[row, place]} is not a finite number."
            )
        kept = ~missing.any(axis=1)
        self.skipped += int(np.sum(~kept))
        return Rows(numbers[kept], values[kept])


def _number(column_type: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_integer(column_type)
        or types.is_floating(column_type)
        or types.is_decimal(column_type)
    )


def _numbered(column: Any, words: Words, start: int, skip_missing: bool) -> FloatArray:
    """A column of words as their numbers, NaN where one is missing."""
    import pyarrow as pa

    texts = column.cast(pa.string()).to_pylist()
    numbers = [
        words.number(row, (text or "").strip(), skip_missing=skip_missing)
        for row, text in enumerate(texts, start)
    ]
    return np.array([np.nan if number is None else number for number in numbers])


def _parquet(stream: io.BufferedReader, name: str, path: str) -> _Parquet:
    from heavytail._extras import need

    need(f"{name}, Parquet,", "pyarrow", extra="logs")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return _Parquet(pq.ParquetFile(io.BytesIO(stream.read()) if path == STDIN else path), name)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(name, error) from None
