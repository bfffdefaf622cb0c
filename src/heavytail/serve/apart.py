"""Work that takes longer than some milliseconds is done in a thread, so that the loop serves on.

Kernels and NumPy let go of the interpreter's lock, so that a thread at work on a large model leaves
the loop to others. Work on one model is done one after another, and who waits for a turn waits as
a coroutine does: the policy's own turns would hold the loop.
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
    """Do work in a thread, to its end even where nobody waits any more; return its result."""
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(_threads(), work))


class Turns:
    """Work on one model, one after another: what is short in the loop, what is long in a thread.

    How long a kind of work takes is guessed from its size, in multiplications, and raised to what
    was measured. It falls slowly: what is refused, or was kept from the last time, takes less.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._pace: dict[str, float] = {}  # seconds per unit of size

    @property
    def taken(self) -> bool:
        """True while somebody is at work in a thread."""
        return self._lock.locked()

    def fit(self, kind: str, size: float) -> int:
        """Number of pieces of work of a kind and size that are short together."""
        return int(LONG / (size * self._pace.get(kind, GUESS)))

    async def do(self, kind: str, size: float, work: Callable[[], T], *, shared: bool = False) -> T:
        """Do work with nobody else at work; ``shared`` work needs no turn of its own."""
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
        """Do work here and now, and note how long it took."""
        start, old, done = time.perf_counter(), self._pace.get(kind, GUESS), False
        try:
            result = work()
            done = True
            return result
        finally:
            elapsed = time.perf_counter() - start
            measured = elapsed / size if elapsed > BRIEF else 0.0
            self._pace[kind] = max(measured, GUESS, SLOWLY * old if done else old)
