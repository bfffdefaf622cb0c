"""Laws of the estimators, and their twins."""

from __future__ import annotations

import numpy as np
import pytest
from tests.logs.drawing import LOGGING, draw
from tests.naive import logs as naive

import heavytail as ht
from heavytail.logs.estimates import METHODS, smoothing
from heavytail.logs.means import MEANS, huber, huber_order, plain_mean, skew_corrected
from heavytail.logs.sketch import Pairs, Sketch

MODEL_FREE = ("ips", "snips", "clipped", "ls", "lse")


def value(log, target, method="snips", mean="plain", **kw):
    kw.setdefault("interval", None)
    return ht.evaluate(log, target, method=method, mean=mean, **kw).value


def model(rows):
    """Any predictions at all."""
    return np.cos(np.arange(10) + rows.start + np.arange(len(rows.action))[:, None])


@pytest.mark.parametrize("method", METHODS)
def test_with_all_weights_one_every_estimator_is_the_mean(method):
    rng = np.random.default_rng(0)
    reward = rng.exponential(size=400)
    log = {"action": np.zeros(400, int), "reward": reward, "propensity": np.ones(400)}
    kw = {"smoothing": 1e-9} if method in ("ls", "lse") else {}
    if METHODS[method].model:
        constant = np.zeros if method == "dr" else None
        kw["model"] = (
            (lambda rows: np.zeros((len(rows.action), 1)))
            if constant
            else (lambda rows: rows.reward[:, None])
        )
    assert value(log, np.ones((400, 1)), method, **kw) == pytest.approx(reward.mean(), rel=1e-6)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("method", ["ips", "snips", "clipped"])
def test_scaled_rewards_scale_every_estimate(method, mean):
    d = draw(1)
    scaled = {**d.log, "reward": 1e3 * d.reward}
    once, often = value(d.log, d.target, method, mean), value(scaled, d.target, method, mean)
    assert often == pytest.approx(1e3 * once, rel=1e-9)


@pytest.mark.parametrize("method", ["ls", "lse"])
def test_smoothed_estimates_scale_with_the_inverse_of_their_strength(method):
    d = draw(1)
    scaled = {**d.log, "reward": 1e3 * d.reward}
    once = value(d.log, d.target, method, smoothing=0.3)
    assert value(scaled, d.target, method, smoothing=3e-4) == pytest.approx(1e3 * once, rel=1e-9)
    assert value(scaled, d.target, method) == pytest.approx(
        1e3 * value(d.log, d.target, method), rel=1e-9
    )


@pytest.mark.parametrize("mean", MEANS)
def test_the_self_normalised_estimate_moves_with_a_shift_of_the_rewards(mean):
    d = draw(2)
    shifted = {**d.log, "reward": d.reward + 100.0}
    before = value(d.log, d.target, "snips", mean)
    assert value(shifted, d.target, "snips", mean) == pytest.approx(before + 100.0, rel=1e-9)


def test_the_strength_of_smoothing_is_that_of_the_clipped_second_moment():
    """One reward of 1e6 counts as the threshold in it, not as itself."""
    assert smoothing(Sketch(np.ones(50)), 0.1) == pytest.approx(np.sqrt(2.0 * np.log(20.0) / 50.0))
    reward = np.random.default_rng(0).exponential(size=200)
    reward[7] = 1e6
    z = np.log(200.0)
    tau = naive.huber_threshold(reward - naive.huber(np.ones(200), reward, z), z)
    assert tau < 100.0
    expected = np.sqrt(2.0 * np.log(20.0) / np.sum(np.minimum(reward, tau) ** 2))
    assert smoothing(Sketch(reward), 0.1) == pytest.approx(expected, rel=1e-6)


def test_ips_does_not_move_with_a_shift():
    d = draw(2)
    shifted = {**d.log, "reward": d.reward + 100.0}
    before = value(d.log, d.target, "ips")
    assert abs(value(shifted, d.target, "ips") - before - 100.0) > 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("method", ["ls", "lse"])
def test_smoothed_estimates_are_never_above_ips(method, seed):
    d = draw(seed)
    for strength in (1e-6, 1e-2, 1.0, 50.0):
        assert value(d.log, d.target, method, smoothing=strength) <= value(
            d.log, d.target, "ips"
        ) * (1 + 1e-12)


