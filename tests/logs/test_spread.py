"""One function over all chunks: the same here and on a cluster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.logs.reading import chunks
from heavytail.logs.reading.spread import map_chunks

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            memory_limit=0,  # workers are threads: they would pause for what other tests hold
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def written(folder, n=1000, group=150):
    rng = np.random.default_rng(0)
    paths = []
    for k in range(3):
        table = {
            "action": rng.integers(0, 3, n),
            "reward": rng.pareto(1.2, n),
            "propensity": np.full(n, 1 / 3),
            "time": k * n + np.arange(n, dtype=float),
        }
        paths.append(str(folder / f"part-{k}.parquet"))
        pq.write_table(pa.table(table), paths[-1], row_group_size=group)
    return paths


def told(rows):
    return rows.start, len(rows.action), float(rows.reward.sum()), rows.source.rpartition("/")[2]


@pytest.mark.parametrize("size", [100, 400, 65536])
def test_chunks_are_the_same_on_a_cluster_to_the_bit(client, size, tmp_path):
    paths = written(tmp_path)
    here = list(map_chunks(paths, told, size=size))
    assert here == [told(rows) for rows in chunks(paths, size=size)]
    assert list(map_chunks(paths, told, client, size=size)) == here
    assert list(map_chunks(paths, told, client.scheduler.address, size=size)) == here
    assert [start for start, *_ in here] == np.cumsum([0, *(n for _, n, *_ in here[:-1])]).tolist()


def test_what_is_no_parquet_is_read_here_and_sent(client):
    log = {"action": np.zeros(1000), "reward": np.arange(1000.0)}
    here = list(map_chunks(log, told, size=130))
    assert list(map_chunks(log, told, client, size=130)) == here
    assert len(here) == 8


def test_decisions_without_a_reward_do_not_move_the_numbers(client, tmp_path):
    policy, arms = ht.TwinUCB(2), np.eye(2)
    with ht.DecisionLog(tmp_path / "log", group=50) as log:
        for i in range(200):
            decision = policy.decide(arms, explore=0.5)
            log.decided(decision, arms)
            if i % 3:
                log.rewarded(decision, float(i))
    here = list(map_chunks(tmp_path / "log", told, size=16))
    assert sum(n for _, n, *_ in here) == 133
    assert list(map_chunks(tmp_path / "log", told, client, size=16)) == here


def test_errors_come_back_in_the_same_words(client, tmp_path):
    paths = written(tmp_path)
    with pytest.raises(ValueError, match=r"part-1\.parquet, row 0, column 'time': is earlier"):
        list(map_chunks(paths[::-1], told, client))
    table = pq.read_table(paths[1]).to_pydict()
    table["reward"][700] = float("nan")
    pq.write_table(pa.table(table), paths[1], row_group_size=150)
    for dask in (None, client):
        with pytest.raises(ValueError, match=r"part-1\.parquet, row 700, column 'reward'"):
            list(map_chunks(paths, told, dask))
    with pytest.raises(TypeError, match=r"dask must be a distributed\.Client"):
        list(map_chunks(paths, told, 3))
