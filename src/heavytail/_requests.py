"""The requests of a client to ``heavytail serve``, and the parsing of its answers.

Both clients share them; one sends and waits, the other is awaited.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, Required, TypedDict, TypeVar, Unpack
from urllib.parse import urlencode

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heavytail._archive import contents
from heavytail._validate import check_count, shown
from heavytail.answers import (
    Earned,
    ForkChanges,
    KeyView,
    LogLearned,
    ModelChanges,
    ModelView,
    OffersView,
    RemoteChoice,
    RemoteDecision,
    Scope,
    SnapshotView,
    SpecFields,
    SplitView,
)
from heavytail.encoding import Encoder

__all__ = [
    "Arms",
    "Context",
    "Decisions",
    "Ids",
    "ModelRequests",
    "Number",
    "Numbers",
    "Offers",
    "Request",
    "Saved",
    "Sent",
    "create",
    "keys",
    "models",
    "named",
    "new_key",
    "revoke_key",
    "sent",
    "upload",
]

Answer = TypeVar("Answer")

FILE = {"Content-Type": "application/octet-stream"}


class PolarsFrame(Protocol):
    """A frame whose rows are dicts by ``to_dicts``."""

    def to_dicts(self) -> list[dict[str, Any]]: ...


class PandasFrame(Protocol):
    """A frame whose rows are dicts by ``to_dict("records")``."""

    def to_dict(self, orient: Literal["records"], /) -> list[dict[str, Any]]: ...


class Saveable(Protocol):
    """A Decider or a policy."""

    def to_bytes(self) -> bytes: ...


Context = Mapping[str, object]  # features by name
Offers = Mapping[str, Context | ArrayLike | None]  # features or a vector by id
Saved = str | os.PathLike[str] | bytes | Saveable
Arms = ArrayLike | Sequence[Context] | PolarsFrame | PandasFrame
Ids = Sequence[str | int] | NDArray[Any]
Number = float | np.floating[Any] | np.integer[Any]
Numbers = Number | Iterable[Number]
Decision = RemoteDecision | RemoteChoice | str
Decisions = Decision | Iterable[Decision]


class Request(NamedTuple, Generic[Answer]):
    """A request, and the parser of its answer."""

    method: str
    path: str
    parse: Callable[[Any], Answer]
    body: object = None  # bytes, or to be sent as JSON
    headers: Mapping[str, str] | None = None
    safe: bool = True  # whether it may be sent again where nobody knows if it was done


class Sent(TypedDict, total=False):
    """The arguments of a request to httpx."""

    method: Required[str]
    url: Required[str]
    headers: Required[dict[str, str]]
    json: object
    content: bytes


def sent(request: Request[Any], url: str, headers: Mapping[str, str]) -> Sent:
    """A request to the service at ``url`` as httpx takes it, under ``headers`` of the client."""
    own: Sent = {
        "method": request.method,
        "url": url + request.path,
        "headers": {**headers, **(request.headers or {})},
    }
    if isinstance(request.body, bytes):
        own["content"] = request.body
    elif request.body is not None:
        own["json"] = request.body
    return own


def create(name: str, policy: str, answer: Answer, **spec: Unpack[SpecFields]) -> Request[Answer]:
    """Create a model, or find the existing identical one; ``answer`` is the model."""
    path, body = ModelRequests(name).path, _plain({"policy": policy, **spec})
    return Request("PUT", path, lambda _: answer, body)


def upload(name: str, saved: Saved, learn: str | None, answer: Answer) -> Request[Answer]:
    """Begin a model with a file, or find the existing one that began with it; ``answer`` is the
    model.
    """
    path = ModelRequests(name).path
    if learn is not None:
        path += f"?learn={named('model', learn)}"
    return Request("PUT", path, lambda _: answer, _file(saved), dict(FILE))


def models() -> Request[list[ModelView]]:
    """Describe all models."""
    return Request("GET", "/v1/models", _as_it_is)


def keys() -> Request[list[KeyView]]:
    """List the valid keys."""
    return Request("GET", "/v1/keys", _as_it_is)


def new_key(name: str, scopes: Sequence[Scope]) -> Request[str]:
    """Create a key."""
    body = {"name": name, "scopes": list(scopes)}
    return Request("POST", "/v1/keys", _field("key"), body, safe=False)


def revoke_key(name: str) -> Request[None]:
    """Revoke a key."""
    return Request("DELETE", f"/v1/keys/{named('key', name)}", _nothing, safe=False)


class ModelRequests:
    """The requests of one model's verbs."""

    def __init__(self, name: str) -> None:
        self.path = f"/v1/models/{named('model', name)}"

    def decide(
        self,
        arms: Arms | Context | None,
        ids: Ids | None,
        explore: float | None,
        context: Context | None,
        only: Ids | None,
        unit: str | int | None,
    ) -> Request[Any]:
        """Choose among arms, or an offer in a context."""
        body = _asked(
            arms, context, ids=_plain(ids), explore=explore, only=_plain(only), unit=_plain(unit)
        )
        parse = _decision if "arms" in body else _choice
        return Request("POST", f"{self.path}/decisions", parse, body, _key())

    def decide_many(
        self,
        many: Sequence[Arms] | Sequence[Context],
        explore: float | None,
        contexts: Sequence[Context | None] | None,
        units: Ids | None,
    ) -> Request[list[Any]]:
        """Choose among each of many sets of arms, or in each of many contexts."""
        each_context = [None] * len(many) if contexts is None else contexts
        each_unit = [None] * len(many) if units is None else units
        body = [
            _asked(arms, context, explore=explore, unit=_plain(unit))
            for arms, context, unit in zip(many, each_context, each_unit, strict=True)
        ]
        parses = [_decision if "arms" in each else _choice for each in body]
        return Request("POST", f"{self.path}/decisions", _each_by(parses), body, _key())

    def learn(self, decision: Decisions, reward: Numbers, scale: Numbers | None) -> Request[int]:
        """Send the reward of a decision, or of many."""
        body: object
        if isinstance(decision, Decision):
            body = _body(token=_token(decision), reward=_plain(reward), scale=_plain(scale))
        else:
            rewards = _each("reward", reward)
            scales = [None] * len(rewards) if scale is None else _each("scale", scale)
            body = [
                _body(token=_token(each), reward=_plain(r), scale=_plain(s))
                for each, r, s in zip(decision, rewards, scales, strict=True)
            ]
        return Request("POST", f"{self.path}/rewards", _field("accepted"), body)

    def predict(
        self, arms: Arms | Context | None, ids: Ids | None, context: Context | None, level: float
    ) -> Request[Any]:
        """Predict the mean rewards of arms, or of the model's offers."""
        body = _asked(arms, context, ids=_plain(ids), level=level)
        return Request("POST", f"{self.path}/predict", _as_it_is, body)

    def explain(
        self, arms: Arms | Context | None, ids: Ids | None, context: Context | None
    ) -> Request[Any]:
        """Explain a choice."""
        body = _asked(arms, context, ids=_plain(ids))
        return Request("POST", f"{self.path}/explain", _as_it_is, body)

    def describe(self) -> Request[ModelView]:
        """Describe the model."""
        return Request("GET", self.path, _as_it_is)

    def diagnostics(self) -> Request[Any]:
        """Describe the model, of which only its diagnostics are wanted."""
        return Request("GET", self.path, _field("diagnostics"))

    def change(self, **changes: Unpack[ModelChanges]) -> Request[ModelView]:
        """Change settings of the model."""
        return Request("PATCH", self.path, _as_it_is, dict(changes))

    def snapshot(self) -> Request[int]:
        """Take a snapshot."""
        return Request("POST", f"{self.path}/snapshots", _field("snapshot"), safe=False)

    def snapshots(self) -> Request[list[SnapshotView]]:
        """List the snapshots."""
        return Request("GET", f"{self.path}/snapshots", _as_it_is)

    def save(self, snapshot: int) -> Request[None]:
        """Fetch a snapshot."""
        number = check_count("RemoteModel.save: snapshot", snapshot)
        return Request("GET", f"{self.path}/snapshots/{number}", _nothing)

    def earned(self, by: str | None, against: str | None) -> Request[Earned]:
        """What the model earned."""
        query = urlencode(_body(by=by, against=against))
        return Request("GET", f"{self.path}/earned{'?' if query else ''}{query}", _as_it_is)

    def save_log(self) -> Request[None]:
        """Fetch the log."""
        return Request("GET", f"{self.path}/log", _nothing)

    def learn_log(self, log: str | os.PathLike[str] | bytes) -> Request[LogLearned]:
        """Learn a log."""
        body = log if isinstance(log, bytes) else Path(log).read_bytes()
        return Request("POST", f"{self.path}/log", _as_it_is, body, dict(FILE))

    def restore(self, snapshot: int) -> Request[ModelView]:
        """Restore a snapshot."""
        return Request(
            "POST", f"{self.path}/restore", _as_it_is, {"snapshot": snapshot}, safe=False
        )

    def fork(self, name: str, twin: Answer, **changes: Unpack[ForkChanges]) -> Request[Answer]:
        """Create ``twin`` from this model."""
        body = _plain({"name": name, **changes})
        return Request("POST", f"{self.path}/fork", lambda _: twin, body, safe=False)

    def promote(self, other: str) -> Request[ModelView]:
        """Let another model take over the name; a second request would undo it."""
        body = {"model": named("model", other)}
        return Request("POST", f"{self.path}/promote", _as_it_is, body, _key())

    def offers(self) -> Request[OffersView]:
        """The offers that may be chosen."""
        return Request("GET", f"{self.path}/offers", _as_it_is)

    def set_offers(self, offers: Offers) -> Request[OffersView]:
        """Replace the offers."""
        return Request("PUT", f"{self.path}/offers", _as_it_is, {"offers": _plain(offers)})

    def change_offers(self, offers: Offers) -> Request[OffersView]:
        """Change some offers. An offer can be withdrawn only once."""
        safe = None not in offers.values()
        body = {"offers": _plain(offers)}
        return Request("PATCH", f"{self.path}/offers", _as_it_is, body, safe=safe)

    def split(self) -> Request[SplitView]:
        """The models that share the name's decisions."""
        return Request("GET", f"{self.path}/split", _as_it_is)

    def set_split(self, shares: Mapping[str, Number]) -> Request[SplitView]:
        """Share the name's decisions."""
        return Request("PUT", f"{self.path}/split", _as_it_is, {"models": _plain(shares)})

    def end_split(self) -> Request[None]:
        """End the split."""
        return Request("DELETE", f"{self.path}/split", _nothing, safe=False)

    def delete(self) -> Request[None]:
        """Delete the model."""
        return Request("DELETE", self.path, _nothing, safe=False)


