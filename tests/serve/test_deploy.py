"""The board and the alarms in deploy/: they ask for what the service exports, and alarms ring."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.conftest import serving
from tests.serve.killing import free_port
from tests.serve.listening import listening
from tests.serve.test_service import ARMS

from heavytail.serve.handlers import ROUTES

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((DEPLOY / "grafana.json").read_text())
PANELS = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
EXPRESSIONS = [rule["expr"] for rule in RULES] + PANELS
METRIC = re.compile(r"(heavytail_\w+)(?:\{([^}]*)\})?")
ADDED = {"job", "instance"}  # labels that Prometheus adds


def traffic(client):
    """Make every metric appear."""
    shop = "/v1/models/shop"
    client.put(shop, json={"dim": 3, "wait": 3600.0}).raise_for_status()
    for _ in range(30):
        made = client.post(f"{shop}/decisions", json={"arms": ARMS}).raise_for_status().json()
        paid = {"token": made["token"], "reward": 1.5}
        client.post(f"{shop}/rewards", json=paid).raise_for_status()
    assert client.post(f"{shop}/decisions", json={"arms": []}).status_code == 422


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The labels of each exported metric."""
    with serving(tmp_path_factory.mktemp("deploy") / "store") as client:
        traffic(client)
        text = client.get("/metrics").text
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_expression_asks_for_what_is_exported(exported):
    handlers = {route.handler.__name__ for route in ROUTES}
    assert len(EXPRESSIONS) > 30
    for expression in EXPRESSIONS:
        for name, selected in METRIC.findall(expression):
            assert name in exported, expression
            labels = dict(re.findall(r'(\w+)=~?"([^"]*)"', selected))
            assert set(labels) <= exported[name] | ADDED, expression
            if "route" in labels:
                assert set(labels["route"].split("|")) <= handlers


def test_every_metric_of_the_service_is_on_the_board(exported):
    shown = {name for name, _ in METRIC.findall(" ".join(PANELS))}
    assert {name for name in exported if not name.endswith(("_created", "_sum", "_count"))} <= shown


def test_the_page_on_running_the_service_names_what_is_exported(exported):
    text = (DEPLOY.parent / "docs/howto/operate.md").read_text()
    named = {name for name, _ in METRIC.findall(text)}
    assert len(named) > 15
    assert named <= set(exported) | {name.removesuffix("_bucket") for name in exported}


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on this machine (Debian: apt-get install prometheus)")
    return path


def test_prometheus_reads_the_alarms():
    check = [program("promtool"), "check", "rules", str(DEPLOY / "alerts.yaml")]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


SHOP = '{job="heavytail", instance="a", model="shop"'
CASES = {  # by alarm: series of a minute each that ring it, and of a healthy service
    "HeavytailDown": (
        {'up{job="heavytail", instance="a"}': ("0+0x300", "1+0x300")},
        {"instance": "a", "job": "heavytail"},
    ),
    "HeavytailBrokenModel": (
        {'heavytail_broken_models{job="heavytail", instance="a"}': ("1+0x300", "0+0x300")},
        {"job": "heavytail"},
    ),
    "HeavytailRequestsFail": (
        {
            'heavytail_requests_total{job="heavytail", instance="a", status="503"}': (
                "0+60x300",
                "0+0x300",
            ),
            'heavytail_requests_total{job="heavytail", instance="b", status="201"}': (
                "0+600x300",
                "0+600x300",
            ),
        },
        {"job": "heavytail"},
    ),
    "HeavytailRequestsRefused": (
        {
            'heavytail_requests_total{job="heavytail", route="decide", status="422"}': (
                "0+60x300",
                "0+6x300",
            ),
            'heavytail_requests_total{job="heavytail", route="decide", status="201"}': (
                "0+600x300",
                "0+600x300",
            ),
        },
        {"job": "heavytail", "route": "decide"},
    ),
    "HeavytailSlow": (
        {
            'heavytail_request_seconds_bucket{job="heavytail", route="decide", le="0.25"}': (
                "0+90x300",
                "0+100x300",
            ),
            'heavytail_request_seconds_bucket{job="heavytail", route="decide", le="+Inf"}': (
                "0+100x300",
                "0+100x300",
            ),
            'heavytail_request_seconds_bucket{job="heavytail", route="decide", le="0.5"}': (
                "0+100x300",
                "0+100x300",
            ),
        },
        {"job": "heavytail", "route": "decide"},
    ),
    "HeavytailStale": (
        {f"heavytail_model_staleness{SHOP}}}": ("200+0x300", "20+0x300")},
        None,
    ),
    "HeavytailNobodyExpires": (
        {
            f"heavytail_oldest_pending_seconds{SHOP}}}": ("0+60x300", "3000+0x300"),
            f"heavytail_wait_seconds{SHOP}}}": ("3600+0x300", "3600+0x300"),
        },
        None,
    ),
    "HeavytailNoRewards": (
        {
            f"heavytail_decisions_total{SHOP}}}": ("0+10x300", "0+10x300"),
            f'heavytail_rewards_total{SHOP}, kind="sent"}}': ("5+0x300", "0+1x300"),
        },
        None,
    ),
    "HeavytailMoreDefaultRewards": (
        {
            f'heavytail_rewards_total{SHOP}, kind="sent"}}': ("0+9x150 1350+0x150", "0+9x300"),
            f'heavytail_rewards_total{SHOP}, kind="default"}}': ("0+1x150 150+9x150", "0+1x300"),
        },
        None,
    ),
    "HeavytailRefusedOutcomes": (
        {f"heavytail_refused_outcomes{SHOP}}}": ("0+1x300", "3+0x300")},
        None,
    ),
    "HeavytailUnknownCategories": (
        {
            f"heavytail_unknown_categories_total{SHOP}}}": ("0+5x300", "0+0x300"),
            f"heavytail_decisions_total{SHOP}}}": ("0+10x300", "0+10x300"),
        },
        None,
    ),
    "HeavytailResidualsGrow": (
        {f"heavytail_residual_ratio{SHOP}}}": ("9+0x300", "1+0x300")},
        None,
    ),
    "HeavytailWorkersDie": (
        {'heavytail_worker_restarts_total{job="heavytail", instance="a"}': ("0+1x300", "2+0x300")},
        {"job": "heavytail"},
    ),
}


