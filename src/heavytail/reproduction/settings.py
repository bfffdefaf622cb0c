"""The paper's settings, and ours, as experiments, and what they say together."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heavytail.experiments import plots
from heavytail.experiments.claim import both, up_to
from heavytail.experiments.experiment import Bold, Experiment, Plan, Request, Section, Table
from heavytail.experiments.setting import Setting, page, trial_units
from heavytail.experiments.stats import Interval, ratio
from heavytail.experiments.tune import APART, Point, Tuned
from heavytail.experiments.unit import Key, Trials
from heavytail.policies import Policy
from heavytail.policies.build import find
from heavytail.reproduction.catalogue import OURS, SETTINGS, TEN, setting
from heavytail.reproduction.protocol import entries, rounds_of, trials_of, weight_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Found",
    "chosen_section",
    "figures_section",
    "ours_section",
    "setting_experiment",
    "trials_text",
    "untuned_section",
    "variants_section",
]

HVT, HEAVY, TWIN, UNIFORM = "Hvt-UCB", "HEAVY-OFUL", "Twin-UCB", "Uniform"
_FIGURES = {  # a group of settings and the figure it is in
    "main": "regret-student",
    "true": "regret-student",
    "skewed": "regret-skewed",
    "scale": "regret-scale",
    "arms": "regret-arms",
}
_PAPERS = {  # of a figure, those of the paper
    "regret-student": "the paper's Figures 1 and 2",
    "regret-skewed": "the paper's Figure 3",
    "regret-scale": "the paper's Figure 4",
    "regret-arms": "the paper's Figure 5",
}
BESIDE_HEAVY = 1.1  # untuned Hvt-UCB may cost so much of tuned HEAVY-OFUL
BESIDE_BEST = 1.25  # ... and of the best tuned baseline
_MARK = {True: "met", None: "undecided", False: "missed"}

Found = Mapping[str, Mapping[Key, Trials]]  # by setting, then by (policy, variant)


def setting_experiment(setting: Setting) -> Experiment:
    """Every policy and variant in one setting."""
    return Experiment(
        setting.name,
        setting.title,
        functools.partial(_plan, setting),
        functools.partial(_show, setting),
    )


def _plan(setting: Setting, request: Request) -> Plan:
    rounds = rounds_of(setting, request)
    plan: Plan = {}
    for key, (name, policy) in _entries(setting, request, rounds).items():
        trials = trials_of(name, key[1], request)
        weight = weight_of(name)
        plan[key] = trial_units(setting, policy, rounds, trials, request.seed, weight=weight)
    return plan


def _entries(setting: Setting, request: Request, rounds: int) -> dict[Key, tuple[str, Policy]]:
    """All variants in the paper's settings; in ours no theory, which learns nowhere, but uniform
    play."""
    names = request.policies
    if setting.group != "ours":
        return entries(setting, names, rounds, request.tuned)
    everyone = entries(setting, dict.fromkeys((*names, UNIFORM)), rounds, request.tuned)
    return {key: entry for key, entry in everyone.items() if key[1] != "theory"}


def _show(setting: Setting, request: Request, results: Mapping[Key, Trials]) -> Section:
    """Figure, regret by variant, paired ratios, tuning grids, and how it relates to the paper."""
    results = _with_others(setting, request, results)
    shown = _shown(results)
    section = page(setting, results, shown, reference=HVT)
    if setting.group == "main":
        name = f"{setting.name}-time"
        section.figures[name] = plots.time_figure(setting.title, results, shown)
        section.captions[name] = (
            "Time per round of trials that ran side by side, HEAVY-OFUL by its lazy exact solver; "
            "in turns, one at a time, they are timed in What a round costs."
        )
    for name, grid in request.tuned.grids(setting.tuned_as).items():
        if _known(name):
            section.tables.append(_grid_table(find(name).name, grid))
    return section


def _with_others(
    setting: Setting, request: Request, results: Mapping[Key, Trials]
) -> dict[Key, Trials]:
    """Add to each tuned run the other choices of its tuning, if they are of these very trials."""
    made = request.tuned.provenance.get(setting.tuned_as, {})
    then = made.get("seed"), made.get("rounds") or setting.rounds
    alike = not request.quick and then == (request.seed + APART, request.rounds or setting.rounds)
    known = dict(results)
    for name in request.policies if alike else ():
        key = find(name).name, "tuned"
        others = request.tuned.others(setting.tuned_as, name)
        if key in known and all(len(regret) >= len(known[key].final) for _, regret in others):
            known[key] = replace(known[key], others=others)
    return known


def _shown(results: Mapping[Key, Trials]) -> list[Key]:
    """The runs that a figure draws: everyone tuned, Hvt-UCB untuned and sharp, and untuned Twin-UCB
    and a user's own, which may be tuned as well.
    """
    tuned = [key for key in results if key[1] == "tuned"]
    if not tuned:
        return [key for key in results if key[1] != "theory"]
    names = {key[0] for key in tuned if not is_own(results[key])} - {HVT}
    ours = (key for key in results if key[1] in ("untuned", "sharp") and key[0] not in names)
    return [*tuned, *ours]


def is_own(trials: Trials) -> bool:
    """Tell whether these are of a policy that is not the library's."""
    return not type(trials.arguments["policy"]).__module__.startswith("heavytail.")


