"""Adding what a worker counted to the store, where all workers find it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.ledger.tokens import first_key
from heavytail.ledger.transaction import Transaction
from heavytail.serve.counts import Counts

if TYPE_CHECKING:
    from heavytail.serve.live import Live
    from heavytail.serve.model import Model

__all__ = ["record", "settle"]

SETTLED = 1000  # decisions that are looked at in one commit
LATE = 5.0  # seconds that a decision may take to be written down


async def record(live: Live, model: Model) -> None:
    """Add what this worker counted of a model to the counts in the store."""
    tracker = model.tracker
    counts = tracker.take()
    if not counts:
        return

    def work(tx: Transaction) -> None:
        tx.last(model.row.id)  # nobody else adds to them until the commit
        stored = Counts.unpacked(tx.store.recent(model.row.id))
        stored.merge(counts)
        tx.keep_recent(model.row.id, stored.packed())

    try:
        with contextlib.suppress(Refusal):  # the model was deleted
            await live.commits.do(work, model=model.row.id)
    except StoreError:
        tracker.put_back(counts)
        raise


async def settle(live: Live, model: Model) -> None:
    """Note up to where no decision of a model waits, so that the oldest that does is found soon."""
    before = first_key(live.clock() - LATE)
    more = True
    while more:
        more = await live.commits.do(lambda tx: tx.settle(model.row.id, before, SETTLED))
