"""``Effects``: what each column of the context changes about each offer, by the forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_choice
from heavytail.decider.choice import amount
from heavytail.decider.contexts import CATEGORY, NUMBER
from heavytail.decider.contrasts import Averages, averages, contrast, value
from heavytail.decider.markup import counted, note, signed, table, text_table
from heavytail.decider.report import pandas_for
from heavytail.decider.reporting import MISSING
from heavytail.decider.shape import LEVEL
from heavytail.decider.snapshot import Snapshot, features

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Effect", "Effects", "Price", "effects"]

MOST_OFFERS: Final = 12  # whose effects are computed, those shown most
OF_PRICES: Final = 5  # prices of a Grid whose effects are computed
MOST_PRICES: Final = 60  # of the curve along a Grid
MOST_TEXTS: Final = 12  # categories of a column, those that come most
AT: Final = tuple(np.linspace(0.05, 0.95, 13))  # quantiles of a number at which it is set
STATED: Final = (1, 6, 11)  # those of which something may be stated: low, middle, high
LEAST_ROWS: Final = 40  # contexts that are averaged over
WORK: Final = 5e7  # features that are computed, in all


class Effect(NamedTuple):
    """The gain expected of an offer where a column has a value, over the average visit.

    Attributes:
        column: of the context.
        value: of the column.
        number: of the column; None of a category.
        offer: its id.
        effect: a visit, all other columns as they come.
        low: end of its interval.
        high: end of its interval.
        stated: whether it counts among those whose intervals hold together.
    """

    column: str
    value: str
    number: float | None
    offer: str
    effect: float
    low: float
    high: float
    stated: bool

    @property
    def sure(self) -> bool:
        """Tell whether the interval says which way it goes."""
        return self.stated and (self.low > 0.0 or self.high < 0.0)


class Price(NamedTuple):
    """The reward expected at a price, in the average visit.

    Attributes:
        price: of the Grid.
        expected: a visit.
        low: end of its interval; those of all prices hold together.
        high: end of its interval.
    """

    price: float
    expected: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of columns of the context, by the forecast; ``print`` it for sentences.

    An effect is the average, over the contexts that came, of the forecast with the column set to
    a value, less that over the contexts as they were. Its interval is the forecast's own
    (:mod:`heavytail.decider.contrasts`): where the forecast cannot follow what rewards do, nothing
    bounds how far it is off.

    Attributes:
        level: at which the intervals of all that may be stated hold together.
        columns: that were looked at.
        rows: the effects, for numbers along the column.
        prices: what is expected along the Grid of prices; empty for offers.
        rewards: that were learned.
        approximate: whether rewards are often 0, so that the forecast is a product and the
            intervals are those of its linear part.
        pairs: columns that act together, by a test of its own, among those that were looked at.
    """

    level: float
    columns: tuple[str, ...]
    rows: tuple[Effect, ...]
    prices: tuple[Price, ...]
    rewards: int
    approximate: bool
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def stated(self) -> tuple[Effect, ...]:
        """The effects whose intervals exclude 0."""
        return tuple(row for row in self.rows if row.sure)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each value of a column that has an effect beyond chance."""
        said = []
        for column, text in dict.fromkeys((row.column, row.value) for row in self.stated):
            mine = [row for row in self.stated if (row.column, row.value) == (column, text)]
            mine.sort(key=lambda row: -abs(row.effect))
            what = "a price of " * bool(self.prices)
            words = [f"{what}{_words(row, k == 0)}" for k, row in enumerate(mine)]
            named = f"{column} {text}" if mine[0].number is None else f"{column} about {text}"
            said.append(f"{named}: {'; '.join(words)}.")
        if self.prices:
            best = max(self.prices, key=lambda each: each.expected)
            sure = f"{100.0 * self.level:.4g} %"
            said.append(
                f"Most is expected at a price of {best.price:g}: {amount(best.expected)} a visit "
                f"({amount(best.low)} to {amount(best.high)}, {sure})."
            )
        return tuple(said)

    @property
    def together(self) -> tuple[str, ...]:
        """One sentence for each pair of columns that act together."""
        return tuple(
            f"{one} and {other} act together ({100.0 * (1.0 - LEVEL):.4g} %): what one changes "
            "depends on the other. To see it, compare expected(...) of contexts that differ in "
            "both."
            for one, other in self.pairs
        )

    @property
    def silent(self) -> tuple[str, ...]:
        """The columns of which nothing can be stated."""
        loud = {row.column for row in self.stated}
        return tuple(column for column in self.columns if column not in loud)

    def most(self, column: str) -> float:
        """The largest effect that a column may have: infinity where nothing is known."""
        rows = [row for row in self.rows if row.column == column and row.stated]
        return max((max(row.high, -row.low) for row in rows), default=math.inf)

    def _head(self) -> str:
        if not self.columns and not self.prices:
            return "The context has no column yet whose effect could be told."
        if not self.rows and not self.prices:
            return f"Too little is known yet: {counted(self.rewards, 'reward')} came."
        if not self.stated:
            of = f" of {' or '.join(self.columns)}" if self.columns else ""
            return f"No effect{of} is beyond chance after {counted(self.rewards, 'reward')}."
        about = ", approximately" if self.approximate else ""
        return f"Beyond chance, all together at {100.0 * self.level:.4g} %{about}:"

    def _foot(self) -> str:
        if not self.stated or not self.silent:
            return ""
        return f"Nothing beyond chance: {', '.join(self.silent)}."

    def __str__(self) -> str:
        foot = [self._foot()] if self._foot() else []
        return "\n".join([self._head(), *self.sentences, *foot, *self.together])

    def _repr_html_(self) -> str:
        heads = ["column", "value", "offer", "effect a visit", "from", "to"]
        rows = [
            [row.column, row.value, row.offer, signed(row.effect), signed(row.low),
             signed(row.high)]
            for row in self.stated
        ]  # fmt: skip
        of_prices = self.sentences[-1:] if self.prices else ()
        said = [self._head(), self._foot(), *of_prices, *self.together]
        return f"<div>{note(*said)}{table(heads, rows) if rows else ''}</div>"

    def table(self) -> str:
        """All effects of which something may be stated, sure or not, as text."""
        heads = ["column", "value", "offer", "effect", "from", "to"]
        rows = [
            [r.column, r.value, r.offer, signed(r.effect), signed(r.low), signed(r.high)]
            for r in self.rows
            if r.stated
        ]
        return "\n".join(text_table(heads, rows))

    def to_pandas(self) -> Any:
        """All effects as a frame of pandas, along the numbers too."""
        pandas = pandas_for("Effects.to_pandas")
        return pandas.DataFrame([tuple(row) for row in self.rows], columns=list(Effect._fields))

    def plot(self, column: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot the effect of a column: of a number as curves with bands, one per offer. Without a
        column what is expected along the prices, or the column with the largest effect.
        """
        from heavytail.decider import plots

        if column is None and self.prices:
            return plots.prices(self, ax)
        if not self.rows:
            raise ValueError(f"Effects.plot: there is nothing to draw. {self._head()}")
        if column is None:
            column = max(self.stated or self.rows, key=lambda row: abs(row.effect)).column
        check_choice("Effects.plot: column", column, self.columns)
        return plots.effect(self, column, ax)


