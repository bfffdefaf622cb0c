"""``python -m heavytail.mdp.tuning``: the multipliers of ``heavytail reproduce mdp``, chosen anew.

One grid for all agents; worlds and noise that the report never sees. A few worlds are enough to
rule most of a grid out and too few to pick its best point, so the best of each grid meet again on
more worlds. The whole outcome is kept in ``tuned.json`` beside this file.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytail.experiments.catalogue import SEED
from heavytail.experiments.machine import provenance
from heavytail.experiments.store import Store, complete
from heavytail.mdp.experiments import AGENTS, NOISES, TUNED, AgentUnit, applies, unit
from heavytail.simulation.progress import progress_bar

__all__ = ["finals", "grid_of", "main", "retune"]

GRID: dict[str, tuple[float, ...]] = {
    "reward_bonus": (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0),
    "value_bonus": (0.01, 0.03, 0.1),
    "threshold_scale": (0.1, 1.0),
}
TUNING_EPISODES = 1000
TUNING_TRIALS = 4
FINALISTS = 4  # points of a grid that meet again ...
FINAL_TRIALS = 12  # ... on this many further worlds
APART = 1_000_003  # added to the seed: tuning worlds are never reported ones


def grid_of(name: str) -> list[dict[str, float]]:
    """The grid's points over the multipliers that the agent has."""
    kind, own = AGENTS[name]
    accepted = inspect.signature(kind).parameters
    fixed = ("threshold_scale",) if "clip" in own else ()
    keys = [key for key in GRID if key in accepted and key not in fixed]
    points = itertools.product(*(GRID[key] for key in keys))
    return [dict(zip(keys, point, strict=True)) for point in points]


def retune(
    path: Path = TUNED,
    *,
    names: Sequence[str] = (),
    episodes: int = TUNING_EPISODES,
    trials: int = TUNING_TRIALS,
    jobs: int | None = None,
    show: bool | None = None,
) -> None:
    """Run every agent (or ``names``) at every point under every noise; write the best, and all."""
    record = _read(path)
    todo = {
        (noise, name): grid_of(name)
        for noise in NOISES
        for name in names or AGENTS
        if applies(name, noise) and len(grid_of(name)) > 1
    }
    for (noise, name), rows in _measure(todo, range(trials), episodes, jobs, show).items():
        options = _without_regret(_best(rows))
        record["noises"].setdefault(noise, {})[name] = {"options": options, "grid": rows}
    _write(path, record, episodes=episodes, trials=trials)


def finals(
    path: Path = TUNED,
    *,
    names: Sequence[str] = (),
    episodes: int = TUNING_EPISODES,
    trials: int = FINAL_TRIALS,
    jobs: int | None = None,
    show: bool | None = None,
) -> None:
    """Choose among the best points of each recorded grid on further worlds."""
    record = _read(path)
    todo = {}
    for noise, agents in record["noises"].items():
        for name, found in agents.items():
            if not names or name in names:
                rows = sorted(found["grid"], key=lambda row: row["regret"])[:FINALISTS]
                todo[noise, name] = [_without_regret(row) for row in rows]
    worlds = range(TUNING_TRIALS, TUNING_TRIALS + trials)
    for (noise, name), rows in _measure(todo, worlds, episodes, jobs, show).items():
        record["noises"][noise][name]["finals"] = rows
        record["noises"][noise][name]["options"] = _without_regret(_best(rows))
    _write(path, record, episodes=episodes, trials=TUNING_TRIALS, final_trials=trials)


def _measure(
    todo: dict[tuple[str, str], list[dict[str, float]]],
    worlds: Iterable[int],
    episodes: int,
    jobs: int | None,
    show: bool | None,
) -> dict[tuple[str, str], list[dict[str, float]]]:
    """(noise, agent) -> its points, each with the mean regret over ``worlds``."""

    def units(noise: str, name: str, point: dict[str, float]) -> list[AgentUnit]:
        return [unit(name, noise, episodes, SEED + APART, world, point) for world in worlds]

    work = [
        one
        for (noise, name), points in todo.items()
        for p in points
        for one in units(noise, name, p)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        progress_bar(show, "tuning", sum(one.weight for one in work)) as bar,
    ):
        done = complete(Store(folder), work, bar, jobs=jobs)

    def row(noise: str, name: str, point: dict[str, float]) -> dict[str, float]:
        regret = np.mean([done[one.key]["regret"][-1] for one in units(noise, name, point)])
        return {**point, "regret": round(float(regret), 1)}

    return {
        (noise, name): [row(noise, name, point) for point in points]
        for (noise, name), points in todo.items()
    }


def _best(rows: list[dict[str, float]]) -> dict[str, float]:
    return min(rows, key=lambda row: row["regret"])


def _without_regret(row: dict[str, float]) -> dict[str, float]:
    return {key: value for key, value in row.items() if key != "regret"}


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {"noises": {}}


def _write(path: Path, record: dict[str, Any], **numbers: int) -> None:
    record["provenance"] = provenance(
        command="python -m heavytail.mdp.tuning", seed=SEED + APART, **numbers
    )
    path.write_text(_compact(record))


def _compact(record: dict[str, Any]) -> str:
    """JSON with one grid point a line."""
    lines = ['{"provenance": ' + json.dumps(record["provenance"]) + ', "noises": {']
    noises = []
    for noise, agents in record["noises"].items():
        parts = []
        for name, found in agents.items():
            grid = ",\n   ".join(json.dumps(row) for row in found["grid"])
            last = ",\n   ".join(json.dumps(row) for row in found.get("finals", []))
            extra = f' "finals": [\n   {last}],' if last else ""
            options = json.dumps(found["options"])
            parts.append(f'  "{name}": {{"options": {options},{extra} "grid": [\n   {grid}]}}')
        noises.append(f' "{noise}": {{\n' + ",\n".join(parts) + "}")
    return "\n".join([*lines, ",\n".join(noises), "}}"]) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Tune and write."""
    parser = argparse.ArgumentParser(prog="python -m heavytail.mdp.tuning", description=__doc__)
    parser.add_argument("names", nargs="*", help="agents by name; all unless given")
    parser.add_argument("--jobs", type=int, help="how many at once (all cores)")
    parser.add_argument("--finals", action="store_true", help="only the second round")
    args = parser.parse_args(argv)
    if not args.finals:
        retune(names=args.names, jobs=args.jobs)
    finals(names=args.names, jobs=args.jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
