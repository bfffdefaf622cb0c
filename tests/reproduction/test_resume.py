"""Stopped anywhere, or run elsewhere, the numbers are the same to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from heavytail.experiments.setting import trial_units
from heavytail.experiments.store import Store, complete
from heavytail.experiments.tune import Tuned
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import entries

COMMAND = [sys.executable, "-m", "heavytail.cli", "reproduce", "student", "arms-40"]
SIZE = ["--trials", "2", "--rounds", "1500", "--jobs", "2"]
KILLS = 10


def finished_units(out: Path) -> int:
    return len(list((out / "units").glob("*/*.npz")))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_ten_times_the_results_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(20)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*COMMAND, *SIZE, "--out", str(whole)], check=True, capture_output=True)
    units = finished_units(whole)
    done_before, killed = 0, 0
    for _ in range(KILLS):
        run = subprocess.Popen(
            [*COMMAND, *SIZE, "--out", str(broken)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # One part in twelve more than the last time, and then some random moment.
        goal = done_before + rng.integers(0, max(units // (KILLS + 2), 1) + 1)
        while run.poll() is None and finished_units(broken) < goal:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.02))
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
            killed += 1
        run.wait()
        done_before = finished_units(broken)
    assert killed == KILLS
    subprocess.run([*COMMAND, *SIZE, "--out", str(broken)], check=True, capture_output=True)
    assert (whole / "regret.parquet").read_bytes() == (broken / "regret.parquet").read_bytes()
    assert pq.read_table(whole / "regret.parquet").num_rows > 0


def test_a_dask_cluster_gives_the_same_numbers(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    world = setting("student")
    _, policy = entries(world, ("HvtUCB",), 300, Tuned())["Hvt-UCB", "untuned"]
    units = trial_units(world, policy, 300, 12, 5)
    here = complete(units, Store(tmp_path / "here"), jobs=1)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        there = complete(units, Store(tmp_path / "there"), dask=cluster.scheduler_address)
    assert len(units) == 3
    for unit in units:
        np.testing.assert_array_equal(here[unit.key]["regret"], there[unit.key]["regret"])
