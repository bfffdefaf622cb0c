"""The OpenAPI document, from the routes and the classes of the wire."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from heavytail import __version__
from heavytail.serve import wire

if TYPE_CHECKING:
    from heavytail.serve.handlers import Route

__all__ = ["document"]

BODIES: dict[str, Any] = {  # of requests, by the name of the handler
    "create": wire.ModelSpec,
    "change": wire.ModelChange,
    "decide": wire.DecideAmongVectors | list[wire.DecideAmongVectors],
    "reward": wire.Reward | list[wire.Reward],
    "predict": wire.PredictVectors,
    "explain": wire.PredictVectors,
    "restore": wire.Restore,
    "fork": wire.Fork,
    "promote": wire.Promote,
    "replace_offers": wire.Offers,
    "change_offers": wire.Offers,
    "change_split": wire.Split,
    "issue_key": wire.KeySpec,
}
OTHERS: dict[str, list[Any]] = {  # the same for a model with an encoder, and for own offers
    "decide": [
        wire.DecideAmongNamed | list[wire.DecideAmongNamed],
        wire.DecideInContext | list[wire.DecideInContext],
    ],
    "predict": [wire.PredictNamed, wire.PredictInContext],
    "explain": [wire.PredictNamed, wire.PredictInContext],
}
OF_OFFERS: dict[str, Any] = {  # answers about offers of the model's own
    "decide": wire.Chosen | list[wire.Chosen],
    "predict": wire.PredictedOffers,
    "explain": wire.ExplainedOffer,
}
ANSWERS: dict[str, dict[int, Any]] = {
    "create": {200: wire.ModelView, 201: wire.ModelView},
    "models": {200: list[wire.ModelView]},
    "model": {200: wire.ModelView},
    "change": {200: wire.ModelView},
    "delete": {204: None},
    "decide": {201: wire.Decided | list[wire.Decided]},
    "reward": {200: wire.Rewarded, 202: wire.Rewarded},
    "predict": {200: wire.Predicted},
    "explain": {200: wire.Explained},
    "snapshots": {200: list[wire.SnapshotView]},
    "snapshot": {201: wire.SnapshotMade},
    "snapshot_file": {200: bytes},
    "restore": {200: wire.ModelView},
    "fork": {201: wire.ModelView},
    "promote": {200: wire.ModelView},
    "offers": {200: wire.OffersView},
    "replace_offers": {200: wire.OffersView},
    "change_offers": {200: wire.OffersView},
    "split": {200: wire.SplitView},
    "change_split": {200: wire.SplitView},
    "end_split": {204: None},
    "earned": {200: wire.Earned},
    "log_file": {200: bytes},
    "learn_log": {200: wire.LogLearned, 201: wire.LogLearned},
    "keys": {200: list[wire.KeyView]},
    "issue_key": {201: wire.KeyMade},
    "revoke_key": {204: None},
    "healthz": {200: dict[str, Any]},
    "readyz": {200: dict[str, Any]},
    "metrics": {200: str},
    "stats": {200: wire.Stats},
    "page": {200: str},
    "openapi": {200: dict[str, Any]},
}
FILES = {  # answers that are no JSON
    "snapshot_file": "application/octet-stream",
    "log_file": "application/vnd.apache.parquet",
    "metrics": "text/plain",
    "page": "text/html",
}
UPLOADS = {  # bodies that are files, or may be
    "create": "application/octet-stream",
    "learn_log": "application/octet-stream",
}
BINARY = {"type": "string", "format": "binary"}
FAULTS = (400, 401, 403, 404, 408, 409, 410, 413, 422, 429, 503)
PARAMETERS = {
    "name": {"type": "string", "pattern": wire.NAME},
    "number": {"type": "integer", "minimum": 1, "maximum": 2**53},
}

QUERIES: dict[str, dict[str, Any]] = {  # parameters behind the path, by the name of the handler
    "create": {"learn": {"type": "string", "pattern": wire.NAME}},
    "earned": {
        "by": {"type": "string", "maxLength": 200},
        "against": {"type": "string", "maxLength": 200},
    },
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document of these routes."""
    body_types = [*BODIES.values(), *itertools.chain(*OTHERS.values()), *OF_OFFERS.values()]
    body_types += [
        body_type
        for answers in ANSWERS.values()
        for body_type in answers.values()
        if _json(body_type)
    ]
    schemas, components = msgspec.json.schema_components(
        [*body_types, wire.Fault], ref_template="#/components/schemas/{name}"
    )
    schema = dict(zip(map(repr, [*body_types, wire.Fault]), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "heavytail",
            "version": __version__,
            "description": "JSON bodies and answers may also be application/msgpack.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json(body_type: object) -> bool:
    return body_type not in (None, bytes, str)


def _any_of(kinds: Sequence[Any], schema: dict[str, Any]) -> Any:
    """The schema of a body that is of one of these kinds."""
    each = [schema[repr(kind)] for kind in kinds]
    return each[0] if len(each) == 1 else {"anyOf": each}


def _operation(route: Route, path: str, schema: dict[str, Any]) -> dict[str, Any]:
    name = route.handler.__name__
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": (route.handler.__doc__ or "").strip(),
        "parameters": [
            {"name": key, "in": "path", "required": True, "schema": parameter}
            for key, parameter in PARAMETERS.items()
            if "{" + key + "}" in path
        ],
        "responses": {},
    }
    if route.scope:
        operation["security"] = [{"key": []}, {}]
        operation["description"] = (
            f"Requires a key with the scope {route.scope}, if keys are required."
        )
    if name in ("decide", "promote"):
        key_schema = {"type": "string", "maxLength": 200}
        operation["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "schema": key_schema}
        )
    operation["parameters"] += [
        {"name": key, "in": "query", "schema": query}
        for key, query in QUERIES.get(name, {}).items()
    ]
    content: dict[str, Any] = {}
    if name in BODIES:
        body = _any_of([BODIES[name], *OTHERS.get(name, [])], schema)
        content["application/json"] = {"schema": body}
    if name in UPLOADS:
        content[UPLOADS[name]] = {"schema": BINARY}
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    for status, answer_type in ANSWERS[name].items():
        answer: dict[str, Any] = {"description": "Done."}
        if name in FILES:
            file_schema = {"type": "string"} if answer_type is str else BINARY
            answer["content"] = {FILES[name]: {"schema": file_schema}}
        elif answer_type is not None:
            kinds = [answer_type, *([OF_OFFERS[name]] if name in OF_OFFERS else [])]
            answer["content"] = {"application/json": {"schema": _any_of(kinds, schema)}}
        operation["responses"][str(status)] = answer
    for status in FAULTS:
        content = {"application/json": {"schema": schema[repr(wire.Fault)]}}
        operation["responses"][str(status)] = {"description": "Refused.", "content": content}
    return operation
