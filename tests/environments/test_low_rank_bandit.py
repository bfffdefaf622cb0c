"""The world of users and items."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht


def block(seed=0, **options):
    world = ht.LowRankBandit(5, 4, 2, 7, ht.noise.StudentT(1.7), **options)
    sequence = np.random.SeedSequence(seed)
    return world, world.theta(sequence), next(world.deal(sequence))


@pytest.mark.parametrize("fresh", [False, True])
def test_means_are_bilinear_in_a_user_and_an_item(fresh):
    world, theta, dealt = block(fresh=fresh)
    users, items = dealt.arms[..., :5], dealt.arms[..., 5:]
    np.testing.assert_allclose(np.linalg.norm(users, axis=-1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(items, axis=-1), 1.0)
    assert (users == users[:, :1]).all()
    assert (items == items[:1]).all() != fresh
    want = np.einsum("tni,ij,tnj->tn", users, theta, items)
    np.testing.assert_allclose(dealt.means, want, atol=1e-13)
    assert world.dim == 9


def test_theta_has_its_rank_and_its_length():
    _, theta, _ = block(theta_bound=3.0)
    values = np.linalg.svd(theta)[1]
    np.testing.assert_allclose(values, [3.0 / np.sqrt(2), 3.0 / np.sqrt(2), 0.0, 0.0], atol=1e-12)
    assert np.linalg.norm(block()[1]) == pytest.approx(np.sqrt(20.0))


def test_both_forms_deal_the_same_rounds():
    _, _, pairs = block()
    world, _, matrices = block(form="matrices")
    formed = pairs.arms[..., :5, None] * pairs.arms[..., None, 5:]
    np.testing.assert_array_equal(matrices.arms, formed.reshape(*formed.shape[:2], 20))
    np.testing.assert_array_equal(matrices.means, pairs.means)
    np.testing.assert_array_equal(matrices.noise, pairs.noise)
    assert world.dim == 20


def test_it_is_described_as_it_was_made():
    world, _, _ = block(form="matrices", fresh=True, theta_bound=2.0)
    assert repr(world) == (
        "LowRankBandit(d1=5, d2=4, rank=2, arms=7, noise=StudentT(df=1.7), theta_bound=2.0, "
        "form='matrices', fresh=True)"
    )
    told = world.describe()
    assert told.pop("noise")
    assert told == {
        "d1": 5,
        "d2": 4,
        "rank": 2,
        "arms": 7,
        "theta_bound": 2.0,
        "form": "matrices",
        "fresh": True,
    }
    assert world.tail_index == pytest.approx(1.7)
