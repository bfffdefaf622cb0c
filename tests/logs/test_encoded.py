"""Raw logs: an encoder and a table of arms fill in the arms, in every dress and chunk by chunk."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.logs.reading import chunks, encoded

ROWS = 300
BANNERS = [{"sku": f"s{k}", "price": 5.0 + k} for k in range(4)]
NAMES = {"action": "banner", "reward": "paid", "propensity": "p"}


@pytest.fixture(scope="module")
def encoder():
    return ht.Encoder(
        numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)},
        categories={"kind": ["new", "old"]},
        crosses=[("kind", "sku", 8), ("age", "sku", 8)],
    )


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(18, 80, ROWS),
        "kind": rng.choice(["new", "old"], ROWS),
        "banner": rng.choice([one["sku"] for one in BANNERS], ROWS),
        "paid": rng.pareto(2.5, ROWS),
        "p": np.full(ROWS, 0.25),
    }


@pytest.fixture(scope="module")
def by_hand(encoder, raw):
    """The same log with its arms made one row at a time, as decisions are."""
    rounds = zip(raw["age"], raw["kind"], strict=True)
    arms = [encoder.arms({"age": a, "kind": k}, BANNERS) for a, k in rounds]
    skus = [one["sku"] for one in BANNERS]
    return {
        "arms": np.stack([np.asarray(one) for one in arms]),
        "action": np.array([skus.index(one) for one in raw["banner"]]),
        "reward": raw["paid"],
        "propensity": raw["p"],
    }


@pytest.fixture(scope="module")
def policy(encoder, by_hand):
    policy = ht.TwinUCB(encoder.dim)
    policy.encoder = encoder
    for i in range(50):
        policy.update(by_hand["arms"][i, by_hand["action"][i]], by_hand["reward"][i])
    return policy


def columns(encoder, **more):
    return {**NAMES, "arms": encoder.catalogue(BANNERS, ids="sku", **more)}


def arms_of(log, told, **more):
    return np.concatenate([rows.arms for rows in chunks(log, columns=told, **more)])


def in_file(table, path, **more):
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **more)
    return str(path)


def test_every_dress_of_a_raw_log_gives_the_arms_of_live_decisions(encoder, raw, by_hand, tmp_path):
    dresses = {
        "dict": raw,
        "lists": {name: column.tolist() for name, column in raw.items()},
        "pandas": pd.DataFrame(raw),
        "categories": pd.DataFrame(raw).astype({"kind": "category", "banner": "category"}),
        "polars": pl.DataFrame(raw),
        "lazy": pl.DataFrame(raw).lazy(),
        "arrow": pa.table(raw),
        "parquet": in_file(raw, tmp_path / "raw.parquet", row_group_size=70),
        "parts": iter([pd.DataFrame(raw)[:100], pd.DataFrame(raw)[100:]]),
    }
    for name, log in dresses.items():
        found = list(chunks(log, columns=columns(encoder)))
        assert np.array_equal(np.concatenate([rows.arms for rows in found]), by_hand["arms"]), name
        actions = np.concatenate([rows.action for rows in found])
        assert np.array_equal(actions, by_hand["action"]), name


def test_all_that_reads_logs_reads_raw_ones(encoder, raw, by_hand, policy):
    told = columns(policy.encoder)
    uniform = ht.Uniform(encoder.dim)
    assert ht.evaluate(raw, policy, columns=told) == ht.evaluate(by_hand, policy)
    assert ht.compare(raw, policy, uniform, columns=told) == ht.compare(by_hand, policy, uniform)
    both = {"mine": policy, "any": uniform}
    chosen = ht.select(raw, both, columns=told), ht.select(by_hand, both)
    assert chosen[0].values.tolist() == chosen[1].values.tolist()
    played = ht.replay(raw, policy, columns=told), ht.replay(by_hand, policy)
    assert played[0].value == played[1].value
    learned = [ht.LogPolicy().fit(raw, columns=told), ht.LogPolicy().fit(by_hand)]
    assert np.array_equal(learned[0].theta, learned[1].theta)


def test_a_frame_is_a_table_of_arms_too(encoder, raw, by_hand):
    for frame in (pd.DataFrame(BANNERS), pl.DataFrame(BANNERS), pa.Table.from_pylist(BANNERS)):
        told = {**NAMES, "arms": encoder.catalogue(frame, ids="sku")}
        assert np.array_equal(arms_of(raw, told), by_hand["arms"])


def test_ids_that_are_numbers_or_places_find_their_arms(encoder, raw, by_hand):
    plain = {**raw, "banner": by_hand["action"]}
    told = {**NAMES, "arms": encoder.catalogue(BANNERS)}
    assert np.array_equal(arms_of(plain, told), by_hand["arms"])
    ids = [2**60 + k for k in range(4)]  # which are no floats
    long = pd.DataFrame({**raw, "banner": np.array(ids)[by_hand["action"]]})
    told = {**NAMES, "arms": encoder.catalogue(BANNERS, ids=ids)}
    found = np.concatenate([rows.action for rows in chunks(long, columns=told)])
    assert np.array_equal(found, by_hand["action"])


def test_how_rows_are_cut_into_pieces_does_not_matter(encoder, raw, by_hand, monkeypatch):
    monkeypatch.setattr(encoded, "ROOM", 7 * len(BANNERS) * encoder.dim)
    parts = list(chunks(raw, columns=columns(encoder)))
    assert max(len(rows.action) for rows in parts) == 7
    assert np.array_equal(np.concatenate([rows.arms for rows in parts]), by_hand["arms"])
    assert [rows.start for rows in parts] == list(range(0, ROWS, 7))
    numbers = np.concatenate([rows.numbers for rows in parts])
    assert np.array_equal(numbers, np.arange(ROWS))


def test_memory_is_that_of_a_piece(encoder):
    n, count = 20_000, 50
    log = {"age": np.full(n, 30.0), "kind": np.full(n, "new"), "action": np.zeros(n, dtype=int),
           "reward": np.ones(n)}  # fmt: skip
    arms = {"sku": [f"s{k}" for k in range(count)], "price": np.arange(count) * 1.0}
    told = {"arms": encoder.catalogue(arms)}
    tracemalloc.start()
    for _ in chunks(log, columns=told):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * count * encoder.dim / 1.2  # of all the arms at once, 160 MB
    assert peak < 5 * 8 * encoded.ROOM


def with_lists(raw):
    rng = np.random.default_rng(1)
    skus = [one["sku"] for one in BANNERS]
    shown = [rng.permutation(skus)[: rng.integers(2, 5)].tolist() for _ in range(ROWS)]
    return {**raw, "shown": shown, "banner": [one[1] for one in shown]}


def test_rows_may_offer_some_of_the_arms_alone(encoder, raw, by_hand, tmp_path):
    log, told = with_lists(raw), columns(encoder, offered="shown")
    skus = [one["sku"] for one in BANNERS]
    dresses = [log, pd.DataFrame(log), pl.DataFrame(log), pa.table(log)]
    for dress in [*dresses, in_file(log, tmp_path / "raw.parquet", row_group_size=70)]:
        [rows] = chunks(dress, columns=told) if not isinstance(dress, str) else [None]
        rows = rows or next(chunks(dress, columns=told))
        assert (rows.action == 1).all()
        for i in range(len(rows.action)):
            own = [skus.index(one) for one in log["shown"][i]]
            assert np.array_equal(rows.arms[i, : len(own)], by_hand["arms"][i, own])
            assert np.isnan(rows.arms[i, len(own) :]).all()


def test_a_raw_log_is_read_by_the_workers_of_a_cluster_too(encoder, raw, policy, tmp_path):
    distributed = pytest.importorskip("distributed")
    told = columns(encoder)
    path = in_file(raw, tmp_path / "raw.parquet", row_group_size=100)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1,
                            dashboard_address=":0") as client:  # fmt: skip
        for log in (path, pd.DataFrame(raw)):
            here = ht.evaluate(log, policy, columns=told)
            assert ht.evaluate(log, policy, columns=told, dask=client) == here


def test_a_catalogue_travels(encoder, raw, by_hand):
    twin = pickle.loads(pickle.dumps(encoder.catalogue(BANNERS, ids="sku")))
    assert twin.ids == ("s0", "s1", "s2", "s3")
    assert twin.context == ("age", "kind")
    assert np.array_equal(arms_of(raw, {**NAMES, "arms": twin}), by_hand["arms"])


def spoiled(raw, column, row, value):
    cells = list(raw[column])
    cells[row] = value
    return {**raw, column: cells}


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("age", None, r"column 'age': the number is missing"),
        ("age", float("inf"), r"column 'age': the number must be finite"),
        ("age", "ten", r"column 'age': must be a number; got 'ten'"),
        ("kind", [1], r"column 'kind': a category must be text or a finite number; got \[1\]"),
        ("banner", "s9", r"column 'banner': 's9' is the id of no arm in the catalogue"),
        ("banner", None, r"column 'banner': is null\. Give the arm's id"),
        ("paid", None, r"column 'paid': is null"),
        ("p", 0.0, r"column 'p': must be a probability"),
    ],
)
def test_a_bad_value_is_refused_by_row_and_column(encoder, raw, column, value, words, monkeypatch):
    monkeypatch.setattr(encoded, "ROOM", 7 * len(BANNERS) * encoder.dim)  # not in the first piece
    log = {name: list(cells) for name, cells in spoiled(raw, column, 40, value).items()}
    with pytest.raises((ValueError, TypeError), match=f"^log, row 40, {words}"):
        list(chunks(log, columns=columns(encoder)))


def test_a_bad_value_is_refused_by_file(encoder, raw, tmp_path):
    log = {name: list(cells) for name, cells in spoiled(raw, "banner", 140, "S1").items()}
    path = in_file(log, tmp_path / "raw.parquet", row_group_size=50)
    with pytest.raises(ValueError, match=r"raw\.parquet, row 140, column 'banner': 'S1' is the id"):
        list(chunks(path, columns=columns(encoder)))
    stamped = {**raw, "kind": np.full(ROWS, "2020-01-01", dtype="datetime64[s]")}
    path = in_file(stamped, tmp_path / "odd.parquet")
    with pytest.raises(TypeError, match=r"odd\.parquet, row 0, column 'kind': a category must be"):
        list(chunks(path, columns=columns(encoder)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is null. A catalogue needs the ids"),
        ("s1", "must be a list of ids; got 's1'"),
        (["s1", "s1"], "offers 's1' twice"),
        (["s1", "zz"], "'zz' is the id of no arm"),
        (["s1", None], "is null"),
        (["s1", ["s2"]], "a category must be text"),
    ],
)
def test_a_bad_list_of_ids_is_refused_by_row(encoder, raw, value, words):
    log = spoiled(with_lists(raw), "shown", 40, value)
    with pytest.raises((ValueError, TypeError)) as caught:
        list(chunks(log, columns=columns(encoder, offered="shown")))
    assert str(caught.value).startswith(f"log, row 40, column 'shown': {words}")


def test_an_arm_that_was_not_offered_cannot_have_been_played(encoder, raw):
    log = spoiled(with_lists(raw), "shown", 40, ["s1", "s2"])
    log["banner"][40] = "s3"
    with pytest.raises(ValueError, match=r"row 40, column 'banner': 's3' is not among the arms"):
        list(chunks(log, columns=columns(encoder, offered="shown")))


def test_what_cannot_be_encoded_says_so(encoder, raw, policy, tmp_path):
    told = columns(encoder)
    bare = {name: cells for name, cells in raw.items() if name != "age"}
    with pytest.raises(ValueError, match="log: there is no column 'age'"):
        list(chunks(bare, columns=told))
    for wrong in ({"arms": encoder}, {"context": told["arms"]}):
        with pytest.raises(TypeError, match=r"encoder\.catalogue\(table"):
            list(chunks(raw, columns={**NAMES, **wrong}))
    [rows] = chunks(raw, columns=told)
    with pytest.raises(ValueError, match="checked rows have no columns"):
        list(chunks(rows, columns=told))
    line = tmp_path / "log.json"
    line.write_text('{"_label_cost": -1.0}\n')
    with pytest.raises(ValueError, match=r"log\.json: .* features of their own"):
        list(chunks(line, columns=told))
    plain = {"action": [0], "reward": [1.0], "propensity": [0.5]}
    with pytest.raises(ValueError, match=r"policy\.encoder\.catalogue"):
        ht.evaluate(plain, policy)


@pytest.mark.parametrize(
    ("arms", "ids", "words"),
    [
        ([], None, "arms is empty"),
        (BANNERS, "skuu", "there is no column 'skuu'; it has ['sku', 'price']. Did you mean 'sku'"),
        (BANNERS, [1, "1", 2, 3], "arms 0 and 1 share the id '1'"),
        (BANNERS, ["a"], "4 arms need as many ids; got 1"),
        ([{"sku": "a", "price": "dear"}], None, "arms, row 0, column 'price': must be a number"),
        (iter(BANNERS), None, "Pass list(rows)"),
    ],
)
def test_a_bad_table_of_arms_is_refused(encoder, arms, ids, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        encoder.catalogue(arms, ids=ids)
    assert words in str(caught.value)


@pytest.mark.parametrize(("feature", "ours"), [("banner", "action"), ("paid", "reward")])
def test_a_feature_that_tells_the_answer_is_refused(raw, feature, ours):
    """The log calls the arm "banner" and the table "sku": every arm would get the one played."""
    told = ht.Encoder(hashed={feature: 8, "sku": 8})
    with pytest.raises(ValueError, match=f"'{feature}'.*the log's {ours}: every arm"):
        arms_of(raw, {**NAMES, "arms": told.catalogue(BANNERS, ids="sku")})
