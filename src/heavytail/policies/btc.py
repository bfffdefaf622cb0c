"""BTC: Xue, Wang, Wang and Zhang (IJCAI 2020), truncation arm by arm; SupBTC with ``sup``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from heavytail._invariants import are_counts, hangs_together
from heavytail._turns import alone
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.index import usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    FEATURE,
    INVERSE,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    SCRATCH,
    Count,
    Fixed,
    behind,
    numbered,
)
from heavytail.kernels.one_pass import LARGEST
from heavytail.kernels.quadratic import first_extra
from heavytail.kernels.stages import absorb, choosers, learning_stage, squared_width
from heavytail.policies.core.algorithm import Algorithm, Arrays, History
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["BTC"]


class Slots(NamedTuple):
    """BTC's own numbers."""

    ORDER: Fixed
    FACTOR: Fixed  # alpha: the radius is FACTOR t^a + sqrt(lambda) S
    THRESHOLD_SCALE: Fixed
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed
    STAGES: Fixed  # 1 without the Sup wrapper
    FINEST: Fixed  # 1/sqrt(T): widths below it exploit
    SAMPLES: Count  # rows of H
    GROUPS: Count  # distinct (features, stage) among them


S: Final = numbered(Slots, after=COMMON)
BEST: Final = behind(S)  # the largest index of each stage in the running choice: room, not state


# Rewards are kept by the features they were paid for, so that truncated sums need not visit them
# all. Rows of H with the same features (and stage) are a group. Its rewards are a list from the
# largest |y| down, and each row knows the sum of y from itself on. What a threshold leaves is then
# one sum, found past the few rewards it truncates, and never as a difference in which an outlier
# would drown the rest. Row g of H also describes group g, its features first.

# Columns of H, counted from behind the features.
REWARD: Final = 0
FOLLOWING: Final = 1  # the row next in the list, -1 at its end
REST: Final = 2  # the sum of y over this row and those after it
HEAD: Final = 3  # of group g: the row of largest |y|
COUNT: Final = 4  # of group g
STAGE: Final = 5  # of group g
WIDTH: Final = 6
FARTHEST: Final = 1e290  # rewards that are kept: as many as a double counts can be added up


def btc_factor(order: float, horizon: int, arms: int, raw_scale: float, delta: float) -> float:
    """alpha of BTC, Xue et al. (IJCAI 2020): the width of arm x is (alpha t^a + 1) ‖x‖_{A^-1}.

    alpha = (2/3) q + sqrt(2 q v) + v, q = log(2 T K log(T) / delta), v = raw_scale^p >= E|r|^p.
    """
    q = math.log(2.0 * horizon * arms * math.log(horizon) / delta)
    v = raw_scale**order
    return 2.0 / 3.0 * q + math.sqrt(2.0 * q * v) + v


@jit
def find_group(M: Matrix, H: Matrix, groups: int, stage: int) -> int:
    """The group of the features in FEATURE; a new and empty one, number ``groups``, where there is
    none. O(groups d).
    """
    size = M.shape[1]
    for g in range(groups):
        same = H[g, size + STAGE] == stage
        for j in range(size):
            same = same and H[g, j] == M[FEATURE, j]
        if same:
            return g
    for j in range(size):
        H[groups, j] = M[FEATURE, j]
    H[groups, size + HEAD] = -1.0
    H[groups, size + COUNT] = 0.0
    H[groups, size + STAGE] = stage
    return groups


@jit
def kept(reward: float) -> float:
    """The reward as it is kept: one beyond FARTHEST is truncated anyway, and sums of it are not
    to overflow.
    """
    return max(-FARTHEST, min(reward, FARTHEST))


@jit
def insert(M: Matrix, H: Matrix, row: int, group: int, reward: float) -> None:
    """Put a reward into its group's list. O(length), all of it rows that are larger."""
    size = M.shape[1]
    before = -1
    here = int(H[group, size + HEAD])
    while here >= 0 and abs(H[here, size + REWARD]) > abs(reward):
        H[here, size + REST] += reward
        before = here
        here = int(H[here, size + FOLLOWING])
    H[row, size + REWARD] = reward
    H[row, size + FOLLOWING] = here
    H[row, size + REST] = reward + (H[here, size + REST] if here >= 0 else 0.0)
    if before < 0:
        H[group, size + HEAD] = row
    else:
        H[before, size + FOLLOWING] = row
    H[group, size + COUNT] += 1.0


