"""The figures of a report, from the decisions that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import GREATEST
from heavytail.decider.against import compared
from heavytail.decider.choice import amount
from heavytail.decider.contexts import CATEGORY, NUMBER
from heavytail.decider.history import Rows
from heavytail.decider.markup import note, table
from heavytail.decider.report import Course, OfferLine, Report, SegmentLine
from heavytail.decider.snapshot import Snapshot, forecasts
from heavytail.logs.wealth import BETS, SHARES

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["bounds", "html_of", "least", "report", "thirds"]

FEW: Final = 20  # rewards below which no bound is stated
MOST_BOUNDS: Final = 30  # offers, those shown most, that have bounds
HALVINGS: Final = 60  # of an interval, until its ends are alike
MOST_TEXTS: Final = 12  # categories of a column that are segments
MOST_FORECASTS: Final = 40_000
MOST_CONTEXTS: Final = 600  # in which offers are forecast
LEAST_CONTEXTS: Final = 20
MOST: Final = 20  # offers in a table
MISSING: Final = "(missing)"


def report(of: Snapshot, against: object, level: float) -> Report:
    """The report of a Decider at one moment."""
    own = of.own
    visits, total, paid = (sum(sums[k] for sums in of.sums.values()) for k in range(3))
    below = bool(np.min(own.rewards, initial=0.0) < 0.0)
    low, high, approximate = bounds(own.rewards, level, below)
    places, lines = _by_offer(of, own, level, below)
    return Report(
        level=level,
        decisions=max(of.made, of.came + sum(of.waiting.values())),  # others are served
        rewards=of.came,
        total=of.total,
        uncounted=of.uncounted,
        logged=int(np.count_nonzero(~of.rows.own)),
        mean=float(total / visits) if visits else None,
        recent=float(np.mean(own.rewards)) if len(own) else None,
        kept=len(own),
        lower=low,
        upper=high,
        approximate=approximate,
        paid=float(paid / visits) if visits else None,
        waiting=sum(of.waiting.values()),
        closed=of.closed,
        unknown=of.unknown,
        offers=lines,
        segments=_by_segment(of, own),
        against=None if against is None else compared(of, against, level),
        _course=Course(places, own.offers, own.rewards, own.times),
    )


def html_of(decider: Decider) -> str:
    """A Decider as a table of its offers."""
    offers, sums = decider._offers, decider._counts.offers
    rows = []
    for place in sorted(range(len(offers)), key=lambda place: -sums.get(place, [0.0])[0])[:MOST]:
        visits, total, _ = sums.get(place, [0.0, 0.0, 0.0])
        mean = amount(total / visits) if visits else ""
        runs = "" if offers.runs[place] else "retired"
        rows.append([offers.ids[place], f"{visits:,.0f}", mean, amount(total), runs])
    heads = ["offer", "visits", "a visit", "total", ""]
    return f"<div>{note(repr(decider))}{table(heads, rows)}</div>"


def bounds(
    rewards: FloatArray, level: float, below: bool = False
) -> tuple[float | None, float | None, bool]:
    """Bounds of the mean of rewards, and whether they are approximate; none of few. Where rewards
    may lie ``below`` 0, both; else the lower one alone, by :func:`least`.
    """
    from heavytail.logs import evaluate

    if len(rewards) < FEW:
        return None, None, False
    if not below and rewards.min() >= 0.0:
        return least(rewards, level), None, False
    if np.ptp(rewards) == 0.0:
        return None, None, True
    log = {
        "action": np.zeros(len(rewards), dtype=np.int64),
        "reward": np.clip(rewards, -GREATEST, GREATEST),
    }
    result = evaluate(log, "logged", bound="huber", level=level)
    return result.lower, result.upper, True


def least(rewards: FloatArray, level: float) -> float:
    """A lower bound of what visits earned on average, where no reward is below 0.

    What a visit is worth moves: with who comes, and as the Decider learns. Let m_t be the mean of
    X_t given what came before, and m their average. For a bet b that never changes, the product of
    (1 + b X_t)/(1 + b m_t) is a supermartingale that starts at 1, and of (1 + b X_t)/(1 + b m) is
    no more, as the geometric mean of 1 + b m_t is at most the arithmetic one. So is an average
    over bets; it passes 1/(1 - level) at some t with probability 1 - level at most (Ville). The
    bound is the m at which it does: below the mean of the rewards, and true in all reports at once
    as long as every reward is kept.

    The unit of the bets is the first reward above 0, and the rewards behind it are bet on: those
    before it are taken to be 0, and so is it.
    """
    first = int(np.argmax(rewards > 0.0))
    rest = rewards[first + 1 :]
    if not rest.any():
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # a first reward next to nothing
        bets = BETS / rewards[first]
        wealth = np.array([np.log1p(bet * rest).sum() for bet in bets])
    wealth += np.log(SHARES / SHARES.sum())
    bets, wealth = bets[np.isfinite(wealth)], wealth[np.isfinite(wealth)]
    if len(bets) == 0:
        return 0.0

    def ruled_out(mean: float) -> bool:
        logs = wealth - len(rest) * np.log1p(bets * mean)
        most = logs.max()
        return bool(most + np.log(np.exp(logs - most).sum()) > -np.log1p(-level))

    low, high = 0.0, float(np.mean(rest))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low * len(rest) / len(rewards)


Lines = tuple[tuple[int, ...], tuple[OfferLine, ...]]


def _by_offer(of: Snapshot, own: Rows, level: float, below: bool) -> Lines:
    """The places of the offers that are listed, and a line for each."""
    everything = sum(sums[0] for sums in of.sums.values())
    often = sorted(of.sums, key=lambda place: -of.sums[place][0])[:MOST_BOUNDS]
    places, lines = [], []
    for place, name in enumerate(of.offers.ids):
        visits, total, paid = of.sums.get(place, (0.0, 0.0, 0.0))
        if of.prices and not visits:
            continue
        rewards = own.rewards[own.offers == place]
        low, high, _ = bounds(rewards, level, below) if place in often else (None, None, False)
        places.append(place)
        lines.append(
            OfferLine(
                name,
                bool(of.offers.runs[place]),
                float(visits / everything) if everything else 0.0,
                int(visits),
                float(paid / visits) if visits else 0.0,
                float(np.mean(rewards)) if len(rewards) else None,
                low,
                high,
                float(total),
            )
        )
    return tuple(places), tuple(lines)


def _by_segment(of: Snapshot, own: Rows) -> tuple[SegmentLine, ...]:
    """Visits by the categories of each column, and by thirds of its numbers."""
    if len(own) == 0:
        return ()
    places = of.offers.running
    sample, values = np.empty(0, dtype=np.int64), np.empty((0, len(places)))
    if of.model.forecast is not None and len(places):
        count = int(np.clip(MOST_FORECASTS // len(places), LEAST_CONTEXTS, MOST_CONTEXTS))
        sample = np.unique(np.linspace(0, len(own) - 1, count).astype(np.int64))
        values = forecasts(of, own.contexts[sample], places)
    lines = []
    for column, name in enumerate(of.contexts.names):
        labels, which = parts(of, column, own.contexts[:, column])
        for number, label in enumerate(labels):
            inside = which == number
            best, most = _best(values[inside[sample]], of, places)
            mean = float(np.mean(own.rewards[inside]))
            lines.append(SegmentLine(name, label, int(inside.sum()), mean, best, most))
    return tuple(lines)


def _best(values: FloatArray, of: Snapshot, places: IntArray) -> tuple[str | None, float | None]:
    """The offer with the largest forecast on average over some contexts."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    if not count.any():
        return None, None
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    best = int(np.argmax(np.where(count > 0, mean, -np.inf)))
    return of.offers.ids[int(places[best])], float(mean[best])


