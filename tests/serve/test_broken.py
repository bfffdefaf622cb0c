"""What a hostile caller, a lost connection or a wrong address must not do."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP

from heavytail.serve import ready
from heavytail.serve.opening import opened
from heavytail.serve.store import StoreError
from heavytail.serve.wire import ModelSpec

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
