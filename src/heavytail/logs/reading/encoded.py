"""Arms of a log that a catalogue fills in: from a row's context, and the table of arms.

A raw log has columns of the context, the id of the arm that was played and, where a row offered
some of the arms alone, a list of their ids. What a DecisionLog wrote has the context as JSON, the
ids that were offered, and the place of the arm among those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.encoding.catalogue import UNKNOWN, Catalogue
from heavytail.ledger.layout import CONTEXT, IDS
from heavytail.tables.categories import keys_of
from heavytail.tables.columns import has_lists, is_arrow, lists, plain
from heavytail.tables.frames import Table
from heavytail.tables.place import Place

__all__ = ["CONTEXT", "IDS", "Raw", "cut", "needed"]

ROOM: Final = 2**22  # numbers of a piece's vectors: 32 MiB
NEEDS_IDS: Final = "A catalogue needs the ids of the arms that were offered."


def needed(catalogue: Catalogue, decided: bool) -> list[str]:
    """The columns of a log that the vectors are made from."""
    if decided:
        return [CONTEXT, IDS] if catalogue.context else [IDS]
    return list(dict.fromkeys([*catalogue.context, *filter(None, [catalogue.offered])]))


@dataclass(frozen=True)
class Raw:
    """The columns as read, from which the vectors of some rows are made."""

    catalogue: Catalogue
    columns: Mapping[str, Any]
    decided: bool  # by a DecisionLog

    def __getitem__(self, part: slice) -> Raw:
        return Raw(self.catalogue, {k: v[part] for k, v in self.columns.items()}, self.decided)

    def filled(
        self, action: Sized, actions: Place
    ) -> tuple[Sized | None, FloatArray, IntArray | None]:
        """The places of the arms that were played, among those offered, the vectors of all,
        (n, K, dim), and their places in the catalogue, (n, K), -1 for none, or None for all.
        """
        n, count, dim = len(action), len(self.catalogue), self.catalogue.dim
        played = None if self.decided else self._ids(action, actions)
        offered = IDS if self.decided else self.catalogue.offered
        if offered is None:
            row, which = np.repeat(np.arange(n), count), np.tile(np.arange(count), n)
            vectors = self._vectors(row, which, actions)
            return played, vectors.reshape(n, count, dim), None
        lengths, which = self._offered(self.columns[offered], actions._replace(column=offered))
        row = np.repeat(np.arange(n), lengths)
        within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        arms = np.full((n, int(lengths.max(initial=0)), dim), np.nan)
        arms[row, within] = self._vectors(row, which, actions)
        offers = np.full(arms.shape[:2], UNKNOWN)
        offers[row, within] = which
        if played is None:
            return action, arms, offers
        places, hit = np.full(n, UNKNOWN), which == played[row]
        places[row[hit]] = within[hit]
        if (places < 0).any():
            bad = int(np.argmax(places < 0))
            own = shown(self.catalogue.ids[played[bad]])
            actions.refuse(bad, f"{own} is not among the arms that {offered!r} has for this row.")
        return places, arms, offers

    def _vectors(self, row: IntArray, which: IntArray, actions: Place) -> FloatArray:
        columns = self.columns
        if self.decided and self.catalogue.context:
            place = actions._replace(column=CONTEXT)
            columns = _contexts(self.columns[CONTEXT], self.catalogue.context, place)
        context = Table(columns, actions.source, actions.rows)
        return self.catalogue.vectors(context, row, which)

    def _ids(self, column: object, place: Place) -> IntArray:
        """The place in the catalogue of each id."""
        codes, texts = keys_of(column, place)
        if (codes < 0).any():
            place.refuse(int(np.argmax(codes < 0)), "is null. Give the arm's id.")
        places = self.catalogue.places(texts)
        strange = places[codes] == UNKNOWN if len(texts) else np.zeros(0, dtype=bool)
        if strange.any():
            bad = int(np.argmax(strange))
            text = texts[codes[bad]]
            place.refuse(
                bad,
                f"{shown(text)} is the id of no arm in the catalogue. {self.catalogue.near(text)}",
            )
        return places[codes] if len(texts) else codes

    def _offered(self, column: object, place: Place) -> tuple[IntArray, IntArray]:
        """The number of arms that each row offered, and all of them one after the other."""
        lengths, ids = lists(column, place, of=" of ids", do=NEEDS_IDS)
        which = self._ids(plain(ids), place.inside(lengths))
        row = np.repeat(np.arange(len(lengths)), lengths)
        _, first = np.unique(row * len(self.catalogue) + which, return_index=True)
        if len(first) < len(which):
            bad = int(np.setdiff1d(np.arange(len(which)), first)[0])
            twice = shown(self.catalogue.ids[which[bad]])
            place.refuse(int(row[bad]), f"offers {twice} twice. Offer it once.")
        return lengths, which


def cut(raw: Raw, count: int) -> Iterator[slice]:
    """The rows in pieces whose vectors take little memory."""
    most = len(raw.catalogue)
    offered = IDS if raw.decided else raw.catalogue.offered
    if offered is not None:
        most = _longest(raw.columns[offered])
    size = max(1, ROOM // max(1, most * raw.catalogue.dim))
    return (slice(start, start + size) for start in range(0, count, size))


def _longest(column: Iterable[object]) -> int:
    """The length of the longest list in a column; anything else is refused later."""
    if is_arrow(column) and has_lists(column):
        import pyarrow.compute as pc

        return int(pc.max(pc.list_value_length(column)).as_py() or 0)
    return max((len(cell) for cell in column if hasattr(cell, "__len__")), default=0)


def _contexts(
    column: Iterable[str | None], names: Iterable[str], place: Place
) -> dict[str, list[Any]]:
    """The values by name that a DecisionLog wrote as JSON."""
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
        for name in names:
            if name not in context:
                place.refuse(
                    row, f"has no {name!r}, which the encoder needs; it has {shown(context)}."
                )
        contexts.append(context)
    return {name: [context[name] for context in contexts] for name in names}
