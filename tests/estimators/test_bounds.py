"""What the arguments and the rows of regressions may be, to the last number."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import heavytail as ht

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

from heavytail.estimators import admission, rows, start, stream, symmetry
from heavytail.estimators.base import _writable, is_plain

KINDS = (ht.OnePassHuberRegressor, ht.OnlineRidge, ht.AdaptiveHuberRegressor)
X, Y = np.arange(12.0).reshape(6, 2) % 5.0, np.array([1.0, 3.0, 2.0, 7.0, 5.0, 4.0])
TINY, JUST_ABOVE_1 = 1e-100, math.nextafter(1.0, 2.0)
BOUNDS = {  # accepted at the bounds, refused beyond
    "target": (["mean", "typical"], ["median", None, 0.5]),
    "clip": ([TINY, math.inf], [0.0, -1.0, math.nan, 1e-101, 1e101]),
    "scale": ([TINY, "auto"], [0.0, math.inf, "none"]),
    "ridge": ([TINY], [0.0, math.inf]),
    "forget": ([0.5, 1.0], [0.0, JUST_ABOVE_1]),
    "order": ([JUST_ABOVE_1, 2.0], [1.0, math.nextafter(2.0, 3.0)]),
    "level": ([TINY, math.nextafter(1.0, 0.0)], [0.0, 1.0]),
}


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_argument_is_taken_at_its_bound_and_refused_beyond(kind, name) -> None:
    if name not in inspect.signature(kind).parameters:
        return
    taken, refused = BOUNDS[name]
    for value in taken:
        assert kind(**{name: value}).fit(X, Y).n_samples_seen_ == 6
    for value in refused:
        model = kind(**{name: value})
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.{name}"):
            model.fit(X, Y)
        assert not hasattr(model, "model_")


def admitted(X, y, nu) -> int:
    return rows.admit_rows(X, y, nu, rows.ORDINARY)


@pytest.mark.parametrize("row", [0, 1, 3])
@pytest.mark.parametrize(
    ("which", "largest", "problem"), [("X", 1e140, 1), ("y", 1e300, 2), ("nu", 1e140, 3)]
)
def test_the_first_bad_row_is_named_with_what_is_wrong(row, which, largest, problem) -> None:
    none = np.empty(0)
    for value, fine in ((largest, True), (math.nextafter(largest, math.inf), False)):
        given = {"X": np.zeros((4, 3)), "y": np.zeros(4), "nu": np.ones(4)}
        given[which][row] = value
        for admit, taken in ((admitted, rows.WILD), (admission.first_bad_row, rows.OK)):
            want = taken if fine else 8 * row + problem
            assert admit(given["X"], given["y"], given["nu"]) == want
            if which != "nu":
                assert admit(given["X"], given["y"], none) == want
    wrong = {"X": np.zeros((4, 3)), "y": np.zeros(4), "nu": np.ones(4)}
    wrong[which][row:] = math.nan
    assert admitted(wrong["X"], wrong["y"], wrong["nu"]) == 8 * row + problem


def test_a_scale_may_be_small_or_large_by_as_much() -> None:
    for value, fine in ((1e-140, True), (0.9e-140, False), (0.0, False), (1e140, True)):
        nu = np.array([1.0, value])
        code = admitted(np.zeros((2, 1)), np.zeros(2), nu)
        assert code == (rows.WILD if fine else 8 + 3)


def test_rows_are_ordinary_up_to_a_size_and_wild_beyond() -> None:
    none = np.empty(0)
    for value, code in ((1e40, rows.OK), (1.1e40, rows.WILD)):
        assert admitted(np.array([[value]]), np.zeros(1), none) == code
        assert admitted(np.zeros((1, 1)), np.array([-value]), none) == code
        assert admitted(np.zeros((1, 1)), np.zeros(1), np.array([1.0 / value])) == code


def test_a_row_alone_is_looked_at() -> None:
    one, none = np.ones(1), np.empty(0)
    assert admitted(np.array([[1e141]]), one, none) == 1
    assert admitted(np.array([[-1e141, 0.0]]), one, none) == 1
    assert admitted(np.array([[1.0]]), np.array([-math.inf]), none) == 2
    assert admitted(np.array([[1.0]]), one, np.zeros(1)) == 3


def test_rows_that_do_not_fit_are_not_learned() -> None:
    state = (
        ht.OnlineRidge().fit(np.arange(120.0).reshape(60, 2) % 7.0, np.arange(60.0)).model_.state
    )
    before = state.copy()
    for features, responses in ((X[:, :1], Y), (X, Y[:5]), (X[:5], Y), (X[:0], Y[:0])):
        features = np.ascontiguousarray(features)
        assert rows.learn_plain(state, features, responses) == rows.MISFIT
        assert rows.learn_rows(state, features, responses, np.ones(len(Y))) == rows.MISFIT
    np.testing.assert_array_equal(state, before)
    assert rows.MISFIT < rows.OK


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_a_bad_feature_is_seen_in_every_column(d) -> None:
    for column in range(d):
        bad = np.zeros((2, d))
        bad[1, column] = -1e141
        assert admitted(bad, np.zeros(2), np.empty(0)) == 8 + 1
        model = ht.OnePassHuberRegressor()
        with pytest.raises(ValueError, match=rf"X\[1, {column}\]"):
            model.fit(bad, np.zeros(2))
    with pytest.raises(ValueError, match=r"X\[0, 1\]"):
        ht.OnePassHuberRegressor().fit([[1e140, 2e140]], [0.0])
    many = np.full((1, 3), 0.9e140)  # too large together, and each is fine
    assert admitted(many, np.zeros(1), np.empty(0)) == rows.WILD


def test_the_state_has_room_for_slots_rows_and_the_inverse() -> None:
    assert [rows.stride_of(size) for size in (1, 4, 5, 8, 9)] == [4, 4, 8, 8, 12]
    assert (rows.HISTOGRAM, rows.SLOTS, rows.INVERSE) == (24, 24 + 128, 15)
    assert len(rows.SLOT) <= rows.HISTOGRAM
    assert rows.length(5, mean=False) == 152 + (15 + 8) * 8
    assert rows.length(5, mean=True) == 152 + (15 + 16) * 8
    assert (rows.LEAST_INSIDE, rows.LEAST_CLIP, rows.FEW) == (0.3, 1.345, 4)
    assert (symmetry.LEVEL, stream.CLEARLY) == (0.99, 0.95)
    assert (stream.UNSEEN, stream.ONE_PASS) == (2.0, 1.05)
    assert (rows.SLOWER, rows.FASTER) == (10.0, 40.0)


@pytest.mark.parametrize(("d", "warm"), [(1, 50), (9, 50), (10, 55), (20, 105)])
def test_the_start_is_fifty_rows_or_five_per_coordinate(d, warm) -> None:
    model = ht.OnlineRidge().fit(np.arange(3.0 * d).reshape(3, d), np.ones(3))
    assert model.model_.warm == warm
    assert model.model_.nbytes == 8 * (rows.length(d + 1, mean=False) + warm * (d + 2))


@pytest.mark.filterwarnings("ignore:overflow")  # plain Python's; a kernel does not warn
def test_a_batch_with_a_response_that_overflows_is_refused_whole() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(70, 2))
    y = features.sum(axis=1)
    model = ht.OnlineRidge().fit(features[:60], y[:60])
    twin = ht.OnlineRidge().fit(features[:60], y[:60])
    before = model.model_.state.tobytes()
    wild = y[60:].copy()
    wild[3] = 1e299
    with pytest.raises(ValueError, match=r"y\[3\].*Nothing was learned"):
        model.partial_fit(features[60:], wild)
    assert model.n_samples_seen_ == 60
    assert model.model_.state.tobytes() == before
    model.partial_fit(features[60:], y[60:])
    twin.partial_fit(features[60:], y[60:])
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    early = ht.OnlineRidge()
    with pytest.raises(ValueError, match=r"y\[3\].*Nothing was learned"):
        early.fit(features[60:], wild)
    taken = np.where(np.arange(10) == 3, 1e140, 0.0)
    assert ht.OnlineRidge().fit(features[60:], taken).n_samples_seen_ == 10
    assert (
        ht.OnlineRidge().fit(features[60:], 10.0 * taken, np.full(10, 20.0)).n_samples_seen_ == 10
    )
    with pytest.raises(ValueError, match=r"y\[3\].*Nothing was learned"):
        early.fit(features[60:], 0.1 * taken, np.full(10, 0.05))


def test_an_estimate_stays_finite_up_to_1e150() -> None:
    state = np.zeros(rows.length(2, mean=False))
    theta, u = state[rows.SLOTS :], state[rows.SLOTS + rows.DIRECTION * 4 :]
    for i in (0, 1):
        for sign in (1.0, -1.0):
            theta[:2], u[:2] = 0.0, 0.0
            theta[i], u[i] = sign * 0.6e150, sign * 1e10
            assert rows.stays_finite(state, 4, rows.THETA, 0.3e140) is True
            assert rows.stays_finite(state, 4, rows.THETA, 0.5e140) is False
            assert rows.stays_finite(state, 4, rows.THETA, -0.5e140) is True
            assert rows.stays_finite(state, 4, rows.THETA, math.nan) is False


@pytest.mark.filterwarnings("ignore:overflow")  # plain Python's; a kernel does not warn
@pytest.mark.parametrize(
    ("x", "y", "fine"),
    [(1e-30, 1e119, True), (1e-30, 1e121, False), (1.0, 1e149, True), (1.0, 1e151, False)],
)
def test_a_step_is_refused_where_the_estimate_would_leave_the_range_and_no_sooner(
    x, y, fine
) -> None:
    model = ht.OnlineRidge(ridge=1e-60, fit_intercept=False)
    model.fit(np.full((50, 1), 1e-40), np.zeros(50))  # V^-1 is 1e60
    if fine:
        assert 1e100 < model.partial_fit([[x]], [y]).coef_[0] < 1e150
    else:
        with pytest.raises(ValueError, match="out of the floating-point range"):
            model.partial_fit([[x]], [y])
        assert model.coef_[0] == 0.0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_more_rows_than_coefficients_leave_the_mean_open(kind) -> None:
    points = np.array([[0.5, 1.0], [2.0, 0.0], [1.0, 1.0], [3.0, 2.0]])
    for n in (1, 2, 3, 4):
        mean, low, high = kind().fit(X[:n], Y[:n]).predict(points, return_interval=True)
        assert np.isfinite(mean).all()
        assert mean.shape == low.shape == high.shape == (4,)
        assert np.isinf([low, high]).all() == (n <= 3)


def test_rows_like_all_before_them_are_not_clipped() -> None:
    model = ht.OnePassHuberRegressor().fit(np.arange(60.0)[:, None] % 7.0, np.zeros(60)).model_
    assert (model.s[rows.TYPICAL], model.s[rows.INSIDE]) == (0.0, 1.0)


def test_a_row_alone_is_learned_at_its_scale() -> None:
    rng = np.random.default_rng(0)
    features, y, nu = rng.normal(size=(55, 2)), rng.normal(size=55), rng.uniform(0.3, 3.0, 55)
    whole, parts = (ht.OnePassHuberRegressor().fit(features[:50], y[:50]) for _ in range(2))
    whole.partial_fit(features[50:], y[50:], nu[50:])
    for t in range(50, 55):
        parts.partial_fit(features[t : t + 1], y[t : t + 1], nu[t : t + 1])
    np.testing.assert_array_equal(parts.model_.state, whole.model_.state)


def test_a_stream_that_has_seen_nothing_knows_nothing() -> None:
    model = ht.OnePassHuberRegressor()._model(2)
    assert (model.seen, model.spread) == (0, 0.0)
    np.testing.assert_array_equal(model.coefficients[0], np.zeros(2))


def test_the_start_counts_votes_from_the_first_row_and_sets_a_floor_to_the_scale() -> None:
    features = np.arange(50.0)[:, None] % 7.0
    s = ht.OnePassHuberRegressor().fit(features, np.full(50, 3.0)).model_.s
    assert (s[rows.COMMON], s[rows.VOTES], s[rows.TYPICAL]) == (3.0, 50.0, 0.0)
    s = ht.OnePassHuberRegressor().fit(features, np.cos(np.arange(50.0))).model_.s
    assert s[rows.FLOOR] == 1e-12 * s[rows.TYPICAL] > 0.0


def test_a_value_of_more_than_half_and_not_all_does_not_tell_the_scale() -> None:
    cases = {
        (1, 1, 2, 3): [True] * 4,  # exactly half
        (1, 1, 1, 3): [False, False, False, True],
        (1, 1, 1): [True] * 3,
        (5, 1, 5, 5, 2): [False, True, False, False, True],
    }
    for y, want in cases.items():
        assert start.telling(np.array(y, dtype=float)).tolist() == want


@pytest.mark.parametrize(("n", "exact"), [(10, 5), (10, 6), (11, 5), (11, 6), (10, 10)])
def test_more_than_half_of_the_rows_make_a_line(n, exact) -> None:
    Z = np.column_stack([np.arange(float(n)) ** 2 % 7.0, np.ones(n)])
    off = np.where(np.arange(n) < exact, 0.0, 5.0 + np.arange(n) ** 1.5)
    found = start.off_the_line(Z, Z @ [3.0, 1.0] + off, np.array([3.01, 1.0]))
    assert found.shape == (n - exact if 2 * exact > n else 0,)
    np.testing.assert_allclose(np.sort(found), np.sort(off[off > 0.0])[: len(found)], rtol=1e-9)


def test_as_many_rows_as_coefficients_make_no_line_and_a_response_far_out_hides_no_noise() -> None:
    rng = np.random.default_rng(5)
    Z = np.column_stack([rng.normal(size=3), np.ones(3)])
    assert start.off_the_line(Z, rng.normal(size=3), np.zeros(2)).shape == (0,)
    Z = np.column_stack([rng.normal(size=30), np.ones(30)])
    y = Z @ [2.0, 1.0] + 1e-3 * rng.normal(size=30)
    y[4] = 1.3  # some hundred times the noise
    assert start.off_the_line(Z, y, np.array([2.0, 1.0])).shape == (0,)
    y[4] = 1e12
    assert start.off_the_line(Z, y, np.array([2.0, 1.0])).tolist() == pytest.approx([1e12])


@pytest.mark.parametrize("unit", [1e-7, 0.01, 20.0])
def test_rows_are_on_a_line_within_ten_roundings_and_off_it_beyond_a_thousand(unit) -> None:
    Z = np.column_stack([np.linspace(-1.0, 1.0, 41), np.ones(41)])
    rounding = np.where(np.arange(41) % 2, unit, -unit)
    for size, others in ((9.0, 0), (500.0, 0), (2_000.0, 5)):
        off = np.where(np.arange(41) % 9 == 4, size * unit, 0.0)
        off[0] = 5.0 * unit  # on the line still
        sizes = start.off_the_line(Z, Z @ [3.0, 1.0] + rounding + off, np.array([3.0, 1.0]))
        assert sizes.shape == (others,)
    np.testing.assert_allclose(sizes, 2_000.0 * unit, rtol=0.01)


@pytest.mark.parametrize("law", ["t(1.2)", "Pareto(1.2)", "5 % of 50 times the size"])
def test_smooth_heavy_tails_have_one_scale(law) -> None:
    for seed in range(100):
        rng = np.random.default_rng([64, seed])
        Z = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)])
        gross = np.where(rng.random(300) < 0.05, 50.0, 1.0)
        noise = {
            "t(1.2)": rng.standard_t(1.2, 300),
            "Pareto(1.2)": rng.pareto(1.2, 300),
            "5 % of 50 times the size": gross * rng.normal(size=300),
        }[law]
        assert start.off_the_line(Z, noise, np.zeros(3)).shape == (0,)


def test_responses_are_cut_at_a_hundred_million_median_deviations() -> None:
    cut = start.bounded(np.array([0.0, 1.0, 2.0, 3.0, 1e12]))
    assert cut.tolist() == [0.0, 1.0, 2.0, 3.0, 2.0 + 1e8]
    assert start.bounded(np.array([0.0, -1e12, 1.0, 2.0, 3.0]))[1] == 1.0 - 1e8
    # Where half deviate by nothing, the deviation is that of the others.
    assert start.bounded(np.array([5.0, 5.0, 5.0, 5.0, 7.0, 8.0, 1e12])).max() == 5.0 + 3e8
    assert start.bounded(np.array([5.0, 5.0, 5.0, 5.0, 5.25, 5.5, 1e12])).max() == 5.0 + 0.5e8
    assert start.bounded(np.array([5.0, 5.0, 5.0, 5.0, 7.0])).tolist() == [5.0, 5.0, 5.0, 5.0, 7.0]
    assert start.bounded(np.full(3, 5.0)).tolist() == [5.0, 5.0, 5.0]


def test_the_scale_of_residuals_is_their_median_or_their_mean_where_that_is_zero() -> None:
    scale = 1.4826022185056018
    assert start._spread(np.array([1.0, -2.0, 9.0]), 0.25) == pytest.approx(scale * 4.0, rel=1e-4)
    assert start._spread(np.array([0.0, 0.0, 9.0]), 0.25) == pytest.approx(scale * 3.0, rel=1e-4)
    assert start._spread(np.zeros(3), 1.0) == 1e-300
    assert start._spread(np.full(3, 1e300), 1.0) == start.LARGEST


def test_a_loss_is_hubers_with_half_the_penalty() -> None:
    Z, y, theta = np.eye(2), np.array([3.0, 0.5]), np.array([1.0, 0.0])
    penalty = np.array([4.0, 9.0])
    # Residuals 2 and 0.5 at tau = 1: 1 * 2 - 1/2, and 0.5²/2; penalty 4 * 1²/2.
    assert start._loss(Z, y, penalty, theta, 1.0) == pytest.approx(1.5 + 0.125 + 2.0)
    step = start._newton(Z, y - Z @ theta, penalty, theta, 1.0)
    assert step == pytest.approx([(1.0 - 4.0) / 4.0, 0.5 / (1.0 + 9.0)])
    moved = start._weighted(Z, y, np.array([0.5, 1.0]), penalty)
    assert moved == pytest.approx([1.5 / 4.5, 0.5 / 10.0])


def huber_problem(outlier=None):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 3))
    y = Z @ [1.0, -2.0, 0.5] + rng.standard_t(1.7, 2000)
    y[7] = outlier or y[7]
    return Z, y, np.full(3, 1e-3)


@pytest.mark.parametrize("outlier", [None, 1e8])
@pytest.mark.parametrize("off", [10.0, 5e-3])
def test_a_huber_fit_is_exact_from_near_and_from_far(outlier, off) -> None:
    Z, y, penalty = huber_problem(outlier)
    theta = start.solve(Z, y, penalty, 1.0, np.array([1.0, -2.0, 0.5]) + off)
    psi = np.clip(y - Z @ theta, -1.0, 1.0)
    np.testing.assert_allclose(Z.T @ psi, penalty * theta, atol=1e-9)


def test_newtons_steps_end_a_huber_fit_soon_and_reweighting_alone_finds_it_too(monkeypatch) -> None:
    Z, y, penalty = huber_problem()
    newton, steps = start._newton, []
    monkeypatch.setattr(start, "_newton", lambda *given: steps.append(0) or newton(*given))
    theta = start.solve(Z, y, penalty, 1.0, np.zeros(3))
    assert len(steps) < 10
    steps.clear()
    assert (start.solve(Z, 0.0 * y, penalty, 1.0, np.zeros(3)) == 0.0).all()
    assert len(steps) == 1
    monkeypatch.setattr(start, "_newton", lambda *_: np.full(3, math.nan))
    np.testing.assert_allclose(start.solve(Z, y, penalty, 1.0, np.zeros(3)), theta, rtol=1e-8)


class Sub(np.ndarray):
    """A kind of array that is not quite NumPy's own."""


