"""ht.Shared: each call is whole, and so are several under one ``with``."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks.policies import paid
from heavytail.policies import ALL

ARMS = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 3))
TAIL = ht.MomentBound(order=2.0, scale=0.5)
THREADS = 8


def made(kind: type[ht.Policy]) -> Any:
    return ht.make_policy(kind.name, dim=3, horizon=2000, tail=TAIL, arms=6)


def in_threads(call: Callable[[int], Any], count: int = THREADS) -> list[Exception]:
    """``call(k)`` in so many threads at once; what they raised."""
    failed: list[Exception] = []

    def work(k: int) -> None:
        try:
            call(k)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


class Watched(ht.policies.Uniform):  # type: ignore[misc]
    """Says how many threads were inside at once."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.inside = self.most = 0
        self.meeting = threading.Barrier(2, timeout=0.05)

    def update(self, x: Any, reward: float, *, scale: float | None = None) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        with contextlib.suppress(threading.BrokenBarrierError):
            self.meeting.wait()  # two threads meet here where nothing keeps them apart
        super().update(x, reward, scale=scale)
        self.inside -= 1


def test_two_threads_are_never_inside_at_once():
    shared = ht.Shared(Watched(3))
    assert in_threads(lambda k: shared.update(ARMS[k], 1.0), 2) == []
    assert shared.most == 1
    assert shared.rounds == 2


def test_without_the_lock_they_would_be():
    shared = ht.Shared(Watched(3))
    shared._lock = contextlib.nullcontext()
    shared._policy.meeting = threading.Barrier(2, timeout=60.0)
    assert in_threads(lambda k: shared.update(ARMS[k], 1.0), 2) == []
    assert shared.most == 2


class Recording(ht.TwinUCB):  # type: ignore[misc]
    """A policy that says in which order it learned."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.order: list[tuple[Any, float]] = []

    def update(self, x: Any, reward: float, *, scale: float | None = None) -> None:
        self.order.append((np.array(x), reward))
        super().update(x, reward, scale=scale)


def test_what_many_threads_teach_is_to_the_bit_what_one_would_in_that_order():
    shared = ht.Shared(Recording(3))

    def play(k: int) -> None:
        rng = np.random.default_rng(k)
        for _ in range(25):
            decision = shared.decide(ARMS, explore=0.3)
            shared.predict(ARMS)
            shared.diagnostics()
            shared.learn(decision, float(rng.standard_t(2.1)))
        shared.clone()

    assert in_threads(play) == []
    assert (shared.rounds, shared.pending) == (25 * THREADS, ())
    serial = ht.TwinUCB(3)
    for x, reward in shared.order:
        serial.update(x, reward)
    theirs = shared.state_arrays()
    for key, array in serial.state_arrays().items():
        np.testing.assert_array_equal(array, theirs[key])


def test_no_two_decisions_share_a_token_and_each_reward_is_its_own():
    shared, tokens = ht.Shared(ht.TwinUCB(3)), []

    def play(k: int) -> None:
        for _ in range(25):
            tokens.append(shared.decide(ARMS).token)

    assert in_threads(play) == []
    assert sorted(tokens) == list(range(25 * THREADS)) == list(shared.pending)


def test_calls_under_one_with_are_not_parted():
    shared = ht.Shared(ht.TwinUCB(3))

    def play(k: int) -> None:
        for _ in range(20):
            with shared as policy:
                before = policy.rounds
                policy.update(ARMS[k % 6], 1.0)
                shared.update(ARMS[0], 0.0)  # the same thread, by either name
                assert policy.rounds == before + 2

    assert in_threads(play) == []
    assert shared.rounds == 40 * THREADS


def test_a_policy_that_plays_an_arm_several_times_is_held_for_both():
    shared = ht.Shared(made(ht.policies.MENU))
    for call in (lambda: shared.select(ARMS), lambda: shared.update(ARMS[0], 1.0)):
        with pytest.raises(ValueError, match=r"MENU plays an arm several times.*with shared as"):
            call()
    shared.learn(shared.decide(ARMS), 1.0)

    def play(k: int) -> None:
        for _ in range(10):
            with shared as policy:
                offered = ARMS[k % 3 : k % 3 + 3]
                arm = policy.select(offered)
                policy.update(offered[arm], 0.5)

    assert in_threads(play) == []
    assert shared.rounds == 1 + 10 * THREADS


class Counted:
    """A lock that counts how often it was taken."""

    taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *error: object) -> None:
        pass


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_all_that_is_public_of_a_policy_is_under_the_lock(kind):
    shared = ht.Shared(made(kind))
    shared._lock = lock = Counted()
    names = [name for name in dir(shared._policy) if not name.startswith("_")]
    assert {"select", "decide", "learn", "expire", "save", "clone", "theta"} <= set(names)
    assert set(names) <= set(dir(shared))
    for name in names:
        before = lock.taken
        found = getattr(shared, name)
        assert lock.taken > before, name
        own = getattr(shared._policy, name)
        if getattr(own, "__self__", None) is shared._policy:
            before = lock.taken
            with contextlib.suppress(Exception):  # of most of them: arguments are missing
                found()
            paired = kind.info.repeats and name in ("select", "update")
            assert lock.taken > before or paired, name
            assert getattr(shared, name) is found


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_threads_teach_any_policy_through_it(kind):
    shared = ht.Shared(made(kind))

    def play(k: int) -> None:
        for i in range(3):
            with shared as policy:
                arm = policy.select(ARMS)
                policy.update(ARMS[arm], paid(policy, float(i)))
            shared.diagnostics()

    assert in_threads(play, 4) == []
    assert shared.rounds == 12


def test_it_is_saved_as_the_policy_and_copied_with_a_lock_of_its_own(tmp_path):
    shared = ht.Shared(ht.TwinUCB(3))
    shared.encoder = ht.Encoder(numbers={"a": (0.0, 1.0)}, categories={"b": ["x", "y"]})
    decision = shared.decide(ARMS)
    shared.save(tmp_path / "policy.npz")
    loaded = ht.load(tmp_path / "policy.npz")
    assert type(loaded) is type(shared.clone()) is ht.TwinUCB
    assert loaded.pending == (decision.token,)
    assert loaded.encoder.dim == 3
    for twin in (copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
        assert repr(twin) == repr(shared) == "Shared(TwinUCB(dim=3))"
        twin.learn(decision.token, 1.0)
    assert shared.rounds == 0


def test_what_it_cannot_wrap_or_set_is_refused():
    shared = ht.Shared(ht.TwinUCB(3))
    for wrong in (3, shared, ht.TwinUCB):
        with pytest.raises(TypeError, match="Shared: policy must be a Policy; got"):
            ht.Shared(wrong)
    with pytest.raises(AttributeError, match="TwinUCB has no property 'colour' to set"):
        shared.colour = "red"
    with pytest.raises(AttributeError, match="Use the policy in a with"):
        _ = shared._s
    with pytest.raises(AttributeError, match="colour"):
        _ = shared.colour