def named(what: str, name: object) -> str:
    """A name that is one part of a path."""
    if not isinstance(name, str) or not name or set(name) & set("/?#%") or name in (".", ".."):
        raise ValueError(
            f"a {what}'s name must consist of letters, digits, . _ and -; got {shown(name)}."
        )
    return name


def _as_it_is(answer: Answer) -> Answer:
    return answer


def _nothing(answer: object) -> None:
    """The parse of an answer without content."""


def _field(name: str) -> Callable[[Any], Any]:
    """The parse of an answer of which one field is wanted."""
    return lambda answer: answer[name]


def _decision(answer: Mapping[str, Any]) -> RemoteDecision:
    """The arm in an answer; fields of newer services are ignored."""
    known = RemoteDecision.__dataclass_fields__
    return RemoteDecision(**{name: value for name, value in answer.items() if name in known})


def _choice(answer: Mapping[str, Any]) -> RemoteChoice:
    """The offer in an answer; only a Decider's has a reason."""
    known = RemoteChoice.__dataclass_fields__
    fields = {"expected": answer.get("score"), "why": "", **answer}
    return RemoteChoice(**{name: value for name, value in fields.items() if name in known})


def _each_by(parses: Sequence[Callable[[Any], Any]]) -> Callable[[Any], list[Any]]:
    """The parse of a list, whose items have a parse each."""
    return lambda answer: [parse(each) for parse, each in zip(parses, answer, strict=True)]


