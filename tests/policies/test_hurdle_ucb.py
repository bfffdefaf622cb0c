"""Hurdle-UCB: against its twin, and what it promises of rewards that are mostly 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.common import game, near, together
from tests.naive.hurdle import Hurdle

import heavytail as ht
from heavytail.kernels.layout import INVERSE, THETA
from heavytail.policies.core.practice import PRACTICE as P
from heavytail.policies.hurdle_ucb import S, amount_of, conversion_row, largest_product

DIMS = (1, 2, 5)
ROUNDS = 250


def seldom(chance=0.35, lift=0.3, sign=1.0, dear=1.0, seed=11):
    """Rewards that are mostly 0, and else sizes that differ by arm; ``sign`` 0 draws one."""
    rng = np.random.default_rng(seed)

    def reward(x, noise):
        paid = rng.random() < chance + lift * x[0]
        side = sign if sign else rng.choice([-1.0, 1.0])
        return float(side * math.exp(dear * x[-1] + np.clip(noise, -3.0, 3.0))) if paid else 0.0

    return reward


class Seen:
    """A policy whose named numbers can be looked at as its attributes are."""

    def __init__(self, policy):
        self.policy = policy

    def __getattr__(self, name):
        scalars = self.policy.state["scalars"]
        return scalars[name] if name in scalars else getattr(self.policy, name)


LOOK = ("theta", "radius", "conversion_radius", "middle", "size_factor", "mean_factor")
LOOK += ("audit",)


def side_by_side(policy, twin, rounds, reward):
    together(Seen(policy), twin, rounds, LOOK, reward=reward)
    rng = np.random.default_rng(1)
    for x in rng.standard_normal((20, policy.dim)):
        x *= twin.bound / np.linalg.norm(x)
        near(policy.conversion(x), twin.conversion(x), "conversion")
        near(policy.amount(x), twin.amount(x), "amount")


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_hurdle_ucb_is_its_formulas(d, sign):
    side_by_side(ht.HurdleUCB(d), Hurdle(d), game(d, ROUNDS), seldom(sign=sign))


@pytest.mark.parametrize("scales", [False, True])
def test_hurdle_ucb_takes_a_stated_scale_and_a_bound(scales):
    policy = ht.HurdleUCB(3, tail=ht.MomentBound(1.5, 0.7), arm_bound=2.5)
    twin = Hurdle(3, scale=0.7, arm_bound=2.5)
    side_by_side(policy, twin, game(3, ROUNDS, length=2.5, scales=scales), seldom(lift=0.1))


@pytest.mark.parametrize("chance", [0.02, 1.0])
def test_hurdle_ucb_is_its_formulas_where_zeros_are_nearly_all_or_none(chance):
    reward = seldom(chance=chance, lift=0.0, sign=0.0)
    side_by_side(ht.HurdleUCB(2), Hurdle(2), game(2, ROUNDS), reward)


@pytest.mark.parametrize("absurd", [1e8, 1e-7])
def test_sizes_are_compared_from_nothing_where_amounts_begin_again(absurd):
    policy, paid, ordinary = ht.HurdleUCB(2), [], seldom()

    def reward(x, noise):
        paid.append(ordinary(x, noise))
        return absurd * (1.0 + 0.1 * len(paid)) if len(paid) <= 4 else paid[-1]

    side_by_side(policy, Hurdle(2), game(2, ROUNDS), reward)
    assert policy.state["scalars"]["dropped"] > 30.0


@pytest.mark.parametrize(
    "moved",
    [
        {"exploration": 0.66},
        {"conversion_exploration": 0.38},
        {"amount_exploration": 0.17},
        {"chance": 1.9},
        {"audits": 1.45},
        {"shrinking": 0.95},
        {"ridge": 0.011},
    ],
    ids=str,
)
def test_a_twin_with_another_constant_parts_ways(moved):
    for reward in (seldom(), seldom(sign=-1.0)):
        with pytest.raises(AssertionError):
            side_by_side(ht.HurdleUCB(3), Hurdle(3, **moved), game(3, ROUNDS), reward)


# --- promises


def shop(policy, chance, amount, rounds=3_000, seed=3, unit=1.0):
    """Play fixed arms, their chance and mean amount functions of x; the arms played."""
    rng = np.random.default_rng(seed)
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8], [-0.8, -0.6], [0.6, -0.8]])
    played = []
    for _ in range(rounds):
        arm = policy.select(arms)
        size, u = math.exp(0.8 * rng.standard_normal() - 0.32), rng.random()
        x = arms[arm]
        policy.update(x, unit * amount(x) * size if u < chance(x) else 0.0)
        played.append(arm)
    return np.array(played)


def late(played, arm):
    return np.mean(played[-1_000:] == arm)


def test_the_arm_that_sells_oftener_is_found():
    played = shop(ht.HurdleUCB(2), lambda x: 0.15 + 0.1 * x[0], lambda x: 20.0)
    assert late(played, 0) > 0.8


def test_the_arm_that_sells_for_more_is_found():
    played = shop(ht.HurdleUCB(2), lambda x: 0.15, lambda x: 20.0 + 15.0 * x[1])
    assert late(played, 1) > 0.8


def test_the_arm_that_sells_for_more_is_found_though_it_sells_less_often():
    played = shop(ht.HurdleUCB(2), lambda x: 0.25 - 0.05 * x[1], lambda x: 20.0 + 16.0 * x[1])
    assert late(played, 1) + late(played, 2) > 0.9


def test_a_loss_is_kept_rare_and_small():
    policy = ht.HurdleUCB(2)
    played = shop(policy, lambda x: 0.15 + 0.1 * x[0], lambda x: -20.0)
    assert late(played, 3) > 0.8  # of the arms the one least along the first feature
    assert policy.amount([1.0, 0.0]) < 0.0
    played = shop(ht.HurdleUCB(2), lambda x: 0.15, lambda x: -20.0 - 15.0 * x[1])
    assert late(played, 4) > 0.8


@pytest.mark.parametrize("power", [-40, 3, 60])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_unit_of_the_rewards_changes_nothing(power, sign):
    worlds = (lambda x: 0.2 + 0.1 * x[0], lambda x: sign * (20.0 + 15.0 * x[1]))
    one, two = ht.HurdleUCB(2), ht.HurdleUCB(2)
    unit = 2.0**power
    assert np.array_equal(shop(one, *worlds, 600), shop(two, *worlds, 600, unit=unit))
    assert np.array_equal(one.theta * unit, two.theta)
    assert one.amount([0.6, 0.8]) * unit == two.amount([0.6, 0.8])
    assert one.conversion([0.6, 0.8]) == two.conversion([0.6, 0.8])


def test_amounts_that_do_not_depend_on_the_arm_are_taken_for_a_constant():
    rng = np.random.default_rng(5)
    policy = ht.HurdleUCB(4)
    for _ in range(400):
        x = rng.standard_normal(4)
        policy.update(x / np.linalg.norm(x), float(np.exp(rng.standard_normal())))
    assert policy.state["scalars"]["size_factor"] < 0.7
    steep = ht.HurdleUCB(4)
    for _ in range(400):
        x = rng.standard_normal(4)
        x /= np.linalg.norm(x)
        steep.update(x, float(np.exp(2.0 * x[0] + rng.standard_normal())))
    assert steep.state["scalars"]["size_factor"] > 0.95


def test_where_sizes_mislead_the_mean_is_heard():
    rng = np.random.default_rng(6)
    policy = ht.HurdleUCB(1)
    for _ in range(20_000):  # the usual amount falls along x, the mean rises
        x = rng.uniform(-1.0, 1.0)
        usual = (1.0 - 0.3 * x) * math.exp(rng.standard_normal())
        amount = 30.0 * (1.0 + 0.9 * x) if rng.random() < 0.05 else usual
        policy.update([x], amount if rng.random() < 0.2 else 0.0)
    assert policy.state["scalars"]["mean_factor"] > 0.5
    assert policy.amount([1.0]) > policy.amount([-1.0]) + 1.0
    assert policy.theta[0] > 0.0


def test_before_anything_is_known_no_amount_is_told_and_arms_are_spread():
    policy = ht.HurdleUCB(2)
    assert policy.amount([1.0, 0.0]) == policy.conversion([1.0, 0.0]) == 0.0
    arms = np.eye(2)
    chosen = []
    for _ in range(20):
        chosen.append(policy.select(arms))
        policy.update(arms[chosen[-1]], 0.0)
    assert chosen == [0, 1] * 10
    assert not policy.theta.any()


@pytest.mark.parametrize("amount", [1.0, -3.7])
def test_amounts_that_are_all_the_same_are_found(amount):
    policy = ht.HurdleUCB(2)
    rng = np.random.default_rng(8)
    for _ in range(300):
        x = rng.standard_normal(2)
        x /= np.linalg.norm(x)
        policy.update(x, amount if rng.random() < 0.3 + 0.2 * x[0] else 0.0)
    assert policy.amount([0.6, 0.8]) == pytest.approx(amount, rel=1e-3)
    assert policy.conversion([1.0, 0.0]) == pytest.approx(0.5, abs=0.12)
    assert policy.theta[0] == pytest.approx(0.2 * amount, rel=0.6)


@pytest.mark.filterwarnings("ignore:overflow")  # NumPy's, with the compiler off
def test_extreme_amounts_leave_every_number_finite():
    policy = ht.HurdleUCB(2)
    rng = np.random.default_rng(9)
    for power in [300, -300, 0, 5, -320, 300, 308, -308] * 6:
        reward = float(rng.choice([-1.0, 0.0, 1.0]) * 10.0**power)
        x = rng.uniform(-0.7, 0.7, 2)
        try:
            policy.update(x, reward)
        except ValueError:
            continue
        assert all(np.isfinite(a).all() for k, a in policy.state_arrays().items() if k != "scalars")
        assert not any(np.isnan(a).any() for a in policy.state_arrays().values())
        assert 0.0 <= policy.conversion(x) <= 1.0
        assert math.isfinite(policy.amount(x))
        assert policy.select(np.eye(2)) in (0, 1)


@pytest.mark.filterwarnings("ignore:overflow")
def test_sizes_past_all_numbers_are_compared_as_the_largest():
    policy = ht.HurdleUCB(2)
    for reward, scale in [(1e300, 1e-100), (1e300, 1e-100), (1e-300, 1e100), (2.0, 1.0)]:
        policy.update([0.6, 0.8], reward, scale=scale)
    assert not any(np.isnan(a).any() for a in policy.state_arrays().values())


@pytest.mark.parametrize(
    ("share", "spread", "amount", "best"),
    [
        (0.5, 0.1, 2.0, 1.2),
        (0.95, 0.1, 2.0, 2.0),  # a chance is at most 1 ...
        (-0.5, 0.1, 2.0, 0.0),  # ... and at least 0
        (0.5, 0.1, -2.0, -0.8),
        (1.5, 0.1, -2.0, -2.0),
        (0.05, 0.1, -2.0, 0.1),  # the least known of losses that may never happen
        (0.5, 0.1, 0.0, 0.0),
    ],
)
def test_the_largest_product_is_at_a_corner(share, spread, amount, best):
    assert largest_product(share, spread, amount) == pytest.approx(best)


def test_a_guess_by_sizes_stays_in_range():
    s = ht.HurdleUCB(1).packed[0]
    s[S.SIZE_FACTOR], s[S.MIDDLE] = 1.0, 1e150
    assert amount_of(s, 0.0, 1e3) == pytest.approx(1e150 * math.exp(100.0))


def test_a_vector_of_the_wrong_length_is_refused():
    for name in ("conversion", "amount"):
        with pytest.raises(ValueError, match=f"HurdleUCB.{name}"):
            getattr(ht.HurdleUCB(2), name)([1.0])


def test_what_it_learned_of_the_amounts_is_told():
    policy = ht.HurdleUCB(2)
    np.testing.assert_array_equal(policy.theta, [0.0, 0.0])
    shop(policy, lambda x: 0.3, lambda x: 20.0, rounds=400)
    told = policy.diagnostics()
    assert told.rounds == 400
    assert 2.0 < told.scale < 40.0
    assert 20 < told.effective_samples <= 200
    assert told.threshold > 0.0


def test_theta_is_the_slope_of_the_product_at_the_average():
    policy = ht.HurdleUCB(2)
    for k in range(3):
        policy.update([1.0, 0.0], 0.0 if k else 5.0)
    s, M = policy.packed
    share = 1.0 / 3.0
    want = share * M[THETA] + s[S.MIDDLE] * M[conversion_row(M)]
    np.testing.assert_allclose(policy.theta, want[:2], rtol=1e-14)
    s[S.MIDDLE] = 7.0
    np.testing.assert_allclose(policy.theta - want[:2], 7.0 * M[conversion_row(M), :2], rtol=1e-14)


@pytest.mark.parametrize("rounds", [0, 3, 400, 401, 402, 403])
def test_it_predicts_a_product_and_explains_its_choice(rounds):
    policy = ht.HurdleUCB(2)
    shop(policy, lambda x: 0.3 + 0.1 * x[0], lambda x: 20.0, rounds=rounds)
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]])
    for x in arms:
        mean, low, high = policy.predict(x)
        assert mean == pytest.approx(policy.conversion(x) * policy.amount(x))
        assert low <= mean <= high
    found = policy.explain(arms)
    assert found.arm == policy.select(arms)
    index = found.parts["index"]
    assert index[found.arm] >= index.max() - 1e-9 * abs(index.max())
    if rounds > 100:
        truth = (0.3 + 0.1 * arms[found.arm][0]) * 20.0
        mean, low, high = policy.predict(arms[found.arm])
        assert low < truth < high
        assert high - low < 20.0


def test_the_interval_of_a_product_is_that_of_its_factors():
    policy = ht.HurdleUCB(2)
    shop(policy, lambda x: 0.3, lambda x: 20.0, rounds=300)
    s, M = policy.packed
    x, C = np.array([0.6, 0.8, 1.0]), conversion_row(M)
    z = 1.05 * 2.2414027276049464  # the normal's quantile for 1 - 0.05 / 4
    width = math.sqrt(x @ M[C + INVERSE : C + INVERSE + 3] @ x)
    q = z * math.sqrt((1.0 + s[S.CONVERSION_ENERGY]) / 301.0) * width
    t = s[P.TELLING] - 5.0
    m = z * math.sqrt((1.0 + s[P.ENERGY]) / (1.0 + t)) * policy.width(x[:2]) + 2 * s[P.LOST] / t
    half = policy.amount(x[:2]) * q + policy.conversion(x[:2]) * m + q * m
    mean, low, high = policy.predict(x[:2])
    assert high - mean == pytest.approx(half, rel=1e-9)
    assert mean - low == pytest.approx(half, rel=1e-9)
