"""A service behind a real socket, in a thread of this process, as ``heavytail serve`` runs it."""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from collections.abc import Iterator

import uvicorn

from heavytail.commands.serve import _config, add_arguments
from heavytail.ledger.opening import opened
from heavytail.serve.app import build
from heavytail.serve.service import Limits


@contextlib.contextmanager
def listening(
    where: str | os.PathLike[str], *options: str, limits: Limits | None = None
) -> Iterator[tuple[uvicorn.Server, int]]:
    """The server while it runs, and its port."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["--store", str(where), "--port", "0", *options])
    server = uvicorn.Server(_config(build(opened(where), local=True, limits=limits), args))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(2000):
        if server.started or not thread.is_alive():
            break
        time.sleep(0.005)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30.0)
        assert not thread.is_alive()