def _known(name: str) -> bool:
    """Tell whether a recorded policy can be found: a user's own may be out of reach."""
    try:
        find(name)
    except ValueError:
        return False
    return True


def _grid_table(policy: str, grid: list[Point]) -> Table:
    """Mean regret on the tuning seeds, by threshold (rows) and radius (columns)."""
    radii = sorted({row["radius_scale"] for row in grid})
    thresholds = sorted({row.get("threshold_scale", 0.0) for row in grid})
    regret_at = {
        (row.get("threshold_scale", 0.0), row["radius_scale"]): row["regret"] for row in grid
    }
    values = [[regret_at[c, r] for r in radii] for c in thresholds]
    labels = [f"threshold {c:.3g}" if c else "no threshold" for c in thresholds]
    return Table(
        policy,
        ("radius", *(f"{r:.2g}" for r in radii)),
        [
            (label, *(f"{value:,.0f}" for value in row))
            for label, row in zip(labels, values, strict=True)
        ],
        values=values,
    )


def trials_text(results: Found) -> str:
    """State the number of trials of each policy, in words."""
    counts: dict[int, list[Key]] = {}
    for runs in results.values():
        for key, trials in runs.items():
            mine = counts.setdefault(len(trials.final), [])
            if key not in mine:
                mine.append(key)
    parts = [
        f"{count} of {'; '.join(map(plots.label, keys))}"
        for count, keys in sorted(counts.items(), reverse=True)
    ]
    return f"Trials: {', '.join(parts)}." if parts else ""


def figures_section(results: Found) -> Section:
    """Regret by round in the paper's settings, three to a figure."""
    section = Section("figures", "The paper's settings")
    section.text.append(
        "Mean cumulative regret by round, on a log scale. Every policy of the paper's is tuned the "
        "same way; what is untuned is ours: Hvt-UCB with our constants, and Twin-UCB."
    )
    groups: dict[str, list[str]] = {}
    for world in SETTINGS:
        if world.name in results:
            groups.setdefault(_FIGURES[world.group], []).append(world.name)
    for name, members in groups.items():
        titles = [setting(member).title for member in members]
        section.figures[name] = _panels(results, members)
        section.captions[name] = (
            f"Cumulative regret, with 95 % intervals: {'; '.join(titles)} ({_PAPERS[name]})."
        )
    return section


def _panels(results: Found, names: list[str]) -> Figure:
    return plots.regret_panels({setting(n).title: (results[n], _shown(results[n])) for n in names})


