"""What an agent remembers: damaged states are refused, room grows, plans hold for one episode."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.mdp.test_agents import AGENTS, LEARNERS, build, world

import heavytail as ht
from heavytail._memory import grown as made
from heavytail.kernels.layout import BAD_REWARD, BAD_SCALE, OK, OVERFLOW
from heavytail.mdp import GreedyLSVI, HvtLSVIUCB, UniformAgent
from heavytail.mdp.agent import all_within
from heavytail.mdp.baselines import count_only, draw_plan
from heavytail.mdp.planning import PLANNED, STAGE, SWITCHES


def taught(kind, stages=4):
    place = world()
    agent = build(kind, place)
    for t in range(stages):
        agent.update(t % 3, 0, agent.act(t % 3, 0), 0.3, 1)
    return agent


def saved(agent):
    return {key: array.copy() for key, array in agent.state_arrays().items()}


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize(
    ("slot", "value"),
    [
        ("episodes", -1.0),
        ("episodes", 1.5),
        ("episodes", math.inf),
        ("stage", -1.0),
        ("stage", 0.5),
        ("stage", 3.0),
    ],
)
def test_counts_that_cannot_be_are_refused_and_nothing_changes(kind, slot, value):
    agent = taught(kind)
    arrays = saved(agent)
    arrays["scalars"][agent.slot_names()["scalars"].index(slot)] = value
    twin = agent.fresh()
    before = saved(twin)
    with pytest.raises(ValueError, match=rf"{kind.__name__}: the saved state's .* is damaged"):
        twin.restore(arrays)
    for key, array in saved(twin).items():
        np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize(("action", "fine"), [(-1, False), (0, True), (2, True), (3, False)])
def test_actions_that_cannot_be_are_refused(kind, action, fine):
    agent = taught(kind)
    arrays = saved(agent)
    arrays["table"][1, 2] = action
    twin = agent.fresh()
    if fine:
        twin.restore(arrays)
        assert twin.state_arrays()["table"][1, 2] == action
    else:
        with pytest.raises(ValueError, match=r"the saved state's .* is damaged"):
            twin.restore(arrays)


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(
    ("column", "value", "fine"),
    [(0, 14, True), (0, 15, False), (0, -1, False), (1, 4, True), (1, 5, False), (1, -1, False)],
)
def test_a_past_that_cannot_be_is_refused(kind, column, value, fine):
    agent = taught(kind)
    arrays = saved(agent)
    arrays["value_past"][0, 0, column] = value
    twin = agent.fresh()
    if fine:
        twin.restore(arrays)
    else:
        with pytest.raises(ValueError, match=r"the saved state's .* is damaged"):
            twin.restore(arrays)


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize("stages", [0, 3, 4, 193])
def test_a_restored_agent_goes_on_as_the_first(kind, stages):
    if stages == 193 and kind is not HvtLSVIUCB:
        pytest.skip("room for more than 64 episodes is asked for in one way by all")
    one = taught(kind, stages)
    two = one.fresh()
    two.restore(saved(one))
    assert (two.episodes, two.switches) == (one.episodes, one.switches)
    for t in range(stages, stages + 5):
        for agent in (one, two):
            agent.update(t % 3, 1, agent.act(t % 3, 1), -0.2, 2)
    for key, array in two.state_arrays().items():
        np.testing.assert_array_equal(array, one.state_arrays()[key])


def test_an_agent_that_has_learned_takes_over_a_shorter_past():
    long, short = taught(HvtLSVIUCB, 9), taught(HvtLSVIUCB, 3)
    long.restore(saved(short))
    assert long.episodes == 1
    for key, array in long.state_arrays().items():
        np.testing.assert_array_equal(array, short.state_arrays()[key])


@pytest.mark.parametrize("kind", LEARNERS)
def test_bytes_are_those_of_the_episodes_begun(kind):
    for stages, begun in ((0, 0), (1, 1), (3, 1), (4, 2), (6, 2)):
        arrays = taught(kind, stages).state_arrays()
        assert arrays["value_past"].shape == (3, begun, 2)
        assert arrays["value_weights"].shape == (3, begun)
        if "reward_history" in arrays:
            assert arrays["reward_history"].shape[:2] == (3, begun)


@pytest.mark.parametrize("kind", LEARNERS)
def test_files_hold_a_row_per_stage_and_values_one_more(kind):
    arrays = taught(kind).state_arrays()
    assert arrays["value_V"].shape == arrays["value_V_low"].shape == (3 + 1, 5)
    assert arrays["value_Q"].shape == arrays["value_Q_low"].shape == (3, 5, 3)
    assert (arrays["value_marks"].shape, arrays["value_level"].shape) == ((3, 2), (3 + 1,))
    assert arrays["value_targets"].shape == (3, 2, 4)


def test_bytes_are_counted_by_what_is_remembered():
    agent = taught(HvtLSVIUCB)
    arrays = agent.state_arrays()
    assert agent.state_bytes == sum(array.nbytes for array in arrays.values())
    rewards = [arrays[key].nbytes for key in arrays if key.startswith("reward")]
    assert agent.reward_bytes == sum(rewards) > 0


def test_what_a_kernel_refuses_is_said_in_a_sentence():
    agent = taught(UniformAgent)
    for code, says in (
        (BAD_REWARD, r"UniformAgent\.update: reward must be finite; got inf"),
        (BAD_SCALE, r"UniformAgent\.update: scale must lie between 1e-100 and 1e\+100; got 0\.5"),
        (OVERFLOW, r"reward inf at scale 0\.5 would take the estimate out"),
    ):
        with pytest.raises(ValueError, match=says):
            raise agent.refusal(code, math.inf, 0.5)


def test_a_refusal_in_the_middle_of_an_episode_leaves_the_plan_alone():
    agent = taught(GreedyLSVI)
    before = saved(agent)
    with pytest.raises(ValueError, match="out of the floating-point range"):
        agent.update(1, 0, 0, 1e300, 0)
    for key, array in saved(agent).items():
        np.testing.assert_array_equal(array, before[key])


def test_the_uniform_agent_draws_once_per_episode():
    agent = build(UniformAgent, world())
    lots = agent.packed[0]
    assert draw_plan(lots) is True
    assert (lots.counts[PLANNED], lots.counts[SWITCHES]) == (1.0, 1.0)
    before = lots.table.copy()
    lots.table[...] = -1
    assert draw_plan(lots) is False
    assert (lots.table == -1).all()
    lots.table[...] = before
    for bad in (math.inf, -math.inf, math.nan):
        assert count_only(0, 0, bad, 0, 1.0, lots) == BAD_REWARD
    assert lots.counts[STAGE] == 0.0
    assert count_only(0, 0, 1e300, 0, 1.0, lots) == OK
    assert lots.counts[STAGE] == 1.0


def test_an_update_makes_room_for_itself():
    agent = taught(HvtLSVIUCB, 3)
    short = {name: getattr(agent.packed[0], name)[:, :1].copy() for name in ("past", "weight")}
    agent._arrays = agent._arrays._replace(**short)
    agent.update(0, 2, 1, 0.5, 3)
    assert agent.packed[0].past.shape == (3, 2, 2)
    np.testing.assert_array_equal(agent.packed[0].past[0, 1], [7, 3])


def test_room_doubles_and_keeps_what_is_there():
    array = np.arange(24.0).reshape(2, 4, 3)
    assert made("it", array, 3, axis=1) is array
    assert made("it", array, 4, axis=1) is array
    for needed, room in ((5, 8), (8, 8), (9, 9)):
        grown = made("it", array, needed, axis=1)
        assert grown.shape == (2, room, 3)
        np.testing.assert_array_equal(grown[:, :4], array)
        assert (grown[:, 4:] == 0.0).all()


def test_room_is_made_before_it_is_needed_and_no_sooner():
    agent = build(HvtLSVIUCB, world())
    assert agent.packed[0].past.shape == (3, 64, 2)
    agent.reserve(64)
    assert agent.packed[0].weight.shape == (3, 64)
    agent.reserve(65)
    assert agent.packed[0].past.shape == (3, 128, 2)
    assert agent.packed[0].weight.shape == (3, 128)


def test_places_begin_at_0_and_end_before_the_count():
    assert all_within(np.array([0, 2]), 3)
    assert not all_within(np.array([0, 3]), 3)
    assert not all_within(np.array([-1, 2]), 3)


def test_an_agent_before_its_first_plan_knows_nothing():
    agent = build(HvtLSVIUCB, world())
    np.testing.assert_array_equal(
        agent.upper, np.full((5, 3), 1.0) * np.array([3, 2, 1])[:, None, None]
    )
    assert (agent.lower == 0.0).all()
    plan = agent.packed[0]
    assert (plan.table == 0).all()
    for array in (plan.V, plan.V_low, plan.marks, plan.level, plan.targets, plan.counts):
        assert (array == 0.0).all()
    np.testing.assert_array_equal(agent.features, world().features)
    assert (agent.episodes, agent.switches) == (0, 0)


def test_a_plan_holds_for_one_episode():
    place = world()
    for kind in AGENTS:
        agent = build(kind, place)
        for k in range(3):
            for stage in (0, 1, 2):
                agent.update(stage, 0, agent.act(stage, 0), 0.3, 1)
                assert agent.policy.shape == (3, 5)
                planned = k + 1 if stage < 2 else k + 2  # asking after the last stage plans anew
                assert agent.switches <= planned
                if kind in (UniformAgent, GreedyLSVI, HvtLSVIUCB):
                    assert agent.switches == planned
            assert agent.episodes == k + 1


def test_the_scale_of_a_reward_is_the_tail_s_or_the_one_told():
    place = world()
    assert build(UniformAgent, place).nu == 1.0
    agent, told = build(HvtLSVIUCB, place, tail=ht.MomentBound(1.5, 0.25)), []

    def learn(stage, row, reward, landed, nu, plan):
        told.append((stage, row, reward, landed, nu))
        return 0

    agent.learn_kernel = learn
    for scale in (None, 0.5):
        agent.update(0, 4, 2, 3.0, 1, scale=scale)
    assert told == [(0, 14, 3.0, 1, 0.25), (0, 14, 3.0, 1, 0.5)]


def test_features_that_are_not_finite_are_refused_by_place():
    phi = np.array(world().features)
    phi[1, 2, 0] = math.nan
    with pytest.raises(ValueError, match=r"UniformAgent\.features\[1, 2\] has norm nan"):
        UniformAgent(phi, 3)
    phi[1, 2, 0] = math.inf
    with pytest.raises(ValueError, match=r"features\[1, 2\] has norm inf"):
        UniformAgent(phi, 3)
    for bad in (np.zeros((0, 1, 1)), np.zeros((2, 2)), np.zeros((1, 1, 1, 1))):
        with pytest.raises(ValueError, match=r"features must have shape \(S, A, d\)"):
            UniformAgent(bad, 3)
    phi[1, 2] = 0.0
    phi[1, 2, 0] = 1.0 + 0.9e-9
    assert UniformAgent(phi, 3).states == 5
    phi[1, 2, 0] = 1.0 + 1.1e-9
    with pytest.raises(ValueError, match=r"features\[1, 2\] has norm 1, above the bound 1"):
        UniformAgent(phi, 3)
