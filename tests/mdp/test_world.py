"""The linear MDP: where its checks draw their lines, and the randomness it deals."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.mdp import LinearMDP, random_mdp
from heavytail.mdp import world as module
from heavytail.mdp.world import Draws, evaluate, land

NOISE = ht.noise.Gaussian()


def small(**changes):
    arguments = {
        "features": np.eye(4).reshape(2, 2, 4),
        "theta": np.full((3, 4), 0.5),
        "mu": np.full((3, 4, 2), 0.5),
        "noise": NOISE,
    }
    return LinearMDP(**{**arguments, **changes})


def changed(array, place, value):
    array = np.array(array, dtype=float)
    array[place] = value
    return array


THETA, MU = np.full((3, 4), 0.5), np.full((3, 4, 2), 0.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"theta": changed(THETA, (1, 2), -0.9e-9)}, None),
        ({"theta": changed(THETA, (1, 2), -1e-9)}, None),
        (
            {"theta": changed(THETA, (1, 2), -1.1e-9)},
            "reward -1.1e-09 at stage 1, state 1, action 0",
        ),
        ({"theta": changed(changed(THETA, (1, 2), -1e-9), (2, 1), 1.2)}, "reward 1.2 at stage 2"),
        ({"theta": changed(THETA, (2, 1), 1.0 + 1e-9)}, None),
        ({"theta": changed(THETA, (2, 1), 1.0 + 1e-5)}, "1.00001 at stage 2, state 0, action 1"),
        ({"theta": changed(THETA, (2, 1), 1.0 + 1.1e-9)}, "stage 2, state 0, action 1"),
        ({"mu": changed(MU, (1, 2), (1.0 + 0.9e-9, -0.9e-9))}, None),
        ({"mu": changed(MU, (1, 2), (1.0, -1e-9))}, None),
        (
            {"mu": changed(MU, (1, 2), (1.0 + 1.1e-9, -1.1e-9))},
            "-1.1e-09 of state 1 after stage 1, state 1, action 0",
        ),
        ({"mu": changed(MU, (1, 3, 0), 0.5 + 0.9e-9)}, None),
        (
            {"mu": changed(MU, (1, 3, 0), 0.5 + 1.1e-9)},
            "row of stage 1, state 1, action 1 sums to 1",
        ),
        ({"mu": changed(MU, (1, 3, 0), 0.4)}, "row of stage 1, state 1, action 1 sums to 0.9"),
        ({"start": [1.0, 0.9e-9]}, None),
        ({"start": [1.0, 1.1e-9]}, "start must be a distribution"),
        ({"start": [1.0, -1e-12]}, "least entry is -1e-12"),
        ({"start": [0.0, 1.0]}, None),
        ({"features": changed(np.eye(4).reshape(2, 2, 4), (1, 0, 2), 1.0 + 0.9e-9)}, None),
        (
            {
                "features": changed(np.eye(4).reshape(2, 2, 4), (1, 0, 2), 1.0 + 1e-9),
                "mu": changed(MU, (slice(None), 2), 0.5 / (1.0 + 1e-9)),
            },
            None,
        ),
        (
            {"features": changed(np.eye(4).reshape(2, 2, 4), (1, 0, 2), 1.0 + 1.1e-9)},
            r"features\[1, 0\] has norm 1, above the bound 1",
        ),
        (
            {"features": changed(np.eye(4).reshape(2, 2, 4), (1, 0, 1), np.inf)},
            r"inf at \(1, 0, 1\)",
        ),
        ({"theta": np.zeros((0, 4)), "mu": np.zeros((0, 4, 2))}, "horizon must be given"),
        ({"start": np.zeros(0)}, r"start must have shape \(S,\); got shape \(0,\)"),
        ({"horizon": 0, "theta": np.full(4, 0.5), "mu": MU[0]}, "horizon must be a whole number"),
        ({"horizon": 1, "theta": np.full(4, 0.5), "mu": MU[0]}, None),
        ({"theta": np.full(4, 0.5)}, None),
        ({"mu": MU[0]}, None),
    ],
)
def test_rounding_is_forgiven_and_more_is_not(changes, words):
    if words is None:
        place = small(**changes)
        assert place.transitions.min() >= 0.0
    else:
        with pytest.raises(ValueError, match=words):
            small(**changes)


def test_whole_numbers_are_numbers_and_arrays_are_copies():
    theta = np.ones((3, 4), dtype=np.uint8)
    phi = np.eye(4).reshape(2, 2, 4)
    place = small(theta=theta, features=phi)
    phi[...] = 0.0
    assert (place.means == 1.0).all()
    np.testing.assert_array_equal(place.features, np.eye(4).reshape(2, 2, 4))


def test_the_start_is_state_0_unless_given():
    np.testing.assert_array_equal(small().start, [1.0, 0.0])


@pytest.mark.parametrize(
    ("low", "high", "fine"), [(0, 1, True), (0, 2, False), (-1, 1, False), (1, 1, True)]
)
def test_a_policy_s_actions_lie_in_the_range(low, high, fine):
    policy = np.full((3, 2), low, dtype=np.uint8 if low >= 0 else np.int64)
    policy[2, 1] = high
    if fine:
        value = small().value(policy)
        np.testing.assert_array_equal(value, np.outer([1.5, 1.0, 0.5, 0.0], [1.0, 1.0]))
    else:
        with pytest.raises(ValueError, match=rf"actions must lie in 0\.\.1; got {low}\.\.{high}"):
            small().value(policy)


def test_evaluation_overwrites_whatever_was_there():
    place = random_mdp(4, noise=NOISE, states=5, actions=2, horizon=3)
    policy = place.optimal_policy
    out = np.full((4, 5), 7.0)
    evaluate(place.transitions, place.means, policy, out)
    np.testing.assert_allclose(out, place.values)
    assert (out[3] == 0.0).all()
    assert (place.values[3] == 0.0).all()


def test_a_uniform_lands_in_the_first_state_whose_share_it_does_not_pass():
    cumulative = np.array([0.25, 0.25, 0.75, 1.0 - 1e-12]).reshape(1, 1, 1, 4)
    for uniform, state in ((0.0, 0), (0.24, 0), (0.25, 2), (0.74, 2), (0.75, 3), (1.0 - 1e-13, 3)):
        assert land(cumulative, 0, 0, 0, uniform) == state


def test_episodes_are_dealt_in_blocks_of_64_from_four_streams():
    noise = ht.noise.Scaled(NOISE, 0.5)
    place = small(noise=noise, start=[0.25, 0.75])
    seed = np.random.SeedSequence(5, spawn_key=(2,))
    children = [np.random.SeedSequence(5, spawn_key=(2, i)) for i in range(4)]
    first, uniform, eta, factors = (np.random.default_rng(child) for child in children)
    assert module.BLOCK == 64
    for _, draws in zip(range(2), place.deal(seed), strict=False):
        assert draws.length == 64
        np.testing.assert_array_equal(draws.first, first.random(64) >= 0.25)
        np.testing.assert_array_equal(draws.uniform, uniform.random((64, 3)))
        factor = noise.factors(factors, 192).reshape(64, 3)
        np.testing.assert_array_equal(draws.factor, factor)
        np.testing.assert_array_equal(draws.noise, noise.sample(eta, 192).reshape(64, 3) * factor)
        assert draws.first.dtype == np.int64
    assert next(small().deal(seed)).factor is None


def test_the_last_state_takes_what_rounding_leaves():
    place = small(start=[1.0 - 1e-9, 0.0])
    place.start = np.array([0.5, 0.0])  # a sum that falls short by more than can be constructed
    assert next(place.deal(np.random.SeedSequence(0))).first.max() == 1


def test_a_part_of_the_draws_is_those_episodes():
    rows = np.arange(12.0).reshape(4, 3)
    draws = Draws(np.arange(4), rows, rows + 1.0, rows + 2.0)
    part = draws.part(1, 3)
    assert part.length == 2
    np.testing.assert_array_equal(part.first, [1, 2])
    np.testing.assert_array_equal(part.uniform, rows[1:3])
    np.testing.assert_array_equal(part.noise, rows[1:3] + 1.0)
    np.testing.assert_array_equal(part.factor, rows[1:3] + 2.0)
    assert Draws(np.arange(4), rows, rows).part(1, 3).factor is None


def test_an_environment_describes_itself_in_plain_data():
    want = {"name": "LinearMDP", "dim": 4, "states": 2, "actions": 2, "horizon": 3}
    described = small().describe()
    assert {key: described[key] for key in want} == want
    assert set(described) == {*want, "noise"}
