"""Rewards that come late, out of order or in batches: decide now, learn whenever.

A decision is remembered under its token until its reward is learned or it expires. What is pending
is saved, copied and resumed with the policy. A share of the decisions may explore, so that what is
logged of them says with which probability each arm was chosen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavytail._signals import raised_by_handler
from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import as_rows, check_count, check_number, check_reward, shown
from heavytail.kernels.random import uniform_pair
from heavytail.policies.core.pool import Pool

if TYPE_CHECKING:
    from heavytail.policies.core.info import Info

__all__ = ["Deciding", "Decision"]

PREFIX = "pending."  # of the names of saved arrays
MOST = 2.0**53  # decisions: from here on a double does not count
EXPLORING = 2**40  # the stream of draws that explore: no policy draws so many numbers for a choice


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A choice that waits for its reward.

    Attributes:
        token: what to learn its reward by.
        arm: the arm's place among those offered.
        x: its features.
        probability: with which it was chosen; None where the policy itself draws and does not know.
        score: the mean reward that the policy expected of it; None where it expects none.
        time: when, in seconds since 1970 (UTC).
    """

    token: int
    arm: int
    x: FloatArray
    probability: float | None = None
    score: float | None = None
    time: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """It as what JSON can hold, every bit of it."""
        parts = {name: getattr(self, name) for name in self.__slots__}
        return {**parts, "x": self.x.tolist()}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Decision:
        """What ``to_dict`` gave, after whatever journey; refuses what is no decision."""
        where = "Decision.from_dict"
        if not isinstance(told, Mapping) or set(told) != set(cls.__slots__):
            keys = list(told) if isinstance(told, Mapping) else told
            raise ValueError(f"{where}: must have {', '.join(cls.__slots__)}; got {shown(keys)}.")
        x = _frozen(as_rows(told["x"], (None,), f"{where}: x"))
        if not np.isfinite(x).all():
            raise ValueError(f"{where}: x must be finite; got {shown(told['x'])}.")
        bounds: dict[str, dict[str, Any]] = {
            "probability": {"above": 0.0, "most": 1.0},
            "score": {},
            "time": {},
        }
        rest = {
            name: None if told[name] is None else check_number(f"{where}: {name}", told[name], **by)
            for name, by in bounds.items()
        }
        token = check_count(f"{where}: token", told["token"], least=0)
        return cls(token, check_count(f"{where}: arm", told["arm"], least=0), x, **rest)


