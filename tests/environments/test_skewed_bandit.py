"""Worlds whose law depends on the arm: each kind, its mean, its moments, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.environments import SKEWS, Block, Skew, SkewedBandit
from heavytail.simulation.engines import _reward

PAID = 10 * math.exp(1.5**2 / 2)  # the mean of 10 exp(1.5 N)
NAMES = ["jackpot", "catastrophe", "size", "aligned", "conversion", "amounts", "dear"]
# At z and w: base, size of the noise, chance, amount; then intercept and slope of the mean.
LAWS: dict[str, Any] = {
    "jackpot": (lambda z, w: (-0.3 * z, 1, 0.02 * (1 + 0.9 * z), 1), 1.0, 0.6),
    "catastrophe": (lambda z, w: (0, 1, 0.02 * (1 - 0.9 * z), 1), -0.4, 0.36),
    "size": (lambda z, w: (z, 1 + 0.9 * w, 0, 1), 0.0, 1.0),
    "aligned": (lambda z, w: (0.5 * z, 1 + 0.9 * z, 0, 1), 0.0, 0.5),
    "conversion": (lambda z, w: (0, 1, 0.05 * (1 + 0.8 * z), 1), 0.05 * PAID, 0.04 * PAID),
    "amounts": (lambda z, w: (0, 1, 0.05, 1 + 0.8 * z), 0.05 * PAID, 0.04 * PAID),
    "dear": (
        lambda z, w: (0, 1, 0.05 * (1 + 0.4 * z) / (1 + 0.8 * z), 1 + 0.8 * z),
        0.05 * PAID,
        0.02 * PAID,
    ),
}
NOISES = {
    "jackpot": ht.noise.Uniform(),
    "catastrophe": ht.noise.Gaussian(0.3),
    "size": ht.noise.LogNormal(1.0),
    "aligned": ht.noise.LogNormal(1.0),
}
PAYMENTS = {
    "jackpot": lambda rng: np.full(4096, 50.0),
    "catastrophe": lambda rng: -20.0 / 3.0 * (1.0 + rng.pareto(1.5, 4096)),
    "size": lambda rng: np.zeros(4096),
    "aligned": lambda rng: np.zeros(4096),
    **dict.fromkeys(
        ("conversion", "amounts", "dear"),
        lambda rng: 10.0 * np.exp(1.5 * rng.standard_normal(4096)),
    ),
}


def child(i: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(7, spawn_key=(i,)))


def unit(rng: np.random.Generator) -> Any:
    v = rng.uniform(-1.0, 1.0, 3)
    return v / np.linalg.norm(v)


def deal(environment: SkewedBandit, rounds: int = 4096) -> Block:
    return next(environment.blocks(np.random.SeedSequence(7), rounds))


def test_these_are_the_kinds_there_are() -> None:
    assert list(SKEWS) == NAMES


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_world_deals_its_law_from_a_stream_for_each_thing(name: str, fresh: bool) -> None:
    block = deal(ht.SkewedBandit(3, 6, name, fresh=fresh))
    law, intercept, slope = LAWS[name]
    arms = child(1).uniform(-1.0, 1.0, (4096 if fresh else 1, 6, 3))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    arms = arms if fresh else arms[0]
    np.testing.assert_allclose(block.arms, arms, rtol=1e-12)
    z, w = arms @ unit(child(0)), arms @ unit(child(5))
    want = np.stack(np.broadcast_arrays(*law(z, w)), axis=-1)
    np.testing.assert_allclose(block.shapes, want, atol=1e-12)
    np.testing.assert_allclose(block.means, intercept + slope * z, atol=1e-12)
    noise = NOISES[name].sample(child(2), 4096) if name in NOISES else np.zeros(4096)
    np.testing.assert_array_equal(block.noise, noise)
    np.testing.assert_array_equal(block.events[:, 0], child(6).random(4096))
    np.testing.assert_allclose(block.events[:, 1], PAYMENTS[name](child(7)), rtol=1e-9, atol=1e-9)
    assert (block.factor, block.offered) == (None, None)


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_affine_and_is_that_of_the_law(name: str) -> None:
    world = ht.SkewedBandit(3, 40, name)
    block, skew = deal(world, 1), world.skew
    base, _, chance, amount = block.shapes.T
    np.testing.assert_allclose(block.means, base + chance * amount * skew.payment, atol=1e-12)
    features = np.column_stack([np.ones(40), block.arms])
    fit, *_ = np.linalg.lstsq(features, block.means, rcond=None)
    np.testing.assert_allclose(features @ fit, block.means, atol=1e-12)
    np.testing.assert_allclose(fit[1:], world.theta(np.random.SeedSequence(7)), atol=1e-12)
    assert np.linalg.norm(fit[1:]) == pytest.approx(world.theta_bound)


@pytest.mark.parametrize("offered", [None, 2])
@pytest.mark.parametrize("name", NAMES)
def test_rewards_average_to_the_mean_of_the_arm(name: str, offered: int | None) -> None:
    skew = SKEWS[name]
    if name == "catastrophe":  # an average of losses of index 1.5 does not settle
        skew = replace(skew, payment_noise=ht.noise.Pareto(4.0), payment_scale=-15.0)
    world = SkewedBandit(3, 4, skew, offered=offered)
    paid: list[list[float]] = [[] for _ in range(4)]
    means = None
    for block in world.blocks(np.random.SeedSequence(7), 20_000):
        means = block.means
        for t in range(block.length):
            for place in range(4 if offered is None else offered):
                arm = place if offered is None else block.offered[t, place]
                paid[arm].append(_reward(block, t, place))
    for rewards, mean in zip(paid, means, strict=True):
        error = np.std(rewards) / math.sqrt(len(rewards))
        assert abs(np.mean(rewards) - mean) < 5 * error


@pytest.mark.parametrize("name", ["conversion", "amounts", "dear"])
def test_most_visits_to_the_shop_buy_nothing(name: str) -> None:
    world = ht.SkewedBandit(3, 5, name)
    block = deal(world)
    nothing = np.mean([_reward(block, t, a) == 0.0 for t in range(4096) for a in range(5)])
    assert 0.9 < nothing < 0.99


def test_dear_offers_sell_rarely_and_are_worth_more() -> None:
    shapes = ht.SkewedBandit(3, 5, "dear").shapes(np.linspace(-1, 1, 9), np.zeros(9))
    assert np.all(np.diff(shapes[:, 2]) < 0.0)
    assert np.all(np.diff(shapes[:, 2] * shapes[:, 3]) > 0.0)
    assert shapes[[0, -1], 2] == pytest.approx([0.15, 0.07 / 1.8])


def test_a_noise_given_takes_the_place_of_the_skews_own() -> None:
    noise = ht.noise.Scaled(ht.noise.Pareto(1.7), 1.0)
    world = ht.SkewedBandit(3, 5, "size", noise=noise)
    block = deal(world)
    np.testing.assert_allclose(block.noise, noise.sample(child(2), 4096) * block.factor)
    assert world.tail_index == 1.7
    assert world.noise == world.skew.noise == noise


def test_a_block_is_cut_with_all_that_belongs_to_its_rounds() -> None:
    for fresh in (False, True):
        whole = deal(ht.SkewedBandit(3, 5, "jackpot", fresh=fresh))
        part = whole.first(9)
        assert part.length == 9
        np.testing.assert_array_equal(part.events, whole.events[:9])
        np.testing.assert_array_equal(part.shapes, whole.shapes[:9] if fresh else whole.shapes)


def test_the_index_and_the_symmetry_are_those_of_all_parts() -> None:
    found = {name: ht.SkewedBandit(2, 5, name) for name in NAMES}
    assert {name for name, world in found.items() if world.tail_index < math.inf} == {"catastrophe"}
    assert found["catastrophe"].tail_index == 1.5
    assert not any(world.symmetric for world in found.values())
    even = SkewedBandit(2, 5, Skew(slope=1.0, noise=ht.noise.StudentT(1.7), across=0.5))
    assert (even.symmetric, even.tail_index) == (True, 1.7)
    silent = SkewedBandit(2, 5, Skew(slope=1.0, payment_noise=ht.noise.Pareto(1.2)))
    assert (silent.symmetric, silent.tail_index) == (True, math.inf)  # nothing is ever paid
    assert [ht.SkewedBandit(2, 5, "size", **o).fixed_arms for o in ({}, {"fresh": True})] == [1, 0]
    assert [ht.SkewedBandit(2, 5, "size", offered=k).fixed_arms for k in (4, 5)] == [False, True]
    for name, broken in (("MENU", "a finite central moment of order 1.5"), ("CRMM", "symmetric")):
        policy = ht.make_policy(name, dim=2, horizon=999, tail=ht.MomentBound(1.5, 1.0), arms=5)
        assert broken in found["catastrophe"].broken_needs(policy)[-1]


@pytest.mark.parametrize("name", NAMES)
def test_the_tail_bounds_the_central_moment_of_every_arm(name: str) -> None:
    world = ht.SkewedBandit(2, 5, name)
    order = 1.3
    rng = np.random.default_rng(0)
    n = 200_000
    eta = np.zeros(n) if world.noise is None else world.noise.sample(rng, n)
    law = world.skew.payment_noise
    paid = world.skew.payment + (world.skew.payment_scale * law.sample(rng, n) if law else 0.0)
    uniform = rng.random(n)
    largest = 0.0
    for z, w in ((-1.0, -1.0), (0.0, 1.0), (1.0, 1.0)):
        base, size, chance, amount = world.shapes(np.array(z), np.array(w))
        reward = base + size * eta + (uniform < chance) * paid * amount
        mean = base + chance * amount * world.skew.payment
        largest = max(largest, np.mean(np.abs(reward - mean) ** order) ** (1 / order))
    told = world.tail(order)
    assert told.order == order
    assert 0.9 * largest < told.scale < 2.0 * largest


def test_the_tail_is_minkowskis_sum() -> None:
    assert ht.SkewedBandit(2, 5, "aligned").tail(1.5).scale == pytest.approx(
        1.9 * ht.noise.LogNormal(1.0).scale(1.5)
    )
    event = 50 * (0.038 ** (1 / 1.5) + 0.038)
    told = ht.SkewedBandit(2, 5, "jackpot").tail(1.5)
    assert told.scale == pytest.approx(ht.noise.Uniform().scale(1.5) + event)
    paid = PAID + 10 * ht.noise.LogNormal(1.5).scale(1.5)
    dear = (0.07 ** (1 / 1.5)) * 1.8 ** (1 / 3) * paid + 0.07 * PAID
    assert ht.SkewedBandit(2, 5, "dear").tail(1.5).scale == pytest.approx(dear)
    with pytest.raises(ValueError, match=r"pass an order below 1\.5"):
        ht.SkewedBandit(2, 5, "catastrophe").tail(1.5)


def test_a_world_says_what_it_was_made_of() -> None:
    world = ht.SkewedBandit(2, 5, "dear", offered=3)
    assert repr(world) == "SkewedBandit(dim=2, arms=5, skew='dear', offered=3)"
    told = world.describe()
    assert (told["dim"], told["arms"], told["offered"], told["fresh"]) == (2, 5, 3, False)
    assert told["skew"]["payment_noise"] == {"noise": "LogNormal", "sigma": 1.5}
    assert (told["skew"]["noise"], told["skew"]["dear"]) == (None, 0.8)
    own = Skew(slope=1.0)
    assert repr(SkewedBandit(2, 5, own, fresh=True)) == (
        f"SkewedBandit(dim=2, arms=5, skew={own!r}, fresh=True)"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 0}, "SkewedBandit.dim"),
        ({"arms": 0}, "SkewedBandit.arms"),
        ({"offered": 9}, "SkewedBandit.offered"),
        ({"offered": 2, "fresh": True}, "SkewedBandit.offered"),
        ({"skew": "nonsense"}, "SkewedBandit.skew"),
        ({"skew": 3.0}, "SkewedBandit.skew"),
        ({"noise": 3.0}, "Skew.noise"),
    ],
    ids=str,
)
def test_a_world_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        ht.SkewedBandit(**{"dim": 2, "arms": 5, "skew": "jackpot", **options})


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"slope": math.nan}, "Skew.slope"),
        ({"payment": "much"}, "Skew.payment"),
        ({"payment_scale": math.inf}, "Skew.payment_scale"),
        ({"tilt": 1.1}, "Skew.tilt"),
        ({"tilt": 0.5, "across": -0.51}, "Skew.across .* must not be negative"),
        ({"lift": -1.1}, "Skew.lift"),
        ({"dear": 1.0}, "Skew.dear"),
        ({"rate": -0.1}, "Skew.rate"),
        ({"rate": 0.51, "lift": 1.0}, "Skew.rate .* must not exceed 1"),
        ({"rate": 0.3, "lift": 0.4, "dear": 0.9}, "Skew.rate .* must not exceed 1"),
        ({"noise": "Gaussian"}, "Skew.noise"),
        ({"payment_noise": 1.0}, "Skew.payment_noise"),
        ({"payment_noise": ht.noise.Scaled(ht.noise.Gaussian(), 1.0)}, "Skew.payment_noise"),
        ({"slope": 0.0}, "Skew.theta_bound .* must rise along u"),
    ],
    ids=str,
)
def test_a_law_that_cannot_be_is_refused_by_name(numbers: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        Skew(**{"slope": 1.0, **numbers})


def test_laws_at_the_edges_of_their_range_exist() -> None:
    Skew(slope=1.0, tilt=-0.5, across=0.5, rate=0.5, lift=1.0, dear=-0.0)
    Skew(slope=1.0, tilt=1.0, rate=1.0, lift=0.0)
