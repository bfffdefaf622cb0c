"""Hvt-GLB: the one-pass Huber step with a link, for counts and amounts with outliers. Ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail._turns import alone
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import score
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    COMMON,
    CONSTANT,
    LOG_DET,
    OK,
    OUT_OF_RANGE,
    RADIUS,
    THETA,
    Fixed,
    numbered,
)
from heavytail.kernels.linked import implicit_step, move
from heavytail.kernels.links import AMOUNTS, IDENTITY, LOG, information, link_mean, within
from heavytail.kernels.one_pass import LARGEST, learn, measure
from heavytail.kernels.scale import MAJORITY
from heavytail.links import Link
from heavytail.policies.core import practice, practice_report
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.answers import Prediction
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.info import Info
from heavytail.policies.core.linked import LinkedPolicy
from heavytail.policies.core.practice import (
    CLIP,
    FIRST,
    PRACTICE,
    SIZES,
    keep_first,
    note,
    radius,
    scale_of,
    tune,
    watch,
)
from heavytail.policies.core.practice import settle as settle_unit
from heavytail.policies.core.practice_report import half_widths_of, report_noise
from heavytail.tails import MomentBound

__all__ = ["HvtGLB"]

EXPLORATION: Final = 0.5  # of the practical radius
FLATTEST: Final = 1e-100  # information below which a residual says nothing


class Slots(NamedTuple):
    """HvtGLB's own number."""

    LINK: Fixed


P: Final = PRACTICE
S: Final = numbered(Slots, after=PRACTICE)


@jit
def begin(s: Vector, M: Matrix, dim: int, squared: float, reward: float) -> int:
    """A round before the first level is known, after ``measure``: the arms are spread.

    Rewards are kept in order of size; of five the middle one is where the intercept begins. An
    amount of 0 tells nothing of the size of amounts.
    """
    code = learn(s, M, dim, squared, 0.0, max(1.0, math.sqrt(squared)), 1.0, math.inf)
    if code != OK or (s[S.LINK] == AMOUNTS and reward == 0.0):
        return code
    keep_first(s, reward)
    if s[P.TELLING] == FIRST:
        settle(s, M, dim)
    return OK


@jit
def settle(s: Vector, M: Matrix, dim: int) -> None:
    """Begin from P = I / lambda and the level of the first rewards, in the intercept if there is
    one; half a count stands for none.
    """
    level = s[P.FIRST_3] if s[S.LINK] == AMOUNTS else max(s[P.FIRST_3], 0.5)
    s[P.NU] = 1.0
    settle_unit(s, M, 1.0)
    s[LOG_DET] = 0.0  # and not -0
    if M.shape[1] > dim:
        M[THETA, dim] = math.log(level) / s[CONSTANT]


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round with the log link; OVERFLOW with the state untouched.

    Everything is in units of the model's standard deviation at this score: sqrt(mu) for counts, mu
    for amounts. The reward is brought to within tau sigma of its mean, or one count of it where
    that is more, and then learned as it is.
    """
    link = s[S.LINK]
    if not within(link, reward, 0.0):
        return OUT_OF_RANGE
    squared = measure(s, M, x)
    if s[P.UNIT] == 0.0:
        return begin(s, M, x.shape[0], squared, reward)
    z = predict(M)
    known = information(link, z)
    mean = link_mean(link, z)
    unit = math.sqrt(mean) if link == LOG else mean
    sigma = scale_of(s, squared * known, 1.0)
    if link == LOG:
        sigma = max(sigma, 1.0)  # counts spread at least as Poisson's do
    residual = 0.0
    if squared > 0.0 and unit > FLATTEST:  # x = 0 says nothing about theta
        residual = (reward - mean) / unit
    e = residual / sigma
    if not (abs(e) <= LARGEST):
        e = math.copysign(LARGEST, e)
    tau = s[P.TAU]
    if link == LOG and unit > FLATTEST:
        tau = max(tau, 1.0 / (unit * sigma))  # a count more or less is no outlier
    kept = mean + unit * sigma * score(e, tau)
    step = implicit_step(link, kept, z, squared, sigma * sigma, 1.0)
    code = move(s, M, x.shape[0], squared, link, sigma * sigma, 1.0, step)
    if code != OK:
        return code
    if abs(e) > tau:
        s[CLIPPED] += 1.0
    note(s, squared, e, sigma, tau, 1.0)
    if s[P.TUNES] != 0.0:
        tune(s, M, e, 1.0)
    watch(s, reward if link == AMOUNTS else 1.0, abs(residual))
    s[RADIUS] = radius(s, s[P.EXPLORATION], s[P.STABILITY], s[P.ENERGY])
    return OK


def half_widths(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """Half of an interval of the score; with the log link without what the clip took, which is of
    the mean.
    """
    halves = half_widths_of(policy, X, level)
    return halves if policy._s[S.LINK] == IDENTITY else halves - taken(policy, X, level)


def taken(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """The part of the mean that the clip may have taken, in units of the model's deviation."""
    return practice_report.half_widths(policy._s, np.zeros(len(X)), level)


