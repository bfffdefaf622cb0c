"""The client: the library's verbs, again until they are answered, and counted once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect

import httpx
import numpy as np
import pytest
from tests.serve.test_service import ARMS

import heavytail as ht
from heavytail import answers
from heavytail.client import AsyncRemoteModel, NoAnswer, Refused, RemoteChoice, RemoteModel
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.serve import wire


class Flaky:
    """A connection that loses requests and answers, by turns."""

    def __init__(self, client, faults):
        self.client, self.faults = client, list(faults)

    def request(self, **told):
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "down":
            raise httpx.ConnectError("nobody there")
        answer = self.client.request(**told)
        if fault == "lost":  # it was done, and nobody heard
            raise httpx.ReadError("gone")
        return httpx.Response(503, json={"code": "store"}) if fault == "busy" else answer

    @contextlib.contextmanager
    def stream(self, **told):
        fault = self.faults.pop(0) if self.faults else ""
        with self.client.stream(**told) as answer:
            if fault == "torn":
                answer.iter_bytes = torn(answer.iter_bytes)
            yield answer


def torn(pieces):
    """The first bytes, and then nothing."""

    def some(size):
        yield next(pieces(size))[:10]
        raise httpx.ReadError("gone")

    return some


def remote(client, *faults, patience=10.0):
    return ht.Client("http://127.0.0.1:8080", http=Flaky(client, faults), patience=patience)


def test_the_verbs_of_the_library(client):
    shop = remote(client).create("shop", dim=3)
    made = shop.decide(np.array(ARMS), ids=["a", "b", "c"], explore=0.1)
    assert made.id == "abc"[made.arm]
    assert shop.learn(made, np.float64(2.0)) == 1
    assert shop.learn(made, 2.0) == 0
    many = shop.decide_many([ARMS, ARMS])
    assert shop.learn(many, [1.0, 3.0]) == 2
    assert len(shop.predict(ARMS)["mean"]) == 3
    assert shop.explain(ARMS)["arm"] in (0, 1, 2)
    assert shop.diagnostics()["rounds"] == 3
    number = shop.snapshot()
    twin = shop.fork("twin", shadow=True)
    shop.learn(shop.decide(ARMS), 5.0)
    assert twin.describe()["rounds"] == 4
    shop.restore(number)
    assert shop.describe()["rounds"] == 3
    shop.pause()
    with pytest.raises(Refused, match="paused") as refused:
        shop.decide(ARMS)
    assert (refused.value.status, refused.value.code) == (409, "paused")
    twin.delete()
    assert [one["name"] for one in remote(client).models()] == ["shop"]


def test_what_is_sent_again_counts_once(client):
    remote(client).create("shop", dim=3)
    faults = ["down", "lost", "busy", ""]
    shop = remote(client, *faults, *faults).model("shop")
    made = shop.decide(ARMS)
    assert shop.learn(made, 2.0) == 0  # it was new the first time, when nobody heard
    seen = shop.describe()
    assert (seen["decisions"], seen["rounds"]) == (1, 1)


def test_patience_ends(client):
    words = r"^http://127.0.0.1:8080: no answer within 0.2 s \(nobody there\)\. Start `heavyt"
    with pytest.raises(NoAnswer, match=words) as caught:
        remote(client, *["down"] * 100, patience=0.2).models()
    assert (caught.value.url, caught.value.done) == ("http://127.0.0.1:8080", False)
    with pytest.raises(Refused):
        remote(client, *["busy"] * 100, patience=0.2).models()


def test_what_must_not_be_done_twice_is_not_sent_again(client):
    shop = remote(client).create("shop", dim=3)
    with pytest.raises(NoAnswer, match=r"may have been processed\. Check before you") as caught:
        remote(client, "lost").model("shop").snapshot()
    assert caught.value.done is None
    with pytest.raises(NoAnswer) as caught:  # the first try may have been done
        remote(client, "lost", *["down"] * 100, patience=0.2).model("shop").decide(ARMS)
    assert caught.value.done is None
    assert remote(client, "down").model("shop").snapshot() == 2
    shop.delete()


ROWS = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0]}


def test_a_saved_model_is_uploaded_as_a_path_as_bytes_or_as_it_is(client, tmp_path):
    policy, path = ht.TwinUCB(3), tmp_path / "policy.npz"
    policy.save(path)
    here = remote(client, "lost")  # sent again, it is the same model
    shop = here.upload("shop", policy)
    for saved in (path, str(path), path.read_bytes()):
        assert here.upload("shop", saved).describe()["created"] == shop.describe()["created"]
    shop.set_offers(ROWS)
    shop.learn(shop.decide(), 2.0)
    twin = here.upload("twin", policy, learn="shop")
    assert (twin.describe()["rounds"], twin.describe()["learning"]) == (1, None)
    assert list(twin.offers()["offers"]) == ["a", "b"]
    with pytest.raises(Refused, match="no model with this name") as refused:
        here.upload("other", policy, learn="no")
    assert refused.value.field == "learn"
    with pytest.raises(TypeError, match=r"Client\.upload: pass a Decider or a policy, or the path"):
        here.upload("other", 3)
    with pytest.raises(FileNotFoundError):
        here.upload("other", tmp_path / "missing.npz")
    with pytest.raises(ValueError, match="a model's name must consist"):
        here.upload("other", policy, learn="a&b#")


def test_decisions_among_the_offers_of_a_model(client):
    encoder = ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)})
    shop = remote(client, "lost").create("shop", encoder=encoder)
    shop.set_offers({"a": {"price": np.float64(5.0)}, "b": {"price": 9.0}})
    choice = shop.decide({"age": 30}, only=["b"], unit=7, explore=0.1)
    assert isinstance(choice, RemoteChoice)
    assert (choice.id, choice.probability, choice.why, choice.model) == ("b", 1.0, "", None)
    assert shop.learn(choice, 2.0) == 1
    many = shop.decide_many([{"age": 30}, {"age": 50}], units=["u", "v"])
    assert all(isinstance(each, RemoteChoice) for each in many)
    assert shop.predict({"age": 30})["ids"] == ["a", "b"]
    assert shop.explain({"age": 30})["id"] in ("a", "b")
    among = shop.decide([{"price": 1.0}], context={"age": 30})
    assert (among.arm, among.id) == (0, None)
    plain = remote(client).create("plain", dim=3)
    plain.set_offers({name: np.array(row) for name, row in ROWS.items()})
    assert plain.decide().expected == 0.0
    assert plain.predict()["ids"] == plain.predict({})["ids"] == ["a", "b"]
    assert plain.explain()["id"] in ROWS


def test_settings_and_offers_change(client):
    shop = remote(client, "lost").create("shop", dim=3)
    spec = remote(client, "lost").model("shop").change(explore=0.25, wait=60.0)["spec"]
    assert (spec["explore"], spec["wait"]) == (0.25, 60.0)
    assert "wait" not in shop.change(wait=None)["spec"]
    assert remote(client, "lost").model("shop").set_offers(ROWS)["offers"] == ROWS
    more = {"c": [0.0, 0.0, 1.0]}
    assert remote(client, "lost").model("shop").change_offers(more)["number"] == 2
    with pytest.raises(NoAnswer) as lost:  # it would be refused the second time
        remote(client, "lost").model("shop").change_offers({"a": None})
    assert lost.value.done is None
    assert list(shop.offers()["offers"]) == ["b", "c"]


def test_names_are_swapped_and_shared(client):
    shop = remote(client).create("shop", dim=3)
    twin = shop.fork("twin", options={"arm_bound": 2.0})
    made = shop.decide(ARMS)
    assert shop.promote("twin")["spec"]["options"] == {"arm_bound": 2.0}
    assert shop.learn(made, 2.0) == 1
    assert (twin.describe()["rounds"], shop.describe()["rounds"]) == (1, 0)
    remote(client, "lost").model("shop").promote("twin")  # sent twice, and done once
    assert shop.describe()["rounds"] == 1
    shares = remote(client, "lost").model("shop").set_split({"shop": 0.5, "twin": 0.5})
    assert shares == shop.split()
    assert shares["models"] == {"shop": 0.5, "twin": 0.5}
    models = {shop.decide(ARMS, unit=unit).model for unit in range(40)}
    assert models == {"shop", "twin"}
    same = {shop.decide(ARMS, unit="u").model for _ in range(5)}
    assert len(same) == 1
    assert {made.model for made in shop.decide_many([ARMS] * 3, units=["u"] * 3)} == same
    with pytest.raises(NoAnswer):
        remote(client, "lost").model("shop").end_split()
    with pytest.raises(Refused, match="not split"):
        shop.split()


def test_a_fork_has_another_encoder(client):
    encoder = ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)})
    shop = remote(client).create("shop", encoder=encoder)
    shop.set_offers({"a": {"price": 5.0}, "b": {"price": 9.0}})
    shop.learn(shop.decide({"age": 30, "device": "phone"}), 2.0)
    more = ht.Encoder(
        numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)}, categories={"device": ["phone", "pc"]}
    )
    twin = shop.fork("twin", encoder=more).describe()
    assert (twin["rounds"], twin["dim"]) == (1, more.dim)


@pytest.mark.parametrize("name", ["", "a/b", "..", 3, "a?b", "a%2Fb"])
def test_names_never_become_paths(client, name):
    with pytest.raises(ValueError, match="a model's name must consist"):
        remote(client).model(name)
    with pytest.raises(ValueError, match="a key's name must consist"):
        remote(client).revoke_key(name)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "", None, "ftp://here"])
def test_what_is_no_address_is_refused_at_once(url):
    with pytest.raises(ValueError, match="Client: url must begin with http"):
        ht.Client(url)


def test_the_log_and_a_snapshot_become_files(client, tmp_path):
    shop = remote(client, *[""] * 42, "torn").create("shop", dim=3)
    for i in range(20):
        shop.learn(shop.decide(ARMS, explore=0.5), float(i))
    log, kept = tmp_path / "log.parquet", tmp_path / "policy.npz"
    log.write_text("older")
    number = shop.snapshot()
    shop.save_log(log)  # torn at first, and asked for again
    assert ht.evaluate(log, ht.Uniform(3)).rows == 20
    assert [one["snapshot"] for one in shop.snapshots()] == [number]
    shop.save(kept, number)
    assert ht.load(kept).rounds == 20
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["log.parquet", "policy.npz"]


def test_a_file_stays_where_a_new_one_does_not_come(client, tmp_path):
    shop = remote(client).create("shop", dim=3)
    path = tmp_path / "log.parquet"
    path.write_text("older")
    torn = remote(client, *["torn"] * 100, patience=0.2).model("shop")
    with pytest.raises(NoAnswer, match="no answer within"):
        torn.save_log(path)
    with pytest.raises(Refused, match="no snapshot 7"):
        shop.save(path, 7)
    with pytest.raises(TypeError, match=r"RemoteModel\.save: snapshot must be a whole number"):
        shop.save(path, "../log")
    with pytest.raises(FileNotFoundError, match="Make it first"):
        shop.save_log(tmp_path / "nowhere" / "log.parquet")
    assert path.read_text() == "older"
    assert [one.name for one in tmp_path.glob("*.*")] == ["log.parquet"]


def test_keys_are_made_listed_and_revoked(client):
    one = remote(client)
    key = one.new_key("ops", ["admin"])
    with pytest.raises(Refused, match="Send your key"):
        one.models()
    two = ht.Client("http://127.0.0.1:8080", key=key, http=client)
    two.new_key("web", ("read", "decide"))
    ops, web = two.keys()
    assert (ops["name"], web["name"]) == ("ops", "web")
    assert web["scopes"] == ["decide", "read"]
    two.revoke_key("web")
    (ops,) = two.keys()
    assert ops["name"] == "ops"
    with pytest.raises(Refused, match="no valid key with this name"):
        two.revoke_key("web")


def test_what_is_asked_about_has_ids_as_what_is_decided(client):
    encoder = ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)})
    shop = remote(client).create("shop", encoder=encoder)
    arms, ids = [{"price": 5.0}, {"price": 9.0}], ["a", "b"]
    told = shop.explain(arms, ids=ids, context={"age": 30})
    assert told["id"] == ids[told["arm"]]
    assert "id" not in shop.explain(arms, context={"age": 30})
    assert len(shop.predict(arms, ids=ids, context={"age": 30})["mean"]) == 2
    for ask in (shop.predict, shop.explain):
        with pytest.raises(Refused, match="2 arms need as many ids; got 1"):
            ask(arms, ids=["a"], context={"age": 30})


def test_the_same_verbs_are_awaited(client, tmp_path):
    async def main():
        transport = httpx.ASGITransport(client.app)
        async with (
            httpx.AsyncClient(transport=transport) as http,
            ht.AsyncClient("http://127.0.0.1:8080", http=http) as one,
        ):
            shop = await one.create("shop", dim=3)
            made = await shop.decide(ARMS)
            learned = await shop.learn(made, 1.0)
            await shop.save_log(tmp_path / "log.parquet")
            await shop.save(tmp_path / "policy.npz", await shop.snapshot())
            with pytest.raises(Refused, match="no snapshot 7"):
                await shop.save(tmp_path / "policy.npz", 7)
            await shop.set_offers(ROWS)
            await shop.change_offers({"a": None})
            assert list((await shop.offers())["offers"]) == [(await shop.decide()).id] == ["b"]
            await one.upload("twin", ht.TwinUCB(3), learn="shop")
            assert (await shop.change(explore=0.5))["spec"]["explore"] == 0.5
            shares = await shop.set_split({"shop": 0.5, "twin": 0.5})
            assert await shop.split() == shares
            assert (await shop.decide(unit=1)).model in ("shop", "twin")
            await shop.end_split()
            await shop.promote("twin")
            await shop.promote("twin")
            return learned, (await shop.describe())["rounds"], await one.keys()

    assert client.portal.call(main) == (1, 1, [])
    assert ht.load(tmp_path / "policy.npz").rounds == 1
    assert (tmp_path / "log.parquet").read_bytes() == client.get("/v1/models/shop/log").content
    assert asyncio.iscoroutinefunction(ht.AsyncClient.close)


@pytest.mark.parametrize("name", sorted({*answers.__all__} & {*wire.__all__}))
def test_the_types_of_answers_have_the_fields_that_the_service_sends(name):
    assert getattr(answers, name).__annotations__.keys() == {*getattr(wire, name).__struct_fields__}


def test_a_decision_and_the_changes_of_a_fork_have_the_fields_of_the_service():
    sent = {field.name for field in dataclasses.fields(answers.RemoteDecision)}
    assert sent == {*wire.Decided.__struct_fields__}
    choice = {field.name for field in dataclasses.fields(RemoteChoice)}
    assert choice == {*wire.Chosen.__struct_fields__}
    changes = answers.ForkChanges.__annotations__.keys() | {"name"}
    assert changes == {*wire.Fork.__struct_fields__}
    changes = answers.ModelChanges.__annotations__.keys()
    assert changes == {*wire.ModelChange.__struct_fields__}


def test_answers_are_of_their_types(client):
    shop = remote(client).create("shop", dim=3)
    shop.snapshot()
    seen = shop.describe()
    assert seen.keys() == answers.ModelView.__annotations__.keys()
    assert seen["diagnostics"].keys() == answers.Diagnostics.__annotations__.keys()
    own = {"faults", "refused", "refusals", "staleness"}
    policys = {field.name for field in dataclasses.fields(Diagnostics)} - {"pending"}
    assert seen["diagnostics"].keys() == policys | own
    assert seen["spec"].keys() <= answers.ModelSpec.__annotations__.keys()
    assert shop.predict(ARMS).keys() == answers.Predicted.__annotations__.keys()
    assert shop.explain(ARMS, ids=[1, 2, 3]).keys() == answers.Explained.__annotations__.keys()
    assert shop.snapshots()[0].keys() == answers.SnapshotView.__annotations__.keys()


@pytest.mark.parametrize(
    ("one", "two"), [(ht.Client, ht.AsyncClient), (RemoteModel, AsyncRemoteModel)]
)
def test_both_clients_have_the_same_verbs(one, two):
    def verbs(kind):
        return {
            name: list(inspect.signature(verb).parameters.values())
            for name, verb in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert verbs(one) == verbs(two)
    awaited = {name for name in verbs(two) if inspect.iscoroutinefunction(getattr(two, name))}
    assert verbs(two).keys() - awaited <= {"model"}


def test_many_decisions_need_many_rewards(client):
    shop = remote(client).create("shop", dim=3)
    made = shop.decide_many([ARMS, ARMS])
    with pytest.raises(TypeError, match=r"many decisions need a reward each; got 1\.0"):
        shop.learn(made, 1.0)
    with pytest.raises(TypeError, match=r"many decisions need a scale each; got 2\.0"):
        shop.learn(made, [1.0, 0.0], scale=2.0)
