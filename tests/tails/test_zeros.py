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
