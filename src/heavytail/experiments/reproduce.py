"""The reproduction from end to end: units, results, figures, tables."""

from __future__ import annotations

from collections.abc import Sequence

from heavytail._validate import check_count
from heavytail.experiments import plots, protocol
from heavytail.experiments.catalogue import SETTINGS, Setting, setting
from heavytail.experiments.measured import Measured, gather, write_parquet
from heavytail.experiments.registry import EXPERIMENTS, Section, Settings, load_experiment
from heavytail.experiments.store import complete
from heavytail.simulation.progress import progress_bar

__all__ = ["catalogue", "reproduce"]


def catalogue() -> dict[str, str]:
    """Every experiment's name and title, in order."""
    return {s.name: s.title for s in SETTINGS} | {k: v[0] for k, v in EXPERIMENTS.items()}


def reproduce(names: Sequence[str], settings: Settings, *, show: bool | None = None) -> str:
    """Run ``names`` (all unless given), write figures and Parquet, and return the table."""
    check_names(names)
    check_count("--trials", settings.trials)
    wanted = list(dict.fromkeys(names)) or list(catalogue())
    settings.out.mkdir(parents=True, exist_ok=True)
    worlds = [setting(name) for name in wanted if name not in EXPERIMENTS]
    measured = measure(worlds, settings, show)
    write_parquet(settings.out, measured, {"seed": settings.seed, "trials": settings.trials})
    for one in measured:
        figure = plots.regret_figure(one, shown(one), time=one.setting.group == "main")
        plots.save(figure, settings.out / "figures", one.setting.name)
    for name in wanted:
        if name in EXPERIMENTS:
            run_extra(name, settings, show)
    return table(measured)


def check_names(names: Sequence[str]) -> None:
    """Refuse a name that is not in the catalogue."""
    known = catalogue()
    for name in names:
        if name not in known:
            raise ValueError(f"no experiment is called {name!r}; there are {', '.join(known)}.")


def measure(worlds: list[Setting], settings: Settings, show: bool | None) -> list[Measured]:
    """Every policy and variant in every world, one bar for all."""
    tuned = protocol.read_tuned()
    plan, units = [], []
    for world in worlds:
        rounds = settings.rounds or world.rounds
        found = protocol.entries(world, settings.policies, rounds, tuned)
        plan.append((world, found, rounds))
        for entry in found:
            units += protocol.entry_units(world, entry, rounds, settings.trials, settings.seed)
    total = sum(unit.weight for unit in {unit.key: unit for unit in units}.values())
    with progress_bar(show, "experiments", total) as bar:
        outcomes = complete(settings.store, units, bar, jobs=settings.jobs, dask=settings.dask)
    return [
        gather(world, found, outcomes, rounds, settings.trials, settings.seed)
        for world, found, rounds in plan
    ]


def run_extra(name: str, settings: Settings, show: bool | None) -> Section:
    """One experiment of the registry."""
    with progress_bar(show, name, 1) as bar:
        section = load_experiment(name)(settings, bar)
    for key, figure in section.figures.items():
        plots.save(figure, settings.out / "figures", key)
    return section


def shown(measured: Measured) -> list[tuple[str, str]]:
    """What a figure draws: everyone tuned, and Hvt-UCB untuned; untuned where nothing is tuned."""
    tuned = [key for key in measured.curves if key[1] == "tuned"]
    if not tuned:
        return [key for key in measured.curves if key[1] == "untuned"]
    return [("Hvt-UCB", "untuned"), *tuned] if ("Hvt-UCB", "untuned") in measured.curves else tuned


def table(measured: list[Measured]) -> str:
    """Mean final regret, one row a setting and variant, one column a policy."""
    if not measured:
        return ""
    policies = list(dict.fromkeys(key[0] for one in measured for key in one.curves))
    lines = [
        "mean regret at the end",
        f"{'setting':<16} {'variant':<8}" + "".join(f"{p:>12}" for p in policies),
    ]
    for one in measured:
        for variant in protocol.VARIANTS:
            cells = [
                f"{one.final(p, variant).mean():>12.1f}" if (p, variant) in one.curves else " " * 12
                for p in policies
            ]
            if any(cell.strip() for cell in cells):
                lines.append(f"{one.setting.name:<16} {variant:<8}" + "".join(cells))
    return "\n".join(lines)
