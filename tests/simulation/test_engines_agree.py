"""Policies whose choice is their own play in the compiled engine as in the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.simulation.engines import episode

TAIL = ht.MomentBound(order=2.0, scale=1.0)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "CRMM": ("CRMM", {"repeats": 7}),
    "MENU": ("MENU", {"copies": 5}),
    "MoM": ("MoM", {"groups": 3, "repeats": 9}),
    "BMM": ("BMM", {"copies": 5}),
    "SupBMM": ("BMM", {"copies": 3, "sup": True}),
    "Twin-UCB": ("TwinUCB", {}),
    "Twin-UCB, forgetting": ("TwinUCB", {"forget": 0.99}),
    "Twin-UCB, patient": ("TwinUCB", {"patience": 30.0, "forget": "auto"}),
    "Twin-UCB, theory": ("TwinUCB", {"radius": "theory", "radius_scale": 1e-4}),
    "LinTS": ("LinTS", {}),
    "EpsilonGreedy": ("EpsilonGreedy", {}),
    "RobustUCB truncated": ("RobustUCB", {}),
    "RobustUCB median": ("RobustUCB", {"estimator": "median of means"}),
    "RobustUCB catoni": ("RobustUCB", {"estimator": "catoni"}),
}
WORLDS = {
    "pool": ht.LinearBandit(2, arms=6, noise=ht.noise.StudentT(2.5)),
    "offered": ht.LinearBandit(2, arms=6, noise=ht.noise.StudentT(2.5), offered=3),
    "catastrophe": ht.SkewedBandit(2, 6, "catastrophe"),
    "shop": ht.SkewedBandit(2, 6, "dear"),
    "counts": ht.LinkBandit(2, 6, "log", base=1.0, outliers=0.02, factor=50.0),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", CASES)
def test_the_compiled_engine_agrees_with_the_reference(case: str, world: str) -> None:
    name, options = CASES[case]
    seed, rounds = np.random.SeedSequence(3), 700
    runs = []
    for engine in ("compiled", "reference"):
        policy = ht.make_policy(name, dim=2, horizon=1000, tail=TAIL, arms=6, **options)
        regret, _ = episode(policy, WORLDS[world], seed, rounds, engine)
        runs.append((regret, policy.state_arrays()))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    for key, array in runs[0][1].items():
        np.testing.assert_allclose(array, runs[1][1][key], rtol=1e-9, atol=1e-12)
