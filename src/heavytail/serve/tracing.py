"""Traces for OpenTelemetry: a span for each request, and inside it the wait for its commits."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heavytail._extras import need

if TYPE_CHECKING:
    from heavytail.serve.handlers import Route

__all__ = ["Tracing", "is_wanted", "tracing"]

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"  # where spans are sent; nothing is traced without it
TRACED = "/v1/"  # begins the paths of what is traced
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def is_wanted() -> bool:
    """Tell whether OpenTelemetry's environment variables ask for traces; refuse if the packages are
    missing.
    """
    wanted = bool(os.environ.get(ENDPOINT))
    if wanted:
        need(f"{ENDPOINT} is set: a trace", *PACKAGES, extra="serve,otel")
    return wanted


def tracing() -> Tracing | None:
    """The spans of this process; None if nobody wants them."""
    if not is_wanted():
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "heavytail")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


class Tracing:
    """The spans of this process.

    Args:
        provider: of OpenTelemetry.
    """

    def __init__(self, provider: Any) -> None:
        from opentelemetry import propagate, trace

        self._provider, self._trace, self._propagate = provider, trace, propagate
        self._tracer = provider.get_tracer("heavytail.serve")

    def around(self, endpoint: ASGIApp, route: Route) -> ASGIApp:
        """The endpoint of a route in a span, which continues the trace of the client, if any."""
        return Traced(self, endpoint, route) if route.path.startswith(TRACED) else endpoint

    def request(self, route: Route, scope: Scope) -> contextlib.AbstractContextManager[Any]:
        """A span for a request."""
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        attributes = {"http.request.method": route.method, "http.route": route.path}
        if "name" in scope["path_params"]:
            attributes["heavytail.model"] = scope["path_params"]["name"]
        span: contextlib.AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"{route.method} {route.path}", self._propagate.extract(headers),
            self._trace.SpanKind.SERVER, attributes,
        )  # fmt: skip
        return span

    def answered(self, span: Any, status: int) -> None:
        """Note the status of the answer."""
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)

    def waiting(self) -> contextlib.AbstractContextManager[object]:
        """A span for the wait for a commit, within the span of a request."""
        if not self._trace.get_current_span().is_recording():  # a chore
            return contextlib.nullcontext()
        span: contextlib.AbstractContextManager[object] = self._tracer.start_as_current_span(
            "commit", record_exception=False, set_status_on_exception=False
        )  # a refusal is an answer
        return span

    def close(self) -> None:
        """Send the last spans."""
        self._provider.shutdown()


class Traced:
    """An endpoint whose requests are spans."""

    def __init__(self, traces: Tracing, endpoint: ASGIApp, route: Route) -> None:
        self._traces, self._endpoint, self._route = traces, endpoint, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._traces.request(self._route, scope) as span:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._traces.answered(span, message["status"])
                await send(message)

            try:
                await self._endpoint(scope, receive, noted)
            except Exception:
                self._traces.answered(span, 500)
                raise
