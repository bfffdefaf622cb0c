"""What a round costs, and how that grows with t: the paper's Table 1, measured one at a time."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.machine import machine, provenance, source_tree
from heavytail.experiments.setting import build
from heavytail.experiments.stats import loglog_slope, median_ratio
from heavytail.experiments.store import write_text
from heavytail.experiments.unit import Key, Trials, Unit
from heavytail.policies import Policy
from heavytail.policies.build import find
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import RECORDED, one_pass, options_of
from heavytail.reproduction.timing import REPEATS

__all__ = ["COST", "SPEEDUP", "Cost", "read_speedup", "record_speedup", "speedup_section"]

RECORD = RECORDED / "speedup.json"
SOLVERS = ("gd", "lbfgs", "newton", "lazy")  # of HEAVY-OFUL, slowest first
TABLE = ("MENU", "TOFU")  # of the paper's Table 1, beside its five
TURNS = 15
IN_TURNS = "in turns"
TOLERANCE = 1e-6  # of theta, for gd and lbfgs: a finer one only makes them slower
_SETTING = setting("student")
_FLAT = tuple(2**k for k in range(10, 16))  # rounds, for policies whose round stays as it is
_GROWING = tuple(2**k for k in range(9, 14))  # for those whose round grows


@dataclass(frozen=True)
class Cost:
    """Seconds per round at T = 18,000, by turn (None where it was not run so far), and growth."""

    policy: str
    claimed: str
    seconds: FloatArray | None
    time_slope: float
    bytes_slope: float
    last_bytes: int
    rounds: FloatArray
    times: FloatArray


def _built(name: str, request: Request, horizon: int, **more: Any) -> Policy:
    """Tuned where multipliers are recorded, as in the figures; else as the library builds it."""
    chosen = request.tuned.options(_SETTING.name, name)
    variant = "untuned" if chosen is None else "tuned"
    options = {**options_of(name, variant), **(chosen or {}), **more}
    return build(name, _SETTING, horizon, **options)


def _cases(request: Request) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(policy's name, its label, its solver where it has several); the paper's Table 1 whole."""
    for name in dict.fromkeys((*request.policies, *TABLE)):
        label = find(name).name
        if "solver" in inspect.signature(find(name)).parameters:
            yield from ((name, f"{label} ({s})", {"solver": s}) for s in ("newton", "lazy"))
        else:
            yield name, label, {}


def _grows(name: str, more: Mapping[str, Any]) -> bool:
    """Whether a round's cost grows with t; a solver may see to it that it hardly does."""
    return more.get("solver") == "newton" or (not one_pass(name) and "solver" not in more)


def _plan(request: Request) -> Plan:
    """(policy,), and all in turns: alone, so that nothing else takes the processor."""
    plan: Plan = {}
    T = request.rounds or _SETTING.rounds
    fixed: dict[str, Any] = {
        "environment": _SETTING.environment,
        "seed": _SETTING.seed(request.seed),
    }
    for name, label, more in _cases(request):
        points = _GROWING if _grows(name, more) else _FLAT
        points = points[:4] if request.quick else points
        policy = _built(name, request, points[-1], **more)
        call = "heavytail.reproduction.timing:round_cost"
        arguments = {**fixed, "policy": policy, "points": points}
        plan[(label,)] = [Unit(call, arguments, weight=50, runs="alone")]
    flat = [_built(name, request, T, **more) for name, _, more in _flat(request)]
    turns = 3 if request.quick else TURNS
    arguments = {**fixed, "policies": flat, "rounds": T, "turns": turns}
    call = "heavytail.reproduction.timing:in_turns"
    plan[(IN_TURNS,)] = [Unit(call, arguments, weight=50, runs="alone")]
    return plan


def _flat(request: Request) -> list[tuple[str, str, dict[str, Any]]]:
    """The cases that are run to T, in the order of their turns."""
    return [case for case in _cases(request) if not _grows(case[0], case[2])]


def _cost(
    name: str, label: str, more: Mapping[str, Any], trials: Trials, seconds: FloatArray | None
) -> Cost:
    """Time per round over the first t rounds, by t; bytes of the state beside it."""
    points = np.array(trials.arguments["points"], float)
    times = trials["seconds"] / points  # of whole episodes: differences of them drown in noise
    claimed = find(name).info.cost
    return Cost(
        policy=label,
        claimed=f"{claimed}, solver {more['solver']}" if more else claimed,
        seconds=seconds,
        time_slope=loglog_slope(points, times),
        bytes_slope=loglog_slope(points, trials["bytes"]),
        last_bytes=int(trials["bytes"][-1]),
        rounds=points,
        times=times,
    )


