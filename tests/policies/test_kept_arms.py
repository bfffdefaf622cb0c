"""Arms that come again cost less and decide the same; what is fused stays what it was."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks.policies import paid
from heavytail.kernels import index
from heavytail.kernels.gram import shrink, transform
from heavytail.kernels.layout import DIRECTION, FEATURE, INVERSE, rows
from heavytail.policies import ALL, PackedPolicy

TAIL = ht.MomentBound(order=1.5, scale=1.0)
DIM = index.WIDE + 1
KEEPING = [kind for kind in ALL if issubclass(kind, PackedPolicy) and kind.algorithm.rank_one]


def build(kind: type[PackedPolicy]) -> PackedPolicy:
    policy = ht.make_policy(kind.name, dim=DIM, horizon=10_000, tail=TAIL, arms=9)
    assert isinstance(policy, PackedPolicy)
    assert policy.algorithm.keeps_scores
    return policy


def draw(rng: np.random.Generator, count: int = 9) -> np.ndarray:
    arms = rng.uniform(-1.0, 1.0, (count, DIM))
    return arms / np.linalg.norm(arms, axis=1, keepdims=True) * 0.9


def best(policy: PackedPolicy, arms: np.ndarray, choice: int) -> bool:
    """Whether ``choice`` is of largest index by the formula, up to rounding; what the kernel
    chooses from the state alone where the index is another.
    """
    if policy.algorithm.select is not index.select:
        return bool(choice == policy.algorithm.select(*policy.packed, arms))
    values = [float(x @ policy.theta + policy.radius * policy.width(x)) for x in arms]
    return values[choice] >= max(values) - 1e-10 * abs(max(values))


@pytest.mark.parametrize("kind", KEEPING, ids=lambda kind: kind.__name__)
def test_repeated_changed_and_other_arms_are_chosen_from_alike(kind: type[PackedPolicy]) -> None:
    policy = build(kind)
    rng = np.random.default_rng(3)
    arms, pool = draw(rng), ht.Pool(draw(rng))
    for _ in range(250):
        what = rng.integers(6)
        if what == 0:
            arms = draw(rng)
        elif what == 1:  # in place, one entry
            arms[rng.integers(len(arms)), rng.integers(DIM)] *= 0.5
        elif what == 2:
            arms = draw(rng, int(rng.integers(1, 14)))
        shown = pool.arms if what == 3 else arms
        choice = policy.select(pool if what == 3 else arms)
        assert best(policy, shown, choice)
        assert best(policy, shown, policy.algorithm.select(*policy.packed, shown))
        for _ in range(int(rng.integers(0, 3))):
            reward = float(shown[choice].sum() + rng.standard_t(1.7))
            policy.update(shown[choice], paid(policy, reward))


def test_many_sets_are_chosen_from_as_each_alone() -> None:
    policy = ht.HvtUCB(DIM, tail=TAIL)
    rng = np.random.default_rng(4)
    sets = np.stack([draw(rng) for _ in range(6)])
    sets[3] = sets[2]
    policy.update_many(sets[0], rng.standard_t(1.7, 9))
    choices = policy.select_many(sets)
    assert all(best(policy, arms, choice) for arms, choice in zip(sets, choices, strict=True))
    assert choices.tolist() == [policy.select(arms) for arms in sets]
    sets[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"set 4: arms\[1\] must be finite"):
        policy.select_many(sets)


def test_arms_changed_in_place_are_seen() -> None:
    policy = ht.HvtUCB(DIM, tail=TAIL)
    arms = np.zeros((4, DIM))
    arms[2, 0] = 0.5
    assert policy.select(arms) == 2
    arms[2, 0], arms[3, -1] = 0.0, 0.5
    assert policy.select(arms) == 3
    arms[1, 1] = np.nan
    for _ in range(2):
        with pytest.raises(ValueError, match=r"arms\[1\] must be finite"):
            policy.select(arms)
    arms[1, 1] = 0.0
    assert policy.select(arms) == 3
    arms[0, 0] = 7.0
    for _ in range(2):
        with pytest.raises(ValueError, match=r"arms\[0\] has norm 7"):
            policy.select(arms)
    with pytest.raises(ValueError, match="arms is empty"):
        policy.select(np.empty((0, DIM)))


def test_a_new_start_is_seen_by_arms_that_were_kept() -> None:
    policy = ht.HvtUCB(DIM, tail=TAIL)
    arms = 0.5 * np.eye(DIM)
    assert policy.select(arms) == 0
    theta = np.zeros(DIM)
    theta[5] = 0.9
    policy.start_from(theta, 1e-4 * np.eye(DIM))
    assert policy.select(arms) == 5


def test_what_is_kept_of_arms_is_no_part_of_the_state() -> None:
    policy, fresh = (ht.HvtUCB(DIM, tail=TAIL) for _ in range(2))
    rng = np.random.default_rng(0)
    arms = draw(rng, 50)
    before = policy.state_bytes
    for _ in range(5):
        choice = policy.select(arms)
        policy.update(arms[choice], 1.0)
        fresh.update(arms[choice], 1.0)
    assert policy.state_bytes == before
    assert len(pickle.dumps(policy)) == len(pickle.dumps(fresh))
    twin = policy.clone()
    assert twin.select(arms) == policy.select(arms)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 12, 33])
def test_the_inverse_keeps_its_symmetry_to_the_bit_and_its_product(size: int) -> None:
    rng = np.random.default_rng(size)
    M = np.zeros((rows(size), size))
    P = M[INVERSE : INVERSE + size]
    P[...] = np.eye(size) / 2.0
    V = 2.0 * np.eye(size)
    for _ in range(100):
        x = rng.standard_normal(size)
        M[FEATURE] = x
        squared = transform(M)
        np.testing.assert_allclose(M[DIRECTION], P @ x, rtol=1e-12, atol=1e-14)
        assert squared == pytest.approx(x @ P @ x, rel=1e-12)
        shrink(M, 1.0 / (1.0 + squared))
        V += np.outer(x, x)
        assert np.array_equal(P, P.T)
    np.testing.assert_allclose(V @ P, np.eye(size), atol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 11, 16])
@pytest.mark.parametrize("count", [1, 2, 7, index.WIDE, 300])
def test_scores_are_the_formula_for_every_size(dim: int, count: int) -> None:
    policy = ht.HvtUCB(dim, tail=TAIL)
    rng = np.random.default_rng(dim)
    arms = rng.uniform(-0.2, 0.2, (count, dim))
    for _ in range(10):
        policy.update(arms[rng.integers(count)], float(rng.standard_t(1.7)))
    scores = np.empty((index.SCORES, count))
    pool = np.ascontiguousarray(arms.T)
    assert index.rate(*policy.packed, pool, scores) == 0
    x = arms[-1]
    for _ in range(2):  # as rated, and as brought over an update
        widths = [policy.width(a) ** 2 for a in arms]
        np.testing.assert_allclose(scores[index.SQUARED], widths, rtol=1e-10)
        np.testing.assert_allclose(scores[index.MEAN], arms @ policy.theta, rtol=1e-9, atol=1e-14)
        policy.update(x, 0.3)
        index.follow(*policy.packed, pool, scores)
