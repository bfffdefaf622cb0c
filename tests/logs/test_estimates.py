"""Laws of the estimators, and their twins."""

from __future__ import annotations

import numpy as np
import pytest
from tests.logs.drawing import LOGGING, draw
from tests.naive import logs as naive

import heavytail as ht
from heavytail.logs import DM, DR, IPS, LS, LSE, SNIPS, Clipped, DRos, SwitchDR
from heavytail.logs.estimates import smoothing
from heavytail.logs.estimators import MEANS
from heavytail.logs.means import huber, huber_order, plain_mean, skew_corrected
from heavytail.logs.sketch import Pairs, Sketch

PLAIN = {"mean": "plain"}


def value(log, target, estimator):
    return ht.evaluate(log, target, estimator=estimator, bound=None).value


def model(rows):
    """Any predictions at all."""
    return np.cos(np.arange(10) + rows.start + np.arange(len(rows.action))[:, None])


@pytest.mark.parametrize(
    "estimator",
    [IPS(**PLAIN), SNIPS(**PLAIN), Clipped(**PLAIN), LS(smoothing=1e-9), LSE(smoothing=1e-9)]
    + [DR(lambda rows: np.zeros((len(rows.action), 1)), **PLAIN)]
    + [kind(lambda rows: rows.reward[:, None], **PLAIN) for kind in (DM, SwitchDR, DRos)],
    ids=lambda estimator: estimator.name,
)
def test_with_all_weights_one_every_estimator_is_the_mean(estimator):
    rng = np.random.default_rng(0)
    reward = rng.exponential(size=400)
    log = {"action": np.zeros(400, int), "reward": reward, "propensity": np.ones(400)}
    assert value(log, np.ones((400, 1)), estimator) == pytest.approx(reward.mean(), rel=1e-6)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kind", [IPS, SNIPS, Clipped])
def test_scaled_rewards_scale_every_estimate(kind, mean):
    d = draw(1)
    scaled = {**d.log, "reward": 1e3 * d.reward}
    once, often = (value(log, d.target, kind(mean=mean)) for log in (d.log, scaled))
    assert often == pytest.approx(1e3 * once, rel=1e-9)


@pytest.mark.parametrize("kind", [LS, LSE])
def test_smoothed_estimates_scale_with_the_inverse_of_their_strength(kind):
    d = draw(1)
    scaled = {**d.log, "reward": 1e3 * d.reward}
    once = value(d.log, d.target, kind(0.3))
    assert value(scaled, d.target, kind(3e-4)) == pytest.approx(1e3 * once, rel=1e-9)
    once = value(d.log, d.target, kind())
    assert value(scaled, d.target, kind()) == pytest.approx(1e3 * once, rel=1e-9)


@pytest.mark.parametrize("mean", MEANS)
def test_the_self_normalised_estimate_moves_with_a_shift_of_the_rewards(mean):
    d = draw(2)
    shifted = {**d.log, "reward": d.reward + 100.0}
    before, after = (value(log, d.target, SNIPS(mean=mean)) for log in (d.log, shifted))
    assert after == pytest.approx(before + 100.0, rel=1e-9)


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
    before, after = (value(log, d.target, IPS(**PLAIN)) for log in (d.log, shifted))
    assert abs(after - before - 100.0) > 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [LS, LSE])
def test_smoothed_estimates_are_never_above_ips(kind, seed):
    d = draw(seed)
    most = value(d.log, d.target, IPS(**PLAIN)) * (1 + 1e-12)
    for strength in (1e-6, 1e-2, 1.0, 50.0):
        assert value(d.log, d.target, kind(strength)) <= most


def test_the_doubly_robust_estimate_is_unbiased_with_any_model():
    found, truth = [], 0.0
    for seed in range(300):
        d = draw(seed, n=200, tail=4.0)
        truth = d.value
        found.append(value(d.log, d.target, DR(model, **PLAIN)))
    assert abs(np.mean(found) - truth) < 4.0 * np.std(found) / np.sqrt(len(found))


def test_the_row_order_does_not_matter_without_blocks_or_epochs():
    d = draw(4)
    order = np.random.default_rng(0).permutation(len(d.reward))
    mixed = {key: column[order] for key, column in d.log.items()}
    averaged = [
        kind(mean=mean) for kind in (IPS, SNIPS, Clipped) for mean in ("huber", "catoni", "plain")
    ]
    for estimator in (*averaged, LS(), LSE()):
        one = value(d.log, d.target, estimator)
        assert value(mixed, d.target, estimator) == pytest.approx(one, rel=1e-10)


