"""Routes: the handler of each, and the scope it needs. The service itself is in ``service``."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from heavytail.ledger.commits import LARGE
from heavytail.ledger.export import write_log
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.serve.apart import apart
from heavytail.serve.deciding import Asked
from heavytail.serve.earned import Asked as EarnedAsked
from heavytail.serve.fast import ASKED, CHOICE, Plain, plain
from heavytail.serve.forking import fork as fork_model
from heavytail.serve.forking import promote as promote_model
from heavytail.serve.forking import upload
from heavytail.serve.keys import issue, revoke, views
from heavytail.serve.metrics import Metrics
from heavytail.serve.model import Model
from heavytail.serve.offering import write_offers
from heavytail.serve.once import check_once
from heavytail.serve.openapi import document
from heavytail.serve.page import HEADERS, PAGE
from heavytail.serve.service import Service
from heavytail.serve.splits import read_split, remove_split, write_split
from heavytail.serve.stats import known
from heavytail.serve.stats import stats as all_stats
from heavytail.serve.teaching import teach
from heavytail.serve.wire import (
    DecideAmongNamed,
    DecideAmongVectors,
    DecideInContext,
    Fork,
    KeyMade,
    KeySpec,
    ModelChange,
    ModelSpec,
    Offers,
    PredictInContext,
    PredictNamed,
    PredictVectors,
    Promote,
    Restore,
    Reward,
    Rewarded,
    SnapshotMade,
    SnapshotView,
    Split,
    encoded,
)

__all__ = ["ROUTES", "Call", "Route", "answer"]

DIGITS = 17  # that no number has
THICK = 2**18  # bytes of a body that is read in a thread
NOTHING: frozenset[str] = frozenset()
ARMS = b'"arms"'  # in a body that may state its own arms
PACKED = "application/msgpack"
SAVED = b"PK\x03\x04"  # begins a saved file
PIECE = 2**18  # bytes of a file that are sent at a time

Body = TypeVar("Body")
Handler = Callable[["Call"], Awaitable[Response]]


class Call(NamedTuple):
    """An authorised request."""

    service: Service
    request: Request
    who: str
    metrics: Metrics

    @property
    def name(self) -> str:
        """The model that the path names."""
        return str(self.request.path_params["name"])

    @property
    def key(self) -> str:
        """The client's idempotency key; "" without one."""
        key = self.request.headers.get("idempotency-key", "")
        if len(key) > 200:
            raise Refusal(422, "bad_key", "An idempotency key may have at most 200 characters.")
        return key

    async def body(self, most: int = 0) -> bytes:
        """Read the body; refuse one that is too long."""
        most = most or self.service.limits.body
        declared = self.request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > most:
            raise too_large(most)
        parts, size, patience = [], 0, self.service.limits.patience
        try:
            async with asyncio.timeout(patience):
                async for part in self.request.stream():
                    size += len(part)
                    if size > most:
                        raise too_large(most)
                    parts.append(part)
        except TimeoutError:
            message = f"The body did not arrive within {patience:g} s."
            raise Refusal(408, "too_slow", message) from None
        body = b"".join(parts)
        if self.request.headers.get("content-type", "").partition(";")[0].strip() == PACKED:
            return as_json(body)
        return body


class Route(NamedTuple):
    """A method and a path, the scope that they need ("" for none), and their handler."""

    method: str
    path: str
    scope: str
    handler: Handler


def too_large(most: int) -> Refusal:
    """The refusal of a body that is too long."""
    return Refusal(413, "too_large", f"A body may have at most {most} bytes.")


class Answer(Response):
    """A response as JSON, or as MessagePack where the request accepts that."""

    def __init__(self, content: object, status: int) -> None:
        self.content = content
        super().__init__(encoded(content), status, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == b"accept" and PACKED.encode() in value for name, value in scope["headers"]):
            self.body = msgspec.msgpack.encode(self.content)
            self.headers["content-type"] = PACKED
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def answer(content: object, status: int = 200) -> Answer:
    """A response with a body."""
    return Answer(content, status)


