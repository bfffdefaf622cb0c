"""A client of ``heavytail serve``: the library's verbs over HTTP, with retries.

A retried request counts once: decisions carry an idempotency key, rewards their token.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from heavytail import _requests as requests
from heavytail._archive import replacing
from heavytail._extras import need
from heavytail._requests import (
    Arms,
    Context,
    Decisions,
    Ids,
    ModelRequests,
    Numbers,
    Request,
    Sent,
)
from heavytail._validate import check_number, shown
from heavytail.answers import (
    Diagnostics,
    Explained,
    ForkChanges,
    KeyView,
    ModelView,
    Predicted,
    RemoteDecision,
    Scope,
    SnapshotView,
    SpecFields,
)

if TYPE_CHECKING:
    import httpx

__all__ = [
    "AsyncClient",
    "AsyncRemoteModel",
    "Client",
    "NoAnswer",
    "Refused",
    "RemoteDecision",
    "RemoteModel",
]

Http = TypeVar("Http", "httpx.Client", "httpx.AsyncClient")
Answer = TypeVar("Answer")
SomeClient = TypeVar("SomeClient", bound="_BaseClient[Any]")

AGAIN = (429, 502, 503, 504)  # statuses that pass
FIRST, LONGEST = 0.05, 2.0  # seconds between two tries
PIECE = 2**18  # bytes of a file that are written at a time


class Refused(ValueError):
    """The service refused, and nothing was changed.

    Attributes:
        status: of HTTP.
        code: a stable one-word code.
        field: place in the request.
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


class _Retry:
    """The retries of a request, with growing waits between them."""

    def __init__(self, request: Request[Any], url: str, patience: float) -> None:
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


class _BaseClient(Generic[Http]):
    """Settings that both clients are built from."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        patience: float = 10.0,
        http: Http | None = None,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ValueError(f"Client: url must begin with http:// or https://; got {shown(url)}.")
        self.url = url.rstrip("/")
        self.patience = check_number("Client: patience", patience, least=0.0)
        if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable()):
            raise ValueError("Client: key must be printable ASCII; pass it exactly as issued.")
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._own = http is None
        self._http: Http = self._new_http() if http is None else http

    def _new_http(self) -> Http:
        raise NotImplementedError

    def _retry(self, request: Request[Any]) -> _Retry:
        return _Retry(request, self.url, self.patience)

    def _arguments(self, request: Request[Any]) -> Sent:
        return requests.sent(request, self.url, self._headers)


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


class Client(_BaseClient["httpx.Client"]):
    """A client of one service.

    ::

        client = ht.Client("http://127.0.0.1:8080", key=KEY)
        shop = client.create("shop", dim=3)
        decision = shop.decide([[0.9, 0.0, 0.2], [0.0, 0.8, 0.5]], ids=["a", "b"])
        shop.learn(decision, 3.5)

    Args:
        url: where the service is.
        key: an API key, if the service needs one.
        patience: seconds for which an unanswered request is retried.
        http: an ``httpx.Client`` of your own.
    """

    def model(self, name: str) -> RemoteModel:
        """A model that exists; sends no request yet."""
        return RemoteModel(self, name)

    def create(self, name: str, policy: str = "TwinUCB", **spec: Unpack[SpecFields]) -> RemoteModel:
        """Create a model (``dim=3, options={...}`` ...), or return the existing identical one."""
        return self._send(requests.create(name, policy, RemoteModel(self, name), **spec))

    def models(self) -> list[ModelView]:
        """Describe all models."""
        return self._send(requests.models())

    def keys(self) -> list[KeyView]:
        """The valid keys: names, scopes and times of creation."""
        return self._send(requests.keys())

    def new_key(self, name: str, scopes: Sequence[Scope]) -> str:
        """Create a key with scopes among "read", "decide" and "admin"; it is shown only once."""
        return self._send(requests.new_key(name, scopes))

    def revoke_key(self, name: str) -> None:
        """Revoke a key for good."""
        self._send(requests.revoke_key(name))

    def _new_http(self) -> httpx.Client:
        need("a client", "httpx", extra="serve")
        import httpx

        return httpx.Client(timeout=30.0)

    def _send(self, request: Request[Answer]) -> Answer:
        retry = self._retry(request)
        while True:
            try:
                return request.parse(_checked(self._http.request(**self._arguments(request))))
            except Exception as error:
                time.sleep(retry.after(error))

    def _save(self, request: Request[None], path: str | os.PathLike[str]) -> None:
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


class AsyncClient(_BaseClient["httpx.AsyncClient"]):
    """The same for ``asyncio``: every verb is awaited."""

    def model(self, name: str) -> AsyncRemoteModel:
        return AsyncRemoteModel(self, name)

    async def create(
        self, name: str, policy: str = "TwinUCB", **spec: Unpack[SpecFields]
    ) -> AsyncRemoteModel:
        return await self._send(requests.create(name, policy, AsyncRemoteModel(self, name), **spec))

    async def models(self) -> list[ModelView]:
        return await self._send(requests.models())

    async def keys(self) -> list[KeyView]:
        return await self._send(requests.keys())

    async def new_key(self, name: str, scopes: Sequence[Scope]) -> str:
        return await self._send(requests.new_key(name, scopes))

    async def revoke_key(self, name: str) -> None:
        await self._send(requests.revoke_key(name))

    def _new_http(self) -> httpx.AsyncClient:
        need("a client", "httpx", extra="serve")
        import httpx

        return httpx.AsyncClient(timeout=30.0)

    async def _send(self, request: Request[Answer]) -> Answer:
        retry = self._retry(request)
        while True:
            try:
                return request.parse(_checked(await self._http.request(**self._arguments(request))))
            except Exception as error:
                await asyncio.sleep(retry.after(error))

    async def _save(self, request: Request[None], path: str | os.PathLike[str]) -> None:
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


class _Model(Generic[SomeClient]):
    """A model of a service."""

    def __init__(self, client: SomeClient, name: str) -> None:
        self._client, self._requests, self.name = client, ModelRequests(name), name
        self.path = self._requests.path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._client.url!r})"


class RemoteModel(_Model[Client]):
    """A model of a service, with the verbs of a policy."""

    def decide(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        explore: float | None = None,
        context: Context | None = None,
    ) -> RemoteDecision:
        """Choose among ``arms``, (n, dim) or dicts for a model with an encoder."""
        return self._client._send(self._requests.decide(arms, ids, explore, context))

    def decide_many(
        self,
        many: Sequence[Arms],
        *,
        explore: float | None = None,
        contexts: Sequence[Context | None] | None = None,
    ) -> list[RemoteDecision]:
        """A decision for each of many sets of arms, each with its context, in one request."""
        return self._client._send(self._requests.decide_many(many, explore, contexts))

    def learn(self, decision: Decisions, reward: Numbers, *, scale: Numbers | None = None) -> int:
        """Send the reward of a decision (or token), or of many; return how many are new."""
        return self._client._send(self._requests.learn(decision, reward, scale))

    def predict(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
        level: float = 0.95,
    ) -> Predicted:
        """The mean rewards expected, with intervals: lists "mean", "low" and "high"."""
        return self._client._send(self._requests.predict(arms, ids, context, level))

    def explain(
        self, arms: Arms, *, ids: Ids | None = None, context: Context | None = None
    ) -> Explained:
        """Explain the choice: "arm", its "id", and the "parts" of every arm's index."""
        return self._client._send(self._requests.explain(arms, ids, context))

    def describe(self) -> ModelView:
        """Describe the model."""
        return self._client._send(self._requests.describe())

    def diagnostics(self) -> Diagnostics:
        """The model's diagnostics."""
        return self._client._send(self._requests.diagnostics())

    def pause(self, paused: bool = True) -> ModelView:
        """Pause the model's decisions, or resume them."""
        return self._client._send(self._requests.pause(paused))

    def snapshot(self) -> int:
        """Take a snapshot of the present state and return its number."""
        return self._client._send(self._requests.snapshot())

    def snapshots(self) -> list[SnapshotView]:
        """The snapshots, newest first."""
        return self._client._send(self._requests.snapshots())

    def save(self, path: str | os.PathLike[str], snapshot: int) -> None:
        """Write a snapshot to ``path``, which ``ht.load`` reads: its policy, with its encoder."""
        self._client._save(self._requests.save(snapshot), path)

    def save_log(self, path: str | os.PathLike[str]) -> None:
        """Write all decisions that have their reward to ``path``, Parquet for ``ht.evaluate``.

        A file that is there is replaced when all has come, and stays where anything fails.
        """
        self._client._save(self._requests.save_log(), path)

    def restore(self, snapshot: int) -> ModelView:
        """Restore a snapshot."""
        return self._client._send(self._requests.restore(snapshot))

    def fork(self, name: str, **changes: Unpack[ForkChanges]) -> RemoteModel:
        """Create a model from this one; ``policy``, ``options``, ``shadow=True``."""
        twin = RemoteModel(self._client, name)
        return self._client._send(self._requests.fork(name, twin, **changes))

    def delete(self) -> None:
        """Delete the model with its decisions, outcomes and snapshots."""
        self._client._send(self._requests.delete())


