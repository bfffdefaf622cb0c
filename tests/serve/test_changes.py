"""What changes while a service runs: settings, files, offers, forks, names and splits."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.serve.conftest import look, serving
from tests.serve.test_service import ARMS, SHOP, decide, reward, state

import heavytail as ht
from heavytail.ledger.offers import unpacked
from heavytail.logs.wealth import Wealths, difference
from heavytail.serve import deciding
from heavytail.serve.earned import LEVEL, Stream
from heavytail.serve.forking import promote
from heavytail.serve.model import Model
from heavytail.serve.service import Limits
from heavytail.serve.splits import Shares, _differences, unit_of
from heavytail.serve.wire import EarnedLine

OFFERS = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "c": [0.5, 0.5, 0.0]}
FEATURES = {"a": {"price": 1.0}, "b": {"price": 2.0}, "c": {"price": 3.0}}


def ok(answer):
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def code(answer):
    return answer.status_code, answer.json()["code"]


def learn(client, *values, name="shop", **body):
    tokens = []
    for value in values:
        made = ok(client.post(f"/v1/models/{name}/decisions", json=body or {"arms": ARMS}))
        ok(
            client.post(
                f"/v1/models/{name}/rewards", json={"token": made["token"], "reward": value}
            )
        )
        tokens.append(made["token"])
    return tokens


def log_of(client, name="shop"):
    answer = client.get(f"/v1/models/{name}/log")
    assert answer.status_code == 200, answer.text
    return pq.read_table(io.BytesIO(answer.content)).to_pylist()


def restarted(where, client):
    client.__exit__(None, None, None)
    return serving(where)


# Settings


def test_settings_change_while_a_model_serves_and_stay(shop, where):
    body = {"explore": 1.0, "wait": 3600.0, "default_reward": 0.5, "log_arms": False}
    spec = ok(shop.patch(SHOP, json=body))["spec"]
    assert {key: spec.get(key, True) for key in body} == body
    assert decide(shop)["probability"] == pytest.approx(1 / 3)
    assert ok(shop.patch(SHOP, json={"explore": 0.0}))["spec"]["wait"] == 3600.0
    assert decide(shop)["probability"] == 1.0
    learn(shop, 2.0)
    assert [row["arms"] for row in log_of(shop)] == [None]
    kept = state(shop)
    with restarted(where, shop) as again:
        assert ok(again.get(SHOP))["spec"]["default_reward"] == 0.5
        assert state(again) == kept


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (422, "empty")),
        ({"default_reward": 1.0}, (422, "bad_wait")),
        ({"wait": 5.0, "default_reward": 1.0, "late": "learn"}, (422, "bad_late")),
        ({"explore": 1.5}, (422, "bad_body")),
        ({"wait": 0}, (422, "bad_body")),
        ({"policy": "HvtUCB"}, (422, "bad_body")),
        ({"wait": 5.0, "default_reward": 1e300}, (422, "bad_reward")),
        ({"paused": None}, (422, "bad_body")),
    ],
)
def test_settings_that_cannot_be_are_refused_and_nothing_changes(shop, body, expected):
    before = ok(shop.get(SHOP))["spec"]
    assert code(shop.patch(SHOP, json=body)) == expected
    assert ok(shop.get(SHOP))["spec"] == before


def test_a_change_of_settings_reaches_the_other_worker(pair):
    one, other = pair
    ok(one.patch(SHOP, json={"explore": 1.0}))
    look(other)
    assert decide(other)["probability"] == pytest.approx(1 / 3)


def test_a_worker_chooses_at_once_among_offers_that_another_worker_was_given(pair):
    one, other = pair
    assert code(other.post(f"{SHOP}/decisions", json={})) == (422, "no_offers")
    ok(one.put(f"{SHOP}/offers", json={"offers": OFFERS}))
    assert ok(other.post(f"{SHOP}/decisions", json={}))["id"] in OFFERS


# Files


def saved(tmp_path, rounds=20):
    policy = ht.TwinUCB(3)
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        policy.learn(policy.decide(np.array(ARMS)), rng.standard_t(2))
    path = tmp_path / "saved.npz"
    policy.save(path)
    return path.read_bytes(), policy


def test_a_saved_policy_goes_on_where_it_stopped(client, where, tmp_path):
    content, policy = saved(tmp_path)
    made = client.put(SHOP, content=content)
    assert (made.status_code, made.json()["rounds"]) == (201, 20)
    assert client.put(SHOP, content=content).status_code == 200
    assert code(client.put(SHOP, content=saved(tmp_path, 3)[0])) == (409, "another_model")
    made = decide(client)
    ok(reward(client, made["token"], 2.5))
    policy.update(np.array(ARMS)[made["arm"]], 2.5)
    assert np.array_equal(client.app.state.service.models["shop"].policy.theta, policy.theta)
    kept = state(client)
    with restarted(where, client) as again:
        assert state(again) == kept


def test_a_saved_policy_with_an_encoder_brings_it_along(client, tmp_path):
    encoder = ht.Encoder(numbers={"price": (0.0, 5.0)}, categories={"segment": ["new", "old"]})
    policy = ht.TwinUCB(encoder.dim)
    policy.encoder = encoder
    path = tmp_path / "saved.npz"
    policy.save(path)
    ok(client.put(SHOP, content=path.read_bytes()))
    body = {"context": {"segment": "new"}, "arms": [{"price": 1.0}, {"price": 2.0}]}
    ok(client.post(f"{SHOP}/decisions", json=body))


@pytest.mark.parametrize("damage", ["cut", "flip", "regression", "empty", "learner"])
def test_a_file_that_is_no_policy_is_refused_and_makes_no_model(client, tmp_path, damage):
    content = bytearray(saved(tmp_path)[0])
    if damage == "cut":
        del content[-20:]
    elif damage == "flip":
        content[len(content) // 2] ^= 255
    elif damage == "empty":
        content = bytearray(b"PK\x03\x04")
    elif damage == "learner":
        path = tmp_path / "crmm.npz"
        ht.make_policy("CRMM", dim=3, horizon=100, tail=ht.MomentBound(order=1.5, scale=1.0)).save(
            path
        )
        content = path.read_bytes()
    else:
        path = tmp_path / "huber.npz"
        ht.OnePassHuberRegressor().fit(np.eye(3), np.ones(3)).save(path)
        content = path.read_bytes()
    assert code(client.put(SHOP, content=bytes(content))) == (422, "bad_file")
    assert client.get(SHOP).status_code == 404


# Offers


def vectors(client):
    ok(client.put(SHOP, json={"dim": 3}))
    return ok(client.put(f"{SHOP}/offers", json={"offers": OFFERS}))


def test_a_decision_by_ids_is_the_decision_by_arms(client, where):
    assert vectors(client)["number"] == 1
    ok(client.put("/v1/models/twin", json={"dim": 3}))
    rng = np.random.default_rng(1)
    for round_ in range(30):
        only = [*rng.permutation(["a", "b", "c"])[: 1 + round_ % 3]] if round_ % 4 else None
        body = {"context": {"segment": "new"}, "unit": round_}
        mine = ok(
            client.post(f"{SHOP}/decisions", json=body if only is None else {**body, "only": only})
        )
        ids = only or [*OFFERS]
        theirs = {"arms": [OFFERS[name] for name in ids], "ids": ids}
        other = ok(client.post("/v1/models/twin/decisions", json=theirs))
        assert (mine["id"], mine["arm"], mine["probability"]) == (other["id"], other["arm"], 1.0)
        value = float(rng.standard_t(2))
        ok(client.post(f"{SHOP}/rewards", json={"token": mine["token"], "reward": value}))
        ok(client.post("/v1/models/twin/rewards", json={"token": other["token"], "reward": value}))
    assert state(client) == state(client, "twin")
    mine, theirs = log_of(client), log_of(client, "twin")
    for key in ("ids", "arms", "action", "propensity", "score", "reward"):
        assert [row[key] for row in mine] == [row[key] for row in theirs]
    assert mine[0]["context_json"] == '{"segment":"new"}'
    kept = state(client)
    with restarted(where, client) as again:
        assert state(again) == kept
        assert ok(again.get(f"{SHOP}/offers"))["offers"] == OFFERS
        ok(again.post(f"{SHOP}/decisions", json={}))


def test_offers_come_and_go_and_the_log_keeps_those_of_its_time(client):
    vectors(client)
    learn(client, 1.0, context={})
    ok(client.patch(f"{SHOP}/offers", json={"offers": {"d": [0.0, 0.0, 1.0], "a": None}}))
    view = ok(client.get(f"{SHOP}/offers"))
    assert (view["number"], [*view["offers"]]) == (2, ["b", "c", "d"])
    learn(client, 2.0, only=["d"])
    ok(client.put(f"{SHOP}/offers", json={"offers": {"c": [0.1, 0.0, 0.0]}}))
    learn(client, 3.0, context={})
    assert [row["ids"] for row in log_of(client)] == [["a", "b", "c"], ["d"], ["c"]]
    assert log_of(client)[2]["arms"] == [[0.1, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"offers": {"a": [1.0, 0.0]}}, (422, "bad_offers")),
        ({"offers": {"a": {"price": 1.0}}}, (422, "bad_offers")),
        ({"offers": {"a": [9.0, 9.0, 9.0]}}, (422, "bad_offers")),
        ({"offers": {}}, (422, "bad_offers")),
        ({"offers": {"x": None}}, (422, "bad_offers")),
        ({"offers": {"": [1.0, 0.0, 0.0]}}, (422, "bad_body")),
        ({"offers": {"a": 3}}, (422, "bad_body")),
    ],
)
def test_offers_that_cannot_be_chosen_are_refused(client, body, expected):
    vectors(client)
    assert code(client.put(f"{SHOP}/offers", json=body)) == expected
    assert ok(client.get(f"{SHOP}/offers"))["offers"] == OFFERS


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"only": ["x"]}, (422, "bad_only")),
        ({"only": []}, (422, "bad_only")),
        ({"context": {"x": [1]}}, (422, "bad_body")),
        ({"explore": 2}, (422, "bad_body")),
    ],
)
def test_decisions_among_offers_that_cannot_be_are_refused(client, body, expected):
    vectors(client)
    assert code(client.post(f"{SHOP}/decisions", json=body)) == expected


def test_a_model_without_offers_says_what_to_send(shop):
    answer = shop.post(f"{SHOP}/decisions", json={"context": {}})
    assert answer.status_code == 422
    assert ok(shop.get(f"{SHOP}/offers")) == {"number": 0, "offers": {}, "retired": []}


def encoded(client):
    schema = ht.Encoder(
        numbers={"price": (0.0, 5.0)}, categories={"segment": ["new", "old"]}
    ).schema()
    ok(client.put(SHOP, json={"encoder": schema}))
    ok(client.put(f"{SHOP}/offers", json={"offers": FEATURES}))


def test_offers_of_a_model_with_an_encoder(client):
    encoded(client)
    learn(client, 1.0, 2.0, -1.0, context={"segment": "old"})
    answer = client.post(f"{SHOP}/decisions", json={"context": {}})
    assert code(answer) == (422, "bad_context")
    assert "segment" in answer.json()["message"]
    assert (
        ok(client.post(f"{SHOP}/explain", json={"context": {"segment": "new"}}))["id"] in FEATURES
    )
    assert (
        len(ok(client.post(f"{SHOP}/predict", json={"context": {"segment": "new"}}))["mean"]) == 3
    )
    row = log_of(client)[0]
    assert (row["ids"], len(row["arms"])) == (["a", "b", "c"], 3)
    assert (
        client.post(
            f"{SHOP}/decisions", json={"context": {"segment": "old"}, "arms": [{"price": 1.0}]}
        ).status_code
        == 201
    )


def test_another_worker_chooses_among_new_offers(pair):
    one, other = pair
    ok(one.put(f"{SHOP}/offers", json={"offers": OFFERS}))
    look(other)
    made = ok(other.post(f"{SHOP}/decisions", json={"only": ["b"]}))
    ok(other.patch(f"{SHOP}/offers", json={"offers": {"b": None}}))
    ok(
        one.patch(f"{SHOP}/offers", json={"offers": {"z": [0.0, 0.0, 1.0]}})
    )  # learns of the other's first
    look(other)
    assert [*ok(other.get(f"{SHOP}/offers"))["offers"]] == ["a", "c", "z"]
    assert made["id"] == "b"


# Forks that learn the log anew


def test_a_fork_with_another_encoder_learns_the_log_as_if_it_had_always_been_there(client, where):
    encoded(client)
    rng = np.random.default_rng(2)
    segments = ["new", "old", "new"] * 20
    for segment in segments:
        learn(
            client,
            float(rng.standard_t(2)),
            context={"segment": segment, "age": float(rng.integers(70))},
        )
    schema = ht.Encoder(numbers={"price": (0.0, 5.0), "age": (0.0, 100.0)}).schema()
    view = ok(client.post(f"{SHOP}/fork", json={"name": "wide", "encoder": schema}))
    assert (view["rounds"], view["learning"]) == (60, None)
    made = client.post("/v1/models/wide/decisions", json={"context": {"age": 3.0}})
    ok(client.post("/v1/models/wide/rewards", json={"token": ok(made)["token"], "reward": 7.0}))
    encoder = ht.Encoder.from_schema(schema)
    twin = ht.TwinUCB(encoder.dim)
    table = encoder.fixed().catalogue([*FEATURES.values()], [*FEATURES])
    for row in [*log_of(client), *log_of(client, "wide")]:
        age = json.loads(row["context_json"])["age"]
        place = [*FEATURES].index(row["ids"][row["action"]])
        twin.update(table.arms({"age": age}, [place])[0], row["reward"])
    assert np.array_equal(client.app.state.service.models["wide"].policy.theta, twin.theta)
    kept = state(client, "wide")
    with restarted(where, client) as again:
        assert state(again, "wide") == kept


def test_a_fork_with_another_policy_follows_both_logs_through_restarts(shop, where):
    learn(shop, 1.0, 5.0, -2.0)
    body = {"name": "b", "policy": "OFUL", "options": {"noise_scale": 1.0}}
    assert ok(shop.post(f"{SHOP}/fork", json=body))["rounds"] == 3
    learn(shop, 9.0)  # of the other's own log from now on
    learn(shop, 4.0, name="b")
    view = ok(shop.get("/v1/models/b"))
    assert (view["rounds"], view["version"], view["decisions"], view["pending"]) == (4, 4, 1, 0)
    kept = state(shop, "b")
    with restarted(where, shop) as again:
        assert state(again, "b") == kept
        store = again.app.state.service.store
        store.rows("DELETE FROM snapshot WHERE model = 2")
        fork = {"name": "c", "policy": "HvtUCB"}
        assert ok(again.post("/v1/models/b/fork", json=fork))["rounds"] == 4  # through both logs
    with serving(where) as again:
        assert state(again, "b") == kept


def test_features_of_the_log_that_nobody_knows_are_asked_for(shop):
    learn(shop, 1.0)
    schema = ht.Encoder(numbers={"price": (0.0, 5.0)}).schema()
    answer = shop.post(f"{SHOP}/fork", json={"name": "b", "encoder": schema})
    assert code(answer) == (409, "no_offers")
    assert shop.get("/v1/models/b").status_code == 404


def test_a_log_that_is_learned_is_not_deleted(shop, monkeypatch):
    learn(shop, 1.0, 5.0)
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    assert code(shop.delete(SHOP)) == (409, "has_learner")
    ok(shop.post("/v1/models/b/snapshots"))
    assert shop.delete(SHOP).status_code == 204
    learn(shop, 2.0, name="b")


# Names


def test_a_promoted_fork_takes_the_name_and_the_old_one_its_rewards(shop, where):
    learn(shop, 1.0, 5.0)
    before = decide(shop)["token"]
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    assert ok(shop.post(f"{SHOP}/promote", json={"model": "b"}))["policy"] == "HvtUCB"
    ok(reward(shop, before, 3.0))  # decided by the one that is b now
    assert [ok(shop.get(f"/v1/models/{name}"))["rounds"] for name in ("shop", "b")] == [2, 3]
    learn(shop, 4.0)
    states = state(shop), state(shop, "b")
    with restarted(where, shop) as again:
        assert (state(again), state(again, "b")) == states
        assert ok(again.post(f"{SHOP}/promote", json={"model": "b"}))["policy"] == "TwinUCB"
        assert state(again) == states[1]


@pytest.mark.parametrize("policy", [None, "HvtUCB"])
def test_a_promoted_shadow_learns_its_own_rewards_after_those_of_the_old_one(shop, where, policy):
    learn(shop, 1.0, 5.0)
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "shadow": True, "policy": policy}))
    learn(shop, -3.0)
    ok(shop.post(f"{SHOP}/promote", json={"model": "b"}))
    learn(shop, 4.0)
    learn(shop, 8.0, name="b")
    view = ok(shop.get(SHOP))
    assert (view["rounds"], view["decisions"], view["pending"], view["shadow_of"]) == (
        4,
        1,
        0,
        None,
    )
    states = state(shop), state(shop, "b")
    with restarted(where, shop) as again:
        assert (state(again), state(again, "b")) == states


def test_a_promotion_that_is_sent_again_is_done_once(shop, where):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    key, other = {"idempotency-key": "k" * 200}, {"idempotency-key": "other"}
    send = lambda client, head, name="b": client.post(  # noqa: E731
        f"{SHOP}/promote", json={"model": name}, headers=head
    )
    for _ in range(2):
        assert ok(send(shop, key))["policy"] == "HvtUCB"
    assert ok(send(shop, other))["policy"] == "TwinUCB"  # rolled back
    ok(shop.put("/v1/models/c", json={"dim": 3}))
    assert code(send(shop, key, "c")) == (409, "key_used")
    assert code(send(shop, {"idempotency-key": "k" * 201})) == (422, "bad_key")
    with restarted(where, shop) as again:
        for head in (key, other, key):  # late, and done before
            assert ok(send(again, head))["policy"] == "TwinUCB"
        assert again.delete("/v1/models/b").status_code == 204
        assert ok(send(again, key))["policy"] == "TwinUCB"


def test_two_workers_that_get_one_promotion_do_it_once(pair):
    one, other = pair
    ok(one.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    body, head = {"json": {"model": "b"}}, {"headers": {"idempotency-key": "k"}}
    for client in pair:
        assert ok(client.post(f"{SHOP}/promote", **body, **head))["policy"] == "HvtUCB"
    both = [one.app.state.service, other.app.state.service]
    calls = [
        client.portal.start_task_soon(promote, service, "shop", "b", "", "again")
        for client, service in zip(pair, both, strict=True)
    ]
    assert {call.result().policy for call in calls} == {"TwinUCB"}


@pytest.mark.parametrize("change", ["promote", "undo", "split", "unsplit"])
def test_a_request_that_is_sent_again_after_a_change_of_models_is_decided_once(shop, where, change):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    if change in ("undo", "unsplit"):
        split(shop, shop=0.0, b=1.0) if change == "unsplit" else ok(
            shop.post(f"{SHOP}/promote", json={"model": "b"})
        )
    bodies, key = [{"arms": ARMS, "unit": unit} for unit in range(3)], {"idempotency-key": "k"}
    first = ok(shop.post(f"{SHOP}/decisions", json=bodies, headers=key))
    if change == "split":
        split(shop, shop=0.0, b=1.0)
    elif change == "unsplit":
        shop.delete(f"{SHOP}/split")
    else:
        ok(shop.post(f"{SHOP}/promote", json={"model": "b"}))
    with restarted(where, shop) as again:
        second = ok(again.post(f"{SHOP}/decisions", json=bodies, headers=key))
        tokens = [[made["token"] for made in each] for each in (first, second)]
        assert tokens[0] == tokens[1]
        counts = [ok(again.get(f"/v1/models/{name}"))["decisions"] for name in ("shop", "b")]
        assert sorted(counts) == [0, 3]
        other = [{"arms": ARMS[::-1]}] * 3
        refused = again.post(f"{SHOP}/decisions", json=other, headers=key)
        assert code(refused) == (409, "key_used")


def test_a_request_that_another_model_answers_meanwhile_is_not_decided_twice(shop, monkeypatch):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    key = {"idempotency-key": "k"}
    first = ok(shop.post(f"{SHOP}/decisions", json={"arms": ARMS}, headers=key))
    ok(shop.post(f"{SHOP}/promote", json={"model": "b"}))
    with monkeypatch.context() as patch:  # it was not there when the model was looked for
        patch.setattr(deciding, "_owners", lambda service, numbers, *_: asyncio.sleep(0, numbers))
        again = shop.post(f"{SHOP}/decisions", json={"arms": ARMS}, headers=key)
        assert code(again) == (503, "again")
    again = ok(shop.post(f"{SHOP}/decisions", json={"arms": ARMS}, headers=key))
    assert again["token"] == first["token"]


def test_other_workers_learn_of_new_names(pair):
    one, other = pair
    token = decide(one)["token"]
    ok(one.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    look(other)
    assert ok(other.get(SHOP))["policy"] == "HvtUCB"
    ok(reward(other, token, 1.0))
    assert ok(other.get("/v1/models/b"))["rounds"] == 1
    learn(other, 2.0)
    look(one)
    assert state(one) == state(other)


def test_a_shadow_of_a_shadow_follows_what_decides_and_a_copy_has_the_offers(client):
    vectors(client)
    learn(client, 1.0, context={"n": 1})
    for parent, body in (("shop", {"shadow": True}), ("b", {"shadow": True}), ("b", {})):
        name = {"shop": "b"}.get(parent, "c" if body else "d")
        ok(client.post(f"/v1/models/{parent}/fork", json={"name": name, **body}))
    assert ok(client.get("/v1/models/c"))["shadow_of"] == "shop"
    learn(client, 2.0, context={"n": 2})
    assert state(client, "c") == state(client) != state(client, "d")
    offers = [ok(client.get(f"/v1/models/{name}/offers"))["offers"] for name in ("shop", "d")]
    assert offers[0] == offers[1]
    assert learn(client, 3.0, name="d", context={"n": 3})


def test_a_model_that_has_not_learned_the_log_yet_neither_decides_nor_takes_a_name(
    shop, monkeypatch
):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    monkeypatch.setattr(Model, "unready", True)
    assert code(shop.post("/v1/models/b/decisions", json={"arms": ARMS})) == (503, "learning")
    assert code(shop.post(f"{SHOP}/promote", json={"model": "b"})) == (409, "learning")


def test_a_fork_of_a_shadow_learns_the_log_that_it_followed_while_it_is_there(shop):
    learn(shop, 1.0, 2.0)
    ok(shop.post(f"{SHOP}/fork", json={"name": "shade", "shadow": True}))
    ok(shop.post("/v1/models/shade/fork", json={"name": "b", "policy": "HvtUCB"}))
    end = time.monotonic() + 20.0
    while ok(shop.get("/v1/models/b"))["rounds"] < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert ok(shop.get("/v1/models/b"))["rounds"] == 2
    ok(shop.post(f"{SHOP}/promote", json={"model": "shade"}))
    for name in ("shop", "b"):
        ok(shop.post(f"/v1/models/{name}/snapshots"))
    ok(shop.delete("/v1/models/shade"))
    refused = shop.post(f"{SHOP}/fork", json={"name": "c", "policy": "HvtUCB"})
    assert code(refused) == (409, "no_log")


def test_offers_are_kept_in_the_order_in_which_they_are_put_and_are_not_too_many(where):
    with serving(where, limits=Limits(arms=3)) as client:
        assert vectors(client)["number"] == 1
        assert vectors(client)["number"] == 1
        turned = dict(reversed(OFFERS.items()))
        view = ok(client.put(f"{SHOP}/offers", json={"offers": turned}))
        assert (view["number"], [*view["offers"]]) == (2, [*turned])
        many = client.patch(f"{SHOP}/offers", json={"offers": {"d": [0.0, 0.0, 1.0]}})
        assert code(many) == (413, "too_many_arms")


# Splits


def split(client, **shares):
    return ok(client.put(f"{SHOP}/split", json={"models": shares}))


def test_a_unit_stays_with_its_model_and_shares_are_kept(shop, where):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b", "policy": "HvtUCB"}))
    assert split(shop, shop=0.5, b=0.5)["models"] == {"shop": 0.5, "b": 0.5}

    def models(client):
        bodies = [{"arms": ARMS, "unit": unit} for unit in range(400)]
        return [made["model"] for made in ok(client.post(f"{SHOP}/decisions", json=bodies))]

    first = models(shop)
    assert models(shop) == first
    assert 150 < first.count("b") < 250
    split(shop, shop=0.2, b=0.8)
    second = models(shop)
    assert all(old != "b" or new == "b" for old, new in zip(first, second, strict=True))
    assert 290 < second.count("b") < 350
    with restarted(where, shop) as again:
        assert models(again) == second
        assert again.delete(f"{SHOP}/split").status_code == 204
        assert "model" not in decide(again)


def test_a_list_in_a_split_is_decided_completely_or_not_at_all(shop):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    split(shop, shop=0.5, b=0.5)
    ok(shop.patch("/v1/models/b", json={"paused": True}))
    bodies = [{"arms": ARMS, "unit": unit} for unit in range(50)]
    assert code(shop.post(f"{SHOP}/decisions", json=bodies)) == (409, "paused")
    assert ok(shop.get(SHOP))["decisions"] == 0


def test_a_repeated_request_has_the_same_answer_though_the_shares_have_changed(shop):
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    split(shop, shop=1.0, b=0.0)
    bodies, key = [{"arms": ARMS, "unit": unit} for unit in range(9)], {"idempotency-key": "k"}
    first = ok(shop.post(f"{SHOP}/decisions", json=bodies, headers=key))
    split(shop, shop=0.0, b=1.0)
    assert ok(shop.post(f"{SHOP}/decisions", json=bodies, headers=key)) == first
    assert {made["model"] for made in ok(shop.post(f"{SHOP}/decisions", json=bodies))} == {"b"}


def test_what_cannot_be_split_is_refused(shop):
    ok(shop.put("/v1/models/wide", json={"dim": 5}))
    ok(shop.post(f"{SHOP}/fork", json={"name": "s", "shadow": True}))
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    put = lambda shares: code(shop.put(f"{SHOP}/split", json={"models": shares}))  # noqa: E731
    assert put({"b": 1.0}) == (422, "bad_split")
    assert put({"shop": 0.0, "b": 0.0}) == (422, "bad_split")
    assert put({"shop": 0.5, "wide": 0.5}) == (409, "other_requests")
    assert put({"shop": 0.5, "s": 0.5}) == (409, "shadow")
    assert put({"shop": 0.5, "none": 0.5}) == (404, "no_model")
    split(shop, shop=0.5, b=0.5)
    assert code(shop.delete("/v1/models/b")) == (409, "has_split")
    assert code(shop.post(f"{SHOP}/promote", json={"model": "b"})) == (409, "has_split")
    ok(shop.post(f"{SHOP}/fork", json={"name": "c"}))
    assert code(shop.post("/v1/models/c/promote", json={"model": "shop"})) == (409, "has_split")


def paid(client, name, count, value, unit=0):
    """Decide ``count`` times under a name, and reward each by ``value`` of the model's name."""
    bodies = [{"arms": ARMS, "unit": unit + i} for i in range(count)]
    made = ok(client.post(f"/v1/models/{name}/decisions", json=bodies))
    rewards = [{"token": each["token"], "reward": value(each.get("model", name))} for each in made]
    ok(client.post(f"/v1/models/{name}/rewards", json=rewards))
    return [
        (each.get("model", name), sent["reward"]) for each, sent in zip(made, rewards, strict=True)
    ]