def _file(saved: Saved) -> bytes:
    """The bytes of a saved Decider or policy, or of the file at a path."""
    if isinstance(saved, bytes):
        return saved
    if isinstance(saved, str | os.PathLike):
        return contents(saved)
    if not hasattr(saved, "to_bytes") or isinstance(saved, int):
        raise TypeError(
            "Client.upload: pass a Decider or a policy, or the path or the bytes of its file; got "
            f"{shown(saved)}."
        )
    return saved.to_bytes()


def _key() -> dict[str, str]:
    """The header that identifies a request sent again."""
    return {"Idempotency-Key": secrets.token_hex(16)}


def _asked(
    arms: Arms | Context | None, context: Context | None, **fields: object
) -> dict[str, object]:
    """The body of a request about arms, or about the model's own offers in the context ``arms``."""
    if not isinstance(arms, Mapping):
        return _body(arms=_plain(arms), context=_plain(context), **fields)
    if context is not None:
        raise TypeError(
            f"RemoteModel: pass arms and their context, or a context alone; got two dicts, "
            f"{shown(arms)} and {shown(context)}."
        )
    return _body(context=_plain(arms), **fields)


def _body(**fields: object) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value is not None}


def _each(what: str, values: Numbers) -> list[Number]:
    """The rewards, or scales, of many decisions."""
    if not isinstance(values, Iterable):
        raise TypeError(
            f"RemoteModel.learn: many decisions need a {what} each; got {shown(values)}."
        )
    return list(values)


def _plain(value: object) -> object:
    """Arrays, frames, encoders and NumPy's numbers as JSON values; a named feature that is NaN is
    missing.
    """
    if isinstance(value, np.ndarray | np.generic):
        plain: object = value.tolist()
        return plain
    if isinstance(value, Encoder):
        return value.schema()
    if hasattr(value, "to_dicts"):  # of polars
        return _plain(value.to_dicts())
    if hasattr(value, "to_dict"):  # of pandas
        return _plain(value.to_dict("records"))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        fields = {key: _plain(item) for key, item in value.items()}
        return {k: None if isinstance(v, float) and v != v else v for k, v in fields.items()}
    return value


def _token(decision: Decision) -> str:
    return decision if isinstance(decision, str) else decision.token
