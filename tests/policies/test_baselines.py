"""The usual baselines: Thompson sampling, epsilon-greedy, and robust means arm by arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies.robust_ucb import catoni_level, group_of, median_of_means

TAIL = ht.MomentBound(order=2.0, scale=1.0)
ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def teach(policy: Any, rounds: int = 40, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.7, 0.7, (rounds, 2))
    y = X @ [0.3, 0.8] + rng.normal(size=rounds)
    for x, reward in zip(X, y, strict=True):
        policy.update(x, float(reward))
    return X, y


def test_lints_at_zero_variance_is_greedy_ridge_regression() -> None:
    policy = ht.LinTS(2, tail=TAIL, radius_scale=0.0)
    greedy = ht.EpsilonGreedy(2, epsilon=0.0)
    X, y = teach(policy)
    teach(greedy)
    np.testing.assert_allclose(policy.theta, np.linalg.solve(np.eye(2) + X.T @ X, X.T @ y))
    rng = np.random.default_rng(1)
    for _ in range(100):
        arms = rng.uniform(-0.7, 0.7, (6, 2))
        assert policy.select(arms) == greedy.select(arms) == int(np.argmax(arms @ policy.theta))


def test_lints_draws_from_the_normal_distribution_it_states() -> None:
    from heavytail.kernels.layout import SCRATCH

    policy = ht.LinTS(2, tail=TAIL, radius_scale=0.5)
    teach(policy)
    draws = []
    for seed in range(4000):
        policy.reseed(seed)
        policy.select(ARMS)
        draws.append(policy._M[SCRATCH].copy())
    np.testing.assert_allclose(np.mean(draws, axis=0), policy.theta, atol=0.15)
    covariance = policy.radius**2 * policy.inverse_gram
    np.testing.assert_allclose(np.cov(np.array(draws).T), covariance, rtol=0.15, atol=0.05)


def test_epsilon_greedy_plays_any_arm_in_the_stated_share_of_rounds() -> None:
    policy = ht.EpsilonGreedy(2, epsilon=0.3, radius_scale=1.0)
    policy.update([1.0, 0.0], 1.0)  # arm 0 is the greedy choice
    other = 0
    for seed in range(3000):
        policy.reseed(seed)
        other += policy.select(ARMS) != 0
    assert other / 3000 == pytest.approx(0.3 * 2 / 3, abs=0.03)
    assert ht.EpsilonGreedy(2, radius_scale=1.0).epsilon == 1.0


@pytest.mark.parametrize("name", ["LinTS", "EpsilonGreedy"])
def test_the_same_seed_makes_the_same_choices_and_another_makes_others(name: str) -> None:
    def choices(seed: int) -> list[int]:
        policy = ht.make_policy(name, dim=2, tail=TAIL, seed=seed, radius_scale=1.0)
        out = []
        for t in range(50):
            out.append(policy.select(ARMS))
            policy.update(ARMS[out[-1]], float(t % 2))
        return out

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)


def robust(estimator: str, **options: Any) -> Any:
    options = {"radius_scale": 0.05, **options}
    return ht.RobustUCB(2, horizon=3000, tail=TAIL, arms=3, estimator=estimator, **options)


ESTIMATORS = ("truncated", "median of means", "catoni")


@pytest.mark.compiled
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_robust_ucb_finds_the_best_arm_and_its_mean(estimator: str) -> None:
    policy, rng = robust(estimator), np.random.default_rng(2)
    for _ in range(3000):
        arm = policy.select(ARMS)
        policy.update(ARMS[arm], float((0.2, 0.4, 0.9)[arm] + rng.normal()))
    assert policy.pulls.sum() == 3000
    assert policy.pulls.argmax() == 2
    assert policy.means[2] == pytest.approx(0.9, abs=0.15)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_outlier_moves_a_robust_mean_little(estimator: str) -> None:
    calm, shocked = robust(estimator), robust(estimator)
    for policy, outlier in ((calm, 0.5), (shocked, 1e9)):
        for t in range(400):
            policy.update(ARMS[0], outlier if t == 200 else 0.5 + 0.1 * (-1.0) ** t)
    assert abs(shocked.means[0] - calm.means[0]) < 0.5


def test_catonis_mean_is_the_root_of_its_equation() -> None:
    policy, rng = robust("catoni"), np.random.default_rng(3)
    rewards = rng.standard_t(2.5, 300)
    for t, reward in enumerate(rewards):
        policy.update(ARMS[t % 2], float(reward))
    log_inverse = 2.0 * math.log(3000)
    for arm in (0, 1):
        z = (rewards[arm::2] - policy.means[arm]) / catoni_level(150.0, 1.0, log_inverse)
        psi = np.sign(z) * np.log(1.0 + abs(z) + z**2 / 2.0)
        assert abs(psi.sum()) < 1e-9


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 20, 33])
def test_median_of_means_uses_groups_of_equal_size(n: int) -> None:
    groups, rng = 4, np.random.default_rng(n)
    x = rng.normal(size=n)
    s = np.zeros(8)
    parts: list[list[float]] = [[] for _ in range(4)]
    for i in range(n):
        s[group_of(i, groups)] += x[i]
        parts[group_of(i, groups)].append(x[i])
    used = [part for part in parts if part]
    assert len(used) == min(groups, math.ceil(n / 2))
    assert max(map(len, used)) - min(map(len, used)) <= 2
    expected = np.median([np.mean(part) for part in used])
    assert median_of_means(s, 0, groups, n, 4) == pytest.approx(expected, rel=1e-12)


def test_robust_ucb_knows_an_arm_again_in_another_place() -> None:
    policy = robust("truncated")
    for arm in (0, 1, 2, 0):
        policy.update(ARMS[arm], 0.1 * arm)
    assert policy.pulls.tolist() == [2.0, 1.0, 1.0]
    order = [2, 0, 1]
    straight = policy.select(ARMS)
    assert order[policy.select(ARMS[order])] == straight


def test_robust_ucb_learns_nothing_of_an_arm_too_many() -> None:
    policy = robust("truncated")
    for arm in ARMS:
        policy.update(arm, 1.0)
    before = policy.means
    policy.update([-1.0, 0.0], 5.0)
    assert policy.rounds == 4
    np.testing.assert_array_equal(policy.means, before)


def test_catoni_refuses_an_order_other_than_two_with_the_reason() -> None:
    with pytest.raises(ValueError, match="order 2 for estimator='catoni', which needs a variance"):
        ht.RobustUCB(
            2, horizon=10, tail=ht.MomentBound(order=1.5, scale=1.0), arms=2, estimator="catoni"
        )