@pytest.mark.parametrize(
    ("features", "responses", "plain"),
    [
        (X, Y, True),
        (X[:1], Y[:1], True),
        (X.tolist(), Y, False),
        (X, Y.tolist(), False),
        (X.view(Sub), Y, False),
        (X, Y.view(Sub), False),
        (X.astype(np.float32), Y, False),
        (X, Y.astype(np.float32), False),
        (X[:, 0], Y, False),
        (X, Y[:, None], False),
        (X[:, :1].copy(), Y, False),
        (X[:5], Y, False),
        (X[:0], Y[:0], False),
        (np.asfortranarray(X), Y, False),
        (X, np.repeat(Y, 2)[::2], False),
    ],
)
def test_plain_rows_are_contiguous_doubles_of_fitting_shapes(features, responses, plain) -> None:
    assert is_plain(features, responses, 2) is plain


def test_rows_handed_to_a_kernel_are_whole_and_may_be_written_to() -> None:
    assert _writable(X) is X
    frozen = X.copy()
    frozen.flags.writeable = False
    for array in (frozen, X[::2], np.asfortranarray(X)):
        copied = _writable(array)
        assert copied.flags.carray
        assert copied is not array
        np.testing.assert_array_equal(copied, array)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_scale_of_a_row_is_named(bad) -> None:
    for kind in KINDS:
        scales = np.full(6, 0.5)
        scales[4:] = bad
        with pytest.raises(ValueError, match=r"sample_scale\[4\]"):
            kind().fit(X, Y, scales)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 40])
