"""Pictures of reports and effects."""

from __future__ import annotations

import importlib
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._extras import need_to_draw
from heavytail._typing import FloatArray
from heavytail.decider.choice import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from heavytail.decider.effects import Effects
    from heavytail.decider.report import Report

__all__ = ["effect", "over_time", "panel", "prices", "shares", "tail", "worth"]

MOST_LINES: Final = 6  # offers in one picture
BINS: Final = 20
PER_BIN: Final = 100  # rewards, at least
LEAST: Final = 10  # rewards of an offer in a bin
DAY: Final = 86400.0


def _axes(ax: Axes | None, who: str) -> Axes:
    if ax is not None:
        return ax
    need_to_draw(who)
    from matplotlib.figure import Figure

    return Figure(figsize=(6.4, 4.2), layout="constrained").subplots()


def panel(report: Report) -> Figure:
    """Four pictures of a report."""
    need_to_draw("Report.plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.5), layout="constrained")
    first, second, third, fourth = figure.subplots(2, 2).ravel()
    over_time(report, first)
    shares(report, second)
    worth(report, third)
    tail(report, fourth)
    return figure


def _often(report: Report) -> list[int]:
    """Places of the offers that are shown most, in the order of the table."""
    lines = [i for i, line in enumerate(report.offers) if line.mean is not None]
    return sorted(sorted(lines, key=lambda i: -report.offers[i].visits)[:MOST_LINES])


def _nothing(ax: Axes, title: str, why: str) -> Axes:
    ax.set_title(title, loc="left")
    ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes, color="0.4")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _course(report: Report) -> Any:
    assert report._course is not None
    return report._course


def over_time(report: Report, ax: Axes | None = None) -> Axes:
    """Plot what each offer earned a visit, over time, with bands of about two standard errors."""
    ax = _axes(ax, "Report.plot")
    title, course = "What each offer earned a visit, over time", _course(report)
    edges = _edges(len(course.rewards))
    if len(edges) < 3:
        return _nothing(ax, title, "too few rewards")
    x, by_time = _middles(course.times, edges)
    highest = 0.0
    for k, i in enumerate(_often(report)):
        points = []
        for b, (start, stop) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            part = slice(start, stop)
            rewards = course.rewards[part][_is(report, i, course.offers[part])]
            if len(rewards) >= LEAST:
                points.append((x[b], *_robust(rewards)))
        if not points:
            continue
        at, mean, half = (np.array(values) for values in zip(*points, strict=True))
        name = _short(report.offers[i].id)
        ax.plot(at, mean, "o-", markersize=3, color=f"C{k}", label=name)
        ax.fill_between(at, mean - half, mean + half, color=f"C{k}", alpha=0.15, linewidth=0)
        highest = max(highest, float(np.max(mean)))
    low, high = ax.get_ylim()
    if highest > 0.0 and min(line.mean or 0.0 for line in report.offers) >= 0.0:
        ax.set_ylim(0.0, min(high, 3.0 * highest))
    else:
        ax.set_ylim(low, high)
    _along(ax, title, by_time)
    ax.legend(fontsize="small")
    return ax


def _is(report: Report, line: int, offers: Any) -> Any:
    return offers == _course(report).places[line]


