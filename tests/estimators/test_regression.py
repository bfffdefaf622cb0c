"""The regressions: scikit-learn's contract, reductions, robustness, intervals, bad input."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pytest

import heavytail as ht
from heavytail.kernels.jit import compiled

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

from heavytail.estimators import stream

KINDS = (ht.OnePassHuberRegressor, ht.OnlineRidge, ht.AdaptiveHuberRegressor)
STREAMS = (ht.OnePassHuberRegressor, ht.OnlineRidge)
LENGTH = 4000 if compiled() else 600


def data(n=LENGTH, d=3, noise="t", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    theta = np.arange(1.0, d + 1.0)
    draws = {
        "t": lambda: rng.standard_t(1.7, n),
        "normal": lambda: rng.standard_normal(n),
        "pareto": lambda: rng.pareto(1.5, n) - 2.0,
        "lognormal": lambda: np.exp(rng.standard_normal(n)) - math.exp(0.5),
    }
    return X, X @ theta + 5.0 + draws[noise](), theta


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_accepts_it_in_every_respect(kind):
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(kind(), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert len(results) > 40


def test_without_a_clip_the_stream_is_ridge_regression_exactly():
    from sklearn.linear_model import Ridge

    X, y, _ = data(noise="normal")
    exact = Ridge(alpha=3.0, tol=1e-12).fit(X, y)
    for model in (ht.OnlineRidge(ridge=3.0), ht.OnePassHuberRegressor(clip=math.inf, ridge=3.0)):
        model.fit(X, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, exact.intercept_, rtol=1e-9)


@pytest.mark.parametrize("alike", [50, 80])
def test_ridge_regression_is_exact_after_a_start_in_which_nothing_happened_too(alike):
    from sklearn.linear_model import Ridge

    X, y, _ = data(200, noise="normal")
    y[:alike] = 0.0
    exact = Ridge(alpha=3.0, tol=1e-12).fit(X, y)
    for model in (ht.OnlineRidge(ridge=3.0), ht.OnePassHuberRegressor(clip=math.inf, ridge=3.0)):
        model.fit(X, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, exact.intercept_, rtol=1e-9)


def test_row_scales_weigh_as_weights_do_in_ridge_regression():
    from sklearn.linear_model import Ridge

    X, y, _ = data(noise="normal")
    scale = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    exact = Ridge(alpha=1.0, tol=1e-12).fit(X, y, sample_weight=scale**-2.0)
    model = ht.OnlineRidge(ridge=1.0).fit(X, y, sample_scale=scale)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_how_rows_are_cut_into_batches_does_not_matter(kind):
    X, y, _ = data(700)
    whole = kind().fit(X, y)
    parts = kind()
    for rows in np.split(np.arange(700), [1, 2, 30, 51, 400]):
        parts.partial_fit(X[rows], y[rows])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    assert parts.intercept_ == whole.intercept_
    assert parts.n_samples_seen_ == 700


@pytest.mark.parametrize("kind", STREAMS)
def test_memory_does_not_grow_with_the_rows(kind):
    X, y, _ = data(400)
    model = kind().partial_fit(X[:60], y[:60])
    before = len(pickle.dumps(model))
    model.partial_fit(X, y)
    assert abs(len(pickle.dumps(model)) - before) < 64


def test_the_batch_solution_is_the_minimiser():
    X, y, _ = data(500)
    model = ht.AdaptiveHuberRegressor(ridge=1e-9).fit(X, y)
    tau = model.model_.tau(model.scale_)
    psi = np.clip(y - model.predict(X), -tau, tau)
    Z = np.column_stack([X, np.ones(500)])
    assert np.max(np.abs(Z.T @ psi)) < 1e-5 * tau


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_changing_the_unit_of_y_changes_the_unit_of_the_answer(unit):
    X, y, _ = data(600)
    model = ht.OnePassHuberRegressor().fit(X, y)
    scaled = ht.OnePassHuberRegressor().fit(X, y * unit)
    np.testing.assert_allclose(scaled.coef_ / unit, model.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.scale_ / unit, model.scale_, rtol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("noise", ["t", "normal", "pareto", "lognormal"])
def test_the_stream_is_nearly_as_good_as_the_full_batch(noise):
    from sklearn.linear_model import HuberRegressor

    ours, theirs = [], []
    for seed in range(6):
        X, y, theta = data(10_000, noise=noise, seed=seed)
        model = ht.OnePassHuberRegressor(target="typical").fit(X, y)
        ours.append(np.linalg.norm(model.coef_ - theta))
        batch = HuberRegressor(alpha=1e-9, max_iter=1000).fit(X, y)
        theirs.append(np.linalg.norm(batch.coef_ - theta))
    assert np.mean(ours) < 1.3 * np.mean(theirs)


@pytest.mark.parametrize(("noise", "wrong"), [("pareto", 1.27), ("lognormal", 0.52)])
def test_under_skewed_noise_the_intercept_is_the_means(noise, wrong):
    X, y, _ = data(noise=noise)
    mean = ht.OnePassHuberRegressor().fit(X, y).intercept_
    typical = ht.OnePassHuberRegressor(target="typical").fit(X, y).intercept_
    assert abs(mean - 5.0) < 0.5 * abs(typical - 5.0)
    if compiled():
        assert abs(abs(typical - 5.0) - wrong) < 0.15


@pytest.mark.parametrize("share", [0.6, 0.9])
@pytest.mark.parametrize("common", [0.0, -7.5])
def test_where_most_responses_are_one_value_the_others_are_still_learned(share, common):
    rng = np.random.default_rng(3)
    n = LENGTH
    X = rng.uniform(size=(n, 2))
    bought = rng.random(n) > share
    y = np.where(bought, (2.0 + X @ [1.0, 3.0]) * rng.exponential(size=n), 0.0) + common
    model = ht.OnePassHuberRegressor().fit(X, y)
    truth = (1.0 - share) * (2.0 + X @ [1.0, 3.0]) + common
    assert 1.0 < model.scale_ < 10.0
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.5 * np.sqrt(
        np.mean((truth - common) ** 2)
    )


def test_a_scale_is_found_after_a_start_in_which_nothing_happened():
    X, y, _ = data(400, noise="normal")
    y[:100] = 0.0
    assert 0.2 < ht.OnePassHuberRegressor().fit(X, y).scale_ < 20.0


def test_under_skewed_noise_the_interval_reaches_further_on_the_tails_side():
    X, y, _ = data(noise="pareto")
    middle = X.mean(axis=0)[None]
    for side in (1.0, -1.0):
        model = ht.OnePassHuberRegressor().fit(X, side * y)
        mean, low, high = model.predict(middle, return_interval=True)
        assert side * (high + low - 2.0 * mean) > 0.0


@pytest.mark.parametrize("at", [0, 60, 599])
@pytest.mark.parametrize("size", [1e12, -1e12, 1e300])
@pytest.mark.filterwarnings("error")
def test_one_huge_response_moves_no_prediction_by_a_percent_of_the_spread(at, size):
    n = 10_000 if compiled() else 600
    X, y, _ = data(n, d=5, noise="normal")
    clean = ht.OnePassHuberRegressor().fit(X, y).predict(X)
    y[at] = size
    moved = ht.OnePassHuberRegressor().fit(X, y).predict(X)
    assert np.max(np.abs(moved - clean)) < (0.01 if compiled() else 0.03) * np.std(clean)


@pytest.mark.compiled
@pytest.mark.parametrize("noise", ["t", "normal", "lognormal"])
def test_intervals_hold_the_mean_about_as_often_as_they_say(noise):
    held = []
    Q = np.random.default_rng(99).normal(size=(20, 3))
    for seed in range(60):
        X, y, theta = data(1000, noise=noise, seed=seed)
        _, low, high = ht.OnePassHuberRegressor().fit(X, y).predict(Q, return_interval=True)
        truth = Q @ theta + 5.0
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert 0.88 < np.mean(held) <= 1.0


def test_a_higher_level_is_a_wider_interval():
    X, y, _ = data(300)
    widths = []
    for level in (0.5, 0.9, 0.99):
        _, low, high = ht.OnePassHuberRegressor(level=level).fit(X, y).predict(X[:5], True)
        widths.append(high - low)
    assert np.all(np.diff(widths, axis=0) > 0.0)


def test_forgetting_follows_a_change_that_remembering_averages():
    X, y, theta = data(2000 if compiled() else 600, noise="normal")
    half = len(y) // 2
    y[half:] -= 2.0 * (X[half:] @ theta)
    new = ht.OnePassHuberRegressor(forget=0.98).fit(X, y)
    old = ht.OnePassHuberRegressor().fit(X, y)
    assert np.linalg.norm(new.coef_ + theta) < 0.5 * np.linalg.norm(old.coef_ + theta)


def test_forgetting_a_direction_that_is_no_longer_seen_stays_finite():
    X, y, _ = data(600, noise="normal")
    X[100:, 0] = 0.0
    model = ht.OnePassHuberRegressor(forget=0.9).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    assert np.max(np.abs(model.model_.M)) < 1e9


def test_standardizing_makes_the_penalty_blind_to_units():
    X, y, _ = data(500)
    unit = np.array([1e-6, 1.0, 1e6])
    plain = ht.OnePassHuberRegressor(standardize=True, ridge=5.0).fit(X, y)
    scaled = ht.OnePassHuberRegressor(standardize=True, ridge=5.0).fit(X * unit, y)
    np.testing.assert_allclose(scaled.coef_ * unit, plain.coef_, rtol=1e-6)


@pytest.mark.parametrize("value", [0.166667, 0.1, 1 / 3, 1e9 + 1 / 3, -7.1e-5, 0.5])
@pytest.mark.parametrize("kind", [ht.OnlineRidge, ht.OnePassHuberRegressor])
def test_a_column_of_one_value_is_told_from_the_intercept(kind, value):
    rng = np.random.default_rng(12)
    X = np.column_stack([rng.normal(size=500), np.full(500, value)])
    y = 2.0 * X[:, 0] + 5.0 + rng.normal(size=500)
    model = kind(standardize=True).fit(X, y)
    assert abs(model.coef_[1]) < 1e-9  # what rounding leaves
    assert model.coef_[0] == pytest.approx(2.0, abs=0.2)
    assert model.intercept_ == pytest.approx(5.0, abs=0.2)


def test_it_works_in_a_pipeline_a_grid_search_and_a_clone():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, _ = data(200)
    pipeline = make_pipeline(StandardScaler(), ht.OnePassHuberRegressor())
    grid = GridSearchCV(pipeline, {"onepasshuberregressor__clip": [0.7, 1.5]}, cv=2).fit(X, y)
    assert grid.best_estimator_.predict(X).shape == (200,)
    assert clone(ht.OnePassHuberRegressor(clip=2.0)).clip == 2.0


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_bring_their_names_and_wrong_ones_are_refused(frame):
    X, y, _ = data(80)
    names = ["a", "b", "c"]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = ht.OnePassHuberRegressor().partial_fit(table, y).partial_fit(table, y)
    assert list(model.feature_names_in_) == names
    before = pickle.dumps(model)
    for columns in (["b", "a", "c"], ["a", "b"]):
        with pytest.raises(ValueError, match=r"order|missing"):
            model.partial_fit(table[columns], y)
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit(table[:0], y[:0])
    text = frame({"a": X[:, 0], "b": ["u", "v"] * 40, "c": X[:, 2]})
    with pytest.raises(ValueError, match="'b' must hold numbers"):
        model.partial_fit(text, y)
    if frame is pd.DataFrame:
        codes = table.assign(b=pd.Categorical([1, 2] * 40))
        with pytest.raises(ValueError, match="'b' must hold numbers"):
            model.predict(codes)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("warm", [True, False])
def test_a_bad_row_is_named_and_nothing_of_its_batch_is_learned(kind, warm):
    X, y, _ = data(200)
    model = kind().partial_fit(X[:20] if warm else X, y[:20] if warm else y)
    before = pickle.dumps(model)
    bad = X[:5].copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 1\]"):
        model.partial_fit(bad, y[:5])
    rewards = y[:5].copy()
    rewards[2] = np.inf
    with pytest.raises(ValueError, match=r"y\[2\]"):
        model.partial_fit(X[:5], rewards)
    with pytest.raises(ValueError, match=r"sample_scale\[1\]"):
        model.partial_fit(X[:5], y[:5], sample_scale=[1.0, 0.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="one scale per row"):
        model.partial_fit(X[:5], y[:5], sample_scale=[1.0])
    assert pickle.dumps(model) == before


@pytest.mark.filterwarnings("ignore:overflow")  # plain Python's; a kernel does not warn
@pytest.mark.parametrize("rows", [10, 45, 200])
def test_least_squares_names_the_response_that_it_cannot_square(rows):
    X, y, _ = data(220)
    model = ht.OnlineRidge().partial_fit(X[:rows], y[:rows])
    wild = y[rows : rows + 10].copy()
    wild[8] = 1e300
    with pytest.raises(ValueError, match=r"y\[8\] = .*1e\+300.* out of the floating-point range"):
        model.partial_fit(X[rows : rows + 10], wild)
    assert model.n_samples_seen_ == rows
    assert np.isfinite(model.predict(X, return_interval=True)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_fit_leaves_a_fitted_regressor_whole(kind):
    X, y, _ = data(80)
    model = kind().fit(pd.DataFrame(X, columns=list("abc")), y)
    before = pickle.dumps(model)
    for names in ("uv", "abc"):
        table = pd.DataFrame(X[:, : len(names)], columns=list(names))
        with pytest.raises(ValueError, match=r"sample_scale"):
            model.fit(table, y, np.zeros(80))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((80, 2), np.nan), y)
    assert pickle.dumps(model) == before
    assert kind().fit(X[:, :2], y).fit(X, y).n_features_in_ == 3


@pytest.mark.parametrize("kind", STREAMS)
def test_rows_that_are_no_plain_doubles_are_learned_alike(kind):
    X, y, _ = data(300)
    X, y = np.round(X * 8.0) / 8.0, np.round(y * 8.0) / 8.0  # the same numbers in single precision
    frozen = X[200:].copy()
    frozen.flags.writeable = False
    whole = kind().fit(X, y)
    forms = (np.asfortranarray(X[200:]), X[200:].astype(np.float32), frozen, X[200:].tolist())
    for form in forms:
        parts = kind().fit(X[:200], y[:200]).partial_fit(form, y[200:])
        np.testing.assert_array_equal(parts.coef_, whole.coef_)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_width_or_number_are_refused(kind):
    X, y, _ = data(200)
    model = kind().fit(X, y)
    before = pickle.dumps(model)
    for features, responses in ((X[:, :2], y), (X, y[:-1]), (X[:0], y[:0]), (X[0], y[:1])):
        with pytest.raises(ValueError):
            model.partial_fit(features, responses)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_is_for_the_columns_learned_at_a_level_that_can_be(kind):
    X, y, _ = data(60)
    model = kind().fit(X, y)
    with pytest.raises(ValueError, match=r"has 2 features, but .* is expecting 3 features"):
        model.predict(X[:, :2])
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match=r"Expected (a 2-dimensional|2D)"):
        model.predict(pd.Series(y))
    for level in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.level"):
            model.set_params(level=level).predict(X, return_interval=True)


@pytest.mark.parametrize("kind", STREAMS)
def test_the_compiled_way_in_learns_what_fits_and_leaves_the_rest_to_the_other(kind, monkeypatch):
    class Sub(np.ndarray):
        """A kind of array that is not quite NumPy's own."""

    monkeypatch.setattr(stream, "_COMPILED", True)
    X, y, _ = data(80)
    model, twin = kind().fit(X[:20], y[:20]).model_, kind().fit(X, y).model_
    assert model.learn_plain(X[20:60], y[20:60]) is True
    assert model.learn_plain(X[60:], y[60:]) is True
    np.testing.assert_array_equal(model.state, twin.state)
    for rows in (X.view(Sub), X[:, :2].copy(), X[:9]):
        assert model.learn_plain(rows, y) is False
    with pytest.raises(ValueError, match=r"X\[1, 2\] must be finite"):
        model.learn_plain(np.where(np.arange(6).reshape(2, 3) == 5, np.nan, 1.0), y[:2])
    monkeypatch.setattr(stream, "_learn_plain", lambda *_: int("no such signature", "ten"))
    assert model.learn_plain(X, y) is False
    np.testing.assert_array_equal(model.state, twin.state)


