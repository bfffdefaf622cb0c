"""Every identifier passes the battery, by census; broken ones prove each check can fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail import control
from heavytail.checks import IDENTIFIER_CHECKS, CheckFailed, check_identifier
from heavytail.control.identify import HuberIdentifier, Identifier
from heavytail.kernels.jit import compiled

# Plain Python's arithmetic warns where a kernel's does not.
pytestmark = [] if compiled() else [pytest.mark.filterwarnings("ignore:overflow")]

KINDS = [kind for kind in control.ALL if issubclass(kind, Identifier)]
CENSUS = {"SystemIdentifier", "RidgeIdentifier", "BatchHuberIdentifier"}
EXPECTED_FAILURES: dict[tuple[str, str], str] = {}  # (class, check): why


def test_the_census_of_identifiers_is_complete_and_all_are_final():
    assert {kind.__name__ for kind in KINDS} == CENSUS
    assert all(kind.__final__ for kind in KINDS)


@pytest.mark.parametrize("check", IDENTIFIER_CHECKS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_identifier_passes_the_battery(kind, check):
    for n, d in ((2, 1), (1, 3)):
        if (kind.__name__, check) in EXPECTED_FAILURES:
            with pytest.raises(CheckFailed):
                IDENTIFIER_CHECKS[check](kind(n, d))
        else:
            IDENTIFIER_CHECKS[check](kind(n, d))


def test_an_identifier_passes_with_its_knobs_off_their_defaults():
    check_identifier(control.SystemIdentifier(2, 2, scale=0.3, clip=math.inf, ridge=0.1))
    check_identifier(control.SystemIdentifier(2, 2, target="mean"))


# --- broken identifiers: each fails the check it was broken for


class Plain(HuberIdentifier):
    """A sound identifier; the broken ones below change one thing each."""

    name = "plain"
    one_pass = True


class NoName(Plain):
    name = ""


class MisnamesItsSlots(Plain):
    def slot_names(self):
        return {"scalars": ("ONE", "TWO")}


class CountsTwice(Plain):
    steps = property(lambda self: 2 * super().steps)


class HandsOutItsState(Plain):
    theta = property(lambda self: self._M[-self.n :].T)


class ReadsListsOtherwise(Plain):
    def update(self, x, u, x_next):
        super().update(np.multiply(x, 2.0) if isinstance(x, list) else x, u, x_next)


class PoisonedByNaN(Plain):
    def update(self, x, u, x_next):
        if np.asarray(x_next).dtype == float and np.isnan(x_next).any():
            self._M[-1] = np.nan
        super().update(x, u, x_next)


class TakesInfinity(Plain):
    def update(self, x, u, x_next):
        if np.asarray(u).dtype == float and np.isinf(u).any():
            return
        super().update(x, u, x_next)


class Overflows(Plain):
    def update(self, x, u, x_next):
        super().update(x, u, x_next)
        if np.abs(x_next).max() > 1e200:
            self._M[-1] = np.inf


class SharesItsState(Plain):
    def clone(self):
        twin = super().clone()
        if self.steps:
            twin._s, twin._M = self._s, self._M
        return twin


class Drifts(Plain):
    calls = 0

    def update(self, x, u, x_next):
        type(self).calls += 1
        super().update(x, u, np.asarray(x_next) + 1e-3 * self.calls)


class SavesHalf(Plain):
    def state_arrays(self):
        return {**super().state_arrays(), "theta": np.float32(self._M[-self.n :]).astype(float)}

    def restore(self, arrays):
        super().restore(arrays)
        self._M[-self.n :] = arrays["theta"]


class Hoards(Plain):
    def __init__(self, n, d):
        super().__init__(n, d)
        self._all = np.zeros(0)

    def update(self, x, u, x_next):
        super().update(x, u, x_next)
        self._all = np.append(self._all, x_next)

    def state_arrays(self):
        return {**super().state_arrays(), "all": self._all}

    def restore(self, arrays):
        self._all = arrays["all"]
        super().restore(arrays)


class LearnsTheWrongWay(Plain):
    def update(self, x, u, x_next):
        super().update(x, u, -np.asarray(x_next))


class IsTooSure(Plain):
    radius = property(lambda self: 1e-9)


BROKEN = {
    "declares_itself": (NoName, MisnamesItsSlots),
    "counts_its_steps": (CountsTwice,),
    "reports_its_estimate": (HandsOutItsState,),
    "takes_what_numpy_takes": (ReadsListsOtherwise,),
    "refuses_bad_observations": (PoisonedByNaN, TakesInfinity),
    "survives_extremes": (Overflows,),
    "clones_stand_apart": (SharesItsState,),
    "repeats_itself": (Drifts,),
    "resumes_to_the_bit": (SavesHalf,),
    "keeps_its_memory_bounded": (Hoards,),
    "identifies_an_easy_system": (LearnsTheWrongWay, IsTooSure),
}


def test_the_plain_identifier_under_the_broken_ones_is_sound():
    check_identifier(Plain(2, 1))


def test_there_is_a_broken_identifier_for_every_check():
    assert set(BROKEN) == set(IDENTIFIER_CHECKS)


@pytest.mark.parametrize("check", BROKEN)
def test_each_identifier_check_can_fail(check):
    for kind in BROKEN[check]:
        with pytest.raises(CheckFailed):
            IDENTIFIER_CHECKS[check](kind(2, 1))
