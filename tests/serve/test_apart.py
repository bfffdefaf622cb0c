"""Work that takes long leaves the loop to others, and a model stays in step with its log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, decide, reward, state

import heavytail as ht
from heavytail.ledger import commits
from heavytail.serve import apart
from heavytail.serve.apart import Turns

WAIT = 20.0  # seconds after which a test gives up


class Gate:
    """A method that does not end before it may, and is told to by another request."""

    def __init__(self, monkeypatch, name):
        self.began, self.may = threading.Event(), threading.Event()
        self.thread = ""
        inner = getattr(ht.TwinUCB, name)

        def slow(policy, *args, **kwargs):
            self.thread = threading.current_thread().name
            self.began.set()
            assert self.may.wait(WAIT), "nobody else was served meanwhile"
            return inner(policy, *args, **kwargs)

        monkeypatch.setattr(ht.TwinUCB, name, slow)


@pytest.fixture
def everything_long(monkeypatch):
    monkeypatch.setattr(apart, "LONG", 0.0)
    monkeypatch.setattr(commits, "LARGE", 0)


WORKS = {
    "explain": lambda client: client.post(f"{SHOP}/explain", json={"arms": ARMS}),
    "predict": lambda client: client.post(f"{SHOP}/predict", json={"arms": ARMS}),
    "select": lambda client: client.post(f"{SHOP}/decisions", json={"arms": ARMS}),
    "to_bytes": lambda client: client.post(f"{SHOP}/snapshots"),
    "diagnostics": lambda client: client.get(SHOP),
}


@pytest.mark.parametrize("method", WORKS)
def test_others_are_served_while_a_model_works(shop, monkeypatch, everything_long, method):
    token = decide(shop)["token"]
    gate, found = Gate(monkeypatch, method), []
    asks = threading.Thread(target=lambda: found.append(WORKS[method](shop)))
    asks.start()
    assert gate.began.wait(WAIT)
    assert shop.get("/healthz").status_code == 200
    assert shop.get("/readyz").status_code == 200
    assert shop.get("/metrics").status_code == 200
    assert not found
    gate.may.set()
    asks.join(WAIT)
    assert found[0].status_code in (200, 201)
    assert reward(shop, token, 1.0).status_code == 202


def test_others_are_served_while_a_model_learns(shop, monkeypatch, everything_long):
    token, found = decide(shop)["token"], []
    gate = Gate(monkeypatch, "update_many")
    asks = threading.Thread(target=lambda: found.append(reward(shop, token, 3.0)))
    asks.start()
    assert gate.began.wait(WAIT)
    assert shop.get("/healthz").status_code == 200
    gate.may.set()
    asks.join(WAIT)
    assert found[0].status_code == 202
    assert shop.get(SHOP).json()["rounds"] == 1


def test_others_are_served_while_a_model_is_made(client, monkeypatch):
    gate, found = Gate(monkeypatch, "select"), []
    asks = threading.Thread(target=lambda: found.append(client.put(SHOP, json={"dim": 3})))
    asks.start()
    assert gate.began.wait(WAIT)
    assert client.get("/healthz").status_code == 200
    gate.may.set()
    asks.join(WAIT)
    assert found[0].status_code == 201


def test_others_are_served_while_a_long_body_is_read(shop, monkeypatch):
    from heavytail.serve import handlers

    gate, found = threading.Event(), []
    began, inner = threading.Event(), handlers.read

    def slow(decoder, body):
        began.set()
        assert gate.wait(WAIT), "nobody else was served meanwhile"
        return inner(decoder, body)

    monkeypatch.setattr(handlers, "read", slow)
    body = json.dumps({"arms": ARMS}) + " " * handlers.THICK
    monkeypatch.setattr(handlers, "plain", lambda *told: None)
    ask = threading.Thread(
        target=lambda: found.append(shop.post(f"{SHOP}/decisions", content=body))
    )
    ask.start()
    assert began.wait(WAIT)
    assert shop.get("/healthz").status_code == 200
    gate.set()
    ask.join(WAIT)
    assert found[0].status_code == 201


def test_a_model_that_works_in_threads_is_the_logs_to_the_bit(where, everything_long):
    rng = np.random.default_rng(0)
    with serving(where) as client:
        client.put(SHOP, json={"policy": "TwinUCB", "dim": 3})
        asked = {"arms": ARMS, "explore": 0.3}

        def visit(values):
            for value in values:
                made = client.post(f"{SHOP}/decisions", json=asked).json()
                assert reward(client, made["token"], value).status_code == 202
                client.post(f"{SHOP}/explain", json={"arms": ARMS})

        some = [threading.Thread(target=visit, args=(rng.standard_t(1.5, 15),)) for _ in range(4)]
        for one in some:
            one.start()
        for one in some:
            one.join(WAIT)
        service = client.app.state.service
        assert client.get(SHOP).json()["rounds"] == 60
        with service.store.reader() as store:
            rows = store.outcomes(1, 0, 1000)
        twin = ht.TwinUCB(3)
        for row in rows:
            twin.update(np.frombuffer(row.x), row.reward)
        assert twin.to_bytes() == state(client)
        staleness = service.models["shop"].staleness
        assert 0.0 <= staleness < 4.0
        client.post(f"{SHOP}/snapshots")
    with serving(where) as client:
        assert state(client) == twin.to_bytes()


def test_who_leaves_does_not_let_another_in_before_the_work_is_done():
    async def main():
        turns, may, seen = Turns(), threading.Event(), []

        def long():
            assert may.wait(WAIT)
            seen.append("long")

        first = asyncio.create_task(turns.do("a", 1e12, long))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(turns.do("b", 1.0, lambda: seen.append("short")))
        first.cancel()
        await asyncio.sleep(0.05)
        assert (seen, turns.taken) == ([], True)
        may.set()
        await second
        return seen

    assert asyncio.run(main()) == ["long", "short"]


def test_what_turned_out_long_is_done_in_a_thread_and_what_is_refused_is_no_measure():
    async def main():
        turns, here = Turns(), threading.get_ident()

        async def where(work):
            return await turns.do("a", 10.0, lambda: (work(), threading.get_ident())[1]) == here

        def refuse():
            raise ValueError

        short = [await where(lambda: None)]
        turns.timed("a", 10.0, lambda: threading.Event().wait(0.05))
        short.append(await where(lambda: None))
        for _ in range(1000):
            with contextlib.suppress(ValueError):
                await turns.do("a", 10.0, refuse)
        short.append(await where(lambda: None))
        for _ in range(1000):
            await where(lambda: None)
        short.append(await where(lambda: None))
        return short

    assert asyncio.run(main()) == [True, False, False, True]
