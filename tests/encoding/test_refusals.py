"""What an encoder refuses, in words that name column and row, and nothing has changed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.encoding.tools import columns, fitted

import heavytail as ht

CONSTRUCTORS: list[tuple[dict[str, Any], str]] = [
    ({}, r"Encoder needs a column"),
    ({"numbers": "age"}, r'numbers must be such as \["age", "price"\], a list of names; got'),
    ({"numbers": ["a", "a"]}, r"numbers: the column 'a' is listed twice"),
    ({"numbers": ["a"], "categories": ["a"]}, r"the column 'a' is listed twice"),
    ({"numbers": [3]}, r"name of a column must be text; got 3"),
    ({"numbers": ["a\x1b[0m"]}, r"'a\\x1b\[0m' has the control character '\\x1b'\. Rename"),
    ({"numbers": [""]}, r"is empty"),
    ({"numbers": ["a" * 201]}, r"has 201 characters, more than 200"),
    ({"numbers": {"a": 3.0}}, r"numbers\['a'\] must be \(centre, scale\), or None"),
    ({"numbers": {"a": (0.0, 0.0)}}, r"numbers\['a'\]\.scale must be a number in \(0, inf\)"),
    ({"numbers": {"a": (np.nan, 1.0)}}, r"numbers\['a'\]\.centre must be"),
    ({"numbers": {"a": (True, 1.0)}}, r"numbers\['a'\]\.centre must be a number"),
    ({"categories": {"a": []}}, r"categories\['a'\] must list categories"),
    ({"categories": {"a": ["x", None]}}, r"the category None is missing\. Leave it out"),
    ({"categories": {"a": ["x", b"y"]}}, r"must list texts or numbers; got b'y'"),
    ({"categories": {"a": [1, "1"]}}, r"'1' is listed twice"),
    ({"categories": {"a": ["x\n"]}}, r"has the control character"),
    ({"categories": {"a": range(10**6)}}, r"must list categories"),
    ({"categories": {"a": list(range(10**6))}}, r"1000000 categories.*hashed=\{'a': 256\}"),
    ({"hashed": ["a"]}, r'hashed must be such as \{"sku": 64\}'),
    ({"hashed": {"a": 0}}, r"hashed\['a'\] must be a whole number of at least 1"),
    ({"hashed": {"a": 10**6}}, r"hashed\['a'\] must be at most 65536"),
    ({"hashed": {"a": 2**16, "b": 1}}, r"65537 features are more than 65536; 65536 .* of 'a'"),
    ({"crosses": [("a", "b")]}, r"the column 'a' is in neither.*\('a', 'b', 256\)"),
    ({"crosses": [("a", 8)]}, r"must name two columns or more, each once"),
    ({"crosses": [("a", "a", 8)]}, r"must name two columns or more, each once"),
    ({"crosses": ["ab"]}, r"crosses\[0\] must be such as"),
    ({"crosses": [("a", "b", 8), ("b", "a", 4)]}, r"crosses: the column 'a\*b' is listed twice"),
    ({"numbers": ["a*b"], "crosses": [("a", "b", 8)]}, r"the column 'a\*b' is listed twice"),
    ({"crosses": "ab"}, r"crosses must be a list such as"),
    ({"numbers": ["a"], "bound": 0.0}, r"Encoder.bound must be"),
    ({"numbers": ["a"], "clip": np.inf}, r"Encoder.clip must be"),
    ({"numbers": ["a"], "missing": "drop"}, r"missing must be one of 'refuse', 'centre', 'ind"),
    ({"numbers": ["a"], "missing": {"b": "centre"}}, r"missing names 'b', which is not in num"),
    ({"numbers": ["a"], "other": 1}, r"Encoder.other must be True or False"),
    ({"numbers": ["a"], "shares": {"b": 1.0}}, r"shares names 'b', which is none of \['a'\]"),
    ({"numbers": ["a"], "shares": {"a": 0.0}}, r"shares\['a'\] must be a number in"),
    ({"numbers": ["a"], "shares": [1.0]}, r"shares must be such as"),
    ({"numbers": ["a"], "seed": -1}, r"Encoder.seed must be"),
]


@pytest.mark.parametrize(("told", "words"), CONSTRUCTORS)
def test_arguments_that_cannot_be_are_refused_by_name(told, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        ht.Encoder(**told)
    assert len(str(caught.value)) < 600


def spoiled(name: str, row: int, value: Any) -> dict[str, Any]:
    told = columns(5)
    told[name][row] = value
    return told


ROWS: list[tuple[Any, str]] = [
    (spoiled("price", 3, None), r"row 3, column 'price': the number is missing.*\"centre\""),
    (spoiled("price", 1, np.nan), r"row 1, column 'price': the number is missing"),
    (spoiled("age", 2, np.inf), r"row 2, column 'age': the number must be finite; got inf"),
    (spoiled("age", 4, True), r"row 4, column 'age': must be a number; got True\. Pass 1 or 0"),
    (spoiled("age", 0, "40"), r"row 0, column 'age': must be a number; got '40'\. Convert the"),
    (spoiled("age", 0, 1j), r"row 0, column 'age': must be a number; got 1j"),
    (spoiled("age", 0, 10**400), r"row 0, column 'age': .* is beyond all floats"),
    (spoiled("age", 1, datetime.date(2020, 1, 1)), r"row 1, column 'age': must be a number"),
    (spoiled("age", 1, [1]), r"row 1, column 'age': must be a number; got \[1\]"),
    (spoiled("segment", 2, b"x"), r"row 2, column 'segment': a category must be text or a fin"),
    (spoiled("region", 3, np.inf), r"row 3, column 'region': a category must be .* got inf"),
    ({**columns(5), "region": np.array([1, 2, np.inf, 1, 1])}, r"row 2, column 'region'"),
    ({**columns(5), "price": np.array([True] * 5)}, r"row 0, column 'price': .* got True"),
    ({**columns(5), "price": np.ones((5, 2))}, r"column 'price': must be flat"),
    ({**columns(5), "price": [1.0]}, r"column 'price' has 1 values|column 'age' has 5 values"),
    ({**columns(5), "price": 1.0}, r"has 5 values and 'price' has one that is not a list"),
    (
        {k: v for k, v in columns(5).items() if k != "price"},
        r"there is no column 'price'; it has \['",
    ),
    ({("prices" if k == "price" else k): v for k, v in columns(5).items()}, r"mean 'prices'\?"),
    (np.ones((5, 5)), r"got ndarray\. An array has no names: pass pandas\.DataFrame"),
    (None, r"rows must be a pandas or polars frame, a dict of columns or a list of dicts"),
    ([1, 2], r"row 0: must be a dict of values by column; got 1"),
    (pd.DataFrame(columns(5)).assign(age=True), r"row 0, column 'age': .* got True"),
    (pl.DataFrame(columns(5)).with_columns(age=pl.lit(True)), r"row 0, column 'age'"),
    (
        pd.DataFrame(columns(5)).assign(age=pd.Timestamp(0)),
        r"row 0, column 'age': must be a number",
    ),
    (pd.DataFrame(np.ones((2, 2)), columns=["age", "age"]), r"2 columns are called 'age'"),
]


@pytest.mark.parametrize(("rows", "words"), ROWS)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform"])
def test_rows_that_cannot_be_are_refused_by_column_and_row(rows, words, method):
    encoder = fitted()
    before = encoder.schema(), {k: a.tobytes() for k, a in encoder.saved_arrays().items()}
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        getattr(encoder, method)(rows)
    assert f"Encoder.{method}" in str(caught.value)
    assert before == (
        encoder.schema(),
        {k: a.tobytes() for k, a in encoder.saved_arrays().items()},
    )


def test_what_is_hashed_is_looked_at_when_it_is_encoded():
    told = spoiled("sku", 2, ("a",))
    with pytest.raises(TypeError, match=r"row 2, column 'sku': a category must be text.* Convert"):
        fitted().fit(told).transform(told)


def test_what_was_not_fitted_says_what_to_do():
    for told, words in (
        ({"numbers": ["a"]}, r"centre and scale of 'a' are not known: nothing was fitted\. Call"),
        ({"categories": ["a"]}, r"categories of 'a' are not known: nothing was fitted.*\[\.\.\.\]"),
    ):
        encoder = ht.Encoder(**told)
        for call in (
            lambda e=encoder: e.transform({"a": 1}), lambda e=encoder: e.dim,
            lambda e=encoder: e.arms({}, [{"a": 1}]), encoder.fixed, encoder.get_feature_names_out,
        ):  # fmt: skip
            with pytest.raises(ValueError, match=words):
                call()


def test_a_column_without_a_value_cannot_be_learned_from():
    encoder = ht.Encoder(numbers=["a"], missing="centre")
    with pytest.raises(ValueError, match=r"'a' are not known: no value of it was seen"):
        encoder.fit({"a": [None, None]})
    encoder.partial_fit({"a": [None, None]})  # a later batch may have one
    with pytest.raises(ValueError, match="no value of it was seen"):
        encoder.transform({"a": 1.0})
    assert encoder.partial_fit({"a": [2.0]}).schema()["numbers"]["a"] == [2.0, 1.0]
    with pytest.raises(ValueError, match=r"fit: there are no rows\. Pass at least one"):
        encoder.fit({"a": []})


def test_a_million_categories_are_refused_with_what_to_do():
    encoder = ht.Encoder(categories=["sku"])
    with pytest.raises(ValueError, match=r"column 'sku' has 20000 categories, more than 10000\. H"):
        encoder.fit({"sku": list(range(20000))})
    encoder.fit({"sku": list(range(9000))})
    with pytest.raises(ValueError, match=r"hashed=\{'sku': 256\}"):
        encoder.partial_fit({"sku": list(range(9000, 18000))})
    assert encoder.dim == 9000


def test_a_category_that_would_steer_a_terminal_is_not_learned():
    with pytest.raises(ValueError, match=r"row 1, column 'c': the category 'a\\x07' has the con"):
        ht.Encoder(categories=["c"]).fit({"c": ["a", "a\x07"]})
    hashed = ht.Encoder(hashed={"c": 4})
    assert hashed.transform({"c": ["a\x07", "x" * 10**5, "\ud800"]}).sum() == 3.0
    nbsp = ht.Encoder(categories=["c"]).fit({"c": ["10\xa0000 €", "日\u3000本"]})
    assert nbsp.dim == 2


def test_a_schema_with_an_unknown_key_is_refused():
    with pytest.raises(ValueError, match=r"from_schema: 'number' is unknown; it takes numbers, "):
        ht.Encoder.from_schema({"number": ["a"]})
    with pytest.raises(TypeError, match="pass a dict"):
        ht.Encoder.from_schema([])


def test_an_iterator_is_refused_with_what_to_do_and_rows_without_columns_in_words():
    encoder = fitted()
    for call in (encoder.fit, encoder.partial_fit, encoder.transform):
        with pytest.raises(TypeError, match=r"got list_iterator\. Pass list\(rows\), or chunks"):
            call(iter([{}, {}]))
    with pytest.raises(TypeError, match=r"got list_iterator\. Pass list\(rows\)"):
        encoder.arms({}, iter([{}]))
    with pytest.raises(ValueError, match=r"row 0: there is no column '.*'; there is none at"):
        encoder.transform([{}, {}])


def test_lists_in_lists_without_end_are_refused_in_words():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    encoder = ht.Encoder(numbers={"a": (0.0, 1.0)}, categories={"b": ["x"]})
    for told in (deep, {"k": deep}):
        with pytest.raises(TypeError, match=r"categories\['b'\] must list"):
            ht.Encoder(categories={"b": told})
        for row in ({"a": told, "b": "x"}, {"a": 1.0, "b": told}):
            with pytest.raises(TypeError, match=r"got something of type"):
                encoder.transform([row])
            with pytest.raises(TypeError, match=r"got something of type"):
                encoder.arms(row, [{}])


def test_a_bad_category_of_a_coded_column_is_refused_by_row():
    odd = pd.Series(["x", "y", datetime.date(2020, 1, 1)], dtype="category")
    encoder = ht.Encoder(categories={"b": ["x"]})
    with pytest.raises(TypeError, match=r"row 2, column 'b': a category must be text"):
        encoder.transform(pd.DataFrame({"b": odd}))
