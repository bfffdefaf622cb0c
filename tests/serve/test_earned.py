"""What a model earned: the sums are those of its log, however and by whom they are added up."""

from __future__ import annotations

import datetime
import json
import math
import time

import numpy as np
import polars as pl
import pytest
from tests.serve.conftest import look, serving
from tests.serve.test_decider import begin, decider, visit

import heavytail as ht
from heavytail.ledger.details import Detail, pack
from heavytail.ledger.export import write_log
from heavytail.ledger.tokens import Token
from heavytail.logs.wealth import BETS, ROOM, SHARES, Wealths, difference
from heavytail.serve import books, chores, folding
from heavytail.serve.earned import Asked, _days, _in_days, _lines, _rooms, answer, begun, uplift

ARMS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
IDS = ["a", "b", "none"]
SHOP = "/v1/models/shop"
NAMED = "/v1/models/named"
ENCODER = ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)})


def play(client, rounds, seed=0, *, ids=IDS, waits=0.2, path=SHOP, explore=0.5):
    """Decisions, most of them with a reward, many of which are 0."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        body = {"arms": ARMS, "explore": explore, **({"ids": ids} if ids else {})}
        made = client.post(f"{path}/decisions", json=[body] * 4).json()
        told = [
            {"token": one["token"], "reward": float((rng.random() < 0.4) * rng.pareto(2.5))}
            for one in made
            if rng.random() > waits
        ]
        for one in told:
            assert client.post(f"{path}/rewards", json=one).status_code == 202


def logged(client, path, name="shop"):
    """All decisions of a model's log, also those that wait."""
    service = client.app.state.service
    with service.store.reader() as store:
        write_log(store, service.models[name].row, path, waiting=True)
    return pl.read_parquet(path)


def earned(client, name="shop", **query):
    """The answer once everything is added up."""
    found, end = asked(client, name, **query), time.monotonic() + 20.0
    while not found["until"]["complete"] and time.monotonic() < end:
        time.sleep(0.05)
        found = asked(client, name, **query)
    return found


def asked(client, name="shop", **query):
    found = client.get(f"/v1/models/{name}/earned", params=query)
    assert found.status_code == 200, found.text
    return found.json()


def check(found, log):
    """The sums are those of the log."""
    came = log.filter(pl.col("reward").is_not_null())
    total = found["total"]
    assert found["until"]["complete"]
    assert total["decisions"] == found["until"]["decisions"] == len(log)
    assert total["rewards"] == len(came)
    assert total["by_default"] == came["by_default"].sum()
    assert total["money"] == pytest.approx(came["reward"].sum(), rel=1e-12)
    assert total["pending"] == len(log) - len(came) - found["given_up"]
    names = [
        str(action) if ids is None else ids[action]
        for action, ids in zip(log["action"], log["ids"].to_list(), strict=True)
    ]
    check_lines(found["offers"], log, names)
    uniform = [1.0 / len(ids or ARMS) for ids in log["ids"].to_list()]
    above = ["chosen" if p > u + 1e-9 else "explored"
             for p, u in zip(log["propensity"], uniform, strict=True)]  # fmt: skip
    ways = [found[way] for way in ("chosen", "explored") if found[way]["decisions"]]
    check_lines(ways, log, above)
    days = [str(datetime.datetime.fromtimestamp(t, datetime.UTC).date()) for t in log["time"]]
    for day in found["days"]:
        own = log.filter(pl.Series([each == day["day"] for each in days]))
        assert (day["decisions"], day["rewards"]) == (len(own), own["reward"].count())
        assert day["money"] == pytest.approx(own["reward"].sum(), rel=1e-12)
    assert sum(day["decisions"] for day in found["days"]) == len(log)


def check_lines(lines, log, names):
    assert {line["name"] for line in lines} == set(names)
    for line in lines:
        own = log.filter(pl.Series([name == line["name"] for name in names]))
        assert (line["decisions"], line["rewards"]) == (len(own), own["reward"].count())
        assert line["money"] == pytest.approx(own["reward"].sum(), rel=1e-12)
        assert line["share"] == pytest.approx(len(own) / len(log))
        if line["low"] is not None:
            assert 0.0 <= line["low"] <= line["mean"] <= (line["high"] or math.inf)


@pytest.fixture
def client_alone(tmp_path):
    with serving(tmp_path / "store") as client:
        yield client


@pytest.fixture
def shop_alone(client_alone):
    assert client_alone.put(SHOP, json={"dim": 3}).status_code == 201
    return client_alone


