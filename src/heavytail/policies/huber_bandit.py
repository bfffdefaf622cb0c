"""Huber-Bandit: Kang and Kim (UAI 2023), Huber regression with forced sampling."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from heavytail._invariants import are_counts
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.index import usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    NO_ARM,
    OK,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    THETA,
    Count,
    Fixed,
    behind,
    numbered,
)
from heavytail.kernels.m_estimate import TARGET, newton
from heavytail.kernels.one_pass import LARGEST
from heavytail.kernels.quadratic import BEHIND, extra_rows, first_extra
from heavytail.policies.core.algorithm import Algorithm, Arrays, History
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["HuberBandit"]


class Slots(NamedTuple):
    """HuberBandit's own numbers."""

    ORDER: Fixed
    NU: Fixed  # threshold_scale times nu
    ARMS: Fixed  # K
    FORCED: Fixed  # q, forced pulls of an arm in every phase
    RIDGE: Fixed
    LOG_TERM: Fixed  # log((2d + 1) / delta)
    MODELS: Fixed  # K, or 1 where the parameter is shared
    KNOWN: Count  # models in use


S: Final = numbered(Slots, after=COMMON)
COUNTS: Final = behind(S)  # |S_k| of each model, then |T_k| of each

# Columns of H behind x and the reward: the model of the row, and again where it was forced.
ALL_OF: Final = 1
FORCED_OF: Final = 2
NOT_FORCED: Final = -1.0

# Parts of a model, blocks of M behind the solver's rows: the features it is known by, its fit to
# all of its rewards, its fit to the forced ones.
FEATURES: Final = 0
FIT: Final = 1
FORCED_FIT: Final = 2


@jit
def model_row(s: Vector, M: Matrix, part: int, model: int) -> int:
    """The row of M with one part of one model."""
    size = M.shape[1]
    return first_extra(size) + size + BEHIND + part * int(s[S.MODELS]) + model