def test_a_split_says_which_model_earns_more_by_what_came_since_it_began(shop, where):
    rng = np.random.default_rng(3)
    paid(shop, "shop", 200, lambda name: 1000.0)  # before the split: these must not count
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    view = split(shop, shop=0.5, b=0.5)
    shared = {each["name"]: each["split"] for each in ok(shop.get("/v1/models"))}
    assert shared == {"shop": True, "b": False}
    assert view["sentences"] == ["b against shop: not decided yet, too few rewards have come."]
    means, seen = {"shop": 1.0, "b": 5.0}, []
    for k in range(4):
        seen += paid(shop, "shop", 500, lambda name: means[name] * rng.pareto(4.0), 500 * k)
    view = ok(shop.get(f"{SHOP}/split"))
    for line in view["earned"]:
        mine = [value for name, value in seen if name == line["name"]]
        assert (line["decisions"], line["rewards"], line["pending"]) == (len(mine), len(mine), 0)
        assert line["money"] == pytest.approx(sum(mine))
    (found,) = view["differences"]
    assert found["better"] is True
    assert 0.0 < found["low"] < 4.0 / 3.0 < found["high"]
    assert "You may stop" in view["sentences"][0]
    with restarted(where, shop) as again:
        assert ok(again.get(f"{SHOP}/split"))["earned"] == view["earned"]


