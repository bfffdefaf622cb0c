"""HTTP: routes behind their keys, and refusals in words."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import multiprocessing
import signal
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from starlette import routing
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from heavytail.ledger.opening import is_local, opened
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Store, StoreError
from heavytail.serve.archiving import Retention
from heavytail.serve.handlers import ROUTES, Call, Route, answer
from heavytail.serve.metrics import Metrics
from heavytail.serve.rates import Rates
from heavytail.serve.service import Limits, Service
from heavytail.serve.tracing import tracing
from heavytail.serve.wire import Fault

__all__ = ["build", "worker"]

CLOSING = (408, 413)  # statuses of a body that was not read to its end

# Headers by which proxies say that a request is not their own.
FORWARDED = (
    "forwarded", "via", "x-real-ip", "cf-connecting-ip", "x-forwarded-for", "x-forwarded-host",
    "x-forwarded-proto",
)  # fmt: skip

log = logging.getLogger("heavytail.serve")


def build(
    store: Store,
    *,
    local: bool,
    limits: Limits | None = None,
    retention: Retention | None = None,
    beside: Callable[[Service], Coroutine[Any, Any, None]] | None = None,
    alone: bool = False,
) -> Starlette:
    """The application on a store.

    Args:
        store: opened.
        local: the service listens on this machine only, and needs no key until one exists.
        limits: of requests.
        retention: how long rows stay in the store; None for ever.
        beside: a coroutine that runs in the service's loop as long as the service.
        alone: the process does nothing else. What it has loaded by then is left out of later
            collections of garbage, which would stop all requests for tens of milliseconds.
    """
    service = Service(store, limits, retention)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await _started(service)
        if alone:
            gc.collect()
            gc.freeze()
        tasks = [asyncio.create_task(metrics.keep(service.live))]
        if beside is not None:
            tasks.append(asyncio.create_task(beside(service)))
        try:
            yield
        finally:
            for task in tasks:
                await _ended(task)
            await service.stop()
            if traces is not None:
                await asyncio.to_thread(traces.close)

    dispatcher = Dispatcher(service, local)
    metrics = dispatcher.metrics
    service.commits.observe = metrics.committed
    endpoints: list[ASGIApp] = [Endpoint(dispatcher, route) for route in ROUTES]
    traces = tracing()
    if traces is not None:
        service.commits.waiting = traces.waiting
        endpoints = list(map(traces.around, endpoints, ROUTES))
    routes = [
        routing.Route(route.path, endpoint, methods=[route.method])
        for route, endpoint in zip(ROUTES, endpoints, strict=True)
    ]
    handlers: dict[Any, Any] = {404: _missing, 405: _missing, Exception: _broken}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False  # to wherever a Host header says
    app.state.service = service
    return app


def worker(
    address: str, *, local: bool, limits: Limits, retention: Retention | None = None
) -> Starlette:
    """The application on the store at an address, for a worker process that opens the store itself
    and ends with its parent. If the store cannot be opened, the process ends, and its parent starts
    the next.
    """
    try:
        store = opened(address)
    except StoreError as error:
        log.error("%s", error)
        time.sleep(1.0)
        raise SystemExit(1) from None
    return build(
        store, local=local, limits=limits, retention=retention, beside=_while_watched, alone=True
    )


async def _while_watched(service: Service) -> None:
    parent = multiprocessing.parent_process()
    while parent is None or parent.is_alive():
        await asyncio.sleep(0.5)
    log.error("the process that started this worker is gone")
    signal.raise_signal(signal.SIGTERM)


async def _started(service: Service) -> None:
    """Start the service; if its database is unreachable, wait for it."""
    while True:
        try:
            return await service.start()
        except StoreError as error:
            if not service.store.shared:
                raise
            log.error("%s", error)
            await asyncio.sleep(0.5)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it; log its failure, if any, and go on."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    except Exception:
        log.exception("a background task of the service failed")


class Dispatcher:
    """Authorises requests, counts them against the rate limit, and calls their handlers."""

    def __init__(self, service: Service, local: bool) -> None:
        self.service, self.metrics = service, Metrics()
        self.local = local
        self.rates = Rates(service.limits.rate)

    async def served(self, route: Route, request: Request) -> Response:
        """Return the response of a route's handler, or a refusal as a response."""
        try:
            who = "anybody"
            if route.scope:
                header = request.headers.get("authorization", "")
                here = self.local and _from_here(request)
                try:
                    who = await self.service.keys.allow(
                        self.service.commits, header, route.scope, here
                    )
                except Refusal:
                    self.rates.count(_address(request))
                    raise
                self.rates.count(who if header else _address(request))
            return await route.handler(Call(self.service, request, who, self.metrics))
        except Refusal as refusal:
            return fault(refusal)
        except StoreError as error:
            log.error("%s", error)
            return fault(Refusal(503, "store", "The store cannot be written to. Try again later."))
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.CancelledError:  # uvicorn's last word to what is not done when it stops
            message = "The service is stopping. The request may have been processed; send it again."
            return fault(Refusal(503, "stopping", message))


class Endpoint:
    """A route as a plain ASGI application, without Starlette's wrapper around a function."""

    def __init__(self, dispatcher: Dispatcher, route: Route) -> None:
        self.dispatcher, self.route = dispatcher, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status = time.perf_counter(), 500
        try:
            response = await self.dispatcher.served(self.route, Request(scope, receive, send))
            status = response.status_code
        finally:
            self.dispatcher.metrics.served(self.route, status, time.perf_counter() - start)
        await response(scope, receive, send)


def _from_here(request: Request) -> bool:
    """Tell whether a program on this machine sent the request; a forwarded request may come from
    anywhere.
    """
    head = request.headers
    if any(name in head for name in FORWARDED):
        return False
    return _named_here(_address(request), head.get("host", ""), head.get("origin"))


@functools.lru_cache(64)
def _named_here(peer: str, host: str, origin: str | None) -> bool:
    """Tell whether every address in the request is this machine. A page of another site in a local
    browser would name that site.
    """
    urls = [f"//{host}"] if origin is None else [f"//{host}", origin]
    try:
        names = [urllib.parse.urlsplit(url).hostname or "" for url in urls]
    except ValueError:
        return False
    return all(map(is_local, [peer, *names]))


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def fault(refusal: Refusal) -> Response:
    """The response for a refusal."""
    body = answer(Fault(refusal.code, refusal.message, refusal.field), refusal.status)
    if refusal.status == 429:
        body.headers["retry-after"] = "1"
    if refusal.status in CLOSING or refusal.code == "stopping":
        body.headers["connection"] = "close"
    if refusal.status == 401:
        body.headers["www-authenticate"] = "Bearer"
    return body


async def _missing(request: Request, error: Exception) -> Response:
    code = getattr(error, "status_code", 404)
    words = "No such path; /openapi.json lists the routes."
    if code != 404:
        words = "Method not allowed for this path; /openapi.json lists the methods."
    return fault(Refusal(code, "not_found" if code == 404 else "not_allowed", words))


async def _broken(request: Request, error: Exception) -> Response:
    log.exception("a request failed", exc_info=error)
    return fault(Refusal(500, "broken", "The service failed. The request may have been processed."))
