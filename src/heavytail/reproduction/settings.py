"""The paper's settings as experiments, and what they say together."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.setting import Setting, page, trial_units
from heavytail.experiments.stats import Interval, ratio
from heavytail.experiments.tune import Point
from heavytail.experiments.unit import Key, Trials
from heavytail.policies import Policy
from heavytail.policies.build import find
from heavytail.reproduction.catalogue import ELEVEN
from heavytail.reproduction.protocol import entries, rounds_of, trials_of, weight_of

__all__ = ["Found", "setting_experiment", "untuned_section", "variants_section"]

HVT, HEAVY, TWIN, UNIFORM = "Hvt-UCB", "HEAVY-OFUL", "Twin-UCB", "Uniform"
BESIDE_HEAVY = 1.1  # untuned Hvt-UCB may cost so much of tuned HEAVY-OFUL
BESIDE_BEST = 1.25  # ... and of the best tuned baseline

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
    return {key: one for key, one in everyone.items() if key[1] != "theory"}


def _show(setting: Setting, request: Request, found: Mapping[Key, Trials]) -> Section:
    """Figure, regret by variant, paired ratios, tuning grids, and how it relates to the paper."""
    shown = _shown(found)
    section = page(setting, found, shown, reference=HVT)
    if setting.group == "main":
        name = f"{setting.name}-time"
        section.figures[name] = plots.time_figure(setting.title, found, shown)
        section.captions[name] = "Time per round; HEAVY-OFUL by its lazy exact solver."
    for name, grid in request.tuned.grids(setting.name).items():
        if _known(name):
            section.tables.append(_grid_table(find(name).name, grid))
    return section


def _shown(found: Mapping[Key, Trials]) -> list[Key]:
    """What a figure draws: everyone tuned, and Hvt-UCB untuned; untuned where nothing is tuned."""
    tuned = [key for key in found if key[1] == "tuned"]
    if not tuned:
        return [key for key in found if key[1] != "theory"]
    return [(HVT, "untuned"), *tuned] if (HVT, "untuned") in found else tuned


def _known(name: str) -> bool:
    """Whether a recorded policy can be found: a user's own may be out of reach."""
    try:
        find(name)
    except ValueError:
        return False
    return True


def _grid_table(policy: str, grid: list[Point]) -> Table:
    """Mean regret on the tuning seeds, by threshold (rows) and radius (columns)."""
    radii = sorted({row["radius_scale"] for row in grid})
    thresholds = sorted({row.get("threshold_scale", 0.0) for row in grid})
    found = {(row.get("threshold_scale", 0.0), row["radius_scale"]): row["regret"] for row in grid}
    values = [[found[c, r] for r in radii] for c in thresholds]
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


def variants_section(found: Found) -> Section:
    """The theory's constants against practical ones: a row per setting, a column per policy."""
    section = Section("variants", "Theory against practice")
    section.text.append(
        "Mean regret at the end, tuned / untuned / theory; a dash where nothing is tuned. OFUL's "
        "untuned default is its theory."
    )
    policies = list(dict.fromkeys(key[0] for one in found.values() for key in one))
    rows = []
    for name, one in found.items():
        cells = [
            " / ".join(
                f"{one[policy, variant].final.mean():,.0f}" if (policy, variant) in one else "-"
                for variant in ("tuned", "untuned", "theory")
            )
            for policy in policies
        ]
        rows.append((name, *cells))
    section.tables.append(Table("Mean regret", ("setting", *policies), rows))
    return section


def untuned_section(found: Found) -> Section:
    """Nothing tuned against everything tuned, over the paper's eleven settings."""
    section = Section("untuned", "Untuned Hvt-UCB against everyone tuned")
    section.text.append(
        f"The mark: over the paper's eleven settings, mean regret at most {BESIDE_HEAVY} times "
        f"tuned HEAVY-OFUL's and at most {BESIDE_BEST} times the best tuned baseline's."
    )
    rows = []
    for name in ELEVEN:
        if name not in found or (HEAVY, "tuned") not in found[name]:
            continue
        one = found[name]
        mine = one[HVT, "untuned"].final
        others = [key for key in one if key[1] == "tuned" and key[0] != HVT]
        best = min(others, key=lambda key: one[key].final.mean())
        heavy = ratio(mine, one[HEAVY, "tuned"].final)
        first = ratio(mine, one[best].final)
        own = ratio(mine, one[HVT, "tuned"].final)
        cells = (f"{heavy:.2f}", f"{first:.2f}", best[0], f"{own:.2f}")
        rows.append((name, *cells, "met" if meets_mark(heavy, first) else "missed"))
    columns = ("setting", "/ HEAVY-OFUL tuned", "/ best tuned baseline", "which is")
    section.tables.append(Table("Ratios", (*columns, "/ Hvt-UCB tuned", "mark"), rows))
    count = sum(row[-1] == "met" for row in rows)
    section.text.append(f"Met in {count} of {len(rows)} settings.")
    return section


def meets_mark(heavy: Interval, first: Interval) -> bool:
    """Whether both ratios keep to the mark."""
    return heavy.value <= BESIDE_HEAVY and first.value <= BESIDE_BEST