def test_a_split_compares_what_decisions_earn_and_not_what_buyers_pay(client):
    """Four in ten buy at 1 from b, one in ten at 2 from shop."""
    rng = np.random.default_rng(5)
    spec = {"dim": 3, "wait": 3600.0}
    ok(client.put(SHOP, json=spec))
    ok(client.post(f"{SHOP}/fork", json={"name": "b"}))
    split(client, shop=0.5, b=0.5)
    sold, price = {"shop": 0.1, "b": 0.4}, {"shop": 2.0, "b": 1.0}
    made = []
    for first in range(0, 3000, 1000):
        bodies = [{"arms": ARMS, "unit": first + i} for i in range(1000)]
        made += ok(client.post(f"{SHOP}/decisions", json=bodies))
    rewards = [
        {"token": each["token"], "reward": price[each["model"]]}
        for each in made
        if rng.random() < sold[each["model"]]
    ]
    ok(client.post(f"{SHOP}/rewards", json=rewards))

    def compared():
        view = ok(client.get(f"{SHOP}/split"))
        return view["differences"][0], view["sentences"][0]

    assert "too few rewards" in compared()[1]  # none has expired
    for name in ("shop", "b"):
        ok(client.patch(f"/v1/models/{name}", json={"wait": None}))
    found, sentence = compared()
    assert (found["low"], found["better"]) == (None, None)
    assert re.search(r"as [0-9,]+ of [0-9,]+ decisions of \w+ have no reward", sentence)
    ok(client.patch("/v1/models/b", json={"wait": 0.2}))
    found, sentence = compared()
    assert (found["high"], found["better"]) == (None, None)
    assert "cannot be compared" in sentence
    ok(client.patch(SHOP, json={"wait": 0.2, "default_reward": 0.0}))  # as silence counts in b
    end = time.monotonic() + 20.0
    while (found := compared()[0])["better"] is None and time.monotonic() < end:
        time.sleep(0.1)
    assert found["better"] is True
    assert 0.0 < found["low"] < 0.2 < found["high"]


