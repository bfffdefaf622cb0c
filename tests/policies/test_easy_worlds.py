"""Every policy, as it comes, learns in a world of the kind its paper assumes."""

from __future__ import annotations

import pytest

import heavytail as ht
from heavytail.policies import ALL

LIGHT = {"OFUL", "LinTS", "EpsilonGreedy", "GLM-UCB", "GLOC", "LowESTR"}
LONG = {"MENU", "BMM", "MoM", "RobustUCB"}  # a choice costs hundreds of pulls, or every arm some
SHORT = {"AdaOFUL", "TOFU", "BTC", "Huber-Bandit", "GLM-UCB"}  # O(t) a round
LEARNING = [kind.name for kind in ALL if kind.name != "Uniform" and kind.info.rewards == "any"]


@pytest.mark.compiled
@pytest.mark.parametrize("name", LEARNING)
def test_it_beats_uniform_by_three_times_untuned(name: str) -> None:
    noise = ht.noise.Gaussian(0.5) if name in LIGHT else ht.noise.StudentT(3.0)
    world = ht.LinearBandit(2, arms=10, noise=noise)
    rounds = 8000 if name in LONG else 600 if name in SHORT else 2000
    policy = ht.make_policy(name, dim=2, horizon=rounds, tail=noise.tail(2.0), arms=10)
    assert world.broken_needs(policy, rounds) == []
    results = ht.simulate(
        [policy, ht.Uniform(2)], world, rounds=rounds, trials=20, seed=2718, record=1
    )
    learned, chance = (results[key].final.mean() for key in (name, "Uniform"))
    assert 3.0 * learned <= chance
