"""Arms of a log that a catalogue fills in: from a row's context, and the table of arms.

A raw log has columns of the context, the id of the arm that was played and, where a row offered
some of the arms alone, a list of their ids. What a DecisionLog wrote has the context as JSON, the
ids that were offered, and the place of the arm among those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.encoding.catalogue import UNKNOWN, Catalogue
from heavytail.encoding.columns import Table as Context
from heavytail.encoding.columns import keys_of
from heavytail.ledger.layout import CONTEXT, IDS
from heavytail.logs.reading.rows import Place

__all__ = ["CONTEXT", "IDS", "Raw", "cut", "needed"]

ROOM: Final = 2**22  # numbers of a piece's vectors: 32 MiB

Placing = Callable[[str], Place]  # of a column, by its own name


def needed(catalogue: Catalogue, decided: bool) -> list[str]:
    """The columns of a log that the vectors are made from."""
    if decided:
        return [CONTEXT, IDS] if catalogue.context else [IDS]
    return list(dict.fromkeys([*catalogue.context, *filter(None, [catalogue.offered])]))


@dataclass(frozen=True)
class Raw:
    """The columns, as they were found, that some rows' vectors are to be made from."""

    catalogue: Catalogue
    columns: Mapping[str, Any]
    decided: bool  # by a DecisionLog

    def __getitem__(self, part: slice) -> Raw:
        return Raw(self.catalogue, {k: v[part] for k, v in self.columns.items()}, self.decided)

    def filled(self, action: Any, actions: Place, place: Placing) -> tuple[Any, FloatArray]:
        """The places of the arms that were played, among those offered, and the vectors of all,
        (n, K, dim).
        """
        n, count, dim = len(action), len(self.catalogue), self.catalogue.dim
        played = None if self.decided else self._ids(action, actions)
        lists = IDS if self.decided else self.catalogue.offered
        if lists is None:
            row, which = np.repeat(np.arange(n), count), np.tile(np.arange(count), n)
            vectors = self._vectors(n, row, which, actions.source, place)
            return played, vectors.reshape(n, count, dim)
        lengths, which = self._offered(self.columns[lists], place(lists))
        row = np.repeat(np.arange(n), lengths)
        within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        arms = np.full((n, int(lengths.max(initial=0)), dim), np.nan)
        arms[row, within] = self._vectors(n, row, which, actions.source, place)
        if played is None:
            return action, arms
        places, hit = np.full(n, UNKNOWN), which == played[row]
        places[row[hit]] = within[hit]
        if (places < 0).any():
            bad = int(np.argmax(places < 0))
            own = shown(self.catalogue.ids[played[bad]])
            actions.refuse(bad, f"{own} is not among the arms that {lists!r} has for this row.")
        return places, arms

    def _vectors(
        self, n: int, row: IntArray, which: IntArray, source: str, place: Placing
    ) -> FloatArray:
        columns: Callable[[str], Any] = self.columns.__getitem__
        if self.decided and self.catalogue.context:
            columns = _contexts(self.columns[CONTEXT], place(CONTEXT))
        context = _table(n, columns, source, lambda name, row: place(name).words(row))
        return self.catalogue.vectors(context, row, which)

    def _ids(self, column: Any, place: Place, rows: IntArray | None = None) -> IntArray:
        """The place in the catalogue of each id; ``rows`` are those that an error is to name."""

        def row_of(entry: int) -> int:
            return entry if rows is None else int(rows[entry])

        def words(name: str, entry: int) -> str:
            return place.words(row_of(entry))

        codes, texts = keys_of(_table(len(column), lambda _: column, place.source, words), "id")
        if (codes < 0).any():
            place.refuse(row_of(int(np.argmax(codes < 0))), "is null. Give the arm's id.")
        places = self.catalogue.places(texts)
        strange = places[codes] == UNKNOWN if len(texts) else np.zeros(0, dtype=bool)
        if strange.any():
            bad = int(np.argmax(strange))
            text = texts[codes[bad]]
            place.refuse(
                row_of(bad),
                f"{shown(text)} is the id of no arm in the catalogue. {self.catalogue.near(text)}",
            )
        return places[codes] if len(texts) else codes

    def _offered(self, column: Any, place: Place) -> tuple[IntArray, IntArray]:
        """The number of arms that each row offered, and all of them one after the other."""
        lengths, flat = _listed(column, place)
        row = np.repeat(np.arange(len(lengths)), lengths)
        which = self._ids(flat, place, row)
        _, first = np.unique(row * len(self.catalogue) + which, return_index=True)
        if len(first) < len(which):
            bad = int(np.setdiff1d(np.arange(len(which)), first)[0])
            twice = shown(self.catalogue.ids[which[bad]])
            place.refuse(int(row[bad]), f"offers {twice} twice. Offer it once.")
        return lengths, which


