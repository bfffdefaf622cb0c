"""A theta that moves: what is forgotten, what is noticed, and what stays as it was to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.common import game, near, together
from tests.naive.forgetting import HvtFading, TwinFading

import heavytail as ht
from heavytail.checks import POLICY_CHECKS
from heavytail.policies.core.forgetting import ALARM, MEMORY
from heavytail.simulation import distribution

KINDS = {
    "Hvt-UCB": (ht.HvtUCB, {}),
    "Twin-UCB": (ht.TwinUCB, {}),
    "typical": (ht.TwinUCB, {"target": "typical"}),
}
K = MEMORY
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
TWINS = pytest.mark.parametrize(
    ("kind", "twin"), [(ht.HvtUCB, HvtFading), (ht.TwinUCB, TwinFading)], ids=["Hvt", "Twin"]
)


def build(kind, dim=3, **knobs):
    made, own = KINDS[kind]
    return made(dim, **own, **knobs)


def play(policy, rounds, *, jump=math.inf, unit=1.0, seed=0, noise="t"):
    """Choices in a world whose theta changes its sign; arms of its own each round."""
    rng = np.random.default_rng(seed)
    theta, chosen = np.eye(policy.dim)[0], []
    for t in range(rounds):
        arms = rng.standard_normal((8, policy.dim))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        chosen.append(policy.select(arms))
        x = arms[chosen[-1]]
        drawn = rng.standard_t(2.0) if noise == "t" else rng.pareto(1.5) - 2.0
        policy.update(x, unit * ((-1.0 if t >= jump else 1.0) * float(x @ theta) + drawn))
    return chosen


def memory(policy):
    return policy.state_arrays()["memory"]


# --- what is the same


@EVERY_KIND
def test_one_remembers_all_to_the_bit(kind):
    plain, whole = build(kind), build(kind, forget=1.0)
    assert play(plain, 400) == play(whole, 400)
    mine, yours = plain.state_arrays(), whole.state_arrays()
    assert "memory" not in mine
    assert all(np.array_equal(yours[key], mine[key]) for key in mine if key != "scalars")
    alike = yours["scalars"] == mine["scalars"]
    assert np.flatnonzero(~alike).size <= ("sizes" not in mine)  # where the sizes begin, at most
    assert not whole.forgets


@EVERY_KIND
@pytest.mark.parametrize("forget", [0.98, "auto"])
def test_decisions_have_no_unit(kind, forget):
    chosen = [play(build(kind, forget=forget), 700, jump=350, unit=unit) for unit in (1.0, 2.0**40)]
    assert chosen[0] == chosen[1]


@EVERY_KIND
@pytest.mark.parametrize("forget", [1.0, 0.97, "auto"])
@pytest.mark.parametrize("check", POLICY_CHECKS)
def test_it_passes_the_battery(kind, forget, check):
    POLICY_CHECKS[check](build(kind, forget=forget))


# --- against the twins


@TWINS
@pytest.mark.parametrize(("forget", "d"), [(0.9, 1), (0.95, 2), (0.99, 5)])
def test_what_fades_is_the_formulas(kind, twin, forget, d):
    policy, other = kind(d, forget=forget), twin(d, forget=forget)
    look = ("theta", "radius", "inverse_gram")
    together(policy, other, game(d, 400, noise=0.4), look)
    found = memory(policy)
    near(found[[K.SEEN, K.LEVEL]], [other.seen, other.level], "memory")
    assert policy.packed[0][0] - policy.state["scalars"]["began"] == other.known


@TWINS
def test_what_fades_is_the_formulas_whatever_the_scales_and_the_length_of_arms(kind, twin):
    """Where every scale and every arm is 1, a factor that is forgotten shows nowhere."""
    own = {"alpha": 2.0, "theta_bound": 0.4} if kind is ht.HvtUCB else {}
    knobs = {"forget": 0.95, "arm_bound": 3.0} | own
    policy, other = kind(3, **knobs), twin(3, **knobs)
    rounds = game(3, 400, length=3.0, noise=0.4, scales=True)
    together(policy, other, rounds, ("theta", "radius", "inverse_gram"))
    near(memory(policy)[K.LEVEL], other.level, "level")


@TWINS
@pytest.mark.parametrize("after", [-1.0, 4.0], ids=["falls", "rises"])
def test_what_is_noticed_is_the_formulas(kind, twin, after):
    policy, other = kind(2, forget="auto"), twin(2, restarts=True)
    t = 0

    def reward(x, noise):
        nonlocal t
        t += 1
        return float(x[0]) * (1.0 if t <= 400 else after) + noise

    look = ("theta", "radius", "inverse_gram")
    together(policy, other, game(2, 800, noise=0.3), look, reward=reward)
    assert memory(policy)[K.CHANGES] == other.changes >= 1
    near(policy.diagnostics().drift, other.drift, "drift")
    near(memory(policy)[K.LEVEL], other.level, "level")


def test_a_restart_leaves_nothing_behind_but_theta_and_the_scale():
    policy, rng = ht.HvtUCB(1, forget="auto"), np.random.default_rng(0)
    for t in range(2000):
        before = policy.tau, memory(policy)[K.LEVEL], policy.theta.copy()
        policy.update([1.0], (0.0 if t < 1000 else 3.0) + float(rng.pareto(1.5)))
        if memory(policy)[K.CHANGES] == 1.0:
            break
    assert before[0] > 2.0
    assert abs(before[1]) > 0.01
    assert policy.tau == 1.345
    gone = [K.SEEN, K.CLIPPED, K.LEVEL, K.ABOVE, K.BELOW]
    assert (memory(policy)[gone] == 0.0).all()
    s = policy.state["scalars"]
    sums = ("stability", "energy", "lost", "weight", "weight_squares", "pressed", "clipped")
    assert [s[name] for name in sums] == [0.0] * len(sums)
    first = (s["unit"] * s["nu"]) ** 2 / s["ridge"]
    np.testing.assert_allclose(policy.inverse_gram, first * np.eye(2), rtol=1e-12)
    np.testing.assert_allclose(policy.theta, before[2], atol=0.5)


def test_sums_and_counts_that_nothing_is_chosen_by_fade_too():
    """They are told by diagnostics and intervals: what the clip took, and how often."""
    policy, rng = ht.HvtUCB(1, forget=0.9), np.random.default_rng(3)
    lost = clipped = weight = squares = 0.0
    some = 0
    for t in range(300):
        tau, expected = policy.tau, float(policy.theta[0]) * 0.5 + policy.intercept
        reward = float(rng.standard_t(1.2))
        policy.update([0.5], reward)
        if t < 5:  # these set the unit
            continue
        z = (reward - expected) / policy.sigma
        lost = 0.9 * (lost + policy.sigma * max(abs(z) - tau, 0.0))
        clipped = 0.9 * (clipped + (abs(z) > tau))
        weight = 0.9 * (weight + policy.sigma**-2.0)
        squares = 0.9 * (squares + policy.sigma**-4.0)
        s = policy.state["scalars"]
        near([s["lost"], memory(policy)[K.CLIPPED]], [lost, clipped], "lost, clipped")
        near([s["weight"], s["weight_squares"]], [weight, squares], "weights")
        assert s["clipped"] == math.floor(clipped + 0.5)
        assert policy.diagnostics().clipped_share == s["clipped"] / (s["rounds"] - s["began"])
        some += s["clipped"] > 0.0
    assert some > 50


def test_nothing_is_noticed_before_30_rounds_a_coordinate():
    policy = ht.HvtUCB(2, forget=1.0)
    rewards = np.random.default_rng(1).standard_normal(5 + 90 + 1)
    for i, reward in enumerate(rewards):
        policy.update([1.0, 0.0], reward)
        assert (policy.diagnostics().drift > 0.0) <= (i >= 95)
    policy.update([1.0, 0.0], 1e9)
    assert memory(policy)[K.ABOVE] > 1.0


def test_hvt_ucb_watches_a_bulk_and_a_stated_estimate_is_where_it_starts():
    """One enormous reward moves theta, and with it all that is expected; the bulk hardly moves."""
    policy = ht.HvtUCB(2, forget=1.0)
    policy.start_from([0.5, -0.5], 0.1 * np.eye(2))
    np.testing.assert_array_equal(policy.state_arrays()["bulk"], [0.5, -0.5, 0.0])
    assert "bulk" not in ht.HvtUCB(2).state_arrays()
    assert "bulk" not in ht.HvtUCB(2, forget=1.0, clip=2.0).state_arrays()
    policy, rng = ht.HvtUCB(2, forget=1.0), np.random.default_rng(0)
    for _ in range(200):
        policy.update([1.0, 0.0], float(rng.standard_normal()))
    before, bulk = policy.theta, policy.state_arrays()["bulk"]
    policy.update([1.0, 0.0], 1e9)
    moved = abs(policy.theta - before)[0]
    assert 0.0 < 3.0 * abs(policy.state_arrays()["bulk"] - bulk)[0] < moved


# --- what forgetting does


@EVERY_KIND
@pytest.mark.parametrize("forget", [0.98, "auto"])
def test_it_follows_a_theta_that_changed(kind, forget):
    still, moving = build(kind), build(kind, forget=forget)
    for policy in (still, moving):
        play(policy, 2000, jump=1000)
    assert moving.theta[0] < -0.4
    assert moving.theta[0] < still.theta[0] - 0.2


@pytest.mark.parametrize("kind", ["Hvt-UCB", "Twin-UCB"])
def test_what_is_never_seen_stays_where_it_was_and_no_wider_than_at_first(kind):
    policy = build(kind, forget=0.9)
    rng = np.random.default_rng(0)
    for _ in range(3000):  # the third feature is always 0
        policy.update([*rng.uniform(-0.5, 0.5, 2), 0.0], float(rng.standard_normal()))
    s = policy.state["scalars"]
    first = (s["unit"] * s["nu"]) ** 2 / s["ridge"]
    widths = np.diag(policy.inverse_gram)
    assert 0.6 * first < widths[2] <= 0.9**-4 * first
    assert widths[0] < 1e-2 * first  # and the others go on being learned
    assert widths[0] > 0.01  # from ten rounds, not from thousands
    assert policy.theta[2] == 0.0
    policy.clone()


def test_the_window_is_what_the_factor_says():
    policy = ht.TwinUCB(3, forget=0.98)
    play(policy, 900)
    assert memory(policy)[K.SEEN] == pytest.approx(0.98 / 0.02, rel=1e-6)
    assert policy.diagnostics().effective_samples < 60.0
    assert policy.rounds == 900


def test_kept_scores_choose_as_those_formed_anew():
    rng = np.random.default_rng(3)
    arms = rng.uniform(-0.25, 0.25, (30, 14))
    for made in (ht.HvtUCB, ht.TwinUCB):
        kept, anew = made(14, forget=0.99), made(14, forget=0.99)
        pool = ht.Pool(arms)
        for _ in range(150):
            choice = kept.select(pool)
            assert choice == anew.algorithm.select(*anew.packed, arms)
            reward = float(arms[choice, 0] + rng.standard_normal())
            kept.update(arms[choice], reward)
            anew.update(arms[choice], reward)


# --- what is noticed


@pytest.mark.parametrize("kind", ["Hvt-UCB", "Twin-UCB"])
@pytest.mark.parametrize("noise", ["t", "pareto"])
def test_a_theta_that_stays_is_left_alone(kind, noise):
    policy = build(kind, forget="auto")
    play(policy, 6000, noise=noise)
    assert memory(policy)[K.CHANGES] == 0.0
    assert policy.diagnostics().drift < 0.7


@pytest.mark.parametrize("d", [2, 5])
def test_a_tail_of_1_2_is_not_taken_for_a_change(d):
    """Where the estimate of the mean itself was watched, these began anew twice each."""
    policy, rng = ht.HvtUCB(d, forget="auto"), np.random.default_rng(1)
    arms = rng.standard_normal((20, d))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    for _ in range(20_000):
        x = arms[policy.algorithm.select(*policy.packed, arms)]
        policy.algorithm.update(*policy.packed, x, float(x[0] + rng.standard_t(1.2)), 1.0)
    assert memory(policy)[K.CHANGES] == 0.0


@pytest.mark.parametrize("forget", [0.99, "auto"])
def test_what_forgets_is_not_advised_to(forget):
    policy = ht.TwinUCB(3, forget=forget)
    play(policy, 200)
    arrays = policy.state_arrays()
    arrays["memory"][K.ABOVE] = ALARM + 1.0
    policy.restore(arrays)
    found = policy.diagnostics()
    assert found.drift > 1.0
    assert not any("theta seems" in words for words in found.advice)


@EVERY_KIND
def test_advice_comes_with_a_change_and_goes_with_a_reset(kind):
    policy = build(kind, forget=1.0)
    play(policy, 1500)
    assert not any("theta seems" in words for words in policy.diagnostics().advice)
    play(policy, 400, jump=0, seed=1)
    found = policy.diagnostics()
    assert found.drift > 1.0
    assert any("theta seems to have changed" in words for words in found.advice)
    assert memory(policy)[[K.ABOVE, K.BELOW]].max() > ALARM
    policy.reset()
    assert (policy.rounds, policy.diagnostics().drift) == (0, 0.0)
    assert ht.TwinUCB(2).diagnostics().drift is None


# --- files and refusals


@pytest.mark.parametrize("forget", [0.99, "auto"])
@pytest.mark.parametrize("prior", [False, True])
@EVERY_KIND
def test_saved_and_loaded_it_goes_on_to_the_bit(kind, prior, forget, tmp_path):
    policy = build(kind, forget=forget)
    if prior:
        policy.start_from([0.5, 0.0, 0.0], np.eye(3) + 0.9)
    for rounds in (3, 700):
        play(policy, rounds, jump=350)
        policy.save(tmp_path / "it.npz")
        again = ht.load(tmp_path / "it.npz")
        assert repr(again) == repr(policy)
        assert play(again, 100) == play(policy.clone(), 100)


@pytest.mark.parametrize("kind", ["Hvt-UCB", "Twin-UCB"])
def test_an_estimate_whose_coordinates_hang_together_may_be_wide_and_is_loaded(kind):
    """Along (1, ..., 1) it is as wide as all coordinates together until their start is renewed."""
    policy = build(kind, 12, forget=0.97)
    policy.start_from(np.zeros(12), 0.001 * np.eye(12) + 1.0)
    for _ in range(7):
        policy.update(np.zeros(12), 1.0)
        assert policy.clone().rounds == policy.rounds
    s = policy.state["scalars"]
    first = (s["unit"] * s["nu"]) ** 2 / s["ridge"]
    assert s["began"] > 0.0  # nothing says any more that it had a start
    assert np.linalg.eigvalsh(policy.inverse_gram)[-1] > 1.5 * 0.97**-13 * first


@pytest.mark.parametrize(
    ("slot", "value"),
    [
        (K.FORGET, 0.5),
        (K.RENEWAL, 0.0),
        (K.RESTARTS, 1.0),
        (K.SEEN, 3.0),
        (K.SEEN, math.nan),
        (K.TURN, 4.0),
        (K.TURN, -1.0),
        (K.TURN, 0.5),
        (K.CLIPPED, -1.0),
        (K.LEVEL, 2.0),
        (K.ABOVE, -1.0),
        (K.BELOW, math.inf),
        (K.CHANGES, 0.5),
    ],
)
def test_a_memory_that_cannot_be_is_refused(slot, value):
    policy = ht.TwinUCB(3, forget=0.99)
    play(policy, 200)
    arrays = policy.state_arrays()
    before = {key: array.copy() for key, array in arrays.items()}
    arrays["memory"][slot] = value
    with pytest.raises(ValueError, match="damaged"):
        policy.restore(arrays)
    assert all(np.array_equal(policy.state_arrays()[key], before[key]) for key in before)


@pytest.mark.parametrize("kind", [ht.HvtUCB, ht.TwinUCB])
def test_what_cannot_be_forgotten_is_refused(kind):
    for forget in (0.0, -0.5, 0.874, 1.001, math.nan):  # 1 - 1 / (2 * 4), with the intercept
        with pytest.raises(ValueError, match=r"\.forget must be a number in \[0\.875, 1"):
            kind(3, forget=forget)
    kind(3, forget=0.875)
    with pytest.raises(ValueError, match=r"\.forget must be one of 'auto'"):
        kind(3, forget="often")
    tail = ht.MomentBound(1.5, 1.0)
    with pytest.raises(ValueError, match=r'\.forget must not be given for radius="theory"'):
        kind(3, forget=0.99, tail=tail, horizon=100, radius="theory")
    with pytest.raises(TypeError, match=r"\.forget must be a number"):
        kind(3, forget=[0.9])


def test_coverage_is_not_of_what_forgets():
    world = ht.LinearBandit(2, 5, ht.noise.Gaussian(1.0))
    with pytest.raises(ValueError, match="forget nothing"):
        distribution(ht.HvtUCB(2, forget=0.99), world, rounds=10, trials=2, seed=1, cover=True)


def test_a_refused_reward_fades_nothing():
    policy = ht.HvtUCB(2, forget=0.95, clip=math.inf)
    play(policy, 50)
    before = policy.state_arrays()
    with pytest.raises(ValueError, match="Nothing was learned"):
        policy.update([1.0, 0.0], 1e300)
    assert all(np.array_equal(policy.state_arrays()[key], before[key]) for key in before)
