"""Defects that were met when the changes of a running model were tried by hand, with curl."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import SHOP, state

import heavytail as ht
from heavytail.ledger.layout import OutcomeRow
from heavytail.ledger.offers import packed
from heavytail.serve import chores, live
from heavytail.serve.decider_model import DeciderModel
from heavytail.serve.offering import write_offers
from heavytail.serve.wire import ModelSpec, Offers

PRICES = {"a": {"price": 5.0}, "b": {"price": 9.0}}
ROWS = {"a": [1.0, 0.0], "b": [0.0, 1.0]}


def encoder(*categories):
    return ht.Encoder(
        numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)},
        categories={name: ["x", "y"] for name in categories},
        crosses=[("age", "price"), *((name, "price") for name in categories)],
    )


def created(client, name="shop", offers=PRICES, **spec):
    """A model with offers."""
    assert client.put(f"/v1/models/{name}", json=spec).status_code == 201
    answer = client.put(f"/v1/models/{name}/offers", json={"offers": offers})
    assert answer.status_code == 200, answer.text


def played(client, count=5, name="shop", **body):
    """Rewarded decisions among a model's offers."""
    for i in range(count):
        made = client.post(f"/v1/models/{name}/decisions", json=body).json()
        reward = {"token": made["token"], "reward": float(i)}
        assert client.post(f"/v1/models/{name}/rewards", json=reward).status_code == 202


def refusal(answer):
    fault = answer.json()
    return answer.status_code, fault["code"], fault["field"]


def test_a_fork_that_cannot_have_the_offers_is_refused_and_nothing_is_left_of_it(client):
    created(client, offers=ROWS, dim=2)
    schema = encoder().schema()
    answer = client.post(f"{SHOP}/fork", json={"name": "twin", "encoder": schema})
    assert refusal(answer)[:2] == (422, "bad_offers")
    assert "The offers of 'shop' do not fit the new model: offer 'a' must" in answer.text
    assert client.get("/v1/models/twin").status_code == 404
    assert client.get("/readyz").json()["broken"] == []


def test_an_uploaded_policy_that_learns_a_log_has_the_offers_of_it(client):
    created(client, encoder=encoder().schema())
    context = {"age": 30, "device": "x"}
    played(client, context=context)
    policy = ht.TwinUCB(encoder("device").dim)
    policy.encoder = encoder("device")
    answer = client.put("/v1/models/twin?learn=shop", content=policy.to_bytes())
    assert (answer.status_code, answer.json()["rounds"]) == (201, 5)
    assert answer.json()["diagnostics"]["refused"] == 0
    offers = client.get("/v1/models/twin/offers").json()
    assert offers["offers"] == PRICES
    assert client.post("/v1/models/twin/decisions", json={"context": context}).status_code == 201
    unfit = client.put("/v1/models/other?learn=shop", content=ht.TwinUCB(2).to_bytes())
    assert refusal(unfit)[:2] == (422, "bad_offers")
    assert client.get("/v1/models/other").status_code == 404


def test_an_upload_says_where_it_did_not_learn_the_log(client):
    created(client, offers=ROWS, dim=2)
    file = ht.TwinUCB(2).to_bytes()
    assert client.put("/v1/models/twin", content=file).status_code == 201
    again = client.put("/v1/models/twin?learn=shop", content=file)
    assert refusal(again) == (409, "another_model", "learn")
    for name in ("learned", "learned"):
        answer = client.put(f"/v1/models/{name}?learn=shop", content=file)
    assert answer.status_code == 200
    for query in ("?lern=shop", "?learn=shop&learn=twin"):
        answer = client.put(f"/v1/models/new{query}", content=file)
        assert refusal(answer) == (422, "bad_query", "")
    other = client.put("/v1/models/twin", content=ht.TwinUCB(2, arm_bound=2.0).to_bytes())
    assert refusal(other) == (409, "another_model", "name")
    assert "--" not in other.text  # words of the command, which has options


@pytest.mark.parametrize("call", ["decisions", "predict", "explain"])
def test_a_model_without_offers_says_that_it_needs_arms_or_offers(shop, call):
    answer = shop.post(f"{SHOP}/{call}", json={"context": {"age": 30}})
    assert refusal(answer) == (422, "no_offers", "arms")


