"""The page for people: headers, one file, and what a real browser shows of it."""

from __future__ import annotations

import base64
import hashlib
import re

import httpx
import pytest
from tests.serve.browsing import looked, open_service
from tests.serve.test_service import ARMS, SHOP

from heavytail.ledger.sqlite import SQLiteStore
from heavytail.serve.keys import issue
from heavytail.serve.page import HEADERS, PAGE

pytestmark = pytest.mark.pages

HOSTILE = "<img src=x onerror='top.hacked=1'>"
LONG = "an-id-that-has-no-place-to-break-" * 6


def test_the_page_may_run_its_own_script_and_speak_to_its_own_service_alone(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = dict(
        rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; ")
    )
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["connect-src"] == "'self'"
    for tag in ("script", "style"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_is_one_file_that_names_no_other():
    text = PAGE.decode()
    for address in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert address.startswith(("data:", "#")), address
    for word in ("@import", "url(", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("):
        assert word not in text
    assert re.findall(r'https?://[^"\']*', text) == [
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
    ]
    assert re.findall(r' (on\w+|style)="', text) == []
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_the_page_is_for_all_who_read():
    text = PAGE.decode()
    for word in (
        '<html lang="en">', "<main ", "<header>", "<footer>", 'aria-live="polite"',
        ":focus-visible", "prefers-color-scheme: dark", "prefers-reduced-motion",
        '"caption"', "<noscript>",
    ):  # fmt: skip
        assert word in text


@pytest.fixture
def service(tmp_path):
    with open_service(tmp_path / "store") as address, httpx.Client(base_url=address) as client:
        client.put(SHOP, json={"policy": "TwinUCB", "dim": 3}).raise_for_status()
        for ids in ([HOSTILE, "b", 7], [LONG, "b", 7], None):
            asked = {"arms": ARMS, "ids": ids, "explore": 1.0}
            made = client.post(f"{SHOP}/decisions", json=[asked] * 60).raise_for_status().json()
            paid = [{"token": one["token"], "reward": i % 5} for i, one in enumerate(made)]
            client.post(f"{SHOP}/rewards", json=paid).raise_for_status()
        yield address


def test_a_browser_shows_the_page_at_any_width(service, tmp_path):
    for width in (1280, 400):
        found = looked(service, width, tmp_path)
        assert found["names"] == ["shop"]
        assert {HOSTILE, LONG, "b", "7", "place 0"} <= set(found["arms"])  # as text
        assert (found["images"], found["hacked"]) == (0, "undefined")
        assert found["wide"] <= found["window"] == width
        assert found["fetched"] == ["/v1/stats"]
        assert found["summary"].startswith("1 model")
        assert not found["door"]
        assert found["looks"] > 1
        assert found["dots"] > 5  # of the tail
        assert found["same"]  # mended in place: a reader's place is not lost


def test_a_browser_asks_for_the_key_where_one_is_needed(tmp_path):
    store = SQLiteStore(tmp_path / "store")
    (key,), _ = store.apply([lambda tx: issue(tx, "ops", ["read"], "test")])
    store.close()
    with open_service(tmp_path / "store", local=False) as address:
        found = looked(address, 400, tmp_path)
        wrong = looked(address, 400, tmp_path, "ht_wrong")
        right = looked(address, 400, tmp_path, key)
    assert (wrong["door"], wrong["summary"], wrong["held"]) == (True, "The key is not valid.", "")
    assert (right["door"], right["held"]) == (False, key)
    assert right["summary"].startswith("0 models")
    assert found["door"]
    assert found["summary"] == "The service needs a key."
    assert found["names"] == []
    assert found["wide"] <= found["window"] == 400


def test_a_browser_shows_a_model_that_cannot_be_opened(tmp_path):
    store = SQLiteStore(tmp_path / "store")
    store.apply([lambda tx: tx.create("shop", "no specification")])
    store.close()
    with open_service(tmp_path / "store") as address:
        found = looked(address, 400, tmp_path)
    assert found["names"] == ["shop"]
    assert "1 more cannot be opened" in found["summary"]
    assert found["wide"] <= found["window"] == 400
