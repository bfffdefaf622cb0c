"""LOTUS: Kang, Hsieh and Lee (UAI 2024), Huber's loss with the nuclear norm, then truncation."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._invariants import are_counts
from heavytail._typing import Matrix, Vector
from heavytail.confidence import theory_radius
from heavytail.kernels.gram import shrink
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    COMMON,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    Count,
    Fixed,
    Size,
    numbered,
)
from heavytail.kernels.low_rank import (
    REWARD,
    SHAPE,
    WIDTH,
    any_arm,
    estimate_row,
    inside,
    keep,
    room_row,
    select_whole,
    settle,
    spare_row,
    turn,
)
from heavytail.kernels.nuclear_norm import PASSES, fit
from heavytail.kernels.one_pass import LARGEST, measure
from heavytail.kernels.svd import orthogonalise, product
from heavytail.kernels.truncation import add_truncated, begin, end
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.policies.core.low_rank import LARGEST_REWARD, ROWS, LowRankPolicy, agrees
from heavytail.tails import MomentBound

__all__ = ["LOTUS"]

ABOVE: Final = 4.0  # penalties, times d1 d2: a singular value above is no noise
FIRST_BATCH: Final = 5  # batches have 2^5, 2^6, ... rounds
LEAST: Final = 3.0  # rounds that explore in a batch, in features d1 + d2
LAZY: Final = 1.25  # theta is made anew when rewards have grown by this factor


class Slots(NamedTuple):
    """LOTUS's own numbers."""

    KEY: Count
    DRAWS: Count  # arms drawn so far
    FINDS: Fixed  # 1 where the rank is found
    ORDER: Fixed
    RAW_SCALE: Fixed  # (E|y|^p)^(1/p), at most
    RIDGE: Fixed  # lambda
    ARM_BOUND: Fixed  # L, of a matrix
    BOUND: Fixed  # S
    LEAST: Fixed  # D_r; 0: S / sqrt(r), whatever r is found
    ERROR: Fixed  # of Theta, times a power of the rounds explored
    LOG_INVERSE_DELTA: Fixed
    EXPLORES: Fixed  # rounds that explore in batch i, over 2^(i/p)
    RADIUS_SCALE: Fixed
    THRESHOLD_SCALE: Fixed
    BATCH: Count  # i
    UNTIL: Count  # the last round of the batch ...
    EXPLORE: Count  # ... and the last of it that explores
    EXPLORED: Count  # rows of H that fits are made of; those of the batch follow
    NEXT: Count  # rewards of the batch at which theta is made anew
    SLOPE: Size  # beta_t = SLOPE t^a + PRIOR_ROOT
    LEVEL: Size  # b_t = LEVEL t^a
    PRIOR_ROOT: Size


L: Final = SHAPE
S: Final = numbered(Slots, after=COMMON)


@jit
def open_batch(s: Vector) -> None:
    """The next batch, of 2^i rounds, of which the first explore."""
    s[S.BATCH] += 1.0
    length = 2.0 ** s[S.BATCH]
    share = s[S.EXPLORES] * 2.0 ** (s[S.BATCH] / s[S.ORDER])
    s[S.UNTIL] = s[ROUNDS] + length
    share = min(max(share, LEAST * (s[L.D1] + s[L.D2])), length)
    s[S.EXPLORE] = s[ROUNDS] + math.ceil(share)
    s[L.KEPT] = s[S.EXPLORED]  # what was learned in the last batch is of its own coordinates


@jit
def find_rank(s: Vector, M: Matrix) -> int:
    """The number of singular values of the fit above what noise makes of them; at least one."""
    d1 = int(s[L.D1])
    d2 = int(s[L.D2])
    E = estimate_row(s, M)
    A = room_row(s, M)
    for i in range(d1):
        for j in range(d2):
            M[A + i, j] = M[E + i, j]
    orthogonalise(M, A, A + d1, d1, d2)
    rank = 1
    while rank < min(d1, d2):
        if not product(M, A + rank, A + rank, d2) > (ABOVE * s[L.PENALTY] * d1 * d2) ** 2.0:
            break
        rank += 1
    return rank


