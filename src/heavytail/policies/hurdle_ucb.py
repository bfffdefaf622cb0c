"""Hurdle-UCB: how often a reward is other than 0, times how much it then is. Ours; no paper's.

The two parts of a hurdle model (Cragg, 1971) are learned each in one pass: conversion by ridge
regression, the amount by the mean-consistent step of :mod:`heavytail.policies.core.practice`,
drawn to a guess by a third, fast estimate: how the sizes of amounts compare.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._invariants import LARGEST
from heavytail._turns import alone
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import predict, shrink
from heavytail.kernels.index import beyond, usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    CONSTANT,
    DIRECTION,
    FEATURE,
    INVERSE,
    NO_ARM,
    OK,
    RADIUS,
    ROUNDS,
    THETA,
    Count,
    Flag,
    Size,
    numbered,
)
from heavytail.kernels.one_pass import measure
from heavytail.policies.core import practice
from heavytail.policies.core.answers import Explanation, sides
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.info import Info
from heavytail.policies.core.practice import PRACTICE, SIZES, growing_radius, learned
from heavytail.policies.core.practice import update as learn_amount
from heavytail.policies.core.remembering import Arrays
from heavytail.tails import MomentBound

__all__ = ["HurdleUCB"]

EXPLORATION: Final = 0.7  # of the mean's optimism where it is its turn
CONVERSION_EXPLORATION: Final = 0.4
AMOUNT_EXPLORATION: Final = 0.2  # of the mean's radius, in all other rounds
CHANCE: Final = 2.0  # times what chance explains: from there on the mean is heard
AUDITS: Final = 1.5  # the mean's turns among the first t rounds: this times t^(2/3)
LARGEST_RATIO: Final = 1e300
LARGEST_POWER: Final = 100.0  # exp of it, times the largest estimate, is in range


class Slots(NamedTuple):
    """HurdleUCB's own numbers."""

    CONVERSION_RADIUS: Size
    CONVERSION_STABILITY: int
    CONVERSION_ENERGY: int
    SIZE_STABILITY: int  # of log sizes: energy - stability is the residual sum of squares
    SIZE_ENERGY: int
    SIZE_SQUARES: int  # the residual sum of squares of a constant
    SIZE_MEAN: int  # the mean of all log sizes
    FIRST_SIZE: Size  # what sizes are compared with; 0 before the first
    PAID: Count  # rewards other than 0
    SIZE_FACTOR: int  # how much of the slopes of the log size is believed
    MEAN_FACTOR: int  # how much of what parts the mean from the guess by sizes
    MIDDLE: int  # the amount at the centre of the x that paid ...
    MIDDLE_SIZE: int  # ... and the log size there
    AUDIT: Flag  # 1 if the next round is the mean's
    DROPPED: Count  # of the rewards other than 0, those that no size is made of


S: Final = numbered(Slots, after=PRACTICE)
P: Final = PRACTICE
HEAD: Final = INVERSE  # rows of a block in front of its inverse: theta, u, x, room


@jit
def conversion_row(M: Matrix) -> int:
    """Where the block of conversion begins: theta, u, x, room and P, as M itself does."""
    return INVERSE + 2 * M.shape[1] + 1


@jit
def size_row(M: Matrix) -> int:
    """Where the block of log sizes begins; the sum of x x' / sigma² of what paid follows it."""
    return conversion_row(M) + HEAD + M.shape[1]


@jit
def regress(s: Vector, M: Matrix, first: int, x: Vector, y: float, stability: int) -> None:
    """A round of ridge regression of y in the block that begins at ``first``; the slot
    ``stability`` is followed by that of the energy.
    """
    W = M[first : first + HEAD + M.shape[1]]
    squared = measure(s, W, x)
    residual = y - predict(W)
    gain = 1.0 / (1.0 + squared)
    shrink(W, gain)
    for i in range(M.shape[1]):
        W[THETA, i] += residual * gain * W[DIRECTION, i]
    s[stability] += residual * residual * squared * gain
    s[stability + 1] += residual * residual


@jit
def believed(explained: float, by_chance: float) -> float:
    """James and Stein's factor, within [0, 1]: 0 unless more is explained than chance would."""
    return 1.0 - by_chance / explained if explained > by_chance else 0.0


