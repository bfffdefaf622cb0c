"""Least-squares value iteration: the kernels that all agents of the family share.

A stage h keeps two regressions in the layout of :mod:`heavytail.kernels.layout`. The reward's (RS,
RM and, for full-batch policies, RH) is that of a bandit policy, updated by that policy's own
kernel. The value's (VS, VM) is OFUL's: P = Sigma_h^-1, its log-determinant and radius grow in one
pass, but its estimate w_h = Sigma_h^-1 sum_i sigma_i^-2 phi_i V_{h+1}(s'_i) is computed anew at
every plan from the whole past, because V_{h+1} is another function then. That is why no algorithm
of this family is one-pass, whatever its reward estimator is.
"""

from __future__ import annotations

import math
from typing import Any, Final

from heavytail.kernels.index import MEAN, SQUARED, rate
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    BAD_REWARD,
    DIRECTION,
    INVERSE,
    LOG_DET,
    OK,
    RADIUS,
    SCRATCH,
    THETA,
)
from heavytail.kernels.one_pass import learn, measure
from heavytail.policies.oful import current_radius

__all__ = ["learn_stage", "plan"]

# Slots of c, the agent's own scalars.
EPISODES: Final = 0  # whole episodes learned
STAGE: Final = 1  # the stage that comes next
PLANNED: Final = 2  # 1 once the coming episode's plan stands
SWITCHES: Final = 3  # times the policy was computed anew
CAP: Final = 4  # largest mean reward of a stage
WEIGHTED: Final = 5  # 1: values are regressed with weights 1/sigma²
RARE: Final = 6  # 1: a new plan only when a determinant has doubled
MONOTONE: Final = 7  # 1: Q never rises, its lower bound never falls
SLOTS: Final = 8

# Rows of ``targets`` (H, 2, d): estimates beside w_h, which is VM[h, THETA].
PESSIMIST: Final = 0  # regression of the lower value
SQUARE: Final = 1  # regression of the square of the upper value


@jit
def count_stage(c: Any, h: int, horizon: int) -> None:
    """Stage h is learned: the next one comes, or after the last the next episode."""
    if h + 1 < horizon:
        c[STAGE] = h + 1.0
        return
    c[STAGE] = 0.0
    c[EPISODES] += 1.0
    c[PLANNED] = 0.0


@jit
def due(c: Any, RS: Any, VS: Any, marks: Any) -> bool:
    """Whether the coming episode needs a new plan: always, or once a determinant has doubled."""
    if c[PLANNED] == 1.0:
        return False
    if c[RARE] == 0.0 or c[SWITCHES] == 0.0:
        return True
    for h in range(marks.shape[0]):
        grown = max(RS[h, LOG_DET] - marks[h, 0], VS[h, LOG_DET] - marks[h, 1])
        if grown >= math.log(2.0):
            return True
    return False


@jit
def apply_inverse(VM: Any, h: int, sums: Any, target: int) -> None:
    """w = P b: b in ``sums[h, target]``, where w takes its place; below 0 b is the row SCRATCH and
    w the row THETA of VM[h].
    """
    size = VM.shape[2]
    for i in range(size):
        VM[h, DIRECTION, i] = 0.0
    for j in range(size):
        b = VM[h, SCRATCH, j] if target < 0 else sums[h, target, j]
        for i in range(size):
            VM[h, DIRECTION, i] += b * VM[h, INVERSE + j, i]
    for i in range(size):
        if target < 0:
            VM[h, THETA, i] = VM[h, DIRECTION, i]
        else:
            sums[h, target, i] = VM[h, DIRECTION, i]


@jit
def relabel(
    c: Any, VM: Any, targets: Any, past: Any, weight: Any, V: Any, low: Any, features: Any, h: int
) -> None:
    """Regress V_{h+1}, and where weights are wanted its lower bound and its square, on the past.
    O(k d).
    """
    size = features.shape[1]
    for j in range(size):
        VM[h, SCRATCH, j] = 0.0
        targets[h, PESSIMIST, j] = 0.0
        targets[h, SQUARE, j] = 0.0
    for i in range(int(c[EPISODES])):
        row = past[h, i, 0]
        value = V[h + 1, past[h, i, 1]]
        up = weight[h, i] * value
        down = weight[h, i] * low[h + 1, past[h, i, 1]]
        for j in range(size):
            x = features[row, j]
            VM[h, SCRATCH, j] += up * x
            targets[h, PESSIMIST, j] += down * x
            targets[h, SQUARE, j] += up * value * x
    apply_inverse(VM, h, targets, -1)
    if c[WEIGHTED] == 1.0:
        apply_inverse(VM, h, targets, PESSIMIST)
        apply_inverse(VM, h, targets, SQUARE)


@jit
def along(targets: Any, h: int, target: int, features: Any, row: int) -> float:
    """phi'w for one of the estimates in ``targets``."""
    total = 0.0
    for j in range(features.shape[1]):
        total += targets[h, target, j] * features[row, j]
    return total