def _words(row: Effect, is_first: bool) -> str:
    """An effect with the end of its interval that is nearer to 0."""
    what, least = ("more", row.low) if row.low > 0.0 else ("less", -row.high)
    size, bound = amount(abs(row.effect)), f"(at least {amount(least)} {what})"
    if is_first:
        return f"{row.offer} earns {size} a visit {what} than in the average visit {bound}"
    return f"{row.offer}, {size} {what} {bound}"


class _Values(NamedTuple):
    """The values of a column that are looked at: codes, labels, and whether each is stated."""

    name: str
    column: int
    codes: FloatArray
    labels: list[str]
    stated: list[bool]
    is_number: bool


def effects(of: Snapshot, column: str | None, level: float) -> Effects:
    """Compute the effects of one column, or of all."""
    names = of.contexts.names
    if column is not None:
        check_choice("Decider.effects: column", column, names)
    asked = [_values(of, i) for i, name in enumerate(names) if column in (None, name)]
    sets = [each for each in asked if each is not None and len(each.codes) > 1]
    columns, rewards = tuple(each.name for each in sets), of.model.policy.rounds
    policy, n = of.model.forecast, len(of.rows)
    if policy is None or n == 0 or len(of.offers.running) == 0:
        return Effects(level, columns, (), (), rewards, approximate=False)
    offers = of.most_shown(MOST_OFFERS)
    if of.prices:
        at = np.linspace(0, len(of.offers) - 1, 2 * OF_PRICES + 1)[1::2]
        offers = [int(place) for place in np.unique(at.round())]
    cells = len(offers) * (1 + sum(len(each.codes) for each in sets))
    contexts = _some(of, cells)
    stated = len(offers) * sum(sum(each.stated) for each in sets)
    each_level = 1.0 - (1.0 - level) / max(stated, 1)
    rows: list[Effect] = []
    before = {place: _at(of, contexts, place) for place in offers}
    for values in sets:
        for k, code in enumerate(values.codes):
            there = contexts.copy()
            there[:, values.column] = code
            for place in offers:
                after = _at(of, there, place)
                effect, low, high = contrast(policy, after, before[place], each_level, n)
                rows.append(
                    Effect(
                        values.name, values.labels[k], float(code) if values.is_number else None,
                        of.offers.ids[place], effect, low, high,
                        values.stated[k],
                    )
                )  # fmt: skip
    prices = _along(of, level) if of.prices else ()
    pairs = tuple(pair for pair in of.model.shape.pairs if column is None or column in pair)
    return Effects(level, columns, tuple(rows), prices, rewards, policy._has_zeros, pairs)


