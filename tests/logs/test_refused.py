"""What a breaker passed: every refusal comes in words, before the work, and names the culprit."""

from __future__ import annotations

import copy
import gzip
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.drawing import draw

import heavytail as ht
from heavytail.logs import DR, SNIPS, models
from heavytail.logs.estimators import MEANS
from heavytail.logs.reading import chunks, length, vw_dsjson
from heavytail.logs.reading.rows import MOST_ARMS

N = 60
LOG = {
    "action": np.arange(N) % 3,
    "reward": 1.0 + np.arange(N) % 7,
    "propensity": np.full(N, 1 / 3),
}
EVEN = np.full((N, 3), 1 / 3)


def changed(column, row, value):
    array = np.array(LOG[column], dtype=float)
    array[row] = value
    return {**LOG, column: array}


class Constant:
    """A regressor that predicts what it was told to."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, x, y):
        return self

    def predict(self, x):
        return self.answer(len(x))


def unread():
    raise AssertionError("the log was read")
    yield


@pytest.mark.parametrize("options", [{}, {"propensities": "frequencies"}])
@pytest.mark.parametrize("action", [MOST_ARMS, 2**31 - 1])
def test_an_action_beyond_the_most_arms_is_refused_before_it_is_counted(action, options):
    with pytest.raises(ValueError, match=r"log, row 5, column 'action': must be below 16,777,216"):
        ht.evaluate(changed("action", 5, action), EVEN[:, 0], **options)


def test_indicators_of_actions_beyond_memory_are_refused(monkeypatch):
    monkeypatch.setattr("heavytail._memory.memory", lambda: 1e6)
    monkeypatch.setattr("heavytail._memory.SMALL", 0)
    with pytest.raises(ValueError, match=r"indicators of 10,001 actions for 60 rows would need"):
        ht.evaluate(changed("action", 5, 10_000), EVEN[:, 0], estimator=DR(Constant(np.zeros)))


@pytest.mark.parametrize(("folds", "most"), [(10**9, N), (N + 1, N)])
def test_more_folds_than_rows_are_refused(folds, most):
    with pytest.raises(ValueError, match=f"folds must be at most {most}"):
        ht.evaluate(LOG, EVEN, estimator=DR(Constant(np.zeros), folds))


def test_absurd_counts_are_refused_before_the_log_is_read():
    with pytest.raises(ValueError, match=f"folds must be at most {models.MOST_FOLDS}"):
        models.as_model(
            Constant(np.zeros), ht.logs.reading.source.Source(unread(), None, None), 10**9
        )
    with pytest.raises(ValueError, match="draws must be at most 1000000"):
        ht.evaluate(unread(), EVEN, draws=10**12)
    with pytest.raises(ValueError, match="size must be at most"):
        next(chunks(unread(), size=10**12))


@pytest.mark.parametrize("kind", ["pandas", "arrow", "parquet"])
def test_two_columns_of_one_name_are_refused_if_they_are_read(kind, tmp_path):
    names = ["action", "reward", "propensity", "reward", "other", "other"]
    table = pa.table([LOG.get(name, LOG["reward"]) for name in names], names=names)

    def as_log(table):
        if kind == "pandas":
            columns = [pd.Series(column.to_numpy(), name=column_name)
                       for column_name, column in zip(table.column_names, table.columns,
                                                      strict=True)]  # fmt: skip
            return pd.concat(columns, axis=1)
        pq.write_table(table, tmp_path / "log.parquet")
        return table if kind == "arrow" else tmp_path / "log.parquet"

    with pytest.raises(ValueError, match="2 columns are called 'reward'"):
        ht.evaluate(as_log(table), EVEN)
    plain = ht.evaluate(as_log(table.remove_column(3)), EVEN)
    assert plain.value == ht.evaluate(LOG, EVEN).value


def test_names_that_are_numbers_are_said_as_text():
    frame = pd.DataFrame(LOG).rename(columns={"reward": 0})
    told = {"reward": "0"}
    assert ht.evaluate(frame, EVEN, columns=told) == ht.evaluate(LOG, EVEN)
    assert ht.evaluate(dict(frame), EVEN, columns=told) == ht.evaluate(LOG, EVEN)


def test_lists_that_stand_in_each_other_without_end_are_refused():
    endless = []
    endless.append(endless)
    deep = LOG
    for _ in range(5000):
        deep = [deep]
    for log in (endless, deep):
        for read in (lambda log: ht.evaluate(log, EVEN), length):
            with pytest.raises(ValueError, match="more than 50 deep"):
                read(log)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (5, "columns must be a dict"),
        (True, "columns must be a dict"),
        ("reward", "columns must be a dict"),
        ([("reward", "reward")], "columns must be a dict"),
        ({"context": []}, "'context' must name at least one column"),
        ({"context": {}}, "'context' must be a column's name"),
    ],
)
def test_columns_that_are_none_are_refused_before_the_log_is_read(columns, words):
    for policy in (EVEN, "target"):
        with pytest.raises((TypeError, ValueError), match=words):
            ht.evaluate(unread(), policy, columns=columns)
    with pytest.raises((TypeError, ValueError), match=words):
        ht.replay(unread(), ht.TwinUCB(2), columns=columns, least=0.1)


@pytest.mark.parametrize("policies", [None, 5, "target", EVEN, ht.Uniform(2)])
def test_what_is_no_set_of_policies_is_not_selected_from(policies):
    with pytest.raises(TypeError, match=r"select\.policies must be a dict"):
        ht.select(unread(), policies)


@pytest.mark.parametrize("seed", ["a", -1, 1.5, None, True, [1], float("nan")])
def test_a_replays_seed_is_a_whole_number(seed):
    with pytest.raises((TypeError, ValueError), match=r"replay\.seed must be a whole number"):
        ht.replay(unread(), ht.TwinUCB(2), seed=seed, least=0.1)


@pytest.mark.parametrize(
    "answer",
    [
        "text", None, 5, np.full((N, 3), 1j), np.full((N, 3), True), np.full((N, 3), "1.0"),
        np.full((N, 3), np.timedelta64(1, "s")), [[1.0, 2.0], [3.0]], np.zeros(N),
        np.zeros((N, 2)), np.ma.masked_all((N, 3)),
    ],
    ids=lambda answer: str(answer)[:12],
)  # fmt: skip
def test_a_model_that_predicts_no_rewards_is_refused(answer):
    with pytest.raises((TypeError, ValueError), match=r"log: .*model .*shape \(60, 3\)"):
        ht.evaluate(LOG, EVEN, estimator=DR(lambda rows: answer))


@pytest.mark.parametrize(
    "answer",
    [lambda n: "text", lambda n: np.full(n, 1j), lambda n: np.full(n, True),
     lambda n: np.zeros((n, 1)), lambda n: 3.0],
)  # fmt: skip
def test_a_regressor_that_predicts_no_rewards_is_refused(answer):
    with pytest.raises((TypeError, ValueError), match="what model predicts must"):
        ht.evaluate(LOG, EVEN, estimator=DR(Constant(answer)))


@pytest.mark.parametrize("least", [1e-310, 1e-120])
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_weight_beyond_all_squares_is_refused_by_its_row(least, reward):
    log = {**changed("propensity", 3, least), "reward": np.full(N, reward)}
    with pytest.raises(ValueError, match=r"log, row 3, column 'propensity': gives the row a weig"):
        ht.evaluate(log, EVEN)


@pytest.mark.parametrize("column", ["reward", "time"])
def test_spans_of_time_are_no_numbers(column):
    spans = np.full(N, np.timedelta64(5000, "ms"))
    for value in (spans, list(spans), pd.Series(spans), spans.astype(object)):
        with pytest.raises(TypeError, match=f"column '{column}': must"):
            ht.evaluate({**LOG, column: value}, EVEN)


def test_a_decision_log_is_neither_copied_nor_pickled(tmp_path):
    with ht.DecisionLog(tmp_path / "log") as log:
        for double in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="one writer and cannot be copied or pickled"):
                double(log)


def test_a_policy_that_names_no_column_hears_what_it_may_be():
    for judge in (ht.evaluate, lambda log, policy: ht.compare(log, policy, EVEN)):
        with pytest.raises(ValueError, match=r"no column 'uniform'; it has \['action'.*callable"):
            judge(pd.DataFrame(LOG), "uniform")


def test_an_error_names_the_logs_own_column():
    arms = np.tile(np.eye(3), (N, 1, 1))
    log = {"a": LOG["action"], "r": -LOG["reward"], "p": LOG["propensity"], "f": arms}
    told = {"action": "a", "reward": "r", "propensity": "p", "arms": "f"}
    with pytest.raises(ValueError, match=r"row 0, column 'r': bound 'betting' needs"):
        ht.evaluate(log, EVEN, columns=told)
    with pytest.raises(ValueError, match=r"row 0, column 'p': must be at least least=0\.5"):
        ht.replay(log, ht.TwinUCB(3), columns=told, least=0.5)
    with pytest.raises(ValueError, match="column 'f': has 3 features per arm"):
        ht.evaluate(log, ht.TwinUCB(4), columns=told)
    [rows] = chunks(log, columns=told)
    with pytest.raises(ValueError, match="row 0, column 'r': bound 'betting' needs"):
        ht.evaluate(rows, EVEN)


@pytest.mark.parametrize("factor", [2.0**-460, 2.0**300])
@pytest.mark.parametrize("estimator", ["ips", "ls", "lse", *(SNIPS(mean=mean) for mean in MEANS)])
def test_the_unit_of_the_rewards_changes_nothing(factor, estimator):
    d = draw(4)
    one = ht.evaluate(d.log, d.target, estimator=estimator)
    two = ht.evaluate({**d.log, "reward": factor * d.reward}, d.target, estimator=estimator)
    assert two.value == factor * one.value
    assert two.lower == factor * one.lower
    assert np.isnan(one.error) or two.error == factor * one.error
    assert two.tail.index == pytest.approx(one.tail.index)


@pytest.mark.parametrize("factor", [1e-170, 1e140])
def test_rewards_whose_squares_are_no_numbers_are_refused(factor):
    d, other = draw(4), np.full((600, 10), 0.1)
    log = {**d.log, "reward": factor * d.reward}
    for judge in (
        lambda: ht.evaluate(log, d.target),
        lambda: ht.compare(log, d.target, other),
        lambda: ht.select(log, [d.target, other]),
    ):
        with pytest.raises(ValueError, match="Change the unit"):
            judge()
    tiny = {**d.log, "reward": np.where(np.arange(600) == 9, 1e-170, d.reward)}
    assert ht.evaluate(tiny, d.target).value > 0.0  # one among others is as good as 0


def event(**features):
    return {
        "_label_cost": -1.0, "_label_probability": 0.5, "_labelIndex": 0, "_label_Action": 1,
        "a": [1, 2], "p": [0.5, 0.5], "c": features,
    }  # fmt: skip


def written(folder, *events):
    path = folder / "log.json"
    path.write_text("\n".join(map(json.dumps, events)) + "\n")
    return path


def test_a_line_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(vw_dsjson, "LONGEST", 1000)
    path = tmp_path / "log.json.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(event()).encode() + b"\n")
        stream.write(b'{"c": "' + b"x" * 2000)
    with pytest.raises(ValueError, match=r"log\.json\.gz, row 1: the line has more than 1,000 by"):
        list(chunks(path))


def nested(depth, inside):
    for _ in range(depth):
        inside = {"n": inside}
    return inside


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"deep": nested(vw_dsjson.DEEPEST, 1.0)}, r"column 'c': objects .* more than 64 deep"),
        ({"k" * 2000: [1.0]}, r"column 'c': the name of a feature.*1,000 letters"),
        ({"wide": [0.5] * 101}, r"column 'c': has more than 100 numbers.*columns="),
        (
            {"_multi": [{f"f{i}": 1.0} for i in range(50)]},
            r"column 'c\._multi': has more than 2,000 arms times features",
        ),
    ],
)
def test_features_without_measure_are_refused_by_their_line(features, words, tmp_path, monkeypatch):
    monkeypatch.setattr(vw_dsjson, "MOST_FEATURES", 100)
    monkeypatch.setattr(vw_dsjson, "ROOM", 2000)
    path = written(tmp_path, event() if "_multi" in features else event(x=1.0), event(**features))
    with pytest.raises(ValueError, match=rf"log\.json, row 1, {words}"):
        list(chunks(path))


def test_chosen_features_are_read_from_among_any_number(tmp_path, monkeypatch):
    monkeypatch.setattr(vw_dsjson, "MOST_FEATURES", 100)
    path = written(tmp_path, event(wide=[0.5] * 101, x=2.0, deep=nested(20, 3.0)))
    [rows] = chunks(path, columns={"context": ["x", "wide.7", "not"]})
    assert rows.context.tolist() == [[2.0, 0.5, 0.0]]


def test_lines_of_many_numbers_make_smaller_chunks_of_the_same_rows(tmp_path, monkeypatch):
    path = written(tmp_path, *(event(x=[float(i), 1.0, 2.0]) for i in range(9)))
    [whole] = chunks(path)
    monkeypatch.setattr(vw_dsjson, "ROOM", 20)
    parts = list(chunks(path))
    assert len(parts) > 2
    assert np.array_equal(np.concatenate([part.context for part in parts]), whole.context)


def test_a_csv_file_and_numbers_of_actions_that_have_names_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action,reward,propensity\n0,1.0,0.5\n")
    with pytest.raises(ValueError, match=r"read a CSV file with pandas\.read_csv"):
        ht.evaluate(str(path), np.ones((1, 1)))
    named = ["red", "blue"]
    for action in (named, np.array(named), np.array(named, dtype=object)):
        log = {"action": action, "reward": [1.0, 2.0], "propensity": [0.5, 0.5]}
        with pytest.raises(ValueError, match=r"array \(n, K\) .* have names\. Pass a callable"):
            ht.evaluate(log, np.ones((2, 2)) / 2)
    log = {"action": [0, 1], "reward": named, "propensity": [0.5, 0.5]}
    with pytest.raises(TypeError, match=r"'reward': must be a number; got 'red'\.$"):
        ht.evaluate(log, np.ones((2, 2)) / 2)
