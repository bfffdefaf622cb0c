"""A killed service loses nothing that it acknowledged. Longer: python -m tests.serve.killing."""

from __future__ import annotations

import threading
import time

import httpx
from tests.serve.killing import FACTS, SPEC, Seen, differing, free_port, play, run, start
from tests.serve.killing import check as counted
from tests.serve.test_store import older

from heavytail.ledger.layout import LAYOUT
from heavytail.ledger.opening import opened


def test_killed_under_load_nothing_acknowledged_is_lost(tmp_path):
    check(run(kills=2, seed=1, where=str(tmp_path / "store")))


def test_workers_and_their_database_are_killed_and_nothing_is_lost(server, address):
    check(run(kills=3, seed=2, where=address, workers=2, database=server))


def test_a_store_of_the_first_version_is_upgraded_while_requests_wait(tmp_path):
    folder, port = tmp_path / "store", free_port()
    urls, seen, stop = [f"http://127.0.0.1:{port}/v1/models"], Seen(), threading.Event()
    threads = [
        threading.Thread(target=play, args=(urls, seen, stop, seed), kwargs={"offers": False})
        for seed in range(3)
    ]
    process = start(str(folder), port)
    try:
        httpx.put(f"{urls[0]}/shop", json=SPEC, timeout=120.0).raise_for_status()
        for thread in threads:
            thread.start()
        for upgrades in (True, False):
            time.sleep(1.0)
            process.kill()
            process.wait()
            before = len(seen.decided)
            if upgrades:
                older(folder)
            process = start(str(folder), port)
        time.sleep(1.0)
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        process.kill()
        process.wait()
    store = opened(str(folder))
    assert store.check_tables() == LAYOUT
    counts = counted(store, seen)
    store.close()
    assert len(seen.decided) > before
    check({**counts, "states that differ": differing(str(folder))})


def check(counts):
    facts = {what: counts.pop(what) for what in FACTS}
    assert facts["decisions"] > 10
    assert facts["rewards"] > 3
    assert not any(counts.values()), counts
