"""Calls on Deciders: with a table of offers, of prices, and without a context.

The interleavings of :mod:`tests.fuzz.machines` are of policies alone: no naive twin of a Decider is
written from formulas. What a refusal leaves is compared with a copy here.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.player import Call, Player, through_file
from tests.fuzz.values import BAD_COUNTS, BAD_NUMBERS, NO_NUMBERS, NOT_FINITE, pd, shown

import heavytail as ht

OFFERS = [
    {"sku": "card", "price": 19.0},
    {"sku": "loan", "price": 49.0},
    {"sku": "tea", "price": 3.0},
]
TABLE: dict[str, Any] = {
    "offers": OFFERS,
    "ids": "sku",
    "context": ["segment", "basket"],
    "rules": {"loan": {"segment": ["new", "old"]}},
    "limits": {"tea": 10_000},
}
PRICED = {"prices": ht.Grid(5, 50, 10), "context": {"basket": "number"}, "forget": 0.99}
BARE = {"offers": {"size": [1.0, 2.0, 3.0]}, "ids": ["a", "b", "c"], "explore": 0.5}
NOW = 1e6  # of every decision: twins are compared
REWARDS = 34  # that each has learned, so that there is a forecast
# Where NaN stands for a value that a context did not have, or a probability that is not compared.
MAY_MISS = {"kept.history", "ledger.features"}
# The third for an offer that is not there, the last for a file.
REFUSALS = (ValueError, TypeError, KeyError, OSError)


def context(decider: ht.Decider, rng: np.random.Generator) -> dict[str, Any]:
    """A context of the columns that it has; now and then a value is missing, or a text new."""
    texts = ["new", "old", "lapsed", f"text {int(rng.integers(10**6))}", None]
    values = {
        "segment": texts[int(rng.choice(5, p=[0.4, 0.3, 0.2, 0.05, 0.05]))],
        "basket": None if rng.random() < 0.1 else float(rng.standard_t(1.5)),
    }
    return {name: values[name] for name in decider._contexts.names}


def play(decider: ht.Decider, rng: np.random.Generator) -> None:
    """Decide a visit and learn what it earned."""
    choice = decider.decide(context(decider, rng), now=NOW)
    decider.reward(choice.token, float(rng.standard_t(2.1)))


def look(decider: ht.Decider) -> None:
    """Ask all that it can say."""
    here = context(decider, np.random.default_rng(3))
    decider.select(here, draw=5, now=NOW)
    decider.expected(here)
    str(decider.explain(here))
    first = next(iter(decider.offers))
    for said in (decider.report(), decider.report(first), decider.diagnostics()):
        str(said)
    str(decider.effects())


def nameless(arrays: dict[str, Any]) -> dict[str, Any]:
    """The state without the names of its runs: each draws its own when it first decides."""
    told = json.loads(bytes(arrays["told"]))
    told["tokens"]["runs"] = []
    return {**arrays, "told": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)}


def log(decider: ht.Decider, rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """Decisions of another, as columns."""
    ids, visits = [*decider.offers], [context(decider, rng) for _ in range(rows)]
    known = {name: [visit[name] for visit in visits] for name in decider._contexts.names}
    return {
        **known,
        decider._offers.id_column: [ids[k] for k in rng.integers(len(ids), size=rows)],
        "reward": rng.standard_t(1.5, rows),
        "propensity": np.full(rows, 1.0 / len(ids)),
    }


class DeciderPlayer(Player):
    """A Decider, and the tokens of the decisions that wait."""

    refusals = REFUSALS

    @property
    def here(self) -> dict[str, Any]:
        return context(self.subject, self.rng)

    def acts(self, subject: Any) -> Any:
        here = context(subject, np.random.default_rng(5))
        chosen = subject.select(here, explore=0.5, draw=int(self.found["calls"]), now=NOW)
        return chosen.to_dict(), subject.expected(here), subject.pending

    def reward(self) -> float:
        return float(self.rng.standard_t(1.5) * 10.0 ** self.rng.uniform(-3, 3))

    def dressed_number(self, value: float) -> Any:
        return self.pick([value, np.float64(value), np.float32(value), np.longdouble(value)])

    def good(self) -> None:
        rng, one, kind = self.rng, self.subject, int(self.rng.integers(14))
        waiting = one.pending
        if kind < 3:
            token = one.decide(self.here, now=NOW).token
            one.reward(token, self.dressed_number(self.reward()))
        elif kind == 3:
            one.decide(self.here, k=int(rng.integers(1, 5)), now=NOW, explore=rng.random())
        elif kind == 4:
            one.decide(self.here, only=self.running(), now=NOW)
        elif kind == 5 and waiting:
            few = waiting[: int(rng.integers(1, 5))]
            one.reward([*few], self.pick([list, tuple, np.array])([self.reward() for _ in few]))
        elif kind == 6:
            offer = self.pick([*one.offers])
            one.observe(self.here, offer, self.dressed_number(self.reward()), selected=True)
        elif kind == 7:
            told = log(one, rng, int(rng.integers(1, 20)))
            dresses = [told] + ([] if pd is None else [pd.DataFrame(told)])
            one.learn(self.pick(dresses), progress=False)
        elif kind == 8:
            self.come_and_go()
        elif kind == 9:
            self.subject = one.clone()
        elif kind == 10 and rng.random() < 0.1:
            self.subject = through_file(one)
        elif kind == 11:
            one.explore = float(rng.random())
        elif kind == 12 and rng.random() < 0.3:
            one.close_after(self.pick([1e12, "9 weeks"]), self.pick([None, 0.0, -1.0]))
            one.close(now=NOW + float(rng.choice([0.0, 1e15])))
        elif rng.random() < 0.2:
            look(one)

    def running(self) -> list[str]:
        """Ids of which one may always be shown."""
        return [name for name, runs in self.subject.offers.items() if runs]

    def come_and_go(self) -> None:
        one, new = self.subject, f"new {int(self.rng.integers(3))}"
        if one._offers.ordered is None:
            told = dict.fromkeys(one._offers.columns, float(self.rng.normal()))
            one.add({one._offers.id_column: new, **told})
        if len(self.running()) > 3:
            one.retire(self.pick(self.running()[2:]))

    def bad(self) -> Call:
        p, here, rng = self.subject, self.here, self.rng
        number, count = self.pick(BAD_NUMBERS), self.pick([*BAD_COUNTS, 0])
        value, share = self.pick([*NO_NUMBERS, *NOT_FINITE]), self.pick([*NO_NUMBERS, -0.1, 1.5])
        age = self.pick([*NO_NUMBERS, *NOT_FINITE, -1.0, "a while"])
        offer, told = self.pick([*p.offers]), log(p, rng, 5)
        token = self.pick([*p.pending, "0badc0de-5"])
        spoiled = self.pick([k for k in told if k != p._offers.id_column])
        told[spoiled] = [*told[spoiled][:4], self.pick([1j, b"1", [1.0], object(), {}])]
        no_id = self.pick(["no such", None, 3.7, True, b"a", [offer], object()])
        options: list[Call] = [
            (f"reward(., {shown(number)})", lambda: p.reward(token, number)),
            (f"reward([.], [{shown(number)}])", lambda: p.reward([token], [number])),
            ("reward(lengths)", lambda: p.reward([token], [1.0, 2.0])),
            ("reward(twice)", lambda: p.reward([token, token], [1.0, 1.0])),
            ("reward(some unknown)", lambda: p.reward([*p.pending, "0badc0de-5"],
                                                      [1.0] * (len(p.pending) + 1))),
            (f"reward({shown(value)}, 1)", lambda: p.reward(value, 1.0)),
            (f"observe(., {shown(no_id)})", lambda: p.observe(here, no_id, 1.0)),
            (f"observe(reward={shown(number)})", lambda: p.observe(here, offer, number)),
            (f"observe(probability={shown(share)})",
             lambda: p.observe(here, offer, 1.0, probability=share)),
            (f"observe(time={shown(value)})", lambda: p.observe(here, offer, 1.0, time=value)),
            (f"decide(k={shown(count)})", lambda: self.asked(k=count)),
            (f"decide(explore={shown(share)})", lambda: p.decide(here, explore=share)),
            (f"decide(now={shown(value)})", lambda: p.decide(here, now=value)),
            (f"decide(only=[{shown(no_id)}])", lambda: p.decide(here, only=[offer, no_id])),
            ("decide(only=[])", lambda: p.decide(here, only=[])),
            (f"learn({spoiled})", lambda: p.learn(told, progress=False)),
            (f"learn({shown(value)})", lambda: p.learn(value, progress=False)),
            (f"retire({shown(no_id)})", lambda: p.retire(no_id)),
            (f"add({shown(value)})", lambda: p.add(value)),
            ("add(no columns)", lambda: p.add({p._offers.id_column: "new"})),
            (f"close_after({shown(age)})", lambda: p.close_after(age)),
            (f"close(now={shown(value)})", lambda: p.close(now=value)),
            (f"explore = {shown(share)}", lambda: setattr(p, "explore", share)),
            (f"expected(level={shown(share)})", lambda: p.expected(here, level=share)),
            (f"report(level={shown(share)})", lambda: p.report(level=share)),
            (f"report({shown(no_id)})", lambda: p.report(self.pick(["no such", 3.7, [offer]]))),
        ]  # fmt: skip
        if "basket" in here:
            method = self.pick(["decide", "select", "expected", "explain"])
            infinite = self.pick([*NO_NUMBERS, np.inf, -np.inf, np.float32("inf"), 10**400])
            for bad in ({**here, "basket": infinite}, {}, None, [here], "basket"):
                call = functools.partial(getattr(p, method), bad)
                options.append((f"{method}({shown(bad)})", call))
        return self.pick(options)

    def asked(self, k: Any) -> None:
        """A slate of None places is a single choice, which is good."""
        if k is None:
            raise TypeError("good")
        self.subject.decide(self.here, k=k)


@functools.cache
def _first(mode: int) -> ht.Decider:
    made = ht.Decider(**(TABLE, PRICED, BARE)[mode], seed=3)
    rng = np.random.default_rng(mode)
    for _ in range(REWARDS):
        play(made, rng)
    made.decide(context(made, rng), now=NOW)
    return made


def with_offers() -> ht.Decider:
    """One with a table of offers, and a context of a category and a number."""
    return _first(0).clone()


def of_prices() -> ht.Decider:
    """One of prices, which forgets."""
    return _first(1).clone()


def without_context() -> ht.Decider:
    """One to which all visits are alike."""
    return _first(2).clone()


def builders() -> list[Callable[[], ht.Decider]]:
    """All of them, a decision waiting."""
    return [with_offers, of_prices, without_context]
