"""A newcomer's first hour with a Decider."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.decider.choice import amount

OFFERS = "sku,price\nnone,0\ncard,19\nNA,5\n"


def test_none_and_na_in_a_csv_file_are_ids_like_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "offers.csv").write_text(OFFERS)
    shop = ht.Decider("offers.csv", ids="sku", context=["land", "age"])
    assert list(shop.offers) == ["none", "card", "NA"]
    log = "sku,land,age,reward\nnone,NA,30,1.5\nNA,none,none,2\n,DE,41,0\nNA,,NA,\n"
    (tmp_path / "log.csv").write_text(log)
    learned = shop.learn("log.csv")
    assert (learned.rows, learned.unrewarded, learned.nameless) == (2, 1, 1)
    assert shop._contexts.kinds == ["category", "number"]
    (tmp_path / "silent.csv").write_text("sku,land,age,reward\nnone,DE,3,0\nnone,DE,4,1\n")
    assert shop.learn("silent.csv").rows == 2


def test_without_a_context_an_offer_has_its_expectation():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", explore=0.2)
    assert shop.decide().expected is None
    rng = np.random.default_rng(0)
    for _ in range(500):
        choice = shop.decide()
        shop.reward(choice.token, {"a": 1.0, "b": 3.0}[choice.id] + rng.standard_t(2.1))
    found = shop.expected()
    assert found["a"][0] == pytest.approx(1.0, abs=0.7)
    assert found["b"][0] == pytest.approx(3.0, abs=0.5)
    assert found["b"][1] < found["b"][0] < found["b"][2]
    choice = shop.decide(explore=0.0)
    assert choice.expected == pytest.approx(found["b"][0])
    assert choice.why.startswith("b is expected to earn most here: ")
    assert [each.expected for each in shop.decide(k=2, explore=0.0)] == pytest.approx(
        [found["b"][0], found["a"][0]]
    )


def test_a_range_in_a_rule_says_that_its_column_holds_numbers():
    rules = {"b": {"basket": (20, None)}}
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["basket"], rules=rules)
    with pytest.raises(TypeError, match=r"must be a number.*Pass float\('31'\)\."):
        shop.decide({"basket": "31"})
    assert shop.decide({"basket": 9.0}, explore=0.0).id == "a"
    with pytest.raises(TypeError, match=r"list categories as \['new', 'old'\]"):
        ht.Decider([{"sku": "b"}], ids="sku", context=["s"], rules={"b": {"s": ("new", "old")}})
    with pytest.raises(ValueError, match="List some of them"):
        ht.Decider([{"sku": "b"}], ids="sku", context={"basket": "category"}, rules=rules)


def test_numbers_that_came_as_text_are_noticed():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["basket"])
    for number in range(60):
        shop.decide({"basket": f"{number / 4}"})
    advice = " ".join(shop.diagnostics().advice)
    assert "All 60 different values of basket are numbers that came as text" in advice


def test_amounts_with_a_currency_are_numbers_and_name_no_visits():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["basket"])
    for number in range(60):
        shop.reward(shop.decide({"basket": f"1.0{number + 10},40 €"}).token, 1.0)
    advice = " ".join(shop.diagnostics().advice)
    assert "came as text" in advice
    assert "pass them as numbers, without thousands separators, currency or unit" in advice
    assert "Leave it out" not in advice


def test_a_reward_of_a_log_that_is_most_of_all_is_named():
    rng = np.random.default_rng(4)
    rows = {"sku": ["a", "b"] * 300, "reward": rng.pareto(2.5, 600) + 1.0}
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku")
    shop.learn(rows)
    assert not any("One reward" in said for said in shop.diagnostics().advice)
    rows["reward"][7] = 999_999.0
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku")
    shop.learn(rows)
    assert (
        shop.diagnostics()
        .advice[0]
        .startswith("One reward, 999,999 for 'b', has 99.9 % of all that 600 visits earned")
    )


def test_the_share_that_explores_can_be_set_and_is_checked(tmp_path):
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", explore=0.2)
    shop.explore = 0.5
    with pytest.raises(ValueError, match=r"Decider\.explore must be a number in \[0, 1\]"):
        shop.explore = 5
    shop.save(tmp_path / "shop.ht")
    assert ht.load(tmp_path / "shop.ht").explore == 0.5


def test_one_of_a_kind_is_no_plural():
    shop = ht.Decider([{"sku": "a"}], ids="sku")
    choice = shop.decide()
    assert "1 decision waits for its reward." in shop.report().sentences
    shop.reward(choice, 2.0)
    assert shop.report().sentences[0].startswith("1 decision, 1 reward: 2.00 in all")


def test_an_offer_that_is_not_the_best_forecast_is_shown_to_learn_of_it():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"], explore=0.0)
    rng = np.random.default_rng(1)
    reasons = []
    for _ in range(400):
        visit = {"x": float(rng.normal())}
        expected = shop.expected(visit)
        choice = shop.decide(visit)
        if "shown to learn more" in choice.why:
            reasons.append((choice, expected))
        shop.reward(choice, float(rng.standard_t(2.1)))
    assert len(reasons) > 10
    for choice, expected in reasons:
        (other,) = {"a", "b"} - {choice.id}
        mean, best = expected[choice.id][0], expected[other][0]
        assert mean < best
        assert choice.why == (
            f"{choice.id} is expected to earn {amount(mean)} here, {other} {amount(best)}; "
            f"{choice.id} is shown to learn more about it."
        )


def test_an_offer_expected_to_earn_as_much_as_another_is_said_to():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}, {"sku": "c"}], ids="sku", explore=0.0)
    reasons = set()
    for _ in range(60):
        choice = shop.decide()
        shop.reward(choice, 0.0)
        reasons.add(choice.why)
    assert "Too few rewards came yet to compare the 3 offers." in reasons
    assert "c is expected to earn 0 here, as much as a." in reasons


def test_a_log_with_propensities_says_that_they_are_not_used():
    log = {"sku": ["a", "b"] * 40, "reward": np.arange(80.0), "propensity": [0.5, 0.3] * 40}
    shops = [ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=[]) for _ in range(2)]
    learned = shops[0].learn(log, progress=False)
    assert str(learned).endswith("propensities were stored, and change nothing that is learned")
    shops[1].learn({name: log[name] for name in ("sku", "reward")}, progress=False)
    assert shops[0].expected() == shops[1].expected()
