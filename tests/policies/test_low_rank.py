"""Policies of low-rank matrices: what they reduce to, what a rotation keeps, how they go on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.low_rank import played, rounds

import heavytail as ht
from heavytail.kernels import low_rank
from heavytail.kernels.layout import LOG_DET, THETA
from heavytail.kernels.low_rank import SHAPE
from heavytail.policies import hvt_low_rank, lotus

TAIL = ht.MomentBound(order=1.6, scale=2.0)
L = SHAPE


@pytest.mark.parametrize(("d1", "d2"), [(3, 3), (2, 4), (4, 1)])
def test_of_full_rank_hvt_low_rank_is_hvt_ucb_arm_by_arm(d1, d2):
    policy, plain = ht.HvtLowRank(d1, d2, rank=min(d1, d2), explore=20), ht.HvtUCB(d1 * d2)
    played(policy, d1, d2, 20, twin=plain, seed=1)
    for X, paid in rounds(d1, d2, 400, seed=2):
        arm = policy.select(X)
        assert arm == plain.select(X.reshape(len(X), -1))
        policy.update(X[arm], paid[arm])
        plain.update(X[arm].ravel(), paid[arm])
    assert policy._s[L.FITS] >= 4.0
    np.testing.assert_allclose(policy.theta, plain.theta, rtol=1e-7, atol=1e-9)
    assert policy.radius == pytest.approx(plain.radius, rel=1e-9)
    X = next(rounds(d1, d2, 1, seed=3))[0]
    np.testing.assert_allclose(policy.predict(X), plain.predict(X.reshape(len(X), -1)), rtol=1e-7)


@pytest.mark.parametrize("rank", [1, 3])
def test_with_equal_ridges_low_estr_is_oful_arm_by_arm(rank):
    outside = {"ridge_outside": 1.0} if rank == 1 else {}
    told = {"noise_scale": 0.7, "theta_bound": 4.0, "delta": 0.05, "radius_scale": 0.3}
    policy = ht.LowESTR(3, 3, rank=rank, horizon=1000, explore=40, **told, **outside)
    played(policy, 3, 3, 40, seed=1)
    plain = ht.OFUL(9, **told)
    for X, paid in rounds(3, 3, 300, seed=2):
        arm = policy.select(X)
        assert arm == plain.select(X.reshape(len(X), -1))
        policy.update(X[arm], paid[arm])
        plain.update(X[arm].ravel(), paid[arm])
    np.testing.assert_allclose(policy.theta, plain.theta, atol=1e-9)
    assert policy.radius == pytest.approx(plain.radius, rel=1e-12)


def test_low_estr_has_the_ridges_and_the_radius_of_its_docstring():
    policy = ht.LowESTR(4, 3, rank=1, horizon=5000, noise_scale=2.0, theta_bound=3.0)
    first, left = policy.explore, 5000 - policy.explore
    assert first == math.ceil(min(2.0 * math.sqrt(5000) * 7**1.5 / 3.0, 250.0))
    assert policy.ridge_outside == pytest.approx(left / (6 * math.log1p(left)))
    played(policy, 4, 3, first, seed=4)
    s = policy._s
    error = 2.0 * math.sqrt(12 * 7 / first)
    outside = 3.0 * min(1.0, (error / 3.0) ** 2)
    prior = math.sqrt(9.0 + (policy.ridge_outside - 1.0) * outside**2)
    want = 0.3 * (2.0 * math.sqrt(2.0 * math.log(100.0)) + prior)
    assert policy.radius == pytest.approx(want, rel=1e-12)
    played(policy, 4, 3, 50, seed=5)
    V = np.linalg.inv(policy.inverse_gram)
    grown = np.linalg.slogdet(V)[1] - 6 * math.log(policy.ridge_outside)
    assert s[LOG_DET] == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-9)
    want = 0.3 * (2.0 * math.sqrt(grown + 2.0 * math.log(100.0)) + prior)
    assert policy.radius == pytest.approx(want, rel=1e-9)


def test_without_thresholds_lotus_fits_as_low_estr_and_learns_by_ridge_regression():
    estr = ht.LowESTR(4, 3, rank=1, horizon=2000, explore=32)
    it = ht.LOTUS(4, 3, tail=TAIL, rank=1, threshold_scale=math.inf, explore_scale=10.0)
    for X, paid in rounds(4, 3, 32, seed=6):
        for policy in (estr, it):
            policy.update(X[0], paid[0])
    np.testing.assert_array_equal(it._M[it._rows["estimate"]], estr._M[estr._rows["estimate"]])
    it = ht.LOTUS(4, 3, tail=TAIL, rank=1, threshold_scale=math.inf, explore_scale=1e-9)
    seen = []
    for X, paid in rounds(4, 3, 180, seed=7):
        inside = it._s[lotus.S.EXPLORE] <= it.rounds
        arm = it.select(X)
        it.update(X[arm], paid[arm])
        if not inside:
            seen.clear()
            continue
        seen.append((X[arm].ravel(), paid[arm]))
        if it._s[lotus.S.NEXT] == math.floor(lotus.LAZY * len(seen)) + 1.0 and len(seen) > 20:
            Z = it.turned(np.array([x for x, _ in seen]))
            h = Z.T @ np.array([y for _, y in seen])
            np.testing.assert_allclose(it._M[THETA], it.inverse_gram @ h, atol=1e-9)
    assert len(seen) > 20


def test_lotus_truncates_as_tofu_does():
    it = ht.LOTUS(3, 2, tail=TAIL, rank=1, explore_scale=1e-9, theta_bound=2.0)
    kept = []
    for X, paid in rounds(3, 2, 300, seed=8):
        inside = it._s[lotus.S.EXPLORE] <= it.rounds
        arm = it.select(X)
        reward = paid[arm] * (50.0 if it.rounds % 7 == 0 else 1.0)
        it.update(X[arm], reward)
        kept = [*kept, (X[arm].ravel(), reward)] if inside else []
        fresh = it._s[lotus.S.NEXT] == math.floor(lotus.LAZY * len(kept)) + 1.0
        if fresh and len(kept) > 30:
            Z, y = it.turned(np.array([x for x, _ in kept])), np.array([r for _, r in kept])
            values, vectors = np.linalg.eigh(it.inverse_gram)
            root = vectors * np.sqrt(values) @ vectors.T
            p, T = 1.6, 2.0 ** it._s[lotus.S.BATCH]
            level = 4.0 / (math.log(2.0 * T / 0.01)) ** (1.0 / p) * len(kept) ** (0.4 / 3.2)
            terms = (Z @ root) * y[:, None]
            assert (np.abs(terms) > level).any()
            want = root @ np.where(np.abs(terms) <= level, terms, 0.0).sum(axis=0)
            np.testing.assert_allclose(it._M[THETA], want, atol=1e-8)
            k, r = 4, len(kept)
            spread = math.log(2.0 * k * T / 0.01) ** (0.6 / p)
            beta = 4.0 * math.sqrt(k) * 4.0 * spread * r ** (0.4 / 3.2) + it._s[lotus.S.PRIOR_ROOT]
            assert it.radius == pytest.approx(0.001 * beta, rel=1e-9)
            return
    raise AssertionError("theta was never made anew")


def test_lotus_finds_the_rank():
    world = ht.LowRankBandit(6, 5, 2, 10, ht.noise.Gaussian(0.1), fresh=True)
    policy = ht.LOTUS(
        6, 5, tail=ht.MomentBound(order=2.0, scale=0.1), theta_bound=6.0, form="pairs"
    )
    assert policy.rank == 1
    block = next(world.deal(np.random.SeedSequence(1)))
    for t in range(200):
        arm = policy.select(block.arms[t])
        policy.update(block.arms[t][arm], block.means[t][arm] + block.noise[t])
    assert policy.rank == 2


def turned_state(rank, seed=0, truth=None):
    """A policy in the middle of things, with another basis waiting in its room."""
    truth = rank if truth is None else truth
    policy = played(ht.HvtLowRank(4, 3, rank=rank, explore=25), 4, 3, 120, seed=seed, rank=truth)
    assert policy.rank == truth
    s, M = policy.packed[:2]
    at = low_rank.room_row(s, M) + 8
    M[at : at + 4, :4] = M[policy._rows["left"], :4]
    M[at + 4 : at + 7, :3] = M[policy._rows["right"], :3]
    return policy, s, M, at


def test_the_same_subspace_in_another_basis_changes_no_answer():
    policy, s, M, at = turned_state(2)
    X = next(rounds(4, 3, 1, seed=9))[0]
    before, state = policy.predict(X), policy.state_arrays()
    rng = np.random.default_rng(1)
    for first, size in ((at, 4), (at + 4, 3)):
        for part in (slice(0, 2), slice(2, size)):
            width = part.stop - part.start
            turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
            rows = slice(first + part.start, first + part.stop)
            M[rows, :size] = turn @ M[rows, :size]
    assert hvt_low_rank.carry(s, M, 2)
    assert not np.allclose(M[policy._rows["left"]], state["left"])
    np.testing.assert_allclose(policy.predict(X), before, rtol=1e-8)
    np.testing.assert_allclose(s[LOG_DET], state["scalars"][LOG_DET], rtol=1e-9)


def test_another_subspace_keeps_what_lies_in_both():
    """V - V_0 and V theta as matrices on vec(X), projected to the new coordinates."""
    policy, s, M, at = turned_state(1, seed=3)
    old = policy.turned(np.eye(12)).T[:6]  # its coordinates, as rows over vec(X)
    P = policy.inverse_gram
    V, theta = np.linalg.inv(P), M[THETA].copy()
    unit = s[hvt_low_rank.P.UNIT] * s[hvt_low_rank.P.NU]
    first = s[hvt_low_rank.P.RIDGE] / unit**2 * np.eye(7)
    rng = np.random.default_rng(2)
    M[at : at + 4, :4] = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    M[at + 4 : at + 7, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert hvt_low_rank.carry(s, M, 1)
    C = np.eye(7)
    C[:6, :6] = policy.turned(np.eye(12)).T[:6] @ old.T
    want = first + C @ (V - first) @ C.T
    np.testing.assert_allclose(policy.inverse_gram, np.linalg.inv(want), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(M[THETA], np.linalg.solve(want, C @ V @ theta), rtol=1e-6)
    assert s[LOG_DET] == pytest.approx(
        np.linalg.slogdet(want)[1] - 7 * math.log(s[hvt_low_rank.P.RIDGE]), rel=1e-8
    )
    assert np.array_equal(policy.inverse_gram, policy.inverse_gram.T)


@pytest.mark.parametrize(("old", "new"), [(2, 1), (1, 2)])
def test_a_new_rank_keeps_what_lies_in_both_subspaces(old, new):
    policy, s, M, at = turned_state(2, seed=3, truth=old)
    before = policy.turned(np.eye(12)).T[:10]
    V, theta = np.linalg.inv(policy.inverse_gram), M[THETA].copy()
    unit = s[hvt_low_rank.P.UNIT] * s[hvt_low_rank.P.NU]
    first = s[hvt_low_rank.P.RIDGE] / unit**2 * np.eye(11)
    rng = np.random.default_rng(2)
    M[at : at + 4, :4] = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    M[at + 4 : at + 7, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    s[L.RANK] = new
    assert hvt_low_rank.carry(s, M, old)
    C = np.zeros((11, 11))
    C[-1, -1] = 1.0
    C[:10, :10] = policy.turned(np.eye(12)).T[:10] @ before.T
    assert np.linalg.matrix_rank(C[:10, :10]) == 6
    want = first + C @ (V - first) @ C.T
    np.testing.assert_allclose(policy.inverse_gram, np.linalg.inv(want), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        M[THETA], np.linalg.solve(want, C @ V @ theta), rtol=1e-6, atol=1e-12
    )
    X = next(rounds(4, 3, 1, seed=9))[0]
    np.testing.assert_allclose(
        policy.predict(X).mean, policy.intercept + np.einsum("nij,ij->n", X, policy.matrix)
    )


def test_pairs_and_their_matrices_lead_to_the_same_choices():
    world = ht.LowRankBandit(4, 3, 1, 5, ht.noise.StudentT(1.7))
    block = next(world.deal(np.random.SeedSequence(3)))
    made = (
        lambda form: ht.HvtLowRank(4, 3, rank=1, form=form),
        lambda form: ht.LowESTR(4, 3, rank=1, horizon=900, explore=40, form=form),
        lambda form: ht.LOTUS(4, 3, tail=TAIL, form=form),
    )
    for make in made:
        one, other = make("pairs"), make("matrices")
        for t in range(200):
            X = block.arms[t]
            formed = X[:, :4, None] * X[:, None, 4:]
            arm = one.select(X)
            assert other.select(formed) == arm
            one.update(X[arm], block.means[t][arm] + block.noise[t])
            other.update(formed[arm], block.means[t][arm] + block.noise[t])
        np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-8)


def test_a_reservoir_keeps_every_round_alike():
    policy = ht.HvtLowRank(2, 2, explore=5, kept=20)
    x = np.full(4, 0.4)
    for t in range(400):
        policy.update(x, float(t))
    assert policy.kept == 20
    kept = policy._H[:20, 4]
    assert len(set(kept)) == 20
    assert 100.0 < kept.mean() < 300.0
    assert policy.rounds == 400


def test_fits_come_when_there_are_half_as_many_rounds_again():
    policy = ht.HvtLowRank(3, 2, rank=1)
    found = []
    for t, (X, paid) in enumerate(rounds(3, 2, 200)):
        before = policy._s[L.FITS]
        policy.update(X[0], paid[0])
        if policy._s[L.FITS] > before:
            found.append(t + 1)
    assert found == [15, 23, 35, 53, 80, 120, 180]


def test_delayed_rewards_and_files_go_on(tmp_path):
    policy = ht.HvtLowRank(4, 3, rank=1, form="pairs")
    user, items = np.full(4, 0.5), np.eye(3)
    for reward in range(60):
        decision = policy.decide(ht.pairs(user, items))
        policy.learn(decision, float(reward % 7))
    waiting = policy.decide(ht.pairs(user, items))
    policy.save(tmp_path / "it.npz")
    twin = ht.load(tmp_path / "it.npz")
    for one in (policy, twin):
        one.learn(waiting.token, 3.0)
    assert np.array_equal(policy.matrix, twin.matrix)


def test_it_beats_the_plain_policy_where_the_rank_is_low():
    told = {"theta_bound": 6.0}
    world = ht.LowRankBandit(6, 6, 1, 10, ht.noise.StudentT(1.7), **told)
    plain = ht.LowRankBandit(6, 6, 1, 10, ht.noise.StudentT(1.7), form="matrices", **told)
    policy = ht.HvtLowRank(6, 6, rank=1, form="pairs")
    low = ht.simulate([policy], world, rounds=4000, trials=4, seed=1, progress=False)
    full = ht.simulate([ht.HvtUCB(36)], plain, rounds=4000, trials=4, seed=1, progress=False)
    assert np.mean(low["Hvt-LowRank"].final) < 0.8 * np.mean(full["Hvt-UCB"].final)


@pytest.mark.parametrize("form", ["pairs", "matrices"])
def test_predictions_are_the_matrix_and_the_intercept(form):
    policy = ht.HvtLowRank(4, 3, rank=1, form=form)
    rng = np.random.default_rng(5)
    u, v = (rng.normal(size=(90, d)) for d in (4, 3))
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    X = ht.pairs(u, v) if form == "pairs" else u[:, :, None] * v[:, None, :]
    y = 100.0 + 3.0 * u[:, 0] * v[:, 1] + 0.1 * rng.normal(size=90)
    policy.update_many(X[:10], y[:10])
    early = policy.predict(X[0])
    assert early.mean == pytest.approx(y[:10].mean())
    assert (early.low, early.high) == (-math.inf, math.inf)
    assert "exploring" in policy.diagnostics().advice[0]
    with pytest.raises(ValueError, match="the next round explores"):
        policy.explain(X[:3])
    policy.update_many(X[10:], y[10:])
    told = policy.predict(X)
    want = policy.intercept + np.einsum("ni,ij,nj->n", u, policy.matrix, v)
    np.testing.assert_allclose(told.mean, want, rtol=1e-12)
    assert policy.intercept == pytest.approx(100.0, abs=2.0)
    assert not policy.diagnostics().advice or "exploring" not in policy.diagnostics().advice[0]
    why = policy.explain(X[:5])
    assert why.arm == policy.select(X[:5]) == int(np.argmax(why.parts["index"]))
    np.testing.assert_allclose(why.parts["mean"], told.mean[:5])


@pytest.mark.parametrize("form", ["pairs", "matrices"])
def test_arms_of_any_length_lead_to_the_same_choices(form):
    """Arms c times as long, with all that is told in their unit."""
    world = ht.LowRankBandit(4, 3, 1, 5, ht.noise.StudentT(1.7), form=form)
    block = next(world.deal(np.random.SeedSequence(6)))
    c = 2.0**6
    unit = {True: {}, False: {"arm_bound": math.sqrt(c) * math.sqrt(2.0) if form == "pairs" else c}}
    told = {True: {"theta_bound": 4.0}, False: {"theta_bound": 4.0 / c, "ridge": c * c}}
    kinds = (
        lambda plain: ht.HvtLowRank(4, 3, form=form, **unit[plain]),
        lambda plain: ht.LowESTR(
            4, 3, horizon=1200, noise_scale=2.0, form=form, **unit[plain], **told[plain]
        ),
        lambda plain: ht.LOTUS(4, 3, tail=TAIL, form=form, **unit[plain], **told[plain]),
    )
    stretch = math.sqrt(c) if form == "pairs" else c
    for make in kinds:
        one, other = make(True), make(False)
        for t in range(240):
            arm = one.select(block.arms[t])
            assert other.select(stretch * block.arms[t]) == arm
            reward = block.means[t][arm] + block.noise[t]
            one.update(block.arms[t][arm], reward)
            other.update(stretch * block.arms[t][arm], reward)
        np.testing.assert_allclose(other.matrix * c, one.matrix, rtol=1e-6, atol=1e-9)
        assert other._s[L.FITS] == one._s[L.FITS] > 0.0


def test_rounds_of_larger_scale_weigh_less():
    """Where every other round has ten times the noise, saying so helps."""
    rng = np.random.default_rng(12)
    errors = {True: 0.0, False: 0.0}
    theta = 4.0 * np.outer([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    u, v = rng.normal(size=(600, 4)), rng.normal(size=(600, 3))
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    nu = np.where(np.arange(600) % 2, 0.3, 6.0)
    y = np.einsum("ni,ij,nj->n", u, theta, v) + nu * rng.normal(size=600)
    for told in errors:
        policy = ht.HvtLowRank(4, 3, rank=1, form="pairs")
        policy.update_many(ht.pairs(u, v), y, scale=nu if told else None)
        errors[told] = float(np.linalg.norm(policy.matrix - theta))
    assert errors[True] < 0.4 * errors[False]
