"""A fixed table of arms, whose vectors an encoder makes in every row's context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._lazy import nearest
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import GREATEST, shown
from heavytail.encoding.arms import check_ids
from heavytail.encoding.layout import Layout, Work, indices
from heavytail.encoding.learned import checked_numbers
from heavytail.encoding.text import check_name
from heavytail.encoding.writing import CONTEXT, OFFER, TOGETHER
from heavytail.tables.categories import key, keys_of
from heavytail.tables.frames import Table, absent, one_row, table

__all__ = ["Catalogue", "text_of", "twice"]

UNKNOWN: Final = -1
IN_ARMS: Final = "Catalogue.arms"
IN_CONTEXT: Final = f"{IN_ARMS}: context"
NUMBERS: Final = frozenset({float, int, np.float64})  # types that need no conversion


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

    __slots__ = (
        "_alone", "_at_once", "_everyone", "_joint", "_layout", "_own", "_places", "_sides",
        "_spare", "_strict", "context", "dim", "ids", "offered",
    )  # fmt: skip

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
        self._sides = layout.sides(self.context)
        n = len(self.ids)
        self._everyone = indices(np.zeros(n, dtype=np.int64), np.arange(n), (0, 1, 1 + n))
        self._alone, self._joint = self._sides.readers()
        self._at_once = self._sides.by_kernels(CONTEXT) and not self._sides.names[TOGETHER]
        self._strict = layout.schema.strict
        self._spare = [self._work()]  # each in the hands of one thread at a time
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
        return self._sides.vectors(around, row, self._own, which)

    def arms(self, context: Mapping[str, Any], which: ArrayLike | None = None) -> FloatArray:
        """The vectors in one context, (n, dim), with the bits of :meth:`Encoder.arms`.

        What of them depends on the arms alone was coded when the catalogue was made: a decision
        among 50 arms takes microseconds.

        Args:
            context: values by column, of all columns in ``self.context``.
            which: places of the arms; all of them unless given.
        """
        rows = self._everyone
        if which is not None:
            places = self._checked(which)
            rows = indices(np.zeros_like(places), places, (0, 1, 1 + len(self)))
        try:
            spare = self._spare.pop()
        except IndexError:
            spare = self._work()
        flat, raw, work = spare
        self._read(context, flat)
        X = np.zeros((rows.shape[1], self.dim))
        if self._at_once:
            self._sides.code_and_write(X, raw, work, rows)
        else:
            self._write(X, raw, work, rows, context)
        self._spare.append(spare)
        return X

    def _work(self) -> tuple[FloatArray, FloatArray, Work]:
        """Raw numbers of a context, and space for its entries beside those of the arms."""
        n, sides = len(self.ids), self._sides
        work = sides.work(1 + 2 * n if sides.names[TOGETHER] else 1 + n)
        sides.code(work, 1, OFFER, sides.stacked(sides.raw(OFFER, self._own), slice(None), n))
        flat = np.zeros(self._layout.raws)
        return flat, flat.reshape(1, -1), work

    def _write(
        self, X: FloatArray, raw: FloatArray, work: Work, rows: IntArray, context: Mapping[str, Any]
    ) -> None:
        """The vectors of arms that have something together with the context."""
        sides, which = self._sides, rows[OFFER] - 1
        needed = dict.fromkeys(self.context, one_row(context, IN_CONTEXT))
        columns = self._layout.read(needed) if sides.names[TOGETHER] else {}
        if len(which) > len(self):  # some of them more than once
            X[:] = sides.vectors(columns, rows[CONTEXT], self._own, which)
            return
        sides.code(work, 0, CONTEXT, raw)
        sides.code_together(work, 1 + len(self), columns, rows[CONTEXT], self._own, which)
        sides.write(X, work, rows)

    def _read(self, context: Mapping[str, Any], raw: FloatArray) -> None:
        """Lay the raw numbers of a context, checked as those of a table are, but without one."""
        if type(context) is not dict and not isinstance(context, Mapping):
            one_row(context, IN_CONTEXT)  # which refuses it
        if not self._own.keys().isdisjoint(context):
            raise twice(IN_ARMS, next(name for name in self._own if name in context))
        if self._strict:
            self._layout.schema.refuse_unknown(context, IN_ARMS)
        for name, slot, places in self._alone:
            try:
                value = context[name]
            except KeyError:
                raise absent(name, context, IN_CONTEXT) from None
            if places is None:
                if type(value) in NUMBERS and -GREATEST <= value <= GREATEST:
                    raw[slot] = value
                else:
                    way = self._layout.schema.missing[name]
                    raw[slot] = checked_numbers(one_row(context, IN_CONTEXT), name, way).item()
            else:
                text = value if type(value) is str else text_of(context, name, IN_CONTEXT)
                raw[slot] = places[text]
        for names, slot, buckets in self._joint:
            texts = [text_of(context, name, IN_CONTEXT) for name in names]
            raw[slot] = buckets[tuple(texts)]

    def _checked(self, which: ArrayLike) -> IntArray:
        """The places of some of the arms."""
        places = np.asarray(which)
        count = len(self.ids)
        if places.ndim == 1 and (places.dtype.kind in "iu" or not places.size):
            places = places.astype(np.int64)
            if not ((places < 0) | (places >= count)).any():
                return places
        raise ValueError(
            f"{IN_ARMS}: which must list places from 0 to {count - 1}; got {shown(which)}."
        )

    def __getstate__(self) -> dict[str, Any]:
        """All of it but the space to work in, which a copy makes anew."""
        return {name: getattr(self, name) for name in self.__slots__} | {"_spare": []}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} arms of dimension {self.dim}: {shown(list(self.ids))})"


def twice(where: str, name: str) -> ValueError:
    """The error for a column that context and arms both have."""
    return ValueError(
        f"{where}: the column {name!r} is in the context and in the arms. Leave one out, or rename "
        "it."
    )


def text_of(context: Mapping[str, Any], name: str, where: str) -> str | None:
    """A category of a context as text, None where it is missing."""
    try:
        return key(context[name])
    except TypeError:  # the column says so in words
        row = one_row(context, where)
        keys_of(row.column(name), row.place(name))
        raise
    except KeyError:
        raise absent(name, context, where) from None


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
