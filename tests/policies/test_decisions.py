"""Delayed rewards: any order, any time, each exactly once, saved with the policy."""

from __future__ import annotations

import json
import math
import pickle
import time

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.jit import compiled
from heavytail.ledger.decision import Decision
from heavytail.policies import ALL

TAIL = ht.MomentBound(order=1.5, scale=1.0)
MANY = 20_000 if compiled() else 500


def policy(dim=3):
    return ht.HvtUCB(dim, tail=TAIL)


def arms(rng, n=5, dim=3):
    rows = rng.normal(size=(n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def state(p):
    return {key: array.tobytes() for key, array in p.saved_arrays().items()}


@pytest.mark.parametrize(
    "count", [MANY, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.compiled])]
)
def test_many_decisions_in_random_order_with_bad_tokens_among_them(count):
    rng = np.random.default_rng(0)
    late, direct = policy(), policy()
    sets = [arms(rng) for _ in range(50)]
    decisions = [late.decide(sets[i % 50]) for i in range(count)]
    rewards = rng.standard_t(1.5, count)
    order = rng.permutation(count)
    refused = asked = 0
    for step, i in enumerate(order):
        late.learn(decisions[i], float(rewards[i]))
        direct.update(decisions[i].x, float(rewards[i]))
        if step % 10 == 0:  # a duplicate, a token that never was, and a negative one
            for bad in (decisions[order[step // 2]], count + step, -1 - step):
                asked += 1
                try:
                    late.learn(bad, 1.0)
                except ValueError:
                    refused += 1
    assert refused == asked > 0
    assert late.rounds == count
    assert late.pending == ()
    for key, array in direct.state_arrays().items():
        assert array.tobytes() == late.state_arrays()[key].tobytes()


def test_a_batch_of_rewards_is_learned_as_one_by_one():
    rng = np.random.default_rng(1)
    one, batch = policy(), policy()
    made = [(one.decide(a), batch.decide(a)) for a in (arms(rng) for _ in range(40))]
    rewards = rng.normal(size=40)
    for (first, _), reward in zip(made, rewards, strict=True):
        one.learn(first, float(reward))
    batch.learn([second for _, second in made], rewards)
    assert state(one) == state(batch)
    batch.learn([], [])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d, r: ([*d[:3], d[0]], r[:4]),
        lambda d, r: ([*d[:3], 999], r[:4]),
        lambda d, r: (d[:3], [1.0, math.nan, 2.0]),
        lambda d, r: (d[:3], r[:2]),
        lambda d, r: ([True], r[:1]),
    ],
)
def test_a_batch_with_one_bad_entry_is_refused_whole(spoil):
    rng = np.random.default_rng(2)
    p = policy()
    decisions = [p.decide(arms(rng)) for _ in range(5)]
    before = state(p)
    with pytest.raises((ValueError, TypeError)):
        p.learn(*spoil(decisions, rng.normal(size=5)))
    assert state(p) == before


def test_a_bad_reward_leaves_the_decision_pending():
    p = policy()
    decision = p.decide(np.eye(3))
    with pytest.raises(ValueError, match="learn: reward must be a number"):
        p.learn(decision, math.nan)
    assert p.pending == (decision.token,)
    p.learn(decision.token, 1.0)
    with pytest.raises(ValueError, match="already rewarded"):
        p.learn(decision, 1.0)
    with pytest.raises(ValueError, match="unknown"):
        p.learn(77, 1.0)


def test_another_policys_decision_is_refused():
    mine, other = policy(), policy()
    mine.decide(np.eye(3)[:1])
    foreign = other.decide(np.eye(3)[1:2])
    with pytest.raises(ValueError, match="another policy"):
        mine.learn(foreign, 1.0)


def test_decisions_expire():
    p = policy()
    decisions = [p.decide(np.eye(3)) for _ in range(10)]
    assert p.expire(4) == 6
    assert p.pending == (6, 7, 8, 9)
    with pytest.raises(ValueError, match="expired"):
        p.learn(decisions[0], 1.0)
    p.learn(decisions[9], 1.0)


def through(p, way, tmp_path):
    if way == "save":
        p.save(tmp_path / "p.npz")
        return ht.load(tmp_path / "p.npz")
    return p.clone() if way == "clone" else pickle.loads(pickle.dumps(p))


@pytest.mark.parametrize("way", ["save", "clone", "pickle"])
def test_decisions_expire_by_time_also_after_they_travelled(way, tmp_path):
    p = policy()
    for hour in range(10):
        assert p.decide(np.eye(3), now=3600.0 * hour).time == 3600.0 * hour
    p.learn(1, 1.0)
    for _ in range(2):
        p = through(p, way, tmp_path)
        assert p.overdue(3 * 3600.0, now=6 * 3600.0) == (0, 2)  # exactly three hours is not longer
    assert p.expire(older_than=3 * 3600.0, now=6 * 3600.0) == 2
    assert p.expire(older_than=3 * 3600.0, now=6 * 3600.0) == 0
    assert p.pending == (3, 4, 5, 6, 7, 8, 9)
    p = through(p, way, tmp_path)
    before = state(p)
    with pytest.raises(ValueError, match=r"token 0 has expired\. Nothing was learned"):
        p.learn(0, 1.0)
    with pytest.raises(ValueError, match="token 1 was already rewarded"):
        p.learn(1, 1.0)
    with pytest.raises(ValueError, match="token 2 has expired"):
        p.learn([3, 2], [1.0, 1.0])
    assert state(p) == before


def test_the_clock_is_the_machines_unless_told():
    p = policy()
    p.decide(np.eye(3))
    assert p.overdue(3600.0) == ()
    assert p.expire(older_than=3600.0, now=time.time() + 7200.0) == 1


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        ({}, TypeError, "pass age, or older_than"),
        ({"age": 3, "older_than": 3.0}, TypeError, "pass age, or older_than"),
        ({"age": 3, "now": 3.0}, TypeError, "pass age, or older_than"),
        ({"older_than": -1.0}, ValueError, r"HvtUCB\.expire: older_than must be"),
        ({"older_than": 1.0, "now": math.nan}, ValueError, r"HvtUCB\.expire: now must be"),
    ],
)
def test_what_says_no_age_expires_nothing(told, kind, words):
    p = policy()
    p.decide(np.eye(3), now=0.0)
    before = state(p)
    with pytest.raises(kind, match=words):
        p.expire(**told)
    with pytest.raises(ValueError, match="decide: now must be"):
        p.decide(np.eye(3), now=math.inf)
    assert state(p) == before


