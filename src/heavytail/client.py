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
from heavytail._remote import AsyncRemoteModel, RemoteModel
from heavytail._requests import Request, Saved, Sent
from heavytail._validate import check_number, shown
from heavytail.answers import (
    KeyView,
    ModelView,
    RemoteChoice,
    RemoteDecision,
    Scope,
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
    "RemoteChoice",
    "RemoteDecision",
    "RemoteModel",
]

Http = TypeVar("Http", "httpx.Client", "httpx.AsyncClient")
Answer = TypeVar("Answer")

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

    def upload(self, name: str, saved: Saved, *, learn: str | None = None) -> RemoteModel:
        """Create a model that begins with a Decider or a policy, or with the file of one (its path
        or bytes), or return the existing one that began with it. It first learns the log of the
        model ``learn``, in the background: ``describe()["learning"]`` says how far it is.
        """
        return self._send(requests.upload(name, saved, learn, RemoteModel(self, name)))

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

    async def upload(
        self, name: str, saved: Saved, *, learn: str | None = None
    ) -> AsyncRemoteModel:
        return await self._send(requests.upload(name, saved, learn, AsyncRemoteModel(self, name)))

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
