"""What several requests, or several workers, do to one model at once."""

from __future__ import annotations

import asyncio
import functools
import time

import pytest
from tests.serve.conftest import look, serving
from tests.serve.test_service import ARMS, SHOP, decide, reward, state

from heavytail.ledger.postgres import PostgresStore
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.ledger.tokens import first_key
from heavytail.ledger.transaction import Transaction
from heavytail.serve import chores
from heavytail.serve.forking import fork
from heavytail.serve.tracker import Tracker
from heavytail.serve.wire import Fork, ModelSpec


def at_once(client, *works):
    """Coroutines in one turn of the loop: what each returned or raised."""

    async def all_of_them():
        service = client.app.state.service
        return await asyncio.gather(*(work(service) for work in works), return_exceptions=True)

    return client.portal.call(all_of_them)


def learn(client, *values):
    for value in values:
        assert reward(client, decide(client)["token"], value).status_code == 202


@pytest.mark.parametrize("asks", ["resume", "put"])
def test_who_describes_a_model_still_sees_that_it_was_set_back(pair, asks):
    one, other = pair
    learn(one, 1.0, 5.0)
    kept, number = state(one), one.post(f"{SHOP}/snapshots").json()["snapshot"]
    learn(one, -900.0, -900.0)
    look(other)
    one.patch(SHOP, json={"paused": True})
    one.post(f"{SHOP}/restore", json={"snapshot": number})
    if asks == "resume":
        other.patch(SHOP, json={"paused": False})
    else:
        other.put(SHOP, json={"dim": 3})
    look(other)
    assert state(one) == kept
    assert state(other) == kept


def test_a_model_that_was_made_anew_elsewhere_is_new_here(pair):
    one, other = pair
    learn(one, 1.0, 5.0)
    look(other)
    one.delete(SHOP)
    one.put(SHOP, json={"dim": 3})
    assert other.put(SHOP, json={"dim": 3}).json()["rounds"] == 0
    learn(one, 1.0, 2.0, 3.0)
    look(other)
    assert state(other) == state(one)


def test_a_token_of_a_model_that_was_made_anew_elsewhere_is_known(pair):
    one, other = pair
    look(other)
    one.delete(SHOP)
    one.put(SHOP, json={"dim": 3})
    assert reward(other, decide(one)["token"], 1.0).status_code == 202


def test_a_bad_model_beside_a_deletion_is_refused(shop):
    bad = ModelSpec(policy="Nope", dim=3)
    found = at_once(shop, lambda s: s.delete("shop", ""), lambda s: s.create("shop", bad, ""))
    assert isinstance(found[1], Refusal)
    assert shop.portal.call(shop.app.state.service.commits.do, lambda tx: tx.model("shop")) is None


def test_there_is_no_shadow_of_a_model_that_is_gone(shop):
    shadow = Fork("shadow", shadow=True)
    found = at_once(shop, lambda s: s.delete("shop", ""), lambda s: fork(s, "shop", shadow, ""))
    assert any(isinstance(one, Refusal) for one in found)


def test_models_are_listed_while_one_is_deleted(client):
    from heavytail.serve.handlers import Call, models

    for name in "abc":
        client.put(f"/v1/models/{name}", json={"dim": 3})
    listed = at_once(client, lambda s: models(Call(s, None, "", None)), lambda s: s.delete("c", ""))
    assert not isinstance(listed[0], Refusal)


def test_a_shadow_is_set_back(shop):
    learn(shop, 1.0, 5.0)
    shop.post(f"{SHOP}/fork", json={"name": "shadow", "shadow": True})
    number = shop.get("/v1/models/shadow/snapshots").json()[0]["snapshot"]
    kept = state(shop, "shadow")
    learn(shop, -9.0)
    shop.post("/v1/models/shadow/restore", json={"snapshot": number})
    assert state(shop, "shadow") == kept


def test_a_late_reward_between_two_sweeps_is_counted_once(client, monkeypatch):
    monkeypatch.setattr(chores, "SWEPT", 2)
    client.put(SHOP, json={"dim": 3, "wait": 60.0, "late": "learn"})
    tokens = sorted(decide(client)["token"] for _ in range(2))
    service = client.app.state.service
    before = first_key(time.time() + 60.0)
    sweep = functools.partial(chores._sweep, model=service.models["shop"], before=before)
    assert client.portal.call(service.commits.do, sweep)
    for token in tokens:
        assert reward(client, token, 1.0).status_code == 202
    assert client.get(SHOP).json()["pending"] == 0


def test_a_decision_that_comes_behind_the_sweep_is_asked_for_again(client):
    client.put(SHOP, json={"dim": 3, "wait": 60.0, "default_reward": 0.0})
    service = client.app.state.service
    model, before = service.models["shop"], first_key(time.time() + 60.0)
    sweep = functools.partial(chores._sweep, model=model, before=before)
    client.portal.call(service.commits.do, sweep)
    answer = client.post(f"{SHOP}/decisions", json={"arms": ARMS})  # its key was swept already
    assert (answer.status_code, answer.json()["code"]) == (503, "too_slow")
    assert client.get(SHOP).json()["pending"] == 0


def test_a_shorter_list_is_another_request(shop):
    head = {"Idempotency-Key": "k"}
    shop.post(f"{SHOP}/decisions", json=[{"arms": ARMS}] * 2, headers=head)
    shorter = shop.post(f"{SHOP}/decisions", json=[{"arms": ARMS}], headers=head)
    assert shorter.status_code == 409


def test_one_process_is_never_stale(tmp_path):
    with serving(tmp_path / "store") as client:
        client.put(SHOP, json={"dim": 3})
        for token in [decide(client)["token"] for _ in range(20)]:
            reward(client, token, 1.0)
        assert client.get(SHOP).json()["diagnostics"]["staleness"] == 0.0


def test_a_fork_has_a_name(shop):
    assert shop.post(f"{SHOP}/fork", json={"name": "b\n"}).status_code == 422


def test_an_id_that_cannot_be_logged_is_refused(shop):
    answer = shop.post(f"{SHOP}/decisions", json={"arms": ARMS, "ids": [2**70, 1, 2]})
    assert answer.status_code == 422


@pytest.mark.parametrize("verb", ["predict", "explain"])
def test_text_is_no_number(shop, verb):
    assert shop.post(f"{SHOP}/{verb}", json={"arms": [["1", "0", "0"]]}).status_code == 422


def test_the_tail_is_a_share_of_all_rewards():
    tracker = Tracker()
    tracker.missed([0.0] * 90 + [1.0] * 10)
    assert max(point.share for point in tracker.tail() if point.size >= 1.0) == 0.1


def test_nobody_deletes_a_model_that_decides(address):
    store, other = PostgresStore(address), PostgresStore(address)
    ((row,), _) = store.apply([lambda tx: tx.create("a", "{}")])
    store.begin()
    Transaction(store).check_decides(row.id)
    other.rows("SELECT set_config('lock_timeout', '100ms', false)")
    with pytest.raises(StoreError):
        other.apply([lambda tx: tx.delete(row.id)])
    store.rollback()
    other.apply([lambda tx: tx.delete(row.id)])
    assert store.models() == []
    for one in (store, other):
        one.close()


def test_who_lost_the_database_leads_no_more(address):
    store, other = PostgresStore(address), PostgresStore(address)
    assert store.lead(1)
    store._drop()
    for _ in range(1000):  # the database needs a moment to see it
        if other.lead(1):
            break
        time.sleep(0.01)
    assert store.apply([lambda tx: tx.store.lead(1)])[0] == [False]
    for one in (store, other):
        one.close()
