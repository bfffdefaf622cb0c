"""Long work runs in a thread, so that the event loop can go on serving.

Kernels and NumPy release the interpreter's lock, so a thread that works on a large model does not
block the loop. Work on one model is serialised. Waiting for a turn suspends a coroutine; the
policy's own lock would block the loop.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["Turns", "apart"]

T = TypeVar("T")

LONG = 0.004  # seconds of work from which on it is done in a thread
BRIEF = 0.001  # seconds below which a measured time says nothing of the next
GUESS = 1e-9  # seconds of a multiplication and an addition
SLOWLY = 0.9  # by which what was measured is lowered, a call at a time


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, "heavytail-work")


async def apart(work: Callable[[], T]) -> T:
    """Run work in a thread and return its result; the work finishes even if its caller is
    cancelled.
    """
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(_threads(), work))


class Turns:
    """Serialised work on one model: short work runs in the loop, long work in a thread.

    The time of a kind of work is estimated from its size, in multiplications, and raised to the
    measured time. The estimate falls slowly, because refused or cached work takes less time.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._pace: dict[str, float] = {}  # seconds per unit of size

    @property
    def taken(self) -> bool:
        """True while work runs in a thread."""
        return self._lock.locked()

    def fit(self, kind: str, size: float) -> int:
        """Number of pieces of work of this kind and size that together count as short."""
        return int(LONG / (size * self._pace.get(kind, GUESS)))

    async def do(self, kind: str, size: float, work: Callable[[], T], *, shared: bool = False) -> T:
        """Run work exclusively; ``shared`` work needs no turn of its own."""
        short = self.fit(kind, size) > 0
        if short and not self._lock.locked():
            return self.timed(kind, size, work)
        timed = functools.partial(self.timed, kind, size, work)
        if shared:
            return await apart(timed)
        await self._lock.acquire()
        if short:
            try:
                return timed()
            finally:
                self._lock.release()
        later = asyncio.get_running_loop().run_in_executor(_threads(), timed)
        later.add_done_callback(lambda _: self._lock.release())  # not when the caller has gone
        return await asyncio.shield(later)

    def timed(self, kind: str, size: float, work: Callable[[], T]) -> T:
        """Run work at once and record its time."""
        start, old, done = time.perf_counter(), self._pace.get(kind, GUESS), False
        try:
            result = work()
            done = True
            return result
        finally:
            elapsed = time.perf_counter() - start
            measured = elapsed / size if elapsed > BRIEF else 0.0
            self._pace[kind] = max(measured, GUESS, SLOWLY * old if done else old)
