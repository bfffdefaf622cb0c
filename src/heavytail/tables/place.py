"""The place of a value in a table, for errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from heavytail._typing import IntArray
from heavytail._validate import shown

__all__ = ["Place"]


class Place(NamedTuple):
    """A column of a table, and how its rows are called."""

    source: str
    column: str
    number: Callable[[int], Any] | None = int  # of a row, in its source; None: there is but one
    hint: str = ""  # what to do about values of another type

    def words(self, row: int | None) -> str:
        """Source, row and column."""
        if row is None or self.number is None:
            return f"{self.source}, column {shown(self.column)}"
        return f"{self.source}, row {self.number(int(row))}, column {shown(self.column)}"

    def refuse(self, row: int | None, problem: str) -> NoReturn:
        """Raise a ValueError that names source, row and column."""
        raise ValueError(f"{self.words(row)}: {problem}")

    def refuse_type(self, row: int | None, problem: str) -> NoReturn:
        """Raise a TypeError that names source, row and column, and says the hint."""
        raise TypeError(f"{self.words(row)}: {problem}{self.hint}")

    def inside(self, lengths: IntArray) -> Place:
        """The place of what stands in lists of so many entries: the row is that of the list."""
        ends, number = np.cumsum(lengths), self.number or int
        return self._replace(
            number=lambda entry: number(int(np.searchsorted(ends, entry, side="right")))
        )
