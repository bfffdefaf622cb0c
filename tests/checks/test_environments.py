"""Every world passes the battery; broken ones prove that each check can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks import ENVIRONMENT_CHECKS, CheckFailed
from heavytail.environments import BLOCK, Block, Environment

WORLDS = {
    "pairs": ht.LowRankBandit(4, 3, 2, 5, ht.noise.StudentT(1.7)),
    "matrices": ht.LowRankBandit(3, 3, 1, 5, ht.noise.Gaussian(), form="matrices", fresh=True),
    "pool": ht.LinearBandit(3, 10, ht.noise.StudentT(2.1)),
    "part of a pool": ht.LinearBandit(2, 10, ht.noise.Pareto(1.5), offered=4),
    "fresh arms": ht.LinearBandit(2, 10, ht.noise.Gaussian(), fresh=True),
    "changing scale": ht.LinearBandit(2, 10, ht.noise.Scaled(ht.noise.Fisk(1.5), 2.0)),
    "by the longest": ht.LinearBandit(5, 10, ht.noise.Stable(1.5, 0.5), normalize="max"),
    "one arm, one dimension": ht.LinearBandit(1, 1, ht.noise.Lomax(1.5), arm_bound=3.0),
    "log-normal": ht.LinearBandit(2, 3, ht.noise.LogNormal(1.0), theta_bound=5.0),
    "uniform": ht.LinearBandit(2, 3, ht.noise.Uniform()),
    "contaminated": ht.LinearBandit(2, 3, ht.noise.Contaminated()),
    **{skew: ht.SkewedBandit(2, 10, skew) for skew in ht.environments.SKEWS},
    "dear, a part": ht.SkewedBandit(3, 10, "dear", offered=4),
    "jackpot, fresh": ht.SkewedBandit(1, 10, "jackpot", fresh=True),
    **{link: ht.LinkBandit(3, 10, link, base=-1.0) for link in ht.links.LINKS},
    "counts with outliers": ht.LinkBandit(2, 10, "log", outliers=0.01, arm_bound=2.0),
    "clicks, a part": ht.LinkBandit(2, 10, "logistic", theta_bound=5.0, offered=4),
    "counts, fresh": ht.LinkBandit(1, 10, "log", fresh=True),
}


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_passes_the_battery(name):
    ht.checks.check_environment(WORLDS[name])


# --- broken worlds


class Broken(Environment):
    """A small sound world whose subclasses break one thing each."""

    dim = 2
    arm_bound = 1.0

    def deal(self, seed):
        rng = np.random.default_rng(seed)
        arms = rng.uniform(-0.7, 0.7, (4, 2))
        while True:
            noise = rng.standard_normal(BLOCK)
            yield self.spoil(Block(arms=arms, means=arms @ np.ones(2), noise=noise))

    def spoil(self, block):
        return block


class DealsNaN(Broken):
    def spoil(self, block):
        return Block(arms=block.arms, means=block.means * np.nan, noise=block.noise)


class DealsAtRandom(Broken):
    def spoil(self, block):
        return Block(arms=block.arms, means=block.means, noise=np.random.default_rng().random(4096))


class DealsByLength(Broken):
    def blocks(self, seed, rounds):
        for block in super().blocks(seed, rounds):
            yield Block(arms=block.arms, means=block.means, noise=block.noise / rounds)


class DealsTooLong(Broken):
    def spoil(self, block):
        return Block(arms=3 * block.arms, means=block.means, noise=block.noise)


class DealsInOrder(Broken):
    def spoil(self, block):
        order = np.argsort(block.means)
        return Block(arms=block.arms[order], means=block.means[order], noise=block.noise)


class Skewed(Broken):
    """The sound world with shapes and events."""

    def spoil(self, block):
        shapes = np.tile([0.0, 1.0, 0.5, 1.0], (4, 1))
        events = np.random.default_rng(0).random((BLOCK, 2))
        return self.bend(replace(block, shapes=shapes, events=events))

    def bend(self, block):
        return block


class DealsChancesAboveOne(Skewed):
    def bend(self, block):
        return replace(block, shapes=4.0 * block.shapes)


class DealsShapesOfTooFewArms(Skewed):
    def bend(self, block):
        return replace(block, shapes=block.shapes[1:])


class DealsShapesWithoutEvents(Skewed):
    def bend(self, block):
        return replace(block, events=None)


class DealsEventsThatAreNone(Skewed):
    def bend(self, block):
        return replace(block, events=block.events * np.nan)


class DealsCountsOfNegativeMean(Skewed):
    def bend(self, block):
        return replace(block, shapes=block.shapes * [1, 1, 1, -1], counts=True)


class DealsCountsWithoutShapes(Skewed):
    def bend(self, block):
        return replace(block, shapes=None, counts=True)


class DealsEventsAtRandom(Skewed):
    def bend(self, block):
        return replace(block, events=np.random.default_rng().random((BLOCK, 2)))


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("deals_what_was_asked", DealsChancesAboveOne),
        ("deals_what_was_asked", DealsShapesOfTooFewArms),
        ("deals_what_was_asked", DealsShapesWithoutEvents),
        ("deals_what_was_asked", DealsEventsThatAreNone),
        ("deals_what_was_asked", DealsCountsOfNegativeMean),
        ("deals_what_was_asked", DealsCountsWithoutShapes),
        ("deals_the_same_twice", DealsEventsAtRandom),
        ("begins_alike_at_any_length", DealsEventsAtRandom),
    ],
)
def test_shapes_and_events_are_checked_too(check, broken):
    ENVIRONMENT_CHECKS[check](Skewed())
    with pytest.raises(CheckFailed):
        ENVIRONMENT_CHECKS[check](broken())


BROKEN_WORLDS = {
    "deals_what_was_asked": DealsNaN,
    "deals_the_same_twice": DealsAtRandom,
    "begins_alike_at_any_length": DealsByLength,
    "keeps_its_bounds": DealsTooLong,
    "hides_nothing_in_its_order": DealsInOrder,
}


def test_the_sound_world_under_the_broken_ones_passes():
    ht.checks.check_environment(Broken())


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
def test_each_world_check_can_fail(check):
    with pytest.raises(CheckFailed):
        ENVIRONMENT_CHECKS[check](BROKEN_WORLDS[check]())
