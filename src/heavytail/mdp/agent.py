"""What every agent is: before an episode it plans, in it it acts, after each stage it learns.

An agent is final: none inherits from another. ``Agent`` holds what is common to all, ``LSVIAgent``
what is common to least-squares value iteration, whatever estimates the rewards.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from heavytail._storage import Stored, check_fit, of_length
from heavytail._typing import FloatArray, IntArray, State
from heavytail._validate import NORM_SLACK, check_choice, check_count, check_number
from heavytail.kernels.index import SCORES
from heavytail.kernels.layout import BAD_REWARD, BAD_SCALE, INVERSE, OK, THETA
from heavytail.mdp import planning
from heavytail.mdp.planning import CAP, EPISODES, MONOTONE, PLANNED, RARE, STAGE, SWITCHES, WEIGHTED
from heavytail.policies import OFUL, PackedPolicy
from heavytail.policies.core.history import HistoryPolicy
from heavytail.policies.core.loops import around
from heavytail.tails import MomentBound

__all__ = ["Agent", "LSVIAgent"]

FIRST_EPISODES = 64  # room to begin with


class Agent(Stored, ABC):
    """A learner in episodes of H stages over finitely many states with known features.

    ``act(stage, state)`` gives the action, ``update`` tells what came of it; stages come in order,
    and after the last one the episode is over. The constructor's arguments are remembered as given,
    so ``repr``, ``clone`` and ``save`` need no help.
    """

    noun = "agent"
    name: ClassVar[str]
    plan_kernel: ClassVar[Callable[..., bool]]

    dim: int
    states: int
    actions: int
    horizon: int
    tail: MomentBound | None = None
    _c: FloatArray
    _table: IntArray
    _features: FloatArray

    def __repr__(self) -> str:
        sizes = f"d={self.dim}, S={self.states}, A={self.actions}, H={self.horizon}"
        given = [f"{k}={v!r}" for k, v in self._arguments.items() if k not in _WORLD]
        return f"{type(self).__name__}({', '.join([sizes, *given])})"

    @property
    def packed(self) -> State:
        """The arrays the kernels work on, in the order they take them."""
        raise NotImplementedError

    @classmethod
    def learn_kernel(cls) -> Callable[..., int]:
        """The compiled learning of one stage."""
        raise NotImplementedError

    def reserve(self, episodes: int) -> None:
        """Make room for ``episodes`` more episodes."""

    def reseed(self, seed: int) -> None:
        """Start the agent's own randomness anew. Agents without any ignore it."""

    def state_arrays(self) -> dict[str, Any]:
        """What the agent remembers, by name: enough to resume to the bit."""
        return {"scalars": self._c, "table": self._table}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over what ``state_arrays`` gave; refuse what does not fit, unchanged."""
        self._check_saved(arrays)
        self.reserve(int(arrays["scalars"][EPISODES]) + 1 - self.episodes)
        self._c[...] = arrays["scalars"]  # first: they say how much of the rest is in use
        for key, array in self.state_arrays().items():
            array[...] = arrays[key]

    def _check_saved(self, arrays: dict[str, Any]) -> None:
        where = type(self).__name__
        check_fit(where, arrays, {"scalars": self._c, "table": self._table})
        c, table = arrays["scalars"], arrays["table"]
        whole = all(0 <= c[slot] == np.floor(c[slot]) < np.inf for slot in (EPISODES, STAGE))
        if not whole or c[STAGE] >= self.horizon or not _all_within(table, self.actions):
            raise ValueError(f"{where}: the saved state is damaged.")

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
        return int(self._c[EPISODES])

    @property
    def switches(self) -> int:
        """How often the policy was computed anew."""
        return int(self._c[SWITCHES])

    @property
    def policy(self) -> IntArray:
        """The actions of the coming (or current) episode, shape (H, S): planned if not yet so."""
        self._plan()
        return self._table.copy()

    def act(self, stage: int, state: int) -> int:
        """The action in ``state`` at ``stage``, both counted from 0. Ties go to the first."""
        where = f"{type(self).__name__}.act"
        self._expect(where, stage)
        state = _within(f"{where}: state", state, self.states)
        self._plan()
        return int(self._table[stage, state])

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
        self._expect(where, stage)
        state = _within(f"{where}: state", state, self.states)
        action = _within(f"{where}: action", action, self.actions)
        next_state = _within(f"{where}: next_state", next_state, self.states)
        nu = self.nu if scale is None else check_number(f"{where}: scale", scale, above=0.0)
        reward = check_number(f"{where}: reward", reward)
        self._plan()
        self.reserve(1)
        row = state * self.actions + action
        code = type(self).learn_kernel()(stage, row, reward, next_state, nu, *self.packed)
        if code != OK:
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
            return ValueError(f"{where}: scale must be a number in (0, inf); got {nu!r}.")
        return ValueError(
            f"{where}: reward {reward!r} at scale {nu!r} would take the estimate out of the "
            "floating-point range. Nothing was learned; change the unit of the reward."
        )

    def clone(self) -> Self:
        """A fresh agent, built from the same arguments; it has learned nothing."""
        return type(self)(**self._arguments)

    def _start(
        self, features: ArrayLike, horizon: int, tail: MomentBound | None, bound: float
    ) -> None:
        """Check and keep what every agent is told of its world."""
        where = type(self).__name__
        array = np.ascontiguousarray(features, dtype=np.float64)
        if array.ndim != 3 or array.size == 0:
            raise ValueError(
                f"{where}.features must have shape (S, A, d); got shape {array.shape}. "
                "Pass mdp.features."
            )
        lengths = np.linalg.norm(array, axis=2)
        bound = check_number(f"{where}.feature_bound", bound, above=0.0)
        if not np.isfinite(lengths).all() or lengths.max() > bound * (1.0 + NORM_SLACK):
            s, a = np.unravel_index(np.nan_to_num(lengths, nan=np.inf).argmax(), lengths.shape)
            raise ValueError(
                f"{where}.features[{s}, {a}] has norm {lengths[s, a]:.6g}, above the bound "
                f"{bound:g}. Rescale the features, or raise feature_bound."
            )
        self.states, self.actions, self.dim = array.shape
        self._features = array.reshape(self.states * self.actions, self.dim)
        self.horizon = check_count(f"{where}.horizon", horizon)
        if tail is not None and not isinstance(tail, MomentBound):
            raise TypeError(f"{where}.tail must be a MomentBound(order, scale); got {tail!r}.")
        self.tail = tail
        self._c = np.zeros(planning.SLOTS)
        self._table = np.zeros((self.horizon, self.states), dtype=np.int64)

    def _plan(self) -> None:
        if self._c[PLANNED] == 0.0:
            type(self).plan_kernel(*self.packed)

    def _expect(self, where: str, stage: int) -> None:
        if stage != self._c[STAGE]:
            raise ValueError(
                f"{where}: stage {int(self._c[STAGE])} of {self.horizon} comes next; got {stage}. "
                "Stages are counted from 0 and come in order."
            )


class LSVIAgent(Agent):
    """Least-squares value iteration with one bandit policy a stage for the rewards.

    A subclass sets ``reward_kind``, the policy class whose kernel learns the rewards, and calls
    ``_start`` and ``_allocate``.
    """

    reward_kind: ClassVar[type[PackedPolicy]]
    plan_kernel = staticmethod(planning.plan)

    _R: list[FloatArray]

    def _allocate(
        self,
        reward: PackedPolicy,
        *,
        value_bonus: float,
        delta: float,
        weighting: str,
        switching: str,
        monotone: bool,
    ) -> None:
        """Fresh state: a copy of ``reward``'s for every stage, and room for what values need."""
        where = type(self).__name__
        c = self._c
        c[CAP] = 1.0
        weighted = check_choice(f"{where}.weighting", weighting, WEIGHTINGS) == "variance"
        value_bonus = check_number(f"{where}.value_bonus", value_bonus, least=0.0)
        c[WEIGHTED] = weighted
        c[RARE] = check_choice(f"{where}.switching", switching, SWITCHINGS) == "doubling"
        c[MONOTONE] = bool(monotone)
        H, S, A, d = self.horizon, self.states, self.actions, self.dim
        self._reward = reward
        self._R = [np.stack([part] * H) for part in reward.packed]
        if not isinstance(reward, HistoryPolicy):
            self._R.append(np.zeros((H, 0, 0)))
        values = [self._value_regression(h, weighted, value_bonus, delta) for h in range(H)]
        self._VS, self._VM = (np.stack(parts) for parts in zip(*values, strict=True))
        self._targets = np.zeros((H, 2, d))
        self._past = np.zeros((H, FIRST_EPISODES, 2), dtype=np.int64)
        self._weight = np.zeros((H, FIRST_EPISODES))
        remaining = np.arange(H, -1, -1.0)[:, None]
        self._Q = c[CAP] * np.broadcast_to(remaining[:H, :, None], (H, S, A))
        self._Q_low = np.zeros((H, S, A))
        self._V = np.zeros((H + 1, S))
        self._V_low = np.zeros((H + 1, S))
        self._marks = np.zeros((H, 2))
        self._pool = np.ascontiguousarray(self._features.T)
        self._scores = [np.zeros((SCORES, S * A)) for _ in range(2)]  # room for a plan

    def _value_regression(self, h: int, weighted: bool, bonus: float, delta: float) -> State:
        """OFUL's state for V_{h+1}, which lies in [0, R], R the stages left; ‖w_h‖ <= R sqrt(d).

        Unweighted, the noise of V is (R/2)-sub-Gaussian and lambda = 1. Weighted, it is measured in
        its own standard deviation, and lambda = 1/R² makes the prior's share sqrt(d).
        """
        most = max(self._c[CAP] * (self.horizon - 1 - h), self._c[CAP])
        return OFUL(
            self.dim,
            noise_scale=1.0 if weighted else most / 2.0,
            ridge=1.0 / most**2 if weighted else 1.0,
            theta_bound=most * math.sqrt(self.dim),
            delta=delta,
            radius_scale=bonus,
        ).packed

    @property
    def packed(self) -> State:
        return (
            self._c, self._table, *self._R, self._VS, self._VM, self._targets, self._past,
            self._weight, self._Q, self._Q_low, self._V, self._V_low, self._marks, self._features,
            self._pool, *self._scores,
        )  # fmt: skip

    @classmethod
    def learn_kernel(cls) -> Callable[..., int]:
        return _learner(cls.reward_kind)

    def reserve(self, episodes: int) -> None:
        needed = self.episodes + episodes
        self._past = _grown(self._past, needed)
        self._weight = _grown(self._weight, needed)
        if isinstance(self._reward, HistoryPolicy):
            self._R[2] = _grown(self._R[2], needed)

    def state_arrays(self) -> dict[str, Any]:
        k = self.episodes + (self._c[STAGE] > 0)
        arrays = super().state_arrays()
        arrays |= {"reward_scalars": self._R[0], "reward_matrices": self._R[1]}
        if isinstance(self._reward, HistoryPolicy):
            arrays["reward_history"] = self._R[2][:, :k]
        return arrays | {
            "value_scalars": self._VS,
            "value_matrices": self._VM,
            "value_targets": self._targets,
            "value_Q": self._Q,
            "value_V": self._V,
            "value_Q_low": self._Q_low,
            "value_V_low": self._V_low,
            "value_marks": self._marks,
            "value_past": self._past[:, :k],
            "value_weights": self._weight[:, :k],
        }

    def _check_saved(self, arrays: dict[str, Any]) -> None:
        super()._check_saved(arrays)
        where, c = type(self).__name__, arrays["scalars"]
        k = int(c[EPISODES]) + int(c[STAGE] > 0)
        wanted = {
            key: of_length(array, k, 1) if key in _GROWING else array
            for key, array in self.state_arrays().items()
        }
        check_fit(where, arrays, wanted, rough=_MATRICES)
        known = [THETA, *range(INVERSE, INVERSE + self.dim)]
        past = arrays["value_past"]
        sound = not any(np.isnan(arrays[key][:, known]).any() for key in _MATRICES)
        sound = sound and _all_within(past[..., 0], self.states * self.actions)
        if not sound or not _all_within(past[..., 1], self.states):
            raise ValueError(f"{where}: the saved state is damaged.")
        if isinstance(self._reward, HistoryPolicy):
            for h, scalars in enumerate(arrays["reward_scalars"]):
                learned = int(c[EPISODES]) + int(h < c[STAGE])
                self._reward._check_history(arrays["reward_history"][h, :learned], scalars)

    @property
    def upper(self) -> FloatArray:
        """Q of the last plan, optimistic, shape (H, S, A)."""
        return self._Q.copy()

    @property
    def lower(self) -> FloatArray:
        """The lower bound on Q of the last plan, shape (H, S, A)."""
        return self._Q_low.copy()


