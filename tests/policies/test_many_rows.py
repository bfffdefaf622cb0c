"""Pools and batches are conveniences: they change what a round costs, never what it decides."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks.policies import paid
from heavytail.policies import ALL, PackedPolicy

PACKED = [kind for kind in ALL if issubclass(kind, PackedPolicy)]
TAIL = ht.MomentBound(order=2.0, scale=1.0)


def build(kind: type[PackedPolicy]) -> PackedPolicy:
    policy = ht.make_policy(kind.name, dim=3, horizon=2000, tail=TAIL, arms=12)
    assert isinstance(policy, PackedPolicy)
    return policy


def states_equal(a: PackedPolicy, b: PackedPolicy) -> bool:
    mine, theirs = a.state_arrays(), b.state_arrays()
    return all(np.array_equal(mine[key], theirs[key]) for key in mine)


def stream(rounds: int, kind: type[PackedPolicy] = ht.OFUL) -> tuple[np.ndarray, np.ndarray]:
    """Rows and rewards such as ``kind`` takes."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.5, 0.5, (rounds, 3))
    rewards = X @ [0.5, -0.5, 0.5] + rng.standard_t(1.7, rounds)
    return X, np.array([paid(build(kind), float(reward)) for reward in rewards])


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.__name__)
def test_a_pool_changes_no_decision(kind: type[PackedPolicy]) -> None:
    rng = np.random.default_rng(2)
    arms = rng.uniform(-0.5, 0.5, (12, 3))
    pool = ht.Pool(arms)
    pooled, plain = build(kind), build(kind)
    for t in range(150):
        choice = pooled.select(pool)
        assert choice == plain.select(arms)
        reward = paid(plain, float(arms[choice].sum() + rng.standard_t(1.7)))
        for _ in range(1 + (t % 50 == 49)):  # two updates between selections must be noticed
            pooled.update(pool[choice], reward)
            plain.update(arms[choice], reward)
    assert states_equal(pooled, plain)


def test_a_pool_forgets_with_the_policy() -> None:
    pool = ht.Pool(np.eye(3) * 0.5)
    policy = ht.OFUL(3, tail=TAIL)
    start = policy.clone()
    policy.update(pool[0], 5.0)
    assert policy.select(pool) == policy.select(pool.arms)
    policy.restore(start.state_arrays())
    policy.update(pool[2], 5.0)
    assert policy.select(pool) == policy.select(pool.arms)


def test_a_pool_is_a_copy_and_speaks_as_an_array() -> None:
    arms = np.eye(3)
    pool = ht.Pool(arms)
    arms[0] = 7.0
    np.testing.assert_array_equal(np.asarray(pool), np.eye(3))
    assert len(pool) == 3
    assert repr(pool) == "Pool(3 arms of dimension 3)"


def test_a_pool_that_does_not_fit_is_refused() -> None:
    policy = ht.HvtUCB(3, tail=TAIL)
    with pytest.raises(ValueError, match=r"HvtUCB.select: arms must have shape \(n, 3\)"):
        policy.select(ht.Pool([[1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"arms\[1\] has norm 5"):
        policy.select(ht.Pool([[1.0, 0.0, 0.0], [3.0, 4.0, 0.0]]))
    with pytest.raises(ValueError, match=r"arms\[1\] has norm 5"):  # and again
        policy.select(ht.Pool([[1.0, 0.0, 0.0], [3.0, 4.0, 0.0]]))
    with pytest.raises(ValueError, match="Pool: arms must have shape"):
        ht.Pool([1.0, 2.0])


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.__name__)
def test_learning_in_a_batch_is_learning_row_by_row(kind: type[PackedPolicy]) -> None:
    X, rewards = stream(60, kind)
    batch, rows = build(kind), build(kind)
    batch.update_many(X, rewards)
    for x, reward in zip(X, rewards, strict=True):
        rows.update(x, float(reward))
    assert states_equal(batch, rows)


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.__name__)
def test_a_batch_of_choices_is_each_choice(kind: type[PackedPolicy]) -> None:
    X, rewards = stream(60, kind)
    policy = build(kind)
    policy.update_many(X, rewards, scale=0.5)
    sets = np.random.default_rng(0).uniform(-0.5, 0.5, (8, 5, 3))
    twin = policy.clone()
    assert policy.select_many(sets).tolist() == [twin.select(arms) for arms in sets]
    assert states_equal(policy, twin)


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.__name__)
def test_a_batch_with_a_bad_set_draws_nothing(kind: type[PackedPolicy]) -> None:
    policy, untouched = build(kind), build(kind)
    sets = np.full((4, 5, 3), 0.1)
    sets[2, 1, 0] = np.nan
    with pytest.raises(ValueError, match=r"set 2: arms\[1\] must be finite"):
        policy.select_many(sets)
    assert states_equal(policy, untouched)


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("what", ["x", "reward", "scale"])
def test_a_batch_with_a_bad_row_teaches_nothing(kind: type[PackedPolicy], what: str) -> None:
    X, rewards = stream(20, kind)
    scale = np.ones(20)
    {"x": X[7], "reward": rewards[7:8], "scale": scale[7:8]}[what][:] = np.nan
    policy, untouched = build(kind), build(kind)
    with pytest.raises(ValueError, match=r"row 7: .* No row was learned"):
        policy.update_many(X, rewards, scale=scale)
    assert states_equal(policy, untouched)


def test_batches_of_the_wrong_shape_are_refused() -> None:
    policy = ht.HvtUCB(3, tail=TAIL)
    with pytest.raises(ValueError, match=r"HvtUCB.update_many: X must have shape \(any, 3\)"):
        policy.update_many(np.zeros((4, 2)), np.zeros(4))
    with pytest.raises(ValueError, match=r"rewards must have shape \(4,\)"):
        policy.update_many(np.zeros((4, 3)), np.zeros(5))
    with pytest.raises(ValueError, match=r"arms must have shape \(any, any, 3\)"):
        policy.select_many(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"set 1: arms\[0\] must be finite"):
        policy.select_many([[[0.0, 0.0, 0.0]], [[np.nan, 0.0, 0.0]]])


def test_a_batch_past_the_horizon_warns_once() -> None:
    policy = build(ht.HvtUCB)
    X, rewards = stream(2100)
    with pytest.warns(UserWarning, match="past horizon=2000"):
        policy.update_many(X, rewards)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.update_many(X, rewards)