@jit
def compare(s: Vector, M: Matrix, x: Vector, size: float) -> None:
    """Learn the log of a size other than 0, in units of the first, and how much of its slopes to
    believe: what they explain against d times the variance of the residuals.
    """
    size = min(max(size, 1.0 / LARGEST_RATIO), LARGEST_RATIO)
    if s[S.FIRST_SIZE] == 0.0:
        s[S.FIRST_SIZE] = size
    y = math.log(min(max(size / s[S.FIRST_SIZE], 1.0 / LARGEST_RATIO), LARGEST_RATIO))
    regress(s, M, size_row(M), x, y, S.SIZE_STABILITY)
    n = s[S.PAID] - s[S.DROPPED]
    s[S.SIZE_SQUARES] += (y - s[S.SIZE_MEAN]) ** 2.0 * n / (n + 1.0)
    s[S.SIZE_MEAN] += (y - s[S.SIZE_MEAN]) / (n + 1.0)
    s[S.PAID] += 1.0
    dim = float(x.shape[0])
    squares = max(s[S.SIZE_ENERGY] - s[S.SIZE_STABILITY], 0.0)
    if n > dim:
        by_chance = dim * squares / (n - dim)
        s[S.SIZE_FACTOR] = believed(s[S.SIZE_SQUARES] - squares, by_chance)


@jit
def contrast(s: Vector, M: Matrix, dim: int) -> None:
    """The middle, and how much of what parts the slopes of the mean from those of the guess to
    believe: Hausman's statistic against CHANCE d times the mean square of the clipped residuals.
    """
    at = size_row(M)
    V = at + HEAD + M.shape[1]
    total = M[V + dim, dim]
    if total <= 0.0:
        return
    amount = size = 0.0
    for i in range(dim + 1):
        x = s[CONSTANT] * M[V + i, dim] / total
        amount += M[THETA, i] * x
        size += M[at + THETA, i] * x
    s[S.MIDDLE] = amount
    s[S.MIDDLE_SIZE] = size
    slope = amount * s[S.SIZE_FACTOR]
    parted = shared = 0.0
    for i in range(dim):
        difference = M[THETA, i] - slope * M[at + THETA, i]
        shared += difference * M[V + i, dim]
        for j in range(dim):
            parted += difference * M[V + i, j] * (M[THETA, j] - slope * M[at + THETA, j])
    by_chance = CHANCE * dim * s[P.ENERGY] / max(learned(s), 1.0)
    s[S.MEAN_FACTOR] = believed(parted - shared * shared / total, by_chance)


@jit
def drop_sizes(s: Vector, M: Matrix) -> None:
    """Compare sizes from nothing: amounts began again in another unit."""
    first = size_row(M)
    for i in range(first, first + HEAD + 2 * M.shape[1]):
        for j in range(M.shape[1]):
            M[i, j] = 1.0 / s[P.RIDGE] if i == first + INVERSE + j else 0.0
    s[S.SIZE_STABILITY] = s[S.SIZE_ENERGY] = s[S.SIZE_SQUARES] = s[S.SIZE_MEAN] = 0.0
    s[S.SIZE_FACTOR] = s[S.MEAN_FACTOR] = s[S.MIDDLE] = s[S.MIDDLE_SIZE] = s[S.FIRST_SIZE] = 0.0
    s[S.DROPPED] = s[S.PAID]


