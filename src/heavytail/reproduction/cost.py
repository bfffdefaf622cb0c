"""The cost of a round, and its growth with t: the paper's Table 1, measured one at a time."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "COST",
    "IN_TURNS",
    "NOISES",
    "SOLVERS",
    "SPEEDUP",
    "Cost",
    "read_speedup",
    "record_speedup",
    "speedup_section",
]

RECORD = RECORDED / "speedup.json"
SOLVERS = ("gd", "lbfgs", "newton", "lazy")  # of HEAVY-OFUL, slowest first
TABLE = ("MENU", "TOFU")  # of the paper's Table 1, beside its five
TURNS = 15
NOISES = ("student", "gaussian")  # settings in which HEAVY-OFUL is timed beside Hvt-UCB
IN_TURNS = ("newton", "lazy")  # its solvers that take turns with the others; the rest take minutes
RACED = tuple(solver for solver in SOLVERS if solver not in IN_TURNS)
TOLERANCE = 1e-6  # of theta, for gd and lbfgs: a finer one only makes them slower
_SETTING = setting(NOISES[0])
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


def _built(
    name: str, request: Request, horizon: int, noise: str = _SETTING.name, **more: Any
) -> Policy:
    """Tuned where multipliers are recorded, as in the figures; else as the library builds it."""
    chosen = request.tuned.options(noise, name)
    variant = "untuned" if chosen is None else "tuned"
    options = {**options_of(name, variant), **(chosen or {}), **more}
    return build(name, setting(noise), horizon, **options)


def _cases(request: Request) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(policy's name, its label, its solver where it has several); the paper's Table 1 whole."""
    for name in dict.fromkeys((*request.policies, *TABLE)):
        label = find(name).name
        if "solver" in inspect.signature(find(name)).parameters:
            yield from ((name, f"{label} ({s})", {"solver": s}) for s in IN_TURNS)
        else:
            yield name, label, {}


def _grows(name: str, more: Mapping[str, Any]) -> bool:
    """Tell whether a round's cost grows with t; a solver may see to it that it hardly does."""
    return more.get("solver") == "newton" or (not one_pass(name) and "solver" not in more)


def _plan(request: Request) -> Plan:
    """(policy,), and (noise,), all in turns: alone, so that nothing else takes the processor."""
    plan: Plan = {}
    T = request.rounds or _SETTING.rounds
    for name, label, more in _cases(request):
        points = _GROWING if _grows(name, more) else _FLAT
        points = points[:4] if request.quick else points
        policy = _built(name, request, points[-1], **more)
        call = "heavytail.reproduction.timing:round_cost"
        arguments = {**_world(request, _SETTING.name), "policy": policy, "points": points}
        plan[(label,)] = [Unit(call, arguments, weight=50, runs="alone")]
    for noise in NOISES:
        whole = [
            _built(name, request, T, noise, **more) for name, _, more in _whole(request, noise)
        ]
        turns = 3 if request.quick else TURNS
        arguments = {**_world(request, noise), "policies": whole, "rounds": T, "turns": turns}
        call = "heavytail.reproduction.timing:in_turns"
        plan[(noise,)] = [Unit(call, arguments, weight=50, runs="alone")]
    return plan


def _world(request: Request, noise: str) -> dict[str, Any]:
    """The environment and its seed, as a unit takes them."""
    return {"environment": setting(noise).environment, "seed": setting(noise).seed(request.seed)}


