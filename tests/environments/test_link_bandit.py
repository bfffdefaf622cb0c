"""Worlds with a link: the law of clicks and counts, exact regret, every engine, what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import heavytail as ht
from heavytail.environments import Block, LinkBandit
from heavytail.kernels.counts import count, linked_shape, paid
from heavytail.simulation.engines import _reward, episode

SEED = np.random.SeedSequence(7)
MEANS: dict[str, Any] = {
    "identity": lambda z: z,
    "logistic": lambda z: 1.0 / (1.0 + np.exp(-z)),
    "log": np.exp,
    "probit": stats.norm.cdf,
}
VARIANCES: dict[str, Any] = {
    "identity": np.ones_like,
    "logistic": lambda mu: mu * (1.0 - mu),
    "log": lambda mu: mu,
    "probit": lambda mu: mu * (1.0 - mu),
}


def deal(world: LinkBandit, rounds: int = 4096) -> Block:
    return next(world.blocks(SEED, rounds))


def rewards(world: LinkBandit, rounds: int) -> tuple[Any, Any]:
    """Rewards (rounds, n) of every arm of a pool, and the means."""
    rows, means = [], np.empty(0)
    for block in world.blocks(SEED, rounds):
        means = block.means
        rows += [[_reward(block, t, a) for a in range(len(means))] for t in range(block.length)]
    return np.array(rows), means


@pytest.mark.parametrize("mean", [1e-3, 0.4, 1.0, 3.7, 150.0, math.exp(7.0), math.exp(10.0)])
def test_a_count_has_the_probabilities_of_poisson(mean: float) -> None:
    n = 20_000
    found = np.array([count((k + 0.5) / n, mean) for k in range(n)]).astype(int)
    seen = np.arange(found.min(), found.max() + 1)
    shares = np.bincount(found - seen[0]) / n
    # each count holds one interval of the uniform numbers, so that a grid misses by 1 at most
    np.testing.assert_allclose(shares, stats.poisson.pmf(seen, mean), rtol=0, atol=1.01 / n)


def test_a_count_is_finite_at_the_ends_of_the_uniform_numbers() -> None:
    assert count(0.5, 0.0) == count(0.0, 1e-300) == 0.0
    for mean in (1e-300, 0.3, 20.0, math.exp(10.0)):
        assert count(0.0, mean) == math.floor(mean)
        assert abs(count(1.0 - 2.0**-53, mean) - mean) <= 12.0 * math.sqrt(mean) + 20.0


def test_what_an_arm_earns_is_the_formula() -> None:
    shape = 0.5, 2.0, 0.3, 4.0
    assert paid(False, shape, 1.5, 0.2, 7.0) == 0.5 + 2.0 * 1.5 + 7.0 * 4.0
    assert paid(False, shape, 1.5, 0.4, 7.0) == 0.5 + 2.0 * 1.5
    assert paid(True, shape, 1.5, 0.2, 7.0) == 0.5 + 2.0 * 1.5 + 7.0 * count(0.2, 4.0)
    code = {name: link.code for name, link in ht.links.LINKS.items()}
    assert linked_shape(code["identity"], 0.3) == (0.3, 1.0, 0.0, 0.0)
    assert linked_shape(code["log"], 0.3) == (0.0, 0.0, 1.0, 0.3)
    assert linked_shape(code["logistic"], 0.3) == linked_shape(code["probit"], 0.3)
    assert linked_shape(code["probit"], 0.3) == (0.0, 0.0, 0.3, 1.0)


@pytest.mark.parametrize("link", MEANS)
def test_rewards_have_the_mean_and_the_variance_of_their_law(link: str) -> None:
    world = ht.LinkBandit(3, 4, link, theta_bound=2.0, base=-0.5)
    found, means = rewards(world, 20_000)
    mu = MEANS[link](-0.5 + deal(world, 1).arms @ world.theta(SEED))
    np.testing.assert_allclose(means, mu, rtol=1e-12)
    variance = VARIANCES[link](mu)
    error = np.sqrt(variance / len(found))
    assert np.all(np.abs(found.mean(axis=0) - mu) < 5 * error)
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.12)
    if link in ("logistic", "probit"):
        assert set(np.unique(found)) == {0.0, 1.0}
    if link == "log":
        assert np.all(found == np.floor(found))
        assert found.min() == 0.0


def test_a_share_of_the_rounds_pays_every_count_many_times() -> None:
    world = ht.LinkBandit(2, 5, "log", base=3.0, outliers=0.05, factor=100.0)
    block = deal(world)
    struck = block.events[:, 1] == 100.0
    assert set(np.unique(block.events[:, 1])) == {1.0, 100.0}
    assert abs(struck.mean() - 0.05) < 5 * math.sqrt(0.05 * 0.95 / 4096)
    found, means = rewards(world, 4096)
    plain, plain_means = rewards(ht.LinkBandit(2, 5, "log", base=3.0), 4096)
    np.testing.assert_array_equal(found, np.where(struck[:, None], 100.0, 1.0) * plain)
    np.testing.assert_allclose(means, (1.0 + 0.05 * 99.0) * plain_means)
    error = found.std(axis=0) / 64.0
    assert np.all(np.abs(found.mean(axis=0) - means) < 5 * error)


@pytest.mark.parametrize("options", [{}, {"offered": 3}, {"fresh": True}], ids=str)
def test_normal_rewards_are_those_of_the_linear_bandit(options: dict[str, Any]) -> None:
    linear = ht.LinearBandit(3, 6, ht.noise.Gaussian(), theta_bound=2.0, **options)
    world = ht.LinkBandit(3, 6, "identity", theta_bound=2.0, **options)
    one, two = (next(place.blocks(SEED, 50)) for place in (linear, world))
    for name in ("arms", "means", "noise", "offered"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert [_reward(one, t, 1) for t in range(50)] == [_reward(two, t, 1) for t in range(50)]


class Last(ht.policies.Policy):
    """Plays the last arm shown, and keeps what it saw."""

    name = "Last"
    info = ht.policies.Info("last", "-", "T", "O(1)", "O(1)", "none")

    def __init__(self, dim: int) -> None:
        self._start(dim, None, None)
        self.shown: list[Any] = []

    def select(self, arms: Any) -> int:
        self.shown.append(arms.copy())
        return len(arms) - 1

    def update(self, x: Any, reward: float, *, scale: float | None = None) -> None:
        pass

    theta = property(lambda self: np.zeros(self.dim))
    radius = property(lambda self: 0.0)
    rounds = property(lambda self: len(self.shown))

    def state_arrays(self) -> dict[str, Any]:
        return {}

    def restore(self, arrays: Any) -> None:
        pass


@pytest.mark.parametrize("options", [{}, {"offered": 3}, {"fresh": True}], ids=str)
@pytest.mark.parametrize("link", MEANS)
def test_regret_is_the_gap_of_true_means_to_the_best_arm_offered(
    link: str, options: dict[str, Any]
) -> None:
    more = {"outliers": 0.1, "factor": 11.0} if link == "log" else {}
    world = ht.LinkBandit(3, 6, link, theta_bound=2.0, base=0.5, **options, **more)
    policy = Last(3)
    regret, _ = episode(policy, world, SEED, 30, "reference")
    theta = world.theta(SEED)
    assert np.linalg.norm(theta) == pytest.approx(2.0)
    want = []
    for arms in policy.shown:
        np.testing.assert_allclose(np.linalg.norm(arms, axis=1), 1.0)
        means = (2.0 if more else 1.0) * MEANS[link](0.5 + arms @ theta)
        want.append(means.max() - means[-1])
    np.testing.assert_allclose(regret, np.cumsum(want), rtol=1e-9, atol=1e-12)
    assert policy.shown[0].shape == (options.get("offered", 6), 3)


@pytest.mark.parametrize("options", [{}, {"offered": 3}, {"fresh": True}], ids=str)
@pytest.mark.parametrize("link", ["logistic", "log", "probit"])
def test_a_policy_with_the_link_plays_alike_in_both_engines(
    link: str, options: dict[str, Any]
) -> None:
    more = {"outliers": 0.02} if link == "log" else {}
    world = ht.LinkBandit(3, 6, link, theta_bound=3.0, base=-1.0, **options, **more)
    runs = []
    for engine in ("compiled", "reference"):
        policy = ht.GLBOMD(3, link=link)
        runs.append((episode(policy, world, SEED, 500, engine)[0], policy.theta))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_allclose(runs[0][1], runs[1][1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("link", ["logistic", "log"])
def test_both_ways_to_draw_a_world_have_the_same_regret(link: str) -> None:
    world = ht.LinkBandit(2, 10, link, theta_bound=3.0)
    policy = ht.GLBOMD(2, link=link)
    counted = ht.distribution(policy, world, rounds=300, trials=500, seed=1, jobs=1).regret[-1]
    found = ht.simulate([policy], world, rounds=300, trials=500, seed=1, record=1, jobs=1)
    dealt = found["GLB-OMD"].final
    error = np.hypot(counted.std(), dealt.std()) / math.sqrt(500)
    assert abs(counted.mean() - dealt.mean()) < 5 * error


@pytest.mark.parametrize("link", ["logistic", "log"])
def test_rewards_drawn_by_counters_have_the_mean_and_the_variance_of_their_law(link: str) -> None:
    from heavytail.simulation.counter import describe, expected, linked_reward

    more = {"outliers": 0.2, "factor": 5.0} if link == "log" else {}
    world = ht.LinkBandit(2, 5, link, base=0.7, **more)
    law = describe(ht.Uniform(2), world).law
    assert law == world.law
    mu, lift, square = MEANS[link](0.7 + 0.4), 1.0, 1.0
    if more:
        lift, square = 1.0 + 0.2 * 4.0, 1.0 + 0.2 * 24.0
    found = np.array([linked_reward(law, 0.4, 0.0, 3, 1, t) for t in range(20_000)])
    raw = square * (mu + mu**2 if more else mu)
    assert expected(law, 0.4) == pytest.approx(lift * mu)
    assert abs(found.mean() - lift * mu) < 5 * found.std() / math.sqrt(len(found))
    assert found.var() == pytest.approx(raw - (lift * mu) ** 2, rel=0.08)


def test_a_seed_deals_one_world_and_another_seed_another() -> None:
    world = ht.LinkBandit(2, 5, "log", outliers=0.1)
    one, two = rewards(world, 60)[0], rewards(world, 60)[0]
    np.testing.assert_array_equal(one, two)
    other = next(world.blocks(np.random.SeedSequence(8), 60))
    assert not np.array_equal(other.arms, deal(world, 60).arms)
    assert not np.array_equal(other.events, deal(world, 60).events)
    assert not np.array_equal(world.theta(SEED), world.theta(np.random.SeedSequence(8)))


def test_a_block_of_counts_that_is_cut_is_still_of_counts() -> None:
    whole = deal(ht.LinkBandit(2, 5, "log", fresh=True))
    part = whole.first(9)
    assert (part.length, part.counts, whole.counts) == (9, True, True)
    np.testing.assert_array_equal(part.shapes, whole.shapes[:9])
    assert not deal(ht.LinkBandit(2, 5, "logistic")).counts


def test_the_index_the_symmetry_and_the_arms_that_stay_are_known() -> None:
    found = {link: ht.LinkBandit(2, 5, link) for link in MEANS}
    assert {link for link, world in found.items() if world.symmetric} == {"identity"}
    assert all(world.tail_index == math.inf for world in found.values())
    assert [ht.LinkBandit(2, 5, "log", **o).fixed_arms for o in ({}, {"fresh": True})] == [1, 0]
    assert [ht.LinkBandit(2, 5, "log", offered=k).fixed_arms for k in (4, 5)] == [False, True]


LINEAR = "a mean reward that is linear in x"


@pytest.mark.parametrize(
    ("policy", "link", "broken"),
    [
        (ht.GLBOMD(2, link="log"), "log", []),
        (ht.GLBOMD(2, link="logistic"), "logistic", []),
        (ht.GLBOMD(2, link="log"), "logistic", ["a mean reward that is the log link of a score"]),
        (ht.GLBOMD(2), "log", [LINEAR]),
        (ht.OFUL(2, noise_scale=1.0), "identity", []),
        (ht.OFUL(2, noise_scale=1.0), "logistic", [LINEAR]),
        (ht.OFUL(2, noise_scale=1.0), "log", ["sub-Gaussian noise", LINEAR]),
        (ht.HvtUCB(2, tail=ht.MomentBound(2.0, 1.0)), "probit", [LINEAR]),
        (ht.Uniform(2), "log", []),
        (None, "log", []),
    ],
    ids=str,
)
def test_a_policy_of_another_link_is_told_what_it_assumes(
    policy: Any, link: str, broken: list[str]
) -> None:
    assert ht.LinkBandit(2, 5, link).broken_needs(policy) == broken


def test_a_policy_that_models_each_arm_apart_needs_no_link() -> None:
    tail = ht.MomentBound(2.0, 1.0)
    policy = ht.make_policy("RobustUCB", dim=2, horizon=99, tail=tail, arms=5)
    assert ht.LinkBandit(2, 5, "log").broken_needs(policy) == []
    needs = ht.LinkBandit(2, 5, "log", fresh=True).broken_needs(policy)
    assert needs == ["arms that can be played again"]


def test_the_tail_is_the_largest_standard_deviation_within_reach() -> None:
    assert ht.LinkBandit(2, 5, "identity").tail(1.5) == ht.noise.Gaussian().tail(1.5)
    assert ht.LinkBandit(2, 5, "logistic", base=-1.0).tail(1.5) == ht.MomentBound(1.5, 0.5)
    for base in (-3.0, 3.0):
        mu = 1.0 / (1.0 + math.exp(2.0))
        told = ht.LinkBandit(2, 5, "logistic", base=base).tail(2.0).scale
        assert told == pytest.approx(math.sqrt(mu * (1.0 - mu)))
    assert ht.LinkBandit(2, 5, "log", base=1.0).tail(2.0).scale == pytest.approx(math.e)
    world = ht.LinkBandit(2, 2, "log", base=2.0, outliers=0.3, factor=20.0, theta_bound=1e-9)
    assert world.tail(2.0).scale == pytest.approx(rewards(world, 20_000)[0].std(), rel=0.03)


def test_a_world_says_what_it_was_made_of() -> None:
    world = ht.LinkBandit(2, 5, ht.links.log, base=-1.0, offered=3, outliers=0.01)
    assert repr(world) == (
        "LinkBandit(dim=2, arms=5, link='log', base=-1.0, offered=3, outliers=0.01)"
    )
    assert world.describe() == {
        "dim": 2,
        "arms": 5,
        "link": "log",
        "theta_bound": 1.0,
        "base": -1.0,
        "arm_bound": 1.0,
        "offered": 3,
        "fresh": False,
        "outliers": 0.01,
        "factor": 1000.0,
    }
    again = eval(repr(world), {"LinkBandit": ht.LinkBandit})
    assert again.describe() == world.describe()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 0}, "LinkBandit.dim"),
        ({"arms": 0}, "LinkBandit.arms"),
        ({"link": "logit"}, "LinkBandit.link must be one of .*; got 'logit'"),
        ({"link": 3.0}, "LinkBandit.link"),
        ({"theta_bound": 0.0}, "LinkBandit.theta_bound"),
        ({"arm_bound": -1.0}, "LinkBandit.arm_bound"),
        ({"base": math.nan}, "LinkBandit.base"),
        ({"base": 9.1}, r"LinkBandit.base .*largest score of 10\.1.*Lower base"),
        ({"theta_bound": 2.0, "arm_bound": 5.1}, "largest score"),
        ({"offered": 9}, "LinkBandit.offered"),
        ({"offered": 2, "fresh": True}, "LinkBandit.offered"),
        ({"outliers": 1.0}, "LinkBandit.outliers"),
        ({"outliers": -0.1}, "LinkBandit.outliers"),
        ({"outliers": 0.1, "link": "logistic"}, 'LinkBandit.outliers must be 0 .* link="log"'),
        ({"factor": 0.0}, "LinkBandit.factor"),
    ],
    ids=str,
)
def test_a_world_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        ht.LinkBandit(**{"dim": 2, "arms": 5, "link": "log", **options})


def test_worlds_at_the_edges_of_their_range_exist() -> None:
    assert deal(ht.LinkBandit(1, 1, "log", base=9.0), 1).counts
    for world in (
        ht.LinkBandit(2, 5, "logistic", base=700.0),
        ht.LinkBandit(2, 5, "probit", base=-700.0),
        ht.LinkBandit(2, 5, "log", base=-800.0),
    ):
        assert 0.0 < world.tail(2.0).scale < 1e-90
    assert np.all(rewards(ht.LinkBandit(2, 2, "log", base=-800.0), 5)[0] == 0.0)


def test_the_tail_of_counts_with_outliers_is_that_of_their_mixture():
    world = ht.LinkBandit(2, arms=5, link="log", outliers=0.1, factor=3.0)
    rng = np.random.default_rng(0)
    drawn = rng.poisson(math.e, 400_000) * np.where(rng.random(400_000) < 0.1, 3.0, 1.0)
    assert world.tail(2.0).scale == pytest.approx(drawn.std(), rel=0.02)
