"""The cells of columns of text as numbers, or as words that stand for a group."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import printable, shown
from heavytail.tables.columns import is_arrow
from heavytail.tables.place import Place

__all__ = ["COMMA", "GROUPED", "Cells", "Words", "is_missing", "looks_like_number", "may_be_amount"]

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "?", "."}
COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # one, of a decimal fraction
THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")  # or of a thousand
POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")  # where commas are decimal: of thousands
GROUPED = re.compile(r"[+-]?\d{1,3}([., '\u00a0\u202f]\d{3})+([.,]\d*)?")  # 1.234,5 or 1,234.5
CURRENCY = (
    r"(?:[A-Z]{0,3}[$\u00a3\u00a5\u20ac\u20b9]|EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN)"
)
DIGITS = r"[+-]?\s*\d+(?:[., '\u00a0\u202f]\d+)*"
LETTERS = r"(?!(?:st|nd|rd|th)\b)[a-z\u00b5]{1,3}(?:/[a-z]{1,3})?[23\u00b2\u00b3]?"  # km/h; not 2nd
UNIT = rf"{LETTERS}|\s+[^\s\d]{{1,5}}|\s*[%\u2030\u00b0][CF]?"
MEASURED = re.compile(rf"[+-]?{CURRENCY}\s*{DIGITS}|{DIGITS}(?:\s*{CURRENCY}|{UNIT})")
MEASURE = " Write the number alone, without its currency or unit."


def is_missing(cell: str) -> bool:
    """Tell whether a cell stands for a missing value."""
    return cell.lower() in MISSING


def looks_like_number(cell: str) -> bool:
    """Tell whether a cell is a finite number, with a point or a comma."""
    return COMMA.fullmatch(cell) is not None or _float(cell) is not None


def may_be_amount(cell: str) -> bool:
    """Tell whether a cell is a number, if only with thousands separators, a currency or a unit."""
    return looks_like_number(cell) or bool(GROUPED.fullmatch(cell) or MEASURED.fullmatch(cell))


class Cells:
    """The cells of one column, some rows at a time; a cell that is no number is refused by its row.

    Args:
        decimal_comma: whether a comma can be nothing but a decimal one.
        points: whether a point may be a decimal one: "all", "none", or "doubted" where other
            columns have decimal commas, so that 1.234 may be a thousand.
    """

    def __init__(self, decimal_comma: bool, points: str = "all") -> None:
        self._decimal_comma, self._points = decimal_comma, points
        self._comma = self._point = 0  # the first row with a decimal comma, and with a point

    def numbers(self, cells: list[str], place: Place) -> FloatArray:
        """The numbers in cells, NaN where one is missing."""
        return np.array([self._number(row, cells, place) for row in range(len(cells))])

    def _number(self, row: int, cells: list[str], place: Place) -> float:
        cell = cells[row]
        value = _float(cell)
        if value is not None and "." not in cell:
            return value
        if value is not None:
            if self._points == "none" or (self._points == "doubted" and POINTS.fullmatch(cell)):
                what = f"{shown(cell)} has a point, and other numbers have a decimal comma"
                place.refuse(row, f"{what}. Write all in one way, without thousands separators.")
            self._point = self._point or place.number(row)
        elif COMMA.fullmatch(cell):
            value = self._with_comma(row, cell, place)
        elif is_missing(cell):
            return math.nan
        elif GROUPED.fullmatch(cell):
            what = f"{shown(cell)} has thousands separators. Write all numbers without them."
            place.refuse(row, what)
        else:
            more = _others(cells[row + 1 :])
            do = MEASURE if MEASURED.fullmatch(cell) else place.hint
            place.refuse(row, f"{shown(cell)} is not a finite number{more}.{do}")
        if self._comma and self._point:
            place.refuse(
                row,
                f"{shown(cell)}, and row {min(self._comma, self._point)} has the other of a decimal"
                " comma and a point. Write all numbers in one way, without thousands separators.",
            )
        return value

    def _with_comma(self, row: int, cell: str, place: Place) -> float:
        if not self._decimal_comma and THOUSANDS.fullmatch(cell):
            place.refuse(
                row,
                f"{shown(cell)} may be a decimal fraction or thousands. Pass --decimal-comma, or "
                "leave out the comma.",
            )
        self._comma = self._comma or place.number(row)
        return float(cell.replace(",", "."))


class Words:
    """The cells of one column of words: each word has a number, by the order of their coming.

    Args:
        most: different words there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        """The words so far, each at the place of its number."""
        return list(self._numbers)

    def numbers(self, column: Any, place: Place) -> FloatArray:
        """The numbers of the words in cells, NaN where one is missing."""
        numbers = [math.nan] * len(column)
        for row, cell in enumerate(_texts(column, place)):
            if is_missing(cell):
                continue
            numbers[row] = self._numbers.setdefault(cell, len(self._numbers))
            if numbers[row] == self._most:
                what = f"more than {self._most} different words. Is it a number, or an id of each"
                place.refuse(row, f"{what} row?")
        return np.array(numbers)


def _others(cells: list[str]) -> str:
    """Count the cells among these that are no numbers either, in words."""
    count = sum(
        not (looks_like_number(cell) or is_missing(cell) or GROUPED.fullmatch(cell))
        for cell in cells
    )
    if not count:
        return ""
    return f", nor {'is' if count == 1 else 'are'} {count:,} of the next {len(cells):,}"


def _texts(column: Any, place: Place) -> list[str]:
    if not is_arrow(column):
        return list(column)
    import pyarrow as pa

    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        place.refuse(None, f"holds no words: {printable(str(column.type))}.{place.hint}")
    return [(text or "").strip() for text in column.cast(pa.string()).to_pylist()]


def _float(cell: str) -> float | None:
    """A finite number as Python writes it, without its underscores."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None
