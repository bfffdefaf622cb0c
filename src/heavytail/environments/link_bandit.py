"""Clicks and counts: bandits whose mean reward is a link of a linear score."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_count, check_flag, check_number
from heavytail.environments.base import BLOCK, Block, Environment
from heavytail.environments.geometry import draw_arms, draw_direction, draw_offers, streams
from heavytail.environments.noise import Gaussian
from heavytail.tails import MomentBound

if TYPE_CHECKING:
    from heavytail.kernels.counts import LinkLaw
    from heavytail.links import Link

__all__ = ["LinkBandit"]

LEAST: Final = 1e-200  # of a variance: where every reward is the same, in the doubles' range
FARTHEST: Final = 1e90  # the largest factor: the moments of its outliers are in the range
HIGHEST: Final = 10.0  # the largest score of a count: its mean is then 22,026


class LinkBandit(Environment):
    r"""Rewards of mean mu(base + x'theta*): clicks, counts, or normal ones; regret is noiseless.

    | link | a reward, given its mean $\mu$ |
    | --- | --- |
    | `logistic`, `probit` | 1 with probability $\mu$, else 0 |
    | `log` | Poisson; in a share ``outliers`` of the rounds ``factor`` times that |
    | `identity` | $\mathcal N(\mu, 1)$ |

    Regret is in true means, against the best arm offered; with outliers all means are
    1 + outliers (factor - 1) times mu. What a round draws is the same for all its arms. Arms and
    theta* are those of :class:`LinearBandit`, with ‖theta*‖ = theta_bound.

    >>> import heavytail as ht
    >>> world = ht.LinkBandit(2, arms=20, link="logistic", theta_bound=3.0, base=-2.0)
    >>> world
    LinkBandit(dim=2, arms=20, link='logistic', theta_bound=3.0, base=-2.0)
    >>> clicks = ht.GLBOMD(2, link="logistic")
    >>> found = ht.simulate([clicks], world, rounds=100, trials=2, seed=0)

    Args:
        dim: length of a feature vector.
        arms: how many arms there are (in the pool, or new each round).
        link: "logistic", "probit", "log" or "identity"; or one of ``heavytail.links``.
        theta_bound: the length of theta*.
        base: the score of x = 0. With the log link no score may exceed 10, a mean of 22,026.
        arm_bound: the length of every arm.
        offered: show a random subset of this size each round.
        fresh: draw new arms every round.
        outliers: the share of rounds whose count is multiplied; log link only.
        factor: by how much, at most 1e90.
    """

    normalize = "unit"

    def __init__(
        self,
        dim: int,
        arms: int,
        link: str | Link,
        *,
        theta_bound: float = 1.0,
        base: float = 0.0,
        arm_bound: float = 1.0,
        offered: int | None = None,
        fresh: bool = False,
        outliers: float = 0.0,
        factor: float = 1000.0,
    ) -> None:
        from heavytail.links import named

        self.dim = check_count("LinkBandit.dim", dim)
        self.arms = check_count("LinkBandit.arms", arms)
        self.link = named("LinkBandit.link", link)
        self.theta_bound = check_number("LinkBandit.theta_bound", theta_bound, above=0.0)
        self.base = check_number("LinkBandit.base", base)
        self.arm_bound = check_number("LinkBandit.arm_bound", arm_bound, above=0.0)
        self.fresh = check_flag("LinkBandit.fresh", fresh)
        self.offered = None if offered is None else check_count("LinkBandit.offered", offered)
        if self.offered is not None and (self.offered > self.arms or self.fresh):
            raise ValueError(
                f"LinkBandit.offered must be at most arms={self.arms}, and not with fresh=True; "
                f"got {offered!r}."
            )
        self.outliers = check_number("LinkBandit.outliers", outliers, least=0.0, below=1.0)
        self.factor = check_number("LinkBandit.factor", factor, above=0.0, most=FARTHEST)
        self._check_counts()
        self.noise = Gaussian() if self.link.name == "identity" else None
        self.symmetric = self.noise is not None
        self.fixed_arms = not self.fresh and (self.offered is None or self.offered == self.arms)

    def _check_counts(self) -> None:
        if self.link.name != "log":
            if self.outliers > 0.0:
                raise ValueError(
                    f"LinkBandit.outliers must be 0 with the {self.link.name} link; got "
                    f'{self.outliers!r}. Only counts have outliers: use link="log".'
                )
        elif self.top > HIGHEST:
            raise ValueError(
                "LinkBandit.base must be at most 10 - theta_bound * arm_bound with the log link; "
                f"got a largest score of {self.top:g}, a mean of e^{self.top:g}. Lower base or "
                "theta_bound."
            )

    @property
    def rewards(self) -> str:
        """Those of its link."""
        return self.link.rewards

    @property
    def top(self) -> float:
        """The largest score that an arm may have."""
        return self.base + self.theta_bound * self.arm_bound

    @property
    def lift(self) -> float:
        """The factor by which outliers multiply every mean."""
        return 1.0 + self.outliers * (self.factor - 1.0)

    @property
    def law(self) -> LinkLaw:
        """The law of the rewards, as kernels take it."""
        from heavytail.kernels.counts import LinkLaw

        return LinkLaw(self.link.code, self.base, self.outliers, self.factor)

    def __repr__(self) -> str:
        parts = [f"dim={self.dim}", f"arms={self.arms}", f"link={self.link.name!r}"]
        defaults = {
            "theta_bound": 1.0,
            "base": 0.0,
            "arm_bound": 1.0,
            "offered": None,
            "fresh": False,
            "outliers": 0.0,
            "factor": 1000.0,
        }
        parts += [f"{k}={getattr(self, k)!r}" for k, v in defaults.items() if getattr(self, k) != v]
        return f"LinkBandit({', '.join(parts)})"

    def describe(self) -> dict[str, Any]:
        """The environment as plain data, for results and settings files."""
        keys = ("dim", "arms", "theta_bound", "base", "arm_bound", "offered", "fresh")
        settings = {key: getattr(self, key) for key in (*keys, "outliers", "factor")}
        return {**settings, "link": self.link.name}

    def tail(self, order: float) -> MomentBound:
        """A bound on the central moment of every arm's reward, ready to hand to a policy.

        Up to order 2 the standard deviation is one, at its largest: 1/2 of a click where a mean of
        1/2 is within reach, and with E J = 1 + outliers (factor - 1) of a count times J

            Var = E[J²] (mu + mu²) - (E J)² mu²,    E[J²] = 1 + outliers (factor² - 1).
        """
        if self.noise is not None:
            return self.noise.tail(order)
        if self.link.name == "log":
            mu = float(self.link.mean(self.top))
            square = 1.0 + self.outliers * (self.factor**2 - 1.0)
            variance = square * (mu + mu * mu) - (self.lift * mu) ** 2
        else:
            reach = self.theta_bound * self.arm_bound
            mu = float(self.link.mean(-max(abs(self.base) - reach, 0.0)))  # or 1 - mu: the same
            variance = mu * (1.0 - mu)
        return MomentBound(order=order, scale=math.sqrt(max(variance, LEAST)))

    def broken_needs(self, policy: object, rounds: int | None = None) -> list[str]:
        """As every environment's; and the link, of a policy that fits a mean to the features.

        Counts are no more sub-Gaussian than they are normal.
        """
        broken = super().broken_needs(policy, rounds)
        info = getattr(policy, "info", None)
        if info is None:
            return broken
        if info.moment == "sub-Gaussian" and self.link.name == "log":
            broken.append("sub-Gaussian noise")
        link = getattr(policy, "link", None)
        fits = link is not None or not (info.moment == "none" or info.fixed_arms)
        assumed = "identity" if link is None else getattr(link, "name", link)
        if fits and assumed != self.link.name:
            kind = "linear in x" if assumed == "identity" else f"the {assumed} link of a score"
            broken.append(f"a mean reward that is {kind}")
        return broken

    def theta(self, seed: np.random.SeedSequence) -> FloatArray:
        """theta* of the trial that ``seed`` deals."""
        return draw_direction(streams(seed, 1)[0], self.dim, self.theta_bound)

    def shapes(self, mu: FloatArray) -> FloatArray:
        """Base, size, chance and amount of arms of mean ``mu``, in a last axis."""
        from heavytail.kernels.counts import linked_shape

        formula = getattr(linked_shape, "py_func", linked_shape)
        return np.stack(np.broadcast_arrays(*formula(self.link.code, mu)), axis=-1)

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        truth, geometry, noise, outliers, offers, events = streams(seed, 6)
        theta = draw_direction(truth, self.dim, self.theta_bound)
        pool = None if self.fresh else self._arms(geometry, 1)[0]
        while True:
            arms = self._arms(geometry, BLOCK) if pool is None else pool
            mu = self.link.mean(self.base + arms @ theta)
            offered = None
            if self.offered is not None:
                offered = draw_offers(offers, BLOCK, self.arms, self.offered)
            payment = np.where(outliers.random(BLOCK) < self.outliers, self.factor, 1.0)
            yield Block(
                arms=arms,
                means=self.lift * mu,
                noise=np.zeros(BLOCK) if self.noise is None else self.noise.sample(noise, BLOCK),
                offered=offered,
                shapes=self.shapes(mu),
                events=np.stack([events.random(BLOCK), payment], axis=-1),
                counts=self.link.name == "log",
            )

    def _arms(self, rng: np.random.Generator, rounds: int) -> FloatArray:
        return draw_arms(rng, (rounds, self.arms, self.dim), self.arm_bound, together=False)
