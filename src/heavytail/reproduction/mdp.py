"""``heavytail reproduce mdp``: regret and time of every agent under four kinds of reward noise.

The protocol is the bandit experiments': every agent untuned, and tuned by multipliers from one grid
chosen on environments of their own (``heavytail reproduce mdp --retune``); the same environments
and noise for all, paired intervals. A trial is a random linear MDP of its own.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail.experiments import plots
from heavytail.experiments.experiment import (
    Experiment,
    Plan,
    Request,
    Section,
    Table,
    run_units,
)
from heavytail.experiments.machine import provenance
from heavytail.experiments.stats import Interval, ratio
from heavytail.experiments.tune import APART, Point, Tuned, search
from heavytail.experiments.unit import Key, Trials, Unit
from heavytail.mdp import LSVIUCB, VARA, HeavyLSVIUCB, HvtLSVIUCB, UniformAgent
from heavytail.mdp.world import BLOCK
from heavytail.reproduction.mdp_trials import (
    ACTIONS,
    AGENTS,
    DIM,
    HORIZON,
    NO_CLIP,
    NOISES,
    PLAIN_HEAVY,
    RECORD,
    STATES,
    applies,
)
from heavytail.simulation.results import checkpoints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FINALISTS", "GRID", "MDP", "grid_of", "retune", "tuning_units", "unit"]

EPISODES = 1000
ABLATIONS = (NO_CLIP, PLAIN_HEAVY, VARA.name)  # shown tuned only, where they are tuned
_SHADES = ["#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#000000", "#999999"]
_COLOURS = dict(zip(AGENTS, _SHADES, strict=True))

GRID: dict[str, tuple[float, ...]] = {
    "reward_bonus": (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0),
    "value_bonus": (0.01, 0.03, 0.1),
    "threshold_scale": (0.1, 1.0),
}
TUNING_TRIALS = 4
# A few environments are enough to rule most of a grid out and too few to pick its best point, so
# the best of each grid meet again on more of them.
FINALISTS = 4  # points of a grid that meet again ...
FINAL_TRIALS = 12  # ... on this many further environments


def unit(
    name: str, noise: str, episodes: int, seed: int, trial: int, options: Mapping[str, Any]
) -> Unit:
    """One trial of one agent under one noise."""
    light = AGENTS[name][0] is UniformAgent or name == HeavyLSVIUCB.name
    arguments = {
        "name": name,
        "noise": noise,
        "episodes": episodes,
        "seed": seed,
        "trial": trial,
        "options": dict(options),
    }
    call = "heavytail.reproduction.mdp_trials:agent_trial"
    return Unit(call, arguments, weight=1 if light else 4)


def _setting(noise: str) -> str:
    """Return the name of a noise in the file of multipliers."""
    return f"mdp-{noise}"


def _episodes(request: Request) -> int:
    return request.rounds or (300 if request.quick else EPISODES)


def _plan(request: Request) -> Plan:
    """(noise, agent, variant): one unit per trial."""
    plan: Plan = {}
    for noise, name in itertools.product(NOISES, AGENTS):
        if not applies(name, noise):
            continue
        variants: dict[str, Point] = {}
        chosen = request.tuned.options(_setting(noise), name)
        if chosen is not None:
            variants["tuned"] = chosen
        if name not in ABLATIONS or not variants:
            variants["untuned"] = {}
        for variant, options in variants.items():
            plan[noise, name, variant] = [
                unit(name, noise, _episodes(request), request.seed, trial, options)
                for trial in range(request.trials)
            ]
    return plan


def grid_of(name: str) -> list[Point]:
    """The grid's points over the multipliers that the agent has."""
    kind, own = AGENTS[name]
    accepted = inspect.signature(kind).parameters
    fixed = ("threshold_scale",) if "clip" in own else ()
    keys = [key for key in GRID if key in accepted and key not in fixed]
    points = itertools.product(*(GRID[key] for key in keys))
    return [dict(zip(keys, point, strict=True)) for point in points]


def tuning_units(
    request: Request, case: tuple[str, str], point: Point, trials: Iterable[int]
) -> list[Unit]:
    """A point of an agent's grid under a noise, on environments that are not reported."""
    noise, name = case
    episodes, seed = request.rounds or EPISODES, request.seed + APART
    return [unit(name, noise, episodes, seed, trial, point) for trial in trials]


def retune(request: Request, names: Sequence[str] = ()) -> Tuned:
    """Every agent (or ``names``) at every point under every noise; then the best, on more."""
    grid = {
        (noise, name): grid_of(name)
        for noise in NOISES
        for name in names or AGENTS
        if applies(name, noise) and len(grid_of(name)) > 1
    }
    first = range(min(request.trials, TUNING_TRIALS))
    more = range(len(first), len(first) + min(request.trials, FINAL_TRIALS))
    made = provenance(
        seed=request.seed + APART,
        episodes=request.rounds or EPISODES,
        trials=len(first),
        final_trials=len(more),
    )
    regret = search(
        grid,
        lambda case, point: tuning_units(request, case, point, first),
        lambda units: run_units(units, request, "tuning"),
    )
    tuned, finals = request.tuned, {}
    for (noise, name), values in regret.items():
        points = grid[noise, name]
        tuned = tuned.with_search(_setting(noise), name, points, values, made)
        finals[noise, name] = [points[k] for k in np.argsort(values, kind="stable")[:FINALISTS]]
    regret = search(
        finals,
        lambda case, point: tuning_units(request, case, point, more),
        lambda units: run_units(units, request, "tuning, the best again"),
    )
    for (noise, name), values in regret.items():
        tuned = tuned.with_finals(_setting(noise), name, finals[noise, name], values, made)
    return tuned


