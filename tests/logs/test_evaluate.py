"""What an evaluation says, and what it refuses."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import re

import numpy as np
import pytest
from tests.logs.drawing import LOGGING, draw

import heavytail as ht
from heavytail.logs import (
    DM,
    DR,
    LS,
    LSE,
    SNIPS,
    Bernstein,
    Betting,
    Catoni,
    Clipped,
)
from heavytail.logs.estimators import MEANS
from heavytail.logs.reading import chunks
from heavytail.logs.summary import Plan, summarise
from heavytail.logs.target import Target


def changed(log, column, row, value):
    new = np.array(log[column], dtype=float if column != "action" else int)
    new[row] = value
    return {**log, column: new}


@pytest.mark.parametrize(
    ("column", "value"),
    [("propensity", 0.0), ("propensity", 1.5), ("action", 12), ("action", -1), ("reward", np.nan),
     ("reward", -1.0)],
)  # fmt: skip
def test_a_bad_row_is_refused_by_its_place(column, value):
    d = draw(0)
    with pytest.raises(ValueError, match="log, row 417"):
        ht.evaluate(changed(d.log, column, 417, value), d.target)


@pytest.mark.parametrize("kind", [LS, LSE])
def test_smoothed_estimates_refuse_rewards_of_both_signs(kind):
    d = draw(0)
    log = changed(d.log, "reward", 3, -1.0)
    with pytest.raises(ValueError, match=rf"row 3, column 'reward': estimator '{kind.name}' needs"):
        ht.evaluate(log, d.target, estimator=kind(), bound=None)
    found = ht.evaluate(log, d.target, estimator=kind.name, bound=Betting(floor=-1.0))
    assert found.lower > -1.0
    alone = ht.evaluate(log, d.target, estimator=kind(floor=-1.0), bound=None)
    assert alone.value == found.value


def test_rewards_of_both_signs_are_fine_where_no_bound_needs_one():
    d = draw(0)
    log = changed(d.log, "reward", 3, -1.0)
    assert ht.evaluate(log, d.target, bound=None).lower is None
    found = ht.evaluate(log, d.target, bound=Catoni(ht.MomentBound(1.4, 4.0)))
    assert found.lower < found.value < found.upper


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"estimator": "magic"}, r"estimator must be one of 'ips', .* value of ht.logs: IPS\(\)"),
        ({"bound": "normal"}, "bound must be one of"),
        ({"bound": "hindsight"}, "bound must be one of"),
        ({"bound": "catoni"}, re.escape("pass ht.logs.Catoni(tail)")),
        ({"bound": "bernstein"}, re.escape("pass ht.logs.Bernstein(floor, ceiling)")),
        ({"level": 1.0}, "level"),
        ({"estimator": "dr"}, re.escape("pass ht.logs.DR(model)")),
        ({"estimator": "clipped", "bound": "huber"}, "IPS, SNIPS, DR alone; got Clipped"),
        ({"bound": Betting(0.0, 0.5)}, re.escape("must lie in (floor, ceiling) = (0, 0.5)")),
        ({"propensities": "guess"}, "frequencies"),
        ({"explore": 2.0}, "explore"),
    ],
)
def test_a_bad_argument_is_refused_by_name(options, problem):
    d = draw(0)
    with pytest.raises(ValueError, match=problem):
        ht.evaluate(d.log, d.target, **options)


def test_a_log_without_rows_is_refused():
    empty = {"action": np.zeros(0, int), "reward": np.zeros(0), "propensity": np.zeros(0)}
    with pytest.raises(ValueError, match="no rows"):
        ht.evaluate(empty, np.zeros((0, 2)))


def test_without_propensities_weights_are_refused_and_estimated_only_when_asked():
    d = draw(1, n=3000)
    log = {key: d.log[key] for key in ("action", "reward")}
    with pytest.raises(ValueError, match="propensities='frequencies'"):
        ht.evaluate(log, d.target)
    found = ht.evaluate(log, d.target, propensities="frequencies")
    assert found.value == pytest.approx(ht.evaluate(d.log, d.target).value, rel=0.1)
    assert any("frequencies" in sentence for sentence in found.advice)
    own = ht.evaluate(log, d.target, propensities=LOGGING[log["action"]])
    assert own.value == ht.evaluate(d.log, d.target).value
    with pytest.raises(ValueError, match="row 5 must be above 0"):
        ht.evaluate(log, d.target, propensities=np.where(np.arange(3000) == 5, 0.0, 0.5))


def test_a_model_alone_has_no_bounds_and_says_so():
    d = draw(1)
    log = {key: d.log[key] for key in ("action", "reward")}
    found = ht.evaluate(log, d.target, estimator=DM(lambda rows: np.ones((600, 10))))
    assert found.value == pytest.approx(1.0)
    assert found.lower is None
    assert found.upper is None
    assert "model" in found.lower_reason
    assert any("model" in sentence for sentence in found.advice)


def test_the_weights_are_described():
    d = draw(2, n=4000)
    found = ht.evaluate(d.log, d.target)
    w, x = d.weight, d.weight * d.reward
    assert found.rows == 4000
    assert found.effective_size == pytest.approx(w.sum() ** 2 / (w @ w))
    assert found.largest_share == pytest.approx(x.max() / x.sum())
    assert found.top_share == pytest.approx(np.sort(x)[-40:].sum() / x.sum())
    assert found.mean_weight[0] == pytest.approx(w.mean())
    assert found.mean_weight[1] < 1.0 < found.mean_weight[2]
    assert found.propensities_ok
    assert found.tail is not None
    assert 1.2 < found.tail.index < 2.0


def test_wrong_propensities_are_noticed():
    d = draw(3, n=4000)
    found = ht.evaluate({**d.log, "propensity": 0.7 * d.log["propensity"]}, d.target)
    assert not found.propensities_ok
    assert "cannot be above 1" in found.advice[0]
    found = ht.evaluate(
        {**d.log, "propensity": np.minimum(1.4 * d.log["propensity"], 1.0)}, d.target
    )
    assert not found.propensities_ok
    assert "so rarely that it shows none), or the propensities are wrong" in found.advice[0]


def test_an_action_without_support_is_named():
    d = draw(4, arm=9)
    some = d.log["action"] != 9
    log = {key: column[some] for key, column in d.log.items()}
    found = ht.evaluate(log, d.target[some])
    assert found.unsupported == (9,)
    assert found.unsupported_share == pytest.approx(0.82)
    assert any("never has" in sentence for sentence in found.advice)


@pytest.mark.filterwarnings("error")
def test_rewards_too_large_to_be_squared_are_refused():
    d = draw(4)
    with pytest.raises(ValueError, match=r"row 7, column 'reward'.*Change the unit"):
        ht.evaluate(changed(d.log, "reward", 7, 1e200), d.target)
    for size in (1e200, 1e308):
        huge = changed(d.log, "reward", 7, size)
        for call in (
            lambda log: ht.evaluate(log, d.target, bound=None),
            lambda log: ht.compare(log, d.target, d.target[::-1]),
            lambda log: ht.select(log, [d.target]),
            lambda log: ht.evaluate(log, d.target, estimator=DR("arms")),
        ):
            with pytest.raises(ValueError, match=r"1e\+100.*Change the unit"):
                call(huge)
    tiny = {**d.log, "reward": 1e-150 * d.reward}
    assert 0.0 < ht.evaluate(tiny, d.target).lower < 1e-150 * 2.0


def test_a_log_that_says_nothing_of_the_target_gives_nan_and_says_why():
    log = {"action": np.zeros(99, int), "reward": np.ones(99), "propensity": np.full(99, 0.5)}
    found = ht.evaluate(log, np.tile([0.0, 1.0], (99, 1)))
    assert np.isnan(found.value)
    assert found.lower == 0.0
    assert found.unsupported == (1,)
    assert "cannot be known" in " ".join(found.advice)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_few_rows_that_are_all_alike_give_their_reward(n):
    log = {"action": np.zeros(n, int), "reward": np.full(n, 3.0), "propensity": np.full(n, 0.5)}
    for mean in MEANS:
        found = ht.evaluate(log, np.full((n, 2), 0.5), estimator=SNIPS(mean=mean))
        assert found.value == pytest.approx(3.0)
        assert 0.0 <= found.lower < 3.0


def test_the_level_moves_the_bound():
    d = draw(5)
    assert ht.evaluate(d.log, d.target, level=0.8).lower > ht.evaluate(d.log, d.target).lower


def test_a_callable_and_logged_probabilities_do_as_well_as_a_matrix():
    d = draw(6)
    one = ht.evaluate(d.log, d.target)
    assert ht.evaluate(d.log, lambda rows: d.target[rows.start :][: len(rows.action)]) == one
    own = d.target[np.arange(600), d.log["action"]]
    two = ht.evaluate(d.log, own)
    assert (two.value, two.lower) == (one.value, one.lower)
    assert np.isnan(two.unsupported_share)


def test_it_prints_and_plots():
    d = draw(7)
    found = ht.evaluate(d.log, d.target)
    words = str(found)
    assert f"{found.value:.6g}" in words
    assert "at most          none: a reward" in words
    assert found.plot().get_xlabel() == "rows"
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.value = 1.0


def test_the_approximate_interval_says_that_it_guarantees_nothing():
    d = draw(8, n=4000, tail=2.5)
    found = ht.evaluate(d.log, d.target, bound="huber")
    assert found.lower < found.value < found.upper
    assert found.upper - found.value == pytest.approx(found.value - found.lower)
    assert any("no guarantee" in sentence for sentence in found.advice)


@pytest.mark.parametrize("bound", [Betting(0, 1), Bernstein(0, 1)])
def test_bounds_of_bounded_rewards_hold(bound):
    missed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        action = rng.choice(10, size=400, p=LOGGING)
        reward = 1.0 * (rng.random(400) < 0.05 + 0.09 * action)
        log = {"action": action, "reward": reward, "propensity": LOGGING[action]}
        d = draw(0, n=400)
        truth = float(d.target[0] @ (0.05 + 0.09 * np.arange(10)))
        found = ht.evaluate(log, d.target, bound=bound, level=0.9)
        missed += not found.lower <= truth <= found.upper
    assert missed <= 10


def test_an_iterator_is_read_once_and_its_length_need_not_be_known():
    d = draw(9)
    parts = ({key: column[k : k + 200] for key, column in d.log.items()} for k in (0, 200, 400))
    whole, read = ht.evaluate(d.log, d.target), ht.evaluate(parts, d.target)
    assert read.value == pytest.approx(whole.value, rel=1e-12)
    assert 0.0 < read.lower < whole.lower  # bets spread over several horizons cost a little
    parts = ({key: column[k : k + 200] for key, column in d.log.items()} for k in (0, 200, 400))
    with pytest.raises(ValueError, match="clip= must be stated"):
        ht.evaluate(parts, d.target, estimator=Clipped())


def test_a_column_may_be_the_target():
    d = draw(10)
    own = d.target[np.arange(600), d.log["action"]]
    log = {**d.log, "ours": own, "target": own, "theirs": d.log["propensity"]}
    assert ht.evaluate(log).value == ht.evaluate(log, "ours").value == ht.evaluate(log, own).value
    found = ht.compare(log, "ours", "theirs")
    assert found.value == pytest.approx(ht.compare(log, own, log["propensity"]).value)


def test_a_chunk_can_be_summarised_elsewhere():
    d = draw(11)
    plan = Plan(SNIPS(), Betting())
    call = functools.partial(summarise, target=Target(d.target), plan=plan)
    [rows] = chunks(d.log)
    here, there = call(rows), pickle.loads(pickle.dumps(call))(pickle.loads(pickle.dumps(rows)))
    there = pickle.loads(pickle.dumps(there))
    assert np.array_equal(here.blocks, there.blocks)
    assert np.array_equal(here.values.cells().mean, there.values.cells().mean)


def test_an_array_for_another_number_of_rows_is_refused():
    d = draw(12)
    with pytest.raises(ValueError, match="rows"):
        ht.evaluate(d.log, np.concatenate([d.target, d.target]))
