"""The mathematics of a round, against independent computations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import heavytail as ht
from heavytail.confidence import lemma_1
from heavytail.kernels import ball, huber, random
from heavytail.kernels.layout import INVERSE, THETA


def random_inverse(rng, size, condition):
    """A symmetric positive definite P = V^-1 of a given condition number and a random scale."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    values = 10.0 ** rng.uniform(-np.log10(condition), 0.0, size)
    values[0] = 1.0
    values[-1] = 1.0 / condition if size > 1 else 1.0
    P = (basis * (values * 10.0 ** rng.uniform(-3, 3))) @ basis.T
    return (P + P.T) / 2


def projected(P, y, bound):
    theta = y.copy()
    size = len(y)
    mu = ball.project(P, theta, bound, np.empty(size), np.empty((size + 1, size)))
    return theta, mu


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16, 24, 25, 32, 48, 64])
def test_projection_meets_the_kkt_conditions(size):
    rng = np.random.default_rng(size)
    for condition in (1.0, 1e2, 1e4, 1e6, 1e8):
        for _ in range(4):
            P = random_inverse(rng, size, condition)
            y = rng.standard_normal(size)
            y *= 10.0 ** rng.uniform(1e-6, 2) / np.linalg.norm(y)
            bound = 10.0 ** rng.uniform(-1, 0)
            theta, mu = projected(P, y, bound)
            assert mu >= 0.0
            assert np.linalg.norm(theta) == pytest.approx(bound, rel=1e-12)
            # V (y - theta) = mu theta, multiplied by P, relative to its largest term.
            largest = np.linalg.norm(y) + mu * np.linalg.norm(P, 2) * bound
            assert np.linalg.norm(y - theta - mu * P @ theta) <= 1e-9 * largest


def test_projection_is_the_nearest_point_in_the_v_norm():
    rng = np.random.default_rng(0)
    for size in (2, 3, 7):
        P = random_inverse(rng, size, 100.0)
        V = np.linalg.inv(P)
        y = 3.0 * rng.standard_normal(size)
        theta, _ = projected(P, y, 1.0)
        ours = (theta - y) @ V @ (theta - y)
        others = rng.standard_normal((20_000, size))
        others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1.0)
        gaps = others - y
        assert ours <= np.einsum("ni,ij,nj->n", gaps, V, gaps).min() + 1e-12


def test_projection_leaves_a_point_inside_alone():
    y = np.array([0.3, -0.4, 0.5])
    theta, mu = projected(np.eye(3), y, 1.0)
    assert mu == 0.0
    assert np.array_equal(theta, y)


def test_lanczos_alone_is_not_trusted_where_it_is_wrong():
    """At a condition number of 1e6 sixteen Lanczos steps are not exact: they must say so."""
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(10):
        P = random_inverse(rng, 64, 1e6)
        y = 10.0 * rng.standard_normal(64)
        refused += ball._project_lanczos(P, y.copy(), 1.0, np.empty(64), np.empty((65, 64))) < 0
    assert refused >= 5


def test_huber_score_is_the_derivative_of_the_loss():
    tau = 1.7
    for z in np.linspace(-5.0, 5.0, 41):
        slope = (huber.huber(z + 1e-6, tau) - huber.huber(z - 1e-6, tau)) / 2e-6
        assert huber.score(z, tau) == pytest.approx(slope, abs=1e-5)
    assert huber.score(1e300, tau) == tau


def test_threshold_is_infinite_for_a_zero_feature():
    assert huber.threshold(1.0, 0.0, 5.0, 1.5) == math.inf
    assert huber.time_exponent(2.0) == 0.0


def test_theory_constants_are_the_papers():
    lemma = lemma_1(2, 1.99, 18_000)
    assert lemma.kappa == pytest.approx(33.65, abs=0.005)
    assert lemma.tau_0 == pytest.approx(1.442, abs=0.0005)
    assert lemma.beta(0) == pytest.approx(3.46, abs=0.005)
    assert lemma.beta(18_000) == pytest.approx(5092, abs=0.5)
    assert lemma_1(2, 2.0, 18_000).beta(0) == pytest.approx(3.46, abs=0.005)  # not 0^0


@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_with_alpha_1_and_no_clip_and_no_ball_it_is_ridge_regression(size):
    rng = np.random.default_rng(size)
    X = rng.uniform(-1, 1, (400, size)) / math.sqrt(size)
    y = X @ rng.standard_normal(size) + rng.standard_t(2.1, 400)
    policy = ht.OFUL(size, noise_scale=1.0, ridge=0.7)
    for row, reward in zip(X, y, strict=True):
        policy.update(row, float(reward))
    ridge = np.linalg.solve(0.7 * np.eye(size) + X.T @ X, X.T @ y)
    assert np.abs(policy.theta - ridge).max() <= 1e-10


