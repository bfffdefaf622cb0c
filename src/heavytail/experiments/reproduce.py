"""The reproduction from end to end: units, results, figures, verdicts, report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heavytail._validate import check_count
from heavytail.experiments import cost, plots, protocol, report, sections, spread, tuning
from heavytail.experiments.catalogue import SETTINGS, Setting, setting
from heavytail.experiments.machine import provenance
from heavytail.experiments.measured import Measured, gather, write_parquet
from heavytail.experiments.registry import (
    EXPERIMENTS,
    Section,
    Settings,
    Table,
    extra_units,
    load_experiment,
)
from heavytail.experiments.store import complete
from heavytail.experiments.units import Outcome, Work
from heavytail.experiments.verdicts import Results, Verdict, judge
from heavytail.simulation.progress import progress_bar

__all__ = ["catalogue", "reproduce"]

Plan = list[tuple[Setting, list[protocol.Entry], int]]


def catalogue() -> dict[str, str]:
    """Every experiment's name and title, in order."""
    return {s.name: s.title for s in SETTINGS} | {k: v.title for k, v in EXPERIMENTS.items()}


def reproduce(
    names: Sequence[str],
    settings: Settings,
    *,
    retune: bool = False,
    docs: Path | None = None,
    show: bool | None = None,
) -> str:
    """Run ``names`` (all unless given), write everything under ``settings.out``, return a table."""
    start = time.perf_counter()
    check_names(names)
    check_count("--trials", settings.trials)
    settings.out.mkdir(parents=True, exist_ok=True)
    wanted = list(dict.fromkeys(names)) or [
        name for name in catalogue() if name not in EXPERIMENTS or not EXPERIMENTS[name].asked
    ]
    worlds = [setting(name) for name in wanted if name not in EXPERIMENTS]
    extras = [name for name in wanted if name in EXPERIMENTS]
    if retune:
        tuning.retune(worlds, settings, settings.tuned, show)
    measured = measure(worlds, extras, settings, show)
    others = [run_extra(name, settings, show) for name in extras]
    if "speedup" not in extras:
        others.append(cost.speedup_section(cost.read_speedup()))
    recorded = spread.read_record()
    if recorded is not None:
        others.append(spread.section(recorded))
    tuned = protocol.read_tuned(settings.tuned)
    found = [sections.setting_section(one, tuned) for one in measured]
    by_name = {one.setting.name: one for one in measured}
    summary = [sections.untuned_section(by_name), sections.variants_section(measured)]
    data = {key: value for section in others for key, value in section.data.items()}
    verdicts = judge(Results(by_name, data))
    made = _made(settings, tuned, time.perf_counter() - start)
    write_parquet(settings.out, measured, {"seed": settings.seed, "trials": settings.trials})
    write(settings.out, verdicts, [*summary, *found, *others], made)
    if docs is not None:
        docs.write_text(report.markdown(verdicts, [*summary, *others], made))
    asked = [
        text_table(one) for section in others if section.name in names for one in section.tables
    ]
    return "\n\n".join(part for part in (table(measured), *asked, verdict_table(verdicts)) if part)


def check_names(names: Sequence[str]) -> None:
    """Refuse a name that is not in the catalogue."""
    known = catalogue()
    for name in names:
        if name not in known:
            raise ValueError(f"no experiment is called {name!r}; there are {', '.join(known)}.")


def measure(
    worlds: list[Setting], extras: list[str], settings: Settings, show: bool | None
) -> list[Measured]:
    """Every policy and variant in every world, and what other experiments announced: one bar."""
    plan = plan_of(worlds, settings)
    units: list[Work] = [unit for name in extras for unit in extra_units(name, settings)]
    for world, found, rounds in plan:
        for entry in found:
            units += protocol.entry_units(world, entry, rounds, settings.trials, settings.seed)
    outcomes = complete_all(units, settings, show)
    return [
        gather(world, found, outcomes, rounds, settings.trials, settings.seed)
        for world, found, rounds in plan
    ]


def plan_of(worlds: list[Setting], settings: Settings) -> Plan:
    """For each world its entries and T."""
    tuned = protocol.read_tuned(settings.tuned)
    plan = []
    for world in worlds:
        rounds = settings.rounds or (6_000 if settings.quick else world.rounds)
        plan.append((world, protocol.entries(world, settings.policies, rounds, tuned), rounds))
    return plan


def complete_all(units: list[Work], settings: Settings, show: bool | None) -> dict[str, Outcome]:
    """Run what is not yet in the store, under one bar."""
    total = sum(unit.weight for unit in {unit.key: unit for unit in units}.values())
    with progress_bar(show, "experiments", total) as bar:
        return complete(settings.store, units, bar, jobs=settings.jobs, dask=settings.dask)


def run_extra(name: str, settings: Settings, show: bool | None) -> Section:
    """One experiment of the registry."""
    with progress_bar(show, name, len(settings.policies) + 1) as bar:
        return load_experiment(name)(settings, bar)


def write(out: Path, verdicts: list[Verdict], found: list[Section], made: dict[str, Any]) -> None:
    """Figures, the verdicts as Parquet, and the report."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    save_figures(out, found)
    rows = [
        {
            **dataclasses.asdict(one),
            "measured": [p.measured for p in one.measured],
            "met": [p.met for p in one.measured],
        }
        for one in verdicts
    ]
    pq.write_table(pa.Table.from_pylist(rows), out / "verdicts.parquet")
    page = report.page(verdicts, found, made, figures=out / "figures")
    (out / "report.html").write_text(page, encoding="utf-8")


def save_figures(out: Path, found: list[Section]) -> None:
    """Every figure as PNG, SVG and PDF."""
    for section in found:
        for name, figure in section.figures.items():
            plots.save(figure, out / "figures", name)


def _made(settings: Settings, tuned: dict[str, Any], seconds: float) -> dict[str, Any]:
    return {
        **provenance(seed=settings.seed, trials=settings.trials),
        "seconds": f"{seconds:.0f}",
        "tuned multipliers": tuned.get("provenance", "none recorded"),
        "results": "regret.parquet, seconds.parquet, verdicts.parquet, figures/ beside this file",
    }


def table(measured: list[Measured]) -> str:
    """Mean final regret, one row a setting and variant, one column a policy."""
    if not measured:
        return ""
    policies = list(dict.fromkeys(key[0] for one in measured for key in one.curves))
    widths = {policy: max(len(policy), 9) + 2 for policy in policies}
    lines = [
        "mean regret at the end",
        f"{'setting':<16} {'variant':<8}" + "".join(f"{p:>{widths[p]}}" for p in policies),
    ]
    for one in measured:
        for variant in dict.fromkeys(key[1] for key in one.curves):
            cells = [
                f"{one.final(p, variant).mean():>{widths[p]}.1f}"
                if (p, variant) in one.curves
                else " " * widths[p]
                for p in policies
            ]
            if any(cell.strip() for cell in cells):
                lines.append(f"{one.setting.name:<16} {variant:<8}" + "".join(cells))
    return "\n".join(lines)


def text_table(one: Table) -> str:
    """A section's table as aligned text."""
    rows = [one.columns, *one.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(one.columns))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([one.title, *lines])


def verdict_table(verdicts: list[Verdict]) -> str:
    """Claims and verdicts, one line each."""
    return "\n".join(f"{one.claim:<4} {one.verdict:<14} {one.statement}" for one in verdicts)
