"""Bad values for every keyword of every public constructor, by census over their signatures.

A value that cannot be what the annotation says must be refused. An extreme one may be refused or
taken; what is then made must work: remember no NaN, be copied, saved, loaded, and take good calls.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.control.tools import cautious
from tests.fuzz import agents, control, deciders
from tests.fuzz.player import deep, through_file
from tests.fuzz.values import BAD_COUNTS, NO_NUMBERS, bad_arrays, shown

import heavytail as ht
from heavytail import environments, estimators, mdp, noise, tails
from heavytail.checks.policies import paid
from heavytail.policies import ALL

TAIL = ht.MomentBound(2.0, 1.0)
LAW = noise.StudentT(2.1)
Recipe = tuple[Callable[..., Any], dict[str, Any]]

NONE_OF_OURS: list[Any] = [*NO_NUMBERS, 1.0, -1, np.nan, TAIL.__class__, "no such word", [LAW]]
EXTREMES: list[Any] = [
    0, 0.0, -0.0, -1, -1.0, 1, 0.5, 1.0, np.inf, -np.inf, np.nan, 5e-324, 1e-320, 1e-200, 1e-100,
    1e-50, 1e50, 1e100, 1e101, 1e160, 1e300, 1.7e308, 2**53, 2**62, 2**64, 10**18, 10**400,
    np.int8(3), 1 - 1e-16, 1 + 1e-15,
]  # fmt: skip
SIZES = {"dim", "n", "d", "arms", "copies", "groups", "states", "actions", "horizon", "offered"}
SIZES |= {"repeats", "episodes", "forced", "keep", "d1", "d2", "rank", "kept", "explore"}
# What is found and not mended yet, and why it happens; counted as known. By what is found, then by
# constructor and keyword, where "" is any.
KNOWN: dict[str, dict[tuple[str, str], str]] = {
    "accepted but bad": {},
    "made but broken": {},
    "other exceptions": {},
}
# Keywords that take what their annotation would not tell, and why.
ANYTHING_GOES = {
    "name": "a label: anything has a str",
    "seed": "a whole number of any size",
}
# Keywords for which some of what is bad elsewhere is good, by its type, and why.
GOOD_HERE: dict[str, tuple[tuple[type, ...], str]] = {
    "offers": ((str, type(None)), "a text is the path of a file; prices need no offers"),
    "context": ((dict,), "no columns"),
    "rules": ((dict,), "no rules"),
    "limits": ((dict,), "no limits"),
}


def families() -> dict[str, list[Recipe]]:
    """Every public constructor with arguments that are good, by the kind of what it makes."""
    bandit = {"dim": 2, "horizon": 1000, "tail": TAIL, "arms": 4, "noise_scale": 1.0}
    bandit |= {"d1": 3, "d2": 2}
    world, system = agents.WORLD, control.SYSTEM
    steering = {"Q": system.Q, "R": system.R, "fallback": cautious(system), "warmup": 3}
    steering["identifier"] = ht.control.SystemIdentifier(control.N, control.D)
    episode = {"features": world.features, "horizon": 2, "episodes": 50, "tail": TAIL}
    laws = {"share": 0.1, "c": 2.5, "sigma": 0.5, "b": 2.5, "noise": LAW, "spread": 0.5}
    laws |= {"alpha": 1.7, "df": 2.1, "bound": 1.0, "sd": 1.0, "factor": 3.0}
    skew = {"slope": 1.0, "noise": LAW, "rate": 0.02, "lift": 0.5, "payment": 3.0}
    game = {"dim": 2, "arms": 4, "noise": LAW, "skew": environments.Skew(**skew)}
    matrices = {"A": system.A, "B": system.B, "Q": system.Q, "R": system.R, "noise": LAW}
    chances = {"features": world.features, "theta": world.theta, "mu": world.mu, "noise": LAW}
    chances["start"] = world.start
    regress = {name: {} for name in estimators.ALL}
    made = noise.__all__
    return {
        "policies": [takes(kind, bandit) for kind in ALL],
        "agents": [takes(kind, episode) for kind in mdp.ALL],
        "identifiers": [takes(kind, {"n": 2, "d": 1}) for kind in control.IDENTIFIERS],
        "controllers": [takes(kind, steering) for kind in control.CONTROLLERS],
        "regressions": [takes(getattr(estimators, name), told) for name, told in regress.items()],
        "deciders": [
            takes(ht.Decider, deciders.TABLE),
            takes(ht.Decider, deciders.PRICED),
            takes(ht.Decider, deciders.BARE),
        ],
        "noise": [takes(getattr(noise, name), laws) for name in made if name != "Noise"],
        "worlds": [
            takes(environments.LinearBandit, game),
            takes(environments.SkewedBandit, {**game, "noise": None}),
            takes(environments.Skew, skew),
            takes(environments.LowRankBandit, {**game, "d1": 3, "d2": 2, "rank": 1}),
            takes(ht.control.LQSystem, matrices),
            takes(mdp.LinearMDP, chances),
            takes(
                mdp.random_mdp, {"noise": LAW, "states": 4, "actions": 2, "horizon": 2, "dim": 3}
            ),
            takes(mdp.combination_lock, {"noise": LAW, "horizon": 3, "actions": 2}),
            takes(mdp.river_swim, {"noise": LAW, "states": 3, "horizon": 2}),
        ],
        "tails": [
            takes(tails.MomentBound, {"order": 1.5, "scale": 1.0}),
            takes(tails.TailMonitor, {"keep": 100}),
            takes(ht.Grid, {"low": 5.0, "high": 50.0, "count": 10}),
            takes(ht.Pool, {"arms": np.eye(2)}),
            takes(ht.confidence.lemma_1, {"dim": 2, "order": 1.5, "horizon": 100}),
        ],
    }


def takes(make: Callable[..., Any], told: dict[str, Any]) -> Recipe:
    """``make`` with those of the arguments that it has."""
    return make, {k: v for k, v in told.items() if k in inspect.signature(make).parameters}


def cannot_be(note: str, name: str, good: Any) -> list[Any]:
    """What is not of the annotated type, whatever the keyword means."""
    if name in GOOD_HERE:
        return [v for v in NONE_OF_OURS if not isinstance(v, GOOD_HERE[name][0])]
    kinds = set(note.replace(" ", "").split("|"))
    if name in ANYTHING_GOES:
        return [] if name == "name" else [v for v in BAD_COUNTS if not isinstance(v, int | float)]
    bad: list[Any] = [] if "None" in kinds else [None]
    if "bool" in kinds:
        return [*bad, "no", "True", 1, 0.0, 2, np.nan, b"", [], object(), np.array([True])]
    if "int" in kinds:
        return [*bad, *(v for v in BAD_COUNTS if v is not None)]
    if "float" in kinds:
        words = [v for v in NO_NUMBERS if not ("str" in kinds and isinstance(v, str))]
        return [*bad, *words, np.nan, 10**400] + ["no such word"] * ("str" in kinds)
    if "ArrayLike" in kinds:
        return [*bad, *bad_arrays(good)]
    return [*bad, *NONE_OF_OURS]


def extremes(note: str, name: str) -> list[Any]:
    """Numbers that may be refused or taken."""
    kinds = set(note.replace(" ", "").split("|"))
    if not kinds & {"int", "float"}:
        return []
    if name in SIZES:  # one that barely fits into memory takes it
        return [*(v for v in EXTREMES if not 8 < v < 2**53), 10**12, 2**52]
    return EXTREMES


def used(kind: str, made: Any) -> None:
    """What has been made must work: exceptions other than a refusal of a reward are errors."""
    if kind in ("policies", "agents", "identifiers", "controllers", "deciders"):
        learn(kind, made)
        sound(made)
        sound(made.clone())
        if through_file(made).saved_arrays().keys() != made.saved_arrays().keys():
            raise AssertionError("another comes back from its file")
    elif kind == "regressions":
        X = np.random.default_rng(0).normal(size=(40, 2))
        made.fit(X, X.sum(axis=1))
        if not np.isfinite(made.predict(X)).all():
            raise AssertionError("predicts no numbers")
        sound(through_file(deep(made)))
    elif isinstance(made, noise.Noise):
        if not np.isfinite(made.sample(np.random.default_rng(0), 100)).all():
            raise AssertionError("draws what is not finite")
    elif isinstance(made, environments.Environment):
        block = next(iter(made.blocks(np.random.SeedSequence(0), 3)))
        if np.isnan(block.arms).any() or np.isnan(block.noise).any():
            raise AssertionError("deals a NaN")


def sound(made: Any) -> None:
    for key, array in made.saved_arrays().items():
        may_miss = key in deciders.MAY_MISS
        if array.dtype.kind == "f" and np.isnan(array).any() and not may_miss:
            raise AssertionError(f"remembers a NaN in {key}")


def arms_for(policy: Any, rng: np.random.Generator) -> np.ndarray:
    """Four arms of the policy's dimension and no longer than it was told."""
    arms = rng.normal(size=(4, policy.dim))
    bound = min(1.0, float(policy._arguments.get("arm_bound") or 1.0))
    return 0.9 * bound * arms / np.linalg.norm(arms, axis=1, keepdims=True)


