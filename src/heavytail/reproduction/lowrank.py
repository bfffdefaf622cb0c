"""``heavytail reproduce lowrank``: bandits of low-rank matrices, beside policies of plain features.

Regret of all three low-rank policies in one world with two kinds of noise, and of Hvt-LowRank
against the rank, the number of features and the tail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail.environments import LowRankBandit
from heavytail.environments.noise import Gaussian, Noise, StudentT
from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.setting import block_units
from heavytail.experiments.stats import ratio
from heavytail.experiments.unit import Key, Trials
from heavytail.policies import LOTUS, OFUL, HvtLowRank, HvtUCB, LowESTR, Policy, TwinUCB
from heavytail.policies.build import find
from heavytail.reproduction.protocol import own_names, own_policies
from heavytail.simulation.results import checkpoints
from heavytail.tails import MomentBound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LOWRANK"]

Found = Mapping[Key, Trials]  # by (world, policy, variant)

ARMS, ROUNDS, SWEPT = 20, 50_000, 20_000
TRIALS: Final = 20
SWEPT_TRIALS: Final = 10
APART: Final = 41  # seeds of their own
RECORD: Final = 60
PLAIN: Final = ("Hvt-UCB", "Twin-UCB", "OFUL")  # of vec(X), d1 d2 features
SWEEPS: Final = {
    "rank": ("d = 10, rank 1", "d = 10, rank 2", "d = 10, rank 4"),
    "features d = d1 = d2": ("d = 5, rank 2", "d = 10, rank 2", "d = 14, rank 2"),
    "degrees of freedom of t": ("t(1.4)", "t(1.7)", "t(2.5)", "normal"),
}


def _noise(name: str) -> tuple[Noise, MomentBound]:
    """A law by its name, and the moment bound that policies are told."""
    if name == "normal":
        return Gaussian(), MomentBound(order=2.0, scale=1.0)
    law = StudentT(float(name[2:-1]))
    return law, law.tail(min(0.95 * law.df, 2.0))


def _worlds() -> dict[str, tuple[int, int, str]]:
    """d, rank and noise by name: two in which all policies meet, and those of the sweeps."""
    shapes = {(10, 1), (10, 2), (10, 4), (5, 2), (14, 2)}
    tails = [name for name in SWEEPS["degrees of freedom of t"] if name != "t(1.7)"]
    return {
        "all, normal": (10, 2, "normal"),
        "all, t(1.7)": (10, 2, "t(1.7)"),
        **{f"d = {d}, rank {r}": (d, r, "t(1.7)") for d, r in sorted(shapes)},
        **{name: (10, 2, name) for name in tails},
    }


def _world(name: str, form: str) -> LowRankBandit:
    d, rank, law = _worlds()[name]
    return LowRankBandit(d, d, rank, ARMS, _noise(law)[0], form=form)


def _policies(name: str, rounds: int, request: Request) -> dict[Key, Policy]:
    """By (policy, variant), told the truth where they ask for it; the user's own learn all
    entries.
    """
    d, rank, law = _worlds()[name]
    tail, S = _noise(law)[1], float(d)
    policies: dict[Key, Policy] = {
        ("Hvt-LowRank", "untuned"): HvtLowRank(d, d, rank=rank, form="pairs"),
        ("Hvt-UCB", "untuned"): HvtUCB(d * d),
        ("Twin-UCB", "untuned"): TwinUCB(d * d),
        ("OFUL", "untuned"): OFUL(d * d, noise_scale=tail.scale, theta_bound=S),
    }
    if name.startswith("all"):
        options: dict[str, Any] = {"rank": rank, "form": "pairs", "theta_bound": S}
        policies["LowESTR", "untuned"] = LowESTR(
            d, d, horizon=rounds, noise_scale=tail.scale, **options
        )
        policies["LOTUS", "untuned"] = LOTUS(d, d, tail=tail, **options)
        policies["Hvt-LowRank", "rank found"] = HvtLowRank(d, d, form="pairs")
        policies["LOTUS", "rank found"] = LOTUS(d, d, tail=tail, **{**options, "rank": None})
    return policies | own_policies(request, dim=d * d, horizon=rounds, arms=ARMS, tail=tail)


def _size(request: Request, name: str) -> tuple[int, int]:
    """Rounds and trials."""
    if request.quick:
        return request.rounds or 1_000, request.trials
    if name.startswith("all"):
        return request.rounds or ROUNDS, max(request.trials, TRIALS)
    return request.rounds or SWEPT, SWEPT_TRIALS


def _plan(request: Request) -> Plan:
    plan: Plan = {}
    for place, name in enumerate(_worlds()):
        rounds, trials = _size(request, name)
        marks = tuple(int(t) for t in checkpoints(rounds, RECORD))
        own = [find(path).name for path in own_names(request)]
        for key, policy in _policies(name, rounds, request).items():
            world = _world(name, "matrices" if key[0] in (*PLAIN, *own) else "pairs")
            plan[name, *key] = block_units(
                policy, world, rounds, request.seed + APART + place, trials, marks, weight=4, size=2
            )
    return plan


def _show(request: Request, found: Found) -> Section:
    rounds, trials = _size(request, "all, normal")
    swept, fewer = _size(request, "normal")
    section = Section("lowrank", "Bandits of low-rank matrices")
    section.text = [
        f"Pairs of a user and an item, {ARMS} items, ‖Theta‖ = d, so that rewards are of size one. "
        f"First d = 10 features each, rank 2, T = {rounds:,}, {trials} trials; in the sweeps "
        f"T = {swept:,} and {fewer} trials. Hvt-UCB, Twin-UCB and OFUL learn all d1 d2 entries. "
        "Nothing is tuned to these worlds; Hvt-LowRank is told the rank alone, or finds it, "
        "Hvt-UCB and Twin-UCB are told nothing, LowESTR, LOTUS and OFUL the moment of the noise "
        "and ‖Theta‖ too.",
    ]
    section.data = dict(found)
    section.tables = [_main_table(found), _sweep_table(found), _time_table(found)]
    panels = {}
    for name in ("all, normal", "all, t(1.7)"):
        mine: Found = {key[1:]: run for key, run in found.items() if key[0] == name}
        panels[name.removeprefix("all, ")] = (mine, list(mine))
    section.figures = {"lowrank": plots.regret_panels(panels), "lowrank_sweeps": _sweeps(found)}
    section.captions = {
        "lowrank": "Mean cumulative regret, d = 10, rank 2.",
        "lowrank_sweeps": f"Mean regret after {swept:,} rounds; bars reach from the least to the "
        "largest of the trials.",
    }
    return section


def _runs(found: Found, name: str) -> dict[Key, Trials]:
    return {key[1:]: trials for key, trials in found.items() if key[0] == name}


def _cell(one: Trials) -> str:
    return f"{one.final.mean():,.0f} ({np.median(one.final):,.0f}, {one.final.max():,.0f})"


def _main_table(found: Found) -> Table:
    rows = []
    for name in ("all, normal", "all, t(1.7)"):
        mine = _runs(found, name)
        plain = mine["Hvt-UCB", "untuned"].sample
        for key, one in mine.items():
            over = f"{ratio(one.sample, plain):.2f}"
            rows.append((name.removeprefix("all, "), plots.label(key), _cell(one), over))
    columns = ("noise", "policy", "mean (median, worst)", "over Hvt-UCB's, 95 % interval")
    return Table("Regret, d = 10, rank 2", columns, rows)


def _sweep_table(found: Found) -> Table:
    rows = []
    for name in _worlds():
        if not name.startswith("all"):
            mine = _runs(found, name)
            low, plain = mine["Hvt-LowRank", "untuned"], mine["Hvt-UCB", "untuned"]
            cells = (_cell(trials) for trials in mine.values())
            rows.append((name, *cells, f"{ratio(low.sample, plain.sample):.2f}"))
    columns = ("world", *(key[0] for key in mine), "Hvt-LowRank over Hvt-UCB")
    note = "d = 10 and rank 2 where only the noise is named, t(1.7) where it is not."
    return Table("Regret: mean (median, worst)", columns, rows, note=note)


def _time_table(found: Found) -> Table:
    rows = []
    for key, trials in _runs(found, "all, normal").items():
        micro = 1e6 * np.median(trials["seconds"]) / trials.arguments["rounds"]
        rows.append((plots.label(key), f"{micro:.2g}"))
    note = "Where several trials run at once, only their ratio says something."
    return Table("Microseconds per round, fits included", ("policy", "median"), rows, note=note)


def _sweeps(found: Found) -> Figure:
    figure, axes = plots.new_figure(3, share=True)
    for axis, (title, names) in zip(axes, SWEEPS.items(), strict=True):
        ticks = [name.rpartition(" ")[2] if "rank" in name else name for name in names]
        if title.startswith("features"):
            ticks = [name.split()[2].rstrip(",") for name in names]
        worlds = ["d = 10, rank 2" if name == "t(1.7)" else name for name in names]
        for shift, (policy, _) in enumerate(_runs(found, worlds[0])):
            trials = [_runs(found, name)[policy, "untuned"].final for name in worlds]
            means = np.array([final.mean() for final in trials])
            reach = [
                means - [final.min() for final in trials],
                [final.max() for final in trials] - means,
            ]
            look = plots.look((policy, "untuned"))
            axis.errorbar(np.arange(len(names)) + 0.06 * (shift - 1), means, reach, **look)
        axis.set_xticks(range(len(names)), ticks)
        axis.set(yscale="log", xlabel=title)
    axes[0].set_ylabel("regret")
    lines = axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


LOWRANK = Experiment(
    "lowrank",
    "Bandits of low-rank matrices; takes half an hour on two cores, runs only by name",
    _plan,
    _show,
    by_name_only=True,
)
