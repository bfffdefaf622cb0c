"""Bounds: their twins, their validity, and what cells do to them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.logs.drawing import draw
from tests.naive import logs as naive

import heavytail as ht
from heavytail.logs import Bernstein, Betting, Catoni, intervals
from heavytail.logs.means import Estimate
from heavytail.logs.sketch import Cells, Sketch, epochs


def test_epochs_are_those_of_the_twin():
    ends = naive.epoch_ends(5000)
    expected = np.repeat(np.arange(len(ends)), np.diff([0, *ends]))
    assert np.array_equal(epochs(0, 5000), expected)
    assert np.array_equal(epochs(1234, 10), expected[1234:1244])


@pytest.mark.parametrize("horizon", [None, 600, 75])
@pytest.mark.parametrize("seed", range(2))
def test_the_betting_bound_equals_its_twin(seed, horizon):
    d = draw(seed)
    x, n = d.weight * d.reward, len(d.reward)
    found = intervals.betting_lower(Sketch(x, epochs(0, n)), 0.05, horizon)
    bets = found.bets[:, epochs(0, n)]
    horizons = [4.0**j for j in range(3, 16)] if horizon is None else [float(horizon)]
    ends = naive.epoch_ends(n)
    for e in range(5, len(ends), 4):
        twin = naive.betting_lower(x[: ends[e]], bets[:, : ends[e]], horizons, 0.05)
        assert found.lower[e] == pytest.approx(twin, rel=1e-8, abs=1e-9)
    assert found.best == max(found.lower)


def test_a_bet_is_the_best_one_for_the_past():
    d = draw(1)
    x, n = d.weight * d.reward, len(d.reward)
    found = intervals.betting_lower(Sketch(x, epochs(0, n)), 0.05, n)
    starts = [0, *naive.epoch_ends(n)]
    for e in (20, 30, 40):  # a grid of a quarter octave, and rough cells
        best = naive.best_bet(x[: starts[e]], 0.05, n)
        assert found.bets[0][e] == pytest.approx(best, rel=0.25)


def test_the_bet_on_rows_that_are_all_alike_is_the_largest_that_is_tried():
    found = intervals.betting_lower(Sketch(np.full(300, 5.0), epochs(0, 300)), 0.05, 300)
    assert np.allclose(found.bets[0, 1:], 8.0 / 5.0)
    assert found.bets[0, 0] == 0.0


def test_bets_do_not_look_ahead():
    d = draw(2)
    x, n = d.weight * d.reward, len(d.reward)
    changed = np.where(np.arange(n) >= 300, 1000.0 * x[::-1], x)
    for horizon in (None, n):
        one = intervals.betting_lower(Sketch(x, epochs(0, n)), 0.05, horizon)
        two = intervals.betting_lower(Sketch(changed, epochs(0, n)), 0.05, horizon)
        same = int(epochs(300, 1)[0]) + 1  # the bet of row 300's epoch is older than row 300
        assert np.allclose(one.bets[:, :same], two.bets[:, :same], rtol=1e-12, atol=0.0)
        assert np.array_equal(one.starts, two.starts)
        assert not np.array_equal(one.bets, two.bets)


def soft(seed: int, uniform: float, n: int = 4000):
    """Weighted rewards of a target that plays the eighth of eight arms but for uniform draws."""
    rng = np.random.default_rng([seed, 29])
    action = rng.integers(8, size=n)
    pi = np.full(8, uniform / 8)
    pi[7] += 1.0 - uniform
    reward = (1.0 + (action == 7)) * np.exp(0.8 * rng.standard_normal(n))
    return 8.0 * pi[action] * reward, (1.0 + pi[7]) * np.exp(0.32)


@pytest.mark.parametrize("horizon", [None, 4000])
def test_a_trace_of_uniform_draws_costs_no_more_than_the_value_loses(horizon):
    for seed in range(3):
        sharp, value = soft(seed, 0.0)
        epoch = epochs(0, len(sharp))
        alone = intervals.betting_lower(Sketch(sharp, epoch), 0.05, horizon).best / value
        for uniform in (1e-6, 0.001, 0.01, 0.1):
            x, value = soft(seed, uniform)
            mixed = intervals.betting_lower(Sketch(x, epoch), 0.05, horizon).best / value
            assert mixed > 0.95 * alone


def test_rows_moved_to_the_front_change_little():
    x, _ = soft(3, 0.01)
    order, epoch = np.argsort(x), epochs(0, len(x))
    found = intervals.betting_lower(Sketch(x, epoch), 0.05, len(x)).best
    for front in (order[:10], order[-500::50]):  # the smallest; ten of the arm that is played
        moved = np.concatenate([x[front], np.delete(x, front)])
        other = intervals.betting_lower(Sketch(moved, epoch), 0.05, len(x)).best
        assert other == pytest.approx(found, rel=0.03)


@pytest.mark.parametrize("unit", [1e-8, 1.3, 3.7, 1e8])
@pytest.mark.parametrize("horizon", [None, 800])
def test_the_unit_of_the_values_is_the_unit_of_the_bound(unit, horizon):
    skewed = np.exp(1.5 * np.random.default_rng(10).standard_normal(800))
    for x in (soft(0, 0.01, n=1000)[0], soft(1, 0.01, n=1000)[0], skewed):
        epoch = epochs(0, len(x))
        one, two = (intervals.betting_lower(Sketch(c * x, epoch), 0.05, horizon) for c in (1, unit))
        assert np.allclose(two.lower, unit * one.lower, rtol=1e-9, atol=0.0)
        assert np.allclose(unit * two.bets, one.bets, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("horizon", [None, 600])
@pytest.mark.parametrize("order", [1.2, 2.0])
def test_the_catoni_sequence_equals_its_twin(order, horizon):
    d = draw(3)
    x, n = d.weight * d.reward, len(d.reward)
    found = intervals.catoni(Sketch(x, epochs(0, n)), ht.MomentBound(order, 3.0), 0.05, horizon)
    ends = naive.epoch_ends(n)
    first = np.repeat([0, *ends[:-1]], np.diff([0, *ends])) + 1.0
    bets = 0.5 * (2.0 * order * np.log(2.0 / 0.05) / first) ** (1.0 / order) / 3.0
    if horizon:
        bet = (order * np.log(2.0 / 0.05) / (2.0 * (order - 1.0) * n)) ** (1.0 / order) / 3.0
        bets = np.full(n, bet)
    assert found == pytest.approx(naive.catoni_sequence(x, bets, order, 3.0, 0.05), rel=1e-6)


@pytest.mark.parametrize("order", [1.05, 1.5, 2.0])
@pytest.mark.parametrize(("far", "near", "side"), [(1.0, 2.0, 1), (2.0, 1.0, -1)])
def test_a_cell_with_the_mean_inside_is_bounded_on_the_safe_side(order, far, near, side):
    """phi bends most at 0: the curvature at the nearer edge is too small there."""
    values = np.array([far, near, near, near])
    one = np.array([4.0]), np.array([values.mean()]), np.array([values.var()])
    cells = Cells(np.zeros(1, int), *one, np.array([1.0]), np.array([2.0]))
    for stake in (1.0, 3.0, 10.0, 100.0):
        exact = intervals._phi(stake * (values - 1.5), order).sum()
        found = intervals._phi_sum(cells, np.array([stake]), 1.5, order, side)
        assert side * (exact - found) >= 0.0


def test_the_empirical_bernstein_bound_equals_its_twin():
    d = draw(4)
    r = np.minimum(d.reward, 2.0)
    log = {**d.log, "reward": r}
    found = ht.evaluate(log, d.target, bound=Bernstein(0, 2, clip=3.0))
    w = np.minimum(d.weight, 3.0)
    assert found.lower == pytest.approx(naive.empirical_bernstein(w * r, 6.0, 0.025))
    assert found.upper == pytest.approx(2.0 - naive.empirical_bernstein(w * (2.0 - r), 6.0, 0.025))


def test_bounds_from_cells_are_never_tighter_than_exact_ones_and_nearly_as_tight():
    for seed in range(6):
        d = draw(seed, n=3000)
        x, epoch = d.weight * d.reward, epochs(0, 3000)
        exact, binned = Sketch(x, epoch), Sketch(x, epoch, limit=10)
        assert exact.exact
        assert not binned.exact
        for horizon in (None, 3000):
            one = intervals.betting_lower(exact, 0.05, horizon)
            two = intervals.betting_lower(binned, 0.05, horizon)
            same_bets = np.allclose(one.bets, two.bets)
            if same_bets:
                assert np.all(two.lower <= one.lower * (1.0 + 1e-9))
            assert two.best == pytest.approx(one.best, rel=1e-2)
            for order in (1.2, 2.0):
                tail = ht.MomentBound(order, 4.0)
                low, high = intervals.catoni(exact, tail, 0.05, horizon)
                lower, higher = intervals.catoni(binned, tail, 0.05, horizon)
                assert low - 1e-3 < lower <= low + 1e-7
                assert high - 1e-7 <= higher < high + 1e-3


def test_the_sequence_holds_at_every_time_on_lomax_rewards_without_a_variance():
    missed = 0
    for seed in range(200):
        d = draw(seed, n=500, tail=1.1)
        x, epoch = d.weight * d.reward, epochs(0, 500)
        bets = intervals.betting_lower(Sketch(x, epoch), 0.05, 500).bets[:, epoch]
        missed += naive.wealth(x, bets, [500.0], d.value).max() > 20.0
    assert missed <= 10


def test_both_ends_of_the_catoni_sequence_hold():
    noise = ht.noise.Lomax(1.8)
    missed = 0
    for seed in range(100):
        x = np.random.default_rng(seed).pareto(1.8, 400)
        sketch = Sketch(x, epochs(0, 400))
        scale = noise.scale(1.5)
        low, high = intervals.catoni(sketch, ht.MomentBound(1.5, 4.0 * scale), 0.1, 400)
        missed += not low <= 1.25 <= high
    assert missed <= 10


def test_a_stated_range_gives_both_bounds_and_each_has_half_of_the_error():
    d = draw(5)
    log = {**d.log, "reward": np.minimum(d.reward, 2.0)}
    one = ht.evaluate(log, d.target, level=0.975)
    both = ht.evaluate(log, d.target, bound=Betting(0.0, 2.0), level=0.95)
    assert both.lower == pytest.approx(one.lower)
    assert both.lower < both.value < both.upper < 2.0
    assert one.upper is None
    assert "Betting(floor, ceiling)" in one.upper_reason


def test_a_floor_shifts_the_bound_with_the_rewards():
    d = draw(6)
    shifted = {**d.log, "reward": d.reward - 5.0}
    one, two = ht.evaluate(d.log, d.target), ht.evaluate(shifted, d.target, bound=Betting(-5.0))
    assert two.lower == pytest.approx(one.lower - 5.0)
    assert two.value == pytest.approx(one.value - 5.0)


def test_scaled_rewards_scale_the_bounds():
    d = draw(7)
    scaled = {**d.log, "reward": 1e4 * d.reward}
    one, two = ht.evaluate(d.log, d.target), ht.evaluate(scaled, d.target)
    assert two.lower == pytest.approx(1e4 * one.lower)
    tail, wide = ht.MomentBound(1.4, 3.0), ht.MomentBound(1.4, 3e4)
    one = ht.evaluate(d.log, d.target, bound=Catoni(tail))
    two = ht.evaluate(scaled, d.target, bound=Catoni(wide))
    assert (two.lower, two.upper) == pytest.approx((1e4 * one.lower, 1e4 * one.upper), rel=1e-6)


def test_the_approximate_interval_is_the_stated_formula():
    d = draw(8)
    w, x = d.weight, d.weight * d.reward
    found = ht.evaluate(d.log, d.target, bound="huber", level=0.9)
    z = naive.huber_order(w)
    m = naive.huber(w, x, z)
    tau = naive.huber_threshold(x - w * m, z)
    index = max(1.1, found.tail.low)
    half = 1.6448536 * found.error + tau * z / w.sum() / (index - 1.0)
    middle = naive.skew_corrected(w, x, z)
    assert found.upper == pytest.approx(middle + half, rel=1e-6)
    assert found.lower == pytest.approx(middle - half, rel=1e-6)


@pytest.mark.parametrize(("low", "index"), [(0.0, 1.1), (1.05, 1.1), (1.6, 1.6)])
def test_what_clipping_may_hide_is_that_of_an_index_of_at_least_1_1(low, index):
    assert intervals.hidden_mean(0.2, low) == pytest.approx(0.2 / (index - 1.0))
    assert intervals.hidden_mean(0.2, np.inf) == 0.0


def test_the_approximate_interval_has_the_error_and_what_may_be_hidden():
    lower, upper = intervals.huber_interval(Estimate(3.0, 0.5), 0.3, 0.95)
    half = 1.959963985 * 0.5 + 0.3
    assert (lower, upper) == pytest.approx((3.0 - half, 3.0 + half))


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_the_bound_in_hindsight_is_that_of_the_likelihood(delta, shift):
    x = np.random.default_rng(20).gamma(0.8, 1.0, 200) + shift
    ones, none = np.ones(200), np.zeros(200)
    found = intervals.hindsight_lower(ones, x, none, delta)
    twin = naive.likelihood_lower(x, delta)
    assert x.mean() - found == pytest.approx(x.mean() - twin, rel=2e-3)
    assert found <= twin * (1.0 + 1e-9)
    assert intervals.hindsight_lower(ones, 1e80 * x, none, delta) == pytest.approx(1e80 * found)


def test_rows_that_never_came_have_the_room_of_log_20_rows():
    """Of n values that are all 1, 0 may come with a probability of 1 - 0.05^(1/n)."""
    for n in (1.0, 60.0):
        found = intervals.hindsight_lower(np.array([n]), np.ones(1), np.zeros(1), 0.05)
        assert found == pytest.approx(0.05 ** (1.0 / n), rel=1e-4)
    assert intervals.hindsight_lower(np.array([9.0]), np.zeros(1), np.zeros(1), 0.05) == 0.0


def test_a_spread_within_cells_lowers_the_bound_in_hindsight():
    x = np.random.default_rng(21).uniform(0.9, 1.1, (300, 2))
    exact = intervals.hindsight_lower(np.ones(600), x.ravel(), np.zeros(600), 0.05)
    cells = intervals.hindsight_lower(np.full(300, 2.0), x.mean(1), x.var(1), 0.05)
    blind = intervals.hindsight_lower(np.full(300, 2.0), x.mean(1), np.zeros(300), 0.05)
    assert cells == pytest.approx(exact, rel=1e-4)
    assert blind > exact * 1.0005


def test_so_many_rows_like_these_bring_the_bound_in_hindsight_where_it_is_wanted():
    x = np.random.default_rng(22).gamma(0.8, 1.0, 50)
    ones, none = np.ones(50), np.zeros(50)
    for least in (0.5 * x.mean(), 0.9 * x.mean()):
        rows = intervals.hindsight_rows(ones, x, none, 0.05, least)
        there = intervals.hindsight_lower(ones * rows / 50.0, x, none, 0.05)
        assert there == pytest.approx(least, rel=1e-3)
    assert intervals.hindsight_rows(ones, x, none, 0.05, x.mean()) == np.inf


def test_nothing_is_bet_while_only_what_the_target_hardly_plays_has_paid():
    w = np.array([0.01, 0.01, 10.0, 10.0, 10.0, 0.01])
    paid = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0]) * w
    on = intervals.ready(np.stack([w, w * w, paid]))
    assert on.tolist() == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    tenth = np.array([[10.0, 1.0], [100.0, 1.0], [0.0, 1.0]])
    assert intervals.ready(tenth).tolist() == [0.0, 1.0]  # 1 of 101/11: more than a tenth
    tenth[2, 1] = 0.9
    assert intervals.ready(tenth).tolist() == [0.0, 0.0]


def test_a_trace_of_uniform_draws_costs_little_where_few_rows_pay():
    """Of 2,000 rows about six of the target's own arm pay; a tenth of the bound may be lost."""
    bounds = np.zeros((25, 3))
    for seed in range(25):
        rng = np.random.default_rng([seed, 23])
        action = rng.integers(10, size=2000)
        reward = (rng.random(2000) < 0.03) * rng.exponential(size=2000)
        log = {"action": action, "reward": reward, "propensity": np.full(2000, 0.1)}
        for k, uniform in enumerate((0.0, 0.001, 0.01)):
            target = np.tile((1.0 - uniform) * np.eye(10)[3] + 0.1 * uniform, (2000, 1))
            bounds[seed, k] = ht.evaluate(log, target).lower
    means = bounds.mean(axis=0)
    assert means[0] > 0.002
    assert np.all(means[1:] > 0.95 * means[0])  # 0.8 and less when betting began with any reward


