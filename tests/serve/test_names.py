"""Models that change their names, their logs and their offers while others work with them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import resource
import signal
import threading
import time

import pytest
from tests.serve.conftest import look, serving
from tests.serve.lineages import differing
from tests.serve.test_changes import OFFERS, code, learn, ok
from tests.serve.test_races import at_once
from tests.serve.test_service import ARMS, SHOP, decide, state

import heavytail as ht
from heavytail.ledger.postgres import PostgresStore
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.ledger.transaction import Transaction
from heavytail.serve.forking import fork, promote
from heavytail.serve.live import Live
from heavytail.serve.offering import write_offers
from heavytail.serve.wire import DecideAmongVectors, Fork, Offers, Reward

FORK = f"{SHOP}/fork"


def settle(client):
    """Let every model learn what it has yet to learn."""

    async def chased(live):
        while chasers := [
            model.chaser
            for model in live.models.values()
            if model.chaser and not model.chaser.done()
        ]:
            await asyncio.wait(chasers)

    client.portal.call(chased, client.app.state.service.live)


def shadow(client, policy=None):
    ok(client.post(FORK, json={"name": "b", "shadow": True, "policy": policy}))


@pytest.mark.parametrize("policy", [None, "HvtUCB"])
def test_a_promoted_shadow_learns_no_reward_that_the_old_model_gets_in_the_same_commit(
    client, where, policy
):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0, 5.0)
    shadow(client, policy)
    token = decide(client)["token"]
    done = at_once(
        client,
        lambda s: promote(s, "shop", "b", ""),
        lambda s: s.reward("shop", [Reward(token, -7.0)]),
    )
    assert not any(isinstance(each, BaseException) for each in done), done
    learn(client, 2.0, 3.0)
    assert differing(client.app.state.service.store, client) == []
    states = state(client), state(client, "b")
    client.__exit__(None, None, None)
    with serving(where) as again:
        assert (state(again), state(again, "b")) == states


@pytest.mark.parametrize("policy", [None, "HvtUCB"])
def test_a_promoted_shadow_goes_on_with_the_state_that_it_has(pair, policy):
    one, other = pair
    learn(one, 1.0, 5.0)
    shadow(one, policy)
    look(other)
    models = [each.app.state.service.models for each in pair]
    states = [each["b"] for each in models]
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    look(other)
    assert all(each["shop"] is before for each, before in zip(models, states, strict=True))
    learn(one, 2.0)
    look(other)
    assert state(one) == state(other)
    assert differing(one.app.state.service.store, one) == []


@pytest.mark.parametrize("policy", [None, "HvtUCB"])
def test_a_shadow_whose_promotion_failed_goes_on_learning(shop, monkeypatch, policy):
    learn(shop, 1.0, 5.0)
    shadow(shop, policy)
    with monkeypatch.context() as failing:
        failing.setattr(Transaction, "swap_names", broken_swap)
        assert shop.post(f"{SHOP}/promote", json={"model": "b"}).status_code == 503
    learn(shop, 2.0)
    settle(shop)
    assert ok(shop.get("/v1/models/b"))["shadow_of"] == "shop"
    assert ok(shop.get("/v1/models/b"))["version"] == 3
    assert differing(shop.app.state.service.store, shop) == []
    ok(shop.post(f"{SHOP}/promote", json={"model": "b"}))
    learn(shop, 3.0)
    assert differing(shop.app.state.service.store, shop) == []


@pytest.mark.parametrize("policy", [None, "HvtUCB"])
def test_a_worker_that_lags_when_the_old_model_is_deleted_reads_the_snapshot(pair, policy):
    one, other = pair
    learn(one, 1.0, 5.0)
    shadow(one, policy)
    look(other)
    settle(other)
    learn(one, 2.0, 3.0, -4.0)  # the other worker has not looked
    settle(one)
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    ok(one.post(f"{SHOP}/snapshots"))
    assert one.delete("/v1/models/b").status_code == 204
    learn(one, 7.0)
    for client in (other, one):
        look(client)
        settle(client)
    assert state(one) == state(other)
    learn(other, 9.0)
    look(one)
    assert ok(one.get(SHOP))["version"] == ok(other.get(SHOP))["version"] == 7
    assert state(one) == state(other)


def test_a_shadow_that_lags_far_behind_is_replaced_by_the_snapshot_of_its_promotion(pair):
    one, other = pair
    learn(one, 1.0, 5.0)
    shadow(one, "HvtUCB")
    look(other)
    settle(other)
    models = other.app.state.service.models
    lagging = models["b"]
    learn(one, *range(10))
    settle(one)
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    look(other)
    assert models["shop"] is not lagging
    assert (lagging.version, models["shop"].version) == (2, 12)
    assert models["shop"].snapshot_seq == 12
    assert state(one) == state(other)


def test_names_hold_while_a_promoted_model_is_read_before_the_promotion_is(pair):
    one, other = pair
    ok(one.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    look(other)
    service = other.app.state.service
    models = service.models
    policies = {name: model.spec.policy for name, model in models.items()}
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    other.portal.call(service.live.open, models["b"].row)
    assert {name: model.spec.policy for name, model in models.items()} == {
        "shop": policies["b"],
        "b": policies["shop"],
    }
    look(other)
    look(one)
    assert state(one) == state(other)
    assert state(one, "b") == state(other, "b")


def test_a_promoted_shadow_that_goes_on_is_not_replaced_by_one_that_is_being_loaded(shop):
    learn(shop, 1.0, 5.0)
    shadow(shop)
    service = shop.app.state.service
    live, promoted = service.live, service.models["b"]
    load, refresh = live._along, live.refresh

    async def late():
        """The look that a promotion ends with comes while the model is loaded."""

    async def along(row, way):
        model = await load(row, way)
        await refresh()
        return model

    live._along, live.refresh = along, late
    shop.portal.call(promote, service, "shop", "b", "")
    live._along, live.refresh = load, refresh
    assert service.models["shop"] is promoted
    learn(shop, 2.0)
    assert differing(live.store, shop) == []


def test_what_was_read_of_the_old_model_is_not_learned_after_the_promotion(shop):
    learn(shop, 1.0, 5.0)
    shadow(shop)
    live = shop.app.state.service.live
    promoted = live.models["b"]
    old, stretch = live.models["shop"].row.id, promoted.stretch
    ok(shop.post(f"{SHOP}/promote", json={"model": "b"}))
    learn(shop, 9.0, name="b")
    rows = live.store.outcomes(old, 2, 10)
    assert [row.reward for row in rows] == [9.0]
    shop.portal.call(live._learn, [(promoted, stretch, rows)])
    assert promoted.version == 2
    assert differing(live.store, shop) == []


def broken_swap(tx, old, new):
    raise OSError("no space left on the device")


def test_no_decision_is_refused_while_shadows_are_promoted_under_load(pair):
    one, other = pair
    learn(one, *range(200))
    stop, refused = threading.Event(), []

    def shop(client):
        while not stop.is_set():
            made = client.post(f"{SHOP}/decisions", json={"arms": ARMS})
            if made.status_code >= 300:
                refused.append(made.json())
                return
            client.post(f"{SHOP}/rewards", json={"token": made.json()["token"], "reward": 1.0})

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for client in (one, other):
            pool.submit(shop, client)
        try:
            for name, policy in (("b", None), ("c", "HvtUCB")):
                ok(one.post(FORK, json={"name": name, "shadow": True, "policy": policy}))
                look(other)
                settle(one)
                ok(one.post(f"{SHOP}/promote", json={"model": name}))
        finally:
            stop.set()
    assert refused == []
    look(one)
    look(other)
    assert state(one) == state(other)
    assert differing(one.app.state.service.store, one) == []


@pytest.mark.parametrize("policy", [None, "HvtUCB"])
def test_a_worker_that_has_not_seen_a_promotion_does_not_spoil_the_promoted_shadow(pair, policy):
    one, other = pair
    learn(one, 1.0, 5.0)
    shadow(one, policy)
    look(other)
    token = decide(other)["token"]
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    service = other.app.state.service
    other.portal.call(service.reward, "shop", [Reward(token, -7.0)])  # the shadow there learns it
    with contextlib.suppress(Refusal):
        other.portal.call(service.snapshot, "b", "asked for")
    learn(one, 2.0)
    look(other)
    look(one)
    assert state(one) == state(other)
    assert differing(service.store, one) == differing(service.store, other) == []


def test_a_change_after_a_promotion_reaches_the_promoted_model_whichever_worker_gets_it(pair):
    one, other = pair
    ok(one.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    look(other)
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    view = ok(other.patch(SHOP, json={"explore": 0.5}))
    assert (view["policy"], view["spec"]["explore"]) == ("HvtUCB", 0.5)
    assert "explore" not in ok(one.get("/v1/models/b"))["spec"]
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    ok(other.put(f"{SHOP}/offers", json={"offers": OFFERS}))
    look(one)
    assert ok(one.get(f"{SHOP}/offers"))["offers"] == OFFERS
    ok(one.post(f"{SHOP}/promote", json={"model": "b"}))
    assert ok(other.post(FORK, json={"name": "c"}))["policy"] == "HvtUCB"


def test_two_promotions_at_once_are_one_after_the_other(client):
    ok(client.put(SHOP, json={"dim": 3}))
    for name, policy in (("b", "HvtUCB"), ("c", None)):
        ok(client.post(FORK, json={"name": name, "policy": policy}))
    done = at_once(
        client,
        lambda s: promote(s, "shop", "b", ""),
        lambda s: promote(s, "shop", "c", ""),
        lambda s: s.reward("shop", [Reward("x", 1.0)]),
    )
    assert sum(isinstance(each, Refusal) for each in done[:2]) == 1
    store = client.app.state.service.store
    assert sorted(row.name for row in store.models()) == ["b", "c", "shop"]
    models = client.app.state.service.models
    assert {name: model.row.id for name, model in models.items()} == {
        row.name: row.id for row in store.models()
    }


def everything(token):
    """What others do while a model is promoted."""
    return {
        "decide": lambda s: s.decide("shop", [DecideAmongVectors(ARMS)]),
        "reward": lambda s: s.reward("shop", [Reward(token, 3.0)]),
        "delete": lambda s: s.delete("b", ""),
        "delete shop": lambda s: s.delete("shop", ""),
        "fork": lambda s: fork(s, "shop", Fork("c"), ""),
        "relearn": lambda s: fork(s, "shop", Fork("c", policy="HvtUCB"), ""),
        "shadow": lambda s: fork(s, "shop", Fork("c", shadow=True), ""),
        "offers": lambda s: write_offers(s, "shop", Offers(OFFERS), "", whole=True),
        "snapshot": lambda s: s.snapshot("b", "asked for"),
        "describe": lambda s: s.describe("b"),
        "restore": lambda s: s.restore("b", 1, ""),
    }


@pytest.mark.parametrize("verb", everything(""))
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shadowing", [True, False])
def test_what_happens_beside_a_promotion_leaves_all_states_as_the_log_says(
    client, where, verb, first, shadowing
):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0, 5.0)
    ok(client.post(FORK, json={"name": "b", "shadow": shadowing, "policy": "HvtUCB"}))
    if verb == "restore":
        ok(client.post("/v1/models/b/snapshots"))
    works = [
        lambda s: promote(s, "shop", "b", ""),
        everything(decide(client)["token"])[verb],
    ]
    done = at_once(client, *works) if first else at_once(client, *reversed(works))
    for each in done:
        assert not isinstance(each, BaseException) or isinstance(each, Refusal), each
    service = client.app.state.service
    assert {name: model.row.id for name, model in service.models.items()} == {
        row.name: row.id for row in service.store.models()
    }
    for name in list(service.models):
        if ok(client.get(f"/v1/models/{name}"))["shadow_of"] is None:
            learn(client, 4.0, name=name)
    settle(client)
    if verb != "restore":
        assert differing(service.store, client) == []
    states = {name: state(client, name) for name in service.models}
    client.__exit__(None, None, None)
    with serving(where) as again:
        assert {name: state(again, name) for name in states} == states


def test_a_shadow_that_has_yet_to_learn_the_log_is_not_promoted(client, monkeypatch):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, *map(float, range(10)))

    async def idle(self, model, *, last=None):
        return None

    with monkeypatch.context() as patch:
        patch.setattr(Live, "catch_up", idle)
        shadow(client, "HvtUCB")
        assert code(client.post(f"{SHOP}/promote", json={"model": "b"})) == (409, "learning")
    learn(client, 1.0)


def test_a_model_that_has_yet_to_learn_the_log_has_no_share(client, monkeypatch):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, *map(float, range(10)))

    async def idle(self, model, *, last=None):
        return None

    with monkeypatch.context() as patch:
        patch.setattr(Live, "catch_up", idle)
        ok(client.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
        shares = {"models": {"shop": 0.5, "b": 0.5}}
        assert code(client.put(f"{SHOP}/split", json=shares)) == (409, "learning")


def test_the_log_that_a_shadow_has_yet_to_learn_is_not_deleted(client, monkeypatch):
    """A shadow of a model that has learned another model's log."""
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0, 5.0)
    ok(client.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    ok(client.post("/v1/models/b/snapshots"))
    ok(client.post("/v1/models/b/fork", json={"name": "s", "policy": "TwinUCB", "shadow": True}))
    assert code(client.delete(SHOP)) == (409, "has_learner")
    ok(client.post("/v1/models/s/snapshots"))
    assert client.delete(SHOP).status_code == 204
    learn(client, 2.0, name="b")
    assert ok(client.get("/v1/models/s"))["rounds"] == 3


def test_a_fork_of_a_fork_of_a_deleted_model_is_no_log_to_learn(client, where):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0, 5.0)
    ok(client.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    learn(client, 2.0, name="b")
    ok(client.post("/v1/models/b/fork", json={"name": "c", "policy": "TwinUCB"}))
    learn(client, 3.0, name="c")
    ok(client.post("/v1/models/c/fork", json={"name": "d", "policy": "HvtUCB"}))
    assert differing(client.app.state.service.store, client) == []
    for name in "bcd":
        ok(client.post(f"/v1/models/{name}/snapshots"))
    assert client.delete(SHOP).status_code == 204
    for name in "bc":
        answer = client.post(f"/v1/models/{name}/fork", json={"name": "e", "policy": "HvtUCB"})
        assert code(answer) == (409, "no_log")
    learn(client, 1.0, name="d")
    states = {name: state(client, name) for name in "bcd"}
    client.__exit__(None, None, None)
    with serving(where) as again:
        assert {name: state(again, name) for name in "bcd"} == states


def test_a_worker_that_still_learns_a_log_that_is_gone_goes_on_from_a_snapshot(pair, monkeypatch):
    one, other = pair
    learn(one, 1.0, 5.0)
    ok(one.post(FORK, json={"name": "b", "policy": "HvtUCB"}))

    async def idle(self, model, *, last=None):
        return None

    with monkeypatch.context() as patch:
        patch.setattr(Live, "catch_up", idle)
        look(other)  # it has loaded the fork, and learned nothing yet
        settle(other)
    ok(one.post("/v1/models/b/snapshots"))
    assert one.delete(SHOP).status_code == 204
    learn(one, 4.0, name="b")
    look(other)
    settle(other)
    assert state(other, "b") == state(one, "b")


def test_a_worker_that_has_not_seen_the_end_of_a_split_decides_all_the_same(pair):
    one, other = pair
    ok(one.post(FORK, json={"name": "b"}))
    ok(one.put(f"{SHOP}/split", json={"models": {"shop": 0.0, "b": 1.0}}))
    look(other)
    assert one.delete(f"{SHOP}/split").status_code == 204
    assert one.delete("/v1/models/b").status_code == 204
    assert "model" not in decide(other)


def broken_reads(service, monkeypatch, after):
    """Let the store fail once after so many commits."""
    do, calls = service.commits.do, []

    async def failing(*args, **kwargs):
        calls.append(args)
        if len(calls) == after + 1:
            raise StoreError("the disk is full")
        return await do(*args, **kwargs)

    monkeypatch.setattr(service.commits, "do", failing)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_promotion_whose_answer_fails_holds(client, monkeypatch, after):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0)
    shadow(client)
    with monkeypatch.context() as patch:
        broken_reads(client.app.state.service, patch, after)
        answer = client.post(f"{SHOP}/promote", json={"model": "b"})
    assert answer.status_code in (200, 503)
    look(client)
    rows = client.app.state.service.store.models()
    models = client.app.state.service.models
    assert {name: m.row.id for name, m in models.items()} == {row.name: row.id for row in rows}
    learn(client, 3.0)
    if answer.status_code == 200 or rows[1].follows is None:
        learn(client, 4.0, name="b")
    settle(client)
    assert differing(client.app.state.service.store, client) == []


