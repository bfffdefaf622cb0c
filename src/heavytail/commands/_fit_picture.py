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


def draw(findings: Findings) -> Figure:
    """Slopes with their intervals, per standard deviation of the feature; residuals in scales."""
    figure, (left, right) = new_figure(columns=2)
    _slopes(left, findings)
    _residuals(right, findings)
    return figure


def _slopes(axis: Any, findings: Findings) -> None:
    spread = findings.design.X.std(axis=0)
    slopes = np.array([row[1:] for row in findings.coefficients()[1:]]) * spread[:, None]
    order = np.argsort(-np.abs(slopes[:, 0]), kind="stable")[:MOST][::-1]
    for place, i in enumerate(order):
        axis.plot(slopes[i, 1:], [place, place], color=INK, lw=1.4)
        axis.plot(slopes[i, :1], [place], "o", color=INK, ms=4)
    axis.axvline(0.0, color="#999999", lw=0.8)
    axis.set_yticks(range(len(order)), [drawn(findings.features[i]) for i in order])
    axis.set(ylim=(-1.0, len(order)))
    axis.set(xlabel=f"{drawn(findings.target)} per standard deviation of the feature")
    level = f"{100.0 * findings.model.level_:g} %"
    axis.set_title(f"slopes, {level} intervals", fontsize=9)


def _residuals(axis: Any, findings: Findings) -> None:
    from matplotlib.ticker import SymmetricalLogLocator

    scale = findings.scale or 1.0
    far = findings.outliers
    near = np.setdiff1d(np.arange(len(findings.y)), far)
    near = near[:: max(len(near) // POINTS, 1)]
    for rows, colour, size in ((near, INK, 2), (far, FAR, 4)):
        axis.plot(findings.expected[rows], findings.away[rows] / scale, ".", color=colour, ms=size)
    if len(far):
        axis.set_yscale("symlog", linthresh=findings.beyond)
        axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10.0, linthresh=10.0))
    for side in (-findings.beyond, findings.beyond):
        axis.axhline(side, color="#999999", lw=0.8, ls="--")
    axis.margins(x=0.12)  # room for the last name
    _name(axis, findings, far[:NAMED], scale)
    axis.set(xlabel="fitted", ylabel="from the typical row, in scales")
    axis.set_title(f"{len(far):,} of {len(findings.y):,} rows are outliers", fontsize=9)


def _name(axis: Any, findings: Findings, rows: IntArray, scale: float) -> None:
    """Write row numbers beside their points, except where they would overlap."""
    labelled: list[tuple[float, float]] = []
    for i in rows:
        point = findings.expected[i], findings.away[i] / scale
        x, y = axis.transAxes.inverted().transform(axis.transData.transform(point))
        if all(abs(x - a) > ROOM[0] or abs(y - b) > ROOM[1] for a, b in labelled):
            axis.annotate(f" row {findings.at[i]}", point, fontsize=7, va="center")
            labelled.append((x, y))
