"""What a model did since the service started: right, and bounded."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, decide, reward

from heavytail.serve.tracker import ARMS as MOST
from heavytail.serve.tracker import LENGTH, RECENT, RESIDUALS, WINDOWS, Tracker


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_mean_and_standard_error_are_those_of_the_last_minutes_rewards(clock):
    tracker, rng = Tracker(clock), np.random.default_rng(0)
    drawn = 1e6 + rng.standard_t(2.0, (20, 30))  # sums of squares would lose the spread
    for rewards in drawn:
        tracker.rewarded(rewards[:10].tolist())
        tracker.windows()  # a look changes nothing
        tracker.rewarded(rewards[10:].tolist())
        clock.now += LENGTH
    clock.now -= LENGTH
    last = drawn[-RECENT:].ravel()
    error = last.std(ddof=1) / np.sqrt(last.size)
    *_, mean, found = tracker.recent()
    assert (mean, found) == pytest.approx((last.mean(), error), rel=1e-9)
    windows = tracker.windows()
    assert [one.ago for one in windows] == [LENGTH * k for k in range(19, -1, -1)]
    assert windows[4].mean == pytest.approx(drawn[:5].mean(), rel=1e-12)
    assert windows[15].mean == pytest.approx(drawn[4:16].mean(), rel=1e-12)
    assert tracker.rewards == 600


def test_rates_are_of_the_last_minute_and_of_what_there_is_of_it(clock):
    tracker = Tracker(clock)
    tracker.decided([("a", 0)] * 20)
    clock.now += 4.0
    assert tracker.recent()[0] == 5.0
    clock.now += 2.0 * RECENT * LENGTH
    assert tracker.recent() == (0.0, 0.0, None, None)
    assert [one.decisions for one in tracker.windows()] == [20]


def test_one_reward_has_a_mean_and_no_error(clock):
    tracker = Tracker(clock)
    tracker.rewarded([3.0])
    assert tracker.recent()[2:] == (3.0, None)
    tracker.rewarded([1e100, -1e100])
    assert all(np.isfinite(tracker.recent()[2:]))


def test_windows_and_ids_are_bounded(clock):
    tracker = Tracker(clock)
    for i in range(3 * MOST):
        tracker.decided([(f"id {i}", 0), ("liked", 1)])
        clock.now += LENGTH
    assert len(tracker._arms) == MOST
    assert len(tracker._ring) == WINDOWS
    assert len(tracker.windows()) == WINDOWS - 1  # the present one is empty
    top, others = tracker.top()
    assert (top[0].id, top[0].decisions, len(top)) == ("liked", 3 * MOST, 10)
    assert sum(one.decisions for one in top) + others == tracker.decisions == 6 * MOST
    assert tracker.others == 2 * MOST + 1


def test_an_id_that_is_a_number_is_no_place_and_no_text(clock):
    tracker = Tracker(clock)
    tracker.decided([(1, 0), ("1", 0), (None, 1), (1, 5)])
    top, _ = tracker.top()
    found = {(one.id, one.place): one.decisions for one in top}
    assert found == {(1, None): 2, ("1", None): 1, (None, 1): 1}


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
        if found["rewards"]:
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
    assert shop.get("/v1/stats").json()["window"] == LENGTH


def test_a_service_that_starts_again_counts_from_zero_and_remembers_what_is_pending(tmp_path):
    with serving(tmp_path) as client:
        client.put(SHOP, json={"policy": "TwinUCB", "dim": 3})
        decide(client)
    with serving(tmp_path) as client:
        found = stats(client)
    assert (found["decisions"], found["pending"], found["windows"]) == (0, 1, [])


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