@pytest.mark.parametrize("after", [1, 2, 3])
def test_offers_whose_answer_fails_hold(client, monkeypatch, after):
    ok(client.put(SHOP, json={"dim": 3}))
    ok(client.put(f"{SHOP}/offers", json={"offers": OFFERS}))
    body = {"offers": {"z": [0.0, 0.0, 1.0]}}
    with monkeypatch.context() as patch:
        broken_reads(client.app.state.service, patch, after - 1)
        client.patch(f"{SHOP}/offers", json=body)
    ok(client.patch(f"{SHOP}/offers", json=body))
    assert ok(client.post(f"{SHOP}/decisions", json={"only": ["z"]}))["id"] == "z"


def crossed(address, write, delete_first=False):
    """Delete a model while another connection, which began before, refers to it."""
    store, other = PostgresStore(address), PostgresStore(address)
    ((row,), _) = store.apply([lambda tx: tx.create("a", '{"dim": 3}')])
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        store.stage([lambda tx: write(tx, row.id)])
        deleted = thread.submit(other.apply, [lambda tx: tx.delete(row.id)])
        with contextlib.suppress(TimeoutError, concurrent.futures.TimeoutError):
            deleted.result(timeout=0.5)
        store.end()
        (result,), _ = deleted.result(timeout=30.0)
    names = {each.id for each in store.models()}
    rest = store.models(), store.splits()
    for each in (store, other):
        each.close()
    return result, names, rest


