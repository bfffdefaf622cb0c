"""Hvt-LowRank: the one-pass estimate in the few coordinates that a low-rank Theta has. Ours.

The subspace is found as LOTUS does (Kang, Hsieh and Lee, UAI 2024), by Huber's loss with the
nuclear norm; what is played in between is :mod:`heavytail.policies.core.practice`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.cholesky import invert
from heavytail.kernels.fixed_rank import choose_rank
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    COMMON,
    CONSTANT,
    INVERSE,
    LOG_DET,
    OK,
    OVERFLOW,
    ROUNDS,
    SCRATCH,
    THETA,
    Count,
    Fixed,
    numbered,
)
from heavytail.kernels.low_rank import (
    NU,
    REWARD,
    SHAPE,
    WIDTH,
    any_arm,
    inside,
    keep,
    left_row,
    new_left_row,
    new_right_row,
    right_row,
    room_row,
    select_inside,
    spare_row,
    take_basis,
    turn,
)
from heavytail.kernels.nuclear_norm import fit, is_sane
from heavytail.kernels.random import uniform
from heavytail.policies.core import practice
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.info import Info
from heavytail.policies.core.low_rank import LARGEST_REWARD, ROWS, LowRankPolicy, agrees
from heavytail.policies.core.practice import PRACTICE, SIZES, restart
from heavytail.policies.core.practice import update as learn_inside
from heavytail.policies.core.practice_report import half_widths_of, report_noise
from heavytail.tails import MomentBound

__all__ = ["HvtLowRank"]

EXPLORATION: Final = 0.7
THRESHOLD: Final = 0.25  # of the threshold that a fit of the mean has
SHARE: Final = 3  # rounds of any arm, in features d1 + d2
ROUGHLY: Final = 3  # passes of that fit, which is polished afterwards
ENOUGH: Final = 10  # rows that the penalised fit is made of, in r (d1 + d2)
LARGER: Final = 1e-11  # of the first P: a rotation that leaves more than this is not made
AGAIN: Final = 1.5  # times as many rounds after which the subspace is found anew
KEPT: Final = 1500  # rounds that a fit is made of


class Slots(NamedTuple):
    """HvtLowRank's own numbers."""

    KEY: Count
    DRAWS: Count  # arms drawn so far
    NEXT: Count  # the round after which Theta is fitted
    MOST: Fixed  # rows that are kept
    RANKS: Fixed  # the largest rank that is looked for
    FINDS: Fixed  # 0 where the full rank is stated, and there is none to find


L: Final = SHAPE
P: Final = PRACTICE
S: Final = numbered(Slots, after=PRACTICE)


@jit
def overlap(s: Vector, M: Matrix, C: int, rank: int) -> None:
    """Rows C.. <- the inner products of the new inside coordinates (rows) with the old (columns),
    which were of ``rank``; the constant, and a coordinate that neither uses, is its own.
    """
    d1 = int(s[L.D1])
    d2 = int(s[L.D2])
    r = int(s[L.RANK])
    k = inside(s)
    before = rank * (d1 + d2) - rank * rank
    U = left_row(M)
    V = right_row(s, M)
    new_U = new_left_row(s, M)
    new_V = new_right_row(s, M)
    for a in range(M.shape[1]):
        for b in range(M.shape[1]):
            if a >= k or b >= before:
                M[C + a, b] = 1.0 if a == b and a >= max(k, before) else 0.0
                continue
            i = a // d2 if a < r * d2 else r + (a - r * d2) // r
            p = b // d2 if b < rank * d2 else rank + (b - rank * d2) // rank
            left = 0.0
            for q in range(d1):
                left += M[new_U + i, q] * M[U + p, q]
            j = a % d2 if a < r * d2 else (a - r * d2) % r
            m = b % d2 if b < rank * d2 else (b - rank * d2) % rank
            right = 0.0
            if a < r * d2 and b < rank * d2:
                right = 1.0 if j == m else 0.0
            elif a < r * d2:
                right = M[V + m, j]
            elif b < rank * d2:
                right = M[new_V + j, m]
            else:
                for q in range(d2):
                    right += M[new_V + j, q] * M[V + m, q]
            M[C + a, b] = left * right


