"""A service in this process, on a store of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from heavytail.serve.app import build
from heavytail.serve.service import Limits
from heavytail.serve.sqlite import SQLiteStore


@contextlib.contextmanager
def serving(folder, *, local: bool = True, limits: Limits | None = None) -> Iterator[TestClient]:
    app = build(SQLiteStore(folder), local=local, limits=limits)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path / "store") as one:
        yield one


@pytest.fixture
def shop(client):
    made = client.put("/v1/models/shop", json={"policy": "TwinUCB", "dim": 3})
    assert made.status_code == 201
    return client
