"""What comes in the middle of a call, an interrupt or a signal handler, leaves a whole state."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.test_storage import WORLD, agent
from tests.unbreakable.census import ARMS, CENSUS, MODES, TAIL, policy, snapshot

import heavytail as ht
from heavytail import control, estimators, mdp
from heavytail._signals import is_handler
from heavytail.policies import ALL

POLICIES = [
    (kind.name, options)
    for kind in ALL
    for options in MODES.get(kind.__name__, [{}])
    if "sup" not in options
] + [("HEAVY-OFUL", {"solver": "lbfgs"})]
POINTS = 40  # moments of a call at which it is interrupted


class Stopped(Exception):
    """What a handler of a test raises."""


def moments(call: Callable[[], Any], stop: int | None = None) -> int:
    """Make the call and count the moments at which Python may call a handler: where a function
    begins and where one in C has returned; raise KeyboardInterrupt at one of them.
    """
    count = 0

    def look(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_return") and arg is not sys.setprofile:
            count += 1
            if count == stop:
                sys.setprofile(None)
                raise KeyboardInterrupt

    gc.disable()  # what is called then may be a tool's, which would swallow it
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def interrupted(fresh: Callable[[], Any], act: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """What is left of a fresh object when ``act`` is interrupted, and one that acted in peace."""
    act(fresh())  # kernels are compiled now
    done = fresh()
    count = moments(lambda: act(done))
    rng = np.random.default_rng(0)
    for stop in sorted(set(rng.integers(1, count + 1, POINTS).tolist()) | {count}):
        left = fresh()
        try:
            moments(lambda left=left: act(left), stop)
        except KeyboardInterrupt:
            yield left, done


@pytest.mark.parametrize("name", estimators.ALL)
@pytest.mark.parametrize("rows", [30, 70])
def test_an_interrupted_batch_of_a_regression_is_learned_whole_or_not_at_all(name, rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows + 40, 3))
    y = X.sum(axis=1) + rng.standard_t(2.1, rows + 40)
    model = getattr(estimators, name)().fit(X[:rows], y[:rows])
    before = snapshot(model)
    for left, done in interrupted(
        lambda: deepcopy(model), lambda one: one.partial_fit(X[rows:], y[rows:])
    ):
        assert snapshot(left) in (before, snapshot(done))
        assert left.n_samples_seen_ in (rows, rows + 40)
        left.partial_fit(X[rows:], y[rows:])


@pytest.mark.parametrize(("name", "options"), POLICIES)
@pytest.mark.parametrize("call", ["update", "update_many", "learn"])
def test_an_interrupted_round_of_a_policy_is_learned_whole_or_not_at_all(name, options, call):
    start = policy(name, options)
    repeats = start.info.repeats
    if call == "learn" and repeats:
        pytest.skip("it decides once at a time")
    acts = {
        "update": lambda one: one.update(ARMS[0], 1.0),
        "update_many": lambda one: one.update_many(ARMS[:4], np.ones(4)),
        "learn": lambda one: one.learn([*one.pending], np.ones(1)),
    }
    before = snapshot(start)
    for left, done in interrupted(start.clone, acts[call]):
        assert snapshot(left) in (before, snapshot(done))
        left.update(ARMS[0], 1.0)
        assert left._inside is None


def signalled(call: Callable[[], Any], handler: Callable[..., Any]) -> None:
    """Make a call during which ``signal.raise_signal`` reaches ``handler``."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        call()
    finally:
        signal.signal(signal.SIGINT, before)


