"""The linear algebra of the Riccati kernels, each part on matrices whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.control import riccati


def stack(A, B, Q, R):
    """A problem as the kernels take it, its other slots full of rubbish."""
    n, d = np.shape(B)
    m = max(n, d)
    W, room = np.full((len(riccati.STACK), m, m), 7.0), np.full((m, 3 * m), -3.0)
    for slot, matrix in ((riccati.A, A), (riccati.B, B), (riccati.Q, Q), (riccati.R, R)):
        riccati.lay(W, slot, np.asarray(matrix, dtype=float))
    for i in range(d, m):
        W[riccati.R, i, i] = 1.0
    return W, room


def scalar(a=1.0, b=1.0, q=1.0, r=1.0):
    return stack([[a]], [[b]], [[q]], [[r]])


@pytest.mark.parametrize("width", [5, 7])
def test_elimination_solves_and_leaves_the_columns_beyond_alone(width):
    rng = np.random.default_rng(0)
    G = rng.standard_normal((3, 8))
    before, size = G.copy(), 3
    assert riccati.eliminate(G, size, width)
    want = np.linalg.solve(before[:, :3], before[:, 3:width])
    np.testing.assert_allclose(G[:, 3:width], want, rtol=1e-10)
    np.testing.assert_array_equal(G[:, width:], before[:, width:])


def test_elimination_takes_the_largest_pivot():
    """Without it the small one in front would cost all digits."""
    G = np.array([[1e-20, 1.0, 1.0], [-1.0, 1.0, 2.0]])
    assert riccati.eliminate(G, 2, 3)
    np.testing.assert_allclose(G[:, 2], [-1.0, 1.0])
    G = np.array([[1.0, 1.0, 2.0], [-1e17, 1.0, 1.0]])
    assert riccati.eliminate(G, 2, 3)
    np.testing.assert_allclose(G[:, 2], [1e-17, 2.0])


@pytest.mark.parametrize(
    "bad", [[[1.0, 2.0], [2.0, 4.0]], np.zeros((2, 2)), [[math.nan, 1.0], [1.0, 1.0]]]
)
def test_elimination_says_so_where_there_is_no_solution(bad):
    G = np.hstack([np.array(bad), np.eye(2)])
    assert riccati.eliminate(G, 2, 4) is False
    G = np.array([[math.inf, 1.0]])
    assert riccati.eliminate(G, 1, 2) is False


def test_cholesky_takes_the_block_and_refuses_what_is_not_positive():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((3, 3))
    G, L = np.full((6, 4), 9.0), np.zeros((4, 3))
    G[2:5, :3] = root @ root.T
    assert riccati.cholesky(G, 2, 3, L) is True
    np.testing.assert_allclose(L[:3] @ L[:3].T, root @ root.T)
    assert np.all(np.triu(L[:3], 1) == 0.0)
    for bad in (0.0, -1.0):
        assert riccati.cholesky(np.array([[bad]]), 0, 1, np.zeros((1, 1))) is False


def test_adding_a_symmetric_part_tells_the_relative_change():
    W = np.zeros((2, 2, 2))
    W[0] = [[1.0, 2.0], [2.0, 5.0]]
    W[1] = [[1.0, 4.0], [2.0, -1.0]]
    change = riccati._add_symmetric(W, 0, 1)
    np.testing.assert_array_equal(W[0], [[2.0, 5.0], [5.0, 4.0]])
    assert change == pytest.approx((1.0 + 3.0 + 1.0) / (2.0 + 5.0 + 4.0))  # the lower triangles
    assert riccati._add_symmetric(np.zeros((2, 2, 2)), 0, 1) == 0.0
    W[1, 0, 0] = math.nan
    assert math.isnan(riccati._add_symmetric(W, 0, 1))


def test_products_are_products():
    W = np.random.default_rng(2).standard_normal((4, 3, 3))
    a, b = W[1].copy(), W[2].copy()
    for kernel, want in (
        (riccati._multiply, a @ b),
        (riccati._multiply_first_transposed, a.T @ b),
        (riccati._multiply_second_transposed, a @ b.T),
    ):
        W[0] = 5.0
        kernel(W, 0, 1, 2)
        np.testing.assert_allclose(W[0], want, rtol=1e-12)
    riccati._copy(W, 0, 1)
    np.testing.assert_array_equal(W[0], a)
    assert riccati.trace(W, 1) == pytest.approx(np.trace(a))
    x = np.array([1.0, -2.0, 3.0])
    assert riccati.weigh(W, 1, x) == pytest.approx(x @ a @ x)
    assert riccati.weigh(W, 1, x[:2]) == pytest.approx(x[:2] @ a[:2, :2] @ x[:2])


def test_the_scalar_equation_is_the_golden_ratio():
    # P = 1 + P - P²/(1 + P): P² = P + 1.
    W, room = scalar()
    assert riccati.riccati(W, room) is True
    golden = (1.0 + math.sqrt(5.0)) / 2.0
    assert W[riccati.VALUE, 0, 0] == pytest.approx(golden, rel=1e-14)
    assert riccati.optimal_gain(W, room) is True
    assert W[riccati.GAIN, 0, 0] == pytest.approx(-golden / (1.0 + golden), rel=1e-14)
    assert W[riccati.CLOSED, 0, 0] == pytest.approx(1.0 / (1.0 + golden), rel=1e-14)


def test_without_a_cost_nothing_is_worth_a_push():
    W, room = scalar(a=0.5, q=0.0)
    assert riccati.riccati(W, room) is True
    assert W[riccati.VALUE, 0, 0] == 0.0


@pytest.mark.parametrize(
    "problem",
    [
        {"a": 1.5, "b": 0.0},  # nothing reaches it
        {"a": 1.0, "b": 0.0},  # H grows by 1 each step, 2^50 of them
        {"r": 0.0},  # pushes are free
        {"q": math.nan},
    ],
    ids=str,
)
def test_where_there_is_no_solution_there_is_no_gain(problem):
    W, room = scalar(**problem)
    assert riccati.riccati(W, room) is False
    assert riccati.optimal_gain(W, room) is False


@pytest.mark.parametrize("q", [1e-200, 1e200])
def test_the_unit_of_the_cost_does_not_matter(q):
    W, room = scalar(a=1.2, q=q, r=q)
    assert riccati.optimal_gain(W, room) is True
    V, same = scalar(a=1.2)
    assert riccati.optimal_gain(V, same) is True
    assert W[riccati.GAIN, 0, 0] == pytest.approx(V[riccati.GAIN, 0, 0], rel=1e-12)


def jump(k):
    """A map that takes (0, 1) to (k, 0), and that to nothing: all of its growth in one step."""
    return np.array([[0.0, k], [0.0, 0.0]])


@pytest.mark.parametrize(("growth", "found"), [(0.9e14, True), (1.1e14, False)])
@pytest.mark.parametrize("unit", [1.0, 1e-200])
def test_a_value_beyond_1e14_costs_counts_as_no_solution(growth, found, unit):
    # P = Q + A'QA: 2 + k² where Q costs 2.
    Q, B = unit * np.eye(2), np.full((2, 1), 1e-30)
    W, room = stack(jump(math.sqrt(2.0 * growth)), B, Q, [[1.0]])
    assert riccati.riccati(W, room) is found


@pytest.mark.parametrize(("horizon", "found"), [(1.5e13, True), (2.5e13, False), (6e13, False)])
def test_fifty_doublings_are_made_and_no_more(horizon, found):
    # Terms fall as exp(-t / horizon): to 1e-14 after 32 horizons, and 2^49 steps are 5.6e14.
    a = math.sqrt(1.0 - 1.0 / horizon)
    W, room = scalar(a=a, b=1e-30)
    assert riccati.riccati(W, room) is found
    W[riccati.CLOSED] = a
    assert riccati.lyapunov(W, 1) is found


def test_the_covariance_is_the_geometric_series_of_the_states_part_alone():
    W, _ = stack(np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2)), np.eye(3))
    closed = np.array([[0.5, 0.3], [0.0, -0.4]])
    riccati.lay(W, riccati.CLOSED, closed)
    assert riccati.lyapunov(W, 2) is True
    want = sum(
        np.linalg.matrix_power(closed, k) @ np.linalg.matrix_power(closed, k).T for k in range(200)
    )
    np.testing.assert_allclose(W[riccati.COVARIANCE, :2, :2], want, rtol=1e-12, atol=1e-14)
    assert W[riccati.COVARIANCE, 2, 2] == 0.0


@pytest.mark.parametrize(
    ("closed", "found"),
    [(1.0, False), (1.1, False), (-1.0, False), (math.nan, False), (0.0, True), (0.99, True)],
)
def test_only_a_stable_loop_has_a_covariance(closed, found):
    W, _ = scalar()
    W[riccati.CLOSED] = closed
    assert riccati.lyapunov(W, 1) is found
    if found:
        assert W[riccati.COVARIANCE, 0, 0] == pytest.approx(1.0 / (1.0 - closed**2))


@pytest.mark.parametrize(("growth", "found"), [(0.9e14, True), (1.1e14, False)])
def test_a_covariance_beyond_1e14_counts_as_none(growth, found):
    W, _ = stack(np.zeros((2, 2)), np.zeros((2, 1)), np.eye(2), [[1.0]])
    W[riccati.CLOSED] = jump(math.sqrt(growth))
    assert riccati.lyapunov(W, 2) is found


@pytest.mark.parametrize("first", [0, 2])
def test_the_gradient_is_its_formula_from_any_row_on(first):
    rng = np.random.default_rng(3)
    n, d = 2, 3
    W = rng.standard_normal((len(riccati.STACK), 3, 3))
    for slot in (riccati.CLOSED, riccati.COVARIANCE, riccati.VALUE):
        W[slot, n:] = 0.0
        W[slot, :, n:] = 0.0
    F = np.full((6, n + d), 4.0)
    riccati.gradient(W, n, F, first)
    parts = (W[slot, :n, :n] for slot in (riccati.VALUE, riccati.CLOSED, riccati.COVARIANCE))
    P, closed, sigma = parts
    slope = 2.0 * P @ closed @ sigma
    want = np.hstack([slope, slope @ W[riccati.GAIN, :d, :n].T])
    np.testing.assert_allclose(F[first : first + n], want, rtol=1e-12)
    rest = np.delete(F, range(first, first + n), axis=0)
    assert (rest == 4.0).all()


def test_laying_a_matrix_fills_the_slot_with_zeros():
    W = np.full((1, 3, 3), 8.0)
    riccati.lay(W, 0, np.ones((2, 1)))
    np.testing.assert_array_equal(W[0], [[1, 0, 0], [1, 0, 0], [0, 0, 0]])