@pytest.mark.parametrize("intercept", [False, True])
def test_hvt_ucb_without_clip_is_weighted_ridge_regression(intercept):
    rng = np.random.default_rng(1)
    size = 4
    policy = ht.HvtUCB(
        size,
        tail=ht.MomentBound(2.0, 1.0),
        alpha=1.0,
        clip=math.inf,
        theta_bound=math.inf,
        intercept=intercept,
        ridge=0.5,
    )
    full = size + intercept
    for _ in range(5):  # they set the unit to 10, times the scale of 1, and nothing else
        policy.update(np.full(size, 0.1), 1.0)
    gram, moment = 0.5 * np.eye(full) / 10.0**2, np.zeros(full)
    for _ in range(300):
        x = rng.uniform(-0.5, 0.5, size)
        reward = float(x.sum() + rng.standard_normal())
        policy.update(x, reward)
        feature = np.append(x, 1.0)[:full]
        gram += np.outer(feature, feature) / policy.sigma**2
        moment += reward * feature / policy.sigma**2
    expected = np.linalg.solve(gram, moment)
    assert np.abs(policy.theta - expected[:size]).max() <= 1e-10
    assert np.abs(policy.inverse_gram @ gram - np.eye(full)).max() <= 1e-10


def test_the_inverse_stays_symmetric_to_the_bit_and_inverts():
    rng = np.random.default_rng(5)
    policy = ht.HvtUCB(6, tail=ht.MomentBound(1.5, 1.0), radius="theory", horizon=3000)
    V = 6.0 * np.eye(6)
    for _ in range(3000):
        x = rng.uniform(-1, 1, 6) / math.sqrt(6)
        policy.update(x, float(rng.standard_t(1.6)))
        V += np.outer(x, x) / (4.0 * policy.sigma**2)
    P = policy.inverse_gram
    assert np.array_equal(P, P.T)
    assert np.abs(V @ P - np.eye(6)).max() <= 1e-11


def test_in_theory_mode_the_lemmas_conditions_hold_every_round():
    """‖x/sigma‖² <= 1/8 under V^-1, and the noiseless residual is inside the quadratic part."""
    rng = np.random.default_rng(2)
    theta = np.array([0.6, -0.8])
    policy = ht.HvtUCB(2, tail=ht.MomentBound(1.7, 1.0), radius="theory", horizon=500)
    for _ in range(500):
        P, estimate, beta_prev = policy.inverse_gram, policy.theta, policy.radius
        x = rng.uniform(-0.7, 0.7, 2)
        policy.update(x, float(x @ theta + rng.standard_t(1.8)))
        assert x @ P @ x / policy.sigma**2 <= 1 / 8 + 1e-12
        assert policy.sigma >= 1.0
        gap = estimate - theta
        assert gap @ np.linalg.solve(P, gap) <= beta_prev**2
        assert abs(x @ gap) / policy.sigma <= policy.tau / 2


def test_one_enormous_reward_moves_theta_no_more_than_the_clip_allows():
    calm = ht.HvtUCB(3, tail=ht.MomentBound(1.5, 1.0))
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = rng.uniform(-0.5, 0.5, 3)
        calm.update(x, float(x.sum() + 0.1 * rng.standard_normal()))
    hit, bumped = calm.clone(), calm.clone()
    x = np.array([0.5, 0.0, 0.0])
    hit.update(x, 1e300)
    # The clip's own edge: any reward this far out has the same score.
    bumped.update(x, 1e3)
    assert np.array_equal(hit.theta, bumped.theta)
    assert np.abs(hit.theta - calm.theta).max() < 0.05


def test_the_projection_keeps_theta_in_its_ball_and_the_intercept_free():
    policy = ht.HvtUCB(2, tail=ht.MomentBound(2.0, 0.1), theta_bound=1.0)
    rng = np.random.default_rng(0)
    for _ in range(500):
        x = rng.uniform(-0.7, 0.7, 2)
        policy.update(x, float(5.0 + 3.0 * x[0] + 0.1 * rng.standard_normal()))
        bound = policy.state["scalars"]["theta_bound"]  # doubled when the rewards contradict it
        assert np.linalg.norm(policy.theta) <= bound * (1.0 + 1e-12)
    assert policy.intercept > 2.0


def test_philox_is_the_published_generator_and_uniform():
    words = random._philox(0, 0, 0)
    known = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)  # Random123's answer for zeros
    assert tuple(int(word) for word in words) == known
    draws = np.array([random.uniform(7, 3, i) for i in range(4000)])
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert abs(draws.mean() - 0.5) < 0.02
    normals = np.array([random.normal(7, 4, i) for i in range(4000)])
    assert abs(normals.mean()) < 0.06
    assert abs(normals.std() - 1.0) < 0.05


def test_the_layout_is_where_the_policy_says_it_is():
    policy = ht.OFUL(3, noise_scale=1.0, ridge=2.0)
    assert np.array_equal(policy._M[INVERSE : INVERSE + 3], np.eye(3) / 2.0)
    policy.update([1.0, 0.0, 0.0], 1.0)
    assert np.array_equal(policy._M[THETA], policy.theta)
