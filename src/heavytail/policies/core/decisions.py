"""Rewards that come late, out of order or in batches: decide now, learn whenever.

A decision is remembered under its token until its reward is learned or it expires, by count or by
time. What is pending is saved, copied and resumed with the policy. A share of the decisions may
explore, so that what is logged of them says with which probability each arm was chosen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

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
TOLD = 10_000  # expired tokens that are told from rewarded ones
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


class Waiting(NamedTuple):
    """What is remembered of a decision; its time is infinite where a file does not say it."""

    x: FloatArray
    time: float


class Deciding:
    """decide and learn, for any policy that selects and updates."""

    _made: int = 0  # decisions so far, and the next one's token
    _waiting: dict[int, Waiting] | None = None  # by token
    _expired: tuple[int, ...] = ()  # the last tokens that did, in order
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
    def decide(self, arms: Any, *, explore: float = 0.0, now: float | None = None) -> Decision:
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
        if self._waiting and self.info.repeats:
            raise ValueError(
                f"{type(self).__name__}.decide: this policy plays an arm several times and must "
                "see each reward before it decides again. Learn or expire what is pending first."
            )
        if explore or type(explore) is not float:
            explore = self._check_explore(explore)
        when = self._clock("decide", now)
        made = self.decision(arms, self.select(arms), explore=explore, token=self._made, when=when)
        if self._waiting is None:
            self._waiting = {}
        self._made += 1
        self._waiting[made.token] = Waiting(made.x, when)
        return made

    def decision(
        self, arms: Any, choice: int, *, explore: float, token: int, when: float | None = None
    ) -> Decision:
        """The decision ``token``, where ``select`` chose ``choice``; it is not remembered."""
        rows = arms if isinstance(arms, np.ndarray | list | Pool) else np.asarray(arms)
        arm = self._drawn(explore, choice, len(rows), token) if explore else choice
        x = _frozen(rows[arm]).reshape(self.dim)
        if not np.isfinite(x).all():
            raise ValueError(
                f"{type(self).__name__}.decide: arms changed while they were read. Pass a copy."
            )
        chance = _mixed(self._chance(rows, arm, choice), explore, len(rows))
        when = time.time() if when is None else when
        return Decision(token, arm, x, chance, self._score(x), when)

    def _clock(self, verb: str, now: float | None) -> float:
        """Seconds since 1970, unless another clock says ``now``."""
        if now is None:
            return time.time()
        return check_number(f"{type(self).__name__}.{verb}: now", now)

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
        found = [_pending(self, each) for each in decisions]
        features = [one.x for one in found]
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
                waiting.update(zip(tokens, found, strict=True))
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
        where = f"{type(self).__name__}.expire"
        if (age is None) == (older_than is None) or (older_than is None and now is not None):
            raise TypeError(f"{where}: pass age, or older_than and with it now where you keep it.")
        if age is not None:
            age = check_count(f"{where}: age", age, least=0)
            first = self._made - age
            old = [token for token in self.pending if token < first]
        else:
            old = list(self._overdue("expire", older_than, now))
        gone = set(old)
        kept = {token: one for token, one in (self._waiting or {}).items() if token not in gone}
        told = tuple(sorted({*self._expired, *old})[-TOLD:])
        self._waiting, self._expired = kept, told
        return len(old)

    @alone
    def overdue(self, seconds: float, *, now: float | None = None) -> tuple[int, ...]:
        """Tokens of the decisions that have waited longer than so many seconds, oldest first.

        Where silence means no, learn 0 for them. Those of a file from before times were saved are
        not among them, whatever their age. ``now`` is the present, where it is not the machine's.
        """
        return self._overdue("overdue", seconds, now)

    def _overdue(self, verb: str, seconds: Any, now: float | None) -> tuple[int, ...]:
        name = "older_than" if verb == "expire" else "seconds"
        least = check_number(f"{type(self).__name__}.{verb}: {name}", seconds, least=0.0)
        last = self._clock(verb, now) - least
        return tuple(
            sorted(token for token, one in (self._waiting or {}).items() if one.time < last)
        )

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
        waiting = sorted((self._waiting or {}).items())
        rows = [one.x for _, one in waiting]
        gone = {PREFIX + "expired": np.array(self._expired, dtype=np.float64)}
        return {
            **key,
            PREFIX + "made": np.array([float(self._made)]),
            PREFIX + "tokens": np.array([token for token, _ in waiting], dtype=np.float64),
            PREFIX + "features": np.array(rows).reshape(len(rows), self.dim),
            PREFIX + "times": np.array([one.time for _, one in waiting], dtype=np.float64),
            **(gone if self._expired else {}),
        }

    def _check_pending(
        self, arrays: dict[str, FloatArray]
    ) -> tuple[int, dict[int, Waiting], int, tuple[int, ...]]:
        """What is pending in ``arrays``: how many decisions were made, those that wait, the key,
        and the tokens that expired. Files did not always say times, and what expired.
        """
        mine = {key[len(PREFIX) :]: a for key, a in arrays.items() if key.startswith(PREFIX)}
        key = self._check_key(mine.pop("key", None))
        if not mine:
            return 0, {}, key, ()
        try:
            tokens, rows, made = mine["tokens"], mine["features"], float(mine["made"][0])
            times = mine.get("times", np.full(tokens.shape, np.inf))
            gone = mine.get("expired", np.zeros(0))
            sound = (
                set(mine) - {"times", "expired"} == {"made", "tokens", "features"}
                and mine["made"].shape == (1,)
                and 0.0 < made == np.floor(made) <= MOST
                and _are_tokens(tokens, made)
                and rows.shape == (tokens.shape[0], self.dim)
                and rows.dtype == times.dtype == np.float64
                and bool(np.isfinite(rows).all())
                and times.shape == tokens.shape
                and bool((times > -np.inf).all())
                and _are_tokens(gone, made)
                and len(gone) <= TOLD
                and not np.isin(gone, tokens).any()
            )
        except Exception as error:  # whatever odd arrays make NumPy say
            if raised_by_handler(error):
                raise
            sound = False
        if not sound:
            raise ValueError(f"{type(self).__name__}: the saved pending decisions are damaged.")
        waiting = {
            int(token): Waiting(_frozen(x), float(when))
            for token, x, when in zip(tokens, rows, times, strict=True)
        }
        return int(made), waiting, key, tuple(map(int, gone))

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


def _are_tokens(numbers: FloatArray, made: float) -> bool:
    """Whether they are tokens of so many decisions, in order."""
    return (
        numbers.ndim == 1
        and numbers.dtype == np.float64
        and bool(np.all((numbers >= 0) & (numbers < made) & (numbers == np.floor(numbers))))
        and bool(np.all(np.diff(numbers) > 0))
    )


def _mixed(chance: float | None, explore: float, count: int) -> float | None:
    """(1 - e) chance + e / n: the probability of an arm among n where a share e explores."""
    if explore == 1.0:
        return 1.0 / count
    return None if chance is None else (1.0 - explore) * chance + explore / count


def _token(decision: Any) -> int:
    return int(decision.token) if isinstance(decision, Decision) else int(decision)


def _pending(policy: Deciding, decision: Any) -> Waiting:
    """A pending decision, or the reason why it cannot be learned."""
    where = f"{type(policy).__name__}.learn"
    if isinstance(decision, bool) or not isinstance(decision, Decision | int | np.integer):
        raise TypeError(f"{where}: pass a Decision or its token; got {shown(decision)}.")
    token = _token(decision)
    found = (policy._waiting or {}).get(token)
    if found is None:
        why = "is unknown"
        if token in policy._expired:
            why = "has expired"
        elif 0 <= token < policy._made:
            why = "was already rewarded, or expired long ago"
        raise ValueError(f"{where}: token {shown(token)} {why}. Nothing was learned.")
    if isinstance(decision, Decision) and not np.array_equal(decision.x, found.x):
        raise ValueError(
            f"{where}: the decision with token {shown(token)} is another policy's: its features "
            "differ. Nothing was learned."
        )
    return found
