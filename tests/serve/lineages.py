"""The states that models must have by their logs, derived without the service's own code."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from heavytail._load import from_bytes
from heavytail.decider import Decider
from heavytail.ledger.details import unpack
from heavytail.ledger.layout import CHANGE
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import time_of
from heavytail.serve.model import built
from heavytail.serve.wire import ModelSpec

RESTORED = "restored from "  # and the number of the snapshot
BEGUN = (RESTORED, "forked from ", "learned the log ", "an uploaded file")  # begin a line of states


def expected(store: Store, number: int) -> tuple[bytes, int]:
    """The state of a model by the logs that it learns, and the number of the last outcome."""
    learner, version = followed(store, number, sorted(store.snapshots(number)), math.inf)
    return learner.to_bytes(), version


def followed(store: Store, number: int, kept: list, last: float) -> tuple[Any, int]:
    """The learner at the end of the line of states that the last of ``kept`` belongs to, after
    outcome ``last`` at most, and the number of the outcome that it is after.
    """
    row = store.model(number)
    assert row is not None
    begun = [i for i, each in enumerate(kept) if each[3].startswith(BEGUN)]
    if begun:
        first, version, _, note = kept[begun[-1]]
        learner = from_bytes(store.snapshot_data(number, first), name="the first snapshot")
        before = [each for each in kept if str(each[0]) == note.removeprefix(RESTORED)]
        if before:  # by the log, and not by the copy
            earlier = [each for each in kept if each[0] <= before[0][0]]
            copy, learner = learner, followed(store, number, earlier, before[0][1])[0]
            assert learner.to_bytes() == copy.to_bytes(), f"{note} of model {number}"
    else:
        version, learner = 0, built(msgspec.json.decode(row.spec, type=ModelSpec))
    for model, until in lineage(store, number):
        for seq, _, kind, reward, scale, x in store.outcomes(model, version, 10**9):
            if seq > min(until, last):
                break
            assert seq == version + 1, f"outcome {version + 1} of model {model} is missing"
            version = seq
            if isinstance(learner, Decider):
                observe(store, learner, model, (seq, kind, reward, x))
            else:
                learner.update(np.frombuffer(x), reward, scale=scale)
    return learner, version


def lineage(store: Store, number: int) -> list[tuple[int, float]]:
    """The models whose outcomes a model learns, and up to which number."""
    row = store.model(number)
    assert row is not None
    if row.follows is not None:
        return lineage(store, row.follows)
    if row.origin is None:
        return [(number, np.inf)]
    earlier = lineage(store, row.origin)
    return [*earlier[:-1], (earlier[-1][0], row.since), (number, np.inf)]


def observe(store: Store, decider: Decider, model: int, outcome) -> None:
    """Let a Decider learn an outcome of the log."""
    seq, kind, reward, x = outcome
    if kind == CHANGE:
        rows, retired = msgspec.msgpack.decode(x)
        if rows:
            decider.add(rows)
        for name in retired:
            decider.retire(name)
        return
    (key, packed) = store.details(model, seq - 1, seq)[seq]
    detail = unpack(packed)
    decider.observe(
        detail.context, detail.id, reward, probability=detail.probability,
        time=time_of(key) if detail.made is None else detail.made, selected=True,
    )  # fmt: skip


def differing(store: Store, client) -> list[str]:
    """The loaded models whose state is not what their logs lead to."""
    names = []
    with store.reader() as reader:  # outside of any transaction, which may not idle
        for name, model in client.app.state.service.models.items():
            state, last = expected(reader, model.row.id)
            if (model.policy.to_bytes(), model.version) != (state, last):
                names.append(f"{name} after {model.version} of {last}")
    return names
