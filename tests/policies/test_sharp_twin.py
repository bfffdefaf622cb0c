"""Twin-UCB at the proved width: its mean is Hvt-UCB's, its arms are its twin's, and the inequality
that the theorem on widths proves holds with ‖x‖_Q.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.common import game, near, together
from tests.naive.two_estimates import TwinSharp

import heavytail as ht
from heavytail.kernels.layout import INVERSE
from heavytail.policies.core.two_estimates import AT, TWO, bulk_row
from heavytail.policies.hvt_ucb import AT as HVT

LOOK = ("theta", "radius", "inverse_gram", "bulk", "intercept")
ORDERS = (2.0, 1.5, 1.2, None)  # None is symmetric
TAIL = ht.MomentBound(order=1.5, scale=1.0)


def stated(p, nu):
    return "symmetric" if p is None else ht.MomentBound(p, nu)


def sharp(dim=2, p=1.5, nu=1.0, S=1.0, kind=ht.TwinUCB, **knobs):
    return kind(dim, tail=stated(p, nu), theta_bound=S, radius="sharp", **knobs)


def both(dim, p=1.5, nu=1.0, S=1.0, **knobs):
    nu = 1.0 if p is None else nu
    return sharp(dim, p, nu, S, **knobs), TwinSharp(dim, order=p, scale=nu, theta_bound=S, **knobs)


# --- the estimates


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dim", [1, 2, 5, 13])
def test_the_mean_is_hvt_ucbs_to_the_bit(p, dim):
    twin, hvt = sharp(dim, p), sharp(dim, p, kind=ht.HvtUCB)
    for t, (arms, noise, scale) in enumerate(game(dim, 200, scales=True)):
        x = arms[t % len(arms)] if t % 50 else np.zeros(dim)
        for policy in (twin, hvt):
            policy.update(x, float(x.sum()) + noise, scale=scale)
        for name in ("theta", "inverse_gram", "radius"):
            np.testing.assert_array_equal(getattr(twin, name), getattr(hvt, name))
    for name in ("gram_inverse", "spread_inverse"):
        np.testing.assert_array_equal(twin.state[name], hvt.state[name])
    np.testing.assert_array_equal(twin._s[AT:], hvt._s[HVT:])
    assert twin.predict(x, level=0.8) == hvt.predict(x, level=0.8)
    assert twin.diagnostics() == hvt.diagnostics()


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("d", [1, 2, 5, 16])
def test_it_is_its_formulas(p, d):
    policy, twin = both(d, p, 0.4, 1.3)
    together(policy, twin, game(d, 150, noise=0.4, scales=True), LOOK)
    near(policy._s[TWO.BULK_RADIUS], twin.bulk_radius, "the bulk's radius")


@pytest.mark.parametrize("p", [2.0, 1.5, None])
@pytest.mark.parametrize("d", [2, 4])
def test_it_is_its_formulas_where_arms_are_ruled_out_and_known_unequally_well(p, d):
    policy, twin = both(d, p, 0.02)
    rng = np.random.default_rng(9)

    def uneven():
        for arms, noise, scale in game(d, 300, noise=0.02, arms=8):
            yield arms * 10.0 ** rng.uniform(-2.0, 0.0, (len(arms), 1)), noise, scale

    together(policy, twin, uneven(), LOOK)
    assert min(twin.played.values()) > 0 or (p is None and d == 4)


@pytest.mark.parametrize(
    "knobs", [{"arm_bound": 2.5}, {"radius_scale": 0.1}, {"delta": 1e-4}, {"S": 0.2}], ids=str
)
def test_it_takes_every_knob(knobs):
    policy, twin = both(3, 1.4, 0.5, **knobs)
    length = knobs.get("arm_bound", 1.0)
    together(policy, twin, game(3, 100, length=length, noise=0.5), LOOK)
    near(policy._s[TWO.BULK_RADIUS], twin.bulk_radius, "the bulk's radius")


def test_a_vector_of_nothing_moves_neither_estimate():
    policy, twin = both(2)
    for x, reward in (([0.6, 0.8], 2.0), ([0.0, 0.0], 9.0), ([1e-3, 0.0], 1e250)):
        policy.update(x, reward)
        twin.learn(np.array(x), reward)
        for name in LOOK:
            near(getattr(policy, name), getattr(twin, name), name)


def test_how_far_the_two_lie_apart_is_told_in_the_metric_of_their_steps():
    """The covariance of their difference is V^-1 times what their scores differ by, not Q."""
    policy, twin = both(2, 2.0, 0.3)
    apart = 0.0
    for arms, noise, _ in game(2, 400, noise=0.3):
        x, reward = arms[0], float(arms[0].sum()) + noise
        off = reward - float(x @ twin.bulk)
        policy.update(x, reward)
        twin.learn(x, reward)
        apart += (twin.psi - float(np.clip(off / twin.sigma, -1.345, 1.345))) ** 2 / 400
    D = policy.theta - policy.bulk
    H = D @ np.linalg.solve(policy.state["gram_inverse"] * apart, D)
    assert policy.hausman()[0] == pytest.approx(H, rel=1e-9)


# --- the rule


def worst_regret(policy, arms, choice):
    """The largest regret of a choice over all theta in the mean's set: a maximum in closed form."""
    gaps = arms - arms[choice]
    widths = np.sqrt(np.einsum("ij,jk,ik->i", gaps, policy.inverse_gram, gaps))
    return float(np.max(gaps @ policy.theta + policy.radius * widths))


