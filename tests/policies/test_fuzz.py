"""Whatever is thrown at a policy, it stays whole: finite, symmetric, inside its ball, in step."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import heavytail as ht

SIZE = 3
numbers = st.floats(allow_nan=True, allow_infinity=True)
good_rewards = st.floats(-1e300, 1e300)
vectors = arrays(np.float64, SIZE, elements=st.floats(-0.57, 0.57))
anything = arrays(np.float64, SIZE, elements=numbers)
calm = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def policies():
    tail = ht.MomentBound(1.5, 1.0)
    yield ht.HvtUCB(SIZE, tail=tail)
    yield ht.HvtUCB(SIZE, tail=tail, intercept=False, theta_bound=0.5)
    yield ht.HvtUCB(SIZE, tail=tail, radius="theory", horizon=10**6)


@calm
@given(st.lists(st.tuples(vectors, good_rewards, st.floats(1e-12, 1e12)), max_size=25))
def test_any_good_observations_keep_the_state_finite_symmetric_and_inside(observations):
    for policy in policies():
        bound = policy.state["scalars"]["theta_bound"]
        for count, (x, reward, scale) in enumerate(observations, 1):
            policy.update(x, reward, scale=scale)
            assert policy.rounds == count
        P = policy.inverse_gram
        assert np.isfinite(P).all()
        assert np.array_equal(P, P.T)
        assert np.linalg.eigvalsh(P).min() >= -1e-12
        assert np.linalg.norm(policy.theta) <= bound * (1 + 1e-9)
        assert math.isfinite(policy.radius)
        assert 0 <= policy.select(np.eye(SIZE)) < SIZE


@calm
@given(anything, numbers, numbers)
def test_any_observation_at_all_is_learned_or_refused_untouched(x, reward, scale):
    for policy in policies():
        policy.update([0.1, 0.2, 0.3], 1.0)
        before = {key: array.tobytes() for key, array in policy.state_arrays().items()}
        try:
            policy.update(x, reward, scale=scale)
        except ValueError:
            after = {key: array.tobytes() for key, array in policy.state_arrays().items()}
            assert after == before
        else:
            assert np.isfinite(x).all()
            assert math.isfinite(reward)
            assert scale > 0
            assert np.isfinite(policy.theta).all()


@calm
@given(arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(1, 4)), elements=numbers))
def test_any_arms_at_all_give_an_arm_or_a_reason(arms):
    policy = next(policies())
    try:
        arm = policy.select(arms)
    except ValueError as error:
        assert "HvtUCB.select" in str(error)  # noqa: PT017
    else:
        assert arms.shape[1] == SIZE
        assert 0 <= arm < len(arms)
        assert (np.linalg.norm(arms, axis=1) <= 1 + 1e-8).all()


@calm
@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_refused_as_a_policy_file(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.npz"
        path.write_bytes(data)
        with pytest.raises(ValueError, match="saved by heavytail, or is damaged"):
            ht.load(path)
