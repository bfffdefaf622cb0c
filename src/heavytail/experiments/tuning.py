"""Choosing the multipliers: one grid for everyone, seeds of its own, the whole outcome kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from heavytail.experiments.catalogue import Setting
from heavytail.experiments.machine import provenance
from heavytail.experiments.protocol import Entry, build, entry_units, grid_of, options_of, weight_of
from heavytail.experiments.registry import Settings
from heavytail.experiments.store import complete, write_text
from heavytail.policies.build import find
from heavytail.simulation.progress import progress_bar

__all__ = ["APART", "TUNING_TRIALS", "retune"]

TUNING_TRIALS = 10
APART = 1_000_003  # added to the seed: tuning worlds are never reported ones


def retune(worlds: list[Setting], settings: Settings, path: Path, show: bool | None) -> None:
    """Run every policy at every grid point in every world; write the best, and all, to ``path``."""
    plan: list[tuple[Setting, str, dict[str, float], Entry, int]] = []
    for world in worlds:
        rounds = settings.rounds or world.rounds
        for name in settings.policies:
            for point in grid_of(name):
                policy = build(name, world, rounds, **options_of(name, "tuned"), **point)
                entry = Entry(find(name).name, "tuned", policy, weight_of(name))
                plan.append((world, name, point, entry, rounds))
    trials = min(settings.trials, TUNING_TRIALS)
    seed = settings.seed + APART
    units = [entry_units(w, entry, rounds, trials, seed) for w, _, _, entry, rounds in plan]
    total = sum(unit.weight for group in units for unit in group)
    with progress_bar(show, "tuning", total) as bar:
        everything = [unit for group in units for unit in group]
        outcomes = complete(settings.store, everything, bar, jobs=settings.jobs, dask=settings.dask)
    found: dict[str, dict[str, Any]] = {}
    for (world, name, point, _, _), group in zip(plan, units, strict=True):
        regret = np.concatenate([outcomes[unit.key]["regret"][:, -1] for unit in group]).mean()
        here = found.setdefault(world.name, {}).setdefault(name, {"grid": []})
        here["grid"].append({**point, "regret": round(float(regret), 2)})
    for policies in found.values():
        for outcome in policies.values():
            best = min(outcome["grid"], key=lambda row: row["regret"])
            outcome["options"] = {k: v for k, v in best.items() if k != "regret"}
    record = {"provenance": provenance(trials=trials, seed=seed), "settings": found}
    _write(path, record)


def _write(path: Path, record: dict[str, Any]) -> None:
    """What was there for other settings and policies stays."""
    if path.exists():
        old = json.loads(path.read_text()).get("settings", {})
        for name, policies in old.items():
            record["settings"][name] = {**policies, **record["settings"].get(name, {})}
    write_text(path, _compact(record))


def _compact(record: dict[str, Any]) -> str:
    """JSON with one grid point a line."""
    import re

    text = json.dumps(record, indent=1)
    return re.sub(r"\{\s*(\"radius_scale\"[^{}]*?)\s*\}", _one_line, text) + "\n"


def _one_line(match: Any) -> str:
    return "{" + " ".join(match.group(1).split()) + "}"
