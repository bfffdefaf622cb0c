"""HTTP: routes, keys, limits and faults. What the service does is in ``service``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from heavytail.serve.keys import digest
from heavytail.serve.refusal import Refusal
from heavytail.serve.service import Limits, Service
from heavytail.serve.store import Store, StoreError
from heavytail.serve.wire import (
    DecideAmongNamed,
    DecideAmongVectors,
    Fault,
    Fork,
    ModelChange,
    ModelSpec,
    Predict,
    Restore,
    Reward,
    Rewarded,
    encoded,
)

__all__ = ["ROUTES", "Call", "build"]

log = logging.getLogger("heavytail.serve")

Handler = Callable[["Call"], Awaitable[Response]]


class Call(NamedTuple):
    """A request that may be served."""

    service: Service
    request: Request
    who: str

    @property
    def name(self) -> str:
        """The model that the path names."""
        return str(self.request.path_params["name"])

    async def body(self) -> bytes:
        """The body, no longer than it may be."""
        most = self.service.limits.body
        told = self.request.headers.get("content-length", "")
        if told.isdigit() and int(told) > most:
            raise Refusal(413, "too_large", f"A body has at most {most} bytes.")
        parts, size = [], 0
        async for part in self.request.stream():
            size += len(part)
            if size > most:
                raise Refusal(413, "too_large", f"A body has at most {most} bytes.")
            parts.append(part)
        return b"".join(parts)


class Road(NamedTuple):
    """A route: what serves it, and the scope that it needs; "" for none."""

    method: str
    path: str
    scope: str
    handler: Handler


def answer(content: Any, status: int = 200) -> Response:
    """JSON."""
    return Response(encoded(content), status, media_type="application/json")


def read(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """A body as what it should be, or a refusal with the field."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise Refusal(422, "bad_body", message + ".", place.rstrip("`").lstrip(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "bad_json", f"The body is no JSON: {error}.") from None


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=True)


VECTORS = _decoder(DecideAmongVectors | list[DecideAmongVectors])
NAMED = _decoder(DecideAmongNamed | list[DecideAmongNamed])
REWARDS = _decoder(Reward | list[Reward])
SPEC, CHANGE, FORK, RESTORE = map(_decoder, (ModelSpec, ModelChange, Fork, Restore))
PREDICT = _decoder(Predict)


async def create(call: Call) -> Response:
    """Make a model; the same again is answered as it is."""
    spec = read(SPEC, await call.body())
    new, view = await call.service.create(call.name, spec, call.who)
    return answer(view, 201 if new else 200)


async def models(call: Call) -> Response:
    """All models."""
    return answer([await call.service.describe(name) for name in sorted(call.service.models)])


async def model(call: Call) -> Response:
    """A model as it stands."""
    return answer(await call.service.describe(call.name))


async def change(call: Call) -> Response:
    """Pause a model, or let it go on."""
    wanted = read(CHANGE, await call.body())
    return answer(await call.service.pause(call.name, wanted.paused, call.who))


async def delete(call: Call) -> Response:
    """Delete a model and all that it has."""
    await call.service.delete(call.name, call.who)
    return Response(status_code=204)


async def decide(call: Call) -> Response:
    """Decide, for one or many."""
    body = await call.body()
    named = call.service.model(call.name).encoder is not None
    asked = read(NAMED if named else VECTORS, body)
    many = isinstance(asked, list)
    key = call.request.headers.get("idempotency-key", "")
    if len(key) > 200:
        raise Refusal(422, "bad_key", "An idempotency key has at most 200 characters.")
    made = await call.service.decide(call.name, asked if many else [asked], key)
    return answer(made if many else made[0], 201)


async def reward(call: Call) -> Response:
    """Rewards of one or many decisions."""
    told = read(REWARDS, await call.body())
    new = await call.service.reward(call.name, told if isinstance(told, list) else [told])
    return answer(Rewarded(new), 202 if new else 200)


async def predict(call: Call) -> Response:
    """The mean rewards expected of arms."""
    asked = read(PREDICT, await call.body())
    found = call.service.model(call.name)
    return answer(found.predict(call.service._arms(found, asked, ""), asked.level))


async def explain(call: Call) -> Response:
    """Why an arm would be chosen."""
    asked = read(PREDICT, await call.body())
    found = call.service.model(call.name)
    return answer(found.explain(call.service._arms(found, asked, "")))


async def snapshots(call: Call) -> Response:
    """The snapshots of a model, newest first."""
    row = call.service.model(call.name).row
    found = await call.service.commits.do(lambda tx: tx.store.snapshots(row.id))
    fields = ("snapshot", "version", "time", "note")
    return answer([dict(zip(fields, one, strict=True)) for one in found])


async def snapshot(call: Call) -> Response:
    """Keep the state as it is."""
    number = await call.service.snapshot(call.name, "asked for", call.who)
    return answer({"snapshot": number}, 201)


async def snapshot_file(call: Call) -> Response:
    """A snapshot as the file that ``ht.load`` reads."""
    row, number = call.service.model(call.name).row, int(call.request.path_params["number"])
    data = await call.service.commits.do(lambda tx: tx.store.snapshot_data(row.id, number))
    if data is None:
        raise Refusal(404, "no_snapshot", "The model has none of this number.")
    return Response(data, media_type="application/octet-stream")


async def restore(call: Call) -> Response:
    """Go on from a snapshot."""
    wanted = read(RESTORE, await call.body())
    return answer(await call.service.restore(call.name, wanted.snapshot, call.who))


async def fork(call: Call) -> Response:
    """A new model from an old one."""
    wanted = read(FORK, await call.body())
    return answer(await call.service.fork(call.name, wanted, call.who), 201)


async def healthz(call: Call) -> Response:
    """The process is there."""
    return answer({"status": "ok"})


async def readyz(call: Call) -> Response:
    """The store can be written to."""
    await call.service.commits.do(lambda tx: None)
    return answer({"status": "ready", "models": len(call.service.models)})


ROUTES = [
    Road("GET", "/healthz", "", healthz),
    Road("GET", "/readyz", "", readyz),
    Road("GET", "/v1/models", "read", models),
    Road("PUT", "/v1/models/{name}", "admin", create),
    Road("GET", "/v1/models/{name}", "read", model),
    Road("PATCH", "/v1/models/{name}", "admin", change),
    Road("DELETE", "/v1/models/{name}", "admin", delete),
    Road("POST", "/v1/models/{name}/decisions", "decide", decide),
    Road("POST", "/v1/models/{name}/rewards", "decide", reward),
    Road("POST", "/v1/models/{name}/predict", "read", predict),
    Road("POST", "/v1/models/{name}/explain", "read", explain),
    Road("GET", "/v1/models/{name}/snapshots", "read", snapshots),
    Road("POST", "/v1/models/{name}/snapshots", "admin", snapshot),
    Road("GET", "/v1/models/{name}/snapshots/{number:int}", "admin", snapshot_file),
    Road("POST", "/v1/models/{name}/restore", "admin", restore),
    Road("POST", "/v1/models/{name}/fork", "admin", fork),
]


def build(store: Store, *, open_to_all: bool, limits: Limits | None = None) -> Starlette:
    """The application on a store; ``open_to_all``: nobody needs a key."""
    service = Service(store, limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    routes = [
        Route(road.path, _endpoint(service, road, open_to_all), methods=[road.method])
        for road in ROUTES
    ]
    handlers: dict[Any, Any] = {404: _missing, 405: _missing, Exception: _broken}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.state.service = service
    return app


def _endpoint(service: Service, road: Road, open_to_all: bool) -> Any:
    """The handler behind its key, its faults in words."""

    async def endpoint(request: Request) -> Response:
        try:
            who = "anybody"
            if road.scope and not open_to_all:
                who = await _allowed(service, request, road.scope)
            return await road.handler(Call(service, request, who))
        except Refusal as refusal:
            return fault(refusal)
        except StoreError as error:
            log.error("%s", error)
            return fault(Refusal(503, "store", "The store cannot be written to. Try again later."))
        except ClientDisconnect:
            return Response(status_code=499)

    return endpoint


async def _allowed(service: Service, request: Request, scope: str) -> str:
    """Whose key it is, where it allows ``scope``."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not key:
        raise Refusal(401, "no_key", "Send your key: Authorization: Bearer KEY.")
    keys = await service.commits.do(lambda tx: tx.store.keys())
    found = keys.get(digest(key.strip()))
    if found is None:
        raise Refusal(401, "bad_key", "The key is not valid.")
    name, scopes = found
    if scope not in scopes and "admin" not in scopes:
        raise Refusal(403, "scope", f"The key is not allowed to {scope}.")
    return name


def fault(refusal: Refusal) -> Response:
    """A refusal as an answer."""
    body = answer(Fault(refusal.code, refusal.message, refusal.field), refusal.status)
    if refusal.status == 401:
        body.headers["www-authenticate"] = "Bearer"
    return body


async def _missing(request: Request, error: Any) -> Response:
    code = getattr(error, "status_code", 404)
    words = "There is nothing here." if code == 404 else "This is not done here."
    return fault(Refusal(code, "not_found" if code == 404 else "not_allowed", words))


async def _broken(request: Request, error: Exception) -> Response:
    log.exception("a request failed", exc_info=error)
    return fault(Refusal(500, "broken", "The service failed. Nothing is known to be done."))
