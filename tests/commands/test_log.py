"""``heavytail log``: it says what it can do, what a log has, and writes Parquet as Parquet only."""

from __future__ import annotations

import contextlib
import os
import sqlite3

import numpy as np
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.cli import main
from heavytail.ledger.decision import Decision

ARMS = np.eye(2)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of four decisions: two have a reward, one was given up and one waits."""
    monkeypatch.chdir(tmp_path)
    with ht.DecisionLog("log") as log:
        made = [Decision(k, 1, ARMS[1], 0.5, 0.25, 1e9 + 60 * k) for k in range(4)]
        for one in made[:3]:
            log.decided(one, ARMS)
        log.rewarded(made[0], 1.0)
        log.rewarded(made[2], 4.0)
        log.expire(0)
        log.decided(made[3], ARMS)
    return "log"


def refused(capsys, *words):
    assert main(["log", *words]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    return error


def test_without_a_word_it_says_what_there_is(capsys):
    with pytest.raises(SystemExit) as code:
        main(["log"])
    assert code.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: heavytail log")
    assert "one of show, export, convert" in error


def test_a_log_is_shown(log, capsys):
    assert main(["log", "show", log]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "log: 4 decisions since 2001-09-09 01:46:40 UTC",
        "waiting for a reward: 1, since 2001-09-09 01:49:40 UTC",
        "given up without one: 1",
        "rewards: 2, mean 2.5",
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE decision SET model = 7", "its 4 decisions are gone"),
        ("UPDATE tally SET decisions = 9e999", "the number of decisions is damaged"),
        ("UPDATE outcome SET reward = 'x'", "the outcome after number 0 is damaged"),
    ],
)
def test_a_damaged_log_is_not_summed_up(statement, words, log, capsys):
    with contextlib.closing(sqlite3.connect(f"{log}/heavytail.db", isolation_level=None)) as db:
        db.execute(statement)
    assert words in refused(capsys, "show", log)


def test_an_empty_log_and_what_is_none_are_told_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with ht.DecisionLog("empty"):
        pass
    assert main(["log", "show", "empty"]) == 0
    assert capsys.readouterr().out == "empty: no decisions\n"
    assert "is not the folder of a DecisionLog" in refused(capsys, "show", "nothing")


def test_parquet_is_written_into_a_file_of_that_name_alone(log, capsys):
    for name in ("log.csv", "x", "parquet"):
        assert f"{name} does not end in .parquet" in refused(capsys, "export", log, name)
        assert not os.path.exists(name)
    assert main(["log", "export", log, "x.parquet"]) == 0
    assert pq.read_table("x.parquet")["reward"].to_pylist() == [1.0, None, 4.0, None]
    capsys.readouterr()
    assert "exists already" in refused(capsys, "export", log, "x.parquet")
