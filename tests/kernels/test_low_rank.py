"""Coordinates inside and outside a subspace, and the fits that find it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.kernels import fixed_rank, low_rank, nuclear_norm
from heavytail.kernels.layout import INVERSE
from heavytail.kernels.low_rank import SHAPE, WIDTH
from heavytail.kernels.nuclear_norm import PASSES
from heavytail.kernels.self_tuning import solve_rows

S = SHAPE


class Case:
    """A state, kept rows and the Theta that made their rewards."""

    def __init__(self, d1, d2, rank, n, *, pairs=True, noise=None, seed=0, offset=0.0):
        rng = np.random.default_rng(seed)
        k = rank * (d1 + d2) - rank * rank
        size = max(k + 1, d1 + d2)
        spare = INVERSE + 2 * size + 1 + 2 * d1 + d2 + low_rank.rows(d1, d2)
        self.M = np.zeros((spare + k + 2, size))
        self.s = np.zeros(20)
        self.s[[S.D1, S.D2, S.RANK, S.PAIRS, S.KEPT]] = d1, d2, rank, pairs, n
        self.left, self.right = (np.linalg.qr(rng.normal(size=(d, rank)))[0] for d in (d1, d2))
        self.theta = math.sqrt(d1 * d2 / rank) * self.left @ self.right.T
        u, v = (self.unit(rng, (n, d)) for d in (d1, d2))
        self.X = u[:, :, None] * v[:, None, :]
        self.y = np.einsum("nij,ij->n", self.X, self.theta) + offset
        self.nu = np.ones(n)
        if noise is not None:
            self.y = self.y + noise(rng, n)
        features = np.hstack([u, v]) if pairs else self.X.reshape(n, -1)
        self.H = np.hstack([features, self.y[:, None], np.ones((n, 1)), np.zeros((n, 1))])
        self.shape = d1, d2

    @staticmethod
    def unit(rng, shape):
        x = rng.normal(size=shape)
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    @property
    def estimate(self):
        at = low_rank.estimate_row(self.s, self.M)
        return self.M[at : at + self.shape[0], : self.shape[1]]

    @property
    def basis(self):
        d1, d2 = self.shape
        at = low_rank.new_left_row(self.s, self.M)
        return self.M[at : at + d1, :d1], self.M[at + d1 : at + d1 + d2, :d2]

    def missed(self):
        """The sines of the angles between the subspaces found and the true ones, at most."""
        rank = self.left.shape[1]
        U, V = self.basis
        return max(np.linalg.norm(U[rank:] @ self.left), np.linalg.norm(V[rank:] @ self.right))

    def fit(self, tau_scale=1.0, passes=PASSES):
        assert nuclear_norm.fit(self.s, self.M, self.H, len(self.H), tau_scale, passes)

    def polish(self, tau_scale=1.0):
        fixed_rank.polish(self.s, self.M, self.H, len(self.H), tau_scale)


def normal(rng, n):
    return rng.normal(size=n)


def student(rng, n):
    return rng.standard_t(1.7, size=n)


def whole(d1, d2, rank, pairs, seed=0):
    """A state of d1 d2 columns with a random basis in place."""
    rng = np.random.default_rng(seed)
    size = max(d1 * d2, d1 + d2)
    M, s = np.zeros((INVERSE + 2 * size + 1 + d1 + d2 + 1, size)), np.zeros(20)
    s[[S.D1, S.D2, S.RANK, S.PAIRS]] = d1, d2, rank, pairs
    at = low_rank.left_row(M)
    M[at : at + d1, :d1] = np.linalg.qr(rng.normal(size=(d1, d1)))[0]
    M[at + d1 : at + d1 + d2, :d2] = np.linalg.qr(rng.normal(size=(d2, d2)))[0]
    return s, M


def coordinates(s, M, arms, outside=True):
    found = []
    for a in range(len(arms)):
        M[-1] = 0.0
        low_rank.turn(s, M, arms, a, len(M) - 1, outside)
        found.append(M[-1].copy())
    return np.array(found)


@pytest.mark.parametrize(
    ("d1", "d2", "rank"), [(3, 4, 1), (4, 3, 2), (5, 5, 5), (1, 3, 1), (3, 1, 1)]
)
def test_the_rotation_keeps_every_inner_product(d1, d2, rank):
    rng = np.random.default_rng(rank)
    X, Y = rng.normal(size=(2, 7, d1 * d2))
    s, M = whole(d1, d2, rank, pairs=0.0)
    size = d1 * d2
    turned = coordinates(s, M, X)[:, :size] @ coordinates(s, M, Y)[:, :size].T
    np.testing.assert_allclose(turned, X @ Y.T, atol=1e-12)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(("d1", "d2", "rank"), [(3, 4, 1), (4, 3, 2), (4, 4, 4)])
def test_a_pair_has_the_coordinates_of_its_matrix(d1, d2, rank, outside):
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(5, d1)), rng.normal(size=(5, d2))
    s, M = whole(d1, d2, rank, pairs=0.0)
    size = d1 * d2 if outside else low_rank.inside(s)
    matrices = np.ascontiguousarray((u[:, :, None] * v[:, None, :]).reshape(5, -1))
    want = coordinates(s, M, matrices, outside)[:, :size]
    s[S.PAIRS] = 1.0
    np.testing.assert_allclose(
        coordinates(s, M, np.hstack([u, v]), outside)[:, :size], want, atol=1e-13
    )


def test_what_lies_inside_is_wholly_there_and_what_lies_outside_is_not():
    s, M = whole(4, 5, 2, pairs=0.0)
    at = low_rank.left_row(M)
    U, V = M[at : at + 4, :4], M[at + 4 : at + 9, :5]
    rng = np.random.default_rng(4)
    within = (U[:2].T @ rng.normal(size=(2, 5)) + rng.normal(size=(4, 2)) @ V[:2]).reshape(1, -1)
    beyond = (U[2:].T @ rng.normal(size=(2, 3)) @ V[2:]).reshape(1, -1)
    k = low_rank.inside(s)
    assert k == 2 * 9 - 4
    found = coordinates(s, M, within, False)[0, :k]
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(within), rel=1e-13)
    assert np.abs(coordinates(s, M, beyond, False)[0, :k]).max() < 1e-14


@pytest.mark.parametrize("parts", [1.0, 7.5, 40.0])
def test_the_threshold_solves_its_equation(parts):
    r = np.random.default_rng(5).standard_t(1.5, size=(200, 1))
    tau = solve_rows(r, 200, 0, parts)
    assert np.minimum(r**2, tau**2).sum() == pytest.approx(parts * tau**2, rel=1e-3)
    assert solve_rows(4.0 * r, 200, 0, parts) == pytest.approx(4.0 * tau, rel=1e-12)
    assert solve_rows(0.0 * r, 200, 0, parts) == 0.0


@pytest.mark.parametrize("pairs", [0.0, 1.0])
def test_the_curvature_is_the_largest_eigenvalue(pairs):
    case = Case(4, 3, 1, 60, pairs=pairs)
    case.H[::2, -2] = 2.0
    rows = case.X.reshape(60, -1) / case.H[:, -2:-1]
    at = low_rank.room_row(case.s, case.M)
    found = nuclear_norm.spectral(case.s, case.M, case.H, 60, at, at + 4)
    largest = np.linalg.eigvalsh(rows.T @ rows / 60)[-1]
    assert 0.95 * largest < found <= largest * (1.0 + 1e-12)


@pytest.mark.parametrize("pairs", [0.0, 1.0])
def test_a_fit_is_where_the_penalty_holds_the_gradient(pairs):
    """At the minimum the gradient of the loss is the penalty times a subgradient of the norm."""
    case = Case(6, 5, 2, 400, pairs=pairs, noise=student, offset=3.0)
    case.H[::3, -2] = 2.0
    case.fit(passes=40)
    theta, nu = case.estimate.copy(), case.H[:, -2]
    r = (case.y - np.einsum("nij,ij->n", case.X, theta) - case.s[S.OFFSET]) / nu
    parts = low_rank.inside(case.s) + math.log(401.0)
    tau = solve_rows(r[:, None].copy(), 400, 0, parts)
    psi = np.clip(r, -tau, tau) / nu
    gradient = np.einsum("n,nij->ij", psi, case.X) / 400
    penalty = case.s[S.PENALTY]
    assert np.linalg.norm(gradient, 2) == pytest.approx(penalty, rel=0.02)
    nuclear = np.linalg.svd(theta)[1].sum()
    assert np.sum(gradient * theta) == pytest.approx(penalty * nuclear, rel=0.02)
    assert abs(psi.mean()) < 0.01 * penalty * math.sqrt(30)
    spread = math.sqrt(np.mean(np.clip(r, -tau, tau) ** 2))
    length = np.mean(np.sum(case.X**2, axis=(1, 2)) / nu**2)
    assert penalty == pytest.approx(0.5 * spread * math.sqrt(length * 11 / (400 * 30)), rel=0.02)


@pytest.mark.parametrize(("d1", "d2", "rank"), [(10, 10, 2), (30, 30, 1), (8, 5, 2), (4, 9, 3)])
def test_without_noise_the_subspace_is_exact(d1, d2, rank):
    case = Case(d1, d2, rank, 3 * rank * (d1 + d2), offset=-2.0)
    case.fit(0.5, 3)
    case.polish(0.5)
    assert case.missed() < 1e-6
    np.testing.assert_allclose(case.estimate, case.theta, atol=1e-6)
    assert case.s[S.OFFSET] == pytest.approx(-2.0, abs=1e-6)


@pytest.mark.parametrize("pairs", [0.0, 1.0])
def test_a_polished_fit_is_where_huber_is_least_among_matrices_of_its_rank(pairs):
    """The gradient of the loss has no part inside: neither in U_r' G nor in G V_r."""
    case = Case(6, 5, 2, 500, pairs=pairs, noise=student)
    case.fit(passes=3)
    case.polish()
    theta = case.estimate
    r = case.y - np.einsum("nij,ij->n", case.X, theta) - case.s[S.OFFSET]
    tau = solve_rows(r[:, None].copy(), 500, 0, low_rank.inside(case.s) + math.log(501.0))
    psi = np.clip(r, -tau, tau)
    gradient = np.einsum("n,nij->ij", psi, case.X) / 500
    U, V = case.basis
    inside = max(np.abs(U[:2] @ gradient).max(), np.abs(gradient @ V[:2].T).max())
    assert inside < 2e-3 * np.abs(gradient).max()
    assert abs(psi.mean()) < 1e-4
    assert np.linalg.svd(theta)[1][2] < 1e-12