def _some(of: Snapshot, cells: int) -> FloatArray:
    """The contexts that came, or as many of them, evenly spaced, as there is time to look at in so
    many cells of a table.
    """
    assert of.model.forecast is not None
    count = max(int(WORK / (cells * of.model.forecast.dim)), LEAST_ROWS)
    if count >= len(of.rows):
        return of.rows.contexts
    return of.rows.contexts[np.linspace(0, len(of.rows) - 1, count).astype(np.int64)]


def _at(of: Snapshot, contexts: FloatArray, place: int) -> Averages:
    """Averages of an offer over contexts."""
    assert of.model.forecast is not None
    return averages(of.model.forecast, features(of, contexts, np.full(len(contexts), place)))


def _values(of: Snapshot, column: int) -> _Values | None:
    """The values of a column that came, the most frequent categories or quantiles of numbers."""
    name, kind = of.contexts.names[column], of.contexts.kinds[column]
    codes = of.rows.contexts[:, column]
    if of.model.encoder is None or name not in of.model.encoder.columns:
        return None
    if kind == CATEGORY:
        each, count = np.unique(codes, return_counts=True)
        each = each[np.argsort(-count, kind="stable")][:MOST_TEXTS]
        texts = [*of.contexts.texts[column], MISSING]
        labels = [texts[int(code)] for code in each]
        return _Values(name, column, each, labels, [True] * len(each), False)
    known = codes[np.isfinite(codes)]
    if kind != NUMBER or len(known) == 0:
        return None
    at = np.quantile(known, AT, method="nearest")
    stated = {float(at[k]) for k in STATED}
    each = np.unique(at)
    labels = [amount(float(code)) for code in each]
    return _Values(name, column, each, labels, [float(c) in stated for c in each], True)


def _along(of: Snapshot, level: float) -> tuple[Price, ...]:
    """The rewards expected along the prices, with intervals that hold together."""
    assert of.model.forecast is not None
    assert of.offers.ordered is not None
    places = np.unique(np.linspace(0, len(of.offers) - 1, MOST_PRICES).astype(np.int64))
    contexts = _some(of, len(places))
    each_level = 1.0 - (1.0 - level) / len(places)
    along = []
    for place in places:
        mean, low, high = value(
            of.model.forecast, _at(of, contexts, int(place)), each_level, len(of.rows)
        )
        price = float(of.offers.columns[of.offers.ordered][int(place)])
        along.append(Price(price, mean, low, high))
    return tuple(along)
