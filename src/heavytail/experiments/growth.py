"""How regret grows: with T, from 10^3 to 10^6, and with the size of the noise, down to none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments import Environment, LinearBandit
from heavytail.environments.noise import Gaussian, StudentT
from heavytail.experiments import plots
from heavytail.experiments.catalogue import setting
from heavytail.experiments.protocol import build, options_of, read_tuned
from heavytail.experiments.registry import Section, Settings, Table
from heavytail.experiments.stats import Interval, slope
from heavytail.experiments.store import complete
from heavytail.experiments.units import Outcome, Unit, chunks
from heavytail.simulation.progress import Progress

__all__ = ["horizon", "horizon_units", "noise_level", "noise_units"]

MARKS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-9)  # the last is none, to rounding
_BASE = setting("student")

Plan = dict[tuple[str, str], list[list[Unit]]]  # (world, variant) -> one list of units a point


def worlds() -> dict[str, tuple[float, Environment]]:
    """Name: (order, world). A fixed pool leaves gaps between arms; fresh arms do not."""
    return {
        "t(2.1), the paper's 50 arms": (1.99, LinearBandit(2, 50, StudentT(2.1))),
        "t(2.1), 10 new arms a round": (1.99, LinearBandit(2, 10, StudentT(2.1), fresh=True)),
        "t(1.5), 10 new arms a round": (1.49, LinearBandit(2, 10, StudentT(1.5), fresh=True)),
    }


def _trials(settings: Settings) -> int:
    return max(2, settings.trials // 4)  # a trial is a million rounds


def _marks(settings: Settings) -> tuple[int, ...]:
    most = settings.rounds or (30_000 if settings.quick else MARKS[-1])
    return (*(m for m in MARKS if m < most), most) if most > MARKS[0] else (most // 2, most)


def _tuned(settings: Settings, name: str) -> dict[str, Any] | None:
    found = read_tuned(settings.tuned).get("settings", {}).get(name, {}).get("HvtUCB")
    return None if found is None else {**options_of("HvtUCB", "tuned"), **found["options"]}


def _horizon_plan(settings: Settings) -> Plan:
    marks, trials, plan = _marks(settings), _trials(settings), {}
    for name, (order, world) in worlds().items():
        seed = replace(_BASE, worlds=f"horizon {name}").seed(settings.seed)
        assert isinstance(world, LinearBandit)
        told = replace(_BASE, noise=world.noise, order=order, scale=None)

        def units(
            T: int,
            kept: tuple[int, ...],
            options: dict[str, Any],
            told: Any = told,
            world: Any = world,
            seed: int = seed,
        ) -> list[Unit]:
            policy = build("HvtUCB", told, T, **options)
            weight = max(T // 1000, 1)
            return [
                Unit(policy, world, T, seed, first, n, marks=kept, weight=weight * n)
                for first, n in chunks(trials, 1 if T > 50_000 else trials)
            ]

        plan[name, "untuned"] = [units(marks[-1], marks, {})]
        tuned = _tuned(settings, "student")
        if tuned is not None:
            plan[name, "tuned"] = [
                units(T, (T,), tuned) for T in (marks if len(marks) < 3 else marks[::-2][::-1])
            ]
    return plan


def horizon_units(settings: Settings) -> list[Unit]:
    """The work of :func:`horizon`."""
    return _flat(_horizon_plan(settings))


def _flat(plan: Plan) -> list[Unit]:
    return [unit for points in plan.values() for point in points for unit in point]


def horizon(settings: Settings, progress: Progress) -> Section:
    """Regret against T, its slope on a log-log scale, and the exponent of the theory, 1/order."""
    plan = _horizon_plan(settings)
    outcomes = _outcomes(settings, plan, progress)
    section = Section("horizon", "Regret against T")
    rows, slopes = [], {}
    figure, (axis,) = plots.new_figure()
    shades = ("#0072B2", "#56B4E9", "#000000")
    for place, (name, (order, _)) in enumerate(worlds().items()):
        for variant in ("untuned", "tuned"):
            if (name, variant) not in plan:
                continue
            units = plan[name, variant]
            T = np.array(
                units[0][0].marks if variant == "untuned" else [u[0].rounds for u in units]
            )
            regret = np.concatenate([_joined(outcomes, point) for point in units], axis=1)
            found = slope(T.astype(float), regret)
            slopes[name, variant] = (found, 1.0 / order)
            rows.append((name, variant, f"{found:.2f}", f"{1 / order:.3f}"))
            line = "-" if variant == "untuned" else "--"
            label = name if variant == "untuned" else None
            axis.plot(
                T, regret.mean(axis=0), line, color=shades[place], marker="o", ms=3, label=label
            )
    axis.set(xscale="log", yscale="log", xlabel="T", ylabel="regret", title="Hvt-UCB")
    axis.legend(fontsize=7)
    section.figures["horizon"] = figure
    section.captions["horizon"] = "Mean regret; untuned solid, tuned (for each T anew) dashed."
    section.tables.append(
        Table("Slope of log regret against log T", ("world", "variant", "slope", "1/p"), rows)
    )
    section.text.append(
        f"Hvt-UCB over {_trials(settings)} trials, T to {_marks(settings)[-1]:,}; the untuned one "
        "is anytime, so one run serves every T; the tuned one, with the multipliers of the Student "
        "t setting, is run for each T. The bound is T^(1/p): an upper bound, so a smaller slope "
        "agrees with it."
    )
    section.data["slopes"] = slopes
    return section


def _outcomes(settings: Settings, plan: Plan, progress: Progress) -> dict[str, Outcome]:
    return complete(settings.store, _flat(plan), progress, jobs=settings.jobs, dask=settings.dask)


def _joined(outcomes: dict[str, Outcome], units: list[Unit]) -> FloatArray:
    return np.concatenate([outcomes[unit.key]["regret"] for unit in units])


def _noise_plan(settings: Settings) -> Plan:
    T = settings.rounds or (6_000 if settings.quick else 18_000)
    variants: dict[str, dict[str, Any] | None] = {
        "untuned": {},
        "tuned": _tuned(settings, "gaussian"),
        "theory": options_of("HvtUCB", "theory"),
    }
    plan: Plan = {}
    for variant, options in variants.items():
        if options is None:
            continue
        points = []
        for level in LEVELS:
            told = replace(
                _BASE, noise=Gaussian(level), order=2.0, scale=None, worlds="noise level"
            )
            policy = build("HvtUCB", told, T, **options)
            seed, trials = told.seed(settings.seed), settings.trials
            points.append(
                [
                    Unit(
                        policy, told.environment, T, seed, k, n, (T // 2, T), n * max(T // 1000, 1)
                    )
                    for k, n in chunks(trials)
                ]
            )
        plan["gaussian", variant] = points
    return plan


def _excess_slope(x: FloatArray, y: FloatArray, floor: FloatArray) -> Interval:
    """The slope of regret less that without noise; NaN where noise does not cost any."""
    excess = y - floor[:, None]
    if excess.mean(axis=0).min() <= 0.0:
        return Interval(math.nan, math.nan, math.nan)
    return slope(x, excess)


def noise_units(settings: Settings) -> list[Unit]:
    """The work of :func:`noise_level`."""
    return _flat(_noise_plan(settings))


def noise_level(settings: Settings, progress: Progress) -> Section:
    """Regret against the size of Gaussian noise, told to the policy, down to none."""
    plan = _noise_plan(settings)
    outcomes = _outcomes(settings, plan, progress)
    section = Section("noise-level", "Regret against the size of the noise")
    figure, (axis,) = plots.new_figure()
    rows, data = [], {}
    x = np.array(LEVELS)
    for (_, variant), points in plan.items():
        regret = np.stack([_joined(outcomes, point) for point in points])  # level, trial, half/end
        end = regret[:, :, 1]
        late = float(1.0 - regret[-1, :, 0].mean() / max(regret[-1, :, 1].mean(), 1e-300))
        found = _excess_slope(x[:4], end[:4].T, end[-1])
        data[variant] = (found, late, Interval.of(end[-1]))
        line = {"untuned": "-", "tuned": "--", "theory": ":"}[variant]
        axis.plot(
            np.maximum(x, 1e-4),
            end.mean(axis=1),
            line,
            color=plots.colour("Hvt-UCB"),
            marker="o",
            ms=3,
            label=variant,
        )
        rows.append(
            (variant, *(f"{v:.3g}" for v in end.mean(axis=1)), f"{found:.2f}", f"{late:.1%}")
        )
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="standard deviation of the noise (0 drawn at 1e-4)",
        ylabel="regret",
        title="Hvt-UCB",
    )
    axis.legend(fontsize=8)
    section.figures["noise-level"] = figure
    section.captions["noise-level"] = "Mean regret at the end."
    labels = [f"{level:g}" for level in LEVELS[:-1]] + ["none"]
    section.tables.append(
        Table(
            "Mean regret by noise",
            (
                "variant",
                *labels,
                "slope above no noise, 0.03 to 1",
                "without noise: earned in the second half",
            ),
            rows,
        )
    )
    section.data["levels"] = data
    return section
