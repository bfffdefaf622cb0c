"""The client: the library's verbs, again until they are answered, and counted once."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest
from tests.serve.test_service import ARMS

import heavytail as ht
from heavytail.client import Refused


class Flaky:
    """A connection that loses requests and answers, by turns."""

    def __init__(self, client, faults):
        self.client, self.faults = client, list(faults)

    def request(self, **told):
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "down":
            raise httpx.ConnectError("nobody there")
        answer = self.client.request(**told)
        if fault == "lost":  # it was done, and nobody heard
            raise httpx.ReadError("gone")
        return httpx.Response(503, json={"code": "store"}) if fault == "busy" else answer


def remote(client, *faults, patience=10.0):
    return ht.Client("http://testserver", http=Flaky(client, faults), patience=patience)


def test_the_verbs_of_the_library(client):
    shop = remote(client).create("shop", dim=3)
    made = shop.decide(np.array(ARMS), ids=["a", "b", "c"], explore=0.1)
    assert made.id == "abc"[made.arm]
    assert shop.learn(made, np.float64(2.0)) == 1
    assert shop.learn(made, 2.0) == 0
    many = shop.decide_many([ARMS, ARMS])
    assert shop.learn(many, [1.0, 3.0]) == 2
    assert len(shop.predict(ARMS)["mean"]) == 3
    assert shop.explain(ARMS)["arm"] in (0, 1, 2)
    assert shop.diagnostics()["rounds"] == 3
    number = shop.snapshot()
    twin = shop.fork("twin", shadow=True)
    shop.learn(shop.decide(ARMS), 5.0)
    assert twin.describe()["rounds"] == 4
    shop.restore(number)
    assert shop.describe()["rounds"] == 3
    shop.pause()
    with pytest.raises(Refused, match="paused") as refused:
        shop.decide(ARMS)
    assert (refused.value.status, refused.value.code) == (409, "paused")
    twin.delete()
    assert [one["name"] for one in remote(client).models()] == ["shop"]


def test_what_is_sent_again_counts_once(client):
    remote(client).create("shop", dim=3)
    faults = ["down", "lost", "busy", ""]
    shop = remote(client, *faults, *faults).model("shop")
    made = shop.decide(ARMS)
    assert shop.learn(made, 2.0) == 0  # it was new the first time, when nobody heard
    seen = shop.describe()
    assert (seen["decisions"], seen["rounds"]) == (1, 1)


def test_patience_ends(client):
    with pytest.raises(httpx.ConnectError):
        remote(client, *["down"] * 100, patience=0.2).models()
    with pytest.raises(Refused):
        remote(client, *["busy"] * 100, patience=0.2).models()


def test_what_must_not_be_done_twice_is_not_sent_again(client):
    shop = remote(client).create("shop", dim=3)
    with pytest.raises(httpx.ReadError):
        remote(client, "lost").model("shop").snapshot()
    assert remote(client, "down").model("shop").snapshot() == 2
    shop.delete()


@pytest.mark.parametrize("name", ["", "a/b", "..", 3])
def test_names_never_become_paths(client, name):
    with pytest.raises(ValueError, match="name"):
        remote(client).model(name)


def test_the_same_verbs_are_awaited(client):
    async def main():
        transport = httpx.ASGITransport(client.app)
        async with (
            httpx.AsyncClient(transport=transport) as http,
            ht.AsyncClient("http://testserver", http=http) as one,
        ):
            shop = await one.create("shop", dim=3)
            made = await shop.decide(ARMS)
            return await shop.learn(made, 1.0), (await shop.describe())["rounds"]

    assert client.portal.call(main) == (1, 1)
    assert asyncio.iscoroutinefunction(ht.AsyncClient.close)
