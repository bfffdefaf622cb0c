"""The distribution of regret, and coverage, over very many trials: ``heavytail coverage``.

Environments are drawn by counters, so that a trial is the same on a CPU and a GPU. What a run with
``--record`` found is kept in ``recorded/spread.json``, and every report shows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail.experiments import plots
from heavytail.experiments.experiment import Section, Table
from heavytail.experiments.machine import machine, provenance
from heavytail.experiments.store import Store, complete, write_text
from heavytail.experiments.tune import Tuned
from heavytail.experiments.unit import Key, Outcome, Unit
from heavytail.policies import PackedPolicy
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import RECORDED, TUNED, entries
from heavytail.reproduction.tuning import check_fresh, stamp
from heavytail.simulation.distribution import least_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RECORD", "SETTINGS", "measure", "read_record", "section", "tables", "write_record"]

RECORD = RECORDED / "spread.json"
SETTINGS = ("student", "gaussian", "pareto", "scale-2")  # as many as a figure has columns
POLICIES = ("HvtUCB", "OFUL", "CRTM", "CRMM", "TwinUCB")  # those of one pass, and ours
LEVELS = (*(1e-4, 1e-3), *(k / 100 for k in range(1, 100)), *(0.995, 0.999, 0.9995, 0.9999))
SHOWN = (0.01, 0.5, 0.9, 0.99, 0.999)
OURS = ("Hvt-UCB", "Twin-UCB")  # drawn untuned too
APART = 29  # seeds of their own


def measure(
    names: Sequence[str] = SETTINGS,
    *,
    trials: int = 1000,
    rounds: int | None = None,
    seed: int,
    engine: str = "compiled",
    jobs: int | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Mean, quantiles and coverage of every policy and variant in every setting, as numbers."""
    plan: dict[Key, Unit] = {}
    tuned = Tuned.read(TUNED)
    check_fresh(tuned, map(setting, names), POLICIES)
    for name in names:
        world = setting(name)
        T = rounds or world.rounds
        for (policy, variant), (_, made) in entries(world, POLICIES, T, tuned).items():
            if variant == "theory" and policy != "Hvt-UCB":
                continue
            assert isinstance(made, PackedPolicy)
            arguments = {
                "policy": made,
                "environment": world.environment,
                "rounds": T,
                "seed": world.seed(seed + APART),
                "trials": trials,
                "cover": made.algorithm.rank_one,
                "engine": engine,
                "jobs": jobs,
            }
            call = "heavytail.simulation.trials:distribution_block"
            plan[name, policy, variant] = Unit(call, arguments, weight=trials, runs="alone")
    done = complete(plan.values(), Store(), title="trials", progress=progress)
    runs = [
        {
            **_row(key, unit, done[unit.key]),
            "source": stamp(unit.arguments["policy"], setting(key[0])),
        }
        for key, unit in plan.items()
    ]
    return {"runs": runs, "provenance": {**provenance(seed=seed), "machine": machine(engine)}}


def _row(key: Key, unit: Unit, outcome: Outcome) -> dict[str, Any]:
    """One run as it is recorded."""
    regret = outcome["regret"][:, -1]
    error = regret.std(ddof=1) / np.sqrt(len(regret))
    out = {
        "world": key[0],
        "policy": key[1],
        "variant": key[2],
        "built": repr(unit.arguments["policy"]),
        "trials": unit.arguments["trials"],
        "rounds": unit.arguments["rounds"],
        "seconds": round(float(outcome["seconds"][0]), 2),
        "mean": float(regret.mean()),
        "error": float(error),
        "quantiles": [float(f"{q:.6g}") for q in np.quantile(regret, LEVELS)],
    }
    if "worst" in outcome:
        out["covered"] = int(np.sum(outcome["worst"] <= 1.0))
        out["worst"] = float(outcome["worst"].max())
    return out


def read_record(path: Path = RECORD) -> dict[str, Any] | None:
    """Read the last results of ``heavytail coverage --record``, if there are any."""
    return json.loads(path.read_text()) if path.exists() else None


