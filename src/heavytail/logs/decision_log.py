"""Decisions and their rewards on disk, crash-safe, as Parquet.

The folder of a log holds::

    journal               decisions that are in no part yet, and their rewards
    part-000000000000.parquet   decisions from that number on, never written to again
    waiting.parquet       what was still in the journal when the log was closed, for other readers
    lock                  held by the one writer

A decision goes to the journal and, in the order of the decisions, to a part once it and all before
it have their rewards. So every part is in order, and what was acknowledged is in a part or in the
journal.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time as clock
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np

from heavytail._archive import replace
from heavytail._validate import check_count, check_number, check_reward, shown
from heavytail.logs.entries import Entry, entry_of
from heavytail.logs.files import JOURNAL, need_arrow
from heavytail.logs.folder import (
    check_folder,
    check_gap,
    locked,
    parquet,
    parts_of,
    tokens_of,
    whole,
    worded,
)
from heavytail.logs.journal import (
    begun,
    opened_folder,
    parsed,
    same_file,
    sync_folder,
    written,
)
from heavytail.policies.core.decisions import Decision

__all__ = ["DecisionLog"]

WAITING = "waiting.parquet"
NEW = ".new.part"  # of the name of a journal that is to take the place of the old one
INTERRUPTED = "it was interrupted while it wrote; what was acknowledged is on disk."


class DecisionLog:
    """A log of decisions, written while they are made; ``ht.evaluate`` reads its folder.

    When ``decided`` or ``rewarded`` returns, what it was told is on disk: a killed process loses
    nothing, and what a crash tore off is dropped when the log is opened again. One writer at a
    time; its threads may share it. A reward costs one write to the disk, as a decision does; memory
    is that of the decisions in the journal.

    >>> import heavytail as ht, tempfile
    >>> policy, arms = ht.TwinUCB(2), [[1.0, 0.0], [0.0, 1.0]]
    >>> folder = tempfile.TemporaryDirectory()
    >>> with ht.DecisionLog(folder.name + "/log") as log:
    ...     decision = policy.decide(arms, explore=0.1)
    ...     log.decided(decision, arms)
    ...     log.rewarded(decision, 3.0)
    >>> folder.cleanup()

    Args:
        path: the folder; made where it is not there.
        rows: so many decisions with their rewards become a part.
        waiting: for how many of the last decisions a reward may still come. Older ones that wait go
            into a part without one, and a reward for them is refused from then on.
        group: how many records are forced to the disk at once. With more than 1 a power cut may
            lose the last ``group`` - 1; a killed process still loses none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int = 65536,
        waiting: int = 100_000,
        group: int = 1,
    ) -> None:
        need_arrow()
        if not isinstance(path, str | os.PathLike) or "\0" in str(path):
            raise TypeError(f"DecisionLog: path must name a folder, as text; got {shown(path)}.")
        self.path = os.fspath(path)
        self._rows = check_count("DecisionLog.rows", rows)
        self._most = check_count("DecisionLog.waiting", waiting)
        self._group = check_count("DecisionLog.group", group)
        self._calls = threading.RLock()
        self._pid = os.getpid()
        self._journal = -1
        self._broken = ""
        with worded(self.path, "cannot be opened for writing"):
            os.makedirs(self.path, exist_ok=True)
            check_folder(self.path)  # before a lock is left in it
            self._lock = locked(self.path)
        try:
            with worded(self.path, "cannot be opened for writing"):
                self._recover()
        except BaseException:
            if self._journal >= 0:
                os.close(self._journal)
            os.close(self._lock)
            raise

    def decided(
        self,
        decision: Decision,
        arms: Any,
        ids: Sequence[str | int] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Log a decision, and what it was made among.

        Refuses what does not fit, a token that the log has already among it; nothing is logged
        then.

        Args:
            decision: as ``policy.decide`` gave it.
            arms: the arms that it was made among: features (n, dim), or what ``encoder.arms`` gave.
            ids: names of the arms; those of ``encoder.arms`` unless given.
            context: what ``encoder.arms`` was told of the round: text, numbers, bools and None by
                name, at most 64 KiB as JSON. With it and ids the log can be encoded anew, by
                another encoder.
        """
        with self._turn:
            self._check_open()
            entry = self._entry(decision, arms, ids, context)
            self._write(entry.record(self._unsafe == 0))
            self._take(entry)
            self._broken = ""
            self._settle(self._rows)

    def rewarded(self, decision: Any, reward: float, time: float | None = None) -> None:
        """Log the reward of a Decision, or of its token, and when it came (now, unless given)."""
        with self._turn:
            self._check_open()
            where = "DecisionLog.rewarded"
            if isinstance(decision, bool) or not isinstance(decision, Decision | int | np.integer):
                raise TypeError(f"{where}: pass a Decision or its token; got {shown(decision)}.")
            token = decision.token if isinstance(decision, Decision) else int(decision)
            token = check_count(f"{where}: token", token, least=0)
            value = check_reward(f"{where}: reward", reward)
            when = clock.time() if time is None else check_number(f"{where}: time", time)
            entry = self._tokens.get(token)
            if entry is not None and isinstance(decision, Decision) and not entry.same(decision):
                raise ValueError(
                    f"{where}: the decision that was logged under token {token} is another. "
                    "Nothing was logged."
                )
            if entry is None:
                raise ValueError(
                    f"{where}: token {token} does not wait: it was not logged, was rewarded "
                    "already, or waited too long. Nothing was logged."
                )
            entry = entry.rewarded(value, when)
            self._write(entry.reward_record(self._unsafe == 0))
            del self._tokens[token]
            self._entries[entry.number] = entry
            self._broken = ""
            self._settle(self._rows)

    def flush(self) -> None:
        """Force to the disk what ``group`` holds back."""
        with self._turn:
            self._check_open()
            self._sync()

    def close(self) -> None:
        """Make a part of what is complete, and let others write. Closing twice is no error."""
        if self._pid != os.getpid():
            return
        with self._turn:
            if self._journal < 0:
                return
            try:
                if not self._broken:
                    with worded(self.path, "cannot be closed in order; the journal has it all"):
                        self._sync()
                        self._settle(1, final=True)
                        if self._entries:
                            table = parquet(list(self._entries.values()))
                            replace(os.path.join(self.path, WAITING), table)
            finally:
                os.close(self._journal)
                self._journal = -1
                os.close(self._lock)

    @property
    def waiting(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""
        return tuple(self._tokens)

    @property
    def decisions(self) -> int:
        """How many were logged, with a reward or without."""
        return self._next

    def __fspath__(self) -> str:
        return self.path

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Neither copied nor pickled: two of them would write to one journal."""
        raise TypeError(
            f"DecisionLog: the log of {self.path} has one writer and cannot be copied or pickled. "
            "Share this one, or pass its path."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _recover(self) -> None:
        """Take up what the folder holds; what a crash tore off is cut off."""
        name = os.path.join(self.path, JOURNAL)
        if not os.path.exists(name):
            check_folder(self.path)
            replace(name, begun(0, None))
            sync_folder(self.path)
        content = whole(name)
        found = parsed(name, content)
        parts, self._first = parts_of(self.path)
        self._logged = tokens_of(parts)
        check_gap(self.path, found, self._first)
        self._entries: dict[int, Entry] = {}  # by number, in order
        self._tokens: dict[int, Entry] = {}  # those without a reward
        self._ready = 0  # so many of the first have theirs
        self._next, self._dim = self._first, found.dim
        self._retry = 0  # records at which a part that could not be written is tried again
        for number, entry in found.entries.items():
            if number >= self._first:
                self._take(entry)
        if found.end < len(content):
            os.truncate(name, found.end)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, WAITING))
        self._journal = os.open(name, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        self._size, self._unsafe = found.end, 0
        os.fsync(self._journal)
        if found.first + len(found.entries) < self._first:  # numbers in a journal have no gap
            self._renew(self._first, [])
        sync_folder(self.path)  # a rename of before may not be on the disk yet

    def _take(self, entry: Entry) -> None:
        self._entries[entry.number] = entry
        self._logged.add(entry.token)
        self._next = entry.number + 1
        self._dim = entry.arms.shape[1]
        if entry.reward is None:
            self._tokens[entry.token] = entry

    def _entry(self, decision: Any, arms: Any, ids: Any, context: Any) -> Entry:
        """A decision with its arms, or an error and nothing logged."""
        entry = entry_of(decision, arms, ids, context, number=self._next, dim=self._dim)
        if entry.token in self._logged:
            raise ValueError(
                f"DecisionLog.decided: token {entry.token} is in the log already: this decision "
                "was logged before, is another policy's, or the policy was loaded from before it. "
                "Keep a log for each policy, save the policy after it decides, or begin another "
                "log."
            )
        return entry

    @property
    def _turn(self) -> Any:
        """The lock of its calls; where a fork has left it to another process it is not waited for,
        since a thread that is not here may hold it.
        """
        if self._pid != os.getpid():
            raise RuntimeError(
                f"{self.path}: this DecisionLog was opened by another process, before a fork. "
                "One process writes a log."
            )
        return self._calls

    def _check_open(self) -> None:
        if self._journal < 0:
            raise ValueError(f"{self.path}: this DecisionLog is closed. Open it again.")
        if self._broken:
            raise OSError(f"{self.path}: {self._broken} Open it again.")

    def _write(self, content: bytes) -> None:
        """Append to the journal, and to the disk when a group is full; all of it, or nothing.

        The log counts as broken until the caller has taken note of it and says otherwise.
        """
        if not same_file(self._journal, os.path.join(self.path, JOURNAL)):
            self._broken = f"its {JOURNAL} was removed or replaced by somebody else."
            self._check_open()
        unsafe = self._unsafe
        self._broken = INTERRUPTED
        try:
            with worded(self.path, "nothing was logged"):
                left = memoryview(content)
                while left:
                    left = left[os.write(self._journal, left) :]
            self._unsafe += 1
            if self._unsafe >= self._group:
                self._sync()
        except BaseException:  # an interrupt too
            self._cut(self._size, unsafe)
            raise
        self._size += len(content)

    def _cut(self, before: int, unsafe: int) -> None:
        """Back to the last record that was acknowledged."""
        try:
            os.ftruncate(self._journal, before)
        except OSError as error:
            self._broken = f"a record was torn off and could not be removed ({error.strerror})."
        else:
            self._unsafe = unsafe
            if self._broken == INTERRUPTED:
                self._broken = ""

    def _sync(self) -> None:
        if self._unsafe:
            try:
                os.fsync(self._journal)
            except OSError as error:  # what the system still holds back is not known from here on
                self._broken = f"the disk failed ({error.strerror}); the last records may be lost."
                raise OSError(error.errno, f"{self.path}: {self._broken}") from None
            self._unsafe = 0

    def _settle(self, least: int, final: bool = False) -> None:
        """Make a part of the first decisions, where ``least`` of them are complete, or too many
        wait.
        """
        queue = self._entries
        numbers = range(self._first + self._ready, self._next)
        for number in numbers:
            if queue[number].reward is None:
                break
            self._ready += 1
        count = self._ready
        if len(queue) >= self._most + min(self._rows, self._most):
            count = max(count, len(queue) - self._most)
        elif count < least:
            return
        if not final and self._retry > self._next:
            return
        self._sync()
        try:
            self._move(count)
        except (OSError, MemoryError):
            if final:
                raise
            self._retry = self._next + self._rows  # what was logged is safe in the journal

    def _move(self, count: int) -> None:
        """The first ``count`` decisions from the journal to a part of their own.

        Every descriptor that is needed after a rename is there before it. Between, the log counts
        as broken: whatever is raised there, it acknowledges nothing until it is opened again.
        """
        first = self._first + count
        gone = [self._entries[number] for number in range(self._first, first)]
        kept = [self._entries[number] for number in range(first, self._next)]
        part = os.path.join(self.path, f"part-{self._first:012d}.parquet")
        content = parquet(gone)
        with opened_folder(self.path) as sync:
            self._broken = INTERRUPTED
            try:
                replace(part, content)
            except OSError:
                if not os.path.lexists(part):
                    self._broken = ""  # nothing has changed
                raise
            self._first, self._ready = first, 0
            self._entries = {entry.number: entry for entry in kept}
            for entry in gone:
                if entry.reward is None:
                    del self._tokens[entry.token]
            sync()  # before the journal forgets them
            self._renew(first, kept)
            sync()
            self._broken = ""

    def _renew(self, first: int, kept: list[Entry]) -> None:
        """A journal of what is kept in the place of the old one; written to from then on."""
        content = begun(first, self._dim, kept)
        name = os.path.join(self.path, JOURNAL)
        try:
            fresh = written(name + NEW, content, os.fstat(self._journal).st_mode)
        except OSError:
            self._broken = ""  # the old one is in its place, and has all that the new one would
            raise
        try:
            os.replace(name + NEW, name)
        except BaseException:
            if same_file(self._journal, name):
                self._broken = ""
            os.close(fresh)
            raise
        old, self._journal = self._journal, fresh
        self._size, self._unsafe = len(content), 0
        os.close(old)