@jit
def open_stage(s: Vector, M: Matrix, H: Matrix) -> None:
    """The second stage of a batch: a subspace from all rounds that explored, two ridges, and the
    constants of truncation for as many rounds as the batch has.
    """
    n = s[S.EXPLORED]
    if not fit(s, M, H, int(n), s[S.THRESHOLD_SCALE], PASSES):
        s[L.FITS] = 0.0  # these rounds say nothing: explore on
        return
    if s[S.FINDS] != 0.0:
        s[L.RANK] = find_rank(s, M)
    k = inside(s)
    size = M.shape[1]
    p = s[S.ORDER]
    left = s[S.UNTIL] - s[ROUNDS]
    ridge = s[S.RIDGE]
    grown = left * s[S.ARM_BOUND] ** 2.0
    outside = ridge
    if grown > 0.0:
        outside = max(ridge, grown / (k * math.log1p(grown / ridge)))
    error = s[S.ERROR] * math.sqrt(s[L.RANK]) * n ** (-(p - 1.0) / p)
    least = s[S.LEAST] if s[S.LEAST] > 0.0 else s[S.BOUND] / math.sqrt(s[L.RANK])
    bound = s[S.BOUND] * min(1.0, (error / least) ** 2.0) if k < size else 0.0
    settle(s, M, ridge, outside)
    T = 2.0 ** s[S.BATCH]
    log_inverse = s[S.LOG_INVERSE_DELTA] + math.log(2.0 * T)
    s[S.LEVEL] = s[S.THRESHOLD_SCALE] * s[S.RAW_SCALE] / log_inverse ** (1.0 / p)
    spread = (log_inverse + math.log(float(k))) ** ((p - 1.0) / p)
    s[S.SLOPE] = 4.0 * math.sqrt(float(k)) * s[S.RAW_SCALE] * spread
    s[S.PRIOR_ROOT] = math.sqrt(ridge * s[S.BOUND] ** 2.0 + (outside - ridge) * bound * bound)
    s[S.NEXT] = 1.0
    s[RADIUS] = current_radius(s, 1.0)


@jit
def current_radius(s: Vector, t: float) -> float:
    """beta_t after t rewards of the batch, with radius_scale."""
    return s[S.RADIUS_SCALE] * theory_radius(t, s[S.ORDER], s[S.SLOPE], s[S.PRIOR_ROOT])


@jit
def refit(s: Vector, M: Matrix, H: Matrix, first: int, count: int, level: float) -> bool:
    """TOFU's theta of the rows from ``first`` on, turned; True where the last of them is truncated
    in some coordinate. O(t d²).
    """
    z = room_row(s, M)
    root = spare_row(s, M)
    reward = H.shape[1] - WIDTH + REWARD
    begin(M, root)
    truncated = False
    for row in range(first, count):
        turn(s, M, H, row, z, True)
        truncated = add_truncated(M, root, z, H[row, reward], level)
    end(M, root)
    return truncated


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """Any arm while a batch explores, the largest index afterwards."""
    if s[ROUNDS] < s[S.EXPLORE] or s[L.FITS] == 0.0:
        return any_arm(s, arms, S.KEY, S.DRAWS)
    return select_whole(s, M, arms)


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round: kept, and where it does not explore, learned by truncation."""
    if not (abs(reward) <= LARGEST_REWARD):
        return OVERFLOW
    row = int(s[L.KEPT])
    if s[ROUNDS] < s[S.EXPLORE] or s[L.FITS] == 0.0:
        keep(H, row, x, reward, 1.0)
        s[L.KEPT] += 1.0
        s[S.EXPLORED] += 1.0
        s[ROUNDS] += 1.0
        if s[ROUNDS] >= s[S.EXPLORE]:
            open_stage(s, M, H)
    else:
        z = room_row(s, M)
        turn(s, M, x.reshape((1, x.shape[0])), 0, z, True)
        growth = 1.0 + measure(s, M, M[z, : M.shape[1]])
        if not (growth <= LARGEST):
            return OVERFLOW
        keep(H, row, x, reward, 1.0)
        s[L.KEPT] += 1.0
        shrink(M, 1.0 / growth)
        s[ROUNDS] += 1.0
        s[LOG_DET] += math.log(growth)
        first = int(s[S.EXPLORED])
        t = s[L.KEPT] - first
        if t >= s[S.NEXT]:
            s[S.NEXT] = math.floor(LAZY * t) + 1.0
            level = s[S.LEVEL] * t ** time_exponent(s[S.ORDER])
            if refit(s, M, H, first, row + 1, level):
                s[CLIPPED] += 1.0
        s[RADIUS] = current_radius(s, t)
    if s[ROUNDS] >= s[S.UNTIL]:
        open_batch(s)
    return OK


def rounds_agree(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the batch of a state from outside fits its rounds."""
    s = arrays["scalars"]
    return bool(
        are_counts(s[[S.BATCH]], 53.0, FIRST_BATCH)
        and s[S.EXPLORED] <= arrays["shape"][L.KEPT]
        and s[ROUNDS] <= s[S.UNTIL]
        and s[S.EXPLORE] <= s[S.UNTIL]
    )


