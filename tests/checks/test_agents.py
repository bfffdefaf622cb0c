"""Every agent passes the battery, by census; broken ones prove that each check can fail."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail import mdp
from heavytail.checks import AGENT_CHECKS, CheckFailed

CENSUS = {"Hvt-LSVI-UCB", "Heavy-LSVI-UCB", "VARA", "LSVI-UCB", "Greedy LSVI", "Uniform"}

# What an agent is not expected to pass, and why. Strict: a pass is an error here.
EXPECTED_FAILURES = {
    ("Uniform", "learns_an_easy_environment"): "it learns nothing, by design",
    ("Heavy-LSVI-UCB", "learns_an_easy_environment"): "a reward weighs 1/(23 log(2K²/delta) n²)",
    ("VARA", "learns_an_easy_environment"): "a reward weighs 1/(108 log(2K²/delta) n²)",
}

PLACE = mdp.random_mdp(3, states=4, actions=3, horizon=3, noise=ht.noise.Gaussian(), seed=5)
KINDS = {kind.name: kind for kind in mdp.ALL}
TAIL = ht.MomentBound(order=2.0, scale=0.5)
NEEDS = {
    "Hvt-LSVI-UCB": {"tail": TAIL},
    "LSVI-UCB": {"tail": TAIL},
    "Heavy-LSVI-UCB": {"tail": TAIL, "episodes": 500},
    "VARA": {"tail": TAIL, "episodes": 500},
}


def build(name, **options):
    return KINDS[name](PLACE.features, PLACE.horizon, **{**NEEDS.get(name, {}), **options})


def test_the_census_of_agents_is_complete():
    assert {kind.name for kind in mdp.ALL} == CENSUS
    assert len(mdp.ALL) == len(CENSUS)


@pytest.mark.parametrize("check", AGENT_CHECKS)
@pytest.mark.parametrize("name", KINDS)
def test_every_agent_passes_the_battery(name, check):
    if (name, check) in EXPECTED_FAILURES:
        with pytest.raises(CheckFailed):
            AGENT_CHECKS[check](build(name))
    else:
        AGENT_CHECKS[check](build(name))


@pytest.mark.parametrize(
    "options",
    [
        {"intercept": False, "weighting": "variance"},
        {"switching": "doubling", "monotone": True},
        {"reward_bonus": 0.0, "value_bonus": 0.0, "monotone": True},
    ],
    ids=str,
)
def test_hvt_lsvi_ucb_passes_in_every_mode(options):
    # Neither without a bonus nor with a Q that never rises need it find the best actions.
    skip = ["learns_an_easy_environment"] if "monotone" in options else []
    ht.checks.check_agent(build("Hvt-LSVI-UCB", **options), skip=skip)


def test_an_unknown_check_is_refused_by_name():
    with pytest.raises(ValueError, match="no check is called nonsense"):
        ht.checks.check_agent(build("Uniform"), skip=["nonsense"])


# --- broken agents: each fails the check it was broken for


class Plain(mdp.LSVIUCB):
    """A sound agent; the broken ones below change one thing each."""

    def __init__(self, features, horizon):
        super().__init__(features, horizon, noise_scale=0.5)


class NoName(Plain):
    name = ""


class ActsANumpyInt(Plain):
    def act(self, stage, state):
        return np.int64(super().act(stage, state))


class CountsActs(Plain):
    def act(self, stage, state):
        action = super().act(stage, state)
        self._arrays.marks[0, 0] += 1.0
        return action


class PlansBeforeItRefuses(Plain):
    def update(self, stage, state, action, reward, next_state, *, scale=None):
        self._plan()
        super().update(stage, state, action, reward, next_state, scale=scale)


class Overflows(Plain):
    def update(self, stage, state, action, reward, next_state, *, scale=None):
        if isinstance(reward, float) and abs(reward) > 1e200:
            self._arrays.reward_M[...] = np.nan
        super().update(stage, state, action, reward, next_state, scale=scale)


class ForgetsInClones(Plain):
    def clone(self):
        return self.fresh()


class RemembersWhenFresh(Plain):
    def fresh(self):
        return self.clone()


class Fickle(Plain):
    calls = 0

    def update(self, stage, state, action, reward, next_state, *, scale=None):
        type(self).calls += 1
        reward = reward + 1e-3 * type(self).calls if isinstance(reward, float) else reward
        super().update(stage, state, action, reward, next_state, scale=scale)


class SavesHalf(Plain):
    def restore(self, arrays):
        super().restore({**arrays, "reward_theta": arrays["reward_theta"] * (1 - 1e-15)})


class Hoards(Plain):
    def state_arrays(self):
        return {**super().state_arrays(), "reward_log": np.zeros(self.episodes)}


class TransitionsTwice(Plain):
    def state_arrays(self):
        arrays = super().state_arrays()
        return {**arrays, "value_again": arrays["value_past"].copy()}


class BoundsCrossed(Plain):
    lower = property(lambda self: self.upper + 0.1)


class LearnsTheWrongWay(Plain):
    def update(self, stage, state, action, reward, next_state, *, scale=None):
        super().update(stage, state, action, -reward, next_state, scale=scale)


BROKEN = {
    "declares_itself": NoName,
    "acts_within_its_actions": ActsANumpyInt,
    "counts_its_episodes": CountsActs,
    "refuses_bad_input": PlansBeforeItRefuses,
    "survives_extremes": Overflows,
    "clones_stand_apart": ForgetsInClones,
    "starts_afresh": RemembersWhenFresh,
    "repeats_itself": Fickle,
    "resumes_to_the_bit": SavesHalf,
    "keeps_its_memory_bounded": Hoards,
    "keeps_its_bounds_in_order": BoundsCrossed,
    "learns_an_easy_environment": LearnsTheWrongWay,
}


def test_the_plain_agent_under_the_broken_ones_is_sound():
    ht.checks.check_agent(Plain(PLACE.features, PLACE.horizon))


def test_there_is_a_broken_agent_for_every_check():
    assert set(BROKEN) == set(AGENT_CHECKS)


@pytest.mark.parametrize("check", BROKEN)
def test_each_agent_check_can_fail(check):
    with pytest.raises(CheckFailed):
        AGENT_CHECKS[check](BROKEN[check](PLACE.features, PLACE.horizon))


def test_transitions_kept_twice_are_noticed():
    with pytest.raises(CheckFailed, match=r"remembers .* bytes of 30 episodes"):
        AGENT_CHECKS["keeps_its_memory_bounded"](TransitionsTwice(PLACE.features, 3))
