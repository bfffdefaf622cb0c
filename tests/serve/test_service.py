"""What the service promises: statuses, exactly once, and a state that is its log's."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.serve.conftest import serving

import heavytail as ht
from heavytail.policies import _table

ARMS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
SHOP = "/v1/models/shop"


def decide(client, **more):
    answer = client.post(f"{SHOP}/decisions", json={"arms": ARMS, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def reward(client, token, value, **more):
    return client.post(f"{SHOP}/rewards", json={"token": token, "reward": value, **more})


def state(client, name="shop") -> bytes:
    return client.app.state.service.models[name].policy.to_bytes()


def replayed(client, spec) -> bytes:
    """A policy that saw the outcomes of the log, one by one."""
    store = client.app.state.service.store
    policy = ht.make_policy(spec["policy"], dim=spec["dim"], **spec.get("options", {}))
    for row in store.outcomes(1, 0, 10**6):
        policy.update(np.frombuffer(row.x), row.reward, scale=row.scale)
    return policy.to_bytes()


def test_the_table_of_the_core(client):
    spec = {"policy": "TwinUCB", "dim": 3, "options": {}}
    assert client.put(SHOP, json=spec).status_code == 201
    assert client.put(SHOP, json=spec).status_code == 200
    assert client.put(SHOP, json={**spec, "dim": 4}).status_code == 409
    one = decide(client, ids=["a", "b", "c"], explore=0.5)
    assert one["id"] == "abc"[one["arm"]]
    assert 0.0 < one["probability"] < 1.0
    many = client.post(f"{SHOP}/decisions", json=[{"arms": ARMS}, {"arms": ARMS[:2]}])
    assert many.status_code == 201
    assert len({one["token"], *(each["token"] for each in many.json())}) == 3
    first = reward(client, one["token"], 3.5, scale=1.0)
    assert (first.status_code, first.json()) == (202, {"accepted": 1})
    again = reward(client, one["token"], 3.5, scale=1.0)
    assert (again.status_code, again.json()) == (200, {"accepted": 0})
    assert reward(client, one["token"], 3.5).status_code == 409
    assert reward(client, one["token"], 4.0, scale=1.0).status_code == 409
    both = [{"token": each["token"], "reward": 1.0} for each in many.json()]
    assert client.post(f"{SHOP}/rewards", json=both).json() == {"accepted": 2}
    seen = client.get(SHOP).json()
    assert (seen["name"], seen["policy"], seen["rounds"], seen["pending"]) == (
        "shop",
        "TwinUCB",
        3,
        0,
    )
    assert seen["diagnostics"]["rounds"] == 3


def test_the_state_is_that_of_the_log_to_the_bit(shop):
    rng = np.random.default_rng(0)
    waiting = []
    for _ in range(120):
        waiting.append(decide(shop, explore=0.3)["token"])
        if rng.random() < 0.6:
            reward(shop, waiting.pop(rng.integers(len(waiting))), float(rng.standard_t(1.5)))
    assert state(shop) == replayed(shop, {"policy": "TwinUCB", "dim": 3})


def test_a_model_forgets_where_its_options_say_so(client):
    spec = {"policy": "TwinUCB", "dim": 3, "options": {"forget": 0.9}}
    assert client.put(SHOP, json=spec).status_code == 201
    rng = np.random.default_rng(0)
    for _ in range(60):
        reward(client, decide(client)["token"], float(rng.standard_t(1.5)))
    assert state(client) == replayed(client, spec)
    assert client.get(SHOP).json()["diagnostics"]["drift"] == 0.0
    bad = client.put("/v1/models/odd", json={**spec, "options": {"forget": 2.0}})
    assert (bad.status_code, bad.json()["code"]) == (422, "bad_options")


def test_a_service_that_stopped_goes_on_to_the_bit(where):
    def play(client, seed, rounds=40):
        rng = np.random.default_rng(seed)
        for _ in range(rounds):
            reward(client, decide(client)["token"], float(rng.standard_t(1.5)))

    with serving(where) as client:
        client.put(SHOP, json={"policy": "TwinUCB", "dim": 3})
        play(client, 0)
        token = decide(client)["token"]
        before = state(client)
    with serving(where) as client:
        assert state(client) == before
        assert reward(client, token, 2.0).status_code == 202
        play(client, 1)
        assert state(client) == replayed(client, {"policy": "TwinUCB", "dim": 3})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"token": "x", "reward": 1.0}, "unknown_token"),
        ({"token": "A" * 46, "reward": 1.0}, "unknown_token"),
        ({"token": "A" * 46, "reward": "1"}, "bad_body"),
        ({"token": "A" * 46}, "bad_body"),
        ({"token": "A" * 46, "reward": 1.0, "more": 1}, "bad_body"),
        ([], "empty"),
    ],
)
def test_a_bad_reward_has_its_code(shop, body, code):
    before = state(shop)
    answer = shop.post(f"{SHOP}/rewards", json=body)
    assert answer.status_code in (409, 422)
    assert answer.json()["code"] == code
    assert state(shop) == before


def test_a_batch_with_one_bad_reward_is_refused_whole(shop):
    tokens = [decide(shop)["token"] for _ in range(3)]
    rewards = [{"token": token, "reward": 1.0} for token in (*tokens, "A" * 46)]
    answer = shop.post(f"{SHOP}/rewards", json=rewards)
    assert (answer.status_code, answer.json()["field"]) == (409, "[3].token")
    assert shop.get(SHOP).json()["pending"] == 3
    doubled = [{"token": tokens[0], "reward": value} for value in (1.0, 2.0)]
    assert shop.post(f"{SHOP}/rewards", json=doubled).status_code == 409
    assert shop.post(f"{SHOP}/rewards", json=rewards[:3] + rewards[:1]).json() == {"accepted": 3}


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"arms": []}, 422, "arms"),
        ({"arms": [[1.0, 0.0]]}, 422, "arms[0]"),
        ({"arms": [[1.0, 0.0, 0.0], [1.0]]}, 422, "arms[1]"),
        ({"arms": [["1", 0.0, 0.0]]}, 422, "arms[0][0]"),
        ({"arms": [[9.0, 0.0, 0.0]]}, 422, "arms"),
        ({"arms": ARMS, "ids": ["a"]}, 422, "ids"),
        ({"arms": ARMS, "explore": 2.0}, 422, "explore"),
        ({"arms": ARMS, "seed": 1}, 422, ""),
        ([{"arms": ARMS}, {"arms": [[1.0]]}], 422, "[1].arms[0]"),
        ({}, 422, "arms"),
        ("x", 422, ""),
    ],
)
def test_a_bad_decision_names_its_field(shop, body, status, field):
    answer = shop.post(f"{SHOP}/decisions", json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text
    assert shop.get(SHOP).json()["decisions"] == 0


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff", b'{"arms": [[NaN, 0, 0]]}', b'{"arms": [[1e999, 0, 0]]}',
            b"[" * 100_000, b'{"arms": ' + b"[" * 5000 + b"]" * 5000 + b"}"],
)  # fmt: skip
def test_what_is_no_strict_json_is_refused(shop, raw):
    answer = shop.post(f"{SHOP}/decisions", content=raw)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["message"]


def test_the_same_request_has_the_same_answer(shop):
    head = {"Idempotency-Key": "k1"}
    body = [{"arms": ARMS}, {"arms": ARMS, "explore": 1.0}]
    first = shop.post(f"{SHOP}/decisions", json=body, headers=head)
    again = shop.post(f"{SHOP}/decisions", json=body, headers=head)
    assert first.json() == again.json()
    assert shop.get(SHOP).json()["decisions"] == 2
    other = shop.post(f"{SHOP}/decisions", json=[{"arms": ARMS[:2]}], headers=head)
    assert (other.status_code, other.json()["code"]) == (409, "key_used")


def test_a_reward_is_that_of_the_model_that_decided_whatever_the_path_says(shop):
    shop.put("/v1/models/other", json={"dim": 3})
    mine, others = decide(shop)["token"], {"arms": ARMS}
    theirs = shop.post("/v1/models/other/decisions", json=others).json()["token"]
    both = [{"token": mine, "reward": 1.0}, {"token": theirs, "reward": 2.0}]
    assert shop.post("/v1/models/other/rewards", json=both).json() == {"accepted": 2}
    assert [shop.get(f"/v1/models/{name}").json()["rounds"] for name in ("shop", "other")] == [1, 1]
    wrong = [{"token": decide(shop)["token"], "reward": 3.0}, {"token": theirs, "reward": 4.0}]
    answer = shop.post(f"{SHOP}/rewards", json=wrong)
    assert (answer.status_code, answer.json()["field"]) == (409, "[1].token")
    assert shop.get(SHOP).json()["rounds"] == 1  # all or none
    shop.delete("/v1/models/other")
    answer = reward(shop, theirs, 1.0)
    assert (answer.status_code, answer.json()["code"]) == (409, "unknown_token")


def test_a_model_that_is_deleted_and_made_again_does_not_know_old_tokens(shop):
    token = decide(shop)["token"]
    assert shop.delete(SHOP).status_code == 204
    assert shop.get(SHOP).status_code == 404
    assert shop.put(SHOP, json={"policy": "TwinUCB", "dim": 3}).status_code == 201
    assert reward(shop, token, 1.0).json()["code"] == "unknown_token"


def test_a_paused_model_learns_and_does_not_decide(shop):
    token = decide(shop)["token"]
    assert shop.patch(SHOP, json={"paused": True}).json()["paused"]
    assert shop.post(f"{SHOP}/decisions", json={"arms": ARMS}).json()["code"] == "paused"
    assert reward(shop, token, 1.0).status_code == 202
    shop.patch(SHOP, json={"paused": False})
    decide(shop)


def test_a_snapshot_is_gone_back_to(shop, where, tmp_path):
    for value in (1.0, 5.0):
        reward(shop, decide(shop)["token"], value)
    kept, number = state(shop), shop.post(f"{SHOP}/snapshots").json()["snapshot"]
    reward(shop, decide(shop)["token"], -9.0)
    assert state(shop) != kept
    assert shop.post(f"{SHOP}/restore", json={"snapshot": number}).status_code == 200
    assert state(shop) == kept
    path = tmp_path / "it.npz"
    path.write_bytes(shop.get(f"{SHOP}/snapshots/{number}").content)
    assert ht.load(path).to_bytes() == kept
    reward(shop, decide(shop)["token"], 2.0)
    after = state(shop)
    shop.__exit__(None, None, None)
    with serving(where) as again:
        assert state(again) == after


def test_forks_and_shadows(shop):
    for value in (1.0, 5.0, -2.0):
        reward(shop, decide(shop)["token"], value)
    forks = {
        "twin": {},
        "oful": {"policy": "OFUL", "options": {"noise_scale": 1.0}},
        "shadow": {"shadow": True},
        "other": {"policy": "HvtUCB", "shadow": True},
    }
    for name, body in forks.items():
        answer = shop.post(f"{SHOP}/fork", json={"name": name, **body})
        assert answer.status_code == 201, answer.text
        assert answer.json()["rounds"] == 3
    assert state(shop, "twin") == state(shop)
    reward(shop, decide(shop)["token"], 7.0)
    assert state(shop, "shadow") == state(shop)
    assert shop.get("/v1/models/other").json()["rounds"] == 4
    assert shop.get("/v1/models/other").json()["shadow_of"] == "shop"
    assert shop.get("/v1/models/twin").json()["rounds"] == 3
    refused = shop.post("/v1/models/shadow/decisions", json={"arms": ARMS})
    assert refused.json()["code"] == "shadow"
    assert shop.delete(SHOP).json()["code"] == "has_shadow"


def test_default_rewards_come_after_waiting(client):
    spec = {"dim": 3, "wait": 0.001, "default_reward": 0.0}
    client.put(SHOP, json=spec)
    token = decide(client)["token"]
    service = client.app.state.service
    client.portal.call(service.commits.do, lambda tx: None)
    time.sleep(0.01)
    client.portal.call(service.chores.give_up)
    seen = client.get(SHOP).json()
    assert (seen["rounds"], seen["pending"]) == (1, 0)
    assert reward(client, token, 3.0).json()["code"] == "expired"


@pytest.mark.parametrize("late", ["refuse", "learn"])
def test_late_rewards_are_by_policy(client, late):
    client.put(SHOP, json={"dim": 3, "wait": 0.001, "late": late})
    token = decide(client)["token"]
    time.sleep(0.01)
    client.portal.call(client.app.state.service.chores.give_up)
    assert client.get(SHOP).json()["pending"] == 0
    answer = reward(client, token, 3.0)
    assert answer.status_code == (202 if late == "learn" else 409)
    seen = client.get(SHOP).json()
    assert (seen["pending"], seen["rounds"]) == (0, int(late == "learn"))


@pytest.mark.parametrize("kind", _table.load_all(), ids=lambda kind: kind.__name__)
def test_every_policy_that_can_wait_is_served(client, kind):
    options = {"rows": 2, "columns": 2} if "rows" in str(kind.__init__.__code__.co_varnames) else {}
    spec = {
        "policy": kind.__name__,
        "dim": 4,
        "horizon": 1000,
        "arms": 3,
        "options": options,
        "tail": {"order": kind.info.only_order or 1.5, "scale": 1.0},
    }
    made = client.put(SHOP, json=spec)
    if kind.info.repeats:
        assert made.json()["code"] == "bad_policy"
        return
    assert made.status_code == 201, made.text
    arms = [[0.5, 0.0, 0.1, 0.0], [0.0, 0.5, 0.0, 0.1], [0.3, 0.3, 0.0, 0.0]]
    for _ in range(5):
        made = client.post(f"{SHOP}/decisions", json={"arms": arms})
        assert reward(client, made.json()["token"], 1.0).status_code == 202
    assert client.get(SHOP).json()["rounds"] == 5
    model = client.app.state.service.models["shop"]
    from heavytail.serve.model import built

    twin = built(model.spec)
    for row in client.app.state.service.store.outcomes(1, 0, 100):
        twin.update(np.frombuffer(row.x), row.reward)
    assert twin.to_bytes() == model.policy.to_bytes()


def test_a_reward_that_would_not_be_learned_is_refused_at_the_door(client):
    spec = {"policy": "GLB-OMD", "dim": 3, "options": {"link": "logistic"}, "wait": 10.0}
    bad = client.put(SHOP, json={**spec, "default_reward": 3.0})
    assert (bad.status_code, bad.json()["field"]) == (422, "default_reward")
    assert client.put(SHOP, json={**spec, "default_reward": 0.0}).status_code == 201
    token = decide(client)["token"]
    for value in (0.5, 2.0, -1.0, 1e300):
        answer = reward(client, token, value)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_reward")
    assert reward(client, token, 1.0).status_code == 202
    assert client.get(SHOP).json()["diagnostics"]["refused"] == 0


@pytest.mark.parametrize("scale", [1e-101, 1e-300, 5e-324, 1.1e100, 1e300, 0.0, -1.0])
def test_a_scale_beyond_what_policies_take_is_refused_at_the_door(shop, scale):
    tokens, before = [decide(shop)["token"] for _ in range(2)], state(shop)
    answer = reward(shop, tokens[0], 1.0, scale=scale)
    assert (answer.status_code, answer.json()["field"]) == (422, "scale")
    both = [
        {"token": tokens[0], "reward": 1.0},
        {"token": tokens[1], "reward": 1.0, "scale": scale},
    ]
    answer = shop.post(f"{SHOP}/rewards", json=both)
    assert (answer.status_code, answer.json()["field"]) == (422, "[1].scale")
    assert state(shop) == before


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_a_model_survives_the_greatest_scales(where, scale):
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3})
        for value in (1.0, -1e100, 1e100, 3.0):
            assert reward(client, decide(client)["token"], value, scale=scale).status_code == 202
        assert client.post(f"{SHOP}/snapshots").status_code == 201
        before = state(client)
    with serving(where) as client:
        assert state(client) == before


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        ({"policy": "GLOC"}, [{"reward": 1e66}, {"reward": -1e66}], [{"reward": 1e80}]),
        (
            {"policy": "HvtLowRank", "options": {"d1": 3, "d2": 1}},
            [{"reward": 1e100}, {"reward": 1e30, "scale": 1e-100}],
            [{"reward": 1e60, "scale": 1e-100}, {"reward": -1e100, "scale": 1e-50}],
        ),
        ({"policy": "OL2M"}, [{"reward": 1.0}], [{"reward": 0.5}, {"reward": -1.0}]),
    ],
)
def test_what_is_acknowledged_is_learned(client, spec, good, bad):
    assert client.put(SHOP, json={"dim": 3, **spec}).status_code == 201
    for told in bad * 2:
        answer = client.post(f"{SHOP}/rewards", json={"token": decide(client)["token"], **told})
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_reward")
        assert answer.json()["field"] == "reward"
    for told in good * 20:
        answer = client.post(f"{SHOP}/rewards", json={"token": decide(client)["token"], **told})
        assert answer.status_code == 202
    seen = client.get(SHOP).json()
    assert (seen["rounds"], seen["diagnostics"]["refused"]) == (20 * len(good), 0)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("shop", {"policy": "os:system", "dim": 3}),
        ("shop", {"policy": "None", "dim": 3}),
        ("shop", {"dim": 0}),
        ("shop", {}),
        ("shop", {"dim": 3, "options": {"odd": 1}}),
        ("shop", {"dim": 3, "options": {"theta_bound": -1.0}}),
        ("shop", {"dim": 3, "default_reward": 0.0}),
        ("shop", {"dim": 3, "encoder": {}}),
        ("..", {"dim": 3}),
        ("a b", {"dim": 3}),
        ("x" * 65, {"dim": 3}),
    ],
)
def test_a_model_that_cannot_be_is_refused(client, name, spec):
    answer = client.put(f"/v1/models/{name}", json=spec)
    assert answer.status_code in (404, 405, 422), answer.text
    assert client.get("/v1/models").json() == []


def test_a_late_reward_beside_a_bad_one_changes_nothing(client):
    client.put(SHOP, json={"dim": 3, "wait": 0.001, "late": "learn"})
    token = decide(client)["token"]
    time.sleep(0.01)
    client.portal.call(client.app.state.service.chores.give_up)
    bad = [{"token": token, "reward": 1.0}, {"token": "A" * 46, "reward": 1.0}]
    waiting = decide(client)["token"]
    twice = [bad[0], {"token": waiting, "reward": 1.0}, {"token": waiting, "reward": 2.0}]
    for told in (bad, twice):
        assert client.post(f"{SHOP}/rewards", json=told).status_code == 409
    assert client.get(SHOP).json()["pending"] == 1
    assert reward(client, token, 1.0).status_code == 202
    assert client.get(SHOP).json()["pending"] == 1


def test_a_first_snapshot_is_taken_after_a_minute(shop):
    reward(shop, decide(shop)["token"], 1.0)
    service = shop.app.state.service
    shop.portal.call(service.chores.snapshots)
    assert shop.get(f"{SHOP}/snapshots").json() == []
    service.chores.begun -= 61.0
    shop.portal.call(service.chores.snapshots)
    assert len(shop.get(f"{SHOP}/snapshots").json()) == 1
