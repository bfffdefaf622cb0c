"""What each route does, and which key it needs. What the service does is in ``service``."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from heavytail.ledger.commits import LARGE
from heavytail.ledger.export import write_log
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.serve.apart import apart
from heavytail.serve.fast import ASKED, CHOICE, plain
from heavytail.serve.keys import issue, revoke, views
from heavytail.serve.metrics import Metrics
from heavytail.serve.model import Model
from heavytail.serve.once import check_once
from heavytail.serve.openapi import document
from heavytail.serve.page import HEADERS, PAGE
from heavytail.serve.service import Service
from heavytail.serve.stats import stats as all_stats
from heavytail.serve.wire import (
    DecideAmongNamed,
    DecideAmongVectors,
    Fork,
    KeyMade,
    KeySpec,
    ModelChange,
    ModelSpec,
    PredictNamed,
    PredictVectors,
    Restore,
    Reward,
    Rewarded,
    SnapshotMade,
    SnapshotView,
    encoded,
)

__all__ = ["ROUTES", "Call", "Road", "answer"]

DIGITS = 17  # that no number has
THICK = 2**18  # bytes of a body that is read in a thread
NOTHING: frozenset[str] = frozenset()
PIECE = 2**18  # bytes of a file that are sent at a time

Handler = Callable[["Call"], Awaitable[Response]]


class Call(NamedTuple):
    """A request that may be served."""

    service: Service
    request: Request
    who: str
    metrics: Metrics

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
        parts, size, patience = [], 0, self.service.limits.patience
        try:
            async with asyncio.timeout(patience):
                async for part in self.request.stream():
                    size += len(part)
                    if size > most:
                        raise Refusal(413, "too_large", f"A body has at most {most} bytes.")
                    parts.append(part)
        except TimeoutError:
            message = f"The body did not come within {patience:g} s."
            raise Refusal(408, "too_slow", message) from None
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
        found = decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise Refusal(422, "bad_body", message + ".", place.rstrip("`").lstrip(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "bad_json", f"The body is no JSON: {error}.") from None
    check_once(body)
    return found


async def reading(
    body: bytes, decoder: msgspec.json.Decoder[Any], dim: int = 0, known: frozenset[str] = NOTHING
) -> Any:
    """The same, quickly where it is of vectors of length ``dim`` under ``known`` keys, and in a
    thread where it is long.
    """

    def work() -> Any:
        found = plain(body, dim, known) if dim else None
        return read(decoder, body) if found is None else found

    return work() if len(body) < THICK else await apart(work)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=True)


VECTORS = _decoder(DecideAmongVectors | list[DecideAmongVectors])
NAMED = _decoder(DecideAmongNamed | list[DecideAmongNamed])
REWARDS = _decoder(Reward | list[Reward])
SPEC, CHANGE, FORK, RESTORE = map(_decoder, (ModelSpec, ModelChange, Fork, Restore))
PREDICT_VECTORS, PREDICT_NAMED, KEY = map(_decoder, (PredictVectors, PredictNamed, KeySpec))


async def create(call: Call) -> Response:
    """Make a model; the same again is answered as it is."""
    spec = await reading(await call.body(), SPEC)
    new, view = await call.service.create(call.name, spec, call.who)
    return answer(view, 201 if new else 200)


async def models(call: Call) -> Response:
    """All models."""
    await call.service.live.look()
    found = []
    for name in sorted((*call.service.models, *call.service.live.broken)):
        with contextlib.suppress(Refusal):  # it was deleted meanwhile
            found.append(await call.service.describe(name))
    return answer(found)


async def model(call: Call) -> Response:
    """A model as it stands."""
    await call.service.live.look()
    return answer(await call.service.describe(call.name))


async def change(call: Call) -> Response:
    """Pause a model, or let it go on."""
    wanted = await reading(await call.body(), CHANGE)
    return answer(await call.service.pause(call.name, wanted.paused, call.who))


async def delete(call: Call) -> Response:
    """Delete a model and all that it has."""
    await call.service.delete(call.name, call.who)
    return Response(status_code=204)


async def decide(call: Call) -> Response:
    """Decide, for one or many."""
    body = await call.body()
    model = await call.service.live.find(call.name)
    if model.encoder is None:
        asked = await reading(body, VECTORS, model.dim, CHOICE)
    else:
        asked = await reading(body, NAMED)
    many = isinstance(asked, list)
    key = call.request.headers.get("idempotency-key", "")
    if len(key) > 200:
        raise Refusal(422, "bad_key", "An idempotency key has at most 200 characters.")
    made = await call.service.decide(call.name, asked if many else [asked], key)
    call.metrics.decisions.inc(len(made))
    return answer(made if many else made[0], 201)


async def reward(call: Call) -> Response:
    """Rewards of one or many decisions."""
    told = await reading(await call.body(), REWARDS)
    new = await call.service.reward(call.name, told if isinstance(told, list) else [told])
    call.metrics.rewards.inc(new)
    return answer(Rewarded(new), 202 if new else 200)


async def _asked(call: Call) -> tuple[Model, Any]:
    """The model and the arms that it is asked about."""
    body = await call.body()
    model = await call.service.live.find(call.name)
    if model.encoder is not None:
        return model, await reading(body, PREDICT_NAMED)
    return model, await reading(body, PREDICT_VECTORS, model.dim, ASKED)


async def predict(call: Call) -> Response:
    """The mean rewards expected of arms."""
    found, asked = await _asked(call)
    arms = functools.partial(call.service.arms, found, asked, "")
    told = await found.turn("predict", len(asked.arms), lambda: found.predict(arms(), asked.level))
    return answer(told)


async def explain(call: Call) -> Response:
    """Why an arm would be chosen."""
    found, asked = await _asked(call)
    arms = functools.partial(call.service.arms, found, asked, "")
    told = await found.turn("explain", len(asked.arms), lambda: found.explain(arms()))
    return answer(told if asked.ids is None else replace(told, id=asked.ids[told.arm]))


async def snapshots(call: Call) -> Response:
    """The snapshots of a model, newest first."""
    row = await call.service.live.row(call.name)
    found = await call.service.commits.do(lambda tx: tx.store.snapshots(row.id))
    return answer([SnapshotView(*one) for one in found])


async def snapshot(call: Call) -> Response:
    """Keep the state as it is."""
    number = await call.service.snapshot(call.name, "asked for", call.who)
    return answer(SnapshotMade(number), 201)


async def snapshot_file(call: Call) -> Response:
    """A snapshot as the file that ``ht.load`` reads."""
    row, told = await call.service.live.row(call.name), call.request.path_params["number"]
    data = None
    if told.isdecimal() and told.isascii() and len(told) < DIGITS:
        number = int(told)
        data = await call.service.commits.do(
            lambda tx: tx.store.snapshot_data(row.id, number), size=LARGE
        )
    if data is None:
        raise Refusal(404, "no_snapshot", "The model has none of this number.")

    async def pieces() -> AsyncIterator[memoryview]:
        for start in range(0, len(data), PIECE):
            yield memoryview(data)[start : start + PIECE]

    head = {"content-length": str(len(data))}
    return StreamingResponse(pieces(), headers=head, media_type="application/octet-stream")


async def restore(call: Call) -> Response:
    """Go on from a snapshot."""
    wanted = await reading(await call.body(), RESTORE)
    return answer(await call.service.restore(call.name, wanted.snapshot, call.who))


async def fork(call: Call) -> Response:
    """A new model from an old one."""
    wanted = await reading(await call.body(), FORK)
    return answer(await call.service.fork(call.name, wanted, call.who), 201)


async def log_file(call: Call) -> Response:
    """The log as Parquet, for ``ht.evaluate``: every decision that has its reward."""
    row = await call.service.live.row(call.name)
    try:
        handle, path = tempfile.mkstemp(suffix=".parquet")
    except OSError:
        raise Refusal(503, "no_room", "There is no room for the file. Try again later.") from None

    def work() -> None:
        with call.service.store.reader() as store:
            write_log(store, row, path)

    try:
        await asyncio.to_thread(work)
    except OSError as error:
        os.close(handle)
        if isinstance(error, StoreError):
            raise
        raise Refusal(503, "no_room", "There is no room for the file. Try again later.") from None
    except BaseException:
        os.close(handle)
        raise
    finally:
        os.unlink(path)  # its handle still reads it

    async def pieces() -> AsyncIterator[bytes]:
        try:
            while piece := await asyncio.to_thread(os.read, handle, PIECE):
                yield piece
        finally:
            os.close(handle)

    return StreamingResponse(pieces(), media_type="application/vnd.apache.parquet")


async def keys(call: Call) -> Response:
    """The keys that are valid, by name."""
    return answer(await call.service.commits.do(lambda tx: views(tx.store)))


async def issue_key(call: Call) -> Response:
    """Make a key; it is told this once."""
    spec = await reading(await call.body(), KEY)
    key = await call.service.commits.do(lambda tx: issue(tx, spec.name, spec.scopes, call.who))
    call.service.keys.changed()
    return answer(KeyMade(spec.name, key), 201)


async def revoke_key(call: Call) -> Response:
    """Make a key invalid, at once."""
    await call.service.commits.do(lambda tx: revoke(tx, call.name, call.who))
    call.service.keys.changed()
    return Response(status_code=204)


async def metrics(call: Call) -> Response:
    """Numbers for Prometheus."""
    return Response(call.metrics.text(call.service.live), media_type="text/plain")


async def stats(call: Call) -> Response:
    """What each model did since the service started."""
    return answer(await all_stats(call.service.live, call.service.started))


async def page(call: Call) -> Response:
    """A page for people, which shows what ``/v1/stats`` tells."""
    return Response(PAGE, media_type="text/html", headers=HEADERS)


async def openapi(call: Call) -> Response:
    """This document."""
    return answer(document(ROUTES))


async def healthz(call: Call) -> Response:
    """The process is there."""
    return answer({"status": "ok"})


async def readyz(call: Call) -> Response:
    """The store can be written to; names the models that cannot be opened."""
    await call.service.ready.check()
    broken = sorted(call.service.live.broken)
    status = "degraded" if broken else "ready"
    return answer({"status": status, "models": len(call.service.models), "broken": broken})


ROUTES = [  # are tried in this order: what is asked most comes first
    Road("POST", "/v1/models/{name}/decisions", "decide", decide),
    Road("POST", "/v1/models/{name}/rewards", "decide", reward),
    Road("GET", "/", "", page),
    Road("GET", "/openapi.json", "", openapi),
    Road("GET", "/metrics", "read", metrics),
    Road("GET", "/v1/stats", "read", stats),
    Road("GET", "/v1/keys", "admin", keys),
    Road("POST", "/v1/keys", "admin", issue_key),
    Road("DELETE", "/v1/keys/{name}", "admin", revoke_key),
    Road("GET", "/v1/models/{name}/log", "admin", log_file),
    Road("GET", "/healthz", "", healthz),
    Road("GET", "/readyz", "", readyz),
    Road("GET", "/v1/models", "read", models),
    Road("PUT", "/v1/models/{name}", "admin", create),
    Road("GET", "/v1/models/{name}", "read", model),
    Road("PATCH", "/v1/models/{name}", "admin", change),
    Road("DELETE", "/v1/models/{name}", "admin", delete),
    Road("POST", "/v1/models/{name}/predict", "read", predict),
    Road("POST", "/v1/models/{name}/explain", "read", explain),
    Road("GET", "/v1/models/{name}/snapshots", "read", snapshots),
    Road("POST", "/v1/models/{name}/snapshots", "admin", snapshot),
    Road("GET", "/v1/models/{name}/snapshots/{number}", "admin", snapshot_file),
    Road("POST", "/v1/models/{name}/restore", "admin", restore),
    Road("POST", "/v1/models/{name}/fork", "admin", fork),
]
