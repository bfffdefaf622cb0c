"""Parts of the kernels that keep a history or copies, each beside its definition."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels import truncation
from heavytail.kernels.layout import (
    FEATURE,
    INVERSE,
    LOG_DET,
    OK,
    RADIUS,
    ROUNDS,
    SCRATCH,
    THETA,
)
from heavytail.kernels.quadratic import first_extra
from heavytail.policies import (
    _lbfgs,
    bmm,
    btc,
    heavy_oful,
    huber_bandit,
    tofu,
)

TAIL = ht.MomentBound(order=2.0, scale=1.0)
E1 = np.array([1.0, 0.0])


@pytest.fixture(autouse=True)
def without_the_compiler_numpy_warns_where_a_kernel_overflows() -> Any:
    with np.errstate(all="ignore"):
        yield


# --- L-BFGS


def rows_of(seed: int, count: int = 30, dim: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(count, dim)), 3.0 * rng.standard_t(1.5, count)
    return np.column_stack([a, b, rng.uniform(0.1, 2.0, count)])


def huber_loss(rows: Any, theta: Any, ridge: float) -> float:
    z, tau = np.abs(rows[:, -2] - rows[:, :-2] @ theta), rows[:, -1]
    loss = np.where(z <= tau, 0.5 * z * z, tau * z - 0.5 * tau * tau)
    return float(loss.sum() + 0.5 * ridge * theta @ theta)


def huber_gradient(rows: Any, theta: Any, ridge: float) -> Any:
    z, tau = rows[:, -2] - rows[:, :-2] @ theta, rows[:, -1]
    return ridge * theta - rows[:, :-2].T @ np.clip(z, -tau, tau)


def test_the_huber_loss_is_quadratic_up_to_tau_and_linear_beyond() -> None:
    z, tau = np.array([0.0, 0.5, -0.5, 2.0, -3.0]), np.array([1.0, 1.0, 2.0, 2.0, 1.0])
    np.testing.assert_allclose(_lbfgs._huber(z, tau), [0.0, 0.125, 0.125, 2.0, 2.5])


@pytest.mark.parametrize("length", [1e-9, 0.1, 3.0])
def test_the_change_of_the_loss_is_its_difference(length: float) -> None:
    rng = np.random.default_rng(1)
    for seed in range(5):
        rows = rows_of(seed)
        data = rows[:, :3], rows[:, 3], rows[:, 4]
        origin, step = rng.normal(size=3), length * rng.normal(size=3)
        value, gradient = _lbfgs._change(data, origin, step, 0.7)
        expected = huber_loss(rows, origin + step, 0.7) - huber_loss(rows, origin, 0.7)
        assert value == pytest.approx(expected, rel=1e-8, abs=1e-12)
        np.testing.assert_allclose(gradient, huber_gradient(rows, origin + step, 0.7), rtol=1e-9)


@pytest.mark.parametrize("bound", [0.01, 0.1, 0.4, math.inf])
@pytest.mark.parametrize("ridge", [0.05, 4.0])
def test_lbfgs_finds_the_minimiser_over_the_ball(bound: float, ridge: float) -> None:
    for seed in range(4):
        rows = rows_of(seed)
        theta = _lbfgs.minimise(rows, np.zeros(3), ridge, bound, 1e-9)
        gradient = huber_gradient(rows, theta, ridge)
        length = float(np.linalg.norm(theta))
        assert length <= bound * (1.0 + 1e-12)
        mu = 0.0
        if length > bound * (1.0 - 1e-9):
            mu = -float(gradient @ theta) / length**2
            assert mu > 0.0
        np.testing.assert_allclose(gradient + mu * theta, 0.0, atol=1e-6 * (ridge + mu))
        again = _lbfgs.minimise(rows, theta, ridge, bound, 1e-9)
        np.testing.assert_allclose(again, theta, atol=1e-8)


def test_lbfgs_says_where_it_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lbfgs, "REFINEMENTS", 1)
    with pytest.warns(UserWarning, match="stopped at a gradient of"):
        _lbfgs.minimise(rows_of(0), np.zeros(3), 1.0, math.inf, 1e-30)


def test_a_descent_that_gives_up_is_told_where_update_was_called() -> None:
    policy = ht.HeavyOFUL(2, horizon=50, tail=TAIL)
    policy._s[heavy_oful.S.STEPS] = 1e6 - 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.update([1.0, 0.0], 1.0)
    policy._s[heavy_oful.S.STEPS] = 1e6
    with pytest.warns(UserWarning, match="gradient descent stopped after 1000000 steps") as told:
        policy.update([1.0, 0.0], 1.0)
    assert told[0].filename == __file__


# --- BMM and BTC


@pytest.mark.parametrize("sup", [False, True])
@pytest.mark.parametrize("horizon", [7, 8, 400, 3000])
def test_the_sup_wrapper_has_floor_of_log_t_stages_each_from_nothing(
    sup: bool, horizon: int
) -> None:
    stages = math.floor(math.log(horizon)) if sup else 1
    problem: Any = {"horizon": horizon, "tail": TAIL, "arms": 4, "sup": sup, "ridge": 4.0}
    medians = ht.BMM(2, copies=2, **problem)
    truncated = ht.BTC(2, **problem)
    assert medians._s[bmm.S.STAGES] == truncated._s[btc.S.STAGES] == stages
    assert medians._s[bmm.S.FINEST] == truncated._s[btc.S.FINEST] == horizon**-0.5
    first = [bmm.gram_row(medians._s, medians._M, g) for g in range(stages)]
    assert first == [INVERSE, *(10 + 2 * stages + 2 * g for g in range(stages - 1))]
    second = [btc.gram_row(truncated._M, g) for g in range(stages)]
    assert second == [INVERSE, *(9 + 2 * g for g in range(stages - 1))]
    for g in range(stages):
        np.testing.assert_array_equal(medians._M[first[g] : first[g] + 2], np.eye(2) / 4.0)
        np.testing.assert_array_equal(truncated._M[second[g] : second[g] + 2], np.eye(2) / 4.0)
    assert np.count_nonzero(medians._M) == np.count_nonzero(truncated._M) == 2 * stages


def test_bmm_has_one_stage_where_log_t_is_below_one() -> None:
    for horizon in (1, 2):
        policy = ht.BMM(2, horizon=horizon, tail=TAIL, arms=4, copies=1, sup=True)
        assert policy._s[bmm.S.STAGES] == 1.0


@pytest.mark.parametrize("horizon", [1, 2, 3, 50])
def test_the_copies_of_bmm_take_log_t_as_at_least_one(horizon: int) -> None:
    inner = 2 * 5 * horizon * max(math.log(horizon), 1.0)
    expected = math.ceil(8 * (math.log(inner) + math.log(100.0)))
    assert bmm._copies(horizon, 5, math.log(100.0)) == expected


def test_a_stage_of_bmm_learns_in_its_own_rows() -> None:
    policy = ht.BMM(2, horizon=400, tail=TAIL, arms=4, copies=3, sup=True)
    s, M = policy.packed
    rewards = (0.5, -2.0, 4.0)
    for reward in rewards:
        bmm.lay(s, M, np.array([0.6, 0.8]))
        assert bmm.learn_in(s, M, np.array([0.6, 0.8]), 2, reward) == OK
    sums = first_extra(2) + 1 + 2 * 3
    expected = np.outer(rewards, [0.6, 0.8])
    np.testing.assert_allclose(M[sums : sums + 3], expected)
    others = np.delete(M[first_extra(2) + 1 : first_extra(2) + 1 + 15], range(6, 9), axis=0)
    assert not others.any()
    row = bmm.gram_row(s, M, 2)
    x = np.array([0.6, 0.8])
    np.testing.assert_allclose(M[row : row + 2], np.linalg.inv(np.eye(2) + np.outer(x, x)))
    np.testing.assert_array_equal(s[bmm.COUNTS : bmm.COUNTS + 5], [0, 0, 1, 0, 0])
    assert policy.epochs == 1


def lists_of(policy: Any) -> list[tuple[list[float], list[float]]]:
    """The rewards of each group of BTC in the order of its list, and what each row sums up."""
    found = []
    H, groups = policy._H, int(policy._s[btc.S.GROUPS])
    for g in range(groups):
        row, rewards, rests = int(H[g, 2 + btc.HEAD]), [], []
        while row >= 0:
            rewards.append(float(H[row, 2 + btc.REWARD]))
            rests.append(float(H[row, 2 + btc.REST]))
            row = int(H[row, 2 + btc.FOLLOWING])
        assert len(rewards) == H[g, 2 + btc.COUNT]
        found.append((rewards, rests))
    return found


def test_btc_keeps_a_group_from_the_largest_reward_down_with_what_follows_summed() -> None:
    policy = ht.BTC(2, horizon=400, tail=TAIL, arms=4, threshold_scale=math.inf)
    rng = np.random.default_rng(0)
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    paid: list[list[float]] = [[], [], []]
    order: list[int] = []
    for t in range(40):
        k = int(rng.integers(3))
        reward = float(rng.integers(-4, 5)) if t % 2 else float(rng.standard_t(1.5))
        policy.update(arms[k], reward)
        paid[k].append(reward)
        if k not in order:
            order.append(k)
    for (rewards, rests), k in zip(lists_of(policy), order, strict=True):
        assert sorted(rewards) == sorted(paid[k])
        assert [abs(r) for r in rewards] == sorted((abs(r) for r in rewards), reverse=True)
        np.testing.assert_allclose(rests, np.cumsum(rewards[::-1])[::-1], atol=1e-12)
    X = arms[[k for k in range(3) for _ in paid[k]]]
    growth = np.linalg.slogdet(np.eye(2) + X.T @ X)[1]
    assert policy._s[LOG_DET] == pytest.approx(growth)
    for x in (*arms, np.array([0.3, -0.2])):
        theta = np.linalg.solve(np.eye(2) + X.T @ X, X.T @ np.concatenate(paid))
        assert policy.expected(x) == pytest.approx(float(x @ theta))


def test_only_the_first_stage_of_btc_enters_the_determinant() -> None:
    policy = ht.BTC(2, horizon=400, tail=TAIL, arms=4, sup=True)
    policy._M[FEATURE] = E1
    btc.learn_in(*policy.packed, 1, 0.5)
    assert policy._s[LOG_DET] == 0.0
    btc.learn_in(*policy.packed, 0, 0.5)
    assert policy._s[LOG_DET] == pytest.approx(math.log(2.0))
    np.testing.assert_array_equal(policy._H[:2, 2 + btc.STAGE], [1.0, 0.0])


def test_the_truncated_sum_takes_the_rewards_up_to_the_norm_of_h() -> None:
    policy = ht.BTC(2, horizon=400, tail=ht.MomentBound(1.5, 1.0), arms=4)
    x = np.array([0.6, 0.8])
    for arm, reward in ((E1, 5.0), (E1, -1.0), (x, 0.7), (x, -30.0), (E1, 0.2), (x, 3.0)):
        policy.update(arm, reward)
    _, M, H = policy.packed
    X = np.array([E1, E1, x, x, E1, x])
    y = np.array([5.0, -1.0, 0.7, -30.0, 0.2, 3.0])
    for u in (np.array([1.0, 0.5]), np.array([0.0, 1.25]), np.array([-0.3, 0.9])):
        M[SCRATCH] = u
        h = X @ u
        for scale in (0.5, 1.0, 2.0, math.inf):
            for order in (1.5, 2.0):
                level = scale * (np.abs(h) ** order).sum() ** (1.0 / order)
                expected = (h * y)[np.abs(h * y) <= level].sum()
                total = btc.truncated_sum(M, H, 2, 0, order, scale)
                assert total == pytest.approx(expected)


# --- HEAVY-OFUL's lazy solver, and gradient descent


def lazy(rewards: Any, seed: int = 0) -> Any:
    policy = ht.HeavyOFUL(2, horizon=200, tail=TAIL, threshold_scale=0.02)
    rng = np.random.default_rng(seed)
    for reward in rewards:
        x = rng.normal(size=2)
        policy.update(x / max(1.0, float(np.linalg.norm(x))), float(reward))
    return policy


def test_a_row_is_looked_at_again_when_theta_may_have_crossed_its_threshold() -> None:
    policy = lazy(np.random.default_rng(1).standard_t(1.5, 30))
    s, M, H = policy.packed
    for row in range(30):
        z = H[row, 2] - H[row, :2] @ M[THETA]
        region = heavy_oful.look(s, M, H, row)
        assert region == (0.0 if abs(z) <= H[row, 3] else math.copysign(1.0, z))
        margin = abs(abs(z) - H[row, 3]) / np.linalg.norm(H[row, :2])
        assert H[row, 2 + heavy_oful.KEY] == pytest.approx(s[heavy_oful.S.PATH] + margin)


def test_the_sums_of_the_lazy_solver_are_those_of_its_rows_and_its_heap_is_one() -> None:
    for count in (5, 16, 23, 33):
        policy = lazy(np.random.default_rng(count).standard_t(1.2, count), count)
        s, M, H = policy.packed
        for again in (False, True):
            if again:
                heavy_oful.build(s, M, H, count, 2.0)
                assert s[heavy_oful.S.PATH] == 0.0
            region = H[:count, 2 + heavy_oful.REGION]
            a, b, tau = H[:count, :2], H[:count, 2], H[:count, 3]
            inside = a[region == 0.0]
            Q = first_extra(2)
            expected = 2.0 * np.eye(2) + inside.T @ inside
            np.testing.assert_allclose(
                M[Q : Q + 2][np.tril_indices(2)], expected[[0, 1, 1], [0, 0, 1]]
            )
            pull = np.where(region == 0.0, b, region * tau)
            np.testing.assert_allclose(M[Q + 2], a.T @ pull, atol=1e-9)
            heap = H[:count, 2 + heavy_oful.HEAP].astype(int)
            assert sorted(heap) == list(range(count))
            keys = H[heap, 2 + heavy_oful.KEY]
            assert all(keys[(i - 1) // 2] <= keys[i] for i in range(1, count))


def test_following_the_path_counts_the_rows_that_changed_region() -> None:
    policy = lazy(np.random.default_rng(4).standard_t(1.2, 20))
    s, M, H = policy.packed
    before = H[:20, 2 + heavy_oful.REGION].copy()
    M[THETA] += [50.0, -40.0]
    s[heavy_oful.S.PATH] += math.hypot(50.0, 40.0)
    changed = heavy_oful.follow(s, M, H, 20)
    assert changed == np.count_nonzero(H[:20, 2 + heavy_oful.REGION] != before) > 1


def test_gradient_descent_steps_by_the_largest_row_sum_of_v() -> None:
    policy = ht.HeavyOFUL(3, horizon=50, tail=TAIL, solver="gd", ridge=0.5)
    _, M, H = policy.packed
    V, rng = 0.5 * np.eye(3), np.random.default_rng(2)
    for row in range(4):
        H[row, :3] = 0.3 * rng.normal(size=3)
        V += np.outer(H[row, :3], H[row, :3])
        assert heavy_oful.widen(M, H, row) == pytest.approx(np.abs(V).sum(axis=1).max())


# --- Huber-Bandit


@pytest.mark.parametrize(("arms", "forced"), [(3, 2), (1, 1), (4, 1), (2, 5)])
def test_phases_reserve_rounds_that_double(arms: int, forced: int) -> None:
    policy = ht.HuberBandit(2, tail=TAIL, arms=arms, forced=forced)
    block = arms * forced
    reserved = {(2**n - 1) * block + 1 + i: i // forced for n in range(6) for i in range(block)}
    for t in range(1, 2**5 * block):
        assert huber_bandit.forced_arm(policy._s, float(t)) == reserved.get(t, -1)


def test_an_arm_belongs_to_the_model_of_its_features_or_to_the_nearest() -> None:
    policy = ht.HuberBandit(2, tail=TAIL, arms=3)
    s, M, _ = policy.packed
    offered = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.4], [0.1, 0.7], [0.0, 0.0]])

    def models() -> list[int]:
        return [huber_bandit.model_of(s, M, offered, i) for i in range(5)]

    assert models() == [-1] * 5
    assert huber_bandit.assign(s, M, E1) == 0
    assert models() == [0] * 5
    assert huber_bandit.assign(s, M, np.array([0.0, 1.0])) == 1
    assert models() == [1, 0, 0, 1, 0]
    assert huber_bandit.assign(s, M, np.array([0.0, 1.0])) == 1
    assert huber_bandit.assign(s, M, np.array([0.5, 0.5])) == 2
    assert models() == [1, 0, 2, 1, 2]
    assert huber_bandit.assign(s, M, np.array([0.9, 0.1])) == 0  # no model is left for it
    shared = ht.HuberBandit(2, tail=TAIL, arms=3, shared=True)
    s, M, _ = shared.packed
    assert models() == [-1] * 5
    for x in (E1, np.array([0.0, 1.0])):
        assert huber_bandit.assign(s, M, x) == 0
        assert models() == [0] * 5


def test_arms_within_half_the_gap_of_the_best_forced_fit_stay() -> None:
    policy = ht.HuberBandit(2, tail=TAIL, arms=2, forced=1, gap=0.5)
    arms = np.eye(2)
    for x in arms:
        policy.update(x, 0.0)
    s, M, _ = policy.packed
    assert huber_bandit.forced_arm(s, 3.0) >= 0
    policy.update(arms[0], 0.0)
    policy.update(arms[1], 0.0)
    policy.update(arms[0], 0.0)
    assert huber_bandit.forced_arm(s, s[ROUNDS] + 1.0) == -1
    for part, values in ((huber_bandit.FORCED_FIT, (1.0, 0.75)), (huber_bandit.FIT, (0.0, 2.0))):
        for k in range(2):
            M[huber_bandit.model_row(s, M, part, k)] = values[k] * arms[k]
    assert s[RADIUS] == 0.25
    assert huber_bandit.prediction(s, M, huber_bandit.FIT, arms, 1) == 2.0
    assert policy.select(arms) == 1  # behind by exactly h/2
    M[huber_bandit.model_row(s, M, huber_bandit.FORCED_FIT, 1), 1] = 0.7499
    assert policy.select(arms) == 0


# --- TOFU


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("spread", [0.0, 2.0, 8.0])
def test_the_root_of_p_is_the_positive_one(dim: int, spread: float) -> None:
    rng = np.random.default_rng(dim)
    for _ in range(4):
        policy = ht.TOFU(dim, horizon=50, tail=TAIL)
        M = policy._M
        turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        values = 10.0 ** rng.uniform(-spread, 0.0, dim)
        P = (turn * values) @ turn.T
        P = 0.5 * (P + P.T)
        M[INVERSE : INVERSE + dim] = P
        root = first_extra(dim)
        truncation.symmetric_root(M, root, root + dim)
        R = M[root : root + dim]
        np.testing.assert_array_equal(R, R.T)
        assert np.linalg.eigvalsh(R).min() > 0.0
        np.testing.assert_allclose(R @ R, P, atol=1e-13)
        vectors, diagonal = M[root + dim : root + 2 * dim], M[INVERSE + dim : INVERSE + 2 * dim]
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(dim), atol=1e-13)
        np.testing.assert_allclose(diagonal - np.diag(np.diag(diagonal)), 0.0, atol=1e-13)


def test_one_turn_settles_a_plane() -> None:
    policy = ht.TOFU(2, horizon=50, tail=TAIL)
    M, A = policy._M, INVERSE + 2
    for a, b, off in ((2.0, 1.0, 0.5), (1.0, 2.0, -0.7), (1.0, 1.0, 0.3), (1e-8, 1.0, 1e-5)):
        M[A : A + 2] = [[a, off], [off, b]]
        M[9:11] = np.eye(2)
        assert truncation.rotate(M, A, 9, 0, 1) == 1
        assert abs(M[A, 1]) <= 1e-15
        expected = np.linalg.eigvalsh([[a, off], [off, b]])
        np.testing.assert_allclose(np.sort(np.diag(M[A : A + 2])), expected, rtol=1e-6)
        assert truncation.rotate(M, A, 9, 0, 1) == 0


def test_tofu_keeps_a_term_that_is_exactly_at_its_level() -> None:
    policy = ht.TOFU(1, horizon=50, tail=TAIL)
    s, M, H = policy.packed
    M[INVERSE, 0] = 0.25
    H[0] = [1.0, 4.0]  # u = 1/2: a term of 2
    assert tofu.refit(s, M, H, 1, 2.0) == False  # noqa: E712
    assert M[THETA, 0] == 1.0
    assert tofu.refit(s, M, H, 1, 1.999) == True  # noqa: E712
    assert M[THETA, 0] == 0.0
