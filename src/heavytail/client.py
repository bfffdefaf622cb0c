"""A client of ``heavytail serve``: the library's verbs over HTTP, with retries.

A retried request counts once: decisions carry an idempotency key, rewards their token.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from heavytail._archive import replacing
from heavytail._extras import need
from heavytail._validate import check_count, check_number, shown
from heavytail.encoding import Encoder

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncClient", "Client", "NoAnswer", "Refused", "RemoteDecision", "RemoteModel"]

AGAIN = (429, 502, 503, 504)  # statuses that pass
FIRST, LONGEST = 0.05, 2.0  # seconds between two tries
PIECE = 2**18  # bytes of a file that are written at a time


class Refused(ValueError):
    """The service refused, and nothing was changed.

    Attributes:
        status: of HTTP.
        code: one word that stays the same.
        field: where in what was sent.
    """

    def __init__(self, status: int, code: str, message: str, field: str) -> None:
        place = f" ({field})" if field else ""
        super().__init__(f"{message}{place}")
        self.status, self.code, self.field = status, code, field


class NoAnswer(ConnectionError):
    """No answer came within ``patience`` seconds.

    Attributes:
        url: of the service.
        done: False if the request was certainly not processed, None if that is unknown.
    """

    def __init__(self, url: str, error: Exception, patience: float, done: bool | None) -> None:
        cause = str(error) or type(error).__name__
        if done is None:
            problem = (
                f"{url}: the answer was lost ({cause}), and the request may have been processed."
            )
            super().__init__(f"{problem} Check before you send it again.")
        else:
            problem = f"{url}: no answer within {patience:g} s ({cause})."
            super().__init__(f"{problem} Start `heavytail serve` there, or check the url.")
        self.url, self.done = url, done


@dataclass(frozen=True)
class RemoteDecision:
    """A choice that waits for its reward.

    Attributes:
        token: what to learn its reward by.
        arm: the arm's place among those offered.
        id: its own name.
        probability: with which it was chosen; None where that is not known.
        score: the mean reward that was expected of it.
        version: how many rewards the model had seen.
    """

    token: str
    arm: int
    id: str | int | None = None
    probability: float | None = None
    score: float | None = None
    version: int = 0


class _Request(NamedTuple):
    """A request, and what to make of its answer."""

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] | None = None
    parse: Callable[[Any], Any] = lambda answer: answer
    safe: bool = True  # whether it may be sent again where nobody knows if it was done


class _Retry:
    """The retries of a request, with growing waits between them."""

    def __init__(self, request: _Request, url: str, patience: float) -> None:
        self._request, self._url, self._patience = request, url, patience
        self._end, self._wait = time.monotonic() + patience, FIRST
        self._unsure = False  # whether any try may have been done

    def after(self, error: Exception) -> float:
        """Return the seconds to wait before the next try; raise the error if a retry cannot help or
        patience is exhausted.
        """
        import httpx

        lost = isinstance(error, httpx.TransportError)
        unheard = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        self._unsure |= lost and not unheard and self._request.method != "GET"
        passes = unheard or (lost and self._request.safe)
        if isinstance(error, Refused):
            passes = error.status in AGAIN and (self._request.safe or error.status == 429)
        left = self._end - time.monotonic()
        if passes and left > 0.0:
            wait, self._wait = self._wait * random.uniform(0.5, 1.5), min(2.0 * self._wait, LONGEST)
            return min(wait, left)
        if not lost:
            raise error
        done = None if self._unsure else False
        raise NoAnswer(self._url, error, self._patience, done) from error


class _BaseClient:
    """The verbs of both clients; ``_send`` sends their requests."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        patience: float = 10.0,
        http: Any = None,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ValueError(f"Client: url must begin with http:// or https://; got {shown(url)}.")
        self.url = url.rstrip("/")
        self.patience = check_number("Client: patience", patience, least=0.0)
        if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable()):
            raise ValueError("Client: key must be printable ASCII; pass it exactly as issued.")
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._own = http is None
        self._http = self._new_http() if http is None else http

    def _new_http(self) -> Any:
        raise NotImplementedError

    def _send(self, request: _Request) -> Any:
        raise NotImplementedError

    def _save(self, request: _Request, path: str | os.PathLike[str]) -> Any:
        raise NotImplementedError

    def _retry(self, request: _Request) -> _Retry:
        return _Retry(request, self.url, self.patience)

    def _arguments(self, request: _Request) -> dict[str, Any]:
        headers = {**self._headers, **(request.headers or {})}
        arguments: dict[str, Any] = {"method": request.method, "url": self.url + request.path}
        if request.body is not None:
            arguments["json"] = request.body
        return {**arguments, "headers": headers}

    def model(self, name: str) -> RemoteModel:
        """A model that exists; sends no request yet."""
        return RemoteModel(self, name)

    def create(self, name: str, policy: str = "TwinUCB", **spec: Any) -> Any:
        """Create a model (``dim=3, options={...}`` ...), or return the existing identical one."""
        body, model = _plain({"policy": policy, **spec}), RemoteModel(self, name)
        return self._send(_Request("PUT", model.path, body, parse=lambda answer: model))

    def models(self) -> Any:
        """Describe all models."""
        return self._send(_Request("GET", "/v1/models"))

    def keys(self) -> Any:
        """The valid keys: names, scopes and times of creation."""
        return self._send(_Request("GET", "/v1/keys"))

    def new_key(self, name: str, scopes: Sequence[str]) -> Any:
        """Create a key with scopes among "read", "decide" and "admin"; it is shown only once."""
        body = {"name": name, "scopes": list(scopes)}
        return self._send(
            _Request("POST", "/v1/keys", body, parse=lambda answer: answer["key"], safe=False)
        )

    def revoke_key(self, name: str) -> Any:
        """Revoke a key for good."""
        return self._send(_Request("DELETE", f"/v1/keys/{_named('key', name)}", safe=False))


