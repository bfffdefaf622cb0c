"""Runs of agents: seeds, blocks of episodes, and what a simulation keeps."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mdp.test_agents import build, world

import heavytail as ht
from heavytail.mdp import GreedyLSVI, HvtLSVIUCB, UniformAgent, simulate_agents, simulation
from heavytail.mdp.simulation import _compiled, run_agent
from heavytail.mdp.world import Draws
from heavytail.simulation.trials import trial_seed


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_run_is_the_episodes_written_out(engine):
    place = world(ht.noise.Scaled(ht.noise.Gaussian(), 0.5))
    seed = np.random.SeedSequence(3)
    agent, twin = build(UniformAgent, place), build(UniformAgent, place)
    regret, seconds = run_agent(agent, place, seed, 70, engine)
    twin.reseed(int(seed.generate_state(1, np.uint64)[0] >> np.uint64(11)))
    total, want = 0.0, []
    for draws, count in zip(place.deal(seed), (64, 6), strict=False):
        for k in range(count):
            s = int(draws.first[k])
            total += place.optimal_value - place.value(twin.policy)[0, s]
            want.append(total)
            for h in range(3):
                a = twin.act(h, s)
                landed = place.next_state(h, s, a, float(draws.uniform[k, h]))
                twin.update(h, s, a, 0.0, landed)
                s = landed
    np.testing.assert_allclose(regret, want, rtol=1e-12)
    assert seconds.shape == (2,)
    assert ((seconds >= 0.0) & (seconds < 100.0)).all()
    assert agent.episodes == 70


@pytest.mark.parametrize("episodes", [1, 65])  # both end in a block of one episode
def test_both_engines_learn_at_the_scale_that_was_drawn(episodes):
    place = world(ht.noise.Scaled(ht.noise.Gaussian(), 0.5))
    states = []
    for engine in simulation.ENGINES:
        agent = build(HvtLSVIUCB, place, tail=ht.MomentBound(1.5, 0.25))
        run_agent(agent, place, np.random.SeedSequence(3), episodes, engine)
        states.append(agent.state_arrays())
    for key, array in states[0].items():
        np.testing.assert_allclose(array, states[1][key], rtol=1e-9, err_msg=key)


def test_the_engine_named_is_the_one_that_plays(monkeypatch):
    place = world()
    played = []
    for engine in simulation.ENGINES:
        monkeypatch.setattr(
            simulation, f"_{engine}", lambda *_, engine=engine: played.append(engine)
        )
    for engine in simulation.ENGINES:
        run_agent(build(UniformAgent, place), place, np.random.SeedSequence(3), 2, engine)
    assert played == ["compiled", "reference"]


def test_a_block_that_cannot_be_learned_is_refused():
    place = world()
    draws = Draws(np.zeros(2, int), np.zeros((2, 3)), np.array([[0.0, 0.0, 1e300], [0.0] * 3]))
    agent = build(GreedyLSVI, place)
    with pytest.raises(ValueError, match="out of the floating-point range"):
        _compiled(agent, place, draws, np.zeros(2))
    assert agent.episodes == 0


@pytest.mark.parametrize("option", ["episodes", "trials", "seed"])
def test_counts_are_refused_by_name(option):
    place = world()
    good = {"episodes": 1, "trials": 1, "seed": 0}
    agents = [build(UniformAgent, place)]
    simulate_agents(agents, place, **good, jobs=1)
    with pytest.raises(ValueError, match=f"simulate_agents: {option} must be a whole number"):
        simulate_agents(agents, place, **{**good, option: good[option] - 1}, jobs=1)


def test_a_simulation_keeps_the_episodes_asked_for_and_says_what_was_run():
    place = world()
    agents = {"a": build(UniformAgent, place)}
    options = {"episodes": 12, "trials": 2, "seed": 5, "jobs": 1}
    whole = simulate_agents(agents, place, **options)
    few = simulate_agents(agents, place, **options, record=3)
    np.testing.assert_array_equal(few.rounds, [4, 8, 12])
    np.testing.assert_array_equal(few["a"].regret, whole["a"].regret[:, [3, 7, 11]])
    assert whole["a"].regret.shape == (2, 12)
    for trial, regret in enumerate(whole["a"].regret):
        alone, _ = run_agent(build(UniformAgent, place), place, trial_seed(5, trial), 12)
        np.testing.assert_array_equal(regret, alone)
    told = {"episodes": 12, "trials": 2, "seed": 5, "agents": {"a": repr(agents["a"])}}
    assert whole.settings == {**told, "world": place.describe()}
    assert agents["a"].episodes == 0
