"""The activity of all models since the service started, for ``GET /v1/stats``."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from heavytail.ledger.layout import ModelRow
from heavytail.ledger.store import Transaction
from heavytail.serve.tracker import LENGTH
from heavytail.serve.wire import BrokenStats, ModelStats, Stats

if TYPE_CHECKING:
    from heavytail.serve.live import Live
    from heavytail.serve.model import Model

__all__ = ["stats"]

Rows = dict[int, tuple[ModelRow, int]]


async def stats(live: Live, started: float) -> Stats:
    """The statistics of all models, by name, with a single read of the store."""

    def look(tx: Transaction) -> Rows:
        return {row.id: (row, tx.store.decisions(row.id)) for row in tx.store.models()}

    rows: Rows = await live.commits.do(look)
    names = {model.row.id: name for name, model in live.models.items()}
    models = []
    for name, model in sorted(live.models.items()):
        if model.row.id in rows:
            diagnostics = await model.report()
            models.append(_model_stats(name, model, *rows[model.row.id], names, diagnostics))
            await asyncio.sleep(0)  # others are served between two models
    broken = [BrokenStats(name, model.reason) for name, model in sorted(live.broken.items())]
    return Stats(started, time.time(), LENGTH, models, broken)


def _model_stats(
    name: str,
    model: Model,
    row: ModelRow,
    decisions: int,
    names: dict[int, str],
    diagnostics: dict[str, Any],
) -> ModelStats:
    tracker = model.tracker
    arms, others = tracker.top()
    return ModelStats(
        name, type(model.policy).__name__, bool(row.paused),
        None if row.follows is None else names.get(row.follows),
        tracker.decisions, tracker.rewards, *tracker.recent(), tracker.windows(), arms, others,
        row.pending(decisions), model.policy.rounds, diagnostics, tracker.tail(),
    )  # fmt: skip
