"""Bodies that say a thing twice, and bodies that are not finished when the service stops."""

from __future__ import annotations

import json
import socket
import time

import msgspec
import numpy as np
import pytest
from tests.serve.listening import listening
from tests.serve.test_service import ARMS, SHOP, decide

from heavytail.serve import fast

VECTORS = json.dumps({"arms": ARMS})[:-1]
LONG = json.dumps({"arms": np.eye(3)[np.arange(300) % 3].tolist()})[:-1]  # is read quickly


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/decisions", VECTORS + ', "arms": [[1, 0, 0]]}'),
        ("/decisions", "[" + VECTORS + ', "explore": 0.1, "explore": 0.2}]'),
        ("/decisions", LONG + ', "arms": [[1, 0, 0]]}'),
        ("/decisions", LONG + ', "explore": 0.1, "explore": 0.2}'),
        ("/decisions", VECTORS + ', "ids": ["a:", "b:", "c:"], "\\u0069ds": ["d", "e", "f"]}'),
        ("/predict", LONG + ', "level": 0.9, "level": 0.5}'),
        ("/explain", VECTORS + ', "arms": [[1, 0, 0]]}'),
        ("/rewards", '{"token": "TOKEN", "reward": 1, "reward": 2}'),
        ("/rewards", '[{"token": "TOKEN", "reward": 1, "reward": 2}]'),
        ("/restore", '{"snapshot": 1, "snapshot": 2}'),
        ("/fork", '{"name": "b", "options": {"ridge": 1.0, "ridge": 2.0}}'),
    ],
)
def test_a_body_that_says_a_thing_twice_is_refused(shop, path, body):
    token = decide(shop)["token"]
    answer = shop.post(SHOP + path, content=body.replace("TOKEN", token))
    assert (answer.status_code, answer.json()["code"]) == (400, "twice")
    assert shop.get(SHOP).json()["rounds"] == 0


def test_names_that_are_said_twice_are_refused_by_a_model_with_an_encoder(client):
    schema = {"policy": "TwinUCB", "encoder": {"numbers": []}}
    bad = json.dumps(schema)[:-1] + ', "encoder": {}}'
    assert client.put(SHOP, content=bad).json()["code"] == "twice"
    nested = '{"policy": "TwinUCB", "encoder": {"a": 1, "b": {"c": 1, "c": 2}}}'
    assert client.put(SHOP, content=nested).json()["code"] == "twice"


@pytest.mark.parametrize(
    "body",
    [
        VECTORS + ', "ids": ["a:", ":", "\\"x\\": 1"]}',
        VECTORS + ', "ids": ["arms", "explore", "ids"], "explore": 0.0}',
        "[" + VECTORS + "}, " + VECTORS + "}]",
        LONG + "}",
    ],
)
def test_a_body_that_says_each_thing_once_is_not(shop, body):
    assert shop.post(f"{SHOP}/decisions", content=body).status_code == 201


@pytest.mark.parametrize("path", ["predict", "explain"])
def test_long_bodies_are_read_quickly_whatever_is_asked(shop, path, monkeypatch):
    body = LONG + ', "level": 0.9, "ids": ' + json.dumps([str(k) for k in range(300)]) + "}"
    quick = shop.post(f"{SHOP}/{path}", content=body)
    monkeypatch.setattr(fast, "SHORT", 10**9)
    careful = shop.post(f"{SHOP}/{path}", content=body)
    assert quick.status_code == careful.status_code == 200
    assert quick.json() == careful.json()


def test_a_body_that_is_unfinished_when_the_service_stops_is_answered_in_words(tmp_path):
    with listening(tmp_path / "store") as (server, port):
        server.config.timeout_graceful_shutdown = 1
        with socket.create_connection(("127.0.0.1", port), timeout=20.0) as one:
            head = "PUT /v1/models/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n"
            one.sendall(head.encode() + b'{"dim"')
            time.sleep(0.2)
            server.should_exit = True
            answer = b""
            while piece := one.recv(65536):
                answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"connection: close" in head
    assert json.loads(body)["code"] == "stopping"


EXTENSION = msgspec.msgpack.Ext(5, b"")
PACKED = {"content-type": "application/msgpack", "accept": "application/msgpack"}


def packed(client, method, path, body):
    answer = client.request(method, path, content=msgspec.msgpack.encode(body), headers=PACKED)
    assert answer.headers["content-type"] == "application/msgpack"
    return answer.status_code, msgspec.msgpack.decode(answer.content)


def test_bodies_and_answers_may_be_messagepack(client):
    assert packed(client, "PUT", SHOP, {"dim": 3, "explore": 0.1})[0] == 201
    status, made = packed(client, "POST", f"{SHOP}/decisions", {"arms": ARMS, "ids": ["a", "b", 3]})
    assert (status, made["id"]) == (201, ["a", "b", 3][made["arm"]])
    sent = {"token": made["token"], "reward": 0.1 + 0.2}
    assert packed(client, "POST", f"{SHOP}/rewards", sent) == (202, {"accepted": 1})
    rows = client.app.state.service.store.outcomes(1, 0, 10)
    assert [row.reward for row in rows] == [0.1 + 0.2]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xc1", "bad_msgpack"),
        (b"\x91" * 5000, "bad_msgpack"),
        (msgspec.msgpack.encode({"token": "x", "reward": float("nan")}), "bad_body"),
        (msgspec.msgpack.encode({"token": "x", "reward": float("inf")}), "bad_body"),
        (msgspec.msgpack.encode({"token": b"x" * 9, "reward": 1.0}), "unknown_token"),
        (msgspec.msgpack.encode({"token": "x", "reward": EXTENSION}), "bad_msgpack"),
        (msgspec.msgpack.encode({"token": "x", 7: 1.0}), "bad_body"),
        (b"", "bad_msgpack"),
    ],
)  # fmt: skip
def test_messagepack_that_says_nothing_is_refused(shop, content, code):
    answer = shop.post(f"{SHOP}/rewards", content=content, headers=PACKED)
    assert msgspec.msgpack.decode(answer.content)["code"] == code
    assert 400 <= answer.status_code < 500
