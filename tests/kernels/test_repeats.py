"""Epochs of one arm and stages of estimates, kernel by kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels import repeats, stages
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    FEATURE,
    GAIN,
    INVERSE,
    LOG_DET,
    NO_ARM,
    OK,
    OVERFLOW,
    ROUNDS,
    SCRATCH,
)
from heavytail.kernels.repeats import EPOCH

X = np.array([0.6, 0.3])


def state() -> Any:
    tail = ht.MomentBound(order=2.0, scale=1.0)
    policy = ht.MENU(2, horizon=100, tail=tail, copies=3, ridge=2.0)
    return policy.packed


def test_an_arm_absorbed_leaves_what_the_layout_says() -> None:
    s, M = state()
    V = 2.0 * np.eye(2)
    for k in range(3):
        x = X + 0.1 * k
        squared = repeats.measure_meant(s, M, x)
        assert squared == pytest.approx(float(x @ np.linalg.solve(V, x)))
        repeats.absorb(s, M, squared)
        V += np.outer(x, x)
        np.testing.assert_allclose(M[INVERSE : INVERSE + 2], np.linalg.inv(V))
        assert s[GAIN] == pytest.approx(1.0 / (1.0 + squared))
        assert s[LOG_DET] == pytest.approx(np.linalg.slogdet(V)[1] - math.log(4.0))


def test_the_first_pull_of_an_epoch_lays_the_arm_meant() -> None:
    s, M = state()
    row = repeats.meant_row(M)
    assert row == 9
    repeats.lay_meant(s, M, X)
    repeats.lay_meant(s, M, -X)
    np.testing.assert_array_equal(M[row], X)
    assert (s[EPOCH.PULLS], s[ROUNDS], s[EPOCH.EPOCHS]) == (2.0, 2.0, 0.0)
    repeats.measure_meant(s, M, -X)
    np.testing.assert_array_equal(M[FEATURE], X)
    repeats.end_epoch(s)
    assert (s[EPOCH.PULLS], s[ROUNDS], s[EPOCH.EPOCHS]) == (0.0, 2.0, 1.0)
    repeats.measure_meant(s, M, -X)
    np.testing.assert_array_equal(M[FEATURE], -X)


def test_a_reward_is_credited_to_the_arm_meant_within_the_range() -> None:
    s, M = state()
    assert repeats.credit(s, M, X, 10, 2.0) == OK
    np.testing.assert_allclose(M[10], 2.0 * X)
    repeats.lay_meant(s, M, X)
    assert repeats.credit(s, M, -X, 10, 3.0) == OK
    np.testing.assert_allclose(M[10], 5.0 * X)
    one = np.array([1.0, 0.0])
    for sign in (1.0, -1.0):
        s, M = state()
        assert repeats.credit(s, M, one, 10, sign * 1.01e140) == OVERFLOW
        np.testing.assert_array_equal(M[10], [0.0, 0.0])
        assert repeats.credit(s, M, one, 10, sign * 1e140) == OK
        assert repeats.credit(s, M, one, 10, sign * 1e139) == OVERFLOW
        assert repeats.credit(s, M, one, 10, -sign * 1e139) == OK


def test_inside_an_epoch_the_first_nearest_arm_is_chosen() -> None:
    s, M = state()
    repeats.lay_meant(s, M, X)
    arms = np.array([[0.6, 0.5], [0.6, 0.1], [0.6, 0.31], [0.6, 0.29], [0.0, 0.0]])
    assert repeats.select(s, M, arms) == 2
    assert repeats.select(s, M, arms[::-1].copy()) in (1, 2)
    assert repeats.select(s, M, np.array([[-0.6, -0.3], [0.0, 0.0]])) == 1
    assert repeats.select(s, M, np.array([[0.9, 0.3], [0.3, 0.3], X, X])) == 2
    assert repeats.select(s, M, arms[:0]) == NO_ARM
    assert repeats.select(s, M, np.array([X, [0.8, -0.8]])) == BAD_X
    s[ARM_LIMIT] = 0.25
    assert repeats.nearest(s, M, np.array([[0.5, 0.0]])) == 0


# --- Stages: the width of stage g is coordinate 2 g of an arm, its estimate coordinate 2 g + 1.


@jit
def plain_width(s: Any, M: Any, stage: int) -> float:
    return float(M[FEATURE, 2 * stage])


@jit
def plain_mean(s: Any, M: Any, R: Any, stage: int) -> float:
    return float(M[FEATURE, 2 * stage + 1])


largest, staged = stages.choosers("plain", plain_width, plain_mean)
learning = stages.learning_stage("plain", plain_width)


def choose(arms: Any, finest: float = 0.125, count: int = 2) -> int:
    s, M = np.zeros(4), np.zeros((5, 4))
    return int(staged(s, M, M, np.array(arms, dtype=float).reshape(-1, 4), count, finest, 1))


def test_without_stages_the_largest_estimate_plus_width_is_chosen() -> None:
    s, M = np.zeros(4), np.zeros((5, 4))
    arms = np.array([[0.1, 0.2, 9, 9], [0.3, 0.1, 0, 0], [0.2, 0.2, 0, 0], [0.0, 0.3, 0, 0]])
    assert largest(s, M, M, arms) == 1
    assert largest(s, M, M, -arms) == 0 or largest(s, M, M, -arms) == 3
    assert largest(s, M, M, arms[:0]) == NO_ARM


def test_a_stage_explores_its_widest_arm_past_its_level() -> None:
    assert choose([[0.6, 0, 0, 0], [0.7, 0, 0, 0], [0.1, 9, 0, 0]]) == 1
    assert choose([[0.5, 0, 0.1, 0.2], [0.5, 0, 0.1, 0.3]]) == 1  # 1/2 is not past 1/2
    assert choose([[0.5, 0, 0.3, 0], [0.5, 0, 0.2, 9]]) == 0  # stage 2 explores past 1/4
    assert choose([[0.5, 0, 0.25, 0], [0.5, 0, 0.2, 9]]) == 1  # and exploits at it


def test_a_stage_exploits_where_no_width_is_past_the_finest() -> None:
    exploited = [[0.125, 0, 0, 9], [0.1, 1, 0, 0]]
    assert choose(exploited) == 1
    assert choose([[0.126, 0.9, 0, 9], [0.1, 1, 0, 0]]) == 0  # stage 2 decides
    assert choose([[0.6, 0, 0, 0], [0.1, 1, 0, 0]], finest=0.6) == 1
    assert choose(np.zeros((0, 4))) == NO_ARM


def test_an_arm_survives_within_2_to_the_1_minus_g_of_the_best() -> None:
    for behind, chosen in ((1.0, 1), (1.01, 0)):
        arms = [[0.3, 2.0, 0.2, 0.0], [0.3, 2.0 - behind, 0.2, 5.0]]
        assert choose(arms) == chosen
    for behind, chosen in ((0.5, 1), (0.51, 0)):
        s, M = np.zeros(5), np.zeros((5, 6))
        arms = np.array([[0.3, 2, 0.2, 1, 0.1, 0], [0.3, 2, 0.2, 1 - behind, 0.1, 5]])
        assert staged(s, M, M, arms, 3, 0.01, 1) == chosen


def test_the_first_stage_that_a_width_is_past_the_level_of_learns() -> None:
    s, M = np.zeros(4), np.zeros((5, 4))
    for first, second, stage in (
        (0.6, 0.0, 0),
        (0.5, 0.26, 1),
        (0.5, 0.25, -1),
        (0.1, 0.9, 1),
        (0.0, 0.0, -1),
    ):
        M[FEATURE] = [first, 0.0, second, 0.0]
        assert learning(s, M, 2, 0.125) == stage
    M[FEATURE] = [0.6, 0.0, 0.6, 0.0]
    assert learning(s, M, 2, 0.6) == -1


def test_a_stage_absorbs_an_arm_and_returns_the_growth_of_its_determinant() -> None:
    M = np.zeros((9, 2))
    M[6:8] = np.eye(2) / 3.0
    M[FEATURE] = X
    assert stages.squared_width(M, 6) == pytest.approx(float(X @ X) / 3.0)
    np.testing.assert_allclose(M[SCRATCH], X / 3.0)
    A = 3.0 * np.eye(2) + np.outer(X, X)
    assert stages.absorb(M, 6) == pytest.approx(np.linalg.det(A) / 9.0)
    np.testing.assert_allclose(M[6:8], np.linalg.inv(A))
