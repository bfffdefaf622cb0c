"""A column of categories: texts, numbers or bools, each as text."""

from __future__ import annotations

import numbers
from typing import Any, Final, NamedTuple

import numpy as np

from heavytail._typing import IntArray
from heavytail._validate import shown
from heavytail.tables.columns import MISSING, has_lists, is_arrow, plain
from heavytail.tables.place import Place

__all__ = ["LONGEST", "Keys", "key", "keys_of"]

LONGEST: Final = 200  # characters of a category that is listed, and digits of a whole number
EXACT: Final = 2.0**53  # floats below it that are whole are written as integers
_HASHABLE: Final = {int, float, bool, np.int64, np.float64}
_OF_TEXT: Final = {str, type(None)}


class Keys(NamedTuple):
    """A column of categories: each row's place among the different ``values``, -1 for none."""

    codes: IntArray
    values: list[str]


def key(value: Any) -> str | None:
    """A category as text, None where it is missing (None, NaN, pandas's NA).

    Numbers are written as Python writes them, whole ones without a point, so that 3, 3.0 and "3",
    which a frame and a dict may have for the same thing, are one category. TypeError for what is
    neither text nor a finite number nor a bool.
    """
    if type(value) is str or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | np.bool_):
        return "True" if value else "False"
    if isinstance(value, np.timedelta64):
        raise TypeError(shown(value))
    if isinstance(value, int | np.integer | numbers.Integral):
        whole = int(value)
        if abs(whole) >= 10**LONGEST:
            raise TypeError("an integer of more digits than a category may have")
        return str(whole)
    if isinstance(value, float | np.floating):
        number = float(value)
        if number != number:
            return None
        if abs(number) < EXACT and number == int(number):
            return str(int(number))
        if number - number == 0.0:  # finite
            return repr(number)
    if type(value).__name__ in MISSING:
        return None
    raise TypeError(shown(value))


def keys_of(column: Any, place: Place) -> Keys:
    """A column of categories, each as text (:func:`key`)."""
    coded = getattr(column, "cat", None) if hasattr(column, "iloc") else None
    if coded is not None and hasattr(coded, "codes"):  # pandas: its codes are ours
        return _recoded(coded.categories.tolist(), coded.codes.to_numpy(), place)
    column = plain(column)
    if is_arrow(column) and has_lists(column):
        column = column.to_pylist()
    if is_arrow(column):  # its codes are ours, too
        encoded = column.dictionary_encode()
        codes = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        return _recoded(encoded.dictionary.to_pylist(), codes, place)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        if not isinstance(column, np.ma.MaskedArray):
            values, places = np.unique(column, return_inverse=True)
            try:
                return _recoded(values.tolist(), places, place)
            except TypeError:
                pass  # the row is named below
    if isinstance(column, np.ndarray):
        column = column.tolist() if column.dtype.kind != "M" else list(column)
    return _keys(column, place)


def _recoded(listed: list[Any], codes: Any, place: Place) -> Keys:
    """A column that lists its values itself and has the place of each row's, -1 for none."""
    keys = _keys(listed, place, codes)
    return Keys(np.append(keys.codes, -1)[codes], keys.values)


def _keys(raw: Any, place: Place, codes: Any = None) -> Keys:
    """The keys of values, one per row or one per code of ``codes``."""
    others = set(map(type, raw)) - _OF_TEXT
    if others:
        raw = _as_texts(raw, place, codes, alike=len(others) == 1 and others <= _HASHABLE)
    places: dict[str | None, int] = {None: -1}
    for text in raw:
        if text not in places:
            places[text] = len(places) - 1
    codes = np.fromiter(map(places.__getitem__, raw), dtype=np.int64, count=len(raw))
    del places[None]
    return Keys(codes, list(places))  # type: ignore[arg-type]


def _as_texts(raw: Any, place: Place, codes: Any, *, alike: bool) -> list[str | None]:
    """The text of each category; values that are ``alike``, of one type but for text, are equal
    only where their texts are, so that each different one is looked at once.
    """
    if alike:
        try:
            text_of = {value: key(value) for value in dict.fromkeys(raw)}
            return [text_of[value] for value in raw]
        except TypeError:
            pass  # it is named below
    texts: list[str | None] = []
    for i, value in enumerate(raw):
        try:
            texts.append(key(value))
        except TypeError as error:
            row = i if codes is None else int(np.argmax(codes == i))
            place.refuse_type(
                row,
                f"a category must be text or a finite number; got {error}. Convert the column to "
                "text.",
            )
    return texts
