"""The systems of the literature entry by entry, and where the checks draw their lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.control.tools import NORMAL, T21

import heavytail as ht
from heavytail import control
from heavytail.control.systems import check_cost, check_stabilisable, spectral_radius

LITERATURE = {
    "Laplacian": (
        control.laplacian,
        [[1.01, 0.01, 0.0], [0.01, 1.01, 0.01], [0.0, 0.01, 1.01]],
        np.eye(3),
        1e-3 * np.eye(3),
        np.eye(3),
    ),
    "double integrator": (
        control.double_integrator,
        [[1, 1], [0, 1]],
        [[0], [1]],
        [[1, 0], [0, 0]],
        [[1]],
    ),
    "Boeing 747": (
        control.boeing_747,
        [
            [0.99, 0.03, -0.02, -0.32],
            [0.01, 0.47, 4.7, 0.0],
            [0.02, -0.06, 0.4, 0.0],
            [0.01, -0.04, 0.72, 0.99],
        ],
        [[0.01, 0.99], [-3.44, 1.66], [-0.83, 0.44], [-0.47, 0.25]],
        np.eye(4),
        np.eye(2),
    ),
}


@pytest.mark.parametrize("name", LITERATURE)
def test_a_system_of_the_literature_is_the_published_one(name):
    make, A, B, Q, R = LITERATURE[name]
    system = make(T21)
    for found, published in zip(
        (system.A, system.B, system.Q, system.R), (A, B, Q, R), strict=True
    ):
        np.testing.assert_allclose(found, published, rtol=1e-12, atol=1e-15)
    assert repr(system) == f"LQSystem({name!r}, n={len(A)}, d={len(R)}, noise={T21!r})"
    np.testing.assert_array_equal(system.theta.T, np.hstack([system.A, system.B]))


def scalar(A=1.2, B=1.0, **options):
    return control.LQSystem([[A]], [[B]], [[1.0]], [[1.0]], NORMAL, **options)


def test_a_system_without_a_name_is_an_lq_system():
    assert scalar().name == "LQ system"


def test_a_gain_at_the_edge_of_stability_costs_without_bound():
    system = scalar(A=1.0)
    assert math.isinf(system.cost([[0.0]]))
    assert math.isfinite(system.cost([[-1e-3]]))
    assert math.isinf(system.cost([[-2.0]]))


def test_the_cost_of_a_gain_is_that_of_the_geometric_series():
    # x' = (A + B K) x + w: variance 1 / (1 - c²), cost (Q + K² R) of it.
    system = scalar(A=1.2, B=1.0)
    assert system.cost([[-0.9]]) == pytest.approx((1.0 + 0.81) / (1.0 - 0.09))


def test_value_gain_and_costs_are_their_formulas():
    A, B = np.array([[1.05, 0.2], [-0.1, 0.9]]), np.array([[1.0, 0.3, 0.0], [0.0, 0.5, -1.0]])
    Q, R = np.array([[1.0, 0.2], [0.2, 0.5]]), np.diag([1.0, 2.0, 0.5])
    system = control.LQSystem(A, B, Q, R, ht.noise.Gaussian(3.0))
    P, K = system.P, system.K
    np.testing.assert_allclose(K, -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))
    np.testing.assert_allclose(P, Q + A.T @ P @ A + A.T @ P @ B @ K)
    assert system.variance == pytest.approx(9.0)
    assert system.optimal_cost == pytest.approx(9.0 * np.trace(P))
    other = K + 0.05
    value, step = np.zeros((2, 2)), A + B @ other
    for _ in range(400):
        value = Q + other.T @ R @ other + step.T @ value @ step
    assert system.cost(other) == pytest.approx(9.0 * np.trace(value))
    assert spectral_radius(np.diag([0.5, -2.0])) == 2.0


def test_a_refusal_names_the_method_and_the_place():
    system = control.double_integrator(NORMAL)
    with pytest.raises(ValueError, match=r"^LQSystem\.cost: K must be finite; got nan at \(0, 1"):
        system.cost([[0.0, math.nan]])
    with pytest.raises(ValueError, match=r"K must have shape \(1, 2\), .* got shape \(2, 1\)"):
        system.cost([[0.0], [0.0]])
    with pytest.raises(ValueError, match=r"^LQSystem\.gain_for: Q must be finite; got inf at \(1"):
        system.gain_for([[1.0, 0.0], [math.inf, 1.0]], [[1.0]])
    with pytest.raises(ValueError, match=r"gain_for: R must be positive definite"):
        system.gain_for(np.eye(2), [[0.0]])
    np.testing.assert_array_equal(system.gain_for(system.Q, system.R), system.K)


@pytest.mark.parametrize(
    "bad", [np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(2), np.zeros((1, 1, 1)), [[True]], [["1"]]]
)
def test_what_is_no_matrix_of_numbers_is_refused(bad):
    with pytest.raises(TypeError, match=r"LQSystem\.B must be a matrix of numbers"):
        control.LQSystem([[1.0]], bad, [[1.0]], [[1.0]], NORMAL)


def test_whole_numbers_are_numbers_and_the_matrices_are_copies():
    A = np.array([[1.2]])
    system = control.LQSystem(A, [[1]], np.array([[1]], dtype=np.uint8), [[1]], NORMAL)
    A[0, 0] = 7.0
    assert system.A[0, 0] == 1.2


# --- lines: what counts as symmetric, positive, reached


@pytest.mark.parametrize(("gap", "fine"), [(0.9e-10, True), (1e-10, True), (1.1e-10, False)])
@pytest.mark.parametrize("size", [1.0, 4.0])
def test_a_cost_is_symmetric_to_1e_10_of_its_largest_entry(size, gap, fine):
    matrix = size * np.array([[1.0, gap], [0.0, 1.0]])
    if fine:
        found = check_cost("Here.Q", matrix, 2, "state", strictly=False)
        np.testing.assert_array_equal(found, 0.5 * (matrix + matrix.T))
    else:
        with pytest.raises(ValueError, match=r"Here\.Q must be symmetric.* Pass \(Q \+ Q'\)/2"):
            check_cost("Here.Q", matrix, 2, "state", strictly=False)


@pytest.mark.parametrize(
    ("least", "strictly", "fine"),
    [
        (-1.1e-10, False, False),
        (-1e-10, False, True),
        (-0.9e-10, False, True),
        (0.0, False, True),
        (0.0, True, False),
        (0.9e-10, True, False),
        (1e-10, True, False),
        (1.1e-10, True, True),
    ],
)
def test_an_eigenvalue_within_1e_10_of_the_largest_entry_is_zero(least, strictly, fine):
    matrix = np.diag([2.0, 2.0 * least])
    if fine:
        check_cost("Here.Q", matrix, 2, "state", strictly=strictly)
    else:
        with pytest.raises(ValueError, match=r"its smallest eigenvalue is"):
            check_cost("Here.Q", matrix, 2, "state", strictly=strictly)


LOST = [
    # A, B, whether a mode that does not die out is lost
    ([[1.2]], [[1.15e-9]], True),  # within 1e-9 of the largest entry, 1.2
    ([[1.2]], [[1.25e-9]], False),
    ([[1.0]], [[1e-9]], True),
    ([[1.0]], [[1.1e-9]], False),
    ([[1.0 - 1e-9]], [[0.0]], True),  # a modulus of 1, to 1e-9
    ([[1.0 - 0.9e-9]], [[0.0]], True),
    ([[1.0 - 1.1e-9]], [[0.0]], False),
    ([[-1.2]], [[0.0]], True),
    ([[0.6, 0.6], [0.6, 0.6]], [[0.6e-9], [0.6e-9]], True),  # 0.85e-9 of 1, not of 0.6
    ([[0.6, 0.6], [0.6, 0.6]], [[0.8e-9], [0.8e-9]], False),  # 1.13e-9
    ([[1.2, 0.0], [0.0, 0.5]], [[1e-4], [1e3]], True),  # B's entries count as well: 7e-8 of 1e3
    ([[3.0, 0.0], [0.0, 0.5]], [[2e-9], [0.0]], True),  # of the largest entry, not of the least
    ([[1.2, 0.0], [0.0, 0.5]], [[0.0], [1.0]], True),
    ([[1.2, 0.0], [0.0, 0.5]], [[1.0], [0.0]], False),
    ([[1.2, 0.0], [0.0, 1.2]], [[1.0], [1.0]], True),  # one input cannot hold two equal modes
]


@pytest.mark.parametrize(("A", "B", "lost"), LOST)
def test_a_mode_is_lost_within_1e_9_of_the_largest_entry(A, B, lost):
    A, B = np.array(A), np.array(B)
    if lost:
        with pytest.raises(ValueError, match="must be stabilisable"):
            check_stabilisable(A, B)
    else:
        check_stabilisable(A, B)


def test_a_mode_that_turns_is_shown_as_a_complex_number():
    turn = 1.1 * np.array([[0.0, -1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match=r"eigenvalue [-+]?0[-+]1\.1j, of modulus 1\.1 >= 1"):
        check_stabilisable(turn, np.zeros((2, 1)))
    assert spectral_radius(turn) == pytest.approx(1.1)
    with pytest.raises(ValueError, match=r"eigenvalue -1\.25, of modulus 1\.25 >= 1, and Q gives"):
        control.LQSystem(np.diag([-1.25, 0.5]), np.ones((2, 1)), np.diag([0, 1]), [[1]], NORMAL)


def test_noise_of_more_steps_begins_as_that_of_fewer():
    system = control.double_integrator(T21)
    few, many = (system.sample(np.random.default_rng(1), steps) for steps in (3, 5))
    assert many.shape == (5, 2)
    np.testing.assert_array_equal(many[:3], few)
