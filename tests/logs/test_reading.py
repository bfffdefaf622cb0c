"""Logs of every kind read as the same rows; what is wrong is refused by file, row and column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heavytail.logs.reading import chunks, length
from heavytail.logs.reading.rows import Rows, offered

N, K, D = 25, 4, 3


def a_log(n=N, seed=0, first=0.0):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(K), n)
    action = rng.integers(0, K, n)
    return {
        "action": action,
        "reward": rng.pareto(1.5, n),
        "propensity": probabilities[np.arange(n), action],
        "probabilities": probabilities,
        "arms": rng.normal(size=(n, K, D)),
        "context": rng.normal(size=(n, 2)),
        "target": rng.dirichlet(np.ones(K), n),
        "time": first + np.arange(n, dtype=float),
        "token": np.arange(n),
        "country": ["nl"] * n,
    }


def columns_of(log):
    """What frames and Arrow take: lists."""
    return {
        k: v.tolist() if isinstance(v, np.ndarray) and v.ndim > 1 else v for k, v in log.items()
    }


def joined(log, **told):
    """All chunks of a log as one, and how many there were."""
    parts = list(chunks(log, **told))
    assert [part.start for part in parts] == np.cumsum(
        [0, *(len(part.action) for part in parts[:-1])]
    ).tolist()
    fields = [
        None if parts[0][i] is None else np.concatenate([part[i] for part in parts])
        for i in range(2, Rows._fields.index("numbers"))
    ]
    return fields, len(parts)


def ragged(n=N, seed=1):
    """Rows that offer from 2 to 4 arms."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, K + 1, n)
    return counts, {
        "action": [int(rng.integers(0, c)) for c in counts],
        "reward": rng.normal(size=n),
        "arms": [rng.normal(size=(c, D)).tolist() for c in counts],
        "probabilities": [[1.0 / c] * c for c in counts],
    }


def made_by(kind, log, folder):
    if kind == "dict":
        return log
    lists = columns_of(log)
    if kind == "pandas":
        return pd.DataFrame(lists)
    if kind == "pandas of arrays":
        return pd.DataFrame({k: list(v) if np.ndim(v) > 1 else v for k, v in log.items()})
    if kind == "polars":
        return pl.DataFrame(lists)
    if kind == "lazy":
        return pl.DataFrame(lists).lazy()
    if kind == "arrow":
        return pa.table(lists)
    if kind == "iterator of dicts":
        halves = (slice(0, 10), slice(10, None))
        return ({k: v[half] for k, v in log.items()} for half in halves)
    if kind == "rows":
        return next(chunks(log))
    path = folder / "log.parquet"
    pq.write_table(pa.table(lists), path, row_group_size=10)
    if kind == "parquet":
        return path
    if kind == "lazy parquet":
        return pl.scan_parquet(path)
    if kind == "list of parquet":
        return [str(path)]
    return str(folder / "*.parquet")


KINDS = [
    "dict",
    "pandas",
    "pandas of arrays",
    "polars",
    "lazy",
    "arrow",
    "iterator of dicts",
    "rows",
    "parquet",
    "lazy parquet",
    "list of parquet",
    "pattern",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 7, 65536])
def test_every_kind_of_log_has_the_same_rows(kind, size, tmp_path):
    log = a_log()
    got, count = joined(made_by(kind, log, tmp_path), size=size)
    wanted = ["action", "reward", "propensity", "arms", "context", "target", "probabilities"]
    for array, name in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(array, log[name])
    assert got[0].dtype == np.int64
    assert all(array.dtype == np.float64 for array in got[1:])
    assert count >= -(-N // size)
    known = length(made_by(kind, log, tmp_path))
    assert known == (None if kind in ("lazy", "lazy parquet", "iterator of dicts") else N)


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow", "parquet"])
def test_rows_that_offer_fewer_arms_are_filled_up_at_the_end(kind, tmp_path):
    counts, log = ragged()
    rows = next(chunks(made_by(kind, log, tmp_path)))
    if kind == "parquet":  # groups of 10 rows, together in one chunk
        assert len(rows.action) == N
    assert rows.arms.shape == (N, K, D)
    np.testing.assert_array_equal(offered(rows), counts)
    for i, count in enumerate(counts):
        np.testing.assert_array_equal(rows.arms[i, :count], log["arms"][i])
        assert np.isnan(rows.arms[i, count:]).all()
        assert (rows.probabilities[i, count:] == 0.0).all()
        assert rows.propensity[i] == 1.0 / count


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "lazy", "arrow", "parquet"])
def test_columns_may_have_other_names_stand_side_by_side_or_be_left_out(kind, tmp_path):
    log = {"arm": [0, 1], "paid": [1.0, 2.0], "age": [3.0, 4.0], "income": [5, 6], "time": [2, 1]}
    told = {"action": "arm", "reward": "paid", "context": ["age", "income"], "time": None}
    [rows] = chunks(made_by(kind, log, tmp_path), columns=told)
    np.testing.assert_array_equal(rows.context, [[3.0, 5.0], [4.0, 6.0]])
    assert rows.propensity is None
    assert rows.arms is None


