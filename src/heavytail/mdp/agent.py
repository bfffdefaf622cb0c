"""The base of all agents: each plans before an episode, acts in it, and learns after each stage.

An agent is final: none inherits from another. :mod:`heavytail.mdp.lsvi` has what is common to
least-squares value iteration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from heavytail._invariants import check_slots, damaged
from heavytail._storage import Stored, afford, check_fit
from heavytail._turns import alone
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import (
    GREATEST,
    LEAST,
    NORM_SLACK,
    Check,
    as_numbers,
    check_count,
    check_number,
    check_reward,
    shown,
)
from heavytail.kernels.layout import BAD_REWARD, BAD_SCALE, OK, slot_kinds, slot_names
from heavytail.mdp.planning import COUNTS, EPISODES, PLANNED, STAGE, SWITCHES
from heavytail.tails import MomentBound

__all__ = ["Agent", "all_within"]


class Agent(Stored, ABC):
    """A learner in episodes of H stages over finitely many states with known features.

    ``act(stage, state)`` is the action, ``update`` tells what came of it; stages come in order,
    and after the last one the episode is over. The constructor's arguments are remembered, so
    ``repr``, ``clone``, ``fresh`` and ``save`` need no help. A subclass calls ``_start`` and sets
    its two kernels, which take the one tuple in ``packed``.
    """

    noun = "agent"
    name: ClassVar[str]
    counts: ClassVar[tuple[Any, ...]] = (COUNTS,)  # the slots of its scalars
    one_pass_rewards: ClassVar[bool] = True  # whether the reward part is of one size for ever

    dim: int
    states: int
    actions: int
    horizon: int
    tail: MomentBound | None = None
    plan_kernel: Callable[..., bool]  # (packed) -> whether the policy was computed anew
    learn_kernel: Callable[..., int]  # (stage, row, reward, next state, nu, packed) -> code
    _counts: FloatArray
    _table: IntArray
    _features: FloatArray

    def __repr__(self) -> str:
        sizes = f"d={self.dim}, S={self.states}, A={self.actions}, H={self.horizon}"
        rest = [f"{k}={v!r}" for k, v in self._arguments.items() if k not in _PROBLEM]
        return f"{type(self).__name__}({', '.join([sizes, *rest])})"

    @property
    @abstractmethod
    def packed(self) -> tuple[Any]:
        """The named tuple of arrays that the kernels work on, alone in a tuple."""

    def reserve(self, episodes: int) -> None:
        """Make room for ``episodes`` more episodes."""

    def reseed(self, seed: int) -> None:
        """Start the agent's own randomness anew. Agents without any ignore it."""

    def _views(self) -> dict[str, Any]:
        """Views of the arrays that the agent remembers, by name."""
        return {"scalars": self._counts, "table": self._table}

    @alone
    def state_arrays(self) -> dict[str, Any]:
        """Copy all that the agent remembers, by name: enough to resume to the bit."""
        return {key: array.copy() for key, array in self._views().items()}

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        """The names along the last axis of those arrays whose columns have names."""
        return {"scalars": slot_names(*self.counts)}

    @alone
    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over what ``state_arrays`` gave; refuse what does not fit, unchanged."""
        self._check_saved(arrays)
        self.reserve(int(arrays["scalars"][EPISODES]) + 1 - self.episodes)
        self._counts[...] = arrays["scalars"]  # first: they say how much of the rest is in use
        for key, array in self._views().items():
            array[...] = arrays[key]

    def _check_saved(self, arrays: dict[str, Any]) -> None:
        where = type(self).__name__
        check_fit(where, arrays, {"scalars": self._counts, "table": self._table})
        c, table = arrays["scalars"], arrays["table"]
        check_slots(where, "scalars", slot_kinds(*self.counts), c, self._counts)
        if c[STAGE] >= self.horizon or (c[STAGE] > 0 and c[PLANNED] == 0.0):
            raise damaged(where, "scalars", "its stage cannot come next")
        if not all_within(table, self.actions):
            raise damaged(where, "table", "it names actions that are not there")

    @property
    def features(self) -> FloatArray:
        """phi, shape (S, A, d), a copy."""
        return self._features.reshape(self.states, self.actions, self.dim).copy()

    @property
    def state_bytes(self) -> int:
        """Bytes of everything the agent remembers of its past."""
        return sum(array.nbytes for array in self.state_arrays().values())

    @property
    def reward_bytes(self) -> int:
        """Bytes of the reward part: constant where it is one-pass."""
        parts = self.state_arrays().items()
        return sum(array.nbytes for name, array in parts if name.startswith("reward"))

    @property
    def episodes(self) -> int:
        """Whole episodes learned."""
        return int(self._counts[EPISODES])

    @property
    def switches(self) -> int:
        """The number of times that the policy was computed anew."""
        return int(self._counts[SWITCHES])

    @property
    @alone
    def policy(self) -> IntArray:
        """The actions of the coming (or current) episode, shape (H, S): planned if not yet so."""
        self._plan()
        return self._table.copy()

    @alone
    def act(self, stage: int, state: int) -> int:
        """The action in ``state`` at ``stage``, both counted from 0. Ties go to the first."""
        where = f"{type(self).__name__}.act"
        stage = self._expect(where, stage)
        state = _within(f"{where}: state", state, self.states)
        self._plan()
        return int(self._table[stage, state])

    @alone
    def update(
        self,
        stage: int,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        *,
        scale: float | None = None,
    ) -> None:
        """Learn that ``action`` in ``state`` paid ``reward`` and led to ``next_state``; ``scale``
        is this reward's nu where it is known.
        """
        where = f"{type(self).__name__}.update"
        state = _within(f"{where}: state", state, self.states)
        action = _within(f"{where}: action", action, self.actions)
        next_state = _within(f"{where}: next_state", next_state, self.states)
        nu = self.nu
        if scale is not None:
            nu = check_number(f"{where}: scale", scale, least=LEAST, most=GREATEST)
        reward = check_reward(f"{where}: reward", reward)
        stage = self._expect(where, stage)  # last: what is converted may be anybody's, and call us
        planned = self._counts[PLANNED] == 1.0
        before = [] if planned else [(array, array.copy()) for array in self._plan_arrays()]
        self._plan()
        self.reserve(1)
        row = state * self.actions + action
        code = self.learn_kernel(stage, row, reward, next_state, nu, *self.packed)
        if code != OK:
            for array, copy in before:  # a plan made for a stage that is refused is none
                array[...] = copy
            raise self.refusal(code, reward, nu)

    @property
    def nu(self) -> float:
        """The scale of a reward that comes without one."""
        return 1.0 if self.tail is None else self.tail.scale

    def refusal(self, code: int, reward: float, nu: float) -> ValueError:
        """The error for a stage that the kernel refused."""
        where = f"{type(self).__name__}.update"
        if code == BAD_REWARD:
            return ValueError(f"{where}: reward must be finite; got {reward!r}.")
        if code == BAD_SCALE:
            return ValueError(
                f"{where}: scale must lie between {LEAST:g} and {GREATEST:g}; got {nu!r}."
            )
        return ValueError(
            f"{where}: reward {reward!r} at scale {nu!r} would take the estimate out of the "
            "floating-point range. Nothing was learned; change the unit of the reward."
        )

    def fresh(self) -> Self:
        """An agent of the same arguments that has learned nothing; ``clone`` keeps all."""
        return type(self)(**self._arguments)

    def _start(
        self, features: ArrayLike, horizon: int, tail: MomentBound | None, bound: float
    ) -> None:
        """Check and keep what every agent knows of its environment."""
        check = Check(type(self))
        numbers = as_numbers(features, f"{check.owner}.features", "numbers of shape (S, A, d)")
        array = np.ascontiguousarray(numbers)
        if array.ndim != 3 or array.size == 0:
            raise ValueError(
                f"{check.owner}.features must have shape (S, A, d); got shape {array.shape}. "
                "Pass mdp.features."
            )
        lengths = np.linalg.norm(array, axis=2)
        bound = check.number("feature_bound", bound, above=0.0)
        if not np.isfinite(lengths).all() or lengths.max() > bound * (1.0 + NORM_SLACK):
            s, a = np.unravel_index(np.nan_to_num(lengths, nan=np.inf).argmax(), lengths.shape)
            raise ValueError(
                f"{check.owner}.features[{s}, {a}] has norm {lengths[s, a]:.6g}, above the bound "
                f"{bound:g}. Rescale the features, or raise feature_bound."
            )
        self.states, self.actions, self.dim = array.shape
        self._features = array.reshape(self.states * self.actions, self.dim)
        self.horizon = check.count("horizon", horizon)
        if tail is not None and not isinstance(tail, MomentBound):
            raise TypeError(
                f"{check.owner}.tail must be a MomentBound(order, scale); got {shown(tail)}."
            )
        self.tail = tail
        afford(check.owner, self.horizon * self.states, self._arguments)
        self._counts = np.zeros(len(COUNTS))
        self._table = np.zeros((self.horizon, self.states), dtype=np.int64)

    def _plan(self) -> None:
        if self._counts[PLANNED] == 0.0:
            self.plan_kernel(*self.packed)

    def _plan_arrays(self) -> list[Any]:
        """The remembered arrays that a plan writes."""
        return [self._counts, self._table]

    def _expect(self, where: str, stage: object) -> int:
        """``stage`` if it is the one that comes next, or refuse it."""
        number = check_count(f"{where}: stage", stage, least=0)
        if number != self._counts[STAGE]:
            raise ValueError(
                f"{where}: stage {int(self._counts[STAGE])} of {self.horizon} comes next; "
                f"got {shown(stage)}. Stages are counted from 0 and come in order."
            )
        return number


_PROBLEM = ("features", "horizon")


def all_within(places: FloatArray | IntArray, count: int) -> bool:
    """Tell whether all are places of an array of ``count``."""
    return bool(((places >= 0) & (places < count)).all())


def _within(name: str, value: object, count: int) -> int:
    number = check_count(name, value, least=0)
    if number >= count:
        raise ValueError(f"{name} must lie in 0..{count - 1}; got {shown(value)}.")
    return number
