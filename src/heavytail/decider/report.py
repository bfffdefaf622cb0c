"""``Report``: what a Decider earned, by offer and by segment, and against a rule."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from heavytail._extras import need
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_choice, shown
from heavytail.decider.against import Against
from heavytail.decider.choice import amount
from heavytail.decider.markup import counted, note, percent, table, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Course", "OfferLine", "Report", "SegmentLine"]

MOST_LINES: Final = 20  # offers, or values of a column, that are printed
MOST_NAMED: Final = 3  # unknown values of a column
OTHERS: Final = "others"  # what Counts calls those beyond the first
NO_UPPER: Final = "There is no upper bound: a large and rare reward may still come."
FEW_REWARDS: Final = "Too few rewards for a bound"
OFFERS, SEGMENTS = "offers", "segments"


class OfferLine(NamedTuple):
    """The earnings of one offer.

    Attributes:
        id: of the offer.
        runs: whether it may be chosen.
        share: of the visits that have their reward.
        visits: that have their reward, over the whole life.
        paid: share of these whose reward was not 0.
        mean: a visit, of the rewards that are kept; None where none is.
        lower: bound of the mean, or None: of few visits there is none.
        upper: bound of the mean, or None.
        total: over the whole life.
    """

    id: str
    runs: bool
    share: float
    visits: int
    paid: float
    mean: float | None
    lower: float | None
    upper: float | None
    total: float


class SegmentLine(NamedTuple):
    """The earnings of visits of one kind.

    Attributes:
        column: of the context.
        value: of the column, or a range of numbers.
        visits: of the rewards that are kept.
        mean: a visit.
        best: id of the offer that is expected to earn most there; None where nothing is known.
        expected: of that offer; None where nothing is known.
    """

    column: str
    value: str
    visits: int
    mean: float
    best: str | None
    expected: float | None


class Course(NamedTuple):
    """The kept rewards of own decisions, for plots; ``places`` are those of the report's lines."""

    places: tuple[int, ...]
    offers: IntArray
    rewards: FloatArray
    times: FloatArray


