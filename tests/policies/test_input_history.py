"""Policies that keep their history refuse what they cannot use, by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht

TAIL = ht.MomentBound(order=2.0, scale=1.0)
GOOD: dict[type[ht.Policy], dict[str, Any]] = {
    ht.HeavyOFUL: {"horizon": 100, "tail": TAIL},
    ht.AdaOFUL: {"horizon": 100, "tail": TAIL},
    ht.TOFU: {"horizon": 100, "tail": TAIL},
    ht.BTC: {"horizon": 100, "tail": TAIL, "arms": 3},
    ht.HuberBandit: {"horizon": 100, "tail": TAIL, "arms": 3},
}
BAD: dict[str, list[Any]] = {
    "horizon": [0, 1.5, "a"],
    "tail": [None, 1.0],
    "ridge": [0.0, math.nan, "x", True],
    "delta": [0, 1.0],
    "arm_bound": [0, math.inf],
    "theta_bound": [0, -1.0],
    "radius_scale": [-1, math.nan],
    "threshold_scale": [0, math.nan],
    "arms": [0, 2.5, None],
    "solver": ["sgd", None],
    "tolerance": [0],
    "sigma_min": [0],
    "forced": [0],
    "gap": [0, math.nan],
}


@pytest.mark.parametrize("kind", GOOD)
def test_every_knob_is_checked_by_name(kind: type[ht.Policy]) -> None:
    accepted = kind.__init__.__kwdefaults__ or {}
    for knob in {*accepted, *GOOD[kind]} & {*BAD}:
        for value in BAD[knob]:
            with pytest.raises((ValueError, TypeError), match=rf"{kind.__name__}\.{knob} must"):
                kind(2, **{**GOOD[kind], knob: value})  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("scale", [1e-100, 1e-20, 1e20, 1e100])
def test_an_extreme_scale_is_harmless(kind: type[ht.Policy], scale: float) -> None:
    rng = np.random.default_rng(0)
    for policy in (
        kind(2, **GOOD[kind]),  # type: ignore[call-arg]
        kind(2, **{**GOOD[kind], "tail": ht.MomentBound(2.0, scale)}),  # type: ignore[call-arg]
    ):
        for _ in range(40):
            x = rng.uniform(-0.7, 0.7, (3, 2))
            arm = policy.select(x)
            policy.update(x[arm], float(rng.standard_t(2.0)), scale=scale)
            assert np.isfinite(policy.theta).all()
            assert 0 <= arm < 3


@pytest.mark.parametrize("kind", GOOD)
def test_many_rounds_at_once_are_the_same_rounds(kind: type[ht.Policy]) -> None:
    rng = np.random.default_rng(1)
    X, rewards = rng.uniform(-0.7, 0.7, (90, 2)), rng.standard_t(2.0, 90)
    one, many = kind(2, **GOOD[kind]), kind(2, **GOOD[kind])  # type: ignore[call-arg]
    for x, reward in zip(X, rewards, strict=True):
        one.update(x, float(reward))
    many.update_many(X, rewards)
    for key, array in one.state_arrays().items():
        np.testing.assert_array_equal(many.state_arrays()[key], array)
    before = {key: array.copy() for key, array in many.state_arrays().items()}
    with pytest.raises(ValueError, match="row 1"):
        many.update_many([[0.1, 0.1], [math.nan, 0.0]], [1.0, 1.0])
    for key, array in many.state_arrays().items():
        np.testing.assert_array_equal(array, before[key])


def test_a_moment_whose_power_leaves_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"MomentBound\.scale must .*Change the unit"):
        ht.BTC(2, horizon=100, tail=ht.MomentBound(2.0, 1e200), arms=3)


def test_a_refused_batch_leaves_nothing_behind_in_the_rows_that_were_taken_back() -> None:
    policy = ht.BTC(3, horizon=2000, tail=ht.MomentBound(1.5, 1.0), arms=10)
    a, b = [0.5, 0.0, 0.0], [0.0, 0.5, 0.0]
    policy.update(a, 1.0)
    straight = policy.clone()
    with pytest.raises(ValueError, match="No row was learned"):
        policy.update_many([b, b, b], [1.0, 5.0, float("nan")])
    for each in (policy, straight):
        each.update(a, 1.0)
    saved, expected = policy.clone().state_arrays(), straight.state_arrays()
    for key, array in expected.items():
        np.testing.assert_array_equal(saved[key], array)
