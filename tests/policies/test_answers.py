"""What a policy answers besides an arm: predictions, explanations and advice."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.layout import ROUNDS
from heavytail.policies import ALL
from heavytail.policies.core.practice import PRACTICE
from heavytail.policies.core.practice_report import unseen

TAIL = ht.MomentBound(order=2.0, scale=1.0)
ARMS = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]])


def fed(policy, rounds=300, unit=1.0, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        x = rng.uniform(-0.7, 0.7, 2)
        policy.update(x, unit * float(3.0 + x @ [1.0, -0.5] + 0.5 * rng.standard_normal()))
    return policy


@pytest.mark.parametrize(
    "make",
    [
        lambda: ht.TwinUCB(2),
        lambda: ht.TwinUCB(2, target="typical"),
        lambda: ht.HvtUCB(2),
        lambda: ht.HvtUCB(2, intercept=False, clip=np.inf),
        lambda: ht.OFUL(2, noise_scale=1.0),
    ],
)
def test_a_prediction_is_the_mean_and_lies_within_its_interval(make):
    policy = fed(make())
    level = getattr(policy, "intercept", 0.0)
    for x in ARMS:
        mean, low, high = policy.predict(x)
        assert mean == pytest.approx(float(x @ policy.theta) + level)
        assert low < mean < high
    many = policy.predict(ARMS)
    assert many.mean.shape == many.low.shape == (3,)
    assert many.mean[1] == pytest.approx(policy.predict(ARMS[1]).mean)


@pytest.mark.parametrize("make", [lambda: ht.TwinUCB(2), lambda: ht.HvtUCB(2)])
def test_an_interval_is_of_its_level_and_in_the_unit_of_the_reward(make):
    policy = fed(make())
    truth = 3.0 + ARMS @ [1.0, -0.5]
    found = policy.predict(ARMS)
    assert ((found.low < truth) & (truth < found.high)).all()
    wide, narrow = policy.predict(ARMS, level=0.99), policy.predict(ARMS, level=0.5)
    assert (wide.high > found.high).all()
    assert (narrow.high < found.high).all()
    cents = fed(make(), unit=2.0**7).predict(ARMS)
    np.testing.assert_array_equal(cents.high, 2.0**7 * found.high)


def test_an_interval_reaches_as_far_as_what_the_clip_took():
    plain, hit = fed(ht.TwinUCB(2)), fed(ht.TwinUCB(2))
    hit.update([0.1, 0.1], 1e6)
    plain.update([0.1, 0.1], 3.0)
    far, near = hit.predict(ARMS[0]), plain.predict(ARMS[0])
    assert far.high - far.mean > 2.0 * 1e6 / 301 * 0.9
    assert near.high - near.mean < 1.0


@pytest.mark.parametrize("bad", [[1.0], [[1.0, 2.0, 3.0]], [np.nan, 0.0], "text"])
def test_what_cannot_be_predicted_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match="predict"):
        ht.TwinUCB(2).predict(bad)


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0, np.nan])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(ValueError, match="level"):
        ht.TwinUCB(2).predict([1.0, 0.0], level=level)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_every_policy_predicts_or_says_why_not(kind):
    policy = ht.make_policy(kind.name, dim=2, horizon=2000, tail=TAIL, arms=3)
    said = []
    for ask in (lambda: policy.predict([1.0, 0.0]), lambda: policy.explain(ARMS)):
        try:
            ask()
        except ValueError as error:
            said.append(str(error))
    assert all(text.startswith(kind.__name__) for text in said)


@pytest.mark.parametrize("rounds", [0, 3, 150, 151, 152, 153])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ht.TwinUCB(2),
        lambda: ht.TwinUCB(2, target="typical"),
        lambda: ht.HvtUCB(2),
        lambda: ht.OFUL(2, noise_scale=1.0),
    ],
)
def test_the_arm_explained_is_the_one_chosen_and_of_largest_index(make, rounds):
    policy = fed(make(), rounds)
    found = policy.explain(ARMS)
    assert found.arm == policy.select(ARMS)
    index = found.parts["index"]
    assert list(found.parts)[-1] == "index"
    assert index[found.arm] >= index.max() - 1e-9 * abs(index.max())
    lines = str(found).splitlines()
    assert lines[0] == found.rule
    assert [line.endswith("<") for line in lines[2:]] == [i == found.arm for i in range(3)]


def test_advice_is_silent_where_nothing_deserves_a_look():
    assert fed(ht.TwinUCB(2)).diagnostics().advice == ()
    assert fed(ht.HvtUCB(2)).diagnostics().advice == ()


def test_advice_names_a_scale_that_does_not_fit():
    stated = ht.TwinUCB(2, tail=ht.MomentBound(order=2.0, scale=1e4))
    (word,) = [w for w in fed(stated).diagnostics().advice if "scale stated" in w]
    assert "1e+04" in word


def test_advice_names_the_ball_and_many_clips():
    policy = fed(ht.HvtUCB(2, theta_bound=1e-9, clip=0.2), 140)
    advice = " ".join(policy.diagnostics().advice)
    assert "ball of radius" in advice
    assert "were clipped" in advice


def test_advice_says_when_mean_and_typical_reward_part():
    rng = np.random.default_rng(1)
    policy = ht.TwinUCB(2)
    for _ in range(4000):
        x = rng.uniform(-0.7, 0.7, 2)
        rare = 30.0 * (rng.random() < 0.1 * (1.0 + x[0]))
        policy.update(x, float(0.3 * rng.standard_normal() - x[0] + rare))
    found = policy.diagnostics()
    assert found.mean_differs > 1.0
    assert any("do not order the arms alike" in word for word in found.advice)
    assert fed(ht.TwinUCB(2), 1000).diagnostics().mean_differs < 1.0


@pytest.mark.parametrize("index", [1.05, 1.3, 1.6, 2.5])
def test_what_a_threshold_takes_is_read_off_the_largest_residuals(index):
    """Of a power law, E(|z| - T)+ = T P(|z| > T) / (a - 1), here with a less one standard error."""
    policy = ht.TwinUCB(1)
    policy.update_many(np.ones((10, 1)), np.arange(10.0))
    s = policy.packed[0]
    at, edges = int(s[PRACTICE.SIZES]), 2.0 ** (0.5 * np.arange(63))  # in clips
    s[at + 1 : at + 63] = 1e4 * -np.diff(edges**-index)
    s[ROUNDS], s[PRACTICE.BEGAN], s[PRACTICE.SIGMA] = 1e5, 0.0, 3.0
    first = edges[1e4 * edges**-index >= 100.0][-1]
    number = 1e4 * first**-index
    believed = max(index * (1.0 - 1.0 / np.sqrt(number)), 1.1)
    for threshold in (first, 5.0 * first):
        s[PRACTICE.TAU] = threshold * s[PRACTICE.CLIP]
        share = number / 1e5 * (first / threshold) ** believed
        truth = 3.0 * s[PRACTICE.TAU] * share / (believed - 1.0)
        assert unseen(s) == pytest.approx(truth, rel=0.02)


def test_nothing_is_unseen_where_no_residual_was_large():
    policy = ht.TwinUCB(1)
    policy.update_many(np.ones((2_000, 1)), np.tile([1.0, 2.0], 1_000))
    assert unseen(policy.packed[0]) == 0.0


def test_fewer_than_five_large_residuals_tell_no_tail():
    policy = ht.TwinUCB(1)
    policy.update_many(np.ones((10, 1)), np.arange(10.0))
    s = policy.packed[0]
    at = int(s[PRACTICE.SIZES])
    for count in (4.0, 5.0):
        s[at + 1 : at + 63], s[at + 3] = 0.0, count
        assert (unseen(s) > 0.0) == (count == 5.0)


@pytest.mark.parametrize("make", [ht.HvtUCB, ht.TwinUCB])
def test_nothing_is_known_of_a_mean_before_five_rewards_that_are_not_0(make):
    policy = make(2)
    for reward in (30.0, 31.0, 32.0, 33.0):
        assert policy.predict(ARMS).low.tolist() == [-np.inf] * len(ARMS)
        assert policy.predict(ARMS).high.tolist() == [np.inf] * len(ARMS)
        policy.update(ARMS[0], reward)
    policy.update(ARMS[0], 34.0)
    assert np.isfinite(policy.predict(ARMS)).all()


def test_zeros_say_nothing_of_a_mean_before_five_rewards_that_are_not_0():
    policy = ht.TwinUCB(2)
    for reward in (30.0, 0.0, 31.0, 0.0, 0.0, 32.0, 33.0, 0.0):
        policy.update(ARMS[0], reward)
        assert policy.predict(ARMS).high.tolist() == [np.inf] * len(ARMS)
    policy.update(ARMS[0], 34.0)
    assert np.isfinite(policy.predict(ARMS)).all()
