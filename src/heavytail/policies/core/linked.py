"""The common part of policies with a link: slots, the rewards they take, and answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail import links
from heavytail._turns import alone
from heavytail._typing import FloatArray, Vector
from heavytail._validate import GREATEST, Check
from heavytail.confidence import oful_radius
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, LOG_DET, OUT_OF_RANGE, THETA_BOUND, Fixed, numbered
from heavytail.kernels.links import within
from heavytail.links import Link
from heavytail.policies.core.answers import (
    Explanation,
    Prediction,
    confidence_half_widths,
    sides,
)
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics, on_ball
from heavytail.policies.core.practice import DELTA, own_ridge
from heavytail.policies.core.practice_report import ENOUGH
from heavytail.tails import MomentBound

__all__ = [
    "DELTA",
    "LINKED",
    "Linked",
    "LinkedPolicy",
    "Told",
    "curvature_half_widths",
    "floored_slope",
    "noise_of",
    "own_ridge",
    "practical_radius",
    "report_spread",
    "slope_of",
    "steepest_of",
]

EXPLORATION: Final = 0.5  # of the radius, in practice
FLOOR: Final = 0.05  # of the least slope, in practice
FAR_SPREAD: Final = 10.0  # times the model's variance, from which the user is warned


class Linked(NamedTuple):
    """Slots behind the common ones."""

    LINK: Fixed
    FRACTIONS: Fixed  # whether rewards between 0 and 1 are taken
    RIDGE: Fixed  # lambda, in units of 1 / dispersion; over L² where practice reads it
    LOG_INVERSE_DELTA: Fixed
    RADIUS_SCALE: Fixed


LINKED: Final = numbered(Linked, after=COMMON)
L: Final = LINKED


@jit
def practical_radius(s: Vector, spread: float) -> float:
    """sqrt(spread (log det H_t / det H_0 + 2 log(1/delta))) + sqrt(lambda), scaled. No theorem's.

    In the norm of the curvature a score's error has the unit 1: it is OFUL's radius there, without
    the least slope; ``spread`` is the ratio of the rewards' variance to the model's.
    """
    root = math.sqrt(s[L.RIDGE])
    return s[L.RADIUS_SCALE] * oful_radius(
        s[LOG_DET], math.sqrt(spread), s[L.LOG_INVERSE_DELTA], root
    )


class Told(NamedTuple):
    """The problem of a policy with a link, as stated by its arguments and checked."""

    check: Check
    link: Link
    is_theory: bool
    theta_bound: float  # S
    arm_bound: float  # L

    @property
    def reach(self) -> float:
        """S L, the largest score."""
        return self.theta_bound * self.arm_bound


def noise_of(told: Told, given: float | None, tail: MomentBound | None) -> float:
    """R, the scale of a reward about its mean: as ``given``, else by what the rewards are."""
    if given is not None:
        return told.check.number("noise_scale", given, least=0.0)
    if told.link.rewards == "0 or 1":
        return 0.5
    if told.link.name == "log":
        return math.sqrt(steepest_of(told))
    return 1.0 if tail is None else tail.scale


def steepest_of(told: Told) -> float:
    """L_mu, the largest slope for scores within reach; one that no radius can have is refused."""
    slope = told.link.steepest(told.reach)
    if slope > GREATEST:
        raise ValueError(
            f"{told.check.owner}.theta_bound is too large for the {told.link.name} link: at a "
            f"score of {told.reach:g} its slope is above {GREATEST:g}. Lower theta_bound, or "
            "arm_bound and the features with it."
        )
    return slope


def slope_of(check: Check, link: Link, given: float | None, reach: float) -> float:
    """kappa, the least slope for scores within ``reach``: as ``given``, else the link's."""
    slope = link.flattest(reach) if given is None else given
    if given is None and slope <= 0.0:
        raise ValueError(
            f"{check.owner}.theta_bound is too large for the {link.name} link: at a score of "
            f"-{reach:g} its slope is 0 in floating point."
        )
    return check.number("least_slope", slope, above=0.0)


def floored_slope(told: Told, given: float | None, own: float | None = None) -> float:
    """kappa: as ``given``, else the policy's ``own`` or the link's; in practice at least FLOOR."""
    kappa = slope_of(told.check, told.link, own if given is None else given, told.reach)
    return kappa if told.is_theory or given is not None else max(kappa, FLOOR)


def report_spread(policy: PackedPolicy, report: Diagnostics) -> Diagnostics:
    """Add advice if theta lies on its ball, or if rewards spread much more than the link's do."""
    assert isinstance(policy, LinkedPolicy)
    if policy.rounds < ENOUGH:
        return report
    words = on_ball(policy.theta, float(policy._s[THETA_BOUND]))
    if policy._spread() > FAR_SPREAD:
        words.append(
            f"rewards spread {policy._spread():.3g} times as much as the {policy.link.name} link's "
            "do: a few of them decide. HvtGLB clips those."
        )
    return replace(report, advice=(*report.advice, *words))


