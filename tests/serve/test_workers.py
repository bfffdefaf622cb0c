"""Several workers on one PostgreSQL store: each sees what others did, and nothing is doubled."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import look, serving
from tests.serve.killing import free_port
from tests.serve.test_service import ARMS, SHOP, decide, reward, state

from heavytail.ledger.postgres import PostgresStore
from heavytail.ledger.store import Conflict, StoreError
from heavytail.ledger.transaction import Transaction
from heavytail.serve import live, ready
from heavytail.serve.app import build
from heavytail.serve.model import built
from heavytail.serve.wire import DecideAmongVectors, Reward


def test_a_model_is_known_to_all_at_once(pair):
    one, other = pair
    assert other.put(SHOP, json={"dim": 3}).status_code == 200
    assert other.put(SHOP, json={"dim": 4}).json()["code"] == "another_model"
    token = decide(other)["token"]
    assert reward(one, token, 2.0).status_code == 202
    assert reward(other, token, 2.0).status_code == 200
    assert reward(other, token, 3.0).json()["code"] == "rewarded"
    assert [client.get(SHOP).json()["rounds"] for client in pair] == [1, 1]
    assert [client.get(SHOP).json()["pending"] for client in pair] == [0, 0]
    assert one.delete(SHOP).status_code == 204
    answer = other.post(f"{SHOP}/decisions", json={"arms": ARMS})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_model")


def test_a_pause_holds_everywhere(pair):
    one, other = pair
    decide(other)
    one.patch(SHOP, json={"paused": True})
    assert other.post(f"{SHOP}/decisions", json={"arms": ARMS}).json()["code"] == "paused"


def test_states_are_equal_to_the_bit_and_to_the_log(pair):
    rng = np.random.default_rng(0)
    waiting = []
    for k in range(60):
        waiting.append(decide(pair[k % 2])["token"])
        if k % 3:
            reward(pair[(k // 2) % 2], waiting.pop(rng.integers(len(waiting))), rng.standard_t(1.5))
    for client in pair:
        look(client)
    assert state(pair[0]) == state(pair[1])
    service = pair[0].app.state.service
    twin = built(service.models["shop"].spec)
    with service.store.reader() as store:
        rows = store.outcomes(1, 0, 1000)
    assert [row.seq for row in rows] == list(range(1, 41))
    for row in rows:
        twin.update(np.frombuffer(row.x), row.reward)
    assert twin.to_bytes() == state(pair[0])
    assert service.models["shop"].staleness >= 0.0


def test_a_model_that_is_set_back_is_so_everywhere(pair):
    one, other = pair
    for value in (1.0, 5.0):
        reward(one, decide(one)["token"], value)
    kept, number = state(one), one.post(f"{SHOP}/snapshots").json()["snapshot"]
    reward(one, decide(one)["token"], -9.0)
    look(other)
    assert one.post(f"{SHOP}/restore", json={"snapshot": number}).status_code == 200
    # who has not seen it takes no snapshot of the old state
    assert other.post(f"{SHOP}/snapshots").json()["code"] == "changed"
    look(other)
    assert state(other) == state(one) == kept


def test_one_worker_leads_and_another_takes_over(address):
    first, second = PostgresStore(address), PostgresStore(address)
    assert first.slot != second.slot
    assert (first.lead(1), second.lead(1), first.lead(1)) == (True, False, True)
    first.close()
    for _ in range(1000):  # the database needs a moment to see it
        if second.lead(1):
            break
        time.sleep(0.01)
    assert second.lead(1)
    second.close()


def test_a_request_that_is_sent_to_two_workers_is_done_once(pair):
    head, tokens = {"Idempotency-Key": "k"}, set()
    for client in pair:
        made = client.post(f"{SHOP}/decisions", json={"arms": ARMS}, headers=head)
        tokens.add(made.json()["token"])
    assert len(tokens) == 1


def test_a_request_that_two_workers_get_at_once_is_done_once(pair):
    """The second insert of a key meets the first one's: it begins again and answers the same."""

    async def ask(service):
        asked = [DecideAmongVectors(ARMS)]
        return [(await service.decide("shop", asked, f"key {k}"))[0].token for k in range(50)]

    for client in pair:
        look(client)
    both = [client.portal.start_task_soon(ask, client.app.state.service) for client in pair]
    one, other = (future.result(timeout=60.0) for future in both)
    assert one == other


