"""Low-rank policies: what is refused, and what odd rounds and files leave behind."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.low_rank import played, rounds
from tests.storage_tools import rewrite

import heavytail as ht
from heavytail.kernels import low_rank
from heavytail.kernels.layout import INVERSE, RADIUS
from heavytail.kernels.low_rank import SHAPE
from heavytail.policies import lotus, low_estr

TAIL = ht.MomentBound(order=1.6, scale=2.0)
L = SHAPE


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: ht.HvtLowRank(4, 3, rank=4),
            r"HvtLowRank\.rank must be at most min\(d1, d2\) = 3",
        ),
        (lambda: ht.HvtLowRank(4, 3, rank=0), r"HvtLowRank\.rank must be a whole number"),
        (lambda: ht.HvtLowRank(4, 3, form="rows"), r"HvtLowRank\.form must be"),
        (lambda: ht.HvtLowRank(4, 3, explore=2), r"HvtLowRank\.explore must be .* at least 6"),
        (lambda: ht.HvtLowRank(4, 3, rank=1, kept=6), r"HvtLowRank\.kept must be .* at least 7"),
        (lambda: ht.LowESTR(4, 3, horizon=7), r"horizon must be above the 7 rounds that explore"),
        (lambda: ht.LowESTR(4, 3, horizon=90, ridge_outside=0.5), r"LowESTR\.ridge_outside must"),
        (lambda: ht.LowESTR(4, 3, horizon=90, rank=2, smallest=0.8), r"LowESTR\.smallest must"),
        (lambda: ht.LOTUS(4, 3, tail=None), r"LOTUS\.tail must be a MomentBound"),
        (lambda: ht.LOTUS(4, 3, tail=TAIL, explore_scale=0.0), r"LOTUS\.explore_scale must"),
        (lambda: ht.LowRankBandit(4, 3, 4, 5, ht.noise.Gaussian()), r"rank must be at most 3"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_work(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_arms_of_another_shape_are_refused_with_what_is_likely_meant():
    policy, pairs = ht.HvtLowRank(4, 3), ht.HvtLowRank(4, 3, form="pairs")
    for call, words in (
        (lambda: policy.select(np.zeros((2, 3, 4))), r"select: got shape .*d1 and d2 swapped"),
        (lambda: policy.update(np.zeros((3, 4)), 1.0), r"update: got shape .*d1 and d2 swapped"),
        (lambda: policy.select(np.zeros((2, 7))), r'build the policy with form="pairs"'),
        (lambda: policy.update(np.zeros(7), 1.0), r'build the policy with form="pairs"'),
        (lambda: policy.select(np.zeros((4, 3))), r"One matrix is offered as X\[None\]"),
        (lambda: policy.select(np.zeros((2, 5))), r"arms must have shape \(n, 12\)"),
        (lambda: policy.update(np.full((4, 3), 0.5), 1.0), r"above the bound 1\."),
        (lambda: pairs.select(np.zeros((2, 4, 3))), r'build the policy with form="matrices"'),
        (lambda: pairs.update(np.full(7, 0.9), 1.0), r"norm 2.38118, above the bound 1.41421"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert policy.rounds == pairs.rounds == 0
    wide = ht.HvtLowRank(4, 3, form="pairs", arm_bound=2.4)
    wide.update(np.full(7, 0.9), 1.0)


def test_masks_and_bools_in_matrices_are_seen():
    policy = ht.HvtLowRank(2, 2)
    masked = np.ma.array(np.zeros((3, 2, 2)), mask=np.eye(2) * np.ones((3, 1, 1)))
    with pytest.raises(ValueError, match="masked"):
        policy.select(masked)
    with pytest.raises(TypeError, match="bool"):
        policy.update([[0.1, True], [0.2, 0.3]], 1.0)


@pytest.mark.parametrize("rank", [1.5, "2", True])
def test_a_rank_that_is_no_whole_number_is_refused_by_name(rank):
    with pytest.raises((TypeError, ValueError), match=r"HvtLowRank\.rank must be a whole number"):
        ht.HvtLowRank(4, 3, rank=rank)


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (np.zeros((2, 3)), np.zeros((4, 3)), "as many rows, or one of them one; got 2 and 4"),
        (np.zeros((2, 3, 1)), np.zeros(3), "left must be one vector or one a row"),
        (["a"], np.zeros(3), "left must be numbers"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(left, right, words):
    with pytest.raises((ValueError, TypeError), match=words):
        ht.pairs(left, right)


def test_either_side_of_a_pair_may_be_one_vector():
    user, items = np.array([1.0, 2.0]), np.eye(3)
    np.testing.assert_array_equal(ht.pairs(user, items)[:, :2], np.tile(user, (3, 1)))
    np.testing.assert_array_equal(ht.pairs(items, user)[:, 3:], np.tile(user, (3, 1)))
    np.testing.assert_array_equal(ht.pairs(items, items), np.hstack([items, items]))
    assert ht.pairs(user, user).shape == (1, 4)


def test_rewards_of_any_size_leave_what_can_be_copied():
    for size in (1e-200, 1e-60, 1e60, 1e139, 1e141, 1e300):
        for make in (
            lambda: ht.HvtLowRank(3, 2, explore=20),
            lambda: ht.LowESTR(3, 2, horizon=900, explore=20),
            lambda: ht.LOTUS(3, 2, tail=TAIL),
        ):
            policy = make()
            for t, (X, paid) in enumerate(rounds(3, 2, 80, seed=11)):
                scale = size if t % 3 else 1.0
                try:
                    policy.update(X[0], paid[0] * scale)
                except ValueError as error:
                    assert "floating-point range" in str(error)  # noqa: PT017
            assert np.isfinite(policy.matrix).all()
            twin = policy.clone()
            assert twin.select(X) == policy.select(X)


def test_the_names_of_rows_are_where_the_kernels_look():
    policy = ht.HvtLowRank(4, 3)
    s, M = policy.packed[:2]
    assert policy._rows["left"].start == low_rank.left_row(M)
    assert policy._rows["right"].start == low_rank.right_row(s, M)
    assert policy._rows["estimate"].start == low_rank.estimate_row(s, M)
    assert policy._rows["estimate"].stop == low_rank.room_row(s, M)
    assert low_estr.S.KEY == lotus.S.KEY
    assert RADIUS < INVERSE < low_rank.left_row(M)


def test_rounds_that_say_nothing_are_explored_past():
    told = {"rank": 1, "form": "pairs"}
    world = ht.LowRankBandit(4, 4, 1, 6, ht.noise.Gaussian(0.5), fresh=True)
    block = next(world.deal(np.random.SeedSequence(4)))
    made = ht.HvtLowRank(4, 4, **told), ht.LowESTR(4, 4, horizon=5000, explore=30, **told)
    for policy in made:
        for t in range(100):
            policy.update(block.arms[t][0], 0.0)
        assert policy.explores
        assert policy.kept <= policy._state.most_kept
        assert policy.clone().explores
        for t in range(100, 200):
            policy.update(block.arms[t][0], block.means[t][0] + block.noise[t])
        assert not policy.explores
        policy.clone()


def test_constant_rewards_and_arms_leave_what_can_be_copied():
    for make, x in (
        (lambda: ht.HvtLowRank(3, 2), np.full(6, 0.3)),
        (lambda: ht.HvtLowRank(2, 4, explore=9), np.full(8, 0.3)),
        (lambda: ht.LowESTR(3, 2, horizon=900, explore=10), np.zeros(6)),
        (lambda: ht.LOTUS(3, 2, tail=TAIL, threshold_scale=math.inf), np.full(6, 0.3)),
    ):
        policy = make()
        for _ in range(200):
            policy.update(x, 3.0)
            policy.clone()


def test_scales_far_apart_leave_what_can_be_copied():
    policy = ht.HvtLowRank(1, 1)
    for x, reward, scale in (
        (-0.99, 1e102, None),
        (0.99, 1.0, None),
        (-0.99, 1.0, None),
        (-0.99, 1.0, None),
        (0.99, 1e25, 1e-72),
        (-0.99, 1.0, None),
        (0.5, 2.0, 3.0),
    ):
        policy.update([x], reward, scale=scale)
    policy.clone()


def test_lotus_is_told_more_to_explore_than_a_batch_has():
    for told in ({"explore_scale": 1e17}, {"smallest": 1e-100}, {"theta_bound": 1e-90}):
        assert ht.LOTUS(3, 2, tail=TAIL, **told).clone().explores


@pytest.mark.parametrize("value", [2.0, 0.0, 1.5, np.nan, 1e300])
@pytest.mark.parametrize("slot", ["RANK", "KEPT", "D1"])
def test_a_forged_shape_is_refused(slot, value, tmp_path):
    path = tmp_path / "it.npz"
    played(ht.HvtLowRank(3, 2, rank=1), 3, 2, 40).save(path)
    rewrite(path, lambda _, arrays: arrays["shape"].__setitem__(getattr(L, slot), value))
    with pytest.raises(ValueError, match="HvtLowRank"):
        ht.load(path)


def test_forged_rewards_are_refused(tmp_path):
    path = tmp_path / "it.npz"
    played(ht.HvtLowRank(3, 2, rank=1), 3, 2, 40).save(path)
    rewrite(path, lambda _, arrays: arrays["history"].__setitem__((3, 6), 1e300))
    with pytest.raises(ValueError, match="HvtLowRank"):
        ht.load(path)


def test_two_sides_and_another_form_are_told_what_to_do():
    policy = ht.HvtLowRank(3, 2, rank=1, form="pairs")
    with pytest.raises(ValueError, match=r"ht\.pairs"):
        policy.select(([1.0, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]))
    world = ht.LowRankBandit(3, 2, 1, 4, ht.noise.Gaussian())
    with pytest.raises(ValueError, match="arms are pairs"):
        ht.simulate([ht.HvtLowRank(3, 2, rank=1)], world, rounds=5, trials=1, seed=0)