def as_json(body: bytes) -> bytes:
    """A MessagePack body as the JSON that says the same, which is then checked as any other."""
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(body))
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        message = f"The body is not valid MessagePack: {error}."
        raise Refusal(400, "bad_msgpack", message) from None


def read(decoder: msgspec.json.Decoder[Body], body: bytes) -> Body:
    """Decode a body; refuse one that does not fit, naming the field."""
    try:
        content = decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise Refusal(422, "bad_body", message + ".", place.rstrip("`").lstrip(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "bad_json", f"The body is not valid JSON: {error}.") from None
    check_once(body)
    return content


@overload
async def reading(body: bytes, decoder: msgspec.json.Decoder[Body]) -> Body: ...
@overload
async def reading(
    body: bytes, decoder: msgspec.json.Decoder[Body], dim: int, known: frozenset[str]
) -> Body | Plain | list[Plain]: ...


async def reading(
    body: bytes, decoder: msgspec.json.Decoder[Body], dim: int = 0, known: frozenset[str] = NOTHING
) -> Body | Plain | list[Plain]:
    """Decode a body: fast if it holds vectors of length ``dim`` under ``known`` keys, and in a
    thread if it is long.
    """

    def work() -> Body | Plain | list[Plain]:
        content = plain(body, dim, known) if dim else None
        return read(decoder, body) if content is None else content

    return work() if len(body) < THICK else await apart(work)


Vectors = DecideAmongVectors | list[DecideAmongVectors]
Named = DecideAmongNamed | list[DecideAmongNamed]
InContext = DecideInContext | list[DecideInContext]
Rewards = Reward | list[Reward]


class Stated(Struct):
    """A body of which only the presence of arms is read."""

    arms: Raw | UnsetType = UNSET


VECTORS: msgspec.json.Decoder[Vectors] = msgspec.json.Decoder(Vectors, strict=True)
NAMED: msgspec.json.Decoder[Named] = msgspec.json.Decoder(Named, strict=True)
IN_CONTEXT: msgspec.json.Decoder[InContext] = msgspec.json.Decoder(InContext, strict=True)
REWARDS: msgspec.json.Decoder[Rewards] = msgspec.json.Decoder(Rewards, strict=True)
SPEC = msgspec.json.Decoder(ModelSpec, strict=True)
CHANGE = msgspec.json.Decoder(ModelChange, strict=True)
FORK = msgspec.json.Decoder(Fork, strict=True)
PROMOTE = msgspec.json.Decoder(Promote, strict=True)
OFFERS = msgspec.json.Decoder(Offers, strict=True)
SPLIT = msgspec.json.Decoder(Split, strict=True)
RESTORE = msgspec.json.Decoder(Restore, strict=True)
PREDICT_VECTORS = msgspec.json.Decoder(PredictVectors, strict=True)
PREDICT_NAMED = msgspec.json.Decoder(PredictNamed, strict=True)
PREDICT_IN_CONTEXT = msgspec.json.Decoder(PredictInContext, strict=True)
STATED = msgspec.json.Decoder(Stated | list[Stated])
KEY = msgspec.json.Decoder(KeySpec, strict=True)


async def create(call: Call) -> Response:
    """Create a model from settings or from the file of a saved Decider or policy, or return the
    existing one if these are the same.
    """
    body = await call.body(call.service.limits.file)
    query = call.request.query_params
    if not query.keys() <= {"learn"} or len(query.multi_items()) > 1:
        raise Refusal(422, "bad_query", "The only parameter of this request is learn=MODEL.")
    learn = query.get("learn")
    if body.startswith(SAVED):
        new, view = await upload(call.service, call.name, body, learn, call.who)
    elif learn is not None:
        message = "learn needs the file of a saved Decider or policy as the body; or use fork."
        raise Refusal(422, "bad_body", message, "learn")
    else:
        if len(body) > call.service.limits.body:
            raise too_large(call.service.limits.body)
        if body and not body.lstrip().startswith(b"{"):
            message = (
                "The body must be settings as a JSON object, or a file that save(path) of a "
                "Decider or a policy wrote."
            )
            raise Refusal(400, "bad_json", message)
        spec = await reading(body, SPEC)
        new, view = await call.service.create(call.name, spec, call.who)
    return answer(view, 201 if new else 200)


async def models(call: Call) -> Response:
    """All models."""
    await call.service.live.look()
    views = []
    for name in sorted((*call.service.models, *call.service.live.broken)):
        with contextlib.suppress(Refusal):  # it was deleted meanwhile
            views.append(await call.service.describe(name))
    return answer(views)


async def model(call: Call) -> Response:
    """The state of a model."""
    await call.service.live.look()
    return answer(await call.service.describe(call.name))


async def change(call: Call) -> Response:
    """Change settings of a model; pause or resume it."""
    wanted = await reading(await call.body(), CHANGE)
    return answer(await call.service.change(call.name, wanted, call.who))


async def delete(call: Call) -> Response:
    """Delete a model with its decisions, outcomes and snapshots."""
    await call.service.delete(call.name, call.who)
    return Response(status_code=204)


def _in_context(model: Model, body: bytes) -> bool:
    """Whether a request is about the model's own offers, so that it states no arms."""
    if model.reads == "context" or ARMS not in body:
        return True
    if model.table is None:
        return False
    try:
        content = STATED.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    each = content if isinstance(content, list) else [content]
    return all(stated.arms is UNSET for stated in each)


async def decide(call: Call) -> Response:
    """Make one or many decisions."""
    body = await call.body()
    model = await call.service.live.find(call.name)
    choices: Vectors | Named | InContext | Plain | list[Plain]
    if _in_context(model, body):
        choices = await reading(body, IN_CONTEXT)
    elif model.reads == "vectors":
        choices = await reading(body, VECTORS, model.dim, CHOICE)
    else:
        choices = await reading(body, NAMED)
    many: Sequence[Asked] = choices if isinstance(choices, list) else [choices]
    decisions = await call.service.decide(call.name, many, call.key)
    return answer(decisions if isinstance(choices, list) else decisions[0], 201)


async def reward(call: Call) -> Response:
    """Send the rewards of one or many decisions."""
    rewards = await reading(await call.body(), REWARDS)
    new = await call.service.reward(call.name, rewards if isinstance(rewards, list) else [rewards])
    return answer(Rewarded(new), 202 if new else 200)


async def _queried(call: Call) -> tuple[Model, Any]:
    """The model, and the arms or the context of the request."""
    body = await call.body()
    model = await call.service.live.find(call.name)
    if _in_context(model, body):
        return model, await reading(body, PREDICT_IN_CONTEXT)
    if model.reads == "vectors":
        return model, await reading(body, PREDICT_VECTORS, model.dim, ASKED)
    return model, await reading(body, PREDICT_NAMED)


async def predict(call: Call) -> Response:
    """Predict the mean rewards of arms."""
    model, query = await _queried(call)
    arms = functools.partial(call.service.features, model, query, "")
    prediction = await model.turn(
        "predict", model.count(query), lambda: model.predict(arms(), query.level)
    )
    return answer(prediction)


async def explain(call: Call) -> Response:
    """Explain which arm would be chosen, and why."""
    model, query = await _queried(call)
    arms = functools.partial(call.service.features, model, query, "")
    explanation = await model.turn("explain", model.count(query), lambda: model.explain(arms()))
    ids = getattr(query, "ids", None)
    return answer(explanation if ids is None else replace(explanation, id=ids[explanation.arm]))


async def snapshots(call: Call) -> Response:
    """The snapshots of a model, newest first."""
    row = await call.service.live.row(call.name)
    rows = await call.service.commits.do(lambda tx: tx.store.snapshots(row.id))
    return answer([SnapshotView(*snapshot) for snapshot in rows])


async def snapshot(call: Call) -> Response:
    """Take a snapshot of the present state."""
    number = await call.service.snapshot(call.name, "asked for", call.who)
    return answer(SnapshotMade(number), 201)


async def snapshot_file(call: Call) -> Response:
    """Download a snapshot, as a file for ``ht.load``."""
    row, digits = await call.service.live.row(call.name), call.request.path_params["number"]
    data = None
    if digits.isdecimal() and digits.isascii() and len(digits) < DIGITS:
        number = int(digits)
        data = await call.service.commits.do(
            lambda tx: tx.store.snapshot_data(row.id, number), size=LARGE
        )
    if data is None:
        raise Refusal(404, "no_snapshot", f"This model has no snapshot {digits[:DIGITS]}.")

    async def pieces() -> AsyncIterator[memoryview]:
        for start in range(0, len(data), PIECE):
            yield memoryview(data)[start : start + PIECE]

    head = {"content-length": str(len(data))}
    return StreamingResponse(pieces(), headers=head, media_type="application/octet-stream")


async def restore(call: Call) -> Response:
    """Restore a snapshot."""
    wanted = await reading(await call.body(), RESTORE)
    return answer(await call.service.restore(call.name, wanted.snapshot, call.who))


async def fork(call: Call) -> Response:
    """Fork a model: create a new one from it."""
    wanted = await reading(await call.body(), FORK)
    return answer(await fork_model(call.service, call.name, wanted, call.who), 201)


async def promote(call: Call) -> Response:
    """Let another model take over this name, and give it its own name in exchange."""
    wanted = await reading(await call.body(), PROMOTE)
    view = await promote_model(call.service, call.name, wanted.model, call.who, call.key)
    return answer(view)


async def offers(call: Call) -> Response:
    """The offers that the service keeps for a model."""
    await call.service.live.look()
    return answer(call.service.live[call.name].offers_view())


async def replace_offers(call: Call) -> Response:
    """Replace the offers of a model; those that are not listed may no longer be chosen."""
    wanted = await reading(await call.body(), OFFERS)
    return answer(await write_offers(call.service, call.name, wanted, call.who, whole=True))


async def change_offers(call: Call) -> Response:
    """Add, change or withdraw some offers of a model."""
    wanted = await reading(await call.body(), OFFERS)
    return answer(await write_offers(call.service, call.name, wanted, call.who, whole=False))


async def split(call: Call) -> Response:
    """The models that share the decisions of a name."""
    return answer(await read_split(call.service, call.name))


async def change_split(call: Call) -> Response:
    """Share the decisions of a name between models, or change the shares."""
    wanted = await reading(await call.body(), SPLIT)
    return answer(await write_split(call.service, call.name, wanted, call.who))


async def end_split(call: Call) -> Response:
    """End a split: the model of the name makes all decisions again."""
    await remove_split(call.service, call.name, call.who)
    return Response(status_code=204)


async def earned(call: Call) -> Response:
    """What a model earned: by offer, by segment (``by``) and by day, and against a rule
    (``against``).
    """
    row = await call.service.live.row(call.name)
    asked = EarnedAsked(
        call.request.query_params.get("by"), call.request.query_params.get("against")
    )
    return answer(await call.service.books.earned(row, asked))


async def log_file(call: Call) -> Response:
    """Download the log as Parquet for ``ht.evaluate``: every decision that has its reward."""
    row = await call.service.live.row(call.name)
    try:
        handle, path = tempfile.mkstemp(suffix=".parquet")
    except OSError:
        raise Refusal(
            503, "no_room", "The server has no disk space for the file. Try again later."
        ) from None

    def work() -> None:
        with call.service.store.reader() as store:
            write_log(store, row, path)

    try:
        await asyncio.to_thread(work)
    except OSError as error:
        os.close(handle)
        if isinstance(error, StoreError):
            raise
        raise Refusal(
            503, "no_room", "The server has no disk space for the file. Try again later."
        ) from None
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


async def learn_log(call: Call) -> Response:
    """Let a model learn a log, a Parquet file, before its first decision."""
    body = await call.body(call.service.limits.file)
    new, learned = await teach(call.service, call.name, body, call.who)
    return answer(learned, 201 if new else 200)


async def keys(call: Call) -> Response:
    """The valid keys, by name."""
    return answer(await call.service.commits.do(lambda tx: views(tx.store)))


async def issue_key(call: Call) -> Response:
    """Create a key; it is shown only in this answer."""
    spec = await reading(await call.body(), KEY)
    key = await call.service.commits.do(lambda tx: issue(tx, spec.name, spec.scopes, call.who))
    call.service.keys.changed()
    return answer(KeyMade(spec.name, key), 201)


async def revoke_key(call: Call) -> Response:
    """Revoke a key at once."""
    await call.service.commits.do(lambda tx: revoke(tx, call.name, call.who))
    call.service.keys.changed()
    return Response(status_code=204)


async def metrics(call: Call) -> Response:
    """Metrics for Prometheus."""
    models = await call.service.commits.do(known)
    return Response(call.metrics.text(call.service.live, models), media_type="text/plain")


async def stats(call: Call) -> Response:
    """The activity of each model."""
    return answer(await all_stats(call.service.live, call.service.started))


async def page(call: Call) -> Response:
    """A web page that shows what each model earned and does now."""
    return Response(PAGE, media_type="text/html", headers=HEADERS)


async def openapi(call: Call) -> Response:
    """The OpenAPI document."""
    return answer(document(ROUTES))


async def healthz(call: Call) -> Response:
    """Liveness: the process answers."""
    return answer({"status": "ok"})


async def readyz(call: Call) -> Response:
    """Readiness: the store is writable; lists the models that cannot be opened."""
    await call.service.ready.check()
    broken = sorted(call.service.live.broken)
    status = "degraded" if broken else "ready"
    return answer({"status": status, "models": len(call.service.models), "broken": broken})


ROUTES = [  # tried in this order: the most frequent come first
    Route("POST", "/v1/models/{name}/decisions", "decide", decide),
    Route("POST", "/v1/models/{name}/rewards", "decide", reward),
    Route("GET", "/", "", page),
    Route("GET", "/openapi.json", "", openapi),
    Route("GET", "/metrics", "read", metrics),
    Route("GET", "/v1/stats", "read", stats),
    Route("GET", "/v1/keys", "admin", keys),
    Route("POST", "/v1/keys", "admin", issue_key),
    Route("DELETE", "/v1/keys/{name}", "admin", revoke_key),
    Route("GET", "/v1/models/{name}/log", "admin", log_file),
    Route("POST", "/v1/models/{name}/log", "admin", learn_log),
    Route("GET", "/v1/models/{name}/earned", "read", earned),
    Route("GET", "/healthz", "", healthz),
    Route("GET", "/readyz", "", readyz),
    Route("GET", "/v1/models", "read", models),
    Route("PUT", "/v1/models/{name}", "admin", create),
    Route("GET", "/v1/models/{name}", "read", model),
    Route("PATCH", "/v1/models/{name}", "admin", change),
    Route("DELETE", "/v1/models/{name}", "admin", delete),
    Route("POST", "/v1/models/{name}/predict", "read", predict),
    Route("POST", "/v1/models/{name}/explain", "read", explain),
    Route("GET", "/v1/models/{name}/snapshots", "read", snapshots),
    Route("POST", "/v1/models/{name}/snapshots", "admin", snapshot),
    Route("GET", "/v1/models/{name}/snapshots/{number}", "admin", snapshot_file),
    Route("POST", "/v1/models/{name}/restore", "admin", restore),
    Route("POST", "/v1/models/{name}/fork", "admin", fork),
    Route("POST", "/v1/models/{name}/promote", "admin", promote),
    Route("GET", "/v1/models/{name}/offers", "read", offers),
    Route("PUT", "/v1/models/{name}/offers", "admin", replace_offers),
    Route("PATCH", "/v1/models/{name}/offers", "admin", change_offers),
    Route("GET", "/v1/models/{name}/split", "read", split),
    Route("PUT", "/v1/models/{name}/split", "admin", change_split),
    Route("DELETE", "/v1/models/{name}/split", "admin", end_split),
]
