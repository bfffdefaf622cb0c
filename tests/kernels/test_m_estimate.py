"""The full-batch M-estimate part by part, and the quadratic it is made of, beside plain NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from heavytail.kernels import m_estimate
from heavytail.kernels.layout import INVERSE, THETA, rows
from heavytail.kernels.quadratic import (
    GRADIENT,
    LINEAR,
    NEXT,
    extra_rows,
    first_extra,
    minimise_quadratic,
)

DIMS = (1, 2, 3, 5)
LOSSES = pytest.mark.parametrize("smooth", [False, True])


def problem(dim: int, count: int = 25, seed: int = 0) -> Any:
    """M with any theta, and H with x, b, tau and a label of 0 or 1."""
    rng = np.random.default_rng(100 * dim + seed)
    M = np.full((rows(dim) + extra_rows(dim), dim), 0.5)
    M[THETA] = rng.normal(size=dim)
    x, b = rng.normal(size=(count, dim)), 2.0 * rng.standard_t(1.5, count)
    tau, label = rng.uniform(0.2, 2.0, count), rng.integers(0, 2, count)
    return M, np.column_stack([x, b, tau, label])


def derivatives(z: Any, tau: Any, smooth: bool) -> Any:
    if smooth:
        root = np.sqrt(1.0 + (z / tau) ** 2)
        return z / root, root**-3.0
    return np.clip(z, -tau, tau), (np.abs(z) <= tau).astype(float)


def gradient_and_q(H: Any, theta: Any, ridge: float, smooth: bool, tau: Any = None) -> Any:
    dim = theta.shape[0]
    x, z = H[:, :dim], H[:, dim] - H[:, :dim] @ theta
    psi, weight = derivatives(z, H[:, dim + 1] if tau is None else tau, smooth)
    terms = np.abs(ridge * theta).sum() + (np.abs(psi)[:, None] * np.abs(x)).sum()
    return ridge * theta - x.T @ psi, ridge * np.eye(dim) + (x.T * weight) @ x, terms


def lower(A: Any) -> Any:
    return A[np.tril_indices(A.shape[0])]


@LOSSES
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("tau", "group"), [(0.0, -1), (0.7, -1), (0.0, 0), (0.7, 1)])
def test_a_pass_gives_gradient_and_curvature(
    dim: int, smooth: bool, tau: float, group: int
) -> None:
    M, H = problem(dim)
    terms = m_estimate.scan(M, H, 20, THETA, 0.3, tau, smooth, dim + 2, group)
    used = H[:20] if group < 0 else H[:20][H[:20, dim + 2] == group]
    gradient, q, size = gradient_and_q(used, M[THETA], 0.3, smooth, tau or None)
    Q = first_extra(dim)
    np.testing.assert_allclose(M[Q + dim + GRADIENT], gradient, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(lower(M[Q : Q + dim]), lower(q), rtol=1e-10)
    assert terms == pytest.approx(size)


@pytest.mark.parametrize("dim", DIMS)
def test_the_slope_is_the_gradient_of_hubers_loss(dim: int) -> None:
    M, H = problem(dim)
    m_estimate.slope(M, H, 20, THETA, 0.3)
    gradient = gradient_and_q(H[:20], M[THETA], 0.3, False)[0]
    np.testing.assert_allclose(M[first_extra(dim) + dim + GRADIENT], gradient, rtol=1e-10)


def kkt(M: Any, H: Any, ridge: float, bound: float, smooth: bool) -> float:
    theta = M[THETA]
    gradient = gradient_and_q(H, theta, ridge, smooth)[0]
    length = float(np.linalg.norm(theta))
    assert length <= bound * (1.0 + 1e-12)
    mu = max(-float(gradient @ theta) / length**2, 0.0) if length > bound * (1 - 1e-9) else 0.0
    return float(np.linalg.norm(gradient + mu * theta))


@LOSSES
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("bound", [0.05, 0.5, math.inf])
def test_newtons_method_ends_at_the_minimiser_over_the_ball(
    dim: int, smooth: bool, bound: float
) -> None:
    for seed in range(3):
        M, H = problem(dim, seed=seed)
        M[THETA] = 0.0
        passes = m_estimate.newton(M, H, 25, THETA, 0.3, bound, 0.0, smooth, 0, -1)
        assert 2 <= passes < 60
        assert kkt(M, H, 0.3, bound, smooth) <= 1e-10
        assert m_estimate.newton(M, H, 25, THETA, 0.3, bound, 0.0, smooth, 0, -1) == 1
        gradient, q, _ = gradient_and_q(H, M[THETA], 0.3, smooth)
        Q = first_extra(dim)
        np.testing.assert_allclose(M[Q + dim + GRADIENT], gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(lower(M[Q : Q + dim]), lower(q), rtol=1e-9)


@LOSSES
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("bound", [0.3, math.inf])
def test_one_row_more_moves_to_the_minimiser_over_all(dim: int, smooth: bool, bound: float) -> None:
    M, H = problem(dim)
    M[THETA] = 0.0
    m_estimate.newton(M, H, 10, THETA, 0.3, bound, 0.0, smooth, 0, -1)
    for count in range(11, 26):
        assert m_estimate.advance(M, H, count, THETA, 0.3, bound, smooth) >= 1
        assert kkt(M, H[:count], 0.3, bound, smooth) <= 1e-10


def test_least_squares_takes_one_step_and_a_pass_to_see_that_it_is_done() -> None:
    M, H = problem(3)
    H[:, 4] = math.inf
    assert m_estimate.newton(M, H, 25, THETA, 0.3, math.inf, 0.0, False, 0, -1) == 2
    theta = np.linalg.solve(0.3 * np.eye(3) + H[:, :3].T @ H[:, :3], H[:, :3].T @ H[:, 3])
    np.testing.assert_allclose(M[THETA], theta)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("bound", [0.2, 50.0])
def test_gradient_descent_comes_within_its_tolerance(dim: int, bound: float) -> None:
    M, H = problem(dim)
    lipschitz = float(np.linalg.norm(0.5 * np.eye(dim) + H[:, :dim].T @ H[:, :dim], 2))
    steps = m_estimate.descend(M, H, 25, THETA, 0.5, bound, lipschitz, 1e-7)
    near = M[THETA].copy()
    m_estimate.newton(M, H, 25, THETA, 0.5, bound, 0.0, False, 0, -1)
    assert 2 < steps < 5000
    assert float(np.linalg.norm(near - M[THETA])) <= 1e-7


def test_gradient_descent_stays_at_0_where_nothing_was_learned() -> None:
    M, H = problem(2)
    assert m_estimate.descend(M, H, 0, THETA, 0.5, 1.0, 1.0, 1e-7) == 1
    np.testing.assert_array_equal(M[THETA], [0.0, 0.0])


def test_gradient_descent_stops_by_the_length_of_its_step() -> None:
    M, H = problem(1)
    H[0, :3] = [1.0, 1.0, math.inf]
    # theta <- theta - (2 theta - 1) / 4: the k-th step is 2^-k / 2, and stops at ridge tol / 8.
    assert m_estimate.descend(M, H, 1, THETA, 1.0, 9.0, 4.0, 1.0) == 2
    assert m_estimate.descend(M, H, 1, THETA, 1.0, 9.0, 4.0, 0.99) == 3
    assert M[THETA, 0] == 0.4375


def cut_share(dim: int, smooth: bool, far: float, label: int = 0, group: int = -1) -> Any:
    """The share of a step of ``far`` times the right length that is left, and the right one."""
    M, H = problem(dim)
    start = np.zeros(dim)
    m_estimate.newton(M, H, 25, THETA, 0.3, math.inf, 0.0, smooth, label, group)
    target = M[THETA].copy()
    following = first_extra(dim) + dim + NEXT
    M[THETA], M[following] = start, far * target
    m_estimate.cut(M, H, 25, THETA, 0.3, 0.0, smooth, label, group)
    return float(M[following] @ target / (target @ target)) / far


@LOSSES
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("group", [-1, 1])
def test_a_step_is_cut_where_the_loss_stops_falling(dim: int, smooth: bool, group: int) -> None:
    for far in (0.5, 0.9, 0.999):
        assert cut_share(dim, smooth, far, dim + 2, group) == pytest.approx(1.0)
    for far in (1.3, 2.0, 3.7, 40.0):
        share = cut_share(dim, smooth, far, dim + 2, group)
        assert (1.0 - 0.126) / far <= share <= (1.0 + 1e-9) / far


def test_scores_are_tau_to_the_last_bit_far_out() -> None:
    for z, tau in ((3.0, 2.0), (-3.0, 2.0), (1e12, 2.0), (-1e12, 2.0), (0.0, 1.0)):
        psi, weight = derivatives(np.array([z]), np.array([tau]), True)
        assert m_estimate.pseudo_huber_score(z, tau) == pytest.approx(psi[0])
        assert m_estimate.psi_and_weight(z, tau, True)[0] == pytest.approx(psi[0])
        assert m_estimate.psi_and_weight(z, tau, True)[1] == pytest.approx(
            weight[0], rel=1e-9, abs=1e-20
        )
    assert m_estimate.psi_and_weight(2.0, 2.0, False) == (2.0, 1.0)
    assert m_estimate.psi_and_weight(2.1, 2.0, False) == (2.0, 0.0)
    assert m_estimate.pseudo_huber_score(-1e300, 1e-3) == -1e-3


def test_the_kkt_residual_forgives_a_pull_out_of_the_ball_and_no_other() -> None:
    M, _ = problem(2)
    gradient = first_extra(2) + 2 + GRADIENT
    M[THETA] = [0.6, 0.8]
    for g, bound, left in (
        ([-0.6, -0.8], 1.0, 0.0),
        ([0.6, 0.8], 1.0, 1.0),
        ([-0.6, -0.8], 1.01, 1.0),
        ([-0.8 - 1.2, 0.6 - 1.6], 1.0, 1.0),
        ([0.8, -0.6], 1.0, 1.0),
    ):
        M[gradient] = g
        assert m_estimate.kkt_residual(M, THETA, bound) == pytest.approx(left, abs=1e-12)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("bound", [1e-3, 0.1, 0.6, 1e3])
def test_a_quadratic_is_minimised_over_the_ball_with_its_multiplier(dim: int, bound: float) -> None:
    for seed in range(4):
        M, H = problem(dim, seed=seed)
        x = H[:, :dim] * 10.0 ** np.linspace(-2.0, 0.5, dim)
        Q, c = 1e-3 * np.eye(dim) + x.T @ x, x.T @ H[:, dim]
        first = first_extra(dim)
        M[first : first + dim], M[first + dim + LINEAR] = np.tril(Q), c
        before = M.copy()
        mu = minimise_quadratic(M, 1e-3, bound)
        theta = M[first + dim + NEXT]
        free = np.linalg.solve(Q, c)
        if np.linalg.norm(free) <= bound:
            assert mu == 0.0
            np.testing.assert_allclose(theta, free, rtol=1e-8)
        else:
            assert mu > 0.0
            assert float(np.linalg.norm(theta)) == pytest.approx(bound, rel=1e-14)
            exact = np.linalg.solve(Q + mu * np.eye(dim), c)
            np.testing.assert_allclose(theta, exact, rtol=1e-8, atol=1e-8 * bound)
        kept = [*range(INVERSE + dim), *range(first, first + dim + 1), first + dim + GRADIENT]
        np.testing.assert_array_equal(M[kept], before[kept])
