"""Keys, limits, documents and the log that leaves the service."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, decide, reward

import heavytail as ht
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.serve.handlers import ROUTES
from heavytail.serve.keys import issue
from heavytail.serve.openapi import ANSWERS
from heavytail.serve.rates import Rates
from heavytail.serve.service import Limits

SCOPES = ("read", "decide", "admin")


@pytest.fixture
def keyed(tmp_path):
    store = SQLiteStore(tmp_path / "store")
    keys, _ = store.apply([lambda tx, s=scope: issue(tx, s, [s], "test") for scope in SCOPES])
    store.close()
    with serving(tmp_path / "store", local=False) as client:
        yield client, dict(zip(SCOPES, keys, strict=True))


def _path(road) -> str:
    return road.path.replace("{name}", "shop").replace("{number:int}", "1")


@pytest.mark.parametrize("road", ROUTES, ids=lambda road: f"{road.method} {road.path}")
def test_no_route_answers_without_the_key_that_it_needs(keyed, road):
    client, keys = keyed
    plain = client.request(road.method, _path(road))
    if not road.scope:
        assert plain.status_code == 200
        return
    assert (plain.status_code, plain.json()["code"]) == (401, "no_key")
    for header in ("Bearer ht_wrong", "Basic abc", "Bearer", "Bearer "):
        answer = client.request(road.method, _path(road), headers={"Authorization": header})
        assert answer.status_code == 401
    for scope, key in keys.items():
        head = {"Authorization": f"Bearer {key}"}
        answer = client.request(road.method, _path(road), headers=head)
        allowed = scope in (road.scope, "admin")
        assert (answer.status_code != 403) == allowed, answer.text
        assert answer.status_code != 401


def test_only_the_hash_of_a_key_is_in_the_store(keyed, tmp_path):
    _, keys = keyed
    raw = b"".join(path.read_bytes() for path in (tmp_path / "store").iterdir())
    for key in keys.values():
        assert key.encode() not in raw


def test_a_key_is_changed_without_a_restart(keyed):
    client, keys = keyed
    head = {"Authorization": f"Bearer {keys['admin']}"}
    made = client.post("/v1/keys", json={"name": "new", "scopes": ["read"]}, headers=head)
    assert made.status_code == 201
    again = client.post("/v1/keys", json={"name": "new", "scopes": ["read"]}, headers=head)
    assert again.status_code == 409
    fresh = {"Authorization": f"Bearer {made.json()['key']}"}
    assert client.get("/v1/models", headers=fresh).status_code == 200
    assert client.delete("/v1/keys/new", headers=head).status_code == 204
    assert client.get("/v1/models", headers=fresh).status_code == 401
    assert [one["name"] for one in client.get("/v1/keys", headers=head).json()] == sorted(SCOPES)


def test_what_administrators_do_is_written_down(keyed):
    client, keys = keyed
    head = {"Authorization": f"Bearer {keys['admin']}"}
    client.put(SHOP, json={"dim": 3}, headers=head)
    client.delete(SHOP, headers=head)
    lines = client.app.state.service.store.rows("SELECT who, what FROM audit ORDER BY time")
    assert ("admin", "create shop") in lines
    assert ("admin", "delete shop") in lines


def test_limits_are_kept(tmp_path):
    limits = Limits(body=2000, arms=3, batch=2, dim=5, models=2)
    with serving(tmp_path / "store", limits=limits) as client:
        client.put(SHOP, json={"dim": 3})
        long = client.post(f"{SHOP}/decisions", content=b" " * 2001)
        assert (long.status_code, long.json()["code"]) == (413, "too_large")
        chunked = client.post(f"{SHOP}/decisions", content=iter([b" " * 1500] * 2))
        assert chunked.status_code == 413
        arms = client.post(f"{SHOP}/decisions", json={"arms": ARMS + ARMS})
        assert arms.json()["code"] == "too_many_arms"
        batch = client.post(f"{SHOP}/decisions", json=[{"arms": ARMS}] * 3)
        assert batch.json()["code"] == "too_many"
        assert client.put("/v1/models/b", json={"dim": 6}).json()["code"] == "bad_dim"
        client.put("/v1/models/b", json={"dim": 5})
        assert client.put("/v1/models/c", json={"dim": 5}).json()["code"] == "too_many_models"


def test_the_log_is_what_evaluate_reads(shop, tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(60):
        made = decide(shop, explore=0.5, ids=["a", "b", "c"])
        reward(shop, made["token"], float(rng.pareto(1.5)))
    decide(shop)
    path = tmp_path / "log.parquet"
    path.write_bytes(shop.get(f"{SHOP}/log").content)
    found = ht.evaluate(path, ht.Uniform(3))
    assert found.rows == 60
    assert found.propensities_ok


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.handler.__name__)
def test_every_route_has_its_answers_in_the_document(route):
    name = route.handler.__name__
    assert name in ANSWERS, f"add {name!r} to ANSWERS of serve/openapi.py: its answer by status"


def test_the_document_and_the_metrics(shop):
    told = shop.get("/openapi.json").json()
    listed = {(path, method) for path, each in told["paths"].items() for method in each}
    assert listed == {(r.path.replace(":int", ""), r.method.lower()) for r in ROUTES}
    decide(shop)
    text = shop.get("/metrics").text
    assert 'heavytail_decisions_total{model="shop"} 1.0' in text
    assert 'heavytail_requests_total{route="decide",status="201"} 1.0' in text


@pytest.mark.parametrize("path", ["/x", "/v1/models/shop/x", "/v1/models/%2e%2e/decisions"])
def test_what_is_not_there_is_said_so(shop, path):
    answer = shop.post(path, json={})
    assert answer.status_code in (404, 405)
    assert answer.json()["message"]


def test_a_local_service_is_open_until_there_is_a_key(client):
    assert client.put(SHOP, json={"dim": 3}).status_code == 201
    made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).json()
    assert client.get(SHOP).status_code == 401
    assert client.get(SHOP, headers={"Authorization": f"Bearer {made['key']}"}).status_code == 200


def test_who_asks_too_often_has_to_wait(tmp_path):
    with serving(tmp_path / "store", limits=Limits(rate=2.0)) as client:
        answers = [client.get("/v1/models") for _ in range(4)]
        assert [one.status_code for one in answers] == [200, 200, 429, 429]
        assert answers[2].json()["code"] == "too_fast"
        assert answers[2].headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200


def test_rates_are_per_caller_and_come_back():
    now = [0.0]
    rates = Rates(4.0, lambda: now[0])

    def allowed(caller, times):
        found = 0
        for _ in range(times):
            with contextlib.suppress(Refusal):
                rates.count(caller)
                found += 1
        return found

    assert (allowed("a", 10), allowed("b", 3)) == (4, 3)
    now[0] = 0.5
    assert (allowed("a", 10), allowed("b", 10)) == (2, 3)
    now[0] = 100.0
    assert allowed("a", 10) == 4
    for k in range(20_000):
        allowed(str(k), 1)
    assert len(rates._left) <= 10_000


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    with serving(tmp_path / "store", limits=Limits(patience=0.05)) as client:

        async def call():
            sent = []

            async def never():
                await asyncio.sleep(60.0)

            async def send(message):
                sent.append(message)

            scope = {
                "type": "http", "method": "PUT", "path": "/v1/models/shop", "query_string": b"",
                "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1),
                "server": ("x", 1), "scheme": "http", "root_path": "", "http_version": "1.1",
            }  # fmt: skip
            await client.app(scope, never, send)
            return sent[0]["status"], sent[1]["body"]

        status, body = client.portal.call(call)
        assert (status, b"too_slow" in body) == (408, True)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1:8080"}, 200),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Origin": "https://evil.example"}, 401),
        ({"Origin": "null"}, 401),
        ({"Host": "evil.example:8080"}, 401),
        ({"Host": "127.0.0.1.evil.example"}, 401),
        ({"Host": "[::1"}, 401),
    ],
)
def test_a_page_of_another_site_has_no_say_in_a_service_without_keys(client, head, status):
    assert client.get("/v1/models", headers=head).status_code == status