@pytest.mark.parametrize("body", [b"sku,price\na,1\n", b"PK\x05\x06", b"[1]"])
def test_what_is_neither_settings_nor_a_saved_model_is_told_what_is_expected(client, body):
    answer = client.put(SHOP, content=body)
    assert refusal(answer) == (400, "bad_json", "")
    assert "file that save(path)" in answer.json()["message"]


def test_a_model_that_is_not_there_is_told_by_its_field(client):
    created(client, offers=ROWS, dim=2)
    file = ht.TwinUCB(2).to_bytes()
    assert refusal(client.put("/v1/models/b?learn=no", content=file)) == (404, "no_model", "learn")
    promoted = client.post(f"{SHOP}/promote", json={"model": "no"})
    assert refusal(promoted) == (404, "no_model", "model")
    split = client.put(f"{SHOP}/split", json={"models": {"shop": 0.5, "no": 0.5}})
    assert refusal(split) == (404, "no_model", "models.no")


def test_a_prediction_and_an_explanation_of_own_offers_name_them(client):
    created(client, offers=ROWS, dim=2)
    played(client, only=["b"])
    predicted = client.post(f"{SHOP}/predict", json={}).json()
    assert (predicted["ids"], len(predicted["mean"])) == (["a", "b"], 2)
    explained = client.post(f"{SHOP}/explain", json={}).json()
    assert explained["id"] == "ab"[explained["arm"]]


@pytest.mark.parametrize(
    "body",
    [
        {"context": {"age": 30, "arms": 2}},
        {"context": {"age": 30}, "unit": "arms"},
        [{"context": {"age": 30, "arms": 2}}, {"context": {"age": 30}}],
    ],
)
def test_a_context_may_have_a_column_called_arms(client, body):
    created(client, encoder=encoder().schema())
    assert client.post(f"{SHOP}/decisions", json=body).status_code == 201
    stated = {"context": {"age": 30}, "arms": [{"price": 1.0}]}
    assert "id" not in client.post(f"{SHOP}/decisions", json=stated).json()
    both = client.post(f"{SHOP}/decisions", json=[stated, {"context": {"age": 30}}])
    assert both.status_code == 422


def test_a_log_that_another_model_needs_says_how_it_can_be_deleted(client):
    created(client, offers=ROWS, dim=2)
    played(client)
    client.post(f"{SHOP}/fork", json={"name": "twin", "options": {"arm_bound": 2.0}})
    answer = client.delete(SHOP)
    assert refusal(answer) == (409, "has_learner", "")
    assert "POST /v1/models/twin/snapshots" in answer.text
    assert client.post("/v1/models/twin/snapshots").status_code == 201
    assert client.delete(SHOP).status_code == 204


def test_a_column_that_the_log_does_not_have_is_unknown_in_it(client):
    offers = [{"sku": name, **features} for name, features in PRICES.items()]

    def decider(*context):
        return ht.Decider(offers, ids="sku", context=["segment", *context]).to_bytes()

    assert client.put(SHOP, content=decider()).status_code == 201
    played(client, context={"segment": "new"})
    played(client, context={"segment": "new", "device": "x"})
    wide = client.put("/v1/models/wide?learn=shop", content=decider("device")).json()
    assert (wide["rounds"], wide["diagnostics"]["refused"]) == (10, 0)
    created(client, "coded", encoder=encoder().schema())
    played(client, name="coded", context={"age": 30})
    schema = encoder("device").schema()
    forked = client.post("/v1/models/coded/fork", json={"name": "b", "encoder": schema}).json()
    assert (forked["rounds"], forked["diagnostics"]["refused"]) == (5, 0)
    unknown = {**schema, "numbers": {**schema["numbers"], "size": [0.0, 1.0]}}
    unknown["missing"] = {**schema["missing"], "size": "refuse"}
    forked = client.post("/v1/models/coded/fork", json={"name": "c", "encoder": unknown}).json()
    assert (forked["rounds"], forked["diagnostics"]["refused"]) == (0, 5)
    (why,) = forked["diagnostics"]["refusals"]
    assert why.startswith("5 rewards (numbers 1 to 5) could not be learned: ")
    assert "size" in why


