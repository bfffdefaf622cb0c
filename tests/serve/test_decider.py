"""A Decider behind the service: begun with its file, durable, and its log leads to its state."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest
from tests.serve.conftest import look, serving
from tests.serve.killing import free_port

import heavytail as ht
from heavytail.answers import RemoteChoice
from heavytail.client import Refused
from heavytail.ledger.layout import FILE
from heavytail.ledger.opening import opened
from heavytail.ledger.refusal import Refusal
from heavytail.serve import chores, wire
from heavytail.serve.decider_model import adopt, spec_of
from heavytail.serve.stats import stats

OFFERS = [
    {"sku": "card", "price": 19.0},
    {"sku": "loan", "price": 49.0},
    {"sku": "none", "price": 0.0},
]
SHOP = "/v1/models/shop"
OF_PYTHON = re.compile(r"Decider\.|float\(|\bNone\b|\bTrue\b|column|dict")


def decider(**more):
    return ht.Decider(OFFERS, ids="sku", context=["segment", "basket"], explore=0.3, **more)


def visit(i):
    basket = None if i % 7 == 0 else 20.0 + i % 31
    return {"segment": "new" if i % 3 else "old", "basket": basket, "page": f"p{i}"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.ht"
    decider().save(path)
    return path


def begin(where, path, name="shop"):
    """Begin a model in a store, as the command does."""
    content = path.read_bytes()
    store = opened(where)
    try:
        spec = spec_of(ht.load(path), content, str(path))
        more = {"most": 10, "note": f"the file {path.name}", "who": "test"}
        (refusal,), _ = store.apply([partial(adopt, name=name, content=content, spec=spec, **more)])
    finally:
        store.close()
    if isinstance(refusal, Refusal):
        raise refusal


@pytest.fixture
def client(where, file, monkeypatch):
    monkeypatch.setattr(chores, "GRACE", 0.0)
    begin(where, file)
    with serving(where) as client:
        yield client


def play(client, count, start=0, seed=0):
    """Decide so often, reward three of four in another order; return the accepted rewards."""
    rng = np.random.default_rng(seed)
    waiting, paid = [], []
    for i in range(start, start + count):
        made = client.post(f"{SHOP}/decisions", json={"context": visit(i)})
        assert made.status_code == 201, made.text
        waiting.append(made.json()["token"])
        if i % 4:
            token = waiting.pop(int(rng.integers(len(waiting))))
            paid.append((token, float(rng.pareto(1.5)) * (rng.random() < 0.4)))
            body = {"token": token, "reward": paid[-1][1]}
            assert client.post(f"{SHOP}/rewards", json=body).status_code == 202
    return paid


def log_of(client, path):
    path.write_bytes(client.get(f"{SHOP}/log").content)
    return pl.read_parquet(path)


def observed(file, frame, paid):
    """The Decider of the file after it observed the log's rewards in the order of acceptance."""
    rows = {row["token"]: row for row in frame.to_dicts()}
    twin = ht.load(file)
    for token, reward in paid:
        row = rows[token]
        assert row["reward"] == reward
        twin.observe(
            json.loads(row["context_json"]), row["ids"][row["action"]], reward,
            probability=row["propensity"], time=row["time"], selected=True,
        )  # fmt: skip
    return twin


def state_of(client, path, name="shop"):
    """The present state, from a new snapshot, as a file."""
    shop = f"/v1/models/{name}"
    number = client.post(f"{shop}/snapshots").json()["snapshot"]
    path.write_bytes(client.get(f"{shop}/snapshots/{number}").content)
    return ht.load(path)


def assert_same(one, two):
    mine, theirs = one.saved_arrays(), two.saved_arrays()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert array.tobytes() == theirs[name].tobytes(), name


