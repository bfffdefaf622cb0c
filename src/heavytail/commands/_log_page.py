"""The page that ``heavytail evaluate --html`` writes: one file, warnings first, nothing fetched."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heavytail.commands._log_findings import Findings, number, tail_index
from heavytail.commands._log_targets import Weights
from heavytail.experiments import plots
from heavytail.experiments.experiment import Section
from heavytail.experiments.report import page
from heavytail.logs.results import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["evaluation_page"]

LONGEST = 28  # characters of a policy's name in a figure
DOTS = 2000  # points of a curve from which on it is drawn as a picture: pages stay small
LEAST = 8.0  # weights from 1/8 to 8 are always on the axis
_LINE: dict[str, Any] = {"color": "#0072B2", "lw": 2}
Bound = tuple[str, float, float | None, float | None]


def evaluation_page(findings: Findings, provenance: Mapping[str, Any]) -> bytes:
    """Return the whole page in UTF-8."""
    sections = [
        _warnings(findings),
        *_numbers(findings),
        _weights(findings),
        _tails(findings),
        Section("words", "In words", findings.words()),
    ]
    with tempfile.TemporaryDirectory(prefix="heavytail-") as folder:
        figures = Path(folder)
        for section in sections:
            plots.save(section.figures, figures, formats=("svg",))
        text = page(
            [],
            sections,
            dict(provenance),
            title="What a log says of other policies",
            intro=f"The log has {findings.rows:,} rows. Warnings come first.",
            figures=figures,
        )
    return text.encode()


def _warnings(findings: Findings) -> Section:
    warnings = findings.warnings()
    if not warnings:
        return Section("warnings", "No warnings", ["Weights, support and tail give none."])
    return Section(
        "warnings", f"Warnings: {len(warnings)}", [f"⚠ {warning}" for warning in warnings]
    )


def _numbers(findings: Findings) -> list[Section]:
    """Tables first, then their pictures."""
    bounds = [(label, e.value, e.lower, e.upper) for label, e in findings.policies.items()]
    caption = "The point is the estimate; an end without a bar has no bound."
    pictures = {"intervals": _intervals(bounds, "earned per row")}
    captions = {"intervals": f"Values per row, level {findings.level:g} for each. {caption}"}
    if findings.comparisons:
        apart = [(label, c.value, c.lower, c.upper) for label, c in findings.comparisons.items()]
        pictures["differences"] = _intervals(apart, "more than the baseline, per row", zero=True)
        captions["differences"] = f"Differences to {findings.against}, per row. {caption}"
    return [
        Section("values", "Values", tables=findings.tables()),
        Section("intervals", "Intervals", figures=pictures, captions=captions),
    ]


def _intervals(bounds: Sequence[Bound], title: str, *, zero: bool = False) -> Figure:
    figure, (axis,) = plots.new_figure(height=1.0 + 0.4 * len(bounds))
    for place, (_, value, low, high) in enumerate(reversed(bounds)):
        point, marks = _finite([value]), _finite([low, high])
        ends = [*marks, *point]
        axis.plot([min(ends), max(ends)] if ends else [], [place] * 2 if ends else [], **_LINE)
        axis.plot(marks, [place] * len(marks), "|", color="#0072B2", ms=12, mew=2)
        axis.plot(point, [place] * len(point), "o", color="#D55E00", ms=5)
    if zero:
        axis.axvline(0.0, color="black", lw=1)
    axis.set_yticks(range(len(bounds)), [_name(bound[0]) for bound in reversed(bounds)])
    axis.set_ylim(-0.6, len(bounds) - 0.4)
    axis.locator_params(axis="x", nbins=5)
    axis.set_xlabel(title)
    return figure


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _name(label: str) -> str:
    short = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
    return plots.drawn(short)


def _weights(findings: Findings) -> Section:
    section = Section(
        "weights",
        "Weights",
        [
            "A row's weight is how much likelier the policy is to play its action than the log was."
            " The effective size, (sum w)² / sum w², is how many rows of weight 1 would carry "
            "as much information: a few weights far to the right carry the whole estimate."
        ],
    )
    for place, (label, weights) in enumerate(findings.weights.items()):
        name, evaluation = f"weights-{place}", findings.policies[label]
        section.figures[name] = _histogram(label, weights, evaluation)
        zero = weights.zeros / max(evaluation.rows, 1)
        section.captions[name] = (
            f"{label}: effective size {number(evaluation.effective_size, ',.0f')} of "
            f"{evaluation.rows:,} rows; {zero:.1%} of the rows have weight 0 and are not drawn."
        )
    return section


def _histogram(label: str, weights: Weights, evaluation: Evaluation) -> Figure:
    figure, (axis,) = plots.new_figure()
    edges, counts = weights.histogram()
    axis.stairs(counts, edges, baseline=0.5, fill=True, color="#56B4E9")
    axis.axvline(1.0, color="black", lw=1, ls="--", label="weight 1")
    axis.set(xscale="log", yscale="log", xlabel="weight", ylabel="rows", title=_name(label))
    axis.set_xlim(min(edges[0], 1.0 / LEAST), max(edges[-1], LEAST))
    axis.set_ylim(0.5, max(20.0 * counts.max(), 10.0))  # room for the legend
    share = number(100.0 * evaluation.effective_size / evaluation.rows, ".3g")
    axis.plot([], [], " ", label=f"effective size {share} %")
    axis.legend(fontsize=8, loc="upper right")
    return figure


def _tails(findings: Findings) -> Section:
    section = Section(
        "tails",
        "Tails",
        [
            "The share of weighted rewards beyond x. On these axes a heavy tail is a straight line;"
            " one that falls by 2 decades or less per decade has no variance."
        ],
    )
    for place, (label, evaluation) in enumerate(findings.policies.items()):
        if evaluation.tail is None:
            section.text.append(f"{label}: too few rows, or too few that differ, for a tail.")
            continue
        figure, (axis,) = plots.new_figure()
        evaluation.tail.plot(axis)
        for line in axis.get_lines():
            line.set_rasterized(len(line.get_xdata()) > DOTS)
        axis.set_title(_name(label))
        name = f"tail-{place}"
        section.figures[name] = figure
        axis.set_ylim(0.5 / evaluation.tail.count, 2.0)  # a slope of hundreds would leave no data
        index, low, high = map(
            tail_index, (evaluation.tail.index, evaluation.tail.low, evaluation.tail.high)
        )
        section.captions[name] = (
            f"{label}: tail index {index}, 95 % interval {low} to {high}, from "
            f"{evaluation.tail.count:,} weighted rewards."
        )
    return section
