"""A few interleavings of calls on every policy, beside its naive twin and a clone."""

from __future__ import annotations

import pytest
from tests.fuzz.machines import PAIRS, play

from heavytail.policies import ALL


def test_every_policy_has_a_twin():
    assert {kind.__name__ for kind in ALL} == {name for name, *_ in PAIRS.values()}


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRS)
def test_any_interleaving_of_calls_is_the_twins_and_leaves_no_trace_of_a_refusal(name):
    play(name, examples=3, steps=25)