@pytest.mark.parametrize("ids", [IDS, None])
def test_the_sums_are_those_of_the_log(shop, tmp_path, ids):
    found = earned(shop)
    assert found["sentences"] == ["0 decisions, and no reward yet."]
    assert (found["total"]["mean"], found["offers"], found["days"]) == (None, [], [])
    for seed in range(3):
        play(shop, 20, seed, ids=ids)
        check(earned(shop), logged(shop, tmp_path / "log.parquet"))


def weighted(log, offer):
    """r and w r of the log's outcomes in the order in which they came."""
    log = log.filter(pl.col("reward").is_not_null()).sort("reward_time", maintain_order=True)
    rows = zip(log["action"], log["ids"].to_list(), log["propensity"], log["reward"], strict=True)
    return [
        (r, r * (1 / (len(ids) * p) if offer is None else (ids[a] == offer) / p))
        for a, ids, p, r in rows
    ]


@pytest.mark.parametrize("offer", ["none", None])
def test_weighted_values_are_those_of_the_log(shop, tmp_path, offer):
    play(shop, 150)
    found = earned(shop, against="uniform" if offer is None else f"always:{offer}")["against"]
    each = [r - w for r, w in weighted(logged(shop, tmp_path / "log.parquet"), offer)]
    assert found["why"] == ""
    skipped = next(i for i, value in enumerate(each) if value) + 1  # the first is the unit
    assert found["compared"] == len(each) - skipped
    assert found["value"] == pytest.approx(math.fsum(each[skipped:]), rel=1e-9)
    assert found["low"] <= found["value"] <= found["high"]
    assert found["mean"] == pytest.approx(found["value"] / found["compared"])


def folded(store, row, part, batch, monkeypatch):
    monkeypatch.setattr(folding, "BATCH", batch)
    fold, _ = begun(part, store, row)
    pieces = 0
    while not fold.go_on(store, row, 0.0):  # one batch at a time
        pieces += 1
        twin, _ = begun(part, store, row)
        twin.restore(fold.saved())  # as after a restart
        fold = twin
    return fold, pieces


@pytest.mark.parametrize("part", ["offers", "against:always:a", "against:uniform"])
def test_pieces_give_the_same_as_the_whole(shop, monkeypatch, part):
    monkeypatch.setattr(folding, "MARGIN", 0.0)
    play(shop, 40)
    service = shop.app.state.service
    asked = Asked(against=part.partition(":")[2] or None)
    with service.store.reader() as store:
        row = store.model(1)
        answers = []
        for batch in (1, 7, 4096):
            fold, pieces = folded(store, row, part, batch, monkeypatch)
            assert (pieces > 5) == (batch < 4096)
            base, _ = folded(store, row, "offers", batch, monkeypatch)
            folds = [base] if part == "offers" else [base, fold]
            answers.append(json.loads(json.dumps(_plain(answer(row, store, folds, asked, True)))))
    assert _close(answers[0], answers[2])
    assert _close(answers[1], answers[2])


def _plain(found):
    import msgspec

    return msgspec.to_builtins(found)


def _close(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_close, one, other))
    return one == other or (isinstance(one, float) and math.isclose(one, other, rel_tol=1e-9))


def test_a_restart_goes_on_from_what_was_saved(where, tmp_path, monkeypatch):
    monkeypatch.setattr(folding, "MARGIN", 0.0)
    with serving(where) as client:
        client.put(SHOP, json={"dim": 3})
        play(client, 30)
        first = earned(client, against="always:a")
    read, learned = [], folding.Fold._outcomes

    def spied(fold, *args):
        read.append(fold.seq)
        return learned(fold, *args)

    monkeypatch.setattr(folding.Fold, "_outcomes", spied)
    with serving(where) as client:
        assert earned(client, against="always:a") == first
        assert min(read) == first["until"]["outcomes"]  # nothing was folded twice
        play(client, 10, seed=1)
        check(earned(client), logged(client, tmp_path / "log.parquet"))


def test_two_workers_give_the_same(pair, tmp_path):
    for k in range(6):
        play(pair[k % 2], 5, seed=k)
        check(earned(pair[k % 2]), logged(pair[0], tmp_path / "log.parquet"))
    for client in pair:
        look(client)
    answers = [earned(client, against="always:none") for client in pair]
    assert _close(*answers)


