"""Effects that are stated are there, and advice says what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.decider.shops import learned, visits

import heavytail as ht
from heavytail.decider import contrasts


@pytest.fixture(scope="module")
def shop() -> ht.Decider:
    return learned(4000, seed=0, effect=5.0)


def test_an_effect_that_is_there_is_stated_with_its_bound(shop):
    effects = shop.effects()
    stated = {(row.column, row.value, row.offer): row for row in effects.stated}
    row = stated["segment", "returning", "b"]
    assert 1.0 < row.low < 3.0 < row.high  # the truth: 5 less 40 % of 5
    assert ("segment", "returning", "a") not in stated
    assert re.search(
        r"segment returning: b earns (\d\.\d+) a visit more than in the average visit "
        r"\(at least \d\.\d+ more\)\.",
        str(effects),
    )
    assert re.search(r"segment new: b earns .* less than in .* \(at least \S+ less\)", str(effects))
    assert effects.silent == ("basket",)
    assert "Nothing beyond chance: basket." in str(effects)


def test_a_column_alone_is_the_same_at_a_smaller_share_of_the_level(shop):
    alone = shop.effects("segment")
    assert {row.column for row in alone.rows} == {"segment"}
    assert (
        str(shop.effects("basket")) == "No effect of basket is beyond chance after 4,000 rewards."
    )
    both = {(r.column, r.value, r.offer): r for r in shop.effects().rows}
    for row in alone.rows:
        assert row.effect == pytest.approx(both[row[0], row[1], row[3]].effect, abs=0.3)


def test_effects_of_a_column_add_up_to_nothing(shop):
    """They are centred: the average over the values, as often as each came, is 0."""
    frame = shop.effects().to_pandas()
    rows = frame[(frame["column"] == "segment") & (frame["offer"] == "b")].set_index("value")
    assert 0.6 * rows.loc["new", "effect"] + 0.4 * rows.loc["returning", "effect"] == pytest.approx(
        0.0, abs=0.2
    )


def test_where_nothing_is_there_little_is_stated():
    wrong = sum(bool(learned(1500, seed, 0.0).effects().stated) for seed in range(20))
    assert wrong <= 2


def test_intervals_are_wider_at_a_higher_level(shop):
    narrow, wide = shop.effects(level=0.5).rows, shop.effects(level=0.99).rows
    for small, large in zip(narrow, wide, strict=True):
        assert large.low < small.low < small.high < large.high


def test_effects_are_drawn(shop):
    effects = shop.effects()
    for column in (None, "segment", "basket"):
        ax = effects.plot(column)
        assert len(ax.get_legend().get_texts()) == 2
    with pytest.raises(ValueError, match=r"Effects\.plot: column must be one of"):
        effects.plot("baskt")
    with pytest.raises(ValueError, match=r"Decider\.effects: column must be one of"):
        shop.effects("baskt")


def test_before_any_reward_nothing_is_known():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    assert str(shop.effects()).startswith("The context has no column yet")
    for i in range(10):
        shop.reward(shop.decide({"x": float(i)}).token, 1.0)
    with pytest.raises(ValueError, match="there is nothing to draw"):
        shop.effects().plot()


def test_rewards_of_0_state_nothing():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    for i in range(64):
        shop.reward(shop.decide({"x": float(i)}).token, 0.0)
    effects = shop.effects()
    assert effects.stated == ()
    assert "No effect of x is beyond chance after 64 rewards." in str(effects)
    effects.plot()


def test_clicks_have_effects_of_their_shares():
    rng = np.random.default_rng(0)
    n = 4000
    segment, offer = rng.choice(["new", "old"], n), rng.choice(["a", "b"], n)
    chance = 0.05 + 0.3 * ((segment == "old") & (offer == "b"))
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["segment"])
    reward = (rng.random(n) < chance) * rng.exponential(10.0, n)
    shop.learn({"segment": segment, "sku": offer, "reward": reward}, progress=False)
    effects = shop.effects()
    assert effects.approximate
    (row,) = (row for row in effects.stated if (row.value, row.offer) == ("old", "b"))
    assert 0.3 < row.low < 1.5 < row.high
    assert "approximately" in str(effects)


def test_columns_that_act_together_are_named():
    rng = np.random.default_rng(0)
    n = 3000
    log = {name: rng.uniform(-1.0, 1.0, n) for name in ("basket", "hour", "age")}
    log["reward"] = 2.0 * log["basket"] * log["hour"] + rng.standard_t(2.5, n)
    log["sku"] = rng.choice(["a", "b"], n)
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["basket", "hour", "age"])
    shop.learn(log, progress=False)
    effects = shop.effects()
    assert effects.pairs == (("basket", "hour"),)
    said = "basket and hour act together (99 %): what one changes depends on the other."
    assert said in str(effects)
    assert said in effects._repr_html_()
    assert said in str(shop.effects("hour"))
    assert "act together" not in str(shop.effects("age"))


def test_explain_names_the_offers():
    shop, _ = visits(200)
    parts = shop.explain({"segment": "new"})
    assert parts.id == shop.select({"segment": "new"}).id
    assert parts.ids == ("none", "card", "bundle")
    assert all(len(part) == 3 for part in parts.parts.values())
    assert "bundle" in str(parts)
    assert shop.explain({"segment": "new"}, only=["card"]).id == "card"


def test_advice_is_given_where_rewards_never_come():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", explore=0.5)
    for i in range(300):
        choice = shop.decide()
        if choice.id == "a" and i % 3 == 0:
            shop.reward(choice.token, 1.0 + i)
    said = str(shop.diagnostics())
    assert "none is ever closed" in said
    assert "All rewards that came are other than 0" in said
    assert "No reward has ever come for 'b'" in said
    shop.close_after("0 seconds")
    assert "is ever closed" not in str(shop.diagnostics())


def test_advice_is_given_where_no_visit_explores():
    shop, _ = visits(50, explore=0.0)
    assert "explore=0.05" in str(shop.diagnostics())


def test_a_number_whose_effect_bends_gets_a_curve_or_is_named():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, 4000)
    log = {"x": x, "offer": ["a"] * 4000, "sku": ["a"] * 4000, "reward": 4.0 * x**2}
    shop = ht.Decider([{"sku": "a"}], ids="sku", context=["x"])
    shop.learn(log, progress=False)
    assert "leave a pattern" not in str(shop.diagnostics())  # a curve was taken
    shop._model.shape = shop._model.shape._replace(curves=())
    shop._model.encoder = ht.Encoder(numbers={"x": (0.0, 1.0)}).fit([{"x": 0.0}])
    shop._model.forecast = ht.TwinUCB(dim=shop._model.encoder.dim)
    assert "Straight lines in x leave a pattern (p < 0.001): state a curve" in str(
        shop.diagnostics()
    )


@pytest.mark.parametrize("forget", [None, 0.99])
def test_an_offer_whose_rewards_have_changed_is_named(forget):
    rng = np.random.default_rng(1)
    ids = [{"sku": "a"}, {"sku": "b"}]
    shop = ht.Decider(ids, ids="sku", context=["x"], explore=0.3, forget=forget)
    for t in range(2400):
        choice = shop.decide({"x": float(rng.normal())})
        worse = 1.5 * (choice.id == "a" and t >= 1800)
        shop.reward(choice.token, 5.0 + (choice.id == "a") - worse + rng.standard_t(2.1))
        if t == 1799:
            assert "changed" not in str(shop.diagnostics())
    advice = str(shop.diagnostics())
    assert "'b'" not in advice
    assert ("What 'a' earns has changed" in advice) == (forget is None)
    assert "below those before them, in like visits" in advice or forget


def test_a_column_with_small_effects_may_be_left_out():
    rng = np.random.default_rng(0)
    n = 6000
    log = {"x": rng.normal(size=n), "sku": rng.choice(["a", "b"], n), "reward": 10.0}
    log["reward"] = 10.0 + rng.normal(size=n)
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    shop.learn(log, progress=False)
    assert "x: no effect on any offer is above" in str(shop.diagnostics())


@pytest.mark.parametrize("seed", range(3))
def test_effects_hold_over_all_contexts_that_came(seed):
    rng, n = np.random.default_rng([seed, 7]), 4000
    x, which = rng.uniform(-1.0, 1.0, n), rng.integers(2, size=n)
    slope = {"a": 0.3, "b": -0.4}
    rewards = 4.0 + np.array([0.3, -0.4])[which] * x + rng.normal(size=n)
    made = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"], seed=seed)
    made.learn({"x": x, "sku": np.array(["a", "b"])[which], "reward": rewards}, progress=False)
    for row in made.effects().rows:
        truth = slope[row.offer] * (row.number - float(np.mean(x)))
        assert row.low <= truth <= row.high


def test_an_average_over_some_contexts_is_as_far_off_as_is_said():
    rng, misses = np.random.default_rng(5), 0
    for _ in range(1000):
        every = rng.exponential(size=1000)
        some = rng.choice(every, 400, replace=False)
        half = contrasts._sampled(some, 0.9, len(every))
        misses += abs(np.mean(some) - np.mean(every)) > half
    assert 70 <= misses <= 130
    assert contrasts._sampled(every, 0.9, len(every)) == 0.0


def test_a_shop_whose_offers_are_all_retired_has_advice_and_effects():
    shop, _ = visits(60)
    for name in shop.offers:
        shop.retire(name)
    assert shop.effects().rows == ()
    assert str(shop.diagnostics())
