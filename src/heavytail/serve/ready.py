"""Readiness: a shared probe of whether the store is writable."""

from __future__ import annotations

import asyncio
import math
import time

from heavytail.ledger.commits import Commits
from heavytail.ledger.store import StoreError
from heavytail.ledger.transaction import Transaction

__all__ = ["Ready"]

AGE = 1.0  # seconds that an answer is good for


class Ready:
    """The last probe of a store, shared by all callers while it is fresh.

    Args:
        commits: the writer of the store.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._looked = -math.inf
        self._look: asyncio.Task[StoreError | None] | None = None

    async def check(self) -> None:
        """Return if the store is writable; raise its StoreError otherwise."""
        now = time.monotonic()
        if self._look is None or (self._look.done() and now - self._looked >= AGE):
            self._looked = now
            self._look = asyncio.create_task(self._commits.do(_probed))
        await asyncio.shield(self._look)


def _probed(tx: Transaction) -> StoreError | None:
    """Return the failure of a probe instead of raising it, so that the other operations of its
    commit go on.
    """
    try:
        tx.store.probe()
    except StoreError as error:
        return error
    return None
