"""Twin-UCB in theory: its mean is Algorithm 1, its arms are its twin's, and its rule keeps the
inequality that the theorem on widths proves.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.common import game, near, together
from tests.naive.two_estimates import TwinTheory

import heavytail as ht
from heavytail.kernels.layout import INVERSE, RADIUS, THETA
from heavytail.policies.core.two_estimates import TWO as S
from heavytail.policies.core.two_estimates import bulk_row

C = 3.0
TAIL = ht.MomentBound(order=1.6, scale=1.0)
LOOK = ("theta", "radius", "inverse_gram", "bulk", "intercept")
EVERYWHERE = pytest.mark.parametrize(
    ("p", "d"), [(p, d) for p in (1.3, 1.6, 2.0) for d in (1, 2, 5)]
)


def both(dim, p=1.6, nu=1.0, horizon=400, **knobs):
    policy = ht.TwinUCB(dim, tail=ht.MomentBound(p, nu), horizon=horizon, radius="theory", **knobs)
    return policy, TwinTheory(dim, order=p, scale=nu, horizon=horizon, **knobs)


# --- the estimates


@pytest.mark.parametrize("dim", [1, 2, 4, 13])
@pytest.mark.parametrize("knobs", [{}, {"theta_bound": 0.3}, {"radius_scale": 1e-3}], ids=str)
def test_the_mean_is_hvt_ucbs_to_the_bit(dim, knobs):
    told = {"tail": TAIL, "horizon": 400, "radius": "theory", **knobs}
    twin, hvt = ht.TwinUCB(dim, **told), ht.HvtUCB(dim, **told)
    for t, (arms, noise, scale) in enumerate(game(dim, 300, scales=True)):
        x = arms[t % len(arms)] if t % 50 else np.zeros(dim)
        for policy in (twin, hvt):
            policy.update(x, float(x.sum()) + noise, scale=scale)
        for name in ("theta", "inverse_gram", "radius"):
            np.testing.assert_array_equal(getattr(twin, name), getattr(hvt, name))
    assert twin.diagnostics() == hvt.diagnostics()
    assert twin.intercept == 0.0


@EVERYWHERE
def test_it_is_its_formulas(p, d):
    policy, twin = both(d, p)
    together(policy, twin, game(d, 60), LOOK)


@EVERYWHERE
def test_it_is_its_formulas_where_the_radius_is_small_enough_to_rule_arms_out(p, d):
    policy, twin = both(d, p, 0.02, radius_scale=1e-4)
    together(policy, twin, game(d, 150, noise=0.02, arms=8), LOOK)
    assert twin.played["ruled out"] > 0
    assert twin.played["favourite"] > 0 or d == 1


def uneven(rounds):
    """The same rounds, with arms a hundred times shorter than others among them."""
    rng = np.random.default_rng(9)
    for arms, noise, scale in rounds:
        yield arms * 10.0 ** rng.uniform(-2.0, 0.0, (len(arms), 1)), noise, scale


@pytest.mark.parametrize("d", [2, 5])
def test_it_is_its_formulas_where_arms_are_known_unequally_well(d):
    policy, twin = both(d, 1.6, 0.02, radius_scale=3e-4)
    together(policy, twin, uneven(game(d, 150, noise=0.02, arms=8)), LOOK)
    assert min(twin.played.values()) > 0


@pytest.mark.parametrize("knobs", [{"arm_bound": 2.5}, {"theta_bound": 0.2, "radius_scale": 1e-3}])
def test_it_takes_every_knob(knobs):
    policy, twin = both(3, 1.4, 0.5, **knobs)
    length = knobs.get("arm_bound", 1.0)
    together(policy, twin, game(3, 80, length=length, noise=0.5, scales=True), LOOK)
    near(policy._s[S.BULK_RADIUS], twin.bulk_radius, "the bulk's radius")


def test_the_bulks_step_has_the_step_size_of_the_mean():
    """A first reward within both clips moves both alike, alpha = 4 and all."""
    policy = ht.TwinUCB(2, tail=TAIL, horizon=100, radius="theory")
    policy.update([0.6, 0.8], 0.5)
    np.testing.assert_allclose(policy.bulk, policy.theta, rtol=1e-14)
    assert np.all(policy.theta > 0.0)


# --- the rule


def placed(dim, theta, bulk, gram, radius, bulk_radius=0.0):
    """A policy whose two estimates, Gram matrix and radii are as given."""
    policy = ht.TwinUCB(dim, tail=TAIL, horizon=100, radius="theory")
    s, M = policy.packed
    M[THETA], M[bulk_row(M)] = theta, bulk
    M[INVERSE : INVERSE + dim] = np.linalg.inv(gram)
    s[RADIUS], s[S.BULK_RADIUS] = radius, bulk_radius
    return policy


def worst_regret(policy, arms, choice):
    """The largest regret of a choice over all theta in the mean's set: a maximum in closed form."""
    gaps = arms - arms[choice]
    widths = np.sqrt(np.einsum("ij,jk,ik->i", gaps, policy.inverse_gram, gaps))
    return float(np.max(gaps @ policy.theta + policy.radius * widths))


