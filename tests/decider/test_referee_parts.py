"""Parts of a Decider against what their docstrings say, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.decider import learning, shape
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import History, Rows
from heavytail.decider.limits import Limits
from heavytail.decider.model import Model
from heavytail.decider.offers import Offers
from heavytail.decider.tokens import MOST_CLOSED, MOST_RUNS, Tokens

ABC = Offers("id", ["a", "b", "c"], {})


def shop(**options) -> ht.Decider:
    return ht.Decider([{"id": i} for i in "abc"], ids="id", context=["s"], **options)


def test_a_score_test_is_that_of_chi_squared_and_pays_for_two_looks():
    from scipy.stats import chi2

    rng = np.random.default_rng(0)
    n, design, block = 400, rng.normal(size=(400, 3)), rng.normal(size=(400, 2))
    y = rng.normal(size=n) + block[:, 0]
    basis = shape._basis(design)
    left = (y - basis @ (basis.T @ y))[:, None]
    rest = block - basis @ (basis.T @ block)
    weights = np.full((n, 1), 0.5)
    g = rest.T @ (0.5 * left[:, 0])
    spreads = [rest.T @ rest * 0.5, (rest * 0.5 * left).T @ (rest * 0.5 * left)]
    larger = max(chi2.logsf(float(g @ np.linalg.solve(C, g)), 2) for C in spreads)
    wanted = larger + np.log(2.0)
    assert shape._log_p(rest, left, weights) == pytest.approx(wanted)


def test_ranks_of_equal_numbers_lie_in_the_middle_of_their_run():
    part = shape._of_number(np.array([1.0, 1.0, 2.0, 3.0, 3.0, np.nan]))
    assert part.line[:, 0] == pytest.approx([-0.6, -0.6, 0.0, 0.6, 0.6, 0.0])
    assert part.curve[5].tolist() == [0.0] * shape.KNOTS


def test_a_column_without_effect_is_doubted_and_one_with_effect_is_not():
    rng = np.random.default_rng(1)
    n, contexts = 600, Contexts({"u": "number", "v": "number"})
    raw, places = rng.normal(size=(n, 2)), rng.integers(0, 3, n)
    y = raw[:, 0] * np.array([1.0, 0.0, -1.0])[places] + rng.normal(size=n)
    assert shape.learn_shape(contexts, ABC, raw, places, y).doubted == ("v",)


def test_rewards_are_cut_at_half_a_per_cent_on_each_side():
    y = np.arange(2000.0)
    assert (shape._cut(y).min(), shape._cut(y).max()) == (10.0, 1989.0)


def test_the_level_of_a_step_is_shared_by_its_tests(monkeypatch):
    rng = np.random.default_rng(2)
    contexts = Contexts({"u": "number", "v": "number"})
    raw, places, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300), rng.normal(size=300)
    for p, grown in ((0.0045, False), (0.0032, True)):  # three candidates at 0.01: 0.0033 each
        monkeypatch.setattr(shape, "_log_p", lambda *args, p=p: np.log(p))
        found = shape.learn_shape(contexts, ABC, raw, places, y)
        assert bool(found.curves) is grown


def test_variances_allow_for_the_directions_that_were_fitted(monkeypatch):
    rng = np.random.default_rng(3)
    contexts = Contexts({"u": "number"})
    raw, places, y = rng.normal(size=(200, 1)), rng.integers(0, 3, 200), rng.normal(size=200)
    seen = []
    monkeypatch.setattr(shape, "_log_p", lambda rest, left, w: seen.append((left, w)) or 0.0)
    shape.learn_shape(contexts, ABC, raw, places, y)
    left, weights = seen[0]
    spare = weights * shape._variances(left, places)
    assert spare == pytest.approx(np.full_like(spare, spare[0, 0]))
    assert 0.9 < spare[0, 0] < 1.0


def learned_model(rows: int = 400) -> tuple[Model, Contexts, Rows]:
    rng = np.random.default_rng(4)
    contexts = Contexts({"u": "number"})
    raw, places = rng.normal(size=(rows, 1)), rng.integers(0, 3, rows)
    y = 10.0 + 3.0 * raw[:, 0] * (places == 1) + rng.normal(size=rows)
    nan = np.full(rows, np.nan)
    laid = Rows(raw, places, nan, y, nan, nan == 0)
    options = {"forget": None, "patience": None}
    return Model.learned(contexts, ABC, laid, options=options), contexts, laid


def test_forecasts_are_seen_from_their_centre_and_within_bounds():
    model, _, _ = learned_model()
    seen = model.arms(np.array([0, 1, 2]), model.centre + model.scale * np.array([0.0, 0.5, -9.0]))
    assert seen[:, -1] == pytest.approx([0.0, 0.5**1.5, -(0.5**0.5)])
    assert 5.0 < model.centre < 15.0


def test_a_row_is_forecast_from_those_before_it_alone(monkeypatch):
    seen = []
    update_many = ht.TwinUCB.update_many

    def spy(policy, X, rewards):
        seen.append((X.shape[1], len(X)))
        return update_many(policy, X, rewards)

    monkeypatch.setattr(ht.TwinUCB, "update_many", spy)
    model, _, laid = learned_model()
    parts = [rows for width, rows in seen if width == model.encoder.dim]
    assert parts[0] == 16
    assert sum(parts) == len(laid)
    assert max(parts) <= len(laid) // 8


def test_the_policy_sees_the_forecast_before_the_reward():
    model, _, _ = learned_model()
    x = np.zeros(model.encoder.dim)
    x[0] = 0.5
    (forecast, features), (policy, seen) = model.updates(x, 1, 500.0)
    assert (forecast, policy) == (model.forecast, model.policy)
    assert features is x
    assert seen == pytest.approx(model.arms(np.array([1]), model.forecasts(x[None], 1))[0], abs=0.0)


def test_probabilities_add_up_among_the_offers_that_may_be_shown():
    one = shop(explore=0.5)
    choices = [one.select({"s": "u"}, only=["a", "b"], explore=0.5, draw=i) for i in range(60)]
    chances = {choice.id: choice.probability for choice in choices}
    assert sorted(chances.values()) == [0.25, 0.75]


def test_it_draws_in_the_share_of_visits_that_explores():
    one = shop()
    drawn = [one.select({"s": "u"}, explore=0.2, draw=i).options.drawn for i in range(2000)]
    assert 0.16 < np.mean(drawn) < 0.24
    ids = [one.select({"s": "u"}, explore=1.0, draw=i).id for i in range(900)]
    assert min(ids.count(i) for i in "abc") > 240


def test_places_of_a_visit_draw_by_numbers_of_their_own():
    one = shop(explore=0.5)
    both = [[c.options.drawn for c in one.decide({"s": "u"}, k=2)] for _ in range(300)]
    alike = np.mean([first == second for first, second in both])
    assert 0.4 < alike < 0.6


def test_a_later_place_has_the_forecast_of_its_offer():
    rng = np.random.default_rng(5)
    one, n = shop(explore=0.9), 600
    place = rng.integers(0, 3, n)
    worth = np.array([1.0, 5.0, 9.0])[place]
    segment = rng.choice(["u", "v"], n)
    log = {"s": segment, "id": np.array(list("abc"))[place], "reward": worth + rng.normal(size=n)}
    one.learn(log, progress=False)
    wanted = {name: mean for name, (mean, _, _) in one.expected({"s": "u"}).items()}
    for _ in range(20):
        for choice in one.decide({"s": "u"}, k=3):
            assert choice.expected == pytest.approx(wanted[choice.id])


def test_a_ring_keeps_the_last_rows_in_their_order():
    ring = History(1, 4)
    for i in range(7):
        ring.add(np.array([0.0]), 0, 1.0, float(i), 0.0, own=i % 2 == 0)
    assert ring.rows().rewards.tolist() == [3.0, 4.0, 5.0, 6.0]
    assert ring.rows().own.tolist() == [False, True, False, True]
    ring.extend(ring.rows().where(slice(2)))
    assert ring.rows().rewards.tolist() == [5.0, 6.0, 3.0, 4.0]
    ring.add(np.array([0.0]), 0, 1.0, 9.0, 0.0, own=True)
    assert ring.rows().rewards.tolist() == [6.0, 3.0, 4.0, 9.0]


def test_an_offer_is_chosen_as_often_as_its_limit_and_anew_the_next_day():
    limits = Limits({"a": 2, "b": 0, "c": 1}, ABC)
    assert limits.reached(10.0) == [1]
    for wanted in ([1], [0, 1]):
        limits.today = limits.after([0], 10.0)
        assert limits.reached(10.0) == wanted
    assert limits.reached(86400.0) == [1]


def test_the_first_number_of_a_run_has_the_name_of_its_run():
    tokens = Tokens()
    tokens.runs = [(0, "aaaaaaaa"), (5, "bbbbbbbb")]
    assert [tokens.text(n) for n in (4, 5)] == ["aaaaaaaa-4", "bbbbbbbb-5"]


def test_of_many_runs_those_are_kept_of_which_a_decision_waits_and_the_last():
    tokens, count = Tokens(), MOST_RUNS + 50
    tokens.runs = [(3 * i, f"{i:08x}") for i in range(count)]
    new = tokens.of(3 * count, [10, 11, 30])
    named = [name for _, name in tokens.runs]
    assert named[:3] == [f"{i:08x}" for i in (0, 3, 10)]
    assert len(named) == MOST_RUNS + 3
    assert [tokens.text(n) for n in (10, 30)] == ["00000003-10", "0000000a-30"]
    assert tokens.text(3 * count) == new
    again = Tokens.of_plain(tokens.plain(), 3 * count + 1)
    assert again.runs == tokens.runs


def test_the_latest_closed_decisions_are_told_from_rewarded_ones():
    tokens = Tokens()
    tokens.closed(range(MOST_CLOSED + 3))
    kept = list(tokens.plain()["closed"])
    assert (len(kept), kept[0]) == (MOST_CLOSED, 3)


def test_the_shape_is_learned_after_32_64_and_so_on_up_to_all_that_is_kept():
    due = [seen for seen in range(1, 600) if learning.is_due(seen, 32, 512)]
    assert due == [32, 64, 128, 256, 512]


def test_a_cost_counts_as_paid():
    counts = learning.Counts()
    for reward in (-3.0, 0.0, 2.0):
        counts.offers[0] = counts.after(0, reward)
    assert counts.offers[0] == [3.0, -1.0, 2.0]


def test_a_decision_as_old_as_the_age_still_waits():
    one = shop()
    choice = one.decide({"s": "u"}, now=100.0)
    one._closing = (50.0, 0.0)
    assert one.close(now=150.0) == 0
    assert one.close(now=150.5) == 1
    with pytest.raises(ValueError, match="was closed"):
        one.reward(choice.token, 1.0)
