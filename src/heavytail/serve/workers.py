"""Worker processes that share a socket: one that dies is replaced, and the log says so."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterable

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from heavytail.serve.metrics import restarts

__all__ = ["Workers"]

log = logging.getLogger("heavytail.serve")


class Workers(Multiprocess):
    """The supervisor of the workers.

    Args:
        config: of each worker.
        sockets: that they share.
        folder: where they count together.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], folder: str) -> None:
        super().__init__(config, sockets)
        self._folder = folder
        self._restarts = restarts(CollectorRegistry())
        self._known: list[Process] = []

    def keep_subprocess_alive(self) -> None:
        self._forget(process for process in self._known if process not in self.processes)
        before = [(process, process.process.is_alive()) for process in self.processes]
        super().keep_subprocess_alive()
        self._known = list(self.processes)
        for (old, was_alive), new in zip(before, self.processes, strict=False):
            if new is not old:
                self._forget([old])
                self._restarts.inc()
                silent = was_alive and old.exitcode == -signal.SIGKILL
                end = "did not answer and was killed" if silent else ended(old.exitcode)
                log.error("worker %s %s; worker %s takes its place", old.pid, end, new.pid)

    def _forget(self, processes: Iterable[Process]) -> None:
        """Remove the gauges of dead workers; what they counted stays in the sums."""
        for process in processes:
            mark_process_dead(process.pid, self._folder)  # type: ignore[no-untyped-call]


def ended(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    names = {each.value: each.name for each in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"
