"""A fixed table of arms, whose vectors an encoder makes in every row's context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from heavytail._lazy import nearest
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.encoding.arms import check_ids
from heavytail.encoding.layout import Layout, Read
from heavytail.encoding.text import check_name
from heavytail.tables.categories import Keys, key
from heavytail.tables.frames import Table, table

__all__ = ["Catalogue"]

UNKNOWN: Final = -1


class Catalogue:
    """Arms that are the same in every row of a log, and the encoder that makes vectors of them.

    :meth:`heavytail.encoding.Encoder.catalogue` makes one. A log is read with it by
    ``columns={"arms": catalogue}``: the log has the context, the catalogue the rest. A column that
    the catalogue has is the catalogue's, whatever the log has under that name.

    Cost: O(dim) per row and arm.

    Attributes:
        ids: of the arms, as texts, in the order of the table.
        context: columns that the log must have.
        offered: the log's column of lists of ids, where a row offers some of the arms alone.
        dim: features of a vector.
    """

    __slots__ = ("_layout", "_own", "_places", "context", "dim", "ids", "offered")

    def __init__(
        self, layout: Layout, arms: object, ids: Iterable[object] | None, offered: str | None
    ) -> None:
        where = "Encoder.catalogue"
        rows = table(arms, f"{where}: arms")
        if rows.length == 0:
            raise ValueError(f"{where}: arms is empty; list at least one arm.")
        self._layout, self.dim = layout, layout.dim
        self.ids = _texts(where, rows, ids)
        self.offered = None if offered is None else check_name(f"{where}: offered", offered)
        names = layout.schema.columns
        self.context = tuple(name for name in names if name not in rows.columns)
        self._own = layout.read({name: rows for name in names if name in rows.columns})
        self._places = {text: place for place, text in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, texts: list[str]) -> IntArray:
        """The places of the arms with these ids, -1 for an unknown id."""
        return np.array([self._places.get(text, UNKNOWN) for text in texts], dtype=np.int64)

    def near(self, text: str) -> str:
        """A hint for an unknown id."""
        near = nearest(text, self.ids)
        return f"Did you mean {shown(near)}?" if near else f"Those are {shown(list(self.ids))}."

    def vectors(self, context: Table, row: IntArray, which: IntArray) -> FloatArray:
        """(m, dim): vector i is that of arm ``which[i]`` in the context of ``row[i]``."""
        around = self._layout.read(dict.fromkeys(self.context, context))
        columns = {name: _taken(column, row) for name, column in around.items()}
        columns |= {name: _taken(column, which) for name, column in self._own.items()}
        return self._layout.write(columns, len(row))

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} arms of dimension {self.dim}: {shown(list(self.ids))})"


def _texts(where: str, arms: Table, ids: Any) -> tuple[str, ...]:
    """The ids as texts: a log and a table may have 7 and "7" for the same."""
    given = arms.column(ids) if isinstance(ids, str) else ids
    texts = [key(name) for name in check_ids(where, range(arms.length) if ids is None else given,
                                           arms.length)]  # fmt: skip
    seen: dict[str | None, int] = {}
    for i, text in enumerate(texts):
        if text in seen:
            raise ValueError(f"{where}: arms {seen[text]} and {i} share the id {shown(text)}.")
        seen[text] = i
    return tuple(map(str, texts))


def _taken(column: Read, index: IntArray) -> Read:
    """The column's values at these places."""
    if isinstance(column, Keys):
        return Keys(column.codes[index], column.values)
    return column[index]
