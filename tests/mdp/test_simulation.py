"""simulate_agents: what it refuses."""

from __future__ import annotations

import pytest

from heavytail import mdp
from heavytail.environments.noise import Gaussian
from heavytail.tails import MomentBound


def test_an_engine_that_agents_do_not_have_is_refused_by_name():
    world = mdp.river_swim(noise=Gaussian())
    tail = MomentBound(order=2.0, scale=1.0)
    agent = mdp.HvtLSVIUCB(world.features, world.horizon, tail=tail)
    with pytest.raises(ValueError, match=r"engine must be one of 'compiled', 'reference'; got 'c"):
        mdp.simulate_agents([agent], world, episodes=2, trials=1, seed=0, engine="cuda")
