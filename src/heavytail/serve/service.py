"""The service: models in step with their store, whatever speaks to it.

Every verb is a coroutine that returns when what it did is on disk. What it refuses is a
:class:`heavytail.serve.refusal.Refusal`, and nothing was changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from heavytail._typing import FloatArray
from heavytail.serve.commits import Commits
from heavytail.serve.entries import answered_again, logged
from heavytail.serve.fast import Plain
from heavytail.serve.keys import Keys
from heavytail.serve.layout import ModelRow
from heavytail.serve.model import Model
from heavytail.serve.refusal import Refusal
from heavytail.serve.rewards import owed
from heavytail.serve.store import Store, Transaction
from heavytail.serve.tokens import Token, first_key, time_of
from heavytail.serve.wire import (
    NAME,
    DecideAmongNamed,
    DecideAmongVectors,
    Decided,
    Fork,
    ModelSpec,
    ModelView,
    Reward,
)

__all__ = ["Limits", "Service"]

log = logging.getLogger("heavytail.serve")

BATCH = 2048  # outcomes that are learned between two requests
SWEPT = 1000  # decisions that are given up in one commit
SNAPSHOT_EVERY = 10_000  # outcomes
SNAPSHOT_AFTER = 60.0  # seconds, where there is anything new

Asked = DecideAmongVectors | DecideAmongNamed | Plain


class Limits(NamedTuple):
    """What a request may ask for at most."""

    body: int = 16 * 2**20  # bytes
    arms: int = 10_000  # of one decision
    batch: int = 1_000  # decisions or rewards of one request
    dim: int = 4096
    models: int = 1_000


class Service:
    """Models, and the one writer of their store.

    Args:
        store: opened.
        limits: of requests.
    """

    def __init__(self, store: Store, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.store = store
        self.models: dict[str, Model] = {}
        self.commits = Commits(store, self._after)
        self.keys = Keys()
        self.started = time.time()
        self._latest = 0.0  # the clock, which does not go back
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = time.monotonic()
        self._snapped: dict[int, float] = {}  # model -> when

    # Beginning and end

    async def start(self) -> None:
        """Bring every model to where its log ends."""
        for row in self.store.models():
            model = Model(row, self.store.snapshot(row.id))
            self.models[row.name] = model
            while self._follow(model):
                await asyncio.sleep(0)
        latest = self.store.rows("SELECT MAX(key) FROM decision")[0][0]
        self._latest = time_of(bytes(latest)) if latest else 0.0
        self._tasks = [
            asyncio.create_task(self._every(1.0, self._give_up)),
            asyncio.create_task(self._every(5.0, self._snapshot_all)),
        ]

    async def stop(self) -> None:
        """Take last snapshots, and leave the store."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(Exception):
            await self._snapshot_all(at_once=True)
        self.commits.close()
        self.store.close()

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception:  # a full disk: next time there may be room
                log.exception("what is done every %g seconds failed", seconds)

    def clock(self) -> float:
        """Seconds since 1970; where the machine's clock is set back, this one waits."""
        self._latest = max(time.time(), self._latest)
        return self._latest

    # Learning

    def _after(self, touched: set[int]) -> None:
        """Behind a commit: learn what is new."""
        for model in self.models.values():
            if model.source in touched or model.row.id in touched:
                while self._follow(model):
                    pass

    def _follow(self, model: Model) -> bool:
        """Learn the next outcomes of a model; whether there may be more."""
        rows = self.store.outcomes(model.source, model.version, BATCH)
        model.learn(rows)
        return len(rows) == BATCH

    async def _catch_up(self, model: Model) -> None:
        """Learn all that there is, while others are served."""
        more = True
        while more:
            rows = await self.commits.do(
                lambda tx: tx.store.outcomes(model.source, model.version, BATCH)
            )
            model.learn(rows)
            more = len(rows) == BATCH

    async def _give_up(self) -> None:
        """Decisions that waited too long get their default reward, or none."""
        for model in list(self.models.values()):
            wait = model.spec.wait
            if wait is None or model.row.follows is not None or not self.store.lead(model.row.id):
                continue
            before = first_key(self.clock() - wait)
            sweep = functools.partial(self._sweep, model=model, before=before)
            full = True
            while full:
                defaults, full = await self.commits.do(sweep)
                model.tracker.rewarded(defaults)

    def _sweep(self, tx: Transaction, model: Model, before: bytes) -> tuple[list[float], bool]:
        """Give up the next decisions: the rewards that they got, and whether there may be more."""
        row = tx.model(model.row.name)
        if row is None or row.id != model.row.id or row.swept >= before:
            return [], False
        found = tx.waiting(row.id, row.swept, before, SWEPT)
        default = model.spec.default_reward
        if default is not None:
            for decision in found:
                tx.reward(decision, default, None, by_default=True)
        full = len(found) == SWEPT
        end = found[-1].key if full else before
        tx.swept(row.id, end, 0 if default is not None else len(found))
        return [] if default is None else [default] * len(found), full

    async def _snapshot_all(self, *, at_once: bool = False) -> None:
        for model in list(self.models.values()):
            new = model.version - model.snapshot_seq
            age = time.monotonic() - self._snapped.get(model.row.id, self._begun)
            due = at_once or new >= SNAPSHOT_EVERY or age > SNAPSHOT_AFTER
            if new and due and self.store.lead(model.row.id):
                await self.snapshot(model.row.name, "")

    # Models

    def model(self, name: str) -> Model:
        """The model called ``name``, or a refusal."""
        found = self.models.get(name)
        if found is None:
            raise Refusal(404, "no_model", "There is no model of this name.")
        return found

    async def create(self, name: str, spec: ModelSpec, who: str) -> tuple[bool, ModelView]:
        """A new model, or the one that is there where it is the same; whether it is new."""
        if not re.fullmatch(NAME, name):
            raise Refusal(
                422,
                "bad_name",
                "A name is a letter or digit and up to 63 letters, digits, dots, underscores and "
                "hyphens.",
                "name",
            )
        if (spec.default_reward is not None or spec.late == "learn") and spec.wait is None:
            raise Refusal(422, "bad_wait", "State wait, in seconds, with these.", "wait")
        if spec.default_reward is not None and spec.late == "learn":
            raise Refusal(
                422, "bad_late", "A decision that learned its default cannot learn again.", "late"
            )
        told = msgspec.json.encode(spec, order="sorted").decode()
        if name not in self.models:
            self._check_room()
            row = ModelRow(0, name, told, 0.0, False, 0, 0, 0, b"", None, 0)
            fresh = Model(row)
            if fresh.dim > self.limits.dim:
                raise Refusal(422, "bad_dim", f"At most {self.limits.dim} features.", "dim")
            if spec.default_reward is not None:
                fresh.check_reward(spec.default_reward, "default_reward")

        def work(tx: Transaction) -> tuple[bool, ModelRow]:
            found = tx.model(name)
            if found is not None:
                if found.spec != told or found.follows is not None:
                    raise Refusal(409, "another_model", "Another model has this name.", "name")
                return False, found
            tx.audit(who, f"create {name}")
            return True, tx.create(name, told)

        new, row = await self.commits.do(work)
        if new:
            self.models[name] = Model(row)
        return new, await self.describe(name)

    def _check_room(self) -> None:
        if len(self.models) >= self.limits.models:
            raise Refusal(409, "too_many_models", f"At most {self.limits.models} models.")

    async def describe(self, name: str) -> ModelView:
        """A model as it stands."""
        model = self.model(name)
        row, decisions = await self.commits.do(
            lambda tx: (tx.model(name), tx.store.decisions(model.row.id))
        )
        if row is None:
            raise Refusal(404, "no_model", "There is no model of this name.")
        model.row = row
        shadowed = next((m for m in self.models.values() if m.row.id == row.follows), None)
        return ModelView(
            name, type(model.policy).__name__, model.dim, model.spec, model.policy.rounds,
            decisions, row.pending(decisions), model.version, bool(row.paused),
            shadowed.row.name if shadowed else None, row.created, model.diagnostics(),
        )  # fmt: skip

    async def pause(self, name: str, paused: bool, who: str) -> ModelView:
        """Let it decide, or not; rewards are learned all the same."""
        model = self.model(name)

        def work(tx: Transaction) -> None:
            tx.pause(model.row.id, paused)
            tx.audit(who, f"{'pause' if paused else 'resume'} {name}")

        await self.commits.do(work)
        return await self.describe(name)

    async def delete(self, name: str, who: str) -> None:
        """A model, its decisions, outcomes and snapshots."""
        model = self.model(name)
        if any(other.row.follows == model.row.id for other in self.models.values()):
            raise Refusal(409, "has_shadow", "Delete the shadows of this model first.")

        def work(tx: Transaction) -> None:
            tx.delete(model.row.id)
            tx.audit(who, f"delete {name}")

        await self.commits.do(work)
        self.models.pop(name, None)

    # Decisions

    async def decide(self, name: str, asked: Sequence[Asked], request: str = "") -> list[Decided]:
        """A decision for each; ``request`` is the client's own key, so that a request that is sent
        again has the same answer.
        """
        model = self.model(name)
        if model.row.paused:
            raise Refusal(409, "paused", "The model is paused. Resume it first.")
        if model.row.follows is not None:
            raise Refusal(409, "shadow", "A shadow learns and does not decide.")
        self._check_batch(asked)
        sets = [self._arms(model, one, at) for at, one in _placed(asked)]
        explore = [model.spec.explore if one.explore is None else one.explore for one in asked]
        version, when = model.version, self.clock()
        made = model.choose(sets, explore)
        rows, answers = [], []
        for i, (one, arms, decision) in enumerate(zip(asked, sets, made, strict=True)):
            token = Token.new(model.row.id, version, when)
            row, answer = logged(model, token, one, arms, decision, (request, i))
            rows.append(row)
            answers.append(answer)

        def work(tx: Transaction) -> list[Decided]:
            if request:
                before = [tx.requested(model.row.id, row.request or b"") for row in rows]
                if any(before):
                    return answered_again(before, rows)
            for row in rows:
                tx.decide(row)
            return answers

        found: list[Decided] = await self.commits.do(work)
        if found is answers:  # not those of an earlier request
            model.tracker.decided([(one.id, one.arm) for one in found])
        return found

    def _check_batch(self, asked: Sequence[Any]) -> None:
        if not asked:
            raise Refusal(422, "empty", "Send at least one.")
        if len(asked) > self.limits.batch:
            raise Refusal(413, "too_many", f"At most {self.limits.batch} in one request.")

    def _arms(self, model: Model, one: Any, at: str) -> FloatArray:
        try:
            if len(one.arms) > self.limits.arms:
                raise Refusal(413, "too_many_arms", f"At most {self.limits.arms} arms.", "arms")
            ids = getattr(one, "ids", None)
            if ids is not None and len(ids) != len(one.arms):
                message = f"{len(one.arms)} arms need as many ids; got {len(ids)}."
                raise Refusal(422, "bad_ids", message, "ids")
            return model.arms(one.arms, getattr(one, "context", {}), ids)
        except Refusal as refusal:
            raise refusal.at(at) from None

    # Rewards

    async def reward(self, name: str, told: Sequence[Reward]) -> int:
        """Log rewards, all or none; how many are new. They are learned at once after that."""
        model = self.model(name)
        self._check_batch(told)
        tokens = [self._token(model, one, at) for at, one in _placed(told)]

        def work(tx: Transaction) -> tuple[list[float], int]:
            now, new = self.clock(), []
            seen: dict[bytes, Reward] = {}
            for (at, one), token in zip(_placed(told), tokens, strict=True):
                try:
                    row = owed(tx, model, token, one, now, seen)
                except Refusal as refusal:
                    raise refusal.at(at) from None
                if row is not None:
                    new.append((row, one))
            stale = 0  # all is checked; from here on it is written
            swept = tx.sweeping(model.row.id)
            for row, one in new:
                if row.key < swept:  # it was counted as given up
                    tx.swept(model.row.id, swept, -1)
                stale += tx.reward(row, one.reward, one.scale) - 1 - row.version
            return [one.reward for _, one in new], stale

        accepted, stale = await self.commits.do(work)
        if accepted:
            model.staleness += 0.05 * (stale / len(accepted) - model.staleness)
        model.tracker.rewarded(accepted)
        return len(accepted)

    def _token(self, model: Model, one: Reward, at: str) -> Token:
        try:
            token = Token.parse(one.token)
            if token is None or token.model != model.row.id:
                raise Refusal(409, "unknown_token", "No decision of this model has it.", "token")
            model.check_reward(one.reward)
        except Refusal as refusal:
            raise refusal.at(at) from None
        return token

    # Snapshots

    async def snapshot(self, name: str, note: str, who: str = "") -> int:
        """Keep the state as it is; its number."""
        model = self.model(name)
        seq, data, epoch = model.version, model.policy.to_bytes(), model.row.epoch

        def work(tx: Transaction) -> int:
            row = tx.model(name)
            if row is None or (row.id, row.epoch) != (model.row.id, epoch):
                raise Refusal(409, "changed", "The model was set back meanwhile. Try again.")
            if who:
                tx.audit(who, f"snapshot {name}")
            return tx.snapshot(model.row.id, seq, data, note)

        number: int = await self.commits.do(work)
        model.snapshot_seq = max(model.snapshot_seq, seq)
        self._snapped[model.row.id] = time.monotonic()
        return number

    async def restore(self, name: str, number: int, who: str) -> ModelView:
        """Go on from a snapshot: what came after it is forgotten, and stays in the log."""
        model = self.model(name)

        def work(tx: Transaction) -> bytes:
            data = tx.store.snapshot_data(model.row.id, number)
            if data is None:
                raise Refusal(404, "no_snapshot", "The model has none of this number.", "snapshot")
            tx.restore(model.row.id, data, f"restored from {number}")
            tx.audit(who, f"restore {name} {number}")
            return data

        await self.commits.do(work)
        row, found = await self.commits.do(
            lambda tx: (tx.model(name), tx.store.snapshot(model.row.id))
        )
        self.models[name] = Model(row, found)
        self.models[name].tracker = model.tracker
        await self._catch_up(self.models[name])
        return await self.describe(name)

    async def fork(self, name: str, fork: Fork, who: str) -> ModelView:
        """A new model from an old one: its twin, another policy on its log, or a shadow."""
        model = self.model(name)
        changes: dict[str, Any] = {}
        if fork.policy is not None:
            changes = {"policy": fork.policy, "options": fork.options or {}}
        elif fork.options is not None:
            changes = {"options": fork.options}
        spec = msgspec.structs.replace(model.spec, **changes)
        if fork.name in self.models:
            raise Refusal(409, "another_model", "Another model has this name.", "name")
        self._check_room()
        told = msgspec.json.encode(spec, order="sorted").decode()
        source, twin = model.source, model
        if changes:
            twin = Model(model.row._replace(spec=told, since=0, follows=source))
            await self._catch_up(twin)
        version, data = twin.version, twin.policy.to_bytes()

        def work(tx: Transaction) -> ModelRow:
            if tx.model(fork.name) is not None:
                raise Refusal(409, "another_model", "Another model has this name.", "name")
            follows = source if fork.shadow else None
            row = tx.create(fork.name, told, follows=follows, since=version if fork.shadow else 0)
            tx.snapshot(row.id, version if fork.shadow else 0, data, f"forked from {name}")
            tx.audit(who, f"fork {name} {fork.name}")
            return row

        row = await self.commits.do(work)
        self.models[fork.name] = Model(row, (row.since, data))
        await self._catch_up(self.models[fork.name])
        return await self.describe(fork.name)


def _placed(many: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each with its place in the body, "" where it is alone."""
    return [("" if len(many) == 1 else f"[{i}]", one) for i, one in enumerate(many)]
