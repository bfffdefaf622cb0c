"""Hvt-UCB at the proved width: its formulas by a twin, its promises, and what it must be told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.common import game, near, together
from tests.naive.sharp import HvtSharp

import heavytail as ht
from heavytail.kernels.index import WIDE
from heavytail.kernels.sharp import SLOTS
from heavytail.policies.hvt_ucb import AT

LOOK = ("theta", "radius", "inverse_gram", "sigma", "tau", "intercept")
ORDERS = (2.0, 1.5, 1.2, None)  # None is symmetric
EVERYWHERE = pytest.mark.parametrize(("p", "d"), [(p, d) for p in ORDERS for d in (1, 2, 5, 16)])
TAIL = ht.MomentBound(order=1.5, scale=1.0)


def stated(p, nu):
    return "symmetric" if p is None else ht.MomentBound(p, nu)


def both(dim, p=1.5, nu=1.0, S=1.0, **knobs):
    """A policy and its twin, built alike."""
    nu = 1.0 if p is None else nu
    policy = ht.HvtUCB(dim, tail=stated(p, nu), theta_bound=S, radius="sharp", **knobs)
    return policy, HvtSharp(dim, order=p, scale=nu, theta_bound=S, **knobs)


def sharp(dim=2, p=1.5, nu=1.0, S=1.0, **knobs):
    return ht.HvtUCB(dim, tail=stated(p, nu), theta_bound=S, radius="sharp", **knobs)


# --- its formulas


@EVERYWHERE
@pytest.mark.parametrize("scales", [False, True])
def test_it_is_its_formulas(p, d, scales):
    policy, twin = both(d, p, 0.4, 1.3)
    together(policy, twin, game(d, 200, noise=0.4, scales=scales), LOOK)
    assert twin.clipped > 0 or p in (2.0, None)
    told, weights = policy.diagnostics(), np.array(twin.weights)
    assert told.clipped_share == twin.clipped / 200
    near(told.effective_samples, weights.sum() ** 2 / (weights**2).sum(), "samples")


@pytest.mark.parametrize(
    "knobs",
    [
        {"ridge": 0.07},
        {"ridge": 20.0},
        {"delta": 0.3},
        {"delta": 1e-9},
        {"arm_bound": 2.5},
        {"radius_scale": 0.3},
        {"radius_scale": 0.0},
        {"threshold_scale": 0.1},
        {"threshold_scale": 7.0},
        {"S": 0.2},
        {"S": 40.0},
        {"nu": 1e-3},
        {"nu": 1e-7, "S": 30.0},
        {"nu": 1e4},
    ],
    ids=str,
)
@pytest.mark.parametrize("p", [1.4, 2.0])
def test_it_takes_every_knob(knobs, p):
    d = 3
    policy, twin = both(d, p, **{"nu": 0.5, **knobs})
    length = knobs.get("arm_bound", 1.0)
    together(policy, twin, game(d, 120, length=length, noise=knobs.get("nu", 0.5)), LOOK)


@pytest.mark.parametrize(
    "knobs", [{"arm_bound": 3.0}, {"ridge": 0.5}, {"ridge": 2e-5}, {"S": 5.0}], ids=str
)
def test_symmetric_noise_takes_every_knob(knobs):
    policy, twin = both(3, None, **knobs)
    small = knobs.get("ridge") == 2e-5  # so that sigma stands at its floor
    together(policy, twin, game(3, 150, noise=1e-3 if small else 20.0, scales=not small), LOOK)
    near(policy.diagnostics().scale, 1.4826 * twin.typical.value, "scale")


@pytest.mark.parametrize("p", ORDERS)
def test_vectors_of_nothing_and_huge_rewards_are_learned_as_the_formulas_say(p):
    policy, twin = both(2, p, 0.5)
    rng = np.random.default_rng(1)
    most = 1e3 if p is None else 1e250  # least squares moves by all of a reward
    for t in range(120):
        x = np.zeros(2) if t % 7 == 3 else rng.uniform(-0.7, 0.7, 2)
        reward = most * (-1.0) ** t if t % 11 == 5 else float(x.sum() + rng.standard_t(2.0))
        if t % 13 == 6:
            x = 1e-9 * x
        before = policy.theta, policy.radius
        policy.update(x, reward)
        twin.learn(x, reward)
        for name in LOOK:
            near(getattr(policy, name), getattr(twin, name), f"round {t}: {name}")
        if not x.any():
            np.testing.assert_array_equal(policy.theta, before[0])
            assert policy.radius == before[1]
    assert policy.rounds == 120
    assert policy.diagnostics().clipped_share == twin.clipped / 120


@pytest.mark.parametrize(("p", "d"), [(2.0, 2), (1.5, 5), (1.2, 16)])
def test_it_is_its_formulas_over_two_thousand_rounds(p, d):
    policy, twin = both(d, p)
    together(policy, twin, game(d, 2_000, scales=True), LOOK)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "d"), [(p, d) for p in ORDERS for d in (2, 5, 16)])
def test_it_is_its_formulas_over_ten_thousand_rounds(p, d):
    policy, twin = both(d, p)
    rtol = 1e-9 if p else 1e-7  # squared rewards weigh symmetric noise, over orders of magnitude
    together(policy, twin, game(d, 10_000, seed=1, scales=p != 2.0), LOOK, rtol=rtol)


# --- the same choices however arms come


@pytest.mark.parametrize("p", [2.0, 1.3, None])
@pytest.mark.parametrize("dim", [1, 2, 3, WIDE, WIDE + 5])
def test_a_pool_is_chosen_from_as_its_rows_are(p, dim):
    """Scores that are kept follow x'Q x over updates that make it grow, too."""
    kept, plain = sharp(dim, p), sharp(dim, p)
    rng = np.random.default_rng(2)
    arms = rng.standard_normal((40, dim))
    arms *= 0.99 / np.linalg.norm(arms, axis=1, keepdims=True)
    pool = ht.Pool(arms)
    assert kept.algorithm.keeps_scores
    grew = False
    for t in range(400):
        choice = kept.select(pool)
        assert choice == plain.algorithm.select(*plain.packed, arms), f"round {t}"
        reward = float(arms[choice, 0] + rng.standard_t(1.6)) * (30.0 if t % 50 == 9 else 1.0)
        x = arms[choice] if t % 60 != 17 else np.zeros(dim)
        before = np.diag(plain.inverse_gram)
        for policy in (kept, plain):
            policy.update(x, reward)
        grew |= bool(np.any(np.diag(plain.inverse_gram) > before * (1.0 + 1e-9)))
    assert grew
    squares = np.sum(arms @ kept.inverse_gram * arms, axis=1)
    kept.select(pool)
    np.testing.assert_allclose(kept._last.scored[1][0], squares, rtol=1e-8)


