"""RobustUCB: Bubeck, Cesa-Bianchi and Lugosi (IEEE Trans. Inf. Theory 2013)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from heavytail._invariants import are_counts
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels.jit import jit, specialise
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CLIPPED,
    COMMON,
    FEATURE,
    INVERSE,
    NO_ARM,
    OK,
    OVERFLOW,
    ROUNDS,
    Count,
    Fixed,
    behind,
    numbered,
)
from heavytail.kernels.one_pass import LARGEST
from heavytail.kernels.repeats import median
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["RobustUCB"]

STEPS: Final = 60  # of Newton's method kept in its bracket; bisection alone would do in these
PRECISION: Final = 1e-13  # relative


class Slots(NamedTuple):
    """RobustUCB's own numbers."""

    ORDER: Fixed
    ARMS: Fixed  # K
    KNOWN: Count  # arms met so far
    GROUPS: Fixed  # of the median of means
    CAPACITY: Fixed  # rewards that Catoni's estimator can keep
    SCALE: Fixed  # u^(1/p) or nu: the root moment that the estimator needs
    LOG_INVERSE: Fixed  # log(1/delta)
    CONSTANT_FACTOR: Fixed  # of the width, radius_scale included
    LEAST: Fixed  # pulls below which an arm's width is infinite
    THRESHOLD_SCALE: Fixed


S: Final = numbered(Slots, after=COMMON)
COUNTS: Final = behind(S)  # pulls of each arm; then K means, K sums or last samples; then the rest


# --- Robust means; ``log_inverse`` is log(1/delta) throughout.


@jit
def truncation_level(n: float, raw_scale: float, order: float, log_inverse: float) -> float:
    """(u n / log(1/delta))^(1/p): beyond it the n-th reward counts as 0; u = raw_scale^p."""
    return raw_scale * (n / log_inverse) ** (1.0 / order)


