"""Small shops for the tests of a Decider."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import heavytail as ht

OFFERS = [
    {"sku": "card", "price": 19.0},
    {"sku": "loan", "price": 49.0},
    {"sku": "tea", "price": 3},
]
COLUMNS = ["segment", "basket"]


def shop(rewards: int = 0, seed: int = 0, **options: Any) -> ht.Decider:
    """A shop that has learned some rewards."""
    made = ht.Decider(OFFERS, ids="sku", **{"context": COLUMNS, "seed": 3, **options})
    rng = np.random.default_rng(seed)
    for _ in range(rewards):
        made.reward(made.decide(visit(rng), now=1e6).token, float(rng.standard_t(2.1)))
    return made


def visit(rng: np.random.Generator) -> dict[str, Any]:
    """A context, some of whose values are missing."""
    segment = [None, "new", "old", "lapsed"][int(rng.integers(4))]
    return {"segment": segment, "basket": None if rng.random() < 0.1 else float(rng.normal())}


def log(n: int, seed: int = 1) -> dict[str, Any]:
    """A log of another's decisions."""
    rng = np.random.default_rng(seed)
    return {
        "sku": [OFFERS[i]["sku"] for i in rng.integers(3, size=n)],
        "segment": [("new", "old")[i] for i in rng.integers(2, size=n)],
        "basket": rng.normal(size=n),
        "reward": rng.standard_t(2.1, n),
        "propensity": np.full(n, 1 / 3),
    }


def snap(decider: ht.Decider) -> dict[str, bytes]:
    """Every byte of its state."""
    return {name: array.tobytes() for name, array in decider.state_arrays().items()}


def nameless(decider: ht.Decider) -> dict[str, Any]:
    """Its state without the names of its runs, which alone differ after loading."""
    arrays: dict[str, Any] = dict(snap(decider))
    told = json.loads(arrays["told"])
    told["tokens"]["runs"] = []
    return {**arrays, "told": told}
