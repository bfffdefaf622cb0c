"""Who gets in: revoked keys, proxies, files that others could read, a probe for anybody."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import stat

import httpx
import pytest
from tests.serve.conftest import serving
from tests.serve.listening import listening
from tests.serve.test_service import SHOP

from heavytail.commands.serve import add_arguments, run
from heavytail.ledger.opening import opened
from heavytail.ledger.store import StoreError
from heavytail.serve import ready
from heavytail.serve.service import Limits
from heavytail.serve.wire import ModelSpec


def command(where, *options):
    """``heavytail serve`` on a store."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(["--store", str(where), *options]))


def issued(client, name="ops"):
    """The header of a new key."""
    made = client.post("/v1/keys", json={"name": name, "scopes": ["admin"]})
    return {"Authorization": f"Bearer {made.json()['key']}"}


def test_a_service_whose_last_key_is_revoked_stays_closed(where):
    with serving(where) as client:
        head = issued(client)
        assert client.delete("/v1/keys/ops", headers=head).status_code == 204
        answer = client.get("/v1/models")
        assert (answer.status_code, answer.json()["code"]) == (401, "no_key")
        assert "--open" in answer.json()["message"]
        assert client.get("/v1/models", headers=head).status_code == 401
    with serving(where) as client:  # a restart opens nothing
        assert client.get("/v1/models").status_code == 401


def test_another_worker_stays_closed_too(address):
    with serving(address) as one, serving(address) as other:
        head = issued(one)
        other.app.state.service.keys.changed()
        assert other.get("/v1/models").status_code == 401
        assert one.delete("/v1/keys/ops", headers=head).status_code == 204
        other.app.state.service.keys.changed()
        assert other.get("/v1/models").status_code == 401


def test_a_store_is_opened_again_on_its_own_machine_until_the_next_key(where):
    with serving(where) as client:
        head = issued(client)
    with pytest.raises(ValueError, match="Revoke"):
        command(where, "--open")
    with serving(where) as client:
        client.delete("/v1/keys/ops", headers=head)
    assert command(where, "--open") == 0
    with serving(where) as client:
        assert client.get("/v1/models").status_code == 200
        issued(client, "next")
        assert client.get("/v1/models").status_code == 401


def test_no_store_is_made_to_be_opened(tmp_path):
    with pytest.raises(ValueError, match="no store"):
        command(tmp_path / "store", "--open")
    assert not (tmp_path / "store").exists()


FROM = {"X-Forwarded-For": "203.0.113.7"}


def seen(port, **head):
    return httpx.get(f"http://127.0.0.1:{port}/v1/models", headers=head, trust_env=False)


def test_an_address_that_a_client_claims_to_have_is_not_believed(tmp_path):
    with listening(tmp_path / "store", limits=Limits(rate=1.0)) as (_, port):
        told = [seen(port, **{"X-Forwarded-For": f"203.0.113.{k}"}).status_code for k in range(4)]
        assert told[-1] == 429  # one caller, whatever it says
    assert 200 not in told  # it came through a proxy, so that nobody knows from where


def test_the_address_that_a_named_proxy_states_is_the_callers(tmp_path):
    limits = Limits(rate=1.0)
    with listening(tmp_path / "store", "--proxy", "127.0.0.1", limits=limits) as (_, port):
        told = [seen(port, **{"X-Forwarded-For": f"203.0.113.{k}"}) for k in range(4)]
        assert [one.json()["code"] for one in told] == ["no_key"] * 4
        assert seen(port).status_code == 200


def test_a_call_that_was_forwarded_is_not_of_this_machine(client):
    assert client.get("/v1/models").status_code == 200
    for head in (FROM, {"Forwarded": "for=203.0.113.7"}, {"X-Forwarded-For": "127.0.0.1"}):
        assert client.get("/v1/models", headers=head).status_code == 401


def test_a_caller_elsewhere_is_not_of_this_machine_whatever_host_it_names(tmp_path):
    with serving(tmp_path / "store", peer="203.0.113.7") as client:
        assert client.get("/v1/models").status_code == 401


@pytest.mark.parametrize("told", ["proxy.example", "", "127.0.0.1,nonsense", "*"])
def test_a_proxy_is_named_by_its_address(tmp_path, told):
    with pytest.raises(ValueError, match="--proxy"):
        command(tmp_path / "store", "--proxy", told)
    assert not (tmp_path / "store").exists()


def test_whether_it_is_ready_is_found_out_once_a_second_and_written_nowhere(tmp_path, monkeypatch):
    with serving(tmp_path / "store") as client:
        store, probes = client.app.state.service.store, []
        probe = store.probe
        monkeypatch.setattr(store, "probe", lambda: (probes.append(1), probe())[1])
        commits = store._commits
        assert {client.get("/readyz").status_code for _ in range(20)} == {200}
        assert (len(probes), store._commits) == (1, commits)
        assert sorted(os.listdir(tmp_path / "store"))[0] == "commits"  # no other file is left


def test_a_store_without_room_is_not_ready(tmp_path, monkeypatch):
    monkeypatch.setattr(ready, "AGE", 0.0)
    with serving(tmp_path / "store") as client:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            assert client.get("/readyz").status_code == 503
            assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200


def test_who_asks_whether_it_is_ready_spoils_no_commit(client):
    service = client.app.state.service

    def fails():
        raise StoreError("full")

    service.store.probe = fails

    async def both():
        spec = ModelSpec(dim=3)
        asked = service.ready.check(), service.create("shop", spec, "me")
        return await asyncio.gather(*asked, return_exceptions=True)

    failure, made = client.portal.call(both)
    assert isinstance(failure, StoreError)
    assert made[0] is True


def full(handle, data):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_store_that_cannot_be_written_to_is_not_ready(address, monkeypatch):
    monkeypatch.setattr(ready, "AGE", 0.0)
    with serving(address) as client:
        store = client.app.state.service.store
        store.rows("SELECT set_config('default_transaction_read_only', 'on', false)")
        assert client.get("/readyz").status_code == 503
        store.rows("SELECT set_config('default_transaction_read_only', 'off', false)")
        assert client.get("/readyz").status_code == 200


def modes(folder):
    return {name: stat.S_IMODE(os.stat(folder / name).st_mode) for name in os.listdir(folder)}


@pytest.mark.skipif(os.name != "posix", reason="rights are POSIX's")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_may_read_what_a_store_writes(tmp_path, umask):
    (tmp_path / "given").mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        for folder in (tmp_path / "given", tmp_path / "made"):
            store = opened(folder)
            store.apply([lambda tx: tx.create("a", "{}")])
            found = modes(folder)
            store.close()
            assert {"heavytail.db", "heavytail.db-wal", "heavytail.db-shm"} <= set(found)
            assert set(found.values()) == {0o600}
        assert stat.S_IMODE(os.stat(tmp_path / "made").st_mode) == 0o700
    finally:
        os.umask(before)


def test_a_slash_too_many_leads_nowhere(client):
    answer = client.get("/v1/models/", headers={"Host": "evil.example"}, follow_redirects=False)
    assert (answer.status_code, "location" in answer.headers) == (404, False)
    assert client.put(SHOP + "/", json={"dim": 3}, follow_redirects=False).status_code == 404
