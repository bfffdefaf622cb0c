"""``heavytail reproduce control``: how well systems are identified, and what that costs.

Identification: a fixed stabilising gain and unit excitation, so that every identifier sees the same
states. Regret: against the optimal controller on the same noise, and only where the noise has a
variance; with t(1.5) noise the cost itself is infinite.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.control.controllers import OFULQ, CertaintyEquivalence, Controller, ThompsonLQ
from heavytail.control.identify import (
    BatchHuberIdentifier,
    Identifier,
    RidgeIdentifier,
    SystemIdentifier,
)
from heavytail.control.loop import run_trial
from heavytail.control.systems import LQSystem, boeing_747, double_integrator, laplacian
from heavytail.environments.noise import Gaussian, StudentT
from heavytail.experiments import plots
from heavytail.experiments.registry import Section, Settings, Table
from heavytail.experiments.stats import Interval, median_ratio
from heavytail.experiments.store import complete
from heavytail.experiments.units import Outcome, chunks, source_digest
from heavytail.simulation.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ControlUnit", "control", "control_units", "fallback", "make_system"]

SYSTEMS = {"laplacian": laplacian, "double integrator": double_integrator, "Boeing 747": boeing_747}
IDENTIFIERS: dict[str, Callable[[int, int], Identifier]] = {
    kind.name: kind for kind in (RidgeIdentifier, SystemIdentifier, BatchHuberIdentifier)
}
CONTROLLERS: dict[str, Callable[..., Controller]] = {
    kind.name: kind for kind in (CertaintyEquivalence, OFULQ, ThompsonLQ)
}
DFS = (1.5, 2.1, 3.0, math.inf)
STEPS = 10_000
LEAST_TRIALS = 50
IDENTIFIED = 200  # trials of identification: over 50, a ratio of medians is known to a tenth only
POINTS = 12  # steps at which error and regret are kept, evenly on the log scale
MOST = {1.5: 0.5, 2.1: 0.5, math.inf: 1.1}  # one-pass Huber's error over ridge's, the mark
COLOURS = {"ridge": "#009E73", "one-pass Huber": "#0072B2", "batch Huber": "#D55E00"}
CHUNK = 10


def make_system(name: str, df: float) -> LQSystem:
    """One of the systems under Student's t noise; df = infinity is the normal."""
    return SYSTEMS[name](Gaussian() if math.isinf(df) else StudentT(df))


def fallback(system: LQSystem) -> FloatArray:
    """The gain that controllers are given to fall back on: optimal for Q = I, R = 10 I."""
    return system.gain_for(np.eye(system.n), 10.0 * np.eye(system.d))


@dataclass(frozen=True)
class ControlUnit:
    """A few trials of one controller and identifier; no controller: identification alone."""

    system: str
    df: float
    identifier: str
    controller: str
    marks: tuple[int, ...]
    seed: int
    first: int
    trials: int
    threads = True

    @property
    def weight(self) -> int:
        """Refitting everything kept takes many times one pass."""
        return self.trials * (10 if self.identifier == "batch Huber" else 1)

    @functools.cached_property
    def key(self) -> str:
        """A hash of everything the outcome depends on."""
        told = json.dumps([asdict(self), _source()], sort_keys=True)
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()

    def build(self, system: LQSystem) -> Controller:
        """The controller with its identifier."""
        identifier = IDENTIFIERS[self.identifier](system.n, system.d)
        kind = CONTROLLERS[self.controller or CertaintyEquivalence.name]
        # To identify alone: a warm-up that never ends.
        other = {} if self.controller else {"warmup": self.marks[-1] + 1}
        return kind(identifier, Q=system.Q, R=system.R, fallback=fallback(system), **other)

    def run(self) -> Outcome:
        """``error`` and ``regret`` (trials, marks), ``caught`` and ``seconds`` (trials,)."""
        system = make_system(self.system, self.df)
        found = [
            run_trial(self.build(system), system, self.seed, trial, np.array(self.marks))
            for trial in range(self.first, self.first + self.trials)
        ]
        _, regret, error, caught, _, _, seconds = map(np.array, zip(*found, strict=True))
        return {"error": error, "regret": regret, "caught": caught * 1.0, "seconds": seconds}


