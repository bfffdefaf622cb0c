"""A damaged store is refused in one sentence, or costs one model: never a traceback."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys

import pytest
from tests.serve.conftest import serving
from tests.serve.test_races import learn
from tests.serve.test_service import SHOP

from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.store import StoreError
from heavytail.serve.live import Live

FILE, PAGE = "heavytail.db", 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with two models and what they learned."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    with serving(folder) as client:
        client.put("/v1/models/other", json={"dim": 3})
        client.put(SHOP, json={"dim": 3})
        learn(client, *map(float, range(8)))
        client.post(f"{SHOP}/snapshots")
        learn(client, 9.0)
    return folder


@pytest.fixture
def store(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "store")


def started(folder) -> str:
    """What becomes of a start: the sentence that refuses it, or ""."""
    try:
        opened = SQLiteStore(folder)
        try:
            asyncio.run(Live(opened).start())
        finally:
            opened.close()
    except StoreError as error:
        return str(error)
    return ""


def sql(*statements):
    def spoil(folder):
        db = sqlite3.connect(folder / FILE)
        for one in statements:
            db.execute(one)
        db.commit()
        db.close()

    return spoil


def cut(size):
    return lambda folder: os.truncate(folder / FILE, size)


def put(place, data):
    def spoil(folder):
        with open(folder / FILE, "r+b") as file:
            file.seek(place)
            file.write(data)

    return spoil


def instead(name, make):
    def spoil(folder):
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return spoil


DAMAGE = {
    "nothing is left": cut(0),
    "the header is cut": cut(50),
    "the first page alone": cut(PAGE),
    "the last page is cut": lambda folder: cut((folder / FILE).stat().st_size - 1)(folder),
    "no magic": put(0, b"X"),
    "another size of pages": put(16, b"\x00\x03"),
    "a directory": instead(FILE, lambda path: path.mkdir()),
    "a loop": instead(FILE, lambda path: path.symlink_to(path)),
    "the log is a directory": instead(f"{FILE}-wal", lambda path: path.mkdir()),
    "the lock is a directory": instead("lock", lambda path: path.mkdir()),
    "the witness is a directory": instead("commits", lambda path: path.mkdir()),
    "no table": sql("DROP TABLE meta"),
    "no column": sql("ALTER TABLE decision RENAME COLUMN arm TO odd"),
    "one column more": sql("ALTER TABLE outcome ADD COLUMN odd INTEGER"),
    "no index": sql("DROP INDEX outcome_key"),
    "a view": sql("ALTER TABLE model RENAME TO odd", "CREATE VIEW model AS SELECT * FROM odd"),
    "no version": sql("DELETE FROM meta"),
    "a version that is text": sql("UPDATE meta SET value = 'x' WHERE name = 'layout'"),
    "commits that are text": sql("UPDATE meta SET value = 'x' WHERE name = 'commits'"),
    "a name that is no text": sql("UPDATE model SET name = X'00' WHERE id = 1"),
    "a key that is text": sql("UPDATE model SET swept = 'x'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_store_is_refused_in_one_sentence(store, damage):
    DAMAGE[damage](store)
    assert len(started(store).splitlines()) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE snapshot SET note = X'FF00'",
        "UPDATE snapshot SET data = 'text'",
        "UPDATE snapshot SET seq = 'text'",
        "UPDATE outcome SET x = 'text'",
        "UPDATE outcome SET reward = 'text'",
        "UPDATE outcome SET seq = 99999999999999999 WHERE seq = 5",
        "UPDATE decision SET key = 99999999999999999 WHERE rowid = 1",
        "UPDATE model SET spec = '[]'",
        "UPDATE model SET spec = CAST(X'FF' AS TEXT)",
        "UPDATE model SET last = 99999999999999999",
    ],
)
def test_what_is_wrong_with_one_model_does_not_keep_the_store_from_starting(store, statement):
    sql(statement)(store)
    assert started(store) == ""


def test_no_flipped_bit_makes_a_traceback(store, whole):
    data, rng = (whole / FILE).read_bytes(), random.Random(0)
    for _ in range(60):
        spoilt = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 20))):
            page = rng.randrange(len(data) // PAGE) * PAGE
            spoilt[page + rng.randrange(rng.choice((120, PAGE)))] ^= 1 << rng.randrange(8)
        (store / FILE).write_bytes(spoilt)
        started(store)


@pytest.mark.parametrize("damage", ["no column", "a name that is no text", "the header is cut"])
def test_the_command_says_in_one_line_that_a_store_is_damaged(store, damage):
    DAMAGE[damage](store)
    command = [sys.executable, "-m", "heavytail", "serve", "--store", str(store), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "backup" in done.stderr


def test_a_snapshot_that_became_text_costs_no_start(store):
    # What SQLite makes of bytes put together by hand; no text at all, so that reading it failed.
    sql("UPDATE snapshot SET data = substr(data, 1, 500) || x'ff' || substr(data, 502)")(store)
    assert started(store) == ""
    with serving(store) as client:
        shop = client.get(SHOP).json()
    assert shop["rounds"] == 9
    assert shop["broken"] is None
