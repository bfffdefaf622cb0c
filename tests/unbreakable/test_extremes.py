"""Numbers at the ends of the range are refused or leave what can be copied and saved."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.player import through_file
from tests.test_storage import agent
from tests.unbreakable.census import ARMS, TAIL, snapshot

import heavytail as ht
from heavytail import estimators, mdp
from heavytail.policies import ALL
from heavytail.policies.heavy_oful import KEY


@pytest.mark.parametrize("kind", estimators.ALL)
def test_a_regression_on_numbers_too_large_is_refused_and_goes_on(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    for rows in (20, 60):
        model = getattr(estimators, kind)().fit(X[:rows], X[:rows].sum(axis=1))
        before = snapshot(model)
        try:
            model.partial_fit(1e139 * X, 1e299 * X.sum(axis=1))
        except ValueError:
            assert snapshot(model) == before
        assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_features_of_no_length_leave_what_can_be_copied_and_saved(name, tmp_path):
    policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    for x in (np.zeros(3), ARMS[0], np.zeros(3)):
        policy.update(x, 1.0)
        policy.save(tmp_path / "it.npz")
        for twin in (policy.clone(), ht.load(tmp_path / "it.npz")):
            assert snapshot(twin) == snapshot(policy)


@pytest.mark.parametrize("size", [1e-80, 1e-160, 1e-300, 1e90])
@pytest.mark.parametrize("name", ["Hvt-UCB", "Twin-UCB"])
def test_rewards_of_any_size_leave_what_can_be_copied_and_saved(name, size, tmp_path):
    policy = ht.make_policy(name, dim=3)
    rng = np.random.default_rng(4)
    for _ in range(300):
        arm = policy.select(ARMS)
        policy.update(ARMS[arm], size * float(rng.standard_t(2.1)))
    policy.save(tmp_path / "it.npz")
    for twin in (policy.clone(), ht.load(tmp_path / "it.npz")):
        assert snapshot(twin) == snapshot(policy)


@pytest.mark.parametrize("kind", mdp.ALL)
def test_features_of_no_length_leave_an_agent_that_can_be_copied(kind):
    features = np.zeros((2, 2, 3))
    features[0, 0] = 0.5
    told = agent(kind)._arguments | {"features": features}
    one = kind(**told)
    for stage in range(3):
        one.update(stage, 1, 1, 1.0, 0)
        assert snapshot(one.clone()) == snapshot(one)


@pytest.mark.parametrize("kind", estimators.ALL)
@pytest.mark.parametrize("size", [1e200, 1e300])
def test_a_regression_comes_back_from_one_huge_feature(kind, size):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(99, 2))
    y, wild = X.sum(axis=1) + rng.standard_t(2.1, 99), X.copy()
    wild[40, 0] = size
    model = getattr(estimators, kind)().fit(X, y)
    before = snapshot(model)
    try:
        model.partial_fit(wild, y)
    except ValueError:
        assert snapshot(model) == before
    assert np.isfinite(model.predict(X)).all()


EXACT = ("lazy", "newton")
# Of those whose rewards may be any number, in the modes in which nothing is clipped.
BARE = {
    "CRMM": [{"repeats": 1}, {"repeats": 2}, {}],
    "CRTM": [{"threshold_scale": np.inf}],
    "HvtUCB": [{"clip": np.inf, "theta_bound": 1.0}, {"clip": np.inf, "theta_bound": 1e-9}],
    "HeavyOFUL": [{}, *({"solver": name, "threshold_scale": np.inf} for name in EXACT)],
    "AdaOFUL": [{"threshold_scale": np.inf}],
    "OFUL": [{}],
}


@pytest.mark.parametrize("ridge", [1e-90, 1e-15, 1.0])
@pytest.mark.parametrize("bound", [1e-5, 100.0, np.inf])
def test_no_ridge_and_ball_make_a_unit_whose_square_leaves_the_range(bound, ridge):
    rng = np.random.default_rng(8)
    for dim, size in ((1, 1e139), (2, 1e139), (2, 1e-139), (3, 1e149)):
        one = ht.HvtUCB(dim, theta_bound=bound, ridge=ridge)
        for _ in range(20):
            x = rng.normal(size=dim)
            one.update(x / np.linalg.norm(x), size * rng.choice([-1.0, 1.0]))
        assert np.isfinite(one.theta).all()
        assert snapshot(one.clone()) == snapshot(one)


@pytest.mark.parametrize("dim", [1, 2, 3, 30])
@pytest.mark.parametrize("name", BARE)
def test_rewards_of_any_size_are_learned_or_refused_with_nothing_changed(name, dim):
    rng = np.random.default_rng(7)
    arms = rng.normal(size=(6, dim))
    arms *= 0.9 / np.linalg.norm(arms, axis=1, keepdims=True)
    for options in BARE[name]:
        for size in (1e60, 1e99, 1e101, 1e130, 1e149, 1e151, 1e300, 1.7e308):
            one = ht.make_policy(
                getattr(ht, name).name, dim=dim, horizon=2000, tail=TAIL, arms=6, **options
            )
            for t in range(30):
                reward = float(rng.normal()) if t < 9 else (-1.0) ** (t // 4) * size
                before, x = snapshot(one), arms[t % 6]
                try:
                    one.update(x, reward)
                except ValueError as error:
                    assert "floating-point range" in str(error)  # noqa: PT017
                    assert snapshot(one) == before
            assert not any(np.isnan(array).any() for array in one.saved_arrays().values())
            assert snapshot(one.clone()) == snapshot(one)
            rounds = one.rounds
            for x in arms:  # goes on
                one.update(x, 1.0)
            assert one.rounds == rounds + len(arms)


def test_a_row_that_is_never_due_changes_nothing_of_the_lazy_fit():
    told = {"dim": 2, "horizon": 1000, "tail": TAIL}
    lazy, newton = ht.HeavyOFUL(**told), ht.HeavyOFUL(**told, solver="newton")
    rng = np.random.default_rng(0)
    for t in range(70):
        x = rng.normal(size=2)
        x *= 0.1 / np.linalg.norm(x)
        reward = 1.7e308 if t % 7 == 3 else float(rng.normal())
        lazy.update(x, reward)
        newton.update(x, reward)
    assert np.isinf(lazy.saved_arrays()["history"][:, 2 + KEY]).any()
    assert lazy.theta == pytest.approx(newton.theta, abs=1e-9)
    assert snapshot(lazy.clone()) == snapshot(lazy)


@pytest.mark.filterwarnings("ignore")  # L-BFGS says that it stopped early
def test_a_fit_by_l_bfgs_that_leaves_the_range_is_not_learned():
    one = ht.HeavyOFUL(
        2, horizon=99, tail=TAIL, solver="lbfgs", threshold_scale=np.inf, theta_bound=1.0
    )
    one.update([0.5, 0.5], 1.0)
    before = snapshot(one)
    with pytest.raises(ValueError, match="floating-point range"):
        one.update([0.5, -0.5], 1e90)
    assert snapshot(one) == before
    one.update([0.5, -0.5], 1.0)
    assert one.rounds == 2


@pytest.mark.parametrize("name", ["OL2M", "CRTM"])
@pytest.mark.parametrize("slope", [1e16, 1e50, 1e100])
def test_a_round_that_weighs_far_more_than_the_ridge_is_refused(name, slope):
    told = {"dim": 2, "horizon": 1000, "tail": ht.MomentBound(2.0, 1.0), "link": "logistic"}
    ht.make_policy(name, **told, least_slope=1e10).update([0.9, 0.0], 1.0)
    with pytest.raises(ValueError, match="rounding loses the inverse"):
        ht.make_policy(name, **told, least_slope=slope)


def test_a_delta_of_none_is_refused_where_there_is_no_other_to_take():
    with pytest.raises(TypeError, match=r"HvtGLB\.delta must be a number"):
        ht.HvtGLB(2, link="log", delta=None)


def test_a_count_that_a_double_does_not_count_is_refused():
    with pytest.raises(ValueError, match="must be at most 9007199254740991"):
        ht.HvtLowRank(3, 2, explore=2**53)
    policy = ht.HvtLowRank(3, 2, explore=2**53 - 1)
    policy.update(np.zeros(6), 1.0)
    policy.clone()


SCALES = (5e-324, 1e-209, 0.9e-100, 1.1e100, 1.7e308)


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_a_scale_is_from_1e_100_to_1e100_at_any_age(name):
    for age in (0, 3, 7):
        policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
        for k in range(age):
            policy.update(ARMS[k % 6], float(k % 2))
        before = snapshot(policy)
        for scale in SCALES:
            with pytest.raises(ValueError, match="scale must lie between 1e-100 and 1e"):
                policy.update(ARMS[0], 1.0, scale=scale)
            with pytest.raises(ValueError, match=r"row 1: scale must lie|scale must lie"):
                policy.update_many(ARMS[:2], [1.0, 0.0], scale=[1.0, scale])
        assert snapshot(policy) == before
        for scale in (1e-100, 1e100):
            policy.update(ARMS[0], 1.0, scale=scale)
            assert snapshot(policy.clone()) == snapshot(policy)


@pytest.mark.parametrize("kind", mdp.ALL)
def test_a_scale_of_an_agent_is_from_1e_100_to_1e100(kind):
    learner = agent(kind)
    before = snapshot(learner)
    for scale in SCALES:
        with pytest.raises(ValueError, match=r"scale must be a number in \[1e-100, 1e\+100\]"):
            learner.update(0, 0, 0, 1.0, 1, scale=scale)
    assert snapshot(learner) == before


def test_the_first_rewards_at_any_scale_leave_room_for_the_sixth():
    # A unit of 0, as five scales of 1.7e308 made it, had the sixth size written over NEAR.
    for scale in (1e-100, 1e100):
        for reward in (1e-300, 2.5, 1e100, 1.7e308):
            policy = ht.TwinUCB(3)
            for k in range(9):
                policy.update(ARMS[k % 6], reward, scale=scale)
                assert policy.state["scalars"]["near"] == int(policy.state["scalars"]["near"])
                assert snapshot(policy.clone()) == snapshot(policy)


@pytest.mark.parametrize("name", ["Twin-UCB", "Hvt-UCB", "OFUL"])
def test_an_earlier_estimate_is_of_a_size_that_can_be_continued(name):
    for theta, variance in ((1e260, 1.0), (0.1, 1e200), (0.1, 1e-200), (0.1, 1e101)):
        policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL)
        with pytest.raises(ValueError, match=r"at most 1e\+100 in size|between 1e-100 and"):
            policy.start_from(np.full(3, theta), variance * np.eye(3))
        assert policy.rounds == 0
    for variance in (1e-100, 1e-30, 1e14):
        policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL)
        policy.start_from(np.full(3, 0.1), variance * np.eye(3))
        for k in range(12):
            policy.update(ARMS[k % 6], float(k % 3))
            assert snapshot(policy.clone()) == snapshot(policy)


def test_a_prior_wider_than_the_gram_matrix_can_hold_is_refused_where_rounds_are_not_weighed():
    policy = ht.OFUL(3, noise_scale=1.0)
    with pytest.raises(ValueError, match=r"eigenvalues between 1e-100 and 1e\+15; got 1e\+16"):
        policy.start_from(np.zeros(3), 1e16 * np.eye(3))
    ht.HvtUCB(3).start_from(np.zeros(3), 1e16 * np.eye(3))  # whose rounds are


def test_a_moment_bound_is_of_a_scale_that_rounds_may_have():
    for scale in (1e-101, 5e-324, 1.1e100):
        with pytest.raises(ValueError, match=r"MomentBound\.scale must be a number in \[1e-100"):
            ht.MomentBound(2.0, scale)
    assert ht.MomentBound(2.0, 1e-100).scale == 1e-100


def test_a_step_size_whose_rounds_are_lost_to_rounding_is_refused():
    with pytest.raises(ValueError, match=r"HvtUCB\.alpha must be a number in \[1e-12"):
        ht.HvtUCB(2, alpha=1e-13)


@pytest.mark.parametrize("seed", [71, 453, 479])  # whose theta ended at 1e19 to 1e37
def test_a_likelihood_that_no_step_leads_to_is_not_learned(seed):
    rng = np.random.default_rng(seed)
    options = rng.choice([{}, {"radius": "theory"}, {"ridge": 1e-3}, {"theta_bound": 10.0}])
    policy = ht.GLMUCB(2, link="log", **options)
    arms = rng.normal(size=(4, 2))
    arms *= 0.9 / np.linalg.norm(arms, axis=1, keepdims=True)
    largest = 10.0 ** rng.integers(0, 101)
    for _ in range(40):
        x = arms[rng.integers(4)]
        reward = largest * rng.random() if rng.random() < 0.3 else abs(rng.normal())
        before = policy.theta
        try:
            policy.update(x, reward)
        except ValueError:
            np.testing.assert_array_equal(policy.theta, before)
    assert np.abs(policy.theta).max() < 1e4
    assert snapshot(policy.clone()) == snapshot(policy)


@pytest.mark.parametrize("name", ["OnePassHuberRegressor", "OnlineRidge"])
def test_rows_far_longer_than_all_before_leave_a_regression_that_can_be_continued(name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    for size in (1e8, 1e20, 1e39, 1e83):
        model = getattr(estimators, name)().fit(X, X.sum(axis=1))
        for k in range(6):
            long = size * rng.normal(size=(3, 2)) if k % 2 else rng.normal(size=(3, 2))
            try:
                model.partial_fit(long, long.sum(axis=1))
            except ValueError as error:
                assert "floating-point range" in str(error)  # noqa: PT017
            assert np.isfinite(model.predict(X)).all()
            twin = through_file(model)
            assert snapshot(twin) == snapshot(model)
            for each in (model, twin):
                each.partial_fit(X[:2], X[:2].sum(axis=1))
            assert snapshot(twin) == snapshot(model)


def test_features_of_no_width_that_a_double_can_divide_by_are_not_standardised():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    X[:, 0] *= 1e-155
    model = estimators.OnePassHuberRegressor(standardize=True).fit(X, X[:, 1])
    assert snapshot(through_file(model)) == snapshot(model)


@pytest.mark.parametrize("seed", [33, 51, 75])  # whose theta was NaN
def test_a_count_far_beyond_all_others_does_not_lose_the_gram_matrix_of_a_log_link(seed):
    rng = np.random.default_rng(seed)
    policy = ht.GLBOMD(2, link="log")
    for _ in range(12):
        x = rng.normal(size=2)
        x *= 0.9 / np.linalg.norm(x)
        reward = 10.0 ** rng.uniform(-300, 300) if rng.random() < 0.6 else abs(rng.normal())
        before = snapshot(policy)
        try:
            policy.update(x, reward)
        except ValueError:
            assert snapshot(policy) == before
        assert np.isfinite(policy.theta).all()
        assert snapshot(policy.clone()) == snapshot(policy)


@pytest.mark.parametrize("size", [1e6, 3e6, 1e8, 1e40])
def test_states_near_one_operating_point_leave_an_identifier_that_can_be_continued(size):
    rng = np.random.default_rng(1)
    point = rng.normal(size=5)
    identifier = ht.control.RidgeIdentifier(3, 2)
    for _ in range(2000):
        z = size * (point + 1e-9 * rng.normal(size=5))
        identifier.update(z[:3], z[3:], 0.5 * z[:3] + rng.normal(size=3))
    P = identifier.saved_arrays()["inverse"]
    assert np.abs(P).max() <= 1.0  # it was 1e115, and all further steps were refused
    assert np.diagonal(P).min() > -1e-9
    assert np.abs(identifier.saved_arrays()["theta"] @ point - 0.5 * point[:3]).max() < 0.01
    assert snapshot(through_file(identifier)) == snapshot(identifier)


@pytest.mark.parametrize("size", [1.0, 1e8, 1e12, 1e40])
def test_long_states_in_all_directions_are_learned_as_short_ones_are(size):
    wrong = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A, identifier = 0.4 * rng.normal(size=(2, 3)), ht.control.RidgeIdentifier(2, 1)
        Z = size * rng.normal(size=(1000, 3))
        Y = Z @ A.T + 0.1 * size * rng.normal(size=(1000, 2))
        for z, y in zip(Z, Y, strict=True):
            identifier.update(z[:2], z[2:], y)
        wrong.append(np.abs(identifier.saved_arrays()["theta"] - A).max())
    assert np.max(wrong) < 0.1


def test_a_system_whose_radius_is_no_number_is_refused():
    with pytest.raises(ValueError, match="leave the floating-point range"):
        ht.control.SystemIdentifier(2, 2, scale=1e-100, theta_bound=1e90, exploration=0)


NEARLY_ALIKE = {
    "OFUL": {"noise_scale": 1.0},
    "EpsilonGreedy": {},
    "LinTS": {"noise_scale": 1.0},
    "CRTM": {"horizon": 5000, "tail": TAIL},
    "BTC": {"horizon": 5000, "tail": TAIL, "arms": 4},
    "HvtUCB": {},
}


@pytest.mark.parametrize("ridge", [1e-9, 1e-13, 1e-15])
@pytest.mark.parametrize("name", NEARLY_ALIKE)
def test_arms_that_are_nearly_alike_at_a_tiny_ridge_can_be_continued(name, ridge):
    rng = np.random.default_rng(0)
    policy = getattr(ht, name)(3, ridge=ridge, **NEARLY_ALIKE[name])
    X = np.array([0.5, -0.5, 0.4]) + 1e-8 * rng.normal(size=(3000, 3))
    policy.update_many(X, rng.normal(size=3000))
    P = policy.saved_arrays()["inverse"]
    assert np.abs(P).max() <= 101.0 / ridge  # whose unit the practical mode chooses
    twin = through_file(policy)
    for each in (policy, twin):
        each.update_many(X[:20], np.ones(20))
    assert snapshot(twin) == snapshot(policy)
    assert np.isfinite(policy.theta).all()


def test_sums_of_the_largest_rewards_are_kept_by_btc():
    for rewards in ([1.7e308, 1.7e308], [1.7e308, -1.7e308, 1.7e308, 1.0]):
        policy = ht.BTC(2, horizon=2000, arms=4, tail=TAIL)
        for reward in rewards:
            policy.update([0.5, 0.5], reward)
        assert snapshot(through_file(policy)) == snapshot(policy)
        assert np.isfinite(policy.expected([0.5, 0.5]))


@pytest.mark.parametrize("name", ["OnePassHuberRegressor", "OnlineRidge"])
def test_a_column_that_is_0_at_first_and_large_later_is_learned(name):
    rng = np.random.default_rng(0)
    for size in (1e3, 1e6, 1e9):
        model = getattr(estimators, name)()
        X = rng.normal(size=(400, 3))
        X[:60, 2] = 0.0
        X[60:, 2] *= size
        y = X @ [1.0, -2.0, 3.0 / size] + rng.standard_t(2.1, 400)
        for k in range(0, 400, 4):
            model.partial_fit(X[k : k + 4], y[k : k + 4])
        wrong = 0.6 if size < 1e9 else 10.0  # beyond the digits of P
        assert np.abs(model.coef_ * [1.0, 1.0, size] - [1.0, -2.0, 3.0]).max() < wrong
        assert snapshot(through_file(model)) == snapshot(model)


def test_sums_of_squares_that_left_the_range_are_loaded():
    policy = ht.HvtUCB(2)
    arrays = policy.state_arrays()
    arrays["scalars"][[*policy.slot_names()["scalars"]].index("stability")] = np.inf
    policy.restore(arrays)
    assert snapshot(through_file(policy)) == snapshot(policy)
