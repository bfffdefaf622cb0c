"""Rewards that come late, out of order or in batches: what ``decide`` and ``learn`` rest on.

A decision is remembered under its token until its reward is learned or it expires, by count or by
time. What is pending is saved, copied and resumed with the policy. A share of the decisions may
explore, so that what is logged of them says with which probability each arm was chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heavytail._storage import is_plain
from heavytail._typing import FloatArray
from heavytail._validate import as_rows, check_number, check_reward
from heavytail.kernels.random import uniform_pair
from heavytail.ledger.decision import Decision, frozen, token_of
from heavytail.ledger.memory import MOST, Memory, Waiting
from heavytail.policies.core.pool import Pool

if TYPE_CHECKING:
    from heavytail.policies.core.policy import Policy

__all__ = [
    "PENDING",
    "Decision",
    "check_explore",
    "check_pending",
    "chosen",
    "pending_arrays",
    "rewarded",
]

PENDING = "pending."  # of the names of saved arrays
EXPLORING = 2**40  # the stream of draws that explore: no policy draws so many numbers for a choice


def check_explore(policy: Policy, explore: object) -> float:
    """The share of decisions that explore, which a policy of repeated pulls has not."""
    where = f"{type(policy).__name__}.decide"
    if type(explore) is not float or not 0.0 <= explore <= 1.0:  # a check costs 10 us
        explore = check_number(f"{where}: explore", explore, least=0.0, most=1.0)
    if explore and policy.info.repeats:
        raise ValueError(
            f"{where}: this policy plays an arm several times and cannot have others played "
            "in between. Leave explore out."
        )
    return explore


def chosen(
    policy: Policy, arms: ArrayLike, choice: int, explore: float, token: int, when: float
) -> Decision:
    """The decision ``token``: ``choice``, or with probability ``explore`` any arm instead."""
    rows = arms if isinstance(arms, np.ndarray | list | Pool) else np.asarray(arms)
    arm = choice
    if explore:
        first, second = uniform_pair(policy._draw_key(), token, EXPLORING)
        arm = int(second * len(rows)) if first < explore else choice
    x = frozen(rows[arm]).reshape(policy.dim)
    if not np.isfinite(x).all():
        raise ValueError(
            f"{type(policy).__name__}.decide: arms changed while they were read. Pass a copy."
        )
    chance = _mixed(_chance(policy, rows, arm, choice), explore, len(rows))
    return Decision(token, arm, x, chance, policy._score(x), when)


def _chance(policy: Policy, arms: ArrayLike, arm: int, choice: int) -> float | None:
    """The probability of ``arm`` where ``select`` chose; None where it is not known."""
    if not policy.info.randomised:
        return 1.0 if arm == choice else 0.0
    known = policy._chances(np.asarray(arms, dtype=np.float64).reshape(1, -1, policy.dim))
    return None if known is None else float(known[0, arm])


def _mixed(chance: float | None, explore: float, count: int) -> float | None:
    """(1 - e) chance + e / n: the probability of an arm among n where a share e explores."""
    if explore == 1.0:
        return 1.0 / count
    return None if chance is None else (1.0 - explore) * chance + explore / count


def rewarded(
    policy: Policy, ledger: Memory, decision: Any, reward: Any
) -> tuple[dict[int, Waiting], Any, bool]:
    """The decisions of ``ledger`` that a reward is for, by token, the reward or the row of them,
    and whether there may be many; refuses what cannot be learned.
    """
    where = f"{type(policy).__name__}.learn"
    many = not isinstance(decision, Decision | int | np.integer)
    if many and not isinstance(decision, list | tuple | np.ndarray):
        raise TypeError(
            f"{where}: decisions must be a Decision, a token or a list of them; got "
            f"{type(decision).__name__}."
        )
    decisions = list(decision) if many else [decision]
    owed = [ledger.owed(each, where) for each in decisions]
    tokens = [token_of(each, where) for each in decisions]
    if len(set(tokens)) < len(tokens):
        twice = next(t for i, t in enumerate(tokens) if t in tokens[:i])
        raise ValueError(f"{where}: token {twice} is twice in the batch.")
    if many and np.shape(reward)[:1] != (len(tokens),):
        raise ValueError(
            f"{where}: {len(tokens)} decisions need as many rewards; got shape {np.shape(reward)}."
        )
    if not many:
        reward = check_reward(f"{where}: reward", reward)
    elif tokens:
        reward = as_rows(reward, (None,), f"{where}: rewards")
    return dict(zip(tokens, owed, strict=True)), reward, many


def pending_arrays(policy: Policy) -> dict[str, FloatArray]:
    """The pending decisions as named arrays. Before the first decision there are none, except for
    the key of future draws if it is set.
    """
    key = {PENDING + "key": np.array([float(policy._key)])} if policy._key else {}
    kept = (policy._ledger or Memory()).arrays(policy.dim)
    return {**key, **{PENDING + name: array for name, array in kept.items()}}


def check_pending(policy: Policy, arrays: dict[str, FloatArray]) -> tuple[Memory, int]:
    """Read the pending decisions in ``arrays`` and the key of future draws; refuse damaged ones."""
    owner = type(policy).__name__
    mine = {key[len(PENDING) :]: a for key, a in arrays.items() if key.startswith(PENDING)}
    key: Any = mine.pop("key", None)
    if key is not None:
        whole = is_plain(key) and key.shape == (1,) and key.dtype == np.float64
        if not (whole and 0.0 < key[0] == np.floor(key[0]) <= MOST):
            raise ValueError(f"{owner}: the saved key of its draws is damaged.")
    return Memory.of_arrays(mine, policy.dim, owner), 0 if key is None else int(key[0])
