"""One of everything that saves, after some rounds, by census."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz import agents, control, deciders, encoders, estimators, logs, policies

import heavytail as ht
from heavytail import mdp
from heavytail.checks.policies import paid
from heavytail.estimators.base import Regression

Use = Callable[[Any, np.random.Generator], None]


@functools.cache
def subjects() -> dict[str, Callable[[], Any]]:
    """What makes each of them, fresh or barely so, by its class, the second one as "OFUL 2"."""
    makers = [
        *policies.builders(),
        *agents.builders(),
        *control.identifiers(),
        *control.controllers(),
        *estimators.regressions(),
        *encoders.builders(),
        *logs.builders(),
        *deciders.builders(),
    ]
    named: dict[str, Callable[[], Any]] = {}
    often: Counter[str] = Counter()
    for make in makers:
        kind = type(make()).__name__
        often[kind] += 1
        named[kind if often[kind] == 1 else f"{kind} {often[kind]}"] = make
    return named


def use(subject: Any, rng: np.random.Generator) -> None:
    """One good call of the kind that it learns by."""
    if isinstance(subject, Regression):
        X = rng.normal(size=(3, getattr(subject, "n_features_in_", 3)))  # unfitted, perhaps
        subject.partial_fit(X, X.sum(axis=1))
        subject.predict(X)
    elif isinstance(subject, ht.Encoder):
        subject.partial_fit(encoders.rows(rng))
        subject.transform(encoders.rows(rng))
    elif isinstance(subject, ht.Decider):
        deciders.play(subject, rng)
    elif isinstance(subject, ht.LogPolicy):
        arms = policies.unit(rng, policies.ARMS)
        assert subject.decide(arms).probability > 0.0
        subject.select(arms, draw=0.5)
    elif isinstance(subject, ht.Policy):
        arms = policies.unit(rng, policies.ARMS)
        subject.update(arms[subject.select(arms)], paid(subject, float(rng.standard_t(2.1))))
    elif isinstance(subject, mdp.Agent):
        stage = int(subject.state["scalars"]["stage"])
        action = subject.act(stage, 0)
        subject.update(stage, 0, action, float(rng.standard_t(2.1)), 1)
    elif isinstance(subject, ht.control.Controller):
        x = rng.normal(size=subject.identifier.n)
        subject.update(x, subject.act(x), 0.5 * x)
    else:
        x = rng.normal(size=subject.n)
        subject.update(x, rng.normal(size=subject.d), 0.5 * x)


def learned(name: str, rounds: int = 23) -> Any:
    """The subject of that name after some rounds, a decision waiting where there may be one."""
    subject, rng = subjects()[name](), np.random.default_rng(1)
    for _ in range(rounds):
        use(subject, rng)
    if isinstance(subject, ht.Policy) and not subject.info.repeats:
        subject.decide(policies.unit(rng, policies.ARMS))
    return subject
