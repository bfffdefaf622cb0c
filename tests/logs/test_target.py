"""What a target would have chosen: frozen policies, callables, arrays, columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import heavytail as ht
from heavytail.logs.reading import chunks
from heavytail.logs.target import Target, probabilities

N, K, D = 40, 5, 3
TAIL = ht.MomentBound(order=2.0, scale=1.0)


def a_log(n=N, seed=0, fewer=False):
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(n, K, D))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    counts = rng.integers(2, K + 1, n) if fewer else np.full(n, K)
    arms[np.arange(K) >= counts[:, None]] = np.nan
    action = rng.integers(0, counts)
    return {"action": action, "reward": rng.normal(size=n), "arms": arms}, counts


def rows_of(**told):
    log, counts = a_log(**told)
    [rows] = chunks(log)
    return rows, counts


def taught(policy, rounds=30):
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        x = rng.normal(size=D)
        policy.update(x / np.linalg.norm(x), float(x[0] + rng.normal()))
    return policy


def state(policy):
    return {key: array.tobytes() for key, array in policy.saved_arrays().items()}


@pytest.mark.parametrize("fewer", [False, True])
@pytest.mark.parametrize("name", ["HvtUCB", "TwinUCB", "OFUL", "HEAVY-OFUL", "BMM", "RobustUCB"])
def test_a_frozen_policy_chooses_as_select_does_and_nothing_of_it_changes(name, fewer):
    rows, counts = rows_of(fewer=fewer)
    policy = ht.make_policy(name, dim=D, tail=TAIL, horizon=10_000, arms=K)
    if name not in ("BMM", "RobustUCB"):
        taught(policy)
    before = state(policy)
    found = probabilities(policy, rows)
    assert state(policy) == before
    assert found.shape == (N, K)
    for i in range(N):
        choice = policy.clone().select(rows.arms[i, : counts[i]])
        np.testing.assert_array_equal(found[i], np.eye(K)[choice])


def test_a_frozen_policy_goes_on_learning_apart_from_its_target():
    rows, _ = rows_of()
    policy = taught(ht.HvtUCB(D))
    target = Target(policy)
    before = target(rows)
    taught(policy, 200)
    np.testing.assert_array_equal(target(rows), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(target))(rows), before)


@pytest.mark.parametrize("fewer", [False, True])
def test_a_share_that_explores_is_mixed_in_among_the_arms_offered(fewer):
    rows, counts = rows_of(fewer=fewer)
    policy = taught(ht.HvtUCB(D))
    plain, mixed = probabilities(policy, rows), probabilities(policy, rows, explore=0.3)
    np.testing.assert_allclose(mixed.sum(axis=1), 1.0)
    for i in range(N):
        np.testing.assert_allclose(
            mixed[i, : counts[i]], 0.7 * plain[i, : counts[i]] + 0.3 / counts[i]
        )
        assert (mixed[i, counts[i] :] == 0.0).all()


def test_policies_that_draw_with_known_probabilities_are_exact():
    rows, counts = rows_of(fewer=True)
    found = probabilities(ht.Uniform(D), rows)
    for i in range(N):
        np.testing.assert_allclose(found[i], (np.arange(K) < counts[i]) / counts[i])
    policy = taught(ht.EpsilonGreedy(D, epsilon=0.4, radius_scale=1.0))
    before = state(policy)
    found = probabilities(policy, rows)
    assert state(policy) == before
    for i in range(N):
        best = int(np.argmax(rows.arms[i, : counts[i]] @ policy.theta))
        expected = 0.4 / counts[i] * (np.arange(K) < counts[i]) + 0.6 * np.eye(K)[best]
        np.testing.assert_allclose(found[i], expected)


def test_thompson_sampling_is_refused_or_estimated_by_draws():
    rows, _ = rows_of(n=4)
    policy = taught(ht.LinTS(D, noise_scale=1.0, radius_scale=1.0, seed=3))
    with pytest.raises(ValueError, match=r"LinTS draws .* Pass draws=100"):
        probabilities(policy, rows)
    before = state(policy)
    found = probabilities(policy, rows, draws=2000)
    assert state(policy) == before
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    twin = policy.clone()
    twin.reseed(99)
    share = np.mean([np.eye(K)[twin.select(rows.arms[0])] for _ in range(2000)], axis=0)
    assert abs(share - found[0]).max() < 0.06  # 4 deviations of the difference
    np.testing.assert_array_equal(found, probabilities(policy, rows, draws=2000))


def test_low_rank_policies_are_uniform_while_they_explore():
    rows, counts = rows_of(fewer=True)
    policy = ht.make_policy("Hvt-LowRank", dim=D, tail=TAIL, horizon=900)
    assert policy.explores
    found = probabilities(policy, rows)
    np.testing.assert_allclose(found.max(axis=1), 1.0 / counts)


def test_a_policy_of_a_users_own_is_asked_row_by_row():
    class Second(ht.Policy):
        name, info = "second", ht.OFUL.info

        def __init__(self, dim):
            self.dim = dim

        def select(self, arms):
            return 1

        def update(self, x, reward, *, scale=None):
            pass

        theta = property(lambda self: np.zeros(self.dim))
        radius = rounds = 0

        def state_arrays(self):
            return {}

        def restore(self, arrays):
            pass

    rows, _ = rows_of(fewer=True)
    np.testing.assert_array_equal(probabilities(Second(D), rows), np.tile(np.eye(K)[1], (N, 1)))


def test_callables_arrays_and_columns_are_targets_too():
    log, _ = a_log()
    whole = np.random.default_rng(2).dirichlet(np.ones(K), N)
    for policy in (
        whole,
        whole.tolist(),
        lambda rows: whole[rows.start : rows.start + len(rows.action)],
        "mine",
    ):
        parts = chunks({**log, "mine": whole}, columns={"target": "mine"}, size=7)
        target = Target(policy)
        np.testing.assert_allclose(np.concatenate([target(rows) for rows in parts]), whole)
    taken = whole[np.arange(N), log["action"]]
    got = np.concatenate([Target(taken)(rows) for rows in chunks(log, size=7)])
    np.testing.assert_array_equal(got, taken)
    mixed = np.concatenate([Target(taken, explore=0.5)(rows) for rows in chunks(log, size=7)])
    np.testing.assert_allclose(mixed, 0.5 * taken + 0.5 / K)


def test_what_are_no_probabilities_is_refused_by_row():
    rows, _ = rows_of()
    good = np.full((N, K), 1.0 / K)
    for spoil, words in [
        ((3, 0, 1.2), "must lie from 0 to 1"),
        ((3, 0, np.nan), "must lie from 0 to 1"),
        ((3, 0, 0.5), "add up to 1"),
    ]:
        bad = good.copy()
        bad[spoil[0], spoil[1]] = spoil[2]
        for policy in (bad, lambda rows, bad=bad: bad):
            with pytest.raises(ValueError, match=rf"log, row 3: the probabilities of .*{words}"):
                probabilities(policy, rows)
    with pytest.raises(ValueError, match=r"must have shape \(40,\) or \(40, 5\); got \(40, 4\)"):
        probabilities(lambda rows: good[:, :4], rows)
    with pytest.raises(ValueError, match="probabilities of 39 rows were given"):
        probabilities(good[:39], rows)
    with pytest.raises(ValueError, match="of 40 rows were given, and the log has 39"):
        Target(good).finish(39)
    with pytest.raises(ValueError, match="the target's column was not read"):
        probabilities("mine", rows)
    fewer, counts = rows_of(fewer=True)
    short = int(np.argmax(counts < K))
    with pytest.raises(ValueError, match=rf"row {short}: .*of arms that were offered"):
        probabilities(good, fewer)


def test_arms_that_a_policy_cannot_choose_among_are_refused_by_row_and_column():
    log, _ = a_log()
    policy = ht.HvtUCB(D, arm_bound=1.0)
    log["arms"][17, 2] = 50.0
    [rows] = chunks(log)
    with pytest.raises(ValueError, match=r"log, row 17, column 'arms': HvtUCB.select: arms\[2\]"):
        probabilities(policy, rows)
    with pytest.raises(ValueError, match="has 3 features per arm, and HvtUCB was built for 4"):
        probabilities(ht.HvtUCB(4), rows)
    with pytest.raises(ValueError, match="column 'arms': is missing"):
        probabilities(policy, rows._replace(arms=None))
    with pytest.raises(TypeError, match="pass a policy, not its class"):
        probabilities(ht.HvtUCB, rows)
