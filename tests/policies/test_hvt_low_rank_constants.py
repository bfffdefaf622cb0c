"""HvtLowRank's constants, by what they do: rows that are kept, its fit, what begins and goes on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.common import uniform
from tests.naive.low_rank import noise_of_singular_value, parts, threshold

import heavytail as ht
from heavytail.kernels.layout import CLIPPED, INVERSE, LOG_DET, THETA
from heavytail.kernels.low_rank import NU, REWARD, SHAPE
from heavytail.policies import hvt_low_rank
from heavytail.policies.core import practice

L = SHAPE
P, SLOT = hvt_low_rank.P, hvt_low_rank.S


def rounds(d1, d2, count, *, seed=0, rank=1, degrees=1.7, spread=0.0):
    """Arms, rewards with Student's noise, and scales of the noise that differ by e^spread."""
    rng = np.random.default_rng(seed)
    theta = 3.0 * rng.normal(size=(d1, rank)) @ rng.normal(size=(rank, d2))
    X = rng.normal(size=(count, d1, d2))
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True) * 1.001
    nu = np.exp(spread * rng.uniform(-1.0, 1.0, size=count))
    y = 2.0 + np.sum(X * theta, axis=(1, 2)) + nu * rng.standard_t(degrees, size=count)
    return X, y, nu


def teach(policy, X, y, nu):
    for x, reward, scale in zip(X, y, nu, strict=True):
        policy.update(x, reward, scale=scale)
    return policy


def kept_rows(policy):
    """X, rewards and scales of the rows that are kept."""
    H, dim = policy._H[: policy.kept], policy.d1 * policy.d2
    return H[:, :dim].reshape(-1, policy.d1, policy.d2), H[:, dim + REWARD], H[:, dim + NU]


def fitted(policy):
    """The last fit of Theta, and what all rewards have in common."""
    theta = policy._M[policy._rows["estimate"], : policy.d2].copy()
    return theta, float(policy._s[L.OFFSET])


def clipped(policy, rows, k):
    """The residuals over their scales, at a quarter of the threshold that finds a mean."""
    X, y, nu = rows
    theta, offset = fitted(policy)
    z = (y - offset - np.einsum("nij,ij->n", X, theta)) / nu
    tau = 0.25 * threshold(z, parts(k, len(y)))
    assert (np.abs(z) > tau).sum() > 2
    return np.clip(z, -tau, tau)


@pytest.mark.parametrize("seed", [0, 7])
def test_a_row_is_kept_with_the_share_that_keeps_all_alike(seed):
    """Round t (from 1 on) takes a place that is drawn of t; one beyond the last is none."""
    policy = ht.HvtLowRank(2, 2, explore=5, kept=12, seed=seed)
    X, y, _ = rounds(2, 2, 150)
    want = []
    for t in range(150):
        policy.update(X[t], y[t])
        place = t if t < 12 else math.floor(uniform(seed, t, 1) * (t + 1))
        want[place : place + 1] = [t] if place < 12 else want[place : place + 1]
        found = kept_rows(policy)
        np.testing.assert_array_equal(found[0], X[want])
        np.testing.assert_array_equal(found[1], y[want])
    assert policy.kept == len(set(want)) == 12
    assert np.mean(want) > 40.0


def test_every_round_is_as_likely_to_be_kept_as_any_other():
    counts, kept, seen, seeds = np.zeros(60), 10, 60, 60
    x = np.full(4, 0.4)
    for seed in range(seeds):
        policy = ht.HvtLowRank(2, 2, explore=1000, kept=kept, seed=seed)
        for t in range(seen):
            policy.update(x, float(t))
        counts[kept_rows(policy)[1].astype(int)] += 1.0
    shares = counts.reshape(6, 10).mean(axis=1) / seeds  # of ten rounds together
    np.testing.assert_allclose(shares, kept / seen, atol=0.05)