class LOTUS(LowRankPolicy):
    r"""Low-rank bandits under heavy tails, horizon-free: in batches, explore and then truncate.

    $$\hat\Theta = \operatorname*{argmin}_\Theta\ \frac1n\sum_{i\le n}
      \mathrm{huber}_\tau(y_i - \langle X_i,\Theta\rangle) + \rho\|\Theta\|_*$$

    Batch i has 2^i rounds. Its first, (d1 + d2)^(3/2) r^(1/2) 2^(i/p) / D_r times
    ``explore_scale`` and the noise, and 3 (d1 + d2) at least, play any arm; from these and all
    that explored before the subspace is found, arms are turned by it as in
    :class:`heavytail.LowESTR`, and the rest of the batch is :class:`heavytail.TOFU` in those
    coordinates. With E|noise|^p finite the regret is Õ((d1 + d2)^(3/2) r^(1/2) T^(1/p) / D_r).
    A round costs O(n (d1 d2)²) and all rounds are kept.

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> policy = ht.LOTUS(4, 3, tail=tail, theta_bound=3.0)
    >>> policy.rank
    1

    Args:
        d1: rows of an arm.
        d2: columns of an arm.
        tail: the moment bound on the noise; made one on the reward by Minkowski's inequality.
        rank: r, of Theta*; found in every batch unless given, and 1 for the rounds that explore.
        form: "matrices" or "pairs", as of :class:`heavytail.HvtLowRank`.
        theta_bound: S >= ‖Theta*‖_F.
        smallest: D_r <= the least singular value of Theta*; S / sqrt(r) unless given, which is
            what it can be at most.
        arm_bound: L >= ‖X‖_F, 1 unless given; of a pair >= sqrt(‖u‖² + ‖v‖²), sqrt(2) unless
            given. Longer arms are refused, and a feature of the size of an arm is what L says.
        explore_scale: multiplies the rounds that explore.
        ridge: lambda inside the subspace.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory.
        threshold_scale: multiplies tau and b_t; ``math.inf`` neither clips nor truncates.
        seed: of the choices of any arm.

    Note: of the constants only the exponents are the paper's for certain. theta is made anew
    whenever the rewards of a batch have grown by a quarter, V in every round.
    """

    name = "LOTUS"
    info = Info(
        method="Huber, nuclear norm, truncation",
        reference="Kang et al. 2024",
        regret="(d1+d2)^(3/2) r^(1/2) T^(1/p)",
        cost="O(t)",
        storage="O(t)",
        moment="raw",
        randomised=True,
        sources=(
            "*Certain*: batches that double, Huber's loss with the nuclear norm, the truncation "
            "stage, the exponents, from the abstract. *Reconstructed*: every constant. *Ours*: the "
            "threshold and penalty of the fit, read off the residuals; theta made anew by quarters."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select,
        slots=(COMMON, S),
        history=ROWS,
        key_slot=S.KEY,
        draws_slot=S.DRAWS,
        agree=(agrees, rounds_agree),
    )
    whole = True

    def __init__(
        self,
        d1: int,
        d2: int,
        *,
        tail: MomentBound,
        rank: int | None = None,
        form: str = "matrices",
        theta_bound: float = 1.0,
        smallest: float | None = None,
        arm_bound: float | None = None,
        explore_scale: float = 0.02,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.001,
        threshold_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        check, r = self._start_low_rank(d1, d2, form, 1 if rank is None else rank)
        d1, d2 = self.d1, self.d2
        self._start(self._length, tail, None)
        bound = check.number("theta_bound", theta_bound, above=0.0)
        limit, arm_bound = self._bounds(check, arm_bound)
        least = self._smallest(check, smallest, bound, r)
        ridge = check.number("ridge", ridge, above=0.0)
        scale = check.number("explore_scale", explore_scale, above=0.0)
        size = d1 * d2
        self._allocate(
            ridge=ridge,
            arm_bound=limit,
            weight=(arm_bound / limit) ** 2,
            theta_bound=math.inf,
            size=size,
            **self._low_rank_parts(2 * size),
        )
        self._write_shape(r)
        s = self._s
        s[S.FINDS] = float(rank is None)
        s[S.ORDER] = tail.order
        s[S.RAW_SCALE] = tail.scale + bound * arm_bound  # Minkowski
        s[S.RIDGE], s[S.ARM_BOUND] = ridge, arm_bound
        s[S.BOUND], s[S.LEAST] = bound, 0.0 if smallest is None else least
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(delta)
        sure = (d1 + d2) * (math.log(2.0 * (d1 + d2)) + s[S.LOG_INVERSE_DELTA])
        s[S.ERROR] = math.sqrt(size) * tail.scale * sure ** ((tail.order - 1.0) / tail.order)
        s[S.ERROR] /= arm_bound
        s[S.EXPLORES] = scale * tail.scale * (d1 + d2) ** 1.5 * math.sqrt(r) / (least * arm_bound)
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[S.THRESHOLD_SCALE] = check.number(
            "threshold_scale", threshold_scale, above=0.0, infinite=True
        )
        s[S.BATCH] = FIRST_BATCH - 1
        open_batch(s)
        self.reseed(seed)

    @property
    def finds_rank(self) -> bool:
        return bool(self._s[S.FINDS] != 0.0)

    @property
    def explores(self) -> bool:
        s = self._s
        return bool(s[ROUNDS] < s[S.EXPLORE] or s[L.FITS] == 0.0)