def curvature_half_widths(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """Half of an interval of scores: the set's in theory, in practice by the curvature."""
    assert isinstance(policy, LinkedPolicy)
    if not policy._practical:
        return confidence_half_widths(policy, X, level)
    return sides(policy._spread(), level) * policy._widths(X)


class LinkedPolicy(PackedPolicy):
    """A packed policy whose estimate is of a score: what it refuses and answers.

    A constructor calls ``_start`` and then either ``_keep_link``, or, where its slots begin with
    LINKED and it has a theory and a practice, ``_start_linked``, ``_allocate`` and
    ``_write_linked``. In practice it takes the share ``exploration`` of the radius, and ``_spread``
    is how many times the model's the variance is.
    """

    link: Link
    exploration: ClassVar[float] = EXPLORATION
    _practical: bool = False

    def _keep_link(self, check: Check, link: str | Link) -> None:
        self.link = links.named(f"{check.owner}.link", link)
        if "link" in self._arguments:
            self._arguments["link"] = self.link.name  # as a file holds it

    def _refusal(self, code: int, x: FloatArray, reward: float, scale: float) -> str:
        if code != OUT_OF_RANGE:
            return super()._refusal(code, x, reward, scale)
        return self._out_of_range(reward)

    def reward_problem(self, reward: float, scale: float | None = None) -> str:
        fractions = float(self._arguments.get("fractions", False))
        fits = within(self.link.code, reward, fractions)
        return "" if fits else f"{type(self).__name__}: {self._out_of_range(reward)}"

    def _out_of_range(self, reward: float) -> str:
        hint = ""
        if self.link.rewards == "0 or 1" and 0.0 < reward < 1.0:
            hint = " Pass fractions=True to learn from shares between them."
        return (
            f"with the {self.link.name} link a reward must be {self.link.rewards}; got "
            f"{reward!r}.{hint}"
        )

    def _score(self, x: FloatArray) -> float | None:
        mean = float(self.link.mean(self._means(x[None]))[0])
        return mean if math.isfinite(mean) else None

    @alone
    def predict(self, x: ArrayLike, *, level: float | None = None) -> Prediction:
        """The mean reward at ``x`` (dim,), or at each row of it (n, dim), and an interval for it.

        The interval is the score's, through the link: it lies where rewards can, and is not
        symmetric. In theory it is that of the confidence set, whatever ``level``; in practice it is
        of ``level`` and no theorem's. It is meant for the arm that is chosen.
        """
        level = self.level if level is None else level
        rows, many = self._asked_rows(x, level)
        score, half = self._means(rows), self._half_widths(rows, level)
        parts = [self.link.mean(value) for value in (score, score - half, score + half)]
        return Prediction(*(part if many else float(part[0]) for part in parts))

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Explain the choice of ``select`` among ``arms`` by the parts of each index."""
        X = self._offered(arms, ".explain")
        score, bonus = self._means(X), self.radius * self._widths(X)
        parts: dict[str, Any] = {
            "mean": np.asarray(self.link.mean(score)),
            "score": score,
            "bonus": bonus,
            "index": score + bonus,
        }
        return Explanation(self.select(X), "the largest score + radius * width", parts)

    def _start_linked(
        self,
        check: Check,
        link: str | Link,
        radius: str,
        *,
        theta_bound: float | None,
        arm_bound: float,
        free: bool = False,
    ) -> Told:
        """Check the arguments and keep the link; if ``free``, practice needs no ball."""
        is_theory = check.choice("radius", radius, ("empirical", "theory")) == "theory"
        self._practical = not is_theory
        self._keep_link(check, link)
        if theta_bound is None:
            theta_bound = 1.0 if is_theory else math.inf
        free = free and not is_theory
        S = check.number("theta_bound", theta_bound, above=0.0, infinite=free)
        return Told(check, self.link, is_theory, S, check.number("arm_bound", arm_bound, above=0.0))

    def _write_linked(
        self, told: Told, *, ridge: float, delta: float, fractions: bool, radius_scale: float | None
    ) -> FloatArray:
        """The fresh state s, with the slots that all of these have; ``ridge`` is what RIDGE is."""
        if radius_scale is None:
            radius_scale = 1.0 if told.is_theory else self.exploration
        check, s = told.check, self._s
        s[L.LINK] = told.link.code
        s[L.FRACTIONS] = check.flag("fractions", fractions)
        s[L.RIDGE] = ridge
        s[L.LOG_INVERSE_DELTA] = check.log_inverse(delta)
        s[L.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        return s

    def _spread(self) -> float:
        """The ratio of the rewards' variance to the model's."""
        return 1.0
