"""Environments, as the engines see them: given a seed, one deals out rounds in blocks.

A block is arrays, so that the compiled engine runs it in one call; the reference engine walks the
same arrays round by round. Blocks have one fixed length whatever the horizon, so a longer run
begins as a shorter one.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from heavytail._storage import afford
from heavytail._typing import FloatArray, IntArray
from heavytail.policies.core.own import failure, is_own

__all__ = ["BLOCK", "Block", "Environment", "check_block", "check_dealt", "own_part"]

BLOCK = 4096  # rounds dealt at a time
LEAST = 256  # ... or fewer, where an arm is large


@dataclass(frozen=True)
class Block:
    """``length`` rounds. ``arms`` and ``means`` are a pool, (n, d) and (n,), or fresh, (length, n,
    d) and (length, n).

    ``offered``, (length, k), lists the arms of the pool that each round shows; None shows all. A
    reward is the mean of the arm played plus ``noise``; ``factor`` is what the round's scale is
    multiplied by, None where that is constant. Engines compute regret from ``means``; policies
    never see them.

    Where the law of a reward depends on the arm, ``shapes``, (n, 4) or (length, n, 4), holds each
    arm's base, size, chance and amount, and ``events``, (length, 2), each round's U and payment: a
    reward is then base + size * noise + 1{U < chance} * payment * amount, of which ``means`` are
    the means (see :mod:`heavytail.kernels.reward`). With ``counts`` it is base + size * noise +
    payment * N, where N is Poisson of mean amount, found from U (see
    :mod:`heavytail.kernels.counts`).
    """

    arms: FloatArray
    means: FloatArray
    noise: FloatArray
    factor: FloatArray | None = None
    offered: IntArray | None = None
    shapes: FloatArray | None = None
    events: FloatArray | None = None
    counts: bool = False

    @property
    def length(self) -> int:
        """Rounds in the block."""
        return self.noise.shape[0]

    def round(self, t: int) -> tuple[FloatArray, FloatArray]:
        """The arms shown in round ``t`` of the block, and their means."""
        if self.arms.ndim == 3:
            return self.arms[t], self.means[t]
        if self.offered is None:
            return self.arms, self.means
        return self.arms[self.offered[t]], self.means[self.offered[t]]

    def first(self, length: int) -> Block:
        """The block cut to its first ``length`` rounds."""
        fresh = self.arms.ndim == 3
        shapes = self.shapes
        return Block(
            arms=self.arms[:length] if fresh else self.arms,
            means=self.means[:length] if fresh else self.means,
            noise=self.noise[:length],
            factor=None if self.factor is None else self.factor[:length],
            offered=None if self.offered is None else self.offered[:length],
            shapes=shapes[:length] if fresh and shapes is not None else shapes,
            events=None if self.events is None else self.events[:length],
            counts=self.counts,
        )


class Environment(ABC):
    """A world in which policies can be run; see :class:`heavytail.environments.LinearBandit`."""

    dim: int
    symmetric: bool = True
    fixed_arms: bool = True
    tail_index: float = math.inf  # moments of the noise of every order below this are finite

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _affordable(cls.__init__)  # type: ignore[method-assign]

    @property
    def rewards(self) -> str:
        """The range of the rewards: "any", "at least 0", "from 0 to 1" or "0 or 1"."""
        return "any"

    def check_link(self, policy: object) -> None:
        """Refuse a policy whose link cannot have these rewards: it would stop half-way."""
        from heavytail.links import LINKS, Link

        link = getattr(policy, "link", None)
        fractions = bool(getattr(policy, "_arguments", {}).get("fractions", False))
        if not isinstance(link, Link) or link.takes(self.rewards, fractions=fractions):
            return
        fitting = [f'"{other.name}"' for other in LINKS.values() if other.takes(self.rewards)]
        got = "of any sign" if self.rewards == "any" else self.rewards
        raise ValueError(
            f"with the {link.name} link rewards must be {link.rewards}; those of this world are "
            f"{got}. Build the policy with the link {' or '.join(fitting)}, if it takes one. "
            "A world of your own says by its property `rewards` what it pays."
        )

    @abstractmethod
    def deal(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        """Blocks of ``BLOCK`` rounds without end; the same seed deals the same world."""

    def blocks(self, seed: np.random.SeedSequence, rounds: int) -> Iterator[Block]:
        """The first ``rounds`` rounds."""
        left = rounds
        for block in self.deal(seed):
            yield block if block.length <= left else block.first(left)
            left -= block.length
            if left <= 0:
                return

    def broken_needs(self, policy: object, rounds: int | None = None) -> list[str]:
        """Assumptions that ``policy`` declares and this environment breaks, in words.

        What can be told from the outside: the tail, symmetry, arms that stay, and, where
        ``rounds`` is given, the horizon. Whether a stated scale is large enough is left to the
        user: papers state smaller ones on purpose.
        """
        info = getattr(policy, "info", None)
        if info is None:
            return []
        broken = []
        if info.rewards not in ("any", self.rewards):
            broken.append(f"rewards of {info.rewards}")
        if info.moment == "sub-Gaussian" and self.tail_index < math.inf:
            broken.append("sub-Gaussian noise")
        tail = getattr(policy, "tail", None)
        if info.moment in ("central", "raw") and tail is not None:
            if not tail.order < self.tail_index:
                broken.append(f"a finite {info.moment} moment of order {tail.order:g}")
        if info.symmetric and not self.symmetric:
            broken.append("symmetric noise")
        if (info.repeats or info.fixed_arms) and not self.fixed_arms:
            broken.append("arms that can be played again")
        horizon = getattr(policy, "horizon", None)
        if info.horizon and rounds is not None and horizon is not None and rounds > horizon:
            broken.append(f"at most {horizon} rounds, its horizon (got {rounds})")
        return broken


def own_part(environment: Environment) -> object | None:
    """The noise, arms or environment whose class is the user's; None if all are the library's."""
    noise = getattr(environment, "noise", None)
    parts = (getattr(noise, "noise", noise), getattr(environment, "arm_set", None), environment)
    own = (part for part in parts if part is not None and is_own(type(part)))
    return next(own, None)


def check_dealt(environment: Environment) -> None:
    """Deal the first round, and refuse an environment of the user's that deals anything else."""
    own = own_part(environment)
    if own is None:
        return
    name = type(own).__name__
    try:
        block = next(iter(environment.blocks(np.random.SeedSequence(0), 1)), None)
    except (Exception, SystemExit) as error:
        raise failure(name, error) from error
    if block is None:
        raise ValueError(f"{name}.deal must yield a heavytail.environments.Block; got nothing.")
    check_block(block, environment.dim, name)
    for part in ("arms", "noise"):
        _check_finite(block, part, name)