def test_model_free_estimates_equal_their_twins():
    d = draw(5)
    w, r = d.weight, d.reward
    for estimator, twin in (
        (IPS(**PLAIN), naive.ips(w, r)),
        (SNIPS(**PLAIN), naive.snips(w, r)),
        (Clipped(clip=2.0, **PLAIN), naive.clipped(w, r, 2.0)),
        (Clipped(**PLAIN), naive.clipped(w, r, np.sqrt(len(r)))),
        (LS(smoothing=0.2), naive.log_smoothing(w * r, 0.2)),
        (LSE(smoothing=0.2), naive.log_sum_exp(w * r, 0.2)),
    ):
        assert value(d.log, d.target, estimator) == pytest.approx(twin)


def test_model_based_estimates_equal_their_twins():
    d = draw(6)
    n = len(d.reward)
    q, action = np.cos(np.arange(10) + np.arange(n)[:, None]), d.log["action"]
    pi, w, r = d.target, d.weight, d.reward
    assert value(d.log, pi, DM(model, **PLAIN)) == pytest.approx(naive.direct(q, pi))
    robust = naive.doubly_robust(w, r, q, action, pi)
    assert value(d.log, pi, DR(model, **PLAIN)) == pytest.approx(robust)
    light = np.where(w <= 1.5, w, 0.0)
    switched = naive.doubly_robust(light, r, q, action, pi)
    assert value(d.log, pi, SwitchDR(model, clip=1.5, **PLAIN)) == pytest.approx(switched)
    shrunk = naive.doubly_robust(naive.shrunk(w, 1.5), r, q, action, pi)
    assert value(d.log, pi, DRos(model, clip=1.5, **PLAIN)) == pytest.approx(shrunk)
    assert value(d.log, pi, DRos(model, clip=1e9, **PLAIN)) == pytest.approx(robust)


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
    assert value(d.log, d.target, DM("arms", **PLAIN)) == pytest.approx(expected)


def robust_mean(y):
    return skew_corrected(Pairs(np.ones(len(y)), y).cells()).value


def test_an_arm_without_rows_has_the_mean_of_all():
    log = {"action": np.zeros(8, int), "reward": np.full(8, 3.0), "propensity": np.ones(8)}
    target = np.tile([0.0, 0.0, 1.0], (8, 1))
    assert value(log, target, DM("arms", **PLAIN)) == pytest.approx(3.0)


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
    strength = (np.log(2.0 / 0.05) / len(w)) ** (1 / 1.4) / 2.0
    for kind, u in ((SNIPS, w), (IPS, np.ones(len(w)))):
        blocks, _ = naive.block_means(u, x)
        for mean, twin in (
            ("huber", naive.skew_corrected(u, x, naive.huber_order(u))),
            ("median-of-means", np.median(blocks)),
            ("minsker-ndaoud", naive.minsker_ndaoud(u, x)),
            (ht.MomentBound(1.4, 2.0), naive.catoni_mean(u, x, strength, 1.4)),
        ):
            found = value(d.log, d.target, kind(mean=mean))
            assert found == pytest.approx(twin, rel=1e-8)


def test_one_enormous_reward_hardly_moves_the_default():
    d = draw(7)
    before = ht.evaluate(d.log, d.target, bound=None)
    broken = {**d.log, "reward": np.where(np.arange(600) == 17, 1e12, d.reward)}
    after = ht.evaluate(broken, d.target, bound=None)
    assert abs(after.value - before.value) < 1.0
    assert value(broken, d.target, SNIPS(**PLAIN)) > 1e6


def test_without_outliers_the_default_is_snips():
    rng = np.random.default_rng(0)
    action = rng.choice(10, size=2000, p=LOGGING)
    log = {
        "action": action,
        "reward": 1.0 * rng.integers(2, size=2000),
        "propensity": LOGGING[action],
    }
    target = np.tile(draw(0).target[0], (2000, 1))
    plain = value(log, target, SNIPS(**PLAIN))
    assert ht.evaluate(log, target).value == pytest.approx(plain, rel=1e-12)


def test_a_regressor_is_fitted_to_the_other_folds():
    from sklearn.linear_model import LinearRegression

    d = draw(8, n=4000, tail=4.0)
    for kind in (DR, DM):
        found = value(d.log, d.target, kind(LinearRegression()))
        assert found == pytest.approx(d.value, rel=0.15)


@pytest.mark.parametrize(
    ("apart", "order"), [(0, 1.0), (3, 1.0), (6, 1.5), (10, 2.5), (30, None), (300, None)]
)
def test_at_most_a_quarter_of_the_rows_that_differ_is_clipped(apart, order):
    v = np.zeros(1000)
    v[:apart] = 1.0 + np.arange(apart)
    z = huber_order(Pairs(np.ones(1000), v).cells())
    assert z == pytest.approx(np.log(1000.0) if order is None else order)
