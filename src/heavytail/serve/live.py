"""The loaded models, kept in step with the store whichever process writes to it.

Every process learns the outcomes of all processes in the order of their numbers, so that all have
the same state after the same outcome, to the bit. A process reads the work of the others at once if
a request depends on it, and otherwise every tenth of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from heavytail.ledger.commits import LARGE, Commits
from heavytail.ledger.details import unpack
from heavytail.ledger.layout import CHANGE, ModelRow, OutcomeRow
from heavytail.ledger.offers import unpacked
from heavytail.ledger.refusal import ArchiveError, InArchive, Refusal
from heavytail.ledger.store import Store, StoreError
from heavytail.ledger.tokens import time_of
from heavytail.ledger.transaction import Transaction
from heavytail.serve.apart import apart
from heavytail.serve.clock import Clock
from heavytail.serve.decider_model import model_of
from heavytail.serve.keeping import RESTORED, Way, ways
from heavytail.serve.model import NONE, READY, Model, Stretch, said
from heavytail.serve.splits import REMEMBERED, Shares, Swaps, decoded, swaps
from heavytail.serve.wire import DECIDER, ModelSpec

__all__ = ["BATCH", "Broken", "Live", "reads_alike"]

log = logging.getLogger("heavytail.serve")

BATCH = 2048  # outcomes that are learned between two requests
AWAY = 16  # of a model so large that they are learned in a thread
LATER = 5.0  # seconds that a request waits for a model to learn the log of another
SOON = 1.0  # seconds after which a reward is answered that is not learned yet
BRIEF = 0.1  # seconds that a look at other processes waits for models that learn a log

Named = TypeVar("Named", Model, "Broken")
Next = tuple[list[OutcomeRow], dict[int, str]]
# of each stretch, the next outcomes; None if there are more than can be learned at once
News = list[tuple[Model, Stretch, list[OutcomeRow] | None]]


class Broken(NamedTuple):
    """A model that cannot be opened: its row in the store, and the reason in words."""

    row: ModelRow
    reason: str


class Live:
    """Models by name, and the one writer of their store.

    Args:
        store: opened.

    Attributes:
        models: by name.
        broken: those that cannot be opened, by name.
        splits: models that share a name's decisions, by that name.
        swaps: pairs of models that had one name, each with the last time.
        started: whether all models have been loaded.
        doubtful: whether changes were not read: the store failed, or a promotion was met unread.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        store.patient = False  # requests wait for it
        self.models: dict[str, Model] = {}
        self.broken: dict[str, Broken] = {}
        self.commits = Commits(store, self._news, self._learn)
        self.splits: dict[str, Shares] = {}
        self.swaps: Swaps = {}
        self.time = Clock(store)
        self.started = self.doubtful = False

    async def start(self) -> None:
        """Bring every model to the end of its log."""
        rows = await self._read()
        for row in rows:
            with contextlib.suppress(Refusal):  # it cannot be opened, or is gone
                await self.open(row)
        keys = await self.commits.do(lambda tx: [tx.store.latest(row.id) for row in rows])
        keys += [row.swept for row in rows]  # what was given up is no later than now
        newest = max(map(time_of, keys), default=0.0)
        await self.commits.do(lambda tx: self.time.begin(tx, newest))
        self.started = True

    def clock(self) -> float:
        """The clock for waiting decisions."""
        return self.time()

    def __getitem__(self, name: str) -> Model:
        """The model called ``name``, or a refusal."""
        model = self.models.get(name)
        if model is not None:
            return model
        if name in self.broken:
            message = f"The model cannot be opened: {self.broken[name].reason}"
            raise Refusal(503, "broken_model", f"{message} Restore a snapshot or delete the model.")
        raise Refusal(404, "no_model", "There is no model with this name.")

    async def find(self, name: str) -> Model:
        """The same; also finds a model that another process has just created."""
        if name not in self.models:
            await self.look()
        return self[name]

    async def current(self, name: str) -> Model:
        """The model that has the name in the store now, for a request that changes it."""
        await self.look()
        return self[name]

    async def row(self, name: str) -> ModelRow:
        """The row of the same, even of a broken one."""
        await self.look()
        return self.broken[name].row if name in self.broken else self[name].row

    def forget(self, number: int) -> None:
        """Drop a deleted model, whichever name it has here."""
        for names in (self.models, self.broken):
            for name in [name for name, each in names.items() if each.row.id == number]:
                del names[name]

    async def renewed(self, model: Model) -> Model:
        """The model that now has the name of ``model``; it may be a different one."""
        await self.look()
        return self[model.row.name]

    async def look(self) -> None:
        """Read what other processes did."""
        if self.store.shared or self.doubtful:
            await self.refresh()

    async def refresh(self) -> None:
        """Read all changes: new, deleted, restored, renamed or changed models, offers, splits and
        outcomes.
        """
        self.doubtful = False
        try:
            await self._refresh()
        except StoreError:
            self.doubtful = True
            raise

    async def _refresh(self) -> None:
        known = [*self.models.values()]  # others may be opened while the rows are read
        broken = [*self.broken.values()]
        rows = await self._read()
        there = {row.id: row for row in rows}
        same = [
            model for model in self._rename(known, there, self.models)
            if model.line == there[model.row.id].line
        ]  # fmt: skip
        for failed in self._rename(broken, there, self.broken):
            row = there[failed.row.id]._replace(epoch=failed.row.epoch, follows=failed.row.follows)
            self.broken[row.name] = failed._replace(row=row)
        for model in self.models.values():
            if model.row.id in there:
                model.respecify(there[model.row.id])
        for row in rows:
            loaded = self.broken.get(row.name) or self.models.get(row.name)
            line = loaded.line if isinstance(loaded, Model) else loaded and loaded.row.line
            if line != row.line and not (isinstance(loaded, Model) and await self._go_on(loaded)):
                with contextlib.suppress(Refusal):  # it is gone again, or cannot be opened
                    await self.open(row)
        chasers = []
        for model in same:
            await self.read_offers(model)
            source = there.get(model.source)
            if source is None:  # it is deleted, and a snapshot holds what this one learned of it
                with contextlib.suppress(Refusal):
                    await self.open(model.row)
            elif model.version < source.last:
                if model.row.id != source.id:
                    chasers.append(self._start_chase(model))
                else:
                    await self.catch_up(model)
        if chasers:
            await asyncio.wait(chasers, timeout=BRIEF)

    async def _read(self) -> list[ModelRow]:
        """Read the splits and swaps, and return the rows of all models."""

        def work(tx: Transaction) -> tuple[list[ModelRow], dict[str, str], Swaps]:
            return tx.store.models(), tx.store.splits(), swaps(tx)

        rows, splits, self.swaps = await self.commits.do(work)
        self.splits = decoded(splits)
        return rows

    def sharing(self, model: int) -> list[int]:
        """A model and those that made decisions under its name in the last day."""
        since = self.store.clock() - REMEMBERED
        pairs = [pair for pair, time in self.swaps.items() if model in pair and time > since]
        splits = [each.shares for each in self.splits.values() if model in each.shares]
        return [*dict.fromkeys([model, *itertools.chain(*pairs, *splits)])]

    def _rename(
        self, known: list[Named], there: dict[int, ModelRow], names: dict[str, Named]
    ) -> list[Named]:
        """Give models the names that they have in the store, and drop those that are gone. Returns
        the others, but for those that were replaced while the rows were read.
        """
        known = [each for each in known if names.get(each.row.name) is each]
        for each in known:
            del names[each.row.name]
        left = [each for each in known if each.row.id in there]
        names.update({there[each.row.id].name: each for each in left})
        return left

    async def _go_on(self, model: Model) -> bool:
        """Let a shadow that was promoted go on with its state, if that is on the line of its row.
        Returns whether it does.
        """
        row = model.row
        if row.line == model.line or row.line != (*model.line[:2], None):
            return False
        stretches = await self.commits.do(functools.partial(_lineage, row=row))
        await self.read_offers(model)

        def take_over() -> bool:
            if model.line == row.line:  # another look was quicker
                return True
            if model.version < row.since and model.source not in {each.model for each in stretches}:
                return False  # that model is deleted, and a snapshot has what it learned
            if not READY * row.since <= model.version <= row.since or model.row.line != row.line:
                return False
            model.lineage, model.line = stretches, row.line
            return True

        if not await model.turn("change", 0, take_over):
            return False
        self._start_chase(model)
        return True

    async def read_offers(self, model: Model) -> None:
        """Read the newest catalogue of a model, unless it has it."""
        row, number = model.row, model.row.catalogue
        if number is None or (model.table is not None and model.table.number >= number):
            return
        content = await self.commits.do(lambda tx: tx.store.catalogue(row.id, number))
        if content is not None:
            await apart(functools.partial(model.keep_offers, number, content))

    def shadows(self, model: Model) -> list[Model]:
        """The loaded shadows of a model."""
        return [each for each in self.models.values() if each.row.follows == model.row.id]

    def numbered(self, number: int) -> Model | None:
        """The loaded model with this number in the store."""
        return next((model for model in self.models.values() if model.row.id == number), None)

    async def open(self, row: ModelRow) -> Model:
        """Load a model in its present state; it replaces the one with its number.

        It starts from the newest snapshot that can be loaded, or else from the log. If nothing
        works, the model is broken; other models are not affected.
        """
        looked_up, kept = await self.commits.do(
            lambda tx: (tx.store.model(row.id), tx.store.snapshots(row.id))
        )
        stored, before = _existing(looked_up), self.numbered(row.id)
        line = None if before is None else before.line
        passed: list[str] = []
        restored = any(str(note).startswith(RESTORED) for *_, note in kept)
        own = stored.since == 0 or stored.origin is not None  # the log leads to it
        complete = own and (restored or not stored.epoch)
        for way in ways(kept, from_log=complete):
            try:
                model = await self._along(stored, way)
                now = _existing(await self.commits.do(lambda tx: tx.store.model(row.id)))
                if now.line != stored.line:  # it was set back meanwhile
                    return await self.open(now)
                other = self.numbered(now.id)
                changed = other is not before or (other is not None and other.line != line)
                if other is not None and changed and other.line == now.line:
                    return other  # another request brought it there meanwhile
                before, line = model, model.line
                model.respecify(now)  # it may have another name by now
                self._place(model, way, passed)
                if model.behind_origin or now.follows is not None:
                    await self.chased(model)
                else:
                    await self.catch_up(model)
                return model
            except ArchiveError as error:  # another way may not need it
                failure: Exception = error
            except (Refusal, StoreError):
                raise
            except Exception as error:
                failure = error
            words = "the log" if way.number is None else f"snapshot {way.number}"
            passed.append(f"{words} cannot be used: {said(failure)}")
            log.error("%s: %s", row.name, passed[-1])
        self.forget(row.id)
        self.broken[row.name] = Broken(stored, "; ".join(passed) or "it has no snapshot.")
        log.error("the model %s cannot be opened", row.name)
        return self[row.name]

    async def _along(self, row: ModelRow, way: Way) -> Model:
        """Follow a way and return the model in its present line of states."""
        snapshot, number = None, way.number
        if number is not None:
            data = await self.commits.do(
                lambda tx: tx.store.snapshot_data(row.id, number), size=LARGE
            )
            if data is None:
                raise ValueError("it no longer exists.")
            if row.follows is None and way.version > row.last >= row.since:
                raise ValueError(f"it is after outcome {way.version}; the log ends at {row.last}.")
            snapshot = way.version, data
        try:
            model = await apart(functools.partial(model_of, row, snapshot))
        except Refusal as refusal:  # of the specification: the model is there, and cannot be opened
            raise ValueError(refusal.message) from None
        model.lineage = await self.commits.do(functools.partial(_lineage, row=row))
        await self.read_offers(model)
        for last, then in way.turns:
            await self.catch_up(model, last=last)
            model.version = model.snapshot_seq = then
        return model

    def _place(self, model: Model, way: Way, passed: list[str]) -> None:
        name = model.row.name
        if passed:
            words = "its log alone" if way.number is None else f"snapshot {way.number} and its log"
            model.passed = f"The model was started from {words}: {'; '.join(passed)}"
            log.warning("%s: %s", name, model.passed)
        old, other = self.numbered(model.row.id), self.models.get(name)
        if old is not None:
            model.tracker = old.tracker
        model.tracker.clock = self.clock
        self.forget(model.row.id)
        self.broken.pop(name, None)
        self.models[name] = model
        if old is not None and old.row.name != name:  # a promotion that was not read yet
            self.doubtful = True
            if other is not None:
                other.respecify(other.row._replace(name=old.row.name))
                self.models[old.row.name] = other

    async def catch_up(self, model: Model, *, last: int | None = None) -> None:
        """Learn all outcomes up to ``last`` while the service goes on."""
        full = True
        while full:
            most, stretch = min(max(model.batch, AWAY), BATCH), model.stretch
            following = functools.partial(_next, model=model, most=most)
            read = await self.commits.do(functools.partial(_at_once, following=following))
            if read is None:
                read = await apart(functools.partial(_read_apart, self.store, following))
            rows, reasons = read
            full = len(rows) == most
            if last is not None:
                full = full and rows[-1].seq < last
                rows = [row for row in rows if row.seq <= last]
            kind = "change" if any(row.by_default == CHANGE for row in rows) else "learn"
            learn = functools.partial(_learn_of, model, stretch, rows, reasons)
            await model.turn(kind, len(rows), learn)
            full = full or (model.stretch is not stretch and last is None)
        if last is not None and model.version != last:
            raise RuntimeError(f"outcome {last} is missing.")

    def _news(self, touched: set[int]) -> News:
        """Read, after a commit, the next outcomes of models that have new ones."""
        news: News = []
        for model in list(self.models.values()):
            stretch, version = model.stretch, model.version
            if stretch.model in touched or model.lineage[-1].model in touched:
                most = min(model.batch, BATCH)
                if not most or stretch.translated or stretch.until < math.inf:
                    news.append((model, stretch, None))
                    continue
                try:
                    rows = self.store.outcomes(stretch.model, version, most + 1)
                except InArchive:
                    news.append((model, stretch, None))
                    continue
                short = len(rows) <= most and all(row.by_default != CHANGE for row in rows)
                news.append((model, stretch, rows if short else None))
        return news

    def _learn(self, news: News) -> None:
        for model, stretch, rows in news:
            if rows is None or model.turns.taken:
                self._start_chase(model)
                continue
            try:
                size = model.size(len(rows))
                learn = functools.partial(_learn_of, model, stretch, rows)
                model.turns.timed("learn", size, learn)
            except Exception:  # it learns them with the next, or says so when it is opened
                log.exception("%s did not learn the new outcomes", model.row.name)

    def _start_chase(self, model: Model) -> asyncio.Task[None]:
        model.behind = True
        if model.chaser is None or model.chaser.done():
            model.chaser = asyncio.create_task(self._chase(model))
        return model.chaser

    async def chased(self, model: Model) -> None:
        """Learn in the background, and wait briefly for it."""
        within = LATER if self.started else SOON
        await asyncio.wait([self._start_chase(model)], timeout=within)

    async def _chase(self, model: Model) -> None:
        """Learn the outcomes that the loop has no time for, until none is left."""
        while model.behind:
            model.behind = False
            try:
                await self.catch_up(model)
            except (Refusal, StoreError) as error:  # it is read with the next
                log.error("%s did not learn the new outcomes: %s", model.row.name, error)
            except Exception:
                log.exception("%s did not learn the new outcomes", model.row.name)

    async def learned(self, model: Model, last: int, within: float = SOON) -> None:
        """Wait until a model has learned outcome ``last``, for ``within`` seconds at most."""
        end = time.monotonic() + within
        while model.version < last and model.chaser is not None and time.monotonic() < end:
            done, _ = await asyncio.wait([model.chaser], timeout=0.01)
            if done:
                return


