"""The activity of all models, for ``GET /v1/stats`` and ``GET /metrics``."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from heavytail.ledger.layout import Activity, ModelRow
from heavytail.ledger.store import StoreError
from heavytail.ledger.tokens import time_of
from heavytail.ledger.transaction import Transaction
from heavytail.serve.counts import LENGTH, Counts
from heavytail.serve.recording import record
from heavytail.serve.wire import BrokenStats, ModelStats, Stats

if TYPE_CHECKING:
    from heavytail.serve.live import Live
    from heavytail.serve.model import Model

__all__ = ["Known", "known", "stats"]


class Known(NamedTuple):
    """What the store knows of a model.

    Attributes:
        row: its row.
        activity: what was counted since its creation.
        oldest: time of the oldest pending decision; None if none is pending.
        archived: rows in the archive.
    """

    row: ModelRow
    activity: Activity
    oldest: float | None
    archived: int

    @property
    def pending(self) -> int:
        """Decisions that wait for their reward."""
        return self.row.pending(self.activity.decisions)


def known(tx: Transaction) -> dict[int, Known]:
    """What the store knows of each model, by its number."""
    activities, archived, models = tx.store.activities(), tx.store.archived(), {}
    for row in tx.store.models():
        activity = activities.get(row.id, Activity())
        oldest = tx.store.oldest(row.id) if row.pending(activity.decisions) > 0 else None
        since = None if oldest is None else time_of(oldest)
        models[row.id] = Known(row, activity, since, archived.get(row.id, 0))
    return models


async def stats(live: Live, started: float) -> Stats:
    """The statistics of all models, by name, with a single read of the store."""
    for model in list(live.models.values()):
        with contextlib.suppress(StoreError):  # a full disk can still be read
            await record(live, model)

    def look(tx: Transaction) -> tuple[dict[int, Known], dict[int, bytes]]:
        models = known(tx)
        return models, {number: tx.store.recent(number) for number in models}

    found, recent = await live.commits.do(look)
    names = {model.row.id: name for name, model in live.models.items()}
    models = []
    for name, model in sorted(live.models.items()):
        if model.row.id in found:
            diagnostics = await model.report()
            counts = Counts.unpacked(recent.get(model.source, b""))
            this = found[model.row.id]
            models.append(_model_stats(name, model, this, counts, names, live.clock(), diagnostics))
            await asyncio.sleep(0)  # others are served between two models
    broken = [BrokenStats(name, model.reason) for name, model in sorted(live.broken.items())]
    return Stats(started, time.time(), LENGTH, models, broken)


def _model_stats(
    name: str,
    model: Model,
    this: Known,
    counts: Counts,
    names: dict[int, str],
    now: float,
    diagnostics: dict[str, Any],
) -> ModelStats:
    row, activity = this.row, this.activity
    shadow = row.follows is not None
    if shadow:
        counts = counts.without_decisions()
    arms, others = counts.top(activity.decisions)
    return ModelStats(
        name, type(model.policy).__name__, bool(row.paused),
        None if row.follows is None else names.get(row.follows), activity.decisions,
        model.version - row.since if shadow else activity.rewards,
        *counts.lately(now, row.created), counts.listed(now), arms, others, this.pending,
        model.policy.rounds, diagnostics, model.tracker.tail(), activity.defaults, activity.money,
        None if this.oldest is None else max(now - this.oldest, 0.0),
    )  # fmt: skip
