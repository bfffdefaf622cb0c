"""One step of identification, part by part."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.control.tools import T21, drive

from heavytail import control
from heavytail.control import estimate
from heavytail.control.estimate import FIELDS, PER_ROW, ROW, S
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_X,
    CLIPPED,
    DIRECTION,
    FEATURE,
    GAIN,
    LOG_DET,
    OK,
    OVERFLOW,
    ROUNDS,
    SCRATCH,
)
from heavytail.kernels.one_pass import LARGEST

X, U, Y = np.array([1.0, -2.0]), np.array([0.5]), np.array([0.3, -0.1])


def taught(kind=control.SystemIdentifier, steps=6, **options):
    identifier = kind(2, 1, **options)
    for step in drive(control.double_integrator(T21), steps):
        identifier.update(*step)
    return identifier


def test_the_feature_is_the_state_and_the_input():
    _, M, _ = taught().packed
    assert estimate.lay_feature(M, X, U) == 1.0 + 4.0 + 0.25
    np.testing.assert_array_equal(M[FEATURE, :3], [1.0, -2.0, 0.5])
    wide = np.zeros((FEATURE + 1, 5))
    assert estimate.lay_feature(wide, X, np.array([3.0, 4.0, 5.0])) == 5.0 + 50.0
    np.testing.assert_array_equal(wide[FEATURE], [1.0, -2.0, 3.0, 4.0, 5.0])


def test_a_step_is_its_formula():
    identifier = taught(scale=2.0, clip=0.5)
    s, M, H = identifier.packed
    s[S.SEEN], s[S.INSIDE] = 8.0, 6.0
    before, theta, P = s.copy(), identifier.theta, identifier.inverse_gram
    spreads = identifier.spread
    z = np.concatenate([X, U])
    squared = z @ P @ z
    growth = 1.0 + 0.75 * squared
    residual = Y - theta.T @ z
    tau = 0.5 * spreads * math.sqrt(growth)
    y = theta.T @ z + np.array([1.0, -3.0]) * tau  # at the threshold, and beyond it
    y[0] -= 1e-12
    residual = y - theta.T @ z
    psi = np.clip(residual, -tau, tau)
    assert estimate.observe(s, M, H, X, U, y) == OK
    np.testing.assert_allclose(identifier.theta, theta + np.outer(P @ z, psi / growth), rtol=1e-9)
    np.testing.assert_allclose(
        identifier.inverse_gram, P - 0.75 / growth * np.outer(P @ z, P @ z), rtol=1e-9, atol=1e-15
    )
    assert (s[S.SEEN], s[S.INSIDE]) == (10.0, 7.0)
    assert s[CLIPPED] == before[CLIPPED] + 1.0
    assert s[GAIN] == pytest.approx(0.75 / growth)
    assert s[LOG_DET] == pytest.approx(before[LOG_DET] + math.log(growth))
    assert s[ROUNDS] == 7.0
    for j in range(2):
        at = FIELDS + PER_ROW * j
        energy = (psi[j] / 2.0) ** 2
        assert s[at + ROW.ENERGY] == pytest.approx(before[at + ROW.ENERGY] + energy)
        stability = energy * squared / growth
        assert s[at + ROW.STABILITY] == pytest.approx(before[at + ROW.STABILITY] + stability)
        size = abs(residual[j]) / (math.sqrt(growth) * 2.0)
        step = math.exp(min(0.5, 2.0 / (7.0 + 5.0)))
        up = size > before[at + ROW.TYPICAL]
        want = before[at + ROW.TYPICAL] * (step if up else 1.0 / step)
        assert s[at + ROW.TYPICAL] == pytest.approx(want)


def test_a_residual_at_its_threshold_is_inside():
    identifier = control.SystemIdentifier(1, 1, clip=1.0)
    assert identifier.spread[0] == 1.0
    identifier.update([0.0], [0.0], [1.0])  # z = 0: growth 1, tau 1
    assert identifier.clipped == 0
    identifier.update([0.0], [0.0], [100.0])
    assert identifier.clipped == 1


@pytest.mark.parametrize(
    ("x", "u", "y", "code"),
    [
        ([math.nan, 0.0], [0.0], [0.0, 0.0], BAD_X),
        ([0.0, 0.0], [1e160], [0.0, 0.0], BAD_X),
        ([0.0, 0.0], [0.0], [0.0, math.nan], BAD_REWARD),
        ([0.0, 0.0], [0.0], [math.inf, 0.0], BAD_REWARD),
        ([0.0, 0.0], [0.0], [0.0, -math.inf], BAD_REWARD),
        ([1e149, 1e149], [0.0], [0.0, 1e280], OVERFLOW),
    ],
)
def test_a_step_that_cannot_be_learned_is_refused_by_its_reason(x, u, y, code):
    s, M, H = taught(clip=math.inf).packed
    before = s.copy(), M[-2:].copy()
    with np.errstate(over="ignore"):
        assert estimate.observe(s, M, H, np.array(x), np.array(u), np.array(y)) == code
    np.testing.assert_array_equal(s, before[0])
    np.testing.assert_array_equal(M[-2:], before[1])


def test_a_feature_as_long_as_the_limit_is_taken():
    s, M, H = taught().packed
    s[ARM_LIMIT] = 5.25
    assert estimate.observe(s, M, H, X, U, Y) == OK
    s[ARM_LIMIT] = 5.249
    assert estimate.observe(s, M, H, X, U, Y) == BAD_X


@pytest.mark.parametrize(("share", "fine"), [(0.9, True), (1.1, False)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_estimate_may_not_leave_the_float_range(share, fine, sign):
    s, M, _ = taught(clip=math.inf).packed
    M[-2:] = 0.0
    M[FEATURE, :3] = 0.0
    M[DIRECTION, :3] = 0.0, 100.0 * sign, 0.0
    y = np.array([0.0, share * 0.04 * LARGEST])
    assert estimate.lay_residuals(s, M, y, 1.0, 4.0, 1.0) is fine  # a step of residual / growth
    if fine:
        np.testing.assert_array_equal(M[SCRATCH, :2], y)


@pytest.mark.parametrize(("share", "fine"), [(0.9, True), (1.1, False)])
def test_a_clipped_step_counts_as_clipped(share, fine):
    # tau = clip spread sqrt(growth) = 4 * 2 * 2, a step of 16 / 4 at most; theta is near the end.
    s, M, _ = control.SystemIdentifier(2, 1, scale=2.0, clip=4.0).packed
    M[FEATURE, :3] = 0.0
    M[DIRECTION, :3] = 0.0, 0.0, share * LARGEST / 8.0
    M[-1, 2] = LARGEST / 2.0
    assert estimate.lay_residuals(s, M, np.array([0.0, 1e9]), 1.0, 4.0, 1.0) is fine
    assert (
        estimate.lay_residuals(s, M, np.array([0.0, -1e9]), 1.0, 4.0, 1.0) is True
    )  # away from the end
    assert (
        estimate.lay_residuals(s, M, np.array([1e9, 0.0]), 1.0, 4.0, 1.0) is True
    )  # the other row


def test_residuals_are_those_of_each_row():
    identifier = taught()
    s, M, _ = identifier.packed
    estimate.lay_feature(M, X, U)
    assert estimate.lay_residuals(s, M, Y, 0.5, 1.5, 1.0) is True
    want = Y - identifier.theta.T @ np.concatenate([X, U])
    np.testing.assert_allclose(M[SCRATCH, :2], want, rtol=1e-9)


def test_steps_are_kept_where_they_are_to_be_fitted_again():
    identifier = taught(control.BatchHuberIdentifier, steps=3)
    identifier.reserve(2)
    s, M, H = identifier.packed
    s[S.FRESH] = 1.0
    assert estimate.observe(s, M, H, X, U, Y) == OK
    np.testing.assert_array_equal(H[3, :3], [1.0, -2.0, 0.5])
    np.testing.assert_array_equal(H[3, 4:], Y)
    assert s[S.FRESH] == 0.0
    assert identifier.theta.shape == (3, 2)
    assert s[S.FRESH] == 1.0
    one_pass = taught()
    assert estimate.observe(*one_pass.packed, X, U, Y) == OK
    assert one_pass.packed[0][S.FRESH] == 0.0


def test_the_names_of_the_slots_end_with_the_fields_of_each_row():
    names = estimate.names(2, False)
    fields = ("typical", "tau", "stability", "energy")
    assert names[FIELDS:] == tuple(f"{field}_{row}" for row in (0, 1) for field in fields)
    assert len(names) == len(taught().packed[0])
    tuned = estimate.names(2, True)
    assert tuned[: len(names)] == names
    assert tuned[len(names) :] == tuple(f"sizes_{row}_{k}" for row in (0, 1) for k in range(128))
