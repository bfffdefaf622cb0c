"""BMM: Xue, Wang, Wang and Zhang (IJCAI 2020), medians of predictions; SupBMM with ``sup``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.confidence import bmm_radius
from heavytail.kernels.index import usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    FEATURE,
    INVERSE,
    OK,
    RADIUS,
    SCRATCH,
    THETA,
    Fixed,
    behind,
    numbered,
)
from heavytail.kernels.repeats import (
    EPOCH,
    credit,
    end_epoch,
    lay_meant,
    meant_row,
    median,
    nearest,
)
from heavytail.kernels.stages import absorb, choosers, learning_stage, squared_width
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.epochs import EpochPolicy, check_epoch, in_epochs
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["BMM"]


class Slots(NamedTuple):
    """BMM's own numbers."""

    ORDER: Fixed
    NOISE: Fixed  # (12 v)^(1/p)
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed
    STAGES: Fixed  # 1 without the Sup wrapper
    FINEST: Fixed  # 1/sqrt(T): widths below it exploit


S: Final = numbered(Slots, after=EPOCH)
COUNTS: Final = behind(S)  # samples of each stage; after them room for as many, then r numbers

# Stage g keeps r sums b_j = sum y_j x, rows from the arm meant on, and P_g; stage 0's P is the
# common one, the others' follow all the sums.


@jit
def gram_row(s: Vector, M: Matrix, stage: int) -> int:
    """First row of the stage's P."""
    if stage == 0:
        return int(INVERSE)
    after = meant_row(M) + 1 + int(s[S.STAGES]) * int(s[EPOCH.REPEATS])
    return int(after + (stage - 1) * M.shape[1])


@jit
def current_radius(s: Vector, stage: int) -> float:
    """alpha_n + sqrt(lambda) S of the stage, n the epoch to come, with radius_scale."""
    n = s[COUNTS + stage] + 1.0
    return s[S.RADIUS_SCALE] * bmm_radius(n, s[S.ORDER], s[S.NOISE], s[S.PRIOR_ROOT])


@jit
def stage_width(s: Vector, M: Matrix, stage: int) -> float:
    """w = (alpha + 1) ‖x‖_{A^-1} of the stage for x in FEATURE; leaves P x in SCRATCH. O(d²)."""
    return current_radius(s, stage) * math.sqrt(squared_width(M, gram_row(s, M, stage)))


@jit
def stage_mean(s: Vector, M: Matrix, R: Matrix, stage: int) -> float:
    """median_j x'theta_j of the stage, after :func:`stage_width`; R is M. O(r d)."""
    copies = int(s[EPOCH.REPEATS])
    room = COUNTS + 2 * int(s[S.STAGES])
    sums = meant_row(M) + 1 + stage * copies
    for c in range(copies):
        total = 0.0
        for j in range(M.shape[1]):
            total += M[SCRATCH, j] * R[sums + c, j]
        s[room + c] = total
    return median(s, room, copies)


choose, choose_staged = choosers("BMM", stage_width, stage_mean)
stage_of = learning_stage("BMM", stage_width)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """Inside an epoch the arm meant or the nearest to it; else by medians of predictions."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    if s[EPOCH.PULLS] > 0.0:
        return nearest(s, M, arms)
    return choose(s, M, M, arms)


@jit
def select_staged(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The same, between epochs by the Sup wrapper."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    if s[EPOCH.PULLS] > 0.0:
        return nearest(s, M, arms)
    stages = int(s[S.STAGES])
    return choose_staged(s, M, M, arms, stages, s[S.FINEST], COUNTS + stages)


@jit
def report(s: Vector, M: Matrix) -> None:
    """theta, for reading only: the median of the first stage's copies, coordinate by coordinate."""
    for i in range(M.shape[1]):
        for j in range(M.shape[1]):
            M[FEATURE, j] = 1.0 if i == j else 0.0
        stage_width(s, M, 0)
        M[THETA, i] = stage_mean(s, M, M, 0)
    s[RADIUS] = current_radius(s, 0)


@jit
def lay(s: Vector, M: Matrix, x: Vector) -> None:
    """FEATURE <- the arm meant, which is x where an epoch begins."""
    meant = meant_row(M)
    begins = s[EPOCH.PULLS] == 0.0
    for j in range(M.shape[1]):
        M[FEATURE, j] = x[j] if begins else M[meant, j]