@jit
def plan(
    c: Any,
    table: Any,
    RS: Any,
    RM: Any,
    RH: Any,
    VS: Any,
    VM: Any,
    targets: Any,
    past: Any,
    weight: Any,
    Q: Any,
    Q_low: Any,
    V: Any,
    V_low: Any,
    marks: Any,
    features: Any,
    pool: Any,
    reward_scores: Any,
    value_scores: Any,
) -> bool:
    """The policy of the coming episode into ``table`` (H, S); whether it was computed anew.

    Q_h = min{phi'(theta_h + w_h) + beta_R ‖phi‖_{R_h^-1} + beta_V ‖phi‖_{Sigma_h^-1}, most that
    can still be paid}, and at most what it was where Q is monotone. Actions tied at a cap are told
    apart by the index before it.
    """
    if not due(c, RS, VS, marks):
        c[PLANNED] = 1.0
        return False
    horizon, states = table.shape
    actions = Q.shape[2]
    for h in range(horizon - 1, -1, -1):
        last = h == horizon - 1
        if not last:
            relabel(c, VM, targets, past, weight, V, V_low, features, h)
            rate(VS[h], VM[h], pool, value_scores)
        rate(RS[h], RM[h], pool, reward_scores)
        most = c[CAP] * (horizon - h)
        for s in range(states):
            best = -1
            best_q = -math.inf
            best_index = -math.inf
            best_low = -math.inf
            for a in range(actions):
                row = s * actions + a
                bonus = RS[h, RADIUS] * math.sqrt(max(reward_scores[SQUARED, row], 0.0))
                index = reward_scores[MEAN, row] + bonus
                low = reward_scores[MEAN, row] - bonus
                if not last:
                    bonus = VS[h, RADIUS] * math.sqrt(max(value_scores[SQUARED, row], 0.0))
                    index += value_scores[MEAN, row] + bonus
                    low += along(targets, h, PESSIMIST, features, row) - bonus
                q = min(index, most)
                low = min(max(low, 0.0), most)
                if c[MONOTONE] == 1.0:
                    q = min(q, Q[h, s, a])
                    low = max(low, Q_low[h, s, a])
                Q[h, s, a] = q
                Q_low[h, s, a] = low
                if best < 0 or q > best_q or (q == best_q and index > best_index):
                    best = a
                    best_q = q
                    best_index = index
                best_low = max(best_low, low)
            table[h, s] = best
            V[h, s] = max(best_q, 0.0)
            V_low[h, s] = best_low
        marks[h, 0] = RS[h, LOG_DET]
        marks[h, 1] = VS[h, LOG_DET]
    c[PLANNED] = 1.0
    c[SWITCHES] += 1.0
    return True


@jit
def value_sigma(
    c: Any, VS: Any, VM: Any, targets: Any, features: Any, h: int, row: int, width: float
) -> float:
    """sigma_{k,h}: an upper estimate of the standard deviation of V_{h+1}(s') given phi; see
    :class:`heavytail.mdp.HeavyLSVIUCB`.
    """
    remaining = float(VS.shape[0] - 1 - h)
    most = c[CAP] * remaining
    raw = 0.0
    for j in range(features.shape[1]):
        raw += VM[h, THETA, j] * features[row, j]
    mean = min(max(raw, 0.0), most)
    second = min(max(along(targets, h, SQUARE, features, row), 0.0), most * most)
    error = VS[h, RADIUS] * width
    spread = max(second - mean * mean, 0.0)
    spread += 2.0 * min(2.0 * most * error, most * most)  # E: of the two regressions behind spread
    gap = raw - along(targets, h, PESSIMIST, features, row) + 2.0 * error
    spread += min(2.0 * most * max(gap, 0.0), most * most)  # D: of V_{h+1} itself
    floor = c[CAP] * math.sqrt(remaining)
    return max(math.sqrt(spread), floor, width)


def update(*_: Any) -> int:
    """Stands for a bandit policy's learning kernel in the templates below."""
    raise NotImplementedError


def one_pass_reward(
    RS: Any, RM: Any, RH: Any, features: Any, h: int, row: int, reward: float, nu: float
) -> int:
    """Template: a bandit policy's learning at stage h; RH is empty."""
    return update(RS[h], RM[h], features[row], reward, nu)


def full_batch_reward(
    RS: Any, RM: Any, RH: Any, features: Any, h: int, row: int, reward: float, nu: float
) -> int:
    """Template: the learning at stage h of a bandit policy that keeps a row of history a round."""
    return update(RS[h], RM[h], RH[h], features[row], reward, nu)


def learn_reward(*_: Any) -> int:
    """Stands for one of the two above, compiled, in the template below."""
    raise NotImplementedError


def learn_stage(
    h: int,
    row: int,
    reward: float,
    landed: int,
    nu: float,
    c: Any,
    table: Any,
    RS: Any,
    RM: Any,
    RH: Any,
    VS: Any,
    VM: Any,
    targets: Any,
    past: Any,
    weight: Any,
    Q: Any,
    Q_low: Any,
    V: Any,
    V_low: Any,
    marks: Any,
    features: Any,
    pool: Any,
    reward_scores: Any,
    value_scores: Any,
) -> int:
    """Template: learn that row = (s, a) paid ``reward`` and led to ``landed``. OK, or what was
    wrong, the state untouched. The value's part is O(d²); the reward's costs what its policy's
    round does.
    """
    if not (abs(reward) < math.inf):
        return BAD_REWARD
    code = learn_reward(RS, RM, RH, features, h, row, reward, nu)
    if code != OK:
        return code
    horizon = table.shape[0]
    k = int(c[EPISODES])
    if h < horizon - 1:  # after the last stage nothing is paid: there is no value to learn
        squared = measure(VS[h], VM[h], features[row])
        sigma = 1.0
        if c[WEIGHTED] == 1.0:
            sigma = value_sigma(c, VS, VM, targets, features, h, row, math.sqrt(squared))
        learn(VS[h], VM[h], features.shape[1], squared, 0.0, sigma, 1.0, math.inf)
        VS[h, RADIUS] = current_radius(VS[h])
        past[h, k, 0] = row
        past[h, k, 1] = landed
        weight[h, k] = 1.0 / (sigma * sigma)
    count_stage(c, h, horizon)
    return OK
