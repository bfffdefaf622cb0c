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

__all__ = ["Snapshot", "features", "forecasts", "settled", "snapshot"]

CHUNK: Final = 4096  # rows encoded at a time


class Snapshot(NamedTuple):
    """The state of a Decider that a report needs.

    Attributes:
        rows: that are kept, of its own and of logs, oldest first, and are ``settled``.
        came: rewards over the whole life.
        total: of them.
        uncounted: rewards of visits that are not settled.
        sums: by the place of an offer: rewards of settled visits over the whole life, their sum,
            how many were not 0.
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
    came: int
    total: float
    uncounted: int
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
    rows = decider._history.rows()
    which = settled(decider, rows)
    uncounted, rows = len(rows) - len(which), rows.where(which)
    sums = {place: (n, total, paid) for place, (n, total, paid) in counts.offers.items()}
    came, total = (sum(each[k] for each in sums.values()) for k in range(2))
    waiting: dict[int, int] = {}
    for decision in ledger.kept.values():
        place = int(decision.x[-2])
        waiting[place] = waiting.get(place, 0) + 1
    offers = decider._offers
    begun = decider._arguments["offers"]
    first = len(offers) if begun is None else len(begun[offers.id_column])
    return Snapshot(
        rows=rows,
        came=int(came),
        total=float(total),
        uncounted=uncounted,
        sums=_sums(rows) if uncounted else sums,
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


def settled(decider: Decider, rows: Rows) -> IntArray:
    """The places of rows by which visits may be judged: its own in the order of their visits.

    A visit that bought has its reward at once, and one that did not only when it is closed. So the
    visits since the oldest that waits are left out where decisions are closed with a reward: those
    of them that have one bought, most of them. Where rows are no longer kept, rewards of new visits
    stand for those of the older ones that are closed meanwhile, and all count once some are.
    """
    own, order = np.flatnonzero(rows.own), np.arange(len(rows))
    order[own] = own[np.argsort(rows.times[own], kind="stable")]
    if decider._closing is None or decider._closing[1] is None or len(own) == 0:
        return order
    counts, ledger = decider._counts, decider._ledger
    came = sum(n for n, _, _ in counts.offers.values())
    if len(own) < came:
        since = np.inf if counts.closed else -np.inf
    elif ledger.made < came:  # others decided, and know who waits
        since = np.nanmax(rows.times[own], initial=-np.inf) - decider._closing[0]
    else:
        since = min((each.time for each in ledger.kept.values()), default=np.inf)
    return order[~(rows.own & (rows.times >= since))[order]]


def _sums(rows: Rows) -> dict[int, tuple[float, float, float]]:
    """By the place of an offer: its own rewards, their sum, and how many were not 0."""
    sums = {}
    for place in np.unique(rows.offers[rows.own]):
        rewards = rows.rewards[rows.own & (rows.offers == place)]
        paid = float(np.count_nonzero(rewards))
        sums[int(place)] = float(len(rewards)), float(rewards.sum()), paid
    return sums


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