def test_a_decision_that_is_written_late_is_counted(shop_alone, monkeypatch):
    monkeypatch.setattr(folding, "MARGIN", 0.0)
    play(shop_alone, 5)
    store = shop_alone.app.state.service.store
    assert earned(shop_alone)["total"]["decisions"] == 20
    play(shop_alone, 1, waits=1.0)
    newest = store.latest(1)
    late = newest[:5] + bytes([newest[5] ^ 1]) + newest[6:]  # a millisecond before or after
    first = store.rows("SELECT MIN(key) FROM decision")[0][0]
    early = first[:6] + bytes(16)

    def work(tx):
        row = tx.decision(1, bytes(newest))
        tx.decide(row._replace(key=early))
        tx.decide(row._replace(key=late))

    shop_alone.portal.call(shop_alone.app.state.service.commits.do, work)
    found = earned(shop_alone)
    assert found["total"]["decisions"] == found["until"]["decisions"] == 26
    assert sum(line["decisions"] for line in found["offers"]) == 26


def test_a_tally_that_is_wrong_is_not_counted_for_ever(shop_alone, monkeypatch):
    monkeypatch.setattr(folding, "MARGIN", 0.0)
    play(shop_alone, 5)
    store = shop_alone.app.state.service.store
    store.rows("UPDATE tally SET decisions = decisions + 3")
    forgotten = []
    forget = folding.Offers.forget
    monkeypatch.setattr(
        folding.Offers, "forget", lambda part: (forgotten.append(1), forget(part))
    )  # fmt: skip
    for _ in range(3):
        assert sum(line["decisions"] for line in earned(shop_alone)["offers"]) == 20
        play(shop_alone, 0)
    assert len(forgotten) == 1


def test_rewards_below_0_have_bounds_of_another_kind(shop):
    rng = np.random.default_rng(0)
    for _ in range(40):
        made = shop.post(f"{SHOP}/decisions", json=[{"arms": ARMS, "explore": 0.5}] * 4).json()
        told = [{"token": one["token"], "reward": float(rng.normal(1.0))} for one in made]
        assert shop.post(f"{SHOP}/rewards", json=told).status_code == 202
    found = earned(shop)
    assert (found["low"]["kind"], found["low"]["guaranteed"]) == ("betting with room", False)
    assert found["total"]["low"] < 1.0 < found["total"]["high"]
    assert "On average about at least" in found["sentences"][1]


def test_a_long_log_is_added_up_in_the_background(shop_alone, monkeypatch, tmp_path):
    monkeypatch.setattr(folding, "BATCH", 8)
    monkeypatch.setattr(books, "PATIENCE", -1.0)
    monkeypatch.setattr(books, "PACE", 0.0)
    play(shop_alone, 30)
    found = asked(shop_alone)
    assert not found["until"]["complete"]
    assert found["until"]["outcome"] < found["until"]["outcomes"]
    assert "still being added up" in found["sentences"][-1]
    check(earned(shop_alone), logged(shop_alone, tmp_path / "log.parquet"))


# Models of other kinds and states


def named(client, rounds=40, **spec):
    told = {"policy": "TwinUCB", "encoder": ENCODER.schema(), **spec}
    assert client.put(NAMED, json=told).status_code == 201
    rng = np.random.default_rng(0)
    for i in range(rounds):
        body = {
            "arms": [{"price": 5.0}, {"price": 9.0}],
            "context": {"age": 20 + i, "kind": ["new", "old", None][i % 3]},
            "ids": [7, "b"],
            "explore": 0.5,
        }
        made = client.post(f"{NAMED}/decisions", json=body).json()
        if i % 4:
            told = {"token": made["token"], "reward": float(rng.pareto(1.5))}
            assert client.post(f"{NAMED}/rewards", json=told).status_code == 202


def test_segments_are_by_values_and_by_thirds(client, tmp_path):
    named(client)
    log = logged(client, tmp_path / "log.parquet", "named")
    found = earned(client, "named", by="kind")
    check(found, log)
    assert found["columns"] == ["age", "kind"]
    contexts = [json.loads(context) for context in log["context_json"]]
    check_lines(found["segments"], log, [one["kind"] or "(missing)" for one in contexts])
    found = earned(client, "named", by="age", against="always:7")
    names = [line["name"] for line in found["segments"]]
    assert names == ["below 33.0", "33.0 to 46.0", "46.0 and more"]
    groups = [names[(age >= 33) + (age >= 46)] for age in (one["age"] for one in contexts)]
    check_lines(found["segments"], log, groups)
    assert found["against"]["rule"] == "always '7'"
    bad = client.get(f"{NAMED}/earned", params={"by": "agee"})
    assert (bad.status_code, bad.json()["field"]) == (422, "by")
    assert "'age', 'kind'" in bad.json()["message"]


