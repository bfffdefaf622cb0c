"""The picture of ``heavytail fit``: how much each feature matters, and how far the rows lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail.experiments.plots import drawn, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heavytail._typing import IntArray
    from heavytail.commands._fit_findings import Findings

__all__ = ["draw"]

MOST = 20  # features that have room
NAMED = 5  # outliers that carry their row
POINTS = 20_000  # rows that are drawn; outliers always are
ROOM = (0.18, 0.04)  # that the name of a row takes, as shares of the picture
INK, FAR = "#0072B2", "#D55E00"


def draw(found: Findings) -> Figure:
    """Slopes with their intervals, per standard deviation of the feature; residuals in scales."""
    figure, (left, right) = new_figure(columns=2)
    _slopes(left, found)
    _residuals(right, found)
    return figure


def _slopes(axis: Any, found: Findings) -> None:
    spread = found.design.X.std(axis=0)
    slopes = np.array([one[1:] for one in found.coefficients()[1:]]) * spread[:, None]
    order = np.argsort(-np.abs(slopes[:, 0]), kind="stable")[:MOST][::-1]
    for place, i in enumerate(order):
        axis.plot(slopes[i, 1:], [place, place], color=INK, lw=1.4)
        axis.plot(slopes[i, :1], [place], "o", color=INK, ms=4)
    axis.axvline(0.0, color="#999999", lw=0.8)
    axis.set_yticks(range(len(order)), [drawn(found.features[i]) for i in order])
    axis.set(ylim=(-1.0, len(order)))
    axis.set(xlabel=f"{drawn(found.target)} per standard deviation of the feature")
    level = f"{100.0 * found.model.level_:g} %"
    axis.set_title(f"slopes, {level} intervals", fontsize=9)


def _residuals(axis: Any, found: Findings) -> None:
    from matplotlib.ticker import SymmetricalLogLocator

    scale = found.scale or 1.0
    far = found.outliers
    near = np.setdiff1d(np.arange(len(found.y)), far)
    near = near[:: max(len(near) // POINTS, 1)]
    for rows, colour, size in ((near, INK, 2), (far, FAR, 4)):
        axis.plot(found.expected[rows], found.away[rows] / scale, ".", color=colour, ms=size)
    if len(far):
        axis.set_yscale("symlog", linthresh=found.beyond)
        axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10.0, linthresh=10.0))
    for side in (-found.beyond, found.beyond):
        axis.axhline(side, color="#999999", lw=0.8, ls="--")
    axis.margins(x=0.12)  # room for the last name
    _name(axis, found, far[:NAMED], scale)
    axis.set(xlabel="fitted", ylabel="from the typical row, in scales")
    axis.set_title(f"{len(far):,} of {len(found.y):,} rows are outliers", fontsize=9)


def _name(axis: Any, found: Findings, rows: IntArray, scale: float) -> None:
    """The numbers of rows beside their points, except where another's is in the way."""
    taken: list[tuple[float, float]] = []
    for i in rows:
        where = found.expected[i], found.away[i] / scale
        x, y = axis.transAxes.inverted().transform(axis.transData.transform(where))
        if all(abs(x - a) > ROOM[0] or abs(y - b) > ROOM[1] for a, b in taken):
            axis.annotate(f" row {found.at[i]}", where, fontsize=7, va="center")
            taken.append((x, y))
