"""Stores with a long past, what is read of them, and their archiving step by step."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections.abc import Iterator

from heavytail.ledger import archive
from heavytail.ledger.details import Detail, pack
from heavytail.ledger.layout import DecisionRow, ModelRow
from heavytail.ledger.opening import opened
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import first_key
from heavytail.ledger.transaction import Transaction
from heavytail.serve import archiving
from heavytail.serve.archiving import DAY, Retention

KEEP = Retention(30.0 * DAY, "archive")
PAST = 90.0 * DAY  # seconds of a past


class Past:
    """A model with decisions and outcomes of ninety days: rewards out of order and by default,
    decisions that wait, that were given up, and changes of offers.
    """

    def __init__(self, store: Store, seed: int, rounds: int = 150) -> None:
        self.rng, self.now = random.Random(seed), time.time() - PAST
        self.waiting: list[DecisionRow] = []
        self.clock, store.clock = store.clock, lambda: self.now  # type: ignore[method-assign]
        (self.row,), _ = store.apply([lambda tx: tx.create("shop", '{"dim": 2}')])
        for _ in range(rounds):
            self.now += PAST / rounds * self.rng.uniform(0.5, 1.5)
            store.apply([self.step])
        store.apply([lambda tx: tx.snapshot(self.row.id, tx.last(self.row.id), b"state", "")])
        store.clock = self.clock  # type: ignore[method-assign]

    def step(self, tx: Transaction) -> None:
        for _ in range(self.rng.randrange(3)):
            self.decide(tx)
        for _ in range(self.rng.randrange(3)):
            if self.waiting:
                decision = self.waiting.pop(self.rng.randrange(len(self.waiting)))
                by_default = self.rng.random() < 0.2
                scale = None if self.rng.random() < 0.5 else self.rng.random()
                tx.reward(decision, self.rng.gauss(0.0, 1.0), scale, by_default=by_default)
        if self.rng.random() < 0.05:
            tx.change(self.row.id, self.rng.randbytes(9))
        if self.rng.random() < 0.05 and self.waiting:
            self.waiting.sort(key=lambda each: each.key)
            gone = self.waiting[: 1 + len(self.waiting) // 2]
            self.waiting = self.waiting[len(gone) :]
            tx.swept(self.row.id, max(gone[-1].key, tx.sweeping(self.row.id)), len(gone))

    def decide(self, tx: Transaction) -> None:
        key = first_key(self.now)[:6] + self.rng.randbytes(16)
        arms = self.rng.randbytes(48)
        detail = Detail(3, self.rng.random(), None, "b", ["a", "b", "c"], arms, None, {"n": 1})
        request = self.rng.randbytes(8) if self.rng.random() < 0.5 else None
        row = DecisionRow(
            self.row.id, key, tx.last(self.row.id), 1, arms[16:32], request, pack(detail)
        )
        tx.decide(row)
        self.waiting.append(row)


def everything(store: Store, model: int, seed: int = 0) -> list[object]:
    """What all reads of a log give."""
    rng, row = random.Random(seed), store.model(model)
    assert row is not None
    logged = [*itertools.chain.from_iterable(store.logged(model))]
    keys = [b"", *(bytes(each[0]) for each in logged), bytes([255] * 32)]
    read: list[object] = [
        logged, store.width(model), store.latest(model), store.rewards(model),
        store.waiting(model), store.decisions(model),
        store.outcomes(model, 0, 10**6), store.learned(model, 0, 10**6),
        store.details(model, 0, row.last), store.decided(model, b"", keys[-1], 10**6),
    ]  # fmt: skip
    for _ in range(5):
        after, limit = rng.randrange(row.last + 2), rng.choice([1, 4, 30, 200])
        first, last = sorted(rng.choices(keys, k=2))
        read += [
            store.outcomes(model, after, limit), store.learned(model, after, limit),
            store.details(model, after, after + limit), store.decided(model, first, last, limit),
            store.decided_by(model, first),
        ]  # fmt: skip
    return read


def steps(store: Store, row: ModelRow, retention: Retention = KEEP) -> Iterator[str]:
    """Archive the old rows of a model; each step is what a kill may be before or after."""
    ended = threading.Event()
    while True:
        files = store.files(row.id)
        if files and not files[-1].complete:
            given_up = store.archive.given_up(files[-1])
            more = True
            while more:
                yield "to delete"
                number = files[-1].number
                work = lambda tx: archiving._piece(tx, row.id, number, given_up)  # noqa: B023, E731
                (more,), _ = store.apply([work])
                yield "deleted"
        file = archiving._written(store, row.id, retention, time.time(), ended)
        if file is None:
            return
        yield "written"
        (recorded,), _ = store.apply([lambda tx: archiving._record(tx, file)])  # noqa: B023
        assert recorded
        yield "recorded"


if __name__ == "__main__":  # archives a store, until it is killed
    archive.MOST, archiving.PIECE, archiving.FEW = 50, 2, 1
    opened_store = opened(sys.argv[1])
    for step in steps(opened_store, opened_store.models()[0]):
        print(step, flush=True)
