"""A model begins with a log: the state is that of the library, and a refusal changes nothing."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.serve.conftest import look, serving
from tests.serve.lineages import differing
from tests.serve.test_service import SHOP, state

import heavytail as ht
from heavytail.ledger.refusal import StoreError
from heavytail.serve import lesson, teaching
from heavytail.serve.service import Limits
from heavytail.serve.wire import DecideAmongVectors

LOG = f"{SHOP}/log"
ARMS = np.eye(3)


def parquet(columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def columns(rows=40, seed=1, **others):
    """A log of decisions among three arms."""
    rng = np.random.default_rng(seed)
    return {
        "action": rng.integers(0, 3, rows),
        "reward": rng.standard_t(2.0, rows),
        "propensity": np.full(rows, 1 / 3),
        "arms": [ARMS.tolist()] * rows,
    } | others


def visits(rows=60):
    rng = np.random.default_rng(2)
    return {
        "sku": rng.choice(["a", "b", "gone"], rows).tolist(),
        "reward": rng.pareto(1.5, rows).tolist(),
        "segment": rng.choice(["new", "old"], rows).tolist(),
        "propensity": [0.5] * rows,
        "time": np.arange(float(rows)).tolist(),
    }


def decider():
    return ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["segment"])


def refused(answer):
    fault = answer.json()
    return answer.status_code, fault["code"]


def learned_offline(log):
    policy = ht.TwinUCB(3)
    policy.update_many(ARMS[log["action"]], log["reward"])
    return policy.to_bytes()


def everything(client):
    """What the store has of all models."""
    service = client.app.state.service

    def rows(tx):
        return [
            (row, tx.store.snapshots(row.id), tx.store.decisions(row.id))
            for row in tx.store.models()
        ]

    return client.portal.call(service.commits.do, rows), state(client)


def test_a_policy_learns_a_log_as_the_library_does_and_goes_on(shop, where):
    log = columns()
    answer = shop.post(LOG, content=parquet(log))
    assert answer.status_code == 201
    assert answer.json()["sentences"] == ["40 rows learned"]
    assert state(shop) == learned_offline(log)
    assert shop.get(SHOP).json()["rounds"] == 40
    made = shop.post(f"{SHOP}/decisions", json={"arms": ARMS.tolist()}).json()
    sent = {"token": made["token"], "reward": 2.5}
    assert shop.post(f"{SHOP}/rewards", json=sent).status_code == 202
    after = ht.TwinUCB(3)
    after.update_many(ARMS[log["action"]], log["reward"])
    after.update(ARMS[made["arm"]], 2.5)
    assert state(shop) == after.to_bytes()
    assert differing(shop.app.state.service.store, shop) == []
    shop.__exit__(None, None, None)
    with serving(where) as again:
        assert state(again) == after.to_bytes()
        assert again.get(SHOP).json()["version"] == 1


def test_a_decider_learns_a_log_as_the_library_does(client):
    begun, log = decider(), parquet(visits())
    assert client.put(SHOP, content=begun.to_bytes()).status_code == 201
    answer = client.post(LOG, content=log)
    offline = decider()
    words = str(offline.learn(pa.table(visits()), progress=False)).split("\n")
    assert (answer.status_code, answer.json()["sentences"]) == (201, words)
    assert any("no such offer here: gone" in line for line in words)
    assert state(client) == offline.to_bytes()


@pytest.mark.parametrize("kind", ["policy", "decider"])
def test_the_log_of_a_service_and_of_a_decision_log_are_learned(client, tmp_path, kind):
    if kind == "policy":
        path = tmp_path / "log.parquet"
        policy, other = ht.TwinUCB(3), ht.TwinUCB(3)
        with ht.DecisionLog(tmp_path / "log") as log:
            for value in (1.0, 4.0, None, -2.0):
                decision = policy.decide(ARMS, explore=0.5)
                log.decided(decision, ARMS)
                if value is not None:
                    log.rewarded(decision, value)
                    other.update(decision.x, value)
            log.export(path)
        client.put(SHOP, json={"dim": 3})
        answer = client.post(LOG, content=path.read_bytes()).json()
        assert answer["sentences"] == [
            "3 rows learned",
            "1 left out: they have no reward",
        ]
    else:
        other = decider()
        client.put("/v1/models/old", content=decider().to_bytes())
        for value in (1.0, 3.0):
            made = client.post("/v1/models/old/decisions", json={"context": {"segment": "new"}})
            body = {"token": made.json()["token"], "reward": value}
            client.post("/v1/models/old/rewards", json=body)
        content = client.get("/v1/models/old/log").content
        (tmp_path / "log.parquet").write_bytes(content)
        other.learn(tmp_path / "log.parquet", progress=False)
        client.put(SHOP, content=decider().to_bytes())
        assert client.post(LOG, content=content).status_code == 201
    assert state(client) == other.to_bytes()


def test_the_same_log_again_is_answered_again_and_another_is_refused(shop):
    log, other = parquet(columns()), parquet(columns(seed=2))
    first = shop.post(LOG, content=log)
    assert shop.post(LOG, content=log).json() == first.json()
    assert refused(shop.post(LOG, content=other)) == (409, "has_begun")
    shop.post(f"{SHOP}/decisions", json={"arms": ARMS.tolist()})
    before = everything(shop)
    again = shop.post(LOG, content=log)
    assert (again.status_code, again.json()) == (200, first.json())
    assert everything(shop) == before


def test_a_model_that_has_begun_otherwise_takes_no_log(client):
    log = parquet(columns())
    for name in ("a", "b"):
        client.put(f"/v1/models/{name}", json={"dim": 3})
    client.post("/v1/models/a/decisions", json={"arms": ARMS.tolist()})
    assert refused(client.post("/v1/models/a/log", content=log)) == (409, "has_begun")
    number = client.post("/v1/models/b/snapshots").json()["snapshot"]
    client.post("/v1/models/b/restore", json={"snapshot": number})
    assert refused(client.post("/v1/models/b/log", content=log)) == (409, "has_begun")
    for body in ({"name": "s", "shadow": True}, {"name": "l", "policy": "HvtUCB"}):
        assert client.post("/v1/models/a/fork", json=body).status_code == 201
        answer = client.post(f"/v1/models/{body['name']}/log", content=log)
        assert refused(answer) == (409, "another_log")
    assert refused(client.post("/v1/models/none/log", content=log)) == (404, "no_model")
    client.put(SHOP, content=decider().to_bytes())
    client.patch(f"{SHOP}/offers", json={"offers": {"c": {}}})
    answer = client.post(LOG, content=parquet(visits()))
    assert refused(answer) == (409, "has_begun")


BAD = {
    "not Parquet": (b"action,reward\n0,1\n", "must be a Parquet file"),
    "empty": (b"", "must be a Parquet file"),
    "only a head": (b"PAR1", "damaged"),
    "cut short": (parquet(columns())[:-30], "damaged"),
    "no arms": (parquet({k: v for k, v in columns().items() if k != "arms"}), "no column 'arms'"),
    "no rewards": (parquet(columns(0)), "no row with a reward"),
    "another width": (parquet(columns(1, arms=[[[1.0, 0.0]] * 3])), "2 features; the model has 3"),
    "propensity": (parquet(columns(3, propensity=[0.5, 0.0, 1.0])), "propensity"),
    "reward": (parquet(columns(3, reward=[0.5, np.nan, 1.0])), "row 1, column 'reward'"),
    "null": (parquet(columns(3, reward=[0.5, None, 1.0])), "is null"),
    "action": (parquet(columns(3, action=[0, 3, 1])), "action"),
    "too long a vector": (parquet(columns(1, arms=[(9 * ARMS).tolist()])), "arm"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_log_is_refused_in_words(tmp_path, what):
    content, words = BAD[what]
    (tmp_path / lesson.LOG).write_bytes(content)
    (tmp_path / lesson.STATE).write_bytes(ht.TwinUCB(3).to_bytes())
    (said,) = lesson.main(str(tmp_path))["refused"]
    assert words in said
    assert str(tmp_path) not in said
    assert (tmp_path / lesson.STATE).read_bytes() == ht.TwinUCB(3).to_bytes()


def test_a_refused_log_changes_nothing(shop):
    before = everything(shop)
    for what in ("cut short", "propensity"):
        answer = shop.post(LOG, content=BAD[what][0])
        assert refused(answer) == (422, "bad_log")
        assert BAD[what][1] in answer.json()["message"]
    assert everything(shop) == before
    assert shop.post(LOG, content=parquet(columns())).status_code == 201


def test_a_file_that_unpacks_to_very_much_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lesson, "MOST_VALUES", 1000)
    (tmp_path / lesson.LOG).write_bytes(parquet(columns(rows=200)))
    (tmp_path / lesson.STATE).write_bytes(ht.TwinUCB(3).to_bytes())
    assert "at most 1,000 are read" in lesson.main(str(tmp_path))["refused"][0]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit a process")
def test_a_small_file_with_one_text_in_every_row_does_not_take_the_memory(tmp_path):
    rows, text = 4096, pa.array(["s" * 2**24])
    same = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), text)
    log = {"sku": ["a"] * rows, "reward": np.ones(rows), "segment": same}
    stream = io.BytesIO()
    pq.write_table(pa.table(log), stream, compression="zstd", store_schema=False)
    assert len(stream.getvalue()) < 10_000
    (tmp_path / lesson.LOG).write_bytes(stream.getvalue())
    (tmp_path / lesson.STATE).write_bytes(decider().to_bytes())
    command = [sys.executable, "-m", "heavytail.serve.lesson", str(tmp_path)]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert "failed" in answer["refused"][0]


def test_what_is_said_of_a_log_repeats_no_long_text_of_it(tmp_path):
    log = visits(3) | {"sku": ["a", "b", "s" * 10**5]}
    (tmp_path / lesson.LOG).write_bytes(parquet(log))
    (tmp_path / lesson.STATE).write_bytes(decider().to_bytes())
    said = lesson.main(str(tmp_path))["sentences"]
    assert max(map(len, said)) == lesson.LONGEST + len(" ...")


def test_a_file_that_ends_its_reader_ends_nothing_else(shop, monkeypatch):
    monkeypatch.setattr(teaching.sys, "executable", "/bin/false")
    answer = shop.post(LOG, content=parquet(columns()))
    assert refused(answer) == (422, "bad_log")
    assert "crashes its reader" in answer.json()["message"]


def test_a_store_that_fails_keeps_nothing_of_a_log(shop, monkeypatch):
    before = everything(shop)
    store = shop.app.state.service.store
    with monkeypatch.context() as patch:
        commit = store.commit

        def fails():
            if store.rows("SELECT 1 FROM audit WHERE what LIKE 'learn a log%'"):
                raise StoreError("full")
            commit()

        patch.setattr(store, "commit", fails)
        assert shop.post(LOG, content=parquet(columns())).status_code == 503
    assert everything(shop) == before
    assert shop.post(LOG, content=parquet(columns())).status_code == 201


def test_a_decision_that_comes_meanwhile_is_kept_and_the_log_is_refused(shop, monkeypatch):
    work = teaching._in_a_process

    async def slow(*args):
        await shop.app.state.service.decide("shop", [DecideAmongVectors(ARMS.tolist())])
        return await work(*args)

    monkeypatch.setattr(teaching, "_in_a_process", slow)
    assert refused(shop.post(LOG, content=parquet(columns()))) == (409, "has_begun")
    assert shop.get(SHOP).json()["decisions"] == 1
    assert state(shop) == ht.TwinUCB(3).to_bytes()


def test_a_request_that_is_sent_again_meanwhile_waits_for_the_first(shop, monkeypatch):
    work, calls = teaching._in_a_process, []
    monkeypatch.setattr(teaching, "_in_a_process", lambda *a: (calls.append(1), work(*a))[1])
    service, log = shop.app.state.service, parquet(columns())

    async def both():
        lessons = (teaching.teach(service, "shop", log, "me") for _ in range(3))
        return await asyncio.gather(*lessons)

    answers = shop.portal.call(both)
    assert len(calls) == 1
    assert len({tuple(learned.sentences) for _, learned in answers}) == 1
    assert service.lessons == {}


def test_logs_of_several_models_are_read_one_at_a_time(shop, monkeypatch):
    work, now, most = teaching._in_a_process, [], []

    async def counted(*arguments):
        now.append(1)
        most.append(len(now))
        try:
            return await work(*arguments)
        finally:
            now.pop()

    monkeypatch.setattr(teaching, "_in_a_process", counted)
    names = ["shop", "b", "c"]
    for name in names[1:]:
        shop.put(f"/v1/models/{name}", json={"dim": 3})

    async def all_of_them():
        service, log = shop.app.state.service, parquet(columns())
        return await asyncio.gather(*(teaching.teach(service, name, log, "me") for name in names))

    assert [new for new, _ in shop.portal.call(all_of_them)] == [True] * 3
    assert most == [1, 1, 1]


def test_other_workers_have_the_state_that_a_log_leads_to(pair):
    one, other = pair
    log = columns()
    assert one.post(LOG, content=parquet(log)).status_code == 201
    look(other)
    assert state(other) == learned_offline(log)
    assert other.post(LOG, content=parquet(log)).status_code == 200


def test_a_model_whose_learned_log_is_damaged_is_broken_and_does_not_begin_without_it(tmp_path):
    with serving(tmp_path / "store") as client:
        client.put(SHOP, json={"dim": 3})
        client.post(f"{SHOP}/snapshots")
        client.post(LOG, content=parquet(columns()))
        store = client.app.state.service.store

        def damage(tx):
            tx.rows("UPDATE snapshot SET data = ? WHERE note LIKE 'learned%'", b"PK")

        client.portal.call(client.app.state.service.commits.do, damage)
        assert store.snapshots(1)[0][3].startswith("learned the log ")
    with serving(tmp_path / "store") as client:
        assert client.get("/readyz").json()["broken"] == ["shop"]


def test_a_log_needs_the_scope_of_uploads(client):
    client.put(SHOP, json={"dim": 3})
    spec = {"name": "web", "scopes": ["read", "decide"]}
    admin = client.post("/v1/keys", json={"name": "ops", "scopes": ["admin"]}).json()["key"]
    head = {"authorization": f"Bearer {admin}"}
    key = client.post("/v1/keys", json=spec, headers=head).json()["key"]
    answer = client.post(LOG, content=b"", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 403


def test_a_log_may_be_as_long_as_an_uploaded_file(where):
    with serving(where, limits=Limits(file=100)) as client:
        client.put(SHOP, json={"dim": 3})
        assert refused(client.post(LOG, content=bytes(101))) == (413, "too_large")
