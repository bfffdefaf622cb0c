"""What docs/mathematics/consistency.md uses of Twin-UCB, and its lemma."""

from __future__ import annotations

import itertools
import math

import numpy as np

import heavytail as ht
from heavytail.policies.core.every_round import EVERY_ROUND, JUDGE
from heavytail.policies.core.twin import OWN
from heavytail.policies.core.twin_choice import LOOKS, UNPAID, index_of, rule_of
from heavytail.policies.core.two_estimates import bulk_row


def test_a_weighted_least_squares_solution_is_a_convex_combination_of_basic_ones():
    rng = np.random.default_rng(0)
    for _ in range(50):
        X, r = rng.normal(size=(6, 3)), rng.normal(size=6)
        n = 10.0 ** rng.uniform(-4.0, 4.0, size=6)
        solved = np.linalg.solve(X.T @ (n[:, None] * X), X.T @ (n * r))
        bases = [list(B) for B in itertools.combinations(range(6), 3)]
        weights = np.array([np.linalg.det(X[B]) ** 2 * np.prod(n[B]) for B in bases])
        basic = np.array([np.linalg.solve(X[B], r[B]) for B in bases])
        np.testing.assert_allclose(weights @ basic / weights.sum(), solved, rtol=1e-6, atol=1e-9)


def test_the_weight_of_an_arms_average_is_bounded_whatever_the_counts():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(6, 3)), np.eye(3)])
    most = max(
        np.abs(X @ np.linalg.inv(X[list(B)])).max() for B in itertools.combinations(range(9), 3)
    )
    for _ in range(200):
        n = np.append(10.0 ** rng.uniform(0.0, 16.0, size=6), [0.01] * 3)
        root = np.sqrt(n)[:, None] * X
        weights = X @ np.linalg.pinv(root) * np.sqrt(n)
        assert np.abs(weights).max() <= most * (1.0 + 1e-3)


def played(policy, draw, rounds, seed=0):
    """Play unit vectors; return how often each was played, and every audit's looks."""
    rng, arms = np.random.default_rng(seed), np.eye(policy.dim)
    counts = np.zeros(policy.dim, dtype=int)
    for t in range(rounds):
        k = policy.select(arms)
        policy.update(arms[k], draw(rng, k, t))
        counts[k] += 1
    return counts


def test_every_arm_is_tried_as_often_as_patience_asks():
    def draw(rng, k, t):
        return 1.0 - k + 0.01 * rng.normal()

    for patience in (1.0, 20.0):
        counts = played(ht.TwinUCB(3, patience=patience), draw, 4_000)
        assert counts.min() >= 0.95 * patience * LOOKS * math.log(2_000.0) ** 2
    assert played(ht.TwinUCB(3, patience=0.0), draw, 4_000).min() < 20


def test_what_never_paid_is_tried_more_often():
    def draw(rng, k, t):
        return 0.0 if k == 1 else 1.0 + 0.01 * rng.normal()

    counts = played(ht.TwinUCB(2), draw, 4_000)
    assert counts[1] >= 0.8 * UNPAID * LOOKS * math.log(2_000.0) ** 2


def test_an_index_is_near_the_judge_where_it_is_no_audit():
    policy, rng = ht.TwinUCB(3), np.random.default_rng(3)
    arms = np.eye(3)
    for t in range(2_000):
        k = policy.select(arms)
        policy.update(arms[k], rng.pareto(1.1) * (1.0 + k) * (rng.random() < 0.5))
        s, M = policy.packed
        if t < 100 or s[OWN.AUDIT] != 0.0:
            continue
        held, hope = s[OWN.HELD] * (1 + 1e-9), s[OWN.HOPE] * (1 + 1e-9)
        assert s[EVERY_ROUND.ZEROS] > 0.0
        at = bulk_row(M) + JUDGE
        for mean, bulk in ((1e6, -1e6), (-1e6, 1e6), (0.0, 0.0)):
            judged = M[at, 0] + s[OWN.JUDGE_LEVEL]
            index = index_of(rule_of(s), mean, bulk, M[at, 0], 0.5, 1e4, 1e4)
            assert judged - held <= index <= judged + held + hope


def test_it_finds_the_mean_where_the_bulk_is_wrong_about_every_arm():
    def draw(rng, k, t):  # typical rewards 2, 1, 0; means 2, 3.5, 5
        return 2.0 - k + (rng.random() < 0.2) * 12.5 * k + 0.1 * rng.normal()

    counts = played(ht.TwinUCB(3), draw, 20_000, seed=4)
    assert counts[2] > 15_000