def test_a_model_that_gets_a_shadow_meanwhile_is_not_deleted(address):
    def write(tx, model):
        tx.check_there(model)
        tx.create("s", '{"dim": 3}', follows=model)

    result, names, _ = crossed(address, write)
    assert isinstance(result, Refusal)
    assert names == {1, 2}


def shelf(client):
    rows = [{"sku": name, "price": 1.0} for name in "ab"]
    file = ht.Decider(rows, ids="sku", context=["segment"]).to_bytes()
    ok(client.put(SHOP, content=file))


def test_two_changes_of_a_deciders_offers_at_once_leave_an_offer(client):
    shelf(client)
    done = at_once(
        client,
        lambda s: write_offers(s, "shop", Offers({"a": None}), "", whole=False),
        lambda s: write_offers(s, "shop", Offers({"b": None}), "", whole=False),
    )
    assert sum(isinstance(each, Refusal) for each in done) == 1, done
    assert len(ok(client.get(f"{SHOP}/offers"))["offers"]) == 1
    ok(client.post(f"{SHOP}/decisions", json={"context": {"segment": "x"}}))
    assert differing(client.app.state.service.store, client) == []


def test_a_worker_that_has_not_seen_a_change_of_a_deciders_offers_leaves_an_offer(address):
    with serving(address) as one, serving(address) as other:
        shelf(one)
        look(other)
        ok(one.patch(f"{SHOP}/offers", json={"offers": {"a": None}}))
        write = write_offers(other.app.state.service, "shop", Offers({"b": None}), "", whole=False)
        with pytest.raises(Refusal):
            other.portal.call(lambda: write)
        look(one)
        ok(one.post(f"{SHOP}/decisions", json={"context": {"segment": "x"}}))


