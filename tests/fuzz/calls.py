"""Calls at random on everything public; counts by kind."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz import agents, control, deciders, encoders, estimators, policies
from tests.fuzz.constructors import Maker, families
from tests.fuzz.player import Player

ANEW = 300  # calls on one object: histories grow

# The kind, its player, what is played, and its share of the calls.
Kind = tuple[type[Player], list[Callable[[], Any]], float]
KINDS: dict[str, Kind] = {
    "policies": (policies.PolicyPlayer, policies.builders(), 0.38),
    "agents": (agents.AgentPlayer, agents.builders(), 0.12),
    "controllers": (control.ControllerPlayer, control.controllers(), 0.07),
    "identifiers": (control.IdentifierPlayer, control.identifiers(), 0.07),
    "regressions": (estimators.RegressionPlayer, estimators.regressions(), 0.08),
    "deciders": (deciders.DeciderPlayer, deciders.builders(), 0.04),
    "encoders": (encoders.EncoderPlayer, encoders.encoders(), 0.04),
    "tails": (estimators.MonitorPlayer, [estimators.monitor], 0.04),
    "pools": (estimators.PoolPlayer, [estimators.pool], 0.04),
}
CONSTRUCTORS = 0.12


def fuzz(calls: int, seed: int) -> dict[str, Counter]:
    """So many calls in all, spread over the kinds; what was counted of each."""
    found: dict[str, Counter] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind, (player, makers, share) in KINDS.items():
            found[kind] = Counter()
            for k, make in enumerate(makers):
                rng = np.random.default_rng([seed, len(found), k])
                count = round(calls * share / len(makers))
                _play(functools.partial(player, make, rng, found[kind]), count)
        made = families()
        for k, (kind, recipes) in enumerate(made.items()):
            counter = found[f"constructors: {kind}"] = Counter()
            rng = np.random.default_rng([seed, 99, k])
            maker = Maker(kind, recipes, rng, counter)
            every = sum(len(one) for one in made.values())
            for _ in range(round(calls * CONSTRUCTORS * len(recipes) / every)):
                maker.step()
    return found


def _play(begin: Callable[[], Player], count: int) -> None:
    for done in range(count):
        if done % ANEW == 0:
            player = begin()
        player.step()
