"""The service: models in step with their store, independent of HTTP.

Every verb is a coroutine that returns when its effect is on disk. It refuses by raising a
:class:`heavytail.ledger.refusal.Refusal`, and then has changed nothing.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import sys
import time
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from heavytail.ledger.commits import LARGE
from heavytail.ledger.layout import FileRow, ModelRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import Token
from heavytail.ledger.transaction import Lookup, Transaction
from heavytail.serve.apart import apart
from heavytail.serve.archiving import Old, Retention, in_archive, removed
from heavytail.serve.books import Books
from heavytail.serve.chores import Chores
from heavytail.serve.decider_model import model_of
from heavytail.serve.deciding import Asked, decide, decide_split
from heavytail.serve.keeping import RESTORED, checked
from heavytail.serve.keys import Keys
from heavytail.serve.live import Broken, Live
from heavytail.serve.model import Model, built, said, warmed
from heavytail.serve.ready import Ready
from heavytail.serve.rewards import owed
from heavytail.serve.splits import decoded
from heavytail.serve.wire import (
    DECIDER,
    NAME,
    ModelChange,
    ModelSpec,
    ModelView,
    PredictInContext,
    PredictNamed,
    PredictVectors,
    Progress,
    Reward,
)

__all__ = ["Limits", "Service", "check_model", "check_name", "encoded_spec"]

log = logging.getLogger("heavytail.serve")

SAVED = 64  # multiplications that saving a number takes as long as

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
    file: int = 256 * 2**20  # bytes of an uploaded file


class Service:
    """Models, and the one writer of their store.

    Args:
        store: opened.
        limits: of requests.
        retention: how long rows stay in the store; None for ever.
    """

    def __init__(
        self, store: Store, limits: Limits | None = None, retention: Retention | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.store, self.live = store, Live(store)
        self.models, self.commits = self.live.models, self.live.commits
        self.books = Books(self.commits)
        self.chores = Chores(self.live, lambda name: self.snapshot(name, ""), retention)
        self.keys = Keys()
        self.ready = Ready(self.commits)
        self.started = time.time()
        self.lessons: dict[tuple[int, str], asyncio.Task[Any]] = {}  # logs that are being learned
        self.reading = asyncio.Lock()  # of the one whose process runs: each may take much memory

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
        for lesson in self.lessons.values():
            lesson.cancel()
        await self.chores.stop()
        await self.books.stop()
        self.commits.close()
        self.store.close()

    # Models

    async def create(self, name: str, spec: ModelSpec, who: str) -> tuple[bool, ModelView]:
        """Create the model, or return the existing one if its spec is identical.

        Returns (created, view).
        """
        check_name(name)
        _check_waiting(spec)
        spec_json = encoded_spec(spec)
        known = self.models.get(name)
        if known is None or known.row.spec != spec_json:
            await apart(functools.partial(check_model, spec, self.limits.dim))

        def work(tx: Transaction) -> tuple[bool, ModelRow]:
            row = tx.model(name)
            if row is not None:
                if row.spec != spec_json or row.follows is not None or row.origin is not None:
                    message = (
                        f"Model {name!r} already exists with different settings. Change them with "
                        "PATCH, or choose another name."
                    )
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
        row, decisions, archived = await self.commits.do(
            lambda tx: (tx.model(name), tx.store.decisions(model.row.id), tx.store.archived())
        )
        if row is None:
            raise Refusal(404, "no_model", "There is no model with this name.")
        if row.line != model.line:  # another model has its name, or it has another state
            model = await self.live.open(row)
        model.respecify(row)
        shadowed = next((m for m in self.models.values() if m.row.id == row.follows), None)
        return ModelView(
            name, type(model.policy).__name__, model.dim, model.spec, model.policy.rounds,
            decisions, row.pending(decisions), model.version, bool(row.paused),
            shadowed.row.name if shadowed else None, row.created, await model.report(),
            offers=model.offers, learning=self._progress(model),
            split=name in self.live.splits, archived=archived.get(row.id, 0),
        )  # fmt: skip

    def _progress(self, model: Model) -> Progress | None:
        if not model.behind_origin:
            return None
        source = self.live.numbered(model.source)
        return Progress(source.row.name if source else None, model.version, model.row.since)

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

    async def change(self, name: str, wanted: ModelChange, who: str) -> ModelView:
        """Change a model's settings, and pause or resume its decisions. A paused model learns."""
        row = await self.live.row(name)
        changes = {
            field: getattr(wanted, field)
            for field in wanted.__struct_fields__
            if getattr(wanted, field) is not UNSET
        }
        if not changes:
            fields = ", ".join(wanted.__struct_fields__)
            raise Refusal(422, "empty", f"Nothing to change. Send at least one of: {fields}.")
        paused = changes.pop("paused", None)
        if changes:
            settings = msgspec.structs.replace(self.live[name].spec, **changes)
            _check_waiting(settings)
            if changes.get("default_reward") is not None:
                self.live[name].check_reward(changes["default_reward"], field="default_reward")

        def work(tx: Transaction) -> ModelRow | None:
            now = tx.store.model(row.id)
            if now is not None and changes:
                spec = msgspec.json.decode(now.spec, type=ModelSpec)
                spec = msgspec.structs.replace(spec, **changes)
                _check_waiting(spec)
                tx.respec(row.id, encoded_spec(spec))
                tx.audit(who, f"change {name}: {', '.join(changes)}")
            if paused is not None:
                tx.pause(row.id, paused)
                tx.audit(who, f"{'pause' if paused else 'resume'} {name}")
            return tx.store.model(row.id)

        now = await self.commits.do(work)
        if now is not None and name in self.models and self.models[name].row.id == now.id:
            self.models[name].respecify(now)
        return await self.describe(name)

    async def delete(self, name: str, who: str) -> None:
        """Delete a model, even a broken one, with its decisions, outcomes and snapshots."""

        def work(tx: Transaction) -> tuple[int, list[FileRow]]:
            row = tx.locked(name)
            if row is None:
                raise Refusal(404, "no_model", "There is no model with this name.")
            splits = decoded(tx.store.splits())
            split = next((name for name, each in splits.items() if row.id in each.shares), None)
            if split is not None:
                message = (
                    f"The model has a share in the split of {split!r}. Remove the split first."
                )
                raise Refusal(409, "has_split", message)
            files = tx.store.files(row.id)
            tx.delete(row.id)
            tx.audit(who, f"delete {name}")
            return row.id, files

        number, files = await self.commits.do(work, size=LARGE)
        self.live.forget(number)
        await removed(self.store, files)

    # Decisions

    async def decide(self, name: str, choices: Sequence[Asked], request: str = "") -> list[Any]:
        """Make a decision for each choice. ``request`` is the client's idempotency key: a repeated
        request gets the same answer.
        """
        model = await self.live.find(name)
        self._check_batch(choices)
        try:
            return await self._decide(model, choices, request)
        except Refusal as refusal:
            if refusal.code != "no_model":
                raise
        renewed = await self.live.renewed(model)
        if not model.asks_alike(renewed):
            message = f"{name!r} is another model now, which needs other requests."
            raise Refusal(409, "other_requests", message)
        return await self._decide(renewed, choices, request)

    async def _decide(self, model: Model, choices: Sequence[Asked], request: str) -> list[Any]:
        split = self.live.splits.get(model.row.name)
        if split is not None:
            return await decide_split(self, model, split, choices, request)
        return await decide(self, model, choices, request)

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
        """Log rewards, all or none, and return how many are new. They are learned right after. A
        token says which model decided, whichever name it has now.
        """
        model = await self.live.find(name)
        self._check_batch(rewards)
        try:
            return await self._reward(model, rewards)
        except Refusal as refusal:
            if refusal.code not in ("no_model", "unknown_token"):
                raise
            tokens = [token for each in rewards if (token := Token.parse(each.token))]
            old = await in_archive(self.commits, tokens)
            if old:
                return await self._reward(model, rewards, old)
            if not self.store.shared:
                raise
            before = {id(each) for each in self.models.values()}
            renewed = await self.live.renewed(model)
            if before == {id(each) for each in self.models.values()}:
                raise
        return await self._reward(renewed, rewards)

    async def _reward(
        self, model: Model, rewards: Sequence[Reward], old: Old = MappingProxyType({})
    ) -> int:
        owing = [self._owing(model, reward, place) for place, reward in _placed(rewards)]
        models = {each.row.id: each for each, _ in owing}
        wanted: dict[int, list[bytes]] = {number: [] for number in models}
        for _, token in owing:
            wanted[token.model].append(token.key)

        def work(tx: Transaction) -> tuple[list[tuple[int, float]], dict[int, int]]:
            for number, keys in wanted.items():
                tx.decision(number, keys[0])  # read before the lock
            for number in sorted(models):
                tx.last(number)  # nobody else rewards until the commit
            swept = {number: tx.sweeping(number) for number in models}
            now, new = self.live.clock(), []
            seen: dict[bytes, Reward] = {}
            for (place, reward), (decided, token) in zip(_placed(rewards), owing, strict=True):
                try:
                    row = owed(tx, decided, token, reward, now, seen, old)
                except Refusal as refusal:
                    raise refusal.at(place) from None
                if row is not None:
                    new.append((row, reward))
            # all is checked; from here on it is written
            for row, reward in new:
                if row.key <= swept[row.model]:  # it was counted as given up
                    tx.swept(row.model, swept[row.model], -1)
                tx.reward(row, reward.reward, reward.scale)
            last = {number: tx.last(number) for number in models}
            return [(row.model, reward.reward) for row, reward in new], last

        size = 8 * sum(each.dim for each, _ in owing)
        lookup = Lookup(work, "key", wanted)
        accepted, last = await self.commits.do(lookup, model=min(models), size=size)
        for number, each in models.items():
            each.tracker.rewarded([reward for owner, reward in accepted if owner == number])
            if each.source == number and each.version < last[number]:
                await self.live.learned(each, last[number])
        return len(accepted)

    def _owing(self, model: Model, reward: Reward, place: str) -> tuple[Model, Token]:
        """The model that made the decision of a reward, and the token of the decision."""
        try:
            token = Token.parse(reward.token)
            decided = model
            if token is not None and token.model != model.row.id:
                broken = (each for each in self.live.broken.values() if each.row.id == token.model)
                for each in broken:
                    self.live[each.row.name]  # refuses, as for the model's own name
                decided = self.live.numbered(token.model) or model
            if token is None or token.model != decided.row.id:
                message = "Unknown token: no model made such a decision."
                raise Refusal(409, "unknown_token", message, "token")
            decided.check_reward(reward.reward, reward.scale)
        except Refusal as refusal:
            raise refusal.at(place) from None
        return decided, token

    # Snapshots

    async def kept(self, model: Model) -> tuple[int, bytes]:
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
        seq, data = await self.kept(model)

        def work(tx: Transaction) -> int:
            tx.last(model.row.id)  # nobody sets it back until the commit
            row = tx.model(name)
            if row is None or row.line != model.line:
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


