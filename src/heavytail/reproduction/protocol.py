"""One protocol for all: every algorithm untuned, tuned and in theory, on the same draws.

- **untuned**: as the library builds it, nothing chosen.
- **tuned**: the algorithm of its paper (for Hvt-UCB ``radius="theory"``) with one multiplier on its
  radius from :data:`RADIUS_GRID` and, where it has a threshold, one on that from
  :data:`THRESHOLD_GRID`, chosen on seeds of their own and reported on fresh ones.
- **theory**: the constants of its paper.

Policies that use a round's scale (``info.uses_scale``) are told nu_t; the others get the bound that
holds in every round, since that is all their papers allow them.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heavytail.experiments.experiment import Request, run_units
from heavytail.experiments.machine import provenance
from heavytail.experiments.setting import Setting, build, trial_units
from heavytail.experiments.tune import APART, Point, Tuned, search
from heavytail.experiments.unit import Key, Unit
from heavytail.policies import ALL, Policy
from heavytail.policies.build import find

__all__ = [
    "PAPER",
    "RADIUS_GRID",
    "RECORDED",
    "THRESHOLD_GRID",
    "TUNED",
    "VARIANTS",
    "built",
    "entries",
    "grid_of",
    "options_of",
    "policy_names",
    "retune",
    "rounds_of",
    "tuning_units",
    "weight_of",
]

PAPER = ("HvtUCB", "HeavyOFUL", "OFUL", "CRTM", "CRMM")  # in the paper's order
VARIANTS = ("untuned", "tuned", "theory")
RADIUS_GRID = tuple(10.0 ** (k / 2) for k in range(-8, 1))  # 1e-4 .. 1
THRESHOLD_GRID = tuple(10.0 ** (k / 2) for k in range(-4, 1))  # 0.01 .. 1
TUNING_TRIALS = 10
RECORDED = Path(__file__).with_name("recorded")
TUNED = RECORDED / "tuned.json"
_WEIGHTS = {"HeavyOFUL": 10}


def policy_names(everyone: bool = False, own: Sequence[str] = ()) -> tuple[str, ...]:
    """The paper's five or all the library has, as classes are called, and a user's own paths."""
    for path in own:
        find(path)
    known = [kind.__name__ for kind in ALL]
    paper = [name for name in PAPER if name in known]
    rest = [name for name in known if name not in paper] if everyone else []
    return (*paper, *rest, *own)


def options_of(name: str, variant: str) -> dict[str, Any]:
    """The options that make a policy ``variant``, multipliers apart."""
    accepted = inspect.signature(find(name)).parameters
    options: dict[str, Any] = {}
    if "solver" in accepted:
        options["solver"] = "lazy"
    if variant != "untuned":
        theory = {"radius": "theory", "radius_scale": 1.0, "threshold_scale": 1.0}
        options |= {key: value for key, value in theory.items() if key in accepted}
    if variant == "tuned":
        options = {k: v for k, v in options.items() if not k.endswith("_scale")}
    return options


def weight_of(name: str) -> int:
    """How long a trial takes, in trials of a one-pass policy."""
    return _WEIGHTS.get(name, 1)


def rounds_of(setting: Setting, request: Request) -> int:
    """T."""
    return request.rounds or (6_000 if request.quick else setting.rounds)


def built(name: str, variant: str, setting: Setting, rounds: int, tuned: Tuned) -> Policy | None:
    """A policy in a variant; None where it is to be tuned and no multipliers are recorded."""
    options = options_of(name, variant)
    if variant == "tuned":
        chosen = tuned.options(setting.name, name)
        if chosen is None:
            return None
        options |= chosen
    return build(name, setting, rounds, **options)


def entries(
    setting: Setting, names: Sequence[str], rounds: int, tuned: Tuned
) -> dict[Key, tuple[Policy, int]]:
    """(policy, variant): the policy and its weight, for every variant that the policy has."""
    found: dict[Key, tuple[Policy, int]] = {}
    for variant in VARIANTS:
        for name in names:
            policy = built(name, variant, setting, rounds, tuned)
            if policy is not None:
                found[find(name).name, variant] = policy, weight_of(name)
    return found


def grid_of(name: str) -> list[Point]:
    """The multipliers tried for a policy: over its radius, and its threshold where it has one."""
    accepted = inspect.signature(find(name)).parameters
    radii = RADIUS_GRID if "radius_scale" in accepted else ()
    thresholds = THRESHOLD_GRID if "threshold_scale" in accepted else ()
    if not thresholds:
        return [{"radius_scale": r} for r in radii]
    return [{"radius_scale": r, "threshold_scale": c} for r in radii for c in thresholds]


def tuning_units(request: Request, setting: Setting, name: str, point: Point) -> list[Unit]:
    """A point of a policy's grid in a setting, on seeds that are not reported."""
    rounds = request.rounds or setting.rounds
    policy = build(name, setting, rounds, **options_of(name, "tuned"), **point)
    trials = min(request.trials, TUNING_TRIALS)
    weight = weight_of(name)
    return trial_units(setting, policy, rounds, trials, request.seed + APART, weight=weight)


def retune(settings: Sequence[Setting], request: Request) -> Tuned:
    """Every policy at every point of its grid in every setting: the best, and all."""
    by_name = {one.name: one for one in settings}
    grid = {(s, name): grid_of(name) for s in by_name for name in request.policies if grid_of(name)}
    regret = search(
        grid,
        lambda case, point: tuning_units(request, by_name[case[0]], case[1], point),
        lambda units: run_units(units, request, "tuning"),
    )
    trials = min(request.trials, TUNING_TRIALS)
    made = provenance(trials=trials, seed=request.seed + APART)
    tuned = request.tuned
    for (setting, name), values in regret.items():
        tuned = tuned.with_search(setting, name, grid[setting, name], values, made)
    return tuned
