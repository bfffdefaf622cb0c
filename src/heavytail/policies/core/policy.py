"""The base of every policy: it selects, it learns, and it can be saved, copied and resumed.

No policy of ours inherits from another. ``Policy`` is what a policy in plain Python extends;
:class:`heavytail.policies.core.base.PackedPolicy` runs an algorithm of compiled kernels.
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from heavytail._storage import Saved, Stored
from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import Check, as_rows, check_number, shown
from heavytail.encoding import Encoder
from heavytail.ledger.decision import Decision
from heavytail.ledger.memory import Memory, clock
from heavytail.policies.core import decisions
from heavytail.policies.core.decisions import PENDING
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["Policy"]


class Policy(Stored, ABC):
    """A rule that picks an arm, sees its reward, and learns.

    A subclass gives ``name`` and ``info``, ``select`` and ``update``, and its state as named
    arrays. Its constructor's arguments are remembered as given, so ``repr``, ``clone`` and
    ``save`` need no help.
    """

    noun = "policy"
    name: ClassVar[str]
    info: ClassVar[Info]

    dim: int
    tail: MomentBound | None = None
    horizon: int | None = None
    _encoder: Encoder | None = None
    _ledger: Memory | None = None  # what was decided
    _key: int = 0  # of the draws that explore, where the policy draws nothing itself

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        cls._check_described()
        return super().__new__(cls, *args, **kwargs)

    @classmethod
    def _check_described(cls) -> None:
        """Refuse a class that lacks its ``name`` or its ``info``, and show how to write them."""
        lines = {
            "name": f'    name = "{cls.__name__}"',
            "info": '    info = ht.policies.Info(method="-", reference="-", regret="-", '
            'cost="O(1)", storage="O(1)", moment="none")',
        }
        lacking = [key for key in lines if not hasattr(cls, key)]
        if lacking:
            body = "\n".join(lines[key] for key in lacking)
            raise TypeError(
                f"{cls.__name__} has no {' and no '.join(lacking)}. "
                f"Write in the body of the class:\n{body}"
            )

    def __repr__(self) -> str:
        default = {p.name: p.default for p in inspect.signature(type(self)).parameters.values()}
        given = [
            f"{key}={value!r}"
            for key, value in self._arguments.items()
            if key not in default or type(value) is not type(default[key]) or value != default[key]
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    @classmethod
    def taken(cls, problem: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The entries of a ``problem`` (horizon, tail, arms) that the constructor is given beside
        its own ``options``: all that it has an argument for, unless a subclass decides otherwise.
        """
        accepted = inspect.signature(cls).parameters
        return {key: value for key, value in problem.items() if key in accepted}

    @abstractmethod
    def select(self, arms: ArrayLike) -> int:
        """The index of the arm to play among ``arms``, shape (n, dim).

        Ties go to the first; a policy of linear indices takes those equal to ten digits for one.
        """

    @abstractmethod
    def update(self, x: ArrayLike, reward: float, *, scale: float | None = None) -> None:
        """Learn that features ``x`` paid ``reward``; ``scale`` is nu_t, where it is known."""

    def reward_problem(self, reward: float, scale: float | None = None) -> str:
        """The reason, in a sentence, why a finite reward may not be learned, whatever its features
        and the state; "" if there is none.
        """
        return ""

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """The current estimate, a copy."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """beta_t: the radius of the confidence set that the next selection uses."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Rewards learned so far."""

    @property
    def state_bytes(self) -> int:
        """Bytes of everything the policy remembers, pending decisions too."""
        return sum(array.nbytes for array in self.saved_arrays().values())

    @abstractmethod
    def state_arrays(self) -> dict[str, FloatArray]:
        """The policy's memory as arrays by name: enough to resume to the bit."""

    @abstractmethod
    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take over what ``state_arrays`` gave; refuse what does not fit, unchanged."""

    @alone
    def saved_arrays(self) -> dict[str, FloatArray]:
        """``state_arrays``, and the decisions that wait for their reward."""
        return {**self.state_arrays(), **decisions.pending_arrays(self)}

    def resume(self, arrays: dict[str, FloatArray]) -> None:
        """Take over what ``saved_arrays`` gave; refuse what does not fit, unchanged."""
        ledger, key = decisions.check_pending(self, arrays)
        self.restore({k: a for k, a in arrays.items() if not k.startswith(PENDING)})
        self._ledger, self._key = ledger, key

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the vectors that the policy learns; saved, loaded and cloned with it.

        Setting it takes a copy that learns no more (:meth:`heavytail.Encoder.fixed`): vectors that
        changed their meaning would make nonsense of theta. None takes it away.
        """
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: Encoder | None) -> None:
        where = f"{type(self).__name__}.encoder"
        if encoder is not None:
            if not isinstance(encoder, Encoder):
                raise TypeError(f"{where} must be an Encoder or None; got {shown(encoder)}.")
            encoder = encoder.fixed()
            self._check_encoder(encoder)
        self._encoder = encoder

    def _check_encoder(self, encoder: Encoder) -> None:
        if encoder.dim != self.dim:
            raise ValueError(
                f"{type(self).__name__}.encoder must give {self.dim} features, as the policy has; "
                f"it gives {encoder.dim}. Build the policy with dim=encoder.dim."
            )

    def carried(self) -> dict[str, Saved]:
        if self._encoder is None:
            return {}
        self._check_encoder(self._encoder)  # whoever has it may have set other arguments since
        return {"encoder": self._encoder}

    def carry(self, others: Mapping[str, Any]) -> None:
        if set(others) - {"encoder"}:
            raise ValueError(f"{type(self).__name__} carries no {shown(sorted(others))}.")
        self.encoder = others.get("encoder")

    def reseed(self, seed: int) -> None:
        """Start anew the policy's own randomness, and the draws of ``decide`` that explore."""
        self._key = Check(type(self)).seed(seed)

    @alone
    def reset(self) -> None:
        """Forget all that was learned, a start from an earlier estimate too: the policy is as it
        was built. Decisions that wait for their reward still do, and the encoder stays.
        """
        self.restore(type(self)(**self._arguments).state_arrays())

    def diagnostics(self) -> Diagnostics:
        """Describe the state of the policy in numbers for a dashboard."""
        return Diagnostics(rounds=self.rounds, pending=len(self.pending), radius=self.radius)

    def update_many(
        self, X: ArrayLike, rewards: ArrayLike, *, scale: ArrayLike | None = None
    ) -> None:
        """Learn the rows of ``X`` (b, dim) and ``rewards`` (b,) in order, as ``update`` would.

        ``scale`` is one number or one per row. Where any row is refused, none is learned.
        """
        features, paid = self._rows_and_rewards(X, rewards)
        scales = np.broadcast_to(np.asarray(scale, dtype=object), paid.shape)
        before = {key: array.copy() for key, array in self.state_arrays().items()}
        try:
            for x, reward, nu in zip(features, paid, scales, strict=True):
                self.update(x, float(reward), scale=nu)
        except BaseException:  # an interrupt too: all rows are learned, or none
            self.restore(before)
            raise

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
            explore = decisions.check_explore(self, explore)
        when = time.time() if now is None else clock(f"{type(self).__name__}.decide", now)
        made = decisions.chosen(self, arms, self.select(arms), explore, ledger.made, when)
        ledger.decided(made)
        return made

    def decision(
        self, arms: ArrayLike, choice: int, *, explore: float, token: int, when: float | None = None
    ) -> Decision:
        """The decision ``token``, where ``select`` chose ``choice``; it is not remembered."""
        when = time.time() if when is None else when
        return decisions.chosen(self, arms, choice, explore, token, when)

    @alone
    def learn(self, decision: Any, reward: Any, *, scale: Any = None) -> None:
        """Learn the reward of a Decision (or its token), or the rewards of many.

        A token that is unknown, already rewarded, expired or twice in one batch is refused, and
        so is a bad reward; nothing of the call is learned then.
        """
        ledger = self._ledger or Memory()
        owed, reward, many = decisions.rewarded(self, ledger, decision, reward)
        rounds = self.rounds
        try:
            for token in owed:  # first: what is learned and then interrupted is not learned twice
                ledger.rewarded(token)
            if not many:
                (waiting,) = owed.values()
                self.update(waiting.x, reward, scale=scale)
            elif owed:
                features = np.array([waiting.x for waiting in owed.values()])
                self.update_many(features, reward, scale=scale)
        except BaseException:
            if self.rounds == rounds:  # else it was learned before something spoke up
                ledger.kept.update(owed)
            raise

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
        """Tokens of the decisions that have waited longer than ``seconds``, oldest first.

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

    def _draw_key(self) -> int:
        """The key of the draws that explore."""
        return self._key

    def _chances(self, sets: FloatArray) -> FloatArray | None:
        """Of a policy that draws: the probability of each arm of many sets, (b, n) for
        (b, n, dim); None where it is not known.
        """
        return None

    def _score(self, x: FloatArray) -> float | None:
        """The mean reward expected at ``x``; None where none is."""
        return None

    def _rows_and_rewards(self, X: ArrayLike, rewards: ArrayLike) -> tuple[FloatArray, FloatArray]:
        where = f"{type(self).__name__}.update_many"
        features = as_rows(X, (None, self.dim), f"{where}: X").copy()  # no thread writes to it
        return features, as_rows(rewards, (len(features),), f"{where}: rewards").copy()

    def _start(
        self, dim: int, tail: MomentBound | None, horizon: int | None, *, scale_known: bool = True
    ) -> Check:
        """Check and keep the arguments of nearly every policy; return the checker for the rest.

        Whether tail and horizon must be given is what ``info`` says; without ``scale_known`` the
        policy finds the scale itself.
        """
        check = Check(type(self))
        self.dim = check.count("dim", dim)
        needed = scale_known and self.info.moment in ("central", "raw")
        if not isinstance(tail, MomentBound) and (needed or tail is not None):
            raise TypeError(
                f"{check.owner}.tail must be a MomentBound(order, scale); got {shown(tail)}."
            )
        self.tail = tail
        if horizon is not None or self.info.horizon:
            self.horizon = check.count("horizon", horizon)
        return check