class Deciding:
    """decide and learn, for any policy that selects and updates."""

    _made: int = 0  # decisions so far, and the next one's token
    _waiting: dict[int, FloatArray] | None = None  # token -> features
    _key: int = 0  # of the draws that explore, where the policy draws nothing itself

    if TYPE_CHECKING:  # what a policy brings
        dim: int
        info: ClassVar[Info]

        @property
        def rounds(self) -> int: ...
        def select(self, arms: Any) -> int: ...
        def update(self, x: Any, reward: float, *, scale: Any = None) -> None: ...
        def update_many(self, X: Any, rewards: Any, *, scale: Any = None) -> None: ...
        def state_arrays(self) -> dict[str, FloatArray]: ...
        def restore(self, arrays: dict[str, FloatArray]) -> None: ...

    @alone
    def decide(self, arms: Any, *, explore: float = 0.0) -> Decision:
        """Choose among ``arms`` as ``select`` does, and remember the choice until its reward comes.

        With ``explore`` = e in [0, 1] the choice is, with probability e, any of the n arms instead,
        so that each arm has a probability of at least e/n and a log of the decisions can tell what
        other policies would have earned (:class:`heavytail.DecisionLog`). The draw is fixed by the
        token and the policy's seed (``reseed``): a resumed run draws what an uninterrupted one
        would. What was explored is learned like any other reward.

        >>> import heavytail as ht
        >>> policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
        >>> first, second = policy.decide([[1.0, 0.0]]), policy.decide([[0.0, 1.0]])
        >>> policy.learn(second, reward=0.5)  # in any order, any time later
        >>> policy.pending, policy.rounds
        ((0,), 1)
        """
        if self._waiting and self.info.repeats:
            raise ValueError(
                f"{type(self).__name__}.decide: this policy plays an arm several times and must "
                "see each reward before it decides again. Learn or expire what is pending first."
            )
        if explore or type(explore) is not float:
            explore = self._check_explore(explore)
        made = self.decision(arms, self.select(arms), explore=explore, token=self._made)
        if self._waiting is None:
            self._waiting = {}
        self._made += 1
        self._waiting[made.token] = made.x
        return made

    def decision(self, arms: Any, choice: int, *, explore: float, token: int) -> Decision:
        """The decision ``token``, where ``select`` chose ``choice``; it is not remembered."""
        rows = arms if isinstance(arms, np.ndarray | list | Pool) else np.asarray(arms)
        arm = self._drawn(explore, choice, len(rows), token) if explore else choice
        x = _frozen(rows[arm]).reshape(self.dim)
        if not np.isfinite(x).all():
            raise ValueError(
                f"{type(self).__name__}.decide: arms changed while they were read. Pass a copy."
            )
        chance = _mixed(self._chance(rows, arm, choice), explore, len(rows))
        return Decision(token, arm, x, chance, self._score(x), time.time())

    def _check_explore(self, explore: Any) -> float:
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

    def _chance(self, arms: Any, arm: int, choice: int) -> float | None:
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
        many = not isinstance(decision, Decision | int | np.integer)
        if many and not isinstance(decision, list | tuple | np.ndarray):
            raise TypeError(
                f"{type(self).__name__}.learn: decisions must be a Decision, a token or a list of "
                f"them; got {type(decision).__name__}."
            )
        decisions = list(decision) if many else [decision]
        features = [_pending(self, each) for each in decisions]
        tokens = [_token(each) for each in decisions]
        if len(set(tokens)) < len(tokens):
            twice = next(t for i, t in enumerate(tokens) if t in tokens[:i])
            raise ValueError(f"{type(self).__name__}.learn: token {twice} is twice in the batch.")
        rounds, waiting = self.rounds, self._waiting
        if many and np.shape(reward)[:1] != (len(tokens),):
            raise ValueError(
                f"{type(self).__name__}.learn: {len(tokens)} decisions need as many rewards; "
                f"got shape {np.shape(reward)}."
            )
        if waiting is None:  # and no decisions then
            return
        if not many:
            reward = check_reward(f"{type(self).__name__}.learn: reward", reward)
        try:
            for token in tokens:  # first: what is learned and then interrupted is not learned twice
                waiting.pop(token)
            if not many:
                self.update(features[0], reward, scale=scale)
            elif tokens:
                self._learn_rows(features, reward, scale)
        except BaseException:
            if self.rounds == rounds:  # else it was learned before something spoke up
                waiting.update(zip(tokens, features, strict=True))
            raise

    def _learn_rows(self, features: Sequence[FloatArray], rewards: ArrayLike, scale: Any) -> None:
        values = as_rows(rewards, (None,), f"{type(self).__name__}.learn: rewards")
        if len(values) != len(features):
            raise ValueError(
                f"{type(self).__name__}.learn: {len(features)} decisions need as many rewards; "
                f"got shape {values.shape}."
            )
        self.update_many(np.array(features), values, scale=scale)

    @alone
    def expire(self, age: int) -> int:
        """Forget pending decisions but the last ``age`` made; returns how many."""
        age = check_count(f"{type(self).__name__}.expire: age", age, least=0)
        waiting, first = self._waiting or {}, self._made - age
        old = [token for token in self.pending if token < first]
        return sum(waiting.pop(token, None) is not None for token in old)

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""
        return tuple(sorted(self._waiting or ()))

    def _pending_arrays(self) -> dict[str, FloatArray]:
        """What is pending as named arrays; nothing where no decision was ever made, but the key of
        draws to come.
        """
        key = {PREFIX + "key": np.array([float(self._key)])} if self._key else {}
        if not self._made:
            return key
        waiting = dict(self._waiting or {})
        tokens = sorted(waiting)
        rows = [waiting[token] for token in tokens]
        return {
            **key,
            PREFIX + "made": np.array([float(self._made)]),
            PREFIX + "tokens": np.array(tokens, dtype=np.float64),
            PREFIX + "features": np.array(rows).reshape(len(rows), self.dim),
        }

    def _check_pending(
        self, arrays: dict[str, FloatArray]
    ) -> tuple[int, dict[int, FloatArray], int]:
        """What is pending in ``arrays``: how many decisions were made, those that wait, the key."""
        mine = {key[len(PREFIX) :]: a for key, a in arrays.items() if key.startswith(PREFIX)}
        key = self._check_key(mine.pop("key", None))
        if not mine:
            return 0, {}, key
        try:
            tokens, rows, made = mine["tokens"], mine["features"], float(mine["made"][0])
            sound = (
                set(mine) == {"made", "tokens", "features"}
                and mine["made"].shape == (1,)
                and 0.0 < made == np.floor(made) <= MOST
                and tokens.ndim == 1
                and rows.shape == (tokens.shape[0], self.dim)
                and tokens.dtype == rows.dtype == np.float64
                and bool(np.isfinite(rows).all())
                and bool(np.all((tokens >= 0) & (tokens < made) & (tokens == np.floor(tokens))))
                and bool(np.all(np.diff(tokens) > 0))
            )
        except Exception as error:  # whatever odd arrays make NumPy say
            if raised_by_handler(error):
                raise
            sound = False
        if not sound:
            raise ValueError(f"{type(self).__name__}: the saved pending decisions are damaged.")
        return int(made), {int(t): _frozen(x) for t, x in zip(tokens, rows, strict=True)}, key

    def _check_key(self, key: Any) -> int:
        if key is None:
            return 0
        whole = isinstance(key, np.ndarray) and key.shape == (1,) and key.dtype == np.float64
        if not (whole and 0.0 < key[0] == np.floor(key[0]) <= MOST):
            raise ValueError(f"{type(self).__name__}: the saved key of its draws is damaged.")
        return int(key[0])


