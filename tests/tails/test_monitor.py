"""A report number by number, and the edges of what it is made from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail import tails
from heavytail.tails import index, monitor

N = 20_000
SYMMETRIC = np.random.default_rng(0).standard_t(1.8, N)
SKEWED = np.random.default_rng(0).pareto(1.5, N)


def deviations(values):
    return np.sort(np.abs(values - np.median(values)))[::-1]


def told(found):
    return found.index, found.low, found.high, found.likely


def test_a_symmetric_sample_is_read_from_its_largest_tenth():
    report, top = tails.diagnose(SYMMETRIC), deviations(SYMMETRIC)
    assert (report.count, report.skewed, report.centre) == (N, False, np.median(SYMMETRIC))
    assert told(report) == pytest.approx(told(index.symmetric(top, N)), rel=1e-12)
    assert report.top_share == pytest.approx(top[:20].sum() / top.sum(), rel=1e-9)
    assert [h.count for h in report.hills] == [20, 60, 200, 600, 2000]
    for h in report.hills:
        assert (h.index, h.low, h.high) == pytest.approx(index.hill(top, h.count), rel=1e-12)
        assert h.threshold == top[h.count]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_skewed_sample_is_read_from_the_side_that_reaches_further(sign):
    report = tails.diagnose(sign * SKEWED)
    assert report.skewed
    expected = index.one_sided(np.sort(SKEWED)[::-1], N)
    assert told(report) == pytest.approx(told(expected), rel=1e-6)
    for shift in (-1e6, 1e6):
        moved = tails.diagnose(sign * SKEWED + shift)
        assert moved.skewed
        assert moved.index == pytest.approx(expected.index, rel=1e-3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_value_further_out_than_all_is_enough_to_choose_the_side(sign):
    values = sign * np.append(SKEWED, -1.2 * SKEWED.max())
    expected = index.one_sided(np.sort(-sign * values)[::-1], N + 1)
    assert told(tails.diagnose(values)) == pytest.approx(told(expected), rel=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("far", [[-1e9], [1e9], [-1e9, 1e9, 2e9]])
def test_the_index_is_of_the_others_where_some_lie_apart_and_the_interval_of_both(sign, far):
    values = sign * np.append(SKEWED, far)
    n = len(values)
    up = far[-1] > 0  # the side that reaches further
    every = index.one_sided(np.sort(values if up == (sign > 0) else -values)[::-1], n)
    rest = index.one_sided(np.sort(SKEWED)[::-1], n)
    report = tails.diagnose(values)
    assert (report.apart, report.clear) == (len(far), False)
    assert (report.index, report.fitted) == pytest.approx((rest.index, rest.fitted), rel=1e-3)
    assert report.low == pytest.approx(min(rest.low, every.low), rel=1e-3)
    assert report.high == pytest.approx(max(rest.high, every.high), rel=1e-3)
    assert report.likely == pytest.approx(min(rest.likely, every.likely), rel=1e-3)


@pytest.mark.parametrize("far", [[1e4], [1e4, -1e4, 3e4]])
def test_of_both_sides_too_the_index_is_of_the_others(far):
    values = np.append(np.random.default_rng(1).standard_normal(2000), far)
    report, top = tails.diagnose(values), deviations(values)
    assert report.apart == len(far)
    rest = index.symmetric(top[len(far) :], len(values))
    every = index.symmetric(top, len(values))
    assert (report.index, report.fitted) == pytest.approx((rest.index, rest.fitted))
    assert report.low == pytest.approx(min(rest.low, every.low))
    assert tails.diagnose(values[:2000]).apart == 0


def test_each_end_is_the_farther_of_with_and_without_those_apart(monkeypatch):
    for swap in (1, -1):
        answers = [index.Estimate(5.0, 4.0, 6.0, 4.5), index.Estimate(3.0, 2.0, 7.0, 2.5)][::swap]
        last = answers[-1].index
        monkeypatch.setattr(monitor, "symmetric", lambda *_, answers=answers: answers.pop(0))
        report = tails.diagnose(np.append(np.linspace(-1.0, 1.0, 500), 1e3))
        assert told(report) == (last, 2.0, 7.0, 2.5)


@pytest.mark.parametrize("size", [0.0, 0.7, 1.0, 9.0])
def test_the_values_that_hold_half_of_the_sum_of_squares_are_counted(size):
    values = np.random.default_rng(2).standard_normal(500)
    values[:12] += size * np.arange(12)
    squares = deviations(values) ** 2
    expected = 1 + int(np.argmax(np.cumsum(squares) / squares.sum() > 0.5))
    assert (expected <= 10) == (size >= 1.0)
    assert tails.diagnose(values).outliers == (expected if expected <= 10 else 0)


def test_ten_values_are_few_and_a_sum_past_all_numbers_has_no_half():
    for many, count in ((10, 10), (11, 0)):  # so many of 1 hold half, and a trifle more, of all
        values = np.concatenate([np.ones(many), -np.ones(many - 1), np.zeros(300)])
        assert tails.diagnose(values).outliers == count
    values[:3] = 1e200
    assert tails.diagnose(values).outliers == 0


def test_neither_shift_nor_unit_makes_a_symmetric_sample_another():
    plain = tails.diagnose(SYMMETRIC)
    for shift in (-1e3, 1e3):
        moved = tails.diagnose(SYMMETRIC + shift)
        assert not moved.skewed
        assert moved.index == pytest.approx(plain.index, rel=1e-6)
    small = tails.diagnose(1e-7 * SYMMETRIC)
    assert small.top_share == pytest.approx(plain.top_share, rel=1e-9)
    assert small.suggested.scale == pytest.approx(1e-7 * plain.suggested.scale, rel=1e-9)


@pytest.mark.parametrize(("stretch", "skewed"), [(1.9, False), (2.1, True), (2.0, False)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_sample_is_skewed_where_one_side_reaches_twice_as_far(stretch, skewed, sign):
    """The reach of a side is its value at a twentieth of the sample: here ±1, stretched above."""
    values = np.arange(-1000, 1001) / 1000.0
    reach = np.where(values > 0.0, stretch * values, values)
    assert tails.diagnose(sign * np.append(reach, [-1e3, 1e3])).skewed == skewed
    # Where the hundredth of 2,001 leaps it is seen, where only those beyond do it is not.
    for cut, seen in [(99, False), (100, True)]:
        far = values.copy()
        far[-cut:] += 5.0
        assert tails.diagnose(sign * far).skewed == seen


def test_hills_need_five_values_and_one_beyond():
    assert [h.count for h in tails.diagnose(SYMMETRIC[:1700]).hills] == [5, 17, 51, 170]
    assert [h.count for h in tails.diagnose(SYMMETRIC[:1600]).hills] == [16, 48, 160]
    stream = tails.TailMonitor(keep=600)
    stream.update(SYMMETRIC)
    assert [h.count for h in stream.report().hills] == [20, 60, 200]


def test_a_share_of_few_values_is_that_of_the_largest_one():
    values = SYMMETRIC[:500]
    top = deviations(values)
    assert tails.diagnose(values).top_share == pytest.approx(top[0] / top.sum(), rel=1e-9)
    assert tails.diagnose(np.full(60, 2.5)).top_share == 0.0


def test_nothing_is_said_of_fewer_than_50_values():
    with pytest.raises(ValueError, match="at least 50 values"):
        tails.diagnose(SYMMETRIC[:49])
    with pytest.raises(ValueError, match="at least 50 values to be looked at; got 0"):
        tails.diagnose([])
    assert tails.diagnose(SYMMETRIC[:50]).count == 50
    stream = tails.TailMonitor()
    with pytest.raises(ValueError, match="got 0"):
        stream.report()
    stream.update(SYMMETRIC[:49])
    with pytest.raises(ValueError, match="got 49"):
        stream.report()


def test_too_few_values_beyond_the_centre_have_no_tail():
    for values in (np.ones(60), np.append(np.ones(58), [2.0, 0.0])):
        report = tails.diagnose(values)
        assert told(report) == (math.inf, 0.0, math.inf, 0.0)
        assert report.suggested is None
        assert report.advice.startswith("Too few values to tell")
    lone = tails.TailMonitor(keep=2)
    lone.update(SYMMETRIC)
    assert lone.report().index == math.inf
    three = tails.TailMonitor(keep=3)
    three.update(SYMMETRIC)
    assert 0.0 < three.report().low < math.inf


def test_a_streams_centre_is_the_median_of_its_first_thousand():
    stream = tails.TailMonitor(keep=N)
    for part in (SYMMETRIC[:600], SYMMETRIC[600:999]):
        stream.update(part)
    early = stream.report()
    assert early.centre == np.median(SYMMETRIC[:999])
    assert stream.count == 0  # not settled yet
    stream.update(SYMMETRIC[999:1000])
    assert stream.count == 1000
    stream.update(SYMMETRIC[1000:])
    assert stream.report().centre == np.median(SYMMETRIC[:1000])
    at_once = tails.TailMonitor(keep=N)
    at_once.update(SYMMETRIC)
    assert str(at_once.report()) == str(stream.report())


@pytest.mark.parametrize("values", [SYMMETRIC, SKEWED + 1.0, -SKEWED - 1.0])
def test_little_memory_holds_the_largest_and_the_smallest(values):
    stream = tails.TailMonitor(keep=50)
    for part in np.array_split(values, 11):
        stream.update(part)
    ordered = np.sort(values)[::-1]
    assert np.array_equal(stream._high, ordered[:50])
    assert np.array_equal(stream._low, ordered[::-1][:50])
    size = np.abs(values - np.median(values[:1000]))
    assert stream._sum == pytest.approx(size.sum(), rel=1e-9)
    assert np.array_equal(stream._deviations(*stream._sides()), np.sort(size)[::-1][:50])


@pytest.mark.parametrize("keep", [N // 2 - 1, N // 2, N // 2 + 1, N - 1, N, N + 1])
def test_up_to_twice_the_memory_every_value_is_known_and_counted_once(keep):
    stream = tails.TailMonitor(keep=keep)
    stream.update(SYMMETRIC)
    expected = np.sort(np.abs(SYMMETRIC - np.median(SYMMETRIC[:1000])))[::-1]
    known = expected[: N if 2 * keep >= N else keep]
    assert np.array_equal(stream._deviations(*stream._sides()), known[known > 0.0])


def test_the_default_memory_is_8192_values_a_side():
    assert tails.TailMonitor().keep == 8192
    with pytest.raises(ValueError, match="keep"):
        tails.TailMonitor(keep=0)
    assert tails.TailMonitor(keep=1).keep == 1


def test_orders_are_a_grid_of_twentieths_up_to_2():
    np.testing.assert_allclose(monitor.ORDERS, np.linspace(1.05, 2.0, 20), rtol=1e-12)


@pytest.mark.parametrize(
    ("low", "order"),
    [
        (1.5, 1.35),  # 1 + 0.75 (low - 1) is 1.375, rounded down to the grid
        (1.4, 1.3),  # on the grid
        (1.0001, 1.05),
        (2.3, 1.95),
        (2.4, 2.0),
        (9.0, 2.0),
    ],
)
def test_the_suggested_order_is_three_quarters_of_the_way_to_the_low_end(low, order):
    stream = tails.TailMonitor(keep=N)
    stream.update(SYMMETRIC)
    bound = stream._suggest(low)
    assert bound.order == pytest.approx(order, rel=1e-12)
    size = np.abs(SYMMETRIC - np.median(SYMMETRIC[:1000]))
    assert bound.power == pytest.approx(np.mean(size**order), rel=1e-9)


def test_no_bound_is_suggested_without_a_mean_or_a_spread_or_past_the_range():
    stream = tails.TailMonitor(keep=100)
    stream.update(SYMMETRIC)
    assert stream._suggest(1.0) is None
    assert stream._suggest(0.7) is None
    assert tails.diagnose(np.ones(60)).suggested is None
    values = np.random.default_rng(0).standard_t(3.0, 2000)
    huge = tails.diagnose(1e150 * values)
    assert huge.suggested is None
    assert "do not tell whether the variance is finite" in huge.advice
    assert "a mean" not in huge.advice
    endless = tails.diagnose(1e306 * values)  # even the sum is past the range
    assert (endless.suggested, endless.top_share) == (None, 0.0)


def test_values_are_a_row_of_numbers():
    for bad in ("abc", [True] * 60, [[1.0]], [1j] * 60):
        with pytest.raises(TypeError, match="one-dimensional array of them"):
            tails.diagnose(bad)
    for kind in (np.int32, np.uint8, np.float32):
        assert tails.diagnose(np.arange(60).astype(kind)).centre == 29.5


def test_a_stream_comes_one_by_one_too():
    one, all_at_once = tails.TailMonitor(keep=100), tails.TailMonitor(keep=100)
    for value in SYMMETRIC[:300].tolist():
        one.update(value)
    all_at_once.update(SYMMETRIC[:300])
    assert str(one.report()) == str(all_at_once.report())


@pytest.mark.parametrize(
    ("up", "down", "n"), [(30, 10, 60), (10, 30, 60), (20, 20, 40), (49, 48, 98)]
)
def test_where_many_are_the_centre_a_share_is_of_twice_the_larger_side(up, down, n):
    values = np.concatenate([np.zeros(100), np.arange(1.0, up + 1), -np.arange(1.0, down + 1)])
    stream = tails.TailMonitor(keep=len(values))
    stream._begin(values)
    stream._take(values)
    assert stream._spread() == n


@pytest.mark.parametrize(
    ("low", "likely", "high", "order"),
    [
        (1.5, 1.8, 3.0, 1.35),  # by the lower end, whatever is likely
        (0.9, 1.8, 3.0, 1.05),
        (1.0, 1.001, 3.0, 1.05),
        (0.9, 1.0, 3.0, None),
        (0.9, 1.8, math.inf, None),  # too few to tell: by the lower end alone
        (1.5, 1.8, math.inf, 1.35),
        (1.9, 9.0, math.inf, 1.65),
    ],
)
def test_the_order_is_by_the_lower_end_and_the_least_where_the_mean_is_only_likely(
    monkeypatch, low, likely, high, order
):
    found = index.Estimate(index=2.0, low=low, high=high, likely=likely)
    monkeypatch.setattr(monitor, "symmetric", lambda *_: found)
    bound = tails.diagnose(SYMMETRIC).suggested
    assert (bound and bound.order) == order


def test_where_fits_disagree_no_bound_rests_on_what_is_only_likely(monkeypatch):
    for agree in (True, False):
        found = index.Estimate(2.0, 0.9, 3.0, 1.8, fitted=77, agree=agree)
        monkeypatch.setattr(monitor, "symmetric", lambda *_, found=found: found)
        report = tails.diagnose(SYMMETRIC)
        assert (report.suggested is not None) == agree
        assert (report.fitted, report.agree) == (77, agree)


WHOLE = {
    "Poisson(3)": lambda rng: rng.poisson(3.0, 2000),
    "binomial": lambda rng: rng.binomial(20, 0.15, 2000),
    "normal": lambda rng: np.round(rng.standard_normal(2000)),
    "geometric": lambda rng: rng.geometric(0.3, 2000),
}


@pytest.mark.parametrize("law", WHOLE)
def test_whole_numbers_are_not_heavy_for_being_whole(law):
    for seed in range(10):
        values = WHOLE[law](np.random.default_rng(seed))
        report = tails.diagnose(values)
        assert not report.heavy
        stream = tails.TailMonitor(keep=1000)
        stream._begin(values)
        stream.update(values[::-1])
        assert str(stream.report()) == str(report)


def test_a_tail_that_was_rounded_is_as_heavy_as_before():
    values = 1.0 + np.random.default_rng(0).pareto(1.6, N)
    assert abs(tails.diagnose(np.round(values)).index - 1.6) < 0.2


def test_a_stream_leaves_out_the_innermost_of_equal_values_as_more_may_have_gone_by():
    values = np.random.default_rng(0).poisson(3.0, N)
    stream = tails.TailMonitor(keep=2000)
    stream.update(values)
    high, low = stream._sides()
    counts = np.bincount(values)
    assert len(high) == counts[6:].sum()  # 5 is cut in two by the edge
    assert len(low) == counts[:1].sum()
    assert high.min() > 5.5
    every = tails.TailMonitor(keep=N)
    every.update(values)
    assert np.array_equal(every._sides()[0][: len(high)], high)


def test_a_stream_keeps_all_of_a_side_that_is_hardly_more_than_one_value():
    values = np.append(np.repeat([0.0, 1.0], 5000), [9.0, 8.0])
    stream = tails.TailMonitor(keep=100)
    stream.update(values)
    assert len(stream._sides()[0]) == 100
    assert not stream._sides()[1].any()