def _edges(count: int) -> list[int]:
    """The ends of bins with about as many rewards each."""
    bins = min(BINS, count // PER_BIN)
    return [int(edge) for edge in np.linspace(0, count, bins + 1)] if bins > 1 else []


def _middles(times: FloatArray, edges: list[int]) -> tuple[list[Any], bool]:
    """The middle of each bin: its time where all are known and differ, or its number of rewards."""
    pairs = list(zip(edges[:-1], edges[1:], strict=True))
    if np.isfinite(times).all() and float(np.ptp(times)) > 1.0:
        middles = [float(np.median(times[a:b])) for a, b in pairs]
        if all(a < b for a, b in zip(middles[:-1], middles[1:], strict=True)):
            return [datetime.fromtimestamp(second, UTC) for second in middles], True
    return [0.5 * (a + b) for a, b in pairs], False


def _along(ax: Axes, title: str, by_time: bool) -> None:
    """Label a picture over time, or over the number of rewards where times are unknown."""
    ax.set_title(title, loc="left")
    ax.set_xlabel("time" if by_time else "rewards")
    if by_time:
        dates: Any = importlib.import_module("matplotlib.dates")
        locator = dates.AutoDateLocator(maxticks=6)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _robust(rewards: FloatArray) -> tuple[float, float]:
    """The mean by Huber's threshold of the logs, and two of its standard errors."""
    from heavytail.logs import evaluate

    log = {"action": np.zeros(len(rewards), dtype=np.int64), "reward": rewards}
    result = evaluate(log, "logged", bound=None)
    error = result.error if math.isfinite(result.error) else 0.0
    return result.value, 2.0 * error


def shares(report: Report, ax: Axes | None = None) -> Axes:
    """Plot which part of the visits each offer had, over time."""
    ax = _axes(ax, "Report.plot")
    title, course = "Share of the visits, over time", _course(report)
    edges = _edges(len(course.rewards))
    if len(edges) < 3:
        return _nothing(ax, title, "too few rewards")
    x, by_time = _middles(course.times, edges)
    rest = np.ones(len(x))
    layers, names = [], []
    for i in _often(report):
        mine = _is(report, i, course.offers)
        layers.append(
            [float(np.mean(mine[a:b])) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        )
        rest -= layers[-1]
        names.append(_short(report.offers[i].id))
    if np.any(rest > 1e-9):
        layers.append(list(np.maximum(rest, 0.0)))
        names.append("others")
    colors = [f"C{k}" if name != "others" else "0.7" for k, name in enumerate(names)]
    ax.stackplot(x, layers, labels=names, colors=colors, alpha=0.8)
    ax.set_ylim(0.0, 1.0)
    ax.margins(x=0.0)
    _along(ax, f"{title} (grey: others)" if names[-1:] == ["others"] else title, by_time)
    return ax


def worth(report: Report, ax: Axes | None = None) -> Axes:
    """Plot the mean of each offer with its bounds."""
    ax = _axes(ax, "Report.plot")
    title = f"Earned a visit, with bounds at {100.0 * report.level:.4g} %"
    often = _often(report)
    if not often:
        return _nothing(ax, title, "no rewards yet")
    for k, i in enumerate(often):
        line = report.offers[i]
        assert line.mean is not None
        ax.plot([line.mean], [k], "o", color=f"C{k}")
        if line.lower is not None:
            high = line.mean if line.upper is None else line.upper
            ax.plot([line.lower, high], [k, k], color=f"C{k}")
            ax.plot([line.lower], [k], "|", markersize=10, color=f"C{k}")
        ax.annotate(
            amount(line.mean), (line.mean, k), (0, 7), textcoords="offset points", ha="center",
            fontsize="small",
        )  # fmt: skip
    ax.set_yticks(range(len(often)), [_short(report.offers[i].id) for i in often])
    ax.set_ylim(len(often) - 0.4, -0.6)
    if all(report.offers[i].upper is None for i in often):
        ax.set_xlim(left=0.0)
        ax.set_xlabel("no upper bound: a large and rare reward may still come")
    ax.set_title(title, loc="left")
    return ax


def tail(report: Report, ax: Axes | None = None) -> Axes:
    """Plot which share of the rewards lies beyond x."""
    from heavytail.tails import diagnose

    ax = _axes(ax, "Report.plot")
    title, rewards = "How large rewards are", _course(report).rewards
    if len(rewards) < PER_BIN or np.ptp(rewards) == 0.0:
        return _nothing(ax, title, "too few rewards" if len(rewards) < PER_BIN else "all are equal")
    values = np.sort(np.abs(rewards[rewards != 0.0]))[::-1]
    share = np.arange(1, len(values) + 1) / len(rewards)
    ax.loglog(values, share, ".", markersize=3)
    seen = diagnose(rewards)
    ax.set_xlabel("reward of a visit")
    ax.set_ylabel("share of visits that earned this or more")
    largest = np.sort(np.abs(rewards))[::-1]
    part = float(largest[: max(1, len(rewards) // 100)].sum() / largest.sum())
    said = f"the largest 1 % of the visits have {part:.0%} of it all"
    if seen.heavy:
        said += ";\nlarger ones may come"
    ax.text(0.03, 0.05, said, transform=ax.transAxes, fontsize="small")
    ax.set_title(title, loc="left")
    return ax


def effect(effects: Effects, column: str, ax: Axes | None = None) -> Axes:
    """Plot the effects of one column."""
    ax = _axes(ax, "Effects.plot")
    rows = [row for row in effects.rows if row.column == column]
    offers = list(dict.fromkeys(row.offer for row in rows))[:MOST_LINES]
    labels = list(dict.fromkeys(row.value for row in rows))
    for k, offer in enumerate(offers):
        mine = [row for row in rows if row.offer == offer]
        mean, low, high = (np.array([getattr(row, part) for row in mine])
                           for part in ("effect", "low", "high"))  # fmt: skip
        known, x = np.isfinite(low), np.arange(len(mine), dtype=np.float64)
        if mine[0].number is not None:
            x = np.array([row.number for row in mine], dtype=np.float64)
            ax.plot(x, mean, color=f"C{k}", label=_short(offer))
            ax.fill_between(x[known], low[known], high[known], color=f"C{k}", alpha=0.12,
                            linewidth=0)  # fmt: skip
        else:
            x += 0.6 * ((k + 0.5) / len(offers) - 0.5)
            ax.plot(x, mean, "o", color=f"C{k}", label=_short(offer))
            ax.vlines(x[known], low[known], high[known], color=f"C{k}")
    if rows and rows[0].number is None:
        ax.set_xticks(range(len(labels)), [_short(label) for label in labels])
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel(column)
    ax.set_ylabel("a visit, against the average visit")
    ax.set_title(f"Effect of {column}, all together at {100.0 * effects.level:.4g} %", loc="left")
    ax.legend(fontsize="small")
    return ax


def prices(effects: Effects, ax: Axes | None = None) -> Axes:
    """Plot what is expected along the prices."""
    ax = _axes(ax, "Effects.plot")
    price, mean, low, high = (np.array(each) for each in zip(*effects.prices, strict=True))
    ax.plot(price, mean)
    known = np.isfinite(low)
    ax.fill_between(price[known], low[known], high[known], alpha=0.15, linewidth=0)
    best = int(np.argmax(mean))
    ax.plot([price[best]], [mean[best]], "o", color="C0")
    ax.annotate(amount(float(price[best])), (price[best], mean[best]), (0, 7),
                textcoords="offset points", ha="center")  # fmt: skip
    ax.set_xlabel("price")
    ax.set_ylabel("expected a visit")
    ax.set_title(f"Expected along the price, {100.0 * effects.level:.4g} % together", loc="left")
    return ax


def _short(text: str) -> str:
    """A name that fits, without what matplotlib would read as mathematics."""
    text = text.replace("$", r"\$")
    return text if len(text) <= 24 else f"{text[:23]}…"
