"""``heavytail reproduce control``: how well systems are identified, and what that costs.

Identification: a fixed stabilising gain and unit excitation, so that every identifier sees the same
states. Regret: against the optimal controller on the same noise, and only where the noise has a
variance; with t(1.5) noise the cost itself is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from heavytail._typing import FloatArray
from heavytail.control.controllers import CertaintyEquivalence
from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.stats import median_ratio
from heavytail.experiments.unit import Key, Trials, Unit, chunks
from heavytail.reproduction.control_trials import CONTROLLERS, IDENTIFIERS, SYSTEMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CONTROL", "MOST", "trials_of"]

DFS = (1.5, 2.1, 3.0, math.inf)
STEPS = 10_000
LEAST_TRIALS = 50
IDENTIFIED = 200  # trials of identification: over 50, a ratio of medians is known to a tenth only
POINTS = 12  # steps at which error and regret are kept, evenly on the log scale
MOST = {1.5: 0.5, 2.1: 0.5, math.inf: 1.1}  # one-pass Huber's error over ridge's, the mark
COLOURS = {"ridge": "#009E73", "one-pass Huber": "#0072B2", "batch Huber": "#D55E00"}
CHUNK = 10  # trials per unit


Found = Mapping[Key, Trials]  # by (system, noise, controller or "", identifier)


def _marks(request: Request) -> tuple[int, ...]:
    steps = request.rounds or (2_000 if request.quick else STEPS)
    grid = np.geomspace(min(100, steps), steps, POINTS).round().astype(int)
    return tuple(int(t) for t in np.unique(grid))


def trials_of(request: Request, steered: bool) -> int:
    """At least 50, and 200 of identification alone, but in a quick look."""
    least = LEAST_TRIALS if steered else IDENTIFIED
    return request.trials if request.quick else max(request.trials, least)


def _plan(request: Request) -> Plan:
    """(system, noise, controller or "", identifier): a few trials per unit."""
    systems = list(SYSTEMS)[:1] if request.quick else list(SYSTEMS)
    controllers = list(CONTROLLERS)[:1] if request.quick else list(CONTROLLERS)
    cases = [(s, df, "", i) for s in systems for df in DFS for i in IDENTIFIERS]
    finite = [df for df in DFS if df > 2.0]
    cases += [
        (s, df, c, i) for s in systems for df in finite for c in controllers for i in IDENTIFIERS
    ]
    marks = _marks(request)
    plan: Plan = {}
    for system, df, controller, identifier in cases:
        fixed = {
            "system": system,
            "df": df,
            "controller": controller,
            "identifier": identifier,
            "marks": marks,
            "seed": request.seed,
        }
        # Refitting all that was seen takes many times one pass.
        weight = 10 if identifier == "batch Huber" else 1
        plan[system, _name(df), controller, identifier] = [
            Unit(
                "heavytail.reproduction.control_trials:control_block",
                {**fixed, "first": first, "trials": count},
                weight=weight * count,
            )
            for first, count in chunks(trials_of(request, bool(controller)), CHUNK)
        ]
    return plan


def _show(request: Request, found: Found) -> Section:
    """Identification error and regret against t: tables, figures, and whether marks are met."""
    marks = _marks(request)
    section = Section("control", "Linear-quadratic control under heavy-tailed noise")
    section.text.append(
        f"Medians over {trials_of(request, False)} trials of identification and "
        f"{trials_of(request, True)} of control, {marks[-1]:,} steps, quartiles in brackets; "
        "every identifier and controller meets the same noise. Nothing is tuned. Identification "
        "runs under a fixed stabilising gain with unit excitation. Regret is the cost less the "
        "optimal controller's on the same noise; t(1.5) noise has no variance and so no regret."
    )
    section.tables = [_errors(found, section), _regrets(found)]
    section.figures = {
        "control-error": _error_figure(found, marks),
        "control-regret": _regret_figure(found, marks),
    }
    section.captions = {
        "control-error": "Laplacian system: error of [A B], median and quartiles.",
        "control-regret": "Laplacian system, certainty equivalence: regret, median and quartiles.",
    }
    return section


def _name(df: float) -> str:
    return "normal" if math.isinf(df) else f"t({df:g})"


def _quartiles(values: FloatArray, spec: str) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:{spec}} [{low:{spec}}, {high:{spec}}]"


def _errors(found: Found, section: Section) -> Table:
    rows = []
    for system in dict.fromkeys(case[0] for case in found):
        for df in DFS:
            last = {i: found[system, _name(df), "", i]["error"][:, -1] for i in IDENTIFIERS}
            ratio = median_ratio(last["one-pass Huber"], last["ridge"])
            section.data[system, _name(df)] = ratio
            most = MOST.get(df)
            mark = "" if most is None else f"<= {most:g} {'✓' if ratio.value <= most else '✗'}"
            cells = [_quartiles(values, ".4f") for values in last.values()]
            rows.append((system, _name(df), *cells, f"{ratio:.3f}", mark))
    return Table(
        "Identification error ‖Theta_t - Theta*‖ at the end",
        ("system", "noise", *IDENTIFIERS, "one-pass over ridge, medians", "mark"),
        rows,
        note="The ratio's interval is a bootstrap over trials, 95 %.",
    )


def _regrets(found: Found) -> Table:
    rows = []
    for system, noise, controller in dict.fromkeys(case[:3] for case in found if case[2]):
        runs = [found[system, noise, controller, i] for i in IDENTIFIERS]
        cells = [_quartiles(run["regret"][:, -1], ".4g") for run in runs]
        caught = " / ".join(f"{run['caught'].sum():.0f}" for run in runs)
        rows.append((system, noise, controller, *cells, caught))
    return Table(
        "Regret at the end",
        ("system", "noise", "controller", *IDENTIFIERS, "divergences caught"),
        rows,
        note="Caught: how often, over all trials, a state past the limit put the fallback in "
        "charge; under heavy tails most are shocks that would have died out.",
    )


def _error_figure(found: Found, marks: tuple[int, ...]) -> Figure:
    figure, axes = plots.new_figure(columns=len(DFS), width=2.8, share=True)
    for axis, df in zip(axes, DFS, strict=True):
        for identifier in IDENTIFIERS:
            _band(axis, marks, found["laplacian", _name(df), "", identifier]["error"], identifier)
        axis.set(xscale="log", yscale="log", xlabel="step", title=_name(df))
    axes[0].set_ylabel("error of [A B]")
    axes[0].legend(fontsize=7)
    return figure


def _regret_figure(found: Found, marks: tuple[int, ...]) -> Figure:
    finite = [df for df in DFS if df > 2.0]
    figure, axes = plots.new_figure(columns=len(finite), width=3.4, share=True)
    for axis, df in zip(axes, finite, strict=True):
        for identifier in IDENTIFIERS:
            run = found["laplacian", _name(df), CertaintyEquivalence.name, identifier]
            _band(axis, marks, run["regret"], identifier)
        axis.set(xscale="log", yscale="log", xlabel="step", title=_name(df))
    axes[0].set_ylabel("regret")
    axes[0].legend(fontsize=7)
    return figure


def _band(axis: Axes, marks: tuple[int, ...], values: FloatArray, identifier: str) -> None:
    """Median and quartiles in the identifier's colour."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    colour = COLOURS[identifier]
    axis.plot(marks, middle, color=colour, lw=1.5, label=identifier)
    axis.fill_between(marks, low, high, color=colour, alpha=0.15, lw=0)


CONTROL = Experiment(
    "control",
    "Linear-quadratic control; takes minutes, runs only by name",
    _plan,
    _show,
    by_name_only=True,
)
