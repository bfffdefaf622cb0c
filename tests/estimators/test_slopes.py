"""Intervals of slopes and of means, and what is added where theta moves."""

from __future__ import annotations

import numpy as np
import pytest
from tests.estimators.test_regression import KINDS

import heavytail as ht
from heavytail.kernels.jit import compiled

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

from heavytail.estimators import start
from heavytail.estimators.rows import ROW


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [30, 300])
def test_without_a_constant_a_slope_is_the_response_at_a_unit_vector(kind, rows):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 3)) * [1.0, 10.0, 0.1]
    y = X @ [1.0, -0.2, 3.0] + rng.standard_t(1.7, rows)
    model = kind(fit_intercept=False, level=0.8).fit(X, y)
    mean, low, high = model.predict(np.eye(3), return_interval=True)
    np.testing.assert_allclose(model.coef_, mean, rtol=1e-12)
    np.testing.assert_allclose(model.coef_interval(), [low, high], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_slopes_hold_about_as_often_as_they_say(kind):
    slopes, held = np.array([1.0, -0.2, 3.0]), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
        model = kind().fit(X, X @ slopes + 7.0 + rng.standard_t(2.1, 300))
        low, high = model.coef_interval()
        held.append((low <= slopes) & (slopes <= high))
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_rows_as_coefficients_say_nothing_of_a_slope(kind):
    model = kind().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]], [1.0, 2.0, 3.0])
    low, high = model.coef_interval()
    assert np.all(np.isinf(low))
    assert np.all(np.isinf(high))


@pytest.mark.parametrize("name", ["AdaptiveHuberRegressor", "OnePassHuberRegressor"])
def test_rows_that_are_met_exactly_take_few_steps(name, monkeypatch):
    """What is left is rounding, on which a scale would turn for ever."""
    solved = []
    before = start._least_squares
    monkeypatch.setattr(start, "_least_squares", lambda *a: solved.append(1) or before(*a))
    X = np.random.default_rng(0).normal(size=(3, 100))
    y = np.array([1.0, 2.0, 3.0])
    model = getattr(ht, name)().fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-5)
    assert len(solved) < 100


@pytest.mark.parametrize(
    ("noise", "shift"), [("Pareto", 0.0), ("Burr", 0.0), ("wrong rows", 2.0), ("normal", 0.0)]
)
def test_intervals_of_adaptive_huber_hold_the_mean_that_its_threshold_misses(noise, shift):
    """Without what was cut off none or few would: it is told in doubt, on the side of the tail."""
    held, slopes, n = [], [], 800
    for seed in range(25):
        rng = np.random.default_rng([41, seed])
        X = rng.normal(size=(n, 3))
        errors = {
            "Pareto": rng.pareto(1.6, n) - 1.0 / 0.6,
            "Burr": (rng.random(n) ** -1.25 - 1.0) ** 0.5 - 2.2772,  # (1 + x²)^-0.8: index 1.6
            "wrong rows": rng.standard_normal(n) + 40.0 * (rng.random(n) < 0.05),
            "normal": rng.standard_normal(n),
        }[noise]
        model = ht.AdaptiveHuberRegressor().fit(X, X @ [1.0, -2.0, 0.5] + errors)
        Q = rng.normal(size=(20, 3))
        truth = Q @ [1.0, -2.0, 0.5] + shift
        _, low, high = model.predict(Q, return_interval=True)
        held.append(np.mean((low <= truth) & (truth <= high)))
        low, high = model.coef_interval()
        slopes.append(np.mean((low <= [1.0, -2.0, 0.5]) & ([1.0, -2.0, 0.5] <= high)))
        doubt = model.model_.doubt(Q)
        assert doubt.shape == (1, 20)
        assert (doubt.mean() > 0.0) == (noise != "normal")
    assert np.mean(held) > 0.8
    assert np.mean(slopes) > 0.9