def with_signal(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and a signal right behind it."""

    def both(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)
        return result

    return both


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
@pytest.mark.parametrize("act", ["select", "update", "save", "learn"])
def test_a_handler_that_calls_the_policy_it_interrupts_is_refused(name, act, tmp_path):
    made = policy(name, {})
    acts = {
        "select": lambda: made.select(ARMS),
        "update": lambda: made.update(ARMS[0], 1.0),
        "save": lambda: made.save(tmp_path / "it.npz"),
        "learn": lambda: made.learn(made.pending[:1], [1.0]),
    }
    made._enter = with_signal(made._enter)
    with pytest.raises(RuntimeError, match="set a flag"):
        signalled(lambda: made.update(ARMS[0], 1.0), lambda *_: acts[act]())
    assert made._inside is None
    made._rows_and_rewards = with_signal(made._rows_and_rewards)
    with pytest.raises(RuntimeError, match="set a flag"):
        signalled(lambda: made.update_many(ARMS[:2], [1.0, 1.0]), lambda s, f: acts[act]())
    assert made._inside is None
    signalled(lambda: made.update(ARMS[0], 1.0), lambda *_: None)
    assert made.clone().rounds == made.rounds


def test_a_handler_that_calls_what_else_it_interrupts_is_refused():
    learner, model = agent(mdp.LSVIUCB), CENSUS["OnePassHuberRegressor"]()
    learner.learn_kernel = with_signal(learner.learn_kernel)
    stage = (0, 0, 0, 1.0, 0)
    with pytest.raises(RuntimeError, match="LSVIUCB: a signal handler"):
        signalled(lambda: learner.update(*stage), lambda *_: learner.act(1, 0))
    identifier = control.SystemIdentifier(3, 3)
    identifier.reserve = with_signal(identifier.reserve)
    step = (np.ones(3), np.ones(3), np.ones(3))
    with pytest.raises(RuntimeError, match="SystemIdentifier: a signal handler"):
        signalled(lambda: identifier.update(*step), lambda *_: identifier.theta)
    assert identifier.steps == 0
    decider = CENSUS["Decider"]()
    decider._model.vectors = with_signal(decider._model.vectors)
    here = {"segment": "new", "basket": 1.0}
    for act in (decider.decide, decider.expected, decider.explain):
        with pytest.raises(RuntimeError, match="Decider: a signal handler"):
            signalled(lambda: decider.decide(here), lambda *_, act=act: act(here))
    assert len(decider.pending) == 1
    stream, before = model.model_, snapshot(model)
    stream._learn = with_signal(stream._learn)
    with pytest.raises(RuntimeError, match="Stream: a signal handler"):
        signalled(
            lambda: model.partial_fit([[1.0, 2.0, 3.0]], [1.0], sample_scale=[1.0]),
            lambda *_: model.coef_,
        )
    assert snapshot(model) == before


def test_an_array_among_the_arguments_of_a_function_is_not_taken_for_a_frame():
    def asks(*_: Any) -> bool:
        return is_handler(sys._getframe())

    assert not asks(ARMS, ARMS[0])


def test_a_handler_with_keywords_of_its_own_is_one():
    seen = []

    def handler(*_: Any, named: Any = None) -> None:
        seen.append(is_handler(sys._getframe()))

    signalled(lambda: signal.raise_signal(signal.SIGINT), handler)
    assert seen == [True]


def test_what_a_handler_raises_is_not_taken_for_a_refusal(tmp_path):
    def stop(*_: Any) -> None:
        raise Stopped

    class Late:
        def __array__(self, *_: Any, **__: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            return ARMS[0]

        def __repr__(self) -> str:
            signal.raise_signal(signal.SIGINT)
            return "late"

    class Mine(mdp.UniformAgent):
        def __init__(self, features, horizon):
            super().__init__(features, horizon)
            signal.raise_signal(signal.SIGINT)

    oful = ht.OFUL(3, noise_scale=1.0)
    for call in (
        lambda: oful.update(Late(), 1.0),
        lambda: oful.update(ARMS[0], Late()),
        lambda: ht.OFUL(3, noise_scale=Late()),
    ):
        with pytest.raises(Stopped):
            signalled(call, stop)
    signalled(lambda: Mine(WORLD.features, 3).save(tmp_path / "it.npz"), lambda *_: None)
    with pytest.raises(Stopped):
        signalled(lambda: ht.load(tmp_path / "it.npz", kinds=(Mine,)), stop)
    assert oful.rounds == 0


def test_what_an_objects_own_conversion_raises_comes_out():
    class Broken:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise LookupError("no such column")

    with pytest.raises(LookupError, match="no such column"):
        ht.OFUL(3, noise_scale=1.0).update(Broken(), 1.0)


def test_a_thread_that_waits_is_not_taken_for_a_handler():
    shared = ht.make_policy("OFUL", dim=3, horizon=2000, tail=TAIL, arms=6)
    shared._inside = (0, -1)  # some other thread's
    seen = []

    def leave(*_: Any) -> None:
        seen.append(True)
        shared._inside = None

    shared._ours = with_signal(shared._ours)
    signalled(lambda: shared.update(ARMS[0], 1.0), leave)
    assert seen
    assert shared.rounds == 1