@pytest.mark.parametrize("noise", [normal, student])
def test_noise_of_either_kind_leaves_the_subspace_near(noise):
    case = Case(8, 8, 1, 1500, noise=noise, seed=2)
    case.fit(0.5, 3)
    case.polish(0.5)
    assert case.missed() < 0.25


def test_a_fit_does_not_hang_on_the_unit_of_rewards_or_of_arms():
    plain, scaled = Case(5, 4, 1, 200, noise=student), Case(5, 4, 1, 200, noise=student)
    scaled.H[:, 9] *= 2.0**40
    scaled.H[:, :5] *= 2.0**-20
    for case in (plain, scaled):
        case.fit(0.5)
        case.polish(0.5)
    assert np.array_equal(scaled.estimate, 2.0**60 * plain.estimate)
    assert np.array_equal(scaled.basis[0], plain.basis[0])


@pytest.mark.parametrize("rewards", [0.0, 1.0])
def test_rows_that_say_nothing_are_no_fit(rewards):
    case = Case(4, 3, 1, 30)
    case.H[:, 7] = rewards
    if rewards == 0.0:
        assert not nuclear_norm.fit(case.s, case.M, case.H, 30, 1.0, PASSES)
    else:  # all alike: there is an offset and no Theta
        case.fit()
        assert np.abs(case.estimate).max() < 1e-6
        case.polish()
        assert case.s[S.OFFSET] == pytest.approx(1.0, abs=1e-9)
    case.H[:, :7] = 0.0
    assert not nuclear_norm.fit(case.s, case.M, case.H, 30, 1.0, PASSES)
    assert WIDTH == 3
