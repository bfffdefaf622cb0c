"""A short run of the fuzzer: nothing bad is taken, and no refusal leaves a trace."""

from __future__ import annotations

import pytest
from tests.fuzz.__main__ import builders, fuzz


@pytest.mark.compiled
def test_a_few_thousand_calls_on_every_policy():
    found = fuzz(60 * len(builders()), seed=5)
    assert found["calls"] == 60 * len(builders())
    assert set(found) == {"calls", "refused"}
    assert found["refused"] > 20 * len(builders())
