"""Arms of the user's own: dealt as they are drawn, checked, and refused where they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.environments import ArmSet, ArmSetBandit
from heavytail.simulation.distribution import distribution


class Ring(ArmSet):
    def __init__(self, count=5, radius=1.0):
        self.count, self.radius = count, radius

    def draw(self, rng, dim):
        angle = 2 * np.pi * (np.arange(self.count) / self.count + rng.random())
        return self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def __repr__(self):
        return f"Ring({self.count})"


def world(**more) -> ArmSetBandit:
    return ArmSetBandit(2, arms=Ring(), noise=ht.noise.Gaussian(), **more)


def test_a_world_with_an_arm_set_keeps_the_promises_of_every_world():
    for place in (world(), world(offered=3), world(fresh=True)):
        ht.checks.check_environment(place)
    assert repr(world()).startswith("ArmSetBandit(dim=2, arms=5, noise=")
    assert repr(world()).endswith("arm_set=Ring(5))")


def test_arms_are_those_of_the_set_and_means_follow_theta():
    seed = np.random.SeedSequence(3)
    block = next(iter(world().blocks(seed, 4)))
    angles = np.sort(np.arctan2(block.arms[:, 1], block.arms[:, 0]))
    np.testing.assert_allclose(np.diff(angles), 2 * np.pi / 5)
    np.testing.assert_allclose(block.means, block.arms @ world().theta(seed))
    fresh = next(iter(world(fresh=True).blocks(seed, 4)))
    assert fresh.arms.shape == (4, 5, 2)
    assert not np.array_equal(fresh.arms[0], fresh.arms[1])


def test_arms_that_are_too_long_or_of_another_shape_are_refused():
    long = ArmSetBandit(2, arms=Ring(radius=2.0), noise=ht.noise.Gaussian())
    with pytest.raises(ValueError, match=r"no longer than arm_bound = 1; got one of length 2\."):
        next(iter(long.blocks(np.random.SeedSequence(0), 1)))
    high = ArmSetBandit(3, arms=Ring(), noise=ht.noise.Gaussian())
    with pytest.raises(ValueError, match=r"shape \(5, 3\), \(count, dim\); got float64 of shape"):
        next(iter(high.blocks(np.random.SeedSequence(0), 1)))
    with pytest.raises(TypeError, match=r"ArmSetBandit.arms must be an ArmSet; got 5"):
        ArmSetBandit(2, arms=5, noise=ht.noise.Gaussian())


def test_worlds_drawn_by_counters_refuse_them():
    with pytest.raises(ValueError, match="cannot be drawn by counters"):
        distribution(ht.TwinUCB(2), world(), rounds=5, trials=2, seed=0)

    class Mine(ht.LinearBandit):
        pass

    mine = Mine(2, arms=5, noise=ht.noise.Gaussian())
    with pytest.raises(ValueError, match="cannot be drawn by counters"):
        distribution(ht.TwinUCB(2), mine, rounds=5, trials=2, seed=0)