@pytest.mark.parametrize(
    ("d1", "d2", "rank", "count", "spread"),
    [
        (4, 3, 1, 21, 1.0),  # all is explored, and half of the rows are fewer than the parts
        (5, 4, 1, 41, 1.0),
        (4, 4, 2, 81, 1.0),
        (3, 3, 2, 20, 0.0),
        (4, 3, 1, 72, 2.0),  # the fourth fit
        (5, 5, 1, 68, 0.5),
    ],
)
def test_the_fit_is_the_minimum_of_hubers_loss_among_matrices_of_its_rank(
    d1, d2, rank, count, spread
):
    """Without a penalty: sum psi(z) X / nu has nothing along the matrices that leave the rank."""
    explore = {"explore": 20} if count == 20 else {}
    stated = 2 if count == 68 else rank  # one more is looked at, and not taken
    policy = ht.HvtLowRank(d1, d2, rank=stated, **explore)
    teach(policy, *rounds(d1, d2, count, rank=rank, spread=spread, seed=1))
    assert policy._s[L.FITS] > 0.0
    assert policy._s[SLOT.NEXT] == math.ceil(1.5 * count)
    assert policy.rank == rank
    X, _, nu = rows = kept_rows(policy)
    psi = clipped(policy, rows, rank * (d1 + d2) - rank**2)
    theta, _ = fitted(policy)
    U, values, Vt = np.linalg.svd(theta)
    assert values[rank:].max() < 1e-9 * values[0]
    assert values[rank - 1] > 0.1
    terms = (psi / nu)[:, None, None] * X
    G = terms.sum(axis=0)
    outside = np.eye(d1) - U[:, :rank] @ U[:, :rank].T, np.eye(d2) - Vt[:rank].T @ Vt[:rank]
    along = G - outside[0] @ G @ outside[1]
    size = math.sqrt(np.sum(terms**2))  # of such a sum, were the signs of its terms random
    assert np.linalg.norm(along) < 1e-3 * size
    assert abs(np.sum(psi / nu)) < 1e-3 * math.sqrt(np.sum((psi / nu) ** 2))
    assert np.linalg.norm(G) > 0.02 * size or (d1 - rank) * (d2 - rank) == 1


@pytest.mark.parametrize("spread", [0.0, 1.5])
def test_of_full_rank_the_fit_is_the_penalised_one(spread):
    """Its penalty is half of what noise makes of a singular value, rows weighed by their scales."""
    policy = ht.HvtLowRank(3, 2, rank=2, explore=60)
    teach(policy, *rounds(3, 2, 60, rank=2, spread=spread, seed=2))
    assert policy._s[L.FITS] == 1.0
    X, _, nu = rows = kept_rows(policy)
    psi = clipped(policy, rows, 6)
    penalty = float(policy._s[L.PENALTY])
    assert penalty == pytest.approx(0.5 * noise_of_singular_value(X, nu, psi), rel=0.05)
    G = np.einsum("n,nij->ij", psi / nu, X) / len(psi)
    assert np.linalg.norm(G, 2) == pytest.approx(penalty, rel=0.05)


@pytest.mark.parametrize(
    ("told", "silent", "want"),
    [
        ({}, 0, [15, 23, 35, 53, 80]),
        ({}, 15, [30, 45, 68, 102]),  # what says nothing is looked at again after as many rounds
        ({}, 31, [45, 68, 102]),
        ({"explore": 20}, 20, [35, 53, 80]),
        ({"explore": 20}, 40, [50, 75, 113]),
        ({"rank": 2, "explore": 7}, 9, [22, 33, 50]),
    ],
)
def test_fits_come_at_shares_until_one_succeeds_and_then_by_halves(told, silent, want):
    """A share is 3 (d1 + d2) rounds."""
    policy = ht.HvtLowRank(3, 2, **told)
    X, y, _ = rounds(3, 2, 205, rank=2, seed=3)
    y[:silent] = 0.0
    found = []
    for t in range(want[-1] + 1):
        before = policy._s[L.FITS]
        assert policy.explores == (not found)
        policy.update(X[t], y[t])
        if policy._s[L.FITS] > before:
            found.append(t + 1)
    assert found == want


@pytest.mark.parametrize("explore", [60, 20])
def test_what_it_begins_with_is_the_rows_kept_and_not_the_rounds_explored(explore):
    """Of full rank it then is HvtUCB, taught the rows kept in their order."""
    policy, plain = ht.HvtLowRank(3, 2, rank=2, explore=explore, kept=20), ht.HvtUCB(6)
    X, y, nu = rounds(3, 2, 400, rank=2, seed=4, spread=0.5)
    teach(policy, X[:explore], y[:explore], nu[:explore])
    assert (policy.rounds, policy.kept) == (explore, 20)
    assert not policy.explores
    kept = kept_rows(policy)
    assert (explore > 20) == (not np.array_equal(kept[1], y[:20]))
    teach(plain, kept[0].reshape(20, 6), *kept[1:])
    for t in range(explore, explore + 40):
        np.testing.assert_allclose(policy.theta, plain.theta, rtol=1e-7, atol=1e-9)
        assert policy.radius == pytest.approx(plain.radius, rel=1e-9)
        policy.update(X[t], y[t], scale=nu[t])
        plain.update(X[t].ravel(), y[t], scale=nu[t])
    assert policy.rounds - policy._s[P.BEGAN] == plain.rounds - plain._s[P.BEGAN]
    assert policy.rounds == explore + 40


