"""Policies that truncate rewards reduce to ridge regression where nothing is truncated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht

TAIL = ht.MomentBound(order=1.5, scale=1.0)


def play(policy: ht.Policy, rounds: int = 60, seed: int = 3) -> tuple[Any, Any]:
    """Feed ``policy`` arms of its own choosing; the features and rewards it saw."""
    rng = np.random.default_rng(seed)
    arms = rng.uniform(-1.0, 1.0, (5, policy.dim)) / math.sqrt(policy.dim)
    X, y = [], []
    for _ in range(rounds):
        x = arms[policy.select(arms)]
        reward = float(x.sum() + 3.0 * rng.standard_t(1.6))
        policy.update(x, reward)
        X.append(x)
        y.append(reward)
    return np.array(X), np.array(y)


def ridge(X: Any, y: Any, penalty: float = 1.0) -> Any:
    return np.linalg.solve(penalty * np.eye(X.shape[1]) + X.T @ X, X.T @ y)


def test_crtm_by_least_squares_without_truncation_is_ridge_regression() -> None:
    policy = ht.CRTM(3, horizon=100, tail=TAIL, form="least squares", threshold_scale=math.inf)
    X, y = play(policy)
    assert policy.truncated == 0
    np.testing.assert_allclose(policy.theta, ridge(X, y), rtol=1e-10)


def test_crtm_by_least_squares_is_ridge_regression_on_the_rewards_it_kept() -> None:
    policy = ht.CRTM(3, horizon=200, tail=TAIL, form="least squares", threshold_scale=0.05)
    level = policy.state["scalars"]["level"]
    X, y = play(policy, rounds=200)
    P, kept = np.eye(3), y.copy()
    for i, x in enumerate(X):
        if math.sqrt(x @ P @ x) * abs(y[i]) > level:
            kept[i] = 0.0
        P -= np.outer(P @ x, P @ x) / (1.0 + x @ P @ x)
    assert 0 < policy.truncated == np.sum(kept != y) < 200
    np.testing.assert_allclose(policy.theta, ridge(X, kept), rtol=1e-9)


def test_crtm_at_an_infinite_threshold_equals_one_that_never_meets_its_threshold() -> None:
    huge = ht.CRTM(3, horizon=100, tail=TAIL, threshold_scale=1e100)
    infinite = ht.CRTM(3, horizon=100, tail=TAIL, threshold_scale=math.inf)
    for policy in (huge, infinite):
        play(policy)
    assert huge.truncated == 0
    np.testing.assert_array_equal(huge.theta, infinite.theta)


def test_crtm_takes_the_published_newton_step() -> None:
    policy = ht.CRTM(2, horizon=100, tail=TAIL, theta_bound=50.0, threshold_scale=math.inf)
    X, y = play(policy, rounds=30)
    theta, V = np.zeros(2), np.eye(2)
    for x, reward in zip(X, y, strict=True):
        V += 0.5 * np.outer(x, x)
        theta = theta - np.linalg.solve(V, (x @ theta - reward) * x)
    np.testing.assert_allclose(policy.theta, theta, rtol=1e-10)


def test_crtms_constants_are_the_known_ones_at_order_two() -> None:
    d, T, delta, u = 3, 5000, 0.01, 4.0
    policy = ht.CRTM(
        d,
        horizon=T,
        tail=ht.MomentBound(order=2.0, scale=1.0),  # S L = 1, so that u = (1 + 1)²
        delta=delta,
        radius_scale=1.0,
        threshold_scale=1.0,
    )
    A, ell = d * math.log(1 + T / (2 * d)), math.log(4 * T / delta)
    assert policy.radius == pytest.approx(math.sqrt(896 * u * ell * A + 2 + 48 * A))
    assert policy.state["scalars"]["level"] == pytest.approx(2 * math.sqrt(A * u / ell))


def test_truncation_bounds_what_one_reward_can_do() -> None:
    policy = ht.CRTM(2, horizon=100, tail=TAIL)
    policy.update([0.0, 1.0], 0.3)
    before = policy.theta
    policy.update([1.0, 0.0], 1e300)
    np.testing.assert_array_equal(policy.theta, before)
    assert policy.truncated == 1