@pytest.mark.parametrize("p", [1.5, None])
def test_rows_of_a_batch_and_engines_do_what_single_rounds_do(p):
    place = ht.LinearBandit(3, 10, ht.noise.StudentT(2.1))
    told = {"trials": 3, "rounds": 200, "seed": 4}
    regrets = [
        ht.simulate([sharp(3, p)], place, engine=engine, **told)["Hvt-UCB"].regret
        for engine in ("compiled", "reference")
    ]
    np.testing.assert_array_equal(*regrets)


# --- what it promises


@pytest.mark.parametrize("p", [2.0, 1.5, 1.1, None])
@pytest.mark.parametrize("dim", [1, 2, 16])
def test_it_passes_every_check_of_a_policy(p, dim):
    # At d = 16 or p near 1 the proved width does not settle in 600 rounds of noise of 0.1 that
    # is told to be 1; noise of the size that is told is 0.1 here.
    ht.checks.check_policy(sharp(dim, p, 0.1))


@pytest.mark.parametrize(("p", "law"), [(2.0, 2.1), (1.5, 1.6), (None, 0.8)])
def test_the_set_holds_at_all_times(p, law):
    """A t of ``law`` degrees of freedom; every error over its width, over 20 trials."""
    nu = 1.0 if p is None else ht.noise.StudentT(law).scale(p)
    truth, worst = np.array([0.6, -0.5]), 0.0
    for seed in range(20):
        policy = sharp(2, p, nu)
        rng = np.random.default_rng(seed)
        for _ in range(150):
            arms = rng.standard_normal((6, 2))
            arms /= np.linalg.norm(arms, axis=1, keepdims=True)
            x = arms[policy.select(arms)]
            policy.update(x, float(x @ truth + rng.standard_t(law)))
            answer = policy.predict(arms, level=0.95)
            off = np.abs(arms @ truth - answer.mean) / (answer.high - answer.mean)
            worst = max(worst, float(off.max()))
    assert 0.2 < worst < 1.0


def test_the_radius_and_the_intervals_are_those_of_the_set():
    policy, twin = both(3, 1.5, delta=0.01)
    for x, reward in zip(np.eye(3) * 0.9, (1.0, -30.0, 2.0), strict=True):
        policy.update(x, reward)
        twin.learn(x, reward)
    X = np.array([[0.5, 0.5, 0.0], [0.0, 0.1, 0.9], [0.0, 0.0, 0.0]])
    for level in (0.5, 0.9, 0.99):
        answer = policy.predict(X, level=level)
        near(answer.high - answer.mean, twin.beta(1.0 - level) * twin.widths(X), f"level {level}")
        near(answer.mean - answer.low, answer.high - answer.mean, "sides")
    near(policy.predict(X, level=0.99).high - X @ policy.theta, policy.radius * twin.widths(X), "")


