"""What a round costs, and how that grows with t: the paper's Table 1, measured one at a time."""

from __future__ import annotations

import functools
import inspect
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from heavytail._typing import FloatArray
from heavytail.experiments import plots
from heavytail.experiments.catalogue import setting
from heavytail.experiments.machine import machine, provenance
from heavytail.experiments.protocol import build, options_of, read_tuned
from heavytail.experiments.registry import Section, Settings, Table
from heavytail.experiments.stats import loglog_slope
from heavytail.experiments.store import write_text
from heavytail.experiments.units import source_digest
from heavytail.policies import Policy
from heavytail.policies.build import find
from heavytail.simulation.engines import episode
from heavytail.simulation.progress import Progress
from heavytail.simulation.trials import trial_seed

__all__ = ["SPEEDUP", "Cost", "cost", "read_speedup", "speedup"]

SPEEDUP = Path(__file__).with_name("speedup.json")
SOLVERS = ("gd", "lbfgs", "newton", "lazy")  # of HEAVY-OFUL, slowest first
TOLERANCE = 1e-6  # of theta, for gd and lbfgs: a finer one only makes them slower
_WORLD = setting("student")
_FLAT = tuple(2**k for k in range(11, 18))  # rounds, for policies whose round stays as it is
_GROWING = tuple(2**k for k in range(8, 13))  # for those whose round grows
_REPEATS = 5


@dataclass(frozen=True)
class Cost:
    """Seconds a round at T = 18,000 (None where it was not run so far), and the growth in t."""

    policy: str
    claimed: str
    seconds: float | None
    time_slope: float
    bytes_slope: float
    last_bytes: int
    rounds: FloatArray
    times: FloatArray


def _built(name: str, settings: Settings, horizon: int, **more: Any) -> Policy:
    """Tuned where multipliers are recorded, as in the figures; else as the library builds it."""
    tuned = read_tuned(settings.tuned).get("settings", {}).get(_WORLD.name, {})
    if name in tuned:
        options = {**options_of(name, "tuned"), **tuned[name]["options"], **more}
    else:
        options = {**options_of(name, "untuned"), **more}
    return build(name, _WORLD, horizon, **options)


def _seconds(policy: Policy, rounds: int, seed: int, repeats: int = _REPEATS) -> float:
    """Processor seconds of one trial without the world's own, the least of some runs."""
    runs = [_processor_seconds(policy, rounds, seed) for _ in range(repeats)]
    return max(min(runs) - _world_seconds(rounds, seed), 1e-9)


def _processor_seconds(policy: Policy, rounds: int, seed: int) -> float:
    """Processor time of one trial: other work on the machine does not lengthen it."""
    twin = policy.clone()
    start = time.thread_time()
    episode(twin, _WORLD.environment, trial_seed(seed, 0), rounds, "compiled")
    return time.thread_time() - start


@functools.cache
def _world_seconds(rounds: int, seed: int) -> float:
    """Processor seconds of dealing the rounds alone."""
    found = []
    for _ in range(_REPEATS):
        start = time.thread_time()
        for _ in _WORLD.environment.blocks(trial_seed(seed, 0), rounds):
            pass
        found.append(time.thread_time() - start)
    return min(found)


def _words(cost: str) -> str:
    """ "O(K t log T)" as " K t log T ", to look for t in."""
    return f" {cost.removeprefix('O(').removesuffix(')')} "


def _measure(name: str, label: str, settings: Settings, **more: Any) -> Cost:
    """Time by differences of episodes that begin alike; bytes of the state beside it."""
    info = find(name).info
    grows = more.get("solver") == "newton" or (" t " in _words(info.cost) and "solver" not in more)
    points = _GROWING if grows else _FLAT
    if settings.quick:
        points = points[:4]
    seed = _WORLD.seed(settings.seed)
    _seconds(_built(name, settings, points[-1], **more), points[0], seed, 1)  # compile
    totals, sizes = [], []
    for rounds in points:
        policy = _built(name, settings, points[-1], **more)
        totals.append(_seconds(policy, rounds, seed))
        episode(policy, _WORLD.environment, trial_seed(seed, 0), rounds, "compiled")
        sizes.append(policy.state_bytes)
    times = np.maximum(np.diff(totals), 1e-12) / np.diff(points)
    middle = np.sqrt(np.array(points[1:], float) * np.array(points[:-1], float))
    whole = None
    if not grows:
        T = settings.rounds or 18_000
        whole = _seconds(_built(name, settings, T, **more), T, seed) / T
    return Cost(
        policy=label,
        claimed=info.cost if "solver" not in more else f"{info.cost}, solver {more['solver']}",
        seconds=whole,
        time_slope=loglog_slope(middle, times),
        bytes_slope=loglog_slope(np.array(points, float), np.array(sizes, float)),
        last_bytes=sizes[-1],
        rounds=middle,
        times=times,
    )