def write_record(record: dict[str, Any], path: Path = RECORD) -> None:
    """Write the record, whole or not at all; one run per line."""
    runs = ",\n".join(json.dumps(run) for run in record["runs"])
    made = json.dumps(record["provenance"], indent=1)
    write_text(path, f'{{"provenance": {made},\n"runs": [\n{runs}\n]}}\n')


def outdated(run: dict[str, Any], tuned: Tuned) -> bool:
    """Tell whether the policy would be built otherwise now, or its code has changed since."""
    world = setting(run["world"])
    for (policy, variant), (_, made) in entries(world, POLICIES, run["rounds"], tuned).items():
        if (policy, variant) == (run["policy"], run["variant"]):
            return (run["built"], run.get("source")) != (repr(made), stamp(made, world))
    return True


def section(record: dict[str, Any]) -> Section:
    """The tables, and the distribution of regret as a figure for each setting.

    What was recorded with other code or multipliers is marked in the tables and not drawn.
    """
    tuned = Tuned.read(TUNED)
    runs = [{**run, "old": outdated(run, tuned)} for run in record["runs"]]
    record, made = {**record, "runs": runs}, record["provenance"]
    out = Section("spread", "The distribution of regret", tables=tables(record))
    out.text.append(
        f"{runs[0]['trials']:,} trials of {runs[0]['rounds']:,} rounds each, by "
        f"`{made['command']}` at {made['commit']} on {made['date']}, {made['machine']}; "
        "recorded then, not measured anew by each reproduction. A trial counts as covered when "
        "theta* lay in the confidence set after every round; only theory and sharp promise that. "
        "HEAVY-OFUL, which keeps its history, is left out."
    )
    old = sum(run["old"] for run in runs)
    if old:
        out.text.append(
            f"† marks {old} of {len(runs)} rows: of code or multipliers that have changed "
            "since, so they say nothing of this version, and are not drawn. The command above "
            "records them anew."
        )
    runs = [run for run in runs if not run["old"]]
    for name in dict.fromkeys(run["world"] for run in runs):
        key = f"spread-{name}"
        out.figures[key] = figure(name, [run for run in runs if run["world"] == name])
        out.captions[key] = "How often regret exceeds a value."
    return out


def tables(record: dict[str, Any]) -> list[Table]:
    """Quantiles of regret, and coverage."""
    runs = record["runs"]
    heads = [f"{100 * q:g} %" for q in SHOWN]
    places = [LEVELS.index(q) for q in SHOWN]
    spreads = [
        (
            run["world"],
            _label(run),
            f"{run['mean']:,.1f} ± {run['error']:.2g}",
            *(f"{run['quantiles'][k]:,.0f}" for k in places),
            f"{run['seconds']:.1f}",
        )
        for run in runs
    ]
    covers = [
        (
            run["world"],
            _label(run),
            f"{run['covered']:,} of {run['trials']:,}",
            f"{least_share(run['covered'], run['trials']):.6f}",
            f"{run['worst']:.3g}",
        )
        for run in runs
        if "covered" in run
    ]
    which = ("world", "policy")
    counted = ("covered in every round", "share at least (99 %)", "largest distance, in radii")
    return [
        Table("Quantiles of regret", (*which, "mean regret", *heads, "seconds"), spreads),
        Table("Coverage", (*which, *counted), covers),
    ]


def _label(run: dict[str, Any]) -> str:
    return plots.label((run["policy"], run["variant"])) + (" †" if run.get("old") else "")


def figure(name: str, runs: list[dict[str, Any]]) -> Figure:
    """The share of trials whose regret exceeds a value, by that value."""
    out, (axis,) = plots.new_figure(height=3.9)  # room for the legend
    above = 1.0 - np.array(LEVELS)
    for run in runs:
        if run["variant"] == "theory":
            continue
        if run["variant"] == "untuned" and run["policy"] not in OURS:
            continue
        look = plots.look((run["policy"], run["variant"]))
        axis.plot(run["quantiles"], above, **look, markevery=12)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel=f"regret after {runs[0]['rounds']:,} rounds",
        ylabel="share of trials above",
        title=setting(name).title,
    )
    axis.set_ylim(max(1e-4, 1.0 / runs[0]["trials"]), 1.2)
    out.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    return out
