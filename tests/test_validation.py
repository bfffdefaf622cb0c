"""The helpers for policies of one's own: with them a policy in plain Python passes the battery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks import POLICY_CHECKS, CheckFailed, check_policy
from heavytail.policies.core.info import Info
from heavytail.validation import Check, check_arms, check_observation, check_state


class Plain(ht.Policy):
    """Ridge regression and its best arm."""

    name = "Plain"
    info = Info(
        method="ridge", reference="-", regret="-", cost="O(1)", storage="O(1)", moment="none",
        sources="A test's.",
    )  # fmt: skip

    def __init__(self, dim: int, *, ridge: float = 1.0) -> None:
        check = Check("Plain")
        self.dim = check.count("dim", dim)
        self._V = check.number("ridge", ridge, above=0.0) * np.eye(self.dim)
        self._b, self._count = np.zeros(self.dim), np.zeros(1)

    def select(self, arms: Any) -> int:
        values = check_arms(self, arms, longest=1.0 + 1e-9) @ self.theta
        return int(np.argmax(values >= values.max() - 1e-10 * np.abs(values).max()))

    def update(self, x: Any, reward: float, *, scale: float | None = None) -> None:
        x, reward, scale = check_observation(self, x, reward, scale, longest=1.0 + 1e-9)
        if abs(reward) > 1e100:
            raise ValueError(f"Plain.update: reward {reward!r} is too large. Change the unit.")
        self._V, self._b = self._V + np.outer(x, x), self._b + reward * x
        self._count = self._count + 1.0

    @property
    def theta(self) -> Any:
        return np.linalg.solve(self._V, self._b)

    @property
    def radius(self) -> float:
        return 0.0

    @property
    def rounds(self) -> int:
        return int(self._count[0])

    def state_arrays(self) -> dict[str, Any]:
        return {"V": self._V.copy(), "b": self._b.copy(), "count": self._count.copy()}

    def restore(self, arrays: dict[str, Any]) -> None:
        check_state(self, arrays)
        self._V, self._b, self._count = (arrays[key].copy() for key in ("V", "b", "count"))


class Careless(Plain):
    """Checks nothing, and hands out what is its own."""

    def select(self, arms: Any) -> int:
        return int(np.argmax(np.asarray(arms) @ self.theta))

    def update(self, x: Any, reward: float, *, scale: float | None = None) -> None:
        self._b = self._b + reward * np.asarray(x)
        self._count = self._count + 1.0


def failures(policy):
    try:
        check_policy(policy)
    except CheckFailed as error:
        return dict(error.failures), str(error)
    return {}, ""


def test_a_policy_in_plain_python_passes_the_battery():
    check_policy(Plain(2))


def test_all_that_fails_is_named_at_once():
    found, words = failures(Careless(2))
    assert {"refuses_bad_arms", "refuses_bad_observations"} <= set(found) <= set(POLICY_CHECKS)
    assert words.startswith(f"{len(found)} checks failed.\n")
    for name, why in found.items():
        assert f"\n{name}: " in words
        assert why in words
    with pytest.raises(CheckFailed) as error:
        check_policy(Careless(2), skip=set(found) - {"refuses_bad_arms"})
    assert str(error.value).startswith("refuses_bad_arms: ")
    assert list(error.value.failures) == ["refuses_bad_arms"]


def test_arms_and_observations_are_refused_by_the_policys_name():
    policy = Plain(2)
    assert check_arms(policy, [[1, 0]]).dtype == np.float64
    x = np.array([0.5, 0.5])
    kept, reward, scale = check_observation(policy, x, 1, None)
    x[0] = 9.0
    assert (kept.tolist(), reward, scale) == ([0.5, 0.5], 1.0, None)
    with pytest.raises(ValueError, match=r"Plain.select: arms\[0\] has norm 5, above the bound 2"):
        check_arms(policy, [[3.0, 4.0]], longest=2.0)
    assert check_arms(policy, [[3.0, 4.0]], longest=5.0).tolist() == [[3.0, 4.0]]
    assert check_observation(policy, [3.0, 4.0], 1.0, longest=5.0)[0].tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match=r"Plain.select: arms\[0\] must be finite"):
        check_arms(policy, [[np.nan, 0.0]])
    with pytest.raises(ValueError, match=r"Plain.update: x has norm 5, above the bound 2"):
        check_observation(policy, [3.0, 4.0], 1.0, longest=2.0)
    with pytest.raises(ValueError, match=r"Plain.update: reward must be a number"):
        check_observation(policy, [0.0, 0.0], np.inf)
    with pytest.raises(ValueError, match=r"Plain.update: scale must be a number"):
        check_observation(policy, [0.0, 0.0], 1.0, 0.0)


def test_a_state_that_does_not_fit_is_refused():
    policy = Plain(2)
    good = policy.state_arrays()
    check_state(policy, good)
    for bad in ({}, {**good, "more": good["b"]}, {**good, "b": np.zeros(3)},
                {**good, "b": np.full(2, np.nan)}, {**good, "b": np.zeros(2, int)}):  # fmt: skip
        with pytest.raises(ValueError, match="Plain: the saved state"):
            check_state(policy, bad)
