"""Group commit: requests that come together share one write to the disk.

Operations queue up, and one commit takes all that have arrived. No request is answered before its
commit is on disk. If a commit takes long, a thread waits for the disk while the loop goes on
reading requests.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Store, StoreError
from heavytail.ledger.transaction import Operation, Transaction

__all__ = ["LARGE", "Commits"]

log = logging.getLogger("heavytail.serve")

MOST = 1024  # operations of one commit

LARGE = 2**20  # bytes that are written or read in a thread, however quick a commit is

Result = TypeVar("Result")
Applied = tuple[list[Any], set[int]] | StoreError  # results and models touched
Waiting = tuple[int, Operation, "asyncio.Future[Any]", int]


class Commits:
    """The one writer of a store, for an event loop.

    Args:
        store: from now on used only through ``do``.
        read: called after every commit with new outcomes, with the numbers of their models; it may
            read the store.
        after: called then in the loop, with the result of ``read``, before any request is answered.

    Attributes:
        observe: called after every commit with the number of its operations and its seconds.
        waiting: gives the context in which an operation waits for its commit.
    """

    def __init__(
        self, store: Store, read: Callable[[set[int]], Any], after: Callable[[Any], None]
    ) -> None:
        self.store, self._read, self._after = store, read, after
        self._queue: list[Waiting] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "heavytail-commit")
        self._begun = 0.0
        self.observe: Callable[[int, float], None] = lambda operations, seconds: None
        self.waiting: Callable[[], AbstractContextManager[object]] = nullcontext

    async def do(
        self, operation: Callable[[Transaction], Result], *, model: int = 0, size: int = 0
    ) -> Result:
        """Run an operation and return its result once it is on disk; raise its Refusal, or the
        store's failure.

        Args:
            operation: may run several times; the last run counts.
            model: the model that it locks. Locks are taken in the order of their numbers, so that
                no two processes deadlock.
            size: bytes that it writes or reads, if they may be many.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.append((model, operation, future, size))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._next, loop)  # behind all requests that can be read now
        with self.waiting():
            return await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue[:MOST], self._queue[MOST:]
        if not batch:
            self._busy = False
            return
        self._begun = time.perf_counter()
        batch.sort(key=lambda entry: entry[0])
        operations = [operation for _, operation, _, _ in batch]
        large = sum(size for _, _, _, size in batch) >= LARGE
        if self.store.quick and not large:
            self._settle(batch, *self._done(operations))
            loop.call_soon(self._next, loop)
            return
        work: Callable[[], tuple[Applied, Any]] = functools.partial(self._done, operations)
        if not (
            self.store.shared or large
        ):  # what needs no disk is done here: threads would wait in turns
            try:
                work = functools.partial(self._ended, self.store.stage(operations))
            except Exception:
                log.debug("done one by one in the thread", exc_info=True)
        later = loop.run_in_executor(self._thread, work)
        later.add_done_callback(lambda done: self._settled(loop, batch, done))

    def _settled(
        self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], done: asyncio.Future[Any]
    ) -> None:
        self._settle(batch, *done.result())
        self._next(loop)

    def _done(self, operations: list[Operation]) -> tuple[Applied, Any]:
        """Apply the operations; return their results and what was read after the commit."""
        return self._behind(self._apply(operations))

    def _ended(self, staged: Applied) -> tuple[Applied, Any]:
        """The same for staged operations."""
        try:
            self.store.end()
        except StoreError as error:
            staged = error
        return self._behind(staged)

    def _behind(self, applied: Applied) -> tuple[Applied, Any]:
        """Read the new outcomes after a commit."""
        if isinstance(applied, StoreError) or not applied[1]:
            return applied, None
        try:
            return applied, self._read(applied[1])
        except Exception:  # it is committed all the same, and will be read with the next
            log.exception("the new outcomes could not be read")
            return applied, None

    def _apply(self, operations: list[Operation]) -> Applied:
        """Return the results and the changed models. If an operation fails by its own fault, run
        the others one by one. If the store fails, return its failure.
        """
        try:
            return self.store.apply(operations)
        except StoreError as error:
            return error
        except Exception as error:
            if len(operations) == 1:
                log.exception("an operation failed")
                return StoreError(f"the operation failed: {error!r}.")
        each = [self._apply([operation]) for operation in operations]
        results = [
            outcome if isinstance(outcome, StoreError) else outcome[0][0] for outcome in each
        ]
        return results, set().union(
            *(outcome[1] for outcome in each if not isinstance(outcome, StoreError))
        )

    def _settle(self, batch: list[Waiting], applied: Applied, news: object) -> None:
        """Answer all requests that waited for one commit."""
        self.observe(len(batch), time.perf_counter() - self._begun)
        if isinstance(applied, StoreError):
            for _, _, future, _ in batch:
                if not future.done():
                    future.set_exception(applied)
            return
        if news is not None:
            try:
                self._after(news)
            except Exception:  # what is on disk is answered as such
                log.exception("the work after a commit failed")
        for (_, _, future, _), result in zip(batch, applied[0], strict=True):
            if future.done():  # its client has gone
                continue
            if isinstance(result, Refusal | StoreError):
                future.set_exception(result)
            else:
                future.set_result(result)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
