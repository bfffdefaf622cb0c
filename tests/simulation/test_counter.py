"""Environments drawn by counters, from the formulas: streams, noise, arms, trials, coverage."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.counts import count
from heavytail.kernels.layout import INVERSE, RADIUS
from heavytail.kernels.links import link_mean
from heavytail.kernels.random import uniform, uniform_pair
from heavytail.simulation import counter_world
from heavytail.simulation.counter import (
    PLAIN,
    STRAIGHT,
    CounterWorld,
    cpu_runner,
    describe,
    start_state,
)
from heavytail.simulation.covering import distance
from heavytail.simulation.distribution import Distribution, distribution, least_share

TAIL = ht.MomentBound(1.5, 2.0)
NOISES = {
    "Gaussian": (ht.noise.Gaussian(2.0), "gaussian", 2.0, 0.0),
    "Uniform": (ht.noise.Uniform(2.0), "even", 2.0, 0.0),
    "Contaminated": (ht.noise.Contaminated(0.1, 9.0), "contaminated", 0.1, 9.0),
    "StudentT": (ht.noise.StudentT(2.1), "student_t", 2.1, 0.0),
    "Pareto": (ht.noise.Pareto(2.5), "pareto", 2.5, 2.5 / 1.5),
    "Lomax": (ht.noise.Lomax(2.5), "pareto", 2.5, 2.5 / 1.5),
    "Fisk": (ht.noise.Fisk(2.5), "fisk", 2.5, (math.pi / 2.5) / math.sin(math.pi / 2.5)),
    "LogNormal": (ht.noise.LogNormal(0.7), "log_normal", 0.7, math.exp(0.7**2 / 2)),
    "Stable": (ht.noise.Stable(1.8, 0.5), "stable", 1.8, 0.5),
}


def test_every_purpose_has_a_stream_of_its_own() -> None:
    own = counter_world
    purposes = (own.TRUTH, own.GEOMETRY, own.NOISE, own.FACTOR, own.CHOICE)
    purposes += (own.ACROSS, own.EVENT, own.PAYMENT)
    assert purposes == tuple(range(own.STREAMS))
    assert own.stream(5, own.FACTOR) == 8 * 5 + 3
    keys = [own.stream(seed, purpose) for seed in range(3) for purpose in purposes]
    assert len(set(keys)) == 24


@pytest.mark.parametrize("u", [0.03, 0.4, 0.9])
@pytest.mark.parametrize("v", [0.1, 0.45, 0.8])
def test_a_noise_is_its_formula_of_two_uniform_numbers(u: float, v: float) -> None:
    own, turn = counter_world, math.cos(2 * math.pi * v)
    z = math.sqrt(-2 * math.log(u)) * turn
    assert own.gaussian(u, v, 3.0, 0.0) == pytest.approx(3 * z)
    assert own.nothing(u, v, 3.0, 2.0) == 0.0
    assert own.even(u, v, 3.0, 0.0) == pytest.approx(6 * u - 3)
    struck, spared = own.gaussian(u, v / 0.3, 1.0, 0.0), own.gaussian(u, (v - 0.3) / 0.7, 1.0, 0.0)
    assert own.contaminated(u, v, 0.3, 50.0) == pytest.approx(50 * struck if v < 0.3 else spared)
    assert own.log_normal(u, v, 0.7, 1.5) == pytest.approx(math.exp(0.7 * z) - 1.5)
    student = math.sqrt(1.7 * (u ** (-2 / 1.7) - 1)) * turn
    assert own.student_t(u, v, 1.7, 0.0) == pytest.approx(student)
    assert own.pareto(u, v, 1.5, 3.0) == pytest.approx(u ** (-1 / 1.5) - 3)
    assert own.fisk(u, v, 1.5, 2.0) == pytest.approx(((1 - u) / u) ** (1 / 1.5) - 2)
    alpha, beta, angle, w = 1.6, 0.4, math.pi * (u - 0.5), -math.log(1 - v)
    zeta = beta * math.tan(math.pi * alpha / 2)
    xi = math.atan(zeta) / alpha
    stable = (1 + zeta**2) ** (1 / (2 * alpha)) * math.sin(alpha * (angle + xi))
    stable /= math.cos(angle) ** (1 / alpha)
    stable *= (math.cos(angle - alpha * (angle + xi)) / w) ** ((1 - alpha) / alpha)
    assert own.stable(u, v, alpha, beta) == pytest.approx(stable)


def test_a_uniform_number_of_zero_counts_as_the_smallest_there_is() -> None:
    own, least = counter_world, 2.0**-53
    assert least == own.SMALLEST
    draws = (own.gaussian, own.contaminated, own.student_t, own.pareto, own.fisk, own.log_normal)
    for draw in draws:
        there = draw(0.0, 0.1, 1.5, 0.5)
        assert math.isfinite(there)
        assert there == pytest.approx(draw(least, 0.1, 1.5, 0.5))
    assert math.isfinite(own.stable(0.0, 0.1, 1.5, 0.5))
    assert math.isfinite(own.stable(0.3, 0.0, 1.5, 0.5))


def coordinates(seed: int, purpose: int, trial: int, shape: tuple[int, ...]) -> Any:
    draws = [uniform(8 * seed + purpose, trial, k) for k in range(math.prod(shape))]
    return 2.0 * np.array(draws).reshape(shape) - 1.0


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("together", [False, True])
def test_theta_and_arms_are_uniform_coordinates_rescaled(together: bool, d: int) -> None:
    theta, arms = np.empty(d), np.empty((5, d))
    counter_world.draw_theta(7, 2, theta, 1.5)
    counter_world.draw_arms(7, 2, arms, 2.5, together)
    want = coordinates(7, 0, 2, (d,))
    np.testing.assert_allclose(theta, 1.5 * want / np.linalg.norm(want))
    pool = coordinates(7, 1, 2, (5, d))
    lengths = np.linalg.norm(pool, axis=1, keepdims=True)
    np.testing.assert_allclose(arms, 2.5 * pool / (lengths.max() if together else lengths))


@pytest.mark.parametrize("name", NOISES)
def test_a_setting_is_described_by_the_numbers_of_its_noise(name: str) -> None:
    noise, kernel, a, b = NOISES[name]
    environment = ht.LinearBandit(2, 7, noise, theta_bound=0.5, arm_bound=3.0, normalize="max")
    setting = describe(ht.HvtUCB(2, tail=TAIL), environment)
    assert setting.draw is getattr(counter_world, kernel)
    assert (setting.a, setting.b) == pytest.approx((a, b))
    assert (setting.dim, setting.arms, setting.spread) == (2, 7, 0.0)
    told = 0.5, 3.0, True, 2.0, setting.a, setting.b, 0.0, 0.0, 0.0
    assert setting.numbers == (*told, PLAIN, STRAIGHT)
    scaled = describe(ht.HvtUCB(2, tail=TAIL), ht.LinearBandit(2, 7, ht.noise.Scaled(noise, 1.25)))
    assert scaled == replace(setting, theta_bound=1.0, arm_bound=1.0, together=False, spread=1.25)


@pytest.mark.parametrize(
    ("policy", "environment", "words"),
    [
        (ht.Uniform(2), ht.LinearBandit(2, 5, ht.noise.Gaussian(), fresh=True), "shown whole"),
        (ht.Uniform(2), ht.LinearBandit(2, 5, ht.noise.Gaussian(), offered=3), "shown whole"),
        (ht.Uniform(2), ht.SkewedBandit(2, 5, "jackpot", offered=3), "shown whole"),
        (ht.Uniform(2), ht.LinkBandit(2, 5, "log", fresh=True), "shown whole"),
        (
            ht.make_policy("HEAVY-OFUL", dim=2, horizon=50, tail=TAIL, arms=5),
            ht.LinearBandit(2, 5, ht.noise.Gaussian()),
            "state is packed and does not grow",
        ),
    ],
    ids=["fresh", "offered", "skewed", "linked", "history"],
)
def test_what_counters_cannot_draw_is_refused(policy: Any, environment: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        describe(policy, environment)


def skewed(
    setting: CounterWorld, seed: int, trial: int, t: int, x: Any, theta: Any, noise: float
) -> float:
    """The reward by the formula, from streams 5 (the second direction), 6 (U) and 7 (payment)."""
    c, v = setting.skew, coordinates(seed, 5, trial, theta.shape)
    z, w = x @ theta / np.linalg.norm(theta), x @ v / np.linalg.norm(v)
    amount = 1.0 + c.dear * z
    reward = c.slope * z + (1.0 + c.tilt * z + c.across * w) * noise
    if uniform(8 * seed + 6, trial, t) < c.rate * (1.0 + c.lift * z) / amount:
        drawn = setting.pay(*uniform_pair(8 * seed + 7, trial, t), setting.c, setting.d)
        reward += (c.payment + c.payment_scale * drawn) * amount
    return float(reward)


def linked(setting: CounterWorld, seed: int, trial: int, t: int, score: float, noise: float) -> Any:
    """Reward and mean by the formula, from streams 6 (U) and 7 (outliers)."""
    law = setting.law
    mu = link_mean(law.link, law.base + score)
    u = uniform(8 * seed + 6, trial, t)
    times = law.factor if uniform(8 * seed + 7, trial, t) < law.outliers else 1.0
    rewards = {"identity": mu + noise, "log": times * count(u, mu)}
    name = next(name for name, link in ht.links.LINKS.items() if link.code == law.link)
    lift = 1.0 - law.outliers + law.outliers * law.factor
    return rewards.get(name, float(u < mu)), lift * mu


def naive_trial(policy: Any, setting: CounterWorld, seed: int, trial: int, rounds: int) -> Any:
    """Cumulative regret, and the largest distance to theta* in radii, by the policy's methods."""
    twin = policy.clone()
    if policy.algorithm.key_slot >= 0:
        twin.packed[0][policy.algorithm.key_slot] = math.floor(
            2.0**53 * uniform(8 * seed + 4, trial, 0)
        )
    theta, arms = np.empty(setting.dim), np.empty((setting.arms, setting.dim))
    counter_world.draw_theta(seed, trial, theta, setting.theta_bound)
    counter_world.draw_arms(seed, trial, arms, setting.arm_bound, setting.together)
    regret, worst = [], 0.0
    for t in range(rounds):
        arm = twin.select(arms)
        u, v = uniform_pair(8 * seed + 2, trial, t)
        factor = 10.0 ** (setting.spread * uniform(8 * seed + 3, trial, t))
        noise = factor * setting.draw(u, v, setting.a, setting.b)
        reward = float(arms[arm] @ theta + noise)
        if setting.skew != PLAIN:
            reward = skewed(setting, seed, trial, t, arms[arm], theta, noise)
        means = arms @ theta
        if setting.law != STRAIGHT:
            found = [linked(setting, seed, trial, t, float(x @ theta), noise) for x in arms]
            reward, means = found[arm][0], np.array([mean for _, mean in found])
        twin.update(arms[arm], reward, scale=setting.nu * factor if setting.spread else None)
        regret.append(np.max(means) - means[arm])
        if twin.algorithm.rank_one:
            M = twin.packed[1]
            size = M.shape[1]
            # The truth's own block of V^-1 is what is left where the rest is at its best.
            P = M[INVERSE : INVERSE + size][: setting.dim, : setting.dim]
            gap = twin.theta - theta
            worst = max(worst, math.sqrt(gap @ np.linalg.solve(P, gap)) / twin.radius)
    return np.cumsum(regret), worst