def test_what_the_target_mostly_plays_has_come_where_a_rows_weight_is_a_fifth():
    paid = np.array([[10.0, 10.0, 20.0, 40.0], [1.9, 2.2, 3.8, 8.2], np.zeros(4)])
    assert intervals.arrived(paid).tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("uniform", [0.0, 0.01])
def test_a_target_that_the_log_could_play_in_few_rows_does_not_wait(uniform):
    """Weights of 2 and 0: their mean stays at a tenth, and that is no reason to wait."""
    waits, plain = [], []
    for seed in range(20):
        rng = np.random.default_rng([seed, 26])
        own = rng.random(500) < 0.05
        w = np.where(own, 2.0 * (1.0 - uniform), uniform)
        x, epoch = w * rng.exponential(size=500), epochs(0, 500)
        paid = np.stack([np.bincount(epoch, part) for part in (w, w * w, w)])
        waits.append(intervals.betting_lower(Sketch(x, epoch), 0.05, 500, paid).best)
        plain.append(intervals.betting_lower(Sketch(x, epoch), 0.05, 500).best)
    assert np.mean(waits) > 0.95 * np.mean(plain) > 0.01


def test_all_parts_but_the_last_to_begin_wait_for_what_the_target_mostly_plays():
    """The wealth by hand: a part holds where it has not begun, or while all weights are small."""
    rng = np.random.default_rng(24)
    w = np.where(np.arange(400) % 100 == 99, 60.0, 0.01)
    x, epoch = w * rng.exponential(size=400), epochs(0, 400)
    paid = np.stack([np.bincount(epoch, part) for part in (w, w * w, w)])
    course = intervals.betting_lower(Sketch(x, epoch), 0.05, 400, paid)
    plain = intervals.betting_lower(Sketch(x, epoch), 0.05, 400)
    assert course.lower[-1] > 1.5 * plain.lower[-1]

    def over(m: float) -> float:
        total = 0.0
        for k, part in enumerate(0.5 ** np.arange(1.0, 5.1, 0.5)):
            wealth, first = (
                1.0,
                np.flatnonzero(epoch == np.min(epoch[epoch >= course.starts[0, k]])),
            )
            assert abs(first[0] - 400 * part) < 0.15 * 400 * part + 1
            for i in range(first[0], 400):
                before = w[epoch < epoch[i]]
                if k == 0 or before @ before >= 0.2 * before.sum():
                    bet = course.bets[0, epoch[i]]
                    wealth *= (1.0 + bet * x[i]) / (1.0 + bet * m)
            total += wealth / 9.0
        return total * 0.05 - 1.0

    assert over(course.lower[-1] * 0.999) > 0.0 > over(course.lower[-1] * 1.001)


