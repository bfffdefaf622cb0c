"""Cholesky's factor in rows of M against NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.kernels.cholesky import factorise, invert, substitute


def positive(size: int, seed: int) -> np.ndarray:
    half = np.random.default_rng(seed).normal(size=(size, size + 2))
    return half @ half.T


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_factor_is_numpys_and_may_be_made_in_place(size: int) -> None:
    A = positive(size, size)
    wanted = np.linalg.cholesky(A + 0.7 * np.eye(size))
    M = np.zeros((2 * size, size + 1))
    M[:size, :size] = A
    M[:size, :size][np.triu_indices(size, 1)] = math.nan  # never read
    for L in (size, 0):
        assert factorise(M, 0, L, size, 0.7, 0.0)
        np.testing.assert_allclose(np.tril(M[L : L + size, :size]), wanted, rtol=1e-12, atol=1e-13)


def test_a_row_is_solved_half_or_whole() -> None:
    A = positive(4, 1)
    M = np.vstack([A, np.random.default_rng(2).normal(size=(1, 4)), np.zeros((1, 4))])
    b = M[4].copy()
    assert factorise(M, 0, 0, 4, 0.0, 0.0)
    substitute(M, 0, 4, 4, 5, False)
    np.testing.assert_allclose(M[5], np.linalg.solve(np.linalg.cholesky(A), b), rtol=1e-12)
    substitute(M, 0, 4, 4, 4, True)
    np.testing.assert_allclose(M[4], np.linalg.solve(A, b), rtol=1e-11)


def test_pivots_are_raised_to_the_least_or_refused() -> None:
    M = np.zeros((4, 2))
    M[:2] = [[1.0, 0.0], [2.0, 1.0]]  # not positive definite: 1 - 2²
    assert factorise(M, 0, 2, 2, 0.0, 0.25)
    np.testing.assert_array_equal(np.tril(M[2:]), [[1.0, 0.0], [2.0, 0.5]])
    assert not factorise(M, 0, 2, 2, 0.0, 0.0)
    assert math.isnan(M[3, 1])


def test_an_inverse_is_symmetric_to_the_bit_and_its_determinant_told() -> None:
    A = positive(5, 3)
    M = np.vstack([A, np.zeros((11, 5))])
    log_det = invert(M, 0, 5, 10, 15)
    np.testing.assert_array_equal(M[10:15], M[10:15].T)
    np.testing.assert_allclose(M[10:15] @ A, np.eye(5), atol=1e-12)
    assert log_det == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
    np.testing.assert_array_equal(M[:5], A)
    M[0, 0], before = -1.0, M[10:15].copy()
    assert math.isnan(invert(M, 0, 5, 10, 15))
    np.testing.assert_array_equal(M[10:15], before)
