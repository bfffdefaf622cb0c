"""RobustUCB: Bubeck, Cesa-Bianchi and Lugosi (IEEE Trans. Inf. Theory 2013)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import check_choice, check_count, check_number
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CLIPPED,
    FEATURE,
    INVERSE,
    NO_ARM,
    OK,
    OVERFLOW,
    OWN,
    ROUNDS,
)
from heavytail.kernels.one_pass import LARGEST, admit
from heavytail.kernels.robust_mean import (
    catoni_level,
    catoni_mean,
    group_of,
    median_of_means,
    truncation_level,
)
from heavytail.policies.base import PackedPolicy, check_tail
from heavytail.policies.info import Info
from heavytail.tails import MomentBound

__all__ = ["RobustUCB"]

ESTIMATORS = ("truncated", "median of means", "catoni")
TRUNCATED: Final = 0.0
MEDIAN: Final = 1.0

ORDER: Final = OWN
METHOD: Final = OWN + 1
ARMS: Final = OWN + 2  # K
KNOWN: Final = OWN + 3  # arms met so far
GROUPS: Final = OWN + 4  # of the median of means
CAPACITY: Final = OWN + 5  # rewards that Catoni's estimator can keep
SCALE: Final = OWN + 6  # u^(1/p) or nu: the root moment that the estimator needs
LOG_INVERSE: Final = OWN + 7  # log(1/delta)
CONSTANT_FACTOR: Final = OWN + 8  # of the width, radius_scale included
LEAST: Final = OWN + 9  # pulls below which an arm's width is infinite
THRESHOLD_SCALE: Final = OWN + 10
COUNTS: Final = OWN + 11  # pulls of each arm; then K means, K sums or last samples; then the rest


@jit
def find(s: Vector, M: Matrix, arms: Matrix, i: int) -> int:
    """The number of the arm whose features are arms[i], or -1 where it is new. O(K d)."""
    first = INVERSE + 2 * M.shape[1] + 1
    known = int(s[KNOWN])
    for guess in range(-1, known):  # in a pool the i-th arm is most often the i-th met
        row = guess if guess >= 0 else i
        if row < known:
            same = True
            for j in range(arms.shape[1]):
                if M[first + row, j] != arms[i, j]:
                    same = False
                    break
            if same:
                return row
    return -1


@jit
def width(s: Vector, n: float) -> float:
    """The confidence width of a mean of n rewards."""
    if n < s[LEAST]:
        return math.inf
    return s[CONSTANT_FACTOR] * n ** (1.0 / s[ORDER] - 1.0)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest mean plus width; an arm never played has an infinite one. O(n d) in
    a pool, O(n K d) at worst.
    """
    best = NO_ARM
    best_index = -math.inf
    means = COUNTS + int(s[ARMS])
    for i in range(arms.shape[0]):
        length = 0.0
        for j in range(arms.shape[1]):
            length += arms[i, j] * arms[i, j]
        if not (length <= s[ARM_LIMIT]):
            return BAD_X
        number = find(s, M, arms, i)
        index = math.inf
        if number >= 0:
            index = s[means + number] + width(s, s[COUNTS + number])
        if index > best_index or best < 0:
            best = i
            best_index = index
    return best


@jit
def learn_truncated(s: Vector, a: int, n: int, reward: float) -> int:
    """The mean of rewards, each 0 beyond the level of its turn."""
    K = int(s[ARMS])
    level = s[THRESHOLD_SCALE] * truncation_level(float(n), s[SCALE], s[ORDER], s[LOG_INVERSE])
    kept = reward if abs(reward) <= level else 0.0
    total = s[COUNTS + 2 * K + a] + kept
    if not (abs(total) <= LARGEST):
        return OVERFLOW
    s[COUNTS + 2 * K + a] = total
    s[COUNTS + K + a] = total / n
    if kept != reward:
        s[CLIPPED] += 1.0
    return OK