@jit
def learn_in(s: Vector, M: Matrix, x: Vector, stage: int, reward: float) -> int:
    """Pull j of an epoch teaches copy j of the ``stage``; after the last, its V grows once."""
    copies = int(s[EPOCH.REPEATS])
    pull = int(s[EPOCH.PULLS])
    if stage >= 0:
        code = credit(s, M, x, meant_row(M) + 1 + stage * copies + pull, reward)
        if code != OK:
            return code
    lay_meant(s, M, x)
    if pull + 1 < copies:
        return OK
    if stage >= 0:
        absorb(M, gram_row(s, M, stage))
        s[COUNTS + stage] += 1.0
        report(s, M)
    end_epoch(s)
    return OK


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning, by the one stage there is."""
    lay(s, M, x)
    return learn_in(s, M, x, 0, reward)


@jit
def update_staged(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning, by the first stage that the arm meant is too wide for, if any."""
    lay(s, M, x)
    return learn_in(s, M, x, stage_of(s, M, int(s[S.STAGES]), s[S.FINEST]), reward)


class BMM(EpochPolicy):
    r"""Optimism with the median of r ridge predictions of each arm; for finitely many arms.

    $$\hat r_a = \operatorname*{median}_{j\le r}\ x_a^\top\hat\theta_j,\qquad
      w_a = \left((12v)^{\frac1p}\,n^{\frac{2-p}{2p}} + \sqrt\lambda S\right)\|x_a\|_{A^{-1}}$$

    Every arm chosen is played r times, once for each estimate. With the Sup wrapper
    (``sup=True``, the theory) the regret is Õ(sqrt(d) T^(1/p)) with probability 1 - delta at
    ``radius_scale=1``; experiments run it without, by the largest $\hat r_a + w_a$ on all data, and
    that is the default. O(n (d² + r d)) per epoch, and O(log T) times that with the wrapper. Arms
    must be playable again.

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> ht.BMM(2, horizon=18_000, tail=tail, arms=50).repeats
    171

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise; v = nu^p.
        arms: K, how many arms there are; enters r.
        copies: r; ceil(8 log(2 K T ln T/delta)) unless given. Published experiments use 31.
        sup: the Sup wrapper: floor(ln T) stages, each learning from its own explorations alone.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.

    Note: n counts the epochs an estimate has seen, and the one to come. Of the arms wide enough to
    explore, the wrapper takes the widest (the paper: any). The stage that learns is read off the
    arm played: the first whose width exceeds max(2^-s, 1/sqrt(T)). That is the stage that chose
    it, except when an arm was exploited while a later stage is still wide for it; that stage then
    learns too. ``theta`` is the median of the copies coordinate by coordinate (of stage 1), for
    reading only.
    There is no threshold to scale.
    """

    name = "BMM"
    info = Info(
        method="median of predictions",
        reference="Xue et al. 2020",
        regret="sqrt(d) T^(1/p) with sup",
        cost="O(log T)",
        storage="O(log T)",
        moment="central",
        repeats=True,
        horizon=True,
        sources=(
            "*Certain*: r, the median of predictions, the width and the Sup wrapper, from "
            "published experiment code and memory. *Decided*: n in the width counts the epochs an "
            "estimate has seen and the one to come; among wide arms the widest is explored; the "
            "stage that learns is read off the arm played, which is the stage that chose it but "
            "for one case told in the docstring."
        ),
    )
    algorithm = in_epochs(Algorithm(update=update, select=select, slots=(COMMON, EPOCH, S)))

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        arms: int,
        copies: int | None = None,
        sup: bool = False,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.1,
    ) -> None:
        check = self._start(dim, tail, horizon)
        K = check.count("arms", arms)
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        log_inverse_delta = check.log_inverse(delta)
        given = None if copies is None else check.count("copies", copies)
        r = check_epoch(check, horizon, lambda T: given or _copies(T, K, log_inverse_delta))
        stages = max(math.floor(math.log(horizon)), 1) if check.flag("sup", sup) else 1
        if sup:
            self.algorithm = replace(self.algorithm, select=select_staged, update=update_staged)
        self._allocate_epochs(
            r,
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,  # ridge estimates, without a ball
            rows={"copies": stages * r + (stages - 1) * self.dim},
            runs={"counts": stages},
            spare=stages + r,
        )
        s = self._s
        s[S.ORDER] = tail.order
        s[S.NOISE] = 12.0 ** (1.0 / tail.order) * tail.scale
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[S.STAGES] = stages
        s[S.FINEST] = horizon**-0.5
        for g in range(1, stages):
            row = gram_row(s, self._M, g)
            self._M[row : row + self.dim] = np.eye(self.dim) / ridge
        s[RADIUS] = current_radius(s, 0)

    def expected(self, x: FloatArray) -> float:
        """The median of the copies' predictions at ``x`` (of stage 1), which selection goes by."""
        self._M[FEATURE] = self._asked_at(x, ".expected")
        stage_width(self._s, self._M, 0)
        return float(stage_mean(self._s, self._M, self._M, 0))


def _copies(horizon: int, arms: int, log_inverse_delta: float) -> int:
    """r = ceil(8 log(2 K T ln T/delta)); ln T taken as at least 1."""
    inner = 2.0 * arms * horizon * max(math.log(horizon), 1.0)
    return math.ceil(8.0 * (math.log(inner) + log_inverse_delta))
