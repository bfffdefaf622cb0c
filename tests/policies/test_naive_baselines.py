"""The baselines against their twins, which are written from the formulas alone."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import baselines
from tests.naive.common import game, near, together
from tests.policies.test_naive import DIMS, ORDERS, ROUNDS, STATE, pair


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"radius_scale": 1.0},
        {"noise_scale": 3.0, "ridge": 0.2, "seed": 2**40 + 11},
        {"horizon": 90, "radius_scale": 0.3},
        {"delta": 0.5, "seed": 7, "arm_bound": 1.0},
    ],
    ids=str,
)
def test_lin_ts_draws_from_the_distribution_of_its_formula(d, knobs):
    policy, twin = pair("LinTS", baselines.LinTS, d, 2.0, 0.6, **knobs)
    together(policy, twin, game(d, ROUNDS, arms=20, noise=0.3), STATE)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"radius_scale": 1.0, "seed": 5},
        {"radius_scale": 3.0},
        {"epsilon": 0.3, "radius_scale": 1.0, "ridge": 4.0},
        {"epsilon": 0.0, "arm_bound": 1.0},
    ],
    ids=str,
)
def test_epsilon_greedy_is_its_formulas(knobs):
    policy, twin = pair("EpsilonGreedy", baselines.EpsilonGreedy, 3, **knobs)
    together(policy, twin, game(3, 120, arms=15, noise=0.3), (*STATE, "epsilon"))


@pytest.mark.parametrize("seed", [0, 3, 2**35 + 1, 2**52 + 2**33 + 5])
def test_uniform_plays_what_its_counter_says(seed):
    policy, twin = pair("Uniform", baselines.Uniform, 2, seed=seed)
    together(policy, twin, game(2, 50, arms=200))


ROBUST = ("means", "pulls", "theta", "radius")


def robust(estimator, p, nu=0.5, **knobs):
    knobs = {"horizon": 120, "arms": 4, "estimator": estimator} | knobs
    return pair("RobustUCB", baselines.RobustUCB, 2, p, nu, **knobs)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("estimator", ["truncated", "median of means", "catoni"])
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"radius_scale": 1.0},
        {"theta_bound": 3.0, "arm_bound": 2.0},
        {"threshold_scale": 0.2},
        {"horizon": 200, "arms": 2},
        {"arms": 6},
    ],
    ids=str,
)
def test_robust_ucb_is_its_formulas(p, estimator, knobs):
    policy, twin = robust(estimator, 2.0 if estimator == "catoni" else p, **knobs)
    rounds = 120 if estimator == "catoni" else 70
    together(policy, twin, game(2, rounds, arms=min(4, knobs.get("arms", 4)), fixed=True), ROBUST)


def test_an_arm_too_many_is_played_and_nothing_is_learned_of_it():
    policy, twin = robust("truncated", 1.5, arms=3)
    together(policy, twin, game(2, 40, arms=5, fixed=True), ROBUST, forced=2)


@pytest.mark.parametrize("horizon", [1, 2, 300])
def test_the_groups_of_a_median_of_means_are_dealt_round_in_pairs(horizon):
    policy, twin = robust("median of means", 1.5, horizon=horizon, arms=1)
    together(policy, twin, game(2, horizon, arms=1, fixed=True), ROBUST)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("horizon", [1, 2, 60])
def test_a_reward_of_an_arm_is_truncated_at_the_level_of_its_turn(p, horizon):
    policy, twin = robust("truncated", p, 0.8, horizon=horizon, theta_bound=2.0)
    rng = np.random.default_rng(6)
    x = [0.6, 0.0]
    for n in range(1, horizon + 1):
        reward = twin.level(n) * (1.0 - 1e-7 if n == 1 else rng.choice([1.0 - 1e-7, 1.0 + 1e-7]))
        policy.update(x, reward)
        twin.learn(np.array(x), reward)
        near(policy.means, twin.means, f"round {n}: means")


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("estimator", "p", "few"),
    [
        *[("truncated", p, 1) for p in ORDERS],
        *[("median of means", p, 1) for p in ORDERS],
        ("catoni", 2.0, 45),
    ],
)
def test_the_width_of_a_mean_is_the_lemma_s(estimator, p, few, side):
    """Two arms, one played often, with means that make their indices all but equal."""
    policy, twin = robust(estimator, p, 0.8, horizon=150, arms=2, threshold_scale=1e6)
    arms, often = np.eye(2), 2 * few + 3
    gap = twin.width(few) - twin.width(often)
    for arm, count, reward in ((0, few, 0.0), (1, often, gap * (1.0 + 1e-7 * side))):
        for _ in range(count):
            policy.update(arms[arm], reward)
            twin.learn(arms[arm], reward)
    assert policy.select(arms) == twin.choose(arms) == (side > 0.0)
