"""``heavytail evaluate`` on raw logs with a table of arms, and on a DecisionLog."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.cli import main


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """A raw log, a table of arms, and a policy that carries its encoder, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    skus = ["a", "b", "c"]
    encoder = ht.Encoder(numbers={"age": (40.0, 10.0)}, categories={"sku": skus})
    policy = ht.TwinUCB(encoder.dim)
    policy.encoder = encoder
    policy.save("p.npz")
    log = {"age": rng.normal(40, 9, 90), "banner": rng.choice(skus, 90), "pi": np.full(90, 0.4),
           "reward": rng.pareto(2.5, 90), "propensity": np.full(90, 1 / 3)}  # fmt: skip
    pq.write_table(pa.table(log), "raw.parquet")
    pq.write_table(pa.table({"sku": skus}), "arms.parquet")
    Path("arms.json").write_text(json.dumps([{"sku": one} for one in skus]))
    return policy


CATALOGUE = ["raw.parquet", "--column", "action=banner", "--ids", "sku"]


@pytest.mark.parametrize("table", ["arms.parquet", "arms.json"])
def test_a_raw_log_is_evaluated_with_a_table_of_arms(raw, capsys, table):
    words = ["--catalogue", table, "--policy", "p.npz", "--against", "column:pi"]
    assert main(["evaluate", *CATALOGUE, *words]) == 0
    arms = raw.encoder.catalogue([{"sku": one} for one in "abc"], ids="sku")
    wanted = ht.evaluate("raw.parquet", raw, columns={"action": "banner", "arms": arms})
    assert f"{wanted.value:.6g}" in capsys.readouterr().out


def test_a_bad_table_of_arms_is_refused_in_one_line(raw, capsys):
    ht.TwinUCB(2).save("bare.npz")
    other = ht.TwinUCB(3)
    other.encoder = ht.Encoder(categories={"sku": ["a", "b", "d"]})
    other.save("other.npz")
    Path("odd.json").write_text("{")
    for words, said in (
        (["--catalogue", "no.json", "--policy", "p.npz"], "there is no such file"),
        (["--catalogue", "odd.json", "--policy", "p.npz"], "is neither Parquet nor JSON"),
        (["--catalogue", "arms.json", "--policy", "bare.npz"], "needs an encoder"),
        (["--catalogue", "arms.json", "--policy", "p.npz", "--policy", "other.npz"], "different"),
        (["--catalogue", "arms.json", "--policy", "p.npz", "--column", "arms=x"], "Pass only one"),
        (["--policy", "p.npz"], "need --catalogue FILE"),
    ):
        assert main(["evaluate", *CATALOGUE, *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    plain = ["raw.parquet", "--policy", "p.npz", "--column", "action="]
    assert main(["evaluate", *plain]) == 2
    capsys.readouterr()
    assert main(["evaluate", *CATALOGUE, "--ids", "skuu", "--catalogue", "arms.json",
                 "--policy", "p.npz"]) == 2  # fmt: skip
    assert "--catalogue arms.json: " in capsys.readouterr().err


def test_decisions_that_wait_are_spoken_of_in_the_commands_words(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    policy, arms = ht.TwinUCB(2), np.eye(2)
    with ht.DecisionLog("log") as log:
        for i in range(40):
            decision = policy.decide(arms, explore=0.5)
            log.decided(decision, arms)
            if i % 2:
                log.rewarded(decision, 1.0)
    assert main(["evaluate", "log", "--policy", "uniform"]) == 0
    out = capsys.readouterr().out
    assert "20 decisions wait for their reward and are left out" in out
    assert "pass --default-reward 0" in out
