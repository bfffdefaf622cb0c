"""What policies with a link have in common: their slots, what rewards they take, their answers."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail import links
from heavytail._turns import alone
from heavytail._typing import FloatArray, Vector
from heavytail._validate import Check, as_arms
from heavytail.confidence import oful_radius
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, LOG_DET, OUT_OF_RANGE, Fixed, numbered
from heavytail.links import Link
from heavytail.policies.core.answers import Explanation, Prediction
from heavytail.policies.core.base import PackedPolicy
from heavytail.tails import MomentBound

__all__ = [
    "LINKED",
    "Linked",
    "LinkedPolicy",
    "Linking",
    "noise_of",
    "practical_radius",
    "slope_of",
]

RIDGE: Final = 0.01  # lambda over d, in practice
DELTA: Final = 0.01
EXPLORATION: Final = 0.5
FLOOR: Final = 0.05  # of the least slope, in practice


class Linked(NamedTuple):
    """Slots behind the common ones."""

    LINK: Fixed
    FRACTIONS: Fixed  # whether rewards between 0 and 1 are taken
    RIDGE: Fixed  # lambda, in units of 1 / dispersion
    LOG_INVERSE_DELTA: Fixed
    RADIUS_SCALE: Fixed


LINKED: Final = numbered(Linked, after=COMMON)
L: Final = LINKED


@jit
def practical_radius(s: Vector, spread: float) -> float:
    """sqrt(spread (log det H_t / det H_0 + 2 log(1/delta))) + sqrt(lambda), scaled. No theorem's.

    In the norm of the curvature a score's error has the unit 1: it is OFUL's radius there, without
    the least slope; ``spread`` is how many times the model's the variance of the rewards is.
    """
    root = math.sqrt(s[L.RIDGE])
    return s[L.RADIUS_SCALE] * oful_radius(
        s[LOG_DET], math.sqrt(spread), s[L.LOG_INVERSE_DELTA], root
    )


def noise_of(
    check: Check, link: Link, given: float | None, tail: MomentBound | None, reach: float
) -> float:
    """R, the scale of a reward about its mean: as ``given``, else by what the rewards are."""
    if given is not None:
        return check.number("noise_scale", given, least=0.0)
    if link.rewards == "0 or 1":
        return 0.5
    if link.name == "log":
        return math.sqrt(link.steepest(reach))
    return 1.0 if tail is None else tail.scale


def slope_of(check: Check, link: Link, given: float | None, reach: float) -> float:
    """kappa, the least slope for scores within ``reach``: as ``given``, else the link's."""
    slope = link.flattest(reach) if given is None else given
    if given is None and slope <= 0.0:
        raise ValueError(
            f"{check.owner}.theta_bound is too large for the {link.name} link: at a score of "
            f"-{reach:g} its slope is 0 in floating point."
        )
    return check.number("least_slope", slope, above=0.0)


class Linking(PackedPolicy):
    """What a policy whose estimate is of a score refuses and answers."""

    link: Link

    def _keep_link(self, check: Check, link: str | Link) -> None:
        self.link = links.named(f"{check.owner}.link", link)
        if "link" in self._arguments:
            self._arguments["link"] = self.link.name  # as a file holds it

    def _refusal(self, code: int, x: FloatArray, reward: float, scale: float) -> ValueError:
        if code != OUT_OF_RANGE:
            return super()._refusal(code, x, reward, scale)
        where = f"{type(self).__name__}.update"
        hint = ""
        if self.link.rewards == "0 or 1" and 0.0 < reward < 1.0:
            hint = " Pass fractions=True to learn from shares between them."
        return ValueError(
            f"{where}: with the {self.link.name} link a reward must be {self.link.rewards}; got "
            f"{reward!r}. Nothing was learned.{hint}"
        )

    @alone
    def predict(self, x: ArrayLike, *, level: float = 0.95) -> Prediction:
        """The mean reward at ``x`` (dim,), or at each row of it (n, dim), and an interval for it.

        The interval is the score's, through the link: it lies where rewards can, and is not
        symmetric. In theory it is that of the confidence set, whatever ``level``; in practice it is
        of ``level`` and no theorem's. It is meant for the arm that is chosen.
        """
        rows, many = self._asked(x, level)
        score, half = self._means(rows), self._half_widths(rows, level)
        parts = [self.link.mean(one) for one in (score, score - half, score + half)]
        return Prediction(*(part if many else float(part[0]) for part in parts))

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Why ``select`` would choose as it does among ``arms``: the parts of each index."""
        X = as_arms(arms, self.dim, type(self), ".explain")
        score, bonus = self._means(X), self.radius * self._widths(X)
        parts: dict[str, Any] = {
            "mean": np.asarray(self.link.mean(score)),
            "score": score,
            "bonus": bonus,
            "index": score + bonus,
        }
        return Explanation(self.select(X), "the largest score + radius * width", parts)


class LinkedPolicy(Linking):
    """A packed policy whose slots begin with those above."""

    def _start_linked(
        self, check: Check, link: str | Link, *, fractions: bool, delta: float, radius_scale: float
    ) -> list[tuple[int, float]]:
        """Check and keep the link; what to write into the slots once they are there."""
        self._keep_link(check, link)
        return [
            (L.LINK, self.link.code),
            (L.FRACTIONS, float(check.flag("fractions", fractions))),
            (L.LOG_INVERSE_DELTA, check.log_inverse(delta)),
            (L.RADIUS_SCALE, check.number("radius_scale", radius_scale, least=0.0)),
        ]