def bound(policy, x):
    return 2.0 * (1.0 + C) * policy.radius * policy.width(x)


def random_case(seed):
    """Estimates, a matrix and arms of very different widths."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 5))
    root = rng.normal(size=(dim, dim)) * 10.0 ** rng.uniform(-1.0, 1.5, (dim, 1))
    arms = rng.normal(size=(7, dim))
    arms *= 10.0 ** rng.uniform(-2.0, 0.0, (7, 1)) / np.linalg.norm(arms, axis=1, keepdims=True)
    theta, bulk = rng.normal(size=(2, dim))
    gram = root @ root.T + 0.1 * np.eye(dim)
    policy = placed(dim, theta, bulk, gram, 10.0 ** rng.uniform(-2.0, 1.0), rng.uniform(0.0, 2.0))
    return policy, arms


def test_whatever_the_state_the_regret_is_within_the_theorems_bound_on_the_whole_set():
    tight = 0.0
    for seed in range(2_000):
        policy, arms = random_case(seed)
        choice = policy.select(arms)
        share = worst_regret(policy, arms, choice) / bound(policy, arms[choice])
        assert share <= 1.0 + 1e-9, f"seed {seed}"
        tight = max(tight, share)
    assert tight > 0.5  # the bound is not idle


def test_the_constant_of_the_theorem_is_attained():
    policy = placed(1, [1.0], [-9.0], np.eye(1), 1.0)
    arms = np.array([[-1.0 / C], [1.0]])
    assert policy.select(arms) == 0
    assert worst_regret(policy, arms, 0) == pytest.approx(bound(policy, arms[0]), rel=1e-14)


def test_an_arm_that_is_ruled_out_is_never_played():
    ruled_out = wanted = 0
    for seed in range(2_000):
        policy, arms = random_case(seed)
        widths = np.array([policy.width(x) for x in arms])
        means = arms @ policy.theta
        upper, lower = means + policy.radius * widths, means - policy.radius * widths
        out = upper < lower.max() - 1e-9
        ruled_out += out.sum()
        wanted += out[np.argmax(arms @ policy.bulk + policy._s[S.BULK_RADIUS] * widths)]
        assert not out[policy.select(arms)], f"seed {seed}"
    assert ruled_out > 1_000
    assert wanted > 100  # the bulk alone would have played it


class Trusting(TwinTheory):
    """Broken: it asks the bulk about every arm, whatever the mean says."""

    def plausible(self, arms):
        return np.ones(len(arms), dtype=bool)


class Careless(TwinTheory):
    """Broken: it never lets the mean try what is less known."""

    c = math.inf


def state(kind, theta, bulk, V, radius):
    twin = kind(2, order=1.6, scale=1.0, horizon=100)
    twin.theta_all, twin.bulk = np.array(theta), np.array(bulk)
    twin.V, twin.radius = np.diag(V), radius
    return twin


RULED_OUT = ([1.0, 0.0], [0.0, 9.0], [100.0, 100.0], 0.5)  # the bulk likes what the mean excludes
UNKNOWN = ([0.0, 0.0], [99.0, 0.0], [1e4, 1e-2], 0.1)  # the bulk likes what is known to be dull


@pytest.mark.parametrize(
    ("broken", "where"), [(Trusting, RULED_OUT), (Careless, UNKNOWN)], ids=["trusting", "careless"]
)
def test_a_rule_that_forgets_either_half_breaks_the_inequality(broken, where):
    arms = np.eye(2)
    policy = placed(2, where[0], where[1], np.diag(where[2]), where[3])
    wrong = state(broken, *where).choose(arms)
    right = state(TwinTheory, *where).choose(arms)
    assert right == policy.select(arms) != wrong
    assert worst_regret(policy, arms, right) <= bound(policy, arms[right])
    assert worst_regret(policy, arms, wrong) > bound(policy, arms[wrong])


@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_the_mean_is_asked_where_its_arm_is_three_times_less_known(ratio):
    gram = np.diag([1.0, (C * ratio) ** -2.0])  # widths 1 and 3 ratio
    policy = placed(2, [0.0, 0.0], [9.0, 0.0], gram, 1.0)
    assert policy.select(np.eye(2)) == (1 if ratio > 1.0 else 0)


def test_an_arm_of_no_width_is_no_trouble():
    policy = placed(2, [0.3, 0.0], [0.0, 1.0], np.eye(2), 1e-3)
    assert policy.select([[0.0, 0.0]]) == 0
    assert policy.select([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]) == 1
    with pytest.raises(ValueError, match="arms"):
        policy.select(np.empty((0, 2)))


# --- a run


@pytest.mark.parametrize("seed", range(3))
def test_in_a_run_on_which_the_set_holds_so_does_the_inequality(seed):
    """S is stated large so that the scaled radius holds from the first round on."""
    dim, rounds, nu = 3, 1_500, 0.02
    policy, _ = both(dim, 1.6, nu, rounds, radius_scale=1e-3, theta_bound=500.0)
    rng = np.random.default_rng(seed)
    truth = np.array([0.6, -0.5, 0.3])
    told = against = 0  # rounds on which the bound says something, and on which it was not greedy
    for _ in range(rounds):
        arms = rng.normal(size=(8, dim))
        arms *= rng.uniform(0.05, 1.0, (8, 1)) / np.linalg.norm(arms, axis=1, keepdims=True)
        choice = policy.select(arms)
        off = policy.theta - truth
        assert off @ np.linalg.solve(policy.inverse_gram, off) <= policy.radius**2
        means = arms @ truth
        most = bound(policy, arms[choice])
        assert means.max() - means[choice] <= most
        told += most < np.ptp(means)
        widths = np.array([policy.width(x) for x in arms])
        against += choice != np.argmax(arms @ policy.theta + policy.radius * widths)
        policy.update(arms[choice], float(means[choice] + nu / 3.0 * rng.standard_t(1.8)))
    assert told > 300
    assert against > 100


# --- what it must be told


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tail": TAIL}, "TwinUCB.horizon"),
        ({"horizon": 10}, "TwinUCB.tail"),
        ({"horizon": 10, "tail": "auto"}, "TwinUCB.tail"),
        ({"horizon": 10, "tail": TAIL, "target": "typical"}, "TwinUCB.target"),
        ({"horizon": 10, "tail": TAIL, "theta_bound": 0.0}, "TwinUCB.theta_bound"),
        ({"horizon": 10, "tail": TAIL, "radius_scale": -1.0}, "TwinUCB.radius_scale"),
        ({"horizon": 0, "tail": TAIL}, "TwinUCB.horizon"),
        ({"radius": "magic"}, "TwinUCB.radius"),
        ({"radius": "empirical", "theta_bound": 1.0}, "TwinUCB.theta_bound"),
        ({"radius": "empirical", "radius_scale": 1.0}, "TwinUCB.radius_scale"),
    ],
    ids=str,
)
def test_what_the_theory_needs_is_asked_for_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        ht.TwinUCB(2, **{"radius": "theory", **options})


def test_it_passes_every_check_of_a_policy():
    policy = ht.TwinUCB(2, tail=TAIL, horizon=1000, radius="theory")
    # Lemma 1's radius is far too wide to settle in 600 rounds: that is the paper's own constant.
    # It is in the unit of the reward, by sigma_min = 1/sqrt(T), too.
    ht.checks.check_policy(policy, skip=["learns_the_better_arm", "has_no_unit"])
