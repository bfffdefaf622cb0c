"""What is larger than memory is refused by a sentence, before anything is allocated."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from tests.fuzz.constructors import SIZES, families
from tests.unbreakable.census import CENSUS, snapshot

import heavytail as ht
from heavytail import _memory, estimators
from heavytail.policies import ALL
from heavytail.policies.core.base import PackedPolicy

TAIL = ht.MomentBound(2.0, 1.0)
MAKERS = [recipe for recipes in families().values() for recipe in recipes]


@pytest.mark.parametrize(("make", "good"), MAKERS, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize("size", [10**12, 2**52])
def test_a_size_beyond_memory_is_refused_before_anything_is_allocated(make, good, size):
    for one in inspect.signature(make).parameters.values():
        if one.name not in SIZES or "int" not in str(one.annotation):
            continue
        try:
            make(**{**good, one.name: size})  # a horizon alone takes no room
        except ValueError as error:
            assert "array is too big" not in str(error)  # noqa: PT017
            assert "memory that is left" not in str(error)  # noqa: PT017 - it was tried


@pytest.mark.parametrize("kind", ALL)
def test_a_refusal_says_what_was_asked_for_what_there_is_and_what_to_do(kind, monkeypatch):
    monkeypatch.setattr(_memory, "memory", lambda: 3.0 * 2**30)
    told = {"dim": 60_000, "horizon": 10**7, "tail": TAIL, "arms": 4}
    words = r"of dim=60000.* would need at least .* memory; this machine has 3\.0 GiB\. Ask for"
    if "d1" in inspect.signature(kind).parameters:
        told |= {"d1": 30_000, "d2": 20_000}
        words = words.replace("of dim=60000", "of d1=30000, d2=20000")
    with pytest.raises(ValueError, match=f"^{kind.__name__} {words} less"):
        ht.make_policy(kind.name, **told)


def test_a_regression_on_more_features_than_there_is_memory_for_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "memory", lambda: 2.0**24)
    X, y = np.ones((20, 1500)), np.arange(20.0)
    for name in estimators.ALL:
        with pytest.raises(ValueError, match=r"a regression of features=1500 would need"):
            getattr(estimators, name)().fit(X, y)


def _grows(subject: Any) -> bool:
    packed = isinstance(subject, PackedPolicy)
    has_history = packed and subject.algorithm.history is not None
    return has_history or "Batch" in type(subject).__name__


@pytest.mark.parametrize("name", CENSUS)
def test_rows_beyond_memory_are_refused_and_nothing_has_changed(name):
    subject = CENSUS[name]()
    if not hasattr(subject, "reserve"):
        return
    before = snapshot(subject)
    state = getattr(subject, "_state", None)
    bounded = getattr(state, "most_kept", 10**13) < 10**12  # it keeps no more, whatever comes
    if (_grows(subject) or hasattr(subject, "episodes")) and not bounded:
        if "Uniform" not in name:
            with pytest.raises(ValueError, match=r"room for .* rows would need .* Ask for fewer"):
                subject.reserve(10**12)
    else:
        subject.reserve(10**12)
    assert snapshot(subject) == before


def test_room_doubles_only_as_far_as_there_is_memory(monkeypatch):
    monkeypatch.setattr(_memory, "SMALL", 0)
    monkeypatch.setattr(_memory, "memory", lambda: 8.0 * 130)
    rows = np.ones((50, 1))
    assert _memory.grown("it", rows, 50) is rows
    assert _memory.grown("it", rows, 51).shape == (100, 1)
    assert _memory.grown("it", np.ones((100, 1)), 101).shape == (130, 1)
    with pytest.raises(ValueError, match="it: room for 131 rows"):
        _memory.grown("it", np.ones((130, 1)), 131)
    grown = _memory.grown("it", np.ones((3, 10, 2)), 12, axis=1)
    assert grown.shape == (3, 20, 2)
    assert grown[:, :10].all()
    assert not grown[:, 10:].any()


def test_a_limit_of_the_process_is_what_there_is():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**42, before[1]))
    try:
        assert _memory._process() == 2.0**42
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert _memory.memory() <= _memory._machine()


def test_memory_that_others_took_is_a_refusal_too(monkeypatch):
    def none_left(*_: Any) -> None:
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr(np, "zeros", none_left)
    with pytest.raises(ValueError, match=r"OFUL does not fit into the memory .* Ask for less"):
        ht.OFUL(2, noise_scale=1.0)


@pytest.mark.parametrize(("name", "asked"), [("MoM", "groups"), ("CRMM", "repeats")])
def test_the_smallest_horizon_that_works_is_right_however_large(name, asked):
    def make(horizon: int) -> Any:
        told = {asked: 10**6 + 7}
        return ht.make_policy(name, dim=2, horizon=horizon, tail=TAIL, arms=4, **told)

    with pytest.raises(ValueError, match="smallest horizon that works is") as caught:
        make(1000)
    smallest = int(str(caught.value).split("works is ")[1].split(";")[0])
    assert make(smallest).repeats <= smallest
    with pytest.raises(ValueError, match=f"smallest horizon that works is {smallest};"):
        make(smallest - 1)
