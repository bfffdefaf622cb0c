"""Each way of projecting onto the ball, against an eigendecomposition with a bracketed root."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.kernels.tools import positive

from heavytail.kernels import ball


def expected(P, y, bound):
    """(I + mu P)^-1 y of length bound, and mu, in the eigenbasis of P."""
    values, basis = np.linalg.eigh(P)
    along = basis.T @ y

    def excess(mu):
        return np.linalg.norm(along / (1.0 + mu * values)) - bound

    top = 1.0
    while excess(top) > 0.0:
        top *= 2.0
    mu = brentq(excess, 0.0, top, xtol=1e-300, rtol=1e-14)
    return basis @ (along / (1.0 + mu * values)), mu


def room(size):
    return np.full(size, 7.7), np.full((size + 1, size), 7.7)


def agree(P, theta, mu, y, bound, rel=1e-10):
    point, root = expected(P, y, bound)
    assert mu == pytest.approx(root, rel=rel)
    np.testing.assert_allclose(theta, point, rtol=rel, atol=rel * bound)


def cases(size, count=3):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        y = rng.standard_normal(size)
        yield positive(rng, size), (0.7 + 3.0 * seed) / np.linalg.norm(y) * y, 0.6


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 24, 25])
def test_a_point_outside_goes_to_the_nearest_one_on_the_sphere(size):
    for P, y, bound in cases(size, 3 if size < 20 else 1):
        theta = y.copy()
        mu = ball.project(P, theta, bound, *room(size))
        agree(P, theta, mu, y, bound)
        assert np.linalg.norm(theta) == pytest.approx(bound, rel=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_point_inside_or_on_the_sphere_stays(size):
    P = positive(np.random.default_rng(0), size)
    for length in (0.5, 1.0):
        theta = np.zeros(size)
        theta[0] = -length
        assert ball.project(P, theta, 1.0, *room(size)) == 0.0
        assert theta[0] == -length


@pytest.mark.parametrize(
    ("p00", "p01", "p11"),
    [(2.0, 0.0, 0.5), (0.5, 0.0, 2.0), (1.0, 0.9, 1.0), (1.0, -0.9, 2.0), (3.0, 0.0, 3.0)],
)
@pytest.mark.parametrize("y", [(2.0, 1.0), (-1.0, 3.0), (0.0, 5.0), (0.9, 0.9)])
def test_in_the_plane_it_is_exact_for_every_tilt(p00, p01, p11, y):
    P = np.array([[p00, p01], [p01, p11]])
    mu, *theta = ball.project_plane(p00, p01, p11, *y, 1.2)
    agree(P, np.array(theta), mu, np.array(y), 1.2)


def test_in_the_plane_a_singular_inverse_moves_along_its_one_direction():
    mu, first, second = ball.project_plane(1.0, 1.0, 1.0, 3.0, 0.5, 2.0)
    theta = np.array([first, second])
    assert np.linalg.norm(theta) == pytest.approx(2.0, rel=1e-12)
    gap = np.array([3.0, 0.5]) - theta
    np.testing.assert_allclose(gap, mu * theta.sum() * np.ones(2), rtol=1e-10)
    # Rounding may make it indefinite by a last digit: still finite, still on the sphere.
    over = np.nextafter(1.0, 2.0)
    found = ball.project_plane(1.0, over, 1.0, 3.0, 0.5, 2.0)
    assert math.hypot(*found[1:]) == pytest.approx(2.0, rel=1e-12)
    np.testing.assert_allclose(found, (mu, first, second), rtol=1e-6)


def test_a_newton_step_is_its_formula_and_0_at_the_root():
    assert ball._newton_step(3.0, 0.5, 2.0) == pytest.approx(0.5 * 9.0 / 0.5, rel=1e-14)
    assert ball._newton_step(2.0, 0.5, 2.0) == 0.0
    assert ball._newton_step(2.0 * (1.0 + 0.8e-14), 0.5, 2.0) == 0.0  # to rounding
    assert ball._newton_step(2.0 * (1.0 + 1.5e-14), 0.5, 2.0) > 0.0
    assert ball._newton_step(3.0, 0.0, 2.0) == 0.0
    assert ball._newton_step(3.0, -1.0, 2.0) == 0.0
    assert ball._newton_step(3.0, 1e-3, 2.0) > 0.0
    assert ball._newton_step(math.nan, 0.5, 2.0) == 0.0


def test_triangles_are_factorised_and_solved_like_numpys():
    rng = np.random.default_rng(1)
    P = positive(rng, 5)
    L = np.full((6, 5), 7.7)
    ball._factorise(P, 0.8, L)
    expected_factor = np.linalg.cholesky(np.eye(5) + 0.8 * P)
    np.testing.assert_allclose(np.tril(L[:5]), expected_factor, rtol=1e-12)
    x = rng.standard_normal(5)
    lower, upper = x.copy(), x.copy()
    ball._solve_lower(L, lower)
    ball._solve_upper(L, upper)
    np.testing.assert_allclose(expected_factor @ lower, x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(expected_factor.T @ upper, x, rtol=1e-10, atol=1e-12)
    u = np.empty(5)
    assert ball._multiply(P, x, u) == pytest.approx(x @ P @ x, rel=1e-12)
    np.testing.assert_allclose(u, P @ x, rtol=1e-12)


def test_a_pivot_is_never_below_1_however_the_rounding_fell():
    L = np.full((3, 2), 7.7)
    ball._factorise(np.array([[-0.5, 0.0], [0.0, -3.0]]), 1.0, L)
    assert (L[0, 0], L[1, 1]) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_cholesky_alone_is_exact(seed):
    rng = np.random.default_rng(seed)
    P, y = positive(rng, 6), (1.0 + 3.0 * seed) * rng.standard_normal(6)
    theta = y.copy()
    mu = ball._project_cholesky(P, theta, 0.6, *room(6))
    agree(P, theta, mu, y, 0.6)


def test_a_tridiagonal_system_is_solved_like_numpys():
    rng = np.random.default_rng(2)
    for steps in (1, 2, 5):
        diagonal, off = rng.uniform(1.0, 2.0, 9), rng.uniform(0.1, 0.5, 9)
        T = np.diag(diagonal[:steps])
        T += np.diag(off[: steps - 1], 1) + np.diag(off[: steps - 1], -1)
        x, pivot = rng.standard_normal(9), np.full(9, 7.7)
        solution = x.copy()
        ball._solve_tridiagonal(diagonal, off, 0.7, steps, solution, pivot)
        exact = np.linalg.solve(np.eye(steps) + 0.7 * T, x[:steps])
        np.testing.assert_allclose(solution[:steps], exact, rtol=1e-10)
        assert np.array_equal(solution[steps:], x[steps:])


def spread(size, values, seed=0):
    """P with the eigenvalues ``values``, each many times."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    P = (basis * np.resize(values, size)) @ basis.T
    return (P + P.T) / 2.0


