"""The kernels of value iteration, each alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.mdp.test_agents import build, world

import heavytail as ht
from heavytail.kernels.layout import (
    BAD_REWARD,
    BAD_SCALE,
    CONSTANT,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    THETA,
)
from heavytail.mdp import HvtLSVIUCB, planning, river_swim
from heavytail.mdp.planning import EPISODES, PESSIMIST, PLANNED, SQUARE, STAGE, SWITCHES


def taught(episodes=6, **options):
    agent = build(HvtLSVIUCB, world(), **options)
    rng = np.random.default_rng(0)
    for _ in range(episodes):
        for h in range(3):
            s, a, t = (int(rng.integers(k)) for k in (5, 3, 5))
            agent.update(h, s, a, float(rng.uniform()), t)
    assert agent.policy.shape == (3, 5)
    return agent


@pytest.mark.parametrize(
    ("value", "stages", "want"),
    [(-0.5, 3, 0.0), (0.0, 3, 0.0), (0.5, 3, 0.5), (2.9, 3, 2.9), (3.5, 3, 3.0), (1.5, 1, 1.0)],
)
def test_a_value_lies_between_0_and_the_stages_left(value, stages, want):
    assert planning.clipped(value, stages) == want


@pytest.mark.parametrize(("h", "after"), [(0, [4, 1, 1]), (1, [4, 2, 1]), (2, [5, 0, 0])])
def test_after_the_last_stage_the_next_episode_comes(h, after):
    counts = np.zeros(len(planning.COUNTS))
    counts[EPISODES], counts[STAGE], counts[PLANNED] = 4.0, h, 1.0
    planning.count_stage(counts, h, 3)
    assert [counts[EPISODES], counts[STAGE], counts[PLANNED]] == after


def test_some_plan_always_and_some_once_a_determinant_has_doubled():
    agent = taught()
    plan = agent.packed[0]
    assert planning.always(plan) is True
    assert planning.when_doubled(plan) is False
    for part, column in ((plan.reward_s, 0), (plan.value_s, 1)):
        for h in range(3):
            kept = plan.marks[h, column]
            for short, due in ((0.0, True), (0.9e-9, True), (1.1e-9, False)):
                plan.marks[h, column] = part[h, LOG_DET] - math.log(2.0) + short
                assert planning.when_doubled(plan) is due
            plan.marks[h, column] = kept
    plan.counts[SWITCHES] = 0.0
    assert planning.when_doubled(plan) is True


def test_a_monotone_q_is_tightened_and_any_other_replaced():
    for kernel, want in ((planning.tighten, (0.5, 0.2)), (planning.replace, (0.9, 0.1))):
        Q, low = np.full((2, 2), 0.5), np.full((2, 2), 0.2)
        kernel(Q, low, 1, 0, 0.9, 0.1)
        assert (Q[1, 0], low[1, 0]) == want
        assert (Q[0] == 0.5).all()
    Q, low = np.full((2, 2), 0.5), np.full((2, 2), 0.2)
    planning.tighten(Q, low, 0, 1, 0.4, 0.3)
    assert (Q[0, 1], low[0, 1]) == (0.4, 0.3)


@pytest.mark.parametrize("squared", [False, True])
def test_a_regression_of_values_is_weighted_least_squares(squared):
    plan = taught(weighting="variance").packed[0]
    plan.weight[1, :6] = np.linspace(0.2, 1.2, 6)
    values, w = np.array([0.1, 0.9, 0.4, 0.7, 0.2]), np.full(4, 7.0)
    planning.regress(plan, 1, values, 0.3, squared, w)
    phi = plan.features[plan.past[1, :6, 0]]
    y = values[plan.past[1, :6, 1]] - 0.3
    y = y * y if squared else y
    inverse = plan.value_M[1][planning.INVERSE : planning.INVERSE + 4]
    np.testing.assert_allclose(w, inverse @ (phi.T @ (plan.weight[1, :6] * y)), rtol=1e-9)


def test_values_are_regressed_less_their_level_and_squares_whole():
    plan = taught(weighting="variance").packed[0]
    plan.level[2] = 0.25
    planning.relabel_square(plan, 1)
    want = np.zeros(4)
    planning.regress(plan, 1, plan.V[2], 0.25, False, want)
    np.testing.assert_array_equal(plan.value_M[1, THETA], want)
    planning.regress(plan, 1, plan.V_low[2], 0.25, False, want)
    np.testing.assert_array_equal(plan.targets[1, PESSIMIST], want)
    planning.regress(plan, 1, plan.V[2], 0.0, True, want)
    np.testing.assert_array_equal(plan.targets[1, SQUARE], want)


def test_the_intercept_is_the_constant_feature_s_share():
    plan = taught().packed[0]
    for h in range(3):
        want = plan.reward_s[h, CONSTANT] * plan.reward_M[h, THETA, 4]
        assert planning.intercept(plan, h) == want != 0.0
    assert planning.intercept(taught(intercept=False).packed[0], 1) == 0.0


def sigma(h=0, *, mean=0.0, second=0.0, low=0.0, radius=0.0, width=0.1, level=0.0):
    """sigma at a feature (1, 0, ...) of an environment whose stages left are 9 - h."""
    place = river_swim(noise=ht.noise.Gaussian())
    tail = ht.MomentBound(1.5, 1.0)
    plan = HvtLSVIUCB(place.features, 10, tail=tail, weighting="variance").packed[0]
    plan.value_M[h, THETA, 0], plan.targets[h, SQUARE, 0] = mean, second
    plan.targets[h, PESSIMIST, 0] = low
    plan.value_s[h, RADIUS], plan.level[h + 1] = radius, level
    return planning.value_sigma(plan, h, 0, width)


@pytest.mark.parametrize(
    ("h", "told", "variance"),
    [
        (0, {"mean": 2.0, "second": 34.0, "low": 2.0}, 30.0),
        (0, {"mean": 1.5, "second": 34.0, "low": 1.5, "level": 0.5}, 30.0),  # the mean is 2
        (0, {"mean": -3.0, "second": 20.0, "low": -3.0}, 20.0),  # a mean of 0
        (0, {"mean": 12.0, "second": 100.0, "low": 12.0}, 9.0),  # 9, 81: the floor sqrt(9) = 3
        (0, {"mean": 2.0, "second": 3.0, "low": 2.0}, 9.0),  # a negative spread is none
        (8, {"mean": 0.5, "second": 9.0, "low": 0.5}, 1.0),  # one stage left, V² at most 1
        (0, {"second": 10.0, "width": 7.0}, 49.0),  # the width is a floor
        # E = 2 min(2 R beta n, R²) and D = min(2 R (phi'(w - w_low) + 2 beta n), R²)
        (0, {"second": 10.0, "radius": 2.0}, 10.0 + 2 * 2 * 9 * 0.2 + 2 * 9 * 0.4),
        (0, {"second": 10.0, "radius": 1e3}, 10.0 + 2 * 81 + 81),
        (0, {"second": 20.0, "mean": 2.0, "low": 1.0}, 16.0 + 2 * 9 * 1.0),
        (0, {"second": 20.0, "mean": 2.0, "low": 3.0}, 16.0),  # a gap below 0 is none
        (0, {"second": 20.0, "mean": 2.0, "low": -100.0}, 16.0 + 81.0),
        (2, {"second": 10.0, "mean": 1.0, "low": 0.5}, 9.0 + 2 * 7 * 0.5),
    ],
)
def test_sigma_is_its_formula(h, told, variance):
    assert sigma(h, **told) == pytest.approx(math.sqrt(variance))


def test_a_stage_of_unit_weight_weighs_1():
    assert planning.unit_sigma(taught().packed[0], 0, 0, 0.3) == 1.0


def test_actions_tied_at_the_cap_are_told_apart_by_the_index():
    agent = taught(reward_bonus=50.0, value_bonus=50.0)
    agent.update(0, 0, 0, 0.5, 0)
    plan = agent.packed[0]
    assert (agent.upper[0] == 3.0).all()  # every index is beyond the cap
    choose = planning.planner(False, False, False)
    plan.counts[PLANNED] = 0.0
    before = plan.counts[SWITCHES]
    assert choose(plan) is True
    assert (plan.counts[PLANNED], plan.counts[SWITCHES]) == (1.0, before + 1.0)
    assert choose(plan) is False
    plan.counts[PLANNED] = 0.0
    assert planning.planner(False, True, False)(plan) is False  # no determinant has doubled
    assert plan.counts[PLANNED] == 1.0
    widths = (
        np.sqrt(np.maximum(plan.reward_scores[planning.SQUARED], 0.0)) * plan.reward_s[0, RADIUS]
    )
    values = np.sqrt(np.maximum(plan.value_scores[planning.SQUARED], 0.0)) * plan.value_s[0, RADIUS]
    index = plan.reward_scores[planning.MEAN] + plan.value_scores[planning.MEAN] + widths + values
    np.testing.assert_array_equal(plan.table[0], index.reshape(5, 3).argmax(axis=1))
    np.testing.assert_array_equal(plan.marks[:, 0], plan.reward_s[:, LOG_DET])
    np.testing.assert_array_equal(plan.marks[:, 1], plan.value_s[:, LOG_DET])


def test_equal_actions_go_to_the_first():
    place = river_swim(noise=ht.noise.Gaussian(), horizon=2)
    agent = HvtLSVIUCB(place.features, 2, tail=ht.MomentBound(1.5, 1.0))
    assert (agent.policy == 0).all()


def test_a_width_that_would_leave_the_float_range_is_refused():
    agent = taught()
    plan = agent.packed[0]
    plan.value_M[:, planning.INVERSE : planning.INVERSE + 4] = 1e200 * np.eye(4)
    before = plan.counts.copy()
    assert agent.learn_kernel(0, 0, 0.5, 0, 1.0, plan) == OVERFLOW
    np.testing.assert_array_equal(plan.counts, before)
    assert agent.learn_kernel(2, 0, 0.5, 0, 1.0, plan) == OK  # no value follows the last stage


def test_a_weighted_value_takes_any_width_for_sigma_is_no_smaller():
    agent = taught(weighting="variance")
    plan = agent.packed[0]
    plan.value_M[0, planning.INVERSE : planning.INVERSE + 4] = 1e200 * np.eye(4)
    assert agent.learn_kernel(0, 0, 0.5, 0, 1.0, plan) == OK
    width = 1e100 * np.linalg.norm(plan.features[0])
    assert plan.weight[0, 6] == pytest.approx(width**-2)


def test_what_cannot_be_learned_is_refused_with_its_code():
    agent = taught()
    plan = agent.packed[0]
    before = {key: array.copy() for key, array in agent.state_arrays().items()}
    for reward in (math.nan, math.inf, -math.inf):
        assert agent.learn_kernel(0, 0, reward, 0, 1.0, plan) == BAD_REWARD
    for nu in (0.0, math.inf, math.nan):
        assert agent.learn_kernel(0, 0, 0.5, 0, nu, plan) == BAD_SCALE
    for key, array in agent.state_arrays().items():
        np.testing.assert_array_equal(array, before[key])


def test_a_stage_writes_its_past_and_the_last_one_none():
    agent = taught(episodes=2, weighting="variance")
    for h in range(3):
        agent.update(h, 3, 2, 0.5, 4)
    plan = agent.packed[0]
    for h in (0, 1):
        np.testing.assert_array_equal(plan.past[h, 2], [3 * 3 + 2, 4])
        assert 0.0 < plan.weight[h, 2] <= 1.0
    assert (plan.past[2] == 0).all()
    assert (plan.weight[2] == 0.0).all()
    assert plan.value_s[2, LOG_DET] == 0.0