def start(file, port, *options):
    command = [sys.executable, "-m", "heavytail", "serve", "--model", str(file)]
    with open(f"{file}.said", "a") as said:
        process = subprocess.Popen([*command, "--port", str(port), *options], stderr=said)
    for _ in range(2400):
        if process.poll() is not None:
            raise RuntimeError(Path(f"{file}.said").read_text())
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return process
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError("the service does not answer")


def test_a_killed_service_goes_on_from_its_store_with_the_same_bits(file, tmp_path):
    port = free_port()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        process = start(file, port)
        try:
            paid = play(client, 60)  # the shape is learned at 32 rewards
            waits = client.post(f"{SHOP}/decisions", json={"context": visit(1)}).json()["token"]
            before = client.get(SHOP).json()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30.0)
        assert f"model shop, store {file}.store" in Path(f"{file}.said").read_text()
        process = start(file, port)
        try:
            after = client.get(SHOP).json()
            kept = ("rounds", "decisions", "pending", "version", "offers", "spec")
            assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
            reward = {"token": waits, "reward": 2.5}
            assert client.post(f"{SHOP}/rewards", json=reward).status_code == 202
            assert client.post(f"{SHOP}/rewards", json=reward).json() == {"accepted": 0}
            paid.append((waits, 2.5))
            frame = log_of(client, tmp_path / "log.parquet")
            assert_same(state_of(client, tmp_path / "now.ht"), observed(file, frame, paid))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30.0)
    assert os.path.isdir(f"{file}.store")


def test_the_state_is_that_of_the_file_which_observed_the_log(client, file, tmp_path):
    paid = play(client, 100)
    assert client.get(f"{SHOP}/snapshots/1").content == file.read_bytes()
    frame = log_of(client, tmp_path / "log.parquet")
    assert len(frame) == len(paid)
    state = state_of(client, tmp_path / "now.ht")
    assert state.rounds == len(paid)
    assert_same(state, observed(file, frame, paid))


def test_a_decision_has_what_an_application_needs_and_changes_no_state(client, tmp_path):
    play(client, 60)
    before = state_of(client, tmp_path / "before.ht")
    body = {"context": visit(1), "only": ["loan", "none"], "explore": 0.5}
    made = [client.post(f"{SHOP}/decisions", json=body).json() for _ in range(200)]
    assert {one["id"] for one in made} == {"loan", "none"}
    assert {one["probability"] for one in made} == {0.25, 0.75}
    assert 20 < sum(one["probability"] == 0.25 for one in made) < 80  # each explores by itself
    assert made[0].keys() == {*wire.Chosen.__struct_fields__} - {"model"}
    assert made[0]["id"] in made[0]["why"]
    assert_same(state_of(client, tmp_path / "after.ht"), before)
    some = client.post(f"{SHOP}/decisions", json=[{"context": visit(i)} for i in range(3)])
    assert len({one["token"] for one in some.json()}) == 3
    greedy = client.post(f"{SHOP}/decisions", json={"context": visit(1), "explore": 0}).json()
    asked = {"context": visit(1)}
    told = client.post(f"{SHOP}/explain", json=asked).json()
    assert (told["id"], told["why"]) == (greedy["id"], greedy["why"])
    assert told["expected"][greedy["id"]] == pytest.approx(greedy["expected"])
    guess = client.post(f"{SHOP}/predict", json=asked).json()
    assert guess["ids"] == ["card", "loan", "none"]
    assert np.all(np.array(guess["low"]) <= guess["high"])


