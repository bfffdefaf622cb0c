"""Snapshots: each was loaded once before it is kept, and one that is damaged later costs nothing
but time.
"""

from __future__ import annotations

import logging
import sqlite3
import threading

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.test_races import learn
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
    assert "after outcome 3 cannot be saved" in answer.json()["message"]
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


# One that is damaged later


def snapshot(client, name="shop"):
    return client.post(f"/v1/models/{name}/snapshots").json()["snapshot"]


def damage(client, *numbers, data=b"no snapshot"):
    """Spoil what the store has of snapshots."""

    def work(tx):
        for number in numbers:
            tx.rows("UPDATE snapshot SET data = ? WHERE number = ?", data, number)

    client.portal.call(client.app.state.service.commits.do, work)


def every(client, name="shop"):
    return [one["snapshot"] for one in client.get(f"/v1/models/{name}/snapshots").json()]


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_a_model_starts_from_the_newest_snapshot_that_can_be_loaded(where, bad, caplog):
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3})
        for values in ((1.0, 5.0), (-3.0,), (2.0,)):
            learn(client, *values)
            snapshot(client)
        learn(client, 7.0)
        kept, numbers = state(client), every(client)
    with serving(where) as client:  # the last one is taken when the service stops
        damage(client, *every(client)[: bad + 1])
    with caplog.at_level(logging.WARNING, "heavytail.serve"), serving(where) as client:
        assert state(client) == kept
        (words,) = faults(client)
        whence = f"snapshot {numbers[bad]} and its log" if bad < 3 else "its log alone"
        assert f"The model was started from {whence}: snapshot" in words
        assert f"shop: {words}" in [one.message for one in caplog.records]
        learn(client, 4.0)
        after = state(client)
    with serving(where) as client:  # a good one is the newest again
        assert (state(client), faults(client)) == (after, [])


def test_a_model_that_was_set_back_never_goes_on_in_the_line_that_it_left(where):
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0, 5.0)
        first = snapshot(client)
        learn(client, -9.0)
        second = snapshot(client)
        learn(client, 8.0)
        client.post(f"{SHOP}/restore", json={"snapshot": second})
        learn(client, 2.0)
        third = snapshot(client)
        client.post(f"{SHOP}/restore", json={"snapshot": first})
        learn(client, 3.0)
        client.post(f"{SHOP}/restore", json={"snapshot": third})
        learn(client, 4.0)
        kept = state(client)
        numbers = every(client)
    assert len(numbers) == 6
    for count in (1, 2, 3, 5):  # of the newest; then what they are copies of, and at last the log
        with serving(where) as client:
            assert state(client) == kept
            damage(client, *every(client)[: -len(numbers)], *numbers[:count])
    with serving(where) as client:
        damage(client, *every(client))
    with serving(where) as client:
        assert state(client) == kept
        assert "its log alone" in faults(client)[0]


@pytest.mark.parametrize("body", [{}, {"shadow": True}, {"policy": "HvtUCB", "shadow": True}])
def test_a_fork_starts_from_its_own_snapshots_and_not_from_a_log_that_is_not_all_of_it(where, body):
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0, 5.0)
        client.post(f"{SHOP}/fork", json={"name": "fork", **body})
        if body:
            learn(client, 3.0)
        snapshot(client, "fork")
        kept, newest = state(client, "fork"), max(every(client, "fork"))
        damage(client, newest)
    with serving(where) as client:
        assert state(client, "fork") == kept
    with serving(where) as client:
        damage(client, *every(client, "fork"))
    with serving(where) as client:
        if "policy" in body:  # it learned the log of the other from its beginning
            assert state(client, "fork") == kept
        else:
            assert client.get("/v1/models/fork").json()["broken"]
        decide(client)  # the model itself goes on


def test_a_log_with_a_hole_is_no_way_to_a_state(where):
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0, 5.0, 2.0)
        client.portal.call(
            client.app.state.service.commits.do,
            lambda tx: tx.rows("DELETE FROM outcome WHERE seq = 2"),
        )
    with serving(where) as client:
        damage(client, *every(client))
    with serving(where) as client:
        assert "outcome 2 is missing" in client.get(SHOP).json()["broken"]


# One that cannot start at all


