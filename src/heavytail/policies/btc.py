"""BTC: Xue, Wang, Wang and Zhang (IJCAI 2020), truncation arm by arm; SupBTC with ``sup``."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import as_vector, check_count, check_number
from heavytail.confidence import btc_factor
from heavytail.kernels.groups import FOLLOWING, HEAD, WIDTH, find_group, insert, truncated_sum
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.index import usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    FEATURE,
    INVERSE,
    LOG_DET,
    OK,
    OVERFLOW,
    OWN,
    RADIUS,
    ROUNDS,
)
from heavytail.kernels.one_pass import LARGEST, admit
from heavytail.kernels.quadratic import first_extra
from heavytail.kernels.stages import absorb, chooser, learning_stage, squared_width
from heavytail.policies.base import check_tail
from heavytail.policies.history import HistoryPolicy
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["BTC"]

ORDER: Final = OWN
FACTOR: Final = OWN + 1  # alpha: the radius is FACTOR t^a + sqrt(lambda) S
THRESHOLD_SCALE: Final = OWN + 2
PRIOR_ROOT: Final = OWN + 3  # sqrt(lambda) S
RADIUS_SCALE: Final = OWN + 4
STAGES: Final = OWN + 5  # 1 without the Sup wrapper
FINEST: Final = OWN + 6  # 1/sqrt(T): widths below it exploit
SAMPLES: Final = OWN + 7  # rows of H
GROUPS: Final = OWN + 8  # distinct (features, stage) among them
BEST: Final = OWN + 9  # the largest index of each stage in the running choice: room, not state


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
    return truncated_sum(M, H, int(s[GROUPS]), stage, s[ORDER], s[THRESHOLD_SCALE])


choose = chooser("BTC", stage_width, stage_mean)
stage_of = learning_stage("BTC", stage_width)


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """By estimates made for each arm; BAD_X or NO_ARM where the arms are not usable."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    return choose(s, M, H, arms, int(s[STAGES]), s[FINEST], BEST)


@jit
def set_radius(s: Vector) -> None:
    """The radius for round t = ROUNDS + 1: alpha t^a + sqrt(lambda) S, with radius_scale."""
    t = s[ROUNDS] + 1.0
    s[RADIUS] = s[RADIUS_SCALE] * (s[FACTOR] * t ** time_exponent(s[ORDER]) + s[PRIOR_ROOT])


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the reward into its group, A of its stage. Nothing is fitted."""
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    if not (s[THRESHOLD_SCALE] < math.inf or abs(reward) <= LARGEST):
        return OVERFLOW
    for j in range(M.shape[1]):
        M[FEATURE, j] = x[j]
    stage = stage_of(s, M, int(s[STAGES]), s[FINEST])
    if stage >= 0:
        groups = int(s[GROUPS])
        group = find_group(M, H, groups, stage)
        if group == groups:
            s[GROUPS] += 1.0
        insert(M, H, int(s[SAMPLES]), group, reward)
        s[SAMPLES] += 1.0
        growth = absorb(M, gram_row(M, stage))
        if stage == 0:
            s[LOG_DET] += math.log(growth)
    s[ROUNDS] += 1.0
    set_radius(s)
    return OK


class BTC(HistoryPolicy):
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
    >>> policy.predict([1.0, 0.0])
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
    )
    select_kernel = staticmethod(select)
    update_kernel = staticmethod(update)
    in_use = SAMPLES
    pointers = (FOLLOWING, HEAD)

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
        horizon = check_count(
            "BTC.horizon", horizon, least=3, hint="ln T must be at least one stage."
        )
        self._start(dim, check_tail("BTC", tail), horizon)
        K = check_count("BTC.arms", arms)
        theta_bound = check_number("BTC.theta_bound", theta_bound, above=0.0)
        arm_bound = check_number("BTC.arm_bound", arm_bound, above=0.0)
        delta = check_number("BTC.delta", delta, above=0.0, below=1.0)
        stages = math.floor(math.log(horizon)) if sup else 1
        self._allocate(
            BEST + stages,
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,
            extra=(stages - 1) * self.dim,
        )
        raw_scale = tail.scale + theta_bound * arm_bound  # Minkowski: (E|y|^p)^(1/p) <= nu + S L
        s = self._s
        s[ORDER] = tail.order
        s[FACTOR] = btc_factor(tail.order, horizon, K, raw_scale, delta)
        s[THRESHOLD_SCALE] = check_number(
            "BTC.threshold_scale", threshold_scale, above=0.0, infinite=True
        )
        s[PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[RADIUS_SCALE] = check_number("BTC.radius_scale", radius_scale, least=0.0)
        s[STAGES] = stages
        s[FINEST] = horizon**-0.5
        for g in range(1, stages):
            row = gram_row(self._M, g)
            self._M[row : row + self.dim] = np.eye(self.dim) / ridge
        set_radius(s)
        self._allocate_history(self.dim + WIDTH, sums=(stages - 1) * self.dim)

    def predict(self, x: FloatArray) -> float:
        """The truncated estimate at ``x`` (of stage 1), which selection goes by."""
        self._M[FEATURE] = as_vector(x, self.dim, type(self), ".predict")
        stage_width(self._s, self._M, 0)
        return float(stage_mean(self._s, self._M, self._H, 0))

    @property
    def theta(self) -> FloatArray:
        return np.array([self.predict(unit) for unit in np.eye(self.dim)])

    def state_arrays(self) -> dict[str, FloatArray]:
        return {**super().state_arrays(), "scalars": self._s[:BEST]}

    def _check_history(self, history: FloatArray | None, scalars: FloatArray | None) -> None:
        super()._check_history(history, scalars)
        assert history is not None
        assert scalars is not None
        if not 0 <= scalars[GROUPS] <= history.shape[0]:
            raise ValueError("BTC: the saved state's 'history' is damaged.")