@pytest.mark.compiled
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 10])
@pytest.mark.parametrize("forget", [1.0, 0.95])
def test_compiled_and_plain_python_rows_agree_to_the_bit(d, forget):
    from heavytail.estimators import rows as kernels

    X, y, _ = data(150, d=d)
    model = ht.OnePassHuberRegressor(forget=forget).fit(X[:100], y[:100])
    S = model.model_.state.copy()
    model.partial_fit(X[100:], y[100:])
    world = dict(vars(kernels))
    for name, value in vars(kernels).items():  # as they are written, each calling the others so
        if getattr(value, "py_func", None) and value.__module__ == kernels.__name__:
            world[name] = types.FunctionType(value.py_func.__code__, world, name)
    assert world["learn_rows"](S, X[100:], y[100:], np.empty(0)) == 0
    np.testing.assert_array_equal(S, model.model_.state)


@pytest.mark.parametrize(
    ("option", "value"),
    [("clip", 0.0), ("scale", "automatic"), ("scale", -1.0), ("ridge", 0.0), ("forget", 1.5)],
)
def test_a_bad_option_is_refused_by_name(option, value):
    X, y, _ = data(60)
    with pytest.raises(ValueError, match=f"OnePassHuberRegressor.{option} must be"):
        ht.OnePassHuberRegressor(**{option: value}).fit(X, y)


@pytest.mark.parametrize("alike", [0, 50])
def test_a_known_scale_is_kept_and_rows_are_learned_by_it(alike):
    X, y, theta = data(400, noise="normal")
    y[:alike] = 0.0
    model = ht.OnePassHuberRegressor(scale=2.5).fit(X, y)
    assert model.scale_ == pytest.approx(2.5)
    assert np.linalg.norm(model.coef_ - theta) < 0.3 * np.linalg.norm(theta)


def test_importing_heavytail_does_not_import_scikit_learn():
    code = "import heavytail.estimators, sys; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn.base'] = None; import heavytail as ht\n"
        "try: ht.OnePassHuberRegressor\n"
        "except ImportError as error: assert 'heavytail[learn]' in str(error)\n"
        "else: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
