"""Least-squares value iteration: what its agents share, whatever estimates the rewards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heavytail._invariants import check_size, damaged
from heavytail._memory import grown
from heavytail._storage import afford, check_fit, of_length
from heavytail._typing import FloatArray
from heavytail._validate import Check
from heavytail.kernels.index import SCORES
from heavytail.kernels.layout import THETA
from heavytail.mdp.agent import Agent, all_within
from heavytail.mdp.planning import CAP, EPISODES, STAGE, TARGETS, Plan, learner, planner
from heavytail.policies import OFUL, HvtUCB, PackedPolicy

__all__ = ["LSVIAgent"]

FIRST_EPISODES = 64  # room to begin with
_GROWING = ("reward_history", "value_past", "value_weights")  # a row per episode


class LSVIAgent(Agent):
    """Least-squares value iteration with one bandit policy per stage for the rewards.

    A subclass calls ``_start`` and ``_allocate``.
    """

    _reward: PackedPolicy
    _value: PackedPolicy
    _arrays: Plan

    def _allocate(
        self,
        reward: PackedPolicy,
        *,
        value_bonus: float,
        delta: float,
        weighting: str = "none",
        switching: str = "every",
        monotone: bool = False,
    ) -> None:
        """Fresh state: a copy of ``reward``'s for every stage, and room for what values need."""
        check = Check(type(self))
        weighted = check.choice("weighting", weighting, ("variance", "none")) == "variance"
        rare = check.choice("switching", switching, ("doubling", "every")) == "doubling"
        bonus = check.number("value_bonus", value_bonus, least=0.0)
        full_batch = reward.algorithm.history is not None
        owner = type(reward).__name__
        self.plan_kernel = planner(weighted, rare, check.flag("monotone", monotone))
        self.learn_kernel = learner(reward.algorithm.update, owner, full_batch, weighted)
        H, S, A, d = self.horizon, self.states, self.actions, self.dim
        each = sum(part.size for part in reward.packed) + FIRST_EPISODES * 3 + S * A
        afford(check.owner, H * each, {"horizon": H, "states": S, "actions": A, "dim": d})
        values = [self._value_regression(h, weighted, bonus, delta) for h in range(H)]
        self._reward, self._value = reward, values[0]
        parts = [np.stack([part] * H) for part in reward.packed]
        value_s, value_M = (
            np.stack(each) for each in zip(*(value.packed for value in values), strict=True)
        )
        remaining = CAP * np.arange(H, 0, -1.0)[:, None, None]
        self._arrays = Plan(
            counts=self._counts,
            table=self._table,
            reward_s=parts[0],
            reward_M=parts[1],
            reward_H=parts[2] if full_batch else np.zeros((H, 0, 0)),
            value_s=value_s,
            value_M=value_M,
            targets=np.zeros((H, len(TARGETS), d)),
            past=np.zeros((H, FIRST_EPISODES, 2), dtype=np.int64),
            weight=np.zeros((H, FIRST_EPISODES)),
            Q=remaining * np.ones((H, S, A)),
            Q_low=np.zeros((H, S, A)),
            V=np.zeros((H + 1, S)),
            V_low=np.zeros((H + 1, S)),
            marks=np.zeros((H, 2)),
            level=np.zeros(H + 1),
            features=self._features,
            pool=np.ascontiguousarray(self._features.T),
            reward_scores=np.zeros((SCORES, S * A)),
            value_scores=np.zeros((SCORES, S * A)),
        )

    def _value_regression(self, h: int, weighted: bool, bonus: float, delta: float) -> OFUL:
        """OFUL for V_{h+1}, which lies in [0, R], R the stages left; ‖w_h‖ <= R sqrt(d).

        Unweighted, the noise of V is (R/2)-sub-Gaussian and lambda = 1. Weighted, it is measured in
        its own standard deviation, and lambda = 1/R² makes the prior's share sqrt(d).
        """
        most = CAP * max(self.horizon - 1 - h, 1)
        return OFUL(
            self.dim,
            noise_scale=1.0 if weighted else most / 2.0,
            ridge=1.0 / most**2 if weighted else 1.0,
            theta_bound=most * math.sqrt(self.dim),
            delta=delta,
            radius_scale=bonus,
        )

    @property
    def packed(self) -> tuple[Plan]:
        return (self._arrays,)

    def reserve(self, episodes: int) -> None:
        needed = self.episodes + episodes
        growing = ["past", "weight"]
        if self._reward.algorithm.history is not None:
            growing.append("reward_H")
        where, arrays = type(self).__name__, self._arrays
        larger = {name: grown(where, getattr(arrays, name), needed, axis=1) for name in growing}
        self._arrays = arrays._replace(**larger)

    def _views(self) -> dict[str, Any]:
        p = self._arrays
        k = self.episodes + (self._counts[STAGE] > 0)
        return {
            **super()._views(),
            **{f"reward_{key}": part for key, part in _slots(p.reward_s, self._reward).items()},
            **{f"reward_{key}": part for key, part in _rows(p.reward_M, self._reward).items()},
            **({"reward_history": p.reward_H[:, :k]} if p.reward_H.size else {}),
            **{f"value_{key}": part for key, part in _slots(p.value_s, self._value).items()},
            **{f"value_{key}": part for key, part in _rows(p.value_M, self._value).items()},
            "value_targets": p.targets,
            "value_Q": p.Q,
            "value_V": p.V,
            "value_Q_low": p.Q_low,
            "value_V_low": p.V_low,
            "value_marks": p.marks,
            "value_level": p.level,
            "value_past": p.past[:, :k],
            "value_weights": p.weight[:, :k],
        }

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        names = super().slot_names()
        for key, policy in (("reward_scalars", self._reward), ("value_scalars", self._value)):
            names[key] = policy.slot_names()["scalars"]
        return names

    @classmethod
    def later_slots(cls) -> tuple[str, ...]:
        return HvtUCB.later_slots()  # no other policy here has slots that came later

    def _check_saved(self, arrays: dict[str, Any]) -> None:
        super()._check_saved(arrays)
        where, c = type(self).__name__, arrays["scalars"]
        k = int(c[EPISODES]) + int(c[STAGE] > 0)
        wanted = {
            key: of_length(array, k, 1) if key in _GROWING else array
            for key, array in self._views().items()
        }
        check_fit(where, arrays, wanted)
        past = arrays["value_past"]
        sound = all_within(past[..., 0], self.states * self.actions)
        if not sound or not all_within(past[..., 1], self.states):
            raise damaged(where, "value_past", "it names states or actions that are not there")
        checked = {*self.slot_names(), "reward_history"}  # by kind, and stage by stage below
        for key, array in arrays.items():
            if key in wanted and key not in checked and not np.isfinite(array).all():
                raise damaged(where, key, "it is not finite")
            if key in wanted and key not in checked and not key.endswith("inverse"):
                check_size(where, key, array)
        for h in range(self.horizon):
            learned = int(c[EPISODES]) + int(h < c[STAGE])
            for part, policy in (("reward", self._reward), ("value", self._value)):
                mine = _of_stage(wanted, part, policy, h, 0)
                policy._check_saved(_of_stage(arrays, part, policy, h, learned), mine)

    def _plan_arrays(self) -> list[Any]:
        p = self._arrays
        plan = [p.value_M[:, THETA], p.targets, p.Q, p.Q_low, p.V, p.V_low, p.marks, p.level]
        return [*super()._plan_arrays(), *plan]

    @property
    def upper(self) -> FloatArray:
        """Q of the last plan, optimistic, shape (H, S, A); what the stages left can pay before."""
        return self._arrays.Q.copy()

    @property
    def lower(self) -> FloatArray:
        """The lower bound on Q of the last plan, shape (H, S, A); never above ``upper``.

        Where the pessimistic estimate lies above the optimistic one, as radii too small to be
        bounds allow, it is ``upper``.
        """
        return np.minimum(self._arrays.Q_low, self._arrays.Q)


def _of_stage(
    arrays: dict[str, Any], part: str, policy: PackedPolicy, h: int, learned: int
) -> dict[str, Any]:
    """The arrays of a policy at one stage, taken from ``arrays``, by the policy's own names."""
    own = {key: arrays[f"{part}_{key}"][h] for key in policy._state.views() if key != "history"}
    if policy.algorithm.history is not None:
        own["history"] = arrays["reward_history"][h, :learned]
    return own


def _slots(vectors: FloatArray, policy: PackedPolicy) -> dict[str, FloatArray]:
    """The remembered parts of a policy's vectors (H, slots), by name; the rest is room."""
    named = {"scalars": vectors[:, : len(policy.slot_names()["scalars"])]}
    return named | {name: vectors[:, run] for name, run in policy._runs.items()}


def _rows(matrices: FloatArray, policy: PackedPolicy) -> dict[str, FloatArray]:
    """The remembered parts of a policy's matrices (H, rows, D), by name; the rest is room."""
    return {name: matrices[:, rows] for name, rows in policy._rows.items()}
