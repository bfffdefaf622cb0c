"""Jacobi's singular values and vectors, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail.kernels.svd import complete, orthogonalise

SHAPES = [(1, 1, 1), (1, 4, 1), (4, 1, 1), (3, 7, 3), (7, 3, 2), (5, 5, 5), (6, 6, 0), (10, 10, 2)]


def decomposed(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U', sigma V' and V' of X."""
    d1, d2 = X.shape
    M = np.zeros((2 * d1 + d2, max(d1, d2)))
    M[:d1, :d2] = X
    orthogonalise(M, 0, d1, d1, d2)
    complete(M, 0, 2 * d1, d1, d2, d2)
    return M[d1 : 2 * d1, :d1], M[:d1, :d2], M[2 * d1 :, :d2]


@pytest.mark.parametrize("unit", [1.0, 1e-120, 1e120])
@pytest.mark.parametrize(("d1", "d2", "rank"), SHAPES)
def test_rows_become_singular_and_both_bases_are_whole(d1, d2, rank, unit):
    rng = np.random.default_rng(d1 + 10 * d2)
    X = unit * rng.normal(size=(d1, rank)) @ rng.normal(size=(rank, d2))
    left, rows, right = decomposed(X)
    np.testing.assert_allclose(left @ left.T, np.eye(d1), atol=1e-14)
    np.testing.assert_allclose(right @ right.T, np.eye(d2), atol=1e-14)
    np.testing.assert_allclose(left.T @ rows, X, atol=1e-13 * unit)
    found = np.linalg.norm(rows, axis=1)[: min(d1, d2)]
    np.testing.assert_allclose(found, np.linalg.svd(X)[1], atol=1e-13 * unit)
    lengths = np.linalg.norm(rows, axis=1)
    assert (np.diff(lengths) <= 1e-13 * unit).all()
    for i in range(min(rank, d1, d2)):
        np.testing.assert_allclose(right[i] * lengths[i], rows[i], atol=1e-12 * unit)


def test_values_of_very_different_size_keep_their_digits():
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    sizes = np.array([1.0, 1e-3, 1e-6, 1e-9])
    _, rows, _ = decomposed(U * sizes @ V)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), sizes, rtol=1e-6)