ENVIRONMENTS = {
    "clicks": ht.LinkBandit(2, 6, "logistic", theta_bound=3.0, base=-1.0),
    "probit": ht.LinkBandit(3, 5, "probit", arm_bound=0.9),
    "counts": ht.LinkBandit(2, 6, "log", base=1.0, outliers=0.2, factor=30.0),
    "normal": ht.LinkBandit(2, 6, "identity", base=2.0),
    "t": ht.LinearBandit(2, 6, ht.noise.StudentT(1.7), theta_bound=0.8),
    "varying": ht.LinearBandit(
        3, 5, ht.noise.Scaled(ht.noise.Gaussian(), 1.0), arm_bound=0.9, normalize="max"
    ),
    "skewed": ht.SkewedBandit(
        2,
        6,
        ht.environments.Skew(
            slope=0.1,
            noise=ht.noise.Scaled(ht.noise.StudentT(1.7), 0.5),
            tilt=0.3,
            across=-0.4,
            rate=0.3,
            lift=0.5,
            dear=-0.2,
            payment=2.0,
            payment_noise=ht.noise.Pareto(1.8),
            payment_scale=0.5,
        ),
    ),
}


KINDS = ["hvt", "plain", "theory", "sharp", "oful", "lints"]
PAIRS = [  # one policy in every world, the others in two: each pair is compiled twice
    *(("hvt", name) for name in ENVIRONMENTS),
    *((kind, name) for kind in KINDS[1:] for name in ("varying", "skewed")),
]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_trial_is_the_policy_played_on_the_draws_of_its_number(kind: str, name: str) -> None:
    environment = ENVIRONMENTS[name]
    d = environment.dim
    policy = {
        "hvt": ht.HvtUCB(d, tail=TAIL, exploration=0.05),
        "plain": ht.HvtUCB(d, tail=TAIL, intercept=False, exploration=0.05),
        "theory": ht.HvtUCB(d, tail=TAIL, radius="theory", horizon=40),  # the truth is well inside
        "sharp": ht.HvtUCB(d, tail=TAIL, radius="sharp", theta_bound=1.0, radius_scale=0.1),
        "oful": ht.OFUL(d, noise_scale=0.1),
        "lints": ht.make_policy("LinTS", dim=d, horizon=60, tail=ht.MomentBound(2.0, 1.0), arms=6),
    }[kind]
    cover = kind != "lints"
    options = {"rounds": 32, "trials": 2, "seed": 9, "record": 4, "jobs": 1, "progress": False}
    found = distribution(policy, environment, cover=cover, **options)
    assert found.rounds.tolist() == [8, 16, 24, 32]
    setting = describe(policy, environment)
    for trial in range(2):
        regret, worst = naive_trial(policy, setting, 9, trial, 32)
        np.testing.assert_allclose(found.regret[:, trial], regret[found.rounds - 1], rtol=1e-9)
        if cover:
            assert found.worst is not None
            assert found.worst[trial] == pytest.approx(worst, rel=1e-6)
    assert cover or found.worst is None
    if cover:
        plain = distribution(policy, environment, **options)
        np.testing.assert_array_equal(plain.regret, found.regret)


