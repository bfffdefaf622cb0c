"""A model that begins with a log: a Parquet file of decisions, learned before its own."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import sys
import tempfile
from pathlib import Path

import msgspec

from heavytail.ledger.layout import ModelRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.transaction import Transaction
from heavytail.serve.apart import apart
from heavytail.serve.decider_model import model_of
from heavytail.serve.keeping import LEARNED, RESTORED
from heavytail.serve.lesson import LOG, STATE
from heavytail.serve.service import Service
from heavytail.serve.wire import LogLearned

__all__ = ["teach"]

log = logging.getLogger("heavytail.serve")


async def teach(service: Service, name: str, content: bytes, who: str) -> tuple[bool, LogLearned]:
    """Let a model that has neither decided nor learned anything learn a log, in one commit; the
    same file again changes nothing. Returns (learned now, result).

    The state is that of ``Decider.learn``, or of a policy's ``update_many``, of the log. The log is
    not stored. A request that is sent again meanwhile waits for the first.
    """
    row = (await service.live.current(name)).row
    file = hashlib.sha256(content).hexdigest()
    before = await service.commits.do(lambda tx: _before(tx, row, file))
    if before is not None:
        return False, before
    lesson = service.lessons.get((row.id, file))
    if lesson is None:
        lesson = asyncio.create_task(_taught(service, name, content, file, who))
        service.lessons[row.id, file] = lesson
        lesson.add_done_callback(lambda _: service.lessons.pop((row.id, file)))
    return await asyncio.shield(lesson)


def _before(tx: Transaction, row: ModelRow, file: str) -> LogLearned | None:
    """The result of an earlier request with the same file; refuse a model that cannot begin with a
    log, or no longer.
    """
    if row.follows is not None or row.origin is not None:
        message = "This model learns the log of another model. Create one that begins with this."
        raise Refusal(409, "another_log", message)
    notes = [note for *_, note in tx.store.snapshots(row.id)]
    begun = next((note for note in notes if note.startswith((LEARNED, RESTORED))), "")
    known, _, sentences = begun.removeprefix(LEARNED).partition(": ")
    if begun.startswith(LEARNED) and known == file:
        return LogLearned(file, sentences.split("; "))
    if begun or tx.last(row.id) or tx.latest(row.id):
        message = (
            "A model learns a log before all else, and this one has decided, learned, changed its "
            "offers or been restored. Create another model for the log, and promote it."
        )
        raise Refusal(409, "has_begun", message)
    return None


async def _taught(
    service: Service, name: str, content: bytes, file: str, who: str
) -> tuple[bool, LogLearned]:
    model = await service.live.current(name)
    _, state = await service.kept(model)
    async with service.reading:
        sentences, data = await _in_a_process(state, content)
    await apart(functools.partial(model_of, model.row, (0, data)))

    def work(tx: Transaction) -> LogLearned | None:
        tx.last(model.row.id)  # nobody else decides or rewards until the commit
        row = tx.model(name)
        if row is None or row.id != model.row.id:
            message = "The model was renamed or deleted meanwhile. Try again."
            raise Refusal(409, "changed", message)
        before = _before(tx, row, file)  # another worker may have been quicker
        if before is None:
            tx.restore(row.id, data, f"{LEARNED}{file}: {'; '.join(sentences)}")
            tx.audit(who, f"learn a log {name}")
        return before

    before = await service.commits.do(work, model=model.row.id, size=len(data))
    if before is not None:
        return False, before
    await service.live.open(model.row)
    return True, LogLearned(file, sentences)


async def _in_a_process(state: bytes, content: bytes) -> tuple[list[str], bytes]:
    """Let the Decider or policy of a saved state learn a log in a process of its own, which alone
    dies of a file that crashes the reader; returns what to say of it, and the new state.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="heavytail-") as folder:
            path = Path(folder)
            await apart(lambda: (path / STATE).write_bytes(state))
            await apart(lambda: (path / LOG).write_bytes(content))
            command = [sys.executable, "-m", "heavytail.serve.lesson", folder]
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
            try:
                out, errors = await process.communicate()
            finally:
                if process.returncode is None:  # the service stops
                    process.kill()
            if process.returncode:
                log.error("a log could not be read: %s", errors.decode(errors="replace").strip())
                raise Refusal(422, "bad_log", "The file crashes its reader: it is damaged.")
            answer = msgspec.json.decode(out, type=dict[str, list[str]])
            if "refused" in answer:
                raise Refusal(422, "bad_log", " ".join(answer["refused"]))
            return answer["sentences"], await apart((path / STATE).read_bytes)
    except OSError:
        message = "The server has no room for the file. Try again later."
        raise Refusal(503, "no_room", message) from None
