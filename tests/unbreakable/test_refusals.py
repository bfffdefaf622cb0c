"""What a caller may not pass is refused in words, and nothing has changed."""

from __future__ import annotations

import contextlib
import inspect
import warnings

import numpy as np
import pytest
from tests.control.tools import IDENTIFIERS, T21
from tests.test_storage import WORLD, agent
from tests.unbreakable.census import ARMS, SYSTEM, TAIL, identifier, policy, regression, snapshot

import heavytail as ht
from heavytail import control, estimators, mdp
from heavytail.checks.policies import paid
from heavytail.policies import ALL
from heavytail.policies.core.base import LEAST_RIDGE


@pytest.mark.parametrize("value", [1 + 2j, np.complex128(1), True, "1", b"1", None, 10**400])
def test_what_is_no_real_number_is_refused_everywhere(value):
    policy = ht.OFUL(3, noise_scale=1.0)
    decision, x = policy.decide(ARMS), ARMS[0]
    for call in (
        lambda: policy.update(x, value),
        lambda: policy.learn([decision], [value]),
        lambda: policy.update_many([x], [value]),
        lambda: policy.update([value, 0.0, 0.0], 1.0),
        lambda: policy.width([value, 0.0, 0.0]),
        lambda: ht.OFUL(3, noise_scale=1.0, ridge=value),
        lambda: ht.OFUL(value, noise_scale=1.0),
        lambda: ht.MomentBound(1.5, value),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert (policy.rounds, policy.pending) == (0, (0,))


def test_masks_words_and_matrices_are_seen():
    policy = ht.OFUL(3, noise_scale=1.0)
    with pytest.raises(ValueError, match="masked"):
        policy.update(np.ma.array(ARMS[0], mask=[True, False, False]), 1.0)
    with pytest.raises(TypeError, match="True or False"):
        ht.HvtUCB(3, intercept="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be finite"):
        policy.width([np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"together leave|between"):
        ht.CRMM(3, horizon=10**4, tail=TAIL, theta_bound=1e160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        decision = policy.decide(np.asmatrix(ARMS))
    policy.learn(decision, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        ht.Pool(ARMS)[0][0] = 1.0


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_a_refused_round_past_the_horizon_leaves_the_word_for_the_honest_one(name):
    policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    if policy.horizon is None:
        policy.horizon = 2000
    policy._s[0] = 2000.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="finite"):
            policy.update(ARMS[0], np.nan)
        with pytest.raises(ValueError, match="finite"):
            policy.update_many(ARMS[:1], [np.nan])
    assert not policy._late
    if not policy._grows:
        with pytest.warns(UserWarning, match="past horizon"):
            policy.update(ARMS[0], 1.0)
        assert policy._late


def test_a_refusal_quotes_no_more_than_fits_a_line():
    policy, long = ht.OFUL(3, noise_scale=1.0), "x" * 10**7
    policy.decide(ARMS)
    model = estimators.OnePassHuberRegressor()
    for call in (
        lambda: policy.learn(10**5000, 1.0),
        lambda: policy.learn(-(10**5000), 1.0),
        lambda: policy.learn([10**5000], [1.0]),
        lambda: policy.learn([long], [1.0]),
        lambda: policy.update(ARMS[0], long),
        lambda: policy.update(ARMS[0], 1.0, scale=long),
        lambda: policy.update(long, 1.0),
        lambda: policy.width([long, 1.0, 2.0]),
        lambda: policy.width(np.full(3, np.nan)),
        lambda: ht.OFUL(long, noise_scale=1.0),
        lambda: ht.OFUL(3, noise_scale=long),
        lambda: ht.CRT(3, horizon=100, tail=long),
        lambda: ht.make_policy(long, dim=3),
        lambda: agent(mdp.LSVIUCB).update(long, 0, 0, 1.0, 0),
        lambda: agent(mdp.LSVIUCB).update(10**5000, 0, 0, 1.0, 0),
        lambda: control.CertaintyEquivalence(long, Q=SYSTEM.Q, R=SYSTEM.R, fallback=SYSTEM.A),
        lambda: estimators.OnePassHuberRegressor(scale=long).fit(np.eye(3), np.ones(3)),
        lambda: model.fit(np.eye(3), np.ones(3), sample_scale=[1.0, 2.0, long]),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert len(str(caught.value)) < 1000
        assert "digits" not in str(caught.value)
        assert str(caught.value).isprintable()


def test_masks_and_bools_are_seen_at_any_depth():
    masked = np.ma.array(ARMS[0], mask=[True, False, False])
    policy = ht.OFUL(3, noise_scale=1.0)
    with pytest.raises(ValueError, match="masked"):
        policy.select_many([[masked, ARMS[1]]])
    with pytest.raises(ValueError, match="masked"):
        ht.Pool([masked, ARMS[1]])
    with pytest.raises(TypeError, match="bool"):
        ht.Pool([[True, 0.1, 0.2]])
    with pytest.raises(ValueError, match=r"arms\[1\] must be finite"):
        ht.Pool([ARMS[0], [np.nan, 0.0, 0.0]])


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_a_question_that_is_refused_changes_no_identifier(kind):
    one = identifier(kind)
    before, shape = snapshot(one), (SYSTEM.n + SYSTEM.d, SYSTEM.n)
    for bad in (np.full(shape, np.nan), np.full(shape, np.inf), np.zeros(2), [[True]]):
        for ask in (one.error, one.contains):
            with pytest.raises((ValueError, TypeError)):
                ask(bad)
    assert snapshot(one) == before


def test_a_size_beyond_all_memory_is_refused_at_once():
    for kind in IDENTIFIERS:
        with pytest.raises(ValueError, match=r"must be at most|would need"):
            kind(2**53, 1)


def test_agents_and_worlds_look_at_every_argument():
    features, theta = agent(mdp.UniformAgent).features, WORLD.theta.tolist()
    theta[0][0] = True
    told = {"tail": TAIL, "episodes": 50}
    for call in (
        lambda: mdp.LSVIUCB(features, 3, tail=TAIL, episodes={}),
        lambda: mdp.LSVIUCB(features, 3, tail=TAIL, delta=None),
        lambda: mdp.HeavyLSVIUCB(features, 3, **told, delta=None),
        lambda: mdp.HvtLSVIUCB(features, 3, tail=None),
        lambda: mdp.HvtLSVIUCB(features, 3, tail=TAIL, intercept=None),
        lambda: mdp.random_mdp(3, noise=T21, bias="no"),
        lambda: mdp.LinearMDP(WORLD.features, theta, WORLD.mu, T21),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()


@pytest.mark.parametrize("kind", estimators.ALL)
def test_a_regression_takes_only_numbers_for_numbers(kind):
    X, y = np.ones((3, 2)), np.arange(3.0)
    dates = np.full((3, 2), "2020", dtype="datetime64[Y]")
    for rows, answers in (
        (X.astype(bool), y),
        ([[True, 0.1]] * 3, y),
        (np.array([[True, 0.1]] * 3, dtype=object), y),
        (dates, y),
        (X.astype(str), y),
        ([[10**400, 1]] * 3, y),
        (np.ma.array(X, mask=X > 0), y),
        (X, [True, 0.1, 0.2]),
        (X, [10**400, 1, 2]),
    ):
        with pytest.raises((ValueError, TypeError)):
            getattr(estimators, kind)().fit(rows, answers)
    model = regression(kind)  # past its start
    with pytest.raises(ValueError, match="masked"):
        model.partial_fit(np.ones((3, 3)), np.ma.array(y, mask=[True, False, False]))
    for scales in (["1"] * 3, [10**400] * 3, [1j] * 3, [True] * 3):
        with pytest.raises((ValueError, TypeError)):
            getattr(estimators, kind)().fit(X, y, scales)


@pytest.mark.parametrize("name", ["BTC", "BMM"])
def test_a_question_about_what_is_no_feature_is_refused(name):
    one = policy(name, {})
    before = snapshot(one)
    for ask in (one.expected, one.width):
        for bad in ([np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [True, 0.0, 0.0], [0.0]):
            with pytest.raises((ValueError, TypeError), match=r"finite|bool|shape"):
                ask(bad)
    assert snapshot(one) == before


@pytest.mark.parametrize("kind", estimators.ALL)
def test_rows_that_a_kernel_would_take_for_plain_are_left_to_scikit_learn(kind):
    model = regression(kind)
    X, y = np.ones((3, 3)), np.arange(3.0)
    masked = np.ma.array(y, mask=[True, False, False])
    before = snapshot(model)
    for rows, answers in (
        (X, masked),
        (X.view(np.recarray), y),
        (np.ma.array(X), y),
        (X, y.tolist()),
    ):
        assert not model.model_.learn_plain(rows, answers)
    assert snapshot(model) == before
    assert model.model_.learn_plain(X, y)


NO_FLAGS = ["no", "True", 1, 0.0, None, np.nan, [], np.array([True])]


@pytest.mark.parametrize("value", NO_FLAGS, ids=repr)
def test_flags_of_worlds_are_true_or_false(value):
    for make in (
        lambda: ht.LinearBandit(2, 4, T21, fresh=value),
        lambda: ht.SkewedBandit(2, 4, "jackpot", fresh=value),
        lambda: ht.LinkBandit(2, 4, "logistic", fresh=value),
    ):
        with pytest.raises(TypeError, match="fresh must be True or False"):
            make()


@pytest.mark.parametrize("radius", ["empirical", "theory"])
@pytest.mark.parametrize("value", [np.nan, "a word", 0.0, -1.0, True, 1e300])
def test_sigma_min_is_looked_at_whatever_the_radius(radius, value):
    with pytest.raises((ValueError, TypeError), match=r"HvtUCB.sigma_min must"):
        ht.HvtUCB(2, tail=TAIL, horizon=99, radius=radius, sigma_min=value)


BAD_LEMMA = [
    ("dim", 0), ("dim", 1.5), ("dim", "2"), ("order", 1.0), ("order", 2.1), ("order", np.nan),
    ("horizon", 0), ("horizon", None), ("alpha", 0.0), ("alpha", True), ("ridge", -1.0),
    ("theta_bound", np.nan), ("theta_bound", "1"), ("arm_bound", 0.0), ("arm_bound", 1e101),
    ("sigma_min", "x"), ("delta", 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), BAD_LEMMA)
def test_lemma_1_looks_at_every_argument(key, value):
    good = {"dim": 2, "order": 1.5, "horizon": 100}
    with pytest.raises((ValueError, TypeError), match=f"lemma_1.{key} must"):
        ht.confidence.lemma_1(**{**good, key: value})


def test_lemma_1_says_where_arguments_together_leave_the_range():
    for told in ({"sigma_min": 1e-100, "ridge": 1e-100, "alpha": 1e-100}, {"alpha": 1e-100}):
        with pytest.raises(ValueError, match="together leave"):
            ht.confidence.lemma_1(2, 1.5, 100, **{"sigma_min": 1e-99, "ridge": 1e-99, **told})
    lemma = ht.confidence.lemma_1(2, 1.5, 100)
    for t in (-1, 0.5, "1", np.nan):
        with pytest.raises((ValueError, TypeError), match="t must be a whole number"):
            lemma.beta(t)
    for told in ((0, 3, 4, 0.1), (2, 0.5, 4, 0.1), (2, 3, 0, 0.1), (2, 3, 4, 1.0)):
        with pytest.raises(ValueError, match="lsvi_radius"):
            ht.confidence.lsvi_radius(*told)


# Those that weigh a round by its width can do with any ridge.
RIDGES = [kind for kind in ALL if "ridge" in inspect.signature(kind).parameters]


@pytest.mark.parametrize("kind", RIDGES)
@pytest.mark.parametrize("arm_bound", [1e-9, 1.0, 1e9])
def test_a_ridge_that_rounding_would_lose_is_refused_with_one_that_works(kind, arm_bound):
    told = {"dim": 2, "horizon": 1000, "tail": TAIL, "arms": 4, "noise_scale": 1.0}
    told |= {"d1": 2, "d2": 1}
    told |= {"arm_bound": arm_bound, "theta_bound": min(1.0, 1.0 / arm_bound)}
    told |= {"horizon": 10**6} if kind is ht.MoM else {}
    told = {k: v for k, v in told.items() if k in inspect.signature(kind).parameters}
    lost = 0.9 * LEAST_RIDGE * arm_bound**2 * (100.0 if kind is ht.GLBOMD else 1.0)
    if arm_bound == 1.0 and kind in (ht.OFUL, ht.LinTS, ht.EpsilonGreedy):
        del told["arm_bound"]  # arms are then taken to be as long as 1
    if not kind.algorithm.any_ridge:
        with pytest.raises(ValueError, match=r"ridge must be at least .* for arms as long"):
            kind(**told, ridge=lost)
    one = kind(**told, ridge=lost if kind.algorithm.any_ridge else 2.0 * lost)
    rng = np.random.default_rng(0)
    for _ in range(100):
        x = rng.normal(size=(4, 2))
        x *= 0.99 * arm_bound / np.linalg.norm(x, axis=1, keepdims=True)
        with contextlib.suppress(ValueError):  # a radius of 1e9 times the ball may leave no index
            one.update(x[one.select(x)], paid(one, float(rng.normal())))
    assert one.rounds == 100
    assert snapshot(one.clone()) == snapshot(one)


class Calling:
    """Features that teach the policy something else while they are being read."""

    def __init__(self, policy, numbers):
        self.policy, self.numbers = policy, numbers

    def __array__(self, *_, **__):
        with contextlib.suppress(ValueError):  # an epoch that has not ended wants its own arm
            self.policy.update(ARMS[1], 1.0)
        return np.array(self.numbers)


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_features_that_call_the_policy_back_are_learned_in_some_order(name):
    one = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    calls = [
        lambda: one.update(Calling(one, ARMS[0]), 1.0),
        lambda: one.update_many(Calling(one, ARMS[:1]), [0.0]),
        lambda: one.update_many(ARMS[:1], Calling(one, [1.0])),
        lambda: one.select(Calling(one, ARMS)),
        lambda: one.update(ARMS[0], Calling(one, 1.0)),
    ]
    for call in calls:
        before = one.rounds
        with contextlib.suppress(ValueError, TypeError):
            call()
        assert before <= one.rounds <= before + 2
        assert snapshot(one.clone()) == snapshot(one)
