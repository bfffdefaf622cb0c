"""Two policies on one log, and the best of many."""

from __future__ import annotations

import numpy as np
import pytest
from tests.logs.drawing import LOGGING, MEANS, draw
from tests.naive import logs as naive

import heavytail as ht
from heavytail.logs import comparing, means
from heavytail.logs.intervals import betting_lower
from heavytail.logs.sketch import Pairs, Sketch, epochs
from heavytail.logs.summary import Plan
from heavytail.tails import diagnose


def bounded(seed: int, n: int = 2000):
    rng = np.random.default_rng(seed)
    action = rng.choice(10, size=n, p=LOGGING)
    reward = 2.0 * (rng.random(n) < MEANS[action] / 2.0)
    return {"action": action, "reward": reward, "propensity": LOGGING[action]}


def mixed(arm: int, n: int):
    pi = np.full(10, 0.02)
    pi[arm] += 0.8
    return np.tile(pi, (n, 1))


def sharp(arm: int, n: int):
    return np.tile(np.eye(10)[arm], (n, 1))


def apart_by_hand(log, one, two):
    """u, v and e = v - c u of every row, c the mean of both values."""
    at = np.arange(len(log["action"])), log["action"]
    u = (one - two)[at] / log["propensity"]
    values = [ht.evaluate(log, each, interval=None).value for each in (one, two)]
    return u, u * log["reward"], u * (log["reward"] - 0.5 * sum(values)), values


def test_the_value_is_the_difference_of_the_two_that_are_printed():
    for seed in range(20):
        d = draw(seed, n=500, tail=1.3)
        found = ht.compare(d.log, d.target, mixed(3, 500))
        assert found.value == found.a.value - found.b.value
        assert found.a.value == ht.evaluate(d.log, d.target).value
        assert found.lower <= found.value <= found.upper


@pytest.mark.parametrize("shift", [0.0, -1.5])
def test_the_approximate_interval_has_each_side_with_its_own_tail(shift):
    d = draw(14, n=6000, tail=1.6)
    log = {**d.log, "reward": d.reward + shift}  # shifted, rewards of both signs
    one, two = sharp(0, 6000), mixed(1, 6000)
    found = ht.compare(log, one, two, level=0.9)
    u, v, e, _ = apart_by_hand(log, one, two)
    z = naive.huber_order(np.abs(u))
    m = naive.huber(np.ones(6000), e, z)
    tau = naive.huber_threshold(e - m, z)
    half = 1.6448536 * np.sqrt(np.sum(np.minimum((e - m) ** 2, tau**2))) / 6000
    hidden = []
    for side in (-1, 1):
        on = side * v > 0.0
        effective = np.sum(np.abs(u[on])) ** 2 / np.sum(u[on] ** 2)
        largest = np.sort(side * v[on])[::-1][: int(effective)]
        clipped = np.sum(side * (e - m) > tau)
        hidden.append(tau * (clipped + 0.5) / 6000 / (max(1.1, diagnose(largest).low) - 1.0))
    assert hidden[0] != pytest.approx(hidden[1], rel=0.1)
    assert found.lower == pytest.approx(min(m - half - hidden[0], found.value), rel=1e-4)
    assert found.upper == pytest.approx(max(m + half + hidden[1], found.value), rel=1e-4)