def test_the_doubly_robust_estimate_is_unbiased_with_any_model():
    found, truth = [], 0.0
    for seed in range(300):
        d = draw(seed, n=200, tail=4.0)
        truth = d.value
        found.append(value(d.log, d.target, "dr", model=model))
    assert abs(np.mean(found) - truth) < 4.0 * np.std(found) / np.sqrt(len(found))


def test_the_row_order_does_not_matter_without_blocks_or_epochs():
    d = draw(4)
    order = np.random.default_rng(0).permutation(len(d.reward))
    mixed = {key: column[order] for key, column in d.log.items()}
    for method in MODEL_FREE:
        for mean in ("huber", "catoni", "plain"):
            one = value(d.log, d.target, method, mean)
            assert value(mixed, d.target, method, mean) == pytest.approx(one, rel=1e-10)


def test_model_free_estimates_equal_their_twins():
    d = draw(5)
    w, r = d.weight, d.reward
    assert value(d.log, d.target, "ips") == pytest.approx(naive.ips(w, r))
    assert value(d.log, d.target, "snips") == pytest.approx(naive.snips(w, r))
    assert value(d.log, d.target, "clipped", clip=2.0) == pytest.approx(naive.clipped(w, r, 2.0))
    root = np.sqrt(len(r))
    assert value(d.log, d.target, "clipped") == pytest.approx(naive.clipped(w, r, root))
    assert value(d.log, d.target, "ls", smoothing=0.2) == pytest.approx(
        naive.log_smoothing(w * r, 0.2)
    )
    assert value(d.log, d.target, "lse", smoothing=0.2) == pytest.approx(
        naive.log_sum_exp(w * r, 0.2)
    )


def test_model_based_estimates_equal_their_twins():
    d = draw(6)
    n = len(d.reward)
    q, action = np.cos(np.arange(10) + np.arange(n)[:, None]), d.log["action"]
    pi, w, r = d.target, d.weight, d.reward
    assert value(d.log, pi, "dm", model=model) == pytest.approx(naive.direct(q, pi))
    robust = naive.doubly_robust(w, r, q, action, pi)
    assert value(d.log, pi, "dr", model=model) == pytest.approx(robust)
    light = np.where(w <= 1.5, w, 0.0)
    switched = naive.doubly_robust(light, r, q, action, pi)
    assert value(d.log, pi, "switch-dr", model=model, clip=1.5) == pytest.approx(switched)
    shrunk = naive.doubly_robust(naive.shrunk(w, 1.5), r, q, action, pi)
    assert value(d.log, pi, "dros", model=model, clip=1.5) == pytest.approx(shrunk)
    assert value(d.log, pi, "dros", model=model, clip=1e9) == pytest.approx(robust)


def test_the_model_of_the_arms_is_each_arms_robust_mean_in_the_other_folds():
    d = draw(6)
    r, action, fold = d.reward, d.log["action"], np.arange(600) % 5
    whole = [robust_mean(r[fold != k]) for k in range(5)]
    q = np.empty((5, 10))
    for k in range(5):
        for arm in range(10):
            own = r[(fold != k) & (action == arm)]
            q[k, arm] = (robust_mean(own) * len(own) + 2.0 * whole[k]) / (len(own) + 2.0)
    expected = np.mean(np.sum(d.target * q[fold], axis=1))
    assert value(d.log, d.target, "dm", model="arms") == pytest.approx(expected)


def robust_mean(y):
    return skew_corrected(Pairs(np.ones(len(y)), y).cells()).value


def test_an_arm_without_rows_has_the_mean_of_all():
    log = {"action": np.zeros(8, int), "reward": np.full(8, 3.0), "propensity": np.ones(8)}
    target = np.tile([0.0, 0.0, 1.0], (8, 1))
    assert value(log, target, "dm", model="arms") == pytest.approx(3.0)
    with pytest.raises(ValueError, match="must be 'arms'"):
        value(log, target, "dm", model="ridge")


@pytest.mark.parametrize("mirror", [1.0, -1.0])
def test_of_a_tail_on_one_side_rows_count_up_to_four_thresholds(mirror):
    v = np.zeros(1000)
    v[:600] = np.linspace(0.0, 1.0, 600)
    v[600], v[601] = 40.0, 4000.0
    cells = Pairs(np.ones(1000), mirror * v).cells()
    plain, first = plain_mean(cells).value, huber(cells)
    tau = first.threshold
    assert tau < 10.0
    e = np.abs(v - mirror * first.value)
    expected = (np.minimum(e, 4.0 * tau) - np.minimum(e, tau)).sum() / 1000.0
    found = skew_corrected(cells)
    assert mirror * (found.value - first.value) == pytest.approx(expected, rel=1e-6)
    assert mirror * found.value < mirror * plain
    counted = np.where(e > tau, np.minimum(e, 4.0 * tau), e)
    assert found.error == pytest.approx(np.sqrt(counted @ counted) / 1000.0, rel=1e-6)


