"""Delayed rewards: any order, any time, each exactly once, saved with the policy."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.jit import compiled
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
    with pytest.raises(ValueError, match="another policy's"):
        mine.learn(foreign, 1.0)


def test_decisions_expire():
    p = policy()
    decisions = [p.decide(np.eye(3)) for _ in range(10)]
    assert p.expire(4) == 6
    assert p.pending == (6, 7, 8, 9)
    with pytest.raises(ValueError, match="expired"):
        p.learn(decisions[0], 1.0)
    p.learn(decisions[9], 1.0)


@pytest.mark.parametrize("way", ["save", "clone", "pickle"])
def test_what_is_pending_travels_with_the_policy(way, tmp_path):
    rng = np.random.default_rng(3)
    p = policy()
    decisions = [p.decide(arms(rng)) for _ in range(6)]
    p.learn(decisions[2], 1.0)
    if way == "save":
        p.save(tmp_path / "p.npz")
        twin = ht.load(tmp_path / "p.npz")
    else:
        twin = p.clone() if way == "clone" else pickle.loads(pickle.dumps(p))
    assert twin.pending == p.pending == (0, 1, 3, 4, 5)
    for q in (p, twin):
        q.learn(decisions[4], 2.0)
    assert state(p) == state(twin)
    assert twin.decide(np.eye(3)).token == 6


def test_damaged_pending_decisions_are_refused(tmp_path):
    p = policy()
    p.decide(np.eye(3))
    arrays = p.saved_arrays()
    arrays["pending.tokens"] = np.array([5.0])
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
    assert {kind.name for kind in ALL if getattr(kind, "key_slot", -1) >= 0} == set(RANDOMISED)


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
