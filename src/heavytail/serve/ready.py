"""Readiness: a store that can be written to, which anybody may ask and nobody make work of."""

from __future__ import annotations

import asyncio
import math
import time

from heavytail.ledger.commits import Commits
from heavytail.ledger.store import StoreError, Transaction

__all__ = ["Ready"]

AGE = 1.0  # seconds that an answer is good for


class Ready:
    """The last look at a store; all who ask while it is fresh share it.

    Args:
        commits: the writer of the store.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._looked = -math.inf
        self._look: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Return where the store can be written to; its StoreError otherwise."""
        now = time.monotonic()
        if self._look is None or (self._look.done() and now - self._looked >= AGE):
            self._looked = now
            self._look = asyncio.create_task(self._commits.do(_probed))
        await asyncio.shield(self._look)


def _probed(tx: Transaction) -> StoreError | None:
    """The failure of a probe as its own: what shares its commit is done all the same."""
    try:
        tx.store.probe()
    except StoreError as error:
        return error
    return None