WEIGHTINGS = ("variance", "none")
SWITCHINGS = ("doubling", "every")
_WORLD = ("features", "horizon")
_GROWING = ("reward_history", "value_past", "value_weights")  # a row an episode
_MATRICES = ("reward_matrices", "value_matrices")  # estimates, and room to work in


def _learner(policy: PackedPolicy) -> Callable[..., int]:
    """The learning of one stage, compiled around one bandit policy's own kernel."""
    full = isinstance(policy, HistoryPolicy)
    template = planning.full_batch_reward if full else planning.one_pass_reward
    return around(planning.learn_stage, learn_reward=around(template, update=policy.update_kernel))


def _grown(array: Any, needed: int) -> Any:
    """``array`` with room for ``needed`` along axis 1; itself where it has that."""
    capacity = array.shape[1]
    if needed <= capacity:
        return array
    grown = np.zeros((array.shape[0], max(needed, 2 * capacity), *array.shape[2:]), array.dtype)
    grown[:, :capacity] = array
    return grown


def _all_within(places: Any, count: int) -> bool:
    """Whether all are places of an array of ``count``."""
    return bool(((places >= 0) & (places < count)).all())


def _within(name: str, value: object, count: int) -> int:
    number = check_count(name, value, least=0)
    if number >= count:
        raise ValueError(f"{name} must lie in 0..{count - 1}; got {value!r}.")
    return number