@jit
def carry(s: Vector, M: Matrix, rank: int) -> bool:
    """Take over the basis that a fit left in the room, with all that is known inside it.

    With C the inner products of new and old coordinates, V <- V_0 + C (V - V_0) C' and
    V theta <- C V theta. Where theta lay in both spans nothing is lost; what the rounds said of
    coordinates that were outside was not kept. False, and nothing changed, where rounding leaves V
    not positive definite. O(k³).
    """
    size = M.shape[1]
    F = INVERSE + size  # the room of P
    Q = spare_row(s, M)
    C = Q + size
    W = C + size
    ridge = s[P.RIDGE]
    if s[P.UNIT] > 0.0:
        ridge /= (s[P.UNIT] * s[P.NU]) ** 2.0
    if math.isnan(invert(M, INVERSE, F, Q, SCRATCH)):
        return False
    overlap(s, M, C, rank)
    for i in range(size):  # C (V - V_0), and C V theta in a column of its own: SCRATCH is in use
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += M[C + i, k] * (M[Q + k, j] - (ridge if j == k else 0.0))
            M[W + i, j] = total
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += (M[W + i, j] + ridge * M[C + i, j]) * M[THETA, j]
        M[W + size, i] = total
    for i in range(size):
        for j in range(i + 1):
            total = ridge if i == j else 0.0
            for k in range(size):
                total += M[W + i, k] * M[C + j, k]
            M[Q + i, j] = total
            M[Q + j, i] = total
    log_det = invert(M, Q, F, C, SCRATCH)
    if math.isnan(log_det):
        return False
    for i in range(size):  # P never is larger than at first, which rounding may make it
        for j in range(size):
            M[Q + i, j] = ((1.0 + LARGER) / ridge if i == j else 0.0) - M[C + i, j]
    if math.isnan(invert(M, Q, F, Q, SCRATCH)):
        return False
    for i in range(size):
        total = 0.0
        for j in range(size):
            M[INVERSE + i, j] = M[C + i, j]
            total += M[C + i, j] * M[W + size, j]
        M[THETA, i] = total
    s[LOG_DET] = log_det - size * math.log(s[P.RIDGE])
    take_basis(s, M)
    return True


@jit
def begin(s: Vector, M: Matrix, H: Matrix) -> None:
    """Learn what was kept in the coordinates of the last fit, in order, from nothing but the unit
    and the scale where they are known.
    """
    take_basis(s, M)
    k = M.shape[1] - 1
    column = H.shape[1] - WIDTH
    z = room_row(s, M)
    count = int(s[L.KEPT])
    s[ROUNDS] -= count
    s[P.BEGAN] = s[ROUNDS]
    if s[P.UNIT] > 0.0:
        s[CLIPPED] = 0.0
        restart(s, M, s[P.UNIT])
    for row in range(count):
        turn(s, M, H, row, z, False)
        if learn_inside(s, M, M[z, :k], H[row, column + REWARD], H[row, column + NU]) != OK:
            s[ROUNDS] += 1.0  # its size is out of range: it says nothing of Theta