def test_the_threshold_of_few_rows_is_the_scale_itself(n) -> None:
    history = ht.AdaptiveHuberRegressor(order=1.5, fit_intercept=False)._model(1)
    history.seen = n
    want = max(n / (1 + math.log(max(n, 2))), 1.0) ** (1 / 1.5)
    assert history.tau(3.0) == pytest.approx(3.0 * want)
    assert history.tau(3.0) >= 3.0


def test_the_regressions_are_listed() -> None:
    from heavytail import estimators

    assert set(dir(estimators)) >= {"ALL", *estimators.ALL}


@pytest.mark.parametrize("name", ["OnePassHuberRegressor", "OnlineRidge"])
@pytest.mark.parametrize(
    "units", [[1.0, 1.0, 1.0, 1e9], [1e-3, 1.0, 1e4, 1e6], [1e12, 1.0, 1e-2, 10.0]]
)
def test_no_column_is_lost_beside_a_larger_one(name, units) -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 4))
    y = Z @ [2.0, -1.0, 0.5, 0.0] + 7.0 + rng.standard_t(3.0, 3000)
    model = getattr(ht.estimators, name)().partial_fit(Z * units, y)
    assert model.coef_ * units == pytest.approx([2.0, -1.0, 0.5, 0.0], abs=0.15)
    assert model.intercept_ == pytest.approx(7.0, abs=0.2)
