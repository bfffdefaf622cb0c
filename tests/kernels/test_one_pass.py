"""The one-pass step against its formulas written with NumPy, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.kernels.tools import inverse, state

from heavytail.kernels import one_pass
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_SCALE,
    BAD_X,
    CLIPPED,
    CONSTANT,
    DIRECTION,
    FEATURE,
    GAIN,
    LOG_DET,
    OK,
    OVERFLOW,
    PROJECTED,
    ROUNDS,
    STEP,
    THETA,
    THETA_BOUND,
)

X = np.array([3.0, 4.0])  # of squared length 25


@pytest.mark.parametrize(
    ("x", "reward", "scale", "limit", "answer"),
    [
        (X, 1.0, 1.0, 25.0, OK),
        (X, -1e300, 1e-100, 25.0, OK),
        (X, 0.0, 1e100, 25.0, OK),
        (X[:1], 1.0, 0.5, 25.0, OK),
        (X, 1.0, 1.0, 24.9, BAD_X),
        (np.array([1.0, math.nan]), 1.0, 1.0, 25.0, BAD_X),
        (np.array([1.0, -math.inf]), 1.0, 1.0, 25.0, BAD_X),
        (np.array([1.0, math.nan]), math.nan, -1.0, 25.0, BAD_X),
        (X, math.nan, 1.0, 25.0, BAD_REWARD),
        (X, math.inf, 1.0, 25.0, BAD_REWARD),
        (X, -math.inf, 0.0, 25.0, BAD_REWARD),
        (X, 1.0, 0.0, 25.0, BAD_SCALE),
        (X, 1.0, -1.0, 25.0, BAD_SCALE),
        (X, 1.0, 0.9e-100, 25.0, BAD_SCALE),
        (X, 1.0, 1.1e100, 25.0, BAD_SCALE),
        (X, 1.0, math.inf, 25.0, BAD_SCALE),
        (X, 1.0, math.nan, 25.0, BAD_SCALE),
    ],
)
def test_an_observation_is_admitted_or_its_first_bad_part_named(x, reward, scale, limit, answer):
    s, M = state(np.random.default_rng(0), 2)
    s[ARM_LIMIT] = limit
    before = s.copy(), M.copy()
    assert one_pass.admit(s, M, x, reward, scale) == answer
    assert np.array_equal(s, before[0])
    assert np.array_equal(M, before[1])


@pytest.mark.parametrize(("size", "full"), [(1, 1), (3, 3), (1, 2), (4, 5)])
def test_measure_lays_the_feature_with_its_constant_and_the_direction(size, full):
    rng = np.random.default_rng(full)
    s, M = state(rng, full)
    x = rng.standard_normal(size)
    feature, P = np.append(x, [0.7] * (full - size)), inverse(M)
    assert one_pass.measure(s, M, x) == pytest.approx(feature @ P @ feature, rel=1e-12)
    assert np.array_equal(M[FEATURE], feature)
    np.testing.assert_allclose(M[DIRECTION], P @ feature, rtol=1e-12, atol=1e-14)


def played(size, full, bound=math.inf, z=1.3, sigma=0.6, alpha=3.0, tau=0.9, scale=0.05):
    """One step from a random state: (s, M) and the parts of the formula."""
    rng = np.random.default_rng(10 * size + full)
    s, M = state(rng, full)
    s[THETA_BOUND] = bound
    s[ROUNDS], s[LOG_DET], s[CLIPPED], s[PROJECTED] = 4.0, 2.5, 3.0, 7.0
    M[THETA] *= scale
    x = rng.standard_normal(size)
    squared = one_pass.measure(s, M, x)
    P, feature, theta = inverse(M), M[FEATURE].copy(), M[THETA].copy()
    assert one_pass.learn(s, M, size, squared, z, sigma, alpha, tau) == OK
    weight = 1.0 / (alpha * sigma**2)
    after = np.linalg.inv(np.linalg.inv(P) + weight * np.outer(feature, feature))
    psi = min(max(z, -tau), tau)
    moved = theta + after @ feature * psi / sigma
    return s, M, {"P": P, "after": after, "moved": moved, "squared": squared, "weight": weight}


@pytest.mark.parametrize(("size", "full"), [(1, 1), (2, 2), (5, 5), (2, 3), (3, 4)])
@pytest.mark.parametrize(("z", "tau"), [(1.3, 0.9), (-1.3, 0.9), (0.4, 0.9), (0.4, math.inf)])
def test_a_step_is_the_weighted_update_with_the_clipped_score(size, full, z, tau):
    s, M, parts = played(size, full, z=z, tau=tau)
    np.testing.assert_allclose(inverse(M), parts["after"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(M[THETA], parts["moved"], rtol=1e-9, atol=1e-12)
    growth = 1.0 + parts["weight"] * parts["squared"]
    assert s[GAIN] == pytest.approx(parts["weight"] / growth, rel=1e-12)
    assert s[STEP] == pytest.approx(min(max(z, -tau), tau) / (0.6 * growth), rel=1e-12)
    assert s[LOG_DET] == pytest.approx(2.5 + math.log(growth), rel=1e-12)
    assert s[ROUNDS] == 5.0
    assert s[PROJECTED] == 0.0
    assert s[CLIPPED] == 3.0 + (abs(z) > tau)


def test_a_residual_at_the_threshold_is_not_clipped():
    assert played(2, 2, z=-0.9, tau=0.9)[0][CLIPPED] == 3.0


@pytest.mark.parametrize(("size", "full"), [(1, 1), (2, 2), (4, 4), (1, 2), (2, 3), (4, 5)])
def test_theta_returns_to_its_ball_in_the_v_norm_and_the_free_coordinate_follows(size, full):
    s, M, parts = played(size, full, bound=0.1, z=5.0, tau=5.0, scale=1.0)
    theta, P = M[THETA], inverse(M)
    assert s[PROJECTED] == 1.0
    assert np.linalg.norm(theta[:size]) == pytest.approx(0.1, rel=1e-12)
    # KKT: moved - theta = mu P (theta[:size], 0), with one mu >= 0 for every coordinate.
    inside = np.append(theta[:size], np.zeros(full - size))
    gap, pull = parts["moved"] - theta, P @ inside
    mu = gap @ pull / (pull @ pull)
    assert mu > 0.0
    np.testing.assert_allclose(gap, mu * pull, rtol=1e-8, atol=1e-10)


def test_the_ball_holds_the_features_coefficients_up_to_its_edge_and_not_the_free_one():
    _, _, parts = played(1, 2, scale=3.0)
    exact = abs(parts["moved"][0])
    assert abs(parts["moved"][1]) > 0.1 * exact
    s, M, _ = played(1, 2, bound=1.001 * exact, scale=3.0)
    assert s[PROJECTED] == 0.0
    np.testing.assert_allclose(M[THETA], parts["moved"], rtol=1e-9)
    assert played(1, 2, bound=0.999 * exact, scale=3.0)[0][PROJECTED] == 1.0
    edge, M = state(np.random.default_rng(0), 1)
    edge[THETA_BOUND], M[THETA, 0] = 0.5, -0.5
    squared = one_pass.measure(edge, M, np.ones(1))
    one_pass.learn(edge, M, 1, squared, 0.0, 1.0, 1.0, 1.0)
    assert edge[PROJECTED] == 0.0


@pytest.mark.parametrize(
    ("squared", "z", "sigma", "alpha", "theta", "answer"),
    [  # 1e150 is the largest weight, growth, score and coefficient
        (1e-150, 0.5, 1.0, 1.0 / 0.9e150, 0.0, OK),
        (1e-150, 0.5, 1.0, 1e-150, 0.0, OK),
        (1e-150, 0.5, 1.0, 1.0 / 1.5e150, 0.0, OVERFLOW),
        (1e-160, 0.5, 1e-80, 1.0, 0.0, OVERFLOW),
        (0.9e150, 0.5, 1.0, 1.0, 0.0, OK),
        (1e150, 0.5, 1.0, 1.0, 0.0, OK),
        (1.5e150, 0.5, 1.0, 1.0, 0.0, OVERFLOW),
        (1.0, 0.9e150, 1e3, 1.0, 0.0, OK),
        (1.0, 1e150, 1e3, 1.0, 0.0, OK),
        (1.0, -1.5e150, 1e3, 1.0, 0.0, OVERFLOW),
        (1.0, 1.5e150, 1e3, 1.0, 0.0, OVERFLOW),
        (1.0, 0.0, 1.0, 1.0, 0.9e150, OK),
        (1.0, 0.0, 1.0, 1.0, 1e150, OK),
        (1.0, 0.0, 1.0, 1.0, -1.5e150, OVERFLOW),
        (1.0, math.nan, 1.0, 1.0, 0.0, OVERFLOW),
        (math.nan, 0.5, 1.0, 1.0, 0.0, OVERFLOW),
    ],
)
def test_past_1e150_a_step_is_refused_and_nothing_has_changed(
    squared, z, sigma, alpha, theta, answer
):
    s, M = state(np.random.default_rng(0), 2)
    M[THETA, 1] = theta
    M[DIRECTION] = 1e-3
    before = s.copy(), M.copy()
    assert one_pass.learn(s, M, 2, squared, z, sigma, alpha, math.inf) == answer
    if answer == OVERFLOW:
        assert np.array_equal(s, before[0])
        assert np.array_equal(M, before[1])


def test_a_coefficient_that_the_step_itself_would_carry_past_1e150_is_refused():
    s, M = state(np.random.default_rng(0), 2)
    M[THETA, 1], M[DIRECTION, 1] = 0.8e150, 0.8e3
    assert one_pass.learn(s, M, 2, 0.0, 0.5e147, 1.0, 1.0, math.inf) == OVERFLOW
    assert s[CONSTANT] == 0.7
    M[DIRECTION, 1] = -0.8e3
    assert one_pass.learn(s, M, 2, 0.0, 0.5e147, 1.0, 1.0, math.inf) == OK