def test_an_approximate_interval_reaches_to_the_value():
    v = draw(16).reward
    narrow = means.Estimate(0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    apart = comparing.Apart(Pairs(np.ones(len(v)), v), Sketch(v), None, None)
    plan = Plan("snips", None, np.inf, 0.0, None, None, None)
    for value in (-3.0, 3.0):
        ends = comparing._interval(apart, plan, None, 0.95, None, narrow, value)
        assert (ends.lower, ends.upper) == (min(value, 0.0), max(value, 0.0))


def test_the_effective_size_of_differences_does_not_hang_on_their_signs():
    u = np.array([1.0, -1.0, 2.0])
    cells = Pairs(u, 3.0 * u).cells()
    assert comparing._effective(cells) == pytest.approx(16.0 / 6.0)
    assert comparing._effective(Pairs(0.0 * u, u).cells()) == 3.0


def test_rows_that_are_all_alike_on_a_side_hide_nothing():
    rng = np.random.default_rng(3)
    action = rng.integers(2, size=2000)
    log = {"action": action, "reward": 2.0 * action, "propensity": np.full(2000, 0.5)}
    found = ht.compare(log, np.tile([0.0, 1.0], (2000, 1)), np.tile([1.0, 0.0], (2000, 1)))
    _, _, e, _ = apart_by_hand(log, *(np.tile(pi, (2000, 1)) for pi in np.eye(2)[::-1]))
    half = 1.959964 * e.std() / np.sqrt(2000)
    assert found.upper == pytest.approx(found.value + half, rel=1e-3)


@pytest.mark.parametrize(
    ("how", "order"),
    [({"reward_range": (0, 2)}, 2.0), ({"tail": ht.MomentBound(1.4, 5.0)}, 1.4), ({}, None)],
)
@pytest.mark.parametrize("turned", [False, True])
def test_the_rows_that_would_decide_follow_from_the_rate_of_the_interval(how, order, turned):
    log, pair = bounded(11, 400), [mixed(2, 400), mixed(0, 400)]
    log["reward"] = np.minimum(log["reward"] * np.random.default_rng(5).pareto(1.7, 400), 2.0)
    found = ht.compare(log, *(pair[::-1] if turned else pair), **how)
    assert found.better is None
    far = found.value - found.lower if found.value > 0.0 else found.upper - found.value
    times = found.rows_needed / 400
    p = 1.0 / (1.0 - np.log(far / abs(found.value)) / np.log(times))
    assert times > 1.0
    assert p == pytest.approx(order) if order else 1.1 - 1e-9 <= p <= 2.0 + 1e-9
    assert "would decide" in str(found)


def test_the_end_beyond_zero_and_the_order_of_its_side_count():
    ends = comparing.Ends(-1.0, 6.0, "huber", False, "", (2.0, 1.5))
    assert comparing._enough(0.5, ends, 100) == pytest.approx(100 * 3.0**2)
    assert comparing._enough(-0.5, ends, 100) == pytest.approx(100 * 13.0**3)


def test_the_index_of_a_side_is_its_own():
    rng = np.random.default_rng(15)
    heavy, few, alike = -rng.pareto(1.4, 3000), np.full(20, 3.0), np.full(70, 2.0)
    seen = diagnose(heavy)
    assert max(1.1, seen.low) < seen.index < 2.0
    for gains, index in ((few, 0.0), (alike, np.inf)):
        v = np.concatenate([heavy, gains])
        apart = comparing.Apart(Pairs(np.sign(v), v), Sketch(v), None, None)
        assert comparing._index(apart, -1) == pytest.approx((seen.low, seen.index))
        assert comparing._index(apart, 1) == (index, 2.0)


def test_a_side_of_few_rows_may_hide_as_many_as_can_be_clipped():
    v = np.concatenate([np.full(20, 3.0), np.full(70, -2.0)])
    apart = comparing.Apart(Pairs(np.sign(v), v), Sketch(v), None, None)
    plan = Plan("snips", None, np.inf, 0.0, None, None, None)
    found = means.Estimate(0.0, 0.0, 1.0, beyond=0.5, below=0.1, above=0.2)
    ends = comparing._interval(apart, plan, None, 0.95, None, found, 0.0)
    assert (ends.lower, ends.upper) == pytest.approx((0.0, 0.5 / 0.1))
    turned = comparing.Apart(Pairs(-np.sign(v), -v), Sketch(-v), None, None)
    ends = comparing._interval(turned, plan, None, 0.95, None, found, 0.0)
    assert (ends.lower, ends.upper) == pytest.approx((-0.5 / 0.1, 0.0))


def test_nothing_more_is_needed_where_the_interval_decides_or_is_none():
    log = bounded(12, 4000)
    log["reward"] = np.where(log["action"] == 1, 1.9, 0.1)
    decided = ht.compare(log, mixed(1, 4000), mixed(0, 4000), reward_range=(0, 2))
    assert (decided.better, decided.rows_needed) == ("a", None)
    assert "would decide" not in str(decided)
    assert ht.compare(log, mixed(1, 4000), mixed(0, 4000), mean="plain").rows_needed is None
    assert ht.compare(log, mixed(1, 4000), mixed(1, 4000)).rows_needed is None


def heavy_pair(seed: int, ratio: float, n: int = 4000):
    rng = np.random.default_rng([seed, 30])
    action = rng.integers(4, size=n)
    reward = np.where(action == 0, ratio, 1.0) * np.exp(1.2 * rng.standard_normal(n))
    return {"action": action, "reward": reward, "propensity": np.full(n, 0.25)}


def test_a_policy_twice_as_good_is_found_and_an_equal_one_is_not():
    one, two = (np.tile(np.eye(4)[k], (4000, 1)) for k in (0, 1))
    twice = [ht.compare(heavy_pair(seed, 2.0), one, two).better for seed in range(12)]
    equal = [ht.compare(heavy_pair(seed, 1.0), one, two).better for seed in range(12)]
    assert twice.count("a") >= 10
    assert "b" not in twice
    assert equal.count(None) >= 11


@pytest.mark.parametrize("turned", [False, True])
def test_a_value_outside_a_guaranteed_interval_is_said_to_be(turned):
    d = draw(13, n=2000, tail=1.2)
    pair = [d.target, mixed(3, 2000)]
    found = ht.compare(d.log, *(pair[::-1] if turned else pair), tail=ht.MomentBound(2.0, 1e-3))
    assert not found.lower <= found.value <= found.upper
    assert comparing.OUTSIDE in found.advice


def test_a_policy_compared_with_itself_differs_by_nothing():
    d = draw(0)
    found = ht.compare(d.log, d.target, d.target)
    assert found.value == 0.0
    assert (found.lower, found.upper) == (0.0, 0.0)
    assert found.better is None


def test_a_comparison_turned_round_changes_its_sign():
    d = draw(1, n=3000, tail=2.5)
    other = mixed(3, 3000)
    one, two = ht.compare(d.log, d.target, other), ht.compare(d.log, other, d.target)
    assert two.value == pytest.approx(-one.value)
    assert two.lower == pytest.approx(-one.upper)
    assert two.upper == pytest.approx(-one.lower)
    assert one.a == two.b


def test_a_shift_of_the_rewards_changes_no_comparison():
    d = draw(2)
    shifted = {**d.log, "reward": d.reward + 100.0}
    other = mixed(3, 600)
    one, two = (ht.compare(log, d.target, other) for log in (d.log, shifted))
    assert two.value == pytest.approx(one.value, rel=1e-7)


def test_the_plain_comparison_by_ips_is_the_mean_difference():
    d = draw(3)
    found = ht.compare(d.log, d.target, mixed(3, 600), method="ips", mean="plain")
    other = mixed(3, 600)[np.arange(600), d.log["action"]] / d.log["propensity"]
    assert found.value == pytest.approx(np.mean((d.weight - other) * d.reward))
    assert found.lower is None
    assert "reward_range" in found.reason


def test_a_comparison_is_narrower_than_two_intervals():
    log, one = bounded(4), mixed(1, 2000)
    two = 0.9 * one + 0.1 * mixed(2, 2000)
    found = ht.compare(log, one, two, reward_range=(0, 2))
    both = [ht.evaluate(log, each, reward_range=(0, 2)) for each in (one, two)]
    assert found.guaranteed
    assert found.upper - found.lower < 0.3 * sum(each.upper - each.lower for each in both)


@pytest.mark.parametrize("whole", [True, False])
def test_the_interval_of_bounded_rewards_holds(whole):
    one, two = mixed(1, 400), mixed(0, 400)
    truth, missed = float((one[0] - two[0]) @ MEANS), 0
    for seed in range(60):
        log = bounded(seed, 400)
        at = np.arange(400), log["action"]
        pair = (one, two) if whole else (one[at], two[at])
        found = ht.compare(log, *pair, reward_range=(0, 2), level=0.9)
        missed += not found.lower <= truth <= found.upper
    assert missed <= 6


def test_a_stated_moment_is_a_guarantee_and_a_tail_that_is_read_off_is_not():
    d = draw(5, n=3000, tail=2.5)
    other = mixed(3, 3000)
    sure = ht.compare(d.log, d.target, other, tail=ht.MomentBound(2.0, 5.0))
    guess = ht.compare(d.log, d.target, other)
    assert sure.guaranteed
    assert not guess.guaranteed
    assert any("no guarantee" in sentence for sentence in guess.advice)
    assert "a - b" in str(sure)
    assert len(sure.plot().get_yticks()) == 3


def test_one_sided_methods_are_refused_in_a_comparison():
    d = draw(6)
    with pytest.raises(ValueError, match="one side"):
        ht.compare(d.log, d.target, d.target, method="ls")


@pytest.mark.parametrize("by", ["bound", "value", "ls", "lower"])
def test_the_clearly_best_policy_is_chosen(by):
    log = bounded(7, 4000)
    log["reward"] = np.where(log["action"] == 2, 1.0, 0.1) * (1.0 + log["reward"])
    policies = {f"arm {k}": mixed(k, 4000) for k in range(4)}
    found = ht.select(log, policies, by=by)
    assert found.chosen == "arm 2"
    assert found.names == tuple(policies)
    assert np.all(found.lower <= found.values)
    assert f"{found.lower[2]:.4g}" in found.guarantee
    assert "chosen: arm 2" in str(found)
    assert len(found.plot().get_yticks()) == 4


@pytest.mark.parametrize("seed", [9, 14])
def test_estimates_propose_what_they_think_best_and_the_bound_decides(seed):
    d = draw(seed, n=300)
    rng = np.random.default_rng(seed)
    targets = [np.tile(rng.dirichlet(np.full(10, 0.3)), (300, 1)) for _ in range(12)]
    found = ht.select(d.log, targets)
    assert tuple(found.proposals) == ("snips", "dm", "dros", "switch-dr")
    for method, place in found.proposals.items():
        kw = {} if method == "snips" else {"model": "arms", "folds": 2}
        values = [ht.evaluate(d.log, one, method=method, interval=None, **kw).value
                  for one in targets]  # fmt: skip
        assert place == int(np.argmax(values))
    proposed = sorted(set(found.proposals.values()))
    assert found.chosen == max(proposed, key=lambda place: found.lower[place])
    assert np.flatnonzero(~np.isnan(found.scores)).tolist() == proposed
    np.testing.assert_array_equal(found.scores[proposed], found.lower[proposed])
    assert str(found).count(" - ") == 12 - len(proposed)


def test_without_a_model_only_the_value_proposes():
    d = draw(8)
    targets = [d.target, mixed(0, 600)]
    own = [one[np.arange(600), d.log["action"]] for one in targets]
    best = int(np.argmax(ht.select(d.log, targets, by="value").values))
    rows = [{key: column[i : i + 200] for key, column in d.log.items()} for i in (0, 200, 400)]
    twice = [lambda rows, one=one: np.tile(one[0], (len(rows.action), 1)) for one in targets]
    for found in (
        ht.select(d.log, targets, model=None),
        ht.select(d.log, own),
        ht.select(iter(rows), twice),
    ):
        assert dict(found.proposals) == {"snips": best}
        assert found.chosen == best


def test_lower_bounds_of_a_selection_share_the_error():
    d = draw(8)
    both = ht.select(d.log, [d.target, mixed(0, 600)])
    alone = ht.evaluate(d.log, d.target, level=0.975)
    assert both.lower[0] == pytest.approx(alone.lower)
    assert both.values[0] == alone.value


def test_the_common_smoothing_and_its_regret_bound_are_the_stated_formulas():
    d = draw(9)
    found = ht.select(d.log, [d.target, mixed(0, 600)], by="ls", scale=2.0)
    room = np.log(2 * 2 / 0.05)
    lam = np.sqrt(2 * room / 600) / 2.0
    assert found.smoothing == pytest.approx(lam)
    x = d.weight * d.reward
    assert found.scores[0] == pytest.approx(np.mean(np.log1p(lam * x)) / lam)
    other = mixed(0, 600)[np.arange(600), d.log["action"]] / d.log["propensity"] * d.reward
    second = max(np.mean(v**2 / (1 + lam * v)) for v in (x, other))
    assert found.regret_bound == pytest.approx(lam * second + 2 * room / (lam * 600))


def test_nothing_to_select_from_is_refused():
    d = draw(0)
    with pytest.raises(ValueError, match="at least one policy"):
        ht.select(d.log, [])


def test_both_ends_of_bounded_rewards_have_half_of_the_error_each():
    log, one, two = bounded(10), mixed(1, 2000), mixed(0, 2000)
    found = ht.compare(log, one, two, reward_range=(0, 2), level=0.9)
    at = np.arange(2000), log["action"]
    w, p = (one - two)[at] / log["propensity"], log["propensity"]
    same = np.minimum(one, two).sum(axis=1)
    for sign, end in ((1.0, found.lower), (-1.0, -found.upper)):
        gain = np.maximum(sign * w, 0.0) * log["reward"]
        gain += np.maximum(-sign * w, 0.0) * (2.0 - log["reward"]) + 2.0 * same
        course = betting_lower(Sketch(gain, epochs(0, len(p))), 0.05, 2000)
        assert end == pytest.approx(course.best - 2.0, rel=1e-9)
