"""What a hostile caller, a lost connection or a wrong address must not do."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP

from heavytail.ledger.opening import opened
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.serve import ready
from heavytail.serve.forking import fork
from heavytail.serve.service import Limits
from heavytail.serve.wire import Fork, ModelSpec

LONG = "1" + "0" * 400  # an integer beyond a double


def test_a_spec_that_cannot_be_is_refused_though_another_worker_has_just_deleted_its_name(address):
    with serving(address) as one, serving(address) as other:
        assert one.put(SHOP, json={"dim": 3}).status_code == 201
        assert other.get("/v1/models").status_code == 200
        assert one.delete(SHOP).status_code == 204
        assert other.put(SHOP, json={"dim": 3, "policy": "Nope"}).status_code == 422
        assert one.get("/v1/models").json() == []
    with serving(address) as again:
        assert again.get("/readyz").status_code == 200


def test_a_spec_that_cannot_be_is_refused_while_its_name_is_deleted(shop):
    service = shop.app.state.service

    async def both():
        bad = ModelSpec(policy="Nope", dim=3)
        return await asyncio.gather(
            service.delete("shop", "me"), service.create("shop", bad, "me"), return_exceptions=True
        )

    shop.portal.call(both)
    assert shop.put(SHOP, json={"dim": 3}).status_code == 201


def test_a_session_that_is_refused_while_it_begins_does_not_end_the_worker(address, monkeypatch):
    monkeypatch.setattr(ready, "AGE", 0.0)
    with serving(address) as client, psycopg.connect(address, autocommit=True) as admin:
        admin.execute("ALTER TABLE heavytail.meta RENAME COLUMN value TO other")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name LIKE 'heavytail%'"
        )
        for _ in range(2):
            assert client.get("/readyz").status_code == 503
        admin.execute("ALTER TABLE heavytail.meta RENAME COLUMN other TO value")
        assert client.get("/readyz").status_code == 200


def test_foreign_tables_are_a_failure_in_words(address):
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA heavytail")
        admin.execute("CREATE TABLE heavytail.model (x INTEGER)")
    with pytest.raises(StoreError):
        opened(address)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("predict", f'{{"arms": [[{LONG}, 0, 0]]}}'),
        ("explain", f'{{"arms": [[{LONG}, 0, 0]]}}'),
        ("decisions", '{"arms": [[0, 0, 0]], "ids": [18446744073709551616]}'),
        ("decisions", f'{{"arms": [[0, 0, 0]], "ids": [{LONG}]}}'),
        ("fork", '{"name": "b\\n"}'),
    ],
)
def test_what_cannot_be_kept_is_refused(shop, path, body):
    assert shop.post(f"{SHOP}/{path}", content=body).status_code == 422


def test_a_number_of_a_snapshot_may_have_any_length(shop):
    assert shop.get(f"{SHOP}/snapshots/{'9' * 5000}").status_code == 404


def test_a_key_of_an_impossible_name_is_not_there(shop):
    assert shop.delete("/v1/keys/%00").status_code == 404


@pytest.mark.parametrize("name", ["%00", "a%00b", "%ff", "%ed%a0%80", "a%0A", "-a", "x" * 65])
def test_a_model_of_an_impossible_name_is_not_there(shop, name, caplog):
    path = f"/v1/models/{name}"
    for verb, body in {"GET": None, "DELETE": None, "PATCH": {"paused": True}}.items():
        answer = shop.request(verb, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "no_model"), verb
    assert shop.put(path, json={"dim": 3}).json()["code"] == "bad_name"
    for verb in ("log", "snapshots", "snapshots/1"):
        assert shop.get(f"{path}/{verb}").json()["code"] == "no_model"
    bodies = {"decisions": {"arms": ARMS}, "restore": {"snapshot": 1}, "fork": {"name": "b"}}
    for verb, body in bodies.items():
        assert shop.post(f"{path}/{verb}", json=body).json()["code"] == "no_model"
    assert shop.delete(f"/v1/keys/{name}").status_code == 404
    assert caplog.records == []


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_there_are_never_more_models_than_the_limit_whoever_makes_them_at_once(where, verb):
    with serving(where, limits=Limits(models=5)) as client:
        assert client.put(SHOP, json={"dim": 3}).status_code == 201
        service = client.app.state.service

        async def both():
            works = (
                service.create(f"m{i}", ModelSpec(dim=3), "me")
                if verb == "create"
                else fork(service, "shop", Fork(f"m{i}"), "me")
                for i in range(12)
            )
            return await asyncio.gather(*works, return_exceptions=True)

        found = client.portal.call(both)
        refused = [one for one in found if isinstance(one, Refusal)]
        assert {one.code for one in refused} == {"too_many_models"}
        assert (len(refused), len(client.get("/v1/models").json())) == (8, 5)
        answer = client.put(SHOP, json={"dim": 3})  # one that is there is no new one
        assert answer.status_code == 200
        assert client.delete(SHOP).status_code == 204
        assert client.put(SHOP, json={"dim": 3}).status_code == 201


def test_workers_share_the_limit_of_models(address):
    with serving(address, limits=Limits(models=3)) as one:
        with serving(address, limits=Limits(models=3)) as other:
            codes = [
                client.put(f"/v1/models/{name}{i}", json={"dim": 3}).status_code
                for i in range(3)
                for name, client in (("a", one), ("b", other))
            ]
        assert codes == [201, 201, 201, 409, 409, 409]


def test_an_idempotency_key_is_that_of_the_whole_batch(shop):
    head, one = {"Idempotency-Key": "k"}, {"arms": ARMS}
    assert shop.post(f"{SHOP}/decisions", json=[one, one], headers=head).status_code == 201
    assert shop.post(f"{SHOP}/decisions", json=[one], headers=head).status_code == 409


@pytest.mark.parametrize("kind", ["Postgresql", "postgresql+psycopg", "mysql"])
def test_an_address_that_is_misspelt_is_no_folder(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError):
        opened(f"{kind}://user:secret@127.0.0.1:1/db").close()
    assert list(tmp_path.iterdir()) == []


def test_no_part_of_a_password_is_in_an_error():
    with pytest.raises(StoreError) as found:
        opened("postgresql://user:se%zzcret@127.0.0.1:1/db")
    assert "cret" not in str(found.value)


@pytest.mark.parametrize("password", ["p%40ss", "a%40b%40c%2Fd", "it%27s%20%5C%22%3F"])
def test_a_password_may_have_any_signs(address, password):
    told = address.replace("postgres@", f"postgres:{password}@")
    assert told != address
    with serving(told) as client:
        assert client.put(SHOP, json={"dim": 3}).status_code == 201
        assert client.get(f"{SHOP}/log").status_code == 200
