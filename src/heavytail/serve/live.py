"""The models that are alive, in step with their store, whoever writes to it.

Every process learns the outcomes of all, in the order of their numbers, so that each has the same
state after the same outcome, to the bit. What others did is seen at once where a request hangs on
it, and otherwise by a look every tenth of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time

from heavytail.serve.commits import Commits
from heavytail.serve.layout import ModelRow, OutcomeRow
from heavytail.serve.model import Model
from heavytail.serve.refusal import Refusal
from heavytail.serve.store import Store, StoreError, Transaction
from heavytail.serve.tokens import time_of

__all__ = ["Live"]

log = logging.getLogger("heavytail.serve")

BATCH = 2048  # outcomes that are learned between two requests
AWAY = 16  # of a model so large that they are learned in a thread
SOON = 1.0  # seconds after which a reward is answered that is not learned yet

News = list[tuple[Model, list[OutcomeRow] | None]]  # None: more than can be learned at once


class Live:
    """Models by name, and the one writer of their store.

    Args:
        store: opened.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.models: dict[str, Model] = {}
        self.broken: set[str] = set()  # models that cannot be opened
        self.commits = Commits(store, self._news, self._learn)
        self._latest = 0.0

    async def start(self) -> None:
        """Bring every model to where its log ends. The store is nobody else's yet."""
        for row in self.store.models():
            model = self._made(row, self.store.snapshot(row.id))
            if model is None:
                continue
            while rows := self.store.outcomes(model.source, model.version, BATCH):
                model.learn(rows)
                await asyncio.sleep(0)
            latest = self.store.latest(row.id)
            self._latest = max(self._latest, time_of(latest) if latest else 0.0)

    def _made(self, row: ModelRow, snapshot: tuple[int, bytes] | None) -> Model | None:
        """A model, in its place; where that cannot be, it is said, and nobody else suffers."""
        old = self.models.get(row.name)
        try:
            model = Model(row, snapshot)
        except Exception:
            if row.name not in self.broken:
                log.exception("the model %s cannot be opened", row.name)
            self.broken.add(row.name)
            self.models.pop(row.name, None)
            return None
        if old is not None and old.row.id == row.id:
            model.tracker = old.tracker
        self.broken.discard(row.name)
        self.models[row.name] = model
        return model

    def clock(self) -> float:
        """Seconds since 1970; where the store's clock is set back, this one waits."""
        self._latest = max(self.store.clock(), self._latest)
        return self._latest

    def __getitem__(self, name: str) -> Model:
        """The model called ``name``, or a refusal."""
        found = self.models.get(name)
        if found is None and name in self.broken:
            message = "The model cannot be opened; the service's log says why. Delete or repair it."
            raise Refusal(503, "broken_model", message)
        if found is None:
            raise Refusal(404, "no_model", "There is no model of this name.")
        return found

    async def find(self, name: str) -> Model:
        """The same, also of a model that another process has just made."""
        if name not in self.models:
            await self.look()
        return self[name]

    async def renewed(self, model: Model) -> Model:
        """The model that has the name of ``model`` now, which may be another."""
        await self.look()
        return self[model.row.name]

    async def look(self) -> None:
        """See what other processes did: models that came, went or were set back, and outcomes."""
        if not self.store.shared:
            return
        rows: list[ModelRow] = await self.commits.do(lambda tx: tx.store.models())
        there = {row.name for row in rows}
        for name in [name for name in self.models if name not in there]:
            self.models.pop(name, None)
        self.broken &= there
        last = {row.id: row.last for row in rows}
        for row in rows:
            model = self.models.get(row.name)
            if model is None or (model.row.id, model.row.epoch) != (row.id, row.epoch):
                with contextlib.suppress(Refusal):  # it is gone again, or cannot be opened
                    await self.open(row)
                continue
            model.row = row
            if model.version < last.get(model.source, 0):
                await self.catch_up(model, new=True)

    async def open(self, row: ModelRow) -> Model:
        """A model from its newest snapshot, in place of the one that has its name."""

        def newest(tx: Transaction) -> tuple[ModelRow | None, tuple[int, bytes] | None]:
            return tx.model(row.name), tx.store.snapshot(row.id)

        found, snapshot = await self.commits.do(newest)
        if found is None or found.id != row.id:
            raise Refusal(404, "no_model", "There is no model of this name.")
        model = self._made(found, snapshot)
        if model is None:
            return self[row.name]
        await self.catch_up(model)
        return model

    async def catch_up(self, model: Model, *, new: bool = False) -> None:
        """Learn all that there is, while others are served; what is ``new`` is tracked."""
        full = True
        while full:
            most = min(max(model.batch, AWAY), BATCH)
            rows = await self.commits.do(functools.partial(_next, model=model, most=most))
            if new:
                model.track(rows)
            await model.turn("learn", len(rows), functools.partial(model.learn, rows))
            full = len(rows) == most

    def _news(self, touched: set[int]) -> News:
        """Behind a commit: the next outcomes of models that have new ones."""
        found: News = []
        for model in list(self.models.values()):
            if model.source in touched:
                most = min(model.batch, BATCH)
                rows = self.store.outcomes(model.source, model.version, most + 1) if most else []
                found.append((model, rows if most and len(rows) <= most else None))
        return found

    def _learn(self, news: News) -> None:
        for model, rows in news:
            if rows is None or model.turns.taken:
                model.behind = True
                if model.chaser is None or model.chaser.done():
                    model.chaser = asyncio.create_task(self._chase(model))
            else:
                model.track(rows)
                size = model.size(len(rows))
                model.turns.timed("learn", size, functools.partial(model.learn, rows))

    async def _chase(self, model: Model) -> None:
        """Learn what the loop has no time for, as long as there is more."""
        while model.behind:
            model.behind = False
            try:
                await self.catch_up(model, new=True)
            except (Refusal, StoreError) as error:  # it is read with the next
                log.error("%s: what is new was not learned: %s", model.row.name, error)

    async def learned(self, model: Model, last: int) -> None:
        """Wait a moment for a model that is learning outcome ``last``."""
        end = time.monotonic() + SOON
        while model.version < last and model.chaser is not None and time.monotonic() < end:
            done, _ = await asyncio.wait([model.chaser], timeout=0.01)
            if done:
                return


def _next(tx: Transaction, model: Model, most: int) -> list[OutcomeRow]:
    """The next outcomes that a model has not learned."""
    return tx.store.outcomes(model.source, model.version, most)
