"""Figures, one style: an algorithm has one colour and one place in the order everywhere.

Colours are Okabe and Ito's, told apart by the colour-blind and, with the line styles, in grey.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail.experiments.unit import Key, Trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FORMATS",
    "colour",
    "new_figure",
    "regret_figure",
    "save",
    "style",
    "time_figure",
]

FORMATS = ("png", "svg", "pdf")
_COLOURS = {
    "Hvt-UCB": "#0072B2",
    "HEAVY-OFUL": "#D55E00",
    "OFUL": "#009E73",
    "CRTM": "#CC79A7",
    "CRMM": "#E69F00",
    "Uniform": "#999999",
}
_SPARE = ("#56B4E9", "#000000", "#8C564B", "#7F7F00", "#5E3C99", "#A50026", "#1B7837")


def colour(policy: str) -> str:
    """The policy's colour, the same in every figure."""
    if policy in _COLOURS:
        return _COLOURS[policy]
    from heavytail.policies import ALL

    others = [kind.name for kind in ALL if kind.name not in _COLOURS]
    place = others.index(policy) if policy in others else len(policy)
    return _SPARE[place % len(_SPARE)]


def style() -> Any:
    """matplotlib settings for print: no display needed, letters as outlines, bytes that repeat."""
    return {
        "figure.dpi": 100,
        "savefig.dpi": 200,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "svg.fonttype": "path",
        "svg.hashsalt": "heavytail",
        "pdf.fonttype": 42,
    }


def new_figure(
    columns: int = 1, width: float = 4.6, height: float = 3.1, *, share: bool = False
) -> tuple[Figure, Any]:
    """A figure of its own (no global state) with ``columns`` axes, of one height scale if asked."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(style()):
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False, sharey=share)[0]
    return figure, axes


def regret_figure(title: str, found: Mapping[Key, Trials], shown: list[Key]) -> Figure:
    """Cumulative regret by round, mean and one standard deviation."""
    figure, (axis,) = new_figure()
    for key in shown:
        regret, rounds = found[key]["regret"], found[key].arguments["marks"]
        mean, spread = regret.mean(axis=0), regret.std(axis=0)
        line = "--" if key[1] == "untuned" else "-"
        axis.plot(rounds, mean, line, color=colour(key[0]), lw=1.5, label=_name(key))
        low = np.maximum(mean - spread, 0.0)
        axis.fill_between(rounds, low, mean + spread, color=colour(key[0]), alpha=0.12, lw=0)
    axis.set(xlabel="round", ylabel="cumulative regret", title=title)
    axis.set_xlim(0, rounds[-1])
    axis.locator_params(axis="x", nbins=5)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8, loc="upper left")  # the best place takes long to find, and warns
    return figure


def _name(key: Key) -> str:
    return f"{key[0]}, untuned" if key[1] == "untuned" else key[0]


def time_figure(title: str, found: Mapping[Key, Trials], shown: list[Key]) -> Figure:
    """Time per round, the median of the trials, as bars."""
    figure, (axis,) = new_figure()
    micro = [
        1e6 * np.median(found[key]["seconds"]) / found[key].arguments["rounds"] for key in shown
    ]
    places = np.arange(len(shown))[::-1]
    axis.barh(places, micro, color=[colour(key[0]) for key in shown], height=0.6)
    for place, value in zip(places, micro, strict=True):
        axis.annotate(f" {value:.2g}", (value, float(place)), va="center", fontsize=8)
    axis.set(xlabel="time per round, microseconds", title=title)
    axis.set_yticks(places, [_name(key) for key in shown])
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.2)
    return figure


def save(figures: Mapping[str, Figure], folder: Path) -> None:
    """Every figure as PNG, SVG and PDF, by its name."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(style()):
        for (name, figure), kind in itertools.product(figures.items(), FORMATS):
            meta = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
            figure.savefig(folder / f"{name}.{kind}", metadata=meta)