def coordinates(policy):
    """Those inside and the constant, as rows over vec(X) and one number more."""
    Z = np.zeros((policy.d1 * policy.d2 + 1, len(policy.inverse_gram)))
    Z[:-1, :-1] = policy.turned(np.eye(policy.d1 * policy.d2))[:, :-1]
    Z[-1, -1] = 1.0
    return Z.T


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_fit_carries_over_what_lies_in_both_subspaces_above_the_first_ridge(scale):
    """V - V_0 and V theta as they were, in the new coordinates; V_0 = lambda / (unit nu)²."""
    X, y, nu = rounds(4, 3, 42, seed=5, spread=0.3, degrees=2.5)
    y, nu = scale * y, scale * nu
    policy = teach(ht.HvtLowRank(4, 3, rank=1, explore=25, kept=25), X[:37], y[:37], nu[:37])
    before = policy.clone()
    before._s[SLOT.NEXT] = 1000.0
    for one in (policy, before):
        one.update(X[37], y[37], scale=nu[37])
    s = policy._s
    assert (s[L.FITS], before._s[L.FITS]) == (2.0, 1.0)
    C = coordinates(policy) @ coordinates(before).T
    assert np.linalg.svd(C, compute_uv=False)[-1] < 0.99  # the subspaces are not the same
    # lambda is a hundredth of d L²; the unit, ten times the median of the first five sizes
    unit = 10.0 * np.median(np.abs(y[:5]) / nu[:5]) * np.mean(nu[:5])
    first = 0.01 * 6 / unit**2 * np.eye(7)
    V = np.linalg.inv(before.inverse_gram)
    want = first + C @ (V - first) @ C.T
    np.testing.assert_allclose(
        policy.inverse_gram, np.linalg.inv(want), rtol=1e-6, atol=1e-9 * unit**2
    )
    theta = np.linalg.solve(want, C @ V @ before._M[THETA])
    np.testing.assert_allclose(policy._M[THETA], theta, rtol=1e-6, atol=1e-9 * scale)
    log_det = np.linalg.slogdet(want)[1] - 7 * math.log(0.01 * 6)
    assert s[LOG_DET] == pytest.approx(log_det, rel=1e-8)
    assert np.linalg.eigvalsh(policy.inverse_gram)[-1] <= (1.0 + 1e-9) / first[0, 0]


def test_intervals_count_the_rows_it_began_with_even_before_the_unit_is_known():
    """Fewer than five rewards that tell: HvtUCB, taught the rows kept, is as unsure."""
    policy, plain = ht.HvtLowRank(3, 2, rank=2, explore=60, kept=20), ht.HvtUCB(6)
    X, y, nu = rounds(3, 2, 60, rank=2, seed=6)
    teach(policy, X, np.where(np.arange(60) % 15 == 0, y, 0.0), nu)
    kept = kept_rows(policy)
    assert 0 < np.count_nonzero(kept[1]) < 5
    assert policy._s[P.UNIT] == 0.0
    assert not policy.explores
    teach(plain, kept[0].reshape(20, 6), *kept[1:])
    mine, yours = policy.predict(X), plain.predict(X.reshape(60, 6))
    np.testing.assert_allclose(mine.high, yours.high, rtol=1e-9)
    np.testing.assert_allclose(mine.low, yours.low, rtol=1e-9)


@pytest.mark.parametrize(("rank", "seed"), [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4), (3, 5)])
@pytest.mark.parametrize("stated", [None, 3])
def test_it_finds_the_rank_that_the_rewards_have(rank, seed, stated):
    policy = ht.HvtLowRank(6, 5, rank=stated, explore=300)
    teach(policy, *rounds(6, 5, 300, rank=rank, seed=seed, degrees=2.5))
    assert policy.rank == rank
    assert policy.finds_rank
    looked = "none above was looked for" in " ".join(policy.diagnostics().advice)
    assert looked == (rank == 3 and stated is None)


def test_one_rank_more_is_taken_where_it_gains_more_than_noise_does():
    """Normal noise, whose loss is the sum of squares: an independent search for the best of rank 2,
    on signals of a second direction from none to a strong one.
    """
    rng = np.random.default_rng(13)
    n, d1, d2 = 240, 5, 4
    X = rng.normal(size=(n, d1, d2))
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True) * 1.001
    noise, seen = rng.normal(size=n), []
    for size in np.linspace(0.0, 2.0, 11):
        theta = np.diag([9.0, size, 0.0, 0.0, 0.0])[:, :d2]
        y = np.einsum("nij,ij->n", X, theta) + noise
        policy = ht.HvtLowRank(d1, d2, rank=2, explore=n)
        teach(policy, X, y, np.ones(n))
        squares = [best_of_rank(X, y, rank, theta) for rank in (1, 2)]
        k = 2 * (d1 + d2) - 4
        gain = (squares[0] - squares[1]) / (squares[1] / n) * (1.0 - k / n)
        share = gain / (math.sqrt(d1 - 1) + math.sqrt(d2 - 1)) ** 2
        if abs(share - 1.2) > 0.06:
            assert policy.rank == 1 + (share > 1.2), share
        seen.append(share)
    assert min(seen) < 0.9
    assert any(1.26 < share < 1.7 for share in seen)