def test_the_same_request_has_the_same_answer(client):
    head = {"Idempotency-Key": "a"}
    body = {"context": visit(1), "explore": 1.0}
    first = client.post(f"{SHOP}/decisions", json=body, headers=head)
    again = client.post(f"{SHOP}/decisions", json=body, headers=head)
    assert first.json() == again.json()
    other = {**body, "only": ["card"]}
    refused = client.post(f"{SHOP}/decisions", json=other, headers=head)
    assert (refused.status_code, refused.json()["code"]) == (409, "key_used")
    assert client.get(SHOP).json()["decisions"] == 1


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (
            {"context": {"segment": "new"}},
            "context.basket",
            "The context lacks 'basket'. Send null if it is not known.",
        ),
        (
            {"context": {"segment": "new", "bascet": 3}},
            "context.basket",
            "It has 'bascet': is that the one?",
        ),
        (
            {"context": {"segment": "new", "basket": "big"}},
            "context.basket",
            "'basket' must be a number; got 'big'. Send null if it is not known.",
        ),
        (
            {"context": {"segment": "new", "basket": "31.0"}},
            "context.basket",
            "'basket' must be a number; got '31.0'. Send it without quotes.",
        ),
        (
            {"context": {"segment": "new", "basket": "31,5"}},
            "context.basket",
            "'basket' must be a number; got '31,5'. Send 31.5 without quotes.",
        ),
        (
            {"context": {"segment": "new", "basket": True}},
            "context.basket",
            "got true. Send null if it is not known.",
        ),
        ({"context": {"segment": "new", "basket": 10**40}}, "context.basket", "64 bits"),
        ({"context": {"segment": ["new"], "basket": 1}}, "context[...]", "Expected"),
        ({"context": visit(1), "only": ["card", "crad"]}, "only[1]", "Did you mean 'card'?"),
        ({"context": visit(1), "only": ["x"]}, "only[0]", "Offers are 'card', 'loan', 'none'."),
        ({"context": visit(1), "only": []}, "only", "Leave out 'only', or list some"),
        ({"context": visit(1), "explore": 2}, "explore", "<= 1"),
        ({"context": visit(1), "arms": [[1.0]]}, "", "unknown field `arms`"),
    ],
)
def test_a_bad_context_is_refused_in_words_and_changes_nothing(
    client, tmp_path, body, field, words
):
    paid = play(client, 3)
    before = state_of(client, tmp_path / "before.ht")
    for sent in (body, [{"context": visit(1)}, body]):
        answer = client.post(f"{SHOP}/decisions", json=sent)
        assert answer.status_code == 422, answer.text
        assert words in answer.json()["message"]
        assert not OF_PYTHON.search(answer.json()["message"])
        place = "[1]" if isinstance(sent, list) else ""
        fields = (field, f"{place}.{field}", place, f"[...].{field}", "[...]")
        assert answer.json()["field"] in fields
    token = client.post(f"{SHOP}/decisions", json={"context": visit(1)}).json()["token"]
    for reward in ({"reward": 1.0, "scale": 1.0}, {"reward": 1e200}):
        assert client.post(f"{SHOP}/rewards", json={"token": token, **reward}).status_code == 422
    assert client.get(SHOP).json()["decisions"] == 4
    assert client.get(SHOP).json()["version"] == len(paid)
    assert_same(state_of(client, tmp_path / "after.ht"), before)


def test_where_no_offer_may_be_shown_the_refusal_says_what_may(tmp_path):
    rules = {"card": {"segment": ["new"]}, "loan": {"basket": (50, None)}}
    shop = decider(rules=rules)
    shop.save(tmp_path / "shop.ht")
    shop.retire("none")
    shop.save(tmp_path / "strict.ht")
    begin(tmp_path / "store", tmp_path / "shop.ht")
    begin(tmp_path / "store", tmp_path / "strict.ht", "strict")
    old = {"segment": "old", "basket": 20.0}
    with serving(tmp_path / "store") as client:
        barred = client.post(f"{SHOP}/decisions", json={"context": old, "only": ["card", "loan"]})
        nothing = client.post("/v1/models/strict/decisions", json={"context": old})
    assert barred.json() == {
        "code": "bad_only", "field": "only",
        "message": "No offer of 'only' may be shown in this context. Leave out 'only', or list "
        "some that may be shown: 'none'.",
    }  # fmt: skip
    assert (nothing.status_code, nothing.json()["field"]) == (422, "context")
    assert nothing.json()["message"].startswith("No offer may be shown in this context: each is")