@pytest.mark.parametrize("p", [2.0, 1.5, None])
def test_in_a_run_every_choice_keeps_theorem_2_on_the_whole_set(p):
    """Widths that grow after one large reward included: the theorem is about one round."""
    policy, rng = sharp(3, p, 0.05), np.random.default_rng(2)
    truth, told, grew, differs = np.array([0.6, -0.5, 0.3]), 0, 0, 0
    for t in range(600):
        arms = rng.standard_normal((8, 3))
        arms *= rng.uniform(0.05, 1.0, (8, 1)) / np.linalg.norm(arms, axis=1, keepdims=True)
        choice = policy.select(arms)
        bound = 8.0 * policy.radius * policy.width(arms[choice])
        means = arms @ truth
        assert worst_regret(policy, arms, choice) <= bound * (1.0 + 1e-9)
        assert means.max() - means[choice] <= bound
        told += bound < np.ptp(means)
        widths = np.array([policy.width(x) for x in arms])
        differs += choice != np.argmax(arms @ policy.theta + policy.radius * widths)
        noise = 0.02 * rng.standard_t(2.5) + (3.0 if t in (57, 157, 257, 357, 457) else 0.0)
        policy.update(arms[choice], float(means[choice] + noise))
        after = np.array([policy.width(x) for x in arms])
        grew += bool(np.any(after > widths * (1.0 + 1e-9)))
    assert min(told, differs, grew) > 3  # nothing of it is idle


# --- what it promises


@pytest.mark.parametrize("p", [2.0, 1.5, 1.1, None])
@pytest.mark.parametrize("dim", [1, 2, 16])
def test_it_passes_every_check_of_a_policy(p, dim):
    ht.checks.check_policy(sharp(dim, p, 0.1))


def test_levels_above_that_of_the_steps_are_refused_and_lower_ones_narrower():
    policy = sharp(delta=0.01)
    policy.update([0.6, 0.8], 2.0)
    wide, narrow = (policy.predict([1.0, 0.0], level=level) for level in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high
    assert wide.high - wide.mean == pytest.approx(policy.radius * policy.width([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"TwinUCB\.predict: level must be at most 1 - delta"):
        policy.predict([1.0, 0.0], level=0.995)


def test_it_says_why_it_chooses():
    assert "whose high reaches the largest low" in sharp().explain(np.eye(2)).rule


def test_save_and_load_know_the_bulk_and_the_blocks(tmp_path):
    policy = sharp(3, delta=0.01, radius_scale=0.5)
    for arms, noise, scale in game(3, 30, scales=True):
        policy.update(arms[0], noise, scale=scale)
    policy.save(tmp_path / "policy.npz")
    loaded = ht.load(tmp_path / "policy.npz")
    for arms, noise, scale in game(3, 30, seed=1, scales=True):
        assert loaded.select(ht.Pool(arms)) == policy.select(arms)
        for each in (policy, loaded):
            each.update(arms[1], noise, scale=scale)
    np.testing.assert_array_equal(loaded._s, policy._s)
    np.testing.assert_array_equal(loaded.bulk, policy.bulk)
    assert {"bulk", "gram_inverse", "spread_inverse"} <= set(policy.state)
    assert policy._rows["bulk"] == bulk_row(policy._M)
    assert bulk_row(policy._M) + 1 == policy._rows["gram_inverse"].start
    assert INVERSE < bulk_row(policy._M)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tail": None}, "TwinUCB.tail"),
        ({"tail": "auto"}, "TwinUCB.tail"),
        ({"theta_bound": None}, "TwinUCB.theta_bound must be given"),
        ({"theta_bound": -1.0}, "TwinUCB.theta_bound"),
        ({"target": "typical"}, "TwinUCB.target"),
        ({"delta": 0.0}, "TwinUCB.delta"),
        ({"delta": 1.0}, "TwinUCB.delta"),
        ({"radius_scale": -1.0}, "TwinUCB.radius_scale"),
        ({"arm_bound": math.nan}, "TwinUCB.arm_bound"),
        ({"forget": 0.99}, "TwinUCB.forget must not be given"),
        ({"radius": "theory", "horizon": 9, "delta": 0.1}, "TwinUCB.delta"),
        ({"radius": "empirical", "delta": 0.1}, "TwinUCB.delta"),
        ({"radius": "empirical", "tail": "symmetric"}, "TwinUCB.tail"),
    ],
    ids=str,
)
def test_what_the_theorem_needs_is_asked_for_in_one_sentence(options, named):
    if options.get("radius") in ("theory", "empirical"):
        options = {"theta_bound": None, **options}
    with pytest.raises(ValueError, match=named) as refused:
        ht.TwinUCB(2, **{"tail": TAIL, "theta_bound": 1.0, "radius": "sharp", **options})
    assert "\n" not in str(refused.value)


def test_it_does_not_begin_from_an_earlier_estimate():
    with pytest.raises(ValueError, match=r"TwinUCB\.start_from"):
        sharp().start_from([0.1, 0.2], np.eye(2))
