"""The columns of a context: their kinds, and a context as a row of plain numbers.

A number stands for itself, a category for its place among the texts seen so far, -1 where it is one
too many, or a text that no encoder lists: empty, too long, or with control characters. What is
missing is NaN, or -1 in a column of categories. So what is decided can be kept in bounded memory,
and be encoded again once more is known of the columns.
"""

from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

import numpy as np

from heavytail._validate import GREATEST, shown
from heavytail.encoding import Spline
from heavytail.encoding.text import check_name, text_problem
from heavytail.tables.categories import key, keys_of
from heavytail.tables.cells import looks_like_number
from heavytail.tables.columns import MISSING, has_lists, is_arrow, nulls, plain
from heavytail.tables.frames import Table, absent

__all__ = ["CATEGORY", "NUMBER", "Contexts", "kind_of_column"]

NUMBER, CATEGORY = "number", "category"
MOST_TEXTS: Final = 10_000  # of one column that are remembered
NUMBERS: Final = frozenset({float, int, np.float64, np.int64})
PLAIN: Final = NUMBERS | {str, bool, type(None)}  # what runs no code of its own when it is read
REAL: Final = (numbers.Real, np.floating, np.integer, decimal.Decimal)
BEHIND: Final = 2  # places behind a row, for the offer and its probability
Fresh = list[tuple[int, str]]  # columns and the texts that they did not have yet


