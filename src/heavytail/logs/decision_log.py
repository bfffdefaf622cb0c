"""A log on disk of decisions and their rewards, written as they are made.

A log is a store with one model that decides nothing. Its tables are those of ``heavytail serve``,
so the same code reads both. A decision's key consists of its time, its number and its token. If a
clock was set back, the key has the time of the decision before, so that keys are in the order of
the decisions.
"""

from __future__ import annotations

import os
import threading
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from heavytail._extras import need
from heavytail._validate import check_count, check_number, check_reward, shown
from heavytail.ledger.decision import Decision, Outcome, token_of
from heavytail.ledger.layout import FILE, DecisionRow, ModelRow, OutcomeRow, is_sound
from heavytail.ledger.memory import expiry
from heavytail.ledger.refusal import Refusal, StoreError
from heavytail.ledger.tokens import MOMENT, NUMBER, first_key, int_token
from heavytail.logs.entries import Entry, checked_entry
from heavytail.logs.reading.files import refuse_earlier

if TYPE_CHECKING:
    from heavytail.ledger.store import Store
    from heavytail.ledger.transaction import Transaction

__all__ = ["DecisionLog"]

Found = TypeVar("Found")
OUTCOMES = 4096  # that are read at a time


class DecisionLog:
    """A log of decisions, written as they are made; ``ht.evaluate`` reads it.

    When ``decided`` or ``rewarded`` returns, its record is on disk: a killed process loses nothing.
    A log has one writer at a time, whose threads may share it. A decision and a reward each cost
    one write to the disk. Memory does not grow.

    >>> import heavytail as ht, tempfile
    >>> policy, arms = ht.TwinUCB(2), [[1.0, 0.0], [0.0, 1.0]]
    >>> folder = tempfile.TemporaryDirectory()
    >>> with ht.DecisionLog(folder.name + "/log") as log:
    ...     decision = policy.decide(arms, explore=0.1)
    ...     log.decided(decision, arms)
    ...     log.rewarded(decision, 3.0)
    >>> folder.cleanup()

    Args:
        path: the folder, created if missing; or ``postgresql://USER@HOST/DATABASE``.
        group: number of records that are forced to the disk together. With more than 1 a power cut
            may lose the last ``group`` - 1; a killed process still loses none.
    """

    def __init__(self, path: str | os.PathLike[str], *, group: int = 1) -> None:
        need("a DecisionLog", "msgspec", "pyarrow", extra="logs")
        from heavytail.ledger.opening import is_database, opened

        if not isinstance(path, str | os.PathLike) or "\0" in str(path):
            raise TypeError(f"DecisionLog: path must name a folder, as text; got {shown(path)}.")
        self.path = os.fspath(path)
        self._calls = threading.RLock()
        self._pid = os.getpid()
        group = check_count("DecisionLog.group", group)
        if not is_database(self.path):
            _check_folder(self.path)
        self._store: Store | None = opened(self.path)
        try:
            self._model = self._do(_log_of)
            self._dim = self._store.width(self._model.id)
            self._store.group = group
        except BaseException:
            self._store.close()
            raise

    def decided(
        self,
        decision: Decision,
        arms: ArrayLike,
        ids: Sequence[str | int] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Log a decision with the arms that were offered.

        Refuses an inconsistent decision, or a token that is already in the log; then nothing is
        logged.

        Args:
            decision: the result of ``policy.decide``.
            arms: the offered arms: features (n, dim), or the result of ``encoder.arms``.
            ids: names of the arms; those of ``encoder.arms`` unless given.
            context: the round's context for ``encoder.arms``: text, numbers, bools and None by
                name, at most 64 KiB as JSON. With it and ids another encoder can encode the log
                again.
        """
        where = "DecisionLog.decided"
        with self._turn:
            entry = checked_entry(decision, arms, ids, context, dim=self._dim, where=where)
            self._do(lambda tx: self._decide(tx, entry))
            self._dim = entry.arms.shape[1]

    def _decide(self, tx: Transaction, entry: Entry) -> DecisionRow:
        """Log an entry within a transaction."""
        from heavytail.ledger.details import Detail, pack

        token = entry.token.to_bytes(NUMBER, "big")
        if tx.requested(self._model.id, token) is not None:
            raise ValueError(
                f"DecisionLog.decided: token {entry.token} is in the log already: this decision "
                "was logged before, is another policy's, or the policy was loaded from before it. "
                "Keep a log for each policy, save the policy after it decides, or begin another "
                "log."
            )
        last = tx.latest(self._model.id) or bytes(MOMENT + 2 * NUMBER)
        when = tx.now if entry.time is None else entry.time
        number = int.from_bytes(last[MOMENT:-NUMBER], "big") + 1
        moment = max(first_key(when)[:MOMENT], last[:MOMENT])
        ids: list[str | int] | None = None if entry.ids is None else [*entry.ids]
        name = None if ids is None else ids[entry.arm]
        detail = Detail(
            len(entry.arms), entry.probability, entry.score, name, ids,
            entry.arms.astype("<f8").tobytes(), None, entry.context, when,
        )  # fmt: skip
        row = DecisionRow(
            self._model.id, moment + number.to_bytes(NUMBER, "big") + token, 0, entry.arm,
            entry.arms[entry.arm].astype("<f8").tobytes(), token, pack(detail),
        )  # fmt: skip
        tx.decide(row)
        return row

    def rewarded(
        self, decision: Decision | SupportsIndex, reward: float, time: float | None = None
    ) -> None:
        """Log the reward of a Decision, or of its token, and when it came (now, unless given)."""
        where = "DecisionLog.rewarded"
        from msgspec import MsgspecError

        token = check_count(f"{where}: token", token_of(decision, where), least=0)
        value = check_reward(f"{where}: reward", reward)
        when = clock.time() if time is None else check_number(f"{where}: time", time)

        def work(tx: Transaction) -> None:
            row = tx.requested(self._model.id, token.to_bytes(NUMBER, "big"))
            if row is not None and not is_sound(row):
                raise self._damaged(f"the decision of token {token}")
            if row is None or (
                row.key <= tx.sweeping(self._model.id)
                or tx.outcome(self._model.id, row.key) is not None
            ):
                raise ValueError(
                    f"{where}: token {token} does not wait: it was not logged, was rewarded "
                    "already, or waited too long. Nothing was logged."
                )
            try:
                same = not isinstance(decision, Decision) or _same(row, decision)
            except (ValueError, MsgspecError):
                raise self._damaged(f"the decision of token {token}") from None
            if not same:
                raise ValueError(
                    f"{where}: the decision that was logged under token {token} is another. "
                    "Nothing was logged."
                )
            tx.reward(row, value, None, when=when)

        self._do(work)

    def expire(
        self, age: int | None = None, *, older_than: float | None = None, now: float | None = None
    ) -> int:
        """Expire all waiting decisions but the last ``age``, or those that have waited longer than
        ``older_than`` seconds; returns how many. Their rewards are refused from then on.
        """
        count, before = expiry("DecisionLog.expire", age, older_than, now)

        def work(tx: Transaction) -> int:
            model = self._model.id
            tx.last(model)  # no one else can reward until the commit
            end = first_key(before) if count is None else tx.latest(model, skip=count)
            old = [key for key in tx.store.waiting(model) if key <= end]
            if old:
                tx.swept(model, old[-1], len(old))
            return len(old)

        return int(self._do(work))

    def since(self, seq: int) -> Iterator[Outcome]:
        """The outcomes after number ``seq``, from 1 on, in the order in which rewards came."""
        return self._since(check_count("DecisionLog.since: seq", seq, least=0))

    def _since(self, seq: int) -> Iterator[Outcome]:
        def after(store: Store) -> list[OutcomeRow]:
            return store.outcomes(self._model.id, seq, OUTCOMES)

        while rows := self._read(after):
            for row in rows:
                if not is_sound(row):
                    raise self._damaged(f"the outcome after number {seq}")
                seq = row.seq
                yield Outcome(seq, int_token(row.key), row.reward)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write the log as Parquet, for other tools; returns the number of decisions. The reward of
        a waiting decision is null. An existing file is replaced once the new one is complete.
        """
        from heavytail.ledger.export import export_log

        return int(self._read(lambda store: export_log(store, self._model, path)))

    def flush(self) -> None:
        """Force records held back by ``group`` to the disk."""
        self._read(lambda store: store.flush())

    def close(self) -> None:
        """Force all records to the disk and release the log for other writers. Closing twice is
        allowed.
        """
        if self._pid != os.getpid():
            return
        with self._turn:
            store, self._store = self._store, None
            if store is not None:
                try:
                    store.flush()
                finally:
                    store.close()

    @property
    def waiting(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""
        keys = self._read(lambda store: store.waiting(self._model.id))
        return tuple(map(int_token, keys))

    @property
    def decisions(self) -> int:
        """Number of logged decisions, with or without a reward."""
        return int(self._read(lambda store: store.decisions(self._model.id)))

    def __fspath__(self) -> str:
        return self.path

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse copies and pickles: two logs would write to one store."""
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

    @property
    def _turn(self) -> threading.RLock:
        """The lock of its calls. A forked process does not wait for it, since a thread of its
        parent may hold it.
        """
        if self._pid != os.getpid():
            raise RuntimeError(
                f"{self.path}: this DecisionLog was opened by another process, before a fork. "
                "One process writes a log."
            )
        return self._calls

    def _read(self, call: Callable[[Store], Found]) -> Found:
        """Return the result of ``call`` on the store, which no other thread uses meanwhile."""
        with self._turn:
            if self._store is None:
                raise ValueError(f"{self.path}: this DecisionLog is closed. Open it again.")
            try:
                return call(self._store)
            except OverflowError:  # a count in it goes on beyond all: what is passed in is checked
                raise self._damaged("a number") from None

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path}: {what} is damaged. Restore the log from a backup.")

    def _do(self, *operations: Callable[[Transaction], Found]) -> Found:
        """Run all operations in one commit; return the result of the last, once it is on disk."""

        def apply(store: Store) -> Found:
            try:
                result = store.apply(operations)[0][-1]
            except BaseException:  # an interrupt too
                store.rollback()
                raise
            if isinstance(result, Refusal):
                raise ValueError(f"{self.path}: {result.message}")
            return result

        return self._read(apply)


def _check_folder(path: str) -> None:
    """Refuse a folder that is not a DecisionLog's, or is of an earlier format."""
    refuse_earlier(path)
    here = os.listdir(path) if os.path.isdir(path) else []
    if here and FILE not in here and set(here) - {"lock", "commits"}:
        raise ValueError(
            f"{path} is no folder of a DecisionLog: it has no {FILE}, but {shown(min(here))}. Pass "
            "a new folder."
        )


def _log_of(tx: Transaction) -> ModelRow:
    """The model of the decisions; created if missing."""
    from heavytail.ledger.export import LOG

    models = tx.store.models()
    if not models:
        return tx.create("log", LOG)
    if len(models) > 1 or models[0].spec != LOG:
        raise ValueError(
            "DecisionLog: this store is that of a service, which has models of its own. Pass "
            "another folder."
        )
    return models[0]


def _same(row: DecisionRow, decision: Decision) -> bool:
    """Tell whether a row is this decision, not another one with the same token."""
    from heavytail.ledger.details import unpack

    x = np.frombuffer(bytes(row.x), "<f8")
    return (
        row.arm == decision.arm
        and decision.time in (None, unpack(bytes(row.detail)).made)
        and np.array_equal(x, decision.x)
    )
