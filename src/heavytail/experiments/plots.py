"""Figures, one style: an algorithm has one colour and one place in the order everywhere.

Colours are Okabe and Ito's, told apart by the colour-blind and, with the line styles, in grey.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._archive import check_target, replace
from heavytail._extras import need_to_draw
from heavytail._typing import FloatArray
from heavytail._validate import printable
from heavytail._version import __version__
from heavytail.experiments.unit import Key, Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from heavytail.policies import Policy

__all__ = [
    "FORMATS",
    "any_letters",
    "check_image",
    "colour",
    "cost_panels",
    "counted",
    "drawn",
    "entitle",
    "file_name",
    "label",
    "look",
    "new_figure",
    "profile_figure",
    "regret_figure",
    "regret_panels",
    "save",
    "save_one",
    "save_small",
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
    "Twin-UCB": "#000000",
    "Uniform": "#999999",
}
_DASHES: dict[str, Any] = {  # of what is tuned; told apart without colour too
    "Hvt-UCB": "-",
    "HEAVY-OFUL": (0, (6, 2)),
    "OFUL": (0, (1, 1)),
    "CRTM": (0, (4, 1, 1, 1)),
    "CRMM": (0, (3, 1, 1, 1, 1, 1)),
}
_MARKERS = {"Hvt-UCB": "o", "Twin-UCB": "s", "Uniform": "x"}  # of what is not
_WHOSE = {  # by whose constants a policy that this library takes part in runs
    ("Hvt-UCB", "tuned"): "paper's",
    ("Hvt-UCB", "theory"): "paper's",
    ("Hvt-UCB", "sharp"): "ours, proved for a true nu",
    ("Hvt-UCB", "untuned"): "our constants",
    ("Twin-UCB", "untuned"): "ours",
    ("Twin-UCB", "theory"): "ours",
}
_POINTS = {"marker": "o", "ms": 5.0, "ls": "", "lw": 1.0}
_SPARE = ("#56B4E9", "#8C564B", "#7F7F00", "#5E3C99", "#A50026", "#1B7837")


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


def drawn(text: str) -> str:
    """A name as matplotlib shows it to the letter, not as a formula, on one line."""
    return printable(text).replace("$", r"\$")


@contextmanager
def any_letters() -> Iterator[None]:
    """Draw names in whatever script: what the font lacks is a box, of which nobody is warned."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def file_name(name: str) -> str:
    """A name as that of a file, whatever it holds: a name is a label and never a path.

    >>> file_name("student-1.5"), file_name("../a b")
    ('student-1.5', 'a-b-f20d9ce8')
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80]
    if plain == name != "":
        return name
    return f"{plain}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}".lstrip("-")


def label(key: Key, built: Policy | None = None) -> str:
    """(policy, variant) in words: tuned or not, and whose it is where that could be mistaken.

    Given the policy as it was ``built``, what an untuned one was told is said too.

    >>> from heavytail import HvtUCB, MomentBound
    >>> label(("Hvt-UCB", "untuned")), label(("OFUL", "tuned"))
    ('Hvt-UCB, untuned (our constants)', 'OFUL, tuned')
    >>> label(("Hvt-UCB", "untuned"), HvtUCB(2, tail=MomentBound(2.0, 1.0), horizon=9))
    'Hvt-UCB, untuned (our constants, told nu and T)'
    """
    policy, variant = key[:2]
    notes = [_WHOSE[policy, variant]] if (policy, variant) in _WHOSE else []
    if built is not None and variant == "untuned":
        known = {"tail": "nu", "noise_scale": "nu", "horizon": "T"}
        given = [known[name] for name, value in built._arguments.items()
                 if name in known and value is not None]  # fmt: skip
        notes += [f"told {' and '.join(given) or 'neither nu nor T'}"]
    return f"{policy}, {variant}" + (f" ({', '.join(notes)})" if notes else "")


def look(key: Key) -> dict[str, Any]:
    """Colour, dashes and marker of (policy, variant), the same in every figure."""
    policy, variant = key[:2]
    options: dict[str, Any] = {"color": colour(policy), "lw": 1.4, "label": drawn(label(key))}
    if variant == "untuned":
        return {**options, "ls": "--", "marker": _MARKERS.get(policy, "v"), "ms": 3.5}
    if variant == "sharp":
        return {**options, "ls": (0, (8, 2, 2, 2)), "marker": "D", "ms": 3.0}
    return {**options, "ls": _DASHES.get(policy, "-") if variant != "theory" else ":"}


def regret_figure(title: str, results: Mapping[Key, Trials], shown: Sequence[Key]) -> Figure:
    """Cumulative regret by round: the mean of the trials, and its interval of 95 %."""
    figure, (axis,) = new_figure(height=max(3.1, 0.8 + 0.17 * len(shown)))  # room for the legend
    for place, key in enumerate(shown):
        _draw_regret(axis, results[key], key, place)
    axis.set(ylabel="cumulative regret")
    entitle(axis, title)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=7, loc="upper left")  # the best place takes long to find, and warns
    return figure


def regret_panels(panels: Mapping[str, tuple[Mapping[Key, Trials], list[Key]]]) -> Figure:
    """Mean cumulative regret on a log scale and its interval of 95 %, a panel per title, three in a
    row, one legend.
    """
    figure, axes = _grid_of(panels)
    for axis, (results, shown) in zip(axes.flat, panels.values(), strict=False):
        for place, key in enumerate(shown):
            _draw_regret(axis, results[key], key, place)
        means = np.concatenate([results[key]["regret"].mean(axis=0) for key in shown])
        axis.set(yscale="log")
        if (means > 0.0).any():
            axis.set_ylim(0.7 * means[means > 0.0].min(), 1.5 * means.max())
    for axis in axes[:, 0]:
        axis.set_ylabel("cumulative regret")
    _share_legend(figure, panels)
    return figure


def cost_panels(panels: Mapping[str, tuple[Mapping[Key, Trials], list[Key]]]) -> Figure:
    """Regret at the end, with its interval of 95 %, against the processor time of a trial."""
    figure, axes = _grid_of(panels)
    for axis, (results, shown) in zip(axes.flat, panels.values(), strict=False):
        for key in shown:
            trials, line = results[key], look(key)
            mean, half = _mean(trials["regret"][:, -1:])
            style = {**line, **_POINTS}
            seconds = max(float(trials["seconds"].mean()), 1e-9)
            axis.errorbar([seconds], mean, None if np.isnan(half).any() else half, **style)
        axis.set(ylim=(0.0, None), xlabel="processor seconds of a trial")
        _in_plain_numbers(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("regret at the end")
    _share_legend(figure, panels, **_POINTS)
    return figure


def profile_figure(profiles: Mapping[Key, tuple[FloatArray, ...]]) -> Figure:
    """Shares of trials up to a relative regret, with their bands, by (policy, variant)."""
    figure, (axis,) = new_figure(height=3.1 + 0.09 * len(profiles))  # room for the legend
    for place, (key, (points, share, low, high)) in enumerate(profiles.items()):
        every = max(len(points) // 6, 1)
        axis.plot(points, share, **look(key), markevery=(place * every // 7, every))
        axis.fill_between(points, low, high, color=colour(key[0]), alpha=0.12, lw=0)
    axis.set(ylim=(0.0, 1.02), xlabel="relative regret", ylabel="share of trials")
    _in_plain_numbers(axis)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    return figure


def entitle(axis: Axes, title: str, size: float = 10.0) -> None:
    """Give a panel its title in as many lines as its width takes."""
    figure, place = axis.get_figure(root=True), axis.get_subplotspec()
    assert figure is not None
    assert place is not None
    inches = figure.get_figwidth() / place.get_gridspec().ncols - 0.8  # less the scale at its left
    axis.set_title(_wrapped(title, inches, size), fontsize=size)


def _wrapped(title: str, inches: float, size: float) -> str:
    """A title in three lines at most, of letters of a mean width."""
    room = int(inches * 72.0 / (0.55 * size))
    lines = textwrap.wrap(printable(title), room, max_lines=3, placeholder=" ...")
    return "\n".join(map(drawn, lines))


def _in_plain_numbers(axis: Axes) -> None:
    """Put x on a log scale whose ticks are 1, 2, 5, 10, ..., or fewer over many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set(xscale="log")
    low, high = axis.get_xlim()
    steps = (1.0, 2.0, 5.0) if high < 50.0 * low else (1.0,)
    axis.xaxis.set_major_locator(LogLocator(subs=steps, numticks=6))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _grid_of(titles: Iterable[str]) -> tuple[Figure, Any]:
    """A figure with a panel for each title, three in a row; panels left over are hidden."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    titles = list(titles)
    columns = min(len(titles), 3)
    rows = -(-len(titles) // columns)
    with mpl.rc_context(style()):
        figure = Figure(figsize=(max(3.2 * columns, 4.6), 2.6 * rows + 0.8), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(titles) :]:
        axis.set_visible(False)
    for axis, title in zip(axes.flat, titles, strict=False):
        entitle(axis, title, 9.0)
    return figure, axes


def _share_legend(
    figure: Figure, panels: Mapping[str, tuple[Mapping[Key, Trials], list[Key]]], **style: Any
) -> None:
    """One legend for all panels: each line once, with the number of its trials."""
    from matplotlib.lines import Line2D

    counts: dict[Key, list[int]] = {}
    for results, shown in panels.values():
        for key in shown:
            counts.setdefault(key, []).append(len(results[key].final))
    lines = [Line2D([], [], **{**look(key), **style}) for key in counts]
    names = [counted(key, numbers) for key, numbers in counts.items()]
    columns = {1: 1, 2: 2}.get(len(panels), 3)  # names are up to three inches long
    room = 0.17 * -(-len(lines) // columns) - 0.6  # inches beyond what every figure has for it
    figure.set_figheight(figure.get_figheight() + max(room, 0.0))
    figure.legend(
        lines, names, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def counted(key: Key, trials: Sequence[int]) -> str:
    """The label of a line, and how many trials are behind it."""
    least, most = min(trials), max(trials)
    return f"{drawn(label(key))}, n = {least}" + (f" to {most}" if most > least else "")


def _mean(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean over trials (trials, ...) and half of its interval of 95 % by Student's t; NaN of a
    single trial.
    """
    from scipy import special

    count = len(values)
    if count < 2:
        return values.mean(axis=0), np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(count)
    return values.mean(axis=0), special.stdtrit(count - 1, 0.975) * error