def test_pending_decisions_of_a_file_without_times_wait_on():
    p = policy()
    decisions = [p.decide(np.eye(3), now=0.0) for _ in range(3)]
    arrays = p.saved_arrays()
    del arrays["pending.times"]
    old = policy()
    old.resume(arrays)
    assert old.expire(older_than=0.0, now=1e9) == 0
    old.decide(np.eye(3), now=0.0)
    twin = old.clone()  # which says of each whether its time is known
    assert twin.expire(older_than=0.0, now=1e9) == 1
    twin.learn(decisions[0], 1.0)
    assert twin.expire(1) == 2


def test_the_last_that_expired_are_told_from_those_rewarded(monkeypatch):
    monkeypatch.setattr("heavytail.ledger.memory.TOLD", 3)
    p = policy()
    for _ in range(5):
        p.decide(np.eye(3))
    assert p.expire(0) == 5
    with pytest.raises(ValueError, match="token 1 was already rewarded, or expired long ago"):
        p.learn(1, 1.0)
    with pytest.raises(ValueError, match="token 2 has expired"):
        p.learn(2, 1.0)
    twin = p.clone()
    assert state(twin) == state(p)


@pytest.mark.parametrize("way", ["save", "clone", "pickle"])
def test_what_is_pending_travels_with_the_policy(way, tmp_path):
    rng = np.random.default_rng(3)
    p = policy()
    decisions = [p.decide(arms(rng)) for _ in range(6)]
    p.learn(decisions[2], 1.0)
    twin = through(p, way, tmp_path)
    assert twin.pending == p.pending == (0, 1, 3, 4, 5)
    for q in (p, twin):
        q.learn(decisions[4], 2.0)
    assert state(p) == state(twin)
    assert twin.decide(np.eye(3)).token == 6


@pytest.mark.parametrize(
    ("key", "numbers"),
    [
        ("tokens", [5.0]),
        ("times", [math.nan]),
        ("times", [-math.inf]),
        ("times", [1.0, 2.0]),
        ("expired", [1.0]),  # which waits
        ("expired", [0.5]),
        ("expired", [2.0]),  # of a decision that was never made
        ("expired", list(range(10_001))),
    ],
)
def test_damaged_pending_decisions_are_refused(key, numbers):
    p = policy()
    p.decide(np.eye(3))
    p.decide(np.eye(3))
    p.expire(1)
    arrays = p.saved_arrays()
    policy().resume(arrays)
    arrays[f"pending.{key}"] = np.array(numbers, dtype=np.float64)
    with pytest.raises(ValueError, match="pending decisions are damaged"):
        policy().resume(arrays)