def _decision(answer: dict[str, Any]) -> RemoteDecision:
    """The decision in an answer; fields of newer services are ignored."""
    known = RemoteDecision.__dataclass_fields__
    return RemoteDecision(**{name: value for name, value in answer.items() if name in known})


def _checked(response: httpx.Response) -> Any:
    """Return the content of an answer; raise its refusal."""
    if response.status_code < 300:
        try:
            return response.json() if response.content else None
        except ValueError:
            message = f"{response.url} answered, but is not heavytail serve. Check the url."
            raise Refused(response.status_code, "odd", message, "") from None
    try:
        fault = response.json()
        code, message, field = fault["code"], fault["message"], fault.get("field", "")
    except (ValueError, TypeError, KeyError):
        code, message, field = "odd", f"The service answered {response.status_code}.", ""
    raise Refused(response.status_code, code, message, field)


class Client(_BaseClient):
    """A service to talk to.

    ::

        client = ht.Client("http://127.0.0.1:8080", key=KEY)
        shop = client.create("shop", dim=3)
        decision = shop.decide([[0.9, 0.0, 0.2], [0.0, 0.8, 0.5]], ids=["a", "b"])
        shop.learn(decision, 3.5)

    Args:
        url: where the service is.
        key: an API key, where one is needed.
        patience: seconds for which an unanswered request is retried.
        http: an ``httpx.Client`` of your own.
    """

    def _new_http(self) -> Any:
        need("a client", "httpx", extra="serve")
        import httpx

        return httpx.Client(timeout=30.0)

    def _send(self, request: _Request) -> Any:
        retry = self._retry(request)
        while True:
            try:
                return request.parse(_checked(self._http.request(**self._arguments(request))))
            except Exception as error:
                time.sleep(retry.after(error))

    def _save(self, request: _Request, path: str | os.PathLike[str]) -> None:
        retry = self._retry(request)
        while True:
            try:
                with (
                    replacing(path) as file,
                    self._http.stream(**self._arguments(request)) as response,
                ):
                    if response.status_code >= 300:
                        response.read()
                        _checked(response)
                    for piece in response.iter_bytes(PIECE):
                        file.write(piece)
                return
            except Exception as error:
                time.sleep(retry.after(error))

    def close(self) -> None:
        """Close its connections."""
        if self._own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_BaseClient):
    """The same for ``asyncio``: every verb is awaited."""

    def _new_http(self) -> Any:
        need("a client", "httpx", extra="serve")
        import httpx

        return httpx.AsyncClient(timeout=30.0)

    async def _send(self, request: _Request) -> Any:
        retry = self._retry(request)
        while True:
            try:
                return request.parse(_checked(await self._http.request(**self._arguments(request))))
            except Exception as error:
                await asyncio.sleep(retry.after(error))

    async def _save(self, request: _Request, path: str | os.PathLike[str]) -> None:
        retry = self._retry(request)
        while True:
            try:
                with replacing(path) as file:
                    async with self._http.stream(**self._arguments(request)) as response:
                        if response.status_code >= 300:
                            await response.aread()
                            _checked(response)
                        async for piece in response.aiter_bytes(PIECE):
                            await asyncio.to_thread(file.write, piece)
                return
            except Exception as error:
                await asyncio.sleep(retry.after(error))

    async def close(self) -> None:
        """Close its connections."""
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class RemoteModel:
    """A model of a service, with the verbs of a policy; an :class:`AsyncClient`'s are awaited."""

    def __init__(self, client: _BaseClient, name: str) -> None:
        self._client, self.name = client, _named("model", name)
        self.path = f"/v1/models/{name}"

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r}, {self._client.url!r})"

    def decide(
        self, arms: Any, *, ids: Any = None, explore: float | None = None, context: Any = None
    ) -> Any:
        """Choose among ``arms``, (n, dim) or dicts for a model with an encoder."""
        body = _body(arms=_plain(arms), ids=_plain(ids), explore=explore, context=_plain(context))
        request = self._with_key("decisions", body, parse=_decision)
        return self._client._send(request)

    def decide_many(self, many: Any, *, explore: float | None = None, contexts: Any = None) -> Any:
        """A decision for each of many sets of arms, each with its context, in one request."""
        each_context = [None] * len(many) if contexts is None else contexts
        body = [
            _body(arms=_plain(arms), explore=explore, context=_plain(context))
            for arms, context in zip(many, each_context, strict=True)
        ]
        request = self._with_key(
            "decisions", body, parse=lambda answer: list(map(_decision, answer))
        )
        return self._client._send(request)

    def learn(self, decision: Any, reward: Any, *, scale: Any = None) -> Any:
        """Send the reward of a decision (or token), or of many; return how many are new."""
        if isinstance(decision, RemoteDecision | str):
            body: Any = _body(token=_token(decision), reward=_plain(reward), scale=_plain(scale))
        else:
            rewards = list(reward)
            scales = [None] * len(rewards) if scale is None else list(scale)
            body = [
                _body(token=_token(each), reward=_plain(r), scale=_plain(s))
                for each, r, s in zip(decision, rewards, scales, strict=True)
            ]
        request = _Request(
            "POST", f"{self.path}/rewards", body, parse=lambda answer: answer["accepted"]
        )
        return self._client._send(request)

    def predict(
        self, arms: Any, *, ids: Any = None, context: Any = None, level: float = 0.95
    ) -> Any:
        """The mean rewards expected, with intervals: lists "mean", "low" and "high"."""
        body = _body(arms=_plain(arms), ids=_plain(ids), context=_plain(context), level=level)
        return self._client._send(_Request("POST", f"{self.path}/predict", body))

    def explain(self, arms: Any, *, ids: Any = None, context: Any = None) -> Any:
        """Explain the choice: "arm", its "id", and the "parts" of every arm's index."""
        body = _body(arms=_plain(arms), ids=_plain(ids), context=_plain(context))
        return self._client._send(_Request("POST", f"{self.path}/explain", body))

    def describe(self) -> Any:
        """Describe the model."""
        return self._client._send(_Request("GET", self.path))

    def diagnostics(self) -> Any:
        """The model's diagnostics."""
        request = _Request("GET", self.path, parse=lambda answer: answer["diagnostics"])
        return self._client._send(request)

    def pause(self, paused: bool = True) -> Any:
        """Pause the model's decisions, or resume them."""
        return self._client._send(_Request("PATCH", self.path, {"paused": paused}))

    def snapshot(self) -> Any:
        """Take a snapshot of the present state and return its number."""
        request = _Request(
            "POST", f"{self.path}/snapshots", parse=lambda answer: answer["snapshot"], safe=False
        )
        return self._client._send(request)

    def snapshots(self) -> Any:
        """The snapshots, newest first."""
        return self._client._send(_Request("GET", f"{self.path}/snapshots"))

    def save(self, path: str | os.PathLike[str], snapshot: int) -> Any:
        """Write a snapshot to ``path``, which ``ht.load`` reads: its policy, with its encoder."""
        number = check_count("RemoteModel.save: snapshot", snapshot)
        return self._client._save(_Request("GET", f"{self.path}/snapshots/{number}"), path)

    def save_log(self, path: str | os.PathLike[str]) -> Any:
        """Write all decisions that have their reward to ``path``, Parquet for ``ht.evaluate``.

        A file that is there is replaced when all has come, and stays where anything fails.
        """
        return self._client._save(_Request("GET", f"{self.path}/log"), path)

    def restore(self, snapshot: int) -> Any:
        """Restore a snapshot."""
        request = _Request("POST", f"{self.path}/restore", {"snapshot": snapshot}, safe=False)
        return self._client._send(request)

    def fork(self, name: str, **changes: Any) -> Any:
        """Create a model from this one; ``policy``, ``options``, ``shadow=True``."""
        twin, body = RemoteModel(self._client, name), {"name": name, **changes}
        request = _Request("POST", f"{self.path}/fork", body, parse=lambda answer: twin, safe=False)
        return self._client._send(request)

    def delete(self) -> Any:
        """Delete the model with its decisions, outcomes and snapshots."""
        return self._client._send(_Request("DELETE", self.path, safe=False))

    def _with_key(self, verb: str, body: Any, parse: Callable[[Any], Any]) -> _Request:
        key = {"Idempotency-Key": secrets.token_hex(16)}
        return _Request("POST", f"{self.path}/{verb}", body, key, parse)


def _body(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    """Arrays, frames, encoders and NumPy's numbers as JSON has them; of named features what is NaN
    is missing.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Encoder):
        return value.schema()
    if hasattr(value, "to_dicts") or hasattr(value, "to_dict"):  # of polars, of pandas
        return _plain(value.to_dicts() if hasattr(value, "to_dicts") else value.to_dict("records"))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        plain = {key: _plain(item) for key, item in value.items()}
        return {k: None if isinstance(v, float) and v != v else v for k, v in plain.items()}
    return value


def _named(what: str, name: Any) -> str:
    """A name that is one part of a path."""
    if not isinstance(name, str) or not name or set(name) & set("/?#%") or name in (".", ".."):
        raise ValueError(
            f"a {what}'s name must consist of letters, digits, . _ and -; got {shown(name)}."
        )
    return name


def _token(decision: Any) -> str:
    return decision.token if isinstance(decision, RemoteDecision) else decision
