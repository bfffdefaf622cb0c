"""LOTUS's constants, by what they do: rounds that explore, its fit, two ridges, when it looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.low_rank import noise_of_singular_value, parts, threshold

import heavytail as ht
from heavytail.kernels.low_rank import REWARD, SHAPE
from heavytail.policies import lotus

L = SHAPE
SLOT = lotus.S
DELTA = 0.01
NEVER = 1e-9  # an explore_scale: batches explore as little as they may


def arms(d1, d2, count, *, seed=0, bound=1.0):
    """Matrices no longer than ``bound``."""
    X = np.random.default_rng(seed).normal(size=(count, d1, d2))
    return X / np.linalg.norm(X, axis=(1, 2), keepdims=True) * (0.999 * bound)


def rewards(X, *, seed=0, degrees=2.5, noise=1.0):
    """Of a Theta of rank 1, with Student's noise."""
    rng = np.random.default_rng([seed, 1])
    theta = 2.0 * np.outer(rng.normal(size=X.shape[1]), rng.normal(size=X.shape[2]))
    return np.sum(X * theta, axis=(1, 2)) + noise * rng.standard_t(degrees, size=len(X))


def explore(policy, X, y):
    """Teach rounds until the batch has explored; how many there were."""
    for t in range(len(X)):
        policy.update(X[t], y[t])
        if not policy.explores:
            return t + 1
    raise AssertionError("it explores for ever")


def fitted(policy):
    """The last fit: Theta, what all rewards have in common, the weight of the nuclear norm."""
    s = policy._s
    theta = policy._M[policy._rows["estimate"], : policy.d2].copy()
    return theta, float(s[L.OFFSET]), float(s[L.PENALTY])


@pytest.mark.parametrize(
    ("p", "rank", "told"),
    [
        (1.5, 1, {"explore_scale": NEVER}),
        (1.5, 1, {"explore_scale": 0.2}),
        (2.0, 1, {"explore_scale": 0.2, "theta_bound": 0.4}),
        (1.2, 1, {"explore_scale": 0.05, "arm_bound": 0.6}),
        (1.5, 2, {"explore_scale": 0.1, "theta_bound": 2.0, "smallest": 0.8}),
        (1.5, None, {"explore_scale": 0.1, "smallest": 0.5}),
        (1.5, 2, {"explore_scale": 0.1}),
    ],
)
def test_a_batch_explores_as_many_rounds_as_the_docstring_says(p, rank, told):
    """(d1 + d2)^(3/2) r^(1/2) 2^(i/p) / D_r times the scales; 3 (d1 + d2) at least, 2^i at most."""
    d1, d2, scale = 3, 2, 0.7
    tail = ht.MomentBound(order=p, scale=scale)
    policy = ht.LOTUS(d1, d2, tail=tail, rank=rank, **told)
    length, r = told.get("arm_bound", 1.0), rank or 1
    least = told.get("smallest", told.get("theta_bound", 1.0) / math.sqrt(r))
    X = arms(d1, d2, 32 + 64, bound=length)
    y, t, formula = rewards(X), 0, set()
    for i in (5, 6):
        explores = []
        for _ in range(2**i):
            explores.append(policy.explores)
            policy.update(X[t], y[t])
            t += 1
        wanted = told["explore_scale"] * scale * (d1 + d2) ** 1.5 * math.sqrt(r)
        wanted *= 2.0 ** (i / p) / (least * length)
        first = math.ceil(min(max(wanted, 3 * (d1 + d2)), 2**i))
        assert explores == [True] * first + [False] * (2**i - first), i
        formula.add(3 * (d1 + d2) < wanted < 2**i)
    assert True in formula or told["explore_scale"] == NEVER


def test_a_batch_explores_no_more_rounds_than_it_has():
    tail = ht.MomentBound(order=1.5, scale=1.0)
    s = ht.LOTUS(3, 2, tail=tail, explore_scale=1e9)._s
    assert s[SLOT.EXPLORE] == s[SLOT.UNTIL] == 2**5