@jit
def truncated_sum(
    M: Matrix, H: Matrix, groups: int, stage: int, order: float, scale: float
) -> float:
    """sum_s h_s y_s 1{|h_s y_s| <= scale ‖h‖_p}, h_s = x_s'u for u in SCRATCH, over one stage.

    O(groups d), and one step for every reward truncated.
    """
    size = M.shape[1]
    power = 0.0
    for g in range(groups):
        if H[g, size + STAGE] != stage:
            continue
        h = 0.0
        for j in range(size):
            h += H[g, j] * M[SCRATCH, j]
        power += H[g, size + COUNT] * (h * h if order == 2.0 else abs(h) ** order)
    level = scale * power ** (1.0 / order)
    total = 0.0
    for g in range(groups):
        if H[g, size + STAGE] != stage:
            continue
        h = 0.0
        for j in range(size):
            h += H[g, j] * M[SCRATCH, j]
        if h == 0.0:
            continue
        limit = level / abs(h)
        row = int(H[g, size + HEAD])
        while row >= 0 and abs(H[row, size + REWARD]) > limit:
            row = int(H[row, size + FOLLOWING])
        if row >= 0:
            total += h * H[row, size + REST]
    return total


@jit
def gram_row(M: Matrix, stage: int) -> int:
    """First row of the stage's A^-1; stage 0's is the common one."""
    if stage == 0:
        return INVERSE
    return first_extra(M.shape[1]) + (stage - 1) * M.shape[1]


@jit
def stage_width(s: Vector, M: Matrix, stage: int) -> float:
    """w = radius ‖x‖_{A^-1} of the stage for x in FEATURE; leaves A^-1 x in SCRATCH. O(d²)."""
    return s[RADIUS] * math.sqrt(squared_width(M, gram_row(M, stage)))


@jit
def stage_mean(s: Vector, M: Matrix, H: Matrix, stage: int) -> float:
    """The estimate of the stage for x in FEATURE, after :func:`stage_width`."""
    return truncated_sum(M, H, int(s[S.GROUPS]), stage, s[S.ORDER], s[S.THRESHOLD_SCALE])


choose, choose_staged = choosers("BTC", stage_width, stage_mean)
stage_of = learning_stage("BTC", stage_width)


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """By estimates made for each arm; BAD_X or NO_ARM where the arms are not usable."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    return choose(s, M, H, arms)


@jit
def select_staged(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """The same by the Sup wrapper."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    return choose_staged(s, M, H, arms, int(s[S.STAGES]), s[S.FINEST], BEST)


@jit
def set_radius(s: Vector) -> None:
    """The radius for round t = ROUNDS + 1: alpha t^a + sqrt(lambda) S, with radius_scale."""
    t = s[ROUNDS] + 1.0
    s[RADIUS] = s[S.RADIUS_SCALE] * (s[S.FACTOR] * t ** time_exponent(s[S.ORDER]) + s[S.PRIOR_ROOT])


@jit
def learn_in(s: Vector, M: Matrix, H: Matrix, stage: int, reward: float) -> None:
    """The reward of the arm in FEATURE into its group, and A of its stage. Nothing is fitted."""
    groups = int(s[S.GROUPS])
    group = find_group(M, H, groups, stage)
    if group == groups:
        s[S.GROUPS] += 1.0
    insert(M, H, int(s[S.SAMPLES]), group, kept(reward))
    s[S.SAMPLES] += 1.0
    growth = absorb(M, gram_row(M, stage))
    if stage == 0:
        s[LOG_DET] += math.log(growth)


@jit
def too_large(s: Vector, reward: float) -> bool:
    """Tell whether a reward that is never truncated would leave the floating-point range."""
    return not (s[S.THRESHOLD_SCALE] < math.inf or abs(reward) <= LARGEST)


