"""A store that fails, is shared, damaged or lied to by the clock: a clear word, nothing lost."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, decide, reward, state

from heavytail.ledger.layout import ADDED, Activity, DecisionRow
from heavytail.ledger.opening import opened
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.store import StoreError
from heavytail.ledger.tokens import Token, time_of
from heavytail.ledger.transaction import Lookup


def test_two_services_do_not_share_a_folder(tmp_path):
    first = SQLiteStore(tmp_path)
    with pytest.raises(StoreError, match="used by another service"):
        SQLiteStore(tmp_path)
    first.close()
    SQLiteStore(tmp_path).close()


def test_the_command_says_in_one_line_that_a_store_is_in_use(tmp_path):
    first = SQLiteStore(tmp_path)
    command = [sys.executable, "-m", "heavytail", "serve", "--store", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    first.close()
    assert done.returncode == 2
    assert "used by another service" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_log_that_lost_its_last_page_is_refused(tmp_path, damage):
    """SQLite would go on without the commit, in silence."""
    code = (
        "import os, sys; from heavytail.ledger.sqlite import SQLiteStore\n"
        "store = SQLiteStore(sys.argv[1])\n"
        "for name in 'ab': store.apply([lambda tx, n=name: tx.create(n, '{}')])\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    log = tmp_path / "heavytail.db-wal"
    whole = bytearray(log.read_bytes())
    if damage == "flip":
        whole[-100] ^= 1
    else:
        del whole[-4096:]
    log.write_bytes(whole)
    with pytest.raises(StoreError, match="has lost its last 1 commits"):
        SQLiteStore(tmp_path)
    (tmp_path / "commits").unlink()  # who says so goes on without it
    store = SQLiteStore(tmp_path)
    assert [row.name for row in store.models()] == ["a"]
    store.close()


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "heavytail.db").write_bytes(b"nothing of the kind" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        SQLiteStore(tmp_path)


def test_a_store_of_another_version_is_refused(tmp_path):
    store = SQLiteStore(tmp_path)
    store.rows("UPDATE meta SET value = 99 WHERE name = 'layout'")
    store.close()
    with pytest.raises(StoreError, match="version 99"):
        SQLiteStore(tmp_path)


def older(folder):
    """Turn a store into one of version 1."""
    with sqlite3.connect(folder / "heavytail.db") as tables:
        for statement in ADDED[2]:
            kind, name = statement.split()[1:3]
            tables.execute(f"DROP {kind} {name}")
        tables.execute("UPDATE meta SET value = 1 WHERE name = 'layout'")
    tables.close()


def test_a_store_of_the_first_version_is_read_and_upgraded_in_place(tmp_path):
    with serving(tmp_path) as client:
        client.put(SHOP, json={"dim": 3})
        for value in (2.5, -1.0, 4.0):
            reward(client, decide(client)["token"], value)
        before = state(client)
    older(tmp_path)
    with SQLiteStore.reading(tmp_path) as reader:
        assert [row.name for row in reader.models()] == ["shop"]
        assert reader.check_tables() == 1
    with serving(tmp_path) as client:
        assert state(client) == before
    with SQLiteStore.reading(tmp_path) as reader:
        assert reader.check_tables() == 2
        assert reader.activities() == {1: Activity(3, sent=3, gains=6.5, losses=1.0)}


def test_counts_are_added_up_over_workers_and_gone_with_the_model(where):
    store = opened(where)

    def work(tx):
        row = tx.create("shop", "{}")
        for k, value in enumerate((2.0, -3.0, 5.0)):
            key = bytes([k]) * 22
            made = DecisionRow(row.id, key, 0, 0, b"", None, b"")
            tx.decide(made)
            tx.reward(made, value, None, by_default=k == 2)
        tx.unknown(row.id, 2)

    store.apply([work])
    tiny = 1e-12
    store.apply([lambda tx: tx.rows("INSERT INTO activity VALUES (1, 9, 1, 0, ?, 0, 1)", tiny)])
    assert store.activities() == {1: Activity(3, 3, 1, 7.0 + tiny, 3.0, 3)}
    assert (store.activities()[1].rewards, store.activities()[1].money) == (4, 4.0 + tiny)
    store.apply([lambda tx: tx.delete(1)])
    assert store.activities() == {}
    store.close()


def test_damaged_counts_are_refused(tmp_path):
    store = SQLiteStore(tmp_path)
    store.rows("INSERT INTO activity VALUES (1, 0, 'many', 0, 0, 0, 0)")
    with pytest.raises(StoreError, match="the counts of the models are damaged"):
        store.activities()
    store.close()


@pytest.mark.parametrize("table", ["model", "decision", "outcome", "snapshot", "tally", "api_key"])
def test_a_store_that_lacks_a_table_is_refused(tmp_path, table):
    store = SQLiteStore(tmp_path)
    store.rows(f"DROP TABLE {table}")
    store.close()
    with pytest.raises(StoreError, match=f"no such table: {table}. Restore it from a backup"):
        SQLiteStore(tmp_path)


def test_a_full_disk_is_said_so_and_goes_on_when_there_is_room(tmp_path):
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with serving(tmp_path / "store") as client:
            client.put(SHOP, json={"dim": 3})
            token = decide(client)["token"]
            before = state(client)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            answer = client.post(f"{SHOP}/decisions", json={"arms": ARMS})
            assert (answer.status_code, answer.json()["code"]) == (503, "store")
            assert reward(client, token, 1.0).status_code == 503
            assert client.get("/readyz").status_code == 503
            assert state(client) == before
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert reward(client, token, 1.0).status_code == 202
            assert client.get(SHOP).json()["decisions"] == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)


def test_a_clock_that_is_set_back_does_not_turn_time(shop, monkeypatch):
    first = Token.parse(decide(shop)["token"])
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 1e6)
    second = Token.parse(decide(shop)["token"])
    assert time_of(second.key) >= time_of(first.key)
    assert reward(shop, str(first), 1.0).status_code == 202


def test_tokens_are_not_repeated_and_not_believed_before_they_are_checked():
    seen = {Token.new(1, 2, 3.0) for _ in range(10_000)}
    assert len({token.key for token in seen}) == len(seen)
    token = next(iter(seen))
    text = str(token)
    assert Token.parse(text) == token
    for bad in (text[:-1], text + "A", text + "=", text.replace(text[0], "!"), "", "é" * 46):
        assert Token.parse(bad) is None


def test_an_operation_sees_what_others_wrote_in_its_commit(where):
    store = opened(where)
    (row,), _ = store.apply([lambda tx: tx.create("a", "{}")])
    made = DecisionRow(row.id, bytes(22), 0, 0, bytes(8), b"a request", b"")

    def decide(tx):
        known = tx.requested(row.id, made.request)
        if known is None:
            tx.decide(made)
        return known

    def reward(tx):
        tx.last(row.id)
        known = tx.outcome(row.id, made.key)
        if known is None:
            tx.reward(made, 2.0, None)
        return known

    decides = Lookup(decide, "request", {row.id: [made.request, b"another"]})
    assert store.apply([decides, decides])[0] == [None, made]
    assert store.apply([decides])[0] == [made]
    rewards = Lookup(reward, "key", {row.id: [made.key, bytes(21)]})
    first, second = store.apply([rewards, rewards])[0]
    assert (first, second.reward, second.seq) == (None, 2.0, 1)
    assert store.apply([rewards])[0] == [second]
    store.close()