def _kind(spec: ModelSpec) -> bytes:
    """The part of a specification that decides which kernels are compiled."""
    return msgspec.json.encode((spec.policy, spec.options, spec.tail, spec.horizon))


def _compile(spec: ModelSpec, most: int | None = None) -> None:
    """Compile what models of a specification need; refuse an impossible one."""
    warmed(built(spec, most))


def encoded_spec(spec: ModelSpec) -> str:
    """A specification as it is stored; equal ones are equal texts."""
    return msgspec.json.encode(spec, order="sorted").decode()


def _check_waiting(spec: ModelSpec) -> None:
    """Refuse settings of late rewards that contradict each other."""
    if (spec.default_reward is not None or spec.late == "learn") and spec.wait is None:
        message = 'wait (seconds) is required with default_reward or late="learn".'
        raise Refusal(422, "bad_wait", message, "wait")
    if spec.default_reward is not None and spec.late == "learn":
        message = 'late="learn" excludes default_reward: a decision is learned only once.'
        raise Refusal(422, "bad_late", message, "late")


def check_model(spec: ModelSpec, most: int | None = None) -> None:
    """Refuse an impossible specification; compile what the model needs."""
    _compile(spec, most)
    if spec.default_reward is not None:
        spec_json = msgspec.json.encode(spec).decode()
        row = ModelRow(0, "", spec_json, 0.0, False, 0, 0, 0, b"", None, 0)
        Model(row).check_reward(spec.default_reward, field="default_reward")


def check_name(name: str) -> None:
    """Refuse what is no name of a model."""
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
