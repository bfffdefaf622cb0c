"""The policies of one pass against their twins, which are written from the formulas alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive import one_pass
from tests.naive import practice as naive
from tests.naive import twin as naive_twin
from tests.naive.common import game, near, together

import heavytail as ht

ORDERS = (1.3, 1.6, 2.0)
DIMS = (1, 2, 5)
EVERYWHERE = pytest.mark.parametrize(("p", "d"), [(p, d) for p in ORDERS for d in DIMS])
STATE = ("theta", "radius", "inverse_gram")
ROUNDS = 50


def pair(name, twin, dim, p=1.6, nu=1.0, **knobs):
    """A policy and its twin, built alike."""
    policy = ht.make_policy(name, dim=dim, tail=ht.MomentBound(p, nu), **knobs)
    if name == "HvtUCB":
        knobs.pop("radius", None)
    return policy, twin(dim, order=p, scale=nu, **knobs)


# --- Hvt-UCB, theory

HVT = ("theta", "radius", "inverse_gram", "sigma", "tau", "intercept")


def theory(dim, p=1.6, nu=1.0, horizon=ROUNDS, **knobs):
    return pair("HvtUCB", one_pass.HvtTheory, dim, p, nu, horizon=horizon, radius="theory", **knobs)


@EVERYWHERE
def test_hvt_ucb_is_algorithm_1(p, d):
    policy, twin = theory(d, p)
    together(policy, twin, game(d, ROUNDS), HVT)
    assert 3 in twin.floors


@EVERYWHERE
def test_hvt_ucb_has_the_floor_of_lemmas_5_and_6_where_the_radius_is_small(p, d):
    policy, twin = theory(d, p, 0.3, radius_scale=1e-4, threshold_scale=0.1)
    together(policy, twin, game(d, ROUNDS, noise=0.3), HVT)
    assert 2 in twin.floors


@pytest.mark.parametrize(
    "knobs",
    [
        {"alpha": 1.5, "radius_scale": 1e-3},
        {"ridge": 0.3},
        {"delta": 0.2, "radius_scale": 1e-2},
        {"theta_bound": 3.0, "radius_scale": 1e-3},
        {"theta_bound": 0.2, "radius_scale": 1e-3, "threshold_scale": 5.0},
        {"arm_bound": 2.5},
        {"sigma_min": 2.0, "radius_scale": 1e-3},
        {"sigma_min": 1e-4},
        {"horizon": 777},
        {"threshold_scale": 0.02, "radius_scale": 1e-3},
        {"radius_scale": 0.0},
    ],
    ids=str,
)
def test_hvt_ucb_in_theory_takes_every_knob(knobs):
    p, d = 1.4, 3
    policy, twin = theory(d, p, 0.5, **knobs)
    length = knobs.get("arm_bound", 1.0)
    together(policy, twin, game(d, ROUNDS, length=length, noise=0.5, scales=True), HVT)


# --- Hvt-UCB, practice


def same_diagnostics(policy, twin):
    theirs = policy.diagnostics()
    for name, value in twin.diagnostics().items():
        near(getattr(theirs, name), value, name)


def practice(dim, p=1.6, nu=1.0, **knobs):
    return pair("HvtUCB", naive.HvtPractice, dim, p, nu, **knobs)


def sought(dim, **knobs):
    return ht.HvtUCB(dim, **knobs), naive.HvtPractice(dim, **knobs)


@EVERYWHERE
@pytest.mark.parametrize("scales", [False, True])
def test_hvt_ucb_in_practice_is_its_formulas(p, d, scales):
    policy, twin = practice(d, p, 0.4)
    together(policy, twin, game(d, ROUNDS, noise=0.4, scales=scales), HVT)
    same_diagnostics(policy, twin)


@pytest.mark.parametrize(
    "knobs",
    [
        {"alpha": 3.0},
        {"ridge": 0.2},
        {"delta": 0.3},
        {"clip": 0.5},
        {"clip": math.inf},
        {"threshold_scale": 2.0},
        {"exploration": 1.7},
        {"radius_scale": 0.3},
        {"theta_bound": 0.25},
        {"theta_bound": 0.25, "intercept": False},
        {"theta_bound": 4.0},
        {"theta_bound": math.inf},
        {"theta_bound": math.inf, "intercept": False, "ridge": 0.7},
        {"arm_bound": 3.0},
        {"intercept": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_hvt_ucb_in_practice_takes_every_knob(knobs, d):
    length = knobs.get("arm_bound", 1.0)
    policy, twin = practice(d, 1.5, 0.5, **knobs)
    together(policy, twin, game(d, ROUNDS, length=length, noise=0.5), HVT)
    same_diagnostics(policy, twin)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("noise", [1e-4, 1.0, 1e5])
def test_hvt_ucb_seeks_a_scale_that_nobody_stated(d, noise):
    policy, twin = sought(d, theta_bound=math.inf, horizon=120)
    together(policy, twin, game(d, 120, noise=noise), HVT)
    same_diagnostics(policy, twin)


def learn_alone(policy, twin, rewards, x=(1.0,), every=1):
    """Rewards of one arm; the running scale must agree after each."""
    x = np.array(x)
    for t, reward in enumerate(rewards):
        policy.update(x, float(reward))
        twin.learn(x, float(reward))
        if t % every == 0:
            scale = twin.diagnostics()["scale"]
            near(policy.diagnostics().scale, scale, f"round {t}: scale")
            near(policy.sigma, twin.sigma, f"round {t}: sigma")
    near(policy.radius, twin.radius, "radius")
    same_diagnostics(policy, twin)


@pytest.mark.parametrize("kind", ["theory", "practice", "sought"])
def test_hvt_ucb_learns_nothing_of_theta_from_no_features(kind):
    if kind == "theory":
        policy, twin = theory(2, 1.4, radius_scale=0.01)
    else:
        build = practice if kind == "practice" else sought
        policy, twin = build(2, intercept=False)
    for x, reward in [([1.0, 0.0], 2.0), ([0.0, 0.0], 5.0), ([0.3, 0.4], -1.0)]:
        policy.update(x, reward)
        twin.learn(np.array(x), reward)
        for name in HVT:
            near(getattr(policy, name), getattr(twin, name), name)


def test_the_typical_size_takes_steps_that_shrink_to_the_slowest():
    rng = np.random.default_rng(1)
    policy, twin = practice(1, 2.0, 5.0)
    learn_alone(policy, twin, rng.standard_t(1.5, 1_200), every=7)


def test_the_scale_that_is_sought_leaps_after_a_run_and_not_past_the_size():
    rng = np.random.default_rng(2)
    sizes = 10.0 ** np.repeat(rng.uniform(-3.0, 6.0, 20), rng.integers(1, 9, 20))
    policy, twin = sought(1)
    learn_alone(policy, twin, sizes * rng.choice([-1.0, 1.0], len(sizes)))


@pytest.mark.parametrize("quiet", [5, 20, 40, 58])
@pytest.mark.parametrize("loud", [1e99, 1e130])
def test_the_scale_that_is_sought_grows_by_doublings_that_end(quiet, loud):
    rng = np.random.default_rng(quiet)
    rewards = np.concatenate([rng.normal(0.0, 1e-3, quiet), np.full(20, loud), np.full(20, 1e-9)])
    policy, twin = sought(1)
    learn_alone(policy, twin, rewards)


def test_a_typical_size_stays_above_a_billionth_of_the_unit():
    policy, twin = practice(1, 2.0, 1.0)
    learn_alone(policy, twin, [1.0] * 5 + [0.0, 1e-15] * 31, every=5)
    near(policy.diagnostics().scale, 1.4826e-8, "the floor")


@pytest.mark.parametrize("auto", [False, True])
def test_rewards_of_zero_say_nothing_of_the_scale_while_they_lead(auto):
    rng = np.random.default_rng(3)
    policy, twin = sought(1) if auto else practice(1, 2.0, 3.0)
    rewards = np.where(rng.random(300) < np.linspace(0.9, 0.1, 300), 0.0, rng.normal(0, 2, 300))
    learn_alone(policy, twin, rewards)


def test_a_majority_of_zeros_that_ends_is_forgotten():
    rng = np.random.default_rng(4)
    rewards = np.concatenate([np.zeros(1_005), rng.normal(0.0, 1.0, 985), np.zeros(5)])
    policy, twin = practice(1, 2.0, 1.0)
    learn_alone(policy, twin, rewards, every=3)


def test_sixteen_zeros_in_the_lead_are_a_majority():
    rng = np.random.default_rng(7)
    rewards = np.concatenate([rng.normal(0.0, 1.0, 30), np.zeros(30)])
    policy, twin = practice(1, 2.0, 1.0)
    learn_alone(policy, twin, rewards)


def test_sigma_keeps_above_what_the_inverse_can_resolve():
    policy, twin = practice(2, 2.0, 1e-9, arm_bound=0.5, ridge=3.0)
    rng = np.random.default_rng(5)
    for t in range(40):
        x = 1e-9 * rng.standard_normal(2)  # too short for the width to matter
        policy.update(x, 1e-12)
        twin.learn(x, 1e-12)
        near(policy.sigma, twin.sigma, f"round {t}: sigma")


def test_the_tail_index_counts_residuals_beyond_4_and_16_scales():
    policy, twin = practice(1, 2.0, 1.0, intercept=False, theta_bound=1e-6)
    for k in [1.0, 0.1] * 5:
        scale = policy.diagnostics().scale
        for factor in (4.0, 16.0):
            for side in (1.0 - 1e-4, 1.0 + 1e-4):
                learn_alone(policy, twin, [k * scale * factor * side])
                scale = policy.diagnostics().scale


@pytest.mark.parametrize("rewards", [[0.0] * 40 + [3.0, -1.0, 2.0, 40.0, 5.0, 1.0], [1e300] * 6])
def test_the_unit_is_ten_times_the_median_of_five_rewards_that_tell(rewards):
    policy, twin = sought(1)
    learn_alone(policy, twin, rewards)
    assert policy.state["scalars"]["unit"] == twin.unit


@pytest.mark.parametrize("theta_bound", [0.01, 0.3])
def test_a_ball_that_the_rewards_contradict_is_made_larger(theta_bound):
    policy, twin = practice(2, 2.0, 0.1, theta_bound=theta_bound)
    together(policy, twin, game(2, 250, noise=0.1), HVT)
    assert policy.state["scalars"]["theta_bound"] == twin.theta_bound > theta_bound


# --- Twin-UCB

TWIN = ("theta", "radius", "inverse_gram", "bulk")


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("scale", [None, 0.4])
@pytest.mark.parametrize("fixed", [False, True])
def test_twin_ucb_is_its_formulas(d, scale, fixed):
    tail = None if scale is None else ht.MomentBound(1.5, scale)
    policy, twin = ht.TwinUCB(d, tail=tail), naive_twin.TwinUCB(d, scale=scale)
    together(policy, twin, game(d, 330, noise=0.4, fixed=fixed, scales=fixed), TWIN)
    same_diagnostics(policy, twin)
    assert twin.clipped > 0


@pytest.mark.parametrize("d", [2, 13])
def test_twin_ucb_follows_the_mean_where_the_bulk_leads_away_from_it(d):
    rng = np.random.default_rng(d)
    policy, twin = ht.TwinUCB(d), naive_twin.TwinUCB(d)
    rounds = game(d, 400, noise=0.3, fixed=True)
    together(
        policy,
        twin,
        rounds,
        TWIN,
        reward=lambda x, noise: noise - x[0] + 30.0 * (rng.random() < 0.1 + 0.1 * x[0]),
    )


def test_the_typical_target_is_the_fixed_clip_alone():
    policy = ht.TwinUCB(3, target="typical")
    twin = naive.HvtPractice(3, clip=1.345, exploration=0.8)
    together(policy, twin, game(3, 150), ("theta", "radius", "inverse_gram"))


# --- ridge regressions


@EVERYWHERE
def test_oful_is_ridge_regression_with_its_radius(p, d):
    policy, twin = pair("OFUL", one_pass.OFUL, d, p, 0.7)
    together(policy, twin, game(d, ROUNDS), STATE)


@pytest.mark.parametrize(
    "knobs",
    [
        {"noise_scale": 0.0},
        {"noise_scale": 2.5},
        {"horizon": 250},
        {"horizon": 100, "delta": 0.3},
        {"theta_bound": 3.0, "ridge": 0.4},
        {"ridge": 5.0, "radius_scale": 0.2},
        {"arm_bound": 2.0},
    ],
    ids=str,
)
def test_oful_takes_every_knob(knobs):
    policy, twin = pair("OFUL", one_pass.OFUL, 3, 2.0, 0.7, **knobs)
    together(policy, twin, game(3, ROUNDS, length=knobs.get("arm_bound", 1.5)), STATE)


@pytest.mark.parametrize(("d", "fixed"), [(3, True), (12, True), (13, False), (17, True)])
def test_many_features_and_arms_seen_again_are_chosen_from_alike(d, fixed):
    policy, twin = pair("OFUL", one_pass.OFUL, d, 2.0, 0.3)
    together(policy, twin, game(d, ROUNDS, arms=15, fixed=fixed, noise=0.3), STATE)


@pytest.mark.parametrize(("d", "fixed"), [(4, False), (12, True), (26, False), (30, True)])
def test_the_ball_is_returned_to_in_many_dimensions(d, fixed):
    policy, twin = practice(d, 1.5, 1.0, theta_bound=0.05, ridge=0.5)
    together(policy, twin, game(d, 30, arms=8, fixed=fixed), HVT)


@pytest.mark.parametrize(("excess", "chosen"), [(5e-11, 0), (2e-10, 1)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_indices_equal_to_ten_digits_are_a_tie_and_go_to_the_first(excess, chosen, sign):
    for places in range(1, 6):  # arms are read four at a time
        policy = ht.OFUL(2, noise_scale=1.0, radius_scale=0.0)
        policy.update([1.0, 0.0], sign)
        better = 1.0 + sign * excess
        arms = [[1.0, 0.0]] * places + [[better, 0.0]]
        assert policy.select(arms) == chosen * places


# --- truncation


def at_the_level(twin, seed=9):
    """Rewards just within and just beyond what the twin would truncate."""
    rng = np.random.default_rng(seed)

    def reward(x, noise):
        side = rng.choice([1.0 - 1e-7, 1.0 + 1e-7, 0.5])
        return float(np.sign(noise) * side * twin.largest(x))

    return reward


TRUNCATING = (*STATE, "truncated")


@EVERYWHERE
@pytest.mark.parametrize("form", ["newton", "least squares"])
def test_crtm_is_its_formulas(p, d, form):
    policy, twin = pair("CRTM", one_pass.CRTM, d, p, 0.5, horizon=300, form=form)
    together(policy, twin, game(d, ROUNDS), TRUNCATING, reward=at_the_level(twin))
    assert 0 < policy.truncated < ROUNDS


@EVERYWHERE
def test_crt_is_its_formulas(p, d):
    policy, twin = pair("CRT", one_pass.CRT, d, p, 0.5, horizon=300, radius_scale=0.05)
    together(policy, twin, game(d, ROUNDS), TRUNCATING, reward=at_the_level(twin))
    assert 0 < policy.truncated < ROUNDS


@pytest.mark.parametrize(
    "knobs",
    [
        {"horizon": 61},
        {"theta_bound": 0.3},
        {"theta_bound": 4.0},
        {"arm_bound": 2.0},
        {"ridge": 0.3},
        {"ridge": 4.0},
        {"delta": 0.4},
        {"radius_scale": 1.0},
        {"threshold_scale": 0.1},
        {"threshold_scale": math.inf},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["CRTM newton", "CRTM least squares", "CRT"])
def test_crtm_and_crt_take_every_knob(name, knobs):
    knobs = {"horizon": 100, "radius_scale": 0.01} | knobs
    if name != "CRT":
        knobs["form"] = name.removeprefix("CRTM ")
    kind = name.split()[0]
    policy, twin = pair(kind, getattr(one_pass, kind), 3, 1.4, 0.5, **knobs)
    finite = knobs.get("threshold_scale") != math.inf
    together(
        policy,
        twin,
        game(3, ROUNDS, length=knobs.get("arm_bound", 1.0)),
        TRUNCATING,
        reward=at_the_level(twin) if finite else None,
    )