STAGES = [
    {"rank": 1},
    {"rank": 1, "ridge": 0.2, "theta_bound": 3.0, "smallest": 1.5},
    {"rank": 1, "arm_bound": 2.5, "ridge": 2.0, "radius_scale": 1.0},
    {"rank": 2, "theta_bound": 2.0, "delta": 0.2, "arm_bound": 1.5},
    {"rank": 1, "ridge": 1000.0},  # more than the ridge outside would have
    {"rank": None, "theta_bound": 2.0},
    {"rank": None, "theta_bound": 2.0, "smallest": 0.5},
    {"rank": 3, "theta_bound": 2.0},  # nothing is outside
]


@pytest.mark.parametrize("p", [1.3, 2.0])
@pytest.mark.parametrize("told", STAGES)
def test_a_batch_begins_with_two_ridges_and_the_radius_of_what_is_outside(told, p):
    """lambda_perp = T2 L² / (k log(1 + T2 L²/lambda)); S_perp = S (gamma / D_r)², with gamma =
    sqrt(r d1 d2) nu (d log(2 d/delta) / n)^((p-1)/p) / L, d = d1 + d2, of all n that explored.
    """
    d1, d2, nu = 4, 3, 0.02
    policy = ht.LOTUS(d1, d2, tail=ht.MomentBound(order=p, scale=nu), explore_scale=NEVER, **told)
    ridge, S, delta = told.get("ridge", 1.0), told.get("theta_bound", 1.0), told.get("delta", DELTA)
    length, d, size = told.get("arm_bound", 1.0), d1 + d2, d1 * d2
    X = arms(d1, d2, 96, bound=length, seed=3)
    y, t, outsides = rewards(X, seed=3, noise=0.02), 0, []
    for batch, n in ((5, 21), (6, 42)):
        t += explore(policy, X[t:], y[t:])
        assert t == 2**batch - 32 + 21
        r, left = policy.rank, 2**batch - 21
        k = r * d - r * r
        grown = left * length**2
        outside = max(ridge, grown / (k * math.log(1.0 + grown / ridge)))
        want = np.diag([1.0 / ridge] * k + [1.0 / outside] * (size - k))
        np.testing.assert_allclose(policy.inverse_gram, want, rtol=1e-12)
        least = told.get("smallest", S / math.sqrt(r))
        gamma = math.sqrt(r * size) * nu * (d * math.log(2 * d / delta) / n) ** ((p - 1) / p)
        bound = S * min(1.0, (gamma / length / least) ** 2) if k < size else 0.0
        assert 0.0 < bound < S or k == size
        slope = 4.0 * math.sqrt(k) * (nu + S * length)
        slope *= math.log(2.0 * k * 2**batch / delta) ** ((p - 1) / p)
        root = math.sqrt(ridge * S**2 + (outside - ridge) * bound**2)
        want = told.get("radius_scale", 0.001) * (slope + root)
        assert policy.radius == pytest.approx(want, rel=1e-12)
        # the root alone, which the slope outweighs
        assert policy._s[SLOT.PRIOR_ROOT] == pytest.approx(root, rel=1e-13)
        outsides.append(bound)
        while t < 2 ** (batch + 1) - 32:
            policy.update(X[t], y[t])
            t += 1
    if told["rank"] == 1:  # Wedin's theorem twice: the square of a rate
        assert outsides[0] / outsides[1] == pytest.approx(2.0 ** (2.0 * (p - 1.0) / p))


def test_theta_is_made_anew_when_the_rewards_of_a_batch_have_grown_by_a_quarter():
    tail = ht.MomentBound(order=1.6, scale=1.0)
    policy = ht.LOTUS(2, 2, tail=tail, rank=1, explore_scale=NEVER, threshold_scale=math.inf)
    X = arms(2, 2, 32 + 64 + 128, seed=4)
    y = rewards(X, seed=4)
    for t in range(32 + 64):
        policy.update(X[t], y[t])
    for t in range(96, 96 + 12):
        assert policy.explores
        policy.update(X[t], y[t])
    made = []
    for t in range(108, 223):
        before = policy.theta
        policy.update(X[t], y[t])
        if not np.array_equal(before, policy.theta):
            made.append(t - 107)
    want = [1]
    while True:
        following = next(n for n in range(want[-1], 1000) if 4 * n > 5 * want[-1])
        if following > 115:
            break
        want.append(following)
    assert made == want


