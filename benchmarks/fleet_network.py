"""Networks between workers and one database, which can be slow, cut or broken.

Each worker reaches the database through a port of its own. One process forwards what comes there,
and delays it, holds it back or closes the connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path

__all__ = ["GIVEN_UP", "Network"]

GIVEN_UP = 15.0  # seconds after which both ends give up a cut connection (ledger.postgres.SETTINGS)


class Network:
    """The links of some workers to a database, in a process of their own.

    Args:
        socket: the database's Unix socket.
        count: of links.

    Attributes:
        ports: on this machine, one for each worker.
    """

    def __init__(self, socket: Path, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(socket, count, theirs), daemon=True)
        self._process.start()
        self.ports: list[int] = self._orders.recv()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.kill()
        self._process.join()

    def address(self, worker: int) -> str:
        """The address of the database for a worker."""
        here = f"127.0.0.1:{self.ports[worker]}"
        return f"postgresql://postgres@{here}/postgres?sslmode=disable&gssencmode=disable"

    def delay(self, seconds: float) -> None:
        """Delay everything by so much each way, on all links."""
        for worker in range(len(self.ports)):
            self._order("delay", worker, seconds)

    def cut(self, worker: int) -> None:
        """Let nothing through; what is sent meanwhile comes after the link is mended, as TCP sends
        it again. After ``GIVEN_UP`` seconds both ends lose their connections.
        """
        self._order("cut", worker)

    def mend(self, worker: int) -> None:
        """Let everything through again."""
        self._order("mend", worker)

    def close(self, worker: int) -> None:
        """Close the open connections of a worker; it may open others."""
        self._order("close", worker)

    def _order(self, *order: object) -> None:
        self._orders.send(order)
        self._orders.recv()


class Link:
    """The connections of one worker to the database."""

    def __init__(self, socket: Path) -> None:
        self.socket, self.seconds = socket, 0.0
        self.open = asyncio.Event()
        self.open.set()
        self.writers: set[asyncio.StreamWriter] = set()
        self._end: asyncio.TimerHandle | None = None

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            await self.open.wait()
            theirs, upstream = await asyncio.open_unix_connection(str(self.socket))
        except OSError:
            writer.transport.abort()
            self.writers.discard(writer)
            return
        self.writers.add(upstream)
        await asyncio.gather(self._forward(reader, upstream), self._forward(theirs, writer))
        for one in (writer, upstream):
            one.transport.abort()
            self.writers.discard(one)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on all bytes in order, each piece after the delay."""
        loop, pieces, more = asyncio.get_running_loop(), deque[tuple[float, bytes]](), None

        async def send() -> None:
            while pieces:
                due, piece = pieces.popleft()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                await self.open.wait()
                writer.write(piece)

        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                if self.seconds == 0.0 and self.open.is_set() and (more is None or more.done()):
                    writer.write(piece)
                    continue
                pieces.append((loop.time() + self.seconds, piece))
                if more is None or more.done():
                    more = asyncio.create_task(send())
        if more is not None:
            await more
        writer.close()

    def cut(self) -> None:
        self.open.clear()
        self._end = asyncio.get_running_loop().call_later(GIVEN_UP, self.close)

    def mend(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self.open.set()

    def close(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


def _run(socket: Path, count: int, orders: Connection) -> None:
    asyncio.run(_serve(socket, count, orders))


async def _serve(socket: Path, count: int, orders: Connection) -> None:
    links = [Link(socket) for _ in range(count)]
    servers = [await asyncio.start_server(link.accept, "127.0.0.1", 0) for link in links]
    orders.send([server.sockets[0].getsockname()[1] for server in servers])
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def obey() -> None:
        try:
            verb, worker, *values = orders.recv()
        except EOFError:
            return ended.set()
        if verb == "delay":
            links[worker].seconds = values[0]
        else:
            getattr(links[worker], verb)()
        orders.send(None)

    loop.add_reader(orders.fileno(), obey)
    await ended.wait()
