"""Policies that play one arm many times: their epochs, and what they reduce to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.repeats import median

TAIL = ht.MomentBound(order=2.0, scale=1.0)
ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0]])
REPEATING: dict[str, Any] = {
    "CRMM": {"repeats": 7},
    "MENU": {"copies": 5},
    "MoM": {"groups": 3, "repeats": 9},
    "BMM": {"copies": 5},
    "SupBMM": {"copies": 5, "sup": True, "radius_scale": 1.0},
}


def build(name: str, **options: Any) -> Any:
    return ht.make_policy(
        name.removeprefix("Sup"),
        dim=2,
        horizon=5000,
        tail=TAIL,
        arms=4,
        **{**REPEATING[name], **options},
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 50, 101])
def test_the_median_is_numpys(count: int) -> None:
    rng = np.random.default_rng(count)
    for values in (rng.standard_t(1.5, count), rng.integers(0, 3, count).astype(float)):
        room = np.concatenate([[-9.0, 99.0], values, [-99.0]])
        assert median(room, 2, count) == pytest.approx(np.median(values), rel=1e-15)
        np.testing.assert_array_equal(room[[0, 1, -1]], [-9.0, 99.0, -99.0])
        np.testing.assert_array_equal(np.sort(room[2:-1]), np.sort(values))


@pytest.mark.parametrize("name", REPEATING)
def test_the_same_arm_is_selected_until_its_pulls_are_spent(name: str) -> None:
    policy, rng = build(name), np.random.default_rng(0)
    for epoch in range(5):
        first = policy.select(ARMS)
        for pull in range(policy.repeats):
            assert policy.select(ARMS) == policy.select(ARMS) == first
            assert policy.pulls_left == (policy.repeats - pull if pull else 0)
            policy.update(ARMS[first], float(ARMS[first, 0] + rng.normal()))
        assert policy.epochs == epoch + 1
        assert policy.pulls_left == 0
        assert policy.meant is None
    assert policy.rounds == 5 * policy.repeats


@pytest.mark.parametrize("name", REPEATING)
def test_selecting_changes_nothing(name: str) -> None:
    policy = build(name)
    for t in range(2 * policy.repeats + 3):
        before = {key: array.copy() for key, array in policy.state_arrays().items()}
        choice = policy.select(ARMS)
        policy.select(ARMS[::-1].copy())
        for key, array in policy.state_arrays().items():
            np.testing.assert_array_equal(array, before[key])
        policy.update(ARMS[choice], float(t % 3))


@pytest.mark.parametrize("name", REPEATING)
def test_an_arm_no_longer_offered_is_replaced_by_the_nearest_and_the_reward_counts_for_it(
    name: str,
) -> None:
    whole, part = build(name), build(name)
    meant = whole.select(ARMS)
    assert part.select(ARMS) == meant
    others = np.delete(ARMS, meant, axis=0)
    nearest = int(np.argmin(np.linalg.norm(others - ARMS[meant], axis=1)))
    for pull in range(whole.repeats):
        reward = 0.1 * pull
        whole.update(ARMS[meant], reward)
        if pull == 0:
            part.update(ARMS[meant], reward)
        else:
            assert part.select(others) == nearest
            np.testing.assert_array_equal(part.meant, ARMS[meant])
            part.update(others[nearest], reward)
    for key, array in whole.state_arrays().items():
        np.testing.assert_array_equal(part.state_arrays()[key], array)


@pytest.mark.parametrize("name", REPEATING)
def test_a_policy_saved_inside_an_epoch_resumes_to_the_bit(name: str, tmp_path: Any) -> None:
    straight, rng = build(name), np.random.default_rng(1)
    pause = straight.repeats + straight.repeats // 2
    for t in range(3 * straight.repeats):
        if t == pause:
            straight.save(tmp_path / "policy.npz")
            resumed = ht.load(tmp_path / "policy.npz")
        x, reward = ARMS[straight.select(ARMS)], float(rng.standard_t(2.1))
        if t >= pause:
            assert resumed.select(ARMS) == straight.select(ARMS)
            resumed.update(x, reward)
        straight.update(x, reward)
    for key, array in straight.state_arrays().items():
        np.testing.assert_array_equal(resumed.state_arrays()[key], array)


@pytest.mark.parametrize("name", REPEATING)
def test_a_refused_reward_leaves_an_epoch_as_it_was(name: str) -> None:
    policy = build(name)
    for _ in range(2 * policy.repeats):
        x = ARMS[policy.select(ARMS)]
        before = {key: array.copy() for key, array in policy.state_arrays().items()}
        for bad in (math.nan, math.inf):
            with pytest.raises(ValueError, match="reward must be finite"):
                policy.update(x, bad)
        with pytest.raises(ValueError, match="norm"):
            policy.update([3.0, 4.0], 1.0)
        for key, array in policy.state_arrays().items():
            np.testing.assert_array_equal(array, before[key])
        policy.update(x, 1.0)


@pytest.mark.parametrize("name", REPEATING)
def test_a_horizon_too_short_for_one_epoch_names_the_smallest_that_works(name: str) -> None:
    def make(horizon: int) -> Any:
        return ht.make_policy(name.removeprefix("Sup"), dim=2, horizon=horizon, tail=TAIL, arms=4)

    with pytest.raises(ValueError, match=r"smallest horizon that works is (\d+)") as caught:
        make(3)
    smallest = int(str(caught.value).split("works is ")[1].split(";")[0])
    assert make(smallest).repeats <= smallest
    with pytest.raises(ValueError, match=f"smallest horizon that works is {smallest}"):
        make(smallest - 1)


def test_crmm_learns_from_the_median_alone() -> None:
    calm = build("CRMM")
    wild = build("CRMM")
    for low in range(7):
        calm.update([1.0, 0.0], float(low))
        wild.update([1.0, 0.0], -1e200 if low < 3 else 1e200 if low > 3 else 3.0)
    np.testing.assert_array_equal(calm.theta, wild.theta)


def test_crmm_with_one_pull_equals_crtm_without_truncation_under_equal_radius() -> None:
    tail = ht.MomentBound(order=1.5, scale=1.0)
    median_of_one = ht.CRMM(2, horizon=100, tail=tail, repeats=1, radius_scale=0.0)
    untruncated = ht.CRTM(2, horizon=100, tail=tail, threshold_scale=math.inf, radius_scale=0.0)
    rng = np.random.default_rng(2)
    for _ in range(100):
        arms = rng.uniform(-0.7, 0.7, (4, 2))
        arm = untruncated.select(arms)
        assert median_of_one.select(arms) == arm
        reward = float(arms[arm, 0] + rng.standard_t(1.6))
        untruncated.update(arms[arm], reward)
        median_of_one.update(arms[arm], reward)
        np.testing.assert_array_equal(median_of_one.theta, untruncated.theta)


@pytest.mark.compiled
def test_crmm_fails_under_skewed_noise_and_says_so() -> None:
    """Its documented bias: the median of centred Pareto noise is -1.41, not 0."""
    noise = ht.noise.Pareto(1.5)
    world = ht.LinearBandit(2, arms=10, noise=noise)
    tail = noise.tail(1.4)
    crmm = ht.CRMM(2, horizon=4000, tail=tail)
    robust = ht.HvtUCB(2, tail=tail)
    with pytest.warns(UserWarning, match="CRMM assumes symmetric noise"):
        results = ht.simulate([crmm, robust], world, rounds=4000, trials=20, seed=5)
    fair = ht.simulate(
        [ht.CRMM(2, horizon=4000, tail=ht.noise.StudentT(1.5).tail(1.4))],
        ht.LinearBandit(2, arms=10, noise=ht.noise.StudentT(1.5)),
        rounds=4000,
        trials=20,
        seed=5,
    )
    assert results["CRMM"].final.mean() > 3.0 * fair["CRMM"].final.mean()
    assert results["CRMM"].final.mean() > 1.5 * results["Hvt-UCB"].final.mean()
    late = results["CRMM"].regret[:, -1] - results["CRMM"].regret[:, 1999]
    early = results["CRMM"].regret[:, 1999]
    assert late.mean() > 0.6 * early.mean()  # regret keeps growing in proportion to t


def ridge(X: Any, y: Any) -> Any:
    return np.linalg.solve(np.eye(X.shape[1]) + X.T @ X, X.T @ y)


@pytest.mark.parametrize("name", ["MENU", "BMM"])
def test_with_one_copy_the_estimate_is_ridge_regression(name: str) -> None:
    policy = build(name, copies=1)
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-0.7, 0.7, (50, 2)), rng.standard_t(1.6, 50)
    for x, reward in zip(X, y, strict=True):
        policy.update(x, float(reward))
    np.testing.assert_allclose(policy.theta, ridge(X, y), rtol=1e-10)
    if name == "BMM":
        for x in ARMS:
            assert policy.expected(x) == pytest.approx(x @ ridge(X, y), rel=1e-10)


def test_menu_takes_the_copy_in_the_middle_and_bmm_the_median_prediction() -> None:
    menu, bmm = build("MENU"), build("BMM")
    rng = np.random.default_rng(5)
    X, Y = rng.uniform(-0.7, 0.7, (20, 2)), rng.standard_t(1.6, (20, 5))
    for x, rewards in zip(X, Y, strict=True):
        for reward in rewards:
            menu.update(x, float(reward))
            bmm.update(x, float(reward))
    V = np.eye(2) + X.T @ X
    thetas = np.array([ridge(X, y) for y in Y.T])
    apart = [[math.sqrt((a - b) @ V @ (a - b)) for b in thetas] for a in thetas]
    middle = int(np.argmin([np.median(np.delete(row, i)) for i, row in enumerate(apart)]))
    np.testing.assert_allclose(menu.theta, thetas[middle], rtol=1e-9)
    for x in ARMS:
        assert bmm.expected(x) == pytest.approx(np.median(thetas @ x), rel=1e-9)


def test_mom_with_one_group_learns_the_mean_and_with_more_the_median_of_means() -> None:
    rewards = [5.0, 1.0, 0.0, 2.0, 1.0, 900.0]
    for groups, learned in ((1, np.mean(rewards)), (3, np.median([3.0, 1.0, 450.5]))):
        policy = ht.MoM(1, horizon=5000, tail=TAIL, groups=groups, repeats=6)
        for reward in rewards:
            policy.update([1.0], reward)
        assert policy.epochs == 1
        assert policy.theta[0] == pytest.approx(learned / 2.0)  # ridge of one sample at lambda = 1


def test_theory_counts_of_repetitions_are_the_papers() -> None:
    T, K, delta = 18_000, 50, 0.01
    menu = ht.MENU(2, horizon=T, tail=TAIL, delta=delta)
    bmm = ht.BMM(2, horizon=T, tail=TAIL, arms=K, delta=delta)
    mom = ht.MoM(2, horizon=T, tail=TAIL, delta=delta)
    assert menu.repeats == math.ceil(24 * math.log(math.e * T / delta))
    assert bmm.repeats == math.ceil(8 * math.log(2 * K * T * math.log(T) / delta))
    assert mom.groups == math.floor(8 * math.log(2 / delta))
    assert 135 - mom.groups < mom.repeats <= 135 == math.ceil(T / T**0.5)


def test_the_sup_wrapper_learns_in_the_stage_that_explores() -> None:
    policy = build("SupBMM")
    counts = slice(ht.policies.bmm.COUNTS, ht.policies.bmm.COUNTS + 8)
    for _ in range(200 * 5):
        x = ARMS[policy.select(ARMS)]
        policy.update(x, float(x[0]))
    learned = policy._s[counts]
    assert learned.sum() == 200  # every epoch taught exactly one stage
    assert learned[0] > 0
    assert learned[1] > 0


@pytest.mark.compiled
def test_the_sup_wrapper_exploits_the_best_arm_once_all_widths_are_small() -> None:
    policy = build("SupBMM", copies=1, radius_scale=0.02)
    chosen = []
    for _ in range(3000):
        arm = policy.select(ARMS)
        chosen.append(arm)
        policy.update(ARMS[arm], float(ARMS[arm, 0]))
    assert chosen[-500:] == [0] * 500
