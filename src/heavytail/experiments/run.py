"""Running what a user's file asks for, by the same units, store, figures and report."""

from __future__ import annotations

import numpy as np

from heavytail.experiments import report, sections
from heavytail.experiments.catalogue import Setting
from heavytail.experiments.machine import provenance
from heavytail.experiments.measured import gather, write_parquet
from heavytail.experiments.protocol import Entry, entry_units
from heavytail.experiments.registry import Settings, Table
from heavytail.experiments.reproduce import complete_all, save_figures, table
from heavytail.experiments.tuning import APART
from heavytail.experiments.units import Work
from heavytail.experiments.userfile import Asked

__all__ = ["run"]


def run(asked: Asked, settings: Settings, show: bool | None = None) -> str:
    """Tune where a grid is given, run, write results and report, and return a table."""
    asked.out.mkdir(parents=True, exist_ok=True)
    chosen, grids = _tune(asked, settings, show)
    plan = [
        (
            world,
            [c.entry(world, asked.rounds, **chosen[world.name, c.name]) for c in asked.policies],
        )
        for world in asked.worlds
    ]
    units: list[Work] = [
        unit
        for world, found in plan
        for entry in found
        for unit in entry_units(world, entry, asked.rounds, asked.trials, asked.seed)
    ]
    outcomes = complete_all(units, settings, show)
    measured = [
        gather(world, found, outcomes, asked.rounds, asked.trials, asked.seed)
        for world, found in plan
    ]
    write_parquet(asked.out, measured, {"seed": asked.seed, "trials": asked.trials})
    found = [sections.setting_section(one, {}) for one in measured]
    for section in found:
        section.tables += [grid for name, grid in grids if name == section.name]
    save_figures(asked.out, found)
    made = provenance(file=asked.path.name, seed=asked.seed, trials=asked.trials)
    page = report.page(
        [],
        found,
        made,
        title=asked.path.stem,
        intro="Run by `heavytail run`.",
        figures=asked.out / "figures",
    )
    (asked.out / "report.html").write_text(page, encoding="utf-8")
    return table(measured)


def _tune(
    asked: Asked, settings: Settings, show: bool | None
) -> tuple[dict[tuple[str, str], dict[str, object]], list[tuple[str, Table]]]:
    """The grid point of least mean regret on seeds of its own, for each world and policy."""
    plan: dict[tuple[str, str], list[tuple[dict[str, object], list[Work]]]] = {}
    for world in asked.worlds:
        for choice in asked.policies:
            plan[world.name, choice.name] = [
                (point, _point_units(asked, world, choice.entry(world, asked.rounds, **point)))
                for point in choice.points()
            ]
    tried = [group for group in plan.values() if len(group) > 1]
    outcomes = complete_all([u for g in tried for _, us in g for u in us], settings, show)
    chosen, tables = {}, []
    for (world_name, name), group in plan.items():
        if len(group) == 1:
            chosen[world_name, name] = group[0][0]
            continue
        regret = [
            float(np.concatenate([outcomes[u.key]["regret"][:, -1] for u in us]).mean())
            for _, us in group
        ]
        chosen[world_name, name] = group[int(np.argmin(regret))][0]
        keys = tuple(group[0][0])
        rows = [
            (*(f"{point[key]}" for key in keys), f"{value:,.1f}")
            for (point, _), value in zip(group, regret, strict=True)
        ]
        tables.append((world_name, Table(f"The grid of {name}", (*keys, "mean regret"), rows)))
    return chosen, tables


def _point_units(asked: Asked, world: Setting, entry: Entry) -> list[Work]:
    units = entry_units(world, entry, asked.rounds, asked.tuning_trials, asked.seed + APART)
    return [*units]