def _draw_regret(axis: Axes, trials: Trials, key: Key, place: int) -> None:
    rounds = np.asarray(trials.arguments["marks"])
    mean, half = _mean(trials["regret"])
    every = max(len(rounds) // 6, 1)
    line = {**look(key), "label": counted(key, [len(trials.final)])}
    axis.plot(rounds, mean, **line, markevery=(place * every // 7, every))
    low = np.maximum(mean - half, 0.0)
    axis.fill_between(rounds, low, mean + half, color=colour(key[0]), alpha=0.15, lw=0)
    axis.set(xlabel="round")
    axis.set_xlim(0, rounds[-1])
    axis.locator_params(axis="x", nbins=4)


def time_figure(title: str, results: Mapping[Key, Trials], shown: list[Key]) -> Figure:
    """Time per round, the median of the trials, as bars."""
    figure, (axis,) = new_figure()
    micro = [
        1e6 * np.median(results[key]["seconds"]) / results[key].arguments["rounds"] for key in shown
    ]
    places = np.arange(len(shown))[::-1]
    axis.barh(places, micro, color=[colour(key[0]) for key in shown], height=0.6)
    for place, value in zip(places, micro, strict=True):
        axis.annotate(f" {value:.2g}", (value, float(place)), va="center", fontsize=8)
    axis.set(xlabel="time per round, microseconds")
    figure.suptitle(_wrapped(title, figure.get_figwidth(), 10.0), fontsize=10.0)
    axis.set_yticks(places, [drawn(label(key)) for key in shown])
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.2)
    return figure


def save_small(figures: Mapping[str, Figure], folder: Path) -> None:
    """Every figure as a small PNG, for a page of the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        image = _image(figure, "png", dpi=100, metadata={"Software": None})
        replace(folder / f"{file_name(name)}.png", image)


def save(figures: Mapping[str, Figure], folder: Path, *, formats: Sequence[str] = FORMATS) -> None:
    """Every figure as PNG, SVG and PDF, or in other ``formats``, by its name.

    An SVG holds all that a figure shows: where it is there already, to the letter, the other
    formats are too, and are not drawn again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        paths = {kind: folder / f"{file_name(name)}.{kind}" for kind in formats}
        images = {}
        if "svg" in formats:
            images["svg"] = _image(figure, "svg")
            if all(path.is_file() for path in paths.values()):
                if paths["svg"].read_bytes() == images["svg"]:
                    continue
        for kind in formats:
            if kind not in images:
                images[kind] = _image(figure, kind)
        for kind in sorted(formats, key="svg".__eq__):  # last: it vouches for the others
            replace(paths[kind], images[kind])


def save_one(figure: Figure, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a figure to a file of the user's, whole or not at all, in the format of its ending."""
    kind = check_image(path)
    replace(path, _image(figure, kind, **options))


def check_image(path: str | os.PathLike[str], option: str = "--plot") -> str:
    """The format that a file's name ends with; refused where none is known, or none can be put
    there.
    """
    need_to_draw(option)
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    kind = os.path.splitext(os.fspath(path))[1].removeprefix(".").lower()
    if kind not in known:
        raise ValueError(
            f"{option} must name a file that ends with .{', .'.join(FORMATS)} or so; "
            f"got {printable(os.fspath(path))}."
        )
    check_target(path, option)
    return kind


def _image(figure: Figure, kind: str, **options: Any) -> bytes:
    """Return the bytes of a figure in the one style, the same for the same figure; they name the
    software that made it.
    """
    import matplotlib as mpl

    stream = io.BytesIO()
    by = f"heavytail {__version__}, Matplotlib {mpl.__version__}"
    made = {
        "png": {"Software": by},
        "svg": {"Creator": by, "Date": None},
        "pdf": {"Creator": by, "CreationDate": None},
    }
    with mpl.rc_context(style()), any_letters():
        figure.savefig(stream, format=kind, **{"metadata": made.get(kind), **options})
    return stream.getvalue()
