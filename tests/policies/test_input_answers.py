"""What the kernels of every policy answer, by number: the engines read these and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_SCALE,
    BAD_X,
    NO_ARM,
    OK,
    OVERFLOW,
    ROUNDS,
    THETA,
    behind,
)
from heavytail.kernels.layout import rows as common_rows

TAIL = ht.MomentBound(order=2.0, scale=0.7)
ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.6, 0.0]])
MAKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "AdaOFUL": ("AdaOFUL", {}),
    "BMM": ("BMM", {"copies": 3}),
    "SupBMM": ("BMM", {"copies": 3, "sup": True}),
    "BTC": ("BTC", {}),
    "untruncated BTC": ("BTC", {"threshold_scale": math.inf}),
    "SupBTC": ("BTC", {"sup": True, "radius_scale": 1.0}),
    "untruncated SupBTC": ("BTC", {"sup": True, "threshold_scale": math.inf}),
    "CRMM": ("CRMM", {"repeats": 3}),
    "CRT": ("CRT", {}),
    "untruncated CRT": ("CRT", {"threshold_scale": math.inf}),
    "CRTM": ("CRTM", {}),
    "untruncated CRTM": ("CRTM", {"threshold_scale": math.inf}),
    "EpsilonGreedy": ("EpsilonGreedy", {}),
    "HeavyOFUL, lazy": ("HeavyOFUL", {}),
    "HeavyOFUL, newton": ("HeavyOFUL", {"solver": "newton"}),
    "HeavyOFUL, gd": ("HeavyOFUL", {"solver": "gd", "tolerance": 1e-3}),
    "HeavyOFUL, lbfgs": ("HeavyOFUL", {"solver": "lbfgs"}),
    "HuberBandit": ("HuberBandit", {}),
    "shared HuberBandit": ("HuberBandit", {"shared": True}),
    "least squares HuberBandit": ("HuberBandit", {"threshold_scale": math.inf}),
    "HvtUCB": ("HvtUCB", {}),
    "HvtUCB, theory": ("HvtUCB", {"radius": "theory"}),
    "HvtUCB, sharp": ("HvtUCB", {"radius": "sharp", "theta_bound": 1.0}),
    "HvtUCB, auto": ("HvtUCB", {"tail": "auto"}),
    "HvtUCB, unclipped": ("HvtUCB", {"clip": math.inf}),
    "HvtUCB, auto, unclipped": ("HvtUCB", {"tail": "auto", "clip": math.inf}),
    "LinTS": ("LinTS", {}),
    "MENU": ("MENU", {"copies": 3}),
    "MoM": ("MoM", {"groups": 3, "repeats": 6}),
    "OFUL": ("OFUL", {}),
    "RobustUCB, truncated": ("RobustUCB", {}),
    "RobustUCB, median of means": ("RobustUCB", {"estimator": "median of means"}),
    "RobustUCB, catoni": ("RobustUCB", {"estimator": "catoni"}),
    "TOFU": ("TOFU", {}),
    "untruncated TOFU": ("TOFU", {"threshold_scale": math.inf}),
    "TwinUCB": ("TwinUCB", {}),
    "TwinUCB, typical": ("TwinUCB", {"target": "typical"}),
    "Uniform": ("Uniform", {}),
}
# Rewards that these truncate, or take the median or nothing of, cannot leave the range.
TAKE_ANY = {
    "BTC",
    "CRT",
    "CRTM",
    "CRMM",
    "HuberBandit",
    "HvtUCB",
    "HvtUCB, auto",
    "HvtUCB, theory",
    "HvtUCB, sharp",
    "TwinUCB",
    "TwinUCB, typical",
    "AdaOFUL",
    "HeavyOFUL, lazy",
    "HeavyOFUL, newton",
    "HeavyOFUL, gd",
    "HeavyOFUL, lbfgs",
    "RobustUCB, truncated",
    "SupBTC",
    "TOFU",
    "Uniform",
    "shared HuberBandit",
}


@pytest.fixture(autouse=True)
def without_the_compiler_numpy_warns_where_a_kernel_overflows() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def build(name: str) -> Any:
    kind, options = MAKERS[name]
    problem = {"dim": 2, "horizon": 300, "tail": TAIL, "arms": 4}
    return ht.make_policy(kind, **{**problem, **options})


def test_every_answer_has_its_own_number() -> None:
    assert (OK, BAD_X, BAD_REWARD, BAD_SCALE, OVERFLOW, NO_ARM) == (0, -1, -2, -3, -4, -5)


@pytest.mark.parametrize("name", MAKERS)
def test_a_round_that_is_learned_is_answered_with_0(name: str) -> None:
    policy, rng = build(name), np.random.default_rng(3)
    for t in range(20):
        choice = policy.algorithm.select(*policy.packed, ARMS)
        assert 0 <= choice < 4
        x, reward = ARMS[choice if t % 2 else t % 4], float(rng.standard_t(2.0))
        assert policy.algorithm.update(*policy.packed, x, reward, 0.7) == OK
        policy._settle()
    assert policy.rounds == 20


@pytest.mark.parametrize("name", MAKERS)
def test_arms_that_cannot_be_chosen_from_are_answered_by_the_reason(name: str) -> None:
    policy = build(name)
    for _ in range(2):  # between epochs, and inside one
        for bad in (math.nan, math.inf, 1e200):
            arms = ARMS.copy()
            arms[2, 1] = bad
            assert policy.algorithm.select(*policy.packed, arms) == BAD_X
        assert policy.algorithm.select(*policy.packed, ARMS[:0]) == NO_ARM
        assert policy.algorithm.update(*policy.packed, ARMS[0], 0.3, 0.7) == OK
        policy._settle()


@pytest.mark.parametrize("name", MAKERS)
def test_a_reward_out_of_range_is_answered_and_changes_nothing(name: str) -> None:
    policy = build(name)
    for _ in range(5):  # which set the unit where none is stated
        policy.update(ARMS[0], 0.3)
    before = {key: array.copy() for key, array in policy.state_arrays().items()}
    code = policy.algorithm.update(*policy.packed, ARMS[0], 1.7e308, 0.7)
    assert code == (OK if name in TAKE_ANY else OVERFLOW)
    if code == OVERFLOW:
        for key, array in policy.state_arrays().items():
            np.testing.assert_array_equal(array, before[key])


def test_crmm_refuses_a_median_out_of_range_and_keeps_its_epoch() -> None:
    policy = build("CRMM")
    for reward, answer in ((0.3, OK), (1.7e308, OK), (1.7e308, OVERFLOW), (0.2, OK)):
        assert policy.algorithm.update(*policy.packed, ARMS[0], reward, 0.7) == answer
    assert policy.epochs == 1
    assert policy.theta[0] == pytest.approx(0.3 / 1.5)


@pytest.mark.parametrize("name", ["BMM", "BTC", "EpsilonGreedy", "LinTS", "RobustUCB", "SupBTC"])
def test_an_arm_is_refused_by_its_length_and_not_by_one_coordinate(name: str) -> None:
    kind = name.removeprefix("Sup")
    more = {"copies": 3} if kind == "BMM" else {}
    if kind != name:
        more = {"sup": True}
    policy = ht.make_policy(kind, dim=2, horizon=300, tail=TAIL, arms=4, arm_bound=1.0, **more)
    for arms, answer in (
        ([[0.6, 0.8], [0.8, 0.6]], None),
        ([[0.8, 0.8], [0.1, 0.1]], BAD_X),
        ([[0.1, 0.1], [0.8, -0.8]], BAD_X),
        ([[-0.9, 0.9], [0.1, 0.1]], BAD_X),
    ):
        code = policy.algorithm.select(*policy.packed, np.array(arms))
        assert code == answer if answer is not None else code >= 0


def test_an_arm_exactly_as_long_as_the_limit_is_taken() -> None:
    for name in ("EpsilonGreedy", "LinTS", "RobustUCB", "Uniform", "BMM", "OFUL"):
        more = {"copies": 3} if name == "BMM" else {}
        policy = ht.make_policy(name, dim=2, horizon=300, tail=TAIL, arms=4, **more)
        policy._s[ARM_LIMIT] = 0.25
        assert policy.algorithm.select(*policy.packed, np.array([[0.5, 0.0]])) == 0
        assert policy.algorithm.select(*policy.packed, np.array([[0.5, 1e-6]])) == BAD_X


def test_rounds_are_counted_and_theta_is_the_first_row() -> None:
    policy = build("OFUL")
    policy.update(ARMS[0], 2.0)
    assert policy._s[ROUNDS] == 1.0
    np.testing.assert_array_equal(policy._M[THETA], policy.theta)


# In two dimensions: numbers of s behind the named slots, rows of M behind the common ones, columns
# of H behind the features. r = 3 copies, 5 stages, 4 arms, 92 groups.
NEEDS: dict[str, tuple[int, int, int | None]] = {
    "AdaOFUL": (0, 5, 2),
    "BMM": (1 + 1 + 3, 1 + 3, None),
    "SupBMM": (5 + 5 + 3, 1 + 5 * 3 + 4 * 2, None),
    "BTC": (1, 0, 6),
    "SupBTC": (5, 4 * 2, 6),
    "CRMM": (3 + 3, 1, None),
    "CRT": (0, 0, None),
    "CRTM": (0, 0, None),
    "EpsilonGreedy": (0, 0, None),
    "HeavyOFUL, lazy": (0, 5, 5),
    "HeavyOFUL, newton": (0, 5, 2),
    "HeavyOFUL, gd": (0, 5, 2),
    "HeavyOFUL, lbfgs": (0, 5, 2),
    "HuberBandit": (4 + 4, 5 + 3 * 4, 3),
    "shared HuberBandit": (1 + 1, 5 + 3 * 1, 3),
    "HvtUCB": (128, 0, None),
    "HvtUCB, theory": (0, 0, None),
    "TwinUCB": (128, 7 + 2 * 3, None),
    "LinTS": (0, 0, None),
    "MENU": (3, 1 + 3 + 3, None),
    "MoM": (3 + 3, 1, None),
    "OFUL": (0, 0, None),
    "RobustUCB, truncated": (3 * 4 + 92, 4, None),
    "RobustUCB, median of means": (2 * 4 + 4 * 92 + 92, 4, None),
    "RobustUCB, catoni": (3 * 4 + 2 * 300 + 92, 4, None),
    "TOFU": (0, 2 * 2, 1),
    "Uniform": (0, 0, None),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_policy_holds_what_it_needs_and_no_more(name: str) -> None:
    policy = build(name)
    numbers, rows, columns = NEEDS[name]
    s, M = policy.packed[:2]
    assert s.shape[0] == behind(policy.algorithm.slots[-1]) + numbers
    assert M.shape[0] == common_rows(M.shape[1]) + rows
    if columns is None:
        assert len(policy.packed) == 2
    else:
        assert policy.packed[2].shape[1] == 2 + columns
