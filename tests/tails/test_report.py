"""What a report says in words, and what it draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.tails import Hill, MomentBound, TailReport

BOUND = MomentBound(1.5, 2.0)


def report(index, *, suggested=BOUND, skewed=False, hills=(), top=None, count=1000, **ends):
    ends = {"low": 0.9 * index, "high": 1.1 * index, "likely": 0.95 * index} | ends
    return TailReport(
        count=count,
        centre=0.5,
        index=index,
        hills=hills,
        top_share=0.25,
        skewed=skewed,
        suggested=suggested,
        _top=np.empty(0) if top is None else top,
        **ends,
    )


@pytest.mark.parametrize(
    ("index", "heavy", "words"),
    [
        (
            0.7,
            True,
            "over the largest 0 of 1,000 values: if the tail goes on like this there is no",
        ),
        (1.5, True, "the variance is infinite if the tail goes on like this."),
        (1.1, True, "like this, and 1,000 values do not tell whether there is a mean."),
        (1.9, True, "(1.71 to 2.09): 1,000 values do not tell whether the variance is finite."),
        (2.1, True, "(1.89 to 2.31): 1,000 values do not tell whether the variance is finite."),
        (2.3, True, "the variance is finite if the tail goes on like this."),
        (3.99, True, "the variance is finite if"),
        (4.0, False, "No heavy tail seen"),
        (math.inf, False, "No heavy tail seen"),
    ],
)
def test_the_advice_follows_the_index(index, heavy, words):
    found = report(index)
    assert found.heavy == heavy
    assert words in found.advice
    assert ("holds 25% of the total deviation" in found.advice) == heavy
    assert found.order == 0.9 * index


@pytest.mark.parametrize(
    ("outliers", "words"),
    [
        (0, ""),
        (1, " One value holds half of the sum of squares."),
        (10, " 10 values hold half of the sum of squares."),
    ],
)
def test_that_outliers_dominate_the_variance_is_a_count(outliers, words):
    unknown, finite = report(2.1, outliers=outliers).advice, report(2.5, outliers=outliers).advice
    neither = report(1.5, low=0.9, high=2.1, outliers=outliers).advice
    assert f"do not tell whether the variance is finite.{words} The largest value" in unknown
    assert f"is finite if the tail goes on like this.{words} The largest value" in finite
    assert f" nor whether there is a mean.{words} The largest value" in neither
    assert "sum of squares" not in report(1.5, outliers=outliers).advice  # said to be infinite


@pytest.mark.parametrize("index", [0.8, 1.1, 1.5, 1.9, 2.5])
def test_a_thousandth_of_fewer_than_two_thousand_values_is_the_largest(index):
    assert "The largest value holds 25% of the" in report(index, count=1999).advice
    assert "The largest 0.1 % hold 25% of the" in report(index, count=2000).advice


def test_that_averages_are_fine_has_its_condition():
    assert "if these values show the tail, averages and least" in report(5.0).advice


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (0.8, "fine, and robust methods gain little here."),
        (1.249, "fine, and robust methods gain little here."),
        (1.25, "fine, but robust estimates have about 80% of their variance. Where the noise is"),
        (20.0, "fine, but robust estimates have about 5% of their variance. Where the noise is"),
        (200.0, "fine, but robust estimates have less than 1% of their variance. Where the"),
        (math.inf, "fine. Half of the values or more are equal, and a robust estimate of the"),
    ],
)
def test_what_robust_estimates_gain_is_said_as_measured(gain, words):
    plain, skewed = (report(5.0, gain=gain, skewed=skewed).advice for skewed in (False, True))
    assert words in plain
    assert ("robust slopes have" in skewed) == ("robust estimates have" in plain)
    assert ("A robust middle is not the mean" in skewed) == (1.25 <= gain < math.inf)


def test_fits_that_disagree_on_no_tail_at_all_name_no_range():
    light = report(math.inf, low=120.0, fitted=250, agree=False).advice
    assert light.endswith(
        "Only the largest 250 values follow one power law; fits to more disagree."
    )


@pytest.mark.parametrize(
    ("apart", "high", "words"),
    [
        (
            1,
            3.99,
            "value lies far beyond the other 999, and so few show no tail. The tail index "
            "may be as low as 0.63, or as high as 3.99. Look",
        ),
        (
            9,
            4.0,
            "9 values lie far beyond the other 991, and so few show no tail. The tail index "
            "may be as low as 0.63, or there may be no heavy tail. Look",
        ),
    ],
)
def test_a_few_values_far_beyond_the_others_show_no_tail(apart, high, words):
    seen = report(0.7, high=high, apart=apart)
    assert seen.advice.startswith(f"Too few values to tell: the largest {words}")
    assert "mean" not in seen.advice
    assert "the largest 2 values lie far" in report(0.7, apart=2).advice
    assert not seen.clear
    assert report(0.7, high=high).clear


@pytest.mark.parametrize("agree", [True, False])
@pytest.mark.parametrize("index", [0.8, 1.2, 1.9, 2.2, 3.9])
@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.5, 1.0, "there is no mean"),
        (1.0, 1.001, "is infinite if the tail goes on like this, and 1,000 values do not tell"),
        (0.5, 2.0, "1,000 values do not tell whether there is a mean."),
        (1.0, 2.001, "tell neither whether the variance is finite nor whether there is a mean."),
        (1.001, 2.0, "the variance is infinite if the tail goes on like this"),
        (1.001, 2.001, "values do not tell whether the variance is finite."),
        (2.0, 9.0, "values do not tell whether the variance is finite."),
        (2.001, 9.0, "the variance is finite if the tail goes on like this"),
    ],
)
def test_no_verdict_stands_beside_an_interval_that_contradicts_it(index, low, high, words, agree):
    """The sentence follows the interval, wherever the index itself lies."""
    advice = report(index, low=low, high=high, likely=index, agree=agree).advice
    assert words in advice
    assert ("there is no mean" in advice) == (high <= 1.0)
    assert ("do not tell whether there is a mean" in advice) == (low <= 1.0 < high <= 2.0)
    assert ("is infinite if the tail" in advice) == (1.0 < high <= 2.0)
    assert ("is finite if the tail" in advice) == (low > 2.0)
    assert ("whether the variance is finite" in advice) == (low <= 2.0 < high)
    assert ("if it is infinite, averages" in advice) == (1.0 < low <= 2.0 < high)
    assert (f" ({low:.2f} to {high:.2f}): " in advice) == (agree and low <= 2.0 and high > 1.0)
    assert ("if it is finite" in advice) == ("whether the variance is finite." in advice)
    assert ("if there is, use robust" in advice) == ("whether there is a mean" in advice)


@pytest.mark.parametrize(
    ("index", "low", "high", "clear"),
    [
        (math.inf, 2.0, math.inf, True),
        (math.inf, 1.99, math.inf, False),
        (math.inf, 0.0, math.inf, False),
        (1.5, 0.9, 99.0, True),
        (1.5, 0.9, 100.0, False),
        (3.9, 1.9, 99.0, True),
        (4.0, 1.9, 99.0, False),  # neither heavy nor surely of finite variance
    ],
)
def test_too_few_values_are_called_so(index, low, high, clear):
    found = report(index, low=low, high=high, likely=low)
    assert found.clear == clear
    assert ("Too few values to tell" in found.advice) != clear
    assert ("fine" in found.advice) == (clear and index == math.inf)
    if not clear:
        assert f"as low as {low:.2f}," in found.advice
        assert "Use robust methods with a moment of order 1.50 until" in found.advice
        without = report(index, low=low, high=high, likely=low, suggested=None).advice
        assert "Use robust methods until there are more." in without


@pytest.mark.parametrize(
    ("index", "high", "words"),
    [
        (0.8, 0.99, "no mean"),
        (0.8, 1.1, "whether there is a mean"),
        (1.5, 1.6, "infinite"),
        (3, 5, "finite"),
        (5, 9, "No heavy tail seen"),
    ],
)
def test_it_is_said_where_fits_disagree(index, high, words):
    change = (
        " Only the largest 1,234 values follow one power law; fits to more disagree, so that the "
        f"index may be anything from {0.9 * index:.2f} to {high:.2f}."
    )
    for agree in (True, False):
        found = report(index, high=high, fitted=1234, agree=agree)
        assert (change in found.advice) == (not agree)
        assert ("; fits to more than 1,234 values disagree\n" in str(found)) == (not agree)
    assert words in found.advice
    few = report(index, low=0.5, high=math.inf, fitted=1234, agree=False).advice
    assert "1,234 values follow one power law; fits to more disagree" in few


def test_without_a_bound_no_order_is_named():
    assert "OnePassHuberRegressor): averages" in report(1.5, suggested=None).advice


def test_it_is_printed_line_by_line():
    hills = (Hill(1000, 12.5, 1.5, 1.25, 1.75),)
    assert str(report(1.5, skewed=True, hills=hills)).splitlines()[:4] == [
        "1,000 values, centre 0.5, skewed",
        "tail index 1.50, 95 % interval 1.35 to 1.65",
        "  Hill,   1,000 values beyond 12.5         1.50  (1.25 to 1.75)",
        "suggested: MomentBound(order=1.5, scale=2)",
    ]
    plain = str(report(99.5, suggested=None))
    assert plain.startswith(
        "1,000 values, centre 0.5\ntail index 99.50, 95 % interval 89.55 to none"
    )
    assert "suggested" not in plain
    assert "tail index none" in str(report(100.0))


@pytest.mark.parametrize(("size", "lines"), [(11, 2), (200, 2), (10, 1)])
def test_the_plot_is_the_share_beyond_each_value_and_a_slope_through_the_largest(size, lines):
    pytest.importorskip("matplotlib")
    top = np.linspace(9.0, 1.0, size)
    axes = report(1.5, top=top, count=100).plot()
    assert len(axes.lines) == lines
    data = axes.lines[0]
    assert np.array_equal(data.get_xdata(), top)
    np.testing.assert_allclose(data.get_ydata(), np.arange(1, size + 1) / 100)
    if lines == 2:
        slope = axes.lines[1]
        np.testing.assert_allclose(slope.get_xdata(), top[: max(size // 50, 1) + 1])
        x, y = np.log(slope.get_xdata()), np.log(slope.get_ydata())
        np.testing.assert_allclose(np.diff(y) / np.diff(x), -1.5)
        shares = np.log(data.get_ydata()[: len(y)])
        assert np.mean(y) == pytest.approx(np.mean(shares))
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_the_values_drawn_are_no_part_of_what_a_report_says():
    few, many = (report(1.5, top=np.ones(size)) for size in (3, 40))
    assert few == many
    assert "_top" not in repr(few)
    assert TailReport(100, 0.5, 1.5, 1.4, 1.6, 1.45, (), 0.25, False, None)._top.size == 0


def test_a_tail_without_an_index_is_drawn_without_a_slope_on_the_axes_given():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert report(math.inf, top=np.linspace(9.0, 1.0, 40)).plot(axes) is axes
    assert len(axes.lines) == 1


def test_a_bound_is_a_number_of_order_up_to_2_and_scale_up_to_1e100():
    bound = MomentBound(np.float32(1.5), 4)
    assert (type(bound.order), type(bound.scale), bound.power) == (float, float, 8.0)
    for order, scale in [(1.0, 1.0), (2.1, 1.0), (1.5, 0.0), (1.5, 1.5e100), (0.5, 1.0)]:
        with pytest.raises(ValueError, match="MomentBound"):
            MomentBound(order, scale)
    assert MomentBound(1.01, 1e-9).order == 1.01
    assert MomentBound(2.0, 1e100).scale == 1e100
    with pytest.raises(ValueError, match="pass any order below"):
        MomentBound(0.49, 1.0)
