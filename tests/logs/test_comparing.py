"""Two policies on one log, and the best of many."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.logs.drawing import LOGGING, MEANS, draw
from tests.naive import logs as naive

import heavytail as ht
from heavytail.logs import IPS, SNIPS, Betting, Catoni, Hindsight, comparing
from heavytail.logs.intervals import betting_lower
from heavytail.logs.sketch import Pairs, Sketch, epochs
from heavytail.logs.summary import Plan


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
    values = [ht.evaluate(log, each, bound=None).value for each in (one, two)]
    return u, u * log["reward"], u * (log["reward"] - 0.5 * sum(values)), values


def test_the_value_is_the_difference_of_the_two_that_are_printed():
    for seed in range(20):
        d = draw(seed, n=1500, tail=1.3)
        found = ht.compare(d.log, d.target, mixed(3, 1500))
        assert found.value == found.a.value - found.b.value
        assert found.a.value == ht.evaluate(d.log, d.target).value
        assert found.lower <= found.value <= found.upper


@pytest.mark.parametrize("shift", [0.0, -1.5, -300.0])
@pytest.mark.parametrize("turned", [False, True])
def test_the_approximate_interval_has_room_for_what_never_came(shift, turned):
    """By the likelihood, with e no farther out than the log's farthest reward, or five times e."""
    d = draw(14, n=600, tail=1.6)
    log = {**d.log, "reward": d.reward + shift}  # shifted, rewards of both signs
    pair = [sharp(0, 600), mixed(1, 600)]
    one, two = pair[::-1] if turned else pair
    found = ht.compare(log, one, two, level=0.9)
    u, _, e, values = apart_by_hand(log, one, two)
    centre, r = 0.5 * sum(values), log["reward"]
    a, b = (np.sum(g**2) / np.sum(g) for g in (np.maximum(u, 0.0), np.maximum(-u, 0.0)))
    down = max(b * (r.max() - centre), a * (centre - r.min()), 5.0 * np.max(-e))
    up = max(a * (r.max() - centre), b * (centre - r.min()), 5.0 * np.max(e))
    lower = naive.likelihood_lower(e + down, 0.1) - down
    upper = up - naive.likelihood_lower(up - e, 0.1)
    width = upper - lower
    assert found.lower == pytest.approx(min(lower, found.value), abs=5e-3 * width)
    assert found.upper == pytest.approx(max(upper, found.value), abs=5e-3 * width)
    assert found.interval == "hindsight"


@pytest.mark.parametrize("turned", [False, True])
def test_the_farthest_reward_of_the_whole_log_counts(turned):
    """A jackpot that only actions had which neither policy plays: widens the end of either."""
    rng = np.random.default_rng(17)
    odds = np.array([0.1, 0.4, 0.25, 0.25])
    action = rng.choice(4, p=odds, size=1200)
    log = {"action": action, "reward": rng.exponential(size=1200), "propensity": odds[action]}
    far = {
        **log,
        "reward": np.where(np.arange(1200) == np.argmax(action == 3), 300.0, log["reward"]),
    }
    pair = [np.tile(np.eye(4)[k], (1200, 1)) for k in (0, 1)]
    near, wide = (ht.compare(each, *(pair[::-1] if turned else pair)) for each in (log, far))
    weights = (10.0, 2.5) if turned else (2.5, 10.0)  # of b's gains, and of a's
    for gap, weight in zip(
        (near.lower - wide.lower, wide.upper - near.upper), weights, strict=True
    ):
        assert 0.5 < gap / (3.0 * weight * 300.0 / 1200.0) < 1.0  # log 20 rows of it
    assert wide.value == near.value


def test_an_approximate_interval_reaches_to_the_value():
    e = np.random.default_rng(16).standard_normal(400)
    apart = comparing.Apart(
        Pairs(np.sign(e), e), Sketch(e), np.full((2, 3), 200.0), np.array([1.0, 1.0]), None, None
    )
    plan = Plan(SNIPS(), Hindsight())
    for value in (-3.0, 3.0):
        ends = comparing._interval(apart, plan, 0.95, None, 0.0, value)
        assert value in (ends.lower, ends.upper)
        assert ends.lower < 0.0 < ends.upper


