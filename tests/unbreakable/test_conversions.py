"""What is passed may run code of its own while it is converted, and call the very object that
converts it: the state is then that of the one call after the other, or the outer one is refused.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.control.tools import drive
from tests.fuzz import deciders
from tests.fuzz.subjects import use
from tests.unbreakable.census import ARMS, CENSUS, SYSTEM, snapshot

import heavytail as ht
from heavytail import control, estimators, mdp
from heavytail.checks.policies import paid


class Calling:
    """An array that calls ``act`` whenever it is converted."""

    def __init__(self, array: Any, act: Any) -> None:
        self.array, self.act = np.asarray(array), act

    def __array__(self, *_: Any, **__: Any) -> Any:
        self.act()
        return self.array.copy()


class CallingColumn(Calling):
    """A column of a log that does so."""

    def __len__(self) -> int:
        return len(self.array)


class CallingNumber(Fraction):
    """A number that does so."""

    act: Any = None

    def __float__(self) -> float:
        self.act()
        return self.numerator / self.denominator


def number(value: float, act: Any) -> Any:
    made = CallingNumber(value)
    made.act = act
    return made


def calls(subject: Any) -> dict[str, Any]:
    """By name, calls that take what converts an array, and what converts a number."""
    if isinstance(subject, ht.Decider):
        return calls_of_deciders(subject)
    X, y = ARMS[:4], [paid(subject, v) for v in (0.5, 1.5, 0.0, 0.5)] if _pays(subject) else []
    if isinstance(subject, ht.Policy):
        found = {
            "select": lambda p, a, n: p.select(a(ARMS)),
            "update": lambda p, a, n: p.update(a(X[0]), y[0]),
            "update, reward": lambda p, a, n: p.update(X[0], n(y[0])),
            "update, scale": lambda p, a, n: p.update(X[0], y[0], scale=n(0.5)),
            "update_many": lambda p, a, n: p.update_many(a(X), y),
            "update_many, rewards": lambda p, a, n: p.update_many(X, a(y)),
            "update_many, scales": lambda p, a, n: p.update_many(X, y, scale=a([0.5] * 4)),
            "select_many": lambda p, a, n: p.select_many(a(np.stack([ARMS, ARMS]))),
        }
        if not subject.info.repeats:
            found["decide"] = lambda p, a, n: p.decide(a(ARMS), now=1e9)
            found["learn"] = lambda p, a, n: p.learn(p.pending[0], n(y[1]))
        return found
    if isinstance(subject, ht.Encoder):
        return {}  # it takes tables, whose columns are converted before it looks at them
    if isinstance(subject, mdp.Agent):
        return {"update": lambda p, a, n: p.update(_stage(p), 0, 0, n(0.5), 1)}
    x, u, z = next(iter(drive(SYSTEM, 1)))
    if isinstance(subject, control.Controller):
        return {
            "act": lambda p, a, n: p.act(a(x)),
            "update": lambda p, a, n: p.update(a(x), u, z),
            "update, next": lambda p, a, n: p.update(x, u, a(z)),
        }
    if type(subject).__name__ in estimators.ALL:
        y = np.arange(4.0)
        return {
            "partial_fit": lambda p, a, n: p.partial_fit(a(X), y),
            "partial_fit, y": lambda p, a, n: p.partial_fit(X, a(y)),
            "partial_fit, scales": lambda p, a, n: p.partial_fit(X, y, sample_scale=a(y + 1.0)),
            "predict": lambda p, a, n: p.predict(a(X)),
        }
    return {
        "update": lambda p, a, n: p.update(a(x), u, z),
        "update, next": lambda p, a, n: p.update(x, u, a(z)),
    }


def calls_of_deciders(subject: ht.Decider) -> dict[str, Any]:
    """Those that a Decider takes: of arrays only the columns of a log."""
    named, rng = subject._contexts.names, np.random.default_rng(2)
    here = deciders.context(subject, np.random.default_rng(2))
    if "segment" in named:
        here["segment"] = "a text that is new"
    offer, log, now = next(iter(subject.offers)), deciders.log(subject, rng, 5), deciders.NOW
    first = next(iter(log))

    def sized(a: Any, column: Any) -> Any:
        made = a(column)
        return CallingColumn(made.array, made.act) if isinstance(made, Calling) else made

    calls = {
        "decide, now": lambda p, a, n: p.decide(here, now=n(now)),
        "decide, explore": lambda p, a, n: p.decide(here, explore=n(0.5), now=now),
        "decide, k": lambda p, a, n: p.decide(here, k=n(2.0), now=now),
        "select": lambda p, a, n: p.select(here, explore=n(0.5), draw=1, now=now),
        "reward": lambda p, a, n: p.reward(p.pending[0], n(0.5)),
        "reward, list": lambda p, a, n: p.reward([p.pending[0]], [n(0.5)]),
        "observe, reward": lambda p, a, n: p.observe(here, offer, n(0.5)),
        "observe, probability": lambda p, a, n: p.observe(here, offer, 1.0, probability=n(0.5)),
        "close_after": lambda p, a, n: p.close_after(n(1e12), 1.0),
        "learn": lambda p, a, n: p.learn(
            {**log, "reward": sized(a, log["reward"])}, progress=False
        ),
        "learn, first column": lambda p, a, n: p.learn(
            {**log, first: sized(a, log[first])},
            progress=False,
        ),
    }
    if "basket" in named:
        calls["decide, context"] = lambda p, a, n: p.decide({**here, "basket": n(0.5)}, now=now)
        calls["observe"] = lambda p, a, n: p.observe({**here, "basket": n(0.5)}, offer, 1.0)
    return calls


def _pays(subject: Any) -> bool:
    return isinstance(subject, ht.Policy)


def _stage(agent: Any) -> int:
    return int(agent.state["scalars"]["stage"])


@pytest.mark.parametrize("name", CENSUS)
def test_what_calls_back_while_it_is_converted_is_served_before_or_refused(name):
    for how, call in calls(CENSUS[name]()).items():
        subject, serial, inner_only, converted = (CENSUS[name]() for _ in range(4))
        times = 0

        def act(subject: Any = subject) -> None:
            nonlocal times
            times += 1
            if times == 1:
                use_once(subject)

        use_once(inner_only)
        use_once(serial)
        try:
            call(subject, lambda a, act=act: Calling(a, act), lambda v, act=act: number(v, act))
        except (ValueError, TypeError, RuntimeError):
            assert snapshot(subject) in (snapshot(inner_only), snapshot(converted)), how
            continue
        assert times > 0, how
        call(serial, np.asarray, float)
        assert snapshot(subject) == snapshot(serial), how


def use_once(subject: Any) -> None:
    """The inner call; of a Decider, one that teaches it a text."""
    if isinstance(subject, ht.Policy):
        subject.update(ARMS[3], paid(subject, 0.7))
    elif isinstance(subject, ht.Decider):
        here = deciders.context(subject, np.random.default_rng(0))
        new = {"segment": "another text that is new"} if "segment" in here else {}
        subject.decide({**here, **new}, now=deciders.NOW)
    else:
        use(subject, np.random.default_rng(0))