def test_a_request_for_a_model_that_was_replaced_by_another_kind_is_refused(pair):
    one, other = pair
    look(other)
    assert one.delete(SHOP).status_code == 204
    shelf(one)
    answer = other.post(f"{SHOP}/decisions", json={"arms": ARMS})
    assert code(answer) == (409, "other_requests")


def test_the_reward_of_a_broken_model_under_another_name_is_to_be_sent_again(client, where):
    ok(client.put(SHOP, json={"dim": 3}))
    token = decide(client)["token"]
    ok(client.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    ok(client.post(f"{SHOP}/promote", json={"model": "b"}))
    store = client.app.state.service.store
    store.rows('UPDATE model SET spec = \'{"dim":3,"policy":"Nope"}\' WHERE id = 1')
    client.__exit__(None, None, None)
    with serving(where) as again:
        body = {"token": token, "reward": 1.0}
        assert again.post(f"{SHOP}/rewards", json=body).status_code == 503


def test_a_full_disk_refuses_files_offers_and_forks_and_goes_on_when_there_is_room(tmp_path):
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with serving(tmp_path / "store") as client:
            ok(client.put(SHOP, json={"dim": 3}))
            learn(client, 1.0)
            calls = [
                ("PUT", "/v1/models/u", {"content": ht.TwinUCB(3).to_bytes()}),
                ("PUT", f"{SHOP}/offers", {"json": {"offers": OFFERS}}),
                ("POST", FORK, {"json": {"name": "b", "policy": "HvtUCB"}}),
                ("POST", FORK, {"json": {"name": "s", "shadow": True}}),
                ("POST", f"{SHOP}/promote", {"json": {"model": "s"}}),
                ("PATCH", SHOP, {"json": {"explore": 0.5}}),
                ("PUT", f"{SHOP}/split", {"json": {"models": {"shop": 1.0}}}),
            ]
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            for verb, path, more in calls:
                status = client.request(verb, path, **more).status_code
                assert status == (404 if path.endswith("promote") else 503), (verb, path)
            assert [*client.app.state.service.models] == ["shop"]
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            for verb, path, more in calls:
                ok(client.request(verb, path, **more))
            learn(client, 2.0, context={})
            assert differing(client.app.state.service.store, client) == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)