class AsyncRemoteModel(_Model[AsyncClient]):
    """The same of an :class:`AsyncClient`: every verb is awaited."""

    async def decide(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        explore: float | None = None,
        context: Context | None = None,
    ) -> RemoteDecision:
        return await self._client._send(self._requests.decide(arms, ids, explore, context))

    async def decide_many(
        self,
        many: Sequence[Arms],
        *,
        explore: float | None = None,
        contexts: Sequence[Context | None] | None = None,
    ) -> list[RemoteDecision]:
        return await self._client._send(self._requests.decide_many(many, explore, contexts))

    async def learn(
        self, decision: Decisions, reward: Numbers, *, scale: Numbers | None = None
    ) -> int:
        return await self._client._send(self._requests.learn(decision, reward, scale))

    async def predict(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
        level: float = 0.95,
    ) -> Predicted:
        return await self._client._send(self._requests.predict(arms, ids, context, level))

    async def explain(
        self, arms: Arms, *, ids: Ids | None = None, context: Context | None = None
    ) -> Explained:
        return await self._client._send(self._requests.explain(arms, ids, context))

    async def describe(self) -> ModelView:
        return await self._client._send(self._requests.describe())

    async def diagnostics(self) -> Diagnostics:
        return await self._client._send(self._requests.diagnostics())

    async def pause(self, paused: bool = True) -> ModelView:
        return await self._client._send(self._requests.pause(paused))

    async def snapshot(self) -> int:
        return await self._client._send(self._requests.snapshot())

    async def snapshots(self) -> list[SnapshotView]:
        return await self._client._send(self._requests.snapshots())

    async def save(self, path: str | os.PathLike[str], snapshot: int) -> None:
        await self._client._save(self._requests.save(snapshot), path)

    async def save_log(self, path: str | os.PathLike[str]) -> None:
        await self._client._save(self._requests.save_log(), path)

    async def restore(self, snapshot: int) -> ModelView:
        return await self._client._send(self._requests.restore(snapshot))

    async def fork(self, name: str, **changes: Unpack[ForkChanges]) -> AsyncRemoteModel:
        twin = AsyncRemoteModel(self._client, name)
        return await self._client._send(self._requests.fork(name, twin, **changes))

    async def delete(self) -> None:
        await self._client._send(self._requests.delete())