def test_decisions_of_a_unit_count_once_in_a_comparison(shop, where):
    """They resemble each other: 20 customers who return 100 times are 20, not 2,000."""
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    split(shop, shop=0.5, b=0.5)

    def counted(client):
        view = ok(client.get(f"{SHOP}/split"))
        return sum(line["counted"] for line in view["earned"]), view["differences"][0]["low"]

    for _ in range(20):
        paid(shop, "shop", 40, lambda name: 1.0 + (name == "b"))
    assert counted(shop) == (40, None)
    for _ in range(3):
        ok(shop.post(f"{SHOP}/decisions", json={"arms": ARMS}))  # not rewarded
    made = ok(shop.post(f"{SHOP}/decisions", json=[{"arms": ARMS}] * 60))  # without a unit
    ok(shop.post(f"{SHOP}/rewards", json=[{"token": m["token"], "reward": 1.0} for m in made]))
    assert counted(shop)[0] == 100
    with restarted(where, shop) as again:
        paid(again, "shop", 50, lambda name: 1.0)
        assert counted(again)[0] == 110


def test_other_shares_begin_another_comparison(shop):
    """Else a model that gets more when all earn more would seem better."""
    ok(shop.post(f"{SHOP}/fork", json={"name": "b"}))
    first = split(shop, shop=0.9, b=0.1)["created"]
    assert split(shop, shop=0.9, b=0.1)["created"] == first
    paid(shop, "shop", 20, lambda name: 1.0)
    view = split(shop, shop=0.5, b=0.5)
    assert view["created"] > first
    assert [line["decisions"] for line in view["earned"]] == [0, 0]


