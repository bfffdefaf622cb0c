"""The proved width: its inequalities on grids, its constant in interval arithmetic, and its
recursions against sums and inverses of longer numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive import sharp as naive

import heavytail as ht
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE, OK, OVERFLOW, THETA, numbered
from heavytail.kernels.sharp import (
    MIXING,
    RESOLUTION,
    SLOTS,
    clip_cost,
    learn_bounded,
    learn_symmetric,
    measure,
    step,
    threshold_factor,
)
from heavytail.policies.core.sharp import gram_row
from heavytail.policies.hvt_ucb import AT

ORDERS = (1.02, 1.1, 1.2, 1.5, 1.8, 1.95, 2.0)

# --- the inequalities


def test_delyons_inequality_on_a_grid():
    sizes = np.concatenate([[0.0], np.logspace(-3, 3, 200_001)]).astype(np.longdouble)
    for y in (sizes, -sizes):
        left, right = y - y**2 / 6.0, np.log1p(y + y**2 / 3.0)
        assert np.all(left <= right + 4.0 * np.finfo(np.longdouble).eps * np.abs(y))
    near = np.linspace(-0.1, 0.1, 2001)  # the distance is y^4 / 36 there: no constant is idle
    off = np.log1p(near + near**2 / 3.0) - near + near**2 / 6.0
    assert np.max(np.abs(off - near**4 / 36.0)) < 1e-6


@pytest.mark.parametrize("p", ORDERS)
def test_a_clipped_reward_is_bounded_by_its_moment_and_e_p_cannot_be_smaller(p):
    """|c| (z - l)_+ + c² min(z, l)² / 3 <= (c² l^(2-p) / 3 + e_p l^-p) z^p, at l = 1 by units."""
    e = clip_cost(p)
    z = np.exp(np.linspace(-5.0, 12.0, 1501))[:, None]
    c = np.exp(np.linspace(-12.0, 8.0, 1501))[None]
    left = c * np.maximum(z - 1.0, 0.0) + c**2 * np.minimum(z, 1.0) ** 2 / 3.0
    right = (c**2 / 3.0 + e) * z**p
    assert np.max(left / right) <= 1.0 + 1e-12
    assert np.max(left / ((c**2 / 3.0 + 0.999 * e) * z**p)) > 1.0
    l, z, c = 3.7, 9.1, 0.2  # and at another l
    assert c * (z - l) + c**2 * l**2 / 3.0 <= (c**2 * l ** (2.0 - p) / 3.0 + e * l**-p) * z**p


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_one_round_is_a_supermartingale_for_two_point_laws(p):
    """Of mean 0 and full moment, clipped off the middle by up to D: E exp(...) <= 1 for all c."""
    rng, worst = np.random.default_rng(5), 0.0
    c = np.concatenate([-(s := np.logspace(-4, 3, 400)), s])
    for _ in range(400):
        share, side = 10.0 ** rng.uniform(-5.0, -0.31), rng.choice([-1.0, 1.0])
        far = side * (share + share**p / (1.0 - share) ** (p - 1.0)) ** (-1.0 / p)
        points = np.array([far, -far * share / (1.0 - share)])
        chances = np.array([share, 1.0 - share])
        assert abs(chances @ points) < 1e-12
        assert chances @ np.abs(points) ** p == pytest.approx(1.0)
        D = rng.uniform(0.0, 1.0)
        tau = D * 10.0 ** rng.uniform(0.05, 1.5)
        off = D * rng.choice([-1.0, 1.0, rng.uniform(-1.0, 1.0)])
        xi = np.clip(points, -tau - off, tau - off)
        s2, eps = (tau + D) ** (2.0 - p), clip_cost(p) * (tau - D) ** -p
        y = c[:, None] * xi
        exponent = y - y**2 / 6.0 - c[:, None] ** 2 * s2 / 3.0 - eps
        worst = max(worst, float(np.max(np.exp(exponent) @ chances)))
    assert 0.99 < worst <= 1.0 + 1e-12


# --- the constant


class Interval:
    """Numbers between two floats; every operation rounds outwards by some units in the last place,
    four for logarithms and exponentials.
    """

    def __init__(self, low, high=None):
        self.low, self.high = low, low if high is None else high

    @staticmethod
    def around(values, steps=1):
        low, high = min(values), max(values)
        for _ in range(steps):
            low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
        return Interval(low, high)

    def __add__(self, other):
        return Interval.around([self.low + other.low, self.high + other.high])

    def __sub__(self, other):
        return Interval.around([self.low - other.high, self.high - other.low])

    def __mul__(self, other):
        ends = [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval.around([a * b for a, b in ends])

    def __truediv__(self, other):
        assert other.low > 0.0
        ends = [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval.around([a / b for a, b in ends])

    def through(self, rising):
        return Interval.around([rising(self.low), rising(self.high)], 4)


def slope(s, p):
    """F'(s) of F(s) = 2 log(1 - e^s) + (2p - 2) s - log(1 - e^(ps)), which is concave."""
    one, two, order = Interval(1.0), Interval(2.0), Interval(p)
    u, v = s.through(math.exp), (order * s).through(math.exp)
    return two * (order - one) - two * u / (one - u) + order * v / (one - v)


