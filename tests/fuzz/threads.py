"""Eight threads on one object of every kind: mixed calls, and afterwards all that was accepted."""

from __future__ import annotations

import faulthandler
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz import deciders, encoders, policies
from tests.fuzz.player import same, through_file
from tests.fuzz.subjects import subjects, use

import heavytail as ht
from heavytail import mdp
from heavytail.checks.policies import paid
from heavytail.estimators.base import Regression

THREADS = 8
PATIENCE = 60.0  # seconds for a call to come back
MOST = 3000  # rounds of one object: histories grow
EQUAL = 12  # rounds of each thread that are all the same


def fuzz_threads(seconds: float) -> dict[str, Counter]:
    """So many seconds in all, spread over everything that learns."""
    faulthandler.enable()
    names = subjects()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: fuzz_one(make, seconds / len(names)) for name, make in names.items()}


def fuzz_one(make: Callable[[], Any], seconds: float) -> Counter:
    """New objects again and again until the time is over."""
    found: Counter = Counter()
    end, seed = time.monotonic() + seconds, 0
    while True:
        order(make, found)
        mixed(make(), end, seed, found)
        seed += 1
        if time.monotonic() > end:
            return found


def together(call: Callable[[int], None], subject: Any, found: Counter) -> bool:
    """``call`` in all threads at once; whether all came back."""
    threads = [threading.Thread(target=call, args=(k,), daemon=True) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback()
        fail(subject, "hangs", None, found)
        return False
    return True


def fail(subject: Any, what: str, error: Any, found: Counter) -> None:
    found[what] += 1
    if found[what] <= 3:
        print(f"{type(subject).__name__}: {what}: {error!r}", flush=True)


def mixed(subject: Any, end: float, seed: int, found: Counter) -> None:
    """Calls of all kinds; what was accepted must have been learned, and the state be whole."""
    begun, accepted = rounds(subject), [0] * THREADS
    stop = min(end, time.monotonic() + 2.0)

    def play(k: int) -> None:
        rng = np.random.default_rng([seed, k])
        try:
            for _ in range(MOST // THREADS):
                if time.monotonic() > stop:
                    return
                accepted[k] += one_call(subject, rng)
        except Exception as error:
            fail(subject, "exceptions", error, found)

    if together(play, subject, found):
        found["calls"] += sum(accepted)
        if rounds(subject) != begun + sum(accepted):
            told = f"{rounds(subject) - begun} of {sum(accepted)}"
            fail(subject, "rounds lost or learned twice", told, found)
        whole(subject, found)


def one_call(subject: Any, rng: np.random.Generator) -> int:
    """One call; how many rounds it taught. An agent may refuse a stage that has passed."""
    kind = rng.integers(12)
    if kind == 0:
        (subject.clone() if hasattr(subject, "clone") else subject).saved_arrays()
    elif kind == 1 and rng.random() < 0.1:
        through_file(subject)
    elif kind < 6 and isinstance(subject, ht.Policy):
        return policy_call(subject, int(kind), rng)
    elif kind < 6 and isinstance(subject, ht.Decider):
        return decider_call(subject, int(kind), rng)
    elif isinstance(subject, mdp.Agent):
        try:
            use(subject, rng)
        except ValueError as error:
            if "comes next" not in str(error):
                raise
            return 0
        return 1
    else:
        use(subject, rng)
        if isinstance(subject, ht.Encoder):
            return encoders.ROWS
        return 3 if isinstance(subject, Regression) else 1
    return 0


def policy_call(policy: Any, kind: int, rng: np.random.Generator) -> int:
    arms = policies.unit(rng, policies.ARMS)
    if kind == 2:
        policy.update_many(arms, [paid(policy, one) for one in rng.normal(size=len(arms))])
        return len(arms)
    if kind == 3 and not policy.info.repeats:
        policy.learn(policy.decide(arms), 1.0)
        return 1
    if kind == 4:
        policy.diagnostics()
        policy.expire(1000)
    elif kind == 5 and hasattr(policy, "width"):
        policy.width(arms[0])
    return 0


def decider_call(decider: Any, kind: int, rng: np.random.Generator) -> int:
    here = deciders.context(decider, rng)
    if kind == 2:
        slate = decider.decide(here, k=2, now=deciders.NOW)
        decider.reward([choice.token for choice in slate], [1.0] * len(slate))
        return len(slate)
    if kind == 3:
        decider.observe(here, next(iter(decider.offers)), 1.0)
        return 1
    if kind == 4:
        decider.expected(here)
        assert all(isinstance(token, str) for token in decider.pending)
    elif rng.random() < 0.1:
        deciders.look(decider)
    return 0


def rounds(subject: Any) -> int:
    """How much it has learned."""
    if isinstance(subject, Regression):
        return int(subject.n_samples_seen_)
    if isinstance(subject, ht.Encoder):
        return int(subject.saved_arrays()["seen"][0])
    if isinstance(subject, ht.LogPolicy):
        return int(subject.state["scalars"]["drawn"])
    if isinstance(subject, ht.Policy | ht.Decider):
        return subject.rounds
    if isinstance(subject, mdp.Agent):
        return subject.episodes * subject.horizon + int(subject.state["scalars"]["stage"])
    return int(subject.steps)


def whole(subject: Any, found: Counter) -> None:
    """The state is finite where it must be, P symmetric, and its file holds all of it."""
    try:
        arrays = subject.saved_arrays()
        told = [a for key, a in arrays.items() if key not in deciders.MAY_MISS]
        if any(np.isnan(a).any() for a in told if a.dtype.kind == "f"):
            fail(subject, "NaN in the state", None, found)
        P = arrays.get("inverse")
        if P is not None and not np.allclose(
            P, np.swapaxes(P, -1, -2), rtol=0, atol=1e-8 * P.max()
        ):
            fail(subject, "P not symmetric", None, found)
        if not same(arrays, through_file(subject).saved_arrays()):
            fail(subject, "another comes back from its file", None, found)
    except Exception as error:
        fail(subject, "exceptions afterwards", error, found)


def order(make: Callable[[], Any], found: Counter) -> None:
    """Rounds that are all the same, so that every order of them leads to one state."""
    subject, serial = make(), make()

    def play(k: int) -> None:
        try:
            for _ in range(EQUAL):
                equal_round(subject)
        except Exception as error:
            fail(subject, "exceptions", error, found)

    for _ in range(THREADS * EQUAL):
        equal_round(serial)
    if together(play, subject, found):
        found["calls"] += THREADS * EQUAL
        if not same(subject.saved_arrays(), serial.saved_arrays()):
            fail(subject, "the state of no order", None, found)


def equal_round(subject: Any) -> None:
    """The one round; an agent is asked again until its stage is the one that comes next."""
    x = np.array([0.6, 0.3])
    if isinstance(subject, Regression):
        subject.partial_fit(x[None], np.ones(1))
    elif isinstance(subject, ht.Encoder):
        subject.partial_fit({"price": 0.6, "age": 30, "kind": "a", "sku": 1})
    elif isinstance(subject, ht.LogPolicy):
        subject.select(x[None])
    elif isinstance(subject, ht.Policy):
        subject.update(x, paid(subject, 0.7))
    elif isinstance(subject, ht.Decider):
        here = dict.fromkeys(subject._contexts.names)  # nothing is known of it
        subject.observe(here, next(iter(subject.offers)), 0.7)
    elif isinstance(subject, mdp.Agent):
        while True:
            try:
                stage = int(subject.state["scalars"]["stage"])
                return subject.update(stage, 0, 1, 0.7, 1)
            except ValueError as error:
                if "comes next" not in str(error):
                    raise
    else:
        subject.update(x, x[:1], 0.5 * x)
    return None