def learn(kind: str, made: Any) -> None:
    """A few good calls; a reward that leaves the range of what was stated may be refused."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        try:
            if kind == "policies":
                arms = arms_for(made, rng)
                made.update(arms[made.select(arms)], paid(made, float(rng.normal())))
            elif kind == "agents":
                stage = int(made.state["scalars"]["stage"])
                made.update(stage, 0, made.act(stage, 0), float(rng.normal()), 1)
            elif kind == "deciders":
                deciders.play(made, rng)
            elif kind == "identifiers":
                made.update(rng.normal(size=made.n), rng.normal(size=made.d), np.zeros(made.n))
            else:
                x = rng.normal(size=control.N)
                made.update(x, made.act(x), 0.5 * x)
        except ValueError as error:
            if "range" not in str(error) and "finite index" not in str(error):
                raise


class Maker:
    """Calls of constructors at random; counts what came of them."""

    def __init__(self, kind: str, recipes: list[Recipe], rng: Any, found: Counter) -> None:
        self.kind, self.recipes, self.rng, self.found = kind, recipes, rng, found

    def step(self) -> None:
        make, good = self.recipes[self.rng.integers(len(self.recipes))]
        parameters = list(inspect.signature(make).parameters.values())
        one = parameters[self.rng.integers(len(parameters))]
        note = str(one.annotation)
        never = cannot_be(note, one.name, good.get(one.name))
        perhaps = extremes(note, one.name)
        options = [(v, True) for v in never] + [(v, False) for v in perhaps]
        if not options:
            return
        value, wrong = options[self.rng.integers(len(options))]
        self.found["calls"] += 1
        call = f"{make.__name__}({one.name}={shown(value)})"
        try:
            made = make(**{**good, one.name: value})
            if wrong and self.kind == "regressions":  # they look at their arguments in fit
                made.fit(np.eye(3)[:, :2], np.ones(3))
        except (ValueError, TypeError):
            self.found["refused"] += 1
            return
        except Exception as error:
            self.fail("other exceptions", call, error)
            return
        if wrong:
            self.fail("accepted but bad", call)
            return
        try:
            used(self.kind, made)
        except (ValueError, TypeError) as error:
            if self.kind == "regressions":
                self.found["refused"] += 1
            else:
                self.fail("made but broken", call, error)
        except Exception as error:
            self.fail("made but broken", call, error)

    def fail(self, what: str, call: str, error: Exception | None = None) -> None:
        """Count it."""
        make, _, rest = call.partition("(")
        name = rest.partition("=")[0]
        if KNOWN[what].keys() & {(make, name), (make, ""), ("", name)}:
            self.found["known"] += 1
            return
        how = call if error is None else f"{call}: {error!r}"
        self.found[what] += 1
        if self.found[what] <= 25:
            print(f"{what}: {how}", flush=True)