def test_a_policy_that_repeats_pulls_decides_one_at_a_time():
    kinds = [kind for kind in ALL if kind.info.repeats]
    assert kinds
    for kind in kinds:
        p = ht.make_policy(kind.name, dim=3, tail=TAIL, horizon=10_000, arms=3)
        decision = p.decide(np.eye(3))
        with pytest.raises(ValueError, match="see each reward"):
            p.decide(np.eye(3))
        p.learn(decision, 1.0)
        p.decide(np.eye(3))


def test_arms_may_come_and_go():
    rng = np.random.default_rng(4)
    p = policy()
    for n in (1, 7, 3, 50, 2):
        decision = p.decide(arms(rng, n))
        assert 0 <= decision.arm < n
        p.learn(decision, 0.5)
    pool = ht.Pool(arms(rng, 4))
    decision = p.decide(pool)
    np.testing.assert_array_equal(decision.x, pool[decision.arm])


RANDOMISED = [kind.name for kind in ALL if kind.info.randomised]


def test_the_randomised_policies_are_those_with_a_key():
    low_rank = {"Hvt-LowRank", "LowESTR", "LOTUS"}  # which draw while they explore
    assert set(RANDOMISED) == {"LinTS", "EpsilonGreedy", "Uniform"} | low_rank
    assert {kind.name for kind in ALL if kind.algorithm.key_slot >= 0} == set(RANDOMISED)


@pytest.mark.parametrize("name", RANDOMISED)
def test_decisions_without_rewards_between_them_are_drawn_anew(name, tmp_path):
    options = {"radius_scale": 1.0} if name in ("LinTS", "EpsilonGreedy") else {}
    p = ht.make_policy(name, dim=3, tail=TAIL, horizon=900, **options)
    shown = np.vstack([np.eye(3), -np.eye(3)])
    counts = np.bincount([p.decide(shown).arm for _ in range(300)], minlength=6)
    # Before any reward every draw is symmetric: each arm's share is 1/6, within 4 deviations.
    assert (abs(counts / 300 - 1 / 6) < 4 * math.sqrt(5 / 36 / 300)).all()
    p.save(tmp_path / "p.npz")
    resumed = ht.load(tmp_path / "p.npz")
    assert state(resumed) == state(p)
    with pytest.raises(ValueError, match="finite"):
        p.decide([[math.nan, 0.0, 0.0]])
    assert state(resumed) == state(p)
    later = [[each.decide(shown).arm for _ in range(20)] for each in (p, resumed)]
    assert later[0] == later[1]
    assert len(set(later[0])) > 1


EXPLORERS = [kind.name for kind in ALL if not kind.info.repeats]


def built(name, **options):
    tail = ht.MomentBound(order=2.0, scale=1.0)
    return ht.make_policy(name, dim=3, tail=tail, horizon=10_000, arms=5, **options)


def taught(name, rounds=30):
    rng = np.random.default_rng(5)
    p, shown = built(name), arms(rng)
    for _ in range(rounds):
        arm = p.select(shown)
        p.update(shown[arm], float(rng.random() < 0.5))
    return p, shown


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_without_exploring_a_decision_is_what_select_chooses(name):
    p, shown = taught(name)
    twin = p.clone()
    decision = p.decide(shown)
    assert decision.arm == twin.select(shown)
    for key, array in twin.state_arrays().items():
        assert array.tobytes() == p.state_arrays()[key].tobytes()
    if not p.info.randomised:
        assert decision.probability == 1.0
    assert decision.time > 1.7e9
    assert decision.score is None or math.isfinite(decision.score)


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_stated_share_explores_and_the_probability_says_it(name):
    p, shown = taught(name)
    explore, count = 0.4, 200
    choices, decisions = [], []
    for _ in range(count):
        choices.append(p.clone().select(shown))
        decisions.append(p.decide(shown, explore=explore))
    for choice, one in zip(choices, decisions, strict=True):
        if not p.info.randomised:
            assert one.probability == pytest.approx(
                explore / 5 + (1 - explore) * (one.arm == choice)
            )
    if decisions[0].probability is None:
        assert name == "LinTS"
    else:  # mean of 1 / probability is the number of arms, within 4 deviations
        weights = np.array([1.0 / one.probability for one in decisions])
        assert abs(weights.mean() - 5) < 4 * weights.std() / math.sqrt(count) + 1e-9
    strayed = np.mean([one.arm != choice for one, choice in zip(decisions, choices, strict=True)])
    share = explore * 4 / 5
    assert abs(strayed - share) < 4 * math.sqrt(share * (1 - share) / count)


