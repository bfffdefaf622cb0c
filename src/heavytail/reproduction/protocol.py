"""One protocol for all: every algorithm untuned, tuned and in theory, on the same draws.

- **untuned**: as the library builds it from the bound on the moments, nothing chosen. Of Hvt-UCB
  this is the paper's step with a radius and a threshold of ours; Twin-UCB is ours altogether.
- **tuned**: the algorithm of its paper (for Hvt-UCB ``radius="theory"``) with one multiplier on its
  radius from :data:`RADIUS_GRID` and, where it has a threshold, one on that from
  :data:`THRESHOLD_GRID`, chosen on seeds of their own and reported on fresh ones (see
  :mod:`heavytail.reproduction.tuning`).
- **theory**: the constants of its paper.
- **sharp**: Hvt-UCB's step at the whole of a width that is ours and proved
  (docs/mathematics/sharp.md). The proof takes nu for a bound on the moment: where a setting states
  less, there is none.

Policies that use a round's scale (``info.uses_scale``) are told nu_t; the others get the bound that
holds in every round, since that is all their papers allow them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from heavytail._validate import shown
from heavytail.experiments.experiment import Request
from heavytail.experiments.setting import Setting, build
from heavytail.experiments.tune import Point, Tuned
from heavytail.experiments.unit import Key
from heavytail.policies import ALL, Policy, make_policy
from heavytail.policies.build import find

__all__ = [
    "OWN",
    "PAPER",
    "RADIUS_GRID",
    "RECORDED",
    "THRESHOLD_GRID",
    "TUNED",
    "VARIANTS",
    "built",
    "entries",
    "grid_of",
    "one_pass",
    "options_of",
    "own_names",
    "own_policies",
    "policy_names",
    "rounds_of",
    "trials_of",
    "weight_of",
]

PAPER = ("HvtUCB", "HeavyOFUL", "OFUL", "CRTM", "CRMM")  # in the paper's order
OWN = ("TwinUCB",)  # ours, the library's default: shown beside them, untuned alone
VARIANTS = ("untuned", "tuned", "theory", "sharp")
RADIUS_GRID = tuple(10.0 ** (k / 2) for k in range(-8, 1))  # 1e-4 .. 1
THRESHOLD_GRID = tuple(10.0 ** (k / 2) for k in range(-4, 1))  # 0.01 .. 1
RECORDED = Path(__file__).with_name("recorded")
TUNED = RECORDED / "tuned.json"
MANY = 10  # times as many trials for what the report compares and one pass makes cheap
_WEIGHTS = {"HeavyOFUL": 5}


def policy_names(everyone: bool = False, own: Sequence[str] = ()) -> tuple[str, ...]:
    """The paper's five and ours, or all that learn from any reward, as classes; and a user's own
    paths. The worlds are linear: who takes rewards of 0 and 1 alone has no part in them.
    """
    taken = {kind.name: kind for kind in ALL}
    for path in own:
        kind = find(path)
        if taken.setdefault(kind.name, kind) is not kind:
            raise ValueError(
                f"--policy {path} calls itself {shown(kind.name)}, as another does. Give it another"
                " name, so that figures tell them apart."
            )
    known = [kind.__name__ for kind in ALL if kind.info.rewards == "any"]
    paper = [name for name in (*PAPER, *OWN) if name in known]
    rest = [name for name in known if name not in paper] if everyone else []
    return tuple(dict.fromkeys((*paper, *rest, *own)))


def own_names(request: Request) -> list[str]:
    """The paths of the user's own policies."""
    return [name for name in request.policies if ":" in name]


def own_policies(request: Request, **problem: Any) -> dict[Key, Policy]:
    """The user's own, untuned, for a problem that is not a setting, by (policy, variant)."""
    options = {name: options_of(name, "untuned") for name in own_names(request)}
    return {
        (find(name).name, "untuned"): make_policy(name, **problem, **options[name])
        for name in options
    }


def options_of(name: str, variant: str) -> dict[str, Any]:
    """The options that make a policy ``variant``, multipliers apart."""
    accepted = inspect.signature(find(name)).parameters
    options: dict[str, Any] = {}
    if "solver" in accepted:
        options["solver"] = "lazy"
    if variant == "sharp":
        return {"radius": "sharp"}
    if variant != "untuned":
        theory = {"radius": "theory", "radius_scale": 1.0, "threshold_scale": 1.0}
        options |= {key: value for key, value in theory.items() if key in accepted}
    if variant == "tuned":
        options = {k: v for k, v in options.items() if not k.endswith("_scale")}
    return options


def one_pass(name: str) -> bool:
    """Tell whether a round's stated cost is free of t: "O(d^2)" is, "O(K t log T)" is not."""
    words = find(name).info.cost.removeprefix("O(").removesuffix(")").split()
    return "t" not in words


def weight_of(name: str) -> int:
    """The duration of a trial, in trials of a one-pass policy."""
    return _WEIGHTS.get(name, 1)


def trials_of(name: str, variant: str, request: Request) -> int:
    """The number of trials: ``request.trials``, and more for what the report compares.

    Ten times as many for a tuned one-pass policy, and for Hvt-UCB and Twin-UCB untuned or sharp;
    twice as many for a tuned policy that keeps its history. In a quick look all have the same.
    """
    if request.quick:
        return request.trials
    if variant == "tuned":
        return request.trials * (MANY if one_pass(name) else 2)
    many = variant in ("untuned", "sharp") and name in (PAPER[0], *OWN)
    return request.trials * (MANY if many else 1)


def rounds_of(setting: Setting, request: Request) -> int:
    """T."""
    return request.rounds or (6_000 if request.quick else setting.rounds)


def built(name: str, variant: str, setting: Setting, rounds: int, tuned: Tuned) -> Policy | None:
    """A policy in a variant; None where it is to be tuned and no multipliers are recorded."""
    options = options_of(name, variant)
    if variant == "sharp":
        options["theta_bound"] = setting.theta_bound
    if variant == "tuned":
        chosen = tuned.options(setting.tuned_as, name)
        if chosen is None:
            return None
        options |= chosen
    return build(name, setting, rounds, **options)


def entries(
    setting: Setting, names: Iterable[str], rounds: int, tuned: Tuned
) -> dict[Key, tuple[str, Policy]]:
    """(policy, variant): the class's name and the policy, for every variant that is shown of it."""
    policies: dict[Key, tuple[str, Policy]] = {}
    for variant in VARIANTS:
        for name in names:
            if variant != "untuned" and name in OWN:
                continue
            if variant == "sharp" and name != PAPER[0]:
                continue
            policy = built(name, variant, setting, rounds, tuned)
            if policy is not None:
                policies[find(name).name, variant] = name, policy
    return policies


def grid_of(name: str) -> list[Point]:
    """The multipliers tried for a policy: over its radius, and its threshold where it has one."""
    if name in OWN:
        return []
    accepted = inspect.signature(find(name)).parameters
    radii = RADIUS_GRID if "radius_scale" in accepted else ()
    thresholds = THRESHOLD_GRID if "threshold_scale" in accepted else ()
    if not thresholds:
        return [{"radius_scale": r} for r in radii]
    return [{"radius_scale": r, "threshold_scale": c} for r in radii for c in thresholds]