def _whole(request: Request, noise: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The cases that are run to T, in the order of their turns: beyond the first noise, those of
    the paper's speed-up alone.
    """
    cases = [case for case in _cases(request) if case[2] or not _grows(case[0], case[2])]
    return [case for case in cases if noise == NOISES[0] or case[2] or case[0] == "HvtUCB"]


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


def _show(request: Request, results: Mapping[Key, Trials]) -> Section:
    """Time per round and state by t, for every policy, on the Student t setting."""
    turns = results[(_SETTING.name,)]
    T = turns.arguments["rounds"]
    seconds = {
        noise: {
            label: results[(noise,)]["seconds"][:, k] / T
            for k, (_, label, _) in enumerate(_whole(request, noise))
        }
        for noise in NOISES
    }
    whole = seconds[_SETTING.name]
    costs = [
        _cost(name, label, more, results[(label,)], whole.get(label))
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
        "fit to all data in every round (newton); the lazy exact solver does the same in less. The "
        "second table is what C2 is judged by, and the one place where their time over Hvt-UCB's "
        "is measured."
    )
    mine = whole.get("Hvt-UCB")
    rows = [
        (
            cost.policy,
            cost.claimed,
            "-" if cost.seconds is None else f"{1e6 * np.median(cost.seconds):.2f}",
            "-"
            if cost.seconds is None or mine is None
            else f"{median_ratio(cost.seconds, mine):.2f}",
            f"{cost.time_slope:.2f}",
            f"{cost.bytes_slope:.2f}",
            f"{cost.last_bytes:,}",
        )
        for cost in costs
    ]
    columns = ("policy", "stated", f"us per round, T = {T:,}", "/ Hvt-UCB's", "slope of time")
    more = ("slope of state", "bytes of state at the end")
    section.tables.append(Table("Cost", (*columns, *more), rows))
    section.tables.append(_speedup_table(seconds))
    section.figures["cost"] = _figure(costs)
    section.captions["cost"] = "Time per round over the first t rounds, by t."
    section.data = {
        **{(cost.policy,): cost for cost in costs},
        **{(noise,): by_policy for noise, by_policy in seconds.items()},
    }
    return section


def _speedup_table(seconds: Mapping[str, Mapping[str, FloatArray]]) -> Table:
    """HEAVY-OFUL's time over Hvt-UCB's, by noise and solver."""
    rows = [
        (noise, label, f"{median_ratio(times, by_policy['Hvt-UCB']):.3g}")
        for noise, by_policy in seconds.items()
        for label, times in by_policy.items()
        if label.startswith("HEAVY-OFUL (")
    ]
    return Table("HEAVY-OFUL in turns with Hvt-UCB", ("noise", "policy", "time / Hvt-UCB's"), rows)


def _figure(costs: list[Cost]) -> Figure:
    figure, (axis,) = plots.new_figure(width=5.6, height=3.8)
    markers = itertools.cycle("os^vDPX*")
    for cost, marker in zip(costs, markers, strict=False):
        base = cost.policy.split(" (")[0]
        look = {"color": plots.colour(base), "marker": marker, "ms": 4, "label": cost.policy}
        axis.plot(cost.rounds, 1e6 * cost.times, ":" if "(lazy)" in cost.policy else "-", **look)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="round, t",
        ylabel="time per round, microseconds",
        title="Student t",
    )
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    return figure


def _race_plan(request: Request) -> Plan:
    """(noise, solver): a whole episode each, in a process of its own; they take long."""
    T = request.rounds or _SETTING.rounds
    plan: Plan = {}
    for noise, (weight, solver) in itertools.product(NOISES, enumerate(reversed(RACED), start=1)):
        policy = _built("HeavyOFUL", request, T, noise, solver=solver, tolerance=TOLERANCE)
        arguments = {
            **_world(request, noise),
            "policy": policy,
            "one_pass": _built("HvtUCB", request, T, noise),
            "rounds": T,
            "machine": machine(),
        }
        call = "heavytail.reproduction.timing:race"
        plan[noise, solver] = [Unit(call, arguments, weight=weight, runs="processes")]
    return plan


def _race_show(request: Request, results: Mapping[Key, Trials]) -> Section:
    """The runs as they would be recorded."""
    made = provenance()
    record: dict[str, Any] = {}
    for (noise, solver), trials in results.items():
        seconds, one_pass = float(trials["seconds"][0]), float(trials["one_pass_seconds"][0])
        record.setdefault(noise, {})[solver] = {
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
    record: dict[str, Any] = {}
    for (noise, solver), run in section.data.items():
        record.setdefault(noise, {})[solver] = run
    places = [request.out / "speedup.json"]
    if request.rounds is None and not request.quick and source_tree() is not None:
        places.append(RECORD)
    for path in places:
        write_text(path, json.dumps(record, indent=1) + "\n")


def read_speedup(path: Path = RECORD) -> dict[str, Any]:
    """Read what ``heavytail reproduce speedup`` has recorded, by noise and solver."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def speedup_section(record: dict[str, Any]) -> Section:
    """The recorded runs as a table."""
    section = Section("speedup", "Hvt-UCB against HEAVY-OFUL by its slow solvers")
    section.text.append(
        "Whole episodes, one trial, both tuned: processor time of every round, measured in full "
        "and recorded by `heavytail reproduce speedup`; not measured anew by each reproduction, "
        "and maybe on another machine than the times above. gd is gradient descent from 0 in every "
        "round, as the paper describes; lbfgs is SciPy's, warm. They come within "
        f"{TOLERANCE:g} of the estimate that newton (warm) and lazy (keeps sums and rechecks only "
        "points near their threshold) find exactly; these two are timed with what a round costs."
    )
    rows = []
    for noise, solver in itertools.product(NOISES, RACED):
        run = record.get(noise, {}).get(solver)
        if run is None:
            rows.append((noise, solver, "not run", "-", "-", "-", "-"))
            continue
        made = run["provenance"]
        rows.append(
            (
                noise,
                solver,
                f"{run['rounds']:,}",
                f"{run['seconds']:.4g}",
                f"{run['hvt_ucb_seconds']:.4g}",
                f"{run['ratio']:.3g}",
                f"{made['date']}, {made['commit']}, {made['machine']}",
            )
        )
    columns = ("noise", "solver", "T", "HEAVY-OFUL, s", "Hvt-UCB, s", "ratio", "when and where")
    section.tables.append(Table("Speed-up", columns, rows))
    section.data = {(n, s): run for n, solvers in record.items() for s, run in solvers.items()}
    return section


COST = Experiment("cost", "What a round costs", _plan, _show)
SPEEDUP = Experiment(
    "speedup",
    "Hvt-UCB against HEAVY-OFUL by its slow solvers; takes long, runs only by name",
    _race_plan,
    _race_show,
    by_name_only=True,
)
