"""A setting's part of the report, from its results alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytail.experiments import plots
from heavytail.experiments.catalogue import ELEVEN
from heavytail.experiments.measured import Measured
from heavytail.experiments.registry import Heat, Section, Table
from heavytail.experiments.stats import ratio
from heavytail.policies.build import find

__all__ = ["setting_section", "shown", "untuned_section", "variants_section"]

HVT, HEAVY = "Hvt-UCB", "HEAVY-OFUL"
BESIDE_HEAVY = 1.1  # untuned Hvt-UCB may cost so much of tuned HEAVY-OFUL
BESIDE_BEST = 1.25  # ... and of the best tuned baseline


def shown(measured: Measured) -> list[tuple[str, str]]:
    """What a figure draws: everyone tuned, and Hvt-UCB untuned; untuned where nothing is tuned."""
    tuned = [key for key in measured.curves if key[1] == "tuned"]
    if not tuned or measured.setting.group == "own":
        return [key for key in measured.curves if key[1] != "theory"]
    return [(HVT, "untuned"), *tuned] if (HVT, "untuned") in measured.curves else tuned


def setting_section(measured: Measured, tuned: dict[str, Any]) -> Section:
    """Figure, regret by variant, paired ratios, tuning grids, and how it relates to the paper."""
    one = measured.setting
    section = Section(one.name, one.title)
    section.text = [
        *(f"The paper: {one.says}" for _ in one.says[:1]),
        *(f"Left open: {one.leaves_open}" for _ in one.leaves_open[:1]),
        *(f"Chosen: {one.chosen}" for _ in one.chosen[:1]),
        f"World: {one.environment!r}; order {one.order:g}.",
        *_broken(measured),
    ]
    keys = shown(measured)
    section.figures[one.name] = plots.regret_figure(measured, keys)
    trials = len(next(iter(measured.curves.values())).seconds)
    section.captions[one.name] = (
        f"Cumulative regret, mean and standard deviation of {trials} trials."
    )
    if one.group == "main":
        section.figures[f"{one.name}-time"] = plots.time_figure(measured, keys)
        section.captions[f"{one.name}-time"] = "Time a round; HEAVY-OFUL by its lazy exact solver."
    section.tables = [_regret_table(measured)]
    section.tables += [_ratio_table(measured)] if (HVT, "tuned") in measured.curves else []
    chosen = tuned.get("settings", {}).get(one.name, {})
    section.heats = [_heat(find(name).name, chosen[name]["grid"]) for name in chosen if _has(name)]
    return section


def _has(name: str) -> bool:
    try:
        find(name)
    except ValueError:
        return False
    return True


def _broken(measured: Measured) -> list[str]:
    world = measured.setting.environment
    policies = {key[0]: curves.entry.built for key, curves in measured.curves.items()}
    needs = [(name, world.broken_needs(policy)) for name, policy in policies.items()]
    return [
        f"{name} assumes {', '.join(list_)}, which this world lacks."
        for name, list_ in needs
        if list_
    ]


def _regret_table(measured: Measured) -> Table:
    rows = []
    for variant in dict.fromkeys(key[1] for key in measured.curves):
        for (policy, how), curves in measured.curves.items():
            if how != variant:
                continue
            given = curves.entry.built._arguments
            scales = (f"{key} {given[key]:.3g}" for key in given if key.endswith("_scale"))
            rows.append(
                (
                    policy,
                    variant,
                    f"{curves.final.mean():,.0f}",
                    f"{curves.final.std(ddof=1):,.0f}" if len(curves.final) > 1 else "-",
                    f"{np.median(curves.final):,.0f}",
                    f"{curves.final.max():,.0f}",
                    "" if np.isnan(curves.truncated).any() else f"{curves.truncated.mean():.1%}",
                    ", ".join(scales),
                )
            )
    columns = (
        "policy",
        "variant",
        "mean regret",
        "sd",
        "median",
        "largest",
        "truncated",
        "multipliers",
    )
    return Table(f"Regret at T = {measured.horizon:,}", columns, rows)


def _ratio_table(measured: Measured) -> Table:
    rows = []
    tuned = [policy for policy, variant in measured.curves if variant == "tuned"]
    for policy in tuned:
        cells = []
        for variant in ("tuned", "untuned"):
            if (HVT, variant) not in measured.curves or (policy, variant) == (HVT, "tuned"):
                cells.append("-")
                continue
            found = ratio(measured.final(policy, "tuned"), measured.final(HVT, variant))
            cells.append(f"{found:.2f}")
        rows.append((policy, *cells))
    columns = ("tuned policy", "its regret / Hvt-UCB's, tuned", "its regret / Hvt-UCB's, untuned")
    note = "Ratio of means over the same worlds, with a 95 % bootstrap interval over trials."
    return Table("Paired ratios", columns, rows, note)


def _heat(policy: str, grid: list[dict[str, float]]) -> Heat:
    radii = sorted({row["radius_scale"] for row in grid})
    thresholds = sorted({row.get("threshold_scale", 0.0) for row in grid})
    found = {(row.get("threshold_scale", 0.0), row["radius_scale"]): row["regret"] for row in grid}
    return Heat(
        policy,
        tuple(f"threshold {c:.3g}" if c else "no threshold" for c in thresholds),
        tuple(f"{r:.2g}" for r in radii),
        [[found[c, r] for r in radii] for c in thresholds],
    )


def variants_section(measured: list[Measured]) -> Section:
    """The theory's constants against practical ones: one row a setting, one column a policy."""
    section = Section("variants", "Theory against practice")
    section.text.append(
        "Mean regret at the end, tuned / untuned / theory; a dash where nothing is tuned. OFUL's "
        "untuned default is its theory."
    )
    policies = list(dict.fromkeys(key[0] for one in measured for key in one.curves))
    rows = []
    for one in measured:
        cells = [
            " / ".join(
                f"{one.final(policy, variant).mean():,.0f}"
                if (policy, variant) in one.curves
                else "-"
                for variant in ("tuned", "untuned", "theory")
            )
            for policy in policies
        ]
        rows.append((one.setting.name, *cells))
    section.tables.append(Table("Mean regret", ("setting", *policies), rows))
    return section