@jit
def group_of(i: int, groups: int) -> int:
    """The group of the i-th sample (from 0): pairs are dealt round, so that at any time there are
    min(groups, ceil(n/2)) groups in use, of sizes that differ by at most two.
    """
    return (i // 2) % groups


@jit
def median_of_means(s: Vector, first: int, groups: int, n: int, room: int) -> float:
    """The median of the means of the groups whose sums are s[first:], of n samples in all. Works in
    s[room : room + groups]. O(groups).
    """
    used = min(groups, (n + 1) // 2)
    whole = n // (2 * groups)
    rest = n - whole * 2 * groups
    for g in range(used):
        count = 2 * whole + min(max(rest - 2 * g, 0), 2)
        s[room + g] = s[first + g] / count
    return median(s, room, used)


@jit
def catoni_level(n: float, scale: float, log_inverse: float) -> float:
    """1/alpha of Catoni's influence function; needs n > 2 log(1/delta)."""
    spread = 1.0 + 2.0 * log_inverse / (n - 2.0 * log_inverse)
    return scale * math.sqrt(n * spread / (2.0 * log_inverse))


@jit
def catoni_mean(
    s: Vector, rewards: int, previous: int, last: int, level: float, start: float
) -> float:
    """The root of sum psi((X - m) / level), psi(z) = ±log(1 + |z| + z²/2), over a linked list.

    Sample i is s[rewards + i] and the one before it s[previous + i] (-1 ends). O(n) per step of
    Newton's method, a few steps from the last estimate.
    """
    low = math.inf
    high = -math.inf
    i = last
    while i >= 0:
        low = min(low, s[rewards + i])
        high = max(high, s[rewards + i])
        i = int(s[previous + i])
    m = min(max(start, low), high)
    for _ in range(STEPS):
        total = 0.0
        slope = 0.0
        i = last
        while i >= 0:
            z = (s[rewards + i] - m) / level
            size = abs(z)
            inner = 1.0 + size + 0.5 * z * z
            total += math.copysign(math.log(inner), z)
            slope += (1.0 + size) / inner
            i = int(s[previous + i])
        if total > 0.0:
            low = m
        else:
            high = m
        step = level * total / slope
        moved = m + step
        if not (low <= moved <= high):
            moved = 0.5 * low + 0.5 * high
        if abs(moved - m) <= PRECISION * (abs(m) + level):
            return moved
        m = moved
    return m


# --- A round.


@jit
def find(s: Vector, M: Matrix, arms: Matrix, i: int) -> int:
    """The number of the arm whose features are arms[i], or -1 where it is new. O(K d)."""
    first = INVERSE + 2 * M.shape[1] + 1
    known = int(s[S.KNOWN])
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
    if n < s[S.LEAST]:
        return math.inf
    return s[S.CONSTANT_FACTOR] * n ** (1.0 / s[S.ORDER] - 1.0)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest mean plus width; an arm never played has an infinite one. O(n d) in
    a pool, O(n K d) at worst.
    """
    best = NO_ARM
    best_index = -math.inf
    means = COUNTS + int(s[S.ARMS])
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
    K = int(s[S.ARMS])
    level = s[S.THRESHOLD_SCALE] * truncation_level(
        float(n), s[S.SCALE], s[S.ORDER], s[S.LOG_INVERSE]
    )
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
    K = int(s[S.ARMS])
    groups = int(s[S.GROUPS])
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
    K = int(s[S.ARMS])
    if not (abs(reward) <= LARGEST):
        return OVERFLOW
    last = COUNTS + 2 * K + a
    rewards = COUNTS + 3 * K
    previous = rewards + int(s[S.CAPACITY])
    t = int(s[ROUNDS])
    s[rewards + t] = reward
    s[previous + t] = s[last]
    s[last] = t
    if n >= s[S.LEAST]:
        level = s[S.THRESHOLD_SCALE] * catoni_level(float(n), s[S.SCALE], s[S.LOG_INVERSE])
        s[COUNTS + K + a] = catoni_mean(s, rewards, previous, t, level, s[COUNTS + K + a])
    return OK


def learn(*_: object) -> int:
    """Stands for one of the three kernels above in the template below."""
    raise NotImplementedError


def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Template: learn the mean of the arm that x names; an arm too many, or a reward too many to
    keep, only counts as a round.
    """
    known = int(s[S.KNOWN])
    for j in range(x.shape[0]):
        M[FEATURE, j] = x[j]
    a = find(s, M, M, FEATURE)
    new = a < 0
    if new:
        a = known
    full = (new and known == int(s[S.ARMS])) or s[ROUNDS] >= s[S.CAPACITY]
    if not full:
        code = learn(s, a, int(s[COUNTS + a]) + 1, reward)
        if code != OK:
            return code
        if new:
            first = INVERSE + 2 * M.shape[1] + 1
            for j in range(x.shape[0]):
                M[first + a, j] = x[j]
            s[S.KNOWN] += 1.0
        s[COUNTS + a] += 1.0
    s[ROUNDS] += 1.0
    return OK


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether pulls and lists of samples of a state from outside fit its rounds."""
    s, pulls = arrays["scalars"], arrays["pulls"]
    known, rounds = s[S.KNOWN], s[ROUNDS]
    if not (known <= s[S.ARMS] and are_counts(pulls, rounds + 1.0) and pulls.sum() <= rounds):
        return False
    if np.any((pulls == 0.0) != (np.arange(len(pulls)) >= known)):
        return False
    if "previous" not in arrays:
        return True
    kept = int(min(rounds, s[S.CAPACITY]))
    last, previous = arrays["last"], arrays["previous"]
    return bool(
        are_counts(last, kept, -1.0)
        and are_counts(previous[:kept], kept, -1.0)
        and np.all(previous[:kept] < np.arange(kept))  # back in time, so never in a circle
    )


ESTIMATORS: Final = {
    name: Algorithm(
        update=specialise(update, f"update_{label}", learn=learn),
        select=select,
        slots=(COMMON, S),
        agree=(agrees,),
    )
    for name, label, learn in (
        ("truncated", "truncated", learn_truncated),
        ("median of means", "median", learn_median),
        ("catoni", "catoni", learn_catoni),
    )
}


class RobustUCB(PackedPolicy):
    r"""Optimism arm by arm with a robust mean: what robustness buys where features are not used.

    $$\text{index}_a = \hat\mu_a + C\left(\frac{\log T^2}{n_a}\right)^{\frac{p-1}p},\qquad
      C = 4u^{1/p}\ (\text{truncated}),\quad (12v)^{1/p}16^{\frac{p-1}p}\ (\text{median of means}),
      \quad 2\sqrt v\ (\text{Catoni})$$

    An arm is a feature vector it has met before, whatever the numbers in it, so arms must be the
    same in every round; their number K enters the regret, O(K) times a power of log T over the
    gaps, at ``radius_scale=1``. Truncation and median of means take one pass, O(1) per round;
    Catoni's estimator keeps all rewards and costs O(n_a) per round.

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
        method="robust mean per arm",
        reference="Bubeck et al. 2013",
        regret="K^((p-1)/p) T^(1/p)",
        cost="O(1), Catoni O(t)",
        storage="O(1), Catoni O(T)",
        moment="raw",
        fixed_arms=True,
        horizon=True,
        sources=(
            "*Certain*: the three estimators and their widths, from memory of the paper. "
            "*Decided*: δ = 1/T² instead of 1/t², so that truncated means need one pass; groups "
            "of the median of means are dealt round in pairs instead of cut into blocks; an arm "
            "is known by its features."
        ),
    )

    algorithm = ESTIMATORS["truncated"]

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
        check = self._start(dim, tail, horizon)
        K = check.count("arms", arms)
        self.algorithm = ESTIMATORS[check.choice("estimator", estimator, tuple(ESTIMATORS))]
        if estimator == "catoni" and tail.order != 2.0:
            raise ValueError(
                "RobustUCB.tail must be of order 2 for estimator='catoni', which needs a variance; "
                f"got {tail.order:g}. Take estimator='truncated' or 'median of means'."
            )
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        log_inverse = 2.0 * math.log(max(horizon, 2))
        groups = math.floor(8.0 * log_inverse + 1.0)
        samples = {
            "truncated": {"sums": K},
            "median of means": {"group_sums": K * groups},
            "catoni": {"last": K, "rewards": horizon, "previous": horizon},
        }[estimator]
        self._allocate(
            ridge=1.0,
            arm_bound=arm_bound,
            theta_bound=math.inf,
            rows={"arms": K},
            runs={"pulls": K, "means": K, **samples},
            spare=groups,
        )
        del self._rows["theta"], self._rows["inverse"]  # it has neither
        s, p = self._s, tail.order
        # Truncation needs the raw moment: Minkowski, ‖y‖_p <= nu + S L.
        truncated = estimator == "truncated"
        s[S.SCALE] = tail.scale + theta_bound * arm_bound if truncated else tail.scale
        factor = {
            "truncated": 4.0,
            "median of means": 12.0 ** (1.0 / p) * 16.0 ** (1.0 - 1.0 / p),
            "catoni": 2.0,
        }[estimator]
        log = log_inverse
        if estimator == "median of means":
            log += 0.125  # log(e^(1/8)/delta)
        scale = check.number("radius_scale", radius_scale, least=0.0)
        s[S.ORDER], s[S.ARMS], s[S.GROUPS] = p, K, groups
        s[S.CAPACITY] = horizon if estimator == "catoni" else math.inf
        s[S.LOG_INVERSE] = log_inverse
        s[S.CONSTANT_FACTOR] = scale * factor * s[S.SCALE] * log ** (1.0 - 1.0 / p)
        s[S.LEAST] = math.ceil(4.0 * log_inverse) if estimator == "catoni" else 1.0
        s[S.THRESHOLD_SCALE] = check.number("threshold_scale", threshold_scale, above=0.0)
        if estimator == "catoni":
            s[self._runs["last"]] = -1.0  # no last sample yet

    @property
    def means(self) -> FloatArray:
        """The estimated mean of each arm met so far, in the order they were first learned of."""
        first = COUNTS + int(self._s[S.ARMS])
        return self._s[first : first + int(self._s[S.KNOWN])].copy()

    @property
    def pulls(self) -> FloatArray:
        """The number of rewards learned for each of these arms."""
        return self._s[COUNTS : COUNTS + int(self._s[S.KNOWN])].copy()
