"""A table is the same in every dress, whole or in parts, and says which column is not there."""

from __future__ import annotations

import sys
from collections import defaultdict, deque

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from heavytail.tables.categories import keys_of
from heavytail.tables.frames import check_columns, is_frame, one_row, parts, table

COLUMNS = {
    "x": [1.5, None, -2.0, 4.0],
    "n": [3, 1, 2**53 - 1, 3],
    "word": ["a", "b", None, "a"],
    "coded": ["u", "u", "v", "u"],
}
DRESSES = {
    "lists": dict,
    "deques": lambda c: {name: deque(column) for name, column in c.items()},
    "tuples": lambda c: {name: tuple(column) for name, column in c.items()},
    "arrays": lambda c: {name: np.array(column, dtype=object) for name, column in c.items()},
    "dicts": lambda c: [dict(zip(c, row, strict=True)) for row in zip(*c.values(), strict=True)],
    "pandas": pd.DataFrame,
    "pandas, nullable": lambda c: pd.DataFrame(c).convert_dtypes(),
    "pandas, coded": lambda c: pd.DataFrame(c).astype({"coded": "category", "word": "category"}),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "polars, coded": lambda c: pl.DataFrame(c).with_columns(pl.col("coded").cast(pl.Categorical)),
    "arrow": pa.table,
    "arrow, coded": lambda c: pa.table({**c, "coded": pa.array(c["coded"]).dictionary_encode()}),
}


def texts(rows, name):
    """The category of each row, None where it is missing."""
    keys = keys_of(rows.column(name), rows.place(name))
    return [keys.values[code] if code >= 0 else None for code in keys.codes]


@pytest.mark.parametrize("dress", DRESSES)
def test_every_dress_has_the_same_numbers_and_categories(dress):
    rows = table(DRESSES[dress](COLUMNS), "t")
    assert rows.length == 4
    assert set(rows.columns) == set(COLUMNS)
    np.testing.assert_array_equal(rows.numbers("x"), [1.5, np.nan, -2.0, 4.0])
    np.testing.assert_array_equal(rows.numbers("n", may_miss=False), COLUMNS["n"])
    assert texts(rows, "word") == COLUMNS["word"]
    assert texts(rows, "coded") == COLUMNS["coded"]
    assert texts(rows, "n") == ["3", "1", str(2**53 - 1), "3"]
    with pytest.raises(ValueError, match=r"^t, row 1, column 'x': is null\. Give it, or leave"):
        rows.numbers("x", may_miss=False)
    with pytest.raises(TypeError, match=r"^t, row 0, column 'word': must be a number; got 'a'\."):
        rows.numbers("word")


@pytest.mark.parametrize("dress", [dress for dress in DRESSES if dress != "dicts"])
def test_parts_are_numbered_on_and_name_their_rows(dress):
    data = DRESSES[dress](COLUMNS)
    several = list(parts(data, "log", 3, ["n", "x"], 10))
    assert [list(part.rows) for part in several] == [[10, 11, 12], [13]]
    assert np.concatenate([part.numbers("n") for part in several]).tolist() == COLUMNS["n"]
    with pytest.raises(ValueError, match=r"^log, row 11, column 'x': is null"):
        several[0].numbers("x", may_miss=False)
    assert is_frame(data) is not isinstance(data, dict)


@pytest.mark.parametrize("dress", ["pandas", "polars", "lists", "dicts", "arrays"])
def test_frames_need_no_pyarrow(dress, monkeypatch):
    data = DRESSES[dress](COLUMNS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    rows = table(data, "t")
    np.testing.assert_array_equal(rows.numbers("x"), [1.5, np.nan, -2.0, 4.0])
    assert texts(rows, "word") == COLUMNS["word"]


@pytest.mark.parametrize("dress", DRESSES)
def test_a_column_that_is_not_there_is_named_with_those_that_are(dress):
    rows = table(DRESSES[dress](COLUMNS), "t")
    with pytest.raises(
        ValueError, match=r"there is no column 'wrd'; it has .*'word'.* Did you mean"
    ):
        rows.column("wrd")


def test_a_column_that_is_there_twice_is_refused_where_it_is_asked_for():
    twice = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"])
    assert table(twice, "t").numbers("a").tolist() == [1.0]
    with pytest.raises(ValueError, match="t: 2 columns are called 'b'"):
        table(twice, "t").column("b")
    with pytest.raises(ValueError, match="t: 2 columns are called 'b'"):
        check_columns(["a", "b"], ["a", "b", "b"], "t")
    with pytest.raises(
        ValueError, match=r"there is no column 'c'; there is none at all\. Say it\."
    ):
        check_columns(["c"], [], "t", " Say it.")


def test_one_row_has_no_number_and_adds_no_columns():
    values = defaultdict(float, a=1.0, b=True)
    rows = one_row(values, "context")
    assert rows.numbers("a").tolist() == [1.0]
    with pytest.raises(
        TypeError, match=r"^context, column 'b': must be a number; got True\. Pass 1"
    ):
        rows.numbers("b")
    with pytest.raises(ValueError, match="context: there is no column 'c'"):
        rows.column("c")
    assert set(values) == {"a", "b"}
