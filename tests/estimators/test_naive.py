"""The regressions against plain NumPy versions written from the formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive import estimators as naive

import heavytail as ht

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

from heavytail.estimators.rows import SLOT

LENGTHS = (4, 20, 51, 400)


def table(d, noise, seed=0, n=LENGTHS[-1]):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 3.0, d) + 2.0
    draws = {
        "t": lambda: rng.standard_t(1.7, n),
        "pareto": lambda: rng.pareto(1.5, n),
        "purchases": lambda: np.where(rng.random(n) < 0.2, 20.0 * rng.exponential(size=n), 0.0),
    }
    slopes = np.zeros(d) if noise == "purchases" else np.arange(1.0, d + 1.0)
    return X, X @ slopes + draws[noise](), rng.uniform(0.3, 3.0, n)


def compare(model, twin, X, y, nu, *, rtol=1e-6):
    model.fit(X, y, nu)
    twin.fit(X, y, nu)
    size = 1.0 + np.abs(twin.coef).max()
    np.testing.assert_allclose(model.coef_, twin.coef, rtol=rtol, atol=rtol * size)
    assert model.intercept_ == pytest.approx(twin.constant, rel=rtol, abs=rtol * size)
    assert model.scale_ == pytest.approx(twin.spread, rel=10 * rtol)
    points = X[:: max(1, len(X) // 7)] * 1.5
    pairs = zip(model.predict(points, return_interval=True), twin.predict(points), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=10 * rtol, atol=10 * rtol * size)


KNOBS = {
    "as they come": {},
    "typical": {"target": "typical"},
    "all": {
        "clip": 0.6,
        "ridge": 2.0,
        "standardize": True,
        "level": 0.7,
    },
    "forgetting": {"forget": 0.96},
    "no intercept": {"fit_intercept": False, "clip": 2.0},
    "a scale": {"scale": 2.5},
    "little inside": {"clip": 0.1},
}


@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("noise", ["t", "pareto", "purchases"])
@pytest.mark.parametrize("knobs", KNOBS)
def test_one_pass_huber_is_its_formula_over_rows(d, noise, knobs):
    X, y, _ = table(d, noise)
    for n in LENGTHS:
        options = KNOBS[knobs]
        compare(ht.OnePassHuberRegressor(**options), naive.OnePass(**options), X[:n], y[:n], None)


@pytest.mark.parametrize("d", [2, 11])
def test_row_scales_enter_as_the_formula_says(d):
    X, y, nu = table(d, "pareto", seed=1)
    for options in ({}, {"forget": 0.97, "clip": 0.8}):
        for n in LENGTHS:
            model, twin = ht.OnePassHuberRegressor(**options), naive.OnePass(**options)
            compare(model, twin, X[:n], y[:n], nu[:n])


@pytest.mark.parametrize("d", [1, 6, 7])
@pytest.mark.parametrize("options", [{}, {"forget": 0.9, "clip": 0.7}], ids=str)
def test_the_first_rows_past_the_start_are_steps_of_the_formula(d, options):
    X, y, nu = table(d, "pareto", seed=11, n=60)  # few rows: quick without the compiler too
    compare(ht.OnePassHuberRegressor(**options), naive.OnePass(**options), X, y, nu)


@pytest.mark.parametrize("target", ["mean", "typical"])
def test_within_the_first_memory_no_move_of_theta_is_counted(target):
    X, y, _ = table(2, "t", seed=13, n=110)
    y += np.linspace(0.0, 40.0, 110) * X[:, 0]
    options = {"forget": 0.99, "target": target}
    for n in (60, 99, 110):
        model = ht.OnePassHuberRegressor(**options)
        compare(model, naive.OnePass(**options), X[:n], y[:n], None)
        assert np.any(model.model_.reading.moved > 0.0) == (n > 100)


@pytest.mark.parametrize("noise", ["t", "pareto"])
def test_the_test_of_a_difference_is_its_formula(noise):
    X, y, nu = table(3, noise, seed=2)
    y[:] += (X[:, 0] - 2.0) * (y - y.mean()) / 3.0  # noise of a size that depends on x
    for options in ({}, {"forget": 0.98}, {"fit_intercept": False}):
        for scales in (None, nu):
            model = ht.OnePassHuberRegressor(**options).fit(X, y, scales)
            twin = naive.OnePass(**options).fit(X, y, scales)
            assert model.model_.asymmetry() == pytest.approx(twin.asymmetry, rel=1e-6)
            np.testing.assert_allclose(model.model_.mean_theta, twin.mean.theta, rtol=1e-7)
            assert model.model_.s[SLOT.TAU] == pytest.approx(twin.mean.tau, rel=1e-7)


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}], ids=str)
def test_a_feature_that_does_not_vary_keeps_its_unit(options):
    X, y, _ = table(2, "t", seed=3, n=60)
    X[:, 0] = 3.0
    options = {**options, "standardize": True, "ridge": 2.0}
    for n in (20, 60):
        compare(ht.OnePassHuberRegressor(**options), naive.OnePass(**options), X[:n], y[:n], None)


@pytest.mark.parametrize("units", [(1.0, 1.0), (0.02, 1.0), (1.0, 0.02)])
@pytest.mark.parametrize("column", [0, 1])
def test_a_direction_that_is_no_longer_seen_is_not_forgotten_past_its_start(column, units):
    X, y, _ = table(2, "t", seed=3, n=120)
    X = X * units
    X[60:, column] = X[:60, column].mean()
    options = {"forget": 0.8}
    compare(ht.OnePassHuberRegressor(**options), naive.OnePass(**options), X, y, None, rtol=1e-5)


def test_a_start_in_which_nothing_happened_is_left_as_the_formula_says():
    X, y, _ = table(2, "t", seed=4)
    y[:70] = 0.0
    compare(ht.OnePassHuberRegressor(), naive.OnePass(), X, y, None)
    compare(ht.OnePassHuberRegressor(scale=2.0), naive.OnePass(scale=2.0), X, y, None)
    compare(ht.OnlineRidge(), naive.Ridge(), X, y, None)


def test_a_value_of_less_than_half_of_the_rows_counts_in_the_scale():
    X, y, _ = table(1, "t", seed=9)
    y[::5] = y[1::5] = 0.0  # two rows of five
    for n in (40, 200):
        compare(ht.OnePassHuberRegressor(), naive.OnePass(), X[:n], y[:n], None)


def test_the_scale_falls_after_the_noise_has_gone():
    X, y, _ = table(1, "t", seed=10, n=1000)
    y[60:] = 1.0 + X[60:, 0] + 1e-9 * np.cos(np.arange(940))
    compare(ht.OnePassHuberRegressor(), naive.OnePass(), X, y, None)


@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ridge": 3.0, "standardize": True, "level": 0.6},
        {"forget": 0.9, "fit_intercept": False},
    ],
    ids=str,
)
def test_online_ridge_is_its_formula_over_rows(d, options):
    X, y, nu = table(d, "t", seed=5)
    for n in LENGTHS:
        compare(ht.OnlineRidge(**options), naive.Ridge(**options), X[:n], y[:n], None)
        compare(ht.OnlineRidge(**options), naive.Ridge(**options), X[:n], y[:n], nu[:n])


@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize(
    "options",
    [{}, {"order": 1.3, "ridge": 4.0, "level": 0.6}, {"scale": 0.8, "fit_intercept": False}],
    ids=str,
)
def test_adaptive_huber_is_its_formula(d, options):
    X, y, nu = table(d, "pareto", seed=6)
    for n in LENGTHS[1:]:
        for scales in (None, nu[:n]):
            model, twin = ht.AdaptiveHuberRegressor(**options), naive.Adaptive(**options)
            compare(model, twin, X[:n], y[:n], scales, rtol=1e-5)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("spare", [-1, 0, 1, 2])
def test_adaptive_huber_is_its_formula_on_few_rows(d, spare):
    X, y, _ = table(d, "t", seed=3, n=d + 1 + spare)
    for options in ({}, {"scale": 0.7}):
        model, twin = ht.AdaptiveHuberRegressor(**options), naive.Adaptive(**options)
        compare(model, twin, X, y, None, rtol=1e-5)


@pytest.mark.parametrize("size", [1e12, -1e300])
def test_a_response_far_out_counts_as_the_formula_says(size):
    X, y, _ = table(2, "t", seed=7)
    for at in (3, 200):
        wild = y.copy()
        wild[at] = size
        compare(ht.OnePassHuberRegressor(), naive.OnePass(), X, wild, None)
        compare(ht.AdaptiveHuberRegressor(), naive.Adaptive(), X, wild, None, rtol=1e-5)


@pytest.mark.parametrize("off", [2, 5, 8, 9, 30, 199, 200])
def test_rows_off_a_line_that_more_than_half_lie_on_tell_the_scale_as_the_formula_says(off):
    X, y, nu = table(2, "pareto", seed=9)
    exact = np.where(np.arange(400) % 200 < off // 2, y, X @ [1.0, 2.0] + 4.0)
    for options, scales in (({}, None), ({"order": 1.5}, nu), ({"scale": 0.3}, None)):
        model, twin = ht.AdaptiveHuberRegressor(**options), naive.Adaptive(**options)
        compare(model, twin, X, exact, scales, rtol=1e-5)


def test_the_threshold_of_adaptive_huber_grows_with_the_rows():
    X, y, _ = table(1, "pareto", seed=8)
    for n in (30, 400):
        model = ht.AdaptiveHuberRegressor(order=1.5).fit(X[:n], y[:n])
        want = model.scale_ * (n / (2 + math.log(n))) ** (1 / 1.5)
        assert model.model_.tau(model.scale_) == pytest.approx(want)