def test_tails_on_both_sides_alike_are_clipped_as_huber_clips_them():
    rng = np.random.default_rng(3)
    half = rng.standard_t(1.5, 2000)
    cells = Pairs(np.ones(4000), np.concatenate([half, -half])).cells()
    assert skew_corrected(cells).value == pytest.approx(huber(cells).value, abs=1e-12)
    assert skew_corrected(cells).error == pytest.approx(huber(cells).error)


def test_the_value_of_rewards_with_zeros_lies_less_low_than_hubers_and_errs_no_more():
    rng = np.random.default_rng(12)
    off = np.empty((300, 2))
    for k in range(300):
        reward = 10.0 * (rng.random(400) < 0.1) * np.exp(1.2 * rng.standard_normal(400) - 0.72)
        cells = Pairs(np.ones(400), reward).cells()
        off[k] = huber(cells).value - 1.0, skew_corrected(cells).value - 1.0
    low, less = off.mean(axis=0)
    assert low < -0.15
    assert abs(less) < 0.5 * abs(low)
    assert np.mean(off[:, 1] ** 2) < 1.02 * np.mean(off[:, 0] ** 2)


@pytest.mark.parametrize("arm", [1, 9])
@pytest.mark.parametrize("seed", range(4))
def test_robust_means_equal_their_twins(seed, arm):
    d = draw(seed, arm=arm)
    w, x = d.weight, d.weight * d.reward
    for method, u in (("snips", w), ("ips", np.ones(len(w)))):
        z = naive.huber_order(u)
        assert value(d.log, d.target, method, "huber") == pytest.approx(
            naive.skew_corrected(u, x, z), rel=1e-8
        )
        found, _ = naive.block_means(u, x)
        assert value(d.log, d.target, method, "median-of-means") == pytest.approx(np.median(found))
        assert value(d.log, d.target, method, "minsker-ndaoud") == pytest.approx(
            naive.minsker_ndaoud(u, x)
        )
        tail = ht.MomentBound(1.4, 2.0)
        strength = (np.log(2.0 / 0.05) / len(w)) ** (1 / 1.4) / 2.0
        assert value(d.log, d.target, method, "catoni", tail=tail) == pytest.approx(
            naive.catoni_mean(u, x, strength, 1.4), rel=1e-8
        )


def test_one_enormous_reward_hardly_moves_the_default():
    d = draw(7)
    before = ht.evaluate(d.log, d.target, interval=None)
    broken = {**d.log, "reward": np.where(np.arange(600) == 17, 1e12, d.reward)}
    after = ht.evaluate(broken, d.target, interval=None)
    assert abs(after.value - before.value) < 1.0
    assert value(broken, d.target, "snips") > 1e6


def test_without_outliers_the_default_is_snips():
    rng = np.random.default_rng(0)
    action = rng.choice(10, size=2000, p=LOGGING)
    log = {
        "action": action,
        "reward": 1.0 * rng.integers(2, size=2000),
        "propensity": LOGGING[action],
    }
    target = np.tile(draw(0).target[0], (2000, 1))
    assert ht.evaluate(log, target).value == pytest.approx(value(log, target, "snips"), rel=1e-12)


def test_a_regressor_is_fitted_to_the_other_folds():
    from sklearn.linear_model import LinearRegression

    d = draw(8, n=4000, tail=4.0)
    found = ht.evaluate(d.log, d.target, model=LinearRegression(), interval=None)
    assert found.method == "dr"
    assert found.value == pytest.approx(d.value, rel=0.15)
    direct = ht.evaluate(d.log, d.target, model=LinearRegression(), method="dm", interval=None)
    assert direct.value == pytest.approx(d.value, rel=0.15)


@pytest.mark.parametrize(
    ("apart", "order"), [(0, 1.0), (3, 1.0), (6, 1.5), (10, 2.5), (30, None), (300, None)]
)
def test_at_most_a_quarter_of_the_rows_that_differ_is_clipped(apart, order):
    v = np.zeros(1000)
    v[:apart] = 1.0 + np.arange(apart)
    z = huber_order(Pairs(np.ones(1000), v).cells())
    assert z == pytest.approx(np.log(1000.0) if order is None else order)