@jit
def refit(s: Vector, M: Matrix, H: Matrix) -> None:
    """Find the subspace anew and go on in it; where the first rounds say nothing, explore on."""
    first = s[L.FITS] == 0.0
    count = int(s[L.KEPT])
    rank = s[L.RANK]
    most = s[S.RANKS]
    freedom = most * (s[L.D1] + s[L.D2])
    latest = min(count, int(ENOUGH * freedom))
    s[S.NEXT] = s[ROUNDS] + SHARE * (s[L.D1] + s[L.D2]) if first else math.ceil(AGAIN * s[ROUNDS])
    if not fit(s, M, H[count - latest :], latest, THRESHOLD, ROUGHLY):
        return
    s[S.NEXT] = math.ceil(AGAIN * s[ROUNDS])
    if s[S.FINDS] != 0.0:
        room = M.shape[0] - int(2.0 * s[L.D1] + s[L.D2])
        choose_rank(s, M, H, count, THRESHOLD, int(most), room)
    if not is_sane(s, M):
        s[L.FITS] -= 1.0
        s[L.RANK] = rank
        return
    if first or (s[ROUNDS] == count and s[S.FINDS] != 0.0):
        begin(s, M, H)
    elif not carry(s, M, int(rank)):
        s[L.RANK] = rank


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round: learned in the coordinates inside, kept for the next fit, which may be due."""
    if not (abs(reward) <= LARGEST_REWARD * nu):
        return OVERFLOW
    number = s[ROUNDS]
    row = int(s[L.KEPT])
    if row >= s[S.MOST]:  # a round for one of those kept, so that all are as likely to be
        row = int(uniform(int(s[S.KEY]), int(number), 1) * (number + 1.0))
    if s[L.FITS] == 0.0:
        s[ROUNDS] += 1.0
    else:
        z = room_row(s, M)
        turn(s, M, x.reshape((1, x.shape[0])), 0, z, False)
        code = learn_inside(s, M, M[z, : M.shape[1] - 1], reward, nu)
        if code != OK:
            return code
    if row < s[S.MOST]:
        keep(H, row, x, reward, nu)
        s[L.KEPT] = max(s[L.KEPT], row + 1.0)
    if s[ROUNDS] >= s[S.NEXT]:
        refit(s, M, H)
    return OK


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """The first arm of largest index in the coordinates inside; any arm before the first fit.
    O(n k²).
    """
    if s[L.FITS] == 0.0:
        return any_arm(s, arms, S.KEY, S.DRAWS)
    return select_inside(s, M, arms)


def has_room(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether M has room for the rank of a state from outside."""
    return bool(arrays["shape"][L.RANK] <= policy._s[S.RANKS])


def report_rank(policy: PackedPolicy, report: Diagnostics) -> Diagnostics:
    """Add that more ranks than were looked for are possible."""
    assert isinstance(policy, HvtLowRank)
    most = int(policy._s[S.RANKS])
    limited = policy._arguments.get("rank") is None and most < min(policy.d1, policy.d2)
    if not limited or policy.explores or policy.rank != most:
        return report
    word = f"rank {most} was found, and none above was looked for: state one."
    return replace(report, advice=(*report.advice, word))