@pytest.mark.parametrize(("level", "least"), [(0.95, 29), (0.8, 16)])
@pytest.mark.parametrize("turned", [False, True])
def test_few_rows_of_a_policy_decide_nothing(level, least, turned):
    """1 - 0.9^N of logs with N rows have a reward that one row in ten pays: N for the level."""
    assert 0.9**least <= 1.0 - level < 0.9 ** (least - 1)
    for own in (least - 1, least):
        action = np.repeat([0, 1, 2], [own, 200, 100])
        reward = np.where(action == 0, 1.0, 90.0) + 0.01 * np.arange(len(action)) % 0.7
        log = {"action": action, "reward": reward, "propensity": np.full(len(action), 1.0 / 3.0)}
        pair = [np.tile(np.eye(3)[k], (len(action), 1)) for k in (0, 1)]
        found = ht.compare(log, *(pair[::-1] if turned else pair), level=level)
        assert (found.lower is None) == (own < least)
        better, worse = "ab" if turned else "ba"
        if own < least:
            assert (found.better, found.rows_needed, found.upper) == (None, None, None)
            words = f"{worse} plays more often than {better} count like {own} of equal weight, and "
            words += f"{least} are needed: {least - 1} of equal weight lack a reward that one row "
            assert words + f"in ten pays in {0.9 ** (least - 1):.1%} of logs" in found.reason
            bounded = ht.compare(log, *pair, level=level, bound=Betting(0.0, 100.0))
            assert bounded.guaranteed
        else:
            assert found.better == better


@pytest.mark.parametrize("odds", [0.1, 0.3, 0.45, 0.49])
def test_rows_of_one_weight_count_as_many_as_they_are_and_others_are_rounded_down(odds):
    one, two = np.tile([1.0, 0.0], (229, 1)), np.tile([0.0, 1.0], (229, 1))
    action = np.repeat([0, 1], [29, 200])
    log = {"action": action, "reward": np.arange(229.0), "propensity": np.full(229, odds)}
    assert ht.compare(log, one, two).lower is not None
    log["propensity"][0] *= 1.2  # 28.97 of equal weight
    assert "count like 28 of" in ht.compare(log, one, two).reason


def test_actions_that_the_log_never_has_and_equal_rewards_are_named_before_too_few_rows():
    action, soft = np.zeros(100, dtype=int), np.full((100, 2), 0.5)
    log = {"action": action, "reward": np.arange(100.0), "propensity": np.full(100, 0.5)}
    only = np.tile([1.0, 0.0], (100, 1))
    reason = "no row of the log has an action that b plays more often than a. Log such actions"
    assert reason in ht.compare(log, only, soft).reason
    assert "that a plays more often than b." in ht.compare(log, soft, only).reason
    log["action"][:20] = 1
    log["reward"][:] = 2.0
    assert "are equal" in ht.compare(log, only, soft).reason


def test_a_policy_compared_with_itself_is_as_good():
    d = draw(4, n=20)
    found = ht.compare(d.log, d.target, d.target)
    assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)


def test_rewards_that_are_all_equal_prove_no_difference():
    rng = np.random.default_rng(3)
    action = rng.integers(2, size=2000)
    one, two = (np.tile(np.eye(2)[k], (2000, 1)) for k in (0, 1))
    for size in (0.0, 3.0):
        log = {"action": action, "reward": np.full(2000, size), "propensity": np.full(2000, 0.5)}
        found = ht.compare(log, one, two)
        assert (found.value, found.lower, found.upper) == (0.0, None, None)
        assert (found.better, found.rows_needed) == (None, None)
        assert "are equal" in found.reason
        assert ht.compare(log, one, two, bound=Betting(0.0, 4.0)).guaranteed
    log["reward"] = np.where(action == 0, 3.0, 3.0 + 1e-6 * rng.random(2000))
    found = ht.compare(log, one, two)
    assert found.lower < 0.0 < found.upper or found.better == "b"


