"""The place of a value in a table, for errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from heavytail._typing import IntArray
from heavytail._validate import shown

__all__ = ["Place"]


class Place(NamedTuple):
    """A column of a table.

    Attributes:
        source: the name of the table.
        column: the name of the column.
        rows: the numbers of its rows in the source; None for one row alone.
        hint: what to do about values of another type.
        ends: where values stand in lists, and these perhaps in lists: the place behind the last
            entry of each list, the outer lists first.
    """

    source: str
    column: str
    rows: Sequence[int] | IntArray | None = range(2**62)
    hint: str = ""
    ends: tuple[IntArray, ...] = ()

    def number(self, entry: int) -> int:
        """The number, in the source, of the row that has this entry."""
        for ends in reversed(self.ends):
            entry = int(np.searchsorted(ends, entry, side="right"))
        return entry if self.rows is None else int(self.rows[entry])

    def words(self, entry: int | None) -> str:
        """Source, row and column."""
        row = "" if entry is None or self.rows is None else f", row {self.number(entry)}"
        return f"{self.source}{row}, column {shown(self.column)}"

    def refuse(self, entry: int | None, problem: str) -> NoReturn:
        """Raise a ValueError that names source, row and column."""
        raise ValueError(f"{self.words(entry)}: {problem}")

    def refuse_type(self, entry: int | None, problem: str) -> NoReturn:
        """Raise a TypeError that names source, row and column, and says the hint."""
        raise TypeError(f"{self.words(entry)}: {problem}{self.hint}")

    def inside(self, lengths: IntArray) -> Place:
        """The place of the values in lists of these lengths."""
        return self._replace(ends=(*self.ends, np.cumsum(lengths)))
