"""Moving the old rows of models to the archive, a file at a time and a piece of it per commit."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from heavytail.ledger.archive import collected
from heavytail.ledger.commits import LARGE, Commits
from heavytail.ledger.layout import DecisionRow, FileRow, OutcomeRow
from heavytail.ledger.refusal import Refusal, StoreError
from heavytail.ledger.store import ARCHIVED, Store
from heavytail.ledger.tokens import Token, first_key
from heavytail.ledger.transaction import Transaction
from heavytail.serve.apart import apart

if TYPE_CHECKING:
    from heavytail.serve.live import Live

__all__ = ["Old", "Retention", "archive", "in_archive", "removed"]

log = logging.getLogger("heavytail.serve")

DAY: Final = 86_400.0
FEW: Final = 1000  # rows that are no file of their own,
WEEK: Final = 7 * DAY  # unless the oldest has been old for so long
PIECE: Final = 250  # rows that are deleted in one commit
PACE: Final = 4.0  # seconds of rest for each second of a commit

Old = Mapping[tuple[int, bytes], tuple[DecisionRow, OutcomeRow | None]]  # by model and key


class Retention(NamedTuple):
    """The seconds that rows stay in the store, and the place where older ones go."""

    keep: float
    place: str


async def archive(live: Live, model: int, retention: Retention, ended: threading.Event) -> None:
    """Move the old rows of a model to the archive, until the service has ended."""
    more = True
    while more:
        await _delete(live.commits, model)
        work = functools.partial(_written, live.store, model, retention, live.clock(), ended)
        file = await apart(work)
        if file is None:
            return
        more = await live.commits.do(functools.partial(_record, file=file), model=model)
    log.debug("another process archives model %d", model)


def _written(
    store: Store, model: int, retention: Retention, now: float, ended: threading.Event
) -> FileRow | None:
    """Write the next file of a model; None if it must wait for more rows, or the service has ended.

    The rows behind the oldest automatic snapshot stay, so that no start of the service needs the
    archive.
    """

    def rest(seconds: float) -> bool:
        return ended.wait(PACE * seconds)

    with store.reader() as tables:
        row = tables.model(model)
        automatic = [seq for _, seq, _, note in tables.snapshots(model) if note == ""]
        if row is None or row.follows is not None or not automatic:
            return None
        before = min(now, tables.clock()) - retention.keep
        swept = min(row.swept, first_key(before))
        last = min(*automatic, row.last)
        part = collected(tables, row, before, last, swept, rest)
        if ended.is_set() or not len(part) or (len(part) < FEW and part.oldest > before - WEEK):
            return None
        number = len(tables.files(model)) + 1
        # The time of its creation tells it from the model of this number of another store.
        name = f"model-{model}-{round(row.created * 1000.0):x}-{number:06d}"
        file, digest = store.archive.write(retention.place, name, part.table())
    return FileRow(
        model, number, file, digest, part.first, part.outcomes, part.decisions, len(part), 0,
        part.low, part.high, part.width,
    )  # fmt: skip


def _record(tx: Transaction, file: FileRow) -> bool:
    """Record a file, unless another process was first; tell whether it is recorded."""
    tx.last(file.model)  # nobody else records one until the commit
    files = tx.store.files(file.model)
    if len(files) + 1 != file.number or not all(each.complete for each in files):
        return False
    tx.file(file)
    return True


async def _delete(commits: Commits, model: int) -> None:
    """Delete the rows of the last file from the tables, if any are left there."""
    files = await commits.do(lambda tx: tx.store.files(model))
    if not files or files[-1].complete:
        return
    # It is read once more: nothing is deleted that the archive has not.
    given_up = await apart(functools.partial(commits.store.archive.given_up, files[-1]))
    work = functools.partial(_piece, model=model, number=files[-1].number, given_up=given_up)
    more = True
    while more:
        start = time.monotonic()
        more = await commits.do(work, model=model, size=LARGE)
        await asyncio.sleep(PACE * (time.monotonic() - start))


def _piece(tx: Transaction, model: int, number: int, given_up: list[bytes]) -> bool:
    """Delete the next rows; tell whether there may be more."""
    tx.last(model)  # nobody else deletes them, or rewards a decision, until the commit
    files = tx.store.files(model)
    if not files or files[-1].number != number or files[-1].complete:
        return False
    return tx.filed(files[-1], given_up, PIECE)


async def in_archive(commits: Commits, tokens: Iterable[Token]) -> Old:
    """The decisions of some tokens that are in the archive, with their outcomes."""
    keys: dict[int, list[bytes]] = {}
    for token in tokens:
        keys.setdefault(token.model, []).append(token.key)

    def within(tx: Transaction) -> dict[int, list[bytes]]:
        wanted = {}
        for model, some in keys.items():
            files = [(file.low, file.high) for file in tx.store.files(model) if file.decisions]
            wanted[model] = [key for key in some if any(a <= key <= b for a, b in files)]
        return {model: some for model, some in wanted.items() if some}

    wanted = await commits.do(within)
    return await apart(functools.partial(_looked_up, commits.store, wanted)) if wanted else {}


def _looked_up(store: Store, wanted: dict[int, list[bytes]]) -> Old:
    found = {}
    try:
        with store.reader() as tables:
            for model, keys in wanted.items():
                for key, entry in tables.found(model, keys).items():
                    found[model, key] = entry.rows(model)
    except StoreError as error:
        log.error("%s", error)
        raise Refusal(410, "archived", ARCHIVED, "token") from None
    return found


async def removed(store: Store, files: Iterable[FileRow]) -> None:
    """Remove the files of a deleted model, as far as possible."""
    names = [file.file for file in files]
    for words in await apart(functools.partial(store.archive.remove, names)):
        log.warning("a file of a deleted model is left in the archive: %s", words)