@jit
def forced_arm(s: Vector, t: float) -> int:
    """The arm that round t is reserved for, or -1; phase n ends with round 2^n K q."""
    phase = s[S.ARMS] * s[S.FORCED]
    start = 0.0
    length = phase
    while start + phase < t:
        start += length
        length *= 2.0
    if t <= start:
        return -1
    return int((t - start - 1.0) // s[S.FORCED])


@jit
def distance(s: Vector, M: Matrix, model: int, arms: Matrix, i: int) -> float:
    """‖x - features of the model‖² for x = arms[i]."""
    row = model_row(s, M, FEATURES, model)
    total = 0.0
    for j in range(arms.shape[1]):
        total += (arms[i, j] - M[row, j]) ** 2
    return total


@jit
def model_of(s: Vector, M: Matrix, arms: Matrix, i: int) -> int:
    """The model of arms[i]: the one of these features, else the nearest known; -1 if none is."""
    known = int(s[S.KNOWN])
    if s[S.MODELS] == 1.0:
        return min(known, 1) - 1
    if i < known and distance(s, M, i, arms, i) == 0.0:
        return i
    best = -1
    shortest = math.inf
    for model in range(known):
        length = distance(s, M, model, arms, i)
        if length < shortest:
            best = model
            shortest = length
    return best


@jit
def prediction(s: Vector, M: Matrix, part: int, arms: Matrix, i: int) -> float:
    """x'b of the arm's model; 0 before any is known."""
    model = model_of(s, M, arms, i)
    if model < 0:
        return 0.0
    row = model_row(s, M, part, model)
    total = 0.0
    for j in range(arms.shape[1]):
        total += arms[i, j] * M[row, j]
    return total


@jit
def reserved(s: Vector, M: Matrix, arms: Matrix, k: int) -> int:
    """The arm to play in a round reserved for arm k: the offered arm nearest to k, which is k
    itself if offered; while k is not known, the first offered arm that is not known either. O(n K
    d).

    The offered arms in turn where all of them are known, or where one fit serves all.
    """
    count = arms.shape[0]
    if s[S.MODELS] == 1.0:
        return k % count
    if k < int(s[S.KNOWN]):
        best = 0
        for i in range(1, count):
            if distance(s, M, k, arms, i) < distance(s, M, k, arms, best):
                best = i
        return best
    for i in range(count):
        model = model_of(s, M, arms, i)
        if model < 0 or distance(s, M, model, arms, i) > 0.0:
            return i
    return k % count


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """The arm the round is reserved for; else the best by all rewards of those that the forced
    ones leave within h/2 of their best. O(n K d).
    """
    count = arms.shape[0]
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    if count == 0:
        return NO_ARM
    forced = forced_arm(s, s[ROUNDS] + 1.0)
    if forced >= 0:
        return reserved(s, M, arms, forced)
    leader = -math.inf
    for i in range(count):
        leader = max(leader, prediction(s, M, FORCED_FIT, arms, i))
    best = NO_ARM
    best_mean = -math.inf
    for i in range(count):
        if leader - prediction(s, M, FORCED_FIT, arms, i) <= s[RADIUS]:
            mean = prediction(s, M, FIT, arms, i)
            if mean > best_mean or best < 0:
                best = i
                best_mean = mean
    return best


@jit
def assign(s: Vector, M: Matrix, x: Vector) -> int:
    """The model that learns from x: its own, a new one while there are any, else the nearest."""
    known = int(s[S.KNOWN])
    best = -1
    shortest = math.inf
    for model in range(known):
        row = model_row(s, M, FEATURES, model)
        length = 0.0
        for j in range(x.shape[0]):
            length += (x[j] - M[row, j]) ** 2
        if length < shortest:
            best = model
            shortest = length
    if known < int(s[S.MODELS]) and shortest > 0.0:
        row = model_row(s, M, FEATURES, known)
        for j in range(x.shape[0]):
            M[row, j] = x[j]
        s[S.KNOWN] += 1.0
        return known
    return best


@jit
def refit(s: Vector, M: Matrix, H: Matrix, part: int, model: int, label: int) -> None:
    """Huber's fit b(Z), tau = nu (|Z| / log(t² (2d+1)/delta))^(1/p), from the last. O(t d²)."""
    t = s[ROUNDS]
    size = s[COUNTS + (part - FIT) * int(s[S.MODELS]) + model]
    tau = s[S.NU] * (size / (2.0 * math.log(t) + s[S.LOG_TERM])) ** (1.0 / s[S.ORDER])
    at = model_row(s, M, part, model)
    newton(M, H, int(t), at, s[S.RIDGE], math.inf, tau, False, M.shape[1] + label, model)


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the played arm's fits are made anew."""
    if not (s[S.NU] < math.inf or abs(reward) <= LARGEST):
        return OVERFLOW
    size = M.shape[1]
    row = int(s[ROUNDS])
    forced = forced_arm(s, s[ROUNDS] + 1.0) >= 0
    model = assign(s, M, x)
    for j in range(size):
        H[row, j] = x[j]
    H[row, size + TARGET] = reward
    H[row, size + ALL_OF] = model
    H[row, size + FORCED_OF] = model if forced else NOT_FORCED
    s[ROUNDS] += 1.0
    s[COUNTS + model] += 1.0
    refit(s, M, H, FIT, model, ALL_OF)
    if forced:
        s[COUNTS + int(s[S.MODELS]) + model] += 1.0
        refit(s, M, H, FORCED_FIT, model, FORCED_OF)
    fitted = model_row(s, M, FIT, model)
    for j in range(size):
        M[THETA, j] = M[fitted, j]
    return OK


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether rows and counts of a state from outside are of models that are there."""
    s, rows = arrays["scalars"], arrays["history"][:, policy.dim :]
    known = s[S.KNOWN]
    return bool(
        known <= s[S.MODELS]
        and are_counts(rows[:, ALL_OF], known)
        and are_counts(rows[:, FORCED_OF], known, NOT_FORCED)
        and are_counts(arrays["counts"])
        and are_counts(arrays["forced_counts"])
        and arrays["counts"].sum() == s[ROUNDS]
    )


class HuberBandit(PackedPolicy):
    r"""Greedy on Huber regressions, one per arm, with rounds reserved for each arm in turn.

    $$\hat b_i(Z) = \arg\min_b \sum_{s\in Z} f_{\tau}(r_s - x_s^\top b),\qquad
      \tau = \nu\left(\frac{|Z|}{\log(t^2(2d+1)/\delta)}\right)^{1/p}$$

    Phase n = 0, 1, 2, ... reserves rounds (2^n - 1) K q + 1 to 2^n K q, q for each arm. In the
    others, arms whose fit to their reserved rewards is within h/2 of the best stay, and of those
    the best by all rewards is played. The regret is O(sqrt(d) T^(1/p) (log dT)^((p-1)/p)) where
    contexts are drawn independently and the best arm leads by h. It needs no horizon and has no
    radius. A round costs O(t d²), and the history O(t d).

    >>> import heavytail as ht
    >>> policy = ht.HuberBandit(2, tail=ht.MomentBound(order=1.5, scale=1.0), arms=3, forced=2)
    >>> arms = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> for _ in range(4):
    ...     policy.update(arms[policy.select(arms)], reward=0.1)
    >>> policy.select(arms)
    2

    Args:
        dim: length of a feature vector.
        horizon: T; not needed, but refused where it leaves no round that is not reserved.
        tail: the moment bound on the noise.
        arms: K, how many arms there are.
        forced: q, reserved rounds per arm and phase.
        gap: h, by how much the best arm leads.
        shared: **our variant**: one regression for all arms, since here one theta serves all.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: added to every regression, (ridge/2)‖b‖², since an arm whose features never change
            determines its b in one direction only; the paper has none.
        delta: failure probability (the paper's alpha).
        radius_scale: multiplies h: the nearest this policy has to a radius.
        threshold_scale: multiplies tau; 1 is the theory, ``math.inf`` least squares.

    Note: the paper draws one context for all arms and gives each its own parameter; here every arm
    has its own features and all share theta*. An arm is known by its features: the k-th distinct
    vector played is arm k, which over a fixed pool is its index, and once K are known any other
    belongs to the nearest. So a round reserved for arm k plays it where it is offered and the
    nearest offered arm where it is not; while arm k is not known, the first unknown one. With
    ``shared`` arms have no names, and reserved rounds take the offered ones in turn. The paper's
    setting is this one with the context laid into the arm's own block of coordinates. Its tau is
    written with the moment in power form, nu^p, where the unit asks for the root, nu, used here. A
    reserved reward counts for both fits of its arm.
    """

    name = "Huber-Bandit"
    info = Info(
        method="Huber",
        reference="Kang and Kim 2023",
        regret="sqrt(d) T^(1/p)",
        cost="O(t)",
        storage="O(t)",
        moment="central",
        sources=(
            "*Certain*: the schedule of forced rounds, the two-step choice and the threshold, "
            "read in the paper. *Corrected*: the threshold uses the moment's root, where the "
            "paper's unit slips. *Ours*: `shared=True`, one regression for all arms."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select,
        slots=(COMMON, S),
        history=History(FORCED_OF + 1),
        agree=(agrees,),
    )

    def __init__(
        self,
        dim: int,
        *,
        tail: MomentBound,
        arms: int,
        horizon: int | None = None,
        forced: int = 2,
        gap: float = 0.2,
        shared: bool = False,
        arm_bound: float = 1.0,
        ridge: float = 1e-3,
        delta: float = 0.01,
        radius_scale: float = 1.0,
        threshold_scale: float = 1.0,
    ) -> None:
        check = self._start(dim, tail, horizon)
        K = check.count("arms", arms)
        q = check.count("forced", forced)
        if horizon is not None and horizon <= K * q:
            raise ValueError(
                f"HuberBandit.horizon must leave a round that is not reserved; got {horizon} for "
                f"arms={K}, forced={q}. The smallest horizon that works is {K * q + 1}."
            )
        models = 1 if check.flag("shared", shared) else K
        self._allocate(
            ridge=ridge,
            arm_bound=check.number("arm_bound", arm_bound, above=0.0),
            theta_bound=math.inf,
            rows={
                "solver": extra_rows(self.dim),
                "features": models,
                "fits": models,
                "forced_fits": models,
            },
            runs={"counts": models, "forced_counts": models},
        )
        scale = check.number("threshold_scale", threshold_scale, above=0.0, infinite=True)
        gap = check.number("gap", gap, above=0.0)
        s = self._s
        s[S.ORDER] = tail.order
        s[S.NU] = scale * tail.scale
        s[S.ARMS] = K
        s[S.FORCED] = q
        s[S.RIDGE] = ridge
        s[S.LOG_TERM] = math.log(2.0 * self.dim + 1.0) + check.log_inverse(delta)
        s[S.MODELS] = models
        s[RADIUS] = 0.5 * gap * check.number("radius_scale", radius_scale, least=0.0)

    @property
    def models(self) -> FloatArray:
        """Every arm's fit to all of its rewards, (K, dim); ``theta`` is the one made last."""
        first = model_row(self._s, self._M, FIT, 0)
        return np.array(self._M[first : first + int(self._s[S.MODELS])])
