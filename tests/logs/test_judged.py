"""What a referee and a breaker found in logs, each by its smallest case."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.logs import SNIPS, Betting, Catoni, Clipped, estimates
from heavytail.logs.sketch import Sketch


def simple(reward, propensity=None):
    n = len(reward)
    p = np.ones(n) if propensity is None else propensity
    return {"action": np.zeros(n, int), "reward": np.asarray(reward, float), "propensity": p}


@pytest.mark.parametrize("paid", [1, 3, 6, 8, 11])
@pytest.mark.parametrize("shift", [0.0, -7.0])
def test_a_few_rewards_among_zeros_are_not_taken_for_outliers(paid, shift):
    reward = np.zeros(1_000) + shift
    reward[10 : 10 + paid] += 100.0
    found = ht.evaluate(simple(reward), np.ones(1_000), bound=Betting(floor=shift))
    assert found.value == pytest.approx(reward.mean(), rel=1e-9)
    blocks = ht.evaluate(
        simple(reward), np.ones(1_000), estimator=SNIPS(mean="minsker-ndaoud"), bound=None
    ).value
    assert blocks > shift or paid < 3


def test_no_interval_is_guaranteed_for_a_biased_method():
    rng = np.random.default_rng(0)
    action = (rng.random(400) < 0.98).astype(int)
    log = {"action": action, "reward": np.where(action == 0, 1.0, 0.2),
           "propensity": np.array([0.02, 0.98])[action]}  # fmt: skip
    a, b = (lambda rows, k=k: np.tile(np.eye(2)[k], (len(rows.action), 1)) for k in (0, 1))
    tail = ht.MomentBound(order=2.0, scale=8.0)
    found = ht.compare(log, a, b, estimator=Clipped(clip=2.0), bound=Catoni(tail))
    assert (found.lower, found.guaranteed) == (None, False)
    assert "biased" in found.reason
    assert ht.compare(log, a, b, bound=Catoni(tail)).guaranteed


def test_bounds_of_a_growing_log_hold_together():
    """Bets that aim at each length anew are right one by one, and too often wrong together."""
    ever = 0
    sizes, growing = (40, 120, 360, 1_080), Betting(growing=True)
    for seed in range(60):
        reward = np.random.default_rng(seed).integers(0, 2, max(sizes)).astype(float)
        lower = [
            ht.evaluate(simple(reward[:n]), np.ones(n), level=0.8, bound=growing).lower
            for n in sizes
        ]
        ever += max(lower) > 0.5
    assert ever <= 0.2 * 60


def test_a_target_cannot_write_into_the_callers_arrays():
    log = simple(np.arange(10.0))

    def bad(rows):
        rows.reward[:] = 7.0
        return np.ones(len(rows.action))

    with pytest.raises(ValueError, match="read-only"):
        ht.evaluate(log, bad)
    assert log["reward"][3] == 3.0
    log["reward"][3] = 4.0  # the caller still may


def test_one_long_row_does_not_fill_the_memory():
    rows = [[1.0]] * 20_000
    rows[7] = [1e-3] * 1_000
    log = {**simple(np.ones(20_000)), "probabilities": rows}
    with pytest.raises(ValueError, match=r"row 7.*'probabilities'"):
        ht.evaluate(log, np.ones(20_000))


def test_smoothed_estimates_of_cells_are_from_below():
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(0.0, 0.01, 4_000)) * 1.001  # all in one cell or two
    exact, binned = Sketch(x), Sketch(x, limit=10)
    assert len(binned.cells().mean) <= 3
    for end in (estimates.log_smoothing, estimates.log_sum_exp):
        for strength in (0.3, 3.0):
            assert end(binned, strength) < end(exact, strength)
            assert end(binned, strength) == pytest.approx(end(exact, strength), rel=1e-4)