def test_only_columns_that_are_wanted_are_read(tmp_path):
    path = tmp_path / "log.parquet"
    table = pa.table({"action": [0], "reward": [1.0], "arms": ["no list at all"]})
    pq.write_table(table, path)
    [rows] = chunks(path, columns={"arms": None})
    assert rows.arms is None
    with pytest.raises(
        TypeError, match=r"log\.parquet, row 0, column 'arms': must be a number; got 'no"
    ):
        list(chunks(path))


SPOILT = {
    "reward": (np.nan, "must be a finite number; got nan"),
    "action": (4, "must be a whole number below 4"),
    "propensity": (0.0, "must be a probability above 0"),
}


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "rows"])
@pytest.mark.parametrize("column", SPOILT)
def test_a_bad_entry_is_refused_by_file_row_and_column(kind, column, tmp_path):
    log = a_log()
    log.pop("probabilities")
    value, words = SPOILT[column]
    log[column][17] = value
    source = r"log\.parquet" if kind in ("parquet", "list of parquet", "pattern") else "log"
    if kind.startswith("pandas") and column == "reward":
        words = "is null"
    with pytest.raises(ValueError, match=rf"{source}, row 17, column '{column}': {words}"):
        list(chunks(made_by(kind, log, tmp_path), size=6))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("reward", np.inf, "must be a finite number; got inf"),
        ("reward", True, r"must be a number; got True"),
        ("reward", "1.0", r"must be a number; got '1\.0'"),
        ("reward", None, "is null.*default_reward="),
        ("action", -1, "must be a whole number, from 0 up; got -1"),
        ("action", 0.5, "must be a whole number, from 0 up; got 0.5"),
        ("action", None, "is null"),
        ("propensity", 1.5, "must be a probability above 0 and at most 1; got 1.5"),
        ("propensity", -0.1, "must be a probability"),
        ("propensity", None, "is null, where other rows have one"),
        ("probabilities", [0.5, 0.6], "must add up to 1; got 1.1"),
        ("probabilities", [1.5, -0.5], "must be probabilities"),
        ("probabilities", [0.5, None], "is null"),
        ("arms", [[1.0, np.nan], [1.0, 2.0]], "must be finite"),
        ("arms", [[1.0], [1.0, 2.0]], "has 1 features for an arm"),
        ("arms", [], "no arm is offered"),
        ("arms", 3.0, "must be a list; got 3.0"),
        ("context", [1.0], "has 1 numbers where the first row here has 2"),
        ("context", [1.0, np.inf], "must be finite"),
        ("target", [0.2, 0.2], "must add up to 1"),
    ],
)
def test_whatever_is_wrong_with_a_row_is_said(column, value, words):
    log = {
        "action": [0, 1, 0, 1],
        "reward": [1.0, 2.0, 3.0, 4.0],
        "propensity": [0.5] * 4,
        "probabilities": [[0.5, 0.5]] * 4,
        "arms": [[[1.0, 0.0], [0.0, 1.0]]] * 4,
        "context": [[1.0, 2.0]] * 4,
        "target": [[1.0, 0.0]] * 4,
    }
    assert len(list(chunks(log))) == 1
    log[column] = [*log[column][:2], value, log[column][3]]
    with pytest.raises((ValueError, TypeError), match=rf"log, row 2, column '{column}': {words}"):
        list(chunks(log))


def test_a_propensity_that_contradicts_the_probabilities_is_refused():
    log = a_log()
    log["propensity"][3] = 0.9999
    with pytest.raises(ValueError, match=r"row 3, column 'propensity': is 0.9999, but 'probab"):
        list(chunks(log))


def test_an_arm_beyond_those_offered_is_neither_played_nor_probable():
    counts, log = ragged()
    short = int(np.argmax(counts == 2))
    log["action"][short] = 2
    with pytest.raises(ValueError, match=rf"row {short}, column 'action': must be .* below 2"):
        list(chunks(log))


def test_nulls_count_as_the_default_where_silence_means_something(tmp_path):
    log = {"action": [0, 1, 0], "reward": [1.0, None, 3.0]}
    for kind in ("dict", "pandas", "polars", "arrow", "parquet"):
        [rows] = chunks(made_by(kind, log, tmp_path), default_reward=0.0)
        np.testing.assert_array_equal(rows.reward, [1.0, 0.0, 3.0])
        with pytest.raises(ValueError, match="row 1, column 'reward': is null"):
            list(chunks(made_by(kind, log, tmp_path)))


def test_a_nan_is_no_null_where_both_can_be_said(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"action": [0, 0], "reward": [1.0, float("nan")]}), path)
    with pytest.raises(ValueError, match="row 1, column 'reward': must be a finite number"):
        list(chunks(path, default_reward=0.0))


def test_a_log_without_propensities_has_none():
    [rows] = chunks({"action": [0], "reward": [1.0], "propensity": [None]})
    assert rows.propensity is None


