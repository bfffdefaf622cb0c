"""The page for people: headers, one file, and what a real browser shows of it."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from functools import partial

import httpx
import pytest
from tests.serve.browsing import looked, open_service
from tests.serve.test_service import SHOP

import heavytail as ht
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.serve.counts import Counts
from heavytail.serve.keys import issue
from heavytail.serve.page import HEADERS, PAGE
from heavytail.serve.service import Service
from heavytail.serve.wire import Progress, WindowStats

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


ENCODER = ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)}).schema()
LAND = "<b>land</b>"


def visits(client, path, ids, count=60, **more):
    """Decisions that explore, with a reward for most."""
    contexts = [{"age": 20.0 + i % 50, LAND: f"<i>{i % 2}</i>"} for i in range(count)]
    arms = {"arms": [{"price": 5.0 + i} for i in range(3)]}
    asked = [{**arms, "context": context, "ids": ids, "explore": 1.0} for context in contexts]
    made = client.post(f"{path}/decisions", json=asked).raise_for_status().json()
    paid = [{"token": each["token"], "reward": i % 5} for i, each in enumerate(made) if i % 10]
    client.post(f"{path}/rewards", json=paid).raise_for_status()


@pytest.fixture
def service(tmp_path, monkeypatch):
    with open_service(tmp_path / "store") as address:
        with httpx.Client(base_url=address, timeout=60.0) as client:
            client.put(SHOP, json={"encoder": ENCODER}).raise_for_status()
            with monkeypatch.context() as yesterday:
                yesterday.setattr(SQLiteStore, "clock", lambda self: time.time() - 86400.0)
                visits(client, SHOP, [HOSTILE, "b", 7])
            visits(client, SHOP, [LONG, "b", 7], 120)
            visits(client, SHOP, None)
        yield address


OPEN = "page.querySelectorAll('details').forEach(each => { each.open = true; });"


def test_a_browser_shows_what_a_model_earned(service, tmp_path):
    for width in (1600, 360):
        found = looked(service, width, tmp_path)
        assert found["names"] == ["shop"]
        assert {HOSTILE, LONG, "b", "7", "0"} <= set(found["arms"])  # as text
        assert {"Shown to explore"} <= set(found["arms"])
        assert (found["images"], found["hacked"]) == (0, "undefined")
        assert found["wide"] <= found["window"] == width
        assert found["summary"].startswith("1 model, nothing to do")
        assert "240 decisions, 216 rewards: 480 in all" in found["words"]
        assert len(found["bars"]) == 2  # yesterday and today
        assert found["bars"][1] == pytest.approx(3.0 * found["bars"][0], rel=0.01)
        assert found["means"] >= 7
        assert not found["odd"]
        assert found["picked"] == ["uniform", ""]
        assert f"always showing {HOSTILE}" in found["choices"]
        assert found["choices"][-2:] == [LAND, "age"]
        assert "a uniform draw" in found["words"]
        assert "Waiting for a reward" in found["words"]
        assert "Tail index" not in found["words"]  # folded away
        assert found["dots"] == 0
        assert found["buttons"] == ["Pause"]
        assert not found["door"]
        assert found["same"]  # mended in place: a reader's place is not lost
        once = f"{SHOP}/earned?against=uniform"
        assert found["fetched"] == ["/v1/stats", "/v1/models", once]
        assert found["looks"] > len(found["fetched"])


def test_a_person_picks_a_rule_and_a_segment(service, tmp_path):
    picks = """
    for (const [field, value] of [["against", "always:b"], ["by", BY]]) {
      const select = page.querySelector(`select[data-field=${field}]`);
      if (!select || done.has(field)) continue;
      done.add(field);
      select.focus();
      select.value = value;
      select.dispatchEvent(new Event("change", { bubbles: true }));
    }""".replace("BY", repr(LAND))
    found = looked(service, 1280, tmp_path, act=picks)
    assert found["picked"] == ["always:b", LAND]
    assert "always 'b'" in found["words"]
    assert {"<i>0</i>", "<i>1</i>"} <= set(found["arms"])
    assert found["fetched"][-1].startswith(f"{SHOP}/earned?by=%3Cb%3E")
    assert len(found["fetched"]) <= 5


def test_what_is_for_engineers_is_folded_away(service, tmp_path):
    found = looked(service, 360, tmp_path, act=OPEN)
    assert "Tail index" in found["words"]
    assert found["dots"] > 5  # of the tail
    assert found["lines"] == 0  # no full minute has passed
    assert found["wide"] <= found["window"] == 360
    assert not re.search(r"\de[+-]?\d", found["words"])


def test_means_that_count_nothing_yet_are_not_drawn(tmp_path):
    with open_service(tmp_path / "store") as address:
        with httpx.Client(base_url=address, timeout=60.0) as client:
            client.put(SHOP, json={"encoder": ENCODER, "wait": 3600.0}).raise_for_status()
            visits(client, SHOP, ["a", "b", 7])
        found = looked(address, 1280, tmp_path)
    assert "not yet" in found["words"]
    assert "once all before it have their reward or have expired" in found["words"]
    assert found["means"] == 0
    assert not found["odd"]


def test_one_minute_does_not_set_the_scale_of_a_chart(service, tmp_path, monkeypatch):
    means = [2.0 + 0.01 * (i % 9) for i in range(120)]
    means[:8], means[60] = [1e6] * 8, 1e7
    windows = [WindowStats(590.0 - 5.0 * i, 9, 9, mean, 0.1) for i, mean in enumerate(means)]
    late = [WindowStats(300.0 - 5.0 * i, 9, 9, 1e6 if i < 11 else 2.0, 0.1) for i in range(60)]
    for each, labels in ((windows, {"2.05"}), (late, {"2"})):
        monkeypatch.setattr(Counts, "listed", lambda self, now, each=each: each)
        found = looked(service, 1280, tmp_path, act=OPEN)
        assert found["lines"] == 1
        assert labels <= set(found["labels"])
        assert not any("000,000" in label for label in found["labels"])


PAUSE = """
const press = (at, what) => {
  const button = [...page.querySelectorAll(at)].find(each => each.textContent === what);
  if (button && !done.has(what)) { done.add(what); button.click(); }
};
if (LAST !== "ask" && page.getElementById("sure").open) press("dialog button", "Pause");
else if (!done.has("asked")) {
  done.add("asked");
  press("main button", "Pause");
  done.delete("Pause");
}
if (LAST === "resume") press("main button", "Resume");
"""


@pytest.mark.parametrize("last", ["ask", "pause", "resume"])
def test_a_model_is_paused_after_a_question_and_resumed(service, tmp_path, last):
    found = looked(service, 1280, tmp_path, act=PAUSE.replace("LAST", repr(last)))
    assert bool(found["asking"]) == (last == "ask")
    if last == "ask":
        assert found["asking"].startswith("Pause shop?")
        assert "needs a key with the scope admin" in found["asking"]
    assert found["buttons"] == ["Resume" if last == "pause" else "Pause"]
    assert ("Press Resume" in found["words"]) == (last == "pause")
    paused = httpx.get(f"{service}{SHOP}").json()["paused"]
    assert paused == (last == "pause")


def test_a_key_that_may_only_read_pauses_nothing(tmp_path):
    store = SQLiteStore(tmp_path / "store")
    keys, _ = store.apply(
        [partial(issue, name=name, scopes=[name], who="test") for name in ("read", "admin")]
    )
    store.close()
    with open_service(tmp_path / "store", local=False) as address:
        held = {"Authorization": f"Bearer {keys[1]}"}
        httpx.put(f"{address}{SHOP}", json={"dim": 3}, headers=held).raise_for_status()
        act = PAUSE.replace("LAST", "'pause'")
        found = looked(address, 400, tmp_path, keys[0], act)
        assert "Your key may only read." in found["words"]
        assert found["buttons"] == ["Sign in"]
        assert not httpx.get(f"{address}{SHOP}", headers=held).json()["paused"]


def test_a_split_and_what_is_left_to_learn_are_shown(service, tmp_path, monkeypatch):
    with httpx.Client(base_url=service, timeout=60.0) as client:
        client.post(f"{SHOP}/fork", json={"name": "b"}).raise_for_status()
        client.post(f"{SHOP}/fork", json={"name": "s", "shadow": True}).raise_for_status()
        half = {"models": {"shop": 0.5, "b": 0.5}}
        client.put(f"{SHOP}/split", json=half).raise_for_status()
    monkeypatch.setattr(Service, "_progress", lambda self, model: Progress("shop", 30, 120))
    found = looked(service, 360, tmp_path)
    assert found["names"] == ["b", "s", "shop"]
    assert {"shop, to get 50 %", "b, to get 50 %"} <= set(found["arms"])
    assert "b against shop: not decided yet, too few rewards have come." in found["words"]
    assert "A shadow of shop" in found["words"]
    assert found["progress"] == [0.25] * 3
    assert "Learning from the log of shop: 30 of 120 rewards" in found["words"]
    assert f"{SHOP}/split" in found["fetched"]
    assert "/v1/models/b/split" not in found["fetched"]
    assert "/v1/models/s/earned?against=uniform" not in found["fetched"]
    assert found["wide"] <= found["window"] == 360


def test_of_many_models_only_those_on_the_screen_are_asked_for(tmp_path):
    with open_service(tmp_path / "store") as address:
        for i in range(50):
            httpx.put(f"{address}/v1/models/m{i:02d}", json={"dim": 1}).raise_for_status()
        found = looked(address, 360, tmp_path)
        opened = looked(address, 360, tmp_path, act=OPEN)
    assert len(found["names"]) == 50
    earned = [path for path in found["fetched"] if "/earned" in path]
    assert earned == ["/v1/models/m00/earned?against=uniform"]
    assert 1 < sum("/earned" in path for path in opened["fetched"]) < 10
    assert opened["wide"] <= opened["window"] == 360


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
