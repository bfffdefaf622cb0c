"""The sums of what models earned, kept in memory, saved now and then, and folded in threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from heavytail.ledger.commits import LARGE, Commits
from heavytail.ledger.layout import ModelRow
from heavytail.ledger.opening import is_database
from heavytail.ledger.opening import opened as stored_at
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.store import Store, StoreError, as_bytes
from heavytail.ledger.transaction import Transaction
from heavytail.serve.earned import Asked, Stream, answer, begun, check, since, stream
from heavytail.serve.folding import Fold
from heavytail.serve.wire import Earned

__all__ = ["Books", "earned", "reading"]

log = logging.getLogger("heavytail.serve")

KEPT: Final = 64  # folds in memory
PARTS: Final = 16  # of one model that are saved
PATIENCE: Final = 0.1  # seconds that an answer waits for the newest rows to be folded
PIECE: Final = 1.0  # seconds of folding with one connection
PACE: Final = 2.0  # seconds of rest for each second of it
LOOK: Final = 10.0  # seconds between two looks at what is new
SAVED: Final = 10_000  # outcomes or decisions, after which a fold is saved

Key = tuple[int, str]  # of a model, and the name of a part


class _Kept:
    """A fold, the lock of who works on it, and how far it was when it was saved."""

    def __init__(self, fold: Fold, final: bool) -> None:
        self.fold, self.final = fold, final
        self.lock = threading.Lock()
        self.saved = self._steps()

    def _steps(self) -> int:
        return self.fold.seq + self.fold.made

    @property
    def new(self) -> int:
        """Rows folded since it was saved."""
        return self._steps() - self.saved


class _Bytes(NamedTuple):
    """A fold that is to be saved."""

    model: int
    part: str
    seq: int
    data: bytes


class Books:
    """What models earned.

    Args:
        commits: the writer of the store.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._lock = threading.Lock()  # of the folds by name
        self._task: asyncio.Task[None] | None = None
        self._awake = asyncio.Event()

    async def earned(self, row: ModelRow, asked: Asked) -> Earned:
        """What a model earned; what is not folded in time is folded later."""
        check(row, asked)
        result, behind = await asyncio.to_thread(self._answer, row, asked)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_up())
        if behind:
            self._awake.set()
        return result

    async def stream(self, row: ModelRow, start: float) -> Stream:
        """What a model earned by its decisions after a time."""
        return await asyncio.to_thread(self._stream, row, since(start))

    def _stream(self, row: ModelRow, part: str) -> Stream:
        with self._commits.store.reader() as store:
            kept = self._found(store, row, part)
            with kept.lock:
                complete = kept.fold.go_on(store, row, time.monotonic() + PATIENCE)
                return stream(row, store, kept.fold, complete)

    def _answer(self, row: ModelRow, asked: Asked) -> tuple[Earned, bool]:
        with self._commits.store.reader() as store:
            end = time.monotonic() + PATIENCE
            now = store.model(row.id)
            if now is None:
                raise Refusal(404, "no_model", "The model was deleted.")
            with contextlib.ExitStack() as locks:
                folds, complete = [], True
                for part in asked.parts:
                    kept = self._found(store, now, part)
                    # Whoever folds a large log in pieces holds the lock only for one of these.
                    locks.enter_context(kept.lock)
                    complete &= kept.fold.go_on(store, now, end)
                    folds.append(kept.fold)
                return answer(now, store, folds, asked, complete), not complete

    def _found(self, store: Store, row: ModelRow, part: str) -> _Kept:
        """The fold of a part: from memory, from the store, or a new one."""
        key = row.id, part
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.final:
                kept = _Kept(*opened(store, row, part))
                self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return kept

    async def _keep_up(self) -> None:
        """Fold what is new, and save it."""
        while True:
            self._awake.clear()
            for key, kept in list(self._kept.items()):
                try:
                    complete = False
                    while not complete:
                        complete = await asyncio.to_thread(self._piece, key, kept)
                        if kept.final and kept.new >= SAVED:
                            await self._save(key, kept)
                except (Refusal, StoreError) as error:  # it is folded with the next
                    log.debug("%s of model %d: %s", key[1], key[0], error)
                except Exception:
                    log.exception("what model %d earned could not be added up", key[0])
                    self._kept.pop(key, None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._awake.wait(), LOOK)

    def _piece(self, key: Key, kept: _Kept) -> bool:
        """Fold for a while; tell whether everything is folded."""
        end = time.monotonic() + PIECE
        with self._commits.store.reader() as store:
            while time.monotonic() < end:
                start = time.monotonic()
                row = store.model(key[0])
                if row is None:
                    self._kept.pop(key, None)
                    return True
                with kept.lock:
                    if kept.fold.go_on(store, row, 0.0):
                        return True
                time.sleep(PACE * (time.monotonic() - start))
        return False

    async def _save(self, key: Key, kept: _Kept) -> None:
        def work() -> _Bytes:
            with kept.lock:
                kept.saved += kept.new
                return _Bytes(*key, kept.saved, kept.fold.saved())

        content = await asyncio.to_thread(work)
        await self._commits.do(functools.partial(_write, content=content), size=LARGE)

    async def stop(self) -> None:
        """Save what is new, and end."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for key, kept in list(self._kept.items()):
            if kept.final and kept.new:
                with contextlib.suppress(Refusal, StoreError):
                    await self._save(key, kept)


def opened(store: Store, row: ModelRow, part: str) -> tuple[Fold, bool]:
    """A fold as it was saved, or a new one, and whether it is final."""
    fold, final = begun(part, store, row)
    data = _saved(store, row.id, part)
    if data is not None and final:
        try:
            fold.restore(data)
        except Exception as error:  # it is folded anew
            log.warning("%s of %s cannot be used: %s", part, row.name, error)
            return begun(part, store, row)
    return fold, final


def _saved(store: Store, model: int, part: str) -> bytes | None:
    """The saved bytes of a part; None where there are none."""
    if store.check_tables() < 2:
        return None
    rows = store.rows("SELECT data FROM earned WHERE model = ? AND part = ?", model, part)
    return as_bytes(rows[0][0]) if rows else None


@contextlib.contextmanager
def reading(address: str) -> Iterator[Store]:
    """The store at an address, to read while a service may write to it."""
    if is_database(address):
        store = stored_at(address)
        try:
            yield store
        finally:
            store.close()
        return
    with SQLiteStore.reading(address) as store:
        yield store


def earned(store: Store, row: ModelRow, asked: Asked) -> Earned:
    """What a model earned, from a store that is only read."""
    check(row, asked)
    folds = []
    for part in asked.parts:
        fold, _ = opened(store, row, part)
        fold.go_on(store, row, float("inf"))
        folds.append(fold)
    return answer(row, store, folds, asked, complete=True)


def _write(tx: Transaction, content: _Bytes) -> None:
    """Save a fold, unless another worker saved a later one."""
    tx.check_there(content.model)
    rows = tx.rows("SELECT part, seq FROM earned WHERE model = ?", content.model)
    there = {part: int(seq) for part, seq in rows}
    if content.part not in there and len(there) >= PARTS:
        return
    if there.get(content.part, 0) <= content.seq:
        tx.rows(
            "INSERT INTO earned VALUES (?, ?, ?, ?) ON CONFLICT (model, part) "
            "DO UPDATE SET seq = excluded.seq, data = excluded.data",
            *content,
        )
