"""Short runs of the fuzzers: nothing bad is taken, and no refusal leaves a trace."""

from __future__ import annotations

import pytest
from tests.fuzz.calls import fuzz
from tests.fuzz.extremes import fuzz_extremes
from tests.fuzz.player import FINE
from tests.fuzz.subjects import subjects
from tests.fuzz.threads import fuzz_one
from tests.fuzz.watched import watch

pytestmark = pytest.mark.compiled

TAKE_ANY = ("encoders", "deciders")  # they limit numbers, so that few runs have a refusal


def bad(found):
    return {kind: counts for kind, counts in found.items() if set(counts) - FINE}


def test_calls_on_everything_public_are_taken_or_refused_whole():
    found = fuzz(2000, seed=5)
    assert not bad(found)
    assert sum(counts["calls"] for counts in found.values()) > 1900
    assert all(counts["refused"] for counts in found.values())


def test_numbers_of_any_size_leave_what_can_be_read_again_and_continued():
    found = fuzz_extremes(300, seed=5)
    assert not bad(found)
    assert sum(counts["runs"] for counts in found.values()) == 300
    assert all(counts["refused"] for kind, counts in found.items() if kind not in TAKE_ANY)


def test_damaged_and_crafted_files_are_refused_or_safe_to_go_on_from():
    found = watch(["OFUL", "HeavyLSVIUCB", "Decider"], 60, seed=5)
    assert not bad(found)
    assert all(counts["files"] == 60 for counts in found.values())


@pytest.mark.parametrize("name", ["OFUL", "HeavyOFUL", "OL2M", "BatchHuberIdentifier", "Decider"])
def test_eight_threads_leave_the_state_of_some_order(name):
    found = fuzz_one(subjects()[name], 0.3)
    assert not bad({name: found})
    assert found["calls"] > 90