def value(s, p):
    one, two, order = Interval(1.0), Interval(2.0), Interval(p)
    u, v = s.through(math.exp), (order * s).through(math.exp)
    first = two * (one - u).through(math.log) + two * (order - one) * s
    return first - (one - v).through(math.log)


@pytest.mark.parametrize("p", ORDERS)
def test_e_p_is_above_the_maximum_and_by_less_than_a_hundred_millionth(p):
    """By outward rounding: log e_p' is at most the tangent at s_1 over [s_1, s_2], and at least the
    value at s_1, where F' is surely positive at s_1 and surely negative at s_2.
    """
    high = -1e-3
    low = high - 1.0
    while slope(Interval(low), p).low <= 0.0:
        low *= 2.0
    for _ in range(200):  # halve the bracket as long as rounding lets a side be told
        middle = 0.5 * (low + high)
        found = slope(Interval(middle), p)
        if found.low > 0.0:
            low = middle
        elif found.high < 0.0:
            high = middle
        else:
            break
    s_1, s_2, three_quarters = Interval(low), Interval(high), Interval(0.75)
    assert slope(s_1, p).low > 0.0 > slope(s_2, p).high
    top = three_quarters * (value(s_1, p) + slope(s_1, p) * (s_2 - s_1)).through(math.exp)
    floor = three_quarters * value(s_1, p).through(math.exp)
    assert floor.low <= top.high <= clip_cost(p) <= floor.low * (1.0 + 1e-8)


def test_e_2_is_a_power_of_the_golden_ratio():
    golden = (1.0 + math.sqrt(5.0)) / 2.0
    assert clip_cost(2.0) == pytest.approx(0.75 * golden**-5.0, rel=2e-9)
    assert clip_cost(1.0 + 1e-6) == pytest.approx(0.75, rel=1e-4)


@pytest.mark.parametrize("p", ORDERS)
def test_the_constants_are_the_twins(p):
    assert clip_cost(p) == pytest.approx(naive.clip_cost(p), rel=1e-11)
    assert threshold_factor(p) == pytest.approx(naive.threshold_factor(p), rel=1e-10)


@pytest.mark.parametrize("p", [1.1, 1.5, 1.8])
def test_the_thresholds_factor_makes_the_width_of_a_known_arm_least(p):
    k = np.exp(np.linspace(-5.0, 3.0, 8001))
    best = k[np.argmin(k ** (2.0 - p) * (1.0 + 2.0 * clip_cost(p) * k**-p))]
    assert threshold_factor(p) == pytest.approx(best, rel=2e-3)
    assert threshold_factor(p) < threshold_factor(2.0) == 4.0


# --- the recursions


@jit
def drive(s, M, X, rewards, nus, seen):
    """Learn every row; what was used of each is left in ``seen``."""
    for t in range(X.shape[0]):
        measured = measure(s, M, AT, gram_row(M), X[t])
        residual = rewards[t] - measured.expected
        if s[AT + SLOTS.MOMENT] > 0.0:
            code = learn_bounded(s, M, AT, gram_row(M), measured, residual, nus[t])
        else:
            code = learn_symmetric(s, M, AT, gram_row(M), measured, residual, nus[t])
        if code != 0:
            return t
        seen[t, 0] = s[AT + SLOTS.LAST_SIGMA]
        seen[t, 1] = s[AT + SLOTS.LAST_TAU]
        seen[t, 2] = measured.reach
        seen[t, 3] = residual
    return -1


