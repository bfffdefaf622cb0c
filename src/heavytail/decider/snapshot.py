"""A Decider at one moment, for reports: what is read of it does not change meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import Rows
from heavytail.decider.model import Model
from heavytail.decider.offers import Offers, Rules

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["Snapshot", "forecasts", "snapshot"]

CHUNK: Final = 4096  # rows encoded at a time


class Snapshot(NamedTuple):
    """The state of a Decider that a report needs.

    Attributes:
        rows: that are kept, of its own and of logs, oldest first.
        sums: by the place of an offer: rewards over the whole life, their sum, how many were not 0.
        made: decisions.
        waiting: of them, by the place of their offer.
        closed: decisions that were closed without a reward.
        unknown: by column, values that the model did not know, and how often they came.
        added: places of the offers that were not there at the beginning.
        limited: places of the offers that may be chosen so often a day only.
        offers: all of them; the Decider puts others in their place and changes none.
        contexts: a copy of the columns of a context, since decisions teach them new categories.
        rules: who may see which offer; they never change.
        model: a copy of what was learned.
        explore: the share of visits that explore.
        closes: whether decisions are closed after some time.
        prices: whether the offers are prices of a Grid.
    """

    rows: Rows
    sums: Mapping[int, tuple[float, float, float]]
    made: int
    waiting: Mapping[int, int]
    closed: int
    unknown: Mapping[str, Mapping[str, int]]
    added: frozenset[int]
    limited: frozenset[int]
    offers: Offers
    contexts: Contexts
    rules: Rules
    model: Model
    explore: float
    closes: bool
    prices: bool

    @property
    def own(self) -> Rows:
        """The kept rows of its own decisions."""
        return self.rows.where(self.rows.own)

    def context(self, row: FloatArray) -> dict[str, Any]:
        """The context of a row as it was passed: None where a value was missing."""
        values = self.contexts.values(row)
        return {name: None if value != value else value for name, value in values.items()}

    def barred(self, row: FloatArray) -> list[int]:
        """Places of the offers that the rules bar in a context."""
        return self.rules.barred(self.context(row)) if self.rules.stated else []

    def most_shown(self, most: int) -> list[int]:
        """Places of the running offers that are shown most, the most shown first."""
        shown = np.bincount(self.rows.offers, minlength=len(self.offers))
        running = self.offers.running
        return [int(place) for place in running[np.argsort(-shown[running], kind="stable")][:most]]


def snapshot(decider: Decider) -> Snapshot:
    """Take what a report needs of a Decider, while nobody else works on it."""
    counts, ledger = decider._counts, decider._ledger
    waiting: dict[int, int] = {}
    for decision in ledger.kept.values():
        place = int(decision.x[-2])
        waiting[place] = waiting.get(place, 0) + 1
    offers = decider._offers
    begun = decider._arguments["offers"]
    first = len(offers) if begun is None else len(begun[offers.id_column])
    return Snapshot(
        rows=decider._history.rows(),
        sums={place: (n, total, paid) for place, (n, total, paid) in counts.offers.items()},
        made=ledger.made,
        waiting=waiting,
        closed=counts.closed,
        unknown={name: dict(known) for name, known in counts.unknown.items()},
        added=frozenset(range(first, len(offers))),
        limited=frozenset(offers.places[name] for name in decider._limits.most),
        offers=offers,
        contexts=decider._contexts.copy(),
        rules=decider._rules,
        model=decider._model.clone(offers),
        explore=decider.explore,
        closes=decider._closing is not None,
        prices=offers.ordered is not None,
    )


def forecasts(of: Snapshot, contexts: FloatArray, places: IntArray) -> FloatArray:
    """The rewards expected of some offers in each of these contexts, (n, offers); NaN where rules
    bar one. There must be a forecast.
    """
    assert of.model.forecast is not None
    n, k = len(contexts), len(places)
    at, which = np.repeat(np.arange(n), k), np.tile(places, n)
    values = np.empty(n * k)
    for start in range(0, n * k, CHUNK):
        part = slice(start, min(start + CHUNK, n * k))
        X = features(of, contexts[at[part]], which[part])
        values[part] = of.model.forecasts(X, len(X))
    table = values.reshape(n, k)
    if of.rules.stated:
        for i, row in enumerate(contexts):
            table[i, np.isin(places, of.barred(row))] = np.nan
    return table


def features(of: Snapshot, contexts: FloatArray, places: IntArray) -> FloatArray:
    """The forecast's features of offers in contexts, (n, dim)."""
    nothing = np.zeros(len(places))
    rows = Rows(contexts, places, nothing, nothing, nothing, nothing != 0.0)
    return of.model.features(of.contexts, of.offers, rows)
