"""Twin-UCB among clicks: no rare large reward is looked for."""

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies.core.twin import OWN as S


def test_rewards_differ_once_two_that_are_not_0_did():
    policy, x = ht.TwinUCB(2), np.array([0.5, 0.5])
    s = policy.packed[0]
    for reward in (3.0, 3.0, 0.0, 3.0, 3.0, 3.0, 3.0, 0.0, 3.0):  # the unit is set on the way
        policy.update(x, reward)
    assert (s[S.AMOUNT], s[S.DIFFER]) == (3.0, 0.0)
    policy.update(x, -3.0)
    policy.update(x, 3.0)
    assert (s[S.AMOUNT], s[S.DIFFER]) == (3.0, 1.0)


def test_a_reward_that_was_expected_and_did_not_come_is_missed():
    policy, x, other = ht.TwinUCB(2), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    s = policy.packed[0]
    for _ in range(60):
        policy.update(x, 1.0)
    expected = policy.conversion(x)
    assert expected == 1.0
    policy.update(x, 0.0)
    assert s[S.MISSED] == pytest.approx(1.0, abs=0.05)
    for _ in range(200):  # what never pays is soon not expected to
        policy.update(other, 0.0)
    assert s[S.MISSED] < 6.0


@pytest.mark.filterwarnings("ignore:.*assumes a mean reward that is linear")
def test_among_clicks_no_larger_reward_is_looked_for():
    world = ht.LinkBandit(4, 25, "logistic", theta_bound=4.0, base=-1.0)
    policies = {"clicks": ht.TwinUCB(4), "no looks": ht.TwinUCB(4, patience=0.0)}
    runs = ht.simulate(policies, world, rounds=2000, trials=8, seed=11, progress=False)
    clicks, none = (runs[name].final.mean() for name in policies)
    assert clicks < 2.0 * none  # it was five times as much