@jit
def lay(M: Matrix, x: Vector) -> None:
    """FEATURE <- x."""
    for j in range(M.shape[1]):
        M[FEATURE, j] = x[j]


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning, by the one stage there is."""
    if too_large(s, reward):
        return OVERFLOW
    lay(M, x)
    learn_in(s, M, H, 0, reward)
    s[ROUNDS] += 1.0
    set_radius(s)
    return OK


@jit
def update_staged(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning, by the first stage that x is too wide for, if any."""
    if too_large(s, reward):
        return OVERFLOW
    lay(M, x)
    stage = stage_of(s, M, int(s[S.STAGES]), s[S.FINEST])
    if stage >= 0:
        learn_in(s, M, H, stage, reward)
    s[ROUNDS] += 1.0
    set_radius(s)
    return OK


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the groups of a state from outside list every row once, by size."""
    s, rows = arrays["scalars"], arrays["history"][:, policy.dim :]
    count, groups = len(rows), s[S.GROUPS]
    if not (groups <= count <= s[ROUNDS] and (groups > 0) == (count > 0)):
        return False
    own, following = rows[: int(groups)], rows[:, FOLLOWING]
    if not are_counts(following, count, -1.0):
        return False
    after = rows[following[following >= 0].astype(np.int64), REWARD]
    return bool(
        are_counts(own[:, STAGE], s[S.STAGES])
        and are_counts(own[:, COUNT])
        and own[:, COUNT].sum() == count
        and hangs_together(own[:, HEAD], following, count)
        and np.all(np.abs(after) <= np.abs(rows[following >= 0, REWARD]))
    )


class BTC(PackedPolicy):
    r"""Optimism with estimates truncated for each arm apart; for finitely many arms.

    $$\hat r_a = \sum_s h_s\,y_s\,\mathbb 1\{|h_s y_s|\le\|h\|_p\},\quad h_s = x_s^\top A^{-1}x_a,
      \qquad w_a = \left(\alpha\,t^{\frac{2-p}{2p}} + \sqrt\lambda S\right)\|x_a\|_{A^{-1}}$$

    with alpha = (2/3) q + sqrt(2 q v) + v, q = log(2 T K ln T/delta) and v >= E|y|^p, a moment of
    the reward itself. With the Sup wrapper (``sup=True``, the theory) the regret is
    Õ(sqrt(d) T^(1/p)) with probability 1 - delta at ``radius_scale=1``; experiments run it without,
    by the largest $\hat r_a + w_a$ on all data, and that is the default. The threshold belongs to
    the arm that is judged, so every round truncates the whole history anew for each of its n arms:
    O(n t d). Rounds with the same features share one h, so over a fixed pool of n arms a round
    costs O(n² d + t). Memory is O(t).

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> policy = ht.BTC(2, horizon=1000, tail=tail, arms=50)
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> policy.expected([1.0, 0.0])
    0.0

    Args:
        dim: length of a feature vector.
        horizon: T, at least 3.
        tail: the moment bound on the noise; made one on the reward by Minkowski's inequality.
        arms: K, how many arms there are; enters q.
        sup: the Sup wrapper: floor(ln T) stages, each learning from its own explorations alone.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda; 1 in the paper.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory.
        threshold_scale: multiplies ‖h‖_p; 1 is the theory, ``math.inf`` never truncates.

    Note: the threshold ‖h‖_p has no unit and is meant for rewards of order one; others should be
    rescaled, or ``threshold_scale`` set. Of the arms wide enough to explore, the wrapper takes the
    widest (the paper: any). The stage that learns is read off the arm played: the first whose
    width exceeds max(2^-s, 1/sqrt(T)). That is the stage that chose it, except when an arm was
    exploited while a later stage is still wide for it; that stage then learns too. ``theta`` is
    the prediction at each unit vector (of stage 1), for reading only: predictions are not linear.
    """

    name = "BTC"
    info = Info(
        method="truncation",
        reference="Xue et al. 2020",
        regret="sqrt(d) T^(1/p) with sup",
        cost="O(t)",
        storage="O(t)",
        moment="raw",
        horizon=True,
        sources=(
            "*Certain*: estimator, threshold and width, from published experiment code. "
            "*Decided*: how ties and the choice among wide arms are made in the Sup wrapper; the "
            "stage that learns is read off the arm played."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select,
        slots=(COMMON, S),
        history=History(WIDTH, counter=S.SAMPLES, pointers=(FOLLOWING, HEAD)),
        agree=(agrees,),
    )

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        arms: int,
        sup: bool = False,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.03,
        threshold_scale: float = 1.0,
    ) -> None:
        check = self._start(dim, tail, horizon)
        check.count("horizon", horizon, least=3, hint="ln T must be at least one stage.")
        K = check.count("arms", arms)
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        delta = check.delta(delta)
        stages = math.floor(math.log(horizon)) if check.flag("sup", sup) else 1
        if sup:
            self.algorithm = replace(self.algorithm, select=select_staged, update=update_staged)
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,
            rows={"sums": (stages - 1) * self.dim},
            spare=stages,
        )
        raw_scale = tail.scale + theta_bound * arm_bound  # Minkowski: (E|y|^p)^(1/p) <= nu + S L
        s = self._s
        s[S.ORDER] = tail.order
        s[S.FACTOR] = btc_factor(tail.order, horizon, K, raw_scale, delta)
        s[S.THRESHOLD_SCALE] = check.number(
            "threshold_scale", threshold_scale, above=0.0, infinite=True
        )
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[S.STAGES] = stages
        s[S.FINEST] = horizon**-0.5
        for g in range(1, stages):
            row = gram_row(self._M, g)
            self._M[row : row + self.dim] = np.eye(self.dim) / ridge
        set_radius(s)

    @alone
    def expected(self, x: FloatArray) -> float:
        """The truncated estimate at ``x`` (of stage 1), which selection goes by."""
        self._M[FEATURE] = self._asked_at(x, ".expected")
        stage_width(self._s, self._M, 0)
        return float(stage_mean(self._s, self._M, self._H, 0))

    @property
    @alone
    def theta(self) -> FloatArray:
        return np.array([self.expected(unit) for unit in np.eye(self.dim)])
