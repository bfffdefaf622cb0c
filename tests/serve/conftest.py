"""A service in this process, on a store of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.serve.postgres import database

from heavytail.ledger.opening import opened
from heavytail.serve import chores
from heavytail.serve.app import build
from heavytail.serve.service import Limits


@contextlib.contextmanager
def serving(
    where: str | os.PathLike[str],
    *,
    local: bool = True,
    limits: Limits | None = None,
    peer: str = "127.0.0.1",
) -> Iterator[TestClient]:
    app = build(opened(where), local=local, limits=limits)
    here = "http://127.0.0.1:8080"
    with TestClient(
        app, base_url=here, raise_server_exceptions=False, client=(peer, 50000)
    ) as client:
        yield client


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server."""
    with database() as one:
        yield one


@pytest.fixture
def address(server):
    """A database that is empty."""
    server.clear()
    return server.address


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    """A store, of each kind."""
    if request.param == "sqlite":
        return tmp_path / "store"
    return request.getfixturevalue("address")


@pytest.fixture
def client(where, monkeypatch):
    monkeypatch.setattr(chores, "GRACE", 0.0)  # nobody else writes here
    with serving(where) as one:
        yield one


@pytest.fixture
def shop(client):
    made = client.put("/v1/models/shop", json={"policy": "TwinUCB", "dim": 3})
    assert made.status_code == 201
    return client


@pytest.fixture
def pair(address, monkeypatch):
    """Two workers that look at what the other did when they are told to, or a request asks."""
    monkeypatch.setattr(chores, "LOOK", 3600.0)
    with serving(address) as one, serving(address) as other:
        assert one.put("/v1/models/shop", json={"dim": 3}).status_code == 201
        yield one, other


def look(client: TestClient) -> None:
    """Let a worker see what others did."""
    client.portal.call(client.app.state.service.live.look)
