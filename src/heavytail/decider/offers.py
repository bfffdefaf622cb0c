"""The offers of a Decider: their ids and columns, which run, and the rules of who may see which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from heavytail._lazy import nearest
from heavytail._typing import IntArray
from heavytail._validate import check_number, shown
from heavytail.decider.contexts import CATEGORY, NUMBER, Contexts, kind_of_column
from heavytail.encoding.arms import check_ids
from heavytail.encoding.text import check_name, text_problem
from heavytail.tables.categories import key
from heavytail.tables.columns import MISSING, is_arrow, plain
from heavytail.tables.frames import Table
from heavytail.tables.opening import rows_of

__all__ = ["Offers", "Rules"]

MOST: Final = 10_000  # offers


class Offers:
    """A table of offers. One that others come to, or of which one is retired, is another table.

    Attributes:
        id_column: the name of the column of ids.
        ids: as texts, in the order in which they came; retired ones stay.
        columns: values by column, numbers or texts, None where one is missing.
        kinds: of the columns, "number" or "category".
        runs: of each offer, whether it may be chosen.
        ordered: the column of numbers that stands for the identity, where offers are prices.
    """

    def __init__(
        self,
        id_column: str,
        ids: Sequence[str],
        columns: Mapping[str, list[Any]],
        ordered: str | None = None,
    ) -> None:
        self.id_column, self.ids, self.ordered = id_column, list(ids), ordered
        self.columns = {name: list(values) for name, values in columns.items()}
        self.kinds = {name: _kind_of(values) for name, values in self.columns.items()}
        self.runs = [True] * len(self.ids)
        self._settle()

    def _settle(self) -> None:
        self.places = {text: place for place, text in enumerate(self.ids)}
        self.running: IntArray = np.flatnonzero(self.runs)

    @classmethod
    def of(cls, offers: object, ids: object, where: str) -> Offers:
        """Read offers: one row for each, or a list of ids alone."""
        if isinstance(offers, list | tuple) and offers and (ids is None or isinstance(ids, str)):
            plain_ids = all(isinstance(each, str | int) for each in offers)
            ids = (ids or "offer") if plain_ids else ids
            offers = {ids: list(offers)} if plain_ids else offers
        return cls.of_table(rows_of(offers, where), ids, where)

    @classmethod
    def of_table(cls, rows: Table, ids: object, where: str) -> Offers:
        """Read a table with one row per offer; ``ids`` is the column of ids, or a list of them."""
        if rows.length == 0:
            raise ValueError(f"{where} is empty; list at least one offer.")
        if rows.length > MOST:
            raise ValueError(f"{where}: at most {MOST} offers; got {rows.length}.")
        named = isinstance(ids, str)
        given: Any = range(rows.length) if ids is None else ids
        if isinstance(ids, str):
            given = rows.column(ids)
        listed = check_ids(where, given, rows.length)
        texts = [str(key(name)) for name in listed]
        seen: set[str] = set()
        for text in texts:
            if text in seen:
                raise ValueError(f"{where}: two offers share the id {shown(text)}.")
            seen.add(text)
            if text_problem(text):
                raise ValueError(f"{where}: the id {shown(text)} {text_problem(text)}.")
        names = [check_name(where, name) for name in rows.columns if not (named and name == ids)]
        if not named and "offer" in names:
            raise ValueError(
                f"{where}: without a column of ids, ids are in a column 'offer', and there is one. "
                "Rename it, or name it in ids."
            )
        columns = {name: _values(rows, name) for name in names}
        return cls(str(ids) if named else "offer", texts, columns)

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, offer: object, where: str) -> int:
        """The place of the offer with this id."""
        try:
            text = key(offer)
        except TypeError:
            text = None
        place = None if text is None else self.places.get(text)
        if place is None:
            near = nearest(str(text), self.ids) if text is not None else None
            meant = f"Did you mean {shown(near)}?" if near else f"Offers are {shown(self.ids)}."
            raise KeyError(f"{where}: no offer has the id {shown(offer)}. {meant}")
        return place

    def with_rows(self, more: Offers, where: str) -> Offers:
        """These offers and others, which must have the same columns; one that is there already is
        changed, and runs.
        """
        if set(more.columns) != set(self.columns):
            wanted, got = sorted(self.columns), sorted(more.columns)
            raise ValueError(f"{where}: offers have the columns {shown(wanted)}; got {shown(got)}.")
        for name in self.columns:
            theirs, ours = more.kinds[name], self.kinds[name]
            if theirs != ours and not all(value is None for value in more.columns[name]):
                raise TypeError(f"{where}: column {name!r} must hold a {ours} as before; "
                                f"got {shown(more.columns[name])}.")  # fmt: skip
        ids = [*self.ids, *(text for text in more.ids if text not in self.places)]
        columns = {}
        for name, values in self.columns.items():
            merged = dict(zip(self.ids, values, strict=True))
            merged.update(zip(more.ids, more.columns[name], strict=True))
            columns[name] = [merged[text] for text in ids]
        if len(ids) > MOST:
            raise ValueError(f"{where}: at most {MOST} offers; got {len(ids)}.")
        grown = Offers(self.id_column, ids, columns)
        grown.kinds = dict(self.kinds)
        stopped = {text for text, runs in zip(self.ids, self.runs, strict=True) if not runs}
        grown.runs = [text not in stopped or text in more.places for text in ids]
        grown._settle()
        return grown

    def with_runs(self, place: int, runs: bool) -> Offers:
        """The same offers, where one may be chosen or not."""
        twin = Offers(self.id_column, self.ids, self.columns, self.ordered)
        twin.kinds, twin.runs = dict(self.kinds), list(self.runs)
        twin.runs[place] = runs
        twin._settle()
        return twin

    def table(self) -> dict[str, list[Any]]:
        """Ids and columns as a dict of columns."""
        return {self.id_column: list(self.ids), **self.columns}

    def plain(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"id": self.id_column, "ids": self.ids, "columns": self.columns,
                "kinds": self.kinds, "runs": self.runs, "ordered": self.ordered}  # fmt: skip

    @classmethod
    def of_plain(cls, told: Mapping[str, Any]) -> Offers:
        """Read what ``plain`` gave; ValueError for anything else."""
        ids, columns, kinds, runs = (told[name] for name in ("ids", "columns", "kinds", "runs"))
        count = len(ids)
        sound = (
            isinstance(told["id"], str)
            and all(isinstance(each, dict) for each in (columns, kinds))
            and all(isinstance(each, list) for each in (ids, runs, *columns.values()))
            and 0 < count <= MOST
            and all(isinstance(text, str) and not text_problem(text) for text in ids)
            and len(set(ids)) == count == len(runs)
            and all(isinstance(flag, bool) for flag in runs)
            and set(kinds) == set(columns)
            and kinds.get(told["ordered"], NUMBER) == NUMBER
            and all(len(values) == count for values in columns.values())
            and all(_fits(columns[name], kind) for name, kind in kinds.items())
        )
        if not sound:
            raise ValueError("its offers are damaged")
        offers = cls(told["id"], ids, columns, told["ordered"])
        offers.kinds, offers.runs = dict(kinds), list(runs)
        offers._settle()
        return offers


class Rules:
    """Conditions of showing an offer: the values that columns of the context must have."""

    def __init__(self, stated: object, offers: Offers, contexts: Contexts) -> None:
        where, columns = "Decider.rules", contexts.names
        if not isinstance(stated, Mapping):
            raise TypeError(
                f'{where} must be such as {{"coupon": {{"segment": ["new"]}}}}; '
                f"got {shown(stated)}."
            )
        self.stated: dict[str, dict[str, Any]] = {}
        self._tests: list[tuple[int, list[tuple[str, Any]]]] = []
        for offer, conditions in stated.items():
            place = offers.place(offer, where)
            named = f"{where}[{offer!r}]"
            if not isinstance(conditions, Mapping) or not conditions:
                raise TypeError(
                    f"{named} must name columns of the context; got {shown(conditions)}."
                )
            tests: list[tuple[str, Any]] = []
            for name, allowed in conditions.items():
                if name not in columns:
                    raise ValueError(
                        f"{named}: the context has no column {shown(name)}; it has "
                        f"{shown(list(columns))}."
                    )
                test = _condition(f"{named}[{name!r}]", allowed)
                if isinstance(test, tuple) and not contexts.read_number(name):
                    raise ValueError(
                        f"{named}[{name!r}]: a range is for numbers, and the column has "
                        f"categories. List some of them; got {shown(allowed)}."
                    )
                tests.append((name, test))
            self._tests.append((place, tests))
            self.stated[offers.ids[place]] = {name: _shown(test) for name, test in tests}

    def barred(self, context: Mapping[str, Any]) -> list[int]:
        """Places of the offers that may not be shown in this context."""
        return [
            place
            for place, tests in self._tests
            if not all(_holds(test, context[name]) for name, test in tests)
        ]


def _condition(where: str, allowed: Any) -> Any:
    """The texts that are allowed, or the least and the largest number."""
    if isinstance(allowed, Mapping) and set(allowed) == {"from", "to"}:
        allowed = (allowed["from"], allowed["to"])
    if isinstance(allowed, tuple) and len(allowed) == 2:
        if any(isinstance(end, str) for end in allowed):
            raise TypeError(
                f"{where}: a range (least, most) has numbers; list categories as "
                f"{shown(list(allowed))}."
            )
        low, high = (
            None if end is None else check_number(f"{where}, an end of a range", end)
            for end in allowed
        )
        if low is not None and high is not None and low > high:
            raise ValueError(f"{where}: no number is in the range {shown(allowed)}. Swap its ends.")
        return (low, high)
    listed = allowed if isinstance(allowed, list | set | frozenset) else [allowed]
    try:
        texts = frozenset(key(value) for value in listed)
    except TypeError as error:
        raise TypeError(
            f"{where} must list categories, or be a range (least, most); got {error}."
        ) from None
    for text in texts - {None}:
        if text_problem(str(text)):
            raise ValueError(f"{where}: the category {shown(text)} {text_problem(str(text))}.")
    if not texts:
        raise ValueError(
            f"{where} lists no category. List some; retire(...) shows an offer to none."
        )
    return texts


def _holds(test: Any, value: Any) -> bool:
    if isinstance(test, frozenset):
        return key(value) in test
    if value is None or value != value:
        return False
    low, high = test
    return (low is None or value >= low) and (high is None or value <= high)


def _shown(test: Any) -> Any:
    """A condition as it may be stated."""
    if isinstance(test, frozenset):
        return [*sorted(text for text in test if text is not None), *({None} & test)]
    return tuple(test)


def _kind_of(values: list[Any]) -> str:
    return kind_of_column(values) or CATEGORY


def _values(rows: Table, name: str) -> list[Any]:
    """A column as floats or texts, None where one is missing."""
    column = plain(rows.column(name))
    cells = column.to_pylist() if is_arrow(column) else list(column)
    if kind_of_column(rows.column(name)) == NUMBER:
        numbers = rows.numbers(name, " Offers have numbers or texts in a column, not both.")
        if np.isinf(numbers).any():
            rows.place(name).refuse(int(np.argmax(np.isinf(numbers))), "must be finite.")
        return [None if value != value else float(value) for value in numbers]
    texts = []
    for row, cell in enumerate(cells):
        try:
            texts.append(None if type(cell).__name__ in MISSING else key(cell))
        except TypeError as error:
            rows.place(name).refuse_type(row, f"must be text or a number; got {error}.")
        if texts[-1] is not None and text_problem(texts[-1]):
            rows.place(name).refuse(row, f"the text {text_problem(texts[-1])}.")
    return texts


def _fits(values: list[Any], kind: str) -> bool:
    if kind == NUMBER:
        return all(
            value is None or (isinstance(value, float) and abs(value) < np.inf) for value in values
        )
    return kind == CATEGORY and all(
        value is None or (isinstance(value, str) and not text_problem(value)) for value in values
    )