@pytest.fixture
def broken(where):
    """A service with a good model, and one that cannot be opened but has a snapshot of old."""
    with serving(where) as client:
        for name in ("good", "shop"):
            client.put(f"/v1/models/{name}", json={"dim": 3})
        learn(client, 1.0, 5.0)
        snapshot(client)
        kept = state(client)
        learn(client, 2.0)
        client.post(f"{SHOP}/fork", json={"name": "twin"})
        token = decide(client)["token"]
        client.portal.call(
            client.app.state.service.commits.do,
            lambda tx: tx.rows("DELETE FROM outcome WHERE seq = 1"),
        )
    with serving(where) as client:
        good, *bad = sorted(every(client))
        twins = every(client, "twin")
        damage(client, *bad, *twins)
        assert state(client) != kept
        client.portal.call(
            client.app.state.service.commits.do,
            lambda tx: tx.rows("UPDATE snapshot SET seq = 0 WHERE number = ?", good),
        )
    with serving(where) as client:
        client.kept, client.good, client.token = kept, good, token
        yield client


def test_a_model_that_cannot_start_is_listed_with_the_reason(broken):
    listed = {one["name"]: one["broken"] for one in broken.get("/v1/models").json()}
    assert sorted(listed) == ["good", "shop", "twin"]
    assert listed["good"] is None
    seen = broken.get(SHOP).json()
    assert seen["broken"] == listed["shop"] == seen["diagnostics"]["faults"][0]
    assert "outcome 1 is missing" in seen["broken"]
    assert (seen["policy"], seen["dim"], seen["version"]) == ("TwinUCB", 3, 3)
    assert (seen["decisions"], seen["pending"]) == (4, 1)
    ready = broken.get("/readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "degraded", "models": 1, "broken": ["shop", "twin"]},
    )
    assert "heavytail_broken_models 2.0" in broken.get("/metrics").text
    stats = broken.get("/v1/stats").json()
    assert [one["name"] for one in stats["broken"]] == ["shop", "twin"]
    assert stats["broken"][0]["reason"] == listed["shop"]


def test_what_needs_its_state_says_why_there_is_none(broken):
    for verb, body in {
        "decisions": {"arms": ARMS},
        "predict": {"arms": ARMS},
        "explain": {"arms": ARMS},
        "rewards": {"token": broken.token, "reward": 1.0},
        "snapshots": None,
        "fork": {"name": "other"},
    }.items():
        answer = broken.post(f"{SHOP}/{verb}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "broken_model"), verb
        assert "outcome 1 is missing" in answer.json()["message"]
    assert broken.put(SHOP, json={"dim": 3}).json()["code"] == "broken_model"
    assert broken.put(SHOP, json={"dim": 4}).json()["code"] == "another_model"
    made = broken.post("/v1/models/good/decisions", json={"arms": ARMS})
    assert made.status_code == 201


def test_a_model_that_cannot_start_gives_out_what_it_has(broken, tmp_path):
    import polars as pl

    (tmp_path / "log.parquet").write_bytes(broken.get(f"{SHOP}/log").content)
    frame = pl.read_parquet(tmp_path / "log.parquet")
    assert frame["reward"].to_list() == [5.0, 2.0]
    assert np.shape(frame["arms"].to_list()) == (2, 3, 3)
    assert broken.good in every(broken)
    path = tmp_path / "policy.npz"
    path.write_bytes(broken.get(f"{SHOP}/snapshots/{broken.good}").content)
    assert ht.load(path).to_bytes() == broken.kept


def test_a_model_that_cannot_start_is_set_back_to_a_snapshot_that_works(broken, where):
    bad = max(every(broken))
    answer = broken.post(f"{SHOP}/restore", json={"snapshot": bad})
    assert (answer.status_code, answer.json()["code"]) == (409, "bad_snapshot")
    assert answer.json()["field"] == "snapshot"
    assert broken.patch(SHOP, json={"paused": False}).status_code == 200
    answer = broken.post(f"{SHOP}/restore", json={"snapshot": broken.good})
    assert (answer.status_code, answer.json()["broken"]) == (200, None)
    assert state(broken) == broken.kept
    assert reward(broken, broken.token, 1.0).status_code == 202
    after = state(broken)
    assert broken.get("/readyz").json()["broken"] == ["twin"]
    broken.__exit__(None, None, None)
    with serving(where) as client:
        assert state(client) == after


def test_a_model_that_cannot_start_is_deleted(broken):
    for name in ("shop", "twin"):
        assert broken.delete(f"/v1/models/{name}").status_code == 204
    assert broken.get(SHOP).status_code == 404
    assert broken.get("/readyz").json() == {"status": "ready", "models": 1, "broken": []}


def test_a_specification_that_cannot_be_read_costs_one_model(where):
    with serving(where) as client:
        client.put("/v1/models/good", json={"dim": 3})
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0)
        client.portal.call(
            client.app.state.service.commits.do,
            lambda tx: tx.rows("UPDATE model SET spec = '{' WHERE name = 'shop'"),
        )
    with serving(where) as client:
        seen = {one["name"]: one for one in client.get("/v1/models").json()}
        assert (seen["shop"]["spec"], seen["shop"]["dim"]) == (None, 3)
        assert seen["shop"]["broken"]
        assert seen["good"]["broken"] is None
        assert client.get(f"{SHOP}/log").status_code == 200


