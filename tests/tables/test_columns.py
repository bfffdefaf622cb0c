"""Columns become numbers and lists, and a value that is none is refused by its own row."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from heavytail.tables.columns import lists, nulls, numbers, plain
from heavytail.tables.place import Place

PLACE = Place("t", "c", range(100, 200))


@pytest.mark.parametrize(
    "column",
    [
        [1, 2.0, np.float32(3.0)],
        np.array([1, 2, 3], dtype=np.uint8),
        [Decimal(1), Fraction(2), np.int8(3)],
        pa.array([Decimal("1.0"), Decimal("2.0"), Decimal("3.0")]),
        pa.chunked_array([[1], [2, 3]]),
        pa.array([1, 2, 3]).dictionary_encode(),
        pl.Series([1, 2, 3]),
        pd.Series([1, 2, 3], dtype="Int64"),
    ],
    ids=lambda column: type(column).__name__,
)
def test_numbers_of_any_kind_are_floats(column):
    values = numbers(plain(column), PLACE)
    assert values.dtype == np.float64
    assert values.tolist() == [1.0, 2.0, 3.0]


def test_decimals_are_rounded_as_python_rounds_them():
    cells = [Decimal(f"{k}.{k * 7919:012d}") for k in range(1, 500)]
    assert numbers(pa.array(cells), PLACE).tolist() == [float(cell) for cell in cells]


@pytest.mark.parametrize(
    "column",
    [
        [1.0, None, 3.0],
        [1.0, pd.NA, 3.0],
        np.array([1.0, None, 3.0], dtype=object),
        np.ma.MaskedArray([1.0, 2.0, 3.0], [False, True, False]),
        pa.array([1.0, None, 3.0]),
        pl.Series([1.0, None, 3.0]),
        pd.Series([1.0, np.nan, 3.0]),
        pd.Series([1, None, 3], dtype="Int64"),
    ],
    ids=lambda column: type(column).__name__,
)
def test_a_null_is_found_in_every_kind_of_column(column):
    column = plain(column)
    assert nulls(column).tolist() == [False, True, False]
    np.testing.assert_array_equal(numbers(column, PLACE, may_miss=True), [1.0, np.nan, 3.0])
    with pytest.raises(ValueError, match=r"^t, row 101, column 'c': is null\. Give it"):
        numbers(column, PLACE)


def test_a_nan_is_no_null_where_both_can_be_said():
    for column in ([1.0, np.nan], np.array([1.0, np.nan]), pa.array([1.0, np.nan])):
        gone = nulls(plain(column))
        assert gone is None or not gone.any()
        assert np.isnan(numbers(plain(column), PLACE)[1])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, r"must be a number; got True\. Pass 1 or 0\."),
        ("1.0", r"must be a number; got '1\.0'\."),
        (1j, "must be a number; got 1j"),
        (datetime.date(2020, 1, 1), "must be a number; got datetime"),
        (np.timedelta64(1, "s"), "must be a number; got np.timedelta64"),
        ([1.0], r"must be a number; got \[1\.0\]"),
        (10**400, "is beyond all floats. Change the unit"),
    ],
)
def test_what_is_no_number_is_refused_by_its_row(value, words):
    with pytest.raises((TypeError, ValueError), match=rf"^t, row 101, column 'c': .*{words}"):
        numbers([1.0, value], PLACE)


def test_an_array_of_several_axes_is_no_column():
    with pytest.raises(ValueError, match=r"^t, column 'c': must be flat; got shape \(2, 2\)"):
        numbers(np.eye(2), PLACE)


@pytest.mark.parametrize("dress", [list, pa.array, pl.Series])
def test_what_stands_in_lists_in_lists_is_refused_by_the_row_of_the_outermost(dress):
    column = plain(dress([[[1.0, 2.0]], [], [[3.0], [4.0, None]]]))
    lengths, inner = lists(column, PLACE)
    assert lengths.tolist() == [1, 0, 2]
    inside = PLACE.inside(lengths)
    lengths, values = lists(plain(inner), inside)
    assert lengths.tolist() == [2, 1, 2]
    with pytest.raises(ValueError, match=r"^t, row 102, column 'c': is null"):
        numbers(plain(values), inside.inside(lengths))


def test_what_is_no_list_is_refused_by_its_row():
    with pytest.raises(TypeError, match=r"^t, row 101, column 'c': must be a list of ids; got 'a'"):
        lists([["a"], "a"], PLACE, of=" of ids")
    with pytest.raises(ValueError, match=r"^t, row 101, column 'c': is null\. Name them\."):
        lists([["a"], None], PLACE, do="Name them.")