def test_a_policy_of_which_the_log_has_nothing_is_compared_with_none():
    log = {"action": np.zeros(30, int), "reward": np.arange(30.0), "propensity": np.ones(30)}
    found = ht.compare(log, *(np.tile(np.eye(2)[k], (30, 1)) for k in (0, 1)))
    assert np.isnan(found.value)
    assert (found.lower, found.upper) == (None, None)
    assert "no row of the log" in found.reason


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("turned", [False, True])
def test_a_decision_says_what_would_overturn_it(sign, turned):
    rng = np.random.default_rng(18)
    action = rng.integers(4, size=3000)
    reward = sign * np.where(action == 0, 3.0, 1.0) * rng.gamma(2.0, 0.5, 3000)
    log = {"action": action, "reward": reward, "propensity": np.full(3000, 0.25)}
    pair = [np.tile(np.eye(4)[k], (3000, 1)) for k in (0, 1)]
    found = ht.compare(log, *(pair[::-1] if turned else pair))
    assert found.better == ("a" if (sign > 0.0) != turned else "b")
    [sentence] = [words for words in found.advice if words.startswith("If 1 in")]
    small = "ab"[not turned]  # gains of the worse, losses of the better: the arm that pays 1
    share = 1.0 - 0.05 ** (1.0 / np.sum(action == 1))
    size = abs(found.value) / (share * np.sum(action == 1) * 4.0 / 3000.0)
    assert f"1 in {1.0 / share:,.0f} of the rows with actions that {small} plays" in sentence
    assert f" paid {size:.3g} {'more' if sign > 0.0 else 'less'}, both" in sentence
    assert "5% of such logs" in sentence


@pytest.mark.parametrize("soft", [0.0, 0.4])
def test_rewards_that_would_overturn_a_decision_do_and_such_logs_miss_them_as_often_as_said(soft):
    """By the truth: two kinds of rows with other odds, and targets that share their actions."""
    n, rng = 4000, np.random.default_rng(19)
    p = np.where(np.arange(n) % 2 == 0, 0.5, 0.04)  # of action 1
    action = (rng.random(n) < p).astype(int)
    reward = rng.gamma(3.0, np.where(action == 0, 1.0, 0.2))
    log = {"action": action, "reward": reward, "propensity": np.where(action == 1, p, 1.0 - p)}
    one, two = (np.tile([q, 1.0 - q], (n, 1)) for q in (1.0 - soft, soft))
    found = ht.compare(log, one, two)
    assert found.better == "a"
    [words] = [s for s in found.advice if s.startswith("If 1 in")]
    each, size = (
        float(x.replace(",", "")) for x in re.findall("1 in ([0-9,]+) .*paid ([^ ]+)", words)[0]
    )
    lifted = 0.6 + size / each  # what action 1 pays then
    gap = (1.0 - 2.0 * soft) * (3.0 - lifted)
    assert abs(gap) < 0.15 * found.value
    missed = np.prod(1.0 - p / each)  # logs without such a row
    assert missed == pytest.approx(0.05, rel=0.3)


def test_weights_that_differ_by_rounding_are_alike():
    d = draw(0)
    found = ht.compare(d.log, d.target, d.target * (1.0 + 1e-15))
    assert not any("no guarantee" in sentence for sentence in found.advice)


def jackpots(seed: int, expected: float, others: bool):
    """Arm 0 pays half in jackpots, of which 250 rows have so many, arm 1 as much at a time."""
    rng = np.random.default_rng([seed, 31])
    action = rng.integers(4, size=1000)
    share = expected / 250.0
    rare = 0.5 * rng.exponential(size=1000) + 0.5 * (rng.random(1000) < share) / share
    steady = action > 0 if not others else action == 1
    reward = np.where(steady, rng.gamma(4.0, 0.25, 1000), rare)
    return {"action": action, "reward": reward, "propensity": np.full(1000, 0.25)}


def test_equals_of_which_one_has_few_jackpots_are_hardly_ever_called_better():
    one, two = (np.tile(np.eye(4)[k], (1000, 1)) for k in (0, 1))
    for expected, others, most in ((2.0, True, 1), (4.0, False, 2)):
        found = [ht.compare(jackpots(seed, expected, others), one, two) for seed in range(18)]
        assert sum(each.better is not None for each in found) <= most


@pytest.mark.parametrize(
    ("bound", "order"), [(Betting(0, 2), 2.0), (Catoni(ht.MomentBound(1.4, 5.0)), 1.4)]
)
@pytest.mark.parametrize("turned", [False, True])
def test_the_rows_that_would_decide_follow_from_the_rate_of_the_interval(bound, order, turned):
    log, pair = bounded(11, 400), [mixed(2, 400), mixed(0, 400)]
    log["reward"] = np.minimum(log["reward"] * np.random.default_rng(5).pareto(1.7, 400), 2.0)
    found = ht.compare(log, *(pair[::-1] if turned else pair), bound=bound)
    assert found.better is None
    far = found.value - found.lower if found.value > 0.0 else found.upper - found.value
    times = found.rows_needed / 400
    p = 1.0 / (1.0 - np.log(far / abs(found.value)) / np.log(times))
    assert times > 1.0
    assert p == pytest.approx(order)
    assert "to decide)" in str(found)