def stream(name, silent=0):
    """1,000 decisions of a model."""
    values = np.random.default_rng([1, len(name)]).exponential(len(name), 1000)
    wealth, total = Wealths(), float(values.sum())
    wealth.add(np.zeros(1000, dtype=np.int64), values)
    line = EarnedLine(name, 1000, 1.0, 1000 - silent, 0, silent, total, 1000, 0.0, None, None)
    return Stream(line, wealth, True, None)


@pytest.mark.parametrize("others", [["bb"], ["bb", "ccc"], ["bb", "ccc", "dddd"]])
def test_the_differences_of_a_split_hold_with_95_percent_all_together(others):
    first, *rest = (stream(name) for name in ["a", *others])
    for each, found in zip(rest, _differences([first, *rest]), strict=True):
        level = 1.0 - (1.0 - LEVEL) / len(others)
        ends = difference(each.wealth, first.wealth, level)
        assert (found.low, found.high) == pytest.approx(ends, rel=1e-12)


@pytest.mark.parametrize("name", ["shop", "b"])
def test_a_tenth_of_the_decisions_may_lack_a_reward_and_no_more(name):
    for silent, stated in ((100, True), (101, False)):
        streams = [stream(each, silent if each == name else 0) for each in ("shop", "b")]
        (found,) = _differences(streams)
        assert (found.low is not None) is stated
        assert (f"{silent} of 1,000 decisions of {name} have" in found.why) is not stated


