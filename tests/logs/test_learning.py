"""A policy learned from a log, and one that goes on learning on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.logs import softmax
from heavytail.logs.learning import LogPolicy
from heavytail.logs.reading import chunks
from heavytail.logs.softmax import Part, masses, objective

PLAIN = {"floor": 0.0, "baseline": 0.0, "least": 0.0, "unit": 1.0}
THETA = np.array([1.0, -0.5])


def mean_reward(arms: Any) -> Any:
    return np.exp(arms @ THETA)


def drawn(seed: int, n: int = 800, arms: int = 3, tail: float = 1.6) -> dict[str, Any]:
    """Lomax rewards whose mean is exp(x'THETA), arms played more often where it is small."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, arms, 2))
    X /= np.maximum(np.linalg.norm(X, axis=2, keepdims=True), 1.0)
    p = 1.0 / mean_reward(X)
    p /= p.sum(axis=1, keepdims=True)
    action = np.array([rng.choice(arms, p=row) for row in p])
    at = np.arange(n)
    reward = mean_reward(X[at, action]) * (tail - 1.0) * rng.pareto(tail, n)
    return {"arms": X, "action": action, "reward": reward, "propensity": p[at, action]}


def value(policy: LogPolicy) -> float:
    X = drawn(10_000, 4_000)["arms"]
    return float(np.sum(policy.probabilities(X) * mean_reward(X), axis=1).mean())


def test_the_gradient_is_that_of_the_objective() -> None:
    parts = [Part(rows, **PLAIN) for rows in chunks(drawn(0, 30))]
    gains = [np.log1p(0.3 * part.gain) for part in parts]
    noise = np.random.default_rng(1).normal(size=(4, 2))
    theta, h = np.array([0.4, -0.2]), 1e-6
    _, slope = objective(theta, parts, gains, 0.5, noise)
    for i, step in enumerate(np.eye(2) * h):
        up = objective(theta + step, parts, gains, 0.5, noise)[0]
        down = objective(theta - step, parts, gains, 0.5, noise)[0]
        assert slope[i] == pytest.approx((up - down) / (2 * h), rel=1e-6)


def share(log: Any, theta: Any) -> Any:
    """The softmax's probability of what was played, row by row."""
    scores = log["arms"] @ theta
    scores = np.exp(scores - np.nanmax(scores, axis=1, keepdims=True))
    return scores[np.arange(len(scores)), log["action"]] / np.nansum(scores, axis=1)


@pytest.mark.parametrize("far", [1.0, 1e4])
@pytest.mark.parametrize("block", [1, 50, 2**16])
def test_blocks_of_rows_and_draws_make_the_sums_of_single_ones(
    monkeypatch: pytest.MonkeyPatch, block: int, far: float
) -> None:
    """Also where arms were not offered, and where odds leave the floating-point range."""
    monkeypatch.setattr(softmax, "BLOCK", block)
    log = drawn(4, 60)
    log["arms"] = far * log["arms"]
    log["arms"][log["action"] < 2, 2] = np.nan
    parts = [Part(rows, **PLAIN) for rows in chunks(log)]
    gain = np.log1p(0.3 * log["reward"] / log["propensity"])
    draws = np.random.default_rng(1).normal(size=(7, 2))
    single = [share(log, theta) @ gain for theta in draws]
    np.testing.assert_allclose(masses(parts[0], gain, draws), single, rtol=1e-12)
    theta = np.array([0.4, -0.2])
    together, slope = objective(theta, parts, [gain], 0.5, draws)
    single = [share(log, theta + 0.5 * draw) @ gain for draw in draws]
    assert together == pytest.approx(np.mean(single) - theta @ theta / 0.5, rel=1e-12)
    assert np.isfinite(slope).all()


def test_it_learns_and_its_bound_holds() -> None:
    for seed in range(3):
        policy = ht.LogPolicy(seed=seed).fit(drawn(seed, 500))
        uniform = float(mean_reward(drawn(10_000, 4_000)["arms"]).mean())
        earned = value(policy)
        assert earned > uniform
        assert 0.0 < policy.lower < earned
        assert policy.theta @ THETA > 0.0


def test_with_more_rows_the_bound_comes_nearer() -> None:
    few, many = (ht.LogPolicy().fit(drawn(3, n)) for n in (300, 3_000))
    assert many.lower > few.lower
    assert many.lower > 0.4 * value(many)


def test_the_bound_is_the_formula_of_its_docstring() -> None:
    log = drawn(5, 400)
    policy = ht.LogPolicy(level=0.9).fit(log)
    rng = np.random.default_rng(0)
    total = []
    for _ in range(2_000):
        theta = policy.theta + policy.spread * rng.normal(size=2)
        shares = np.exp(log["arms"] @ theta)
        shares /= shares.sum(axis=1, keepdims=True)
        mass = shares[np.arange(400), log["action"]]
        total.append(mass @ np.log1p(policy.smoothing * log["reward"] / log["propensity"]))
    kl = policy.theta @ policy.theta / (2.0 * policy.spread**2)
    paid = np.log(81 * 3 / (0.9 * 0.1))
    wanted = np.expm1((np.mean(total) - kl - paid) / 400) / policy.smoothing
    assert policy.lower < wanted
    assert policy.lower == pytest.approx(wanted, rel=0.25)


@pytest.mark.parametrize("baseline", [None, 0.7])
def test_the_bound_is_reckoned_from_fresh_draws_and_pays_for_all_it_chose_from(
    baseline: float | None,
) -> None:
    """To all digits: 1,024 draws of another stream than the one that was learned from, which are
    believed as far as values in the range of all sums of logarithms can be, with a tenth of
    delta; and the rest of delta for 81 lambdas times 3 spreads.
    """
    delta, n = 0.2, 500
    log = drawn(6, n) if baseline is None else two_arms(6, n)
    least = None if baseline is None else 0.2
    policy = ht.LogPolicy(
        level=1.0 - delta, seed=9, reward_floor=-0.5, reward_baseline=baseline,
        least_propensity=least,
    ).fit(log)  # fmt: skip
    size, c = policy.smoothing, 0.0 if baseline is None else baseline + 0.5
    gain = np.log(1.0 + size * (c + (log["reward"] + 0.5 - c) / log["propensity"]))
    gain -= np.log(1.0 + size * c)
    assert (gain.min() < 0.0) == (baseline is not None)
    fresh = np.random.default_rng([9, 1]).normal(size=(1024, 2))
    each = np.array([share(log, policy.theta + policy.spread * one) @ gain for one in fresh])
    room = math.log(2.0 / (0.1 * delta))
    lower = each.mean() - math.sqrt(2.0 * each.var(ddof=1) * room / 1024)
    lower -= 7.0 * abs(gain).sum() * room / (3.0 * 1023)
    lower -= policy.theta @ policy.theta / (2.0 * policy.spread**2)
    lower -= math.log(81 * 3 / (0.9 * delta))
    wanted = ((1.0 + size * c) * np.exp(lower / n) - 1.0) / size - 0.5
    assert wanted > -0.4
    assert policy.lower == pytest.approx(wanted, rel=1e-9)


def two_arms(seed: int, n: int) -> dict[str, Any]:
    """Rewards with means 1 and 1.3; the better arm in a fifth of the rows."""
    rng, p = np.random.default_rng(seed), np.array([0.8, 0.2])
    action = rng.choice(2, size=n, p=p)
    reward = np.array([1.0, 1.3])[action] * rng.exponential(size=n)
    arms = np.tile(np.eye(2), (n, 1, 1))
    return {"arms": arms, "action": action, "reward": reward, "propensity": p[action]}


BASELINE = {"reward_baseline": 1.0, "least_propensity": 0.2}


def test_a_baseline_finds_the_better_arm_far_above_the_floor_and_a_nearer_bound() -> None:
    for seed in range(2):
        log = two_arms(seed, 4_000)
        plain = ht.LogPolicy(reward_floor=-30.0).fit(log)
        based = ht.LogPolicy(reward_floor=-30.0, **BASELINE).fit(log)
        rare = [p.probabilities(np.eye(2)[None])[0, 1] for p in (plain, based)]
        assert rare[0] < 0.2
        assert rare[1] > 0.6
        assert plain.lower < based.lower < 1.0 + 0.3 * rare[1]


def test_no_row_can_more_than_halve_the_product_that_a_baseline_makes() -> None:
    policy = ht.LogPolicy(reward_floor=-30.0, **BASELINE).fit(two_arms(0, 50))
    assert policy.smoothing * 31.0 * (1.0 / 0.2 - 1.0) <= 0.5


def test_a_baseline_that_does_not_fit_is_refused() -> None:
    log = two_arms(0, 30)
    for some in ("reward_baseline", "least_propensity"):
        with pytest.raises(ValueError, match="neither"):
            ht.LogPolicy(**{some: BASELINE[some]})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reward_baseline"):
        ht.LogPolicy(reward_baseline=-1.0, least_propensity=0.2)
    with pytest.raises(ValueError, match="reward_unit"):
        ht.LogPolicy(reward_baseline=1e15, least_propensity=0.2)
    with pytest.raises(ValueError, match="least_propensity"):
        ht.LogPolicy(reward_baseline=1.0, least_propensity=0.3).fit(log)
    p = np.tile([0.8, 0.2, 0.0], (30, 1))
    arms = np.tile(np.eye(3), (30, 1, 1))
    whole = {"action": log["action"], "reward": log["reward"], "probabilities": p}
    with pytest.raises(ValueError, match=r"row 0.*every arm offered"):
        ht.LogPolicy(**BASELINE).fit({**whole, "arms": arms})
    arms[:, 2] = np.nan
    ht.LogPolicy(**BASELINE).fit({**whole, "arms": arms})


def test_no_bound_is_below_the_floor() -> None:
    log = {**drawn(0, 4), "reward": np.zeros(4)}
    assert ht.LogPolicy().fit(log).lower == 0.0
    assert ht.LogPolicy(reward_floor=-3.0).fit(log).lower >= -3.0


def test_one_arm_alone_leaves_nothing_to_learn() -> None:
    log = drawn(0, 50)
    one = {**log, "arms": log["arms"][:, :1], "action": np.zeros(50), "propensity": np.ones(50)}
    policy = ht.LogPolicy().fit(one)
    np.testing.assert_array_equal(policy.theta, 0.0)
    np.testing.assert_array_equal(policy.probabilities(one["arms"]), 1.0)


def test_parts_of_a_log_make_what_the_whole_makes() -> None:
    log = drawn(3, 90)
    cut = [
        {key: column[rows] for key, column in log.items()} for rows in (slice(40), slice(40, 90))
    ]
    whole, parts = ht.LogPolicy().fit(log), ht.LogPolicy().fit(iter(cut))
    np.testing.assert_allclose(parts.theta, whole.theta, rtol=1e-9)
    assert parts.lower == pytest.approx(whole.lower, rel=1e-9)
    assert parts.rows == 90


def test_progress_is_shown_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heavytail.simulation.progress.FIRST", 0.0)  # seconds until a line
    ht.LogPolicy().fit(drawn(0, 20))
    assert capsys.readouterr().err == ""
    ht.LogPolicy().fit(drawn(0, 20), progress=True)
    shown = capsys.readouterr().err
    assert "learning" in shown
    assert "17 of 17" in shown


def test_a_unit_and_a_floor_change_what_they_must() -> None:
    log = drawn(1, 400)
    plain = ht.LogPolicy().fit(log)
    scaled = ht.LogPolicy(reward_unit=1024.0).fit({**log, "reward": 1024.0 * log["reward"]})
    np.testing.assert_allclose(scaled.theta, plain.theta, rtol=1e-9)
    assert scaled.lower == pytest.approx(1024.0 * plain.lower, rel=1e-9)
    raised = ht.LogPolicy(reward_floor=-5.0).fit({**log, "reward": log["reward"] - 5.0})
    assert raised.lower == pytest.approx(plain.lower - 5.0, rel=1e-6)


def test_arms_that_were_not_offered_are_not_played() -> None:
    log = drawn(2, 400)
    log["arms"] = log["arms"].copy()
    unplayed = log["action"] != 2
    log["arms"][unplayed, 2] = np.nan
    shares = ht.LogPolicy().fit(log).probabilities(log["arms"])
    assert np.all(shares[unplayed, 2] == 0.0)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_it_is_a_target_for_an_evaluation() -> None:
    policy = ht.LogPolicy().fit(drawn(0, 600))
    found = ht.evaluate(drawn(99, 3_000, tail=4.0), policy)
    assert found.value == pytest.approx(value(policy), rel=0.2)
    counts = [policy.select(np.eye(2), draw=u) for u in (np.arange(200) + 0.5) / 200]
    assert np.mean(counts) == pytest.approx(policy.probabilities(np.eye(2)[None])[0, 1], abs=0.01)


def test_what_cannot_be_learned_from_is_refused() -> None:
    log = drawn(0, 20)
    with pytest.raises(ValueError, match="'propensity'"):
        ht.LogPolicy().fit({key: log[key] for key in ("arms", "action", "reward")})
    with pytest.raises(ValueError, match=r"row 3.*reward_floor"):
        ht.LogPolicy().fit({**log, "reward": np.where(np.arange(20) == 3, -1.0, log["reward"])})
    with pytest.raises(ValueError, match="fit"):
        ht.LogPolicy().select(np.eye(2), draw=0.5)
    with pytest.raises(ValueError, match=r"row 3.*unit"):
        ht.LogPolicy().fit({**log, "reward": np.where(np.arange(20) == 3, 1e300, log["reward"])})
    with pytest.raises(ValueError, match=r"row 0.*'arms'"):
        ht.LogPolicy().fit({**log, "arms": 1e150 * log["arms"]})
    with pytest.raises(ValueError, match="no rows"):
        ht.LogPolicy().fit({key: column[:0] for key, column in log.items()})


def test_a_log_that_cannot_be_learned_from_leaves_what_was_learned() -> None:
    policy = ht.LogPolicy().fit(drawn(0, 50))
    before = policy.saved_arrays()
    with pytest.raises(ValueError, match="reward_floor"):
        policy.fit({**drawn(1, 50), "reward": np.full(50, -1.0)})
    for key, array in policy.saved_arrays().items():
        np.testing.assert_array_equal(array, before[key])


# --- replay


def uniform_log(seed: int, n: int, p: Any = (1 / 3, 1 / 3, 1 / 3)) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arms = np.tile(np.eye(3), (n, 1, 1))
    action = rng.choice(3, size=n, p=p)
    reward = np.array([1.0, 2.0, 4.0])[action] + rng.standard_t(2.5, n)
    return {"arms": arms, "action": action, "reward": reward, "propensity": np.array(p)[action]}


def test_uniform_logs_use_every_match_and_leave_the_policy_as_it_was() -> None:
    policy = ht.TwinUCB(3)
    found = ht.replay(uniform_log(0, 3_000), policy)
    assert policy.rounds == 0
    assert found.used == found.matched == found.policy.rounds
    assert found.share == pytest.approx(1 / 3, abs=0.05)
    assert found.value == pytest.approx(4.0, abs=0.4)
    assert found.course[-1] == pytest.approx(found.value, rel=0.1)
    assert "of 3,000" in str(found)


def test_with_other_propensities_a_match_is_used_with_probability_c_over_p() -> None:
    """A policy of uniform draws then earns the mean of all arms, not that of the log."""
    log = uniform_log(1, 12_000, p=(0.7, 0.2, 0.1))
    found = ht.replay(log, ht.Uniform(3))
    assert found.used < found.matched
    assert found.value == pytest.approx(7.0 / 3.0, abs=0.25)
    assert found.share == pytest.approx(0.1, abs=0.02)
    again = ht.replay(log, ht.Uniform(3), least=0.1)
    assert (again.value, again.used) == (found.value, found.used)


def test_what_cannot_be_replayed_is_refused() -> None:
    log = uniform_log(0, 10)
    with pytest.raises(TypeError, match=r"ht\.evaluate"):
        ht.replay(log, lambda rows: None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'arms'"):
        ht.replay({key: log[key] for key in ("action", "reward", "propensity")}, ht.TwinUCB(3))
    with pytest.raises(ValueError, match=r"row 0.*least"):
        ht.replay(log, ht.TwinUCB(3), least=0.5)


def test_the_course_of_a_replay_is_the_mean_reward_so_far():
    """All rows match and are used; marks lie one round apart, then a twentieth of the rounds."""
    reward = np.random.default_rng(4).exponential(size=300)
    log = {"arms": np.ones((300, 1, 1)), "action": np.zeros(300, int), "reward": reward,
           "propensity": np.ones(300)}  # fmt: skip
    found = ht.replay(log, ht.Uniform(1))
    marks = [1.0]
    while marks[-1] < 300.0:
        marks.append(max(marks[-1] + 1.0, 1.05 * marks[-1]))
    expected = [math.ceil(mark) for mark in marks if mark <= 300.0]
    np.testing.assert_array_equal(found.rounds, expected)
    so_far = np.cumsum(reward) / np.arange(1, 301)
    np.testing.assert_allclose(found.course, so_far[found.rounds.astype(int) - 1])
    assert (found.used, found.matched, found.share) == (300, 300, 1.0)
    assert found.value == pytest.approx(reward.mean())