def _learn_of(
    model: Model, stretch: Stretch, rows: list[OutcomeRow], reasons: Mapping[int, str] = NONE
) -> None:
    """Learn outcomes of a stretch, unless the model has another since they were read."""
    if model.stretch is stretch:
        model.learn(rows, reasons)


def _at_once(tx: Transaction, following: Callable[[Store], Next]) -> Next | None:
    """Read outcomes within a commit; None if that must wait for the archive."""
    try:
        return following(tx.store)
    except InArchive:
        return None


def _read_apart(store: Store, following: Callable[[Store], Next]) -> Next:
    """Read outcomes with a connection of their own."""
    with store.reader() as reader:
        return following(reader)


def _next(store: Store, model: Model, most: int) -> Next:
    """The next outcomes that a model has not learned, with its own features; and by number, why it
    cannot have features of some.
    """
    source, until, translated = model.stretch
    rows = store.outcomes(source, model.version, most)
    if rows and rows[-1].seq > until:
        rows = [row for row in rows if row.seq <= until]
    if not translated or not rows:
        return rows, {}
    details = store.details(source, model.version, rows[-1].seq)
    catalogues = functools.cache(functools.partial(_catalogue, store))
    own, reasons = [], {}
    for row in rows:
        x = row.x
        if row.by_default != CHANGE:
            try:
                x = _translated(model, source, details.get(row.seq), catalogues)
            except msgspec.MsgspecError:
                x, reasons[row.seq] = b"", "the decision is damaged in the store."
            except (ValueError, TypeError, KeyError) as error:
                x, reasons[row.seq] = b"", said(error)
        own.append(row._replace(x=x))
    return own, reasons