def _show(request: Request, found: Mapping[Key, Trials]) -> Section:
    """Regret against episodes, final regret with paired ratios, time and memory per episode."""
    episodes = _episodes(request)
    section = Section("mdp", "Linear MDPs with heavy-tailed rewards")
    section.text.append(
        f"Random linear MDPs (d = {DIM}, S = {STATES}, A = {ACTIONS}, H = {HORIZON}), a new one in "
        f"each of {request.trials} trials, {episodes:,} episodes. Regret is exact, by dynamic "
        "programming. Tuned: multipliers of the two bonuses, and of the threshold where there is "
        "one, from one grid for all agents, chosen on other MDPs. *Plain values* leaves out what "
        "the value part of Heavy-LSVI-UCB adds to LSVI-UCB's (weights, rare plans, monotone Q), so "
        "that the reward estimator alone differs; *no clip* is Hvt-LSVI-UCB with the threshold at "
        "infinity, so that what clipping gives can be seen. Only the reward part of "
        "Hvt-LSVI-UCB is one-pass; the values of every agent here are regressed anew on the whole "
        "past at each plan."
    )
    section.tables += [_regret_table(found), _ratio_table(found), _cost_table(found, episodes)]
    for noise, rewards in NOISES.items():
        section.figures[f"mdp-{noise}"] = _figure(found, noise, rewards.title, episodes)
        section.captions[f"mdp-{noise}"] = "Mean regret; tuned solid, untuned dashed."
    section.data = {(*key, "ratio"): interval for key, interval in _ratios(found).items()}
    return section


Found = Mapping[Key, Trials]  # by (noise, agent, variant)


def _regret_table(found: Found) -> Table:
    rows = []
    for name in AGENTS:
        for variant in ("untuned", "tuned"):
            cells = [
                f"{Interval.of(found[noise, name, variant].final):.0f}"
                if (noise, name, variant) in found
                else "-"
                for noise in NOISES
            ]
            if any(cell != "-" for cell in cells):
                rows.append((name, variant, *cells))
    titles = [rewards.title for rewards in NOISES.values()]
    return Table("Mean regret at the end [95 %]", ("agent", "variant", *titles), rows)


def _ratios(found: Found) -> dict[tuple[str, str, str], Interval]:
    """(noise, other agent, variant) -> Hvt-LSVI-UCB's regret over the other's, paired."""
    ratios = {}
    for noise, name, variant in found:
        mine = (noise, HvtLSVIUCB.name, variant)
        if name != HvtLSVIUCB.name and mine in found:
            other = found[noise, name, variant].final
            ratios[noise, name, variant] = ratio(found[mine].final, other)
    return ratios


def _ratio_table(found: Found) -> Table:
    """Tabulate the measured ratios beside the marks that they were meant to meet."""
    marks = {(LSVIUCB.name, "gaussian"): 1.2, (LSVIUCB.name, "t1.7"): 0.5}
    marks |= {(LSVIUCB.name, "pareto"): 0.5}
    marks |= {(name, noise): 1.2 for name in (HeavyLSVIUCB.name, PLAIN_HEAVY) for noise in NOISES}
    rows = []
    for (noise, name, variant), interval in _ratios(found).items():
        mark = marks.get((name, noise))
        if mark is None:
            continue
        met = "yes" if interval.value <= mark else "no"
        rows.append((NOISES[noise].title, name, variant, f"{interval:.2f}", f"{mark:g}", met))
    return Table(
        "Regret of Hvt-LSVI-UCB over another agent's, the same MDPs and noise [95 %]",
        ("rewards", "over", "variant", "ratio", "at most", "met"),
        rows,
    )


def _cost_table(found: Found, episodes: int) -> Table:
    """Time per episode in the first and last blocks, and what is remembered at the end."""
    rows = []
    lengths = np.diff([*range(0, episodes, BLOCK), episodes])
    for name in AGENTS:
        trials = next(
            found[noise, name, variant]
            for variant in ("tuned", "untuned")
            for noise in reversed(NOISES)
            if (noise, name, variant) in found
        )
        seconds = trials["seconds"]
        part = max(seconds.shape[1] // 4, 1)
        per = 1e6 * seconds / lengths
        early, late = np.median(per[:, :part]), np.median(per[:, -part:])
        total, reward = trials["bytes"][0]
        cells = (f"{early:.0f}", f"{late:.0f}", f"{total / 1024:.1f}", f"{reward / 1024:.1f}")
        rows.append((name, *cells))
    return Table(
        "Cost",
        (
            "agent",
            "us per episode, first quarter",
            "last quarter",
            "KiB at the end",
            "of them the reward part",
        ),
        rows,
        note="LSVI-UCB and Greedy LSVI plan before every episode, the others when a determinant "
        "has doubled; `python -m benchmarks.mdp` times the reward updates alone.",
    )


def _figure(found: Found, noise: str, title: str, episodes: int) -> Figure:
    figure, (axis,) = plots.new_figure()
    kept = checkpoints(episodes, RECORD)
    for name in AGENTS:
        for variant, line in (("untuned", "--"), ("tuned", "-")):
            if (noise, name, variant) not in found:
                continue
            curves = found[noise, name, variant]["regret"]
            only = (noise, name, "tuned") not in found
            label = name if variant == "tuned" or only else None
            axis.plot(kept, curves.mean(axis=0), line, color=_COLOURS[name], lw=1.3, label=label)
    axis.set(xlabel="episode", ylabel="cumulative regret", title=title)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=7)
    return figure


MDP = Experiment(
    "mdp",
    "Linear MDPs with heavy-tailed rewards; takes minutes, runs only by name",
    _plan,
    _show,
    by_name_only=True,
)
