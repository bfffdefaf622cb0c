"""``heavytail reproduce glb``: bandits with a link, for clicks and counts.

Regret and time of every policy with a link, untuned, beside the linear default; GLM-UCB with three
radii, of which the best is the mark; and how often GLB-OMD's confidence set held the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from heavytail.environments import LinkBandit
from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.setting import block_units
from heavytail.experiments.stats import ratio
from heavytail.experiments.unit import Key, Trials, Unit
from heavytail.policies import GLBOMD, GLMUCB, GLOC, OL2M, ECOLog, HvtGLB, Policy, TwinUCB
from heavytail.reproduction.protocol import own_policies
from heavytail.simulation.results import checkpoints

__all__ = ["GLB"]

Found = Mapping[Key, Trials]  # by (world, policy, variant), and by ("coverage", world, "theory")

DIM, ARMS, ROUNDS = 5, 20, 20_000
BOUNDS = (1.0, 3.0, 5.0)
RADII = (1.0, 0.3, 0.1)
TRIALS: Final = 40
COVERED: Final = 2_000
COVERED_ROUNDS: Final = 1_000
BATCH: Final = 100  # trials of coverage per unit
APART: Final = 29  # seeds of their own
RECORD: Final = 60


def _worlds() -> dict[str, LinkBandit]:
    worlds = {
        f"{kind}, S = {bound:g}": LinkBandit(DIM, ARMS, link, theta_bound=bound)
        for kind, link in (("clicks", "logistic"), ("counts", "log"))
        for bound in BOUNDS
    }
    spoilt = LinkBandit(DIM, ARMS, "log", outliers=0.01)
    return {**worlds, "counts, S = 1, 1 % times 1,000": spoilt}


def _policies(world: LinkBandit, request: Request) -> dict[Key, Policy]:
    """By (policy, variant): all that fit the link, told its true S where they ask for it, and the
    user's own, told of rewards as of any others.
    """
    d, link, S = world.dim, world.link.name, world.theta_bound
    policies: dict[Key, Policy] = {
        ("GLB-OMD", "untuned"): GLBOMD(d, link=link),
        ("GLB-OMD", "least squares"): GLBOMD(d, noise_scale=0.5 if link == "logistic" else 1.0),
        ("Twin-UCB", "untuned"): TwinUCB(d),
        ("GLOC", "untuned"): GLOC(d, link=link, theta_bound=S),
        ("OL2M", "untuned"): OL2M(d, link=link, theta_bound=S),
    }
    for scale in RADII:
        policy = GLMUCB(d, link=link, theta_bound=S, radius_scale=scale)
        policies["GLM-UCB", f"radius {scale:g}"] = policy
    if link == "logistic":
        policies["ECOLog", "untuned"] = ECOLog(d, theta_bound=S)
    else:
        policies["Hvt-GLB", "untuned"] = HvtGLB(d, link=link)
        policies["Hvt-GLB", "mean"] = HvtGLB(d, link=link, target="mean")
    rounds = _rounds(request)
    return policies | own_policies(request, dim=d, horizon=rounds, arms=ARMS, tail=world.tail(2.0))


def _rounds(request: Request) -> int:
    return request.rounds or (2_000 if request.quick else ROUNDS)


def _trials(request: Request) -> int:
    return request.trials if request.quick else max(request.trials, TRIALS)


def _plan(request: Request) -> Plan:
    rounds = _rounds(request)
    marks = tuple(int(t) for t in checkpoints(rounds, RECORD))
    plan: Plan = {}
    for place, (name, world) in enumerate(_worlds().items()):
        for key, policy in _policies(world, request).items():
            weight = 40 if key[0] == "GLM-UCB" else 1  # it goes over its history in every round
            seed = request.seed + APART + place
            plan[name, *key] = block_units(
                policy, world, rounds, seed, _trials(request), marks, weight=weight
            )
    return plan | _coverage_plan(request)


def _covered() -> dict[str, LinkBandit]:
    return {
        f"{kind}, d = {dim}, S = {bound:g}": LinkBandit(dim, ARMS, link, theta_bound=bound)
        for kind, link in (("clicks", "logistic"), ("counts", "log"))
        for dim in (2, 5)
        for bound in (1.0, 3.0)
    }


def _coverage_plan(request: Request) -> Plan:
    batches = 1 if request.quick else COVERED // BATCH
    plan: Plan = {}
    for name, world in _covered().items():
        policy = GLBOMD(
            world.dim, link=world.link.name, radius="theory", theta_bound=world.theta_bound
        )
        fixed = {"policy": policy, "environment": world, "rounds": COVERED_ROUNDS}
        plan["coverage", name, "theory"] = [
            Unit(
                "heavytail.simulation.trials:distribution_block",
                {**fixed, "seed": request.seed + APART + k, "trials": BATCH, "cover": True},
                weight=BATCH * COVERED_ROUNDS // 1000,
            )
            for k in range(batches)
        ]
    return plan


def _show(request: Request, found: Found) -> Section:
    section = Section("glb", "Bandits with a link: clicks and counts")
    section.text = [
        f"{DIM} features, {ARMS} arms, T = {_rounds(request):,}, {_trials(request)} trials; theta* "
        "of length S, no intercept in the worlds. Nothing is tuned: GLB-OMD, Hvt-GLB and Twin-UCB "
        "are told nothing, the others S. GLM-UCB keeps its history and is run with three radii; "
        "the best of them, by its mean regret in that very world, is the mark.",
        "Least squares is GLB-OMD with the identity link: ridge regression with an intercept and "
        "OFUL's radius. Hvt-GLB clips counts at a fixed threshold; mean is the same with one that "
        "grows. With 1 count in 100 times 1,000 the standard deviation of a count is ten times its "
        "mean and more: who seeks the mean is in luck or not, and the typical count has the same "
        "best arm.",
    ]
    runs: Found = {key: trials for key, trials in found.items() if key[0] != "coverage"}
    section.data = dict(found)
    section.tables = [_regret_table(runs), _ratio_table(runs), _time_table(runs), _coverage(found)]
    panels = {}
    for name in _worlds():
        mine: Found = {key[1:]: trials for key, trials in runs.items() if key[0] == name}
        drawn = {key: trials for key, trials in mine.items() if key[0] != "GLM-UCB"}
        drawn["GLM-UCB", "best radius"] = mine[_best_radius(mine)]
        panels[name] = (drawn, list(drawn))
    section.figures = {"glb": plots.regret_panels(panels)}
    section.captions = {"glb": "Mean cumulative regret; GLM-UCB with its best radius."}
    return section


def _by_world(
    found: Found, cell: Callable[[Trials], str], runs: list[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """A row per run, a column per world."""
    return [
        (
            plots.label(run),
            *(cell(found[name, *run]) if (name, *run) in found else "-" for name in _worlds()),
        )
        for run in runs
    ]


def _runs(found: Found) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(key[1:] for key in found))


def _regret_table(found: Found) -> Table:
    def cell(one: Trials) -> str:
        return f"{one.final.mean():,.0f} ({np.median(one.final):,.0f}, {one.final.max():,.0f})"

    rows = _by_world(found, cell, _runs(found))
    return Table("Regret: mean (median, worst)", ("policy", *_worlds()), rows)


def _time_table(found: Found) -> Table:
    def cell(one: Trials) -> str:
        return f"{1e6 * np.median(one['seconds']) / one.arguments['rounds']:.2g}"

    note = "Where several trials run at once, only their ratio says something."
    title = "Microseconds per round, the median of the trials"
    return Table(title, ("policy", *_worlds()), _by_world(found, cell, _runs(found)), note=note)


def _ratio_table(found: Found) -> Table:
    """GLB-OMD over the best GLM-UCB and over the linear default; Hvt-GLB over GLB-OMD."""
    rows = []
    for name in _worlds():
        mine = {key[1:]: one for key, one in found.items() if key[0] == name}
        one = mine["GLB-OMD", "untuned"]
        best = _best_radius(mine)
        cells = [f"{ratio(one.sample, mine[best].sample):.2f} ({best[1]})"]
        cells.append(f"{ratio(one.sample, mine['Twin-UCB', 'untuned'].sample):.2f}")
        for variant in ("untuned", "mean"):
            other = mine.get(("Hvt-GLB", variant))
            cells.append("-" if other is None else f"{ratio(other.sample, one.sample):.3g}")
        rows.append((name, *cells))
    columns = (
        "world",
        "GLB-OMD over the best GLM-UCB",
        "GLB-OMD over Twin-UCB",
        "Hvt-GLB over GLB-OMD",
        "Hvt-GLB, mean, over GLB-OMD",
    )
    return Table("Ratios of mean regret, 95 % intervals", columns, rows)


def _best_radius(found: Found) -> Key:
    """GLM-UCB with the radius of least mean regret, by (policy, variant)."""
    runs = [key for key in found if key[0] == "GLM-UCB"]
    return min(runs, key=lambda key: float(found[key].final.mean()))


def _coverage(found: Found) -> Table:
    rows = []
    for key, trials in found.items():
        if key[0] == "coverage":
            worst = trials["worst"]
            held = f"{int((worst <= 1.0).sum()):,} of {len(worst):,}"
            rows.append((key[1], held, f"{worst.max():.3f}"))
    title = f"GLB-OMD by theory, delta = 0.01, {COVERED_ROUNDS:,} rounds: was theta* in the set?"
    columns = ("world", "in every round", "largest distance, in radii")
    return Table(title, columns, rows)


GLB = Experiment(
    "glb",
    "Bandits with a link, for clicks and counts; takes minutes, runs only by name",
    _plan,
    _show,
    by_name_only=True,
)
