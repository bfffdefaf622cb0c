"""Every agent against a plain NumPy version of its formulas: estimates, radii, Q and choices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.mdp import AdaptiveHuber, Agent, OnePassHuber, Ridge, uniform_table

import heavytail as ht
from heavytail import mdp
from heavytail.kernels.layout import RADIUS

S, A = 4, 3
MODES = {"weighting": "none", "switching": "every", "monotone": False}
WEIGHTED = {**MODES, "weighting": "variance"}
FULL = {"weighting": "variance", "switching": "doubling", "monotone": True}


def features(dim, longest, seed=0):
    """Vectors of all signs, the longest of length ``longest``."""
    phi = np.random.default_rng(seed).uniform(-0.4, 1.0, (S, A, dim))
    return phi * (longest / np.linalg.norm(phi, axis=2).max())


def twin(phi, rewards, modes, *, value_bonus, delta):
    return Agent(
        phi,
        rewards,
        value_bonus=value_bonus,
        delta=delta,
        weighted=modes["weighting"] == "variance",
        rare=modes["switching"] == "doubling",
        monotone=modes["monotone"],
    )


def lsvi(dim, H, *, noise=0.7, reward_bonus=0.4, value_bonus=0.3, delta=0.05):
    phi = features(dim, 1.0)
    agent = mdp.LSVIUCB(
        phi, H, noise_scale=noise, reward_bonus=reward_bonus, value_bonus=value_bonus, delta=delta
    )
    rewards = [Ridge(dim, noise=noise, scale=reward_bonus, delta=delta) for _ in range(H)]
    return agent, twin(phi, rewards, MODES, value_bonus=value_bonus, delta=delta)


def lsvi_theory(dim, H, *, episodes=40, reward_bonus=0.05, delta=0.03):
    phi = features(dim, 1.0)
    told = {"radius": "theory", "episodes": episodes, "reward_bonus": reward_bonus}
    agent = mdp.LSVIUCB(phi, H, noise_scale=1.0, delta=delta, **told)
    beta = dim * H * math.sqrt(math.log(2.0 * dim * episodes * H / delta))
    rewards = [
        Ridge(dim, noise=0.0, scale=reward_bonus, delta=delta, constant=beta) for _ in range(H)
    ]
    return agent, twin(phi, rewards, MODES, value_bonus=0.0, delta=delta)


def greedy(dim, H):
    phi = features(dim, 1.0)
    rewards = [Ridge(dim, noise=0.0, scale=0.0, delta=0.5) for _ in range(H)]
    return mdp.GreedyLSVI(phi, H), twin(phi, rewards, MODES, value_bonus=0.0, delta=0.5)


def hvt(dim, H, *, order=1.3, intercept=True, clip=None, bonuses=(0.5, 0.2), modes=MODES):
    threshold, bound = 0.8, 1.5
    phi = features(dim, bound)
    scales = {"reward_bonus": bonuses[0], "value_bonus": bonuses[1], "delta": 0.04}
    own = {} if clip is None else {"clip": clip}
    agent = mdp.HvtLSVIUCB(
        phi,
        H,
        tail=ht.MomentBound(order, 0.6),
        threshold_scale=threshold,
        intercept=intercept,
        feature_bound=bound,
        **own,
        **modes,
        **scales,
    )
    rewards = [
        OnePassHuber(
            dim,
            clip=clip,
            threshold=threshold,
            nu=0.6,
            scale=bonuses[0],
            delta=0.04,
            intercept=intercept,
            feature_bound=bound,
        )
        for _ in range(H)
    ]
    return agent, twin(phi, rewards, modes, value_bonus=bonuses[1], delta=0.04)


def adaptive(kind, dim, H, *, order=2.0, bonus=0.003, modes=FULL, **own):
    phi = features(dim, 0.9)
    agent = kind(
        phi,
        H,
        episodes=60,
        tail=ht.MomentBound(order, 0.3),
        reward_bonus=bonus,
        value_bonus=0.2,
        threshold_scale=0.2,
        delta=0.04,
        **modes,
        **own,
    )
    rewards = [
        AdaptiveHuber(
            dim,
            episodes=60,
            order=order,
            smooth=kind is mdp.VARA,
            threshold=0.2,
            scale=bonus,
            delta=0.04,
            feature_bound=1.0,
        )
        for _ in range(H)
    ]
    return agent, twin(phi, rewards, modes, value_bonus=0.2, delta=0.04)


CASES = {
    "LSVI-UCB, d = 3": lambda: lsvi(3, 3),
    "LSVI-UCB, d = 1": lambda: lsvi(1, 4, noise=0.2, reward_bonus=1.0, delta=0.2),
    "LSVI-UCB, the theory, d = 2": lambda: lsvi_theory(2, 3),
    "LSVI-UCB, the theory, d = 3": lambda: lsvi_theory(3, 2, episodes=500, delta=0.3),
    "greedy": lambda: greedy(3, 3),
    "Hvt-LSVI-UCB": lambda: hvt(3, 3),
    "Hvt-LSVI-UCB, no intercept": lambda: hvt(2, 4, intercept=False, clip=0.7, order=1.8),
    "Hvt-LSVI-UCB, weighted": lambda: hvt(2, 4, modes=WEIGHTED),
    # With bonuses this small the parts of sigma are below their ceilings, and its floors count.
    "Hvt-LSVI-UCB, weighted, narrow": lambda: hvt(2, 4, modes=WEIGHTED, bonuses=(0.05, 0.01)),
    "Hvt-LSVI-UCB, weighted, bare": lambda: hvt(3, 4, modes=WEIGHTED, bonuses=(0.002, 0.0)),
    "Hvt-LSVI-UCB, rare and monotone": lambda: hvt(3, 3, modes=FULL),
    "Heavy-LSVI-UCB": lambda: adaptive(mdp.HeavyLSVIUCB, 3, 3, order=1.4),
    "Heavy-LSVI-UCB, newton": lambda: adaptive(mdp.HeavyLSVIUCB, 2, 4, order=1.7, solver="newton"),
    "Heavy-LSVI-UCB, plain": lambda: adaptive(mdp.HeavyLSVIUCB, 2, 3, order=1.4, modes=MODES),
    "VARA": lambda: adaptive(mdp.VARA, 3, 3, bonus=0.002),
    "VARA, monotone": lambda: adaptive(mdp.VARA, 2, 2, modes={**MODES, "monotone": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_agent_is_its_formulas(name):
    agent, naive = CASES[name]()
    rng = np.random.default_rng(3)
    truth = rng.uniform(0.0, 0.5, agent.dim)
    close = {"rtol": 1e-7, "atol": 1e-9}
    for _ in range(20):
        naive.plan()
        np.testing.assert_array_equal(agent.policy, naive.table)
        np.testing.assert_allclose(agent.upper, naive.Q, **close)
        np.testing.assert_allclose(agent.lower, np.minimum(naive.Q_low, naive.Q), **close)
        assert agent.switches == naive.switches
        state = int(rng.integers(S))
        for h in range(agent.horizon):
            action = agent.act(h, state)
            reward = float(naive.phi[state, action] @ truth + 0.4 * rng.standard_t(2.1))
            landed = int(rng.integers(S))
            nu = float(rng.uniform(0.2, 0.8))
            agent.update(h, state, action, reward, landed, scale=nu)
            naive.learn(h, state, action, reward, landed, nu)
            state = landed
        arrays = agent.state_arrays()
        learned = [reward.theta for reward in naive.rewards]
        assert np.linalg.norm(learned, axis=1).max() < math.sqrt(agent.dim)  # within the ball
        np.testing.assert_allclose(arrays["reward_theta"], learned, **close)
        radii = [reward.radius for reward in naive.rewards]
        np.testing.assert_allclose(arrays["reward_scalars"][:, RADIUS], radii, **close)
        radii = [naive.value_radius(h) for h in range(agent.horizon)]
        np.testing.assert_allclose(arrays["value_scalars"][:-1, RADIUS], radii[:-1], **close)
        weights = [[weight for _, _, weight in past] for past in naive.past[:-1]]
        np.testing.assert_allclose(arrays["value_weights"][:-1], weights, **close)


@pytest.mark.parametrize("name", ["Hvt-LSVI-UCB, rare and monotone", "Heavy-LSVI-UCB"])
def test_rare_plans_are_fewer_than_episodes_and_more_than_one(name):
    """So that the comparison above says something about the rule."""
    agent, _ = CASES[name]()
    for _ in range(20):
        for h in range(agent.horizon):
            agent.update(h, 0, agent.act(h, 0), 0.5, 0)
    assert 1 < agent.switches < 20


def test_the_uniform_agent_draws_from_a_documented_counter():
    phi = features(2, 1.0)
    agent = mdp.UniformAgent(phi, 3, seed=2**40 + 7)
    for k in range(5):
        table = uniform_table(2**40 + 7, k, 3, S, A)
        np.testing.assert_array_equal(agent.policy, table)
        for h in range(3):
            agent.update(h, 0, agent.act(h, 0), 0.5, 0)
