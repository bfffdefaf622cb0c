"""Sketches merge, in any split, to the whole."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.logs.drawing import draw

import heavytail as ht
from heavytail.logs import SNIPS, means
from heavytail.logs.reading import source
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.source import merged
from heavytail.logs.reading.spread import map_chunks
from heavytail.logs.sketch import Pairs, Sketch, cell_numbers, epochs
from heavytail.logs.summary import Plan, summarise
from heavytail.logs.target import Target


def both_signs(seed: int, n: int = 4000):
    rng = np.random.default_rng(seed)
    x = rng.standard_t(1.2, n) * 10.0 ** rng.integers(-3, 4, n)
    return np.where(rng.random(n) < 0.1, 0.0, x)


@pytest.mark.parametrize("limit", [10, 1000, 10**6])
def test_any_split_of_a_sketch_merges_to_the_whole(limit):
    x = both_signs(0)
    whole = Sketch(x, epochs(0, len(x)), limit=limit).cells()
    for cuts in ([1], [100, 3000], [7, 8, 9, 2000]):
        parts = [
            Sketch(x[a:b], epochs(a, b - a), limit=limit)
            for a, b in zip([0, *cuts], [*cuts, len(x)], strict=True)
        ]
        joined = merged(parts).cells()
        for one, two in zip(whole, joined, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("limit", [10, 10**6])
def test_any_split_of_pairs_merges_to_the_whole(limit):
    u, v = np.abs(both_signs(1)), both_signs(2)
    whole = Pairs(u, v, limit=limit).cells()
    parts = zip(np.split(u, 8), np.split(v, 8), strict=True)
    joined = merged(Pairs(a, b, limit=limit) for a, b in parts).cells()
    for one, two in zip(whole, joined, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-6)


def test_merging_changes_neither_part():
    one, two = (Sketch(both_signs(k), limit=10) for k in (3, 4))
    before = [np.copy(c) for c in one.cells()], [np.copy(c) for c in two.cells()]
    assert (one + two).cells().count.sum() == 8000
    for sketch, old in zip((one, two), before, strict=True):
        for a, b in zip(sketch.cells(), old, strict=True):
            assert np.array_equal(a, b)


def test_cells_hold_their_values_and_are_at_most_a_64th_wide():
    x = both_signs(5)
    cells = Sketch(x, limit=10).cells()
    assert cells.count.sum() == len(x)
    assert np.all((cells.low <= cells.mean) & (cells.mean <= cells.high))
    some = cells.low > 0
    assert np.all(cells.high[some] / cells.low[some] < 1 + 1 / 64 + 1e-15)
    at = np.searchsorted(cells.low, x, side="right") - 1
    assert np.all((cells.low[at] <= x) & (x <= cells.high[at]))
    assert cells.count @ cells.mean == pytest.approx(x.sum())


def test_cells_reach_over_all_doubles():
    ends = np.array([1e-308, 2.3e-308, 1.0, 1.7e308])
    numbers = cell_numbers(np.concatenate([-ends[::-1], [0.0], ends]), 64)
    assert np.all(np.diff(numbers) > 0)
    assert np.all(cell_numbers(np.array([5e-324, -5e-324]), 64) == 0)  # as good as 0
    assert np.all(np.abs(numbers) < 2**18)


@pytest.mark.parametrize("arm", [1, 9])
def test_means_of_cells_are_those_of_the_pairs(arm):
    d = draw(1, n=5000, arm=arm)
    u, v = d.weight, d.weight * d.reward
    exact, binned = Pairs(u, v).cells(), Pairs(u, v, limit=10).cells()
    assert len(binned.u) < len(exact.u)
    assert means.plain_mean(binned).value == pytest.approx(means.plain_mean(exact).value)
    assert means.huber(binned).value == pytest.approx(means.huber(exact).value, rel=2e-3)
    one, two = means.catoni_mean(exact, 0.05), means.catoni_mean(binned, 0.05)
    assert two.value == pytest.approx(one.value, rel=2e-3)


def test_the_largest_are_the_largest_in_size():
    x = both_signs(6)
    top = Sketch(x).largest(50, 10**6)
    assert np.array_equal(np.sort(np.abs(top)), np.sort(np.abs(x))[-50:])
    assert len(Sketch(x).largest(4000, 100)) == 100


def test_chunks_of_any_size_give_the_same_evaluation(monkeypatch):
    d = draw(2, n=3000)
    whole = ht.evaluate(d.log, d.target)
    for size in (131, 700):
        monkeypatch.setattr(source, "map_chunks", functools.partial(map_chunks, size=size))
        parts = ht.evaluate(d.log, d.target)
        assert (parts.value, parts.lower) == pytest.approx((whole.value, whole.lower), rel=1e-12)
        assert parts.advice == whole.advice


def test_summaries_of_chunks_with_fewer_actions_merge():
    plan = Plan(SNIPS(), None)
    ones = np.ones(3)
    target = Target(lambda _: ones)
    few = Rows("log", 0, np.zeros(3, int), ones, ones)
    more = Rows("log", 3, np.array([0, 4, 2]), ones, ones)
    both = merged([summarise(few, target, plan), summarise(more, target, plan)])
    assert both.played.tolist() == [4, 0, 1, 0, 1]


@pytest.mark.parametrize("limit", [10, 1000])
def test_the_largest_are_so_in_size(limit):
    values = np.array([4.0, -8.0, 1.0, -2.0, 0.0, 16.0, -1.0, 2.0, -4.0, 32.0, 64.0])
    sketch = Sketch(values, limit=limit)
    assert list(sketch.largest(4, 10)) == [64.0, 32.0, 16.0, -8.0]
