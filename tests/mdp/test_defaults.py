"""What agents and environments begin with, and the ends of the range of each option."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import heavytail as ht
from heavytail import mdp
from heavytail.mdp.worlds import combination_lock, random_mdp, river_swim

NOISE = ht.noise.Gaussian()
TAIL = ht.MomentBound(order=1.5, scale=0.5)
SQUARE = ht.MomentBound(order=2.0, scale=0.5)
WORLDS = (random_mdp, river_swim, combination_lock)
NEEDS = {
    mdp.UniformAgent: {},
    mdp.GreedyLSVI: {},
    mdp.LSVIUCB: {"tail": TAIL},
    mdp.HvtLSVIUCB: {"tail": TAIL},
    mdp.HeavyLSVIUCB: {"tail": TAIL, "episodes": 50},
    mdp.VARA: {"tail": SQUARE, "episodes": 50},
}


def build(kind, features=None, horizon=3, **options):
    phi = np.eye(6).reshape(3, 2, 6) if features is None else features
    return kind(phi, horizon, **{**NEEDS[kind], **options})


def radii(agent, part="reward"):
    place = agent.slot_names()[f"{part}_scalars"].index("radius")
    return agent.state_arrays()[f"{part}_scalars"][:, place]


def test_every_agent_and_world_is_built_from_its_defaults():
    assert set(mdp.ALL) == set(NEEDS)
    assert [build(kind).episodes for kind in mdp.ALL] == [0] * len(mdp.ALL)
    for world in WORLDS:
        assert world(noise=NOISE).horizon == inspect.signature(world).parameters["horizon"].default


def test_the_reward_bonus_of_lsvi_is_0_3_in_practice_and_1_in_theory():
    plain, told = build(mdp.LSVIUCB), build(mdp.LSVIUCB, reward_bonus=0.3)
    np.testing.assert_array_equal(radii(plain), radii(told))
    want = 0.3 * (0.5 * math.sqrt(2.0 * math.log(1.0 / 0.01)) + math.sqrt(6.0))
    np.testing.assert_allclose(radii(plain), want)
    theory = {"radius": "theory", "episodes": 70}
    plain, told = (build(mdp.LSVIUCB, **theory, **o) for o in ({}, {"reward_bonus": 1.0}))
    np.testing.assert_array_equal(radii(plain), radii(told))
    assert (radii(plain, "value") == 0.0).all()
    assert not np.array_equal(radii(build(mdp.LSVIUCB, noise_scale=0.7)), radii(build(mdp.LSVIUCB)))


@pytest.mark.parametrize("kind", [mdp.HvtLSVIUCB, mdp.HeavyLSVIUCB, mdp.VARA])
@pytest.mark.parametrize("weighting", ["none", "variance"])
def test_the_radius_of_a_value_is_oful_s_at_half_its_range(kind, weighting):
    agent = build(kind, weighting=weighting, value_bonus=0.7, horizon=4, delta=0.2)
    log = math.sqrt(2.0 * math.log(5.0))
    for h, most in enumerate([3.0, 2.0, 1.0, 1.0]):  # what the stages left can pay
        if weighting == "none":
            want = 0.7 * (most / 2.0 * log + most * math.sqrt(6.0))
        else:
            want = 0.7 * (log + math.sqrt(6.0))
        assert radii(agent, "value")[h] == pytest.approx(want)


AT_THE_END = [
    (mdp.UniformAgent, "seed", [0], [-1]),
    (mdp.GreedyLSVI, "horizon", [1], [0]),
    (mdp.GreedyLSVI, "feature_bound", [1.0, 1.0 - 0.9e-9], [0.0, 1.0 - 2e-9]),
    (mdp.LSVIUCB, "reward_bonus", [0.0], [-1e-12]),
    (mdp.LSVIUCB, "value_bonus", [0.0], [-1e-12]),
    (mdp.LSVIUCB, "noise_scale", [0.0], [-1e-12]),
    (mdp.HvtLSVIUCB, "reward_bonus", [0.0], [-1e-12]),
    (mdp.HeavyLSVIUCB, "reward_bonus", [0.0], [-1e-12]),
    (mdp.HeavyLSVIUCB, "episodes", [1], [0]),
    (mdp.VARA, "reward_bonus", [0.0], [-1e-12]),
    (mdp.VARA, "episodes", [1], [0]),
]


@pytest.mark.parametrize(("kind", "option", "taken", "refused"), AT_THE_END)
def test_an_option_is_taken_up_to_the_end_of_its_range(kind, option, taken, refused):
    for value in taken:
        build(kind, **{option: value})
    for value in refused:
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.(features|{option})"):
            build(kind, **{option: value})


NUMBERS = [
    (random_mdp, "dim", [1], [0]),
    (random_mdp, "states", [1], [0]),
    (random_mdp, "actions", [1], [0]),
    (random_mdp, "horizon", [1], [0]),
    (random_mdp, "concentration", [0.01], [0.0]),
    (random_mdp, "seed", [0], [-1]),
    (river_swim, "states", [2, 3], [1]),
    (river_swim, "horizon", [1], [0]),
    (combination_lock, "horizon", [1], [0]),
    (combination_lock, "actions", [2, 3], [1]),
    (combination_lock, "lure", [0.0, 0.99], [-1e-12, 1.0]),
    (combination_lock, "seed", [0], [-1]),
]


@pytest.mark.parametrize(("make", "option", "taken", "refused"), NUMBERS)
def test_an_environment_is_made_up_to_the_end_of_each_range(make, option, taken, refused):
    small = {"dim": 3, "states": 3, "actions": 2, "horizon": 2} if make is random_mdp else {}
    for value in taken:
        make(noise=NOISE, **{**small, option: value})
    for value in refused:
        with pytest.raises(ValueError, match=rf"{option} must be"):
            make(noise=NOISE, **{**small, option: value})


def test_a_constant_feature_needs_a_dimension_of_its_own():
    assert random_mdp(2, noise=NOISE, bias=True, states=3, actions=2, horizon=2).dim == 2
    with pytest.raises(ValueError, match="dim must be a whole number of at least 2"):
        random_mdp(1, noise=NOISE, bias=True)


# --- environments, number by number


def test_the_river_is_the_published_one():
    place = river_swim(noise=NOISE)
    left, right = np.zeros((5, 5)), np.zeros((5, 5))
    for s in range(5):
        left[s, max(s - 1, 0)] = 1.0
    right[0, :2], right[4, 3:] = (0.4, 0.6), (0.4, 0.6)
    for s in (1, 2, 3):
        right[s, s - 1 : s + 2] = 0.05, 0.6, 0.35
    for h in range(10):
        np.testing.assert_allclose(place.transitions[h, :, 0], left)
        np.testing.assert_allclose(place.transitions[h, :, 1], right)
        want = np.zeros((5, 2))
        want[0, 0], want[4, 1] = 0.005, 1.0
        np.testing.assert_allclose(place.means[h], want)
    assert repr(place) == "RiverSwim(d=10, S=5, A=2, H=10, noise=Gaussian(sd=1.0))"


def test_the_lock_opens_by_the_combination_that_its_seed_draws():
    place = combination_lock(noise=NOISE, seed=3)
    right = np.random.default_rng(np.random.SeedSequence([3, 2])).integers(0, 3, 6)
    for h in range(6):
        for a in range(3):
            hit = a == right[h]
            np.testing.assert_array_equal(place.transitions[h, 0, a], [hit, not hit])
            np.testing.assert_array_equal(place.transitions[h, 1, a], [0.0, 1.0])
            assert place.means[h, 0, a] == ((1.0 if h == 5 else 0.0) if hit else 0.1)
            assert place.means[h, 1, a] == 0.0
    assert place.name == "CombinationLock"


@pytest.mark.parametrize("bias", [False, True])
def test_a_random_environment_is_dirichlet_by_its_seed(bias):
    sizes = {"states": 4, "actions": 3, "horizon": 2, "concentration": 0.4}
    place = random_mdp(5, noise=NOISE, seed=3, bias=bias, **sizes)
    rng = np.random.default_rng(np.random.SeedSequence([3, 1]))
    moves = 5 - bias
    phi = rng.dirichlet(np.full(moves, 0.4), (4, 3))
    theta = rng.random((2, moves))
    mu = rng.dirichlet(np.full(4, 0.4), (2, moves))
    if not bias:
        np.testing.assert_array_equal(place.features, phi)
        np.testing.assert_array_equal(place.theta, theta)
        np.testing.assert_array_equal(place.mu, mu)
        return
    half = 0.5 * theta.mean(axis=1, keepdims=True)
    want = math.sqrt(2.0) * np.hstack([theta - half, half])
    np.testing.assert_allclose(place.theta, want)
    half = 0.5 * mu.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(place.mu, math.sqrt(2.0) * np.hstack([mu - half, half]))
    ones = np.ones((4, 3, 1))
    np.testing.assert_allclose(place.features * math.sqrt(2.0), np.concatenate([phi, ones], axis=2))
