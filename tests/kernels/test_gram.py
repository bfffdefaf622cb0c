"""Products with P and its rank-one update, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernels.tools import inverse, state

from heavytail.kernels import gram
from heavytail.kernels.layout import DIRECTION, FEATURE, INVERSE, THETA

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13]  # every rest after fours, and one, two, three fours


def test_sums_are_those_of_numpy():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 5))
    _, M = state(rng, 5)
    assert gram.dot(x, y) == pytest.approx(x @ y, rel=1e-14)
    assert gram.squared_norm(x) == pytest.approx(x @ x, rel=1e-14)
    assert gram.predict(M) == pytest.approx(M[THETA] @ M[FEATURE], rel=1e-14)


@pytest.mark.parametrize("size", SIZES)
def test_transform_is_a_product_with_the_inverse_whatever_stood_there(size):
    rng = np.random.default_rng(size)
    _, M = state(rng, size)
    M[FEATURE] *= 0.1
    before, P, x = M.copy(), inverse(M), M[FEATURE].copy()
    assert gram.transform(M) == pytest.approx(x @ P @ x, rel=1e-12)
    np.testing.assert_allclose(M[DIRECTION], P @ x, rtol=1e-12, atol=1e-14)
    before[DIRECTION] = M[DIRECTION]
    assert np.array_equal(M, before)


def test_a_width_that_rounding_made_negative_is_not():
    _, M = state(np.random.default_rng(0), 3)
    M[INVERSE : INVERSE + 3] *= -1.0
    assert gram.transform(M) > 0.0
    M[FEATURE, :3] = 0.0
    assert gram.transform(M) == 0.0


@pytest.mark.parametrize("size", SIZES)
def test_shrink_takes_a_rank_one_part_away_and_keeps_symmetry_to_the_bit(size):
    rng = np.random.default_rng(size)
    _, M = state(rng, size)
    P, u = inverse(M), M[DIRECTION].copy()
    gram.shrink(M, 0.37)
    np.testing.assert_allclose(inverse(M), P - 0.37 * np.outer(u, u), rtol=1e-12, atol=1e-14)
    assert np.array_equal(inverse(M), inverse(M).T)
    assert np.array_equal(M[DIRECTION], u)


def test_shrink_after_transform_is_the_inverse_of_the_larger_matrix():
    _, M = state(np.random.default_rng(1), 6)
    V, x, weight = np.linalg.inv(inverse(M)), M[FEATURE].copy(), 0.8
    squared = gram.transform(M)
    gram.shrink(M, weight / (1.0 + weight * squared))
    expected = np.linalg.inv(V + weight * np.outer(x, x))
    np.testing.assert_allclose(inverse(M), expected, rtol=1e-10, atol=1e-12)


def test_a_form_that_rounding_has_lost_is_the_least_that_it_can_be():
    M = np.zeros((INVERSE + 3, 3))
    P = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 4.0]])
    x = np.array([0.3, -0.2, 0.9])
    M[INVERSE:], M[FEATURE], M[DIRECTION] = P, x, P @ x
    known = float(x @ P @ x)
    least = float(((P @ x) ** 2 / np.diag(P)).max())
    assert least < known
    assert gram.least_form(M, DIRECTION, INVERSE, known) == known
    assert gram.least_form(M, DIRECTION, INVERSE, least) == least
    for lost in (0.9999 * least, 0.9 * least, 0.0, -3.0):
        assert gram.least_form(M, DIRECTION, INVERSE, lost) == pytest.approx(least, rel=1e-8)
    M[INVERSE + 2, 2] = -1e-20  # of which nothing is known: the last digit of the largest counts
    assert gram.least_form(M, DIRECTION, INVERSE, 0.0) == pytest.approx((P @ x)[2] ** 2 / 2e-16)
    M[DIRECTION] = 0.0
    assert gram.least_form(M, DIRECTION, INVERSE, 0.0) == 0.0


def test_a_round_by_the_least_form_takes_no_more_than_there_is():
    rng, M = np.random.default_rng(0), np.zeros((INVERSE + 3, 3))
    M[INVERSE:] = np.eye(3)
    for _ in range(2000):
        M[FEATURE] = 3e7 * (np.array([1.0, -0.5, 0.7]) + 1e-9 * rng.normal(size=3))
        squared = gram.transform(M)
        gram.shrink(M, 1.0 / (1.0 + squared))
    assert np.abs(M[INVERSE:]).max() <= 1.0
    assert np.diag(M[INVERSE:]).min() > -1e-12