def best_of_rank(X, y, rank, start):
    """The least sum of squares about b + <X, LR'>, by turns in L and in R."""
    n = len(y)
    U, values, Vt = np.linalg.svd(start + 0.05)
    L, R = U[:, :rank] * values[:rank], Vt[:rank].T
    for _ in range(60):
        for _ in range(2):
            Z = np.column_stack([np.einsum("nij,jr->nir", X, R).reshape(n, -1), np.ones(n)])
            w = np.linalg.lstsq(Z, y, rcond=None)[0]
            L, left = w[:-1].reshape(-1, rank), y - Z @ w
            X, L, R = X.transpose(0, 2, 1), R, L
    return float(left @ left)


def test_a_rank_too_many_costs_little():
    world = ht.LowRankBandit(7, 6, 1, 10, ht.noise.StudentT(2.5))
    told = {"rounds": 1000, "trials": 4, "seed": 4, "progress": False}
    regret = [
        np.mean(ht.simulate([policy], world, **told)["Hvt-LowRank"].final)
        for policy in (ht.HvtLowRank(7, 6, rank=r, form="pairs") for r in (1, 2))
    ]
    assert regret[1] < 1.5 * regret[0]


def test_while_all_rounds_are_kept_a_fit_learns_them_once_more():
    """HvtUCB, given the unit and the scale that are known by then, and the rounds in the new
    coordinates.
    """
    X, y, nu = rounds(4, 3, 243, seed=7, spread=0.3)
    y[[9, 15, 28]] *= 100.0
    policy = teach(ht.HvtLowRank(4, 3, rank=1), X[:242], y[:242], nu[:242])
    before = policy.clone()
    before._s[SLOT.NEXT] = 1000.0
    for one in (policy, before):
        one.update(X[242], y[242], scale=nu[242])
    assert (policy._s[L.FITS], before._s[L.FITS]) == (7.0, 6.0)
    assert before._s[P.TAU] > 1.1 * 1.345
    plain = ht.HvtUCB(6)
    for slot in ("UNIT", "NU", "TYPICAL", "VOTES", "RUN", "EXTREME"):
        plain._s[getattr(P, slot)] = before._s[getattr(P, slot)]
    plain._s[P.TELLING] = 5.0
    root = before._s[P.UNIT] * before._s[P.NU]
    plain._M[INVERSE : INVERSE + 7] = root**2 / (0.01 * 6) * np.eye(7)
    plain._s[LOG_DET] = -14.0 * math.log(root)
    teach(plain, policy.turned(X.reshape(243, 12))[:, :6], y, nu)
    np.testing.assert_allclose(policy._M[THETA], plain._M[THETA], rtol=1e-9)
    np.testing.assert_allclose(policy.inverse_gram, plain.inverse_gram, rtol=1e-9)
    ours, theirs = policy._s, plain._s
    for slot in ("TAU", "STABILITY", "ENERGY", "LOST", "NEAR", "FAR", "WEIGHT", "WEIGHT_SQUARES"):
        assert ours[getattr(P, slot)] == pytest.approx(theirs[getattr(P, slot)], rel=1e-9), slot
    sizes = [s[int(s[P.SIZES]) :][: practice.SIZES] for s in (ours, theirs)]
    np.testing.assert_allclose(*sizes, rtol=1e-9)
    assert policy.radius == pytest.approx(plain.radius, rel=1e-9)
    assert ours[LOG_DET] == pytest.approx(theirs[LOG_DET], rel=1e-9)
    assert ours[CLIPPED] == theirs[CLIPPED] > 0.0
    assert policy.rounds == plain.rounds == 243


def test_a_rank_of_half_as_many_numbers_as_rounds_is_not_tried():
    """Rank 2 of 5 x 4 has 14 numbers: none of 27 rounds, some of 41."""
    policy = ht.HvtLowRank(5, 4, rank=2)
    X, y, nu = rounds(5, 4, 41, rank=2, seed=1, degrees=30.0)
    y = np.einsum("nij,ij->n", X, 50.0 * np.diag([2.0, 1.0, 0.0, 0.0, 0.0])[:, :4]) + 0.01 * y
    teach(policy, X[:27], y[:27], nu[:27])
    assert (policy._s[L.FITS], policy.rank) == (1.0, 1)
    teach(policy, X[27:], y[27:], nu[27:])
    assert (policy._s[L.FITS], policy.rank) == (2.0, 2)
