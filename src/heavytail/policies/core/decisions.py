"""Rewards that come late, out of order or in batches: decide now, learn whenever.

A decision is remembered under its token until its reward is learned or it expires, by count or by
time. What is pending is saved, copied and resumed with the policy. A share of the decisions may
explore, so that what is logged of them says with which probability each arm was chosen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import as_rows, check_number, check_reward
from heavytail.kernels.random import uniform_pair
from heavytail.ledger.decision import Decision, frozen, token_of
from heavytail.ledger.memory import MOST, Memory, clock
from heavytail.policies.core.pool import Pool

if TYPE_CHECKING:
    from heavytail.policies.core.info import Info

__all__ = ["Deciding", "Decision"]

PREFIX = "pending."  # of the names of saved arrays
EXPLORING = 2**40  # the stream of draws that explore: no policy draws so many numbers for a choice


class Deciding:
    """decide and learn, for any policy that selects and updates."""

    _ledger: Memory | None = None  # what was decided
    _key: int = 0  # of the draws that explore, where the policy draws nothing itself

    if TYPE_CHECKING:  # what a policy brings
        dim: int
        info: ClassVar[Info]

        @property
        def rounds(self) -> int: ...
        def select(self, arms: ArrayLike) -> int: ...
        def update(self, x: ArrayLike, reward: float, *, scale: float | None = None) -> None: ...
        def update_many(
            self, X: ArrayLike, rewards: ArrayLike, *, scale: ArrayLike | None = None
        ) -> None: ...
        def state_arrays(self) -> dict[str, FloatArray]: ...
        def restore(self, arrays: dict[str, FloatArray]) -> None: ...

    @alone
    def decide(
        self, arms: ArrayLike, *, explore: float = 0.0, now: float | None = None
    ) -> Decision:
        """Choose among ``arms`` as ``select`` does, and remember the choice until its reward comes.

        With ``explore`` = e in [0, 1] the choice is, with probability e, any of the n arms instead,
        so that each arm has a probability of at least e/n and a log of the decisions can tell what
        other policies would have earned (:class:`heavytail.DecisionLog`). The draw is fixed by the
        token and the policy's seed (``reseed``): a resumed run draws what an uninterrupted one
        would. What was explored is learned like any other reward. ``now`` is the decision's time,
        where it is not the machine's.

        >>> import heavytail as ht
        >>> policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
        >>> first, second = policy.decide([[1.0, 0.0]]), policy.decide([[0.0, 1.0]])
        >>> policy.learn(second, reward=0.5)  # in any order, any time later
        >>> policy.pending, policy.rounds
        ((0,), 1)
        """
        ledger = self._ledger
        if ledger is None:
            ledger = self._ledger = Memory()
        if self.info.repeats and ledger.kept:
            raise ValueError(
                f"{type(self).__name__}.decide: this policy plays an arm several times and must "
                "see each reward before it decides again. Learn or expire what is pending first."
            )
        if explore or type(explore) is not float:
            explore = self._check_explore(explore)
        when = time.time() if now is None else clock(f"{type(self).__name__}.decide", now)
        choice = self.select(arms)
        made = self.decision(arms, choice, explore=explore, token=ledger.made, when=when)
        ledger.decided(made)
        return made

    def decision(
        self, arms: ArrayLike, choice: int, *, explore: float, token: int, when: float | None = None
    ) -> Decision:
        """The decision ``token``, where ``select`` chose ``choice``; it is not remembered."""
        rows = arms if isinstance(arms, np.ndarray | list | Pool) else np.asarray(arms)
        arm = self._drawn(explore, choice, len(rows), token) if explore else choice
        x = frozen(rows[arm]).reshape(self.dim)
        if not np.isfinite(x).all():
            raise ValueError(
                f"{type(self).__name__}.decide: arms changed while they were read. Pass a copy."
            )
        chance = _mixed(self._chance(rows, arm, choice), explore, len(rows))
        when = time.time() if when is None else when
        return Decision(token, arm, x, chance, self._score(x), when)

    def _check_explore(self, explore: object) -> float:
        where = f"{type(self).__name__}.decide"
        if type(explore) is not float or not 0.0 <= explore <= 1.0:  # a check costs 10 us
            explore = check_number(f"{where}: explore", explore, least=0.0, most=1.0)
        if explore and self.info.repeats:
            raise ValueError(
                f"{where}: this policy plays an arm several times and cannot have others played "
                "in between. Leave explore out."
            )
        return explore

    def _drawn(self, explore: float, choice: int, count: int, token: int) -> int:
        """Any arm with probability ``explore``, else the choice."""
        first, second = uniform_pair(self._draw_key(), token, EXPLORING)
        return int(second * count) if first < explore else choice

    def _draw_key(self) -> int:
        """The key of the draws that explore."""
        return self._key

    def _chance(self, arms: ArrayLike, arm: int, choice: int) -> float | None:
        """The probability of ``arm`` where ``select`` chose; None where it is not known."""
        if not self.info.randomised:
            return 1.0 if arm == choice else 0.0
        offered = np.asarray(arms, dtype=np.float64).reshape(1, -1, self.dim)
        known = self._chances(offered)
        return None if known is None else float(known[0, arm])

    def _chances(self, sets: FloatArray) -> FloatArray | None:
        """Of a policy that draws: the probability of each arm of many sets, (b, n) for
        (b, n, dim); None where it is not known.
        """
        return None

    def _score(self, x: FloatArray) -> float | None:
        """The mean reward expected at ``x``; None where none is."""
        return None

    @alone
    def learn(self, decision: Any, reward: Any, *, scale: Any = None) -> None:
        """Learn the reward of a Decision (or its token), or the rewards of many.

        A token that is unknown, already rewarded, expired or twice in one batch is refused, and
        so is a bad reward; nothing of the call is learned then.
        """
        where, ledger = f"{type(self).__name__}.learn", self._ledger or Memory()
        many = not isinstance(decision, Decision | int | np.integer)
        if many and not isinstance(decision, list | tuple | np.ndarray):
            raise TypeError(
                f"{where}: decisions must be a Decision, a token or a list of them; got "
                f"{type(decision).__name__}."
            )
        decisions = list(decision) if many else [decision]
        owed = [ledger.owed(each, where) for each in decisions]
        features = [each.x for each in owed]
        tokens = [token_of(each, where) for each in decisions]
        if len(set(tokens)) < len(tokens):
            twice = next(t for i, t in enumerate(tokens) if t in tokens[:i])
            raise ValueError(f"{where}: token {twice} is twice in the batch.")
        rounds = self.rounds
        if many and np.shape(reward)[:1] != (len(tokens),):
            raise ValueError(
                f"{where}: {len(tokens)} decisions need as many rewards; got shape "
                f"{np.shape(reward)}."
            )
        if not many:
            reward = check_reward(f"{where}: reward", reward)
        try:
            for token in tokens:  # first: what is learned and then interrupted is not learned twice
                ledger.rewarded(token)
            if not many:
                self.update(features[0], reward, scale=scale)
            elif tokens:
                self._learn_rows(features, reward, scale)
        except BaseException:
            if self.rounds == rounds:  # else it was learned before something spoke up
                ledger.kept.update(zip(tokens, owed, strict=True))
            raise

    def _learn_rows(
        self, features: Sequence[FloatArray], rewards: ArrayLike, scale: ArrayLike | None
    ) -> None:
        values = as_rows(rewards, (None,), f"{type(self).__name__}.learn: rewards")
        if len(values) != len(features):
            raise ValueError(
                f"{type(self).__name__}.learn: {len(features)} decisions need as many rewards; "
                f"got shape {values.shape}."
            )
        self.update_many(np.array(features), values, scale=scale)

    @alone
    def expire(
        self, age: int | None = None, *, older_than: float | None = None, now: float | None = None
    ) -> int:
        """Forget pending decisions but the last ``age`` made, or those that have waited longer
        than ``older_than`` seconds; returns how many.

        >>> import heavytail as ht
        >>> policy = ht.TwinUCB(2)
        >>> decision = policy.decide([[1.0, 0.0]])
        >>> policy.expire(older_than=3600.0)
        0
        """
        ledger = self._ledger = self._ledger or Memory()
        where = f"{type(self).__name__}.expire"
        return ledger.expire(age, older_than=older_than, now=now, where=where)

    @alone
    def overdue(self, seconds: float, *, now: float | None = None) -> tuple[int, ...]:
        """Tokens of the decisions that have waited longer than so many seconds, oldest first.

        Where silence means no, learn 0 for them. Those of a file from before times were saved are
        not among them, whatever their age. ``now`` is the present, where it is not the machine's.
        """
        where = f"{type(self).__name__}.overdue"
        least = check_number(f"{where}: seconds", seconds, least=0.0)
        return (self._ledger or Memory()).overdue(clock(where, now) - least)

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""
        return (self._ledger or Memory()).waiting

    def _pending_arrays(self) -> dict[str, FloatArray]:
        """What is pending as named arrays; nothing where no decision was ever made, but the key of
        draws to come.
        """
        key = {PREFIX + "key": np.array([float(self._key)])} if self._key else {}
        kept = (self._ledger or Memory()).arrays(self.dim)
        return {**key, **{PREFIX + name: array for name, array in kept.items()}}

    def _check_pending(self, arrays: dict[str, FloatArray]) -> tuple[Memory, int]:
        """What is pending in ``arrays``, and the key of draws to come; refuses what is damaged."""
        mine = {key[len(PREFIX) :]: a for key, a in arrays.items() if key.startswith(PREFIX)}
        key = self._check_key(mine.pop("key", None))
        return Memory.of_arrays(mine, self.dim, type(self).__name__), key

    def _check_key(self, key: Any) -> int:
        if key is None:
            return 0
        whole = isinstance(key, np.ndarray) and key.shape == (1,) and key.dtype == np.float64
        if not (whole and 0.0 < key[0] == np.floor(key[0]) <= MOST):
            raise ValueError(f"{type(self).__name__}: the saved key of its draws is damaged.")
        return int(key[0])


def _mixed(chance: float | None, explore: float, count: int) -> float | None:
    """(1 - e) chance + e / n: the probability of an arm among n where a share e explores."""
    if explore == 1.0:
        return 1.0 / count
    return None if chance is None else (1.0 - explore) * chance + explore / count
