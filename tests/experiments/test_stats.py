"""Intervals by the bootstrap, against one written out with its numbers, and what they mean."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from heavytail.experiments import stats
from heavytail.experiments.stats import (
    Interval,
    Sample,
    choice_shares,
    loglog_slope,
    median_ratio,
    ratio,
    slope,
)

RNG = np.random.default_rng(0)
ABOVE, BELOW = RNG.pareto(2.5, (2, 30)) + 1.0
X = np.array([10.0, 100.0, 1000.0, 4000.0])
Y = RNG.uniform(0.5, 1.5, (30, 4)) * X**0.7


def interval(statistic):
    """2,000 draws of the 30 trials from seed 7, and the middle 95 % of what they give."""
    draws = np.random.default_rng(7).integers(0, 30, (2000, 30))
    values = np.sort([statistic(draw) for draw in draws])
    places = np.array([0.025, 0.975]) * 1999
    return statistic(np.arange(30)), *np.interp(places, np.arange(2000), values)


def agree(found, expected):
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-10)


def test_a_mean_has_its_bootstrap_interval():
    agree(Interval.of(ABOVE), interval(lambda i: ABOVE[i].mean()))


def test_a_ratio_of_means_is_paired_trial_by_trial():
    agree(ratio(ABOVE, BELOW), interval(lambda i: ABOVE[i].mean() / BELOW[i].mean()))
    agree(ratio(list(ABOVE), list(BELOW)), interval(lambda i: ABOVE[i].mean() / BELOW[i].mean()))
    paired = ratio(3.0 * BELOW, BELOW)
    assert (paired.low, paired.high) == pytest.approx((3.0, 3.0))


def test_a_wider_level_has_a_wider_interval_of_more_draws():
    level = 1 - 0.05 / 24
    draws = np.random.default_rng(7).integers(0, 30, (20 * 24 * 40, 30))
    values = ABOVE[draws].mean(axis=1) / BELOW[draws].mean(axis=1)
    expected = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    found = ratio(ABOVE, BELOW, level)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-10)
    usual = ratio(ABOVE, BELOW)
    assert found.low < usual.low < usual.value == found.value < usual.high < found.high


def test_a_ratio_of_medians_is_paired_trial_by_trial():
    expected = interval(lambda i: np.median(ABOVE[i]) / np.median(BELOW[i]))
    agree(median_ratio(ABOVE, BELOW), expected)
    agree(median_ratio(list(ABOVE), list(BELOW)), expected)


def test_a_slope_is_that_of_the_logarithms_of_means_over_whole_trials():
    expected = interval(lambda i: np.polyfit(np.log(X), np.log(Y[i].mean(axis=0)), 1)[0])
    agree(slope(X, Y), expected)
    assert expected[0] == pytest.approx(0.7, abs=0.05)
    assert loglog_slope(X, 3.0 * X**-1.3) == pytest.approx(-1.3)


def test_a_mean_of_0_counts_as_1e_300_in_a_slope():
    nothing = Y.copy()
    nothing[:, 0] = 0.0
    means = np.maximum(nothing.mean(axis=0), 1e-300)
    assert slope(X, nothing).value == pytest.approx(loglog_slope(X, means), rel=1e-10)


def test_an_interval_is_as_wide_as_95_percent_ask():
    values = np.random.default_rng(1).standard_normal(400)
    found = Interval.of(values)
    width = 1.96 * values.std() / 20.0
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.value == pytest.approx(width, rel=0.1)
    assert found.value - found.low == pytest.approx(width, rel=0.1)


def test_an_interval_is_printed_with_three_digits_or_as_asked():
    assert f"{Interval(1.23456, 1.0, 2.0)}" == "1.23 [1, 2]"
    assert f"{Interval(1.23456, 1.0, 2.0):.1f}" == "1.2 [1.0, 2.0]"


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


def test_a_ratio_is_over_the_trials_that_both_have() -> None:
    agree(
        ratio(np.append(ABOVE, 1e9), BELOW), interval(lambda i: ABOVE[i].mean() / BELOW[i].mean())
    )


def test_an_interval_knows_of_the_choice_of_what_was_tuned() -> None:
    draws = np.random.default_rng(5).uniform(0.9, 1.1, 50)
    sure = ratio(draws, draws)
    found = ratio(Sample(draws, ((0.2, 2.0 * draws), (0.1, 4.0 * draws))), draws)
    assert sure.value == found.value == 1.0
    assert (found.low, found.high) == pytest.approx((1.0, 4.0))  # 2.5 % lies within the last tenth
    rare = ratio(Sample(draws, ((0.01, 4.0 * draws),)), draws)
    assert rare.high == pytest.approx(1.0)
    below = ratio(draws, Sample(draws, ((0.5, 2.0 * draws),)))
    assert (below.low, below.high) == pytest.approx((0.5, 1.0))


def test_what_was_tuned_on_both_sides_is_chosen_apart() -> None:
    draws = np.random.default_rng(5).uniform(0.9, 1.1, 50)
    tuned = Sample(draws, ((0.5, 2.0 * draws),))
    found = ratio(tuned, tuned)
    assert (found.low, found.high) == pytest.approx((0.5, 2.0))  # by one choice, always 1


def test_the_shares_of_a_choice_are_those_of_resamples() -> None:
    rng = np.random.default_rng(6)
    one = rng.normal(0.0, 1.0, 100)
    shares = choice_shares(np.stack([one, one + 0.001, -one, one + 5.0]))
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] == shares[3] == 0.0  # never less than the first on the same trials
    assert 0.01 < shares[0] < 0.99


def test_a_ratio_over_no_regret_is_infinite_and_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ratio(np.array([2.0, 4.0, 1.0]), np.array([0.0, 3.0, 0.0]))
        assert math.isclose(found.value, 7.0 / 3.0)
        assert 0.0 < found.low < found.high == math.inf
        assert ratio(np.ones(3), np.zeros(3)).value == math.inf
        assert math.isnan(ratio(np.zeros(3), np.zeros(3)).value)
