"""Every controller passes the battery, by census; broken ones prove each check can fail."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail import control
from heavytail.checks import CONTROLLER_CHECKS, CheckFailed, check_controller
from heavytail.control.controllers import Controller, SetController
from heavytail.control.steering import C, choose_estimate
from heavytail.kernels.jit import compiled

# Plain Python's arithmetic warns where a kernel's does not.
pytestmark = [] if compiled() else [pytest.mark.filterwarnings("ignore:overflow")]

KINDS = [kind for kind in control.ALL if issubclass(kind, Controller)]
CENSUS = {"CertaintyEquivalence", "OFULQ", "ThompsonLQ"}
EXPECTED_FAILURES: dict[tuple[str, str], str] = {}  # (class, check): why


def build(kind, n=2, d=1, identifier=control.SystemIdentifier, **options):
    gain = -0.1 * np.ones((d, n))
    return kind(identifier(n, d), Q=np.eye(n), R=np.eye(d), fallback=gain, **options)


def test_the_census_of_controllers_is_complete_and_all_are_final():
    assert {kind.__name__ for kind in KINDS} == CENSUS
    assert all(kind.__final__ for kind in KINDS)


@pytest.mark.parametrize("check", CONTROLLER_CHECKS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_controller_passes_the_battery(kind, check):
    if (kind.__name__, check) in EXPECTED_FAILURES:
        with pytest.raises(CheckFailed):
            CONTROLLER_CHECKS[check](build(kind))
    else:
        CONTROLLER_CHECKS[check](build(kind))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_controller_passes_with_more_inputs_and_another_identifier(kind):
    check_controller(build(kind, 1, 2, control.RidgeIdentifier, warmup=10))
    check_controller(build(kind, 2, 2, control.BatchHuberIdentifier, warmup=30))


# --- broken controllers: each fails the check it was broken for


class Plain(SetController):
    """A sound controller; the broken ones below change one thing each."""

    name = "plain"
    choose_kernel = staticmethod(choose_estimate)


class NoName(Plain):
    name = ""


class ActsAtRandom(Plain):
    def act(self, x):
        return super().act(x) + np.random.default_rng().standard_normal(1)


class ActsByAnotherGain(Plain):
    def act(self, x):
        return super().act(x) + 0.5 * np.sum(x)


class HandsOutItsInput(Plain):
    def act(self, x):
        super().act(x)
        return self._u


class CountsTwice(Plain):
    steps = property(lambda self: 2 * super().steps)


class TakesNaNStates(Plain):
    def act(self, x):
        x = np.asarray(x)
        return super().act(np.nan_to_num(x) if x.dtype == float else x)


class PoisonedByNaN(Plain):
    def update(self, x, u, x_next):
        if np.asarray(x_next).dtype == float and np.isnan(x_next).any():
            self._c[C.NEXT] = 1e9
        super().update(x, u, x_next)


class Overflows(Plain):
    def update(self, x, u, x_next):
        super().update(x, u, x_next)
        if np.abs(x_next).max() > 1e99:
            self._W[:] = np.inf


class NeverFallsBack(Plain):
    def act(self, x):
        u = super().act(x)
        self._c[C.DIVERGING] = 0.0
        return u


class SharesItsState(Plain):
    def clone(self):
        twin = super().clone()
        if self.steps:
            twin._c, twin.identifier = self._c, self.identifier
        return twin


class HeedsNoSeed(Plain):
    def reseed(self, seed):
        super().reseed(7)


class SavesHalf(Plain):
    def state_arrays(self):
        arrays = super().state_arrays()
        return {**arrays, "gain": arrays["gain"].astype(np.float32).astype(float)}


class Hoards(Plain):
    def __init__(self, identifier, *, Q, R, fallback):
        super().__init__(identifier, Q=Q, R=R, fallback=fallback)
        self._all = np.zeros(0)

    def update(self, x, u, x_next):
        super().update(x, u, x_next)
        self._all = np.append(self._all, x_next)

    def state_arrays(self):
        return {**super().state_arrays(), "all": self._all}

    def restore(self, arrays):
        self._all = arrays["all"]
        super().restore(arrays)


class NeverLearns(Plain):
    def renew(self):
        """No gain is ever computed."""


class SteersTheWrongWay(Plain):
    gain = property(lambda self: -60.0 * super().gain if self.steps > 300 else super().gain)


BROKEN = {
    "declares_itself": (NoName,),
    "acts_by_its_gain": (ActsAtRandom, ActsByAnotherGain, HandsOutItsInput),
    "counts_its_steps": (CountsTwice,),
    "refuses_bad_states": (TakesNaNStates,),
    "refuses_bad_observations": (PoisonedByNaN,),
    "survives_extremes": (Overflows,),
    "falls_back_when_the_state_diverges": (NeverFallsBack,),
    "clones_stand_apart": (SharesItsState,),
    "repeats_itself": (HeedsNoSeed, ActsAtRandom),
    "resumes_to_the_bit": (SavesHalf,),
    "keeps_its_memory_bounded": (Hoards,),
    "steers_an_easy_system": (NeverLearns, SteersTheWrongWay),
}


def test_the_plain_controller_under_the_broken_ones_is_sound():
    check_controller(build(Plain))


def test_there_is_a_broken_controller_for_every_check():
    assert set(BROKEN) == set(CONTROLLER_CHECKS)


@pytest.mark.parametrize("check", BROKEN)
def test_each_controller_check_can_fail(check):
    for kind in BROKEN[check]:
        with pytest.raises(CheckFailed):
            CONTROLLER_CHECKS[check](build(kind))
