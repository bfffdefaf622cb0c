"""Running what a user's file asks for, by the same units, store, figures and report."""

from __future__ import annotations

from heavytail._archive import folder
from heavytail.experiments import across, report
from heavytail.experiments.experiment import Experiment, Plan, Request, Table, carry_out, run_units
from heavytail.experiments.machine import provenance
from heavytail.experiments.setting import (
    Setting,
    cost_section,
    page,
    regret_text,
    trial_units,
    write_parquet,
)
from heavytail.experiments.tune import APART, Point, best, search
from heavytail.experiments.unit import Unit
from heavytail.experiments.userfile import Asked, Choice

__all__ = ["run"]

Case = tuple[str, str]  # setting, policy


def run(asked: Asked, request: Request) -> str:
    """Tune where a grid is given, run, write results and report, and return a table."""
    with folder(asked.out):
        chosen, grids = tune(asked, request)
        sections = carry_out([_experiment(asked, world, chosen) for world in asked.worlds], request)
    for section in sections:
        section.tables += [grid for name, grid in grids if name == section.name]
    results = {section.name: section.data for section in sections}
    write_parquet(asked.out, sections, {"seed": asked.seed, "trials": asked.trials})
    together = across.section(results, {section.name: section.shown for section in sections})
    sections += [cost_section(sections), *([together] if together else [])]
    made = provenance(file=asked.path.name, seed=asked.seed, trials=asked.trials)
    intro = "Run by heavytail run."
    report.write(asked.out, [], sections, made, title=asked.path.stem, intro=intro)
    return regret_text(results)


def _experiment(asked: Asked, setting: Setting, chosen: dict[Case, Point]) -> Experiment:
    """One setting of the file with every policy in it."""

    def plan(request: Request) -> Plan:
        return {
            (choice.name, choice.variant): trial_units(
                setting,
                choice.build(setting, asked.rounds, **chosen[setting.name, choice.name]),
                asked.rounds,
                asked.trials,
                asked.seed,
            )
            for choice in asked.policies
        }

    return Experiment(
        setting.name,
        setting.title,
        plan,
        lambda _, results: page(setting, results, list(results), reference="Hvt-UCB"),
    )


def tuning_units(asked: Asked, setting: Setting, choice: Choice, point: Point) -> list[Unit]:
    """A point of a policy's grid, on seeds that are not reported."""
    policy = choice.build(setting, asked.rounds, **point)
    return trial_units(setting, policy, asked.rounds, asked.tuning_trials, asked.seed + APART)


def tune(asked: Asked, request: Request) -> tuple[dict[Case, Point], list[tuple[str, Table]]]:
    """The point of least mean regret for each setting and policy, and the grids as tables."""
    settings = {world.name: world for world in asked.worlds}
    policies = {choice.name: choice for choice in asked.policies}
    grid = {(s, p): policies[p].points() for s in settings for p in policies}
    regret = search(
        {case: points for case, points in grid.items() if len(points) > 1},
        lambda case, point: tuning_units(asked, settings[case[0]], policies[case[1]], point),
        lambda units: run_units(units, request, "tuning"),
    )
    chosen = {case: points[0] for case, points in grid.items()}
    tables = []
    for (setting, policy), values in regret.items():
        points = grid[setting, policy]
        chosen[setting, policy] = best(points, values)
        keys = tuple(points[0])
        rows = [
            (*(f"{point[key]}" for key in keys), f"{value:,.1f}")
            for point, value in zip(points, values, strict=True)
        ]
        tables.append((setting, Table(f"The grid of {policy}", (*keys, "mean regret"), rows)))
    return chosen, tables
