"""Traces: what a collector of OpenTelemetry gets, and nothing where none is named."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, decide, reward

from heavytail._extras import MissingExtra
from heavytail.cli import main
from heavytail.serve.tracing import ENDPOINT, PACKAGES, tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextlib.contextmanager
def collecting():
    """A collector, and the bodies that it got."""
    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_request_is_a_span_and_the_wait_for_its_commit_one_inside(tmp_path, monkeypatch):
    for package in PACKAGES:
        pytest.importorskip(package, reason="needs heavytail[otel]")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with collecting() as (url, bodies):
        monkeypatch.setenv(ENDPOINT, url)
        with serving(tmp_path / "store") as client:
            client.put(SHOP, json={"dim": 3}).raise_for_status()
            head = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            asked = {"arms": ARMS}
            client.post(f"{SHOP}/decisions", json=asked, headers=head).raise_for_status()
            token = decide(client)["token"]
            reward(client, token, 1.0)
            assert reward(client, token, 2.0).status_code == 409
            monkeypatch.setattr(client.app.state.service, "decide", None)
            assert client.post(f"{SHOP}/decisions", json=asked).status_code == 500
            client.get("/metrics")
    assert {path for path, _ in bodies} == {"/v1/traces"}
    spans = [
        span
        for _, body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    values = {span.span_id: {one.key: one.value for one in span.attributes} for span in spans}
    requests = [span for span in spans if span.name != "commit"]
    made = f"POST {SHOP.replace('shop', '{name}')}/decisions"
    assert [span.name for span in requests].count(made) == 3
    assert not any("metrics" in span.name for span in spans)
    first, *_, last = (span for span in requests if span.name == made)
    assert (first.trace_id.hex(), first.parent_span_id.hex()) == (TRACE, PARENT)
    assert values[first.span_id]["heavytail.model"].string_value == "shop"
    assert values[first.span_id]["http.response.status_code"].int_value == 201
    assert values[last.span_id]["http.route"].string_value == "/v1/models/{name}/decisions"
    assert values[last.span_id]["http.response.status_code"].int_value == 500
    assert (last.status.code, first.status.code) == (2, 0)  # an error, and none
    refused = [
        span
        for span in requests
        if values[span.span_id]["http.response.status_code"].int_value == 409
    ]
    assert [span.status.code for span in refused] == [0]
    inside = [span for span in spans if span.name == "commit"]
    assert {span.parent_span_id for span in inside} <= {span.span_id for span in requests}
    commits = [span for span in inside if span.parent_span_id == first.span_id]
    assert commits  # keys are looked up in one too
    for span in commits:
        assert first.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= first.end_time_unix_nano
        assert span.trace_id == first.trace_id


def test_nothing_is_traced_where_no_collector_is_named(monkeypatch):
    monkeypatch.delenv(ENDPOINT, raising=False)
    assert tracing() is None
    code = "import sys, heavytail.serve.app; assert 'opentelemetry' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_that_is_missing_is_named_before_a_worker_starts(monkeypatch, capsys):
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    for package in ("opentelemetry", *PACKAGES):
        monkeypatch.setitem(sys.modules, package, None)
    words = "opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, which are not installed"
    with pytest.raises(MissingExtra, match=words):
        tracing()
    assert main(["serve", "--store", "postgresql://x/x", "--workers", "2"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "heavytail[serve,otel]" in error