def test_segments_of_a_large_log_are_kept(shop_alone, monkeypatch):
    monkeypatch.setattr(folding, "FIRST", 10)
    monkeypatch.setattr("heavytail.serve.earned.FIRST", 10)
    named(shop_alone)
    first = earned(shop_alone, "named", by="age")["segments"]
    kept = shop_alone.app.state.service.books._kept[2, "by:age"]
    assert kept.final
    assert earned(shop_alone, "named", by="age")["segments"] == first
    assert shop_alone.app.state.service.books._kept[2, "by:age"] is kept


def test_offers_beyond_the_first_are_counted_together(shop_alone, monkeypatch):
    monkeypatch.setattr(folding, "MOST_OFFERS", 1)
    play(shop_alone, 30)
    found = earned(shop_alone)
    assert len(found["offers"]) == 1
    parts = [*found["offers"], found["others"]]
    for key in ("decisions", "rewards", "money"):
        assert sum(part[key] for part in parts) == pytest.approx(found["total"][key])


def expired(client, count):
    end = time.monotonic() + 20.0
    while client.app.state.service.store.rewards(1) < count and time.monotonic() < end:
        time.sleep(0.05)


def test_default_rewards_count_as_such_and_bounds_wait_for_them(client_alone, tmp_path):
    spec = {"dim": 3, "wait": 1.5, "default_reward": 0.0}
    assert client_alone.put(SHOP, json=spec).status_code == 201
    body = [{"arms": ARMS, "ids": IDS, "explore": 0.5}] * 60
    made = client_alone.post(f"{SHOP}/decisions", json=body).json()
    told = [{"token": one["token"], "reward": 5.0} for one in made[:30]]
    assert client_alone.post(f"{SHOP}/rewards", json=told).status_code == 202
    found = earned(client_alone)
    assert (found["total"]["rewards"], found["total"]["pending"]) == (30, 30)
    assert (found["total"]["counted"], found["order"]) == (0, "settled")  # 5 would be too large
    expired(client_alone, 60)
    found = earned(client_alone, against="always:none")
    check(found, logged(client_alone, tmp_path / "log.parquet"))
    assert found["total"]["by_default"] == 30
    assert (found["total"]["counted"], found["total"]["mean"]) == (60, 2.5)
    assert "30 rewards were taken by default." in found["sentences"]


@pytest.mark.parametrize("late", ["refuse", "learn"])
def test_decisions_that_expired_do_not_wait(client_alone, tmp_path, monkeypatch, late):
    spec = {"dim": 3, "wait": 0.2, "late": late}
    assert client_alone.put(SHOP, json=spec).status_code == 201
    body = [{"arms": ARMS, "ids": IDS, "explore": 0.5}] * 20
    made = client_alone.post(f"{SHOP}/decisions", json=body).json()
    end = time.monotonic() + 20.0
    while client_alone.get(SHOP).json()["pending"] and time.monotonic() < end:
        time.sleep(0.05)
    found = earned(client_alone)
    assert (found["given_up"], found["total"]["pending"]) == (20, 0)
    assert "20 decisions expired without a reward." in found["sentences"]
    if late == "learn":
        told = [{"token": one["token"], "reward": 2.0} for one in made[:5]]
        assert client_alone.post(f"{SHOP}/rewards", json=told).status_code == 202
        found = earned(client_alone)
        assert (found["given_up"], found["total"]["pending"]) == (15, 0)
        assert (found["total"]["money"], found["order"]) == (10.0, "arrived")
        client_alone.patch(SHOP, json={"wait": 1000.0})
        client_alone.post(f"{SHOP}/decisions", json=body[:4])
        found = earned(client_alone)
        assert found["total"]["pending"] == sum(line["pending"] for line in found["offers"]) == 4
    else:
        assert sum(line["pending"] for line in found["offers"]) == 0
    check(found, logged(client_alone, tmp_path / "log.parquet"))


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"wait": 0.4}), ({"wait": 0.4}, {"wait": None}), ({"wait": 0.4}, {"late": "learn"})],
)
def test_no_reward_is_bet_on_twice_or_never_if_the_order_changes(client_alone, before, after):
    assert client_alone.put(SHOP, json={"dim": 3, **before}).status_code == 201

    def earn(count):
        body = [{"arms": ARMS, "ids": IDS, "explore": 0.5}] * 30
        made = client_alone.post(f"{SHOP}/decisions", json=body).json()
        told = [{"token": one["token"], "reward": 2.0} for one in made[:count]]
        assert client_alone.post(f"{SHOP}/rewards", json=told).status_code == 202

    earn(25)
    earned(client_alone, against="always:a")
    assert client_alone.patch(SHOP, json=after).status_code == 200
    earn(20)
    end = time.monotonic() + 20.0
    while earned(client_alone)["total"]["counted"] < 45 and time.monotonic() < end:
        time.sleep(0.05)
    found = earned(client_alone, against="always:a")
    assert (found["total"]["rewards"], found["total"]["counted"]) == (45, 45)
    assert found["total"]["decisions"] == 60
    assert found["against"]["compared"] in range(44, 60)


