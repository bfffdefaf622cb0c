"""Every engine takes the same decisions, and kept scores are the scores."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import heavytail as ht
from heavytail.environments import Block, Environment
from heavytail.kernels import index
from heavytail.kernels.index import MEAN, SCORES, SQUARED, follow, rate
from heavytail.kernels.layout import DIRECTION, GAIN, INVERSE, PROJECTED, SET_ANEW, STEP, THETA
from heavytail.policies import ALL, PackedPolicy
from heavytail.simulation.engines import episode

WORLDS = {
    "pool": ht.LinearBandit(3, arms=12, noise=ht.noise.StudentT(1.7)),
    "offered": ht.LinearBandit(3, arms=12, noise=ht.noise.StudentT(1.7), offered=5),
    "fresh": ht.LinearBandit(3, arms=7, noise=ht.noise.StudentT(1.7), fresh=True),
    "jackpot": ht.SkewedBandit(3, 12, "jackpot"),
    "dear, a part": ht.SkewedBandit(3, 12, "dear", offered=5),
    "size, fresh": ht.SkewedBandit(3, 7, "size", fresh=True),
    "aligned, varying": ht.SkewedBandit(
        3, 12, "aligned", noise=ht.noise.Scaled(ht.noise.Pareto(1.7), 1.0)
    ),
    "clicks": ht.LinkBandit(3, 12, "logistic", theta_bound=3.0),
    "counts, a part": ht.LinkBandit(3, 12, "log", offered=5, outliers=0.02),
    "counts, fresh": ht.LinkBandit(3, 7, "log", fresh=True),
    "varying": ht.LinearBandit(3, arms=12, noise=ht.noise.Scaled(ht.noise.StudentT(1.7), 1.0)),
}
RANK_ONE = [
    k
    for k in ALL
    if issubclass(k, PackedPolicy) and k.algorithm.rank_one and k.info.rewards == "any"
]
TAIL = ht.MomentBound(order=1.5, scale=1.0)


def build(kind: type[PackedPolicy], **options: object) -> PackedPolicy:
    policy = ht.make_policy(kind.name, dim=3, horizon=10_000, tail=TAIL, arms=12, **options)
    assert isinstance(policy, PackedPolicy)
    return policy


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", RANK_ONE, ids=lambda kind: kind.__name__)
def test_kept_scores_choose_the_arms_the_full_product_chooses(
    kind: type[PackedPolicy], world: str
) -> None:
    rounds = 500
    compiled, reference = build(kind), build(kind)
    seed = np.random.SeedSequence(3)
    regret, _ = episode(compiled, WORLDS[world], seed, rounds, "compiled")
    expected, _ = episode(reference, WORLDS[world], seed, rounds, "reference")
    np.testing.assert_array_equal(regret, expected)
    np.testing.assert_allclose(compiled.theta, reference.theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", RANK_ONE, ids=lambda kind: kind.__name__)
def test_an_update_of_rank_one_leaves_what_moved_in_the_state(kind: type[PackedPolicy]) -> None:
    policy = build(kind)
    s, M = policy.packed[:2]
    size = M.shape[1]
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = rng.uniform(-0.5, 0.5, 3)
        theta, inverse = M[THETA].copy(), M[INVERSE : INVERSE + size].copy()
        policy.update(x, float(x @ [0.5, -0.5, 0.5] + rng.standard_t(1.7)))
        u = M[DIRECTION]
        if s[PROJECTED] == SET_ANEW:  # once, when the unit is known
            continue
        np.testing.assert_allclose(
            M[INVERSE : INVERSE + size], inverse - s[GAIN] * np.outer(u, u), rtol=1e-9, atol=1e-12
        )
        if s[PROJECTED] == 0.0:
            np.testing.assert_allclose(M[THETA], theta + s[STEP] * u, rtol=1e-9, atol=1e-12)


def test_scores_kept_for_ten_thousand_rounds_are_the_scores() -> None:
    policy = ht.HvtUCB(3, tail=TAIL, theta_bound=0.5)
    s, M = policy.packed[:2]
    rng = np.random.default_rng(1)
    pool = rng.uniform(-0.5, 0.5, (3, 20))
    kept, fresh = np.empty((SCORES, 20)), np.empty((SCORES, 20))
    rate(s, M, pool, kept)
    for t in range(10_000):
        x = np.ascontiguousarray(pool[:, t % 20])
        policy.algorithm.update(s, M, x, float(x.sum() + rng.standard_t(1.7)), 1.0)
        follow(s, M, pool, kept)
    rate(s, M, pool, fresh)
    np.testing.assert_allclose(kept[SQUARED], fresh[SQUARED], rtol=1e-9)
    np.testing.assert_allclose(kept[MEAN], fresh[MEAN], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9])
def test_the_index_is_the_formula_for_any_number_of_arms(count: int) -> None:
    policy = ht.HvtUCB(3, tail=TAIL)
    rng = np.random.default_rng(count)
    for _ in range(20):
        arms = rng.uniform(-0.5, 0.5, (count, 3))
        values = [float(x @ policy.theta + policy.radius * policy.width(x)) for x in arms]
        choice = index.select(*policy.packed, arms)
        assert values[choice] == pytest.approx(max(values), rel=1e-12)
        policy.update(arms[choice], float(rng.standard_t(1.7)))


def test_equal_arms_tie_to_the_first() -> None:
    policy = ht.HvtUCB(3, tail=TAIL)
    rng = np.random.default_rng(0)
    arms = np.repeat(rng.uniform(-0.5, 0.5, (3, 3)), 5, axis=0)
    for _ in range(50):
        choice = policy.select(arms)
        assert choice % 5 == 0
        policy.update(arms[choice], float(rng.standard_t(1.7)))


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"means": np.zeros((100, 2))}, r"means of shape \(100, 4\); got \(100, 2\)"),
        ({"arms": np.full((100, 4, 2), 9.0)}, "has norm 12.7279, above the bound 1"),
        ({"arms": np.zeros((100, 4, 3))}, r"arms of shape \(100, 4, 2\)"),
        ({"noise": np.full(100, np.nan)}, "got nan"),
        ({"means": np.full((100, 4), np.nan)}, "finite means"),
        ({"factor": np.ones(99)}, r"factor of shape \(100,\)"),
        ({"offered": np.zeros((100, 1), dtype=int)}, "offered as"),
        (
            {"arms": np.zeros((4, 2)), "means": np.zeros(4), "offered": np.full((100, 1), 4)},
            "places of arms from 0 to 3",
        ),
        (None, "it ended after 100 rounds"),
    ],
)
def test_every_block_of_an_own_world_is_checked(engine, changes, says):
    """Compiled code trusts them: means of too few arms were read beyond their end."""
    fine = Block(arms=np.zeros((100, 4, 2)), means=np.zeros((100, 4)), noise=np.zeros(100))

    class Odd(Environment):
        dim = 2

        def deal(self, seed):
            yield fine
            if changes is not None:
                yield dataclasses.replace(fine, **changes)

    with pytest.raises(ValueError, match=says):
        ht.simulate([ht.TwinUCB(2)], Odd(), rounds=200, trials=1, seed=0, engine=engine)