def test_the_default_reward_changes_while_decisions_expire(client):
    ok(client.put(SHOP, json={"dim": 3, "wait": 0.2, "default_reward": 0.0}))
    for value in (1.0, None, 2.0):
        for _ in range(5):
            decide(client)
        ok(client.patch(SHOP, json={"default_reward": value}))
    time.sleep(0.3)
    client.portal.call(client.app.state.service.chores.give_up)
    view = ok(client.get(SHOP))
    assert view["pending"] == 0
    assert differing(client.app.state.service.store, client) == []


def test_a_model_with_an_origin_is_set_back_and_stays_so(client, where):
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0, 5.0)
    ok(client.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    learn(client, 2.0, name="b")
    number = ok(client.post("/v1/models/b/snapshots"))["snapshot"]
    kept = state(client, "b")
    learn(client, -9.0, name="b")
    ok(client.post("/v1/models/b/restore", json={"snapshot": number}))
    assert state(client, "b") == kept
    learn(client, 3.0, name="b")
    kept = state(client, "b")
    client.__exit__(None, None, None)
    with serving(where) as again:
        assert state(again, "b") == kept


def test_a_shadow_that_learns_several_logs_learns_of_each_only_its_part(client, monkeypatch):
    """A reward for the first model comes while the shadow still learns that one's part."""
    ok(client.put(SHOP, json={"dim": 3}))
    learn(client, 1.0, 5.0)
    token = decide(client)["token"]
    ok(client.post(FORK, json={"name": "b", "policy": "HvtUCB"}))
    ok(client.post(f"{SHOP}/promote", json={"model": "b"}))
    learn(client, 2.0, 3.0)

    async def idle(self, model, *, last=None):
        return None

    with monkeypatch.context() as patch:
        patch.setattr(Live, "catch_up", idle)
        ok(client.post(FORK, json={"name": "s", "policy": "TwinUCB", "shadow": True}))
        ok(client.post(f"{SHOP}/rewards", json={"token": token, "reward": -7.0}))
    learn(client, 4.0)
    settle(client)
    assert differing(client.app.state.service.store, client) == []
