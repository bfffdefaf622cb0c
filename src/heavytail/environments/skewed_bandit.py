"""Worlds where the law of the reward, not its mean alone, depends on the arm.

The mean stays affine in x, so a linear policy with an intercept is well specified; what it meets
around that mean is not the same for two arms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_choice, check_count, check_flag, check_number
from heavytail.environments.base import BLOCK, Block, Environment
from heavytail.environments.geometry import draw_arms, draw_direction, draw_offers, streams
from heavytail.environments.noise import (
    Gaussian,
    LogNormal,
    Noise,
    Pareto,
    Scaled,
    Uniform,
    describe,
)
from heavytail.tails import MomentBound

if TYPE_CHECKING:
    from heavytail.kernels.reward import Coefficients

__all__ = ["SKEWS", "Skew", "SkewedBandit"]


@dataclass(frozen=True)
class Skew:
    """The law of a reward, which depends on the arm x through z = x'u and w = x'v in [-1, 1].

        reward  = slope z + size eta + 1{U < chance} A amount
        size    = 1 + tilt z + across w
        amount  = 1 + dear z
        chance  = rate (1 + lift z) / amount
        A       = payment + payment_scale zeta

    with eta drawn from ``noise`` and zeta from ``payment_noise`` (0 where None), U uniform on
    (0, 1), each once a round for all arms. Since chance * amount is affine, so is the mean,

        E reward = rate payment + theta_bound z,    theta_bound = slope + rate lift payment > 0.
    """

    slope: float = 0.0
    noise: Noise | None = None
    tilt: float = 0.0
    across: float = 0.0
    rate: float = 0.0
    lift: float = 0.0
    dear: float = 0.0
    payment: float = 0.0
    payment_noise: Noise | None = None
    payment_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("slope", "payment", "payment_scale"):
            check_number(f"Skew.{name}", getattr(self, name))
        check_number("Skew.tilt", self.tilt, least=-1.0, most=1.0)
        room = 1.0 - abs(self.tilt)
        hint = "The size 1 + tilt z + across w must not be negative."
        check_number("Skew.across", self.across, least=-room, most=room, hint=hint)
        check_number("Skew.lift", self.lift, least=-1.0, most=1.0)
        check_number("Skew.dear", self.dear, above=-1.0, below=1.0)
        # A ratio of affine functions is monotone: the chance is largest at one of the ends.
        most = 1.0 / max((1.0 + s * self.lift) / (1.0 + s * self.dear) for s in (-1.0, 1.0))
        hint = "The chance rate (1 + lift z) / (1 + dear z) must not exceed 1."
        check_number("Skew.rate", self.rate, least=0.0, most=most, hint=hint)
        if self.noise is not None and not isinstance(self.noise, Noise):
            raise TypeError(f"Skew.noise must be one of heavytail.noise; got {self.noise!r}.")
        if self.payment_noise is not None and (
            not isinstance(self.payment_noise, Noise) or isinstance(self.payment_noise, Scaled)
        ):
            raise TypeError(
                "Skew.payment_noise must be a noise of constant scale, such as LogNormal(1.5); "
                f"got {self.payment_noise!r}."
            )
        hint = "It is slope + rate * lift * payment: the mean must rise along u."
        check_number("Skew.theta_bound", self.theta_bound, above=0.0, hint=hint)

    @property
    def theta_bound(self) -> float:
        """The length of theta*, by which the mean rises along u."""
        return self.slope + self.rate * self.lift * self.payment

    @property
    def coefficients(self) -> Coefficients:
        """The coefficients, as kernels take them."""
        from heavytail.kernels.reward import Coefficients

        return Coefficients(*(float(getattr(self, name)) for name in Coefficients._fields))

    @property
    def pays(self) -> bool:
        """Tell whether there is anything rare in it."""
        return self.rate > 0.0


_LOSS = Pareto(1.5)  # from 1 on, with mean 3
_BASKET = LogNormal(1.5)
_SHOP = {"payment": 10.0 * math.exp(1.5**2 / 2.0), "payment_noise": _BASKET, "payment_scale": 10.0}

SKEWS = {
    # A prize of 50, the likelier the better the arm, whose usual rounds are the worse for it.
    "jackpot": Skew(slope=-0.3, noise=Uniform(), rate=0.02, lift=0.9, payment=50.0),
    # Losses of mean 20 and index 1.5, up to 4 % of the rounds of the worst arm.
    "catastrophe": Skew(
        noise=Gaussian(0.3),
        rate=0.02,
        lift=-0.9,
        payment=-20.0,
        payment_noise=_LOSS,
        payment_scale=-20.0 / _LOSS.mean,
    ),
    # Skewed noise whose size is linear in x: along a direction of its own, or along the mean.
    "size": Skew(slope=1.0, noise=LogNormal(1.0), across=0.9),
    "aligned": Skew(slope=0.5, noise=LogNormal(1.0), tilt=0.9),
    # A shop with 95 % zeros: better offers sell oftener, for more, or for more though less often
    # (the chance falls from 15 % at z = -1 to 3.9 % at z = 1, the mean rises).
    "conversion": Skew(rate=0.05, lift=0.8, **_SHOP),  # type: ignore[arg-type]
    "amounts": Skew(rate=0.05, lift=0.8, dear=0.8, **_SHOP),  # type: ignore[arg-type]
    "dear": Skew(rate=0.05, lift=0.4, dear=0.8, **_SHOP),  # type: ignore[arg-type]
}


class SkewedBandit(Environment):
    """Rewards whose law depends on the arm, with means affine in x; regret is noiseless.

    Arms are unit vectors as in :class:`LinearBandit`; u and v are unit directions drawn with each
    trial, independent of each other, and theta* = theta_bound u.

    >>> import heavytail as ht
    >>> world = ht.SkewedBandit(2, arms=50, skew="jackpot")
    >>> world.tail_index, world.symmetric, round(world.theta_bound, 3)
    (inf, False, 0.6)
    >>> ht.SkewedBandit(2, arms=50, skew="size", noise=ht.noise.Pareto(1.7))
    SkewedBandit(dim=2, arms=50, skew='size', noise=Pareto(b=1.7))

    Args:
        dim: length of a feature vector.
        arms: how many arms there are (in the pool, or new each round).
        skew: a :class:`Skew`, or the name of one in ``SKEWS``: "jackpot", "catastrophe", "size",
            "aligned", "conversion", "amounts" or "dear".
        noise: instead of the skew's own.
        offered: show a random subset of this size each round.
        fresh: draw new arms every round.
    """

    arm_bound = 1.0
    normalize = "unit"

    def __init__(
        self,
        dim: int,
        arms: int,
        skew: Skew | str,
        *,
        noise: Noise | None = None,
        offered: int | None = None,
        fresh: bool = False,
    ) -> None:
        self.dim = check_count("SkewedBandit.dim", dim)
        self.arms = check_count("SkewedBandit.arms", arms)
        self._told = skew, noise
        if isinstance(skew, str):
            skew = SKEWS[check_choice("SkewedBandit.skew", skew, tuple(SKEWS))]
        if not isinstance(skew, Skew):
            raise TypeError(
                f"SkewedBandit.skew must be a Skew or one of {', '.join(SKEWS)}; got {skew!r}."
            )
        self.skew = skew if noise is None else replace(skew, noise=noise)
        self.noise = self.skew.noise
        self.theta_bound = self.skew.theta_bound
        self.fresh = check_flag("SkewedBandit.fresh", fresh)
        self.offered = None if offered is None else check_count("SkewedBandit.offered", offered)
        if self.offered is not None and (self.offered > self.arms or self.fresh):
            raise ValueError(
                f"SkewedBandit.offered must be at most arms={self.arms}, and not with fresh=True; "
                f"got {offered!r}."
            )
        laws = [self.noise, self.skew.payment_noise if self.skew.pays else None]
        self.tail_index = min((law.index for law in laws if law is not None), default=math.inf)
        self.symmetric = not self.skew.pays and (self.noise is None or self.noise.symmetric)
        self.fixed_arms = not self.fresh and (self.offered is None or self.offered == self.arms)

    @property
    def rewards(self) -> str:
        """At least 0 in a shop: nothing, or a payment; of any sign elsewhere."""
        shop = self.noise is None and self.skew.payment > 0.0
        return "at least 0" if shop else "any"

    def __repr__(self) -> str:
        skew, noise = self._told
        parts = [f"dim={self.dim}", f"arms={self.arms}", f"skew={skew!r}"]
        given = {"noise": noise, "offered": self.offered, "fresh": self.fresh or None}
        parts += [f"{key}={value!r}" for key, value in given.items() if value is not None]
        return f"SkewedBandit({', '.join(parts)})"

    def describe(self) -> dict[str, Any]:
        """The environment as plain data, for results and settings files."""
        skew = {**asdict(self.skew)}
        for key in ("noise", "payment_noise"):
            law = getattr(self.skew, key)
            skew[key] = None if law is None else describe(law)
        keys = ("dim", "arms", "offered", "fresh")
        return {**{key: getattr(self, key) for key in keys}, "skew": skew}

    def tail(self, order: float) -> MomentBound:
        """A bound on the central moment of every arm's reward, ready to hand to a policy.

        By Minkowski: nu <= size ‖eta‖ + amount (chance^(1/order) ‖A‖ + chance |E A|), where ‖A‖ <=
        |payment| + |payment_scale| ‖zeta‖, each factor at its largest.
        """
        if not order < self.tail_index:
            raise ValueError(
                f"{self!r} has no finite moment of order {order:g}: "
                f"pass an order below {self.tail_index:g}."
            )
        c = self.skew
        nu = 0.0 if c.noise is None else (1.0 + abs(c.tilt) + abs(c.across)) * c.noise.scale(order)
        if c.pays:
            paid = abs(c.payment)
            if c.payment_noise is not None:
                paid += abs(c.payment_scale) * c.payment_noise.scale(order)
            often, dear = c.rate * (1.0 + abs(c.lift)), 1.0 + abs(c.dear)
            # chance^(1/p) amount = (chance amount)^(1/p) amount^(1 - 1/p)
            nu += often ** (1.0 / order) * dear ** (1.0 - 1.0 / order) * paid
            nu += often * abs(c.payment)
        return MomentBound(order=order, scale=nu)

    def theta(self, seed: np.random.SeedSequence) -> FloatArray:
        """theta* of the trial that ``seed`` deals."""
        return self.theta_bound * draw_direction(streams(seed, 1)[0], self.dim, 1.0)

    def shapes(self, z: FloatArray, w: FloatArray) -> FloatArray:
        """Base, size, chance and amount of the arms at z = x'u and w = x'v, in a last axis."""
        from heavytail.kernels.reward import shape_of

        formula = getattr(shape_of, "py_func", shape_of)
        return np.stack(np.broadcast_arrays(*formula(z, w, self.skew.coefficients)), axis=-1)

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        along, geometry, noise, factors, offers, across, events, payments = streams(seed, 8)
        u, v = (draw_direction(rng, self.dim, 1.0) for rng in (along, across))
        pool = None if self.fresh else self._arms(geometry, 1)[0]
        while True:
            arms = self._arms(geometry, BLOCK) if pool is None else pool
            z = arms @ u
            eta, factor = np.zeros(BLOCK), None
            if self.noise is not None:
                eta, factor = self.noise.sample(noise, BLOCK), self.noise.factors(factors, BLOCK)
            offered = None
            if self.offered is not None:
                offered = draw_offers(offers, BLOCK, self.arms, self.offered)
            yield Block(
                arms=arms,
                means=self.skew.rate * self.skew.payment + self.theta_bound * z,
                noise=eta if factor is None else eta * factor,
                factor=factor,
                offered=offered,
                shapes=self.shapes(z, arms @ v),
                events=np.stack([events.random(BLOCK), self._payments(payments)], axis=-1),
            )

    def _payments(self, rng: np.random.Generator) -> FloatArray:
        law = self.skew.payment_noise
        zeta = np.zeros(BLOCK) if law is None else law.sample(rng, BLOCK)
        return self.skew.payment + self.skew.payment_scale * zeta

    def _arms(self, rng: np.random.Generator, rounds: int) -> FloatArray:
        return draw_arms(rng, (rounds, self.arms, self.dim), self.arm_bound, together=False)
