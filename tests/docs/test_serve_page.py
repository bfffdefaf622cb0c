"""The page on the service: its Python runs, against a service in this process."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.serve.conftest import serving

import heavytail as ht
from heavytail.serve import model
from heavytail.serve.handlers import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
ARMS = 0.9 * np.eye(3)
PAYS = [1.0, 2.0, 4.0]


def blocks(heading: str, language: str = "python") -> list[str]:
    """The Python under a heading, block by block, or the console's lines."""
    part = re.split("\n##+ ", PAGE.read_text().split(f"# {heading}\n")[1])[0]
    return re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_page_names_every_route(route):
    written = route.path.replace("{number}", "N").replace("{name}", "NAME")
    short = written.replace("/v1/models/NAME/", ".../")
    assert written in PAGE.read_text() or short in PAGE.read_text(), (
        f"add {route.method} {short} to the table of calls in docs/howto/serve.md"
    )


def traffic(shop, rng, count=150):
    made = [shop.decide(ARMS) for _ in range(count)]
    shop.learn(made, [PAYS[one.arm] * rng.pareto(2.5) for one in made])


def test_a_shadow_is_compared_by_what_came_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = ht.Client
    rng = np.random.default_rng(0)
    # A log of chance may hold too few of the other arm to compare by.
    monkeypatch.setattr(model, "random_number", random.Random(1).getrandbits)
    with serving(tmp_path / "store") as http:
        monkeypatch.setattr(ht, "Client", lambda url: plain("http://127.0.0.1:8080", http=http))
        names: dict = {}
        (first,) = blocks("From Python")
        exec(first, names)
        assert ht.load("policy.npz").rounds == ht.evaluate("log.parquet", ht.Uniform(3)).rows == 1
        shop = names["shop"]
        fork, keep, compare, promote = blocks("Compare a shadow")
        traffic(shop, rng)
        exec(fork, names)
        traffic(shop, rng)
        assert names["shadow"].describe()["rounds"] == shop.describe()["rounds"] == 301
        exec(keep, names)
        traffic(shop, rng)
        exec(compare, names)
        exec(promote, names)
        traffic(shop, rng, 3)
        assert shop.describe()["rounds"] == 454
        assert shop.describe()["policy"] == "HvtUCB"
    found = names["found"]
    assert names["later"].height == 150  # of 451, those that neither has learned
    assert found.a.rows == found.b.rows == 150
    assert np.isfinite(found.value)


OFFERS = [
    {"sku": name, "price": price} for name, price in [("card", 19.0), ("loan", 49.0), ("none", 0.0)]
]
COLUMNS = {"segment": "category", "basket": "number"}
JOBS = [
    "Put in what was learned", "Change the features", "Add or withdraw an offer", "Roll back",
    "Run an A/B test",
]  # fmt: skip


def curl(http, line):
    """The answer to a call as it is written for curl."""
    method, url, more = "", "", {}
    words = iter(shlex.split(line.removeprefix("$ curl ")))
    for word in words:
        if word == "-X":
            method = next(words)
        elif word in ("-d", "-T"):
            method = method or ("POST" if word == "-d" else "PUT")
            body = next(words)
            more["content"] = body.encode() if word == "-d" else Path(body).read_bytes()
        else:
            url = word.removeprefix("localhost:8080")
    answer = http.request(method or "GET", url, **more)
    assert answer.status_code < 300, (line, answer.text)
    return answer


def test_a_model_begins_with_a_log_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = ht.TwinUCB(3)
    with ht.DecisionLog("log") as log:
        for reward in (1.0, 2.0):
            decision = policy.decide(ARMS)
            log.decided(decision, ARMS)
            log.rewarded(decision, reward)
        log.export("log.parquet")
    (calls,), (code,) = (blocks("Begin with a log", kind) for kind in ("console", "python"))
    first, second = (line for line in calls.splitlines() if line.startswith("$"))
    with serving(tmp_path / "store") as http:
        assert [curl(http, line).status_code for line in (first, second, second)] == [201, 201, 200]
        learner = ht.Client("http://127.0.0.1:8080", http=http)
        names = {"client": learner}
        exec(code, names)
        assert names["learner"].describe()["rounds"] == 2


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ht.Decider(OFFERS, ids="sku", context=COLUMNS).save("shop.ht")
    ht.Decider(OFFERS, ids="sku", context={**COLUMNS, "device": "category"}).save("wide.ht")
    return tmp_path


def visits(http, count=12):
    for basket in range(count):
        context = {"segment": "new", "basket": basket, "device": "phone"}
        made = http.post("/v1/models/shop/decisions", json={"context": context}).json()
        reward = {"token": made["token"], "reward": float(basket)}
        assert http.post("/v1/models/shop/rewards", json=reward).status_code == 202


def test_each_job_is_done_by_the_calls_it_begins_with(files):
    with serving(files / "store") as http:
        for job in JOBS:
            (calls,) = blocks(job, "console")
            answers = [curl(http, line) for line in calls.splitlines()]
            if job == "Put in what was learned":
                visits(http)
            if job == "Change the features":
                assert answers[1].json()["learning"] is None
                assert answers[2].json()["rounds"] == 12
                assert "device" in wide_context(http)
            if job == "Add or withdraw an offer":
                assert sorted(answers[1].json()["offers"]) == ["card", "gold", "none"]
            if job == "Roll back":
                assert (answers[0].json()["rounds"], answers[2].json()["rounds"]) == (12, 0)
            if job == "Run an A/B test":
                assert answers[1].json()["model"] in ("shop", "shop-b")


def wide_context(http):
    """The columns that the service misses in an empty context."""
    answer = http.post(
        "/v1/models/shop/decisions", json={"context": {"segment": None, "basket": 1}}
    )
    return answer.json()["message"]


def test_each_job_is_done_by_its_python(files, monkeypatch):
    plain, names = ht.Client, {"ht": ht}
    with serving(files / "store") as http:
        monkeypatch.setattr(ht, "Client", lambda url: plain("http://127.0.0.1:8080", http=http))
        for job in JOBS:
            for block in blocks(job):
                exec(block, names)
            if job == "Put in what was learned":
                visits(http)
    assert names["choice"].model in ("shop", "shop-b")
