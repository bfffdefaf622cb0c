"""``python -m heavytail.mdp.tuning``: the multipliers of ``heavytail reproduce mdp``, chosen anew.

One grid for all agents; worlds and noise that the report never sees; the whole outcome is kept in
``tuned.json`` beside this file.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytail.experiments.catalogue import SEED
from heavytail.experiments.machine import provenance
from heavytail.experiments.store import Store, complete
from heavytail.mdp.experiments import AGENTS, NOISES, TUNED, AgentUnit, applies, unit
from heavytail.simulation.progress import progress_bar

__all__ = ["grid_of", "main", "retune"]

GRID: dict[str, tuple[float, ...]] = {
    "reward_bonus": (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0),
    "value_bonus": (0.01, 0.03, 0.1),
    "threshold_scale": (0.1, 1.0),
}
TUNING_EPISODES = 1000
TUNING_TRIALS = 4
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
    store: Path | None = None,
) -> None:
    """Run every agent (or ``names``) at every point under every noise; write the best, and all."""
    plan: dict[tuple[str, str], list[tuple[dict[str, float], list[AgentUnit]]]] = {}
    for noise in NOISES:
        for name in names or AGENTS:
            if not applies(name, noise) or len(grid_of(name)) == 1:
                continue
            plan[noise, name] = [
                (
                    point,
                    [unit(name, noise, episodes, SEED + APART, t, point) for t in range(trials)],
                )
                for point in grid_of(name)
            ]
    work = [one for points in plan.values() for _, units in points for one in units]
    with tempfile.TemporaryDirectory() as temporary:
        kept = Store(store or temporary)
        with progress_bar(show, "tuning", sum(one.weight for one in work)) as bar:
            done = complete(kept, work, bar, jobs=jobs)
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"noises": {}}
    for (noise, name), points in plan.items():
        rows = [
            {**point, "regret": round(float(np.mean([done[u.key]["regret"][-1] for u in us])), 1)}
            for point, us in points
        ]
        best = min(rows, key=lambda row: row["regret"])
        options = {key: value for key, value in best.items() if key != "regret"}
        record["noises"].setdefault(noise, {})[name] = {"options": options, "grid": rows}
    record["provenance"] = provenance(
        command="python -m heavytail.mdp.tuning",
        episodes=episodes,
        trials=trials,
        seed=SEED + APART,
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
            options = json.dumps(found["options"])
            parts.append(f'  "{name}": {{"options": {options}, "grid": [\n   {grid}]}}')
        noises.append(f' "{noise}": {{\n' + ",\n".join(parts) + "}")
    return "\n".join([*lines, ",\n".join(noises), "}}"]) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Tune and write."""
    parser = argparse.ArgumentParser(prog="python -m heavytail.mdp.tuning", description=__doc__)
    parser.add_argument("names", nargs="*", help="agents by name; all unless given")
    parser.add_argument("--jobs", type=int, help="how many at once (all cores)")
    parser.add_argument("--store", type=Path, help="keep finished trials here, to go on later")
    args = parser.parse_args(argv)
    retune(names=args.names, jobs=args.jobs, store=args.store)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