@dataclass(frozen=True, eq=False)
class Report:
    """The earnings of a Decider's own decisions; ``print`` it, or let Jupyter show it.

    Attributes:
        level: of each bound by itself.
        decisions: made.
        rewards: that came, closed decisions with theirs.
        total: of the rewards.
        uncounted: rewards left out of all other figures, as other visits since then still wait to
            be closed: those that bought have their rewards first.
        logged: rows of logs that are kept, which all figures leave out.
        mean: a visit, over the whole life; None before any reward.
        recent: the mean of the ``kept`` rewards, which the bounds are of.
        kept: the last rewards, at most 16,384 together with those of logs.
        lower: bound of what a visit like these earns on average, or None.
        upper: bound of it, or None.
        approximate: whether the bounds assume that the tail goes on as it was.
        paid: the share of visits whose reward was not 0; None before any reward.
        waiting: decisions without a reward yet.
        closed: decisions whose reward was taken to be what ``close_after`` says.
        unknown: by column, values that the model did not know when they came, and how often.
        offers: a line for each.
        segments: a line for each kind of visit.
        against: the comparison with a rule, or None.
    """

    level: float
    decisions: int
    rewards: int
    total: float
    uncounted: int
    logged: int
    mean: float | None
    recent: float | None
    kept: int
    lower: float | None
    upper: float | None
    approximate: bool
    paid: float | None
    waiting: int
    closed: int
    unknown: Mapping[str, Mapping[str, int]]
    offers: tuple[OfferLine, ...]
    segments: tuple[SegmentLine, ...]
    against: Against | None = None
    _course: Course | None = field(default=None, repr=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences about all visits."""
        said = []
        if not self.rewards:
            said.append(f"{counted(self.decisions, 'decision')}, and no reward yet.")
            if self.logged:
                said.append(
                    f"{counted(self.logged, 'row')} of a log, which others decided, taught what "
                    "effects() and expected() say."
                )
        elif self.mean is None:
            said.append(
                f"{counted(self.decisions, 'decision')}, {counted(self.rewards, 'reward')}: "
                f"{amount(self.total)} in all."
            )
        else:
            assert self.paid is not None
            paid = "of the visits paid"
            if self.approximate or self.total < 0.0:
                paid = "of the rewards are not 0"
            said.append(
                f"{counted(self.decisions, 'decision')}, {counted(self.rewards, 'reward')}: "
                f"{amount(self.total)} in "
                f"all, {amount(self.mean)} a visit; {percent(self.paid)} {paid}."
            )
            said += self._bounds()
        if self.uncounted:
            said.append(
                f"{counted(self.uncounted, 'reward')} of new visits count only in the total "
                "yet: other visits since then still wait, and those that buy report first."
            )
        if self.waiting:
            waits = "waits for its reward" if self.waiting == 1 else "wait for their reward"
            said.append(f"{counted(self.waiting, 'decision')} {waits}.")
        if self.closed:
            were = "was" if self.closed == 1 else "were"
            said.append(f"{self.closed:,} {were} closed: no reward came in time.")
        for column, values in self.unknown.items():
            often = sorted(values.keys() - {OTHERS}, key=lambda text: (-values[text], text))
            named = ", ".join(f"{shown(text)} ({values[text]:,})" for text in often[:MOST_NAMED])
            if len(often) > MOST_NAMED or OTHERS in values:
                named += " and others"
            said.append(f"Not known to the model when they came, in {column}: {named}.")
        if self.against is not None:
            said.append(str(self.against))
        return tuple(said)

    def _bounds(self) -> list[str]:
        """Sentences on what a visit earns on average."""
        if self.recent is None:
            return []
        of = ""
        if self.kept + self.uncounted < self.rewards:
            of = f" (the last {self.kept:,}: {amount(self.recent)} a visit)"
        sure = f"({100.0 * self.level:.4g} %)"
        if self.lower is None:
            return [f"{'All rewards are equal' if self.approximate else FEW_REWARDS}{of}."]
        if self.upper is None:
            if self.lower == 0.0:
                return [f"Too little was paid for a bound above 0{of}. {NO_UPPER}"]
            least = f"On average such a visit earns at least {amount(self.lower)} {sure}{of}"
            return [f"{least}, as long as no reward is below 0. {NO_UPPER}"]
        ends = f"{amount(self.lower)} to {amount(self.upper)}"
        return [
            f"On average such a visit earns about {ends} {sure}{of}. This is approximate, as some "
            "rewards are below 0: a larger reward than any so far would change it."
        ]

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Titles, heads and rows."""
        tables = []
        often = sorted(self.offers, key=lambda line: -line.visits)[:MOST_LINES]
        if often:
            about = "about " * self.approximate
            title = f"By offer; each bound by itself holds at {about}{100.0 * self.level:.4g} %"
            if self.kept + self.uncounted < self.rewards:
                title += f"; means and bounds of the last {self.kept:,} rewards"
            if len(self.offers) > len(often):
                title += f"; the {len(often)} most shown of {len(self.offers):,}"
            heads = ["offer", "visits", "share", "paid", "a visit", "at least", "at most", "total"]
            rows = [_row(line) for line in often]
            if all(line.upper is None for line in often):
                heads.pop(6)
                rows = [row[:6] + row[7:] for row in rows]
            tables.append((title, heads, rows))
        for column in dict.fromkeys(line.column for line in self.segments):
            lines = [line for line in self.segments if line.column == column]
            rows = [
                [
                    line.value, f"{line.visits:,}", amount(line.mean), line.best or "",
                    "" if line.expected is None else amount(line.expected),
                ]
                for line in lines
            ]  # fmt: skip
            heads = [column, "visits", "a visit", "expected to earn most", "expected"]
            tables.append(("", heads, rows))
        return tables

    def __str__(self) -> str:
        lines = list(self.sentences)
        for title, heads, rows in self._tables():
            lines += ["", *([title] if title else []), *text_table(heads, rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = (table(heads, rows, title) for title, heads, rows in self._tables())
        return f"<div>{note(*self.sentences)}{''.join(tables)}</div>"

    def to_pandas(self, of: str = OFFERS) -> Any:
        """The table of "offers", or of "segments", as a frame of pandas."""
        check_choice("Report.to_pandas: of", of, (OFFERS, SEGMENTS))
        pandas = pandas_for("Report.to_pandas")
        lines: Any = self.offers if of == OFFERS else self.segments
        kind = OfferLine if of == OFFERS else SegmentLine
        return pandas.DataFrame([tuple(line) for line in lines], columns=list(kind._fields))

    def plot(self) -> Figure:
        """Plot a panel: each offer's mean over time and in all, and how large rewards can be."""
        from heavytail.decider.plots import panel

        return panel(self)


def _row(line: OfferLine) -> list[str]:
    few = "few" if line.mean is not None else ""
    return [
        line.id if line.runs else f"{line.id} (retired)",
        f"{line.visits:,}",
        percent(line.share),
        percent(line.paid),
        "" if line.mean is None else amount(line.mean),
        few if line.lower is None else amount(line.lower),
        "" if line.upper is None else amount(line.upper),
        amount(line.total),
    ]


def pandas_for(who: str) -> Any:
    """The package pandas, or a refusal on behalf of ``who``."""
    need(who, "pandas", extra="pandas")
    return importlib.import_module("pandas")
