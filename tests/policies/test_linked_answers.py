"""What policies with a link answer: intervals, advice, and where Hvt-GLB begins."""

from __future__ import annotations

import math

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies.core.practice import PRACTICE

# --- advice


def learned_from(policy, rewards):
    rng = np.random.default_rng(3)
    for reward in rewards:
        policy.update(0.9 * rng.dirichlet(np.ones(2)), float(reward))
    return policy.diagnostics().advice


def test_advice_names_counts_that_spread_too_far_a_small_ball_and_amounts_that_are_mostly_none():
    counts = np.random.default_rng(4).poisson(3.0, 200)
    assert learned_from(ht.GLBOMD(2, link="log"), counts) == ()
    broken = np.where(np.arange(200) % 50 == 7, 1000 * counts, counts)
    (told,) = learned_from(ht.GLBOMD(2, link="log"), broken)
    assert "times as much as the log link's" in told
    (told,) = learned_from(ht.GLBOMD(2, link="logistic", theta_bound=0.1), np.ones(200))
    assert told.startswith("theta lies on the ball of radius 0.1")
    amounts = np.where(np.arange(300) % 10 == 0, 20.0, 0.0)
    told = learned_from(ht.HvtGLB(2, link="log", rewards="amounts"), amounts)
    assert any("TwinUCB" in one for one in told)
    told = learned_from(ht.HvtGLB(2, link="log", rewards="amounts"), amounts + 1.0)
    assert not any("TwinUCB" in one for one in told)


def test_rewards_of_a_kind_need_the_log_link():
    with pytest.raises(ValueError, match=r'HvtGLB.rewards is for the log link.*Add link="log"'):
        ht.HvtGLB(2, rewards="amounts")


# --- intervals