def ours_section(results: Found) -> Section:
    """Who learns the mean where the law of a reward depends on the arm. No claim, no verdict."""
    section = Section("ours", "Five worlds of ours: who learns the mean")
    here = {world.name: results[world.name] for world in OURS if world.name in results}
    if not here:
        return section
    section.text.append(
        "Not the paper's. In its settings all arms share one noise; here its shape, and how likely "
        "a rare large reward is, depends on the arm, while the mean stays affine in x and every "
        "assumption of the paper on the noise holds. Only the two untuned ones that are ours have "
        "an intercept; the others are as in their papers, through the origin, and part of what "
        "they lose is that. Each cell: mean regret as a share of uniform play's, and the part of "
        "it that comes in the second half of the rounds. About a half is a policy that no longer "
        "learns; above 100 % it is worse than "
        "playing at random. The best of a row is in bold."
    )
    section.text.append(trials_text(here))
    keys = _shown(next(iter(here.values())))
    keys = [key for key in keys if key[0] != UNIFORM]
    rows = []
    for name, runs in here.items():
        play = runs[UNIFORM, "untuned"].final.mean()
        present = [key for key in keys if key in runs]
        best = min(present, key=lambda key: runs[key].final.mean())
        cells = []
        for key in keys:
            mean, half = runs[key].final.mean(), runs[key]["regret"][:, _half(runs[key])].mean()
            text = f"{mean / play:.0%}, {1.0 - half / mean:.0%}"
            cells.append(Bold(text) if key == best else text)
        rows.append((name, f"{play:,.0f}", *cells))
    any_world = next(iter(here.values()))
    labels = (plots.label(key, any_world[key].arguments["policy"]) for key in keys)
    columns = ("world", "uniform play", *labels)
    section.tables.append(Table("Regret over uniform play's, and its second half", columns, rows))
    section.figures["ours"] = _panels(results, list(here))
    section.captions["ours"] = "Cumulative regret in the five worlds of ours."
    return section


def _half(trials: Trials) -> int:
    """The place of the mark nearest to half of the rounds."""
    marks = np.asarray(trials.arguments["marks"])
    return int(np.argmin(np.abs(marks - trials.arguments["rounds"] / 2)))


def chosen_section(results: Found, tuned: Tuned) -> Section:
    """The multipliers of everyone in every setting, how sure they are, and where the grid ends."""
    section = Section("chosen", "What was chosen")
    section.text.append(
        "Multiplier of the radius, of the threshold where there is one, and in brackets the share "
        "of the resamples of the tuning trials that choose another pair. An asterisk marks a "
        "multiplier below which the grid has none: a smaller one might do better. The second table "
        "counts these, and says what the grid's last step brought on the tuning trials: regret at "
        "its smallest multiplier over that at the next larger one, the other multiplier as "
        "chosen. Below 1 the last step helped, which does not say that the next would: `python -m "
        "benchmarks.wider_grid` tries two decades more, and says what that changes."
    )
    worlds = [setting(name) for name in results if not setting(name).repeats]
    names = list(dict.fromkeys(name for world in worlds for name in tuned.grids(world.name)))
    names = [name for name in names if _known(name)]
    rows = []
    for world in worlds:
        cells = []
        for name in names:
            options = tuned.options(world.name, name)
            grid = tuned.grids(world.name).get(name, [])
            parts = [
                f"{value:.2g}" + "*" * (value == min(row[key] for row in grid))
                for key, value in (options or {}).items()
            ]
            other = sum(share for share, _ in tuned.others(world.name, name))
            cells.append(f"{', '.join(parts)} ({other:.0%})" if parts else "-")
        rows.append((world.name, *cells))
    labels = [plots.label((find(name).name, "tuned")) for name in names]
    section.tables.append(Table("Multipliers", ("setting", *labels), rows))
    edges = [
        (label, multiplier.replace("_scale", ""), *_edge(tuned, worlds, name, multiplier))
        for name, label in zip(names, labels, strict=True)
        for multiplier in ("radius_scale", "threshold_scale")
    ]
    columns = ("policy", "multiplier", "at the edge in", "the last step's ratio: median", "least")
    section.tables.append(Table("The grid's edge", columns, [row for row in edges if row[2]]))
    return section


def _edge(
    tuned: Tuned, worlds: Sequence[Setting], name: str, multiplier: str
) -> tuple[str, str, str]:
    """The settings in which the smallest multiplier was chosen, and the gain of the step to it."""
    steps: dict[str, float] = {}
    for world in worlds:
        chosen, grid = tuned.options(world.name, name), tuned.grids(world.name).get(name, [])
        if chosen is None or multiplier not in chosen:
            continue
        line = sorted(
            (row[multiplier], row["regret"])
            for row in grid
            if all(row[key] == value for key, value in chosen.items() if key != multiplier)
        )
        if len(line) > 1 and chosen[multiplier] == line[0][0]:
            steps[world.name] = line[0][1] / line[1][1]
    if not steps:
        return "", "", ""
    least = min(steps, key=lambda label: steps[label])
    median = f"{np.median(list(steps.values())):.2f}"
    return f"{len(steps)}: {', '.join(steps)}", median, f"{steps[least]:.2f} ({least})"