def driven(dim, rounds, p, nu=1.0, S=1.0, X=None, number=float):
    """A policy driven over random rows, V and A as sums of what it used, the sum of eps, lambda."""
    rng = np.random.default_rng(0)
    tail = "symmetric" if p is None else ht.MomentBound(p, nu)
    policy = ht.HvtUCB(dim, tail=tail, theta_bound=S, radius="sharp")
    if X is None:
        X = rng.standard_normal((rounds, dim))
        X *= rng.uniform(0.2, 1.0, (rounds, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    truth = np.full(dim, 0.5 * S / math.sqrt(dim))
    nus = nu * 10.0 ** rng.uniform(-0.5, 0.5, rounds)
    rewards = X @ truth + 0.3 * nus * rng.standard_t(1.7, rounds)
    seen = np.empty((rounds, 4))
    s, M = policy.packed
    assert drive(s, M, X, rewards, nus, seen) == -1
    sigma, tau, reach, residual = seen.T.astype(number)
    D = reach / sigma
    psi = np.clip(residual / sigma, -tau, tau)
    if p is None:
        g, eps = (np.abs(psi) + D) ** 2, np.zeros(rounds)
    else:
        share = (nus / sigma) ** p
        g = ((np.abs(psi) + D) ** 2 + 2.0 * (tau + D) ** (2.0 - p) * share) / 3.0
        eps = clip_cost(p) * (tau - D) ** -p * share
    ridge = naive.HvtSharp(dim, order=p, scale=nu, theta_bound=S).ridge
    rows = X / sigma[:, None]
    V = ridge * np.eye(dim, dtype=number) + rows.T @ rows
    A = MIXING * ridge * np.eye(dim, dtype=number) + (g[:, None] * rows).T @ rows
    return policy, V, A, float(np.sum(eps)), ridge


def relative(mine, yours):
    return float(np.max(np.abs(mine - yours)) / np.max(np.abs(yours)))


def blocks(policy):
    """Q without what was added, V^-1 and A^-1."""
    s, M = policy.packed
    d, first = M.shape[1], gram_row(M)
    Q = M[INVERSE : INVERSE + d] - s[AT + SLOTS.FLOOR] * np.eye(d)
    return Q, M[first : first + d], M[first + d : first + 2 * d]


def compare(dim, rounds, p, rtol):
    policy, V, A, spent, ridge = driven(dim, rounds, p)
    Vi = np.linalg.inv(V)
    Q, gram, spread = blocks(policy)
    for block in (Q, gram, spread):
        np.testing.assert_array_equal(block, block.T)
    assert relative(gram, Vi) <= rtol
    assert relative(spread, np.linalg.inv(A)) <= rtol
    assert relative(Q, Vi @ A @ Vi) <= rtol
    s = policy.packed[0]
    log_det = np.linalg.slogdet(A / (MIXING * ridge))[1]
    assert log_det * (1.0 - 1e-10) <= s[AT + SLOTS.SPREAD] <= log_det * (1.0 + 1e-7)
    assert s[AT + SLOTS.SPENT] == pytest.approx(spent, rel=1e-10, abs=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("p", [2.0, 1.5, 1.2, None])
@pytest.mark.parametrize("dim", [2, 5, 16])
def test_after_a_hundred_thousand_rounds_the_matrices_are_those_of_their_sums(dim, p):
    compare(dim, 100_000, p, 1e-8)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("p", [2.0, 1.5, 1.2])
@pytest.mark.parametrize("dim", [2, 16])
def test_after_a_million_rounds_the_matrices_are_those_of_their_sums(dim, p):
    compare(dim, 1_000_000, p, 1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("nu", [1e-3, 1e-6])
@pytest.mark.parametrize("S", [1.0, 30.0])
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_where_there_is_hardly_any_noise_no_width_is_below_the_true_one(dim, nu, S):
    """Against long double, for the arms played and for all others, one direction played most."""
    rng, rounds = np.random.default_rng(3), 20_000
    X = rng.standard_normal((rounds, dim))
    X[:, 1:] *= np.where(np.arange(rounds) % 97 == 0, 1.0, 0.0)[:, None]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    policy, V, A, _, ridge = driven(dim, rounds, 2.0, nu, S, X, np.longdouble)
    Vi = inverse_long(V)
    Q = Vi @ A @ Vi
    look = rng.standard_normal((2000, dim))
    look = np.concatenate([X[:200], look / np.linalg.norm(look, axis=1, keepdims=True)])
    true = np.sqrt(np.sum((look @ Q) * look, axis=1)).astype(float)
    widths = np.sqrt(np.sum(look @ policy.inverse_gram * look, axis=1))
    assert np.all(widths >= true)
    # what is added for the digits is rho |x|², and no more
    rho = RESOLUTION * MIXING / ridge
    assert np.all(widths**2 <= (true**2 + rho) * (1.0 + 1e-3))


def inverse_long(V):
    """The inverse in long double: that of doubles, mended by Newton's steps."""
    P = np.linalg.inv(V.astype(float)).astype(np.longdouble)
    for _ in range(4):
        P = P @ (2.0 * np.eye(len(V), dtype=np.longdouble) - V @ P)
    return P


@pytest.mark.compiled
def test_theta_obeys_the_exact_recursion_that_the_proof_needs():
    """V (theta - truth) = -lambda truth + sum x~ xi, whatever was clipped: never projected."""
    dim, rounds, S = 3, 5_000, 1.0
    truth = np.array([0.5, -0.6, 0.2])
    rng = np.random.default_rng(8)
    X = rng.standard_normal((rounds, dim)) / 3.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    policy = ht.HvtUCB(dim, tail=ht.MomentBound(1.5, 1.0), theta_bound=S, radius="sharp")
    s, M = policy.packed
    seen, rewards = np.empty((rounds, 4)), X @ truth + rng.standard_t(1.6, rounds)
    assert drive(s, M, X, rewards, np.ones(rounds), seen) == -1
    sigma, tau, _, residual = seen.T
    psi = np.clip(residual / sigma, -tau, tau)
    expected = rewards - residual
    rows = X / sigma[:, None]
    V = 0.3 * dim / S**2 * np.eye(dim) + rows.T @ rows
    np.testing.assert_allclose(V @ M[THETA], rows.T @ (expected / sigma + psi), rtol=1e-9)


def test_the_slots_of_the_block_are_numbered_from_nought():
    assert tuple(numbered(type(SLOTS))) == tuple(range(len(SLOTS)))


@pytest.mark.parametrize(
    ("p", "reward", "nu", "is_refused"),
    [
        (1.5, 1e300, 1.0, False),  # clipped
        (1.5, 1.0, 1e80, True),  # the square of sigma
        (None, 1.0, 1e80, True),
        (None, 1e76, 1.0, True),  # that of the residual
        (None, -1e160, 1.0, True),
        (None, 1e308, 1.0, True),
        (None, 1e60, 1.0, False),
    ],
)
def test_what_leaves_the_range_is_refused_and_nothing_has_changed(p, reward, nu, is_refused):
    tail = "symmetric" if p is None else ht.MomentBound(p, 1.0)
    policy = ht.HvtUCB(2, tail=tail, theta_bound=1.0, radius="sharp")
    policy.update([0.6, 0.8], 1.0)
    s, M = (part.copy() for part in policy.packed)
    measured = measure(s, M, AT, gram_row(M), np.array([1.0, 0.0]))
    before = s.copy(), M.copy()
    learn = learn_bounded if p else learn_symmetric
    far = step(s, M, AT, gram_row(M), measured, 1e160, 1.0, math.inf, 1.0, 0.0)  # theta itself
    assert far == OVERFLOW
    code = learn(s, M, AT, gram_row(M), measured, reward, nu)
    assert code == (OVERFLOW if is_refused else OK)
    if is_refused:
        np.testing.assert_array_equal(s, before[0])
        np.testing.assert_array_equal(M, before[1])
    assert np.isfinite(M).all()
    assert np.isfinite(s[AT : AT + SLOTS.LAST_TAU]).all()