def parts(of: Snapshot, column: int, values: FloatArray) -> tuple[list[str], IntArray]:
    """The segments of a column that occur, and the number of each row's, -1 for none."""
    which = np.full(len(values), -1)
    labels: list[str] = []
    kind, texts = of.contexts.kinds[column], list(of.contexts.texts[column])
    groups: list[tuple[str, Any]] = []
    if kind == CATEGORY and len(texts) <= MOST_TEXTS:
        groups = [(text, values == place) for place, text in enumerate(texts)]
        groups.append((MISSING, values == -1))
    elif kind == NUMBER:
        groups = [*thirds(values), (MISSING, np.isnan(values))]
    for label, inside in groups:
        if inside.any():
            which[inside] = len(labels)
            labels.append(label)
    return labels, which


def thirds(values: FloatArray) -> list[tuple[str, Any]]:
    """Numbers by thirds, each with its label; by value where there are three or fewer."""
    known = values[np.isfinite(values)]
    each = np.unique(known)
    if len(each) <= 3:
        return [(amount(float(value)), values == value) for value in each]
    ends = np.quantile(known, (1 / 3, 2 / 3), method="nearest")
    cuts = sorted({float(end) for end in ends if end > each[0]}) or [float(each[1])]
    groups = [(f"below {amount(cuts[0])}", values < cuts[0])]
    if len(cuts) == 2:
        inside = (values >= cuts[0]) & (values < cuts[1])
        groups.append((f"{amount(cuts[0])} to {amount(cuts[1])}", inside))
    return [*groups, (f"{amount(cuts[-1])} and more", values >= cuts[-1])]