def test_close_after_becomes_the_wait_of_the_service(tmp_path):
    shop = decider()
    shop.close_after(0.2, 0.0)
    shop.save(tmp_path / "shop.ht")
    begin(tmp_path / "store", tmp_path / "shop.ht")
    with serving(tmp_path / "store") as client:
        spec = client.get(SHOP).json()["spec"]
        assert (spec["wait"], spec["default_reward"], spec["explore"]) == (0.2, 0.0, 0.3)
        token = client.post(f"{SHOP}/decisions", json={"context": visit(1)}).json()["token"]
        for _ in range(100):
            if client.get(SHOP).json()["version"]:
                break
            time.sleep(0.1)
        late = client.post(f"{SHOP}/rewards", json={"token": token, "reward": 1.0})
        assert (late.status_code, late.json()["code"]) == (409, "expired")
        frame = log_of(client, tmp_path / "log.parquet")
        assert frame["by_default"].to_list() == [True]
        twin = observed(tmp_path / "shop.ht", frame, [(token, 0.0)])
        assert_same(state_of(client, tmp_path / "now.ht"), twin)


def test_the_log_is_learned_and_evaluated(client, file, tmp_path):
    play(client, 160)
    frame = log_of(client, tmp_path / "log.parquet")
    for log in (tmp_path / "log.parquet", frame, frame.to_pandas()):
        fresh = decider()
        learned = fresh.learn(log)
        assert (learned.rows, learned.propensities) == (120, True)
    state = state_of(client, tmp_path / "now.ht")
    offers = {"arms": state.encoder.catalogue(OFFERS, ids="sku")}
    for target in (ht.greedy(state.forecast), ht.always("card")):
        told = ht.evaluate(tmp_path / "log.parquet", target, columns=offers)
        assert (told.rows, told.propensities_ok) == (120, True)


def test_a_damaged_snapshot_costs_time_and_no_state(file, tmp_path):
    store = tmp_path / "store"
    begin(store, file)
    with serving(store) as client:
        paid = play(client, 50)
        frame = log_of(client, tmp_path / "log.parquet")
    with contextlib.closing(sqlite3.connect(store / FILE)) as base, base:
        assert base.execute("UPDATE snapshot SET data = x'00' WHERE number > 1").rowcount
    with serving(store) as client:
        (fault,) = client.get(SHOP).json()["diagnostics"]["faults"]
        assert "started from snapshot 1 and its log" in fault
        assert_same(state_of(client, tmp_path / "now.ht"), observed(file, frame, paid))


def test_workers_on_a_database_have_the_same_state(address, file, tmp_path, monkeypatch):
    monkeypatch.setattr(chores, "LOOK", 3600.0)
    begin(address, file)
    with serving(address) as client, serving(address) as other:
        paid = []
        for i in range(40):
            body = {"context": visit(i)}
            token = client.post(f"{SHOP}/decisions", json=body).json()["token"]
            paid.append((token, float(i % 5)))
            reward = {"token": token, "reward": paid[-1][1]}
            worker = other if i % 3 else client
            assert worker.post(f"{SHOP}/rewards", json=reward).status_code == 202
        frame = log_of(other, tmp_path / "log.parquet")
        twin = observed(file, frame, paid)
        for worker in (client, other):
            look(worker)
            assert_same(state_of(worker, tmp_path / "now.ht"), twin)


