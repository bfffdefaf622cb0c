"""reset() leaves a policy as it was built."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies import ALL


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_reset_is_a_policy_as_it_was_built(kind):
    tail = ht.MomentBound(2.0, 0.5)
    policy = ht.make_policy(kind.name, dim=4, horizon=2000, tail=tail, arms=4)
    fresh = policy.state_arrays()
    arms = np.eye(4)
    waiting = policy.decide(arms)
    for i in range(12):
        policy.update(arms[policy.select(arms)], float(i % 2))
    assert policy.rounds == 12
    policy.reset()
    found = policy.state_arrays()
    assert all(np.array_equal(found[key], fresh[key]) for key in fresh)
    assert policy.pending == (waiting.token,)
    policy.learn(waiting, 1.0)
    assert policy.rounds == 1