@pytest.mark.parametrize(("odds", "rows"), [(0.01, 600), (0.004, 2000)])
def test_a_trace_of_uniform_draws_costs_little_where_the_log_has_few_of_the_targets_rows(
    odds, rows
):
    """Six or eight rows: the first comes after most parts would have begun."""
    bounds, played = np.zeros((25, 3)), np.append(np.full(9, (1.0 - odds) / 9.0), odds)
    for seed in range(25):
        rng = np.random.default_rng([seed, 25])
        action = rng.choice(10, size=rows, p=played)
        log = {"action": action, "reward": rng.gamma(2.0, size=rows), "propensity": played[action]}
        for k, uniform in enumerate((0.0, 0.001, 0.01)):
            target = np.tile((1.0 - uniform) * np.eye(10)[9] + 0.1 * uniform, (rows, 1))
            bounds[seed, k] = ht.evaluate(log, target).lower
    means = bounds.mean(axis=0)
    assert np.all(means[1:] > 0.95 * means[0])  # 0.8 when every part began at its time
    assert np.mean(bounds <= 2.0) > 0.9


def test_a_target_that_the_log_mostly_could_not_play_still_has_a_bound():
    """A mean weight of 0.1: the part that does not wait bets alone."""
    rng = np.random.default_rng(26)
    x = 0.1 * rng.gamma(2.0, size=3000)
    paid = np.stack(
        [np.bincount(epochs(0, 3000), np.full(3000, part)) for part in (0.1, 0.01, 0.1)]
    )
    assert intervals.betting_lower(Sketch(x, epochs(0, 3000)), 0.05, 3000, paid).best > 0.15