def _translated(
    model: Model,
    source: int,
    decided: tuple[bytes, bytes] | None,
    catalogues: Callable[[int, int], dict[str, Any]],
) -> bytes:
    """Return what a model learns of a decision of ``source``; ValueError if it cannot.

    The offer has the features of the time of the decision, completed by those that the model began
    with. So a change of the offers does not change what a restart learns.
    """
    if decided is None:
        raise ValueError("its decision is not in the store.")
    detail = unpack(decided[1])
    offer = catalogues(model.row.id, 1).get(str(detail.id))
    if detail.catalogue is not None:
        then = catalogues(source, detail.catalogue).get(str(detail.id))
        if offer is None:
            offer = then
        elif isinstance(offer, dict) and isinstance(then, dict):
            offer = {**offer, **then}
    return model.translated(decided[0], detail, offer)


def _catalogue(store: Store, model: int, number: int) -> dict[str, Any]:
    """The offers of a catalogue; none if it does not exist."""
    content = store.catalogue(model, number)
    return {} if content is None else unpacked(content)


def _lineage(tx: Transaction, row: ModelRow) -> list[Stretch]:
    """The models whose outcomes a model learns, in order."""
    spec, stretches = msgspec.json.decode(row.spec, type=ModelSpec), []
    for number, until in tx.store.lineage(row):
        other = None if number == row.id else tx.store.model(number)
        same = other is None or reads_alike(spec, msgspec.json.decode(other.spec, type=ModelSpec))
        stretches.append(Stretch(number, until, not same))
    return stretches or [Stretch(row.id, math.inf, False)]


def reads_alike(spec: ModelSpec, other: ModelSpec) -> bool:
    """Whether models of two specifications have the same features."""
    if DECIDER in (spec.policy, other.policy):
        return (spec.policy, spec.file) == (other.policy, other.file)
    if spec.encoder is not None or other.encoder is not None:
        return spec.encoder == other.encoder
    return spec.dim == other.dim


def _existing(row: ModelRow | None) -> ModelRow:
    """The row of a model; refuse one that does not exist."""
    if row is None:
        raise Refusal(404, "no_model", "There is no model with this name.")
    return row