def untuned_section(measured: dict[str, Measured]) -> Section:
    """Nothing tuned against everything tuned, over the paper's eleven settings."""
    section = Section("untuned", "Untuned Hvt-UCB against everyone tuned")
    section.text.append(
        f"The mark: over the paper's eleven settings, mean regret at most {BESIDE_HEAVY} times "
        f"tuned HEAVY-OFUL's and at most {BESIDE_BEST} times the best tuned baseline's."
    )
    rows, data = [], {}
    for name in ELEVEN:
        if name not in measured or (HEAVY, "tuned") not in measured[name].curves:
            continue
        one = measured[name]
        mine = one.final(HVT, "untuned")
        others = [key for key in one.curves if key[1] == "tuned" and key[0] != HVT]
        best = min(others, key=lambda key: one.final(*key).mean())
        heavy, first = ratio(mine, one.final(HEAVY, "tuned")), ratio(mine, one.final(*best))
        own = ratio(mine, one.final(HVT, "tuned"))
        met = heavy.value <= BESIDE_HEAVY and first.value <= BESIDE_BEST
        data[name] = (heavy, first, best[0], met)
        rows.append(
            (
                name,
                f"{heavy:.2f}",
                f"{first:.2f}",
                best[0],
                f"{own:.2f}",
                "met" if met else "missed",
            )
        )
    columns = ("setting", "/ HEAVY-OFUL tuned", "/ best tuned baseline", "which is")
    section.tables.append(Table("Ratios", (*columns, "/ Hvt-UCB tuned", "mark"), rows))
    count = sum(row[-1] == "met" for row in rows)
    section.text.append(f"Met in {count} of {len(rows)} settings.")
    section.data["untuned"] = data
    return section
