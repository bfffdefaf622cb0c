"""Simulated shops whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np

import heavytail as ht

SHARE = {"none": 0.1, "card": 0.15, "bundle": 0.12}  # of the visits that pay
AMOUNT = {"none": 10.0, "card": 8.0, "bundle": 16.0}
TAIL = 1.8


def worth(offer: str, segment: str) -> float:
    """The mean reward of an offer."""
    more = 1.8 if (offer, segment) == ("bundle", "returning") else 1.0
    return SHARE[offer] * AMOUNT[offer] * more


def earned(rng: np.random.Generator, offer: str, segment: str) -> float:
    if rng.random() >= SHARE[offer]:
        return 0.0
    mean = worth(offer, segment) / SHARE[offer]
    return float((1.0 + rng.pareto(TAIL)) * (TAIL - 1.0) / TAIL * mean)


def visits(
    count: int, seed: int = 0, *, explore: float = 0.3, **options: Any
) -> tuple[ht.Decider, list[tuple[str, str]]]:
    """A shop after so many visits, and each visit's offer and segment."""
    rng = np.random.default_rng(seed)
    shop = ht.Decider(
        [{"sku": name} for name in SHARE], ids="sku", context=["segment"], explore=explore,
        seed=seed, **options,
    )  # fmt: skip
    seen = []
    for number in range(count):
        segment = "returning" if rng.random() < 0.4 else "new"
        choice = shop.decide({"segment": segment}, now=1.7e9 + 60.0 * number)
        shop.reward(choice.token, earned(rng, choice.id, segment))
        seen.append((choice.id, segment))
    return shop, seen


def learned(count: int, seed: int, effect: float) -> ht.Decider:
    """A shop that learned a log of random offers; "b" is worth ``effect`` more to "returning"."""
    rng = np.random.default_rng(seed)
    segment = rng.choice(["new", "returning"], count, p=[0.6, 0.4])
    basket = rng.gamma(2.0, 20.0, count)
    offer = rng.choice(["a", "b"], count)
    mean = 5.0 + effect * ((segment == "returning") & (offer == "b"))
    noise = (1.0 + rng.pareto(1.7, count)) * 0.7 / 1.7
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["segment", "basket"])
    log = {"segment": segment, "basket": basket, "sku": offer, "reward": mean * noise}
    shop.learn(log, progress=False)
    return shop