def cut(raw: Raw, count: int) -> Iterator[slice]:
    """The rows in pieces whose vectors take little memory."""
    most = len(raw.catalogue)
    lists = IDS if raw.decided else raw.catalogue.offered
    if lists is not None:
        most = _longest(raw.columns[lists])
    size = max(1, ROOM // max(1, most * raw.catalogue.dim))
    return (slice(start, start + size) for start in range(0, count, size))


def _longest(column: Any) -> int:
    """The most entries of a list in a column; what is no list is refused later."""
    if _is_arrow_lists(column):
        import pyarrow.compute as pc

        return int(pc.max(pc.list_value_length(column)).as_py() or 0)
    return max((len(cell) for cell in column if hasattr(cell, "__len__")), default=0)


def _is_arrow_lists(column: Any) -> bool:
    if type(column).__module__.partition(".")[0] != "pyarrow":
        return False
    import pyarrow as pa

    nested = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(column.type) for test in nested)


def _table(
    n: int, column: Callable[[str], Any], source: str, place: Callable[[str, int], str]
) -> Context:
    return Context(n, column, tuple, lambda _: True, source, place=place)


def _contexts(column: Any, place: Place) -> Callable[[str], list[Any]]:
    """The values by name of what a DecisionLog wrote as JSON."""
    texts = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    contexts: list[dict[str, Any]] = []
    for row, text in enumerate(texts):
        if text is None:
            place.refuse(row, "is null: this decision was logged without context=.")
        try:
            context = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            context = None
        if not isinstance(context, dict):
            place.refuse_type(row, f"must be a JSON object; got {shown(text)}.")
        contexts.append(context)

    def values(name: str) -> list[Any]:
        for row, context in enumerate(contexts):
            if name not in context:
                place.refuse(
                    row, f"has no {name!r}, which the encoder needs; it has {shown(context)}."
                )
        return [context[name] for context in contexts]

    return values


def _listed(column: Any, place: Place) -> tuple[IntArray, Any]:
    """Lists of ids: how many in each, and all of them one after the other."""
    if _is_arrow_lists(column):
        import pyarrow.compute as pc

        lists = column.combine_chunks() if hasattr(column, "num_chunks") else column
        if lists.null_count:
            gone = lists.is_null().to_numpy(zero_copy_only=False)
            _refuse_null(int(np.argmax(gone)), place)
        return np.asarray(pc.list_value_length(lists), dtype=np.int64), lists.flatten()
    cells: Sequence[Any] = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    for row, cell in enumerate(cells):
        if cell is None:
            _refuse_null(row, place)
        if not isinstance(cell, list | tuple | np.ndarray):
            place.refuse_type(row, f"must be a list of ids; got {shown(cell)}.")
    return np.array([len(cell) for cell in cells], dtype=np.int64), [i for c in cells for i in c]


def _refuse_null(row: int, place: Place) -> NoReturn:
    place.refuse(row, "is null. A catalogue needs the ids of the arms that were offered.")