@pytest.mark.compiled
@pytest.mark.parametrize("kind", [ht.OnePassHuberRegressor, ht.OnlineRidge])
@pytest.mark.parametrize("noise", ["normal", "t(2)"])
@pytest.mark.parametrize("moves", ["turns", "turns soon", "walks", "comes back"])
def test_intervals_hold_a_slope_that_moves_where_rows_are_forgotten(kind, noise, moves):
    """A turn in 25 memories or in 1.5, steps of 0.03 a row, or 0.98 of what it was plus 0.2;
    without what theta moved by a half held.
    """
    held, plain, n, memory = [], [], 3000, 100
    for seed in range(10):
        rng = np.random.default_rng([42, seed])
        X = rng.normal(size=(n, 2))
        angle = (
            2.0
            * np.pi
            * (rng.random() + np.arange(n) / ((1.5 if "soon" in moves else 25.0) * memory))
        )
        theta = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        if moves == "walks":
            theta = np.cumsum(0.03 * rng.normal(size=(n, 2)), axis=0)
        if moves == "comes back":
            theta = 0.2 * rng.normal(size=(n, 2))
            for t in range(1, n):
                theta[t] += 0.98 * theta[t - 1]
        errors = rng.standard_normal(n) if noise == "normal" else rng.standard_t(2.0, n)
        y = np.sum(X * theta, axis=1) + 0.5 * errors
        model = kind(forget=1.0 - 1.0 / memory)
        for first in range(0, n, 250):
            rows = slice(first, first + 250)
            model.partial_fit(X[rows], y[rows])
            low, high = model.coef_interval()
            now = theta[first + 249]
            if first >= 500:
                held.append((low <= now) & (now <= high))
                inner = model.model_
                error = 2.0 * inner.reading.slopes_error * np.sqrt(np.diag(inner.inverse)[:2])
                plain.append(np.abs(now - model.coef_) <= error)
    assert np.mean(held) > 0.9
    assert np.mean(plain) < np.mean(held) - 0.1


def test_what_theta_moved_by_is_the_lag_of_a_mean_over_the_memory():
    """Of least squares on a level that rises by 1 a row, the lag is that of a running mean."""
    n, memory = 400, 20
    X, y = np.resize([[1.0], [-1.0]], (n, 1)), np.arange(float(n))
    model = ht.OnlineRidge(forget=1.0 - 1.0 / memory).fit(X, y)
    behind = memory - 1.0
    assert y[-1] - model.intercept_ == pytest.approx(behind, rel=0.02)
    assert model.model_.doubt(np.zeros((1, 1)))[1, 0] == pytest.approx(behind, rel=0.02)
    assert model.model_.reading.moved[1] == pytest.approx(memory**2, rel=0.05)


@pytest.mark.parametrize("comes_back", [0.0, 0.03], ids=["walks", "comes back"])
def test_what_steps_have_in_common_is_the_mean_square_of_what_a_level_is_ahead_by(comes_back):
    """Of a level without noise: (theta - f)² before a row, and the mean of steps' products."""
    rng = np.random.default_rng(12)
    n, memory, level = 20_000 if compiled() else 3000, 60, 0.0
    X, levels = np.resize([[1.0], [-1.0]], (n, 1)), np.zeros(n)
    for t, move in enumerate(rng.normal(size=n)):
        levels[t] = level = (1.0 - comes_back) * level + move
    model, squares = ht.OnlineRidge(forget=1.0 - 1.0 / memory), []
    for first in range(0, n, memory // 3):
        rows = slice(first, first + memory // 3)
        if first >= 10 * memory:
            ahead = (levels[first] - model.intercept_) ** 2
            squares.append((ahead, model.model_.M[ROW.MOVED, 1]))
        model.partial_fit(X[rows], levels[rows])
    measured, stated = np.mean(squares, axis=0)
    assert stated == pytest.approx(measured, rel=0.2 if compiled() else 0.5)


def test_noise_alone_adds_nothing_to_the_error_of_a_level_that_stays():
    """Steps that follow noise are taken back by those after them: their products are below 0."""
    n, memory = 20_000 if compiled() else 3000, 60
    y = np.random.default_rng(13).normal(size=n)
    model = ht.OnlineRidge(forget=1.0 - 1.0 / memory).fit(np.resize([[1.0], [-1.0]], (n, 1)), y)
    assert abs(model.model_.M[ROW.MOVED, 1]) < 3.0 / memory
    assert model.model_.reading.moved[1] < 1.0 / memory


def test_nothing_is_added_for_a_theta_that_stays():
    X, y = np.resize([[1.0], [-1.0]], (400, 1)), np.arange(400.0)
    still = ht.OnlineRidge().fit(X, y)
    assert still.model_.doubt(np.zeros((1, 1))).shape == (1, 1)