@pytest.mark.parametrize(
    ("d1", "d2", "rank", "clip"),
    [(4, 3, 1, 1.0), (4, 3, 1, 0.4), (3, 3, 2, 1.0), (3, 3, 2, 0.5), (4, 3, 1, math.inf)],
)
def test_the_fit_is_the_minimum_at_the_threshold_and_penalty_of_its_residuals(d1, d2, rank, clip):
    """At a minimum the gradient G of Huber's loss has no singular value above the penalty, and
    <G, Theta> is the penalty times the nuclear norm.
    """
    policy = ht.LOTUS(
        d1,
        d2,
        tail=ht.MomentBound(order=1.5, scale=1.0),
        rank=rank,
        explore_scale=NEVER,
        threshold_scale=clip,
    )
    X = arms(d1, d2, 32, seed=5, bound=0.7)
    y = 5.0 + rewards(X, seed=5, degrees=1.5)
    n = explore(policy, X, y)
    theta, offset, penalty = fitted(policy)
    k = rank * (d1 + d2) - rank**2
    assert (n / 2 < k + math.log(n + 1)) == (rank == 2)
    residuals = y[:n] - offset - np.einsum("nij,ij->n", X[:n], theta)
    tau = clip * threshold(residuals, parts(k, n))
    psi = np.clip(residuals, -tau, tau)
    assert (psi != residuals).any() or clip == math.inf
    noise = noise_of_singular_value(X[:n], np.ones(n), psi)
    assert penalty == pytest.approx(0.5 * noise, rel=0.03)
    G = np.einsum("n,nij->ij", psi, X[:n]) / n
    assert np.linalg.norm(G, 2) == pytest.approx(penalty, rel=0.03)
    nuclear = np.linalg.norm(theta, "nuc")
    assert nuclear > 0.1
    assert np.sum(G * theta) == pytest.approx(penalty * nuclear, rel=0.03)
    assert abs(np.mean(psi)) < 0.01 * np.mean(np.abs(psi))


@pytest.mark.parametrize(("share", "rank"), [(0.97, 1), (1.03, 2)])
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_a_singular_value_counts_from_four_penalties_on(share, rank, unit):
    """Arms that are the entries of Theta, each played twice, make the fit one of least squares:
    singular values of the means, each less d1 d2 penalties.
    """
    d, n, noise = 3, 18, unit
    # R² = noise² + (what the penalty took)² / d², of two singular values; penalty = c R
    c = 0.5 * math.sqrt(2 * d / (n * d * d))
    penalty = c * noise / math.sqrt(1.0 - c * c * 2 * d * d)
    u, v = np.array([1.0, -1.0, 0.0]) / math.sqrt(2), np.array([1.0, 1.0, -2.0]) / math.sqrt(6)
    second = (share * 4.0 + 1.0) * d * d * penalty
    theta = 4.0 * second * np.outer(u, u) + second * np.outer(v, v)
    tail = ht.MomentBound(order=2.0, scale=1.0)
    policy = ht.LOTUS(d, d, tail=tail, explore_scale=NEVER, threshold_scale=math.inf)
    for sign in (1.0, -1.0):
        for i in range(d * d):
            assert policy.explores
            # noise of either sign in every entry, and of none in all
            policy.update(np.eye(d * d)[i], theta.ravel()[i] + sign * noise)
    assert not policy.explores
    found, _, weight = fitted(policy)
    assert weight == pytest.approx(penalty, rel=2e-3)
    left = np.linalg.svd(found, compute_uv=False)[:2]
    want = np.array([4.0 * second, second]) - d * d * penalty
    np.testing.assert_allclose(left, want, rtol=5e-3)
    assert policy.rank == rank


def test_where_a_later_batch_says_nothing_it_explores_on():
    """Rewards of 0 in a batch after one that was fitted leave no theta of the last batch behind."""
    policy = ht.LOTUS(3, 2, tail=ht.MomentBound(order=1.5, scale=1.0), explore_scale=NEVER)
    X = arms(3, 2, 32 + 60)
    for x in X[:32]:
        policy.update(x, float(x.sum()))
    assert policy._s[L.FITS] == 1.0
    policy._H[: policy.kept, policy.dim + REWARD] = 0.0  # all that explored says nothing
    for x in X[32:]:
        policy.update(x, 0.0)
    assert policy.explores
    assert policy.rounds == len(X)
