"""The size of the noise, step by step, with every constant as a number."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from heavytail.kernels import scale


def close(value):
    return pytest.approx(value, rel=1e-12)


def test_the_constant_makes_a_median_a_standard_deviation():
    assert pytest.approx(1.0 / norm.ppf(0.75), abs=5e-5) == scale.NORMAL_CONSISTENCY


@pytest.mark.parametrize(
    ("t", "step"),
    [
        (0.0, 0.4),
        (5.0, 0.2),
        (15.0, 0.1),
        (994.5, 2.0 / 999.5),
        (999.0, 0.002),
        (1e7, 0.002),
        (-3.0, 0.5),
    ],
)
def test_steps_shrink_like_2_over_t_plus_5_and_never_below_a_five_hundredth(t, step):
    for level in (0.3, 0.5, 0.9):
        up = scale.follow_quantile(2.0, 2.5, t, level, 1e-9)
        down = scale.follow_quantile(2.0, 1.5, t, level, 1e-9)
        assert up == close(2.0 * math.exp(2.0 * step * level))
        assert down == close(2.0 * math.exp(-2.0 * step * (1.0 - level)))
        assert scale.follow_quantile(2.0, 2.0, t, level, 1e-9) == down  # not above: down
    assert scale.follow_typical(2.0, 2.5, t, 1e-9) == close(2.0 * math.exp(step))
    assert scale.follow_typical(2.0, 1.5, t, 1e-9) == close(2.0 * math.exp(-step))
    assert scale.follow_typical(2.0, 2.0, t, 1e-9) == close(2.0 * math.exp(-step))


@pytest.mark.parametrize("t", [0.0, 1e4])
def test_a_running_size_stays_between_its_floor_and_1e100(t):
    assert scale.follow_quantile(2.0, 1.0, t, 0.5, 1.9999) == 1.9999
    assert scale.follow_typical(2.0, 1.0, t, 1.9999) == 1.9999
    assert scale.follow_quantile(1e100, 1e101, t, 0.5, 0.1) == 1e100
    assert scale.follow_typical(1e100, 1e101, t, 0.1) == 1e100


def test_a_run_counts_sizes_on_one_side_and_starts_again_on_the_other():
    assert scale.next_run(0.0, 2.0, 1.0) == 1.0
    assert scale.next_run(3.0, 2.0, 1.0) == 4.0
    assert scale.next_run(-3.0, 2.0, 1.0) == 1.0
    assert scale.next_run(-3.0, 0.5, 1.0) == -4.0
    assert scale.next_run(3.0, 0.5, 1.0) == -1.0
    assert scale.next_run(3.0, 1.0, 1.0) == -1.0  # as large: not above


def test_a_run_has_the_size_of_it_that_is_nearest_to_the_typical_one():
    assert scale.next_extreme(0.0, 9.0, 2.0, 1.0) == 2.0
    assert scale.next_extreme(-2.0, 0.1, 2.0, 1.0) == 2.0
    assert scale.next_extreme(2.0, 3.0, 2.0, 1.0) == 2.0
    assert scale.next_extreme(2.0, 2.0, 3.0, 1.0) == 2.0
    assert scale.next_extreme(2.0, 3.0, 0.5, 1.0) == 0.5
    assert scale.next_extreme(-2.0, 0.6, 0.5, 1.0) == 0.6
    assert scale.next_extreme(-2.0, 0.5, 0.6, 1.0) == 0.6
    assert scale.next_extreme(-2.0, 0.5, 1.0, 1.0) == 1.0  # as large: not above


def sought(typical, size, t, run, floor=1e-9, extreme=None):
    return scale.seek_typical(typical, size, t, run, size if extreme is None else extreme, floor)


def test_a_long_run_doubles_the_steps_ten_times_at_most():
    step = 2.0 / (20.0 + 5.0)
    for run, doublings in [(2, 0), (5, 0), (6, 1), (7, 2), (9, 4), (-6, 1), (-9, 4)]:
        size, sign = (1e40, 1.0) if run > 0 else (1e-40, -1.0)
        expected = 3.0 * math.exp(sign * step * 2.0**doublings)
        assert sought(3.0, size, 20.0, float(run), 1e-300) == pytest.approx(expected, rel=1e-9)
    for run in (15.0, 16.0, 40.0):
        expected = 3.0 * math.exp(step * 1024.0)
        assert sought(3.0, 1e90, 20.0, run) == pytest.approx(expected, rel=1e-9)
    assert sought(3.0, 1e90, 20.0, 14.0) == pytest.approx(3.0 * math.exp(step * 512.0), rel=1e-9)


def test_steps_grow_in_the_first_64_rounds_alone():
    assert sought(3.0, 1e9, 64.0, 10.0) == pytest.approx(
        3.0 * math.exp(32.0 * 2.0 / 69.0), rel=1e-9
    )
    assert sought(3.0, 1e9, 65.0, 10.0) == close(3.0 * math.exp(2.0 / 70.0))


def test_a_leap_never_passes_the_extreme_of_its_run_nor_the_bounds():
    step = math.exp(2.0 / 25.0)
    assert sought(3.0, 3.5, 20.0, 10.0) == 3.5
    assert sought(3.0, 3.01, 20.0, 10.0) == close(3.0 * step)  # a common step may
    assert sought(3.0, 2.5, 20.0, -10.0) == 2.5
    assert sought(3.0, 2.99, 20.0, -10.0) == close(3.0 / step)
    assert sought(3.0, 3.0, 20.0, -10.0) == close(3.0 / step)
    assert sought(3.0, 1e-6, 20.0, -10.0, extreme=2.5) == 2.5
    assert sought(3.0, 1e6, 20.0, 10.0, extreme=3.5) == 3.5
    assert sought(1e99, 1e120, 20.0, 20.0) == 1e100
    assert sought(3.0, 0.1, 20.0, -20.0, 0.4) == 0.4


def test_a_value_is_common_after_sixteen_votes():
    assert scale.stands_out(1.0, 0.0, 100.0)
    assert scale.stands_out(0.0, 0.0, 15.0)
    assert not scale.stands_out(0.0, 0.0, 16.0)


def test_votes_are_counted_from_0_to_1000():
    assert scale.lead(True, 3.0) == 4.0
    assert scale.lead(True, 999.5) == 1000.0
    assert scale.lead(False, 3.0) == 2.0
    assert scale.lead(False, 0.5) == 0.0


def test_the_majority_vote_is_boyer_and_moores():
    assert scale.vote(5.0, 2.0, 0.0) == (5.0, 1.0)
    assert scale.vote(2.0, 2.0, 0.0) == (2.0, 1.0)
    assert scale.vote(5.0, 2.0, 0.5) == (2.0, 0.0)
    assert scale.vote(5.0, 2.0, 7.0) == (2.0, 6.0)
    assert scale.vote(2.0, 2.0, 7.0) == (2.0, 8.0)