def test_the_python_client_decides_in_a_context(client):
    with ht.Client("http://127.0.0.1:8080", http=client) as remote:
        shop = remote.model("shop")
        choice = shop.decide({"segment": "new", "basket": 31.0})
        assert isinstance(choice, RemoteChoice)
        assert choice.id in ("card", "loan", "none")
        assert (choice.expected, choice.version) == (None, 0)
        assert shop.decide({"segment": "new", "basket": np.nan}, only=["card"]).probability == 1.0
        assert shop.learn(choice, 3.5) == 1
        many = shop.decide_many([visit(0), visit(1)], explore=1.0)
        assert [one.probability for one in many] == [pytest.approx(1 / 3)] * 2
        assert shop.learn(many, [0.0, 1.0]) == 2
        assert shop.predict(visit(0))["ids"] == ["card", "loan", "none"]
        assert shop.explain(visit(0))["why"]
        views = shop.describe()["offers"]
        assert sum(view["rewards"] for view in views.values()) == 3
        with pytest.raises(Refused, match=r"lacks 'basket'.*\(context\.basket\)"):
            shop.decide({"segment": "new"})
        with pytest.raises(TypeError, match="or a context alone"):
            shop.decide({"segment": "new"}, context={"basket": 1.0})


def test_page_metrics_and_forks_know_a_decider(client):
    play(client, 20)
    service = client.app.state.service
    (shown,) = client.portal.call(stats, service.live, service.started).models
    assert (shown.policy, sum(arm.decisions for arm in shown.arms)) == ("Decider", 20)
    assert {arm.id for arm in shown.arms} <= {"card", "loan", "none"}
    assert 'heavytail_model_rounds{model="shop"} 15.0' in client.get("/metrics").text
    assert client.post(f"{SHOP}/fork", json={"name": "b"}).json()["rounds"] == 15
    changed = client.post(f"{SHOP}/fork", json={"name": "c", "policy": "TwinUCB"})
    assert (changed.status_code, changed.json()["code"]) == (422, "bad_dim")
    twin = client.post(f"{SHOP}/fork", json={"name": "d", "shadow": True})
    assert twin.status_code == 201
    play(client, 20, start=20)
    assert client.get("/v1/models/d").json()["rounds"] == 30
    put = client.put("/v1/models/e", json={"policy": "Decider"})
    assert put.status_code == 422
    assert "Upload the file" in put.json()["message"]
    restored = client.post(f"{SHOP}/restore", json={"snapshot": 1})
    assert restored.json()["rounds"] == 0


def test_the_same_file_goes_on_and_another_is_refused(client, where, file, tmp_path):
    play(client, 8)
    service = client.app.state.service
    other = tmp_path / "other.ht"
    decider(seed=1).save(other)

    def again(path, name="shop"):
        content = path.read_bytes()
        spec = spec_of(ht.load(path), content, "shop.ht")
        operation = partial(
            adopt, name=name, content=content, spec=spec, most=10, note="", who="test"
        )
        client.portal.call(service.commits.do, operation)

    again(file)
    assert client.get(SHOP).json()["rounds"] == 6
    with pytest.raises(Refusal, match=r"model 'shop' that did not begin with this file\. Choose"):
        again(other)
    again(other, "shop-b")


def run(capsys, *arguments):
    from heavytail.cli import main

    status = main(["serve", *map(str, arguments), "--port", "0"])
    return status, capsys.readouterr().err


def test_what_cannot_be_served_is_said_in_a_sentence(file, tmp_path, capsys):
    ht.TwinUCB(3).save(tmp_path / "policy.npz")
    decider(limits={"card": 3}).save(tmp_path / "limited.ht")
    file.with_name("my shop.ht").write_bytes(file.read_bytes())
    refused = [
        (("--model", tmp_path / "policy.npz"), "contains TwinUCB; it must be a Decider's file"),
        (("--model", tmp_path / "limited.ht"), "limits offers per day"),
        (("--model", tmp_path / "missing.ht"), "missing.ht"),
        (("--model", tmp_path / "my shop.ht"), "Pass --name"),
        (("--model", file, "--name", "a b"), "--name: a model's name"),
        (("--model", file, "--demo"), "leave out --model"),
        (("--name", "shop", "--store", tmp_path / "store"), "pass --model FILE too"),
        (("--model", file, "--workers", "2"), "postgresql"),
    ]
    for arguments, words in refused:
        status, told = run(capsys, *arguments)
        assert status != 0
        assert words in told, told
        assert "Traceback" not in told
    begin(f"{file}.store", file)
    decider(seed=1).save(file)
    status, told = run(capsys, "--model", file)
    assert "another --name" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "limited.ht", "my shop.ht", "policy.npz", "shop.ht", "shop.ht.store",
    ]  # fmt: skip