def test_a_deciders_offers(tmp_path):
    decider().save(tmp_path / "shop.ht")
    begin(tmp_path / "store", tmp_path / "shop.ht")
    rng = np.random.default_rng(0)
    with serving(tmp_path / "store") as client:
        for i in range(120):
            made = client.post(f"{SHOP}/decisions", json={"context": visit(i)}).json()
            told = {"token": made["token"], "reward": float(rng.pareto(2.0))}
            assert client.post(f"{SHOP}/rewards", json=told).status_code == 202
        log = logged(client, tmp_path / "log.parquet")
        found = earned(client, by="segment", against="always:none")
        check(found, log)
        contexts = [json.loads(context) for context in log["context_json"]]
        check_lines(found["segments"], log, [one["segment"] for one in contexts])
        ranges = {
            line["name"]: line["decisions"] for line in earned(client, by="basket")["segments"]
        }
        assert ranges["(missing)"] == sum(one["basket"] is None for one in contexts)
        assert sum(ranges.values()) == 120
        assert found["against"]["compared"] > 100
        refused = client.get(f"{SHOP}/earned", params={"against": "always:nome"})
        assert (refused.status_code, refused.json()["field"]) == (422, "against")
        assert "No decision offered 'nome'. Did you mean 'none'?" in refused.json()["message"]
        offers = decider().offers
        assert all(f"'{name}'" in refused.json()["message"] for name in offers)


def test_other_states_of_a_model(shop, tmp_path):
    play(shop, 15)
    number = shop.post(f"{SHOP}/snapshots").json()["snapshot"]
    play(shop, 15, seed=1)
    before = earned(shop)
    shop.post(f"{SHOP}/fork", json={"name": "twin"})
    shop.post(f"{SHOP}/fork", json={"name": "shade", "shadow": True})
    assert earned(shop, "twin")["total"]["decisions"] == 0
    shade = shop.get("/v1/models/shade/earned")
    assert (shade.status_code, shade.json()["code"]) == (409, "shadow")
    shop.patch(SHOP, json={"paused": True})
    assert shop.post(f"{SHOP}/restore", json={"snapshot": number}).status_code == 200
    assert earned(shop) == before  # the log keeps what the model forgot
    for name in ("shade", "shop"):
        assert shop.delete(f"/v1/models/{name}").status_code == 204
    assert shop.get(f"{SHOP}/earned").status_code == 404
    assert shop.put(SHOP, json={"dim": 3}).status_code == 201
    assert earned(shop)["total"]["decisions"] == 0


def test_what_is_saved_goes_with_its_model(shop_alone, monkeypatch):
    monkeypatch.setattr(books, "SAVED", 1)
    monkeypatch.setattr(folding, "MARGIN", 0.0)
    play(shop_alone, 5)
    earned(shop_alone)
    store, end = shop_alone.app.state.service.store, time.monotonic() + 20.0
    while not store.rows("SELECT part FROM earned") and time.monotonic() < end:
        time.sleep(0.05)
    assert store.rows("SELECT model, part FROM earned") == [(1, "offers")]
    assert shop_alone.delete(SHOP).status_code == 204
    assert store.rows("SELECT model, part FROM earned") == []


# Rules


@pytest.mark.parametrize(
    ("rule", "code"), [("shadow:twin", "bad_rule"), ("best", "bad_rule"), ("", "bad_rule")]
)
def test_a_rule_that_is_none_is_refused(shop, rule, code):
    bad = shop.get(f"{SHOP}/earned", params={"against": rule})
    assert (bad.status_code, bad.json()["code"], bad.json()["field"]) == (422, code, "against")


def test_without_exploration_nothing_can_be_said(shop):
    play(shop, 30, explore=0.0)
    found = earned(shop, against="always:none")["against"]
    assert found["why"].startswith("cannot be said: no decision explored.")
    assert (found["value"], found["better"]) == (None, None)


def rows(*shown):
    """Decisions: the place that was shown, its probability, and the ids that were offered."""
    details = [
        (b"%d" % i, arm, pack(Detail(len(ids), chance, None, ids[arm], [*ids], *[None] * 3)))
        for i, (arm, chance, ids) in enumerate(shown)
    ]
    return folding.Rows(details)


