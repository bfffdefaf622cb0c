"""Intervals: their level, their pairing, and slopes."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail.experiments import stats
from heavytail.experiments.stats import Interval, loglog_slope, median_ratio, ratio, slope


def test_a_paired_ratio_ignores_what_both_share() -> None:
    draws = np.exp(np.random.default_rng(1).normal(0, 2, 20))
    found = ratio(2.0 * draws, draws)
    assert (found.low, found.value, found.high) == pytest.approx((2.0, 2.0, 2.0))
    found = median_ratio(3.0 * draws, draws)
    assert (found.low, found.value, found.high) == pytest.approx((3.0, 3.0, 3.0))


def test_the_interval_of_a_mean_is_that_of_the_normal_at_95_percent() -> None:
    values = np.random.default_rng(2).normal(10.0, 1.0, 400)
    found = Interval.of(values)
    error = values.std(ddof=1) / 20.0
    # 1.96 standard errors to each side; at 90 % it would be 1.64, at 99 % 2.58, at 50 % 0.67.
    assert (found.high - found.value) / error == pytest.approx(1.96, abs=0.15)
    assert (found.value - found.low) / error == pytest.approx(1.96, abs=0.15)
    assert stats.LEVEL == 0.95


def test_an_interval_misses_the_truth_one_time_in_twenty() -> None:
    rng = np.random.default_rng(3)
    found = [Interval.of(rng.normal(0.0, 1.0, 40)) for _ in range(300)]
    missed = sum(not one.low <= 0.0 <= one.high for one in found)
    assert 5 <= missed <= 33  # about 18 of 300; at a level of 50 % it would be 150


def test_both_sides_of_an_interval_are_cut_alike() -> None:
    values = np.random.default_rng(4).normal(0.0, 1.0, 60)
    one, other = Interval.of(values), Interval.of(-values)
    assert (-other.high, -other.low) == pytest.approx((one.low, one.high), abs=0.03)


def test_the_slope_of_a_power_is_its_exponent() -> None:
    x = np.array([1e3, 1e4, 1e5])
    found = slope(x, np.outer(np.ones(4), x**0.7))
    assert (found.low, found.value, found.high) == pytest.approx((0.7, 0.7, 0.7))
    assert loglog_slope(x, 3.0 * x**0.4) == pytest.approx(0.4)


def test_a_slope_is_of_the_mean_over_whole_trials() -> None:
    x = np.array([1.0, 10.0, 100.0])
    y = np.stack([x**0.5, 100.0 * x])
    found = slope(x, y)
    assert found.value == pytest.approx(loglog_slope(x, y.mean(axis=0)))
    assert found.low == pytest.approx(0.5)
    assert found.high == pytest.approx(1.0)