def test_units_are_drawn_anew_for_each_name_and_alone():
    shares = Shares({1: 0.5, 2: 0.5}, 0.0)
    first, second = (
        np.array([shares.choose(name, f"int {unit}") for unit in range(4000)])
        for name in ("shop", "other")
    )
    assert 0.45 < np.mean(first == second) < 0.55
    alone = [shares.choose("shop", unit_of(None)) for _ in range(4000)]
    assert 0.45 < np.mean(np.equal(alone, 1)) < 0.55


def test_several_differences_share_their_level(shop):
    rng = np.random.default_rng(8)
    for name in ("b", "c", "d"):
        ok(shop.post(f"{SHOP}/fork", json={"name": name}))
    split(shop, shop=0.25, b=0.25, c=0.25, d=0.25)
    seen = paid(shop, "shop", 1000, lambda name: rng.exponential(1.0))
    streams = {}
    for model in ("shop", "b"):
        values = np.array([value for name, value in seen if name == model])
        streams[model] = Wealths()
        streams[model].add(np.zeros(len(values), dtype=np.int64), values)
    found = ok(shop.get(f"{SHOP}/split"))["differences"][0]
    wanted = difference(streams["b"], streams["shop"], 1.0 - 0.05 / 3.0)
    assert found["model"] == "b"
    assert (found["low"], found["high"]) == pytest.approx(wanted)