@functools.cache
def _source() -> str:
    digest = hashlib.blake2b(source_digest().encode(), digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _marks(settings: Settings) -> tuple[int, ...]:
    steps = settings.rounds or (2_000 if settings.quick else STEPS)
    grid = np.geomspace(min(100, steps), steps, POINTS).round().astype(int)
    return tuple(int(t) for t in np.unique(grid))


def trials_of(settings: Settings, steered: bool) -> int:
    """At least 50, and 200 of identification alone, but in a quick look."""
    least = LEAST_TRIALS if steered else IDENTIFIED
    return settings.trials if settings.quick else max(settings.trials, least)


Case = tuple[str, float, str, str]  # system, df, controller, identifier


def _cases(settings: Settings) -> list[Case]:
    systems = list(SYSTEMS)[:1] if settings.quick else list(SYSTEMS)
    found = [(s, df, "", i) for s in systems for df in DFS for i in IDENTIFIERS]
    finite = [df for df in DFS if df > 2.0]
    controllers = list(CONTROLLERS)[:1] if settings.quick else list(CONTROLLERS)
    found += [
        (s, df, c, i) for s in systems for df in finite for c in controllers for i in IDENTIFIERS
    ]
    return found


def _units(settings: Settings, case: Case) -> list[ControlUnit]:
    system, df, controller, identifier = case
    return [
        ControlUnit(system, df, identifier, controller, _marks(settings), settings.seed, first, n)
        for first, n in chunks(trials_of(settings, bool(controller)), CHUNK)
    ]


def control_units(settings: Settings) -> list[ControlUnit]:
    """The work of :func:`control`."""
    return [unit for case in _cases(settings) for unit in _units(settings, case)]


def control(settings: Settings, progress: Progress) -> Section:
    """Identification error and regret against t: tables, figures, and whether the marks are
    met.
    """
    units = control_units(settings)
    outcomes = complete(settings.store, units, progress, jobs=settings.jobs, dask=settings.dask)
    found: dict[Case, Outcome] = {}
    for case in _cases(settings):
        parts = [outcomes[unit.key] for unit in _units(settings, case)]
        found[case] = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    marks = _marks(settings)
    section = Section("control", "Linear-quadratic control under heavy-tailed noise")
    section.text.append(
        f"Medians over {trials_of(settings, False)} trials of identification and "
        f"{trials_of(settings, True)} of control, {marks[-1]:,} steps, quartiles in brackets; "
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


def _errors(found: dict[Case, Outcome], section: Section) -> Table:
    rows = []
    ratios: dict[tuple[str, float], Interval] = {}
    for system in dict.fromkeys(case[0] for case in found):
        for df in DFS:
            last = {i: found[system, df, "", i]["error"][:, -1] for i in IDENTIFIERS}
            ratio = median_ratio(last["one-pass Huber"], last["ridge"])
            ratios[system, df] = ratio
            most = MOST.get(df)
            mark = "" if most is None else f"<= {most:g} {'✓' if ratio.value <= most else '✗'}"
            cells = [_quartiles(values, ".4f") for values in last.values()]
            rows.append((system, _name(df), *cells, f"{ratio:.3f}", mark))
    section.data["control ratios"] = ratios
    return Table(
        "Identification error ‖Theta_t - Theta*‖ at the end",
        ("system", "noise", *IDENTIFIERS, "one-pass over ridge, medians", "mark"),
        rows,
        note="The ratio's interval is a bootstrap over trials, 95 %.",
    )


def _regrets(found: dict[Case, Outcome]) -> Table:
    rows = []
    for system, df, controller in dict.fromkeys(case[:3] for case in found if case[2]):
        runs = [found[system, df, controller, i] for i in IDENTIFIERS]
        cells = [_quartiles(run["regret"][:, -1], ".4g") for run in runs]
        caught = " / ".join(f"{run['caught'].sum():.0f}" for run in runs)
        rows.append((system, _name(df), controller, *cells, caught))
    return Table(
        "Regret at the end",
        ("system", "noise", "controller", *IDENTIFIERS, "divergences caught"),
        rows,
        note="Caught: how often, over all trials, a state past the limit put the fallback in "
        "charge; under heavy tails most are shocks that would have died out.",
    )


def _error_figure(found: dict[Case, Outcome], marks: tuple[int, ...]) -> Figure:
    figure, axes = plots.new_figure(columns=len(DFS), width=2.8, share=True)
    for axis, df in zip(axes, DFS, strict=True):
        for identifier in IDENTIFIERS:
            _band(axis, marks, found["laplacian", df, "", identifier]["error"], identifier)
        axis.set(xscale="log", yscale="log", xlabel="step", title=_name(df))
    axes[0].set_ylabel("error of [A B]")
    axes[0].legend(fontsize=7)
    return figure


def _regret_figure(found: dict[Case, Outcome], marks: tuple[int, ...]) -> Figure:
    finite = [df for df in DFS if df > 2.0]
    figure, axes = plots.new_figure(columns=len(finite), width=3.4, share=True)
    for axis, df in zip(axes, finite, strict=True):
        for identifier in IDENTIFIERS:
            run = found["laplacian", df, CertaintyEquivalence.name, identifier]
            _band(axis, marks, run["regret"], identifier)
        axis.set(xscale="log", yscale="log", xlabel="step", title=_name(df))
    axes[0].set_ylabel("regret")
    axes[0].legend(fontsize=7)
    return figure


def _band(axis: Any, marks: tuple[int, ...], values: FloatArray, identifier: str) -> None:
    """Median and quartiles in the identifier's colour."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    colour = COLOURS[identifier]
    axis.plot(marks, middle, color=colour, lw=1.5, label=identifier)
    axis.fill_between(marks, low, high, color=colour, alpha=0.15, lw=0)
