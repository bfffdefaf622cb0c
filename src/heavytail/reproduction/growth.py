"""The growth of regret: with T, from 10^3 to 10^6, and with the size of the noise, down to none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments import LinearBandit
from heavytail.environments.noise import Gaussian, StudentT
from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.setting import block_units, build
from heavytail.experiments.stats import Interval, slope
from heavytail.experiments.unit import Key, Trials
from heavytail.policies.build import find
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import options_of, own_names

__all__ = ["ENVIRONMENTS", "HORIZON", "NOISE_LEVEL", "OURS", "PAPERS"]

MARKS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-9)  # the last is none, to rounding
# Name: (order, environment). A fixed pool leaves gaps between arms; fresh arms do not.
ENVIRONMENTS: dict[str, tuple[float, LinearBandit]] = {
    "t(2.1), the paper's 50 arms": (1.99, LinearBandit(2, 50, StudentT(2.1))),
    "t(2.1), 10 new arms a round": (1.99, LinearBandit(2, 10, StudentT(2.1), fresh=True)),
    "t(1.5), 10 new arms a round": (1.49, LinearBandit(2, 10, StudentT(1.5), fresh=True)),
}
# (policy, variant): the paper's algorithm, and what is ours.
PAPERS: tuple[Key, ...] = (("Hvt-UCB", "tuned"), ("Hvt-UCB", "theory"))
OURS: tuple[Key, ...] = (("Hvt-UCB", "untuned"), ("Twin-UCB", "untuned"))
_CLASSES = {"Hvt-UCB": "HvtUCB", "Twin-UCB": "TwinUCB"}  # of them, by name
_BASE = setting("student")


def _trials(request: Request) -> int:
    return max(2, request.trials // 4)  # a trial is a million rounds


def _marks(request: Request) -> tuple[int, ...]:
    most = request.rounds or (30_000 if request.quick else MARKS[-1])
    return (*(m for m in MARKS if m < most), most) if most > MARKS[0] else (most // 2, most)


def _runs(tuned_in: str, request: Request) -> dict[Key, tuple[str, dict[str, Any]]]:
    """Class and options by (policy, variant), as tuned in a setting; those that are not tuned there
    are left out. A user's own come last, untuned and tuned.
    """
    known = {run: _CLASSES[run[0]] for run in (*PAPERS, *OURS)}
    for variant, path in itertools.product(("untuned", "tuned"), own_names(request)):
        known[find(path).name, variant] = path
    runs = {}
    for run, name in known.items():
        chosen = request.tuned.options(tuned_in, name) if run[1] == "tuned" else {}
        if chosen is not None:
            runs[run] = name, {**options_of(name, run[1]), **chosen}
    return runs


def _horizon_plan(request: Request) -> Plan:
    """(environment, policy, variant, T): ours once, for all T; others for each T."""
    marks = _marks(request)
    plan: Plan = {}
    runs = _runs("student", request)
    for (name, (order, environment)), run in itertools.product(ENVIRONMENTS.items(), runs):
        seed = replace(_BASE, worlds=f"horizon {name}").seed(request.seed)
        stated = replace(_BASE, noise=environment.noise, order=order, scale=None)
        kind, options = runs[run]
        some = marks if len(marks) < 3 else marks[::-2][::-1]
        lengths = [(marks[-1], marks)] if run in OURS else [(T, (T,)) for T in some]
        for T, kept in lengths:
            plan[name, *run, str(T)] = block_units(
                build(kind, stated, T, **options),
                environment,
                T,
                seed,
                _trials(request),
                kept,
                size=1 if T > 50_000 else _trials(request),
            )
    return plan


def _horizon(request: Request, results: Mapping[Key, Trials]) -> Section:
    """Regret against T, its slope on a log-log scale, and the exponent of the theory, 1/order."""
    section = Section("horizon", "Regret against T")
    rows = []
    figure, axes = plots.new_figure(len(ENVIRONMENTS), 3.2, 3.3, share=True)
    for axis, (name, (order, _)) in zip(axes, ENVIRONMENTS.items(), strict=True):
        for run in dict.fromkeys(key[1:3] for key in results):
            points = [point for key, point in results.items() if key[:3] == (name, *run)]
            if not points:
                continue
            T = np.concatenate([point.arguments["marks"] for point in points])
            regret = np.concatenate([point["regret"] for point in points], axis=1)
            grown = slope(T.astype(float), regret)
            section.data[name, *run] = (grown, 1.0 / order)
            label = plots.label(run, points[0].arguments["policy"])
            rows.append((name, label, f"{grown:.2f}", f"{1 / order:.3f}"))
            axis.plot(T, regret.mean(axis=0), **{"marker": ".", **plots.look(run)})
        axis.set(xscale="log", yscale="log", xlabel="rounds, T")
        axis.set_title(name, fontsize=9)
    axes[0].set_ylabel("regret")
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    figure.legend(
        list(lines.values()),
        list(lines),
        loc="outside lower center",
        ncols=4,
        fontsize=8,
        frameon=False,
    )
    section.figures["horizon"] = figure
    section.captions["horizon"] = "Mean regret against T."
    section.tables.append(
        Table("Slope of log regret against log T", ("world", "policy", "slope", "1/p"), rows)
    )
    section.text.append(
        f"{_trials(request)} trials, T to {_marks(request)[-1]:,}. Hvt-UCB as in the paper, by "
        "theory and tuned (the multipliers of the Student t setting), is run for each T; what is "
        "ours is anytime, so one run serves every T. The bound is T^(1/p): an upper bound, so a "
        "smaller slope agrees with it."
    )
    return section


def _noise_plan(request: Request) -> Plan:
    """(policy, variant, level)."""
    T = request.rounds or (6_000 if request.quick else 18_000)
    plan: Plan = {}
    for (run, (kind, options)), level in itertools.product(
        _runs("gaussian", request).items(), LEVELS
    ):
        stated = replace(_BASE, noise=Gaussian(level), order=2.0, scale=None, worlds="noise level")
        policy = build(kind, stated, T, **options)
        seed, marks = stated.seed(request.seed), (T // 2, T)
        plan[*run, str(level)] = block_units(
            policy, stated.environment, T, seed, request.trials, marks
        )
    return plan


def _excess_slope(x: FloatArray, y: FloatArray, floor: FloatArray) -> Interval:
    """The slope of regret less that without noise; NaN where noise does not cost any."""
    excess = y - floor[:, None]
    if excess.mean(axis=0).min() <= 0.0:
        return Interval(math.nan, math.nan, math.nan)
    return slope(x, excess)


def _noise_level(request: Request, results: Mapping[Key, Trials]) -> Section:
    """Regret against the size of Gaussian noise, told to the policy, down to none."""
    section = Section("noise-level", "Regret against the size of the noise")
    section.text.append(
        f"{request.trials} trials of Gaussian noise of known size; tuned as in that setting."
    )
    figure, (axis,) = plots.new_figure(height=3.8)
    rows = []
    x = np.array(LEVELS)
    for run in dict.fromkeys(key[:2] for key in results):
        # level, trial, half and end
        regret = np.stack([results[*run, str(level)]["regret"] for level in LEVELS])
        end = regret[:, :, 1]
        late = float(1.0 - regret[-1, :, 0].mean() / max(regret[-1, :, 1].mean(), 1e-300))
        grown = _excess_slope(x[:4], end[:4].T, end[-1])
        section.data[run] = (grown, late, Interval.of(end[-1]))
        shown = np.maximum(x, 1e-4)
        axis.plot(shown, end.mean(axis=1), **{"marker": ".", **plots.look(run)})
        means = (f"{v:.3g}" for v in end.mean(axis=1))
        label = plots.label(run, results[*run, str(LEVELS[0])].arguments["policy"])
        rows.append((label, *means, f"{grown:.2f}", f"{late:.1%}"))
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="standard deviation of the noise (0 drawn at 1e-4)",
        ylabel="regret",
        title="Gaussian noise",
    )
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    section.figures["noise-level"] = figure
    section.captions["noise-level"] = "Mean regret at the end."
    labels = [f"{level:g}" for level in LEVELS[:-1]] + ["none"]
    columns = (
        "policy",
        *labels,
        "slope above no noise, 0.03 to 1",
        "without noise: earned in the second half",
    )
    section.tables.append(Table("Mean regret by noise", columns, rows))
    return section


HORIZON = Experiment("horizon", "Regret against T", _horizon_plan, _horizon)
NOISE_LEVEL = Experiment(
    "noise-level", "Regret against the size of the noise", _noise_plan, _noise_level
)
