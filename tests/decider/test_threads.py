"""Threads that share a Decider, and what comes in the middle of a call."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import numpy as np
import pytest
from tests.decider.tools import log, nameless, shop, snap, visit
from tests.unbreakable.test_interrupted import interrupted

import heavytail as ht

HERE = {"segment": "new", "basket": 1.0}
FRESH = {"segment": "fresh", "basket": 2.0}


def test_threads_lose_no_reward_and_learn_none_twice(tmp_path):
    made, failed, paid = shop(), [], []

    def decide(seed: int) -> None:
        rng, total = np.random.default_rng(seed), 0.0
        try:
            for i in range(25):
                reward = float(rng.integers(1, 9))
                if i % 5 == 0:
                    choices = made.decide(visit(rng), k=2)
                    made.reward([choice.token for choice in choices], [reward, 0.0])
                else:
                    made.reward(made.decide(visit(rng)).token, reward)
                total += reward
        except Exception as error:
            failed.append(error)
        paid.append(total)

    def meddle() -> None:
        try:
            for i in range(6):
                made.save(tmp_path / "it.npz")
                ht.load(tmp_path / "it.npz")
                made.add({"sku": f"new {i % 3}", "price": float(i)})
                made.close_after("1 day")
                assert len(made.offers) >= 3
                assert all(isinstance(token, str) for token in made.pending)
                repr(made)
                made.report()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(8)]
    threads.append(threading.Thread(target=meddle))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    sums = np.array(list(made._counts.offers.values()))
    assert sums[:, 0].sum() == made._history.seen == made._ledger.made == 8 * 30
    assert sums[:, 1].sum() == sum(paid) == made._history.rows().rewards.sum()
    assert made.pending == ()
    assert snap(made.clone()) == snap(made)


def test_a_token_is_rewarded_once_whoever_rewards_it():
    made = shop(5)
    for _ in range(20):
        token, refused = made.decide(HERE).token, []

        def reward(token: str = token, refused: list[Any] = refused) -> None:
            try:
                made.reward(token, 1.0)
            except ValueError as error:
                refused.append(error)

        threads = [threading.Thread(target=reward) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 3
    assert made.rounds == 25


ACTS = {
    "a reward": (40, lambda made: made.reward(made.pending[0], 1.0)),
    "a reward before any shape": (3, lambda made: made.reward(made.pending[0], 1.0)),
    "the first shape": (31, lambda made: made.reward(made.pending[0], 1.0)),
    "a later shape": (63, lambda made: made.reward(made.pending[0], 1.0)),
    "a closing": (40, lambda made: made.close(now=2e6)),
    "several rewards": (40, lambda made: made.reward([*made.pending], [1.0, 2.0, 3.0])),
    "what is closed from now on": (40, lambda made: made.close_after(5.0, 1.0)),
    "a visit": (40, lambda made: made.decide(FRESH, now=1e6)),
    "a slate": (40, lambda made: made.decide(FRESH, k=3, now=1e6)),
    "what was observed": (40, lambda made: made.observe({**HERE, "segment": "fresh"}, "tea", 1.0)),
    "a log": (40, lambda made: made.learn(log(30), progress=False)),
    "an offer": (40, lambda made: made.add({"sku": "new", "price": 1.0})),
    "an end": (40, lambda made: made.retire("card")),
}


@pytest.mark.parametrize("name", ACTS)
def test_what_is_interrupted_is_learned_whole_or_not_at_all(name):
    rewards, act = ACTS[name]
    made = shop(rewards)
    made.close_after(1e9)
    made.decide(HERE, k=3, now=1e6)
    made._closing = (1.0, 0.0)
    before = nameless(made)
    for left, done in interrupted(made.clone, act):
        assert nameless(left) in (before, nameless(done))
        assert left._inside is None
        assert snap(left.clone()) == snap(left)
        left.observe(HERE, "tea", 1.0)


def test_a_visit_that_closes_others_first_is_interrupted_before_or_after_that():
    made = shop(40, limits={"tea": 50})
    made.decide(HERE, k=3, now=1e6)
    made._closing = (1.0, 0.0)
    closed = made.clone()
    closed.close(now=2e6)
    states = [nameless(made), nameless(closed)]
    for left, done in interrupted(made.clone, lambda each: each.decide(FRESH, k=2, now=2e6)):
        assert nameless(left) in [*states, nameless(done)]
        left.decide(FRESH)
        assert snap(left.clone()) == snap(left)
        for token in left.pending:
            left.reward(token, 1.0)


def test_several_rewards_of_which_one_is_refused_change_nothing(monkeypatch):
    made = shop(40)
    tokens = [choice.token for choice in made.decide(HERE, k=3)]
    before, learn = snap(made), ht.TwinUCB.update

    def refuse(self: Any, x: Any, reward: float, **options: Any) -> None:
        if reward > 1e200:
            raise ValueError("out of range")
        learn(self, x, reward, **options)

    monkeypatch.setattr(ht.TwinUCB, "update", refuse)
    with pytest.raises(ValueError, match="out of range"):
        made.reward(tokens, [1.0, 2.0, 1e300])
    assert snap(made) == before
    with pytest.raises(ValueError, match="out of range"):
        made.close_after(0.0, 1e300)
    assert snap(made) == before
    made.reward(tokens, [1.0, 2.0, 3.0])


def test_what_a_report_reads_does_not_change_while_others_decide():
    made = shop(40)
    seen = made._snapshot()
    texts, offers = list(seen.contexts.texts[0]), json.dumps(seen.offers.plain())
    made.decide(FRESH)
    made.add({"sku": "card", "price": 1.0})
    made.add({"sku": "new", "price": 1.0})
    made.retire("tea")
    assert list(seen.contexts.texts[0]) == texts
    assert json.dumps(seen.offers.plain()) == offers


@pytest.mark.parametrize("stop", ["forecast", "policy"])
def test_a_reward_that_one_of_two_policies_refuses_changes_neither(stop, monkeypatch):
    made = shop(40)
    token, before = made.decide(HERE).token, None
    before = snap(made)
    refuser = getattr(made, stop)

    def refuse(*_: Any) -> None:
        raise ValueError("out of range")

    monkeypatch.setattr(refuser, "update", refuse)
    with pytest.raises(ValueError, match="out of range"):
        made.reward(token, 1e300)
    monkeypatch.undo()
    assert snap(made) == before
    made.reward(token, 1e300)


@pytest.mark.parametrize("error", [ValueError, MemoryError])
def test_rewards_of_which_one_cannot_be_learned_change_nothing(error, monkeypatch):
    made = shop(30)
    tokens = [made.decide(HERE, now=1e6).token for _ in range(3)]
    before = snap(made)

    def fails(*args: object, **options: object) -> None:
        raise error("no memory is left.")

    with monkeypatch.context() as patch:
        patch.setattr("heavytail.decider.model.Model.learned", fails)
        with pytest.raises(error):
            made.reward(tokens, [1.0, 2.0, 3.0])
    assert snap(made) == before
    made.reward(tokens, [1.0, 2.0, 3.0])
    assert made.rounds == 33


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_child_gives_tokens_of_its_own():
    made = shop(2)
    made.decide(HERE)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, made.decide(HERE, only=["card"]).token.encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs, ours = os.read(out, 99).decode(), made.decide(HERE, only=["tea"]).token
    assert theirs != ours
    with pytest.raises(ValueError, match="unknown"):
        made.reward(theirs, 100.0)
    made.reward(ours, 1.0)


def test_a_decision_with_a_clock_ahead_keeps_no_other_from_closing():
    made = shop()
    made.close_after("7 days")
    made.decide(HERE, now=4e9)
    for i in range(5):
        made.decide(HERE, now=1e9 + i)
    assert made.close(now=2e9) == 5
    assert len(made.pending) == 1
    made.decide(HERE, now=1e9)
    made.decide(HERE, now=2e9)  # closes the one before
    assert len(made.pending) == 2


def test_a_token_that_calls_back_is_taken_as_it_was_first():
    made = shop(2)
    first, second = made.decide(HERE), made.decide(HERE)

    class Calls:
        @property
        def token(self) -> str:
            if first.token in made.pending:
                made.reward(first.token, 1.0)
            return second.token

    with pytest.raises(ValueError, match="rewarded already"):
        made.reward([first.token, Calls()], [1.0, 2.0])
    assert made.pending == (second.token,)
    assert made.rounds == 3


def test_a_text_that_says_it_is_equal_is_no_token():
    class Equal(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    made = shop()
    made.decide(HERE)
    with pytest.raises(ValueError, match="unknown"):
        made.reward(Equal("00000000-0"), 1.0)