@pytest.mark.parametrize("way", ["save", "clone", "pickle"])
@pytest.mark.parametrize("name", ["HvtUCB", "LinTS"])
def test_draws_that_explore_are_resumed_to_the_bit(name, way, tmp_path):
    p, shown = taught(name)
    p.reseed(7)
    if way != "clone":  # before the first decision, too
        p.decide(shown, explore=0.5)
    if way == "save":
        p.save(tmp_path / "p.npz")
        twin = ht.load(tmp_path / "p.npz")
    else:
        twin = p.clone() if way == "clone" else pickle.loads(pickle.dumps(p))
    assert state(twin) == state(p)
    drawn = [[q.decide(shown, explore=0.5).arm for _ in range(60)] for q in (p, twin)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1


def test_another_seed_explores_other_rounds():
    drawn = []
    for seed in (0, 1, 2):
        p, shown = taught("HvtUCB")
        p.reseed(seed)
        drawn.append([p.decide(shown, explore=0.5).arm for _ in range(60)])
    assert drawn[0] != drawn[1] != drawn[2]


def test_policies_that_draw_say_their_probability_where_they_know_it():
    p, shown = taught("EpsilonGreedy")
    p = ht.EpsilonGreedy(3, epsilon=0.5, radius_scale=1.0)
    p.update(shown[2], 1.0)
    best = int(np.argmax(shown @ p.theta))
    for _ in range(20):
        one = p.decide(shown)
        assert one.probability == pytest.approx(0.1 + 0.5 * (one.arm == best))
    assert ht.Uniform(3).decide(shown).probability == pytest.approx(0.2)
    assert ht.Uniform(3).decide(shown).score is None
    assert ht.LinTS(3, noise_scale=1.0).decide(shown).probability is None
    assert ht.LinTS(3, noise_scale=1.0).decide(shown, explore=0.5).probability is None
    assert ht.LinTS(3, noise_scale=1.0).decide(shown, explore=1.0).probability == 0.2


def test_the_score_is_the_mean_that_is_predicted():
    for p in (policy(), ht.TwinUCB(3), ht.GLBOMD(3, link="logistic"), ht.OFUL(3, tail=TAIL)):
        for _ in range(20):
            decision = p.decide(np.eye(3), explore=0.3)
            assert decision.score == p.predict(decision.x).mean
            p.learn(decision, 1.0)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "0.1", True, None])
def test_a_share_that_is_none_is_refused_and_nothing_changes(bad):
    p = policy()
    p.decide(np.eye(3))
    before = state(p)
    with pytest.raises((ValueError, TypeError), match=r"HvtUCB\.decide: explore must be a number"):
        p.decide(np.eye(3), explore=bad)
    assert state(p) == before


def test_a_policy_that_repeats_pulls_does_not_explore():
    for kind in (kind for kind in ALL if kind.info.repeats):
        p = built(kind.name)
        with pytest.raises(ValueError, match="Leave explore out"):
            p.decide(np.eye(3), explore=0.1)
        assert p.pending == ()


def test_a_decision_can_be_kept_as_json():
    p, shown = taught("HvtUCB")
    decision = p.decide(shown, explore=0.1)
    told = json.loads(json.dumps(decision.to_dict()))
    back = Decision.from_dict(told)
    assert back.to_dict() == decision.to_dict()
    assert back.x.tobytes() == decision.x.tobytes()
    p.learn(back, 1.0)
    assert p.pending == ()
    for key, value in {
        "token": -1,
        "arm": 0.5,
        "x": [[1.0]],
        "probability": 0.0,
        "score": math.nan,
        "time": "now",
    }.items():
        with pytest.raises((ValueError, TypeError), match=rf"Decision\.from_dict: {key} must "):
            Decision.from_dict({**told, key: value})
    with pytest.raises(ValueError, match="must have token, arm, x"):
        Decision.from_dict({"token": 3})


def test_a_damaged_key_of_draws_is_refused():
    p = policy()
    p.reseed(3)
    arrays = p.saved_arrays()
    arrays["pending.key"] = np.array([-1.0])
    with pytest.raises(ValueError, match="key of its draws is damaged"):
        policy().resume(arrays)
