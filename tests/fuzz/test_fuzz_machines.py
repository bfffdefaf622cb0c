"""A few interleavings of calls on every policy, beside its naive twin and a clone."""

from __future__ import annotations

import pytest
from tests.fuzz.machines import PAIRS, play

from heavytail.policies import ALL


@pytest.mark.parametrize("name", [kind.__name__ for kind in ALL])
def test_every_policy_has_a_twin(name):
    assert name in {policy for policy, *_ in PAIRS.values()}, (
        f"{name} has no twin: write one in tests/naive/, add both to PAIRS in "
        "tests/fuzz/machines.py, and compare them in tests/policies/test_naive*.py "
        "(docs/developers/new_policy.md)"
    )


def test_every_twin_is_of_a_listed_policy():
    assert {policy for policy, *_ in PAIRS.values()} <= {kind.__name__ for kind in ALL}


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRS)
def test_any_interleaving_of_calls_is_the_twins_and_leaves_no_trace_of_a_refusal(name):
    play(name, examples=3, steps=25)
