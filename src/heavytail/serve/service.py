"""The service: models in step with their store, independent of HTTP.

Every verb is a coroutine that returns when its effect is on disk. It refuses by raising a
:class:`heavytail.ledger.refusal.Refusal`, and then has changed nothing.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from heavytail.ledger.commits import LARGE
from heavytail.ledger.layout import DecisionRow, ModelRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Store, Transaction
from heavytail.ledger.tokens import Token
from heavytail.serve.apart import apart
from heavytail.serve.chores import Chores
from heavytail.serve.clock import APART
from heavytail.serve.decider_model import model_of
from heavytail.serve.entries import answered_again
from heavytail.serve.fast import Plain
from heavytail.serve.keeping import FORKED, RESTORED, checked
from heavytail.serve.keys import Keys
from heavytail.serve.live import Broken, Live
from heavytail.serve.model import Model, built, said, warmed
from heavytail.serve.ready import Ready
from heavytail.serve.rewards import owed
from heavytail.serve.wire import (
    DECIDER,
    NAME,
    DecideAmongNamed,
    DecideAmongVectors,
    DecideInContext,
    Fork,
    ModelSpec,
    ModelView,
    PredictInContext,
    PredictNamed,
    PredictVectors,
    Reward,
)

__all__ = ["Limits", "Service"]

log = logging.getLogger("heavytail.serve")

SAVED = 64  # multiplications that saving a number takes as long as

Asked = DecideAmongVectors | DecideAmongNamed | DecideInContext | Plain
Queried = PredictVectors | PredictNamed | PredictInContext


class Limits(NamedTuple):
    """Limits of requests."""

    body: int = 16 * 2**20  # bytes
    arms: int = 10_000  # of one decision
    batch: int = 1_000  # decisions or rewards of one request
    dim: int = 4096
    models: int = 1_000
    rate: float = 0.0  # requests per second of one key, or of one address without keys; 0: any
    patience: float = 30.0  # seconds for a body to come


class Service:
    """Models, and the one writer of their store.

    Args:
        store: opened.
        limits: of requests.
    """

    def __init__(self, store: Store, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.store, self.live = store, Live(store)
        self.models, self.commits = self.live.models, self.live.commits
        self.chores = Chores(self.live, lambda name: self.snapshot(name, ""))
        self.keys = Keys()
        self.ready = Ready(self.commits)
        self.started = time.time()

    # Beginning and end

    async def start(self) -> None:
        """Bring every model to the end of its log."""
        if self.store.shared:  # the thread that speaks to the database waits less for its turn
            sys.setswitchinterval(0.001)
        if not self.live.started:
            await self.live.start()
        kinds = {_kind(model.spec): model for model in self.models.values()}
        for model in kinds.values():
            try:
                await apart(model.warm)
            except Exception as error:  # a model that serves needs no more than its snapshot
                log.warning("%s was not compiled ahead: %s", model.spec.policy, said(error))
        self.chores.start()

    async def stop(self) -> None:
        """Take the last snapshots and close the store."""
        await self.chores.stop()
        self.commits.close()
        self.store.close()

    # Models

    async def create(self, name: str, spec: ModelSpec, who: str) -> tuple[bool, ModelView]:
        """Create the model, or return the existing one if its spec is identical.

        Returns (created, view).
        """
        _check_name(name)
        if (spec.default_reward is not None or spec.late == "learn") and spec.wait is None:
            message = 'wait (seconds) is required with default_reward or late="learn".'
            raise Refusal(422, "bad_wait", message, "wait")
        if spec.default_reward is not None and spec.late == "learn":
            message = 'late="learn" excludes default_reward: a decision is learned only once.'
            raise Refusal(422, "bad_late", message, "late")
        spec_json = msgspec.json.encode(spec, order="sorted").decode()
        known = self.models.get(name)
        if known is None or known.row.spec != spec_json:
            await apart(functools.partial(_check_model, spec, self.limits.dim))

        def work(tx: Transaction) -> tuple[bool, ModelRow]:
            row = tx.model(name)
            if row is not None:
                if row.spec != spec_json or row.follows is not None:
                    message = f"Model {name!r} already exists with different settings."
                    raise Refusal(409, "another_model", message, "name")
                return False, row
            tx.check_room(self.limits.models)
            tx.audit(who, f"create {name}")
            return True, tx.create(name, spec_json)

        new, row = await self.commits.do(work)
        if new or name not in self.models:
            await self.live.open(row)
        return new, await self.describe(name)

    async def describe(self, name: str) -> ModelView:
        """Describe a model."""
        if name in self.live.broken:
            return await self._describe_broken(self.live.broken[name])
        model = self.live[name]
        row, decisions = await self.commits.do(
            lambda tx: (tx.model(name), tx.store.decisions(model.row.id))
        )
        if row is None:
            raise Refusal(404, "no_model", "There is no model with this name.")
        if (row.id, row.epoch) != (model.row.id, model.row.epoch):  # another has its name, or state
            model = await self.live.open(row)
        model.row = row
        shadowed = next((m for m in self.models.values() if m.row.id == row.follows), None)
        return ModelView(
            name, type(model.policy).__name__, model.dim, model.spec, model.policy.rounds,
            decisions, row.pending(decisions), model.version, bool(row.paused),
            shadowed.row.name if shadowed else None, row.created, await model.report(),
            offers=model.offers,
        )  # fmt: skip

    async def _describe_broken(self, broken: Broken) -> ModelView:
        """Describe a model that cannot be opened."""
        name, model = broken.row.name, broken.row.id
        row, decisions, dim = await self.commits.do(
            lambda tx: (tx.model(name), tx.store.decisions(model), tx.store.width(model))
        )
        if row is None or row.id != model:
            raise Refusal(404, "no_model", "There is no model with this name.")
        try:
            spec = msgspec.json.decode(row.spec, type=ModelSpec)
        except (msgspec.DecodeError, TypeError):
            spec = None
        if spec is not None and spec.policy == DECIDER:
            dim = None
        shadowed = next((m for m in self.models.values() if m.row.id == row.follows), None)
        return ModelView(
            name, spec.policy if spec else "", dim, spec, row.last - row.since, decisions,
            row.pending(decisions), row.last, bool(row.paused),
            shadowed.row.name if shadowed else None, row.created, {"faults": [broken.reason]},
            broken.reason,
        )  # fmt: skip

    async def pause(self, name: str, paused: bool, who: str) -> ModelView:
        """Pause or resume a model's decisions; it learns rewards in either case."""
        model = (await self.live.row(name)).id

        def work(tx: Transaction) -> None:
            tx.pause(model, paused)
            tx.audit(who, f"{'pause' if paused else 'resume'} {name}")

        await self.commits.do(work)
        return await self.describe(name)

    async def delete(self, name: str, who: str) -> None:
        """Delete a model, even a broken one, with its decisions, outcomes and snapshots."""

        def work(tx: Transaction) -> None:
            row = tx.model(name)
            if row is None:
                raise Refusal(404, "no_model", "There is no model with this name.")
            tx.delete(row.id)
            tx.audit(who, f"delete {name}")

        await self.commits.do(work, size=LARGE)
        self.live.forget(name)

    # Decisions

    async def decide(self, name: str, choices: Sequence[Asked], request: str = "") -> list[Any]:
        """Make a decision for each choice. ``request`` is the client's idempotency key: a repeated
        request gets the same answer.
        """
        model = await self.live.find(name)
        try:
            return await self._decide(model, choices, request)
        except Refusal as refusal:
            if refusal.code != "no_model":
                raise
        return await self._decide(await self.live.renewed(model), choices, request)

    async def _decide(self, model: Model, choices: Sequence[Asked], request: str) -> list[Any]:
        if model.row.follows is not None:
            raise Refusal(
                409, "shadow", "This model is a shadow: it learns, but makes no decisions."
            )
        self._check_batch(choices)
        explore = [
            model.spec.explore if choice.explore is None else choice.explore for choice in choices
        ]

        def choose() -> tuple[int, list[Any], list[Any], int]:
            sets = [self.features(model, choice, place) for place, choice in _placed(choices)]
            made = model.choose(sets, explore)
            return model.version, sets, made, sum(map(model.is_unknown, choices, made))

        many = sum(map(model.count, choices))
        version, sets, decisions, unknown = await model.turn("choose", many, choose)
        size, when, wall = 8 * many * model.width, self.live.clock(), self.store.clock()
        stamp = wall if abs(wall - when) > APART else None

        def written() -> list[tuple[DecisionRow, Any]]:
            each = zip(choices, sets, decisions, strict=True)
            return [
                model.entry(
                    Token.new(model.row.id, version, when),
                    *parts,
                    (request, i, len(choices)),
                    stamp,
                )
                for i, parts in enumerate(each)
            ]

        both = written() if size < LARGE else await apart(written)
        rows, answers = [row for row, _ in both], [answer for _, answer in both]
        behind = [0]

        def work(tx: Transaction) -> list[Any]:
            if request:
                before = [tx.requested(model.row.id, row.request or b"") for row in rows]
                if any(before):
                    return answered_again(before, rows, model.answer)
            last, swept = tx.check_decides(model.row.id)
            if rows[0].key <= swept:
                message = "The decision took longer than the model waits for rewards. Try again."
                raise Refusal(503, "too_slow", message)
            for row in rows:
                tx.decide(row)
            if unknown:
                tx.unknown(model.row.id, unknown)
            behind.append(max(last - version, 0))
            return answers

        answered: list[Any] = await self.commits.do(work, size=size)
        if answered is answers:  # not those of an earlier request
            model.staleness += 0.05 * (behind[-1] - model.staleness)
            each = zip(answered, rows, strict=True)
            model.tracker.decided([(made.id, row.arm) for made, row in each])
        return answered

    def _check_batch(self, items: Sequence[Any]) -> None:
        if not items:
            raise Refusal(422, "empty", "The list is empty. Send at least one item.")
        if len(items) > self.limits.batch:
            message = f"A request may have at most {self.limits.batch} items; got {len(items)}."
            raise Refusal(413, "too_many", message)

    def features(self, model: Model, asked: Asked | Queried, place: str) -> Any:
        """Run a model on a request; a refusal names its place in the body."""
        try:
            return model.features(asked, self.limits.arms)
        except Refusal as refusal:
            raise refusal.at(place) from None

    # Rewards

    async def reward(self, name: str, rewards: Sequence[Reward]) -> int:
        """Log rewards, all or none, and return how many are new. They are learned right after."""
        model = await self.live.find(name)
        self._check_batch(rewards)
        try:
            return await self._reward(model, rewards)
        except Refusal as refusal:
            if refusal.code not in ("no_model", "unknown_token") or not self.store.shared:
                raise
            renewed = await self.live.renewed(model)
            if renewed is model:
                raise
        return await self._reward(renewed, rewards)

    async def _reward(self, model: Model, rewards: Sequence[Reward]) -> int:
        tokens = [self._token(model, reward, place) for place, reward in _placed(rewards)]

        def work(tx: Transaction) -> tuple[list[float], int]:
            tx.last(model.row.id)  # nobody else rewards until the commit
            now, new = self.live.clock(), []
            seen: dict[bytes, Reward] = {}
            for (place, reward), token in zip(_placed(rewards), tokens, strict=True):
                try:
                    row = owed(tx, model, token, reward, now, seen)
                except Refusal as refusal:
                    raise refusal.at(place) from None
                if row is not None:
                    new.append((row, reward))
            # all is checked; from here on it is written
            swept = tx.sweeping(model.row.id)
            for row, reward in new:
                if row.key <= swept:  # it was counted as given up
                    tx.swept(model.row.id, swept, -1)
                tx.reward(row, reward.reward, reward.scale)
            return [reward.reward for _, reward in new], tx.last(model.row.id)

        size = 8 * len(rewards) * model.dim
        accepted, last = await self.commits.do(work, model=model.row.id, size=size)
        model.tracker.rewarded(accepted)
        if model.version < last:
            await self.live.learned(model, last)
        return len(accepted)

    def _token(self, model: Model, reward: Reward, place: str) -> Token:
        try:
            token = Token.parse(reward.token)
            if token is None or token.model != model.row.id:
                message = "Unknown token: this model made no such decision."
                raise Refusal(409, "unknown_token", message, "token")
            model.check_reward(reward.reward, reward.scale)
        except Refusal as refusal:
            raise refusal.at(place) from None
        return token

    # Snapshots

    async def _kept(self, model: Model) -> tuple[int, bytes]:
        """Return the number of the last learned outcome and the state as bytes that were loaded
        once. Runs in a thread, since a large model takes long.
        """
        policy, start = model.policy, time.monotonic()
        seq, arrays = await model.turn(
            "save", SAVED, lambda: (model.version, policy.saved_arrays())
        )
        try:
            data = await apart(functools.partial(checked, policy, arrays))
        except Exception as error:
            words = f"The state after outcome {seq} cannot be saved: {said(error)}"
            if not model.unkept:
                log.error("%s: %s", model.row.name, words)
            model.unkept = words
            model.tried(seq)
            message = f"{words} Restore an earlier snapshot."
            raise Refusal(409, "bad_state", message) from None
        finally:
            model.loading = time.monotonic() - start
        model.unkept = ""
        return seq, data

    async def snapshot(self, name: str, note: str, who: str = "") -> int:
        """Take a snapshot of the present state and return its number."""
        model = await self.live.find(name)
        epoch = model.row.epoch
        seq, data = await self._kept(model)

        def work(tx: Transaction) -> int:
            tx.last(model.row.id)  # nobody sets it back until the commit
            row = tx.model(name)
            if row is None or (row.id, row.epoch) != (model.row.id, epoch):
                raise Refusal(
                    409, "changed", "The model was restored or deleted meanwhile. Try again."
                )
            if who:
                tx.audit(who, f"snapshot {name}")
            return tx.snapshot(model.row.id, seq, data, note)

        number: int = await self.commits.do(work, model=model.row.id, size=len(data))
        model.tried(seq)
        return number

    async def restore(self, name: str, number: int, who: str) -> ModelView:
        """Restore a snapshot: the model forgets all later outcomes, but the log keeps them."""
        row = await self.live.row(name)
        data = await self.commits.do(lambda tx: tx.store.snapshot_data(row.id, number), size=LARGE)
        if data is None:
            raise Refusal(404, "no_snapshot", f"This model has no snapshot {number}.", "snapshot")
        try:
            await apart(functools.partial(model_of, row, (0, data)))
        except Exception as error:
            message = f"Snapshot {number} cannot be loaded: {said(error)} Choose another."
            raise Refusal(409, "bad_snapshot", message, "snapshot") from None

        def work(tx: Transaction) -> None:
            tx.restore(row.id, data, f"{RESTORED}{number}")
            tx.audit(who, f"restore {name} {number}")

        await self.commits.do(work, model=row.id)
        await self.live.open(row)
        return await self.describe(name)

    async def fork(self, name: str, fork: Fork, who: str) -> ModelView:
        """Create a model from another: a copy, a different policy on its log, or a shadow."""
        model = await self.live.find(name)
        changes: dict[str, Any] = {}
        if fork.policy is not None:
            changes = {"policy": fork.policy, "options": fork.options or {}}
        elif fork.options is not None:
            changes = {"options": fork.options}
        if changes and model.spec.policy == DECIDER:
            message = "A Decider's model can be copied or shadowed, but not get another policy."
            raise Refusal(422, "bad_policy", message, "policy")
        spec = msgspec.structs.replace(model.spec, **changes)
        _check_name(fork.name)
        if fork.name in self.models:
            raise Refusal(409, "another_model", "Another model has this name.", "name")
        spec_json = msgspec.json.encode(spec, order="sorted").decode()
        source, twin = model.source, model
        if changes:
            await apart(functools.partial(_check_model, spec, self.limits.dim))
            row = model.row._replace(spec=spec_json, since=0, follows=source)
            twin = await apart(functools.partial(model_of, row))
            await self.live.catch_up(twin)
        version, data = await self._kept(twin)

        def work(tx: Transaction) -> ModelRow:
            if tx.model(fork.name) is not None:
                raise Refusal(409, "another_model", "Another model has this name.", "name")
            tx.check_there(source)
            tx.check_room(self.limits.models)
            follows = source if fork.shadow else None
            row = tx.create(
                fork.name, spec_json, follows=follows, since=version if fork.shadow else 0
            )
            tx.snapshot(row.id, version if fork.shadow else 0, data, FORKED + name)
            tx.audit(who, f"fork {name} {fork.name}")
            return row

        await self.live.open(await self.commits.do(work, size=len(data)))
        return await self.describe(fork.name)


def _kind(spec: ModelSpec) -> bytes:
    """The part of a specification that decides which kernels are compiled."""
    return msgspec.json.encode((spec.policy, spec.options, spec.tail, spec.horizon))


def _compile(spec: ModelSpec, most: int | None = None) -> None:
    """Compile what models of a specification need; refuse an impossible one."""
    warmed(built(spec, most))


def _check_model(spec: ModelSpec, most: int | None = None) -> None:
    """Refuse an impossible specification; compile what the model needs."""
    _compile(spec, most)
    if spec.default_reward is not None:
        spec_json = msgspec.json.encode(spec).decode()
        row = ModelRow(0, "", spec_json, 0.0, False, 0, 0, 0, b"", None, 0)
        Model(row).check_reward(spec.default_reward, field="default_reward")


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise Refusal(
            422,
            "bad_name",
            "A name must be a letter or digit, followed by up to 63 letters, digits, dots, "
            "underscores and hyphens.",
            "name",
        )


def _placed(many: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each item with its place in the body; "" for a single item."""
    return [("" if len(many) == 1 else f"[{i}]", item) for i, item in enumerate(many)]
