"""The Huber loss and the two numbers that steer it, by their formulas."""

from __future__ import annotations

import math

import pytest

from heavytail.kernels import huber


@pytest.mark.parametrize(
    ("z", "tau", "loss"),
    [(0.5, 1.0, 0.125), (-1.5, 2.0, 1.125), (3.0, 1.0, 2.5), (-3.0, 2.0, 4.0), (5.0, 0.5, 2.375)],
)
def test_the_loss_is_square_up_to_tau_and_linear_beyond(z, tau, loss):
    assert huber.huber(z, tau) == pytest.approx(loss, rel=1e-14)


@pytest.mark.parametrize(("z", "score"), [(0.3, 0.3), (-0.3, -0.3), (7.0, 1.5), (-7.0, -1.5)])
def test_the_score_is_the_residual_clipped_on_both_sides(z, score):
    assert huber.score(z, 1.5) == score


@pytest.mark.parametrize(("order", "exponent"), [(2.0, 0.0), (1.5, 1 / 6), (1.25, 0.3)])
def test_the_power_of_time_falls_to_0_at_order_2(order, exponent):
    assert huber.time_exponent(order) == pytest.approx(exponent, abs=1e-15)


def test_the_leverage_is_the_width_in_units_of_sigma_and_the_root_of_alpha():
    assert huber.leverage(3.0, 2.0, 16.0) == pytest.approx(0.375, rel=1e-14)


@pytest.mark.parametrize("w", [0.6, 1.0, 4.0])
def test_the_threshold_is_its_formula(w):
    expected = 1.7 * math.sqrt(1.0 + w**2) / w * 9.0**0.3
    assert huber.threshold(1.7, w, 9.0, 1.25) == pytest.approx(expected, rel=1e-14)
