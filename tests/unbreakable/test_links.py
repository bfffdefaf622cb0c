"""Rewards of any size with a link: refused, or learned and saved."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.player import through_file

import heavytail as ht

CASES = {
    "a ball": (ht.GLBOMD(2, link="identity", theta_bound=1.0), [1e104, 1e100, 1e139]),
    "theory": (ht.GLBOMD(2, link="identity", radius="theory"), [1e104, 1e139]),
    "counts": (ht.GLBOMD(2, link="log", intercept=False), [1e18, 1.0, 1e18, 1.0]),
    "counts, intercept": (ht.GLBOMD(2, link="log"), [1e15, 3.0, 1e12, 1e18]),
    "little noise": (ht.GLBOMD(2, link="identity", noise_scale=4e-7, ridge=1.0), [0.001, -1.0]),
    "Hvt-GLB": (ht.HvtGLB(2, link="log"), [1e18, 1.0, 1e300, 3.0, 1.0, 1e100, 2.0]),
    "GLM-UCB": (ht.GLMUCB(2, link="log"), [3.0, 3.0, 1e18, 5.0, 0.0, 3.0]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_size_of_rewards_what_was_accepted_can_be_saved(name, seed):
    policy, rewards = CASES[name][0].clone(), CASES[name][1]
    rng = np.random.default_rng(seed)
    for reward in rewards * 4:
        x = rng.normal(size=2)
        x *= 10.0 ** rng.uniform(-4, 0) * 0.99 / np.linalg.norm(x)
        before = policy.rounds
        try:
            policy.update(x, reward)
        except ValueError:
            assert policy.rounds == before
        assert np.isfinite(policy.theta).all()
        assert (np.linalg.eigvalsh(policy.inverse_gram) > 0.0).all()
    again = through_file(policy)
    arms = 0.7 * np.array([[1.0, 0.0], [0.5, 0.6], [-0.3, 0.8]])
    assert again.select(arms) == policy.clone().select(arms)


def test_a_ridge_that_little_noise_outweighs_is_refused():
    with pytest.raises(ValueError, match=r"GLBOMD\.ridge must be at least 1000"):
        ht.GLBOMD(2, link="identity", noise_scale=1e-8, ridge=1.0)