def report_zeros(policy: PackedPolicy, report: Diagnostics) -> Diagnostics:
    """Add that most rewards are 0, where they are amounts."""
    if policy._s[S.LINK] != AMOUNTS or policy._s[P.VOTES] <= 2.0 * MAJORITY:
        return report
    word = "most rewards are 0, which no amount is: TwinUCB learns how often and how much."
    return replace(report, advice=(*report.advice, word))


class HvtGLB(LinkedPolicy):
    r"""Counts and amounts whose outliers must not rule: the one-pass step with a link. Ours.

    $$\tilde y_t = \mu_t + \mathrm{clip}\big(y_t - \mu_t,\ \pm\tau_t\sigma_t s_t\big),\qquad
      \hat\theta_{t+1} = \operatorname*{argmin}_\theta\
      \ell\big(\tilde y_t, x_t^\top\theta\big)/\sigma_t^2
      + \tfrac12\|\theta-\hat\theta_t\|^2_{H_t}$$

    with $\mu_t = \exp(x_t^\top\hat\theta_t)$, $s_t$ the model's standard deviation there,
    $\sqrt{\mu_t}$ for counts and $\mu_t$ for amounts, and $\sigma_t$ the typical size of what
    remains, learned from the rewards. The threshold is fixed for counts, whose law says what is
    far, and at least one count; otherwise $\tau_t$ grows by itself, as Hvt-UCB's does, so that
    theta is led to the *mean*. The radius is Hvt-UCB's practical one. No theorem. O(n d²) per
    round, and nothing of the past is stored. Where nothing is clipped this is GLB-OMD's practical
    step at the dispersion $\sigma_t^2$; with the identity link it is Hvt-UCB's.

    >>> import heavytail as ht
    >>> policy = ht.HvtGLB(2, link="log")
    >>> for count in (*(3, 2, 4, 3) * 25, 4_000_000):
    ...     policy.update([1.0, 0.0], count)
    >>> round(policy.predict([1.0, 0.0]).mean)
    3

    Args:
        dim: length of a feature vector.
        link: "log", or "identity". A 0/1 reward has no outliers: for clicks see ``GLBOMD``.
        rewards: with the log link "counts" (whose variance is of the order of their mean; so
            unless told otherwise) or "amounts" (whose standard deviation is; decisions then do not
            change with their unit).
        target: "typical", a fixed threshold, for outliers that are errors to be ignored, or that
            strike all arms alike; or "mean". The first for counts unless told otherwise, the second
            for all else. One count in 100 times 1,000 makes the variance of the mean 10,000 times
            that of a typical count: the clip for the mean learns next to nothing from that at a
            human horizon, and the typical count has the same best arm.
        tail: the moment bound on the noise, identity link only.
        horizon: T; a promise that is warned about once it is broken.
        theta_bound: S >= ‖theta*‖; not needed.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        exploration: factor of the radius.
        clip: the threshold where it is fixed, and its floor where it grows, in units of sigma_t;
            ``math.inf`` never clips.
        ridge: lambda; d L²/100 unless given.
        delta: failure probability.
        intercept: a constant feature, free of the ball.
        radius_scale: multiplies the radius.
        threshold_scale: multiplies the threshold.

    With the log link a round's ``scale`` is not used: the noise is that of the mean.
    """

    name = "Hvt-GLB"
    info = Info(
        method="Huber",
        reference="ours",
        regret="-",
        cost="O(1)",
        storage="O(1)",
        moment="central",
        uses_scale=True,
        sources="*Ours*, without a theorem: GLB-OMD's implicit step on rewards that are clipped "
        "around their mean: counts at a fixed threshold, all else at the mean-consistent one of "
        "Hvt-UCB's practical mode.",
    )
    algorithm = Algorithm(
        update=update,
        slots=(COMMON, PRACTICE, S),
        rank_one=True,
        any_ridge=True,
        agree=(practice.agrees,),
        half_widths=half_widths,
        reports=(report_noise, report_zeros),
    )

    def __init__(
        self,
        dim: int,
        *,
        link: str | Link = "identity",
        rewards: str | None = None,
        target: str | None = None,
        tail: MomentBound | str | None = None,
        horizon: int | None = None,
        theta_bound: float = math.inf,
        arm_bound: float = 1.0,
        exploration: float = EXPLORATION,
        clip: float = CLIP,
        ridge: float | None = None,
        delta: float = practice.DELTA,
        intercept: bool = True,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
    ) -> None:
        check = Check(type(self))
        known = practice.stated(check, tail)
        self._start(dim, known, horizon, scale_known=False)
        self._keep_link(check, link)
        self._check_link(tail, rewards)
        kind = "counts" if rewards is None else rewards
        counts = check.choice("rewards", kind, ("counts", "amounts")) == "counts"
        is_log = self.link.name == "log"
        if target is None:
            target = "typical" if is_log and counts else "mean"
        if not is_log:
            self.algorithm = replace(self.algorithm, update=practice.update)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        if ridge is None:
            ridge = practice.own_ridge(self.dim, arm_bound)
        size = self.dim + check.flag("intercept", intercept)
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=theta_bound,
            size=size,
            runs={"sizes": SIZES},
            room=size,
        )
        self._s[CONSTANT] = arm_bound
        self._s[S.LINK] = self.link.code if counts or not is_log else AMOUNTS
        threshold_scale = check.number("threshold_scale", threshold_scale, above=0.0)
        practice.start(
            self,
            check,
            clip=threshold_scale * check.number("clip", clip, above=0.0, infinite=True),
            tunes=check.choice("target", target, ("mean", "typical")) == "mean" and clip < math.inf,
            exploration=exploration,
            delta=check.delta(delta),
            ridge=ridge,
            radius_scale=radius_scale,
            arm_bound=arm_bound,
        )

    @classmethod
    def taken(cls, problem: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """With the log link no tail: the size of the noise is learned."""
        link = options.get("link", "identity")
        arguments = super().taken(problem, options)
        if getattr(link, "name", link) != "identity":
            arguments.pop("tail", None)
        return arguments

    def _check_link(self, tail: MomentBound | str | None, rewards: str | None) -> None:
        name = self.link.name
        if name not in ("identity", "log"):
            raise ValueError(
                f"HvtGLB.link must be 'log' or 'identity'; got {name!r}. A reward of 0 or 1 has no "
                "outliers to clip: use GLBOMD."
            )
        if name == "identity" and rewards is not None:
            raise ValueError(
                f"HvtGLB.rewards is for the log link; got {rewards!r} with the identity, which "
                'takes rewards of any sign. Add link="log".'
            )
        if name == "log" and isinstance(tail, MomentBound):
            raise ValueError(
                "HvtGLB.tail is for the identity link: with the log link the noise grows with the "
                "mean, and its size is learned. Leave it out."
            )

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[P.SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the next round, in units of sigma_t."""
        return float(self._s[P.TAU])

    @alone
    def predict(self, x: ArrayLike, *, level: float | None = None) -> Prediction:
        """The mean reward at ``x`` (dim,), or at each row of it (n, dim), and an interval for it.

        The score's interval goes through the link, and what the clip may have taken from the mean
        is added to both sides. No theorem's; meant for the arm that is chosen.
        """
        level = self.level if level is None else level
        prediction = super().predict(x, level=level)
        if self.link.name == "identity":
            return prediction
        rows, many = self._asked_rows(x, level)
        mean, low, high = (np.atleast_1d(part) for part in prediction)
        unit = mean if self._s[S.LINK] == AMOUNTS else np.sqrt(mean)
        lost = taken(self, rows, level) * unit
        parts = (mean, np.maximum(low - lost, 0.0), high + lost)
        return Prediction(*(part if many else float(part[0]) for part in parts))
