"""Snapshots: each was loaded once before it is kept, and one that is damaged later costs nothing
but time.
"""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.test_races import at_once, learn
from tests.serve.test_service import ARMS, SHOP, decide, reward, state

import heavytail as ht
from heavytail._storage import Saved
from heavytail.serve import keeping

WHOLE = Saved.to_bytes


def spoilt(self, arrays=None):
    """Bytes that no load accepts."""
    return WHOLE(self, arrays)[:-1] + b"?"


def other(self, arrays=None):
    """Bytes that are loaded, and give another state."""
    return WHOLE(type(self)(**self.constructor_arguments()))


def faults(client, name="shop"):
    return client.get(f"/v1/models/{name}").json()["diagnostics"]["faults"]


@pytest.mark.parametrize("wrong", [spoilt, other])
def test_a_state_that_cannot_be_loaded_again_is_not_kept(shop, monkeypatch, caplog, wrong):
    learn(shop, 1.0, 5.0)
    good = shop.post(f"{SHOP}/snapshots").json()["snapshot"]
    learn(shop, 2.0)
    monkeypatch.setattr(ht.TwinUCB, "to_bytes", wrong)
    with caplog.at_level(logging.ERROR, "heavytail.serve"):
        for _ in range(2):
            answer = shop.post(f"{SHOP}/snapshots")
            assert (answer.status_code, answer.json()["code"]) == (409, "bad_state")
    assert "after outcome 3 cannot be kept" in answer.json()["message"]
    assert [one.message for one in caplog.records] == [f"shop: {faults(shop)[0]}"]
    assert [one["snapshot"] for one in shop.get(f"{SHOP}/snapshots").json()] == [good]
    fork = shop.post(f"{SHOP}/fork", json={"name": "twin"})
    assert (fork.status_code, fork.json()["code"]) == (409, "bad_state")
    (stats,) = shop.get("/v1/stats").json()["models"]
    assert stats["diagnostics"]["faults"] == faults(shop)
    decide(shop)
    monkeypatch.undo()
    assert shop.post(f"{SHOP}/snapshots").status_code == 201
    assert faults(shop) == []


def test_one_model_whose_state_cannot_be_kept_does_not_cost_the_others_theirs(shop, monkeypatch):
    assert shop.put("/v1/models/zoo", json={"policy": "HvtUCB", "dim": 3}).status_code == 201
    learn(shop, 1.0)
    token = shop.post("/v1/models/zoo/decisions", json={"arms": ARMS}).json()["token"]
    shop.post("/v1/models/zoo/rewards", json={"token": token, "reward": 1.0})
    monkeypatch.setattr(ht.TwinUCB, "to_bytes", spoilt)
    chores, tries = shop.app.state.service.chores, []
    real = keeping.checked
    monkeypatch.setattr(
        "heavytail.serve.service.checked", lambda *told: tries.append(1) or real(*told)
    )
    chores.begun -= 61.0
    for _ in range(3):
        shop.portal.call(chores.snapshots)
    assert shop.get(f"{SHOP}/snapshots").json() == []
    assert len(shop.get("/v1/models/zoo/snapshots").json()) == 1
    assert len(tries) == 2  # what cannot be kept is tried again when there is more of it


def test_a_snapshot_is_that_of_one_moment_though_the_model_learns_on(shop, monkeypatch):
    learn(shop, 1.0, 5.0)
    begun, go_on = threading.Event(), threading.Event()
    real = keeping.checked

    def slow(policy, arrays):
        begun.set()
        assert go_on.wait(30.0)
        return real(policy, arrays)

    monkeypatch.setattr("heavytail.serve.service.checked", slow)
    before = state(shop)
    asked = shop.portal.start_task_soon(shop.app.state.service.snapshot, "shop", "asked for")
    assert begun.wait(30.0)
    learn(shop, -900.0)  # nobody waits for the check
    go_on.set()
    number = asked.result(30.0)
    assert shop.get(f"{SHOP}/snapshots/{number}").content == before
    assert shop.get(f"{SHOP}/snapshots").json()[0]["version"] == 2