@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_no_level_above_that_of_the_steps_is_answered(delta):
    policy = sharp(delta=delta)
    policy.update([1.0, 0.0], 2.0)
    policy.predict([1.0, 0.0], level=1.0 - delta)
    before = policy.state_arrays()
    with pytest.raises(ValueError, match=r"HvtUCB\.predict: level must be at most 1 - delta = 0"):
        policy.predict([1.0, 0.0], level=1.0 - 0.9 * delta)
    for key, array in policy.state_arrays().items():
        np.testing.assert_array_equal(array, before[key])


def test_a_radius_scaled_down_leaves_the_intervals():
    whole, scaled = sharp(), sharp(radius_scale=0.1)
    for policy in (whole, scaled):
        policy.update([0.6, 0.8], 3.0)
    assert scaled.radius == pytest.approx(0.1 * whole.radius, rel=1e-15)
    assert scaled.predict([1.0, 0.0]) == whole.predict([1.0, 0.0])


@pytest.mark.parametrize("p", [2.0, 1.5, None])
@pytest.mark.parametrize("factor", [2.0**40, 2.0**-30, 3.7])
def test_nothing_hangs_on_the_unit_of_rewards_or_of_arms(p, factor):
    """Rewards, scale and theta_bound times c; arms times c and theta_bound over c."""
    rounds = list(game(3, 150, seed=3, scales=True))

    def play(reward, arm):
        policy = sharp(3, p, 0.5 * reward, 1.2 * reward / arm, arm_bound=arm)
        choices = []
        for arms, noise, scale in rounds:
            choice = policy.select(arm * arms)
            told = scale if p is None else reward * scale
            policy.update(arm * arms[choice], reward * (arms[choice, 0] + noise), scale=told)
            choices.append(choice)
        x = arm * np.array([0.3, 0.5, -0.2])
        return choices, (policy.predict(x).high / reward, policy.theta * arm / reward)

    choices, answer = play(1.0, 1.0)
    for other in (play(factor, 1.0), play(1.0, factor), play(factor, factor)):
        assert other[0] == choices
        near(other[1][0], answer[0], "upper", 1e-10)
        near(other[1][1], answer[1], "theta", 1e-10)


def test_save_and_load_and_copies_know_the_blocks(tmp_path):
    for p in (1.5, None):
        policy = sharp(3, p)
        for arms, noise, scale in game(3, 30, scales=True):
            policy.update(arms[0], noise, scale=scale)
        policy.save(tmp_path / "policy.npz")
        loaded = ht.load(tmp_path / "policy.npz")
        for arms, noise, scale in game(3, 30, seed=1, scales=True):
            assert loaded.select(arms) == policy.select(arms)
            for each in (policy, loaded):
                each.update(arms[1], noise, scale=scale)
        np.testing.assert_array_equal(loaded._s, policy._s)
        assert {"gram_inverse", "spread_inverse"} <= set(policy.state)


def test_the_ridge_hangs_on_theta_alone():
    for knobs in ({}, {"nu": 1e-9}, {"arm_bound": 1e7}):
        assert sharp(4, 2.0, S=2.0, **knobs).state["scalars"]["ridge"] == pytest.approx(0.3)


@pytest.mark.parametrize("size", [1e8, 1e10, 1e14, 1e30])
def test_no_reward_takes_the_width_of_other_directions(size):
    policy = sharp(2, None)
    x = 0.99 * np.array([math.cos(0.4), math.sin(0.4)])
    across = np.array([-x[1], x[0]])
    before = policy.width(across)
    policy.update(x, size)
    assert policy.width(across) >= before
    pool, arms = ht.Pool(np.array([x, across])), np.array([x, across])
    for reward in (1.0, -size, 2.0):
        assert policy.select(pool) == policy.select(arms)
        policy.update(across, reward)


def test_the_determinant_of_the_weights_is_kept():
    policy = sharp(3, 1.5)
    rng = np.random.default_rng(5)
    for _ in range(50):
        x = rng.normal(size=3)
        policy.update(x / np.linalg.norm(x), float(rng.standard_t(2.0)))
    V = np.linalg.inv(policy.state_arrays()["gram_inverse"])
    ridge = policy.state["scalars"]["ridge"]
    near(policy.state["scalars"]["log_det"], np.linalg.slogdet(V / ridge)[1], "log det")


def test_intervals_are_of_1_minus_delta_unless_asked_otherwise():
    for delta in (0.3, 0.05, 0.001):
        policy = sharp(delta=delta)
        policy.update([1.0, 0.0], 2.0)
        asked = policy.predict([0.6, 0.8], level=1.0 - delta)
        near(np.array(policy.predict([0.6, 0.8])), np.array(asked), f"delta {delta}")
    assert ht.HvtUCB(2).level == 0.95


