"""Most values are the same, as in a shop: the tail is that of the others."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail.tails import diagnose

LAWS = {
    "lomax": (lambda rng, n: 20.0 * rng.pareto(1.5, n), 1.2, 2.3),
    "mixture": (lambda rng, n: rng.uniform(0.3, 3.0, n) * (1.0 + rng.pareto(1.5, n)), 1.2, 3.0),
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 4.0, np.inf),
}


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("law", LAWS)
def test_zeros_do_not_hide_the_tail(law, share):
    draw, low, high = LAWS[law]
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random(10_000) < share, draw(rng, 10_000), 0.0)
        found.append(diagnose(x).index)
    assert low < np.median(found) <= high
    assert np.max(found) < 5.0 or law == "exponential"


@pytest.mark.parametrize(("zeros", "n"), [(0.9, 200), (0.95, 300), (0.99, 200), (0.99, 2000)])
def test_averages_are_not_called_fine_where_hardly_anything_was_sold(zeros, n):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        report = diagnose(np.where(rng.random(n) < zeros, 0.0, 1.0 + rng.pareto(0.7, n)))
        assert "fine" not in report.advice
        assert report.suggested is None or report.suggested.order < 2.0


@pytest.mark.parametrize("index", [0.7, 1.6])
def test_the_interval_holds_the_index_of_few_values(index):
    held = 0
    for seed in range(100):
        report = diagnose(np.random.default_rng(seed).pareto(index, 200))
        held += report.low <= index <= report.high
    assert held >= 88