def test_the_weights_of_a_rule():
    rule = folding.Rule("a")
    kinds, weights = rule._weights(
        rows(
            (0, 0.25, "ab"),  # what the rule shows, once in four
            (1, 0.75, "ab"),  # not what the rule shows
            (0, 0.1, "aab"),  # at one of two places of the same offer: the rule draws one
            (0, 0.5, "bc"),  # the rule could not show its offer: alike
            (0, 1.0, "a"),  # nor another one: alike
            (1, 1.0, "ab"),  # did not explore: left out
            (0, math.nan, "ab"),  # unknown
        )
    )
    assert kinds.tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert weights[:5] == pytest.approx([4.0, 0.0, 5.0, 1.0, 1.0])


def test_the_only_offer_is_chosen_and_a_uniform_draw_is_explored():
    shown = rows((0, 1.0, "a"), (0, 0.5, "ab"), (0, 0.6, "ab"), (0, math.nan, "ab"))
    ways = [folding.CHOSEN, folding.EXPLORED, folding.CHOSEN, folding.UNKNOWN]
    assert shown.ways.tolist() == ways


def test_offers_shown_more_often_than_their_probabilities_say_are_not_compared():
    rng, rule = np.random.default_rng(0), folding.Rule("a")
    places = (rng.random(2000) < 0.5).astype(int)  # b half of the time ...
    shown = rows(*((place, 0.1 if place else 0.9, "ab") for place in places))  # ... as if seldom
    rule.count(shown)
    rule.reward(shown, rng.exponential(1.0, 2000), np.zeros(2000), True)
    assert uplift(rule, "always:a").why.startswith("cannot be said: its offers were shown more or")


def test_what_chance_does_one_time_in_twenty_is_no_reason_not_to_compare():
    rng, rule = np.random.default_rng(0), folding.Rule("a")
    places = np.append(0, rng.permutation(np.arange(99) >= 67)).astype(int)  # 68 of 100, not 50
    shown = rows(*((place, 0.5, "ab") for place in places))
    rule.count(shown)
    rule.reward(shown, rng.exponential(1.0, 100), np.zeros(100), True)
    assert rule.weights.lower(math.log(20.0))[0] > 1.0
    assert uplift(rule, "always:a").why == ""


@pytest.mark.parametrize(("sign", "rooms"), [(1.0, (4.0, 6.0)), (-1.0, (6.0, 4.0))])
def test_room_is_left_for_a_third_of_the_farthest_reward_at_the_largest_weight(sign, rooms):
    """The rule's offer, drawn once in five, has paid nothing yet, and the other one 3 or -3."""
    rule, shown = folding.Rule("a"), rows((0, 0.2, "ab"), (1, 0.8, "ab"))
    rule.reward(shown, np.array([0.0, sign * 3.0]), np.zeros(2), True)
    assert _rooms(rule) == pytest.approx(rooms)  # on the other side twice the farthest difference


def wealth(values, mean, room):
    """What 1 has become that was bet on values being above a mean; the first is only the unit."""
    unit, values = abs(values[0]), np.asarray(values[1:])
    bets = BETS[BETS / unit * room <= 1.0] / unit
    shares = SHARES[: len(bets)] / SHARES.sum()
    return shares @ [math.prod((1.0 + bet * values) / (1.0 + bet * mean)) for bet in bets]


def test_both_ends_of_a_mean_are_where_a_bet_has_become_40():
    """So that each is false one time in forty at most, and both hold with 95 %."""
    values = np.random.default_rng(1).exponential(1.0, 200)
    sums = folding.Sums(1, 0)
    sums.wealths.add(np.zeros(200, dtype=np.int64), values)
    (line,) = _lines(sums, 200)
    assert wealth(values, line.low * 200 / 199, 0.0) == pytest.approx(40.0)
    assert wealth(-values, -line.high, ROOM * values.max()) == pytest.approx(40.0)


def test_both_ends_of_a_comparison_are_where_a_bet_has_become_40():
    rng, rule = np.random.default_rng(1), folding.Rule("a")
    places = rng.integers(0, 2, 400)
    shown, paid = rows(*((place, 0.5, "ab") for place in places)), rng.exponential(1.0, 400)
    rule.count(shown)
    rule.reward(shown, paid, np.zeros(400), True)
    found, gains = uplift(rule, "always:a"), np.where(places == 0, -paid, paid)
    low, high = (end / found.compared for end in (found.low, found.high))
    rooms = _rooms(rule)
    assert wealth(gains, low, rooms[0]) == pytest.approx(40.0)
    assert wealth(-gains, -high, rooms[1]) == pytest.approx(40.0)


