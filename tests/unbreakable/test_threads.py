"""Threads that share one object are served in turn."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import numpy as np
import pytest
from tests.fuzz import deciders
from tests.unbreakable.census import (
    ARMS,
    CENSUS,
    SHORT,
    snapshot,
    teach,
)

import heavytail as ht
from heavytail import control
from heavytail._turns import AT_WORK, alone
from heavytail.estimators.base import Regression


def in_threads(call: Callable[[], None]) -> None:
    """``call`` in three threads at once."""
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("name", SHORT)
def test_threads_that_share_it_read_and_copy_a_whole_state(name):
    subject, failed = CENSUS[name](), []

    def use() -> None:
        try:
            for _ in range(6):
                if isinstance(subject, Regression):
                    subject.partial_fit(np.eye(3), np.ones(3))
                    subject.predict(np.eye(3))
                elif isinstance(subject, ht.Policy):
                    teach(subject, 2)
                elif isinstance(subject, ht.Encoder):
                    subject.partial_fit({"price": [1.0, 2.0], "kind": ["a", "c"], "sku": [1, 2]})
                    subject.transform({"price": 1.0, "kind": "a", "sku": 1})
                elif isinstance(subject, control.Controller):
                    subject.update(np.zeros(3), subject.act(np.zeros(3)), np.ones(3))
                elif isinstance(subject, control.Identifier):
                    subject.update(np.zeros(3), np.ones(3), np.ones(3))
                elif isinstance(subject, ht.Decider):
                    deciders.play(subject, np.random.default_rng(subject.rounds))
                    subject.report()
                else:
                    _ = subject.policy
                for key, array in subject.saved_arrays().items():
                    is_whole = array.dtype.kind == "f" and key not in deciders.MAY_MISS
                    assert not (is_whole and np.isnan(array).any())
        except Exception as error:
            failed.append(error)

    in_threads(use)
    assert not failed
    if hasattr(subject, "clone"):
        assert snapshot(subject.clone()) == snapshot(subject)


def test_a_decision_is_learned_once_whoever_learns_it():
    policy = ht.OFUL(3, noise_scale=1.0)
    for _ in range(30):
        decision, refused = policy.decide(ARMS), []

        def learn(decision=decision, refused=refused) -> None:
            try:
                policy.learn(decision, 1.0)
            except ValueError as error:
                refused.append(error)

        in_threads(learn)
        assert len(refused) == 2
    assert (policy.rounds, policy.pending) == (30, ())


def test_whoever_waits_is_served_before_a_thread_that_calls_without_a_pause():
    policy, served = ht.OFUL(3, noise_scale=1.0), threading.Event()

    def work() -> None:
        while not served.is_set() and policy.rounds < 1_000_000:
            for _ in range(1000):
                policy.update(ARMS[0], 1.0)

    working = threading.Thread(target=work)
    working.start()
    for _ in range(60):
        policy.clone()
    served.set()
    working.join()
    assert policy.rounds < 1_000_000


def test_a_copy_that_is_made_in_the_middle_of_a_call_does_not_wait_for_its_end():
    made = CENSUS["Encoder"]()
    copies = alone(lambda self: [copy.copy(self), copy.deepcopy(self)])(made)
    rows = {"price": [1.0, 2.0], "kind": ["a", "c"], "sku": [1, 2]}
    threads = [
        threading.Thread(target=one.partial_fit, args=(rows,), daemon=True) for one in copies
    ]
    for thread in threads:
        thread.start()
        thread.join(20.0)
        assert not thread.is_alive()


def test_room_is_made_in_turn():
    """Rows are copied into a larger room: one that a kernel writes meanwhile would be lost."""
    one = CENSUS["HeavyOFUL "]()
    one._inside = (AT_WORK[0], -1)  # another thread's turn
    maker = threading.Thread(target=one.reserve, args=(1000,))
    maker.start()
    maker.join(0.05)
    assert maker.is_alive()
    one._inside = None
    maker.join()
    assert len(one._H) > 1000


@pytest.mark.parametrize("rounds", [-1, 0.5, "x", None, np.nan, 10**30])
def test_room_for_no_number_of_rounds_is_refused(rounds):
    with pytest.raises((ValueError, TypeError), match=r"HeavyOFUL.reserve: rounds must be"):
        CENSUS["HeavyOFUL "]().reserve(rounds)
