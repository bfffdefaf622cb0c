"""Heads of requests that end neither in length, in number nor in time are cut off."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest
from tests.serve.listening import listening

from heavytail.serve import protocol

START = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with listening(tmp_path_factory.mktemp("store")) as (_, one):
        yield one


@contextlib.contextmanager
def connected(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20.0) as one:
        yield one


def answered(port, *parts, pause=0.0):
    """What is answered to parts of a request, until the connection is closed or quiet."""
    with connected(port) as one:
        with contextlib.suppress(OSError):
            for part in parts:
                one.sendall(part)
                time.sleep(pause)
        return read(one)


def read(one, wait=2.0):
    one.settimeout(wait)
    found = b""
    with contextlib.suppress(OSError):
        while piece := one.recv(65536):
            found += piece
            if found.endswith(b"}"):
                one.settimeout(0.3)
    return found


def status(answer):
    return int(answer.split(b" ")[1]) if answer else 0


def test_a_header_without_an_end_is_refused(port):
    many = (b"x" * 65536 for _ in range(64))
    answer = answered(port, START + b"X-Long: ", *many)
    assert status(answer) in (0, 431)  # the refusal may be lost with what was sent after it


def test_headers_that_are_too_long_are_refused_in_words(port):
    answer = answered(port, (START + b"X-Long: ").ljust(protocol.HEAD, b"x"))
    assert status(answer) == 431
    assert b"connection: close" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "long_head"


def test_many_headers_are_refused(port):
    answer = answered(port, START + b"a: b\r\n" * (protocol.HEADERS + 1) + b"\r\n")
    assert status(answer) == 431


def test_a_long_path_is_refused(port):
    assert status(answered(port, b"GET /".ljust(protocol.HEAD, b"x"))) == 431


def test_trailers_without_an_end_are_refused(port):
    start = b"PUT /v1/models/a HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = start + b"2\r\n{}\r\n0\r\nX-Long: ", b"x" * protocol.HEAD
    assert status(answered(port, *parts, pause=0.3)) == 431


def test_what_is_short_enough_is_served_many_times_on_one_connection(port):
    long = START + b"X-Long: " + b"x" * (protocol.HEAD // 2) + b"\r\n\r\n"
    with connected(port) as one:
        for _ in range(5):
            one.sendall(long)
            assert status(read(one, 5.0)) == 200


def test_a_body_may_be_long(port):
    body = b'{"dim": 3}' + b" " * 10 * protocol.HEAD
    head = f"PUT /v1/models/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    assert status(answered(port, head.encode() + body)) == 201


def test_no_http_is_refused_in_words(port):
    answer = answered(port, b"nonsense\r\n\r\n")
    assert status(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_http"


@pytest.mark.parametrize("start", [b"", START, START + b"\r\n" + START])
def test_a_head_that_does_not_come_is_not_waited_for(port, monkeypatch, start):
    monkeypatch.setattr(protocol, "PATIENCE", 0.2)
    with connected(port) as one:
        one.sendall(start)
        if b"\r\n\r\n" in start:  # the next one trickles
            one.settimeout(5.0)
            assert status(one.recv(65536)) == 200
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10.0:
                if start:
                    one.sendall(b"x")
                one.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not one.recv(65536):
                        break
        assert time.monotonic() - began < 9.0


def test_a_request_that_takes_long_is_not_cut_off(port, monkeypatch):
    monkeypatch.setattr(protocol, "PATIENCE", 0.1)
    with connected(port) as one:
        one.sendall(b"PUT /v1/models/b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n")
        time.sleep(0.4)
        one.sendall(b'{"dim": 3}')
        assert status(read(one)) == 201
