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


def corrected(top):
    """The regression of Feuerverger and Hall by least squares, at exponent 0.9."""
    k = len(top) - 1
    i = np.arange(1, k + 1)
    spacing = i * np.log(top[:-1] / top[1:])
    design = np.stack([np.ones(k), (i / k) ** 0.9], axis=1)
    gamma = np.linalg.lstsq(design, spacing, rcond=None)[0][0]
    error = spacing.mean() * 1.9 / 0.9 / math.sqrt(k)
    return gamma, error


@pytest.mark.parametrize("k", [60, 99])
def test_few_values_have_the_interval_of_the_regression(k):
    gamma, error = corrected(DRAWS[: k + 1])
    high = gamma - 1.96 * error
    expected = (1 / gamma, 1 / (gamma + 1.96 * error), 1 / high if high > 0 else math.inf)
    assert index.symmetric_tail(DRAWS[: k + 1]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("k", [100, 105, 2000])
@pytest.mark.parametrize("power", [1.0, 4.0])
def test_many_values_have_one_that_holds_hills_further_out_too(k, power):
    top = np.where(np.arange(k + 1) < k // 20, DRAWS[: k + 1] ** power, DRAWS[: k + 1])
    gamma, error = corrected(top)
    low, high = 1 / (gamma + 1.96 * error), gamma - 1.96 * error
    high = 1 / high if high > 0 else math.inf
    _, hill_low, hill_high = index.hill(top, k // 10)
    expected = (1 / gamma if gamma > 0 else math.inf, min(low, hill_low), max(high, hill_high))
    assert index.symmetric_tail(top) == pytest.approx(expected, rel=1e-9)


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
    gamma, at, first, error = followed(top, 20_000)
    assert at == share
    found = index.shifted_power_law(top, 20_000)
    assert found == pytest.approx(
        (1 / gamma, 1 / (first + 1.96 * error), 1 / (first - 1.96 * error)), rel=1e-9
    )


def test_no_shift_of_the_data_changes_the_fit():
    expected = index.shifted_power_law(DRAWS, 20_000)
    assert index.shifted_power_law(DRAWS + 50.0, 20_000) == pytest.approx(expected, rel=1e-4)


def test_a_sample_whose_top_is_less_than_a_twentieth_is_fitted_to_what_there_is():
    for n in (30, 50, 60):  # two excesses at least
        top = DRAWS[:n]
        k = max(int(0.05 * n), 2)
        first = index._excess_shape(top[:k] - top[k])
        low = 1 / (first + 1.96 * (1 + first) / math.sqrt(k))
        assert index.shifted_power_law(top, n)[1] == pytest.approx(low, rel=1e-9)
    k = 399
    gamma = index._excess_shape(DRAWS[:k] - DRAWS[k])
    found = index.shifted_power_law(DRAWS[: k + 1], 20_000)
    assert found[0] == pytest.approx(1 / gamma, rel=1e-9)
    assert found[1] == pytest.approx(1 / (gamma + 1.96 * (1 + gamma) / math.sqrt(k)), rel=1e-9)


@pytest.mark.parametrize(
    ("gamma", "error", "expected"),
    [
        (0.5, 0.1, (2.0, 1 / 0.696, 1 / 0.304)),
        (0.5, 0.3, (2.0, 1 / 1.088, math.inf)),
        (-0.1, 0.1, (math.inf, 1 / 0.096, math.inf)),
        (-0.5, 0.1, (math.inf, math.inf, math.inf)),
        (0.0, 0.0, (math.inf, math.inf, math.inf)),
    ],
)
def test_an_interval_for_gamma_is_one_for_its_inverse(gamma, error, expected):
    assert index._invert(gamma, error) == pytest.approx(expected, rel=1e-12)
