"""The best of many policies on one log."""

from __future__ import annotations

import numpy as np
import pytest
from tests.logs.drawing import draw
from tests.logs.test_comparing import bounded, mixed

import heavytail as ht
from heavytail.logs import ByBound, ByLS
from heavytail.logs.estimators import ESTIMATORS


@pytest.mark.parametrize("by", ["bound", "value", "ls", "lower"])
def test_the_clearly_best_policy_is_chosen(by):
    log = bounded(7, 4000)
    log["reward"] = np.where(log["action"] == 2, 1.0, 0.1) * (1.0 + log["reward"])
    policies = {f"arm {k}": mixed(k, 4000) for k in range(4)}
    found = ht.select(log, policies, by=by)
    assert found.chosen == "arm 2"
    assert found.names == tuple(policies)
    assert np.all(found.lower <= found.values)
    assert f"{found.lower[2]:.4g}" in found.guarantee
    assert "chosen: arm 2" in str(found)
    assert len(found.plot().get_yticks()) == 4


@pytest.mark.parametrize("seed", [9, 14])
def test_estimates_propose_what_they_think_best_and_the_bound_decides(seed):
    d = draw(seed, n=300)
    rng = np.random.default_rng(seed)
    targets = [np.tile(rng.dirichlet(np.full(10, 0.3)), (300, 1)) for _ in range(12)]
    found = ht.select(d.log, targets)
    assert tuple(found.proposals) == ("snips", "dm", "dros", "switch-dr")
    for method, place in found.proposals.items():
        kind = next(kind for kind in ESTIMATORS if kind.name == method)
        estimator = kind() if method == "snips" else kind("arms", folds=2)
        values = [ht.evaluate(d.log, one, estimator=estimator, bound=None).value for one in targets]
        assert place == int(np.argmax(values))
    proposed = sorted(set(found.proposals.values()))
    assert found.chosen == max(proposed, key=lambda place: found.lower[place])
    assert np.flatnonzero(~np.isnan(found.scores)).tolist() == proposed
    np.testing.assert_array_equal(found.scores[proposed], found.lower[proposed])
    assert str(found).count(" - ") == 12 - len(proposed)


def test_without_a_model_only_the_value_proposes():
    d = draw(8)
    targets = [d.target, mixed(0, 600)]
    own = [one[np.arange(600), d.log["action"]] for one in targets]
    best = int(np.argmax(ht.select(d.log, targets, by="value").values))
    rows = [{key: column[i : i + 200] for key, column in d.log.items()} for i in (0, 200, 400)]
    twice = [lambda rows, one=one: np.tile(one[0], (len(rows.action), 1)) for one in targets]
    for found in (
        ht.select(d.log, targets, by=ByBound(model=None)),
        ht.select(d.log, own),
        ht.select(iter(rows), twice),
    ):
        assert dict(found.proposals) == {"snips": best}
        assert found.chosen == best


def test_lower_bounds_of_a_selection_share_the_error():
    d = draw(8)
    both = ht.select(d.log, [d.target, mixed(0, 600)])
    alone = ht.evaluate(d.log, d.target, level=0.975)
    assert both.lower[0] == pytest.approx(alone.lower)
    assert both.values[0] == alone.value


def test_the_common_smoothing_and_its_regret_bound_are_the_stated_formulas():
    d = draw(9)
    found = ht.select(d.log, [d.target, mixed(0, 600)], by=ByLS(scale=2.0))
    room = np.log(2 * 2 / 0.05)
    lam = np.sqrt(2 * room / 600) / 2.0
    assert found.smoothing == pytest.approx(lam)
    x = d.weight * d.reward
    assert found.scores[0] == pytest.approx(np.mean(np.log1p(lam * x)) / lam)
    other = mixed(0, 600)[np.arange(600), d.log["action"]] / d.log["propensity"] * d.reward
    second = max(np.mean(v**2 / (1 + lam * v)) for v in (x, other))
    assert found.regret_bound == pytest.approx(lam * second + 2 * room / (lam * 600))


def test_nothing_to_select_from_is_refused():
    d = draw(0)
    with pytest.raises(ValueError, match="at least one policy"):
        ht.select(d.log, [])
