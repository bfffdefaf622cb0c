"""Actions that have names, one action in every row, and the policy that wrote the log."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.logs import DM, DR, IPS, SNIPS
from heavytail.logs.reading import chunks
from heavytail.logs.reading.rows import PER_ROW, Rows
from heavytail.logs.reading.spread import map_chunks
from heavytail.logs.target import probabilities

N = 900
NAMES = ("mail", "none", "A-17")  # in alphabetical order: A-17, mail, none
ODDS = np.array([0.5, 0.3, 0.2])
WHICH = np.random.default_rng(0).choice(3, N, p=ODDS)
TEXT = np.array(NAMES)[WHICH]
REWARD = np.random.default_rng(1).pareto(2.5, N) * (1 + WHICH)
NUMBER = np.array([1, 2, 0])[WHICH]  # of the name, in alphabetical order
LOG = {"action": TEXT.tolist(), "reward": REWARD, "propensity": ODDS[WHICH]}
NUMBERS = {**LOG, "action": NUMBER}
PLAIN_IPS = IPS(mean="plain")


def played(number, count=3):
    """Probabilities of one action in every row, by hand."""
    return np.tile(np.eye(count)[number], (N, 1))


def written(path, table=None):
    pq.write_table(pa.table(LOG) if table is None else table, path, row_group_size=100)
    return str(path)


def dressed(kind, folder):
    table = pa.table(LOG)
    coded = table.set_column(0, "action", table["action"].dictionary_encode())
    return {
        "array": {**LOG, "action": TEXT},
        "objects": {**LOG, "action": TEXT.astype(object)},
        "pandas": pd.DataFrame(LOG),
        "categorical": pd.DataFrame(LOG).astype({"action": "category"}),
        "pandas with arrow": pd.DataFrame(LOG).convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.DataFrame(LOG),
        "polars categorical": pl.DataFrame(LOG).with_columns(pl.col("action").cast(pl.Categorical)),
        "arrow": table,
        "arrow dictionary": coded,
        "parquet": written(folder / "log.parquet"),
        "parquet dictionary": written(folder / "coded.parquet", coded),
        "frames": [pd.DataFrame(LOG)[:10], pd.DataFrame(LOG)[10:]],
    }[kind]


KINDS = (
    *("array", "objects", "pandas", "categorical", "pandas with arrow", "polars"),
    *("polars categorical", "arrow", "arrow dictionary", "parquet", "parquet dictionary", "frames"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_names_give_what_their_alphabetical_numbers_give_in_every_dress(kind, tmp_path):
    expected = ht.evaluate(NUMBERS, played(2))
    assert ht.evaluate(dressed(kind, tmp_path), ht.always("none")) == expected


def test_an_iterator_and_a_lazy_frame_know_the_names_of_later_parts():
    order = np.argsort(TEXT, kind="stable")  # "none" is in the last parts alone
    frame = pd.DataFrame(LOG).iloc[order]
    parts = (frame[start : start + 100] for start in range(0, N, 100))
    expected = ht.evaluate(frame, ht.always("none")).value
    assert ht.evaluate(parts, ht.always("none")).value == expected
    assert ht.evaluate(pl.DataFrame(frame).lazy(), ht.always("none")).value == expected


def test_names_are_the_same_in_every_chunk_and_on_a_cluster(tmp_path):
    order = np.argsort(TEXT, kind="stable")
    path = written(tmp_path / "log.parquet", pa.table(pd.DataFrame(LOG).iloc[order]))
    parts = list(chunks(path, size=100))
    assert len(parts) > 2
    assert {part.actions for part in parts} == {tuple(sorted(NAMES))}
    told = [name for part in parts for name in np.array(part.actions)[part.action]]
    assert told == TEXT[order].tolist()
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        there = list(map_chunks(path, names_and_numbers, client, size=100))
    assert there == [names_and_numbers(part) for part in parts]


def names_and_numbers(rows):
    return rows.actions, rows.action.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_one_action_has_weight_1_over_p_where_it_was_played_and_0_elsewhere(name):
    weight = (name == TEXT) / LOG["propensity"]
    ips = ht.evaluate(LOG, ht.always(name), estimator=PLAIN_IPS)
    assert ips.value == pytest.approx(np.mean(weight * REWARD), rel=1e-12)
    assert ips.mean_weight[0] == pytest.approx(weight.mean(), rel=1e-12)
    snips = ht.evaluate(LOG, ht.always(name), estimator=SNIPS(mean="plain"))
    assert snips.value == pytest.approx(weight @ REWARD / weight.sum(), rel=1e-12)


@pytest.mark.parametrize("estimator", ["snips", DR("arms"), DM("arms")])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_action_by_its_number_is_a_row_of_the_identity(number, estimator):
    expected = ht.evaluate(NUMBERS, played(number), estimator=estimator)
    assert ht.evaluate(NUMBERS, ht.always(number), estimator=estimator) == expected


def test_chunks_without_the_last_action_have_a_model_too():
    class Mean:
        def fit(self, x, y):
            self.mean = np.array([y[x[:, k] > 0].mean() for k in range(x.shape[1])])

        def predict(self, x):
            return x @ self.mean

    order = np.argsort(NUMBER, kind="stable")
    parts = [{key: np.asarray(value)[order][part] for key, value in NUMBERS.items()}
             for part in (slice(0, 300), slice(300, N))]  # fmt: skip
    assert 2 not in parts[0]["action"]
    value = ht.evaluate(parts, ht.always(0), estimator=DM(Mean())).value
    assert value == pytest.approx(REWARD[NUMBER == 0].mean(), rel=0.2)


def test_a_number_is_the_text_of_the_same_name():
    log = {**LOG, "action": [str(k) for k in NUMBER]}
    assert ht.evaluate(log, ht.always(1)) == ht.evaluate(log, ht.always("1"))
    assert ht.evaluate(log, ht.always(1)) == ht.evaluate(NUMBERS, ht.always(1))


def test_a_callable_sees_the_names():
    def target(rows):
        share = {"mail": 0.6, "none": 0.3, "A-17": 0.1}
        return np.tile([share[name] for name in rows.actions], (len(rows.action), 1))

    expected = ht.evaluate(NUMBERS, np.tile([0.1, 0.6, 0.3], (N, 1)))
    assert ht.evaluate(LOG, target) == expected
    with pytest.raises(ValueError, match=r"must have shape \(900,\) or \(900, 3\); got \(900, 2\)"):
        ht.evaluate(LOG, lambda rows: np.full((N, 2), 0.5))


@pytest.mark.parametrize("how", ["dict", "columns", "rows"])
def test_probabilities_by_name_are_those_of_their_numbers(how):
    shares = {name: np.full(N, odds) for name, odds in zip(NAMES, ODDS, strict=True)}
    shares["other"] = np.zeros(N)
    bare = {key: LOG[key] for key in ("action", "reward")}
    log, columns = {**bare, "probabilities": shares}, {}
    if how != "dict":
        log = pd.DataFrame(bare).assign(**{f"p {name}": odds for name, odds in shares.items()})
        columns = {"probabilities": {name: f"p {name}" for name in shares}}
    if how == "rows":
        log, columns = list(chunks(log, columns=columns)), {}
    table = np.tile([0.2, 0.5, 0.3, 0.0], (N, 1))
    expected = ht.evaluate({**NUMBERS, "probabilities": table}, played(1, 4))
    assert ht.evaluate(log, ht.always("mail"), columns=columns) == expected
    found = ht.evaluate(log, ht.always("other"), columns=columns)
    assert found.unsupported == ("other",)
    assert found.unsupported_share == 1.0
    assert "never has (action other)" in found.advice[0]


def test_rows_of_a_log_with_names_can_be_read_again_as_a_log():
    parts = list(chunks(LOG, size=100))
    assert ht.evaluate(parts, ht.always("mail")) == ht.evaluate(LOG, ht.always("mail"))


def test_every_field_of_a_row_is_kept_where_rows_are_left_out():
    whole = {"source", "start", "names", "actions"}
    assert set(Rows._fields) == whole | set(PER_ROW)


LATE = {**LOG, "action": [*LOG["action"][:-1], None]}
MIXED = {**LOG, "action": [0, *LOG["action"][1:]]}
LISTS = {**LOG, "probabilities": np.tile(ODDS, (N, 1))}
LOST = {**LOG, "probabilities": {"mail": np.full(N, 0.5), "none": np.full(N, 0.5)}}
OFFERS = {**LOG, "arms": np.ones((N, 3, 2))}
STATED = {"probabilities": np.tile([0.2, 0.5, 0.3], (N, 1))}


@pytest.mark.parametrize(
    ("log", "action", "words"),
    [
        (LOG, "nome", "log, column 'action': no row plays or offers 'nome'. Did you mean 'none'?"),
        (LOG, "xyzzy", "offers 'xyzzy'. The names are ['A-17', 'mail', 'none']."),
        (
            NUMBERS,
            "none",
            "always none: actions are numbers and have no names. Pass always(number)",
        ),
        (NUMBERS, 3, "the log: no row plays or offers 3. Those played are [0, 1, 2]."),
        ({**NUMBERS, **STATED}, 3, "no row plays or offers 3; there are 3 actions, 0 to 2."),
        (LATE, "none", "log, row 899, column 'action': is null. Give the action's name."),
        (LISTS, "none", "'probabilities': has lists of numbers, and actions have names. Say whose"),
        (LOST, "none", "there is no column for 'A-17', which is an action of this log."),
        (OFFERS, "none", "'action': holds names, and the log has arms: pass the place of the"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_do(log, action, words):
    with pytest.raises(ValueError) as error:
        ht.evaluate(log, ht.always(action))
    assert words in str(error.value)


def test_numbers_among_which_is_a_name_and_other_mistakes_are_refused():
    with pytest.raises(TypeError, match=r"must be a number; got '.*'\. Give every action a number"):
        ht.evaluate(MIXED, ht.always("none"))
    with pytest.raises(ValueError, match=r"'probabilities' names actions, and column 'action' of"):
        ht.evaluate({**LOST, "action": NUMBER}, ht.always(1))
    with pytest.raises(ValueError, match=r"always\.otherwise must be one of 'logged'; got 'mail'"):
        ht.always("none", otherwise="mail")
    for action in (-1, 1.5, None, True):
        with pytest.raises((TypeError, ValueError), match=r"^always\.action, if it is no name,"):
            ht.always(action)


# Rows that do not offer the action


def some_offered(**more):
    """Rows that offer two arms or three, in turn."""
    count = np.where(np.arange(N) % 2, 3, 2)
    action = np.arange(N) // 2 % count
    arms = np.ones((N, 3, 1))
    arms[np.arange(3) >= count[:, None]] = np.nan
    return {
        "arms": arms,
        "action": action,
        "reward": REWARD,
        "propensity": 1 / count,
        **more,
    }, count


@pytest.mark.parametrize("known", [False, True])
def test_rows_that_do_not_offer_the_action_are_refused_or_play_as_the_log(known):
    log, count = some_offered()
    even = np.where(np.arange(3) < count[:, None], 1 / count[:, None], 0.0)
    log |= {"probabilities": even} if known else {}
    with pytest.raises(ValueError, match=r"log, row 0: does not offer 2\. Leave such rows out, or"):
        ht.evaluate(log, ht.always(2))
    weight = np.where(count == 3, 3.0 * (log["action"] == 2), 1.0)
    target = ht.always(2, otherwise="logged")
    found = ht.evaluate(log, target, estimator=PLAIN_IPS)
    assert found.value == pytest.approx(np.mean(weight * REWARD), rel=1e-12)
    [rows] = chunks(log)
    assert probabilities(target, rows).ndim == 1 + known
    with pytest.raises(ValueError, match="no row plays or offers 7"):
        ht.evaluate(log, ht.always(7, otherwise="logged"))


def test_an_id_is_played_where_the_row_has_it(tmp_path):
    rng = np.random.default_rng(2)
    slate = [list(rng.permutation(["a", "b", "c"])[: 2 + k % 2]) for k in range(N)]
    shown = [names[int(rng.integers(len(names)))] for names in slate]
    p = np.array([1 / len(names) for names in slate])
    log = {"banner": shown, "slate": slate, "reward": REWARD, "propensity": p}
    encoder = ht.Encoder(categories={"sku": ["a", "b", "c"]})
    arms = encoder.catalogue([{"sku": name} for name in "abc"], ids="sku", offered="slate")
    columns = {"action": "banner", "arms": arms}
    has = np.array(["b" in names for names in slate])
    weight = np.where(has, (np.array(shown) == "b") / p, 1.0)
    target = pickle.loads(pickle.dumps(ht.always("b", otherwise="logged")))
    found = ht.evaluate(log, target, estimator=PLAIN_IPS, columns=columns)
    assert found.value == pytest.approx(np.mean(weight * REWARD), rel=1e-12)
    with pytest.raises(ValueError, match=rf"log, row {np.argmin(has)}: does not offer 'b'"):
        ht.evaluate(log, ht.always("b"), columns=columns)
    every = {"action": "banner", "arms": encoder.catalogue([{"sku": n} for n in "abc"], ids="sku")}
    weight = (np.array(shown) == "b") / p
    found = ht.evaluate(log, ht.always("b"), estimator=PLAIN_IPS, columns=every)
    assert found.value == pytest.approx(np.mean(weight * REWARD), rel=1e-12)
    with pytest.raises(ValueError, match=r"'banner': no row plays or offers 'd'\. The names are"):
        ht.evaluate(log, ht.always("d"), columns=every)


# The policy that wrote the log


@pytest.mark.parametrize("more", [{}, STATED, {"propensity": None}])
def test_the_logs_own_policy_has_weights_of_1_with_or_without_propensities(more):
    log = {key: value for key, value in {**NUMBERS, **more}.items() if value is not None}
    found = ht.evaluate(log, "logged", estimator=PLAIN_IPS)
    assert found.value == pytest.approx(REWARD.mean(), rel=1e-12)
    assert found.mean_weight == (1.0, 1.0, 1.0)
    assert found.effective_size == N
    assert found.lower is not None


def test_the_logs_own_policy_plays_by_the_propensities_that_are_stated():
    p = np.full(N, 0.25)
    assert ht.evaluate(LOG, "logged", propensities=p).mean_weight == (1.0, 1.0, 1.0)
    found = ht.evaluate({**NUMBERS, **STATED}, "logged", explore=0.3, estimator=PLAIN_IPS)
    weight = 0.7 + 0.3 / (3 * LOG["propensity"])
    assert found.value == pytest.approx(np.mean(weight * REWARD), rel=1e-12)


def test_the_logs_own_policy_is_compared_and_chosen_like_others():
    found = ht.compare(LOG, ht.always("A-17"), "logged")
    assert found.b == ht.compare(LOG, "logged", ht.always("A-17")).a
    assert found.b.value == ht.evaluate(LOG, "logged").value
    chosen = ht.select(LOG, {"now": "logged", **{name: ht.always(name) for name in NAMES}})
    assert chosen.chosen == "A-17"
    with pytest.raises(TypeError, match="not as names of columns"):
        ht.select({**LOG, "old": ODDS[WHICH]}, {"now": "logged", "old": "old"})


def test_logged_is_a_column_or_the_policy_as_the_caller_says():
    log = {**NUMBERS, "logged": 0.5 * LOG["propensity"], "old": LOG["propensity"]}
    for call in (
        lambda: ht.evaluate(log, "logged"),
        lambda: ht.compare(log, "old", "logged"),
        lambda: ht.select(log, ["logged", ht.always(1)]),
    ):
        with pytest.raises(ValueError, match="'logged' is both a column of the log and the policy"):
            call()
    policy = ht.evaluate(log, "logged", columns={"target": None})
    assert policy.mean_weight[0] == 1.0
    column = ht.evaluate(log, "logged", columns={"target": "logged"})
    assert column.mean_weight[0] == pytest.approx(0.5)
    both = ht.compare(log, "logged", "old", columns={"target": "logged"})
    assert both.a.mean_weight[0] == pytest.approx(0.5)
    assert both.b.mean_weight[0] == pytest.approx(1.0)
    apart = ht.compare(log, "logged", "old", columns={"target": None})
    assert apart.value == pytest.approx(0.0)
