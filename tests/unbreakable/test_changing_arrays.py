"""An array that is written to while a policy reads it: what was admitted is what is learned."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.unbreakable.census import ARMS, CENSUS, POLICIES, snapshot

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