def test_days_until_a_decision_are_at_the_rate_of_the_last_week_without_today():
    rule = folding.Rule("a")
    rule.days = {**dict.fromkeys(range(100, 110), 1000.0), **dict.fromkeys(range(110, 116), 20.0)}
    rule.days[116] = 3.0
    assert _in_days(rule, 100) == pytest.approx(5.0)
    rule.days = {116: 3.0}
    assert _in_days(rule, 100) is None


def test_the_last_ninety_days_are_shown(monkeypatch):
    part = folding.Offers()
    for day in range(130):
        monkeypatch.setattr(folding.Rows, "days", np.array([day]))
        part.count(rows((0, 0.5, "ab")))
    days = _days(part)
    assert [days[0].day, days[-1].day] == ["1970-02-10", "1970-05-10"]
    assert [day.decisions for day in days] == [1] * 90


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_bounds_of_a_mean_are_of_all_rewards_and_may_be_negative(shop_alone, sign):
    rewards = [0.0] * 30 + [sign * (1.0 + k % 3) for k in range(40)]
    for value in rewards:
        made = shop_alone.post(f"{SHOP}/decisions", json={"arms": ARMS}).json()
        told = {"token": made["token"], "reward": value}
        assert shop_alone.post(f"{SHOP}/rewards", json=told).status_code == 202
    total, wealth = earned(shop_alone)["total"], stream(rewards)
    part, inverse = wealth.rows[0] / len(rewards), math.log(40.0)
    low, high = wealth.lower(inverse)[0], wealth.upper(inverse)[0]
    bounds = (low * part, high) if sign > 0.0 else (low, high * part)
    assert (total["low"], total["high"]) == pytest.approx(bounds)
    assert total["low"] < total["mean"] < total["high"]
    assert (total["low"] < 0.0) == (sign < 0.0)


def test_few_decisions_decide_nothing(shop):
    play(shop, 4)
    found = earned(shop, against="always:none")["against"]
    assert "are needed" in found["why"]


def test_a_clear_difference_is_stated_as_a_fact(shop_alone):
    rng = np.random.default_rng(0)
    for _ in range(30):
        body = [{"arms": ARMS, "ids": IDS, "explore": 0.5}] * 50
        made = shop_alone.post(f"{SHOP}/decisions", json=body).json()
        told = [
            {"token": one["token"], "reward": 4.0 * (one["id"] == "a") + rng.uniform(0.5, 1.5)}
            for one in made
        ]
        shop_alone.post(f"{SHOP}/rewards", json=told)
    found = earned(shop_alone, against="always:none")["against"]
    assert found["better"] is True
    assert 0.0 < found["low"] < found["value"] < found["high"]
    assert found["sentence"].startswith("It earned ")
    assert "more than always 'none' would have, at least " in found["sentence"]
    assert (found["more"], found["days"]) == (None, None)
    worse = earned(shop_alone, against="always:a")["against"]
    assert worse["better"] is False
    assert "less than always 'a' would have" in worse["sentence"]


# Bounds


def stream(values):
    wealth = Wealths()
    wealth.add(np.zeros(len(values), dtype=np.int64), np.asarray(values, dtype=np.float64))
    return wealth


def test_a_difference_of_two_streams():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(2.0, 4000), rng.exponential(1.0, 4000)
    low, high = difference(stream(a), stream(b), 0.95)
    assert 0.5 < low < 1.0 < high < 1.5
    assert difference(stream(b), stream(a), 0.95) == pytest.approx((-high, -low))
    wide = difference(stream(a), stream(b), 0.999)
    assert wide[0] < low
    assert wide[1] > high
    scaled = difference(stream(1e6 * a), stream(1e6 * b), 0.95)
    assert scaled == pytest.approx((1e6 * low, 1e6 * high))
    with pytest.raises(ValueError, match="one stream each"):
        difference(Wealths(2), stream(b), 0.95)


def possible(a, b, level):
    """The least difference of two means that their wealths together do not rule out, by search."""

    def log_wealth(values, means, sign, room):
        unit, values = values[0], values[1:]
        bets = BETS[unit / BETS >= room] / unit
        shares = (SHARES / SHARES.sum())[: len(bets)]
        logs = np.log1p(sign * np.outer(bets, values)).sum(axis=1) + np.log(shares)
        logs = logs - len(values) * np.log1p(sign * np.outer(means, bets))
        return np.log(0.05 + 0.95 * np.exp(np.minimum(logs, 600.0)).sum(axis=1))

    first = np.linspace(0.5, 1.5, 801) * np.mean(a[1:])
    second = np.linspace(0.5, 3.0, 2001) * np.mean(b[1:])
    wealths = log_wealth(a, first, 1.0, 0.0)[:, None]
    wealths = wealths + log_wealth(b, second, -1.0, max(ROOM * max(b), *a))
    out = wealths > math.log(2.0 / (1.0 - level))
    return np.where(out, math.inf, first[:, None] - second).min()


