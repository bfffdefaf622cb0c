"""Estimates of a tail index, against their formulas and against exact power laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import f as fdist
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


def excess_fit(top, k):
    gamma = index._excess_shape(top[:k] - top[k])
    return gamma, (1.0 + gamma) / math.sqrt(k)


def search(fit, top, n, share, most):
    """The rule written out: the counts that agree with all smaller ones, whether the last is the
    largest, and how many the interval is of.
    """
    floor = min(48, int(most * n))
    largest = min(max(int(share * n), floor), len(top) - 1)
    ladder = [largest]
    while ladder[-1] // 2 >= 10:
        ladder.append(ladder[-1] // 2)
    agreed = []
    for k in reversed(ladder):
        gamma, error = fit(top, k)
        gaps = [abs(gamma - fit(top, j)[0]) / math.sqrt(k * (1 / j - 1 / k)) for j in agreed]
        if max(gaps, default=0.0) > 3.5 * error:
            break
        agreed.append(k)
    all_agree = agreed[-1] == largest
    part = min(agreed[-1], 48.0 * n ** (1 / 3)) / (6 if all_agree else 10)
    return agreed[-1], all_agree, min(max(int(part), floor if all_agree else 5), agreed[-1])


def bent(n, share, power):
    """A sample that is a power law out to one share of it, and another further in."""
    top = np.sort(np.random.default_rng(5).pareto(1.5, n) + 1.0)[::-1]
    k = int(share * n)
    inner = top[k] * (top[k:] / top[k]) ** power
    return np.concatenate([top[:k], inner])


def contaminated(n, share, size):
    """A normal sample of which a share is Pareto of index 1.2, from ``size`` on."""
    rng = np.random.default_rng(4)
    tail = size * (rng.pareto(1.2, n) + 1.0)
    values = np.where(rng.random(n) < share, tail, rng.standard_normal(n))
    return np.sort(np.abs(values))[::-1]


SAMPLES = {  # a sample, its size, how many values it is fitted to of one side and of both
    "Pareto": (DRAWS, 20_000, 6000, 2000),
    "fewer known": (DRAWS[:1500], 20_000, 1499, 1499),
    "bent at a twentieth": (bent(20_000, 0.05, 3.0), 20_000, 750, 1000),
    "bent at a tenth": (bent(20_000, 0.1, 3.0), 20_000, 1500, 2000),
    "1 % of a normal sample": (contaminated(20_000, 0.01, 5.0), 20_000, 187, 250),
    "0.1 % of a normal sample": (contaminated(200_000, 0.001, 8.0), 200_000, 234, 156),
    "few": (DRAWS[::100], 200, 60, 40),
    "very few": (DRAWS[::400], 50, 15, 10),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_power_law_is_fitted_to_as_much_as_it_holds_for_and_the_interval_is_of_less(name):
    top, n, sides, both = SAMPLES[name]
    for estimate, fit, share, most, want in (
        (index.one_sided, excess_fit, 0.3, 0.125, sides),
        (index.symmetric, corrected, 0.1, 0.2, both),
    ):
        fitted, agree, few = search(fit, top, n, share, most)
        found = estimate(top, n)
        assert found.fitted == fitted == want
        assert found.agree is agree
        gamma, error = fit(top, fitted)
        g, e = fit(top, few)
        step = 1.96 / math.sqrt(few)
        own = 1.96 / math.sqrt(fitted)
        least = min(g - 1.96 * e, gamma - 1.96 * error)
        largest = max(g + 1.96 * e, gamma + 1.96 * error)
        if fit is excess_fit:
            least = min((1 + g) / (1 + step), (1 + gamma) / (1 + own)) - 1
            largest = max((1 + g) / (1 - step), (1 + gamma) / (1 - own)) - 1
        assert found.index == pytest.approx(1 / gamma, rel=1e-9)
        assert found.low == pytest.approx(1 / largest, rel=1e-9)
        assert found.high == pytest.approx(1 / least if least > 0 else math.inf, rel=1e-9)
        assert found.likely == pytest.approx(1 / min(gamma + error, g + e), rel=1e-9)


def test_no_shift_of_the_data_changes_the_fit():
    plain, moved = (index.one_sided(DRAWS + shift, 20_000) for shift in (0.0, 50.0))
    assert moved.index == pytest.approx(plain.index, rel=1e-4)
    assert moved.low == pytest.approx(plain.low, rel=1e-4)


def fits(gammas, *, n=1000, error=0.1, known=1000):
    """What follows from fits of 12, 25, 50 and 100 values with these gammas, each with the error
    times sqrt(100 / k) and twice that as its interval; others have 2.0.
    """
    table = dict(zip((12, 25, 50, 100), gammas, strict=True))
    asked = []

    def fit(k):
        asked.append(k)
        gamma, e = table.get(k, 2.0), error * math.sqrt(100 / k)
        return index.Fit(gamma, e, gamma - 2 * e, gamma + 2 * e)

    return index.followed(fit, n, share=0.1, most=0.05, known=known), asked


def test_fits_are_of_halves_down_to_ten_and_the_interval_is_of_a_sixth_or_the_least():
    found, asked = fits([0.5, 0.5, 0.5, 0.5])
    assert asked == [12, 25, 50, 100, 48]
    assert (found.index, found.fitted, found.agree) == (2.0, 100, True)
    found, asked = fits([0.5] * 4, n=500)  # a tenth is 50, a twentieth 25
    assert asked == [12, 25, 50, 25]
    assert fits([0.5] * 4, known=21)[1][:2] == [10, 20]
    assert fits([0.5] * 4, known=20)[1][:1] == [19]
    found, asked = fits([0.5] * 4, known=26)
    assert (asked, found.fitted, found.agree) == ([12, 25, 25], 25, True)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("deviations", "agree"), [(3.4, True), (3.6, False)])
def test_a_fit_that_is_three_and_a_half_deviations_away_is_not_followed(deviations, agree, sign):
    """The last has the error 0.1; its difference to that of half as many values has it too."""
    found, asked = fits([0.5 + sign * 0.1 * deviations] * 3 + [0.5])
    assert found.agree is agree
    assert asked[-1] == (48 if agree else 5)
    assert found.fitted == (100 if agree else 50)


def test_a_fit_must_agree_with_all_before_it():
    found, _ = fits([0.5, 1.0, 1.4, 1.4])  # 2.4 and 2.8 deviations a step, 3.6 in two
    assert (found.fitted, found.agree) == (25, False)
    assert fits([0.5, 0.9, 1.3, 1.3])[0].agree


def test_a_large_sample_has_an_interval_of_a_share_that_falls():
    asked = {}
    for n in (2000, 20_000, 2_000_000):
        for power in (0.0, 0.2):  # one law, and one whose index changes all the time
            counts = []

            def fit(k, counts=counts, power=power):
                counts.append(k)
                e = 0.5 / math.sqrt(k)
                return index.Fit(0.5 + power * math.log(k), e, 0.4, 0.6)

            index.followed(fit, n, share=0.3, most=0.125, known=n)
            asked[n, power] = counts[-1]
    assert [asked[n, 0.0] for n in (2000, 20_000, 2_000_000)] == [100, 217, 1007]
    assert asked[2_000_000, 0.2] < 50


def test_the_interval_holds_that_of_the_fit_of_the_index():
    above, _ = fits([0.5, 0.5, 0.5, 2.2], error=1.0)  # that of 48 values is 2 times 1.44 about 2
    assert (above.low, above.high) == pytest.approx((1 / (2 + 2 / math.sqrt(0.48)), math.inf))
    below, _ = fits([0.6, 0.6, 0.6, 0.6], error=0.01)
    assert (below.high, below.index) == pytest.approx((1 / 0.58, 1 / 0.6))
    assert below.low == pytest.approx(1 / (2.0 + 0.02 / math.sqrt(0.48)))
    assert below.likely == pytest.approx(1 / 0.61)  # the other fit's is 1 / 2.01
    high, _ = fits([2.5] * 4, error=0.01)
    assert (high.low, high.high) == pytest.approx((1 / 2.52, 1 / (2.0 - 0.02 / math.sqrt(0.48))))
    assert high.likely == pytest.approx(1 / (2.0 + 0.01 / math.sqrt(0.48)))


def test_where_fewer_than_48_were_fitted_and_more_disagree_the_interval_holds_every_fit():
    few, asked = fits([1.0, 1.0, 0.2, 0.3], error=0.02)
    assert (few.fitted, few.agree, asked[:4]) == (25, False, [12, 25, 50, 5])
    assert set(asked[4:]) == {12, 25, 50, 100}
    step = 0.04 / math.sqrt(0.5)
    assert (few.low, few.high) == pytest.approx(
        (1 / (2 + 0.04 / math.sqrt(0.05)), 1 / (0.2 - step))
    )
    enough, asked = fits([2.0, 2.0, 2.0, 0.3], error=0.02)
    assert (enough.fitted, asked) == (50, [12, 25, 50, 100, 5])
    assert enough.high == pytest.approx(1 / (2.0 - 0.04 / math.sqrt(0.05)))


def far(gaps, n=1000):
    """How many lie apart where the log-spacings, scaled, are 1 but for those named."""
    spacing = np.ones(60)
    for i, gap in gaps.items():
        spacing[i - 1] = gap
    logs = np.cumsum((spacing / np.arange(1, 61))[::-1])[::-1]
    return index.apart(np.exp(np.append(logs, 0.0)), n)


def test_the_largest_lie_apart_where_a_power_law_has_such_a_gap_once_in_a_thousand():
    """The gap over the mean of the 20 that follow has the law F(2, 40)."""
    edge = fdist.isf(0.001, 2, 40)
    assert edge == pytest.approx(8.25, abs=0.01)
    for i in (1, 4, 9):
        assert far({i: edge + 0.01}) == i
        assert far({i: edge - 0.01}) == 0
    assert far({1: 20.0, 6: 20.0}) == 6  # the farthest in
    assert far({10: 500.0}) == 0  # ten values are a tail
    assert far({1: 10.0, 21: 8.0}) == 0  # their mean is 1.35
    assert far({1: 10.0, 22: 8.0}) == 1


def test_of_a_small_sample_a_fifth_shows_whether_a_gap_is_too_wide_and_five_values_at_least():
    edge = fdist.isf(0.001, 2, 10)  # a fifth of 35 has a gap, and five beside it
    assert [far({1: edge + 0.1}, n) for n in (35, 34)] == [1, 0]
    assert far({1: edge - 0.1}, 35) == 0
    assert far({2: 500.0}, 35) == 0
    assert far({2: 500.0}, 40) == 2
    assert index.apart(np.append(9.0, np.ones(50)), 200) == 0  # the others are equal
    for size in range(4):
        assert index.apart(np.arange(size, 0.0, -1.0), size) == 0


def test_a_power_law_has_none_apart_in_99_samples_of_100():
    rng = np.random.default_rng(11)
    draws = np.sort(rng.pareto(1.3, (2000, 300)) + 1.0, axis=1)[:, ::-1]
    assert 2 <= sum(index.apart(top, 300) > 0 for top in draws) <= 40


def test_where_gamma_may_be_0_there_is_no_upper_end():
    found, _ = fits([0.2] * 4, n=100, error=0.2)  # ten values, of the gamma 2.0
    assert found.high < math.inf
    light, _ = fits([-0.5] * 4, error=0.01)
    assert (light.index, light.high, light.likely) == (math.inf,) * 3


def test_of_fewer_than_two_values_nothing_is_known():
    assert index.followed(None, 30, share=0.1, most=0.2, known=2) is index.NOTHING
    assert index.followed(None, 4, share=0.1, most=0.2, known=4) is index.NOTHING
    assert index.one_sided(DRAWS[:10], 10).low == 0.0  # of three excesses no lower end either
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
