"""A file as the command line reads it: columns of numbers and of words, once from the front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.tables.cells import Words
from heavytail.tables.columns import plain
from heavytail.tables.frames import Table
from heavytail.tables.place import Place

__all__ = ["File", "Numbers", "Reader"]

CHUNK = 65_536  # rows handed on at a time ...
CELLS = 2**22  # ... if they are of few columns
Reader = Callable[[Any, Place], FloatArray]  # of the cells of a column, some rows at a time


class Numbers(NamedTuple):
    """Some rows: their numbers in the file, (n,), and their values, (n, columns)."""

    at: IntArray
    values: FloatArray


class File(ABC):
    """Columns by name, read once from the front.

    Attributes:
        path: what errors call it.
        names: of the columns.
        named: whether the names are the file's own.
        skipped: rows left out so far.
    """

    def __init__(self, path: str, names: list[str], *, named: bool = True) -> None:
        self.path, self.names, self.named, self.skipped = path, names, named, 0

    @abstractmethod
    def parts(self, columns: Sequence[str], size: int, *, skip_missing: bool) -> Iterator[Table]:
        """These columns, ``size`` rows at a time; rows that miss a value may be left out."""

    @abstractmethod
    def reader(self) -> Reader:
        """Return a reader that makes numbers of cells, NaN where one is missing."""

    def numbers(
        self,
        columns: Sequence[str],
        *,
        skip_missing: bool,
        hint: str | Mapping[str, str] = "",
        words: Mapping[str, Words] | None = None,
    ) -> Iterator[Numbers]:
        """The columns as numbers, some rows at a time; ``hint`` is what to do about text, in all
        columns or in each by its name, except in those of ``words``, where words are numbered.
        """
        hints = dict.fromkeys(columns, hint) if isinstance(hint, str) else hint
        readers = {column: self.reader() for column in columns}
        readers |= {column: own.numbers for column, own in (words or {}).items()}
        size = max(1, min(CHUNK, CELLS // len(columns)))
        for part in self.parts(columns, size, skip_missing=skip_missing):
            values = np.column_stack(
                [
                    readers[name](plain(part.column(name)), part.place(name, hints.get(name, "")))
                    for name in columns
                ]
            )
            missing = np.isnan(values)
            if missing.any() and not skip_missing:
                row, column = np.argwhere(missing)[0]
                cell = part.column(columns[column])[int(row)]
                what = f"{shown(cell)} stands for a missing value" if cell else "the cell is empty"
                what = what if isinstance(cell, str) else "the value is missing"
                place = part.place(columns[column])
                place.refuse(row, f"{what}. Fill it, or pass --skip-missing.")
            kept = ~missing.any(axis=1)
            self.skipped += int(np.sum(~kept))
            at = part.row_numbers
            yield Numbers(at[kept], values[kept])
