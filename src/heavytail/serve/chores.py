"""Periodic tasks: expire decisions that waited too long, take snapshots, count, and read what other
processes wrote to the store.

For each model the store chooses one process for the first two; a second process doing them too
would be harmless.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable

from heavytail.ledger.layout import ModelRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.ledger.tokens import first_key
from heavytail.ledger.transaction import Transaction
from heavytail.serve.archiving import Retention, archive
from heavytail.serve.counts import LENGTH
from heavytail.serve.live import Live
from heavytail.serve.model import Model
from heavytail.serve.recording import record, settle

__all__ = ["Chores"]

log = logging.getLogger("heavytail.serve")

SWEPT = 1000  # decisions that are given up in one commit
SNAPSHOT_EVERY = 10_000  # outcomes
SNAPSHOT_AFTER = 60.0  # seconds, where there is anything new
SPARE = 20.0  # times as long as it takes to check a snapshot: between two of them
LAST = 5.0  # seconds that the check of a last snapshot may take
GRACE = 2.0  # seconds that another worker may take to write down a decision
FIRST = 60.0  # seconds after the start, within which every task runs once
ARCHIVED_EVERY = 3600.0  # seconds
LOOK = 0.1  # seconds between two looks at what others did


class Chores:
    """Tasks beside a service.

    Args:
        live: the models.
        snapshot: takes one of the model of a name.
        retention: how long rows are kept; None for ever.
    """

    def __init__(
        self,
        live: Live,
        snapshot: Callable[[str], Awaitable[object]],
        retention: Retention | None = None,
    ) -> None:
        self.live, self._snapshot, self._retention = live, snapshot, retention
        self.begun = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin, in the running loop."""
        jobs: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (1.0, self.give_up),
            (5.0, self.snapshots),
            (LENGTH, self.count),
            (LOOK, self.live.look),
        ]
        if self._retention is not None:
            jobs.append((ARCHIVED_EVERY, functools.partial(self.archive, self._retention)))
        self._tasks = [asyncio.create_task(_every(*job)) for job in jobs]

    async def stop(self) -> None:
        """End, with last snapshots."""
        self._ended.set()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(Refusal, StoreError):
            await self.live.commits.do(self.live.time.keep)
            for model in list(self.live.models.values()):
                await record(self.live, model)
            await self.snapshots(at_once=True)

    async def _leads(self, model: Model) -> bool:
        if not self.live.store.shared:
            return True
        leads: bool = await self.live.commits.do(lambda tx: tx.store.lead(model.row.id))
        return leads

    async def give_up(self) -> None:
        """Expire decisions that waited too long: they get their default reward, or none."""
        await self.live.commits.do(self.live.time.keep)
        for model in list(self.live.models.values()):
            wait = model.spec.wait
            if wait is None or model.row.follows is not None or not await self._leads(model):
                continue
            late = GRACE if self.live.store.shared else 0.0
            before = first_key(self.live.clock() - wait - late)
            sweep = functools.partial(_sweep, model=model, before=before)
            full = True
            while full:
                full, defaults = await self.live.commits.do(sweep, model=model.row.id)
                model.tracker.rewarded(defaults)

    async def count(self) -> None:
        """Add what was counted of each model to the store."""
        for model in list(self.live.models.values()):
            await record(self.live, model)
            if model.row.follows is None and await self._leads(model):
                await settle(self.live, model)

    async def archive(self, retention: Retention) -> None:
        """Move old rows to the archive, of each model that this process leads."""
        for model in list(self.live.models.values()):
            if model.row.follows is None and await self._leads(model):
                try:
                    await archive(self.live, model.row.id, retention, self._ended)
                except (Refusal, StoreError) as error:  # the other models do not wait for it
                    log.error("%s is not archived: %s", model.row.name, error)

    async def snapshots(self, *, at_once: bool = False) -> None:
        """Take snapshots of models that have learned enough since the last one."""
        for model in list(self.live.models.values()):
            new = model.version - model.snapshot_seq
            age = time.monotonic() - (model.snapshot_time or self.begun)
            due = (new >= SNAPSHOT_EVERY or age > SNAPSHOT_AFTER) and age > SPARE * model.loading
            if at_once:
                due = model.loading < LAST
            if new and due and await self._leads(model):
                try:
                    await self._snapshot(model.row.name)
                except Refusal as refusal:  # deleted or set back meanwhile, or it cannot be kept
                    log.debug("no snapshot of %s: %s", model.row.name, refusal.message)


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    wait = min(seconds, FIRST)
    while True:
        await asyncio.sleep(wait)
        wait = seconds
        try:
            await work()
        except Refusal as refusal:  # the model was deleted or set back meanwhile
            log.debug("postponed to the next run: %s", refusal.message)
        except StoreError as error:  # a full disk: next time there may be room
            log.error("%s", error)
        except Exception:
            log.exception("a task that runs every %g seconds failed", seconds)


def _sweep(tx: Transaction, model: Model, before: bytes) -> tuple[bool, list[float]]:
    """Expire the next decisions; return whether there may be more, and the default rewards."""
    tx.last(model.row.id)  # nobody else sweeps or rewards until the commit
    row: ModelRow | None = tx.store.model(model.row.id)
    if row is None or row.swept >= before:
        return False, []
    overdue = tx.waiting(row.id, row.swept, before, SWEPT)
    default = model.spec.default_reward
    if default is not None:
        for decision in overdue:
            tx.reward(decision, default, None, by_default=True)
    full = len(overdue) == SWEPT
    end = overdue[-1].key if full else before
    tx.swept(row.id, end, 0 if default is not None else len(overdue))
    return full, [] if default is None else [default] * len(overdue)
