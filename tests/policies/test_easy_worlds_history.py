"""Policies that keep their history beat chance on an easy world of the kind their papers assume."""

from __future__ import annotations

import pytest

import heavytail as ht

ROUNDS, ARMS, SEEDS = 1000, 5, 20
VARIANCE = (ht.noise.StudentT(3.0), 2.0)
HEAVY = (ht.noise.StudentT(2.1), 1.8)


def regret(policy: ht.Policy, world: ht.LinearBandit) -> float:
    runs = ht.simulate([policy], world, rounds=ROUNDS, trials=SEEDS, seed=11, jobs=1).runs
    return float(next(iter(runs.values())).regret[:, -1].mean())


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "setting", "options"),
    [
        ("HEAVY-OFUL", HEAVY, {}),
        ("AdaOFUL", VARIANCE, {}),
        ("TOFU", HEAVY, {}),
        ("BTC", HEAVY, {}),
        ("Huber-Bandit", HEAVY, {}),
        ("Huber-Bandit", HEAVY, {"shared": True}),
    ],
)
def test_each_beats_chance_threefold_where_its_assumptions_hold(
    name: str, setting: tuple[ht.noise.Noise, float], options: dict[str, bool]
) -> None:
    noise, order = setting
    world = ht.LinearBandit(2, arms=ARMS, noise=noise)
    policy = ht.make_policy(
        name, dim=2, horizon=ROUNDS, tail=noise.tail(order), arms=ARMS, **options
    )
    mine, chance = regret(policy, world), regret(ht.Uniform(2), world)
    assert 3.0 * mine <= chance, f"{mine:.0f} against {chance:.0f}"