def test_a_theta_that_is_not_projected_is_not_said_to_lie_on_a_ball():
    policy = sharp(2, 2.0, S=0.5)
    for _ in range(200):
        policy.update([1.0, 0.0], 5.0)
    assert np.linalg.norm(policy.theta) > 0.5
    assert not any("ball" in word for word in policy.diagnostics().advice)


# --- what it must be told


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tail": None}, r"HvtUCB\.tail must be a MomentBound\(order, scale\), or 'symmetric'"),
        ({"tail": "auto"}, r"HvtUCB\.tail .* the theorem needs"),
        ({"tail": 1.5}, r"HvtUCB\.tail .* got 1\.5"),
        (
            {"theta_bound": None},
            r"HvtUCB\.theta_bound must be given for radius=\"sharp\": the ",
        ),
        ({"theta_bound": 0.0}, r"HvtUCB\.theta_bound"),
        ({"theta_bound": math.inf}, r"HvtUCB\.theta_bound"),
        ({"theta_bound": 1e80}, r"HvtUCB\.theta_bound"),
        ({"theta_bound": 1e60, "arm_bound": 1e11}, r"HvtUCB\.theta_bound \* arm_bound must be"),
        ({"tail": ht.MomentBound(1.5, 1e76)}, r"HvtUCB\.tail must have a scale between"),
        ({"tail": ht.MomentBound(1.5, 1e-76)}, r"HvtUCB\.tail must have a scale between"),
        ({"arm_bound": 0.0}, r"HvtUCB\.arm_bound"),
        ({"delta": 0.0}, r"HvtUCB\.delta"),
        ({"delta": 1.0}, r"HvtUCB\.delta"),
        ({"delta": 1.5}, r"HvtUCB\.delta"),
        ({"delta": math.nan}, r"HvtUCB\.delta"),
        ({"ridge": 0.0}, r"HvtUCB\.ridge"),
        ({"ridge": 1e-13}, r"HvtUCB\.ridge"),
        ({"ridge": 1e13}, r"HvtUCB\.ridge"),
        ({"radius_scale": -0.1}, r"HvtUCB\.radius_scale"),
        ({"threshold_scale": 0.0}, r"HvtUCB\.threshold_scale"),
        ({"exploration": 0.5}, r"HvtUCB\.exploration must not be given for radius=\"sharp\""),
        ({"alpha": 4.0}, r"HvtUCB\.alpha must not be given"),
        ({"clip": 1.345}, r"HvtUCB\.clip must not be given"),
        ({"sigma_min": 0.1}, r"HvtUCB\.sigma_min must not be given"),
        ({"intercept": True}, r"HvtUCB\.intercept must not be given"),
        ({"intercept": False}, r"HvtUCB\.intercept must not be given"),
        ({"forget": 0.99}, r"HvtUCB\.forget must not be given"),
        ({"forget": "auto"}, r"HvtUCB\.forget must not be given"),
        ({"radius": "blunt"}, r"HvtUCB\.radius"),
    ],
    ids=str,
)
def test_what_the_theorem_needs_is_asked_for_in_one_sentence(options, says):
    with pytest.raises(ValueError, match=says) as refused:
        ht.HvtUCB(2, **{"tail": TAIL, "theta_bound": 1.0, "radius": "sharp", **options})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("order", [0.5, 1.0, 2.01, math.nan])
def test_an_order_outside_the_theorem_is_refused_where_it_is_stated(order):
    with pytest.raises(ValueError, match=r"MomentBound\.order"):
        ht.MomentBound(order=order, scale=1.0)


@pytest.mark.parametrize("radius", ["empirical", "theory"])
def test_symmetric_noise_is_for_the_sharp_width_alone(radius):
    with pytest.raises(ValueError, match=r"HvtUCB\.tail"):
        ht.HvtUCB(2, tail="symmetric", radius=radius, horizon=10)


def test_it_does_not_begin_from_an_earlier_estimate():
    policy = sharp()
    before = policy._s.copy(), policy._M.copy()
    with pytest.raises(ValueError, match=r"HvtUCB\.start_from"):
        policy.start_from([0.1, 0.2], np.eye(2))
    np.testing.assert_array_equal(policy._s, before[0])
    np.testing.assert_array_equal(policy._M, before[1])


def test_a_reward_that_leaves_the_range_is_refused_and_nothing_has_changed():
    policy = sharp(2, None)
    policy.update([0.6, 0.8], 1.0)
    before = policy.state_arrays()
    with pytest.raises(ValueError, match="Nothing was learned"):
        policy.update([1.0, 0.0], 1e200)
    for key, array in policy.state_arrays().items():
        np.testing.assert_array_equal(array, before[key])
    policy.update([1.0, 0.0], 1.0)
    assert math.isfinite(policy._s[AT + SLOTS.BETA])
