"""Comparisons and their bounds against their formulas."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import heavytail as ht
from heavytail.decider import against, contrasts
from heavytail.decider.history import Rows
from heavytail.decider.offers import Offers
from heavytail.kernels.layout import ROUNDS
from heavytail.policies.core.answers import sides
from heavytail.policies.core.every_round import EVERY_ROUND
from heavytail.policies.core.practice import PRACTICE, learned


def rows_of(offers, chance, rewards) -> Rows:
    n, nothing = len(rewards), np.zeros(len(rewards))
    return Rows(np.zeros((n, 0)), offers, chance, rewards, nothing, nothing == 0.0)


def test_visits_in_which_the_rule_is_barred_weigh_one():
    rng = np.random.default_rng(0)
    n = 4000
    offers, chance = rng.integers(0, 2, n), np.full(n, 0.5)
    places = np.where(rng.random(n) < 0.3, -1, 1)
    rewards = 1.0 + offers + rng.exponential(size=n)
    weight = np.where(places < 0, 1.0, (offers == places) / chance)
    wanted = rewards.mean() - weight @ rewards / weight.sum()
    got = against._against(rows_of(offers, chance, rewards), places, "r", 0.95, ())
    assert got.value == pytest.approx(wanted)
    assert got.lower < got.value < got.upper


def test_a_new_offer_is_compared_from_after_its_first_visit():
    of = SimpleNamespace(
        offers=Offers("id", ["a", "b"], {}), limited=frozenset(), added=frozenset({1})
    )
    rows = rows_of(np.array([0, 0, 1, 0, 1]), np.full(5, 0.5), np.arange(5.0))
    left, places = against._while_offered(of, rows, np.ones(5, dtype=np.int64))
    assert left.rewards.tolist() == [3.0, 4.0]
    assert len(places) == 2


def test_an_interval_of_a_product_has_half_of_what_the_level_leaves_on_each_factor():
    rng = np.random.default_rng(1)
    policy, X = ht.TwinUCB(2), np.eye(2)[rng.integers(0, 2, 500)] * 0.7
    policy.update_many(X, rng.exponential(size=500) * (rng.random(500) < 0.3))
    D, nothing = np.array([0.3, -0.2, 0.0]), np.zeros(3)
    s, t = policy._s, max(learned(policy._s), 1.0)
    inverse = policy.inverse_gram
    length = np.sqrt(D @ inverse @ D)
    wanted = sides((1.0 + s[PRACTICE.ENERGY]) / (1.0 + t), 0.975) * length
    assert policy._has_zeros
    assert contrasts._half(policy, D, nothing, 0.95) == pytest.approx(wanted)
    U = policy._M[policy._rows["tried_inverse"]]
    energy = (1.0 + s[EVERY_ROUND.CONVERSION_ENERGY]) / (1.0 + s[ROUNDS])
    wanted = sides(energy, 0.975) * np.sqrt(D @ U @ D)
    assert contrasts._half(policy, nothing, D, 0.95) == pytest.approx(wanted)
