"""The change that a wider grid of multipliers would make in the reproduction.

    python -m benchmarks.wider_grid [SETTING ...]

Hvt-UCB and HEAVY-OFUL, as in their papers, are tuned once more on whole decades that go two further
down than the recorded grid, with the recorded pair among them, on the tuning seeds. What is chosen
there runs on the reported seeds beside the recorded pair: regret of the wider choice over the
recorded one's, and Hvt-UCB's over HEAVY-OFUL's with either, paired, with 95 % intervals over the
trials (the choice itself is not resampled). An asterisk: still at the edge of the wider grid.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from heavytail._typing import FloatArray
from heavytail.experiments.experiment import Request
from heavytail.experiments.machine import provenance
from heavytail.experiments.setting import Setting, build, trial_units
from heavytail.experiments.stats import ratio
from heavytail.experiments.store import Store, complete
from heavytail.experiments.tune import Point, Tuned, best, search
from heavytail.experiments.unit import Unit, join
from heavytail.reproduction.catalogue import SEED, setting
from heavytail.reproduction.protocol import TUNED, options_of
from heavytail.reproduction.tuning import tuning_units

RADII = tuple(10.0**k for k in range(-6, -2))
THRESHOLDS = tuple(10.0**k for k in range(-4, -1))
SETTINGS = ("student", "gaussian", "pareto", "scale-2", "arms-30")
POLICIES = ("HvtUCB", "HeavyOFUL")
SCREENED, REPORTED = 10, 40  # trials of each point, and of what was chosen


def final(world: Setting, name: str, point: Point) -> FloatArray:
    """Regret at the end of each reported trial."""
    policy = build(name, world, world.rounds, **options_of(name, "tuned"), **point)
    units = trial_units(world, policy, world.rounds, REPORTED, SEED)
    return join(units, complete(units, Store())).final


def shown(point: Point) -> str:
    """A pair in words, with an asterisk where the wider grid ends."""
    edges = {"radius_scale": RADII[0], "threshold_scale": THRESHOLDS[0]}
    return ", ".join(f"{value:.2g}" + "*" * (value == edges[key]) for key, value in point.items())


def main() -> None:
    """Print one row per setting and policy, and one with the ratio of the two."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("settings", nargs="*", default=SETTINGS)
    request = Request(Path(), seed=SEED)
    recorded = Tuned.read(TUNED)
    for world in map(setting, parser.parse_args().settings):
        regret: dict[str, list[FloatArray]] = {}
        for name in POLICIES:
            before = recorded.options(world.tuned_as, name) or {}
            points = [{"radius_scale": r, "threshold_scale": c} for r in RADII for c in THRESHOLDS]
            grid = {world.name: [before, *points]}

            def units_of(_: str, point: Point, one=world, name=name) -> list[Unit]:
                return tuning_units(request, one, name, point, SCREENED)

            means = search(grid, units_of, lambda units: complete(units, Store()))[world.name]
            wider = best(grid[world.name], means)
            regret[name] = [final(world, name, point) for point in (before, wider)]
            old, new = regret[name]
            print(
                f"| {world.name} | {name} | {shown(before)} | {old.mean():,.0f} | {shown(wider)} "
                f"| {new.mean():,.0f} | {ratio(new, old):.2f} |",
                flush=True,
            )
        mine, other = (regret[name] for name in POLICIES)
        was, now = (ratio(a, b) for a, b in zip(mine, other, strict=True))
        print(f"| {world.name} | HvtUCB / HeavyOFUL | | {was:.2f} | | {now:.2f} | |", flush=True)
    made = provenance()
    print(
        f"`python -m benchmarks.wider_grid` at {made['commit']}, {made['date']}, {made['machine']}"
    )


if __name__ == "__main__":
    main()