def test_a_conflict_begins_again(address):
    store, other = PostgresStore(address), PostgresStore(address)
    tries = []

    def late(tx):
        tries.append(tx.model("a"))
        if len(tries) == 1:  # another is quicker, between our look and our write
            other.apply([lambda tx: tx.create("a", "{}")])
        return tx.model("a") if tries[-1] else tx.create("a", "{}")

    (found,), _ = store.apply([late])
    assert (len(tries), found.name) == (2, "a")
    assert len(store.models()) == 1
    for one in (store, other):
        one.close()


def test_conflicts_end(address):
    store = PostgresStore(address)

    def never(tx):
        raise Conflict("always")

    with pytest.raises(Conflict):
        store.apply([never])
    store.close()


def test_a_database_that_was_lost_is_found_again(server, address, monkeypatch):
    monkeypatch.setattr(ready, "AGE", 0.0)
    with serving(address) as client:
        client.put(SHOP, json={"dim": 3})
        token = decide(client)["token"]
        server.kill()
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert reward(client, token, 1.0).status_code == 503
        server.start()
        assert client.get("/readyz").status_code == 200
        assert reward(client, token, 1.0).status_code == 202
        assert client.get(SHOP).json()["rounds"] == 1


def test_nothing_is_done_outside_of_a_transaction_that_was_lost(server, address):
    store = PostgresStore(address)

    def work(tx):
        tx.create("a", "{}")
        server.kill()
        server.start()
        with contextlib.suppress(StoreError):
            tx.create("b", "{}")
        tx.create("c", "{}")

    with pytest.raises(StoreError):
        store.apply([work])
    assert store.models() == []
    store.close()


@pytest.mark.parametrize(
    "told",
    [
        "postgresql://nobody@/no?host=/nowhere",
        "postgresql://x:secret@127.0.0.1:1/x",
        "postgres://%",
    ],
)
def test_a_database_that_is_not_there_is_said_without_its_password(told):
    with pytest.raises(StoreError) as error:
        PostgresStore(told)
    assert "secret" not in str(error.value)


def test_many_batches_are_learned_whole(pair, monkeypatch):
    monkeypatch.setattr(live, "BATCH", 2)
    one, other = pair
    made = one.post(f"{SHOP}/decisions", json=[{"arms": ARMS}] * 7).json()
    told = [{"token": each["token"], "reward": float(i)} for i, each in enumerate(made)]
    assert other.post(f"{SHOP}/rewards", json=told).json() == {"accepted": 7}
    look(one)
    assert [client.app.state.service.models["shop"].version for client in pair] == [7, 7]
    assert state(one) == state(other)


def test_two_workers_reward_two_models_at_once_in_opposite_orders(address):
    with serving(address) as one, serving(address) as other:
        names = ["/v1/models/a", "/v1/models/b"]
        for name in names:
            one.put(name, json={"dim": 3})
        services = [client.app.state.service for client in (one, other)]
        for client in (one, other):
            look(client)

        async def rewards(service, order):
            for _ in range(20):
                tokens = {
                    name: (await service.decide(name, [DecideAmongVectors(ARMS)]))[0].token
                    for name in order
                }
                await asyncio.gather(
                    *(service.reward(name, [Reward(tokens[name], 1.0)]) for name in order)
                )

        futures = [
            client.portal.start_task_soon(rewards, service, order)
            for client, service, order in zip((one, other), services, ("ab", "ba"), strict=True)
        ]
        for future in futures:
            future.result(timeout=60.0)
        assert [one.get(name).json()["rounds"] for name in names] == [40, 40]


def test_a_worker_that_stops_within_a_commit_holds_up_the_others_for_seconds_only(address):
    with serving(address) as client:
        client.put(SHOP, json={"dim": 3})
        token = decide(client)["token"]
        stopped = PostgresStore(address)
        stopped.begin()
        Transaction(stopped).last(1)  # nobody else rewards until its commit, which never comes
        start = time.monotonic()
        assert reward(client, token, 1.0).status_code == 202
        assert time.monotonic() - start < 20.0
        stopped.close()


