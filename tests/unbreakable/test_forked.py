"""A process that is forked while another thread is at work: the copy answers or says why not."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.unbreakable.census import ARMS, CENSUS, SHORT

import heavytail as ht
from heavytail._turns import alone
from heavytail.kernels.jit import compiled

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

SECONDS = 30  # after which a child that hangs is killed


def forked(call: Callable[[], Any]) -> Any:
    """What ``call`` returns in a forked process, or the text of what it raises."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later versions of Python warn of threads
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            answer = call()
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the child hung or died"
    return pickle.loads(content)


@contextmanager
def another_thread(call: Callable[[Callable[[], None]], Any]) -> Iterator[None]:
    """Another thread in the middle of ``call``, where that waits."""
    arrived, leave = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        assert leave.wait(SECONDS)

    thread = threading.Thread(target=call, args=(wait,))
    thread.start()
    assert arrived.wait(SECONDS)
    try:
        yield
    finally:
        leave.set()
        thread.join()


class Slow:
    """Rows that wait when they are converted."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait

    def __array__(self, *_: Any, **__: Any) -> Any:
        self.wait()
        return ARMS


def in_update(policy: Any, wait: Callable[[], None]) -> None:
    """An update that waits where its kernel would run."""
    policy._grows, policy._reserve = True, lambda rounds: wait()
    policy.update(ARMS[0], 1.0)


CALLS: dict[str, Callable[[Any, Callable[[], None]], Any]] = {
    "update": in_update,
    "update_many": lambda policy, wait: policy.update_many(Slow(wait), np.ones(len(ARMS))),
}
ASKED: dict[str, Callable[[Any], Any]] = {
    "select": lambda policy: policy.select(ARMS),
    "update": lambda policy: policy.update(ARMS[0], 1.0),
    "decide": lambda policy: policy.decide(ARMS).arm,
    "theta": lambda policy: policy.theta,
    "clone": lambda policy: policy.clone(),
    "to_bytes": lambda policy: policy.to_bytes(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("call", CALLS)
def test_a_policy_that_another_thread_was_changing_is_refused_in_the_child(call, asked):
    policy = ht.OFUL(3, noise_scale=1.0)
    with another_thread(lambda wait: CALLS[call](policy, wait)):
        answer = forked(lambda: ASKED[asked](policy))
    assert answer.startswith("RuntimeError: OFUL: this process was forked")
    assert "clone" in answer
    ASKED[asked](policy)  # the parent goes on


def test_no_thread_of_the_child_is_taken_for_the_one_that_is_gone():
    """The system gives new threads the identifiers of old ones."""
    policy = ht.OFUL(3, noise_scale=1.0)

    def ask() -> list[str]:
        answers: list[str] = []

        def select() -> None:
            try:
                answers.append(str(policy.select(ARMS)))
            except RuntimeError as error:
                answers.append(str(error))

        for _ in range(5):
            thread = threading.Thread(target=select)
            thread.start()
            thread.join()
        return answers

    with another_thread(lambda wait: CALLS["update_many"](policy, wait)):
        answers = forked(ask)
    assert len(answers) == 5
    assert all("was forked" in answer for answer in answers)


def test_what_no_other_thread_was_changing_works_in_the_child():
    policy, other = ht.OFUL(3, noise_scale=1.0), ht.OFUL(3, noise_scale=1.0)

    def use() -> int:
        other.update_many(ARMS, np.ones(len(ARMS)))
        threads = [threading.Thread(target=other.update, args=(ARMS[0], 1.0)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return other.clone().rounds

    with another_thread(lambda wait: CALLS["update_many"](policy, wait)):
        assert forked(use) == len(ARMS) + 4


def test_a_thread_that_waited_for_its_turn_does_not_keep_it_in_the_child():
    policy = ht.OFUL(3, noise_scale=1.0)
    waiting = threading.Thread(target=lambda: policy.theta)

    class Forks:
        def __array__(self, *_: Any, **__: Any) -> Any:
            waiting.start()
            while policy._next_turn is None:
                time.sleep(1e-5)
            self.child = os.fork()
            return ARMS

    rows = Forks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy.update_many(rows, np.ones(len(ARMS)))
    if rows.child == 0:
        signal.alarm(SECONDS)
        policy.select(ARMS)
        policy.update(ARMS[0], 1.0)
        os._exit(policy.rounds)
    waiting.join()
    _, status = os.waitpid(rows.child, 0)
    assert os.waitstatus_to_exitcode(status) == len(ARMS) + 1


def test_a_call_that_forks_goes_on_in_the_child():
    policy = ht.OFUL(3, noise_scale=1.0)

    class Forks:
        answer: Any = None

        def __array__(self, *_: Any, **__: Any) -> Any:
            self.answer = forked(lambda: policy.theta.tolist())  # its own thread is at work on it
            return ARMS

    rows = Forks()
    policy.update_many(rows, np.ones(len(ARMS)))
    assert rows.answer == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", SHORT)
def test_whatever_learns_says_in_the_child_that_another_thread_was_at_work(name):
    """The turn is taken by hand: no call of all classes waits."""
    subject = CENSUS[name]()
    part = getattr(subject, "model_", subject)
    with another_thread(lambda wait: alone(lambda self: wait())(part)):
        answer = forked(lambda: subject.saved_arrays() and "answered")
    # An encoder learns aside, and what it knows is replaced in one step.
    assert answer == "answered" if name == "Encoder" else "was forked" in answer


def test_a_shared_policy_is_refused_where_another_thread_held_it():
    shared, free = ht.Shared(ht.OFUL(3, noise_scale=1.0)), ht.Shared(ht.OFUL(3, noise_scale=1.0))

    def hold(wait: Callable[[], None]) -> None:
        with shared:
            wait()

    shared.select(ARMS)  # a method that was looked up before
    with another_thread(hold):
        for ask in (lambda: shared.select(ARMS), lambda: shared.rounds, lambda: repr(shared)):
            assert forked(ask).startswith("RuntimeError: Shared: this process was forked")
        assert forked(lambda: free.rounds) == 0
    with shared:
        assert forked(lambda: shared.rounds) == 0  # its own thread holds it


def test_a_decision_log_is_refused_where_another_thread_was_writing(tmp_path):
    policy = ht.OFUL(3, noise_scale=1.0)
    log = ht.DecisionLog(tmp_path / "log")

    def use() -> str:
        log.close()
        try:
            log.decided(policy.decide(ARMS), ARMS)
        except RuntimeError as error:
            return str(error)
        return "logged"

    with another_thread(lambda wait: log.decided(policy.decide(ARMS), Slow(wait))):
        assert "was opened by another process" in forked(use)
    log.close()


@pytest.mark.skipif(not compiled(), reason="nothing is compiled")
def test_a_child_can_compile_though_another_thread_was_compiling():
    from numba.core.compiler_lock import global_compiler_lock

    def lock() -> str:
        with global_compiler_lock:
            return "compiled"

    arrived = threading.Event()

    def hold() -> None:
        with global_compiler_lock:
            arrived.set()
            threading.Event().wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    assert arrived.wait(SECONDS)
    assert forked(lock) == "compiled"
    thread.join()


def test_a_pool_of_forked_processes_decides_while_a_thread_learns():
    policy, stop = ht.OFUL(3, noise_scale=1.0), threading.Event()

    def teach() -> None:
        while not stop.is_set():
            policy.update(ARMS[0], 1.0)
            stop.wait(1e-4)

    thread = threading.Thread(target=teach)
    thread.start()
    try:
        copy = policy.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                chosen = pool.map_async(copy.select, [ARMS] * 4).get(SECONDS)
    finally:
        stop.set()
        thread.join()
    assert chosen == [copy.select(ARMS)] * 4
