"""What was done with each model: true over all workers, and after a restart."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, decide, reward

from heavytail.ledger import store
from heavytail.ledger.store import StoreError
from heavytail.ledger.tokens import Token
from heavytail.serve import recording
from heavytail.serve.counts import LENGTH
from heavytail.serve.tracker import RESIDUALS, Tracker


def stats(client, name="shop"):
    answer = client.get("/v1/stats")
    assert answer.status_code == 200, answer.text
    return next(one for one in answer.json()["models"] if one["name"] == name)


def test_stats_count_what_was_done_once(shop):
    ids = ["a", "b", "c"]
    head = {"Idempotency-Key": "k"}
    asked = {"arms": ARMS, "ids": ids}
    first = shop.post(f"{SHOP}/decisions", json=asked, headers=head).json()
    assert shop.post(f"{SHOP}/decisions", json=asked, headers=head).json() == first
    other = decide(shop)
    for _ in range(2):
        assert reward(shop, first["token"], 3.0).json()["accepted"] in (0, 1)
    assert reward(shop, first["token"], 4.0).status_code == 409
    found = stats(shop)
    assert (found["decisions"], found["rewards"], found["pending"]) == (2, 1, 1)
    assert (found["mean"], found["error"], found["rounds"]) == (3.0, None, 1)
    assert {(one["id"], one["place"]) for one in found["arms"]} == {
        (first["id"], None),
        (None, other["arm"]),
    }
    assert found["diagnostics"] == shop.get(SHOP).json()["diagnostics"]
    assert found["windows"][-1]["ago"] in (0.0, LENGTH)


def test_default_rewards_are_among_the_rewards(client):
    spec = {"policy": "TwinUCB", "dim": 3, "wait": 0.05, "default_reward": 0.5}
    client.put(SHOP, json=spec)
    decide(client)
    for _ in range(200):
        found = stats(client)
        if found["rewards"] and found["mean"] is not None:  # counted right after the commit
            break
        time.sleep(0.05)
    assert (found["rewards"], found["mean"], found["pending"]) == (1, 0.5, 0)


def test_stats_stay_over_a_restore_and_a_shadow_has_its_own(shop):
    reward(shop, decide(shop)["token"], 1.0)
    number = shop.post(f"{SHOP}/snapshots").json()["snapshot"]
    shop.post(f"{SHOP}/restore", json={"snapshot": number}).raise_for_status()
    shop.post(f"{SHOP}/fork", json={"name": "twin", "shadow": True}).raise_for_status()
    assert stats(shop)["decisions"] == 1
    assert (stats(shop, "twin")["shadow_of"], stats(shop, "twin")["pending"]) == ("shop", 0)
    assert stats(shop, "twin")["rewards"] == 0
    reward(shop, decide(shop)["token"], 3.0)
    assert (stats(shop)["decisions"], stats(shop)["rewards"], stats(shop)["money"]) == (2, 2, 4.0)
    twin = stats(shop, "twin")
    assert (twin["decisions"], twin["rewards"], twin["mean"]) == (0, 1, 2.0)
    assert {window["decisions"] for window in twin["windows"]} == {0}
    assert shop.get("/v1/stats").json()["window"] == LENGTH


def test_a_service_that_starts_again_goes_on_counting(where):
    for _ in range(2):
        with serving(where) as client:
            client.put(SHOP, json={"policy": "TwinUCB", "dim": 3})
            reward(client, decide(client, ids=["a", "b", "c"])["token"], 2.0)
            decide(client)
            found = stats(client)
    assert (found["decisions"], found["rewards"], found["pending"], found["money"]) == (4, 2, 2, 4)
    assert sum(one["decisions"] for one in found["windows"]) == 4
    assert sum(one["decisions"] for one in found["arms"]) + found["other_arms"] == 4
    assert (found["mean"], found["error"]) == (2.0, 0.0)
    assert {one["id"] for one in found["arms"]} <= {"a", "b", "c", None}


def test_the_age_of_the_oldest_pending_decision(shop):
    assert stats(shop)["oldest"] is None
    first, second = decide(shop), decide(shop)
    time.sleep(0.2)
    assert 0.2 <= stats(shop)["oldest"] < 60.0
    before = stats(shop)["oldest"]
    reward(shop, second["token"], 1.0)
    assert stats(shop)["oldest"] >= before
    reward(shop, first["token"], 1.0)
    assert stats(shop)["oldest"] is None


def test_settled_decisions_are_looked_at_once(shop, monkeypatch):
    monkeypatch.setattr(recording, "LATE", -60.0)
    monkeypatch.setattr(recording, "SETTLED", 2)
    monkeypatch.setattr(store, "SCANNED", 3)
    service = shop.app.state.service
    made = [decide(shop) for _ in range(9)]
    key = Token.parse(made[6]["token"]).key
    for one in (*made[:6], *made[7:]):
        reward(shop, one["token"], 1.0)
    assert service.store.oldest(1) < key  # it is too far away to be found by one look
    shop.portal.call(service.chores.count)
    assert service.store.settled(1) == Token.parse(made[5]["token"]).key
    assert service.store.oldest(1) == key
    reward(shop, made[6]["token"], 1.0)
    shop.portal.call(service.chores.count)
    assert service.store.oldest(1) is None


def test_a_store_that_cannot_be_written_to_loses_no_count(shop):
    service = shop.app.state.service
    decide(shop)
    model = service.models["shop"]

    def fail(work, **more):
        raise StoreError("full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.commits, "do", fail)
        with pytest.raises(StoreError):
            shop.portal.call(recording.record, service.live, model)
    assert sum(one["decisions"] for one in stats(shop)["windows"]) == 1


def test_two_workers_answer_with_the_same_counts(pair):
    ids = ["a", "b", "c"]
    for k in range(6):
        made = decide(pair[k % 2], ids=ids, explore=1.0)
        if k < 4:
            reward(pair[k // 2], made["token"], [5.0, -2.0][k % 2])
    for client in pair:
        client.portal.call(client.app.state.service.chores.count)
    one, other = map(stats, pair)
    for found in (one, other):
        assert (found["decisions"], found["rewards"], found["pending"]) == (6, 4, 2)
        assert (found["money"], found["mean"], found["defaults"]) == (6.0, 1.5, 0)
        assert sum(window["decisions"] for window in found["windows"]) == 6
        assert sum(window["rewards"] for window in found["windows"]) == 4
        assert sum(arm["decisions"] for arm in found["arms"]) == 6
    assert one["arms"] == other["arms"]
    assert abs(one["oldest"] - other["oldest"]) < 30.0


def test_the_tail_is_shares_of_the_newest_residuals():
    tracker = Tracker()
    assert tracker.tail() == []
    tracker.missed([float("nan"), float("inf"), 0.0])
    assert tracker.tail() == []
    rng = np.random.default_rng(0)
    tracker.missed([1e9] * 5)  # old, and soon forgotten
    sizes = rng.pareto(1.5, RESIDUALS) + 1.0
    tracker.missed(sizes)
    points = tracker.tail()
    assert points[-1].size == sizes.max()
    assert points[-1].share == 1.0 / RESIDUALS
    assert points[0].share == 0.5
    for one in points:
        assert np.mean(sizes >= one.size) == one.share
    slope = np.polyfit(np.log([p.size for p in points]), np.log([p.share for p in points]), 1)[0]
    assert -2.0 < slope < -1.1


def test_the_drift_is_the_residuals_of_a_minute_over_those_of_an_hour():
    now = [1000.0]
    tracker = Tracker(lambda: now[0])
    assert tracker.drift() is None
    tracker.missed([0.0] * 30)
    assert tracker.drift() is None  # all predictions were exact
    now[0] += 4000.0
    for _ in range(59):
        tracker.missed([1.0] * 30)
        now[0] += 60.0
    tracker.missed([4.0] * 10)
    assert tracker.drift() is None  # few residuals say nothing
    tracker.missed([4.0] * 20)
    assert tracker.drift() == pytest.approx(4.0 / (63.0 / 60.0))
    now[0] += 60.0
    assert tracker.drift() is None
    assert len(tracker._sizes) == 60