def test_rewards_of_offers_that_nobody_described_are_named_with_what_to_do(client):
    offers = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.5, 0.5]}
    client.put(SHOP, json={"dim": 2})
    for name in ("a", "c", "a", "b"):  # arms of its own, and offers of only some of them
        body = {"arms": [offers[name]], "ids": [name]}
        made = client.post(f"{SHOP}/decisions", json=body).json()
        client.post(f"{SHOP}/rewards", json={"token": made["token"], "reward": 1.0})
    known = {"offers": {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0]}}
    service = client.app.state.service

    def inherited(tx):  # as where the parent has offers of another shape
        return tx.create("other", '{"dim":3}', since=4, origin=1)

    row = client.portal.call(service.commits.do, inherited)
    content = packed(known["offers"])
    client.portal.call(service.commits.do, lambda tx: tx.write_catalogue(row.id, content))
    client.portal.call(service.live.open, row._replace(catalogue=1))
    found = client.get("/v1/models/other").json()
    assert (found["rounds"], found["diagnostics"]["refused"]) == (3, 1)
    (why,) = found["diagnostics"]["refusals"]
    assert why.startswith("1 reward (number 2) could not be learned: the features of the offer 'c'")
    assert "Add it to the offers" in why


def test_reasons_are_few_however_many_rewards_are_refused(client):
    client.put(SHOP, json={"dim": 2})
    model = client.app.state.service.models["shop"]
    for seq in range(1, 101):
        model.refuse(OutcomeRow(seq, b"", 0, 0.0, None, b""), f"reason {seq}.")
    said = client.get(SHOP).json()["diagnostics"]["refusals"]
    assert len(said) == 11
    assert said[-1] == "90 rewards (numbers 11 to 100) could not be learned: for other reasons."


def test_rewards_of_withdrawn_offers_are_learned_from_a_log_and_again_after_a_restart(
    where, monkeypatch
):
    async def none(self, *, at_once=False):
        """No snapshots, so that a restart learns the log again."""

    monkeypatch.setattr(chores.Chores, "snapshots", none)
    context, schema = {"age": 30, "device": "x"}, encoder("device").schema()
    with serving(where) as client:
        created(client, encoder=encoder().schema())
        played(client, context=context, only=["a"])
        client.patch(f"{SHOP}/offers", json={"offers": {"a": {"price": 6.0}}})
        played(client, context=context, only=["a"])
        fork = {"name": "early", "encoder": schema}
        assert client.post(f"{SHOP}/fork", json=fork).json()["rounds"] == 10
        client.patch(f"{SHOP}/offers", json={"offers": {"a": None}})
        late = client.post(f"{SHOP}/fork", json={"name": "late", "encoder": schema}).json()
        assert (late["rounds"], late["diagnostics"]["refused"]) == (10, 0)
        assert state(client, "late") == state(client, "early")
        client.patch("/v1/models/early/offers", json={"offers": {"a": None}})
        kept = state(client, "early")
    with serving(where) as client:
        for name in ("early", "late"):
            assert state(client, name) == kept
            assert [*client.get(f"/v1/models/{name}/offers").json()["offers"]] == ["b"]


def test_a_model_that_two_requests_open_keeps_the_offers_that_it_has_by_then(client):
    """A worker opens a new model of its own, and finds it in the store at the same time."""
    service = client.app.state.service
    live, plain, slow = service.live, service.live._along, []

    async def along(row, way):
        model = await plain(row, way)
        if slow:
            await slow.pop().wait()
        return model

    async def both():
        await service.create("shop", ModelSpec(dim=2), "me")
        live._along, go = along, asyncio.Event()
        slow.append(go)
        row = live.models.pop("shop").row
        late = asyncio.create_task(live.open(row))
        while slow:
            await asyncio.sleep(0.01)
        there = await live.open(row)
        await write_offers(service, "shop", Offers(ROWS), "me", whole=True)
        go.set()
        return there, await late

    there, late = client.portal.call(both)
    assert late is there
    assert client.post(f"{SHOP}/decisions", json={}).status_code == 201