@pytest.mark.parametrize(
    "values",
    [
        [2.0],
        [0.3, 2.0],
        [0.1, 0.4, 1.7],
        list(np.linspace(1.0, 1.3, 26)),
        [1e-9, 3e-9],
        [1e-13, 3e-13],
    ],
)
@pytest.mark.parametrize("length", [0.7, 4.0])
def test_lanczos_is_exact_where_few_steps_span_all(values, length):
    P = spread(26, values)
    y = length * np.random.default_rng(3).standard_normal(26)
    theta = y.copy()
    mu = ball._project_lanczos(P, theta, 0.6, *room(26))
    assert mu >= 0.0
    agree(P, theta, mu, y, 0.6, rel=1e-8)


def test_the_basis_of_lanczos_stays_orthonormal_to_rounding_and_ends_on_the_sphere():
    P = spread(26, 10.0 ** np.linspace(-8.0, 0.0, 26))
    y = np.random.default_rng(3).standard_normal(26)
    scratch, basis = room(26)
    ball._project_lanczos(P, y.copy(), 0.5, scratch, basis)
    np.testing.assert_allclose(basis[:16] @ basis[:16].T, np.eye(16), atol=1e-13)
    # A point on the sphere but for rounding is where it should be.
    theta = y.copy()
    bound = np.linalg.norm(y) * (1.0 - 2e-15)
    assert ball._project_lanczos(P, theta, bound, *room(26)) == 0.0
    np.testing.assert_allclose(theta, y, rtol=1e-12)


@pytest.mark.parametrize(("beside", "accepted"), [(0.2222, True), (0.2312, False)])
def test_lanczos_counts_as_exact_up_to_a_residual_of_1e_12(beside, accepted):
    """P is tridiagonal and y its first axis, so that Lanczos finds P itself, 16 rows of it."""
    P = np.eye(26) + beside * (np.eye(26, k=1) + np.eye(26, k=-1))
    T, axis = P[:16, :16], np.eye(16)[0]
    point, root = expected(T, 2.0 * axis, 0.5)
    residual = root * beside * abs(point[15]) / 2.0
    assert residual == pytest.approx(0.7e-12 if accepted else 1.4e-12, rel=0.01)
    y = 2.0 * np.eye(26)[0]
    assert (ball._project_lanczos(P, y, 0.5, *room(26)) > 0.0) == accepted


def test_lanczos_says_so_where_it_is_not_exact_and_leaves_the_point():
    P = spread(26, 10.0 ** np.linspace(-6.0, 0.0, 26))
    y = 10.0 * np.random.default_rng(3).standard_normal(26)
    theta = y.copy()
    assert ball._project_lanczos(P, theta, 0.1, *room(26)) == -1.0
    assert np.array_equal(theta, y)
    mu = ball.project(P, theta, 0.1, *room(26))
    agree(P, theta, mu, y, 0.1, rel=1e-6)


@pytest.mark.parametrize("size", [2, 3, 30])
def test_a_p_of_one_direction_alone_leaves_a_point_on_the_sphere(size):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        line, theta = rng.normal(size=size), 1e99 * rng.normal(size=size)
        P = 10.0 ** rng.uniform(40, 96) * np.outer(line, line)
        ball.project(P, theta, 1.0, *room(size))
        assert np.linalg.norm(theta) == pytest.approx(1.0)
