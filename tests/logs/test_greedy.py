"""What a policy's estimate is worth without bonuses, and what is said of a target."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.logs import Betting


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    arms = rng.uniform(-0.7, 0.7, size=(400, 3, 2))
    arms[::2, 2] = np.nan  # half of the rows offer two
    count = np.where(np.isnan(arms[:, 2, 0]), 2, 3)
    return {
        "arms": arms,
        "action": rng.integers(count),
        "reward": rng.pareto(2.0, 400),
        "propensity": 1.0 / count,
    }


def taught() -> ht.Policy:
    policy = ht.TwinUCB(2)
    rng = np.random.default_rng(1)
    for _ in range(60):
        x = rng.uniform(-0.7, 0.7, size=2) * [
            1.0,
            0.05,
        ]  # the second is hardly known
        policy.update(x, x[0] + 0.5 * x[1])
    return policy


def test_greedy_plays_the_largest_prediction_of_the_arms_offered(log):
    policy = taught()
    chosen = np.array(
        [np.argmax(policy.predict(row[~np.isnan(row[:, 0])]).mean) for row in log["arms"]]
    )
    shares = np.eye(3)[chosen]
    assert ht.evaluate(log, ht.greedy(policy)).value == ht.evaluate(log, shares).value
    assert ht.evaluate(log, policy).value != ht.evaluate(log, shares).value


def test_greedy_is_of_the_policy_as_it_was(log):
    policy = taught()
    target, before = ht.greedy(policy), ht.evaluate(log, ht.greedy(policy)).value
    for _ in range(200):
        policy.update([1.0, 0.0], -100.0)
    assert ht.evaluate(log, target).value == before
    assert ht.evaluate(log, ht.greedy(policy)).value != before


def test_greedy_names_the_row_whose_arms_are_too_long(log):
    log["arms"][7] *= 9.0
    with pytest.raises(ValueError, match=r"row 7, column 'arms': TwinUCB\.predict"):
        ht.evaluate(log, ht.greedy(taught()))


@pytest.mark.parametrize("bad", [None, 3, lambda rows: None, ht.TwinUCB, ht.OnlineRidge()])
def test_greedy_is_of_a_policy(bad):
    with pytest.raises(TypeError, match=r"greedy\.policy must be a policy"):
        ht.greedy(bad)


def test_a_policy_that_was_just_built_is_said_to_know_nothing(log):
    fresh, said = ht.TwinUCB(2), "TwinUCB has learned nothing yet"
    assert said in ht.evaluate(log, fresh).advice[0]
    assert said in ht.compare(log, taught(), fresh).b.advice[0]
    assert said not in str(ht.evaluate(log, taught()))
    assert "learned nothing" not in str(ht.evaluate(log, ht.Uniform(2)))


def test_a_floor_far_away_does_not_hide_the_tail(log):
    here = ht.evaluate(log, ht.Uniform(2), bound=Betting(floor=0.0))
    far = ht.evaluate(log, ht.Uniform(2), bound=Betting(floor=-1e6))
    assert (far.largest_share, far.top_share) == (here.largest_share, here.top_share)
    assert far.tail.index == here.tail.index
