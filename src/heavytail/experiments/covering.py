"""Coverage of Lemma 1: how often the confidence set held the truth in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from heavytail.experiments.catalogue import Setting, setting
from heavytail.experiments.protocol import build, options_of, read_tuned
from heavytail.experiments.registry import Section, Settings, Table
from heavytail.experiments.store import complete
from heavytail.experiments.units import CoverUnit
from heavytail.policies import PackedPolicy
from heavytail.simulation.distribution import least_share
from heavytail.simulation.progress import Progress

__all__ = ["Share", "cover_units", "covering"]

ROUNDS = 1_000
BATCH = 100  # trials a unit
WORLDS = ("student-true-nu", "student", "gaussian", "pareto")


@dataclass(frozen=True)
class Share:
    """Trials covered in every round, of how many, and what Lemma 1 promises."""

    covered: int
    trials: int
    promised: float

    @property
    def least(self) -> float:
        """Clopper and Pearson's lower bound at 99 %."""
        return least_share(self.covered, self.trials)

    @property
    def agrees(self) -> bool:
        """Whether so many failures are what the promise allows, at 99 %."""
        most = binom.ppf(0.99, self.trials, 1.0 - self.promised)
        return bool(self.trials - self.covered <= most)


def _rounds(settings: Settings) -> int:
    return settings.rounds or (300 if settings.quick else ROUNDS)


def _plan(settings: Settings) -> dict[tuple[str, str], list[CoverUnit]]:
    T, plan = _rounds(settings), {}
    batches = settings.trials if not settings.quick else 2
    for name in WORLDS:
        world = setting(name)
        for variant in ("theory", "untuned", "tuned"):
            policy = _policy(world, variant, T, settings)
            if policy is not None:
                seed = world.seed(settings.seed + 17)
                plan[name, variant] = [
                    CoverUnit(policy, world.environment, T, seed + k, BATCH, BATCH * T // 1000 + 1)
                    for k in range(batches)
                ]
    return plan


def _policy(world: Setting, variant: str, T: int, settings: Settings) -> PackedPolicy | None:
    options = options_of("HvtUCB", variant)
    if variant == "tuned":
        chosen = read_tuned(settings.tuned).get("settings", {}).get(world.name, {}).get("HvtUCB")
        if chosen is None:
            return None
        options |= chosen["options"]
    policy = build("HvtUCB", world, T, **options)
    assert isinstance(policy, PackedPolicy)
    return policy


def cover_units(settings: Settings) -> list[CoverUnit]:
    """The work of :func:`covering`."""
    return [unit for units in _plan(settings).values() for unit in units]


def covering(settings: Settings, progress: Progress) -> Section:
    """The share of trials covered in every round, at theory constants and at practical ones."""
    plan = _plan(settings)
    units = cover_units(settings)
    outcomes = complete(settings.store, units, progress, jobs=settings.jobs, dask=settings.dask)
    T = _rounds(settings)
    promised = 1.0 - 4.0 / (8.0 * T)  # delta = 1/(8T)
    rows, shares = [], {}
    for (name, variant), mine in plan.items():
        worst = np.concatenate([outcomes[unit.key]["worst"] for unit in mine])
        share = Share(int((worst <= 1.0).sum()), len(worst), promised)
        shares[name, variant] = share
        rows.append(
            (
                setting(name).title,
                variant,
                f"{share.covered} of {share.trials}",
                f"{share.least:.4f}",
                f"{worst.max():.3g}",
            )
        )
    section = Section("coverage", "Coverage of Lemma 1")
    section.text.append(
        f"Hvt-UCB, T = {T:,}. Lemma 1 promises 1 - 4 delta = {promised:.4f} at the theory's "
        "constants and a true nu (so not for nu = 1.31). Untuned and tuned radii promise nothing. "
        "A trial counts as covered when the truth was in the set after every round."
    )
    columns = (
        "world",
        "variant",
        "covered in every round",
        "at least (99 %)",
        "largest distance, in radii",
    )
    section.tables.append(Table("Coverage", columns, rows))
    section.data["shares"] = shares
    return section