def test_a_round_that_is_refused_leaves_nan() -> None:
    policy = ht.HvtUCB(2, tail=TAIL)
    setting = describe(policy, ht.LinearBandit(2, 4, ht.noise.Gaussian()))
    run = cpu_runner(policy, setting, False)
    kept, regret = np.array([2, 5]), np.empty((2, 3))
    room = np.empty((4, 2)), np.empty(2), np.empty(2), np.empty(2)

    def play(s: Any, M: Any, numbers: Any) -> Any:
        run(s, M, s.copy(), M.copy(), *room, 1, 0, kept, regret, numbers)
        return np.isnan(regret).all(), np.isfinite(regret).all()

    s, M = start_state(policy, False)
    assert play(s, M, setting.numbers) == (False, True)
    assert play(s, M, replace(setting, a=math.inf).numbers) == (True, False)  # rewards
    assert play(s, np.full_like(M, math.nan), setting.numbers) == (True, False)  # choices


def test_the_start_of_a_watched_trial_holds_the_gram_matrix_behind_the_state() -> None:
    policy = ht.HvtUCB(2, tail=TAIL)
    for x in np.random.default_rng(0).uniform(-0.5, 0.5, (9, 2)):
        policy.update(x, 1.0)
    s, M = policy.packed
    plain, watched = start_state(policy, False), start_state(policy, True)
    for ours, mine in ((plain[0], s), (plain[1], M), (watched[0], s), (watched[1][: len(M)], M)):
        np.testing.assert_array_equal(ours, mine)
        assert not np.shares_memory(ours, mine)
    V = watched[1][len(M) :]
    np.testing.assert_allclose(V @ M[INVERSE : INVERSE + 3], np.eye(3), atol=1e-9)
    for other in (ht.Uniform(2), ht.make_policy("LinTS", dim=2, horizon=9, tail=TAIL, arms=3)):
        with pytest.raises(ValueError, match="no confidence set"):
            start_state(other, True)
    s[RADIUS] = 0.0
    with pytest.raises(ValueError, match="no confidence set"):
        start_state(policy, True)


