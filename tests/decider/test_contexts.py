"""Contexts as rows of numbers, one by one and as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.decider.tools import shop, snap

import heavytail as ht
from heavytail.decider.contexts import CATEGORY, MOST_TEXTS, NUMBER, Contexts
from heavytail.tables.frames import table

ROWS = [
    {"a": "x", "b": 1, "c": None, "d": True, "e": 7, "f": None},
    {"a": None, "b": None, "c": None, "d": None, "e": "7", "f": ""},
    {"a": "y", "b": -0.0, "c": None, "d": False, "e": 7.0, "f": "z" * 500},
    {"a": "x", "b": np.nan, "c": None, "d": "True", "e": None, "f": "w"},
    {"a": "x\x00", "b": 1e300, "c": None, "d": np.bool_(True), "e": 2.5, "f": "w"},
]
STATED = {"a": None, "b": None, "c": None, "d": None, "e": "category", "f": "category"}


def one_by_one(rows: list[dict[str, Any]]) -> tuple[Contexts, list[Any]]:
    made, coded = Contexts(STATED), []
    for row in rows:
        numbers, fresh, known = made.code(row, "here")
        before = made.plain()
        made.settle(known, fresh)
        assert fresh or before["texts"] == made.plain()["texts"]
        coded.append(numbers[:-2])
        assert _same(made.values(numbers[:-2]), known)
    return made, coded


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[k] == b[k] or (a[k] != a[k] and b[k] != b[k]) for k in a | b)


def test_a_table_is_coded_as_its_rows_are_one_by_one():
    made, coded = one_by_one(ROWS)
    whole = Contexts(STATED)
    rows = table({name: [row[name] for row in ROWS] for name in STATED}, "here")
    raw, texts = whole.code_table(rows)
    assert whole.plain() == Contexts(STATED).plain()
    whole.settle_table(rows, texts)
    assert whole.plain() == made.plain()
    np.testing.assert_array_equal(raw, coded)
    np.testing.assert_array_equal(raw[:, 4], [0, 0, 0, -1, 1])  # 7, "7" and 7.0 are one category
    assert made.kinds == [CATEGORY, NUMBER, None, CATEGORY, CATEGORY, CATEGORY]
    assert np.isnan(raw[:, 2]).all()
    assert raw[4, 1] == 1e100


def test_columns_of_a_table_are_those_of_its_rows():
    made, coded = one_by_one(ROWS)
    columns = made.columns_of(np.array(coded))
    for i, row in enumerate(coded):
        assert _same({name: columns[name][i] for name in STATED}, made.values(row))


@pytest.mark.parametrize("late", ["new", 3.0])
def test_a_column_that_had_no_value_at_first_becomes_what_its_first_value_is(late):
    made = shop(context=["first", "late"])
    waiting = made.decide({"first": "x", "late": None}).token
    for i in range(50):
        context = {"first": "xy"[i % 2], "late": None}
        made.reward(made.decide(context).token, float(i % 3))
    made = made.clone()
    for i in range(100):
        context = {"first": "xy"[i % 2], "late": late if i % 2 else None}
        made.reward(made.decide(context).token, float(i % 3))
    made.reward(waiting, 1.0)
    values = [made._contexts.values(row)["late"] for row in made._history.rows().contexts]
    assert all(value is None or value != value for value in values[:50])
    assert values[51:150:2] == [late] * 50
    assert snap(made.clone()) == snap(made)


def test_a_column_remembers_a_bounded_number_of_texts():
    made = Contexts({"a": "category"})
    for i in range(MOST_TEXTS + 5):
        numbers, fresh, known = made.code({"a": i}, "here")
        made.settle(known, fresh)
        assert numbers[0] == (i if i < MOST_TEXTS else -1)
        assert known["a"] == str(i)
    rows = table({"a": np.arange(2 * MOST_TEXTS)}, "here")
    other = Contexts({"a": "category"})
    raw, texts = other.code_table(rows)
    other.settle_table(rows, texts)
    assert other.plain() == made.plain()
    assert raw[MOST_TEXTS:].max() == -1


def test_what_was_stated_is_what_a_file_must_have():
    made = Contexts({"a": ["x", "y"], "b": "number", "c": None})
    good = {"kinds": [CATEGORY, NUMBER, None], "texts": [["x", "y"], [], []]}
    made.resume(good)
    for kinds, texts in [
        ([NUMBER, NUMBER, None], [["x", "y"], [], []]),
        ([CATEGORY, CATEGORY, None], [["x", "y"], [], []]),
        ([CATEGORY, NUMBER, None], [["y", "x"], [], []]),
        ([CATEGORY, NUMBER, None], [["x"], [], []]),
        ([CATEGORY, NUMBER, None], [["x", "y"], [], ["z"]]),
        ([CATEGORY, NUMBER, CATEGORY], [["x", "y"], [], ["z", "z"]]),
        ([CATEGORY, NUMBER, CATEGORY], [["x", "y"], [], "z"]),
        ([CATEGORY, NUMBER, CATEGORY], [["x", "y"], [], ["z" * 300]]),
        ([CATEGORY, NUMBER, "text"], [["x", "y"], [], []]),
        ([CATEGORY, NUMBER], [["x", "y"], []]),
    ]:
        with pytest.raises(ValueError, match=r"\w"):
            made.resume({"kinds": kinds, "texts": texts})
    assert made.plain() == good


def test_a_spline_is_saved_with_its_line(tmp_path):
    made = shop(300, context={"segment": None, "basket": ht.Spline(4, centre=0.5, scale=2.0)})
    made.save(tmp_path / "it.npz")
    twin = ht.load(tmp_path / "it.npz")
    assert twin._contexts.curves == made._contexts.curves
    for each in (made, twin):
        each.add({"sku": "new", "price": 5.0})
    assert snap(twin) == snap(made)


def test_a_frame_and_dicts_tell_the_same(tmp_path):
    frame = pd.DataFrame(
        {"sku": ["card", "tea"] * 60, "segment": ["a", None, "b"] * 40,
         "basket": [1, None, 3] * 40, "reward": [1.0, 0.0] * 60}
    )  # fmt: skip
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    states = []
    for given in (frame, frame.to_dict("list"), frame.to_dict("records"),
                  str(tmp_path / "log.csv"), str(tmp_path / "log.parquet")):  # fmt: skip
        made = shop()
        made.learn(given, progress=False)
        states.append(snap(made))
    assert all(state == states[0] for state in states)


def test_a_column_without_a_value_says_nothing_of_its_kind(tmp_path):
    """A log from before the column existed: its cells are empty, and the first visit decides."""
    log = tmp_path / "visits.csv"
    rows = "".join(f"{'bundle' if i % 2 else 'none'},{i}.5,,{i % 7}\n" for i in range(100))
    log.write_text(f"sku,basket,device,reward\n{rows}")
    made = ht.Decider([{"sku": "none"}, {"sku": "bundle"}], ids="sku", context=["basket", "device"])
    assert made.learn(log, progress=False).rows == 100
    choice = made.decide({"basket": 3.0, "device": "phone"})
    made.reward(choice.token, 1.0)
    assert made.rounds == 101
    assert made._contexts.kinds == [NUMBER, CATEGORY]