def test_every_alarm_rings_when_it_should_and_only_then(tmp_path):
    assert set(CASES) == {rule["alert"] for rule in RULES if "alert" in rule}
    tests = []
    for name, (series, labels) in CASES.items():
        (rule,) = (rule for rule in RULES if rule.get("alert") == name)
        labels = {"job": "heavytail", "model": "shop"} if labels is None else labels
        for which in (0, 1):
            found = [{"exp_labels": {**labels, **rule["labels"]}}]
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [
                        {"series": each, "values": values[which]} for each, values in series.items()
                    ],
                    "alert_rule_test": [
                        {"eval_time": "4h", "alertname": name, "exp_alerts": found[which:]}
                    ],
                }
            )
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("annotations", None)  # of which a test would have to give the exact words
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": tests})
    )
    check = [program("promtool"), "test", "rules", str(tmp_path / "tests.yaml")]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_real_prometheus_answers_every_expression(tmp_path):
    path, port = program("prometheus"), free_port()
    with listening(tmp_path / "store") as (_, service):
        with httpx.Client(base_url=f"http://127.0.0.1:{service}", timeout=60.0) as client:
            traffic(client)
        job = {
            "job_name": "heavytail", "static_configs": [{"targets": [f"127.0.0.1:{service}"]}],
        }  # fmt: skip
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(DEPLOY / "alerts.yaml")],
            "scrape_configs": [job],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        options = {
            "config.file": tmp_path / "prometheus.yml",
            "storage.tsdb.path": tmp_path / "data",
            "web.listen-address": f"127.0.0.1:{port}",
        }
        process = subprocess.Popen(
            [path, *(f"--{name}={value}" for name, value in options.items())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            values = asked(port)
        finally:
            process.kill()
            process.wait()
    empty = [expression for expression in PANELS if not values[expression]]
    assert not empty
    assert values["up"][0]["value"][1] == "1"


def asked(port: int) -> dict[str, list]:
    """What Prometheus finds for every expression, once it has scraped often enough for rates."""
    url, values = f"http://127.0.0.1:{port}", {}
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        try:
            for expression in ("up", *EXPRESSIONS):
                query = expression.replace("$__rate_interval", "1m")
                query = query.replace("$job", ".*").replace("$model", ".*")
                answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, timeout=10.0)
                assert answer.status_code in (200, 503), answer.text
                values[expression] = answer.raise_for_status().json()["data"]["result"]
            if all(values[expression] for expression in PANELS):
                break
        except (httpx.TransportError, httpx.HTTPStatusError):  # it is starting
            pass
        time.sleep(0.5)
    return values