@pytest.mark.parametrize("size", [2, 3])
def test_the_distance_leaves_what_is_past_the_truth_at_its_best(size: int) -> None:
    policy = ht.HvtUCB(2, tail=TAIL, intercept=size == 3)
    for x in np.random.default_rng(0).uniform(-0.5, 0.5, (9, 2)):
        policy.update(x, float(x.sum() + 1.0))
    _, M = start_state(policy, True)
    truth = np.array([0.3, -0.4])
    gap, V = policy.theta - truth, M[-size:]
    if size == 3:
        V = V[:2, :2] - np.outer(V[2, :2], V[2, :2]) / V[2, 2]
    assert distance(M, truth) == pytest.approx(math.sqrt(gap @ V @ gap))


def test_a_distribution_says_its_mean_error_quantiles_and_share() -> None:
    regret = np.array([[1.0, 2.0, 3.0, 10.0], [2.0, 2.0, 4.0, 20.0]])
    found = Distribution("P", np.array([5, 10]), regret, np.array([0.5, 1.0, 1.0 + 1e-9, 0.2]))
    np.testing.assert_allclose(found.mean, [4.0, 7.0])
    deviation = [np.sqrt((9 + 4 + 1 + 36) / 3), np.sqrt((25 + 25 + 9 + 169) / 3)]
    np.testing.assert_allclose(found.error, np.array(deviation) / 2)
    np.testing.assert_allclose(found.quantile(0.5), [2.5, 3.0])
    assert found.share == 0.75  # a distance of exactly one radius is inside
    assert found.at_least() == least_share(3, 4, 0.99) < found.at_least(0.5)
    head, *lines = found.table().splitlines()
    shares = ["1%", "10%", "25%", "50%", "75%", "90%", "99%", "99.9%"]
    assert head.split() == ["round", "mean", "error", *shares]
    assert lines[1].split()[:3] == ["10", "7.00", "4.359"]
    assert float(lines[1].split()[6]) == 3.0
    with pytest.raises(ValueError, match="was not watched"):
        _ = Distribution("P", np.array([5, 10]), regret).share


