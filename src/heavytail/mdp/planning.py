"""Least-squares value iteration: the kernels that all agents of the family share.

A stage h has two regressions in the layout of :mod:`heavytail.kernels.layout`. The reward's is that
of a bandit policy, updated by that policy's own kernel. The value's is OFUL's: P = Sigma_h^-1, its
log-determinant and radius grow in one pass, but its estimate
w_h = Sigma_h^-1 sum_i sigma_i^-2 phi_i V_{h+1}(s'_i) is computed anew at every plan from the whole
past, because V_{h+1} is another function then. That is why no algorithm of this family is one-pass,
whatever its reward estimator is.

What an agent chooses once, at construction, is bound into its kernels: :func:`planner` and
:func:`learner` make them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from heavytail._typing import FloatArray, IntArray, Matrix, Vector
from heavytail.kernels.gram import dot
from heavytail.kernels.index import MEAN, SQUARED, rate
from heavytail.kernels.jit import jit, specialise
from heavytail.kernels.layout import (
    CONSTANT,
    INVERSE,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    SCRATCH,
    THETA,
    Count,
    Flag,
    numbered,
)
from heavytail.kernels.one_pass import LARGEST, admit, learn, measure
from heavytail.policies.oful import current_radius

__all__ = ["COUNTS", "Plan", "learner", "planner"]

CAP: Final = 1.0  # largest mean reward of a stage
# Growth of a log-determinant that asks for a new plan. A reward whose sigma is its width doubles
# one exactly: the slack keeps rounding out of the decision.
DOUBLED: Final = math.log(2.0) - 1e-9


class Counts(NamedTuple):
    """Slots of ``counts``, the scalars of every agent."""

    EPISODES: Count  # whole episodes learned
    STAGE: Count  # the stage that comes next
    PLANNED: Flag  # 1 once the coming episode's plan stands
    SWITCHES: Count  # times the policy was computed anew


COUNTS: Final = numbered(Counts)
EPISODES, STAGE, PLANNED, SWITCHES = COUNTS


class Targets(NamedTuple):
    """Rows of ``targets``: estimates beside w_h, which is value_M[h, THETA]."""

    PESSIMIST: int  # regression of the lower value
    SQUARE: int  # regression of the square of the upper value, where values are weighted


TARGETS: Final = numbered(Targets)
PESSIMIST, SQUARE = TARGETS


class Plan(NamedTuple):
    """Everything an agent of this family knows, with room to work in. K grows with the episodes."""

    counts: Vector  # slots as in Counts
    table: IntArray  # (H, S): the action of the current plan
    reward_s: Matrix  # (H, slots): the reward policy's scalars at each stage
    reward_M: FloatArray  # (H, rows, D): its matrices
    reward_H: FloatArray  # (H, K, columns): its history; empty where it is one-pass
    value_s: Matrix  # (H, slots): OFUL's scalars for V_{h+1}
    value_M: FloatArray  # (H, rows, d): its matrices
    targets: FloatArray  # (H, 2, d): rows as in Targets
    past: IntArray  # (H, K, 2): (s, a) as a row of ``features``, and the next state
    weight: Matrix  # (H, K): 1 / sigma²
    Q: FloatArray  # (H, S, A): optimistic
    Q_low: FloatArray  # (H, S, A): pessimistic
    V: Matrix  # (H + 1, S): of Q
    V_low: Matrix  # (H + 1, S): of Q_low
    marks: Matrix  # (H, 2): log-determinants of both regressions at the last plan
    level: Vector  # (H + 1,): B_h, what the reward intercepts of the stages from h on add to V_h
    features: Matrix  # (S A, d): phi
    pool: Matrix  # (d, S A): phi by feature
    reward_scores: Matrix  # (SCORES, S A): room
    value_scores: Matrix  # (SCORES, S A): room


@jit
def count_stage(counts: Vector, h: int, horizon: int) -> None:
    """Stage h is learned: the next one comes, or after the last the next episode."""
    if h + 1 < horizon:
        counts[STAGE] = h + 1.0
        return
    counts[STAGE] = 0.0
    counts[EPISODES] += 1.0
    counts[PLANNED] = 0.0


# --- what a mode decides


@jit
def always(plan: Plan) -> bool:
    """A new plan before every episode."""
    return True


@jit
def when_doubled(plan: Plan) -> bool:
    """A new plan once some determinant has doubled since the last, and at first."""
    if plan.counts[SWITCHES] == 0.0:
        return True
    for h in range(plan.marks.shape[0]):
        reward = plan.reward_s[h, LOG_DET] - plan.marks[h, 0]
        value = plan.value_s[h, LOG_DET] - plan.marks[h, 1]
        if max(reward, value) >= DOUBLED:
            return True
    return False


@jit
def clipped(value: float, stages: int) -> float:
    """``value`` within [0, what ``stages`` stages can pay]."""
    return min(max(value, 0.0), CAP * stages)


@jit
def replace(Q: Matrix, Q_low: Matrix, s: int, a: int, index: float, low: float) -> None:
    """Q and its lower bound are those of this plan."""
    Q[s, a] = index
    Q_low[s, a] = low


@jit
def tighten(Q: Matrix, Q_low: Matrix, s: int, a: int, index: float, low: float) -> None:
    """Q never rises from plan to plan, its lower bound never falls."""
    Q[s, a] = min(index, Q[s, a])
    Q_low[s, a] = max(low, Q_low[s, a])


@jit
def unit_sigma(plan: Plan, h: int, row: int, width: float) -> float:
    """All transitions weigh the same."""
    return 1.0


@jit
def value_sigma(plan: Plan, h: int, row: int, width: float) -> float:
    """sigma_{k,h}: an upper estimate of the standard deviation of V_{h+1}(s') given phi."""
    x = plan.features[row]
    remaining = float(plan.table.shape[0] - 1 - h)
    most = CAP * remaining
    raw = dot(plan.value_M[h, THETA], x) + plan.level[h + 1]
    mean = min(max(raw, 0.0), most)
    second = min(max(dot(plan.targets[h, SQUARE], x), 0.0), most * most)
    error = plan.value_s[h, RADIUS] * width
    spread = max(second - mean * mean, 0.0)
    spread += 2.0 * min(2.0 * most * error, most * most)  # E: of the two regressions behind spread
    low = dot(plan.targets[h, PESSIMIST], x) + plan.level[h + 1]
    gap = raw - low + 2.0 * error
    spread += min(2.0 * most * max(gap, 0.0), most * most)  # D: of V_{h+1} itself
    floor = CAP * math.sqrt(remaining)
    return max(math.sqrt(spread), floor, width)


# --- a plan


@jit
def regress(plan: Plan, h: int, values: Vector, shift: float, squared: bool, w: Vector) -> None:
    """w = Sigma_h^-1 sum_i sigma_i^-2 phi_i y_i over the past, y_i the value of the next state less
    ``shift``, or its square. O(k d + d²).
    """
    # An array taken out of a tuple is counted by the runtime: not in the inner loops.
    M, past, weight, features = plan.value_M[h], plan.past[h], plan.weight[h], plan.features
    for j in range(M.shape[1]):
        M[SCRATCH, j] = 0.0
    for i in range(int(plan.counts[EPISODES])):
        value = values[past[i, 1]] - shift
        y = weight[i] * value
        if squared:
            y *= value
        row = past[i, 0]
        for j in range(M.shape[1]):
            M[SCRATCH, j] += y * features[row, j]
    for i in range(M.shape[1]):
        w[i] = dot(M[SCRATCH], M[INVERSE + i])


@jit
def relabel(plan: Plan, h: int) -> None:
    """Regress V_{h+1} and its lower bound on the past, both less B_{h+1}: the ridge then pulls to
    that level instead of to 0. O(k d).
    """
    shift = plan.level[h + 1]
    regress(plan, h, plan.V[h + 1], shift, False, plan.value_M[h, THETA])
    regress(plan, h, plan.V_low[h + 1], shift, False, plan.targets[h, PESSIMIST])


@jit
def relabel_square(plan: Plan, h: int) -> None:
    """As :func:`relabel`, and the square of V_{h+1}, which the weights need."""
    relabel(plan, h)
    regress(plan, h, plan.V[h + 1], 0.0, True, plan.targets[h, SQUARE])


@jit
def intercept(plan: Plan, h: int) -> float:
    """The constant that the reward policy adds to every mean reward; 0 without that feature."""
    size = plan.features.shape[1]
    if plan.reward_M.shape[2] == size:
        return 0.0
    return plan.reward_s[h, CONSTANT] * plan.reward_M[h, THETA, size]


@jit
def bonus(scores: Matrix, row: int, radius: float) -> float:
    """beta ‖phi‖ of a row of the pool."""
    return radius * math.sqrt(max(scores[SQUARED, row], 0.0))


def due(plan: Plan) -> bool:
    """Stands for :func:`always` or :func:`when_doubled` in the template below."""
    raise NotImplementedError


def label(plan: Plan, h: int) -> None:
    """Stands for :func:`relabel` or :func:`relabel_square` in the template below."""
    raise NotImplementedError


def settle(Q: Matrix, Q_low: Matrix, s: int, a: int, index: float, low: float) -> None:
    """Stands for :func:`replace` or :func:`tighten` in the template below."""
    raise NotImplementedError


def decide(plan: Plan, h: int) -> None:
    """Template: Q, V and the actions of stage h, for every state, once its scores stand.

    Actions tied at a cap are told apart by the index before it.
    """
    # An array taken out of a tuple is counted by the runtime: not in the inner loops.
    rewards, values, features = plan.reward_scores, plan.value_scores, plan.features
    Q, Q_low, pessimist = plan.Q[h], plan.Q_low[h], plan.targets[h, PESSIMIST]
    table, V, V_low = plan.table[h], plan.V[h], plan.V_low[h]
    reward_radius, value_radius = plan.reward_s[h, RADIUS], plan.value_s[h, RADIUS]
    level = plan.level[h]
    stages = plan.table.shape[0] - h
    actions = Q.shape[1]
    for s in range(Q.shape[0]):
        best_q = best_index = best_low = -math.inf
        for a in range(actions):
            row = s * actions + a
            mean = rewards[MEAN, row] + level
            width = bonus(rewards, row, reward_radius)
            index = mean + width
            low = mean - width
            if stages > 1:
                width = bonus(values, row, value_radius)
                index += values[MEAN, row] + width
                low += dot(pessimist, features[row]) - width
            settle(Q, Q_low, s, a, clipped(index, stages), clipped(low, stages))
            q = Q[s, a]
            if q > best_q or (q == best_q and index > best_index):
                table[s] = a
                best_q = q
                best_index = index
            best_low = max(best_low, Q_low[s, a])
        V[s] = best_q
        V_low[s] = best_low


def make_plan(plan: Plan) -> bool:
    """Template: the policy of the coming episode into ``table``; whether it was computed anew.

    Q_h = min{phi'(theta_h + w_h) + beta_R ‖phi‖_{R_h^-1} + beta_V ‖phi‖_{Sigma_h^-1}, stages left},
    at least 0, and at most what it was where Q is monotone. Where rewards have an intercept b_h,
    B_h = b_h + B_{h+1} is added and w_h is of V_{h+1} - B_{h+1}. O(H d (k + S A d)).
    """
    if plan.counts[PLANNED] == 1.0:
        return False
    plan.counts[PLANNED] = 1.0
    if not due(plan):
        return False
    horizon = plan.table.shape[0]
    for h in range(horizon - 1, -1, -1):
        if h + 1 < horizon:  # after the last stage nothing is paid
            label(plan, h)
            rate(plan.value_s[h], plan.value_M[h], plan.pool, plan.value_scores)
        rate(plan.reward_s[h], plan.reward_M[h], plan.pool, plan.reward_scores)
        plan.level[h] = intercept(plan, h) + plan.level[h + 1]
        decide(plan, h)
        plan.marks[h, 0] = plan.reward_s[h, LOG_DET]
        plan.marks[h, 1] = plan.value_s[h, LOG_DET]
    plan.counts[SWITCHES] += 1.0
    return True


@functools.cache
def planner(weighted: bool, rare: bool, monotone: bool) -> Callable[[Plan], bool]:
    """The planning kernel of these modes."""
    name = f"{'square' if weighted else 'plain'}_{'tighten' if monotone else 'replace'}"
    choose = specialise(decide, f"decide_{name}", settle=tighten if monotone else replace)
    return specialise(
        make_plan,
        f"plan_{name}_{'doubling' if rare else 'every'}",
        due=when_doubled if rare else always,
        label=relabel_square if weighted else relabel,
        decide=choose,
    )


# --- a stage


def update(*_: object) -> int:
    """Stands for a bandit policy's learning kernel in the templates below."""
    raise NotImplementedError


def one_pass_reward(plan: Plan, h: int, x: Vector, reward: float, nu: float) -> int:
    """Template: a bandit policy's learning at stage h."""
    return update(plan.reward_s[h], plan.reward_M[h], x, reward, nu)


def full_batch_reward(plan: Plan, h: int, x: Vector, reward: float, nu: float) -> int:
    """Template: the learning at stage h of a bandit policy with a row of history per round."""
    return update(plan.reward_s[h], plan.reward_M[h], plan.reward_H[h], x, reward, nu)


def learn_reward(plan: Plan, h: int, x: Vector, reward: float, nu: float) -> int:
    """Stands for one of the two above, compiled, in the template below."""
    raise NotImplementedError


def sigma_of(plan: Plan, h: int, row: int, width: float) -> float:
    """Stands for :func:`unit_sigma` or :func:`value_sigma` in the template below."""
    raise NotImplementedError


def learn_stage(h: int, row: int, reward: float, landed: int, nu: float, plan: Plan) -> int:
    """Template: learn that row = (s, a) paid ``reward`` and led to ``landed``. OK, or what was
    wrong, nothing learned. The value's part is O(d²); the reward's costs what its policy's round
    does.
    """
    x = plan.features[row]
    horizon = plan.table.shape[0]
    code = admit(plan.reward_s[h], plan.reward_M[h], x, reward, nu)
    if code != OK:
        return code
    squared = 0.0
    sigma = 1.0
    if h + 1 < horizon:  # after the last stage nothing is paid: there is no value to learn
        squared = measure(plan.value_s[h], plan.value_M[h], x)
        sigma = sigma_of(plan, h, row, math.sqrt(squared))
        if not (squared / (sigma * sigma) < LARGEST):
            return OVERFLOW
    code = learn_reward(plan, h, x, reward, nu)
    if code != OK:
        return code
    if h + 1 < horizon:
        s = plan.value_s[h]
        learn(s, plan.value_M[h], x.shape[0], squared, 0.0, sigma, 1.0, math.inf)
        s[RADIUS] = current_radius(s)
        k = int(plan.counts[EPISODES])
        plan.past[h, k, 0] = row
        plan.past[h, k, 1] = landed
        plan.weight[h, k] = 1.0 / (sigma * sigma)
    count_stage(plan.counts, h, horizon)
    return OK


@functools.cache
def learner(
    kernel: Callable[..., int], owner: str, full_batch: bool, weighted: bool
) -> Callable[..., int]:
    """The learning of one stage around a bandit policy's own ``kernel``; ``owner`` is the policy's
    name. A kernel that takes a history is ``full_batch``.
    """
    name = f"{owner}_{kernel.__name__}"
    template = full_batch_reward if full_batch else one_pass_reward
    reward = specialise(template, f"learn_reward_{name}", update=kernel)
    return specialise(
        learn_stage,
        f"learn_stage_{name}_{'weighted' if weighted else 'plain'}",
        learn_reward=reward,
        sigma_of=value_sigma if weighted else unit_sigma,
    )