@jit
def pay(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Learn an amount: its mean, its size and how the two compare."""
    begun = s[P.UNIT] > 0.0
    code = learn_amount(s, M, x, reward, nu)
    if code != OK:
        return code
    if begun and learned(s) == 0.0:
        drop_sizes(s, M)
    compare(s, M, x, abs(reward) / nu)
    if s[P.SIGMA] > 0.0:  # theta is made of it
        V = size_row(M) + HEAD + M.shape[1]
        weight = 1.0 / (s[P.SIGMA] * s[P.SIGMA])
        for i in range(M.shape[1]):
            for j in range(M.shape[1]):
                M[V + i, j] += weight * M[FEATURE, i] * M[FEATURE, j]
        contrast(s, M, x.shape[0])
    return OK


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round: the amount where there is one, then whether there was; OVERFLOW with the state
    untouched.
    """
    if reward != 0.0:
        code = pay(s, M, x, reward, nu)
        if code != OK:
            return code
    else:  # a round, but none that the amount is made of
        s[ROUNDS] += 1.0
        s[P.BEGAN] += 1.0
    paid = 1.0 if reward != 0.0 else 0.0
    regress(s, M, conversion_row(M), x, paid, S.CONVERSION_STABILITY)
    prepare(s)
    return OK


@jit
def prepare(s: Vector) -> None:
    """What the next choice needs of the round: the radius of conversion, and whose turn it is."""
    t = s[ROUNDS]
    s[S.CONVERSION_RADIUS] = growing_radius(
        s, CONVERSION_EXPLORATION, s[S.CONVERSION_STABILITY], s[S.CONVERSION_ENERGY], t
    )
    s[S.AUDIT] = 1.0 if math.floor(audits(t + 1.0)) > math.floor(audits(t)) else 0.0


@jit
def audits(t: float) -> float:
    """Rounds among the first t that are the mean's: the integral of t^(-1/3), and a quarter, so
    that it is never a whole number that rounding decides on.
    """
    return AUDITS * t ** (2.0 / 3.0) + 0.25


@jit
def amount_of(s: Vector, mean: float, size: float) -> float:
    """The amount in the middle times how sizes compare, and what of the mean is to be heard."""
    power = min(s[S.SIZE_FACTOR] * (size - s[S.MIDDLE_SIZE]), LARGEST_POWER)
    guess = s[S.MIDDLE] * math.exp(power)
    return guess + s[S.MEAN_FACTOR] * (mean - guess)


@jit
def largest_product(share: float, spread: float, amount: float) -> float:
    """The largest share' amount' over share ± spread, within [0, 1], and amount' <= amount.

    A loss is least where it is rarest. Below 0 the share is left as it is, so that among losses
    that may never happen the least known is tried.
    """
    if amount >= 0.0:
        return amount * min(max(share + spread, 0.0), 1.0)
    return amount * min(share - spread, 1.0)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index; before amounts have a unit, the least known. O(n d²)."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    dim = arms.shape[1]
    C = conversion_row(M)
    Z = size_row(M)
    best = NO_ARM
    best_index = -math.inf
    for a in range(arms.shape[0]):
        mean = size = share = half = half_share = 0.0
        for j in range(M.shape[1]):
            x = arms[a, j] if j < dim else s[CONSTANT]
            row = 0.5 * M[INVERSE + j, j] * x
            row_share = 0.5 * M[C + INVERSE + j, j] * x
            for k in range(j):
                row += M[INVERSE + j, k] * arms[a, k]
                row_share += M[C + INVERSE + j, k] * arms[a, k]
            half += row * x
            half_share += row_share * x
            mean += M[THETA, j] * x
            size += M[Z + THETA, j] * x
            share += M[C + THETA, j] * x
        width = math.sqrt(max(2.0 * half, 0.0))
        spread = s[S.CONVERSION_RADIUS] * math.sqrt(max(2.0 * half_share, 0.0))
        if s[P.UNIT] == 0.0:
            found = spread
        elif s[S.AUDIT] != 0.0:
            found = largest_product(share, spread, mean + s[RADIUS] * width)
        else:
            amount = amount_of(s, mean, size) + AMOUNT_EXPLORATION * s[RADIUS] * width
            found = largest_product(share, spread, amount)
        if found > best_index:
            best = a
            best_index = beyond(found)
    return best


@final
class HurdleUCB(practice.PracticalPolicy):
    r"""Conversion times mean amount, for rewards that are mostly exactly 0. One pass, untuned.

    $$\mathbb E[r \mid x] = q(x)\,m(x),\qquad q(x) = \mathbb P(r \ne 0 \mid x),\quad
      m(x) = \mathbb E[r \mid x, r \ne 0]$$

    Whether there is a reward is light-tailed, however heavy the amounts: $q$ is ridge regression of
    1{r ≠ 0}. The amount $m$ is learned from the rewards other than 0 alone, by the one-pass step
    whose threshold grows until it finds the mean (:class:`heavytail.HvtUCB`), at a scale that zeros
    have no part in. That takes many of them. How the *sizes* of amounts compare takes few: with
    $g$ the regression of log |r| and $\bar x$ the average of the x that paid,

    $$a(x) = m(\bar x)\,e^{\kappa(g(x) - g(\bar x))},\qquad
      \hat m(x) = a(x) + \varphi\,(m(x) - a(x)).$$

    Both factors are James and Stein's: $\kappa$ is 0, one amount for all, unless the slopes of $g$
    explain more than chance would, and $\varphi$ is 0 unless the slopes of the mean contradict
    those of the guess (Hausman's statistic) by twice what chance would. The choice is

    $$\operatorname*{argmax}_x\ \bar q(x)\,\big(\hat m(x) + 0.2\,\beta\|x\|_{V^{-1}}\big),$$

    $\bar q$ the upper end of $q$, the lower one where the amount is a loss. A share $t^{-1/3}$ of
    the rounds is the mean's, $\bar q(x)\,(m(x) + \beta\|x\|_{V^{-1}})$, so that a rare large amount
    is seen wherever it is. A round costs O(n d²), the state is constant, and decisions do not
    change with the unit of the rewards.

    Where no reward is 0 it learns as well, but :class:`heavytail.TwinUCB` is made for that.

    >>> import heavytail as ht
    >>> policy = ht.HurdleUCB(2)
    >>> for reward in (0.0, 20.0, 0.0, 0.0, 35.0, 18.0, 0.0, 25.0, 0.0, 30.0, 0.0, 0.0):
    ...     policy.update([1.0, 0.0], reward)
    >>> round(policy.conversion([1.0, 0.0]), 2)
    0.42

    Args:
        dim: length of a feature vector.
        tail: the moment bound on the noise of the amounts, if it is known; otherwise its scale is
            learned, and a round's ``scale`` says how its amounts compare with other rounds.
        arm_bound: L >= ‖x‖; longer vectors are refused.
    """

    name = "Hurdle-UCB"
    info = Info(
        method="conversion times Huber",
        reference="this library",
        regret="none proved",
        cost="O(1)",
        storage="O(1)",
        moment="central",
        uses_scale=True,
        sources=(
            "*Ours*: the parts of a hurdle model (Cragg 1971), with constants chosen for regret in "
            "three kinds of shop and one where sizes mislead."
        ),
    )
    slots = (COMMON, PRACTICE, S)
    update_kernel = staticmethod(update)
    select_kernel = staticmethod(select)

    def __init__(
        self,
        dim: int,
        *,
        tail: MomentBound | str | None = None,
        arm_bound: float = 1.0,
    ) -> None:
        check = Check(type(self))
        self._start(dim, practice.stated(check, tail), None, scale_known=False)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        ridge, size = practice.own_ridge(self.dim, arm_bound), self.dim + 1
        blocks = [("conversion", None), ("conversion_room", HEAD - 1), ("conversion_inverse", size)]
        blocks += [("size", None), ("size_room", HEAD - 1), ("size_inverse", size)]
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,
            size=size,
            rows={**dict(blocks), "gram": size},
            runs={"sizes": SIZES},
        )
        for name in ("conversion", "size"):
            del self._rows[f"{name}_room"]  # to work in, and no state
            self._M[self._rows[f"{name}_inverse"]] = np.eye(size) / ridge
        self._s[CONSTANT] = arm_bound
        practice.start(
            self, check, exploration=EXPLORATION, delta=None, ridge=ridge, arm_bound=arm_bound
        )
        prepare(self._s)

    def _hangs_together(self, arrays: Arrays) -> bool:
        s = arrays["scalars"]
        parts = s[[S.SIZE_MEAN, S.SIZE_FACTOR, S.MEAN_FACTOR, S.MIDDLE, S.MIDDLE_SIZE]]
        most = [math.log(LARGEST_RATIO), 1.0, 1.0, LARGEST, LARGEST]
        sums = s[[S.SIZE_STABILITY, S.SIZE_ENERGY, S.SIZE_SQUARES]]
        sums = np.append(sums, s[[S.CONVERSION_STABILITY, S.CONVERSION_ENERGY]])
        return bool(
            super()._hangs_together(arrays)
            and np.all(np.abs(parts) <= most)
            and np.all((sums >= 0.0) & (sums <= LARGEST))
            and (s[S.PAID] == 0.0) == (s[S.FIRST_SIZE] == 0.0)
            and s[S.DROPPED] <= s[S.PAID] <= s[ROUNDS]
        )

    def conversion(self, x: ArrayLike) -> float:
        """The estimated chance that ``x`` pays anything, in [0, 1]."""
        feature = self._feature(x, ".conversion")
        return float(np.clip(feature @ self._M[conversion_row(self._M)], 0.0, 1.0))

    def amount(self, x: ArrayLike) -> float:
        """What ``x`` is estimated to pay where it pays, without optimism; 0 before six amounts."""
        M, feature = self._M, self._feature(x, ".amount")
        mean, size = float(feature @ M[THETA]), float(feature @ M[size_row(M)])
        return float(amount_of(self._s, mean, size))

    @property
    def one_estimate(self) -> bool:
        """Predictions are of a product; ``_means`` and ``_half_widths`` know it."""
        return True

    def _features(self, X: FloatArray) -> FloatArray:
        return np.hstack([X, np.full((len(X), 1), self._s[CONSTANT])])

    def _parts(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of each row: its chance, its mean amount, and the widths of the two."""
        M, F = self._M, self._features(X)
        C, Z = conversion_row(M), size_row(M)
        amounts = [amount_of(self._s, *pair) for pair in zip(F @ M[THETA], F @ M[Z], strict=True)]
        P = M[C + INVERSE : C + INVERSE + M.shape[1]]
        spread = np.sqrt(np.maximum(np.sum(F @ P * F, axis=1), 0.0))
        return F @ M[C], np.array(amounts), spread, self._widths(X)

    def _means(self, X: FloatArray) -> FloatArray:
        share, amount, _, _ = self._parts(X)
        return np.asarray(np.clip(share, 0.0, 1.0) * amount)

    def _half_widths(self, X: FloatArray, level: float) -> FloatArray:
        """How far a product lies off whose factors lie off by their own halves, each of these at
        half of what ``level`` leaves over.
        """
        s, each = self._s, 0.5 + 0.5 * level
        share, amount, spread, widths = self._parts(X)
        q = sides((1.0 + s[S.CONVERSION_ENERGY]) / (1.0 + s[ROUNDS]), each) * spread
        m = practice.half_widths(s, widths, each)
        return np.asarray(np.abs(amount) * q + np.clip(share, 0.0, 1.0) * m + q * m)

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Why ``select`` would choose as it does among ``arms``: the parts of each index."""
        X, s = self._offered(arms, ".explain"), self._s
        share, amount, spread, widths = self._parts(X)
        reach = AMOUNT_EXPLORATION * s[RADIUS] * widths
        if s[S.AUDIT] != 0.0:
            amount, reach = self._features(X) @ self._M[THETA], s[RADIUS] * widths
        hope = s[S.CONVERSION_RADIUS] * spread
        index = [largest_product(*one) for one in zip(share, hope, amount + reach, strict=True)]
        parts = {"conversion": share, "amount": amount, "index": np.array(index)}
        if s[P.UNIT] == 0.0:
            parts["index"] = hope
        rule = "the largest conversion times amount, each with what is not known of it"
        return Explanation(self.select(X), rule, parts)

    def _feature(self, x: ArrayLike, where: str) -> FloatArray:
        return np.append(self._asked_at(x, where), self._s[CONSTANT])

    @property
    def theta(self) -> FloatArray:
        """The slopes of q(x) m(x) at the average: of the amount times the share of rewards other
        than 0, plus those of conversion times the amount in the middle; a copy.
        """
        M, s = self._M, self._s
        share = s[S.PAID] / max(s[ROUNDS], 1.0)
        slopes = share * M[THETA] + s[S.MIDDLE] * M[conversion_row(M)]
        return np.asarray(slopes[: self.dim])

    def diagnostics(self) -> Diagnostics:
        told: dict[str, Any] = practice.told(self)
        return replace(super().diagnostics(), **told)
