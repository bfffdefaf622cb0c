"""uvicorn's HTTP/1.1 protocol on httptools, with a limit on what precedes a body.

httptools buffers a header until it is complete and copies it for every arriving piece. Without a
limit anybody could cause quadratic time with an endless header.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from heavytail.serve.wire import Fault, encoded

__all__ = ["Protocol"]

HEAD = 2**16  # bytes of a path and headers, or of trailers
HEADERS = 128  # of one request
PATIENCE = 10.0  # seconds for them to come

LONG = f"A request may have at most {HEADERS} headers and {HEAD} bytes of path and headers."
CLOSING = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """A connection.

    ``_quiet`` counts the bytes since the parser's last event: the end of the headers, a part of the
    body, or the end of the request.
    """

    _quiet = 0
    _long = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.transport.is_closing():
            piece, view = view[: HEAD - self._quiet], view[HEAD - self._quiet :]
            self._quiet += len(piece)
            super().data_received(piece)  # type: ignore[arg-type]
            if self._quiet >= HEAD:
                self._long = True
                self.send_400_response(LONG)
        if self._quiet and self._deadline is None:
            self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEADERS:
            self._long = True
            raise ValueError(LONG)  # ends the parser, and is answered as below

    def on_headers_complete(self) -> None:
        self._heard()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._heard()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._heard()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request, or one that is too long, and close the connection."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            status, code = (431, "long_head") if self._long else (400, "bad_http")
            body = encoded(Fault(code, LONG if self._long else msg, ""))
            head = (
                b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()

    def _heard(self) -> None:
        self._quiet = 0
        if self._deadline is not None:
            self._stop_waiting()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(PATIENCE, self._too_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        """Close a connection whose next request has not begun in time, unless a request is being
        served.
        """
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._wait()