class Contexts:
    """The columns that every context must have.

    Attributes:
        names: of the columns, in the order stated.
        kinds: "number", "category", or None as long as no value has told.
        curves: the splines that were stated, by column.
        texts: of each column of categories, the place of each text.
    """

    def __init__(self, stated: object) -> None:
        pairs = _stated(stated)
        self.names = tuple(pairs)
        self.kinds: list[str | None] = [_kind(name, value) for name, value in pairs.items()]
        self.curves = {n: value for n, value in pairs.items() if isinstance(value, Spline)}
        self.texts: list[dict[str, int]] = [{} for _ in self.names]
        self._lists: list[list[str | None]] = [[] for _ in self.names]
        for column, (name, value) in enumerate(pairs.items()):
            if isinstance(value, list | tuple):
                for category in value:
                    text = _key(category)
                    if text is None or text_problem(text):
                        raise ValueError(
                            f"Decider.context[{name!r}]: {shown(category)} is no category."
                        )
                    self.texts[column].setdefault(text, len(self.texts[column]))

    def code(
        self, context: object, where: str
    ) -> tuple[np.ndarray[Any, Any], Fresh, dict[str, Any]]:
        """A context as a row of numbers with room behind it, the texts that are new, and what the
        row says of each column, as ``values`` would. Nothing is remembered yet.
        """
        if type(context) is not dict and not isinstance(context, Mapping):
            raise TypeError(
                f"{where}: context must be a dict of values by column; got {shown(context)}."
            )
        fresh: Fresh = []
        known: dict[str, Any] = {}
        is_plain = type(context) is dict
        row = np.empty(len(self.names) + BEHIND)
        for column, name in enumerate(self.names):
            try:
                value = context[name]
            except KeyError:
                do = f" Pass {name!r}: None where it is not known."
                raise absent(name, context, f"{where}: context", do) from None
            is_plain = is_plain and type(value) in PLAIN
            kind = self.kinds[column]
            if kind == NUMBER:
                usable = type(value) in NUMBERS and -GREATEST <= value <= GREATEST
                row[column] = known[name] = value if usable else self._number(name, value, where)
                continue
            if kind is None and not isinstance(value, str | bool | np.bool_):
                row[column] = known[name] = self._number(name, value, where)
                continue
            try:
                text = value if type(value) is str else key(value)
            except TypeError:
                self._refuse(name, value, where, "must be text or a finite number")
            place = -1 if text is None else self.texts[column].get(text, -2)
            if place == -2:
                assert text is not None
                if text_problem(text):
                    place, text = -1, None
                else:
                    place = self._new_place(column, fresh)
                    if place >= 0:
                        fresh.append((column, text))
            row[column], known[name] = place, text
        if not is_plain:  # whatever read a value may have called the Decider, which learned of it
            return self.code(known, where)
        return row, fresh, known

    def _new_place(self, column: int, fresh: Fresh) -> int:
        """The place of a text that the column does not have; -1 if it has too many."""
        size = len(self.texts[column]) + sum(1 for other, _ in fresh if other == column)
        return size if size < MOST_TEXTS else -1

    def settle(self, known: Mapping[str, Any], fresh: Fresh) -> None:
        """Remember the new texts, and the kinds that a context told."""
        for column, text in fresh:
            self.texts[column].setdefault(text, len(self.texts[column]))
        for column in self._told(known):
            is_text = isinstance(known[self.names[column]], str)
            self.kinds[column] = CATEGORY if is_text else NUMBER

    def settled(self, known: Mapping[str, Any], fresh: Fresh) -> Contexts:
        """These, or a copy that remembers what a context told."""
        if not fresh and not self._told(known):
            return self
        twin = self.copy()
        twin.settle(known, fresh)
        return twin

    def _told(self, known: Mapping[str, Any]) -> list[int]:
        """The columns whose kind a context is the first to tell."""
        if None not in self.kinds:
            return []
        values = [known[name] for name in self.names]
        return [
            column
            for column, (kind, value) in enumerate(zip(self.kinds, values, strict=True))
            if kind is None and value is not None and value == value
        ]

    def read_number(self, name: str) -> bool:
        """Take a column for one of numbers; False if it is one of categories."""
        column = self.names.index(name)
        self.kinds[column] = self.kinds[column] or NUMBER
        return self.kinds[column] == NUMBER

    def _number(self, name: str, value: Any, where: str) -> float:
        if value is None or type(value).__name__ in MISSING:
            return math.nan
        first = self.kinds[self.names.index(name)] is None
        wanted = "must be text or a number" if first else "must be a number, as its first values"
        try:
            if not isinstance(value, REAL) or isinstance(value, bool | np.bool_ | np.timedelta64):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            self._refuse(name, value, where, wanted if first else f"{wanted} were")
        if math.isinf(number):
            self._refuse(name, value, where, "must be finite")
        return number if number != number else min(max(number, -GREATEST), GREATEST)

    def _refuse(self, name: str, value: Any, where: str, wanted: str) -> NoReturn:
        do = f'Pass None where it is not known, or state context={{{name!r}: "category"}}.'
        if isinstance(value, str) and looks_like_number(value):
            do = f"Pass float({shown(value)})."
        problem = f"{where}: context, column {name!r}: {wanted}; got {shown(value)}. {do}"
        raise (ValueError if wanted == "must be finite" else TypeError)(problem)

    def code_table(self, rows: Table) -> tuple[np.ndarray[Any, Any], list[dict[str, int]]]:
        """Many contexts as rows of numbers (n, columns), and the texts of each column after them;
        nothing is remembered.
        """
        raw = np.empty((rows.length, len(self.names)))
        texts = [dict(known) for known in self.texts]
        for column, name in enumerate(self.names):
            values, kind = rows.column(name), self.kinds[column]
            if (kind or kind_of_column(values)) == NUMBER:
                hint = f' Or state context={{{name!r}: "category"}}.'
                numbers = rows.numbers(name, hint)
                if np.isinf(numbers).any():
                    row = int(np.argmax(np.isinf(numbers)))
                    rows.place(name).refuse(row, "must be finite. Pass None where it is not known.")
                raw[:, column] = np.clip(numbers, -GREATEST, GREATEST)
                continue
            keys = keys_of(values, rows.place(name))
            known = texts[column]
            places = []
            for text in keys.values:
                if text not in known and len(known) < MOST_TEXTS and not text_problem(text):
                    known[text] = len(known)
                places.append(known.get(text, -1))
            raw[:, column] = np.array([*places, -1], dtype=np.float64)[keys.codes]
            if kind is None and kind_of_column(values) is None:
                raw[:, column] = math.nan
        return raw, texts

    def settle_table(self, rows: Table, texts: list[dict[str, int]]) -> None:
        """Remember the texts of a table, and the kinds that it told."""
        self.texts, self._lists = texts, [[] for _ in texts]
        for column, name in enumerate(self.names):
            if self.kinds[column] is None:
                self.kinds[column] = kind_of_column(rows.column(name))

    def values(self, row: np.ndarray[Any, Any]) -> dict[str, Any]:
        """The context of a row: numbers and texts by column, None where one is missing."""
        context: dict[str, Any] = {}
        for column, name in enumerate(self.names):
            value = row[column]
            if self.kinds[column] == CATEGORY:
                context[name] = self._listed(column)[-1 if value != value else int(value)]
            else:
                context[name] = value
        return context

    def _listed(self, column: int) -> list[str | None]:
        """The texts of a column by place, None at the last, -1."""
        listed = self._lists[column]
        if len(listed) != len(self.texts[column]) + 1:
            listed = self._lists[column] = [*self.texts[column], None]
        return listed

    def columns_of(self, raw: np.ndarray[Any, Any]) -> dict[str, Any]:
        """The columns of many rows, those of categories as lists of texts."""
        columns: dict[str, Any] = {}
        for column, name in enumerate(self.names):
            values = raw[:, column]
            if self.kinds[column] == CATEGORY:
                texts = self._listed(column)
                places = np.nan_to_num(values, nan=-1.0).astype(np.int64)
                columns[name] = [texts[place] for place in places]
            else:
                columns[name] = values
        return columns

    def copy(self) -> Contexts:
        """The same columns, of which more may be learned."""
        twin = Contexts(dict.fromkeys(self.names))
        twin.curves = self.curves
        twin.resume(self.plain())
        return twin

    def plain(self) -> dict[str, Any]:
        """Kinds and texts as JSON values."""
        return {"kinds": self.kinds, "texts": [list(texts) for texts in self.texts]}

    def resume(self, told: Mapping[str, Any]) -> None:
        """Take over what ``plain`` gave; ValueError for anything else."""
        kinds, texts = told["kinds"], told["texts"]
        if len(kinds) != len(self.names) or len(texts) != len(self.names):
            raise ValueError("its columns are others")
        for ours, kind in zip(self.kinds, kinds, strict=True):
            if kind not in (NUMBER, CATEGORY, None) or (ours is not None and kind != ours):
                raise ValueError("a column is of another kind")
        for stated, kind, listed in zip(self.texts, kinds, texts, strict=True):
            if not isinstance(listed, list) or len(listed) > MOST_TEXTS:
                raise ValueError("categories are not texts")
            if not all(isinstance(text, str) and not text_problem(text) for text in listed):
                raise ValueError("categories are not texts")
            if len(set(listed)) < len(listed) or (listed and kind != CATEGORY):
                raise ValueError("a category is listed twice")
            if listed[: len(stated)] != list(stated):
                raise ValueError("its categories are others")
        self.kinds = list(kinds)
        self.texts = [{text: place for place, text in enumerate(listed)} for listed in texts]
        self._lists = [[] for _ in texts]


