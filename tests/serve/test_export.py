"""The exported log: read by ``ht.evaluate``, and encoded anew by another encoder."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from tests.serve.conftest import serving

import heavytail as ht
from heavytail.ledger.export import tables
from heavytail.logs.reading import chunks, counted, files

OFFERS = [{"sku": f"s{k}", "price": 5.0 + k} for k in range(4)]
NAMED = "/v1/models/named"


def encoder(**more):
    return ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)}, hashed={"sku": 4}, **more)


def body(i):
    """Two to four offers, as a shop would send them."""
    offered = [OFFERS[(i + k) % 4] for k in range(2 + i % 3)]
    context = {"age": 20 + i, "kind": "new" if i % 3 else "old"}
    ids = [one["sku"] for one in offered]
    return {"arms": offered, "context": context, "ids": ids, "explore": 0.5}


def exported(client, path, **spec):
    """The log of sixty decisions, the last of which got its default reward, or waits."""
    told = {"policy": "TwinUCB", "encoder": encoder().schema(), **spec}
    assert client.put(NAMED, json=told).status_code == 201
    rng = np.random.default_rng(0)
    for i in range(60):
        made = client.post(f"{NAMED}/decisions", json=body(i)).json()
        if i < 59:
            told = {"token": made["token"], "reward": float(rng.pareto(1.5))}
            assert client.post(f"{NAMED}/rewards", json=told).status_code == 202
    path.write_bytes(client.get(f"{NAMED}/log").content)
    return path


def test_an_exported_log_is_encoded_anew(client, tmp_path):
    log = exported(client, tmp_path / "log.parquet")
    same = {"arms": encoder().catalogue(OFFERS, ids="sku")}
    for old, new in zip(chunks(log), chunks(log, columns=same), strict=True):
        np.testing.assert_array_equal(old.arms, new.arms)
        np.testing.assert_array_equal(old.action, new.action)
    other = encoder(categories={"kind": ["new", "old"]}, crosses=[("kind", "sku", 8)])
    anew = {"arms": other.catalogue(OFFERS, ids="sku")}
    (rows,) = chunks(log, columns=anew)
    for i in (0, 7):
        first = np.asarray(other.arms(body(i)["context"], body(i)["arms"]))
        np.testing.assert_array_equal(rows.arms[i][: len(first)], first)
    found = ht.evaluate(log, ht.Uniform(other.dim), columns=anew)
    assert (found.rows, found.propensities_ok) == (59, True)
    assert ht.replay(log, ht.TwinUCB(other.dim), columns=anew).rows == 59


def test_a_store_is_read_as_what_it_exports(tmp_path):
    with serving(tmp_path / "store") as client:
        log = exported(client, tmp_path / "log.parquet")
        assert client.put("/v1/models/other", json={"dim": 3}).status_code == 201
        frame = pl.read_parquet(log)
        for anew in (None, {"arms": encoder().catalogue(OFFERS, ids="sku")}):
            (here,) = chunks(log, columns=anew)
            for form in (tmp_path / "store" / "named", frame, frame.to_pandas()):
                (rows,) = chunks(form, columns=anew)
                np.testing.assert_array_equal(rows.arms, here.arms)
                np.testing.assert_array_equal(rows.reward, here.reward)
        for name in ("", "nobody"):
            with pytest.raises(ValueError, match=r"name the model .*'named', 'other'"):
                list(chunks(tmp_path / "store" / name))
        token = client.post(f"{NAMED}/decisions", json=body(3)).json()["token"]
    assert counted(tmp_path / "store" / "named") == (59, 2)
    with files.opened(files.Kept(str(tmp_path / "store"), "named")) as (store, model):
        assert next(tables(store, model, 100))["token"].to_pylist()[-1] == token


def test_a_log_without_the_features_of_arms_is_encoded_all_the_same(client, tmp_path):
    log = exported(client, tmp_path / "log.parquet", log_arms=False)
    anew = {"arms": encoder().catalogue(OFFERS, ids="sku")}
    assert ht.evaluate(log, ht.Uniform(encoder().dim), columns=anew).rows == 59
    with pytest.raises(ValueError, match="arms"):
        ht.evaluate(log, ht.Uniform(encoder().dim))


def test_an_exported_log_says_when_and_whether_anybody_rewarded(tmp_path, monkeypatch):
    with serving(tmp_path / "store") as client:
        log = exported(client, tmp_path / "log.parquet", wait=3600.0, default_reward=0.25)
        frame = pl.read_parquet(log)
        assert frame.height == 59
        assert not frame["by_default"].any()
        service = client.app.state.service
        later = service.live.clock() + 7200.0
        monkeypatch.setattr(service.live, "clock", lambda: later)
        client.portal.call(service.chores.give_up)
        log.write_bytes(client.get(f"{NAMED}/log").content)
    frame = pl.read_parquet(log)
    assert frame["by_default"].to_list() == [False] * 59 + [True]
    assert frame["reward"][-1] == 0.25
    assert (frame["reward_time"] >= frame["time"]).all()
    assert frame["time"].is_sorted()
    assert [json.loads(told) for told in frame["context_json"]] == [
        body(i)["context"] for i in range(60)
    ]
    assert frame["ids"].to_list() == [body(i)["ids"] for i in range(60)]
