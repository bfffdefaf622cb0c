"""A simulated shop for ``heavytail serve --demo``: visitors see one of five offers, and most of the
revenue comes from a few of them.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from heavytail._typing import FloatArray
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import StoreError
from heavytail.serve.model import built
from heavytail.serve.service import Service
from heavytail.serve.wire import DecideAmongVectors, ModelSpec, Reward

__all__ = ["NAME", "OFFERS", "SPEC", "Shop", "play", "prepare"]

log = logging.getLogger("heavytail.serve")

NAME = "demo-shop"
PER_SECOND = 20.0  # visitors
LATE = 1.0  # seconds until a reward comes, on average
SHAPE = 1.8  # of Lomax's law: the mean is finite, the variance is not
OFFERS: dict[str, tuple[float, float]] = {  # mean revenue, and how much more of a regular
    "free shipping": (3.0, 1.0),
    "10 % off": (2.0, 0.5),
    "a gift": (1.5, 2.5),
    "a bundle": (1.0, 0.0),
    "no offer": (0.6, 0.2),
}
SPEC = ModelSpec(dim=2 * len(OFFERS), explore=0.05, wait=3600.0)


class Shop:
    """Visitors and what they pay.

    A visitor is a regular with chance 0.3. The mean revenue is linear in the features: one per
    offer, and one per offer that is 1 for regulars only. The payment is the mean times a draw of
    Lomax's law with mean 1.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.means = np.array([[offer[0] for offer in OFFERS.values()],
                               [offer[1] for offer in OFFERS.values()]])  # fmt: skip

    def arms(self, regular: bool) -> FloatArray:
        """Features (5, 10) of the offers for a visitor, of norm at most 1."""
        eye = 0.7 * np.eye(len(OFFERS))
        return np.hstack([eye, eye if regular else 0.0 * eye])

    def revenue(self, arm: int, regular: bool) -> float:
        """Draw the revenue of a visitor who sees an offer."""
        mean = self.means[0, arm] + (self.means[1, arm] if regular else 0.0)
        return float(mean * (SHAPE - 1.0) * self.rng.pareto(SHAPE))


def prepare() -> None:
    """Compile what the demo's model needs, so that no visitor waits for it."""
    policy, arms = built(SPEC), Shop().arms(True)
    policy.update_many(arms[[policy.select(arms)]], np.ones(1))
    policy.diagnostics()


async def play(service: Service) -> None:
    """Send visitors until cancelled. If the service refuses, wait and try again."""
    try:
        await service.create(NAME, SPEC, "demo")
    except Refusal as refusal:
        log.error("the demo does not run: %s", refusal.message)
        return
    shop = Shop()
    async with asyncio.TaskGroup() as visits:
        while True:
            await asyncio.sleep(shop.rng.exponential(1.0 / PER_SECOND))
            visits.create_task(_visit(service, shop))


async def _visit(service: Service, shop: Shop) -> None:
    regular = bool(shop.rng.random() < 0.3)
    arms = shop.arms(regular).tolist()
    try:
        (decision,) = await service.decide(NAME, [DecideAmongVectors(arms, list(OFFERS))])
        await asyncio.sleep(shop.rng.exponential(LATE))
        await service.reward(NAME, [Reward(decision.token, shop.revenue(decision.arm, regular))])
    except (Refusal, StoreError) as error:  # paused, deleted or a full disk: the next may do
        log.debug("a visitor of the demo was lost: %s", error)
