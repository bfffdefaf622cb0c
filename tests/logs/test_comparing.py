"""Two policies on one log, and the best of many."""

from __future__ import annotations

import numpy as np
import pytest
from tests.logs.drawing import LOGGING, MEANS, draw

import heavytail as ht
from heavytail.logs.intervals import betting_lower
from heavytail.logs.sketch import Sketch, epochs


def bounded(seed: int, n: int = 2000):
    rng = np.random.default_rng(seed)
    action = rng.choice(10, size=n, p=LOGGING)
    reward = 2.0 * (rng.random(n) < MEANS[action] / 2.0)
    return {"action": action, "reward": reward, "propensity": LOGGING[action]}


def mixed(arm: int, n: int):
    pi = np.full(10, 0.02)
    pi[arm] += 0.8
    return np.tile(pi, (n, 1))


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
