"""Numbers at the ends of the range are refused or leave what can be copied and saved."""

from __future__ import annotations

import numpy as np
import pytest
from tests.test_storage import agent
from tests.unbreakable.census import (
    ARMS,
    TAIL,
    snapshot,
)

import heavytail as ht
from heavytail import estimators, mdp
from heavytail.policies import ALL


@pytest.mark.parametrize("kind", estimators.ALL)
def test_a_regression_on_numbers_too_large_is_refused_and_goes_on(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    for rows in (20, 60):
        model = getattr(estimators, kind)().fit(X[:rows], X[:rows].sum(axis=1))
        before = snapshot(model)
        try:
            model.partial_fit(1e139 * X, 1e299 * X.sum(axis=1))
        except ValueError:
            assert snapshot(model) == before
        assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_features_of_no_length_leave_what_can_be_copied_and_saved(name, tmp_path):
    policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    for x in (np.zeros(3), ARMS[0], np.zeros(3)):
        policy.update(x, 1.0)
        policy.save(tmp_path / "it.npz")
        for twin in (policy.clone(), ht.load(tmp_path / "it.npz")):
            assert snapshot(twin) == snapshot(policy)


@pytest.mark.parametrize("kind", mdp.ALL)
def test_features_of_no_length_leave_an_agent_that_can_be_copied(kind):
    features = np.zeros((2, 2, 3))
    features[0, 0] = 0.5
    told = agent(kind)._arguments | {"features": features}
    one = kind(**told)
    for stage in range(3):
        one.update(stage, 1, 1, 1.0, 0)
        assert snapshot(one.clone()) == snapshot(one)


@pytest.mark.parametrize("kind", estimators.ALL)
@pytest.mark.parametrize("size", [1e200, 1e300])
def test_a_regression_comes_back_from_one_huge_feature(kind, size):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(99, 2))
    y, wild = X.sum(axis=1) + rng.standard_t(2.1, 99), X.copy()
    wild[40, 0] = size
    model = getattr(estimators, kind)().fit(X, y)
    before = snapshot(model)
    try:
        model.partial_fit(wild, y)
    except ValueError:
        assert snapshot(model) == before
    assert np.isfinite(model.predict(X)).all()