def _frozen(x: FloatArray) -> FloatArray:
    """A copy that nobody writes to."""
    twin = np.array(x, dtype=np.float64)
    twin.flags.writeable = False
    return twin


def _mixed(chance: float | None, explore: float, count: int) -> float | None:
    """(1 - e) chance + e / n: the probability of an arm among n where a share e explores."""
    if explore == 1.0:
        return 1.0 / count
    return None if chance is None else (1.0 - explore) * chance + explore / count


def _token(decision: Any) -> int:
    return int(decision.token) if isinstance(decision, Decision) else int(decision)


def _pending(policy: Deciding, decision: Any) -> FloatArray:
    """The features of a pending decision, or the reason why it cannot be learned."""
    where = f"{type(policy).__name__}.learn"
    if isinstance(decision, bool) or not isinstance(decision, Decision | int | np.integer):
        raise TypeError(f"{where}: pass a Decision or its token; got {shown(decision)}.")
    token = _token(decision)
    x = (policy._waiting or {}).get(token)
    if x is None:
        why = "was already rewarded, or has expired" if 0 <= token < policy._made else "is unknown"
        raise ValueError(f"{where}: token {shown(token)} {why}. Nothing was learned.")
    if isinstance(decision, Decision) and not np.array_equal(decision.x, x):
        raise ValueError(
            f"{where}: the decision with token {shown(token)} is another policy's: its features "
            "differ. Nothing was learned."
        )
    return x
