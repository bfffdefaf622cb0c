"""Parts of the policies' kernels, each beside its definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.layout import (
    CLIPPED,
    GAIN,
    INVERSE,
    LOG_DET,
    OK,
    OVERFLOW,
    PROJECTED,
    RADIUS,
    ROUNDS,
    SCRATCH,
    STEP,
    THETA,
)
from heavytail.kernels.one_pass import LARGEST
from heavytail.kernels.quadratic import first_extra
from heavytail.policies import (
    lin_ts,
    menu,
    robust_ucb,
)
from heavytail.policies.core import adaptive, practice
from heavytail.policies.core.adaptive import ADAPTIVE
from heavytail.policies.core.practice import PRACTICE as P

TAIL = ht.MomentBound(order=2.0, scale=1.0)
E1 = np.array([1.0, 0.0])


@pytest.fixture(autouse=True)
def without_the_compiler_numpy_warns_where_a_kernel_overflows() -> Any:
    with np.errstate(all="ignore"):
        yield


# --- The range of numbers


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("BTC", {"threshold_scale": math.inf}),
        ("BTC", {"threshold_scale": math.inf, "sup": True}),
        ("HuberBandit", {"threshold_scale": math.inf}),
        ("TOFU", {"threshold_scale": math.inf}),
        ("MoM", {"groups": 2, "repeats": 4}),
        ("RobustUCB", {"estimator": "median of means"}),
        ("RobustUCB", {"estimator": "catoni"}),
    ],
    ids=str,
)
def test_the_largest_reward_that_may_be_squared_is_taken_and_none_beyond(
    name: str, options: Any
) -> None:
    for sign in (1.0, -1.0):
        policy: Any = ht.make_policy(name, dim=2, horizon=300, tail=TAIL, arms=4, **options)
        state = policy.packed
        assert policy.algorithm.update(*state, E1, sign * LARGEST * (1 + 1e-9), 1.0) == OVERFLOW
        assert policy.rounds == 0
        assert policy.algorithm.update(*state, E1, sign * LARGEST, 1.0) == OK


def test_sums_of_rewards_are_refused_where_they_leave_the_range() -> None:
    for name, options in (
        ("MoM", {"groups": 2, "repeats": 6}),
        ("RobustUCB", {"estimator": "median of means"}),
    ):
        policy: Any = ht.make_policy(name, dim=2, horizon=300, tail=TAIL, arms=4, **options)
        assert policy.algorithm.update(*policy.packed, E1, 0.6 * LARGEST, 1.0) == OK
        assert policy.algorithm.update(*policy.packed, E1, 0.6 * LARGEST, 1.0) == OVERFLOW
        assert policy.algorithm.update(*policy.packed, E1, -0.6 * LARGEST, 1.0) == OK


def test_what_a_round_may_pull_in_adaptive_regression_ends_where_its_minimiser_can_come_back() -> (
    None
):
    def answer(x: Any, reward: float, nu: float = 1.0, **knobs: Any) -> int:
        policy = ht.HeavyOFUL(
            2, horizon=50, tail=TAIL, ridge=1e12, threshold_scale=math.inf, **knobs
        )
        return int(adaptive.observe(*policy.packed, x, reward, nu))

    for sign in (1.0, -1.0):  # 1e95 sqrt(lambda), in units of the ball
        assert answer(E1, sign * 1e101 * (1.0 - 1e-9)) == OK
        assert answer(E1, sign * 1e101 * (1.0 + 1e-9)) == OVERFLOW
    assert answer(np.zeros(2), 0.0, 1e-74, sigma_min=1e-90) == OK
    assert answer(np.zeros(2), 0.0, 1e-76, sigma_min=1e-90) == OVERFLOW


def test_a_reward_that_is_infinite_in_units_of_sigma_is_refused() -> None:
    policy = ht.HeavyOFUL(2, horizon=50, tail=TAIL, ridge=1e12, sigma_min=1e-5, theta_bound=1e-9)
    assert adaptive.observe(*policy.packed, E1, 1.7e308, 1e-5) == OVERFLOW
    assert adaptive.observe(*policy.packed, E1, 1.7e300, 1e-5) == OK


def test_a_round_of_adaptive_regression_leaves_what_the_layout_says() -> None:
    policy = ht.HeavyOFUL(2, horizon=50, tail=TAIL, threshold_scale=0.001)
    s = policy._s
    x = np.array([0.6, 0.3])
    squared = float(x @ policy.inverse_gram @ x)
    policy.update(x, 0.4)
    weight = 1.0 / policy.sigma**2
    assert s[GAIN] == pytest.approx(weight / (1.0 + weight * squared))
    assert (s[STEP], s[PROJECTED], s[ROUNDS]) == (0.0, 1.0, 1.0)
    assert s[LOG_DET] == pytest.approx(math.log(1.0 + weight * squared))
    assert s[ADAPTIVE.SIGMA] == policy.sigma
    assert s[CLIPPED] == 1.0


def test_a_residual_exactly_at_its_threshold_is_not_clipped() -> None:
    policy = ht.HeavyOFUL(2, horizon=50, tail=TAIL, threshold_scale=0.001)
    trial = policy.clone()
    trial.update(E1, 0.0)
    policy.update(E1, trial.tau * trial.sigma)
    assert policy._s[CLIPPED] == 0.0


# --- Hvt-UCB


def begun(**how: Any) -> ht.HvtUCB:
    """Hvt-UCB after the five rewards that set its unit to 10."""
    policy = ht.HvtUCB(2, **how)
    for _ in range(5):
        policy.update(E1, 1.0)
    return policy


def test_the_stability_of_hvt_ucb_is_alpha_times_the_gain() -> None:
    policy = begun(alpha=2.5, intercept=False, exploration=1.0, delta=0.5, ridge=2.0)
    x, reward = np.array([0.6, 0.3]), 4.0
    squared = float(x @ x) * 100.0 / 2.0
    policy.update(x, reward)
    z = reward / policy.sigma
    weight = 1.0 / (2.5 * policy.sigma**2)
    stability = z * z * 2.5 * squared * weight / (1.0 + weight * squared)
    rho = (1.0 + z * z) / 2.0
    sure = math.log(2.0) + math.log(2.0) / 2.0
    assert policy.radius == pytest.approx(math.sqrt(2.0 + stability + rho * sure))


def test_the_tail_index_of_hvt_ucb_compares_4_with_16_typical_sizes() -> None:
    policy = begun()
    s, unit = policy._s, 0.3 * 1.4826
    for size in (3.9, 4.1, 15.9, 16.1, 40.0, 4.5):
        s[P.TYPICAL] = 0.3
        practice.watch(s, 1.0, size * unit)
    assert (s[P.NEAR], s[P.FAR]) == (5.0, 2.0)
    index = policy.diagnostics().tail_index
    assert index == pytest.approx(math.log(2.5) / math.log(4.0))


def test_a_round_counts_by_the_inverse_of_its_squared_scale() -> None:
    s = begun()._s
    for sigma in (2.0, 4.0):
        practice.note(s, 1.0, 0.5, sigma, 1.0, 1.0)
    assert s[P.WEIGHT] == pytest.approx(1.0 / 4.0 + 1.0 / 16.0)
    assert s[P.WEIGHT_SQUARES] == pytest.approx(1.0 / 16.0 + 1.0 / 256.0)


@pytest.mark.parametrize("how", [{}, {"radius": "theory", "horizon": 90, "tail": TAIL}], ids=str)
def test_rewards_of_0_say_nothing_of_the_scale_while_they_lead(how: Any) -> None:
    policy = ht.HvtUCB(2, **how)
    s = policy._s
    start = s[P.VOTES]
    telling = 0
    for t, reward in enumerate([0.0, 1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 3.0, 1.0, 0.0, 2.0]):
        votes = s[P.VOTES]
        policy.update(E1, reward)
        telling += reward != 0.0 or votes < start
        assert s[P.TELLING] == telling, t
        assert s[P.VOTES] == votes + (1.0 if reward == 0.0 else -1.0)


def test_the_size_of_a_residual_is_in_units_of_the_round_s_scale() -> None:
    one, four = (ht.HvtUCB(2) for _ in range(2))
    for k in range(9):
        one.update(E1, 3.0 + k, scale=1.0)
        four.update(E1, 4.0 * (3.0 + k), scale=4.0)
    assert one._s[P.UNIT] == four._s[P.UNIT] == 50.0
    assert one._s[P.TYPICAL] == four._s[P.TYPICAL] != 0.0


# --- LinTS and MENU


def test_a_draw_of_lin_ts_spreads_by_the_factor_of_p() -> None:
    for inverse in (
        np.eye(3),
        np.diag([0.0, 1.0, 2.0]),
        np.cov(np.random.default_rng(0).normal(size=(3, 9))),
    ):
        policy = ht.LinTS(3, noise_scale=1.0, seed=5)
        s, M = policy.packed
        s[RADIUS] = 1.0
        M[THETA] = [0.3, -0.2, 0.1]
        M[INVERSE : INVERSE + 3] = inverse
        M[INVERSE + 3 : INVERSE + 6] = 7.0  # what an earlier draw left there
        lin_ts.draw(s, M)
        z = [lin_ts.normal(5, 0, k) for k in range(3)]
        root = np.linalg.cholesky(inverse + 1e-14 * np.eye(3))
        np.testing.assert_allclose(M[SCRATCH] - M[THETA], root @ z, atol=1e-6)
        np.testing.assert_array_equal(M[INVERSE : INVERSE + 3], inverse)


def test_menu_takes_the_copy_of_least_median_distance() -> None:
    rng = np.random.default_rng(8)
    for copies in (1, 2, 4, 5, 6):
        policy = ht.MENU(2, horizon=300, tail=TAIL, copies=copies)
        s, M = policy.packed
        sums = first_extra(2) + 1
        for _ in range(25):
            b = rng.standard_t(1.5, (copies, 2))
            V = np.eye(2) + np.diag(rng.uniform(0.0, 3.0, 2))
            M[sums : sums + copies], M[INVERSE : INVERSE + 2] = b, np.linalg.inv(V)
            menu.choose(s, M, copies)
            thetas = b @ np.linalg.inv(V)
            apart = [[math.sqrt((u - v) @ V @ (u - v)) for v in thetas] for u in thetas]
            middle = [
                np.median(np.delete(row, i) if copies > 1 else row) for i, row in enumerate(apart)
            ]
            chosen = int(np.argmin(np.round(middle, 12)))
            np.testing.assert_allclose(M[THETA], thetas[chosen])
            assert s[menu.S.CHOSEN] == chosen


# --- Robust means


def catoni(values: Any, level: float, start: float) -> float:
    count = len(values)
    s = np.concatenate([np.asarray(values, dtype=float), np.arange(-1.0, count - 1.0)])
    return float(robust_ucb.catoni_mean(s, 0, count, count - 1, level, start))


@pytest.mark.parametrize("level", [0.01, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("start", [-1e6, 0.0, 0.4, 1e6])
def test_catonis_mean_is_the_root_of_its_influence(level: float, start: float) -> None:
    def influence(values: Any, m: float) -> float:
        z = (np.asarray(values) - m) / level
        return float((np.sign(z) * np.log(1.0 + np.abs(z) + 0.5 * z * z)).sum())

    samples = [[50.0, 0.0, 0.1, 0.2], [-50.0, 0.0, 0.1], [1.0, 2.0], [3.0], [0.0, 0.0, 9.0, -9.5]]
    samples += [list(np.random.default_rng(k).standard_t(1.5, 15)) for k in range(3)]
    for values in samples:
        m = catoni(values, level, start)
        assert min(values) <= m <= max(values)
        nudge = 1e-9 * (abs(m) + level)
        assert influence(values, m - nudge) >= 0.0 >= influence(values, m + nudge)


def test_robust_ucb_lays_its_samples_where_they_are_saved() -> None:
    rewards = [0.5, -0.2, 0.9, 0.1, 0.3]
    for estimator, name in (("truncated", "sums"), ("median of means", "group_sums")):
        policy = ht.RobustUCB(2, horizon=300, tail=TAIL, arms=3, estimator=estimator)
        for reward in rewards:
            policy.update([0.0, 1.0], 0.1)
            policy.update(E1, reward)
        saved = policy.state_arrays()[name]
        groups = len(saved) // 3
        per_arm = saved.reshape(3, groups)
        np.testing.assert_allclose(per_arm.sum(axis=1), [0.5, 1.6, 0.0])
        if estimator != "truncated":
            assert groups == math.floor(16.0 * math.log(300) + 1.0)
            np.testing.assert_allclose(per_arm[1, :3], [0.3, 1.0, 0.3])
            assert policy.means[1] == pytest.approx(0.3)  # of 0.15, 0.5 and 0.3
        assert not policy._s[len(policy._s) - 1]
    policy = ht.RobustUCB(2, horizon=12, tail=TAIL, arms=3, estimator="catoni")
    for reward in rewards:
        policy.update(E1, reward)
    saved = policy.state_arrays()
    np.testing.assert_array_equal(saved["rewards"][:6], [*rewards, 0.0])
    np.testing.assert_array_equal(saved["previous"][:6], [-1, 0, 1, 2, 3, 0])
    np.testing.assert_array_equal(saved["last"], [4, -1, -1])


def test_robust_ucb_counts_what_it_truncates_and_keeps_what_is_at_the_level() -> None:
    policy = ht.RobustUCB(2, horizon=300, tail=TAIL, arms=3)
    level = robust_ucb.truncation_level(1.0, 2.0, 2.0, 2.0 * math.log(300))
    assert level == pytest.approx(2.0 / math.sqrt(2.0 * math.log(300)))
    policy.update(E1, level)
    assert (policy.means[0], policy._s[CLIPPED]) == (level, 0.0)
    for count in (1.0, 2.0, 3.0):
        policy.update(E1, 1e9)
        assert policy._s[CLIPPED] == count


@pytest.mark.filterwarnings("ignore:.*horizon")
def test_rewards_past_the_room_of_catonis_estimator_only_count_as_rounds() -> None:
    policy = ht.RobustUCB(2, horizon=5, tail=TAIL, arms=1, estimator="catoni")
    for reward in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        policy.update(E1, reward)
    assert policy.rounds == 7
    assert policy.pulls[0] == 5.0
    np.testing.assert_array_equal(policy.state_arrays()["rewards"], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert policy.state_arrays()["last"][0] == 4.0


def test_an_arm_that_is_new_is_not_found() -> None:
    policy = ht.RobustUCB(2, horizon=50, tail=TAIL, arms=3)
    arms = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.0]])
    s, M = policy.packed
    assert [robust_ucb.find(s, M, arms, i) for i in range(3)] == [-1, -1, -1]
    policy.update(E1, 0.1)
    policy.update([0.0, 1.0], 0.1)
    assert [robust_ucb.find(s, M, arms, i) for i in range(3)] == [1, 0, -1]


def test_rewards_exactly_at_the_level_are_kept() -> None:
    crt = ht.CRT(1, horizon=50, tail=TAIL)
    crt.update([1.0], 1.0)  # the level of round 1 is 1
    assert (crt.truncated, crt.theta[0]) == (0, 0.5)
    crtm = ht.CRTM(1, horizon=50, tail=TAIL, form="least squares")
    crtm._s[ht.policies.crtm.S.LEVEL] = 0.5
    crtm.update([1.0], 0.5)  # the width is 1
    assert (crtm._s[CLIPPED], crtm.theta[0]) == (0.0, 0.25)


@pytest.mark.parametrize("kind", [ht.AdaOFUL, ht.HeavyOFUL])
def test_before_the_first_round_the_radius_of_adaptive_regression_is_that_of_the_prior(
    kind: Any,
) -> None:
    policy = kind(2, horizon=50, tail=TAIL, ridge=4.0, theta_bound=3.0, radius_scale=0.5)
    assert policy.radius == pytest.approx(0.5 * 2.0 * 3.0)