def _once(name: str) -> bool:
    """Tell whether a setting is the paper's and not another's run under a second name."""
    return setting(name).group != "ours" and not setting(name).repeats


def variants_section(results: Found) -> Section:
    """Mean regret of what is proved and of what is not: a row per setting, a column per policy."""
    section = Section("variants", "Theory against practice")
    false = ", ".join(name for name in results if _once(name) and not setting(name).true_nu)
    section.text.append(
        "Mean regret at the end, tuned / untuned / theory / sharp; a dash where there is none. "
        "Tuned and theory are the papers' algorithms. Sharp is Hvt-UCB with our proved "
        "confidence width (docs/mathematics/sharp.md), used in full, told nu and S, nothing tuned. "
        f"The proof needs a nu that is true: it says nothing of {false}, where nu is less. "
        "Untuned Hvt-UCB has our constants, Twin-UCB is ours, "
        "and the others' untuned defaults are the papers' radii times one multiplier for all "
        "settings (see the page on untuned defaults). Untuned is not uninformed: every policy, "
        "Twin-UCB and Hvt-UCB too, is told the setting's nu, and T. arms-50 is the run of student."
    )
    mine = {name: runs for name, runs in results.items() if _once(name)}
    section.text.append(trials_text(mine))
    policies = list(dict.fromkeys(key[0] for runs in mine.values() for key in runs))
    rows = []
    for name, runs in mine.items():
        cells = [
            " / ".join(
                f"{runs[policy, variant].final.mean():,.0f}" if (policy, variant) in runs else "-"
                for variant in ("tuned", "untuned", "theory", "sharp")
            )
            for policy in policies
        ]
        rows.append((name, *cells))
    section.tables.append(Table("Mean regret", ("setting", *policies), rows))
    return section


def untuned_section(results: Found, policy: str = HVT) -> Section:
    """Nothing tuned against everything tuned, over the paper's settings, each run once."""
    key = policy, "untuned"
    section = Section(f"untuned-{policy.lower()}", f"{plots.label(key)}, against everyone tuned")
    section.text.append(
        f"The mark: over the paper's settings, mean regret at most {BESIDE_HEAVY} times tuned "
        f"HEAVY-OFUL's and at most {BESIDE_BEST} times the best tuned baseline's. It is met where "
        "both whole intervals keep to it, missed where all of one lies above, and undecided "
        "else, as in the claims. student stands for arms-50 too, which is the same run."
    )
    rows, built = [], None
    for name in TEN:
        if name not in results or not {key, (HEAVY, "tuned"), (HVT, "tuned")} <= set(results[name]):
            continue
        runs = results[name]
        mine, built = runs[key].sample, runs[key].arguments["policy"]
        others = [other for other in runs if other[1] == "tuned" and other[0] != HVT]
        best = min(others, key=lambda other: runs[other].final.mean())
        heavy = ratio(mine, runs[HEAVY, "tuned"].sample)
        first = ratio(mine, runs[best].sample)
        own = ratio(mine, runs[HVT, "tuned"].sample)
        cells = (f"{heavy:.2f}", f"{first:.2f}", best[0], f"{own:.2f}")
        rows.append((name, *cells, _MARK[meets_mark(heavy, first)]))
    columns = ("setting", "/ HEAVY-OFUL, tuned", "/ best tuned baseline", "which is")
    section.tables.append(
        Table("Ratios", (*columns, f"/ {plots.label((HVT, 'tuned'))}", "mark"), rows)
    )
    marks = [row[-1] for row in rows]
    counts = ", ".join(f"{word} in {marks.count(word)}" for word in _MARK.values())
    section.text.append(
        f"{plots.label(key, built)}: {counts} of {len(rows)} settings. {2 * len(rows)} intervals "
        "of 95 % decide that; no correction is made for their number."
    )
    return section


def meets_mark(heavy: Interval, first: Interval) -> bool | None:
    """Tell whether both ratios keep to the mark, by their whole intervals."""
    return both(up_to(heavy, BESIDE_HEAVY), up_to(first, BESIDE_BEST))