@pytest.mark.parametrize("sd", [1.0, 10.0])
def test_an_interval_is_as_wide_as_rewards_spread(sd):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(4000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    policy = ht.GLBOMD(3, link="identity", intercept=False)
    policy.update_many(X, sd * rng.normal(size=len(X)))
    found = policy.predict(X[0])
    error = sd * math.sqrt(X[0] @ np.linalg.solve(X.T @ X, X[0]))
    assert found.high - found.low == pytest.approx(2.0 * 1.05 * 1.959964 * error, rel=0.05)


@pytest.mark.parametrize("amounts", [False, True])
def test_what_the_clip_took_is_added_on_the_scale_of_the_reward(amounts):
    rewards = "amounts" if amounts else "counts"
    policy = ht.HvtGLB(2, link="log", rewards=rewards, target="mean")
    rng = np.random.default_rng(6)
    for _ in range(300):
        policy.update([0.8, 0.0], float(rng.gamma(4.0)) if amounts else float(rng.poisson(4.0)))
    policy.update([0.8, 0.0], 4e5)
    s, x = policy._s, np.array([0.8, 0.0])
    mean, low, high = policy.predict(x)
    learned = policy.rounds - 5
    unit = mean if amounts else math.sqrt(mean)
    taken = 2.0 * s[PRACTICE.LOST] / learned * unit
    spread = math.sqrt((1.0 + s[PRACTICE.ENERGY]) / (1.0 + learned))
    half = 1.05 * 1.959964 * spread * policy.width(x)
    assert taken > 100.0
    assert high == pytest.approx(mean * math.exp(half) + taken, rel=1e-6)
    assert low == 0.0
    typical = ht.HvtGLB(2, link="log", rewards=rewards, target="typical")
    typical.update_many(np.tile(x, (300, 1)), rng.poisson(4.0, 300) + 1.0)
    typical.update(x, 4e5)
    assert typical.predict(x).high < 10.0


def test_theorys_interval_of_glm_ucb_is_the_sets_over_the_steepest_slope():
    policy = ht.GLMUCB(2, link="logistic", radius="theory", theta_bound=2.0)
    policy.update_many([[0.6, 0.2]] * 40, [1.0, 0.0] * 20)
    x = np.array([0.6, 0.2])
    half = policy.radius / 0.25 * policy.width(x)
    score = math.log(policy.predict(x).mean / (1.0 - policy.predict(x).mean))
    assert policy.predict(x).high == pytest.approx(1.0 / (1.0 + math.exp(-score - half)), rel=1e-9)


# --- where Hvt-GLB begins


@pytest.mark.parametrize("bound", [1.0, 4.0])
@pytest.mark.parametrize(("counts", "level"), [([0, 0, 0, 0, 2], 0.5), ([9, 1, 6, 6, 7], 6.0)])
def test_the_first_level_is_the_middle_count_and_half_a_count_where_that_is_none(
    counts, level, bound
):
    policy = ht.HvtGLB(2, link="log", arm_bound=bound)
    for count in counts:
        policy.update([0.3, 0.1], count)
    assert policy.predict([0.0, 0.0]).mean == pytest.approx(level, rel=1e-12)


def test_counts_spread_at_least_as_poisson_ones():
    policy = ht.HvtGLB(2, link="log")
    for _ in range(60):
        policy.update([0.5, 0.1], 4.0)
    assert policy.sigma == 1.0


# --- what a mutant could change unseen


def test_an_interval_is_of_95_percent_unless_told():
    policy = ht.GLBOMD(2, link="logistic")
    policy.update_many([[0.6, 0.2]] * 20, [1.0, 0.0] * 10)
    x = [0.6, 0.2]
    assert policy.predict(x) == policy.predict(x, level=0.95)
    assert policy.predict(x).high < policy.predict(x, level=0.99).high


def test_practices_interval_of_glm_ucb_is_by_the_curvature_of_the_likelihood():
    rng = np.random.default_rng(5)
    X = 0.9 * rng.dirichlet(np.ones(2), size=80)
    policy = ht.GLMUCB(2, link="logistic", theta_bound=4.0)
    policy.update_many(X, (rng.random(80) < 0.6).astype(float))
    mean = 1.0 / (1.0 + np.exp(-X @ policy.theta))
    Q = np.eye(2) + (X.T * (mean * (1.0 - mean))) @ X
    half = 1.05 * 1.959964 * math.sqrt(X[0] @ np.linalg.solve(Q, X[0]))
    score = float(X[0] @ policy.theta)
    want = 1.0 / (1.0 + math.exp(-score - half))
    assert policy.predict(X[0]).high == pytest.approx(want, rel=1e-6)


def test_rounds_that_were_clipped_are_counted_and_no_others():
    policy = ht.HvtGLB(2, link="log", target="typical", clip=50.0)
    for count in [3, 2, 4, 3, 2, 3, 5, 1, 10**6, 3, 2]:
        policy.update([0.7, 0.1], count)
    assert policy.diagnostics().clipped_share == pytest.approx(1 / 11)


@pytest.mark.parametrize(
    "make",
    [
        lambda S: ht.GLMUCB(2, link="logistic", theta_bound=S),
        lambda S: ht.GLOC(2, link="logistic", theta_bound=S),
        lambda S: ht.OL2M(2, theta_bound=S),
        lambda S: ht.GLBOMD(2, link="logistic", theta_bound=S, radius="theory"),
    ],
)
def test_a_ball_without_end_is_refused_where_one_is_needed(make):
    make(3.0)
    with pytest.raises(ValueError, match="theta_bound"):
        make(math.inf)


@pytest.mark.parametrize(
    ("told", "target"),
    [
        ({"link": "log"}, "typical"),
        ({"link": "log", "rewards": "amounts"}, "mean"),
        ({}, "mean"),
    ],
)
def test_what_hvt_glb_seeks_unless_told(told, target):
    rng = np.random.default_rng(3)
    made = [ht.HvtGLB(2, **told, **more) for more in ({}, {"target": target})]
    for y in rng.poisson(3.0, size=200) * np.where(rng.random(200) < 0.02, 100.0, 1.0) + 0.5:
        for policy in made:
            policy.update([0.6, 0.3], y)
    assert made[0].tau == made[1].tau
    assert (made[0].tau == 1.345) == (target == "typical")


def test_rare_counts_are_not_clipped_away():
    """One count among many zeros is no outlier: the typical count then is the mean."""
    rng = np.random.default_rng(4)
    policy = ht.HvtGLB(1, link="log")
    counts = rng.poisson(0.05, size=4000).astype(float)
    policy.update_many(np.full((4000, 1), 0.5), counts)
    assert policy.predict([0.5]).mean == pytest.approx(counts.mean(), rel=0.2)