@pytest.mark.parametrize("turned", [False, True])
def test_so_many_rows_like_these_would_decide_in_hindsight(turned):
    log = heavy_pair(2, 1.6, 600)
    pair = [np.tile(np.eye(4)[k], (600, 1)) for k in (0, 1)]
    found = ht.compare(log, *(pair[::-1] if turned else pair))
    assert found.better is None
    times = found.rows_needed / 600.0
    assert times > 1.0
    fewer, more = (_repeated(log, round(times + by)) for by in (-1.0, 1.0))
    for repeated, better in ((fewer, None), (more, "b" if turned else "a")):
        wide = [np.tile(np.eye(4)[k], (len(repeated["action"]), 1)) for k in (0, 1)]
        assert ht.compare(repeated, *(wide[::-1] if turned else wide)).better == better


def _repeated(log, times):
    return {key: np.tile(column, max(times, 1)) for key, column in log.items()}


def test_the_end_beyond_zero_counts_and_what_no_number_of_rows_would_do():
    ends = comparing.Ends(-1.0, 6.0, "catoni", True, "", 1.5)
    assert comparing._enough(0.5, ends, 100) == pytest.approx(100 * 3.0**3)
    assert comparing._enough(-0.5, ends, 100) == pytest.approx(100 * 13.0**3)
    ends = comparing.Ends(-1.0, 6.0, "hindsight", False, "", needed=(300.0, np.inf))
    assert comparing._enough(0.5, ends, 100) == 300.0
    assert comparing._enough(0.5, ends, 400) == 400.0
    assert comparing._enough(-0.5, ends, 100) is None


def test_nothing_more_is_needed_where_the_interval_decides_or_is_none():
    log = bounded(12, 4000)
    log["reward"] = np.where(log["action"] == 1, 1.9, 0.1)
    decided = ht.compare(log, mixed(1, 4000), mixed(0, 4000), bound=Betting(0, 2))
    assert (decided.better, decided.rows_needed) == ("a", None)
    assert "to decide)" not in str(decided)
    assert (
        ht.compare(log, mixed(1, 4000), mixed(0, 4000), estimator=SNIPS(mean="plain")).rows_needed
        is None
    )
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
    found = ht.compare(
        d.log, *(pair[::-1] if turned else pair), bound=Catoni(ht.MomentBound(2.0, 1e-3))
    )
    assert not found.lower <= found.value <= found.upper
    [sentence] = [said for said in found.advice if said.startswith(comparing.OUTSIDE)]
    plain = found.a.plain - found.b.plain
    off = plain < found.lower if found.value < found.lower else plain > found.upper
    assert ("either it is off" in sentence) == off
    assert ("the better guess: a few large rows count in part" in sentence) == (not off)


def test_an_interval_is_the_better_guess_only_where_clipping_explains_the_value():
    """Offset rewards: the mean weight moves the interval, and nothing was clipped."""
    end = ht.evaluate(draw(1).log, draw(1).target, bound=None)
    ends = [replace(end, plain=plain, propensities_ok=True) for plain in (5.0, 2.0)]
    for lower, upper, value, words in (
        (4.0, 5.0, 3.0, f"{comparing.OUTSIDE}: either it is off"),
        (1.0, 2.0, 3.5, f"{comparing.OUTSIDE}: either it is off"),
        (2.5, 5.0, 2.0, f"{comparing.OUTSIDE}, which is the better guess"),
        (1.0, 3.0, 4.0, f"{comparing.OUTSIDE}, which is the better guess"),
    ):
        both = comparing.Ends(lower, upper, "betting", True, "")
        [sentence] = comparing._about_order(both, value, ends, 0.95)
        assert sentence.startswith(words)
        wrong = [ends[0], replace(ends[1], propensities_ok=False)]
        assert comparing._about_order(both, value, wrong, 0.95) == []
    assert comparing._about_order(both, 2.0, ends, 0.95) == []
    none = comparing.Ends(None, None, None, False, "bound=None")
    assert comparing._about_order(none, 2.0, ends, 0.95) == []


