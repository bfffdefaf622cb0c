"""Estimates of a tail index, against their formulas and against exact power laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import genpareto

from heavytail.tails import index

DRAWS = np.sort(np.random.default_rng(0).pareto(1.5, 20_000) + 1.0)[::-1]


@pytest.mark.parametrize("k", [10, 400])
def test_hills_estimate_is_the_inverse_mean_log_excess(k):
    alpha = 1.0 / np.mean([math.log(v / DRAWS[k]) for v in DRAWS[:k]])
    half = 1.96 / math.sqrt(k)
    expected = (alpha, alpha * (1.0 - half), alpha * (1.0 + half))
    assert index.hill(DRAWS, k) == pytest.approx(expected, rel=1e-12)


def test_where_all_are_equal_hill_sees_no_tail():
    assert index.hill(np.ones(20), 10)[0] == math.inf


def corrected(top, k):
    """The regression of Feuerverger and Hall by least squares, at exponent 0.9."""
    i = np.arange(1, k + 1)
    spacing = i * np.log(top[:k] / top[1 : k + 1])
    design = np.stack([np.ones(k), (i / k) ** 0.9], axis=1)
    gamma = np.linalg.lstsq(design, spacing, rcond=None)[0][0]
    return gamma, spacing.mean() * 1.9 / 0.9 / math.sqrt(k)


@pytest.mark.parametrize(
    ("n", "first", "last"), [(20_000, 400, 2000), (2000, 60, 200), (100, 20, 20)]
)
def test_a_symmetric_tail_has_the_index_of_a_tenth_and_the_interval_of_a_fiftieth(n, first, last):
    top = np.sort(np.random.default_rng(3).pareto(1.5, n) + 1.0)[::-1]
    gamma, error = corrected(top, first)
    chosen, its = corrected(top, last)
    found = index.symmetric(top, n)
    assert found.index == pytest.approx(1 / chosen, rel=1e-9)
    assert found.likely == pytest.approx(1 / (chosen + its), rel=1e-9)
    assert found.low == pytest.approx(1 / (gamma + 1.96 * error), rel=1e-9)
    high = 1 / (gamma - 1.96 * error) if gamma > 1.96 * error else math.inf
    assert found.high == pytest.approx(high, rel=1e-9)


@pytest.mark.parametrize("shape", [0.3, 0.8, 1.6])
def test_the_shape_of_excesses_is_that_of_maximum_likelihood(shape):
    excess = genpareto.rvs(shape, scale=7.0, size=3000, random_state=1)
    fitted, _, _ = genpareto.fit(excess, shape, floc=0.0, scale=7.0)
    assert index._excess_shape(excess) == pytest.approx(fitted, rel=2e-3)


def test_excesses_lighter_than_a_power_have_a_shape_near_0():
    excess = np.linspace(0.0, 1.0, 1001)
    assert index._excess_shape(excess) == pytest.approx(1e-4, rel=1e-3)
    assert index._excess_shape(np.zeros(10)) == 0.0
    assert index._excess_shape(np.append(np.full(5, 0.1), 3.0)) > 0.0


def followed(top, n):
    """The search for the share, written out: gamma, how many it was fitted to, and the first."""
    first = index._excess_shape(top[: int(0.05 * n)] - top[int(0.05 * n)])
    error = (1.0 + first) / math.sqrt(int(0.05 * n))
    gamma, at = first, 0.05
    for share in (0.1, 0.2, 0.3):
        k = int(share * n)
        if k >= len(top):
            break
        new = index._excess_shape(top[:k] - top[k])
        spread = max(error**2 - (1.0 + new) ** 2 / k, 0.0)
        if abs(new - first) > 3.0 * math.sqrt(spread):
            break
        gamma, at = new, share
    return gamma, at, first, error


def bent(n, share, power):
    """A sample that is a power law out to one share of it, and another further in."""
    top = np.sort(np.random.default_rng(5).pareto(1.5, n) + 1.0)[::-1]
    k = int(share * n)
    inner = top[k] * (top[k:] / top[k]) ** power
    return np.concatenate([top[:k], inner])


@pytest.mark.parametrize(
    ("top", "share"),
    [
        (DRAWS, 0.3),
        (DRAWS[:5999], 0.2),
        (DRAWS[:6001], 0.3),
        (DRAWS[:4001], 0.2),
        (DRAWS[:1500], 0.05),
        (DRAWS[:6000], 0.2),
        (bent(20_000, 0.05, 3.0), 0.05),
        (bent(20_000, 0.06, 1.5), 0.05),  # apart by 3.6 standard errors
        (bent(20_000, 0.06, 0.7), 0.05),  # by 3.3
        (bent(20_000, 0.1, 3.0), 0.1),
        (bent(20_000, 0.2, 3.0), 0.2),
    ],
)
def test_a_power_law_is_fitted_to_as_much_as_it_holds_for(top, share):
    gamma, at, first, _ = followed(top, 20_000)
    assert at == share
    found = index.one_sided(top, 20_000)
    assert found.index == pytest.approx(1 / gamma, rel=1e-9)
    step = 1.96 / math.sqrt(1000)
    ends = (1 + first) / (1 - step) - 1, (1 + first) / (1 + step) - 1
    assert found.low == pytest.approx(1 / max(*ends, gamma), rel=1e-9)
    assert found.high == pytest.approx(1 / min(*ends, gamma), rel=1e-9)
    assert found.likely == pytest.approx(1 / (gamma + (1 + gamma) / math.sqrt(int(at * 20_000))))


def test_no_shift_of_the_data_changes_the_fit():
    plain, moved = (index.one_sided(DRAWS + shift, 20_000) for shift in (0.0, 50.0))
    assert moved.index == pytest.approx(plain.index, rel=1e-4)
    assert moved.low == pytest.approx(plain.low, rel=1e-4)


def test_the_first_fit_has_60_values_where_an_eighth_of_the_sample_has_them():
    shares = (0.05, 0.1, 0.3)
    counts = lambda n, known: index.sizes(shares, n, most=0.125, known=known)  # noqa: E731
    assert counts(200, 200) == [25, 60]
    assert counts(480, 480) == [60, 144]
    assert counts(1000, 1000) == [60, 100, 300]
    assert counts(2000, 2000) == [100, 200, 600]
    assert counts(2000, 600) == [100, 200]
    assert counts(2000, 90) == [89]


def test_which_shares_of_a_sample_are_fitted(monkeypatch):
    monkeypatch.setattr(index, "followed", lambda fit, counts: counts)
    assert index.symmetric(DRAWS, 20_000) == [400, 1000, 2000]
    assert index.symmetric(DRAWS[:200], 200) == [40]
    assert index.one_sided(DRAWS, 20_000) == [1000, 2000, 4000, 6000]
    assert index.one_sided(DRAWS[:200], 200) == [25, 40, 60]


def fits(*given):
    """What follows from fits with these numbers, of two values, of three and so on."""
    table = dict(enumerate((index.Fit(*one) for one in given), start=2))
    return index.followed(table.__getitem__, list(table))


@pytest.mark.parametrize(
    ("second", "index_found"),
    [(0.5 + 0.29, 1 / 0.79), (0.5 - 0.29, 1 / 0.21), (0.5 + 0.31, 2.0), (0.5 - 0.31, 2.0)],
)
def test_a_fit_that_is_three_deviations_away_is_not_followed(second, index_found):
    """Errors whose squares are 0.25 and 0.24: their difference has deviation 0.1."""
    found = fits((0.5, 0.5, 0.1, 0.9), (second, math.sqrt(0.24), 0.0, 0.0))
    assert found.index == pytest.approx(index_found)
    assert (found.low, found.high) == pytest.approx((1 / 0.9, 10.0))


def test_two_deviations_are_chance():
    found = fits((0.5, 0.5, 0.1, 0.9), (0.75, math.sqrt(0.24), 0.0, 0.0))  # 2.5 of them
    assert found.index == pytest.approx(1 / 0.75)


def test_the_interval_is_drawn_out_to_an_estimate_beyond_it():
    above = fits((0.5, 0.2, 0.4, 0.6), (0.7, 0.1, 0.0, 0.0))
    assert (above.low, above.high) == pytest.approx((1 / 0.7, 2.5))
    below = fits((0.5, 0.2, 0.4, 0.6), (0.3, 0.1, 0.0, 0.0))
    assert (below.low, below.high) == pytest.approx((1 / 0.6, 1 / 0.3))
    assert below.likely == pytest.approx(1 / 0.4)


def test_where_gamma_may_be_0_there_is_no_upper_end():
    found = fits((0.2, 0.2, -0.2, 0.6))
    assert (found.index, found.high) == (pytest.approx(5.0), math.inf)
    light = fits((-0.5, 0.1, -0.7, -0.3))
    assert (light.index, light.low, light.high, light.likely) == (math.inf,) * 4


def test_of_fewer_than_two_values_nothing_is_known():
    assert index.followed(None, [1]) is index.NOTHING
    assert index.one_sided(DRAWS[:24], 24).low == 0.0  # of three excesses no lower end either
    assert index.one_sided(DRAWS[:32], 32).low > 0.0


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([3.0, 1.0, 2.5], [3.0, 2.5, 1.0]),  # none are equal
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),  # all are
        ([0, 0, 0, 1, 2, 2, 4], [4, 2.25, 1.75, 1, 0, 0, 0]),  # those at the centre stay
        ([0, 1, 1, 3, 3, 3, 3], [3.75, 3.25, 2.75, 2.25, 1.25, 0.75, 0]),
        ([0, -3, -3, 5, 5], [6.25, 3.75, 0, -2.25, -3.75]),
    ],
)
def test_equal_values_are_spread_over_half_the_way_to_the_nearest_other(values, spread):
    found = index.spread_ties(np.array(values, dtype=float), 0.0)
    assert found.tolist() == spread
    assert index.spread_ties(np.array(values[::-1], dtype=float), 0.0).tolist() == spread
