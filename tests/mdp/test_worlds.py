"""Linear MDPs: what they are, what they refuse, and that their values are exact."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.mdp import LinearMDP, combination_lock, random_mdp, river_swim

GAUSSIAN = ht.noise.Gaussian()
WORLDS = {
    "random": lambda noise: random_mdp(5, states=7, actions=3, horizon=4, noise=noise, seed=3),
    "bias": lambda noise: random_mdp(
        5, states=7, actions=3, horizon=4, noise=noise, bias=True, seed=3
    ),
    "river": lambda noise: river_swim(noise=noise, states=4, horizon=8),
    "lock": lambda noise: combination_lock(noise=noise, horizon=4, actions=3),
}


def small(**changes):
    arguments = {
        "features": np.eye(4).reshape(2, 2, 4),
        "theta": np.full((3, 4), 0.5),
        "mu": np.full((3, 4, 2), 0.5),
        "noise": GAUSSIAN,
    }
    return LinearMDP(**{**arguments, **changes})


@pytest.mark.parametrize("name", WORLDS)
def test_transition_rows_are_distributions_and_means_lie_in_the_unit_interval(name):
    world = WORLDS[name](GAUSSIAN)
    assert world.transitions.min() >= 0.0
    np.testing.assert_allclose(world.transitions.sum(axis=3), 1.0, atol=1e-12)
    assert world.means.min() >= 0.0
    assert world.means.max() <= 1.0
    assert np.linalg.norm(world.features, axis=2).max() <= 1.0 + 1e-12


@pytest.mark.parametrize("name", WORLDS)
def test_transitions_and_means_are_linear_in_the_features(name):
    world = WORLDS[name](GAUSSIAN)
    for h in range(world.horizon):
        np.testing.assert_allclose(world.features @ world.theta[h], world.means[h], atol=1e-12)
        np.testing.assert_allclose(world.features @ world.mu[h], world.transitions[h], atol=1e-12)


@pytest.mark.parametrize("name", WORLDS)
def test_dynamic_programming_agrees_with_monte_carlo_to_four_standard_errors(name):
    world = WORLDS[name](ht.noise.Gaussian(0.5))
    rng = np.random.default_rng(7)
    policies = [world.optimal_policy, rng.integers(0, world.actions, world.optimal_policy.shape)]
    for policy in policies:
        exact = float(world.start @ world.value(policy)[0])
        returns = rollouts(world, policy, 20_000, rng)
        error = returns.std(ddof=1) / np.sqrt(len(returns))
        assert abs(returns.mean() - exact) <= 4.0 * error
    assert float(world.start @ world.value(world.optimal_policy)[0]) == pytest.approx(
        world.optimal_value
    )


def rollouts(world, policy, episodes, rng):
    """Returns of noisy episodes, all at once, drawn by NumPy rather than by the world."""
    states = rng.choice(world.states, size=episodes, p=world.start)
    total = np.zeros(episodes)
    for h in range(world.horizon):
        actions = policy[h, states]
        total += world.means[h, states, actions] + world.noise.sample(rng, episodes)
        edges = world.transitions[h, states, actions].cumsum(axis=1)
        states = (rng.random((episodes, 1)) > edges).sum(axis=1).clip(max=world.states - 1)
    return total


def test_no_policy_beats_the_optimal_one():
    world = combination_lock(noise=GAUSSIAN, horizon=2, actions=2)
    tables = np.indices((2,) * 4).reshape(4, -1).T.reshape(-1, 2, 2)
    best = max(float(world.start @ world.value(table)[0]) for table in tables)
    assert best == pytest.approx(world.optimal_value)


def test_the_lock_pays_only_the_whole_combination_and_the_lure():
    world = combination_lock(noise=GAUSSIAN, horizon=5, actions=3, lure=0.1)
    assert world.optimal_value == pytest.approx(1.0)
    wrong = (world.optimal_policy + 1) % 3
    assert float(world.start @ world.value(wrong)[0]) == pytest.approx(0.1)


def test_swimming_up_the_river_beats_drifting():
    world = river_swim(noise=GAUSSIAN, states=4, horizon=12)
    drifting = np.zeros((12, 4), dtype=int)
    assert float(world.value(drifting)[0, 0]) == pytest.approx(12 * 0.005)
    assert world.optimal_value > 10 * 12 * 0.005


def test_the_inverse_of_a_transition_row_gives_its_frequencies():
    world = random_mdp(4, states=5, actions=2, horizon=2, noise=GAUSSIAN, concentration=1.0)
    grid = (np.arange(20_000) + 0.5) / 20_000
    landed = np.array([world.next_state(1, 2, 1, u) for u in grid])
    shares = np.bincount(landed, minlength=5) / len(grid)
    np.testing.assert_allclose(shares, world.transitions[1, 2, 1], atol=1e-4)


def test_the_same_seed_deals_the_same_randomness_and_a_longer_deal_begins_alike():
    world = random_mdp(4, states=5, actions=2, horizon=3, noise=ht.noise.Scaled(GAUSSIAN, 1.0))
    seed = np.random.SeedSequence(5)
    a, b = world.deal(seed), world.deal(seed)
    for _ in range(2):
        one, two = next(a), next(b)
        for key in ("first", "uniform", "noise", "factor"):
            np.testing.assert_array_equal(getattr(one, key), getattr(two, key))


def test_a_constant_feature_changes_no_value():
    one = random_mdp(4, noise=GAUSSIAN, seed=6)
    two = random_mdp(5, noise=GAUSSIAN, seed=6, bias=True)
    np.testing.assert_allclose(one.values, two.values, atol=1e-12)
    assert np.unique(two.features[..., -1]).size == 1


def test_random_worlds_differ_by_seed_and_stay_by_seed():
    one, two, three = (random_mdp(3, noise=GAUSSIAN, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.means, two.means)
    assert not np.array_equal(one.means, three.means)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": 1.5 * np.eye(4).reshape(2, 2, 4)}, r"features\[0, 0\] has norm 1.5, above"),
        ({"features": np.eye(4)}, r"features must have shape \(S, A, d\); got shape \(4, 4\)"),
        ({"features": np.full((2, 2, 4), np.nan)}, r"features must be finite; got nan"),
        ({"mu": np.full((3, 4, 2), 0.4)}, r"stage 0, state 0, action 0 sums to 0.8, not to 1"),
        ({"mu": np.tile([1.5, -0.5], (3, 4, 1))}, r"negative probability -0.5 of state 1"),
        ({"mu": np.full((3, 5, 2), 0.5)}, r"mu must have shape \(H, d, S\) = \(3, 4, 2\)"),
        ({"mu": np.full((2, 4, 2), 0.5)}, r"disagree on the number of stages: \[2, 3\]"),
        ({"theta": np.full((3, 5), 0.5)}, r"theta must have shape \(H, d\) = \(3, 4\)"),
        ({"theta": np.full((3, 4), 1.2)}, r"mean reward 1.2 at stage 0, state 0, action 0"),
        ({"theta": np.full((3, 4), -0.2)}, r"mean reward -0.2"),
        ({"start": [0.5, 0.4]}, r"start must be a distribution; it sums to 0.9"),
        ({"start": [1.0]}, r"start must have shape \(2,\)"),
        ({"feature_bound": 0.0}, r"feature_bound must be a number in"),
        ({"horizon": 7}, r"disagree on the number of stages: \[3, 7\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_which_and_why(changes, words):
    with pytest.raises(ValueError, match=words):
        small(**changes)


def test_what_is_not_noise_is_refused():
    with pytest.raises(TypeError, match=r"noise must be one of heavytail\.noise"):
        small(noise=1.0)
    with pytest.raises(TypeError, match="features must be numbers"):
        small(features=np.full((2, 2, 4), "a"))


def test_stationary_worlds_need_the_horizon():
    one = small(theta=np.full(4, 0.5), mu=np.full((4, 2), 0.5), horizon=3)
    np.testing.assert_array_equal(one.means, small().means)
    with pytest.raises(ValueError, match="horizon must be given"):
        small(theta=np.full(4, 0.5), mu=np.full((4, 2), 0.5))


@pytest.mark.parametrize("policy", [np.zeros((3, 3), int), np.zeros((3, 2)), np.full((3, 2), 2)])
def test_a_policy_that_does_not_fit_is_refused(policy):
    with pytest.raises(ValueError, match=r"LinearMDP\.value"):
        small().value(policy)


def test_the_gymnasium_environment_passes_its_checker():
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from heavytail.mdp.gym import LinearMDPEnv

    for make in WORLDS.values():
        check_env(LinearMDPEnv(make(ht.noise.StudentT(2.1))), skip_render_check=True)


def test_gymnasium_episodes_last_h_steps_and_carry_the_features():
    pytest.importorskip("gymnasium")
    from heavytail.mdp.gym import LinearMDPEnv

    world = WORLDS["random"](ht.noise.Scaled(GAUSSIAN, 1.0))
    env = LinearMDPEnv(world)
    with pytest.raises(ValueError, match="call reset"):
        env.step(0)
    observation, info = env.reset(seed=1)
    for h in range(world.horizon):
        assert observation[0] == h
        np.testing.assert_array_equal(info["features"], world.features[observation[1]])
        with pytest.raises(ValueError, match=r"action must lie in 0\.\.2"):
            env.step(3)
        before = observation[1]
        observation, _, terminated, truncated, info = env.step(1)
        assert info["mean"] == world.means[h, before, 1]
        assert terminated == (h == world.horizon - 1)
        assert not truncated
