"""Bad input is refused with a sentence, and nothing has changed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.decider.tools import COLUMNS, OFFERS, log, shop, snap

import heavytail as ht

HERE = {"segment": "new", "basket": 1.0}
SENTENCES = (ValueError, TypeError, KeyError)


def refused(decider: ht.Decider, call: Any, *words: str) -> None:
    before = snap(decider)
    with pytest.raises(SENTENCES) as caught:
        call(decider)
    text = str(caught.value)
    assert "\n" not in text
    assert text.strip("'\"").endswith(".")
    for word in ("Decider", *words):
        assert word in text
    assert snap(decider) == before


NO_NUMBERS = [True, np.bool_(True), "1", b"1", [1.0], np.array(1.0), 1 + 2j, 10**400, np.inf, {},
              np.datetime64("2020-01-01"), np.timedelta64(3), pd.Timestamp(9)]  # fmt: skip
NO_TEXTS = [b"x", [1], {}, np.array(["x"]), np.inf, Decimal("1.5"), 1 + 2j, pd.Timestamp(0)]
FINE = [None, np.nan, pd.NA, pd.NaT, np.float32(1.5), np.float16(2), np.int8(3), Decimal("1.5"),
        Fraction(1, 3), 10**30, -0.0, 1e200, np.longdouble(3), np.nextafter(0, 1)]  # fmt: skip


@pytest.mark.parametrize("rewards", [0, 40])
@pytest.mark.filterwarnings("error")
def test_a_value_of_another_kind_is_refused_and_its_column_named(rewards):
    made = shop(rewards, context={"segment": "category", "basket": "number"})
    for value in NO_NUMBERS:
        for ask in (made.decide, made.select, made.expected):
            refused(made, lambda _, a=ask, v=value: a({**HERE, "basket": v}), "'basket'", "Pass")
        bad = {**HERE, "basket": value}
        refused(made, lambda _, b=bad: made.observe(b, "card", 1.0), "'basket'")
    for value in NO_TEXTS:
        bad = {**HERE, "segment": value}
        refused(made, lambda _, b=bad: made.decide(b), "'segment'", "None")


@pytest.mark.parametrize("value", FINE, ids=str)
@pytest.mark.filterwarnings("error")
def test_every_real_number_is_one_before_and_after_the_first_shape(value, tmp_path):
    for rewards in (0, 40):
        made = shop(rewards)
        choice = made.decide({"segment": "new", "basket": value})
        made.save(tmp_path / "it.npz")
        twin = ht.load(tmp_path / "it.npz")
        assert snap(twin) == snap(made)
        for each in (made, twin):
            each.reward(choice.token, 1.0)
        assert snap(twin) == snap(made)


@pytest.mark.parametrize("text", ["", "x" * 10**6, "a\x00b", "\ud800", "two\nlines"])
@pytest.mark.parametrize("rewards", [0, 40])
def test_a_text_that_no_encoder_lists_is_as_if_it_were_missing(text, rewards):
    made, twin = shop(rewards), shop(rewards)
    for _ in range(40):
        choices = [made.decide({**HERE, "segment": text}, now=1.0),
                   twin.decide({**HERE, "segment": None}, now=1.0)]  # fmt: skip
        assert choices[0].id == choices[1].id
        assert choices[0].unknown == {}
        made.reward(choices[0].token, 1.0)
        twin.reward(choices[1].token, 1.0)
    assert text not in made._contexts.texts[0]
    made.clone()


def test_a_context_that_lacks_a_column_is_refused_with_the_remedy():
    made = shop(40)
    for context in (None, {}, {"segment": "new"}, 5, "new", [1, 2], [("segment", "new")]):
        refused(made, lambda _, c=context: made.decide(c))
        refused(made, lambda _, c=context: made.observe(c, "card", 1.0))
    made.decide({**HERE, "another": object()})


@pytest.mark.parametrize(
    "options",
    [{"k": k} for k in (0, -1, 2.5, "2", True, np.nan, 10**30)]
    + [{"explore": share} for share in (-1, 2, np.nan, "x", True)]
    + [{"only": only} for only in ([], ["zz"], "card", 5, [None], [True], [["card"]])]
    + [{"now": now} for now in (np.nan, np.inf, "noon", True, pd.Timestamp(0))],
    ids=str,
)
def test_a_visit_with_odd_options_is_refused(options):
    made = shop(40)
    made.close_after(5.0)
    made.decide(HERE, now=1.0)  # is overdue: a refused visit closes nothing
    refused(made, lambda _: made.decide(HERE, **options))


def test_a_reward_that_is_none_is_refused():
    made = shop(40)
    tokens = [choice.token for choice in made.decide(HERE, k=3)]
    for value in (np.nan, np.inf, True, "1", None, [1.0], Decimal(1), 10**400, np.array(1.0)):
        refused(made, lambda _, v=value: made.reward(tokens[0], v), "reward")
        refused(made, lambda _, v=value: made.reward(tokens, [1.0, 2.0, v]))
        refused(made, lambda _, v=value: made.observe(HERE, "card", v), "reward")
        if value is not None:
            refused(made, lambda _, v=value: made.close_after(0.0, v), "reward")
    for token, value in [
        (tokens, 1.0), (tokens, [1.0]), (tokens, "abc"), (tokens[:1] * 2, [1.0, 1.0]),
        (5, 1.0), (None, 1.0), ("", 1.0), (np.array(5), 1.0), (tokens[0].upper() + " ", 1.0),
        ([tokens], [1.0]), (shop(1).decide(HERE).token, 1.0), (b"x", 1.0), ("9" * 10**6, 1.0),
    ]:  # fmt: skip
        refused(made, lambda _, t=token, v=value: made.reward(t, v))
    made.reward(tokens, (1.0, np.float32(2.0), Fraction(1, 3)))
    refused(made, lambda _: made.reward(tokens[0], 1.0), "rewarded already")


NO_SPANS = ["", "a day", "-1 day", "1e3 days", "9" * 400 + " days", None, -1, np.nan, True, [1]]


@pytest.mark.parametrize("age", NO_SPANS, ids=lambda age: str(age)[:9])
def test_a_span_that_is_none_is_refused(age):
    made = shop(5)
    made.decide(HERE, now=1.0)
    refused(made, lambda _: made.close_after(age), "age")


@pytest.mark.parametrize(
    "rows",
    [
        {"sku": "new"}, {"sku": "new", "price": "x"}, {"price": 1.0}, [], {}, None, 5,
        {"sku": "new", "price": np.inf}, {"sku": "new", "price": 1.0, "more": 2},
        {"sku": "", "price": 1.0}, {"sku": None, "price": 1.0}, {"sku": True, "price": 1.0},
        {"sku": "x\x00", "price": 1.0}, {"sku": "x" * 300, "price": 1.0},
        [{"sku": 7, "price": 1.0}, {"sku": "7", "price": 1.0}],
    ],
)  # fmt: skip
def test_offers_that_do_not_fit_are_not_added(rows):
    refused(shop(40), lambda made: made.add(rows))


@pytest.mark.parametrize("offer", ["zz", None, 7, "", ["card"], True])
def test_an_offer_that_is_not_there_is_refused(offer):
    refused(shop(40), lambda made: made.observe(HERE, offer, 1.0), "Offers are")
    refused(shop(40), lambda made: made.retire(offer))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": None}, "no column 'reward'"),
        ({"basket": None}, "no column 'basket'"),
        ({"reward": [np.nan] * 30}, "no row can be learned"),
        ({"reward": [np.inf] * 30}, "'reward'"),
        ({"reward": [True] * 30}, "'reward'"),
        ({"reward": ["x"] * 30}, "'reward'"),
        ({"sku": ["zz"] * 30}, "no such offer"),
        ({"propensity": [0.0] * 30}, "'propensity'"),
        ({"propensity": ["x"] * 30}, "'propensity'"),
        ({"time": ["noon"] * 30}, "'time'"),
        ({"basket": ["x"] * 30}, "'basket'"),
        ({"basket": [1.0, "x"] * 15}, "row 1, column 'basket'"),
        ({"basket": [np.inf] * 30}, "'basket'"),
        ({"segment": [[1]] * 30}, "'segment'"),
        ({"reward": [1.0]}, "30"),
    ],
    ids=str,
)
def test_a_log_that_does_not_fit_is_refused_whole(change, words):
    for rewards in (0, 40):
        given = {k: v for k, v in {**log(30), **change}.items() if v is not None}
        made = shop(rewards, context={"segment": "category", "basket": "number"})
        refused(made, lambda made, g=given: made.learn(g, progress=False), words)


@pytest.mark.parametrize("columns", [5, "reward", ["reward"], {"zz": "a"}, {"reward": 5},
                                     {"reward": "paid"}, {"propensity": "p"}], ids=str)  # fmt: skip
def test_names_of_a_log_that_are_not_there_are_refused(columns):
    refused(shop(5), lambda made: made.learn(log(30), columns=columns, progress=False))


def test_a_file_that_is_missing_cut_or_has_a_column_twice_is_refused(tmp_path):
    made = shop(5)
    before = snap(made)
    pd.DataFrame(log(30)).to_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "twice.csv").write_text("sku,segment,basket,reward,reward\ncard,new,1,1,1\n")
    (tmp_path / "empty.csv").write_text("")
    for name in ("none.csv", "none.parquet", "cut.parquet", "twice.csv", "empty.csv", ""):
        with pytest.raises((ValueError, OSError), match=r"\w"):
            made.learn(str(tmp_path / name), progress=False)
    assert snap(made) == before
    assert made.learn(str(tmp_path / "whole.parquet"), progress=False).rows == 30


def test_rows_of_a_log_without_an_id_are_counted():
    learned = shop().learn({**log(30), "sku": ["card", None, "zz"] * 10}, progress=False)
    assert (learned.rows, learned.nameless, learned.foreign) == (10, 10, {"zz": 10})
    assert "10 left out: they have no id" in str(learned)


def test_times_of_a_log_may_be_dates():
    made = shop()
    made.learn({**log(30), "time": pd.to_datetime(["2020-01-02"] * 30)}, progress=False)
    assert set(made._history.rows().times) == {1577923200.0}


@pytest.mark.parametrize(
    "options",
    [
        {"offers": []}, {"offers": None}, {"offers": 5}, {"ids": "zz"}, {"ids": ["a"]},
        {"ids": (x for x in "abc")}, {"context": "segment"}, {"context": ["a", "a"]},
        {"context": [["a"]]}, {"context": ["price"]}, {"context": ["sku"]}, {"context": [5]},
        {"context": [""]}, {"context": ["a\n"]}, {"context": {"a": "text"}}, {"context": {"a": []}},
        {"context": {"a": [None]}}, {"context": {"a": [Decimal(1)]}}, {"context": {"a"}},
        {"context": {"a": np.array(["x"])}}, {"context": ["a*b", "a", "b"]},
        {"context": ["price*sku"]}, {"explore": -1}, {"explore": np.nan}, {"explore": True},
        {"rules": 5}, {"rules": []}, {"rules": {"zz": {"segment": ["x"]}}},
        {"rules": {"card": {"zz": ["x"]}}}, {"rules": {"card": {}}}, {"rules": {"card": 5}},
        {"rules": {"card": {"segment": []}}}, {"rules": {"card": {"basket": (5, 1)}}},
        {"rules": {"card": {"basket": (np.nan, 1)}}}, {"rules": {"card": {"basket": ("a", "b")}}},
        {"rules": {"card": {"basket": (1, 2, 3)}}}, {"rules": {"card": {"basket": [[1]]}}},
        {"rules": {"card": {"segment": (1, 2)}}, "context": {"segment": "category"}},
        {"rules": {"card": {"segment": ["x" * 300]}}}, {"limits": 5}, {"limits": []},
        {"limits": {"card": -1}}, {"limits": {"card": 1.5}}, {"limits": {"card": True}},
        {"limits": {"zz": 1}}, {"forget": 2.0}, {"forget": "soon"}, {"forget": 0}, {"seed": -1},
        {"seed": 1.5}, {"prices": ht.Grid(1, 2, 3)}, {"offers": None, "prices": ht.Grid(1, 2, 3)},
        {"offers": None, "ids": None, "prices": 5},
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(options):
    given = {"offers": OFFERS, "ids": "sku", "context": COLUMNS, **options}
    with pytest.raises(SENTENCES, match=r"Decider|TwinUCB"):
        ht.Decider(**given)


@pytest.mark.parametrize(
    "offers",
    [
        [{"sku": "a"}, {"sku": "a"}], [{"sku": 7}, {"sku": "7"}], [{"sku": True}], [{"sku": None}],
        [{"sku": 1.5}], [{"sku": "a", "p": 1}, {"sku": "b", "p": "x"}], [{"sku": "a", "p": ""}],
        [{"sku": "a", "p": [1]}], [{"sku": "a", 5: 1}], [{"sku": "a", "p": np.inf}],
        [{"sku": "a", "p": 10**400}], [{"sku": i} for i in range(10_001)],
        pd.DataFrame([[1, 2]], columns=["sku", "sku"]),
        pd.DataFrame({"sku": ["a"], "p": pd.to_datetime(["2020-01-01"])}),
    ],
    ids=lambda offers: str(offers)[:40],
)  # fmt: skip
def test_offers_that_are_none_are_refused(offers):
    with pytest.raises(SENTENCES, match=r"Decider\.offers"):
        ht.Decider(offers, ids="sku")


def test_a_list_of_ids_and_a_column_of_their_name_are_refused():
    with pytest.raises(ValueError, match="'offer'"):
        ht.Decider([{"offer": 1.0}, {"offer": 2.0}], ids=["a", "b"])


def test_the_share_that_explores_can_be_changed_to_a_share_only():
    made = shop(5)
    made.explore = 0.5
    refused(made, lambda made: setattr(made, "explore", 5), "explore")
    assert made.clone().explore == 0.5


@pytest.mark.parametrize("selected", [None, np.nan, 2, -1, 0.5, "yes", [1], object(), 10**400])
def test_a_flag_that_is_none_is_refused(selected):
    refused(shop(3), lambda d: d.observe(HERE, "tea", 1.0, selected=selected), "selected")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"action": [5]}, "action"),
        ({"action": ["x"]}, "action"),
        ({"action": [None]}, "action"),
        ({"action": [-1]}, "action"),
        ({"action": [True]}, "action"),
        ({"ids": [3]}, "ids"),
        ({"ids": ["card"]}, "ids"),
        ({"context_json": ["[" * 200_000]}, "context_json"),
    ],
)
def test_a_row_of_a_service_that_is_damaged_is_refused(change, words):
    good = {
        "context_json": ['{"segment": "new", "basket": 1.0}'], "ids": [["card", "tea"]],
        "action": [1.0], "reward": [1.0],
    }  # fmt: skip
    assert shop().learn(good, progress=False).rows == 1
    refused(shop(3), lambda d: d.learn({**good, **change}, progress=False), "row 0", words)


@pytest.mark.parametrize("basket", [1e-120, 5e-324, -1e-101])
def test_numbers_next_to_0_count_as_0(basket, tmp_path):
    made = shop()
    for i in range(70):
        token = made.decide({"segment": "new", "basket": basket * (1 + i % 5)}, now=1e6 + i).token
        made.reward(token, 1.0)
    made.save(tmp_path / "shop.ht")
    assert snap(ht.load(tmp_path / "shop.ht")) == snap(made)