def test_offers_come_and_go_among_the_rewards_and_the_log_leads_to_the_state(
    client, where, tmp_path
):
    play(client, 40)
    more = {"gift": {"price": 9.0}, "none": {"price": 1.0}, "loan": None}
    view = client.patch(f"{SHOP}/offers", json={"offers": more})
    assert view.status_code == 200, view.text
    assert (view.json()["retired"], view.json()["offers"]["gift"]) == (["loan"], {"price": 9.0})
    assert client.patch(f"{SHOP}/offers", json={"offers": more}).json() == view.json()
    assert client.get(SHOP).json()["version"] == 31  # a change is one of the outcomes, once
    play(client, 40, start=40)
    seen = client.get(SHOP).json()
    assert (seen["rounds"], seen["decisions"], seen["pending"]) == (60, 80, 20)
    whole = client.put(f"{SHOP}/offers", json={"offers": {"card": {"price": 5.0}}}).json()
    assert ([*whole["offers"]], whole["retired"]) == (["card"], ["loan", "none", "gift"])
    kept = state_of(client, tmp_path / "before.ht")
    client.__exit__(None, None, None)
    store = opened(where)
    store.rows("DELETE FROM snapshot WHERE number > 1")
    store.close()
    with serving(where) as again:
        assert_same(state_of(again, tmp_path / "after.ht"), kept)


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ({"x": {"size": 1.0}}, "no others: 'price'"),
        ({"x": [1.0]}, "by name"),
        ({"x": {"price": "dear"}}, "price"),
        ({"x": None}, "No offer"),
        ({"card": None, "loan": None, "none": None}, "at least one"),
    ],
)
def test_offers_that_a_decider_cannot_have_are_refused(client, offers, words):
    before = client.get(f"{SHOP}/offers").json()
    answer = client.patch(f"{SHOP}/offers", json={"offers": offers})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_offers")
    assert words in answer.json()["message"]
    assert not OF_PYTHON.search(answer.json()["message"].replace("column", ""))
    assert client.get(f"{SHOP}/offers").json() == before


def test_a_decider_with_other_columns_learns_the_log_and_takes_over(client, where, tmp_path):
    paid = play(client, 60)
    path = tmp_path / "wide.ht"
    wide = ht.Decider(OFFERS, ids="sku", context=["segment", "basket", "page"], explore=0.3)
    wide.save(path)
    made = client.put("/v1/models/wide?learn=shop", content=path.read_bytes())
    assert (made.status_code, made.json()["rounds"], made.json()["learning"]) == (201, 45, None)
    rows = {row["token"]: row for row in log_of(client, tmp_path / "log.parquet").to_dicts()}
    for token, reward in paid:
        row = rows[token]
        offer, more = row["ids"][row["action"]], {"time": row["time"], "selected": True}
        context = json.loads(row["context_json"])
        wide.observe(context, offer, reward, probability=row["propensity"], **more)
    assert_same(state_of(client, tmp_path / "state.ht", "wide"), wide)
    assert client.post(f"{SHOP}/promote", json={"model": "wide"}).status_code == 200
    play(client, 10, start=60)
    kept = state_of(client, tmp_path / "kept.ht")
    client.__exit__(None, None, None)
    with serving(where) as again:
        assert_same(state_of(again, tmp_path / "after.ht"), kept)
        assert again.get(SHOP).json()["rounds"] == 52
