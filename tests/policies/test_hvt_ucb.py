"""Hvt-UCB with nothing known of the tail, its diagnostics, and starting from what is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.jit import compiled

TAIL = ht.MomentBound(order=1.5, scale=1.0)


def fed(policy, rewards, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(rewards), policy.dim))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    policy.update_many(X, np.asarray(rewards))
    return policy


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e3, 1e9, 1e30])
def test_the_scale_is_found_over_many_orders_of_magnitude(unit):
    rewards = unit * np.random.default_rng(1).standard_t(2.0, 300)
    policy = fed(ht.HvtUCB(2, tail="auto"), rewards)
    truth = 1.4826 * np.median(np.abs(rewards))
    assert 0.6 < policy.diagnostics().scale / truth < 1.7


@pytest.mark.parametrize("first", [1e300, -1e300, 0.0])
def test_an_absurd_first_reward_does_not_wreck_the_scale(first):
    rewards = np.random.default_rng(2).standard_t(2.0, 300)
    rewards[0] = first
    policy = fed(ht.HvtUCB(2, tail="auto"), rewards)
    assert 0.5 < policy.diagnostics().scale / (1.4826 * np.median(np.abs(rewards))) < 2.0
    assert np.all(np.abs(policy.theta) < 1.0)


@pytest.mark.compiled
@pytest.mark.parametrize("noise", [ht.noise.StudentT(2.1), ht.noise.Pareto(1.5)])
def test_not_knowing_the_scale_costs_little(noise):
    world = ht.LinearBandit(2, arms=20, noise=noise)
    policies = {
        "known": ht.HvtUCB(2, tail=noise.tail(1.4)),
        "auto": ht.HvtUCB(2, tail="auto"),
    }
    results = ht.simulate(policies, world, rounds=4000, trials=40, seed=0)
    mean = {name: run.final.mean() for name, run in results.items()}
    assert mean["auto"] < 2.0 * mean["known"]


def test_auto_travels_with_the_policy(tmp_path):
    policy = fed(ht.HvtUCB(2, tail="auto"), np.random.default_rng(3).standard_t(2.0, 40))
    policy.save(tmp_path / "p.npz")
    twin = ht.load(tmp_path / "p.npz")
    assert repr(twin) == "HvtUCB(dim=2, tail='auto')"
    for p in (policy, twin):
        fed(p, [1.0, 2.0])
    np.testing.assert_array_equal(policy.theta, twin.theta)


def test_a_tail_that_is_neither_known_nor_auto_is_refused():
    with pytest.raises(ValueError, match="tail must be one of 'auto'"):
        ht.HvtUCB(2, tail="automatic")
    with pytest.raises(ValueError, match="must be a MomentBound for radius"):
        ht.HvtUCB(2, tail="auto", radius="theory", horizon=10)
    with pytest.raises(TypeError, match="must be a MomentBound"):
        ht.HvtUCB(2, tail=1.5)


def test_diagnostics_say_what_was_clipped_and_how_heavy_the_tail_is():
    n = 5000 if compiled() else 800
    rng = np.random.default_rng(4)
    heavy = fed(ht.HvtUCB(2, tail=TAIL), rng.standard_t(1.3, n)).diagnostics()
    light = fed(ht.HvtUCB(2, tail=TAIL), rng.standard_normal(n)).diagnostics()
    assert heavy.rounds == n
    assert heavy.clipped_share > light.clipped_share > 0.0
    assert 0.9 < heavy.tail_index < 1.9
    assert light.tail_index == math.inf
    assert light.scale == pytest.approx(1.0, rel=0.3)
    assert light.threshold > 0.0
    assert 0.5 * n < light.effective_samples <= n
    assert ht.OFUL(2, noise_scale=1.0).diagnostics().threshold is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: ht.HvtUCB(2, tail=TAIL),
        lambda: ht.HvtUCB(2),
        lambda: ht.TwinUCB(2),
        lambda: ht.TwinUCB(2, target="typical"),
        lambda: ht.OFUL(2, noise_scale=1.0),
    ],
)
def test_a_prior_is_where_learning_begins(make):
    policy = make()
    policy.start_from([0.5, -0.5], [[1e-4, 0.0], [0.0, 1e-4]])
    np.testing.assert_array_equal(policy.theta, [0.5, -0.5])
    assert policy.select([[0.0, 1.0], [1.0, 0.0]]) == 1
    policy.update([1.0, 0.0], -1.0)
    assert abs(policy.theta[0] - 0.5) < 0.01  # a sure prior yields slowly
    with pytest.raises(ValueError, match="before the first reward"):
        policy.start_from([0.0, 0.0], np.eye(2))


@pytest.mark.parametrize(
    ("theta", "covariance", "message"),
    [
        ([0.0, 0.0], -np.eye(2), "positive eigenvalues"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([0.0, math.nan], np.eye(2), "at most 1e"),
        ([0.0, 1.1e100], np.eye(2), "at most 1e"),
        ([0.0, 0.0], 0.9e-100 * np.eye(2), "eigenvalues between"),
        ([0.0, 0.0], np.eye(3), "shape"),
    ],
)
def test_a_bad_prior_is_refused(theta, covariance, message):
    policy = ht.HvtUCB(2, tail=TAIL)
    before = policy.inverse_gram
    with pytest.raises(ValueError, match=message):
        policy.start_from(theta, covariance)
    np.testing.assert_array_equal(policy.inverse_gram, before)


def test_a_prior_outside_the_ball_is_refused():
    with pytest.raises(ValueError, match="above theta_bound"):
        ht.HvtUCB(2, tail=TAIL, theta_bound=1.0).start_from([2.0, 0.0], np.eye(2))


def test_a_policy_with_many_matrices_takes_no_prior():
    menu = ht.make_policy("MENU", dim=2, tail=TAIL, horizon=10_000)
    with pytest.raises(ValueError, match="no single Gram matrix"):
        menu.start_from([0.0, 0.0], np.eye(2))


@pytest.mark.parametrize("tail", [TAIL, "auto"])
def test_rewards_that_are_mostly_nothing_do_not_collapse_the_scale(tail):
    rng = np.random.default_rng(5)
    rewards = np.where(rng.random(2000) < 0.1, 10.0 * rng.exponential(size=2000), 0.0)
    policy = fed(ht.HvtUCB(2, tail=tail), rewards)
    assert 3.0 < policy.diagnostics().scale < 30.0


@pytest.mark.parametrize("tail", [TAIL, "auto"])
def test_rewards_that_are_never_nothing_are_all_counted(tail):
    rewards = np.random.default_rng(6).standard_t(2.0, 300)
    policy = fed(ht.HvtUCB(2, tail=tail), rewards)
    assert policy.state["scalars"]["telling"] == 300.0