def test_models_that_earn_the_same_are_never_told_apart(client):
    """Looked at after each batch; the bounds are of all times at once."""
    rng = np.random.default_rng(4)
    ok(client.put(SHOP, json={"dim": 3}))
    ok(client.post(f"{SHOP}/fork", json={"name": "b"}))
    split(client, shop=0.5, b=0.5)
    for k in range(15):
        paid(client, "shop", 100, lambda name: (rng.random() < 0.2) * rng.pareto(1.8), 100 * k)
        assert ok(client.get(f"{SHOP}/split"))["differences"][0]["better"] is None


def test_what_a_rule_would_have_earned_knows_the_offers_that_the_service_keeps(client):
    vectors(client)
    rng = np.random.default_rng(6)
    for round_ in range(300):
        only = ["b", "c"] if round_ % 5 == 0 else None
        body = {"explore": 0.6, "context": {"n": round_}, "only": only}
        made = ok(client.post(f"{SHOP}/decisions", json=body))
        value = float(rng.pareto(3.0) + 1.0)
        ok(client.post(f"{SHOP}/rewards", json={"token": made["token"], "reward": value}))
    found = ok(client.get(f"{SHOP}/earned", params={"against": "always:a"}))["against"]
    gains = []
    for row in log_of(client):
        weight = 1.0  # where the rule's offer could not be shown
        if "a" in row["ids"]:
            weight = (row["ids"][row["action"]] == "a") / row["propensity"]
        gains.append(row["reward"] * (1.0 - weight))
    assert 290 < found["compared"] <= 300
    assert found["value"] == pytest.approx(sum(gains[-found["compared"] :]))


