"""One protocol for all: every algorithm untuned, tuned and in theory, on the same worlds.

- **untuned**: as the library builds it, nothing chosen.
- **tuned**: the algorithm of its paper (for Hvt-UCB ``radius="theory"``) with one multiplier on its
  radius from :data:`RADIUS_GRID` and, where it has a threshold, one on that from
  :data:`THRESHOLD_GRID`, chosen on seeds of their own and reported on fresh ones.
- **theory**: the constants of its paper.

Policies that use a round's scale (``info.uses_scale``) are told nu_t; the others are given the
bound that holds in every round, since that is all their papers allow them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heavytail.experiments.catalogue import Setting
from heavytail.experiments.units import Unit, chunks
from heavytail.policies import ALL, Policy, make_policy
from heavytail.policies.build import find
from heavytail.tails import MomentBound

__all__ = [
    "PAPER",
    "RADIUS_GRID",
    "THRESHOLD_GRID",
    "VARIANTS",
    "Entry",
    "entries",
    "entry_units",
    "grid_of",
    "policy_names",
    "read_tuned",
    "told",
    "weight_of",
]

PAPER = ("HvtUCB", "HeavyOFUL", "OFUL", "CRTM", "CRMM")  # in the paper's order
VARIANTS = ("untuned", "tuned", "theory")
RADIUS_GRID = tuple(10.0 ** (k / 2) for k in range(-8, 1))  # 1e-4 .. 1
THRESHOLD_GRID = tuple(10.0 ** (k / 2) for k in range(-4, 1))  # 0.01 .. 1
_WEIGHTS = {"HeavyOFUL": 10}


@dataclass(frozen=True)
class Entry:
    """A policy in a figure: its name, how it was set, and the policy."""

    policy: str
    variant: str
    built: Policy
    weight: int = 1

    @property
    def label(self) -> str:
        """As a legend shows it."""
        return f"{self.policy} ({self.variant})"


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


def build(name: str, setting: Setting, rounds: int, **options: Any) -> Policy:
    """The policy for a setting."""
    tail = told(name, setting)
    return make_policy(
        name, dim=setting.dim, horizon=rounds, tail=tail, arms=setting.arms, **options
    )


def told(name: str, setting: Setting) -> MomentBound:
    """The moment bound a policy is given; one that knows finite variance alone gets order 2."""
    info = find(name).info
    tail = setting.tail(uses_scale=info.uses_scale)
    return MomentBound(2.0, tail.scale) if info.orders == "2" else tail


def entries(
    setting: Setting, names: tuple[str, ...], rounds: int, tuned: dict[str, Any]
) -> list[Entry]:
    """Every policy in every variant it has; tuned only where multipliers are recorded."""
    found = []
    chosen = tuned.get("settings", {}).get(setting.name, {})
    for variant in VARIANTS:
        for name in names:
            if variant == "tuned" and name not in chosen:
                continue
            options = options_of(name, variant)
            if variant == "tuned":
                options |= chosen[name]["options"]
            policy = build(name, setting, rounds, **options)
            found.append(Entry(find(name).name, variant, policy, weight_of(name)))
    return found


def entry_units(setting: Setting, entry: Entry, rounds: int, trials: int, base: int) -> list[Unit]:
    """An entry's work."""
    return [
        Unit(
            policy=entry.built,
            environment=setting.environment,
            rounds=rounds,
            seed=setting.seed(base),
            first=first,
            trials=count,
            weight=entry.weight * count * max(rounds // 1000, 1),
        )
        for first, count in chunks(trials)
    ]


def grid_of(name: str) -> list[dict[str, float]]:
    """The multipliers tried for a policy: over its radius, and its threshold where it has one."""
    accepted = inspect.signature(find(name)).parameters
    radii = RADIUS_GRID if "radius_scale" in accepted else ()
    thresholds = THRESHOLD_GRID if "threshold_scale" in accepted else ()
    if not thresholds:
        return [{"radius_scale": r} for r in radii]
    return [{"radius_scale": r, "threshold_scale": c} for r in radii for c in thresholds]


def read_tuned(path: Path) -> dict[str, Any]:
    """The multipliers that ``heavytail reproduce --retune`` chose, with their provenance."""
    return json.loads(path.read_text()) if path.exists() else {}