def kind_of_column(values: Any) -> str | None:
    """Tell whether a column holds numbers or categories; None where it has no value at all."""
    column = plain(values)
    if is_arrow(column) and has_lists(column):
        return CATEGORY
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return None if column.dtype.kind == "f" and np.isnan(column).all() else NUMBER
    cells: Iterable[Any] = column.to_pylist() if is_arrow(column) else column
    gone = nulls(column)
    for place, cell in enumerate(cells):
        if gone is not None and gone[place]:
            continue
        return CATEGORY if isinstance(cell, str | bool | np.bool_) else NUMBER
    return None


def _stated(stated: object) -> dict[str, Any]:
    """The columns as they were stated, by name."""
    where = "Decider.context"
    if stated is None:
        return {}
    if isinstance(stated, Mapping):
        pairs = dict(stated)
    elif isinstance(stated, list | tuple):
        pairs = dict.fromkeys(check_name(where, name) for name in stated)
        if len(pairs) < len(stated):
            raise ValueError(f"{where}: a column is listed twice; got {shown(stated)}.")
    else:
        raise TypeError(
            f'{where} must list columns, such as ["segment", "basket"], or be a dict of their '
            f'kinds, such as {{"store": "category"}}; got {shown(stated)}.'
        )
    return {check_name(where, name): _spline(value) for name, value in pairs.items()}


def _key(value: Any) -> str | None:
    """A category as text; None for what is none."""
    try:
        return key(value)
    except TypeError:
        return None


def _spline(value: Any) -> Any:
    """A Spline as a file has it, or the value itself."""
    if isinstance(value, Mapping) and {"spline"} <= {*value} <= {"spline", "centre", "scale"}:
        return Spline(value["spline"], value.get("centre"), value.get("scale"))
    return value


def _kind(name: str, value: Any) -> str | None:
    """The kind of a column as it was stated."""
    if value is None or (isinstance(value, str) and value in (NUMBER, CATEGORY)):
        return value
    if isinstance(value, Spline):
        return NUMBER
    if isinstance(value, list | tuple) and value:
        return CATEGORY
    raise ValueError(
        f'Decider.context[{name!r}] must be "number", "category", a list of categories, a Spline '
        f"or None to infer it; got {shown(value)}."
    )