def test_a_difference_leaves_out_no_pair_of_means_that_is_possible():
    rng = np.random.default_rng(7)
    for sizes in ((2000, 2000), (3000, 1000), (1000, 3000)):
        a, b = rng.exponential(2.0, sizes[0]), rng.exponential(1.0, sizes[1])
        least = possible(a, b, 0.95)
        low, _ = difference(stream(a), stream(b), 0.95)
        assert least - 0.02 < low <= least


def test_a_prize_that_one_of_two_alike_has_not_seen_yet_does_not_tell_them_apart():
    rng = np.random.default_rng(9)
    for _ in range(20):
        values = (rng.random((2, 2000)) < 0.2) * 1.0
        values[0, 1500] = 1000.0  # one in thousands of decisions
        low, high = difference(stream(values[0]), stream(values[1]), 0.95)
        assert low <= 0.0 <= high


def test_a_lower_bound_is_that_of_a_report():
    from heavytail.decider.reporting import least

    rewards = np.random.default_rng(0).pareto(1.5, 500) * (np.arange(500) % 3 == 0)
    wealth = stream(rewards)
    bound = wealth.lower(math.log(20.0), 0.0)[0] * wealth.rows[0] / len(rewards)
    assert bound == pytest.approx(least(rewards, 0.95), rel=1e-9)


def test_bounds_are_seldom_false_at_any_look():
    rng = np.random.default_rng(0)
    runs, wealth = 200, Wealths(200)
    false = np.zeros(runs, dtype=bool)
    for _ in range(20):
        values = rng.pareto(2.5, (100, runs)) * 1.5 * (rng.random((100, runs)) < 0.3)
        wealth.add(np.tile(np.arange(runs), 100), values.ravel())
        false |= wealth.lower(math.log(20.0), 0.0) > 0.3
    assert false.mean() <= 0.05


def test_a_fact_names_what_it_rests_on_and_is_withdrawn_when_a_far_larger_reward_comes():
    rng, rule = np.random.default_rng(1), folding.Rule("0")
    arms = rng.choice(3, 5000, p=[0.1, 0.8, 0.1])
    rewards = (rng.random(5000) < np.array([0.1, 0.3, 0.1])[arms]).astype(float)

    def add(weights, rewards):
        rule.compare(weights, rewards)
        rule.counts[0] += len(weights)
        rule.far = np.maximum(rule.far, [rewards.max(), 0.0])
        rule.weights.add(np.zeros(len(weights), dtype=np.int64), weights)

    add(np.where(arms == 0, 10.0, 0.0), rewards)
    stated = uplift(rule, "always:0")
    assert stated.better is True
    assert "unless a far larger reward is yet to come" in stated.sentence
    add(np.array([10.0]), np.array([200.0]))  # of the rule's own offer
    stated = uplift(rule, "always:0")
    assert stated.better is None
    assert stated.low < 0.0
    assert stated.sentence.startswith("Not decided yet: it earned between")


def test_the_command_prints_what_the_service_answers(shop_alone, tmp_path, capsys, monkeypatch):
    from heavytail.cli import main

    play(shop_alone, 40)
    store = str(tmp_path / "store")
    assert main(["earned", store, "shop", "--against", "always:none", "--json"]) == 0
    assert _close(json.loads(capsys.readouterr().out), earned(shop_alone, against="always:none"))
    assert main(["earned", store, "shop", "--against", "uniform"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("160 decisions, ")
    assert "offer" in shown
    assert "a uniform draw" in shown
    assert main(["earned", store, "shop", "--against", "always:nonne"]) == 2
    assert "Did you mean 'none'?" in capsys.readouterr().err
    assert main(["earned", store, "nobody"]) == 2
    assert main(["earned", store, "shop", "--against", "best"]) == 2
    assert main(["earned", store, "shop", "--key", "x"]) == 2
    assert "--key is for the address" in capsys.readouterr().err


def test_a_client_asks_for_it(shop, monkeypatch):
    play(shop, 10)
    client = ht.Client("http://127.0.0.1:8080", http=shop)
    found = client.model("shop").earned(against="always:none")
    assert found["total"]["decisions"] == 40
    assert found["against"]["rule"] == "always 'none'"


def test_keys_are_tokens():  # the margin of a fold rests on it
    assert Token.new(1, 0, 5.0).key < Token.new(1, 0, 5.002).key
    assert chores.GRACE <= folding.MARGIN