def test_workers_see_that_a_broken_model_was_set_back_and_try_it_no_more_often(
    address, monkeypatch
):
    monkeypatch.setattr("heavytail.serve.chores.LOOK", 3600.0)
    with serving(address) as client:
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0)
        good = snapshot(client)
        client.post(f"{SHOP}/fork", json={"name": "fork"})
        number = every(client, "fork")[0]
        data = client.get(f"{SHOP}/snapshots/{good}").content
        damage(client, number)
    with serving(address) as one, serving(address) as other_one:
        tries = []
        monkeypatch.setattr(
            "heavytail.serve.live.ways", lambda *told, **more: tries.append(1) or iter(())
        )
        for client in (one, other_one):
            assert client.get("/v1/models/fork").json()["broken"]
        assert tries == []
        monkeypatch.setattr("heavytail.serve.live.ways", keeping.ways)
        damage(one, number, data=data)  # a backup of the snapshot was found
        assert one.post("/v1/models/fork/restore", json={"snapshot": number}).status_code == 200
        assert other_one.get("/v1/models/fork").json()["broken"] is None


def test_a_model_that_is_deleted_while_it_is_opened_does_not_come_back(shop, monkeypatch):
    learn(shop, 1.0)
    number = snapshot(shop)
    begun, go_on = threading.Event(), threading.Event()
    from heavytail.serve import live

    def slow(row, kept):
        begun.set()
        assert go_on.wait(30.0)
        return model_of(row, kept)

    model_of = live.model_of
    monkeypatch.setattr(live, "model_of", slow)
    service = shop.app.state.service
    asked = shop.portal.start_task_soon(service.restore, "shop", number, "me")
    assert begun.wait(30.0)
    assert shop.delete(SHOP).status_code == 204
    go_on.set()
    with pytest.raises(Exception, match="no model with this name"):
        asked.result(30.0)
    assert shop.get("/v1/models").json() == []


def test_a_fork_whose_default_reward_its_policy_does_not_take_is_refused(where):
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3, "wait": 86400.0, "default_reward": -1.0})
        body = {"name": "b", "policy": "GLBOMD", "options": {"link": "log"}}
        for shadow in (False, True):
            answer = client.post(f"{SHOP}/fork", json={**body, "shadow": shadow})
            assert answer.status_code == 422
            assert answer.json()["field"] == "default_reward"
        assert [one["name"] for one in client.get("/v1/models").json()] == ["shop"]


def test_a_specification_that_the_policy_refuses_now_stops_nobody(tmp_path):
    with serving(tmp_path / "store") as client:
        client.put("/v1/models/other", json={"dim": 3})
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0, 2.0)
        client.post(f"{SHOP}/snapshots")
    db = sqlite3.connect(tmp_path / "store" / "heavytail.db")
    db.execute("UPDATE model SET spec = ? WHERE name = 'shop'", ('{"dim":3,"options":{"odd":1}}',))
    db.commit()
    db.close()
    with serving(tmp_path / "store") as client:
        assert client.get("/v1/models/other").status_code == 200
        assert client.get(SHOP).json()["rounds"] == 2  # from its snapshot


def test_a_snapshot_after_the_end_of_the_log_is_not_believed(tmp_path):
    with serving(tmp_path / "store") as client:
        client.put(SHOP, json={"dim": 3})
        learn(client, 1.0, 2.0)
        client.post(f"{SHOP}/snapshots")
    db = sqlite3.connect(tmp_path / "store" / "heavytail.db")
    db.execute("UPDATE snapshot SET seq = seq + 1000")
    db.commit()
    db.close()
    with serving(tmp_path / "store") as client:
        learn(client, 3.0)
        assert client.get(SHOP).json()["rounds"] == 3
        assert "the log ends at 2" in client.get(SHOP).json()["diagnostics"]["faults"][0]