def test_times_may_not_decrease_within_or_between_chunks(tmp_path):
    first, second = a_log(first=0.0), a_log(first=100.0, seed=5)
    paths = []
    for name, log in (("a", first), ("b", second)):
        paths.append(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table(columns_of(log)), paths[-1])
    assert sum(len(rows.action) for rows in chunks(paths)) == 2 * N
    with pytest.raises(ValueError, match=r"a\.parquet, row 0, column 'time': is earlier than"):
        list(chunks(paths[::-1]))
    assert len(list(chunks(paths[::-1], columns={"time": None}))) == 2
    first["time"][7] = 0.0
    with pytest.raises(ValueError, match=r"log, row 7, column 'time'"):
        list(chunks(first, size=3))


def test_timestamps_are_times(tmp_path):
    when = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:01"], dtype="datetime64[ms]")
    log = {"action": [0, 0], "reward": [1.0, 2.0], "time": when}
    for kind in ("dict", "pandas", "polars", "arrow", "parquet"):
        list(chunks(made_by(kind, log, tmp_path)))
        with pytest.raises(ValueError, match="row 1, column 'time': is earlier"):
            list(chunks(made_by(kind, {**log, "time": when[::-1]}, tmp_path)))


def test_chunks_that_are_missing_twice_or_out_of_order_are_refused():
    log = a_log()
    first, second, third = chunks(log, size=10)
    assert len(list(chunks([first, second, third]))) == 3
    for order in ([second, first, third], [first, third], [first, first, second, third]):
        with pytest.raises(ValueError, match=r"a chunk begins at row .* Chunks must come in order"):
            list(chunks(iter(order)))


def test_part_2_comes_before_part_10(tmp_path):
    for number in (10, 2, 1):
        log = pa.table({"action": [0], "reward": [float(number)]})
        pq.write_table(log, tmp_path / f"part-{number}.parquet")
    for log in (tmp_path, tmp_path / "part-*.parquet"):
        assert [rows.reward[0] for rows in chunks(log)] == [1.0, 2.0, 10.0]


def test_a_file_that_is_cut_short_or_damaged_is_refused_by_name_and_row(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(
        pa.table(columns_of(a_log(5000))), path, row_group_size=500, write_page_checksum=True
    )
    whole = path.read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(
            ValueError, match=r"log\.parquet is not a Parquet file, or is cut short"
        ):
            list(chunks(path))
    spoilt = bytearray(whole)
    spoilt[len(whole) // 2] ^= 0xFF
    path.write_bytes(bytes(spoilt))
    with pytest.raises(ValueError, match=r"log\.parquet, row [1-9]\d*: cannot be read from here"):
        list(chunks(path, size=500))


def test_whatever_byte_is_spoilt_the_file_is_read_or_refused_by_name(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "log.parquet"
    pq.write_table(
        pa.table(columns_of(a_log(100))), path, row_group_size=30, write_page_checksum=True
    )
    whole, refused = path.read_bytes(), []
    for at in rng.integers(0, len(whole), 200):
        spoilt = bytearray(whole)
        spoilt[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(spoilt))
        try:
            list(chunks(path, size=10))
        except (ValueError, TypeError) as error:
            refused.append(str(error))
    assert len(refused) > 150
    assert all("log.parquet" in words for words in refused)


def test_what_is_no_log_is_refused_in_our_words(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").write_text("")
    for log, words in [
        (tmp_path / "notes.txt", "is neither Parquet nor JSON lines"),
        (tmp_path / "empty", "is empty"),
        (tmp_path / "absent.parquet", "there is no such file"),
        (tmp_path, "there is no Parquet file in this folder"),
        (3, "cannot read 3"),
        (np.zeros((3, 3)), "cannot read"),
        ({"reward": [1.0]}, "there is no column 'action'.*columns="),
        ({"action": [1], "reward": [1.0, 2.0]}, "column 'reward' has 2 values, 'action' has 1"),
        ({"action": 1, "reward": 1.0}, "must be an array"),
    ]:
        with pytest.raises((ValueError, TypeError, OSError), match=words):
            list(chunks(log))
    log = {"action": [0], "reward": [1.0]}
    with pytest.raises(ValueError, match="'reword' is not a column of a log"):
        list(chunks(log, columns={"reword": "reward"}))
    with pytest.raises(ValueError, match="there is no column 'paid'"):
        list(chunks(log, columns={"reward": "paid"}))
    with pytest.raises(ValueError, match="size must be a whole number"):
        list(chunks(log, size=0))


def test_an_empty_log_has_no_chunks(tmp_path):
    log = {"action": np.zeros(0), "reward": np.zeros(0)}
    for kind in ("dict", "pandas", "polars", "arrow", "parquet"):
        assert list(chunks(made_by(kind, log, tmp_path))) == []
    assert length(log) == 0


def test_an_array_is_not_copied_but_for_the_chunk_at_hand():
    arms = np.broadcast_to(np.eye(3), (10_000_000, 3, 3))  # 720 MB if it were copied
    log = {"action": np.zeros(10_000_000, np.int8), "reward": np.zeros(10_000_000), "arms": arms}
    rows = next(chunks(log, size=100))
    assert rows.arms.shape == (100, 3, 3)
