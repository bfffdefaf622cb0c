"""Tables of text: gzipped or plain, in UTF-8, UTF-16 or Windows-1252, however it is separated.

By commas, semicolons, tabs or bars, with a decimal comma, with or without a row of names; what can
be told from the text is not asked for. What cannot be read is refused by row and column. Rows are
counted as a spreadsheet does, from 1, the names being a row.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections.abc import Iterator, Sequence

from heavytail.tables.cells import COMMA, Cells, is_missing, looks_like_number
from heavytail.tables.file import File, Reader
from heavytail.tables.frames import Table, of_columns
from heavytail.tables.streams import UNREADABLE, damaged

__all__ = ["Text", "decoded"]

LONGEST = 2**24  # characters of a line
LOOKED_AT = 100  # lines that say how the text is written
SEPARATORS = "\t;|,"  # a comma may be a decimal one, so it comes last
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
NONE = "\x1f"  # the separator of one column
WINDOWS = "heavytail.windows"  # bytes that are no UTF-8 are Windows-1252, as in spreadsheets


class Text(File):
    """A table of text."""

    def __init__(
        self, text: io.TextIOWrapper, path: str, decimal_comma: bool, header: str | None
    ) -> None:
        lines = _lines(text, path)
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
        named = header == "yes" or (header is None and not alone)
        super().__init__(
            path, cells if named else [str(k + 1) for k in range(len(cells))], named=named
        )
        self._first = None if named else first

    def parts(self, columns: Sequence[str], size: int, *, skip_missing: bool) -> Iterator[Table]:
        place_of = {name: place for place, name in enumerate(self.names)}
        places = [place_of[column] for column in columns]
        numbers: list[int] = []
        rows: list[list[str]] = []
        for row, texts in self._all():
            if any(map(str.strip, texts[len(self.names) :])):
                raise ValueError(
                    f"{self.path}, row {row}: {len(texts)} cells in {len(self.names)} columns. Put "
                    "quotes around a cell that has a separator in it."
                )
            cells = [texts[place].strip() if place < len(texts) else "" for place in places]
            if skip_missing and any(map(is_missing, cells)):
                self.skipped += 1
                continue
            numbers.append(row)
            rows.append(cells)
            if len(rows) == size:
                yield self._part(columns, numbers, rows)
                numbers, rows = [], []
        if rows:
            yield self._part(columns, numbers, rows)

    def _part(self, columns: Sequence[str], numbers: list[int], rows: list[list[str]]) -> Table:
        cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
        return of_columns(cells, self.path)._replace(rows=numbers)

    def reader(self) -> Reader:
        return Cells(self._decimal_comma, self._points).numbers

    def _all(self) -> Iterator[tuple[int, list[str]]]:
        if self._first is not None:
            yield self._first
        yield from self._rows


def decoded(stream: io.BufferedReader) -> io.TextIOWrapper:
    """The text of bytes in UTF-8, UTF-16 or Windows-1252, which is Latin-1 with a euro sign."""
    if stream.peek(2)[:2] in UTF16:
        return io.TextIOWrapper(stream, encoding="utf-16", newline="")
    codecs.register_error(WINDOWS, _as_windows)
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors=WINDOWS, newline="")


def _lines(text: io.TextIOWrapper, name: str) -> Iterator[str]:
    """Lines of text, none of them so long that it must be something else."""
    try:
        while line := text.readline(LONGEST):
            if "\0" in line:
                raise ValueError(f"{name} is not text: it has zero bytes. Pass CSV or Parquet.")
            if len(line) == LONGEST:
                raise ValueError(f"{name} has a line of {LONGEST} characters. Is it a CSV file?")
            yield line
    except (*UNREADABLE, UnicodeDecodeError) as error:
        raise damaged(name, error) from None


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    odd = error.object[error.start : error.end]
    try:
        return odd.decode("cp1252"), error.end
    except UnicodeDecodeError:  # five bytes mean nothing in Windows-1252
        return odd.decode("latin-1"), error.end


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
