"""The scores of a pool, rated and followed, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.kernels.tools import inverse, state

from heavytail.kernels import scores as kernel
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    DIRECTION,
    GAIN,
    INVERSE,
    OK,
    PROJECTED,
    STEP,
    THETA,
)
from heavytail.kernels.scores import AGE, AT, MEAN, SCORES, SQUARED

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13]


def setting(size, full, arms):
    rng = np.random.default_rng(100 * size + 10 * (full - size) + arms)
    s, M = state(rng, full)
    return s, M, rng.standard_normal((size, arms)), rng.standard_normal((SCORES, arms))


def naive(s, M, pool):
    """x'P x with the constant feature, x'theta without it, for every arm."""
    extra = np.full((M.shape[1] - pool.shape[0], pool.shape[1]), s[CONSTANT])
    X = np.vstack([pool, extra])
    return np.einsum("in,ij,jn->n", X, inverse(M), X), M[THETA, : pool.shape[0]] @ pool


def agree(scores, expected):
    np.testing.assert_allclose(scores[SQUARED], expected[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(scores[MEAN], expected[1], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_a_pool_is_rated_from_the_lower_half_of_the_inverse(size, intercept):
    s, M, pool, scores = setting(size, size + intercept, 5)
    expected = naive(s, M, pool)
    # The upper half is never read: what stands there is of no consequence.
    M[INVERSE : INVERSE + size + intercept] += np.triu(np.full((size + intercept,) * 2, 9.0), 1)
    before, books = M.copy(), scores[[AT, AGE]]
    assert kernel.rate(s, M, pool, scores) == OK
    agree(scores, expected)
    assert np.array_equal(M, before)
    assert np.array_equal(scores[[AT, AGE]], books)  # the caller's


@pytest.mark.parametrize("arms", [1, 127, 128, 129, 300])
def test_a_large_pool_is_rated_whole(arms):
    s, M, pool, scores = setting(5, 5, arms)
    assert kernel.rate(s, M, pool, scores) == OK
    agree(scores, naive(s, M, pool))


@pytest.mark.parametrize("bad", [10.001, math.nan, math.inf])
@pytest.mark.parametrize("arm", [0, 4])
def test_an_arm_that_is_too_long_or_not_finite_is_refused(bad, arm):
    s, M, pool, scores = setting(3, 3, 5)
    s[ARM_LIMIT] = 100.0
    pool[:, 2] = [6.0, 0.0, 8.0]  # of squared length 100: allowed
    assert kernel.rate(s, M, pool, scores) == OK
    pool[:, arm] = [0.0, bad, 0.0]
    assert kernel.rate(s, M, pool, scores) == BAD_X


@pytest.mark.parametrize(("gain", "step"), [(0.3, -1.2), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_scores_followed_over_an_update_are_those_rated_anew(size, intercept, gain, step):
    s, M, pool, scores = setting(size, size + intercept, 6)
    kernel.rate(s, M, pool, scores)
    u = M[DIRECTION].copy()
    s[GAIN], s[STEP] = gain, step
    M[INVERSE : INVERSE + size + intercept] -= gain * np.outer(u, u)
    M[THETA] += step * u
    kernel.follow(s, M, pool, scores)
    agree(scores, naive(s, M, pool))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_after_a_projection_the_means_are_formed_anew_and_only_then(size):
    s, M, pool, scores = setting(size, size, 6)
    kernel.rate(s, M, pool, scores)
    squared, mean = naive(s, M, pool)
    M[THETA] *= 0.5
    kernel.follow(s, M, pool, scores)
    agree(scores, (squared, mean))
    s[PROJECTED] = 1.0
    kernel.follow(s, M, pool, scores)
    agree(scores, (squared, 0.5 * mean))
