"""Metrics for Prometheus: the same from every worker, summed over workers, true after a death."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.killing import free_port
from tests.serve.test_service import ARMS, SHOP, decide, reward
from tests.serve.test_workers import answers, wait_for

import heavytail as ht
from heavytail.serve.workers import ended


def scraped(text):
    """The values of the metrics by name and labels, these in the order of their names."""
    return {
        (
            sample.name.removeprefix("heavytail_"),
            *(text for _, text in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(client):
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return scraped(answer.text)


def test_every_worker_gives_the_counts_of_the_store(pair):
    tokens = [decide(pair[k % 2])["token"] for k in range(5)]
    for client, token, value in zip(pair, tokens[:2], (3.0, -1.0), strict=True):
        reward(client, token, value)
    for client in pair:
        found = scrape(client)
        assert found["decisions_total", "shop"] == 5.0
        assert found["rewards_total", "sent", "shop"] == 2.0
        assert found["rewards_total", "default", "shop"] == 0.0
        assert found["reward_sum_total", "shop", "positive"] == 3.0
        assert found["reward_sum_total", "shop", "negative"] == 1.0
        assert found["pending_decisions", "shop"] == 3.0
        assert 0.0 < found["oldest_pending_seconds", "shop"] < 600.0
        assert ("wait_seconds", "shop") not in found
    assert pair[0].delete(SHOP).status_code == 204
    for client in pair:
        client.portal.call(client.app.state.service.live.look)
        assert not any("shop" in labels for _, *labels in scrape(client))


def test_default_rewards_and_given_up_decisions_are_told_apart(client):
    for name, spec in {"shop": {"default_reward": 0.5}, "bare": {}}.items():
        client.put(f"/v1/models/{name}", json={"dim": 3, "wait": 0.05, **spec})
        client.post(f"/v1/models/{name}/decisions", json={"arms": ARMS})
    time.sleep(0.2)
    for _ in range(200):
        found = scrape(client)
        if found["rewards_total", "default", "shop"] and found["given_up_decisions", "bare"]:
            break
        time.sleep(0.05)
    assert found["rewards_total", "default", "shop"] == 1.0
    assert found["rewards_total", "sent", "shop"] == found["rewards_total", "default", "bare"] == 0
    assert found["reward_sum_total", "shop", "positive"] == 0.5
    assert (found["given_up_decisions", "bare"], found["given_up_decisions", "shop"]) == (1.0, 0.0)
    assert found["pending_decisions", "bare"] == found["oldest_pending_seconds", "bare"] == 0.0
    assert found["wait_seconds", "shop"] == 0.05


def test_unknown_categories_are_counted_by_decision(client):
    encoder = ht.Encoder(categories={"segment": ["new", "loyal"], "colour": ["red"]})
    client.put(SHOP, json={"encoder": encoder.schema()}).raise_for_status()
    for segment, colour in [("new", "red"), ("lapsed", "red"), ("new", "blue"), ("old", "blue")]:
        asked = {"context": {"segment": segment}, "arms": [{"colour": "red"}, {"colour": colour}]}
        assert client.post(f"{SHOP}/decisions", json=asked).status_code == 201
    head = {"Idempotency-Key": "k"}
    for _ in range(2):  # the second is the first
        client.post(f"{SHOP}/decisions", json=asked, headers=head).raise_for_status()
    assert scrape(client)["unknown_categories_total", "shop"] == 4.0


def test_commits_and_requests_are_counted(shop):
    token = decide(shop)["token"]
    reward(shop, token, 1.0)
    assert reward(shop, token, 2.0).status_code == 409
    found = scrape(shop)
    assert found["requests_total", "decide", "201"] == 1.0
    assert found["requests_total", "reward", "409"] == found["requests_total", "reward", "202"] == 1
    assert found["request_seconds_count", "reward"] == 2.0
    assert found["commit_seconds_count",] >= 3.0
    assert found["operations_total",] >= 3.0
    assert found["worker_restarts_total",] == 0.0
    assert found["model_rounds", "shop"] == 1.0
    assert found["refused_outcomes", "shop"] == found["model_staleness", "shop"] == 0.0
    assert ("residual_ratio", "shop") not in found  # one residual says nothing
    for _ in range(30):
        reward(shop, decide(shop)["token"], 1.0)
    assert scrape(shop)["residual_ratio", "shop"] == 1.0


def test_a_fault_is_counted_as_500(shop, monkeypatch):
    async def fail(*args):
        raise RuntimeError("a fault")

    monkeypatch.setattr(shop.app.state.service, "decide", fail)
    assert shop.post(f"{SHOP}/decisions", json={"arms": ARMS}).status_code == 500
    assert scrape(shop)["requests_total", "decide", "500"] == 1.0


def test_workers_answer_for_all_and_a_death_is_one_line(address, tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "heavytail", "serve", "--store", address, "--workers", "2"]
    with (tmp_path / "log").open("w") as log:
        parent = subprocess.Popen(
            [*command, "--port", str(port)], stderr=log, env={**os.environ, "TMPDIR": str(tmp_path)}
        )
    try:
        wait_for(lambda: answers(port))
        httpx.put(url + SHOP, json={"dim": 3}, timeout=120.0).raise_for_status()
        for _ in range(20):  # each over a connection of its own, to whichever worker
            httpx.post(f"{url}{SHOP}/decisions", json={"arms": ARMS}).raise_for_status()
        before = [scraped(httpx.get(f"{url}/metrics").text) for _ in range(6)]
        assert {found["requests_total", "decide", "201"] for found in before} == {20.0}
        assert {found["decisions_total", "shop"] for found in before} == {20.0}
        (folder,) = tmp_path.glob("heavytail-metrics-*")
        pids = {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_livemax_*.db")}
        assert len(pids) == 2
        victim = pids.pop()
        os.kill(victim, signal.SIGKILL)

        def after():
            try:
                return scraped(httpx.get(f"{url}/metrics", timeout=60.0).text)
            except httpx.TransportError:  # the dead worker had taken the connection
                return {("worker_restarts_total",): 0.0}

        wait_for(lambda: after()["worker_restarts_total",] == 1.0)
        assert after()["requests_total", "decide", "201"] == 20.0
        assert after()["decisions_total", "shop"] == 20.0
        wait_for(lambda: not list(folder.glob(f"gauge_livemax_{victim}.db")))
    finally:
        parent.terminate()
        assert parent.wait(60.0) == 0
    assert not folder.exists()
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 2
    how = "(was killed by SIGKILL|did not answer and was killed)"  # whichever is seen first
    assert re.match(f"worker {victim} {how}(;| )", lines[1])
    assert lines[1].endswith(" takes its place")


def test_a_folder_that_the_operator_names_is_used_and_stays(monkeypatch, tmp_path):
    from heavytail.commands.serve import COUNTERS, _counting_together

    monkeypatch.setenv(COUNTERS, str(tmp_path / "named"))
    with _counting_together() as folder:
        assert folder == os.environ[COUNTERS] == str(tmp_path / "named")
    assert os.path.isdir(folder)
    monkeypatch.delenv(COUNTERS)
    with _counting_together() as folder:
        assert os.environ[COUNTERS] == folder
        assert folder.startswith(tempfile.gettempdir())
    assert COUNTERS not in os.environ
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_an_end_is_said_in_words(code, words):
    assert ended(code) == words
