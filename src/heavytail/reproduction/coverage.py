"""Coverage of Lemma 1: how often the confidence set held the truth in every round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heavytail.experiments import plots
from heavytail.experiments.experiment import Experiment, Plan, Request, Section, Table
from heavytail.experiments.unit import Key, Trials, Unit
from heavytail.kernels.sharp import DELTA
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import built
from heavytail.simulation.distribution import least_share

__all__ = ["COVERAGE", "SETTINGS", "Share"]

ROUNDS = 1_000
BATCH = 100  # trials per unit
SETTINGS = ("student-true-nu", "student", "gaussian", "pareto")
APART = 17  # seeds of their own


@dataclass(frozen=True)
class Share:
    """Trials covered in every round, of how many, and the share that was promised."""

    covered: int
    trials: int
    promised: float

    @property
    def least(self) -> float:
        """Clopper and Pearson's lower bound at 99 %."""
        return least_share(self.covered, self.trials)

    @property
    def agrees(self) -> bool:
        """Tell whether so many failures are what the promise allows, at 99 %."""
        from scipy.stats import binom

        most = binom.ppf(0.99, self.trials, 1.0 - self.promised)
        return bool(self.trials - self.covered <= most)


def _rounds(request: Request) -> int:
    return request.rounds or (300 if request.quick else ROUNDS)


def _plan(request: Request) -> Plan:
    """(setting, variant): Hvt-UCB in environments drawn by counters, its confidence set watched."""
    T = _rounds(request)
    plan: Plan = {}
    batches = request.trials if not request.quick else 2
    for name in SETTINGS:
        world = setting(name)
        seed = world.seed(request.seed + APART)
        for variant in ("theory", "sharp", "untuned", "tuned"):
            policy = built("HvtUCB", variant, world, T, request.tuned)
            if policy is not None:
                fixed = {"policy": policy, "environment": world.environment, "rounds": T}
                plan[name, variant] = [
                    Unit(
                        "heavytail.simulation.trials:distribution_block",
                        {**fixed, "seed": seed + k, "trials": BATCH, "cover": True},
                        weight=BATCH * T // 1000 + 1,
                    )
                    for k in range(batches)
                ]
    return plan


def _show(request: Request, found: Mapping[Key, Trials]) -> Section:
    """The share of trials covered in every round, at theory constants and at practical ones."""
    T = _rounds(request)
    lemma = 1.0 - 4.0 / (8.0 * T)  # delta = 1/(8T)
    section = Section("coverage", "Coverage of the confidence sets")
    rows = []
    for (name, variant), trials in found.items():
        worst = trials["worst"]
        promised = 1.0 - DELTA if variant == "sharp" else lemma
        share = Share(int((worst <= 1.0).sum()), len(worst), promised)
        section.data[name, variant] = share
        counted = f"{share.covered} of {share.trials}"
        largest = f"{worst.max():.3g}"
        label = plots.label(("Hvt-UCB", variant), trials.arguments["policy"])
        rows.append((setting(name).title, label, counted, f"{share.least:.4f}", largest))
    section.text.append(
        f"Hvt-UCB, T = {T:,}. Lemma 1 promises 1 - 4 delta = {lemma:.4f} at the theory's "
        f"constants, the sharp width 1 - delta = {1.0 - DELTA:g} at all times, both at a true nu "
        "(so not for nu = 1.31). Untuned and tuned radii promise nothing. "
        "A trial counts as covered when the truth was in the set after every round."
    )
    counts = ("covered in every round", "at least (99 %)", "largest distance, in radii")
    section.tables.append(Table("Coverage", ("world", "policy", *counts), rows))
    return section


COVERAGE = Experiment("coverage", "Coverage of the confidence sets", _plan, _show)