def cost(settings: Settings, progress: Progress) -> Section:
    """Time a round and state by t, for every policy, on the Student t setting; one at a time."""
    found = []
    for name in settings.policies:
        solvers: tuple[str | None, ...] = (None,)
        if "solver" in inspect.signature(find(name)).parameters:
            solvers = ("newton", "lazy")
        for solver in solvers:
            more = {} if solver is None else {"solver": solver}
            label = find(name).name + ("" if solver is None else f" ({solver})")
            found.append(_measure(name, label, settings, **more))
            progress.advance()
    section = Section("cost", "What a round costs")
    section.text.append(
        "One trial of the Student t setting, compiled engine, processor time, the least of "
        f"{_REPEATS} runs, on {machine()}. The slope is that of log time a round against log t: "
        "0 is O(1), 1 is O(t). HEAVY-OFUL is shown by its solver: its paper's cost is that of a "
        "fit to all data in every round (newton); the lazy exact solver does the same in less."
    )
    rows = [
        (
            one.policy,
            one.claimed,
            "-" if one.seconds is None else f"{1e6 * one.seconds:.2f}",
            f"{one.time_slope:.2f}",
            f"{one.bytes_slope:.2f}",
            f"{one.last_bytes:,}",
        )
        for one in found
    ]
    columns = ("policy", "stated", "us a round, T = 18,000", "slope of time", "slope of state")
    section.tables.append(Table("Cost", (*columns, "bytes of state at the end"), rows))
    section.figures["cost"] = _figure(found)
    section.captions["cost"] = "Time a round by t."
    section.data["costs"] = {one.policy: one for one in found}
    return section


def _figure(found: list[Cost]) -> Any:
    figure, (axis,) = plots.new_figure()
    for one in found:
        base = one.policy.split(" (")[0]
        line = ":" if one.policy.endswith("(lazy)") else "-"
        axis.plot(
            one.rounds,
            1e6 * one.times,
            line,
            color=plots.colour(base),
            marker="o",
            ms=3,
            label=one.policy,
        )
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="t",
        ylabel="time a round, microseconds",
        title="Student t",
    )
    axis.legend(fontsize=7)
    return figure


def speedup(settings: Settings, progress: Progress) -> Section:
    """Hvt-UCB against every solver of HEAVY-OFUL, one whole episode each; recorded as it goes.

    Cold gradient descent takes long. What is measured is written at once, so it may be stopped,
    and what stands in the record with the same source is not run again.
    """
    T = settings.rounds or _WORLD.rounds
    seed = _WORLD.seed(settings.seed)
    path = SPEEDUP if settings.rounds is None else settings.out / "speedup.json"
    record = read_speedup(path)
    one_pass = min(_processor_seconds(_built("HvtUCB", settings, T), T, seed) for _ in range(5))
    wanted = [
        solver
        for solver in reversed(SOLVERS)  # the quick ones first
        if record.get(solver, {}).get("source") != source_digest()
    ]
    # In a worker: there BLAS keeps to one thread, and does not wait for a second core.
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        run = joblib.Parallel(n_jobs=2, return_as="generator")
        for solver, found in zip(
            wanted, run(joblib.delayed(_solve)(s, settings, T, seed) for s in wanted), strict=True
        ):
            record[solver] = {
                **found,
                "hvt_ucb_seconds": one_pass,
                "ratio": found["seconds"] / one_pass,
                "rounds": T,
                "source": source_digest(),
                "provenance": provenance(),
            }
            write_text(path, json.dumps(record, indent=1) + "\n")
            progress.advance()
    return speedup_section(record)


def _solve(solver: str, settings: Settings, T: int, seed: int) -> dict[str, Any]:
    """One whole episode of HEAVY-OFUL by one solver."""
    policy = _built("HeavyOFUL", settings, T, solver=solver, tolerance=TOLERANCE)
    _processor_seconds(policy, 50, seed)  # compile
    start = time.perf_counter()
    spent = _processor_seconds(policy, T, seed)
    wall = time.perf_counter() - start
    return {"seconds": spent, "wall_seconds": wall, "policy": repr(policy)}


def read_speedup(path: Path = SPEEDUP) -> dict[str, Any]:
    """What ``heavytail reproduce speedup`` has recorded, by solver."""
    return json.loads(path.read_text()) if path.exists() else {}


def speedup_section(record: dict[str, Any]) -> Section:
    """The recorded runs as a table."""
    section = Section("speedup", "Hvt-UCB against HEAVY-OFUL, by solver")
    section.text.append(
        "Whole episodes of the Student t setting, one trial, tuned as in the figure: processor "
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
                f"{made['date']}, {made['machine']}",
            )
        )
    columns = ("solver", "T", "HEAVY-OFUL, s", "Hvt-UCB, s", "ratio", "when and where")
    section.tables.append(Table("Speed-up", columns, rows))
    section.data["speedup"] = record
    return section