def check_block(block: object, dim: int, name: str) -> None:
    """Refuse a block whose arrays do not fit each other, which compiled code trusts, or whose means
    are not finite. Policies refuse arms and rewards that are not. ``name`` is that of the user's
    class.
    """
    if not isinstance(block, Block):
        raise ValueError(f"{name}.deal must yield a heavytail.environments.Block; got {block!r}.")
    arms, rounds = np.asarray(block.arms), np.shape(block.noise)
    shown = arms.shape[-2:-1]
    each = rounds if arms.ndim == 3 else ()
    right: dict[str, tuple[int, ...]] = {
        "noise": rounds[:1],
        "arms": (*each, *shown, dim),
        "means": (*each, *shown),
        "factor": rounds,
        "shapes": (*each, *shown, 4),
        "events": (*rounds, 2),
    }
    if arms.ndim < 2 or not rounds:
        got = arms.shape if rounds else rounds
        raise ValueError(f"{name} must deal arms and noise of whole rounds; got shape {got}.")
    for part, wanted in right.items():
        values = getattr(block, part)
        if values is None:
            continue
        if np.shape(values) != wanted:
            got = np.shape(values)
            raise ValueError(f"{name} must deal {part} of shape {wanted}; got {got}.")
        if part not in ("arms", "noise"):
            _check_finite(block, part, name)
    offered = block.offered
    if offered is not None and (
        arms.ndim == 3
        or np.ndim(offered) != 2
        or len(offered) != rounds[0]
        or not np.issubdtype(np.asarray(offered).dtype, np.integer)
        or np.size(offered) == 0
        or np.min(offered) < 0
        or np.max(offered) >= shown[0]
    ):
        raise ValueError(
            f"{name} must deal offered as (rounds, k) places of arms from 0 to {shown[0] - 1}."
        )


def _check_finite(block: Block, part: str, name: str) -> None:
    if not np.isfinite(getattr(block, part)).all():
        raise ValueError(f"{name} must deal finite {part}; got NaN or infinity.")


def _affordable(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that refuses arms which there is no memory for: all of them are dealt at once,
    of a whole block where every round draws its own.
    """

    @functools.wraps(init)
    def checked(self: Environment, *args: object, **kwargs: object) -> None:
        init(self, *args, **kwargs)
        arms, fresh = getattr(self, "arms", 0), getattr(self, "fresh", False)
        if isinstance(arms, int):  # of an environment of ours; another may call anything arms
            sizes = {"dim": self.dim, "arms": arms}
            afford(type(self).__name__, arms * self.dim * (LEAST if fresh else 1), sizes)

    return checked