# Everything at once


def test_a_long_life_is_the_same_after_each_restart(where, tmp_path):
    """Offers, forks, promotions and rewards in between; all states after each start as before."""
    rng, numbers = np.random.default_rng(5), itertools.count()
    content, _ = saved(tmp_path)
    with serving(where) as client:
        ok(client.put(SHOP, content=content))
        ok(client.put(f"{SHOP}/offers", json={"offers": OFFERS}))
    for step in range(8):
        with serving(where) as client:
            names = [view["name"] for view in ok(client.get("/v1/models"))]
            for _ in range(20):
                name = names[rng.integers(len(names))]
                if ok(client.get(f"/v1/models/{name}"))["shadow_of"] is None:
                    learn(client, float(rng.standard_t(2)), name=name, context={"n": next(numbers)})
            policy = ["HvtUCB", None, "OFUL", None][step % 4]
            options = {"noise_scale": 1.0} if policy == "OFUL" else None
            body = {
                "name": f"m{step}",
                "policy": policy,
                "options": options,
                "shadow": step % 3 == 1,
            }
            ok(client.post(f"{SHOP}/fork", json=body))
            end = time.monotonic() + 60.0
            while ok(client.get(f"/v1/models/m{step}"))["learning"] and time.monotonic() < end:
                time.sleep(0.02)
            ok(client.post(f"{SHOP}/promote", json={"model": f"m{step}"}))
            ok(
                client.patch(
                    f"{SHOP}/offers", json={"offers": {f"o{step}": [0.0, 0.3, 0.1 * step]}}
                )
            )
            learn(client, 1.0, context={})
            kept = {name: state(client, name) for name in client.app.state.service.models}
            tables = {n: unpacked(b) for n, b in _tables(client)}
        with serving(where) as client:
            assert {name: state(client, name) for name in kept} == kept
            assert {n: unpacked(b) for n, b in _tables(client)} == tables


def _tables(client):
    store = client.app.state.service.store
    return [
        (row.id, store.catalogue(row.id, row.catalogue)) for row in store.models() if row.catalogue
    ]