class HvtLowRank(LowRankPolicy):
    r"""Arms that are matrices, a mean reward of few degrees of freedom, rewards of any tail.

    $$\mathbb E[y \mid X] = b + \langle X, \Theta^*\rangle,\qquad \operatorname{rank}\Theta^* = r,
      \qquad k = r(d_1 + d_2) - r^2$$

    The first 3 (d1 + d2) rounds play any arm. Then, and whenever there are half as many rounds
    again, the subspace is found from rounds that were kept,

    $$\hat\Theta = \operatorname*{argmin}_{\Theta, b}\ \frac1n\sum_{i\le n}
      \mathrm{huber}_\tau\big(y_i - b - \langle X_i, \Theta\rangle\big) +
      \rho\,\|\Theta\|_*,$$

    with its threshold and penalty read off the residuals; r grows from 1 while one more lowers the
    loss by more than noise alone would. In between :class:`heavytail.HvtUCB` chooses and learns in
    the k coordinates that the first r singular vectors of Theta span. While all rounds are kept
    they are learned anew in the next subspace; later what is known inside is carried over. With k
    of the largest rank looked for, a round costs O(n k²), a fit O(n d1 d2) a step, of which there
    are O(log t); the state holds k² numbers and the rounds kept, at most ``kept``. No theorem;
    decisions do not hang on the unit of the rewards. What lies outside the subspace is not seen: a
    rank that may not grow as far as Theta's, or a mean that differs from the typical reward by more
    than the fit can tell, stays for ever.

    >>> import heavytail as ht
    >>> policy = ht.HvtLowRank(4, 3, rank=1, form="pairs")
    >>> user, items = [0.5, 0.5, 0.5, 0.5], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    >>> arms = ht.pairs(user, items)
    >>> arm = policy.select(arms)
    >>> policy.update(arms[arm], reward=3.0)
    >>> policy.matrix.shape
    (4, 3)

    Args:
        d1: rows of an arm.
        d2: columns of an arm.
        rank: the largest r that is looked for; sqrt(min(d1, d2)), rounded up, unless given. One
            too many costs little regret, and time; ``policy.rank`` is what was found. With
            min(d1, d2) itself nothing is looked for: it is HvtUCB on all entries.
        form: "matrices", arms (n, d1, d2) or, row by row, (n, d1 d2); or "pairs", arms
            (n, d1 + d2) of vectors u and v that stand for u v', see :func:`heavytail.pairs`.
        tail: the moment bound on the noise, if it is known; otherwise its scale is learned, and a
            round's ``scale`` says how it compares with other rounds.
        arm_bound: L >= ‖X‖_F, 1 unless given; of a pair >= sqrt(‖u‖² + ‖v‖²), sqrt(2) unless
            given. Longer arms are refused, and a feature of the size of an arm is what L says.
        explore: how many rounds play any arm.
        kept: rounds that a fit is made of at most.
        seed: of the choices of any arm, and of which rounds are kept.
    """

    name = "Hvt-LowRank"
    info = Info(
        method="Huber, nuclear norm",
        reference="this library",
        regret="none proved",
        cost="O(1)",
        storage="bounded",
        moment="central",
        uses_scale=True,
        randomised=True,
        sources=(
            "*Ours*: LOTUS's fit of the subspace (Kang, Hsieh and Lee 2024) with a threshold that "
            "tunes itself, and Hvt-UCB's practical step inside it."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select,
        slots=(COMMON, PRACTICE, S),
        history=ROWS,
        any_ridge=True,
        key_slot=S.KEY,
        draws_slot=S.DRAWS,
        agree=(practice.agrees, agrees, has_room),
        half_widths=half_widths_of,
        reports=(report_noise, report_rank),
    )

    def __init__(
        self,
        d1: int,
        d2: int,
        *,
        rank: int | None = None,
        form: str = "matrices",
        tail: MomentBound | str | None = None,
        arm_bound: float | None = None,
        explore: int | None = None,
        kept: int = KEPT,
        seed: int = 0,
    ) -> None:
        stated = rank
        check, rank = self._start_low_rank(d1, d2, form, rank)
        d1, d2 = self.d1, self.d2
        self._start(self._length, practice.stated(check, tail), None, scale_known=False)
        limit, arm_bound = self._bounds(check, arm_bound)
        k = rank * (d1 + d2) - rank * rank
        ridge = practice.own_ridge(k, arm_bound)
        parts = self._low_rank_parts(3 * (k + 1) + 1 + 2 * d1 + d2)
        parts["runs"] = {"sizes": SIZES, **parts["runs"]}
        self._allocate(
            ridge=ridge,
            arm_bound=limit,
            weight=(arm_bound / limit) ** 2,
            theta_bound=math.inf,
            size=k + 1,
            **parts,
        )
        self._s[CONSTANT] = arm_bound
        practice.start(
            self, check, exploration=EXPLORATION, delta=None, ridge=ridge, arm_bound=arm_bound
        )
        self._write_shape(rank)
        s = self._s
        s[S.RANKS] = rank
        s[S.FINDS] = min(d1, d2) > (1 if stated is None else rank)
        s[S.MOST] = self._state.most_kept = check.count("kept", kept, least=rank * (d1 + d2))
        first = SHARE * (d1 + d2)
        least = d1 + d2 - 1  # k of rank 1
        s[S.NEXT] = first if explore is None else check.count("explore", explore, least=least)
        self.reseed(seed)

    @property
    def finds_rank(self) -> bool:
        return bool(self._s[S.FINDS] != 0.0)