def _show(request: Request, found: Mapping[Key, Trials]) -> Section:
    """Time per round and state by t, for every policy, on the Student t setting."""
    turns = found[(IN_TURNS,)]
    T = turns.arguments["rounds"]
    whole = {label: turns["seconds"][:, k] / T for k, (_, label, _) in enumerate(_flat(request))}
    costs = [
        _cost(name, label, more, found[(label,)], whole.get(label))
        for name, label, more in _cases(request)
    ]
    section = Section("cost", "What a round costs")
    section.text.append(
        "One trial of the Student t setting, compiled engine, processor time, on "
        f"{machine()}: the median of {len(turns['seconds'])} whole episodes, the policies in "
        "turns, as a ratio to Hvt-UCB's with a 95 % bootstrap interval over the turns. Hvt-UCB, "
        "HEAVY-OFUL, OFUL, CRTM and CRMM are tuned, the others untuned; Hvt-UCB's cost does not "
        "hang on its multipliers. The slope, of the least of "
        f"{REPEATS} runs, is that of log time per round, over the first t rounds, against log t: "
        "0 is O(1), 1 is O(t). HEAVY-OFUL is shown by its solver: its paper's cost is that of a "
        "fit to all data in every round (newton); the lazy exact solver does the same in less."
    )
    mine = whole.get("Hvt-UCB")
    rows = [
        (
            one.policy,
            one.claimed,
            "-" if one.seconds is None else f"{1e6 * np.median(one.seconds):.2f}",
            "-"
            if one.seconds is None or mine is None
            else f"{median_ratio(one.seconds, mine):.2f}",
            f"{one.time_slope:.2f}",
            f"{one.bytes_slope:.2f}",
            f"{one.last_bytes:,}",
        )
        for one in costs
    ]
    columns = ("policy", "stated", f"us per round, T = {T:,}", "/ Hvt-UCB's", "slope of time")
    more = ("slope of state", "bytes of state at the end")
    section.tables.append(Table("Cost", (*columns, *more), rows))
    section.figures["cost"] = _figure(costs)
    section.captions["cost"] = "Time per round over the first t rounds, by t."
    section.data = {(one.policy,): one for one in costs}
    return section


def _figure(found: list[Cost]) -> Any:
    figure, (axis,) = plots.new_figure(width=5.6, height=3.8)
    markers = itertools.cycle("os^vDPX*")
    for one, marker in zip(found, markers, strict=False):
        base = one.policy.split(" (")[0]
        told = {"color": plots.colour(base), "marker": marker, "ms": 4, "label": one.policy}
        axis.plot(one.rounds, 1e6 * one.times, ":" if "(lazy)" in one.policy else "-", **told)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="t",
        ylabel="time per round, microseconds",
        title="Student t",
    )
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    return figure


def _race_plan(request: Request) -> Plan:
    """(solver,): a whole episode each, in a process of its own; the slow ones take hours."""
    T = request.rounds or _SETTING.rounds
    plan: Plan = {}
    for weight, solver in enumerate(reversed(SOLVERS), start=1):
        arguments = {
            "policy": _built("HeavyOFUL", request, T, solver=solver, tolerance=TOLERANCE),
            "one_pass": _built("HvtUCB", request, T),
            "environment": _SETTING.environment,
            "seed": _SETTING.seed(request.seed),
            "rounds": T,
            "machine": machine(),
        }
        call = "heavytail.reproduction.timing:race"
        plan[(solver,)] = [Unit(call, arguments, weight=weight, runs="processes")]
    return plan


def _race_show(request: Request, found: Mapping[Key, Trials]) -> Section:
    """The runs as they would be recorded."""
    made = provenance()
    record = {}
    for (solver,), trials in found.items():
        seconds, one_pass = float(trials["seconds"][0]), float(trials["one_pass_seconds"][0])
        record[solver] = {
            "seconds": seconds,
            "wall_seconds": float(trials["wall_seconds"][0]),
            "policy": repr(trials.arguments["policy"]),
            "hvt_ucb_seconds": one_pass,
            "ratio": seconds / one_pass,
            "rounds": trials.arguments["rounds"],
            "provenance": made,
        }
    return speedup_section(record)


def record_speedup(section: Section, request: Request) -> None:
    """Keep the runs in the results, and at full length in the source tree, if there is one."""
    record = {solver: run for (solver,), run in section.data.items()}
    places = [request.out / "speedup.json"]
    if request.rounds is None and not request.quick and source_tree() is not None:
        places.append(RECORD)
    for path in places:
        write_text(path, json.dumps(record, indent=1) + "\n")


def read_speedup(path: Path = RECORD) -> dict[str, Any]:
    """What ``heavytail reproduce speedup`` has recorded, by solver."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def speedup_section(record: dict[str, Any]) -> Section:
    """The recorded runs as a table."""
    section = Section("speedup", "Hvt-UCB against HEAVY-OFUL, by solver")
    section.text.append(
        "Whole episodes of the Student t setting, one trial, both tuned: processor "
        "time of every round, measured in full and recorded by `heavytail reproduce speedup`; not "
        "measured anew by each reproduction. gd is gradient descent from 0 in every round, as the "
        "paper describes; lbfgs is SciPy's, warm; newton is warm; lazy keeps sums and rechecks "
        "only points near their threshold. gd and lbfgs come within "
        f"{TOLERANCE:g} of the estimate that the other two find exactly."
    )
    rows = []
    for solver in SOLVERS:
        if solver not in record:
            rows.append((solver, "not run", "-", "-", "-", "-"))
            continue
        run = record[solver]
        made = run["provenance"]
        rows.append(
            (
                solver,
                f"{run['rounds']:,}",
                f"{run['seconds']:.4g}",
                f"{run['hvt_ucb_seconds']:.4g}",
                f"{run['ratio']:.4g}",
                f"{made['date']}, {made['commit']}, {made['machine']}",
            )
        )
    columns = ("solver", "T", "HEAVY-OFUL, s", "Hvt-UCB, s", "ratio", "when and where")
    section.tables.append(Table("Speed-up", columns, rows))
    section.data = {(solver,): run for solver, run in record.items()}
    return section


COST = Experiment("cost", "What a round costs", _plan, _show)
SPEEDUP = Experiment(
    "speedup",
    "Hvt-UCB against HEAVY-OFUL by every solver; takes long, runs only by name",
    _race_plan,
    _race_show,
    by_name_only=True,
)