def test_the_database_is_told_when_to_give_up_a_worker_that_is_cut_off(address, monkeypatch):
    """Keepalives do not start while an answer is unacknowledged: that has a limit of its own."""
    told, rows = {}, PostgresStore.rows

    def kept(store, sql, *values):
        if "set_config(?" in sql:
            told.update([values])
        return rows(store, sql, *values)

    monkeypatch.setattr(PostgresStore, "rows", kept)
    PostgresStore(address).close()
    assert told["tcp_user_timeout"] == "15s"
    assert {"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"} <= set(told)


def test_a_large_snapshot_has_more_time_to_reach_the_database(address):
    store = PostgresStore(address)

    def work(tx):
        row = tx.create("a", "{}")
        tx.snapshot(row.id, 0, bytes(2**21), "")
        return tx.rows("SHOW idle_in_transaction_session_timeout")

    (shown,), _ = store.apply([work])
    assert shown == [("30s",)]
    assert store.rows("SHOW idle_in_transaction_session_timeout") == [("5s",)]
    store.close()


def test_a_commit_queries_the_database_as_often_for_many_requests_as_for_one(pair, monkeypatch):
    service = pair[0].app.state.service
    queries, rows = [], PostgresStore.rows

    def counted(store, sql, *values):
        queries.append(sql)
        return rows(store, sql, *values)

    monkeypatch.setattr(PostgresStore, "rows", counted)

    async def visits(count):
        each = range(count)
        asked = [DecideAmongVectors(ARMS)]
        decided = [service.decide("shop", asked, f"{k} of {count}") for k in each]
        tokens = [answers[0].token for answers in await asyncio.gather(*decided)]
        await asyncio.gather(*(service.reward("shop", [Reward(token, 1.0)]) for token in tokens))

    def lookups(count):
        queries.clear()
        pair[0].portal.call(visits, count)
        return sum(" FROM decision" in sql or " FROM outcome" in sql for sql in queries)

    few, many = lookups(1), lookups(100)
    assert 0 < few <= many < 20  # requests that come together share a commit, or a few


def test_requests_that_wait_for_the_keys_read_them_once(pair, monkeypatch):
    service = pair[0].app.state.service
    queries, rows = [], PostgresStore.rows

    def counted(store, sql, *values):
        queries.append(sql)
        return rows(store, sql, *values)

    monkeypatch.setattr(PostgresStore, "rows", counted)

    async def many():
        service.keys.changed()
        waiting = [service.keys.allow(service.commits, "", "read", True) for _ in range(50)]
        return await asyncio.gather(*waiting)

    assert pair[0].portal.call(many) == ["anybody"] * 50
    assert sum("SELECT digest" in sql for sql in queries) == 1


def test_a_commit_that_the_database_undoes_is_a_failure(address):
    store = PostgresStore(address)

    def work(tx):
        tx.create("a", "{}")
        with contextlib.suppress(Exception):
            tx.rows("SELECT no_such_column FROM model")  # the database gives the transaction up

    with pytest.raises(StoreError, match="ROLLBACK"):
        store.apply([work])
    assert store.models() == []
    store.close()


def test_the_clock_is_the_databases(address):
    store = PostgresStore(address)
    assert store.clock() == pytest.approx(time.time(), abs=5.0)
    store._offset += 3600.0
    assert store.clock() == pytest.approx(time.time() + 3600.0, abs=5.0)
    assert store.measure() == pytest.approx(time.time(), abs=5.0)  # it may have been set
    assert store.clock() == pytest.approx(time.time(), abs=5.0)
    store.close()


def test_a_service_waits_for_a_database_that_is_away_when_it_starts(server, address):
    store = PostgresStore(address)
    server.kill()
    threading.Timer(1.0, server.start).start()
    with TestClient(build(store, local=True), base_url="http://127.0.0.1") as client:
        assert client.get("/readyz").status_code == 200


def test_workers_end_with_the_process_that_started_them(address):
    port = free_port()
    command = [sys.executable, "-m", "heavytail", "serve", "--store", address, "--workers", "2"]
    parent = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: answers(port))
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not answers(port))


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False


def wait_for(true):
    end = time.monotonic() + 120.0
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)
