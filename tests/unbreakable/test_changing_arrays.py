"""An array that is written to while a policy reads it: what was admitted is what is learned."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.fuzz import deciders
from tests.fuzz.player import through_file
from tests.unbreakable.census import ARMS, CENSUS, POLICIES, snapshot
from tests.unbreakable.test_interrupted import moments

import heavytail as ht
from heavytail.checks.policies import paid
from heavytail.policies.core.base import PackedPolicy

PACKED = [name for name, (kind, _) in POLICIES.items() if issubclass(kind, PackedPolicy)]
PACKED += [
    "TwinUCB with an encoder"
]  # none is built here, which would compile while tests are found


@pytest.mark.parametrize("name", PACKED)
def test_features_that_a_round_overwrites_are_learned_as_they_came(name):
    subject = CENSUS[name]()
    twin, reward = subject.clone(), paid(subject, 0.7)
    for row in (1, 2, 3):  # the kernels' own room: what another thread does, at a sure moment
        subject._M[row, :3] = twin._M[row, :3] = ARMS[row]
        subject.update(subject._M[row, :3], reward)
        twin.update(ARMS[row].copy(), reward)
        assert snapshot(subject) == snapshot(twin)


@pytest.mark.parametrize("column", ["reward", "propensity", "time"])
def test_a_log_that_is_written_to_while_it_is_read_is_learned_or_refused_whole(column):
    start = deciders.without_context()
    log = deciders.log(start, np.random.default_rng(0), 20) | {"time": np.full(20, 1e6)}
    count = moments(lambda: start.clone().learn(log, progress=False))
    for at in range(1, count, max(1, count // 30)):
        subject, mine = start.clone(), {**log, column: log[column].copy()}
        before = snapshot(subject)
        try:
            at_moment(at, partial(subject.learn, mine, progress=False), mine[column].fill)
        except ValueError:
            assert snapshot(subject) == before
        assert snapshot(through_file(subject)) == snapshot(subject)


def at_moment(at: int, call: Callable[[], Any], write: Callable[[float], None]) -> None:
    """Make the call; infinity is written at one of its moments."""
    count = 0

    def look(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == at:
                sys.setprofile(None)
                write(np.inf)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)


def test_a_batch_that_a_thread_writes_to_is_learned_or_refused_by_a_sentence():
    policy, X, paid_out = ht.TwinUCB(3), np.tile(ARMS, (50, 1)), np.ones(300)
    done = threading.Event()

    def spoil() -> None:
        while not done.is_set():
            X[:, 0] = np.nan
            X[:, 0] = 0.1

    writer = threading.Thread(target=spoil)
    writer.start()
    try:
        for _ in range(60):
            try:
                policy.update_many(X, paid_out)
            except ValueError as error:
                assert "must be finite" in str(error)  # noqa: PT017
    finally:
        done.set()
        writer.join()
    assert not any(np.isnan(array).any() for array in policy.saved_arrays().values())