def test_the_least_share_is_that_of_clopper_and_pearson() -> None:
    assert least_share(0, 50) == 0.0
    assert least_share(50, 50) == pytest.approx(0.01 ** (1 / 50))  # all hits: p^n = 1 - confidence
    assert least_share(1, 50, 0.9) == pytest.approx(1 - 0.9 ** (1 / 50))  # 1 - (1 - p)^n = 0.1
    defaults = inspect.signature(Distribution.at_least).parameters["confidence"].default
    assert defaults == inspect.signature(least_share).parameters["confidence"].default == 0.99


def test_a_trial_is_the_same_in_any_batch_and_with_any_number_of_threads() -> None:
    environment = ht.LinearBandit(2, 3, ht.noise.Gaussian())
    options = {"rounds": 4, "seed": 0, "record": 2, "progress": False}
    many = distribution(ht.Uniform(2), environment, trials=70, jobs=1, **options)
    for trials, jobs in ((70, 3), (7, 2), (3, None), (1, 1)):
        few = distribution(ht.Uniform(2), environment, trials=trials, jobs=jobs, **options)
        np.testing.assert_array_equal(few.regret, many.regret[:, :trials])
    distribution(ht.Uniform(2), environment, rounds=1, trials=1, seed=0, jobs=1)
    with pytest.raises(ValueError, match="seed"):
        distribution(ht.Uniform(2), environment, rounds=1, trials=1, seed=-1)


def test_a_distribution_is_kept_at_eight_rounds_and_unwatched_unless_told() -> None:
    environment = ht.LinearBandit(2, 3, ht.noise.Gaussian())
    found = distribution(ht.Uniform(2), environment, rounds=32, trials=1, seed=0, jobs=1)
    assert found.rounds.tolist() == [4, 8, 12, 16, 20, 24, 28, 32]
    assert found.worst is None