@jit
def learn_median(s: Vector, a: int, n: int, reward: float) -> int:
    """The median of the means of the arm's groups."""
    K = int(s[ARMS])
    groups = int(s[GROUPS])
    first = COUNTS + 2 * K + a * groups
    at = first + group_of(n - 1, groups)
    if not (abs(s[at] + reward) <= LARGEST):
        return OVERFLOW
    s[at] += reward
    s[COUNTS + K + a] = median_of_means(s, first, groups, n, COUNTS + 2 * K + K * groups)
    return OK


@jit
def learn_catoni(s: Vector, a: int, n: int, reward: float) -> int:
    """Catoni's M-estimate of all rewards of the arm, kept as a linked list."""
    K = int(s[ARMS])
    if not (abs(reward) <= LARGEST):
        return OVERFLOW
    last = COUNTS + 2 * K + a
    rewards = COUNTS + 3 * K
    previous = rewards + int(s[CAPACITY])
    t = int(s[ROUNDS])
    s[rewards + t] = reward
    s[previous + t] = s[last]
    s[last] = t
    if n >= s[LEAST]:
        level = s[THRESHOLD_SCALE] * catoni_level(float(n), s[SCALE], s[LOG_INVERSE])
        s[COUNTS + K + a] = catoni_mean(s, rewards, previous, t, level, s[COUNTS + K + a])
    return OK


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Learn the mean of the arm that x names; an arm too many, or a reward too many to keep, only
    counts as a round.
    """
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    known = int(s[KNOWN])
    for j in range(x.shape[0]):
        M[FEATURE, j] = x[j]
    a = find(s, M, M, FEATURE)
    new = a < 0
    if new:
        a = known
    full = (new and known == int(s[ARMS])) or s[ROUNDS] >= s[CAPACITY]
    if not full:
        n = int(s[COUNTS + a]) + 1
        if s[METHOD] == TRUNCATED:
            code = learn_truncated(s, a, n, reward)
        elif s[METHOD] == MEDIAN:
            code = learn_median(s, a, n, reward)
        else:
            code = learn_catoni(s, a, n, reward)
        if code != OK:
            return code
        if new:
            first = INVERSE + 2 * M.shape[1] + 1
            for j in range(x.shape[0]):
                M[first + a, j] = x[j]
            s[KNOWN] += 1.0
        s[COUNTS + a] += 1.0
    s[ROUNDS] += 1.0
    return OK


class RobustUCB(PackedPolicy):
    r"""Optimism arm by arm with a robust mean: what robustness buys where features are not used.

    $$\text{index}_a = \hat\mu_a + C\left(\frac{\log T^2}{n_a}\right)^{\frac{p-1}p},\qquad
      C = 4u^{1/p}\ (\text{truncated}),\quad (12v)^{1/p}16^{\frac{p-1}p}\ (\text{median of means}),
      \quad 2\sqrt v\ (\text{Catoni})$$

    An arm is a feature vector it has met before, whatever the numbers in it, so arms must be the
    same in every round; their number K enters the regret, O(K) times a power of log T over the
    gaps, at ``radius_scale=1``. Truncation and median of means take one pass, O(1) a round and arm;
    Catoni's estimator keeps all rewards and costs O(n_a) a round.

    >>> import heavytail as ht
    >>> policy = ht.RobustUCB(2, horizon=100, tail=ht.MomentBound(order=1.5, scale=1.0), arms=2)
    >>> for arm in ([1.0, 0.0], [0.0, 1.0]):
    ...     policy.update(arm, reward=1e12)
    >>> policy.means
    array([0., 0.])

    Args:
        dim: length of a feature vector.
        horizon: T; delta = 1/T² throughout.
        tail: the moment bound on the noise; made one on the reward by Minkowski's inequality for
            truncation. Catoni's estimator is for order 2 alone.
        arms: K. An arm met when K others are known is played, and nothing learned of it.
        estimator: "truncated", "median of means" or "catoni".
        theta_bound: S, and
        arm_bound: L: rewards have means within ±S L. Longer vectors are refused.
        radius_scale: multiplies the width; 1 is the theory, below it the guarantee is gone.
        threshold_scale: multiplies the truncation level, or Catoni's 1/alpha; 1 is the theory.

    Note: the paper takes delta = 1/t², and so forms truncated means anew each round; with 1/T² the
    level of a reward never changes and one pass does. Groups of the median of means are dealt round
    in pairs instead of cut into blocks, which is as good for independent rewards. It has no
    ``theta`` (zeros) and no ``radius`` (0); see ``means``.
    """

    name = "RobustUCB"
    info = Info(
        method="robust mean an arm",
        reference="Bubeck et al. 2013",
        regret="K^((p-1)/p) T^(1/p)",
        cost="O(1), Catoni O(t)",
        storage="O(1), Catoni O(T)",
        moment="raw",
        fixed_arms=True,
        horizon=True,
    )
    select_kernel = staticmethod(select)
    update_kernel = staticmethod(update)
    _kept: int

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        arms: int,
        estimator: str = "truncated",
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        radius_scale: float = 0.03,
        threshold_scale: float = 1.0,
    ) -> None:
        horizon = check_count("RobustUCB.horizon", horizon)
        self._start(dim, check_tail("RobustUCB", tail), horizon)
        K = check_count("RobustUCB.arms", arms)
        method = ESTIMATORS.index(check_choice("RobustUCB.estimator", estimator, ESTIMATORS))
        if estimator == "catoni" and tail.order != 2.0:
            raise ValueError(
                "RobustUCB.tail must be of order 2 for estimator='catoni', which needs a variance; "
                f"got {tail.order:g}. Take estimator='truncated' or 'median of means'."
            )
        theta_bound = check_number("RobustUCB.theta_bound", theta_bound, above=0.0)
        arm_bound = check_number("RobustUCB.arm_bound", arm_bound, above=0.0)
        self._allocate(COUNTS, ridge=1.0, arm_bound=arm_bound, theta_bound=math.inf)
        log_inverse = 2.0 * math.log(max(horizon, 2))
        groups = math.floor(8.0 * log_inverse + 1.0)
        # Counts and means of K arms; then sums, or sums of groups, or last samples and the samples.
        more = (K, K * groups, K + 2 * horizon)[method]
        self._kept = COUNTS + 2 * K + more
        self._s = np.concatenate([self._s, np.zeros(2 * K + more + groups)])
        self._M = np.vstack([self._M, np.zeros((K, self.dim))])
        s, p = self._s, tail.order
        # Truncation needs the raw moment: Minkowski, ‖y‖_p <= nu + S L.
        s[SCALE] = tail.scale + theta_bound * arm_bound if method == 0 else tail.scale
        factor = (4.0, 12.0 ** (1.0 / p) * 16.0 ** (1.0 - 1.0 / p), 2.0)[method]
        log = log_inverse + 0.125 if method == 1 else log_inverse  # log(e^(1/8)/delta)
        scale = check_number("RobustUCB.radius_scale", radius_scale, least=0.0)
        s[ORDER], s[METHOD], s[ARMS], s[GROUPS] = p, method, K, groups
        s[CAPACITY] = horizon if estimator == "catoni" else math.inf
        s[LOG_INVERSE] = log_inverse
        s[CONSTANT_FACTOR] = scale * factor * s[SCALE] * log ** (1.0 - 1.0 / p)
        s[LEAST] = math.ceil(4.0 * log_inverse) if estimator == "catoni" else 1.0
        s[THRESHOLD_SCALE] = check_number("RobustUCB.threshold_scale", threshold_scale, above=0.0)
        if estimator == "catoni":
            s[COUNTS + 2 * K : COUNTS + 3 * K] = -1.0  # no last sample yet

    @property
    def means(self) -> FloatArray:
        """The estimated mean of each arm met so far, in the order they were first learned of."""
        first = COUNTS + int(self._s[ARMS])
        return self._s[first : first + int(self._s[KNOWN])].copy()

    @property
    def pulls(self) -> FloatArray:
        """How often each of them was learned of."""
        return self._s[COUNTS : COUNTS + int(self._s[KNOWN])].copy()

    def state_arrays(self) -> dict[str, FloatArray]:
        return {"scalars": self._s[: self._kept], "arms": self._M[INVERSE + 2 * self.dim + 1 :]}
