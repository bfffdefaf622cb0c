"""The one parallel loop: where it was asked to run."""

from __future__ import annotations

import os

import pytest

from heavytail.simulation import parallel
from heavytail.simulation.parallel import finished

distributed = pytest.importorskip("distributed")


def process(number: int) -> tuple[int, int]:
    if number < 0:
        raise ValueError("a task that fails")
    return number, os.getpid()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cluster_does_the_work_however_small_it_is(threads):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=threads, processes=True, dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        there = dict(finished(process, [(3,), (4,), (3,)], threads=False, dask=address))
        assert {place: number for place, (number, _) in there.items()} == {0: 3, 1: 4, 2: 3}
        assert os.getpid() not in {pid for _, pid in there.values()}
        with pytest.raises(ValueError, match="a task that fails"):
            list(finished(process, [(1,), (-1,)], threads=False, dask=address))


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr(parallel, "WORKERS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        pytest.raises(TimeoutError, match="has no worker"),
    ):
        list(finished(process, [(1,)], threads=False, dask=cluster.scheduler_address))


def test_a_worker_that_cannot_import_a_class_says_so(tmp_path, monkeypatch):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        (tmp_path / "mine_alone.py").write_text("class Mine:\n    pass\n")
        monkeypatch.syspath_prepend(str(tmp_path))  # here, after the workers began
        import mine_alone

        tasks = [(mine_alone.Mine(),)]
        with pytest.raises(ValueError, match=r"cannot import .*'mine_alone'.* on its PYTHONPATH"):
            list(finished(process, tasks, threads=False, dask=cluster.scheduler_address))