def test_a_shadow_has_the_offers_that_its_model_has_by_now(client):
    created(client, offers=ROWS, dim=2)
    client.post(f"{SHOP}/fork", json={"name": "twin", "shadow": True})
    client.patch(f"{SHOP}/offers", json={"offers": {"a": None, "c": [0.5, 0.5]}})
    played(client)
    assert client.get("/v1/models/twin").json()["rounds"] == 5
    client.post(f"{SHOP}/promote", json={"model": "twin"})
    assert [*client.get(f"{SHOP}/offers").json()["offers"]] == ["b", "c"]


def decider(path, offers=PRICES, **options):
    """A Decider that was saved, and what it contains."""
    table = [{"sku": name, **features} for name, features in offers.items()]
    made = ht.Decider(table, ids="sku", context={"basket": "number"}, **options)
    made.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("other", [{"dim": 2}, {"encoder": encoder().schema()}])
def test_a_model_that_needs_other_requests_cannot_take_over_a_name(client, tmp_path, other):
    client.put(SHOP, content=decider(tmp_path / "shop.ht"))
    client.put("/v1/models/other", json=other)
    answer = client.post(f"{SHOP}/promote", json={"model": "other"})
    assert refusal(answer) == (409, "other_requests", "model")
    assert client.get(SHOP).json()["policy"] == "Decider"
    if "encoder" in other:  # with offers of its own it takes a context, too
        client.put("/v1/models/other/offers", json={"offers": PRICES})
        assert client.post(f"{SHOP}/promote", json={"model": "other"}).status_code == 200
        assert client.post(f"{SHOP}/promote", json={"model": "other"}).status_code == 200


def test_vectors_of_another_length_may_take_over_where_the_service_keeps_the_offers(client):
    created(client, offers=ROWS, dim=2)
    client.put("/v1/models/long", json={"dim": 3})
    promoted = lambda: client.post(f"{SHOP}/promote", json={"model": "long"})  # noqa: E731
    assert refusal(promoted()) == (409, "other_requests", "model")
    client.put("/v1/models/long/offers", json={"offers": {"a": [1.0, 0.0, 0.0]}})
    assert promoted().json()["dim"] == 3
    assert client.post(f"{SHOP}/decisions", json={}).json()["id"] == "a"


def test_the_answer_to_a_change_of_offers_has_it_however_long_it_is_learned(
    client, tmp_path, monkeypatch
):
    client.put(SHOP, content=decider(tmp_path / "shop.ht"))
    monkeypatch.setattr(live, "SOON", 0.0)
    learn = DeciderModel.learn

    def slowly(self, outcomes, *reasons):
        time.sleep(0.3)
        learn(self, outcomes)

    monkeypatch.setattr(DeciderModel, "learn", slowly)
    answer = client.patch(f"{SHOP}/offers", json={"offers": {"c": {"price": 7.0}, "a": None}})
    assert (list(answer.json()["offers"]), answer.json()["retired"]) == (["b", "c"], ["a"])


def test_what_waits_is_named_where_nothing_counts_yet(client, tmp_path):
    client.put(SHOP, content=decider(tmp_path / "shop.ht"))
    client.patch(SHOP, json={"wait": 604_800.0, "default_reward": 0.0})
    client.post(f"{SHOP}/fork", json={"name": "b"})
    client.put(f"{SHOP}/split", json={"models": {"shop": 0.5, "b": 0.5}})
    for unit in range(60):
        body = {"context": {"basket": unit}, "unit": unit}
        made = client.post(f"{SHOP}/decisions", json=body).json()
        client.post(f"{SHOP}/rewards", json={"token": made["token"], "reward": 1.0})
    view = client.get(f"{SHOP}/split").json()
    assert sum(line["share"] for line in view["earned"]) == pytest.approx(1.0)
    assert all(line["share"] > 0.1 for line in view["earned"])
    assert "Decisions of the last 7 days (wait) do not count yet." in view["sentences"][0]
    words = client.get(f"{SHOP}/earned").json()["sentences"]
    assert "Means and bounds leave out decisions of the last 7 days (wait)." in words
    client.patch(SHOP, json={"wait": None, "default_reward": None})
    assert "wait" not in str(client.get(f"{SHOP}/earned").json()["sentences"])