def test_a_policy_compared_with_itself_differs_by_nothing():
    d = draw(0)
    found = ht.compare(d.log, d.target, d.target)
    assert found.value == 0.0
    assert (found.lower, found.upper) == (0.0, 0.0)
    assert found.better is None
    assert not any("no guarantee" in sentence for sentence in found.advice)
    assert all(sentence.startswith("a and b: ") for sentence in found.advice)


def test_advice_names_the_policy_that_it_is_about():
    d = draw(8, n=600, tail=1.3)
    found = ht.compare(d.log, d.target, mixed(3, 600), bound=Betting(0.0, 1e6))
    for name, each, other in (("a", found.a, found.b), ("b", found.b, found.a)):
        for sentence in set(each.advice) - set(other.advice):
            assert f"{name}: {sentence}" in found.advice or "no reason" in sentence
    assert found.advice
    assert all(s.startswith(("a: ", "b: ", "a and b: ")) for s in found.advice)


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
    found = ht.compare(d.log, d.target, mixed(3, 600), estimator=IPS(mean="plain"))
    other = mixed(3, 600)[np.arange(600), d.log["action"]] / d.log["propensity"]
    assert found.value == pytest.approx(np.mean((d.weight - other) * d.reward))
    assert found.lower is None
    assert "Betting(floor, ceiling)" in found.reason


def test_a_comparison_is_narrower_than_two_intervals():
    log, one = bounded(4), mixed(1, 2000)
    two = 0.9 * one + 0.1 * mixed(2, 2000)
    found = ht.compare(log, one, two, bound=Betting(0, 2))
    both = [ht.evaluate(log, each, bound=Betting(0, 2)) for each in (one, two)]
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
        found = ht.compare(log, *pair, bound=Betting(0, 2), level=0.9)
        missed += not found.lower <= truth <= found.upper
    assert missed <= 6


def test_a_stated_moment_is_a_guarantee_and_a_tail_that_is_read_off_is_not():
    d = draw(5, n=3000, tail=2.5)
    other = mixed(3, 3000)
    sure = ht.compare(d.log, d.target, other, bound=Catoni(ht.MomentBound(2.0, 5.0)))
    guess = ht.compare(d.log, d.target, other)
    assert sure.guaranteed
    assert not guess.guaranteed
    assert any("no guarantee" in sentence for sentence in guess.advice)
    assert "a - b" in str(sure)
    assert len(sure.plot().get_yticks()) == 3


def test_one_sided_methods_are_refused_in_a_comparison():
    d = draw(6)
    with pytest.raises(ValueError, match="one side"):
        ht.compare(d.log, d.target, d.target, estimator="ls")
    with pytest.raises(ValueError, match="two sides"):
        ht.compare(d.log, d.target, d.target, bound=Betting(floor=-1.0))
    with pytest.raises(ValueError, match="its mean must be one of 'huber', 'catoni', 'plain'"):
        ht.compare(d.log, d.target, d.target, estimator=SNIPS(mean="median-of-means"))


def test_no_bound_is_given_where_none_is_asked_for():
    d = draw(6)
    found = ht.compare(d.log, d.target, mixed(3, 600), bound=None)
    assert (found.lower, found.upper, found.reason) == (None, None, "bound=None")
    assert found.value == ht.compare(d.log, d.target, mixed(3, 600)).value


def test_both_ends_of_bounded_rewards_have_half_of_the_error_each():
    log, one, two = bounded(10), mixed(1, 2000), mixed(0, 2000)
    found = ht.compare(log, one, two, bound=Betting(0, 2), level=0.9)
    at = np.arange(2000), log["action"]
    w, p = (one - two)[at] / log["propensity"], log["propensity"]
    same = np.minimum(one, two).sum(axis=1)
    for sign, end in ((1.0, found.lower), (-1.0, -found.upper)):
        gain = np.maximum(sign * w, 0.0) * log["reward"]
        gain += np.maximum(-sign * w, 0.0) * (2.0 - log["reward"]) + 2.0 * same
        course = betting_lower(Sketch(gain, epochs(0, len(p))), 0.05, 2000)
        assert end == pytest.approx(course.best - 2.0, rel=1e-9)
