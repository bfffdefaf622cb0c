"""The cells of a table of text as numbers, or as words that stand for a group."""

from __future__ import annotations

import math
import re

from heavytail._validate import shown

__all__ = ["Cells", "Words", "is_missing", "looks_like_number"]

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "?", "."}
COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # one, of a decimal fraction
THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")  # or of a thousand
POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")  # where commas are decimal: of thousands
GROUPED = re.compile(r"[+-]?\d{1,3}([., '\u00a0\u202f]\d{3})+([.,]\d*)?")  # 1.234,5 or 1,234.5


def is_missing(cell: str) -> bool:
    """Tell whether a cell stands for a missing value."""
    return cell.lower() in MISSING


def looks_like_number(cell: str) -> bool:
    """Tell whether a cell is a finite number, with a point or a comma."""
    return COMMA.fullmatch(cell) is not None or _float(cell) is not None


class Cells:
    """The cells of one column, row by row; a cell that is no number is refused by its row.

    Args:
        path: what errors call the file.
        column: what they call the column.
        decimal_comma: whether a comma can be nothing but a decimal one.
        points: whether a point may be a decimal one: "all", "none", or "doubted" where other
            columns have decimal commas, so that 1.234 may be a thousand.
        hint: what to do where it holds text.
    """

    def __init__(
        self, path: str, column: str, decimal_comma: bool, points: str = "all", hint: str = ""
    ) -> None:
        self._path, self._column, self._decimal_comma = path, column, decimal_comma
        self._points, self._hint = points, hint
        self._comma = self._point = 0  # the first row with a decimal comma, and with a point

    def number(self, row: int, cell: str, *, skip_missing: bool) -> float | None:
        """The number in a cell; None where it is missing and may be."""
        value = _float(cell)
        if value is not None and "." not in cell:
            return value
        if value is not None:
            if self._points == "none" or (self._points == "doubted" and POINTS.fullmatch(cell)):
                what = f"{shown(cell)} has a point, and other numbers have a decimal comma"
                raise self._problem(
                    row, f"{what}. Write all in one way, without thousands separators."
                )
            self._point = self._point or row
        elif COMMA.fullmatch(cell):
            value = self._with_comma(row, cell)
        elif is_missing(cell):
            if skip_missing:
                return None
            raise self._problem(row, _missing(cell))
        elif GROUPED.fullmatch(cell):
            what = f"{shown(cell)} has thousands separators. Write all numbers without them."
            raise self._problem(row, what)
        else:
            raise self._problem(row, f"{shown(cell)} is not a finite number.{self._hint}")
        if self._comma and self._point:
            raise self._problem(
                row,
                f"{shown(cell)}, and row {min(self._comma, self._point)} has the other of a decimal"
                " comma and a point. Write all numbers in one way, without thousands separators.",
            )
        return value

    def _with_comma(self, row: int, cell: str) -> float:
        if not self._decimal_comma and THOUSANDS.fullmatch(cell):
            raise self._problem(
                row,
                f"{shown(cell)} may be a decimal fraction or thousands. Pass --decimal-comma, or "
                "leave out the comma.",
            )
        self._comma = self._comma or row
        return float(cell.replace(",", "."))

    def _problem(self, row: int, what: str) -> ValueError:
        return _problem(self._path, row, self._column, what)


class Words:
    """The cells of one column of words: each word has a number, by the order of their coming.

    Args:
        path: what errors call the file.
        column: what they call the column.
        most: different words there may be.
    """

    def __init__(self, path: str, column: str, most: int) -> None:
        self._path, self._column, self._most = path, column, most
        self._numbers: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        """The words so far, each at the place of its number."""
        return list(self._numbers)

    def number(self, row: int, cell: str, *, skip_missing: bool) -> float | None:
        """The number of the word in a cell; None where it is missing and may be."""
        if is_missing(cell):
            if skip_missing:
                return None
            raise _problem(self._path, row, self._column, _missing(cell))
        number = self._numbers.setdefault(cell, len(self._numbers))
        if number == self._most:
            what = f"more than {self._most} different words. Is it a number, or an id of each row?"
            raise _problem(self._path, row, self._column, what)
        return float(number)


def _missing(cell: str) -> str:
    what = f"{shown(cell)} stands for a missing value" if cell else "the cell is empty"
    return f"{what}. Fill it, or pass --skip-missing."


def _problem(path: str, row: int, column: str, what: str) -> ValueError:
    return ValueError(f"{path}, row {row}, column {shown(column)}: {what}")


def _float(cell: str) -> float | None:
    """A finite number as Python writes it, without its underscores."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None
